//! The tenant's database, which is the truth: orders, the back office, events, deliveries, attempts, people.
//!
//! One file per noun holds its statements, written once for both databases; [`sqlite`] and [`postgres`] only know how
//! to open, run and close. Every write happens in a [`Transaction`]: one that is dropped before its end takes its
//! connection with it, so that nobody can inherit a half-done transaction from a cancelled request.

pub mod contacts;
pub mod deliveries;
pub mod employees;
pub mod events;
pub mod health;
pub mod idempotency;
pub mod invoices;
pub mod notes;
pub mod orders;
pub mod postgres;
pub mod processes;
pub mod resends;
pub mod retention;
pub mod samples;
pub mod sql;
pub mod sqlite;
pub mod stores;
pub mod work_orders;

use std::time::Duration;

use docket_schema::Applied;
use jiff::Timestamp;
use sql::{Param, Row};

use docket_program::clock::Clock;

/// One tenant's database.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds a URL with a password")]
pub enum Database {
    /// A file, in the embedded mode.
    Sqlite(sqlite::Sqlite),
    /// A PostgreSQL database.
    Postgres(postgres::Postgres),
}

/// What went wrong with a database, as far as a caller treats it differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Away, locked, full, or too busy: the same call may succeed later.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row with this key exists, or a row that was referred to has just been deleted.
    #[error("a row with this key exists, or one that it refers to does not")]
    Conflict,
    /// A defect of ours: a statement or a stored value that does not fit the schema.
    #[error("unexpected answer of the database: {0}")]
    Unexpected(&'static str),
    /// A defect of ours, with the database's own words.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Database {
    /// A connection for statements that stand alone.
    pub async fn reader(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite(database) => database.reader().await.map(Connection::Sqlite),
            Self::Postgres(database) => database.connection().await.map(Connection::Postgres),
        }
    }

    /// The same for statements that nobody waits for and that may take long, which keeps nobody else from the database.
    pub async fn patient_reader(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite(_) => self.reader().await,
            Self::Postgres(database) => database.patient_connection().await.map(Connection::Postgres),
        }
    }

    /// Begins a transaction. PostgreSQL tells the time, which all processes then share; a file has `clock`'s.
    pub async fn begin(&self, clock: &Clock) -> Result<Transaction, StoreError> {
        let (connection, now) = match self {
            Self::Sqlite(database) => {
                let connection = database.begin().await?;
                // Not before: waiting for one's turn takes time.
                (Connection::Sqlite(connection), clock.now())
            }
            Self::Postgres(database) => {
                let (connection, now) = database.begin().await?;
                (Connection::Postgres(connection), now)
            }
        };
        Ok(Transaction { connection, now })
    }

    /// What its files look like; `None`: it is no file, so it has to be asked.
    pub fn look(&self) -> Option<sqlite::Looks> {
        match self {
            Self::Sqlite(database) => Some(database.look()),
            Self::Postgres(_) => None,
        }
    }

    /// Whether there is anything in it: a file that was never made is not made by looking.
    pub fn is_made(&self) -> bool {
        self.look().is_none_or(|looks| !looks.is_never_made())
    }

    /// Whether a connection is open, in use or idle.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Sqlite(database) => database.is_open(),
            Self::Postgres(database) => database.is_open(),
        }
    }

    /// Closes the connections that nobody has used for so long; the next call opens them again.
    pub async fn close_idle(&self, unused_for: Duration) {
        match self {
            Self::Sqlite(database) => database.close_idle(unused_for).await,
            Self::Postgres(database) => database.close_idle(unused_for),
        }
    }

    /// Brings the schema to this version's, in one transaction; twice or concurrently does no harm. A database on a
    /// server that is up to date is only read.
    pub async fn migrate(&self, clock: &Clock) -> Result<(), StoreError> {
        if let Self::Postgres(database) = self
            && missing(database.applied().await?)?.is_empty()
        {
            return Ok(());
        }
        let (connection, now) = match self {
            Self::Sqlite(database) => (Connection::Sqlite(database.begin_migration().await?), clock.now()),
            Self::Postgres(database) => {
                let (connection, now) = database.begin_migration().await?;
                (Connection::Postgres(connection), now)
            }
        };
        let mut transaction = Transaction { connection, now };
        transaction.batch(docket_schema::CREATE_VERSION_TABLE).await?;
        let row = transaction.query_opt(docket_schema::CURRENT_VERSION, Vec::new()).await?;
        for migration in missing(applied(row.as_ref())?)? {
            transaction.batch(migration.sql).await?;
            let params = sql::params![migration.version, migration.name, now.as_millisecond()];
            transaction.execute(docket_schema::RECORD_VERSION, params).await?;
        }
        transaction.commit().await
    }
}

fn applied(row: Option<&Row>) -> Result<Applied, StoreError> {
    let row = row.ok_or(StoreError::Unexpected("no schema version"))?;
    Ok(Applied { version: row.get(0)?, needed: row.get(1)? })
}

fn missing(applied: Applied) -> Result<&'static [docket_schema::Migration], StoreError> {
    applied.missing().map_err(|error| StoreError::Unavailable(Box::new(error)))
}

/// A connection on loan; it goes back by itself.
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub enum Connection {
    /// To a file.
    Sqlite(sqlite::SqliteConnection),
    /// To a server.
    Postgres(postgres::PostgresConnection),
}

impl Connection {
    /// Runs a statement; answers how many rows it touched.
    pub async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(connection) => connection.execute(sql, params).await,
            Self::Postgres(connection) => connection.execute(sql, params).await,
        }
    }

    /// Runs a statement and answers its rows.
    pub async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(connection) => connection.query(sql, params).await,
            Self::Postgres(connection) => connection.query(sql, params).await,
        }
    }

    /// Runs statements without parameters.
    async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) => connection.batch(sql).await,
            Self::Postgres(connection) => connection.batch(sql).await,
        }
    }

    /// Like [`query`](Self::query), for at most one row.
    pub async fn query_opt(&mut self, sql: &str, params: Vec<Param>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// A transaction. Dropped without [`commit`](Self::commit), nothing of it has happened.
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub struct Transaction {
    connection: Connection,
    now: Timestamp,
}

impl Transaction {
    /// When it began, by the clock that leases and due times of this database are measured with: PostgreSQL's own, or
    /// the process's for a file.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The same in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now.as_millisecond()
    }

    /// Makes it durable. After an error it may or may not have happened, and nothing may be acknowledged.
    ///
    /// A transaction with a failed statement does not commit: that is an error and leaves nothing.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self.connection {
            Connection::Sqlite(connection) => connection.commit().await,
            Connection::Postgres(connection) => connection.commit().await,
        }
    }

    /// Locks those of the rows that nobody else has locked, by a `SELECT … FOR UPDATE SKIP LOCKED`, and answers them.
    /// `None`: all of them, since a transaction of SQLite has the whole file to itself already.
    async fn lock_free(&mut self, sql: &str, params: Vec<Param>) -> Result<Option<Vec<Row>>, StoreError> {
        match &mut self.connection {
            Connection::Sqlite(_) => Ok(None),
            Connection::Postgres(connection) => connection.query(sql, params).await.map(Some),
        }
    }

    /// Locks rows by a `SELECT … FOR UPDATE`. A transaction of SQLite has the whole file to itself already.
    async fn lock(&mut self, sql: &str, params: Vec<Param>) -> Result<(), StoreError> {
        match &mut self.connection {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(connection) => connection.query(sql, params).await.map(|_| ()),
        }
    }

    /// Gives it up and keeps the connection: the cheaper end when nothing went wrong.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.connection {
            Connection::Sqlite(connection) => connection.rollback().await,
            Connection::Postgres(connection) => connection.rollback().await,
        }
    }
}

impl std::ops::Deref for Transaction {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl std::ops::DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// The next number of a counter. Its row stays locked until the transaction ends, so numbers have no duplicates.
pub async fn next_number(transaction: &mut Transaction, counter: &'static str) -> Result<i64, StoreError> {
    transaction
        .query_opt(
            "UPDATE counter SET value = value + 1 WHERE name = $1 RETURNING value",
            sql::params![counter],
        )
        .await?
        .ok_or(StoreError::Unexpected("a counter is missing"))?
        .get(0)
}
