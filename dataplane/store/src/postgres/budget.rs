//! Limits the connections of a process to all tenants' databases: in all and per tenant.
//!
//! Every open connection has a place. An idle connection stays open for its tenant until another tenant needs its place:
//! the least recently used one is closed first. A request that finds no place waits in line. A connection that comes back
//! goes to the next waiting request of the same tenant, or is closed and its place goes to the first request in line, so
//! that no request waits longer than the ones before it take.
//!
//! A connection stays with its tenant for as long as opening it took, also while others wait: to save an order takes a read, a
//! transaction and the attempt's end, and opening one costs PostgreSQL more than all three. Without this, many tenants with few
//! connections would take it for opening alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use docket_schema::postgres::ExcessFound;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// For this long a later request of the same tenant may overtake the first in line, which saves opening a connection.
const PATIENCE: Duration = Duration::from_millis(100);

/// The least and the most time that a new connection is kept for its tenant while others wait.
const KEPT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// How often connections are looked for that are no longer kept, while others wait.
const RELEASE_EVERY: Duration = Duration::from_millis(5);

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// In all, at least 1.
    pub total: usize,
    /// To one tenant's database, at least 1.
    pub per_tenant: usize,
}

/// The connections of a process.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
    /// To the database of one tenant.
    per_tenant: usize,
}

struct Shared {
    limits: Limits,
    state: Mutex<State>,
    /// For tenants whose database is away, and for those whose database is not known yet: a quarter of the places each, so
    /// that together they leave half to the others.
    retries: Arc<Semaphore>,
    first_tries: Arc<Semaphore>,
    /// For migrations, which may take long: a quarter.
    migrations: Arc<Semaphore>,
}

/// While a request waits, no place is free, and connections are idle only if they are [kept](Opened::is_kept).
struct State {
    free: usize,
    /// By the order in which they were given back.
    idle: BTreeMap<u64, Idle>,
    idle_of: BTreeSet<(PoolId, u64)>,
    waiting: VecDeque<Waiter>,
    /// Whether [`Shared::release`] runs.
    is_releasing: bool,
    last_number: u64,
}

/// A tenant's share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolId(u64);

struct Idle {
    pool: PoolId,
    opened: Opened,
    since: Instant,
}

struct Waiter {
    pool: PoolId,
    since: Instant,
    grant: oneshot::Sender<Grant>,
}

/// An open connection and its place, which is free again once the connection is closed.
pub(super) struct Opened {
    pub(super) client: ClientWrapper,
    /// Whether the server sent more than Docket reads.
    pub(super) excess: ExcessFound,
    place: Place,
    /// How long it stays with its tenant, also while others wait.
    kept_until: Instant,
}

impl Opened {
    /// Opening it took so long.
    pub(super) fn new(client: ClientWrapper, excess: ExcessFound, place: Place, took: Duration) -> Self {
        let (least, most) = KEPT;
        Self { client, excess, place, kept_until: Instant::now() + took.clamp(least, most) }
    }

    /// Whether its tenant may still need it for work that it has begun.
    fn is_kept(&self) -> bool {
        Instant::now() < self.kept_until
    }

    /// Closes the connection and keeps the place.
    pub(super) fn close(self) -> Place {
        self.place
    }
}

/// The right to have a connection open.
pub(super) struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        match state.first_waiter() {
            None => state.free += 1,
            Some(waiter) => {
                drop(state);
                // A request that has just given up drops the place again, for the next in line.
                let _ = waiter.grant.send(Grant::Place(Self(Arc::clone(&self.0))));
            }
        }
    }
}

/// What a request for a connection gets.
pub(super) enum Grant {
    /// An open connection.
    Connection(Opened),
    /// The right to open one.
    Place(Place),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the requests in line get the places of connections that are kept now.
    fn release_later(self: &Arc<Self>, state: &mut State) {
        let is_needed = !state.waiting.is_empty() && !state.idle.is_empty() && !state.is_releasing;
        // A connection may come back while the runtime ends.
        if let Some(runtime) = is_needed.then(|| Handle::try_current().ok()).flatten() {
            state.is_releasing = true;
            runtime.spawn(Arc::clone(self).release());
        }
    }

    /// Closes idle connections once they are no longer kept, the least recently used one first, as long as requests wait.
    async fn release(self: Arc<Self>) {
        loop {
            let closed = {
                let mut state = self.lock();
                state.waiting.retain(|waiter| !waiter.grant.is_closed());
                if state.waiting.is_empty() || state.idle.is_empty() {
                    state.is_releasing = false;
                    return;
                }
                state.take_least_recently_used()
            };
            match closed {
                // Its place goes to the first in line.
                Some(opened) => drop(opened.close()),
                None => tokio::time::sleep(RELEASE_EVERY).await,
            }
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The most recently used one, which is the least likely to be dead.
    fn take_idle_of(&mut self, pool: PoolId) -> Option<Opened> {
        let (_, number) = *self.idle_of.range((pool, 0)..=(pool, u64::MAX)).next_back()?;
        self.take_idle(number)
    }

    fn take_idle(&mut self, number: u64) -> Option<Opened> {
        let idle = self.idle.remove(&number)?;
        self.idle_of.remove(&(idle.pool, number));
        Some(idle.opened)
    }

    /// The one that was idle longest of those that are not kept; `None`: there is none.
    fn take_least_recently_used(&mut self) -> Option<Opened> {
        let (number, _) = self.idle.iter().find(|(_, idle)| !idle.opened.is_kept())?;
        let number = *number;
        self.take_idle(number)
    }

    fn put_idle(&mut self, pool: PoolId, opened: Opened) {
        let number = self.number();
        self.idle.insert(number, Idle { pool, opened, since: Instant::now() });
        self.idle_of.insert((pool, number));
    }

    /// The request that has waited longest. Removes those that have given up.
    fn first_waiter(&mut self) -> Option<Waiter> {
        loop {
            let waiter = self.waiting.pop_front()?;
            if !waiter.grant.is_closed() {
                return Some(waiter);
            }
        }
    }

    /// The next request to get a connection of this pool.
    fn next_waiter(&mut self, pool: PoolId) -> Option<Waiter> {
        let first = self.first_waiter()?;
        let own = match first.pool != pool && first.since.elapsed() < PATIENCE {
            true => self.waiting.iter().position(|waiter| waiter.pool == pool && !waiter.grant.is_closed()),
            false => None,
        };
        match own.and_then(|place| self.waiting.remove(place)) {
            Some(own) => {
                self.waiting.push_front(first);
                Some(own)
            }
            None => Some(first),
        }
    }
}

impl Budget {
    /// No connection is open yet.
    pub fn new(limits: Limits) -> Self {
        let Limits { total, per_tenant } = limits;
        let limits = Limits { total: total.max(1), per_tenant: per_tenant.max(1) };
        let state = State {
            free: limits.total,
            idle: BTreeMap::new(),
            idle_of: BTreeSet::new(),
            waiting: VecDeque::new(),
            is_releasing: false,
            last_number: 0,
        };
        let quarter = || Arc::new(Semaphore::new((limits.total / 4).max(1)));
        let (retries, first_tries, migrations) = (quarter(), quarter(), quarter());
        let state = Mutex::new(state);
        let per_tenant = limits.per_tenant;
        Self { shared: Arc::new(Shared { limits, state, retries, first_tries, migrations }), per_tenant }
    }

    /// The same connections, of which the tenant that gets this may have at most so many, and at least one.
    #[must_use]
    pub fn with_at_most(&self, per_tenant: usize) -> Self {
        Self { shared: Arc::clone(&self.shared), per_tenant: per_tenant.clamp(1, self.per_tenant) }
    }

    /// How many connections are open or being opened.
    pub fn open(&self) -> usize {
        self.shared.limits.total - self.shared.lock().free
    }

    /// Closes the connections that were idle for so long.
    pub fn close_idle(&self, unused_for: Duration) {
        let mut old = Vec::new();
        let mut state = self.shared.lock();
        while let Some((number, idle)) = state.idle.first_key_value()
            && idle.since.elapsed() >= unused_for
        {
            let number = *number;
            old.extend(state.take_idle(number));
        }
        // Their places lock the state.
        drop(state);
    }

    /// How many connections one tenant may have.
    pub(crate) fn per_tenant(&self) -> usize {
        self.per_tenant
    }

    pub(super) fn retries(&self) -> &Arc<Semaphore> {
        &self.shared.retries
    }

    pub(super) fn first_tries(&self) -> &Arc<Semaphore> {
        &self.shared.first_tries
    }

    pub(super) fn migrations(&self) -> &Arc<Semaphore> {
        &self.shared.migrations
    }

    pub(super) fn new_pool(&self) -> PoolId {
        PoolId(self.shared.lock().number())
    }

    pub(super) fn has_idle(&self, pool: PoolId) -> bool {
        self.shared.lock().idle_of.range((pool, 0)..=(pool, u64::MAX)).next().is_some()
    }

    /// Whether a request of this pool is in line for a place.
    pub(super) fn is_waiting(&self, pool: PoolId) -> bool {
        self.shared.lock().waiting.iter().any(|waiter| waiter.pool == pool && !waiter.grant.is_closed())
    }

    pub(super) fn close_idle_of(&self, pool: PoolId, unused_for: Duration) {
        let mut old = Vec::new();
        let mut state = self.shared.lock();
        let numbers: Vec<u64> =
            state.idle_of.range((pool, 0)..=(pool, u64::MAX)).map(|(_, number)| *number).collect();
        for number in numbers {
            if state.idle.get(&number).is_some_and(|idle| idle.since.elapsed() >= unused_for) {
                old.extend(state.take_idle(number));
            }
        }
        // Their places lock the state.
        drop(state);
    }

    /// An idle connection of this pool, a free place, or the place of the least recently used idle connection of
    /// another; else waits in line.
    pub(super) async fn grant(&self, pool: PoolId) -> Option<Grant> {
        let waited_for = {
            let mut state = self.shared.lock();
            if let Some(opened) = state.take_idle_of(pool) {
                return Some(Grant::Connection(opened));
            }
            if state.free > 0 {
                state.free -= 1;
                return Some(Grant::Place(Place(Arc::clone(&self.shared))));
            }
            if state.waiting.is_empty()
                && let Some(opened) = state.take_least_recently_used()
            {
                drop(state);
                return Some(Grant::Place(opened.close()));
            }
            let (grant, waited_for) = oneshot::channel();
            state.waiting.push_back(Waiter { pool, since: Instant::now(), grant });
            self.shared.release_later(&mut state);
            waited_for
        };
        // The sender is in line until it is used.
        waited_for.await.ok()
    }

    /// Takes back a connection that is fit for the next request.
    pub(super) fn put_back(&self, pool: PoolId, mut opened: Opened) {
        loop {
            let mut state = self.shared.lock();
            let Some(waiter) = state.next_waiter(pool) else {
                return state.put_idle(pool, opened);
            };
            if waiter.pool != pool && opened.is_kept() {
                state.waiting.push_front(waiter);
                state.put_idle(pool, opened);
                return self.shared.release_later(&mut state);
            }
            drop(state);
            let grant = match waiter.pool == pool {
                true => Grant::Connection(opened),
                false => Grant::Place(opened.close()),
            };
            match waiter.grant.send(grant) {
                // That request has given up meanwhile.
                Err(Grant::Connection(still)) => opened = still,
                Ok(()) | Err(Grant::Place(_)) => return,
            }
        }
    }
}
