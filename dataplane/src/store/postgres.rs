//! PostgreSQL: a bounded pool per tenant.
//!
//! Statements are prepared once per connection. A connection whose transaction did not end is closed instead of going
//! back, and every wait has a bound, so that a dead server costs its own tenant a 503 and nobody else anything: waiting
//! for the pool and connecting here, statements by the server, and a server that vanished by TCP.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use jiff::Timestamp;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use super::StoreError;
use super::sql::{Param, Row, params};

/// How long a request waits for a connection of the pool, and for a new one.
const WAIT: Duration = Duration::from_secs(3);
/// How long one statement may take; the server ends it then.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// One round trip for both; in microseconds since 1970.
const BEGIN: &str = "BEGIN; SELECT floor(extract(epoch FROM now()) * 1000000)::bigint";

/// One tenant's database.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds a URL with a password")]
pub struct Postgres {
    pool: Pool,
}

impl Postgres {
    /// The database at `url`, with at most `connections` connections; none is opened yet.
    ///
    /// Errors: the URL is not one of PostgreSQL. The message never carries the URL.
    pub fn new(url: &str, connections: usize) -> Result<Self, StoreError> {
        let mut config: Config = url.parse().map_err(|_| StoreError::Unexpected("not a PostgreSQL URL"))?;
        config.connect_timeout(WAIT);
        config.options(format!("-c statement_timeout={}", STATEMENT_TIMEOUT.as_millis()));
        config.application_name("docket");
        // A server that vanished without closing the connection.
        config.keepalives_idle(STATEMENT_TIMEOUT);
        config.tcp_user_timeout(STATEMENT_TIMEOUT);
        let manager =
            Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let timeouts = Timeouts { wait: Some(WAIT), create: Some(WAIT), recycle: Some(WAIT) };
        let pool = Pool::builder(manager)
            .max_size(connections)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        Ok(Self { pool })
    }

    /// Closes the connections that nobody has used for so long; the next call opens them again.
    pub fn close_idle(&self, unused_for: Duration) {
        self.pool.retain(|_, metrics| metrics.last_used() < unused_for);
    }

    /// Whether a connection is open, in use or idle.
    pub fn is_open(&self) -> bool {
        self.pool.status().size > 0
    }

    pub(super) async fn connection(&self) -> Result<PostgresConnection, StoreError> {
        let object = self.pool.get().await.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        Ok(PostgresConnection { object: Some(object), in_transaction: false, not_done: 0 })
    }

    /// Begins a transaction, and says when by the server's clock.
    pub(super) async fn begin(&self) -> Result<(PostgresConnection, Timestamp), StoreError> {
        let mut connection = self.connection().await?;
        // Before the await: whoever drops this future in the middle must not hand an open transaction on.
        connection.in_transaction = true;
        let answers = connection.object()?.simple_query(BEGIN).await?;
        let now = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        let now = now.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        Ok((connection, now.ok_or(StoreError::Unexpected("the server's time"))?))
    }

    /// Like [`begin`](Self::begin), after whoever else migrates.
    pub(super) async fn begin_migration(&self) -> Result<(PostgresConnection, Timestamp), StoreError> {
        let (mut connection, now) = self.begin().await?;
        // A large database takes its time, once.
        connection.batch("SET LOCAL statement_timeout = 0").await?;
        let lock = params![docket_schema::ADVISORY_LOCK];
        connection.query("SELECT pg_advisory_xact_lock($1)", lock).await?;
        Ok((connection, now))
    }
}

/// A connection on loan. One that is dropped inside a transaction is closed, which rolls it back.
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub struct PostgresConnection {
    object: Option<Object>,
    in_transaction: bool,
    /// Statements that failed, or whose end nobody waited for.
    not_done: u32,
}

impl PostgresConnection {
    pub(super) async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        self.not_done += 1;
        let object = self.object()?;
        let statement = object.prepare_cached(sql).await?;
        let touched = object.execute_raw(&statement, params.iter().map(|param| param as &dyn ToSql)).await?;
        self.not_done -= 1;
        Ok(touched)
    }

    pub(super) async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        self.not_done += 1;
        let object = self.object()?;
        let statement = object.prepare_cached(sql).await?;
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        let rows = object.query(&statement, &params).await?;
        self.not_done -= 1;
        Ok(rows.into_iter().map(Row::Postgres).collect())
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
        Ok(self.object()?.batch_execute(sql).await?)
    }

    fn object(&self) -> Result<&Object, StoreError> {
        self.object.as_ref().ok_or(StoreError::Unexpected("a connection used after its loss"))
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        if let Some(object) = self.object.take().filter(|_| self.in_transaction) {
            // Out of the pool and closed.
            drop(Object::take(object));
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
            let lost = error.is_closed()
                || std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>());
            return match lost {
                true => Self::Unavailable(Box::new(error)),
                false => Self::Refused(Box::new(error)),
            };
        };
        let code = server.code();
        // Classes: 08 connection, 53 resources (disk, memory, connections), 57 operator (shutdown, cancel), 40
        // rollback (serialization, deadlock), 58 system; 28 and 3D: the role or the database is gone; 25006: standby.
        let away = ["08", "53", "57", "40", "58", "28", "3D"].contains(&&code.code()[..2])
            || [SqlState::LOCK_NOT_AVAILABLE, SqlState::READ_ONLY_SQL_TRANSACTION].contains(code);
        let said = ServerError { code: code.code().to_owned(), message: server.message().to_owned() };
        match code {
            &SqlState::UNIQUE_VIOLATION | &SqlState::FOREIGN_KEY_VIOLATION => Self::Conflict,
            _ if away => Self::Unavailable(Box::new(said)),
            _ => Self::Refused(Box::new(said)),
        }
    }
}
