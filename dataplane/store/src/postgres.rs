//! PostgreSQL: the tenants' databases, which share one budget of connections.
//!
//! Statements are prepared once per connection, or sent as texts through a pooler in transaction mode. A connection
//! whose transaction did not end is closed instead of given back. Every wait has a limit, so that a dead server costs
//! its own tenant a 503 and other tenants nothing: waiting for a connection, opening it, statements (the server's own
//! limit), and a server that does not respond. If a tenant's database did not respond last time, its requests use one
//! connection at a time until it responds.

mod budget;
mod connection;
mod counts;
mod error;
mod pool;
mod watcher;

pub use budget::{Budget, ConnectionLimits};
pub use connection::PostgresConnection;
pub use counts::{Counts, Server, Taken, UsedConnections, Wait, WaitTimes};
pub use docket_schema::postgres::{AllowedDatabase, CA_FOLDER, ExternalDatabases};
pub use watcher::{Counters, Watcher};

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use docket_schema::postgres::{InvalidUrl, LOCK_TIMEOUT};
use jiff::Timestamp;

use crate::error::StoreError;
use crate::sql::{Row, params};
use pool::{Pool, StatementLimit};

/// How long a migration waits while another process migrates the same database.
const MIGRATION_LOCK: Duration = Duration::from_secs(5);

/// How long the build of an index waits for transactions that began before it. Writes do not wait meanwhile.
const INDEX_LOCK_WAIT: Duration = Duration::from_secs(60);

/// One tenant's database.
#[derive(Clone)]
pub struct Postgres {
    pool: Arc<Pool>,
    watched: Option<Watched>,
}

/// The watcher of a database's server, and the database's name on the server.
#[derive(Clone)]
struct Watched {
    watcher: Arc<Watcher>,
    name: Arc<str>,
}

impl Postgres {
    /// The database at `url`, with at most `connections` connections. It opens none yet.
    ///
    /// Errors: the URL can't be used. The message never contains the URL.
    pub fn new(url: &str, connections: usize) -> Result<Self, InvalidUrl> {
        Self::within(url, &Budget::new(ConnectionLimits { total: connections, per_tenant: connections }))
    }

    /// The database at `url`, with a share of the process's connections. It opens none yet.
    ///
    /// Errors: the URL can't be used. The message never contains the URL.
    pub fn within(url: &str, budget: &Budget) -> Result<Self, InvalidUrl> {
        Ok(Self { pool: Arc::new(Pool::new(url, budget, None)?), watched: None })
    }

    /// The external database at `url`, which a tenant's owner writes, with a share of the process's connections. It
    /// opens none yet.
    ///
    /// Errors: the URL can't be used. The message never contains the URL.
    pub fn external(
        url: &str,
        budget: &Budget,
        databases: &Arc<ExternalDatabases>,
    ) -> Result<Self, InvalidUrl> {
        let pool = Pool::new(url, budget, Some(Arc::clone(databases)))?;
        Ok(Self { pool: Arc::new(pool), watched: None })
    }

    /// The same database with the watcher of its server, which from now on also reports the server's used connections.
    #[must_use]
    pub fn watched_by(self, watcher: Arc<Watcher>) -> Self {
        watcher.counts_for(&self.pool.server);
        let name = self.pool.database_name().map(Arc::from);
        Self { watched: name.map(|name| Watched { watcher, name }), ..self }
    }

    /// The server's counters for the database, from the watcher's last query. `None`: unknown, so the database has to be read.
    pub fn counters(&self) -> Option<Counters> {
        let Watched { watcher, name } = self.watched.as_ref()?;
        watcher.counters(name)
    }

    /// Closes the connections that were idle for `unused_for`. The next call opens connections again.
    pub fn close_idle(&self, unused_for: Duration) {
        self.pool.close_idle(unused_for);
    }

    /// Whether a connection is open, in use or idle.
    pub fn is_open(&self) -> bool {
        self.pool.is_open()
    }

    /// The version of the schema, as it was last read; at first the newest that this program knows.
    pub(super) fn schema(&self) -> &AtomicI64 {
        &self.pool.schema
    }

    /// A borrowed connection. A request waits for it within limits.
    pub(super) async fn connection(&self) -> Result<PostgresConnection, StoreError> {
        Ok(PostgresConnection::new(Arc::clone(&self.pool), self.pool.acquire().await?))
    }

    /// A borrowed connection for statements that may take long, so that their duration says nothing about the
    /// database. Each statement still has its limit.
    pub(super) async fn patient_connection(&self) -> Result<PostgresConnection, StoreError> {
        let mut connection = self.connection().await?;
        connection.limit = StatementLimit::Patient;
        // Other requests may try the database meanwhile.
        connection.retry = None;
        Ok(connection)
    }

    /// A connection for statements that may take minutes, each a transaction of its own. It counts as a migration. In
    /// the end it is closed, with its settings and locks. Through a pooler it has no settings.
    pub(super) async fn unlimited_connection(&self) -> Result<PostgresConnection, StoreError> {
        let migration = self.pool.migration_place().await;
        let mut connection = self.patient_connection().await?;
        connection.migration = migration;
        connection.for_no_other = true;
        connection.limit = StatementLimit::Migration;
        if !self.pool.is_pooled {
            let lock_timeout = INDEX_LOCK_WAIT.as_millis();
            let limits = format!("SET statement_timeout = 0; SET lock_timeout = {lock_timeout}");
            connection.batch(&limits).await?;
        }
        Ok(connection)
    }

    /// Takes the lock of the process that builds indexes, with the connection `builder`. `None`: another process has
    /// it. The lock is only tried: a session that waits for it keeps a snapshot, and the build waits for the end of all
    /// snapshots.
    ///
    /// A session through a pooler keeps no lock. There, a transaction on a second connection holds the lock; it has no
    /// snapshot between its statements.
    pub(super) async fn try_index_lock(
        &self,
        builder: &mut PostgresConnection,
    ) -> Result<Option<IndexLock>, StoreError> {
        let lock = params![docket_schema::INDEX_LOCK];
        let is_taken = |rows: Vec<Row>| rows.first().map_or(Ok(false), |row| row.get(0));
        if !self.pool.is_pooled {
            let rows = builder.query("SELECT pg_try_advisory_lock($1)", lock).await?;
            return Ok(is_taken(rows)?.then_some(IndexLock { _holder: None }));
        }
        // A build must not use up the connections of the tenant's requests. The places of the process bound it.
        builder.turn = None;
        let (mut holder, _) = self.begin().await?;
        holder.turn = None;
        let rows = holder.query("SELECT pg_try_advisory_xact_lock($1)", lock).await?;
        // The last statement is a simple one: a query with parameters keeps its snapshot until the next statement, and the build would
        // wait for that snapshot.
        holder.batch("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
        Ok(is_taken(rows)?.then_some(IndexLock { _holder: Some(holder) }))
    }

    /// Begins a transaction. Returns the connection, and the time of the begin by the server's clock.
    pub(super) async fn begin(&self) -> Result<(PostgresConnection, Timestamp), StoreError> {
        let mut connection = self.connection().await?;
        let (now, _) = connection.begin_around(Vec::new(), Vec::new()).await?;
        Ok((connection, now))
    }

    /// Like [`begin`](Self::begin), but first waits (within limits) while another process migrates the same database.
    /// Only some tenants can migrate at a time, because a migration may take minutes.
    pub(super) async fn begin_migration(&self) -> Result<(PostgresConnection, Timestamp), StoreError> {
        let migration = self.pool.migration_place().await;
        let (mut connection, now) = self.begin().await?;
        connection.migration = migration;
        // The migration has no time limit, because a large database needs its time, once.
        let lock_timeout = MIGRATION_LOCK.as_millis();
        let limits = format!("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {lock_timeout}");
        connection.batch(&limits).await?;
        connection.limit = StatementLimit::Migration;
        let lock = params![docket_schema::ADVISORY_LOCK];
        connection.query("SELECT pg_advisory_xact_lock($1)", lock).await?;
        connection.batch(LOCK_TIMEOUT).await?;
        Ok((connection, now))
    }
}

/// The lock of the process that builds indexes. It ends with the builder's connection, or if that is pooled, when this
/// value is dropped.
pub(super) struct IndexLock {
    /// The connection whose transaction holds the lock.
    _holder: Option<PostgresConnection>,
}

#[cfg(test)]
mod tests;
