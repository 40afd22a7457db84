//! PostgreSQL: the tenants' databases within one budget of connections.
//!
//! Statements are prepared once per connection. A connection whose transaction did not end is closed instead of going
//! back, and every wait has a bound, so that a dead server costs its own tenant a 503 and nobody else anything: waiting
//! for a connection and opening it, statements by the server, and here what a server does not answer at all. A tenant
//! whose database did not answer last time tries it once at a time, until it answers.

mod budget;

pub use budget::{Budget, Limits};

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use docket_schema::postgres::{InvalidUrl, Target};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, SimpleQueryMessage};

use crate::error::StoreError;
use crate::sql::{Param, Row, params};
use budget::{Grant, Opened, Place, PoolId};

/// How long a request waits for a connection, and for a new one.
const WAIT: Duration = Duration::from_secs(3);
/// Who has waited for nearly as long may still open one.
const CONNECT: Duration = Duration::from_secs(1);
/// How long one statement may take; the server ends it then (`SESSION` has the same).
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that has not ended it by then is not there.
const NO_ANSWER: Duration = Duration::from_secs(12);
/// A tenant with a statement that takes longer gets no more connections but one at a time.
const SLOW: Duration = Duration::from_secs(2);
/// How long a step of a migration waits for locks; whoever comes after such a step waits as well.
const MIGRATION_LOCK: Duration = Duration::from_secs(5);

/// What a connection has from the server, as options of its start. A client that vanished in the middle of a
/// transaction, with its machine or its network, must not keep its locks.
const SESSION: &str = "-c statement_timeout=10s -c idle_in_transaction_session_timeout=15s \
                       -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3";

/// One round trip for both; in microseconds since 1970.
const BEGIN: &str = "BEGIN; SELECT floor(extract(epoch FROM now()) * 1000000)::bigint";

/// One tenant's database.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds a URL with a password")]
pub struct Postgres {
    pool: Arc<Pool>,
}

struct Pool {
    url: SecretString,
    budget: Budget,
    id: PoolId,
    /// As many as the tenant may have connections.
    turns: Arc<Semaphore>,
    /// The database has answered once.
    is_known: AtomicBool,
    /// It did not answer last time, or takes long.
    is_away: AtomicBool,
    /// Who may try it while it is away or not known.
    retry: Arc<Semaphore>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.budget.close_idle_of(self.id, Duration::ZERO);
    }
}

#[derive(Debug, thiserror::Error)]
enum NoConnection {
    #[error("no free connection within {} s", WAIT.as_secs())]
    Busy,
    #[error("the server did not answer within {} s", WAIT.as_secs())]
    Silent,
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not answer within {} s", NO_ANSWER.as_secs())]
struct NoAnswer;

fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}

impl Postgres {
    /// The database at `url`, with at most `connections` connections of its own; none is opened yet.
    ///
    /// Errors: the URL can't be used. The message never carries it.
    pub fn new(url: &str, connections: usize) -> Result<Self, InvalidUrl> {
        Self::within(url, &Budget::new(Limits { total: connections, per_tenant: connections }))
    }

    /// The database at `url`, with a part of the process's connections; none is opened yet.
    ///
    /// Errors: the URL can't be used. The message never carries it.
    pub fn within(url: &str, budget: &Budget) -> Result<Self, InvalidUrl> {
        // Only looked at: what TLS needs is large, and there may be ten thousand tenants that are at rest.
        Target::parse(url)?;
        let pool = Pool {
            url: url.into(),
            id: budget.new_pool(),
            turns: Arc::new(Semaphore::new(budget.limits().per_tenant)),
            budget: budget.clone(),
            is_known: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            retry: Arc::new(Semaphore::new(1)),
        };
        Ok(Self { pool: Arc::new(pool) })
    }

    /// Closes the connections that nobody has used for so long; the next call opens them again.
    pub fn close_idle(&self, unused_for: Duration) {
        self.pool.budget.close_idle_of(self.pool.id, unused_for);
    }

    /// Whether a connection is open, in use or idle.
    pub fn is_open(&self) -> bool {
        let Pool { turns, budget, id, .. } = &*self.pool;
        turns.available_permits() < budget.limits().per_tenant || budget.has_idle(*id)
    }

    pub(super) async fn connection(&self) -> Result<PostgresConnection, StoreError> {
        let pool = &self.pool;
        let until = Instant::now() + WAIT;
        let (retry, turn, grant) =
            timeout_at(until, pool.wait()).await.map_err(|_| unavailable(NoConnection::Busy))?;
        let opened = match grant {
            Some(Grant::Connection(opened)) if !opened.client.is_closed() => opened,
            Some(Grant::Connection(opened)) => pool.open(opened.close(), until).await?,
            Some(Grant::Place(place)) => pool.open(place, until).await?,
            None => return Err(unavailable(NoConnection::Busy)),
        };
        Ok(PostgresConnection {
            opened: Some(opened),
            pool: Arc::clone(pool),
            in_transaction: false,
            under_way: false,
            not_done: 0,
            limited: true,
            retry,
            _turn: turn,
            migration: None,
        })
    }

    /// For statements that may take long: that says nothing of how the database is. The server's own bound stays.
    pub(super) async fn patient_connection(&self) -> Result<PostgresConnection, StoreError> {
        let mut connection = self.connection().await?;
        connection.limited = false;
        // Its answer may take long, and says nothing about the database.
        connection.retry = None;
        Ok(connection)
    }

    /// Begins a transaction, and says when by the server's clock.
    pub(super) async fn begin(&self) -> Result<(PostgresConnection, Timestamp), StoreError> {
        let mut connection = self.connection().await?;
        // Before the await: whoever drops this future in the middle must not hand an open transaction on.
        connection.in_transaction = true;
        let answers = connection.run(async |client| client.simple_query(BEGIN).await).await?;
        let now = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        let now = now.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        Ok((connection, now.ok_or(StoreError::Unexpected("the server's time"))?))
    }

    /// Like [`begin`](Self::begin), after whoever else migrates, who is waited for within bounds. Of all tenants only
    /// so many migrate at once: it may take minutes.
    pub(super) async fn begin_migration(&self) -> Result<(PostgresConnection, Timestamp), StoreError> {
        // Semaphores are never closed here.
        let migration = Arc::clone(self.pool.budget.migrations()).acquire_owned().await.ok();
        let (mut connection, now) = self.begin().await?;
        connection.migration = migration;
        // A large database takes its time, once.
        let lock_timeout = MIGRATION_LOCK.as_millis();
        let limits = format!("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {lock_timeout}");
        connection.batch(&limits).await?;
        connection.limited = false;
        let lock = params![docket_schema::ADVISORY_LOCK];
        connection.query("SELECT pg_advisory_xact_lock($1)", lock).await?;
        Ok((connection, now))
    }
}

/// The tenant's only retry, and its place among those of all tenants.
type Retry = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Pool {
    async fn wait(&self) -> (Option<Retry>, Option<OwnedSemaphorePermit>, Option<Grant>) {
        let retry = self.wait_for_retry().await;
        // Semaphores are never closed here.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        (retry, turn, self.budget.grant(self.id).await)
    }

    /// `None`: the database answers, so there is nothing to hold back.
    async fn wait_for_retry(&self) -> Option<Retry> {
        if self.answers() {
            return None;
        }
        let retry = Arc::clone(&self.retry).acquire_owned().await.ok()?;
        // One that is not known yet must not wait for those that are known to be away.
        let places = match self.is_away.load(Ordering::Relaxed) {
            true => self.budget.retries(),
            false => self.budget.first_tries(),
        };
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        // Who was before us may have had an answer.
        (!self.answers()).then_some((retry, place))
    }

    fn answers(&self) -> bool {
        self.is_known.load(Ordering::Relaxed) && !self.is_away.load(Ordering::Relaxed)
    }

    async fn open(&self, place: Place, until: Instant) -> Result<Opened, StoreError> {
        let until = until.max(Instant::now() + CONNECT);
        let target = Target::parse(self.url.expose_secret()).map_err(unavailable)?;
        let config = configured(target.config);
        let connected = match timeout_at(until, config.connect(target.tls)).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => {
                self.is_away.store(true, Ordering::Relaxed);
                return Err(match StoreError::from(error) {
                    // A host without an address, a refused connection: nothing of it is a defect of ours.
                    StoreError::Refused(error) => StoreError::Unavailable(error),
                    other => other,
                });
            }
            Err(_) => {
                self.is_away.store(true, Ordering::Relaxed);
                return Err(unavailable(NoConnection::Silent));
            }
        };
        let (client, connection) = connected;
        // It ends with the client; whoever has a statement under way is told by that.
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Opened::new(ClientWrapper::new(client, task), place))
    }

    /// Waits for an answer of the server, and keeps in mind whether there was one.
    async fn answer<T>(
        &self,
        limited: bool,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<Result<T, StoreError>, NoAnswer> {
        if !limited {
            return Ok(statement.await.map_err(StoreError::from));
        }
        let mut statement = pin!(statement);
        let answer = match timeout(SLOW, &mut statement).await {
            Ok(answer) => answer,
            Err(_) => {
                self.is_away.store(true, Ordering::Relaxed);
                timeout(NO_ANSWER - SLOW, &mut statement).await.map_err(|_| NoAnswer)?
            }
        };
        let away = answer.as_ref().is_err_and(is_away);
        self.is_away.store(away, Ordering::Relaxed);
        self.is_known.store(true, Ordering::Relaxed);
        Ok(answer.map_err(StoreError::from))
    }
}

/// With what each of our connections has.
fn configured(mut config: Config) -> Config {
    config.connect_timeout(WAIT);
    config.options(SESSION);
    config.application_name("docket");
    // A server that vanished without closing the connection.
    config.keepalives_idle(STATEMENT_TIMEOUT);
    config.tcp_user_timeout(STATEMENT_TIMEOUT);
    config
}

/// Whether an error says that the database does not answer, or not in time.
fn is_away(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => *code == SqlState::QUERY_CANCELED || code.code().starts_with("08"),
        None => is_lost(error),
    }
}

/// Of an error that is no answer of the server: whether the connection is to blame.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// A connection on loan. One that is dropped inside a transaction, or with a statement under way, is closed, which
/// rolls it back.
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub struct PostgresConnection {
    opened: Option<Opened>,
    pool: Arc<Pool>,
    in_transaction: bool,
    /// A statement was sent and nobody has seen its end.
    under_way: bool,
    /// Statements that failed, or whose end nobody waited for.
    not_done: u32,
    /// Whether statements have a time limit.
    limited: bool,
    _turn: Option<OwnedSemaphorePermit>,
    /// Until the database has answered.
    retry: Option<Retry>,
    /// While it migrates.
    migration: Option<OwnedSemaphorePermit>,
}

impl PostgresConnection {
    pub(super) async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        self.run(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute_raw(&statement, params.iter().map(|param| param as &dyn ToSql)).await
        })
        .await
    }

    pub(super) async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        let rows = self.run(async |client| {
            let statement = client.prepare_cached(sql).await?;
            let params: Vec<&(dyn ToSql + Sync)> =
                params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
            client.query(&statement, &params).await
        });
        Ok(rows.await?.into_iter().map(Row::Postgres).collect())
    }

    pub(super) async fn commit(mut self) -> Result<(), StoreError> {
        // PostgreSQL would answer COMMIT with success and roll back.
        if self.not_done > 0 {
            return Err(StoreError::Unexpected("a commit after a failed statement"));
        }
        self.batch("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(super) async fn rollback(mut self) -> Result<(), StoreError> {
        self.batch("ROLLBACK").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.run(async |client| client.batch_execute(sql).await).await
    }

    async fn run<T>(
        &mut self,
        statement: impl AsyncFnOnce(&ClientWrapper) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let opened = self.opened.as_ref();
        let opened = opened.ok_or(StoreError::Unexpected("a connection used after its loss"))?;
        // Before the await: whoever drops this future in the middle must not hand the connection on.
        self.under_way = true;
        self.not_done += 1;
        let answer = self.pool.answer(self.limited, statement(&opened.client)).await;
        let answer = answer.map_err(unavailable)?;
        self.under_way = false;
        let answer = answer?;
        // What comes now may take long, and holds back no other tenant that is to be tried.
        self.retry = None;
        self.not_done -= 1;
        Ok(answer)
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        let fit = !self.in_transaction && !self.under_way;
        if let Some(opened) = self.opened.take().filter(|opened| fit && !opened.client.is_closed()) {
            self.pool.budget.put_back(self.pool.id, opened);
        }
    }
}

/// What the server said, for the log: its code and message, without the detail, which repeats the row's values.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
struct ServerError {
    code: String,
    message: String,
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(server) = error.as_db_error() else {
            // No answer of the server: closed, reset, timed out; or a value of another type than the column's.
            return match is_lost(&error) {
                true => Self::Unavailable(Box::new(error)),
                false => Self::Refused(Box::new(error)),
            };
        };
        let code = server.code();
        // Classes: 08 connection, 53 resources (disk, memory, connections), 57 operator (shutdown, cancel), 40
        // rollback (serialization, deadlock), 58 system; 28 and 3D: the role or the database is gone; 25006: standby;
        // 25P03: this transaction was left alone for too long, as by a process that was frozen.
        let away = ["08", "53", "57", "40", "58", "28", "3D"].contains(&&code.code()[..2])
            || [
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::READ_ONLY_SQL_TRANSACTION,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            ]
            .contains(code);
        let said = ServerError { code: code.code().to_owned(), message: server.message().to_owned() };
        match code {
            &SqlState::UNIQUE_VIOLATION | &SqlState::FOREIGN_KEY_VIOLATION => Self::Conflict,
            _ if away => Self::Unavailable(Box::new(said)),
            _ => Self::Refused(Box::new(said)),
        }
    }
}
