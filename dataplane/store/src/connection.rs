//! A borrowed connection, and a transaction on it.

use std::sync::atomic::Ordering;

use jiff::Timestamp;

use crate::error::{NeedsMigration, StoreError};
use crate::postgres::PostgresConnection;
use crate::sql::{Column, Param, Row, SLOTS, Statement, filled, slots};
use crate::sqlite::SqliteConnection;

/// A borrowed connection. Dropping it gives it back.
pub enum Connection {
    /// A connection to a file.
    Sqlite(SqliteConnection),
    /// A connection to a server.
    Postgres(PostgresConnection),
}

/// Calls the same method of either connection.
macro_rules! either {
    ($of:expr, $connection:ident => $call:expr) => {
        match $of {
            Connection::Sqlite($connection) => $call,
            Connection::Postgres($connection) => $call,
        }
    };
}

impl Connection {
    /// Whether the database is PostgreSQL. If not, it is SQLite.
    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Whether the database has this step of the schema, as far as the process knows. Steps up to
    /// [`OLDEST`](docket_schema::OLDEST) need no question: every database that is used has them.
    pub(crate) fn has_step(&self, step: i64) -> bool {
        self.schema() >= step
    }

    /// Refuses a call that needs a step of the schema which the database does not have yet.
    pub(crate) fn needs_step(&self, step: i64) -> Result<(), StoreError> {
        match self.schema() {
            found if found < step => {
                Err(StoreError::Unavailable(Box::new(NeedsMigration { needed: step, found })))
            }
            _ => Ok(()),
        }
    }

    /// The version of the schema, as it was last read.
    pub(crate) fn schema(&self) -> i64 {
        either!(self, connection => connection.schema().load(Ordering::Relaxed))
    }

    /// Runs a statement; returns how many rows it changed.
    pub async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        either!(self, connection => connection.execute(sql, params).await)
    }

    /// Runs a statement and returns its rows.
    pub async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        either!(self, connection => connection.query(sql, params).await)
    }

    /// Runs a statement about [`SLOTS`] of these values at a time; returns all rows. In the text, `{values}` stands for the list of these
    /// values. The statement's other values, `first`, have the numbers from `$1`.
    pub(crate) async fn query_in(
        &mut self,
        sql: &str,
        first: Vec<Param>,
        values: &[impl ToString],
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.replace("{values}", &slots(first.len() + 1));
        let mut rows = Vec::new();
        for chunk in values.chunks(SLOTS) {
            let mut params = first.clone();
            params.extend(filled(chunk.iter().map(|value| value.to_string().into())));
            rows.extend(self.query(&sql, params).await?);
        }
        Ok(rows)
    }

    /// Runs a statement with one column; returns its value in each row.
    pub(crate) async fn column<T: Column>(
        &mut self,
        sql: &str,
        params: Vec<Param>,
    ) -> Result<Vec<T>, StoreError> {
        self.query(sql, params).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Like [`column`](Self::column), for at most one row.
    pub(crate) async fn value<T: Column>(
        &mut self,
        sql: &str,
        params: Vec<Param>,
    ) -> Result<Option<T>, StoreError> {
        self.query_opt(sql, params).await?.map(|row| row.get(0)).transpose()
    }

    /// Runs statements in one round trip, and returns the rows of each. After an error, some of the statements may have run.
    pub(crate) async fn all(
        &mut self,
        statements: impl IntoIterator<Item = Statement>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let statements: Vec<Statement> = statements.into_iter().collect();
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        either!(self, connection => connection.all(statements).await)
    }

    /// Runs statements without parameters.
    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        either!(self, connection => connection.batch(sql).await)
    }

    /// Like [`query`](Self::query), for at most one row.
    pub async fn query_opt(&mut self, sql: &str, params: Vec<Param>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// A transaction. Dropping it without [`commit`](Self::commit) undoes everything.
pub struct Transaction {
    connection: Connection,
    now: Timestamp,
}

impl Transaction {
    pub(crate) fn new(connection: Connection, now: Timestamp) -> Self {
        Self { connection, now }
    }

    /// When the transaction began. This clock measures the database's leases and due times: PostgreSQL's own clock, or
    /// for a file the process's.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// When the transaction began, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now.as_millisecond()
    }

    /// Commits the transaction: its changes are durable. After an error they may be stored or not, so the caller must
    /// acknowledge nothing.
    ///
    /// After a failed statement, the transaction does not commit: the call returns an error and changes nothing.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.commit_after(Vec::new()).await.map(drop)
    }

    /// Runs statements and commits, in one round trip; see [`commit`](Self::commit). If one of these statements
    /// fails, nothing of the transaction is stored.
    pub(crate) async fn commit_after(self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        either!(self.connection, connection => connection.commit_after(statements).await)
    }

    /// Locks the rows of a `SELECT … FOR UPDATE SKIP LOCKED` that no other transaction has locked, and returns them.
    /// `None`: the database is SQLite, where a transaction has the whole file to itself already.
    pub(crate) async fn lock_free(
        &mut self,
        sql: &str,
        params: Vec<Param>,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        match &mut self.connection {
            Connection::Sqlite(_) => Ok(None),
            Connection::Postgres(connection) => connection.query(sql, params).await.map(Some),
        }
    }

    /// Locks rows by a `SELECT … FOR UPDATE`. A transaction of SQLite has the whole file to itself already.
    pub(crate) async fn lock(&mut self, sql: &str, params: Vec<Param>) -> Result<(), StoreError> {
        match &mut self.connection {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(connection) => connection.query(sql, params).await.map(|_| ()),
        }
    }

    /// Locks rows by a statement for [`Connection::query_in`]; like [`lock`](Self::lock).
    pub(crate) async fn lock_in(
        &mut self,
        sql: &str,
        first: Vec<Param>,
        values: &[impl ToString],
    ) -> Result<(), StoreError> {
        match &self.connection {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(_) => self.connection.query_in(sql, first, values).await.map(drop),
        }
    }

    /// Locks rows by a statement about several rows; like [`lock`](Self::lock).
    pub(crate) async fn lock_all(&mut self, statement: Option<Statement>) -> Result<(), StoreError> {
        match &mut self.connection {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(connection) => {
                connection.all(statement.into_iter().collect()).await.map(drop)
            }
        }
    }

    /// Rolls the transaction back and keeps the connection. If nothing went wrong, this costs less than dropping it.
    pub async fn rollback(self) -> Result<(), StoreError> {
        either!(self.connection, connection => connection.rollback().await)
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
