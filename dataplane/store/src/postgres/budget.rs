//! The budget of connections: limits the connections of a process to PostgreSQL, in all and per tenant.
//!
//! Every open connection has a place. An idle connection stays open for its tenant until another tenant needs its
//! place. A request that finds no idle connection of its tenant waits in line until it may open one. [`rules`] decides
//! which request is next: of the tenant with the fewest places, and among equals the request that has waited longest. So
//! busy tenants keep their connections while there are enough for all, and take turns when there are not. Few
//! connections are opened at a time, since each login costs PostgreSQL more than most work on it.

mod rules;
#[cfg(test)]
mod simulation;

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use docket_schema::postgres::ExcessFound;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

pub(super) use self::rules::PoolId;
use self::rules::{Rules, Step};
use super::counts::{Counts, Wait};

/// How often [`BudgetInner::look`] takes the steps that the rules allow after some time.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    pub(super) shared: Arc<BudgetInner>,
    /// The largest number of connections to the database of one tenant.
    per_tenant: usize,
}

pub(super) struct BudgetInner {
    limits: ConnectionLimits,
    state: Mutex<BudgetState>,
    /// The times of the rules count from here.
    begun: Instant,
    /// For tenants whose database is away, and for those whose database is not known yet: a quarter of the places each, so
    /// that together they leave half to the others.
    pub(super) retries: Arc<Semaphore>,
    pub(super) first_tries: Arc<Semaphore>,
    /// Permits for migrations, which may take long: a quarter of the places.
    pub(super) migrations: Arc<Semaphore>,
    counts: Counts,
}

struct BudgetState {
    rules: Rules<oneshot::Sender<Grant>, OpenConnection>,
    /// Whether [`BudgetInner::look`] runs.
    is_looking: bool,
}

/// An open connection and its place, which is free again once the connection is closed.
pub(super) struct OpenConnection {
    pub(super) client: ClientWrapper,
    /// Why the connection ended, if the server sent more than Docket reads.
    pub(super) excess: ExcessFound,
    permit: BudgetPermit,
    /// When the connection was opened, by [`BudgetInner::now`].
    opened: Duration,
}

impl OpenConnection {
    pub(super) fn new(client: ClientWrapper, excess: ExcessFound, permit: BudgetPermit) -> Self {
        let opened = permit.shared.now();
        Self { client, excess, permit, opened }
    }

    /// Closes the connection for another tenant, which has its place already.
    fn close_for(self, pool: PoolId) -> BudgetPermit {
        let mut permit = self.permit;
        permit.pool = pool;
        permit
    }
}

/// The right of a tenant to have a connection open.
pub(super) struct BudgetPermit {
    shared: Arc<BudgetInner>,
    pool: PoolId,
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.shared.lock().rules.give_up_place(self.pool);
        self.shared.settle();
    }
}

/// The right to open a connection now. Dropped, it is the next request's.
pub(super) struct OpeningPermit(Arc<BudgetInner>);

impl Drop for OpeningPermit {
    fn drop(&mut self) {
        self.0.lock().rules.opening_ended();
        self.0.settle();
    }
}

/// The result of a request for a connection.
pub(super) enum Grant {
    /// An open connection.
    Connection(OpenConnection),
    /// The right to open one.
    Permit(BudgetPermit, OpeningPermit),
}

impl BudgetInner {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The state, without the requests that have given up. No connection and no permit may be dropped meanwhile, because that
    /// locks the state.
    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        let mut state = self.state.lock();
        state.rules.retain(|request| !request.is_closed());
        state
    }

    /// Gives the requests in line what the rules allow.
    fn settle(self: &Arc<Self>) {
        while let Some(step) = self.next_step() {
            match step {
                Step::Give { pool, request, connection } => {
                    // A request that has just given up leaves the connection to the next one.
                    if let Err(Grant::Connection(connection)) = request.send(Grant::Connection(connection)) {
                        self.give_back(pool, connection);
                    }
                }
                Step::Open { pool, request, closed } => {
                    let permit = match closed {
                        None => BudgetPermit { shared: Arc::clone(self), pool },
                        Some((connection, rule)) => {
                            self.counts.take(rule);
                            connection.close_for(pool)
                        }
                    };
                    // A request that has just given up drops both permits, for the next one.
                    let _ = request.send(Grant::Permit(permit, OpeningPermit(Arc::clone(self))));
                }
                Step::Kept => self.counts.wait(Wait::Kept),
            }
        }
    }

    fn next_step(self: &Arc<Self>) -> Option<Step<oneshot::Sender<Grant>, OpenConnection>> {
        let mut state = self.lock();
        let step = state.rules.next_step(self.now());
        if step.is_none()
            && state.rules.depends_on_time()
            && !state.is_looking
            // There may be no runtime, because a connection may be given back while the runtime ends.
            && let Ok(runtime) = Handle::try_current()
        {
            state.is_looking = true;
            runtime.spawn(Arc::clone(self).look());
        }
        step
    }

    /// Takes the steps that the rules allow after some time, while there may be any.
    async fn look(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.settle();
            if self.has_looked() {
                return;
            }
        }
    }

    fn has_looked(&self) -> bool {
        let mut state = self.lock();
        state.is_looking = state.rules.depends_on_time();
        !state.is_looking
    }

    fn give_back(&self, pool: PoolId, connection: OpenConnection) {
        let (opened, now) = (connection.opened, self.now());
        self.lock().rules.give_back(pool, connection, opened, now);
    }

    /// Closes the connections that were idle for `unused_for`, of this tenant or of all.
    fn close_unused(&self, pool: Option<PoolId>, unused_for: Duration) {
        // The lock is released first, because dropping the connections locks the state.
        let unused = self.lock().rules.take_unused(pool, unused_for, self.now());
        drop(unused);
    }
}

impl Budget {
    /// No connection is open yet.
    pub fn new(limits: ConnectionLimits) -> Self {
        let ConnectionLimits { total, per_tenant } = limits;
        let limits = ConnectionLimits { total: total.max(1), per_tenant: per_tenant.max(1) };
        let quarter = || Arc::new(Semaphore::new((limits.total / 4).max(1)));
        let (retries, first_tries, migrations) = (quarter(), quarter(), quarter());
        let state = Mutex::new(BudgetState { rules: Rules::new(limits.total), is_looking: false });
        let (begun, counts, per_tenant) = (Instant::now(), Counts::default(), limits.per_tenant);
        Self {
            shared: Arc::new(BudgetInner { limits, state, begun, retries, first_tries, migrations, counts }),
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
        self.shared.limits.total - self.shared.lock().rules.free
    }

    /// The number of open connections that are not in use.
    pub fn idle(&self) -> usize {
        self.shared.lock().rules.idle.len()
    }

    /// The counts of the process's connections.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Closes the connections that were idle for `unused_for`.
    pub fn close_idle(&self, unused_for: Duration) {
        self.shared.close_unused(None, unused_for);
    }

    /// How many connections the tenant may have.
    pub(crate) fn per_tenant(&self) -> usize {
        self.per_tenant
    }

    pub(super) fn new_pool(&self) -> PoolId {
        self.shared.lock().rules.new_pool()
    }

    pub(super) fn has_idle(&self, pool: PoolId) -> bool {
        self.shared.lock().rules.has_idle(pool)
    }

    /// Whether all of the tenant's connections are in use or being opened, and a request would get the place of a further
    /// connection at once. A request that waits in line instead gets a connection that another request gives back.
    pub(super) fn would_open_another(&self, pool: PoolId) -> bool {
        self.shared.lock().rules.would_open_another(pool, self.shared.now())
    }

    /// Whether a request of this tenant is in line for a place.
    pub(super) fn is_waiting(&self, pool: PoolId) -> bool {
        self.shared.lock().rules.is_waiting(pool)
    }

    pub(super) fn close_idle_of(&self, pool: PoolId, unused_for: Duration) {
        self.shared.close_unused(Some(pool), unused_for);
    }

    /// Returns an idle connection of this tenant, or the right to open one. Without either, it waits in line.
    pub(super) async fn grant(&self, pool: PoolId) -> Option<Grant> {
        let (request, mut granted) = oneshot::channel();
        self.shared.lock().rules.ask(pool, request, self.shared.now());
        self.shared.settle();
        if let Ok(grant) = granted.try_recv() {
            return Some(grant);
        }
        let reason = self.shared.lock().rules.why_waiting(pool, self.shared.now());
        self.shared.counts.wait(reason);
        // The sender stays in line until it is used, so this ends only with a grant.
        granted.await.ok()
    }

    /// Takes back a connection that is fit for the next request.
    pub(super) fn put_back(&self, pool: PoolId, connection: OpenConnection) {
        self.shared.give_back(pool, connection);
        self.shared.settle();
    }
}
