//! A connection on loan, and a transaction on it.

use jiff::Timestamp;

use crate::error::StoreError;
use crate::postgres::PostgresConnection;
use crate::sql::{Param, Row, Statement};
use crate::sqlite::SqliteConnection;

/// A connection on loan. Dropped, it goes back.
pub enum Connection {
    /// To a file.
    Sqlite(SqliteConnection),
    /// To a server.
    Postgres(PostgresConnection),
}

impl Connection {
    /// Runs a statement; returns how many rows it changed.
    pub async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(connection) => connection.execute(sql, params).await,
            Self::Postgres(connection) => connection.execute(sql, params).await,
        }
    }

    /// Runs a statement and returns its rows.
    pub async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(connection) => connection.query(sql, params).await,
            Self::Postgres(connection) => connection.query(sql, params).await,
        }
    }

    /// Runs statements in one round trip; returns the rows of each. After an error some of them may have run.
    pub(crate) async fn all(
        &mut self,
        statements: impl IntoIterator<Item = Statement>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let statements: Vec<Statement> = statements.into_iter().collect();
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Self::Sqlite(connection) => connection.all(statements, "").await,
            Self::Postgres(connection) => connection.all(statements).await,
        }
    }

    /// Runs statements without parameters.
    pub(crate) async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
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
pub struct Transaction {
    connection: Connection,
    now: Timestamp,
}

impl Transaction {
    pub(crate) fn new(connection: Connection, now: Timestamp) -> Self {
        Self { connection, now }
    }

    /// When it began, by the clock that this database's leases and due times are measured with: PostgreSQL's own, or the
    /// process's for a file.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The same in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now.as_millisecond()
    }

    /// Makes it durable. After an error it may or may not have happened, so nothing may be acknowledged.
    ///
    /// A transaction with a failed statement does not commit: it returns an error and changes nothing.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self.connection {
            Connection::Sqlite(connection) => connection.commit().await,
            Connection::Postgres(connection) => connection.commit().await,
        }
    }

    /// Runs statements and makes the transaction durable, in one round trip; see [`commit`](Self::commit). After a
    /// statement's own error nothing of it has happened.
    pub(crate) async fn commit_after(self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        match self.connection {
            Connection::Sqlite(connection) => connection.commit_after(statements).await,
            Connection::Postgres(connection) => connection.commit_after(statements).await,
        }
    }

    /// Locks those of the rows that no other transaction has locked, by a `SELECT … FOR UPDATE SKIP LOCKED`, and returns
    /// them. `None`: all of them, since a transaction of SQLite has the whole file to itself already.
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

    /// The same by a statement about several rows.
    pub(crate) async fn lock_all(&mut self, statement: Option<Statement>) -> Result<(), StoreError> {
        match &mut self.connection {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(connection) => {
                connection.all(statement.into_iter().collect()).await.map(drop)
            }
        }
    }

    /// Rolls it back and keeps the connection: cheaper than dropping it when nothing went wrong.
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
