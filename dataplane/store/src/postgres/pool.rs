//! A tenant's share of the connections: which request may have one, how it is opened, and whether the database responds.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use docket_schema::postgres::{Connected, DatabaseTarget, ExternalDatabases, InvalidUrl};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use super::budget::{Budget, BudgetPermit, Grant, OpenConnection, OpeningPermit, PoolId};
use super::counts::{Server, Wait};
use super::error::{is_away, is_response, unavailable};
use crate::error::{AtConnectionLimit, StoreError};

/// How long a request waits for one of the tenant's connections (a *turn*), and for opening a connection.
const WAIT: Duration = Duration::from_secs(3);
/// How long a request waits for a turn and a place of the process together. Many tenants with few connections use
/// places in turn.
const PLACE_WAIT: Duration = Duration::from_secs(4);
/// The time in which a request may still open a connection after it has waited for nearly as long as it may.
const CONNECT: Duration = Duration::from_secs(1);
/// How long an opening counts for the limit of openings at a time. So openings that hang at a silent server delay others
/// by at most this time.
const OPENING: Duration = Duration::from_millis(50);
/// The limits of how long a request waits for one of the tenant's connections in use before it opens another. It
/// waits as long as the last opening took, within these limits, minus the time that requests have waited since then.
/// A transaction takes a millisecond or two, so most requests wait less.
const OPENING_COST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(125));
/// The time limit of a statement, which the server enforces (`SESSION` has the same).
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that has not ended a statement after this time counts as unreachable.
pub(super) const NO_RESPONSE: Duration = Duration::from_secs(12);
/// After a statement that takes longer than this, the tenant's requests get one connection at a time.
const SLOW: Duration = Duration::from_secs(2);

/// The session's settings, as start-up options. A client that vanished in the middle of a transaction, with its
/// machine or its network, must not keep its locks. A statement that was prepared while its tables were empty keeps
/// its plan as long as the connection lives. So its plan must not read whole tables: each statement has an index that
/// serves it.
const SESSION: &str = "-c enable_seqscan=off -c jit=off -c statement_timeout=10s -c idle_in_transaction_session_timeout=15s \
                       -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3";

/// One tenant's connections.
pub(super) struct Pool {
    url: SecretString,
    /// Where the server may be, if the tenant's owner writes the URL; `None`: the platform writes it.
    external: Option<Arc<ExternalDatabases>>,
    /// Whether the URL leads to a pooler in transaction mode, so that each transaction may have another session of the server.
    pub(super) is_pooled: bool,
    budget: Budget,
    id: PoolId,
    /// The version of the schema, as it was last read; at first the newest that this program knows.
    pub(super) schema: AtomicI64,
    /// Records whether the server responds.
    pub(super) server: Arc<Server>,
    /// One permit per connection that the tenant may have.
    turns: Arc<Semaphore>,
    /// Wakes requests that wait for one of the tenant's connections in use.
    came_back: Notify,
    /// How long requests may wait together before the next opening, in microseconds.
    opening_cost_us: AtomicU64,
    /// How long requests have waited since the last opening, in microseconds.
    waited_us: AtomicU64,
    /// Whether the database has ever responded.
    is_known: AtomicBool,
    /// Whether the database did not respond last time, or took long.
    is_away: AtomicBool,
    /// The permit of the request that tries the database while it is away or not known.
    retry: Arc<Semaphore>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.budget.close_idle_of(self.id, Duration::ZERO);
        self.budget.counts().leave_server(&self.server);
    }
}

#[derive(Debug, thiserror::Error)]
enum NoConnection {
    #[error("no free connection within {} s", .0.as_secs())]
    Busy(Duration),
    #[error("the server did not respond within {} s", WAIT.as_secs())]
    Silent,
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not respond within {} s", NO_RESPONSE.as_secs())]
pub(super) struct NoResponse;

/// The time limit of a statement, if the server ignores its own `statement_timeout`.
#[derive(Debug, Clone, Copy)]
pub(super) enum StatementLimit {
    /// The server has [`NO_RESPONSE`], and counts as away while it takes longer than [`SLOW`].
    Request,
    /// The limit is [`NO_RESPONSE`]. The duration says nothing about the database.
    Patient,
    /// There is no limit: the caller limits the migration as a whole.
    Migration,
}

/// An open connection, with the permits that the request holds.
pub(super) struct Acquired {
    pub(super) opened: OpenConnection,
    pub(super) turn: Option<OwnedSemaphorePermit>,
    pub(super) retry: Option<Retry>,
}

/// The tenant's only permit to try its database, and one of the permits of all such tenants.
pub(super) type Retry = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Pool {
    pub(super) fn new(
        url: &str,
        budget: &Budget,
        external: Option<Arc<ExternalDatabases>>,
    ) -> Result<Self, InvalidUrl> {
        // The pool stores only the server of the URL: a TLS configuration is large, and there may be ten thousand idle tenants.
        let target = target(url, external.as_ref())?;
        let (hosts, is_pooled) = (target.hosts(), target.is_pooled());
        let is_external = external.as_ref().is_some_and(|databases| !databases.are_of_the_platform());
        Ok(Self {
            url: url.into(),
            external,
            is_pooled,
            id: budget.new_pool(),
            schema: AtomicI64::new(docket_schema::NEWEST),
            server: budget.counts().add_server(hosts, is_external),
            turns: Arc::new(Semaphore::new(budget.per_tenant())),
            came_back: Notify::new(),
            opening_cost_us: AtomicU64::new(micros(OPENING_COST.0)),
            waited_us: AtomicU64::new(0),
            budget: budget.clone(),
            is_known: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            retry: Arc::new(Semaphore::new(1)),
        })
    }

    /// The name of the database, if the URL has one.
    pub(super) fn database_name(&self) -> Option<String> {
        DatabaseTarget::database_name(self.url.expose_secret())
    }

    pub(super) fn close_idle(&self, unused_for: Duration) {
        self.budget.close_idle_of(self.id, unused_for);
    }

    pub(super) fn is_open(&self) -> bool {
        self.turns.available_permits() < self.budget.per_tenant() || self.budget.has_idle(self.id)
    }

    /// Takes a connection back that is fit for the next request; `None`: it is closed. Wakes the requests that wait for one.
    pub(super) fn take_back(&self, opened: Option<OpenConnection>) {
        if let Some(opened) = opened {
            self.budget.put_back(self.id, opened);
        }
        self.came_back.notify_waiters();
    }

    /// Waits for a permit to migrate. Only some tenants can migrate at a time.
    pub(super) async fn migration_place(&self) -> Option<OwnedSemaphorePermit> {
        let migrations = &self.budget.shared.migrations;
        self.budget.counts().wait_for(migrations, Wait::Migration);
        // Semaphores are never closed here.
        Arc::clone(migrations).acquire_owned().await.ok()
    }

    /// Waits for a connection and opens one if needed. Both waits have limits.
    pub(super) async fn acquire(&self) -> Result<Acquired, StoreError> {
        let begun = Instant::now();
        let _waiting = self.budget.counts().begin();
        let retry = timeout_at(begun + WAIT, self.wait_for_retry()).await;
        let retry = retry.map_err(|_| unavailable(NoConnection::Busy(WAIT)))?;
        self.budget.counts().wait_for(&self.turns, Wait::TenantShare);
        // Semaphores are never closed here.
        let turn = timeout_at(begun + WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn.map_err(|_| self.no_turn())?.ok();
        // A request that tries the database does not wait here, because it holds a permit that other tenants need.
        if retry.is_none() && self.budget.would_open_another(self.id) {
            self.wait_for_own().await;
        }
        let until = begun + if retry.is_some() { WAIT } else { PLACE_WAIT };
        let opened = loop {
            let grant = timeout_at(until, self.budget.grant(self.id)).await.map_err(|_| busy())?;
            match grant.ok_or_else(busy)? {
                // The server has closed it, perhaps with all others of the tenant.
                Grant::Connection(opened) if opened.client.is_closed() => drop(opened),
                Grant::Connection(opened) => break opened,
                Grant::Permit(permit, opening) => break self.open(permit, opening, until).await?,
            }
        };
        Ok(Acquired { opened, turn, retry })
    }

    /// Waits for one of the tenant's connections, unless requests have already waited as long as an opening takes.
    async fn wait_for_own(&self) {
        let [cost, waited] = [&self.opening_cost_us, &self.waited_us].map(|us| us.load(Ordering::Relaxed));
        let left = Duration::from_micros(cost.saturating_sub(waited));
        if left.is_zero() {
            return;
        }
        self.budget.counts().wait(Wait::OwnInUse);
        let begun = Instant::now();
        let one_is_free = async {
            loop {
                let mut came_back = pin!(self.came_back.notified());
                came_back.as_mut().enable();
                if !self.budget.would_open_another(self.id) {
                    return;
                }
                came_back.await;
            }
        };
        let _ = timeout(left, one_is_free).await;
        self.waited_us.fetch_add(micros(begun.elapsed()), Ordering::Relaxed);
    }

    /// Why the request got no turn. The tenant is at its limit, unless its turns themselves wait for a place of the
    /// process, or for a database that does not respond.
    fn no_turn(&self) -> StoreError {
        match self.responds() && !self.budget.is_waiting(self.id) {
            true => unavailable(AtConnectionLimit),
            false => unavailable(NoConnection::Busy(WAIT)),
        }
    }

    /// Waits for the permits to try the database. `None`: the database responds, so all requests may use it.
    async fn wait_for_retry(&self) -> Option<Retry> {
        if self.responds() {
            return None;
        }
        let shared = &self.budget.shared;
        // A database that has not responded yet must not wait for databases that are known to be away.
        let places = || match self.is_away.load(Ordering::Relaxed) {
            true => (&shared.retries, Wait::DatabaseAway),
            false => (&shared.first_tries, Wait::DatabaseNotKnown),
        };
        let (others, rule) = places();
        let scarcer = if self.retry.available_permits() == 0 { &self.retry } else { others };
        self.budget.counts().wait_for(scarcer, rule);
        let retry = Arc::clone(&self.retry).acquire_owned().await.ok()?;
        let place = Arc::clone(places().0).acquire_owned().await.ok()?;
        // The database may have responded to the previous request.
        (!self.responds()).then_some((retry, place))
    }

    fn responds(&self) -> bool {
        self.is_known.load(Ordering::Relaxed) && !self.is_away.load(Ordering::Relaxed)
    }

    async fn open(
        &self,
        permit: BudgetPermit,
        opening: OpeningPermit,
        until: Instant,
    ) -> Result<OpenConnection, StoreError> {
        self.waited_us.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let until = until.clamp(begun + CONNECT, begun + WAIT);
        let target = target(self.url.expose_secret(), self.external.as_ref()).map_err(unavailable)?;
        let connected = connected(&configured(target), opening, until).await;
        // After a success, the first statement says whether the server responds: a pooler accepts connections while its server is away.
        if !matches!(connected, Ok(Ok(_))) {
            let is_refused = matches!(&connected, Ok(Err(error)) if is_response(error));
            self.server.responded(is_refused);
            self.is_away.store(true, Ordering::Relaxed);
        }
        let connected = connected.map_err(|_| unavailable(NoConnection::Silent))?;
        let Connected { client, connection, excess } =
            connected.map_err(|error| match StoreError::from(error) {
                // This error is not an internal one: the host has no address, or refuses the connection.
                StoreError::Refused(error) => StoreError::Unavailable(error),
                other => other,
            })?;
        // The task ends with the client. A running statement then returns an error.
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        let (least, most) = OPENING_COST;
        self.opening_cost_us.store(micros(begun.elapsed().clamp(least, most)), Ordering::Relaxed);
        Ok(OpenConnection::new(ClientWrapper::new(client, task), excess, permit))
    }

    /// Waits for the response to a statement. Records whether the server responded, and whether the tenant's database did.
    pub(super) async fn response<T>(
        &self,
        limit: StatementLimit,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<Result<T, StoreError>, NoResponse> {
        let response = self.within(limit, statement).await;
        self.server.responded(match &response {
            Ok(response) => response.as_ref().err().is_none_or(is_response),
            Err(NoResponse) => false,
        });
        Ok(response?.map_err(StoreError::from))
    }

    /// Waits for the response to a statement. Records whether the tenant's database responded in time.
    async fn within<T>(
        &self,
        limit: StatementLimit,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<Result<T, tokio_postgres::Error>, NoResponse> {
        let mut statement = pin!(statement);
        let soon = match limit {
            StatementLimit::Migration => return Ok(statement.await),
            StatementLimit::Patient => return timeout(NO_RESPONSE, statement).await.map_err(|_| NoResponse),
            StatementLimit::Request => timeout(SLOW, &mut statement).await,
        };
        let response = match soon {
            Ok(response) => response,
            Err(_) => {
                self.is_away.store(true, Ordering::Relaxed);
                timeout(NO_RESPONSE - SLOW, &mut statement).await.map_err(|_| NoResponse)?
            }
        };
        let away = response.as_ref().is_err_and(is_away);
        self.is_away.store(away, Ordering::Relaxed);
        self.is_known.store(true, Ordering::Relaxed);
        Ok(response)
    }
}

/// Connects, at the latest until `until`. Gives `opening` up before, if that takes long.
async fn connected(
    target: &DatabaseTarget,
    opening: OpeningPermit,
    until: Instant,
) -> Result<Result<Connected, tokio_postgres::Error>, Elapsed> {
    let mut connecting = target.connect();
    let soon = timeout(OPENING, &mut connecting).await;
    drop(opening);
    match soon {
        Ok(connected) => Ok(connected),
        Err(_) => timeout_at(until, connecting).await,
    }
}

/// Reads a URL, which a tenant's owner writes if it has `external` places.
fn target(url: &str, external: Option<&Arc<ExternalDatabases>>) -> Result<DatabaseTarget, InvalidUrl> {
    match external {
        Some(databases) => DatabaseTarget::external(url, databases),
        None => DatabaseTarget::parse(url),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn busy() -> StoreError {
    unavailable(NoConnection::Busy(PLACE_WAIT))
}

/// Adds the settings of all our connections. A pooler refuses start-up options.
pub(super) fn configured(mut target: DatabaseTarget) -> DatabaseTarget {
    let is_pooled = target.is_pooled();
    let config = &mut target.config;
    config.connect_timeout(WAIT);
    if !is_pooled {
        config.options(SESSION);
    }
    config.application_name("docket");
    // For a server that vanished without closing the connection.
    config.keepalives_idle(STATEMENT_TIMEOUT);
    config.tcp_user_timeout(STATEMENT_TIMEOUT);
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ends_what_hangs_and_a_pooler_gets_no_options() {
        let of = |url: &str| configured(target(url, None).expect("a good URL")).config;
        let direct = of("postgres://u:p@db.example/x?application_name=theirs");
        let options = direct.get_options().expect("they are set");
        for setting in
            ["statement_timeout=10s", "idle_in_transaction_session_timeout=15s", "enable_seqscan=off"]
        {
            assert!(options.contains(setting), "{setting} in {options}");
        }
        assert_eq!(direct.get_application_name(), Some("docket"));
        assert_eq!(direct.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(direct.get_tcp_user_timeout(), Some(&Duration::from_secs(10)));
        assert_eq!(direct.get_keepalives_idle(), Duration::from_secs(10));
        assert_eq!(of("postgres://u:p@db.example/x?pooler=transaction").get_options(), None);
    }

    /// The page about limits names the first one.
    #[test]
    fn request_waits_three_seconds_for_a_connection_and_one_more_for_a_place() {
        assert_eq!((WAIT, PLACE_WAIT), (Duration::from_secs(3), Duration::from_secs(4)));
        assert_eq!((NO_RESPONSE, SLOW), (Duration::from_secs(12), Duration::from_secs(2)));
        assert!(NO_RESPONSE > STATEMENT_TIMEOUT, "the server ends a statement first");
    }
}
