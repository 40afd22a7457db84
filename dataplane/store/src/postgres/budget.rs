//! The budget of connections: limits the connections of a process to PostgreSQL, in all and per tenant.
//!
//! Every open connection has a place. An idle connection stays open for its tenant until another tenant needs its
//! place. A request that finds no place waits in line. When a connection is given back, it goes to the next request
//! of the same tenant in line. In both cases, the connection is closed and its place goes to another tenant only if
//! that tenant has no place, has at least two fewer, or has waited long. An idle connection also gives up its place
//! if no request has used it for [`UNUSED`]. So busy tenants keep their connections while there are enough for all,
//! and take turns when there are not.
//!
//! A connection stays with its tenant for four times as long as opening it took, also while others wait: to save an order takes a
//! read, a transaction and, after the POST, the attempt's end, and opening one costs PostgreSQL more than all three. Without this,
//! many tenants with few connections would take it for opening alone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use docket_schema::postgres::ExcessFound;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::counts::{Counts, Taken, Wait};

/// How long a connection that is given back stays with the requests of its own tenant, although an earlier request of
/// another tenant waits that has no more places: `PATIENCE` if the other tenant has no place, `PATIENCE_WITH_PLACES`
/// if it has some, which may soon become free. An idle connection stays with its tenant for `PATIENCE`, or not at all
/// if the other tenant has no place.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_WITH_PLACES: Duration = Duration::from_secs(1);

/// Connections that were idle for this long are the first to be closed for other tenants. Workers renew leases more
/// often than this.
const UNUSED: Duration = Duration::from_secs(3);

/// The shortest and the longest time for which a new connection is kept for its tenant.
const KEPT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// How many times as long as opening it took, within these limits.
const KEPT_PER_OPENING: u32 = 4;
/// How many connections may be opened at a time, not counting openings that take long. More openings would slow each
/// other and the statements of open connections down on the server's cores.
const OPENINGS: usize = 8;
/// How often [`Shared::release`] looks for an idle connection for a request in line.
const RELEASE_EVERY: Duration = Duration::from_millis(5);

/// The limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// In all, at least 1.
    pub total: usize,
    /// The limit for one tenant's database, at least 1.
    pub per_tenant: usize,
}

/// The connections of a process, as one tenant may use them.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<BudgetInner>,
    /// To the database of one tenant.
    per_tenant: usize,
}

struct BudgetInner {
    limits: ConnectionLimits,
    state: Mutex<BudgetState>,
    /// For tenants whose database is away, and for those whose database is not known yet: a quarter of the places each, so
    /// that together they leave half to the others.
    retries: Arc<Semaphore>,
    first_tries: Arc<Semaphore>,
    /// Permits for migrations, which may take long: a quarter of the places.
    migrations: Arc<Semaphore>,
    openings: Semaphore,
    counts: Counts,
}

/// While a request is in line, no place is free, and [`BudgetInner::release`] looks for idle connections that it may have.
struct BudgetState {
    free: usize,
    /// The idle connections, in the order in which they were given back.
    idle: BTreeMap<u64, Idle>,
    idle_of: BTreeSet<(PoolId, u64)>,
    waiting: VecDeque<Waiter>,
    /// The number of places of each tenant that has any.
    places: BTreeMap<PoolId, usize>,
    /// Whether [`BudgetInner::release`] runs.
    is_releasing: bool,
    last_number: u64,
}

/// The id of a tenant's share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolId(u64);

struct Idle {
    pool: PoolId,
    opened: OpenConnection,
    since: Instant,
}

struct Waiter {
    pool: PoolId,
    since: Instant,
    /// Whether the request missed a connection because that was kept for its own tenant.
    met_a_kept_one: bool,
    grant: oneshot::Sender<Grant>,
}

/// An open connection and its place, which is free again once the connection is closed.
pub(super) struct OpenConnection {
    pub(super) client: ClientWrapper,
    /// Why the connection ended, if the server sent more than Docket reads.
    pub(super) excess: ExcessFound,
    permit: BudgetPermit,
    /// How long it stays with its tenant, also while others wait.
    kept_until: Instant,
}

impl OpenConnection {
    /// Opening it took so long.
    pub(super) fn new(
        client: ClientWrapper,
        excess: ExcessFound,
        permit: BudgetPermit,
        took: Duration,
    ) -> Self {
        let (least, most) = KEPT;
        Self {
            client,
            excess,
            permit,
            kept_until: Instant::now() + (took * KEPT_PER_OPENING).clamp(least, most),
        }
    }

    /// Whether the connection is kept for its tenant, which may need it for work that it has begun.
    fn is_kept(&self) -> bool {
        Instant::now() < self.kept_until
    }

    /// Closes the connection and keeps the place.
    pub(super) fn close(self) -> BudgetPermit {
        self.permit
    }
}

/// The right of a tenant to have a connection open.
pub(super) struct BudgetPermit {
    shared: Arc<BudgetInner>,
    pool: PoolId,
}

impl BudgetPermit {
    /// The same place, which is another tenant's from now on.
    fn pass_to(mut self, pool: PoolId) -> Self {
        let mut state = self.shared.state.lock();
        state.remove_place(self.pool);
        state.add_place(pool);
        drop(state);
        self.pool = pool;
        self
    }
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.remove_place(self.pool);
        match state.take_neediest() {
            None => state.free += 1,
            Some(waiter) => {
                let pool = waiter.pool;
                state.add_place(pool);
                drop(state);
                // A request that has just given up drops the place again, for the next in line.
                let _ = waiter.grant.send(Grant::Permit(Self { shared: Arc::clone(&self.shared), pool }));
            }
        }
    }
}

/// The result of a request for a connection.
pub(super) enum Grant {
    /// An open connection.
    Connection(OpenConnection),
    /// The right to open one.
    Permit(BudgetPermit),
}

impl BudgetInner {
    /// Sees to it that the requests in line get the places of idle connections that they may not have yet.
    fn release_later(self: &Arc<Self>, state: &mut BudgetState) {
        let is_needed = !state.waiting.is_empty() && !state.idle.is_empty() && !state.is_releasing;
        // There may be no runtime, because a connection may be given back while the runtime ends.
        if let Some(runtime) = is_needed.then(|| Handle::try_current().ok()).flatten() {
            state.is_releasing = true;
            runtime.spawn(Arc::clone(self).release());
        }
    }

    /// Closes an idle connection for the neediest request in line once a rule allows it. Repeats this as long as
    /// requests wait and connections are idle.
    async fn release(self: Arc<Self>) {
        loop {
            let closed = {
                let mut state = self.state.lock();
                let Some(neediest) = state.neediest().filter(|_| !state.idle.is_empty()) else {
                    state.is_releasing = false;
                    return;
                };
                let waiter = state.waiting.get(neediest).map(|waiter| (waiter.pool, waiter.since.elapsed()));
                let chosen = waiter.and_then(|(pool, waited)| state.of_another(pool, waited));
                chosen.and_then(|(number, rule)| Some((state.take_idle(number)?, rule)))
            };
            match closed {
                // Dropping the place gives it to the neediest request in line.
                Some((opened, rule)) => {
                    self.counts.take(rule);
                    drop(opened.close());
                }
                None => tokio::time::sleep(RELEASE_EVERY).await,
            }
        }
    }
}

/// An idle connection of another tenant.
struct Other {
    number: u64,
    unused_for: Duration,
    /// The number of places of the connection's tenant.
    places: usize,
}

/// Chooses which of the idle connections of `others` is closed for a request, and by which rule. `has` is the number
/// of places of the request's tenant, `waited` how long the request has waited. The connection that was idle longest
/// is the first in `others`.
fn choose(has: usize, waited: Duration, others: &[Other]) -> Option<(u64, Taken)> {
    let unused = others.first().filter(|other| other.unused_for >= UNUSED);
    if let Some(other) = unused {
        return Some((other.number, Taken::Unused));
    }
    if let Some(other) = others.iter().find(|other| has + 1 < other.places) {
        return Some((other.number, Taken::TwoMore));
    }
    if has > 0 && waited < PATIENCE {
        return None;
    }
    let rule = if has == 0 { Taken::NoConnection } else { Taken::WaitedLong };
    // It is not the connection that was idle longest: where more tenants take turns than there are connections, the
    // next tenant in turn needs that one.
    let others: Vec<&Other> = others.iter().filter(|other| has <= other.places).collect();
    others.get(others.len() / 2).map(|other| (other.number, rule))
}

impl BudgetState {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The most recently used one, which is the least likely to be dead.
    fn take_idle_of(&mut self, pool: PoolId) -> Option<OpenConnection> {
        let (_, number) = *self.idle_of.range((pool, 0)..=(pool, u64::MAX)).next_back()?;
        self.take_idle(number)
    }

    fn take_idle(&mut self, number: u64) -> Option<OpenConnection> {
        let idle = self.idle.remove(&number)?;
        self.idle_of.remove(&(idle.pool, number));
        Some(idle.opened)
    }

    /// The number of the idle connection of another tenant that may be closed for a request of this tenant, and the
    /// rule. `waited` is how long the request has waited.
    fn of_another(&self, pool: PoolId, waited: Duration) -> Option<(u64, Taken)> {
        let others = self.idle.iter().filter(|(_, idle)| !idle.opened.is_kept());
        let others: Vec<Other> = others
            .map(|(number, idle)| Other {
                number: *number,
                unused_for: idle.since.elapsed(),
                places: self.places_of(idle.pool),
            })
            .collect();
        choose(self.places_of(pool), waited, &others)
    }

    fn put_idle(&mut self, pool: PoolId, opened: OpenConnection) {
        let number = self.number();
        self.idle.insert(number, Idle { pool, opened, since: Instant::now() });
        self.idle_of.insert((pool, number));
    }

    fn add_place(&mut self, pool: PoolId) {
        *self.places.entry(pool).or_default() += 1;
    }

    fn remove_place(&mut self, pool: PoolId) {
        if let Entry::Occupied(mut places) = self.places.entry(pool) {
            *places.get_mut() -= 1;
            if *places.get() == 0 {
                places.remove();
            }
        }
    }

    fn has_idle(&self, pool: PoolId) -> bool {
        self.idle_of.range((pool, 0)..=(pool, u64::MAX)).next().is_some()
    }

    fn places_of(&self, pool: PoolId) -> usize {
        self.places.get(&pool).copied().unwrap_or(0)
    }

    /// The index in line of the neediest request: its tenant has the fewest places, and among equals it has waited
    /// longest. Removes requests that have given up.
    fn neediest(&mut self) -> Option<usize> {
        self.waiting.retain(|waiter| !waiter.grant.is_closed());
        let places = |at: &usize| self.waiting.get(*at).map(|waiter| self.places_of(waiter.pool));
        (0..self.waiting.len()).min_by_key(places)
    }

    /// Whether all waiting requests belong to tenants with more places than this tenant.
    fn is_neediest(&mut self, pool: PoolId) -> bool {
        let has = self.places_of(pool);
        let neediest = self.neediest().and_then(|at| self.waiting.get(at));
        neediest.is_none_or(|waiter| has < self.places_of(waiter.pool))
    }

    fn take_neediest(&mut self) -> Option<Waiter> {
        let at = self.neediest()?;
        self.waiting.remove(at)
    }

    /// The index in line of the request that gets a connection of this tenant that is given back. `None`: the
    /// connection becomes idle. With `is_kept`, only requests of the same tenant may get it. Counts the rule that
    /// gives the connection to another tenant, or that withholds it.
    fn next_after(&mut self, pool: PoolId, is_kept: bool, counts: &Counts) -> Option<usize> {
        let neediest = self.neediest()?;
        let own = self.waiting.iter().position(|waiter| waiter.pool == pool);
        let other = self.waiting.get(neediest)?;
        let (ours, theirs) = (self.places_of(pool), self.places_of(other.pool));
        let patience = match (theirs, own) {
            (0, None) => Duration::ZERO,
            (0, Some(_)) => PATIENCE,
            (_, _) => PATIENCE_WITH_PLACES,
        };
        let is_late = own.is_none_or(|own| neediest < own) && other.since.elapsed() >= patience;
        let rule = match (theirs, own) {
            _ if theirs + 1 < ours => Taken::TwoMore,
            _ if theirs > ours || !is_late => return own,
            (0, None) => Taken::NoConnection,
            (_, _) => Taken::WaitedLong,
        };
        if is_kept {
            let other = self.waiting.get_mut(neediest)?;
            if !std::mem::replace(&mut other.met_a_kept_one, true) {
                counts.wait(Wait::Kept);
            }
            return own;
        }
        counts.take(rule);
        Some(neediest)
    }
}

impl Budget {
    /// No connection is open yet.
    pub fn new(limits: ConnectionLimits) -> Self {
        let ConnectionLimits { total, per_tenant } = limits;
        let limits = ConnectionLimits { total: total.max(1), per_tenant: per_tenant.max(1) };
        let state = BudgetState {
            free: limits.total,
            idle: BTreeMap::new(),
            idle_of: BTreeSet::new(),
            waiting: VecDeque::new(),
            places: BTreeMap::new(),
            is_releasing: false,
            last_number: 0,
        };
        let quarter = || Arc::new(Semaphore::new((limits.total / 4).max(1)));
        let (retries, first_tries, migrations) = (quarter(), quarter(), quarter());
        let state = Mutex::new(state);
        let per_tenant = limits.per_tenant;
        let (openings, counts) = (Semaphore::new(OPENINGS), Counts::default());
        Self {
            shared: Arc::new(BudgetInner {
                limits,
                state,
                retries,
                first_tries,
                migrations,
                openings,
                counts,
            }),
            per_tenant,
        }
    }

    /// The same connections for a tenant that may have at most `per_tenant` of them, and at least one.
    #[must_use]
    pub fn with_at_most(&self, per_tenant: usize) -> Self {
        Self { shared: Arc::clone(&self.shared), per_tenant: per_tenant.clamp(1, self.per_tenant) }
    }

    /// The number of connections that are open or being opened.
    pub fn open(&self) -> usize {
        self.shared.limits.total - self.shared.state.lock().free
    }

    /// The number of open connections that are not in use.
    pub fn idle(&self) -> usize {
        self.shared.state.lock().idle.len()
    }

    /// The counts of the process's connections.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Closes the connections that were idle for `unused_for`.
    pub fn close_idle(&self, unused_for: Duration) {
        let mut old = Vec::new();
        let mut state = self.shared.state.lock();
        while let Some((number, idle)) = state.idle.first_key_value()
            && idle.since.elapsed() >= unused_for
        {
            let number = *number;
            old.extend(state.take_idle(number));
        }
        // The lock is released first, because dropping the places locks the state.
        drop(state);
    }

    /// How many connections the tenant may have.
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

    pub(super) fn openings(&self) -> &Semaphore {
        &self.shared.openings
    }

    pub(super) fn new_pool(&self) -> PoolId {
        PoolId(self.shared.state.lock().number())
    }

    pub(super) fn has_idle(&self, pool: PoolId) -> bool {
        self.shared.state.lock().has_idle(pool)
    }

    /// Whether all of the tenant's connections are in use or being opened, and a request would open a further
    /// connection immediately. A request that waits in line instead gets a connection that another request gives back.
    pub(super) fn would_open_another(&self, pool: PoolId) -> bool {
        let mut state = self.shared.state.lock();
        state.places_of(pool) > 0
            && !state.has_idle(pool)
            && (state.free > 0 || state.is_neediest(pool) && state.of_another(pool, Duration::ZERO).is_some())
    }

    /// Whether a request of this tenant is in line for a place.
    pub(super) fn is_waiting(&self, pool: PoolId) -> bool {
        self.shared.state.lock().waiting.iter().any(|waiter| waiter.pool == pool && !waiter.grant.is_closed())
    }

    pub(super) fn close_idle_of(&self, pool: PoolId, unused_for: Duration) {
        let mut old = Vec::new();
        let mut state = self.shared.state.lock();
        let numbers: Vec<u64> =
            state.idle_of.range((pool, 0)..=(pool, u64::MAX)).map(|(_, number)| *number).collect();
        for number in numbers {
            if state.idle.get(&number).is_some_and(|idle| idle.since.elapsed() >= unused_for) {
                old.extend(state.take_idle(number));
            }
        }
        // The lock is released first, because dropping the places locks the state.
        drop(state);
    }

    /// Returns an idle connection of this tenant, a free place, or the place of another tenant's idle connection.
    /// Without any, it waits in line.
    pub(super) async fn grant(&self, pool: PoolId) -> Option<Grant> {
        let waited_for = {
            let mut state = self.shared.state.lock();
            if let Some(opened) = state.take_idle_of(pool) {
                return Some(Grant::Connection(opened));
            }
            if state.free > 0 {
                state.free -= 1;
                state.add_place(pool);
                return Some(Grant::Permit(BudgetPermit { shared: Arc::clone(&self.shared), pool }));
            }
            if state.is_neediest(pool)
                && let Some((number, rule)) = state.of_another(pool, Duration::ZERO)
                && let Some(opened) = state.take_idle(number)
            {
                drop(state);
                self.shared.counts.take(rule);
                return Some(Grant::Permit(opened.close().pass_to(pool)));
            }
            self.shared.counts.wait(Wait::ProcessLimit);
            let (grant, waited_for) = oneshot::channel();
            state.waiting.push_back(Waiter { pool, since: Instant::now(), met_a_kept_one: false, grant });
            self.shared.release_later(&mut state);
            waited_for
        };
        // The sender stays in line until it is used, so this ends only with a grant.
        waited_for.await.ok()
    }

    /// Takes back a connection that is fit for the next request.
    pub(super) fn put_back(&self, pool: PoolId, mut opened: OpenConnection) {
        loop {
            let mut state = self.shared.state.lock();
            let next = state.next_after(pool, opened.is_kept(), &self.shared.counts);
            let Some(waiter) = next.and_then(|at| state.waiting.remove(at)) else {
                state.put_idle(pool, opened);
                return self.shared.release_later(&mut state);
            };
            drop(state);
            let grant = match waiter.pool == pool {
                true => Grant::Connection(opened),
                false => Grant::Permit(opened.close().pass_to(waiter.pool)),
            };
            match waiter.grant.send(grant) {
                // The request has given up meanwhile, and the connection came back.
                Err(Grant::Connection(still)) => opened = still,
                Ok(()) | Err(Grant::Permit(_)) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: PoolId = PoolId(1);
    const OTHER: PoolId = PoolId(2);

    /// Decides who gets a connection of [`OURS`]. `ours` and `theirs` are places; `waiting` is the line, each request
    /// with the time that it has waited, in ms.
    fn next(ours: usize, theirs: usize, waiting: &[(PoolId, u64)]) -> Option<PoolId> {
        next_of(false, ours, theirs, waiting)
    }

    fn next_of(is_kept: bool, ours: usize, theirs: usize, waiting: &[(PoolId, u64)]) -> Option<PoolId> {
        ruled(is_kept, (ours, theirs), waiting).0
    }

    /// Like `next`, with the rules that were counted.
    fn ruled(
        is_kept: bool,
        (ours, theirs): (usize, usize),
        waiting: &[(PoolId, u64)],
    ) -> (Option<PoolId>, Vec<&'static str>) {
        let budget = Budget::new(ConnectionLimits { total: 1, per_tenant: 1 });
        let mut state = budget.shared.state.lock();
        (0..ours).for_each(|_| state.add_place(OURS));
        (0..theirs).for_each(|_| state.add_place(OTHER));
        let mut granted = Vec::new();
        for (pool, waited_ms) in waiting {
            let (grant, waits) = oneshot::channel();
            let since =
                Instant::now().checked_sub(Duration::from_millis(*waited_ms)).expect("after the boot");
            state.waiting.push_back(Waiter { pool: *pool, since, met_a_kept_one: false, grant });
            granted.push(waits);
        }
        let counts = budget.counts();
        let next = state.next_after(OURS, is_kept, counts).map(|next| waiting[next].0);
        let taken = Taken::ALL.into_iter().filter(|rule| counts.taken(*rule) > 0).map(Taken::as_str);
        let waits = Wait::ALL.into_iter().filter(|rule| counts.waits(*rule) > 0).map(Wait::as_str);
        (next, taken.chain(waits).collect())
    }

    #[test]
    fn rule_that_decides_is_counted() {
        assert_eq!(ruled(false, (3, 1), &[(OTHER, 1)]), (Some(OTHER), vec!["TwoMore"]));
        assert_eq!(ruled(false, (1, 0), &[(OTHER, 1)]), (Some(OTHER), vec!["NoConnection"]));
        assert_eq!(ruled(false, (1, 0), &[(OTHER, 150), (OURS, 9)]), (Some(OTHER), vec!["WaitedLong"]));
        assert_eq!(ruled(true, (3, 1), &[(OTHER, 1)]), (None, vec!["Kept"]));
        assert_eq!(ruled(false, (1, 1), &[(OTHER, 1)]), (None, vec![]));
        assert_eq!(ruled(true, (1, 1), &[(OURS, 1)]), (Some(OURS), vec![]));
        assert_eq!(ruled(false, (1, 0), &[]), (None, vec![]));
    }

    #[test]
    fn tenant_without_a_place_gets_one_of_several_at_once_and_the_only_one_after_a_while() {
        assert_eq!(next(2, 0, &[(OURS, 9), (OTHER, 1)]), Some(OTHER));
        assert_eq!(next(1, 0, &[(OTHER, 50), (OURS, 9)]), Some(OURS));
        assert_eq!(next(1, 0, &[(OTHER, 150), (OURS, 9)]), Some(OTHER));
        assert_eq!(next(1, 0, &[(OURS, 200), (OTHER, 150)]), Some(OURS), "ours came first");
        assert_eq!(next(1, 0, &[(OTHER, 1)]), Some(OTHER), "ours does not wait");
    }

    #[test]
    fn idle_connection_goes_to_a_tenant_that_needs_it_more() {
        let chosen = |has, waited_ms, others: &[(usize, u64)]| {
            let other = |(number, (places, unused_ms)): (usize, &(usize, u64))| Other {
                number: number as u64,
                unused_for: Duration::from_millis(*unused_ms),
                places: *places,
            };
            let others: Vec<Other> = others.iter().enumerate().map(other).collect();
            choose(has, Duration::from_millis(waited_ms), &others)
        };
        assert_eq!(
            chosen(0, 0, &[(1, 30), (1, 20), (1, 10)]),
            Some((1, Taken::NoConnection)),
            "the middle one"
        );
        assert_eq!(chosen(0, 0, &[(1, 30), (1, 20), (2, 10)]), Some((2, Taken::TwoMore)));
        assert_eq!(chosen(0, 0, &[(1, 3_000), (1, 20), (2, 10)]), Some((0, Taken::Unused)));
        assert_eq!(chosen(1, 0, &[(1, 30), (2, 20)]), None);
        assert_eq!(chosen(1, 0, &[(1, 30), (3, 20)]), Some((1, Taken::TwoMore)));
        assert_eq!(chosen(1, 0, &[(1, 3_000), (1, 20)]), Some((0, Taken::Unused)));
        assert_eq!(chosen(1, 100, &[(1, 30), (1, 20), (1, 10)]), Some((1, Taken::WaitedLong)));
        assert_eq!(chosen(2, 100, &[(1, 30), (1, 20)]), None, "the others have fewer");
        assert_eq!(chosen(0, 0, &[]), None);
    }

    #[test]
    fn new_connection_is_for_requests_of_the_tenant_that_opened_it() {
        assert_eq!(next_of(true, 3, 0, &[(OTHER, 900), (OURS, 9)]), Some(OURS));
        assert_eq!(next_of(true, 3, 0, &[(OTHER, 900)]), None);
    }

    #[test]
    fn tenant_with_places_gets_another_if_it_has_two_fewer_or_waits_long() {
        assert_eq!(next(3, 1, &[(OURS, 9), (OTHER, 1)]), Some(OTHER));
        assert_eq!(next(2, 1, &[(OTHER, 900), (OURS, 9)]), Some(OURS));
        assert_eq!(next(2, 1, &[(OTHER, 1_100), (OURS, 9)]), Some(OTHER));
        assert_eq!(next(1, 1, &[(OTHER, 1_100), (OURS, 9)]), Some(OTHER));
        assert_eq!(next(1, 2, &[(OTHER, 2_900), (OURS, 9)]), Some(OURS), "it has more");
        assert_eq!(next(1, 1, &[(OTHER, 900)]), None, "its own one may come back");
        assert_eq!(next(1, 2, &[(OTHER, 2_900)]), None, "it has more");
    }
}
