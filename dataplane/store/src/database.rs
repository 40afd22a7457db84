//! One tenant's database: a file or a PostgreSQL database.

use std::time::Duration;

use docket_program::clock::Clock;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::postgres::Postgres;
use crate::sql::{Row, Statement};
use crate::sqlite::Sqlite;
use crate::state::DatabaseState;

/// One tenant's database.
#[derive(Clone)]
pub enum Database {
    /// A file, in the embedded mode.
    Sqlite(Sqlite),
    /// A PostgreSQL database.
    Postgres(Postgres),
}

impl Database {
    /// A connection for statements outside of a transaction.
    pub async fn reader(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite(database) => database.reader().await.map(Connection::Sqlite),
            Self::Postgres(database) => database.connection().await.map(Connection::Postgres),
        }
    }

    /// A connection for statements that may take long and that no request waits for. They do not block other work.
    pub async fn patient_reader(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite(_) => self.reader().await,
            Self::Postgres(database) => database.patient_connection().await.map(Connection::Postgres),
        }
    }

    /// A connection for one transaction, which has not begun yet.
    pub async fn writer(&self) -> Result<Writer, StoreError> {
        match self {
            Self::Sqlite(database) => database.writer().await.map(Connection::Sqlite).map(Writer),
            Self::Postgres(database) => database.connection().await.map(Connection::Postgres).map(Writer),
        }
    }

    /// Begins a transaction. Its time comes from PostgreSQL's clock, which all processes share, or for a file from `clock`.
    pub async fn begin(&self, clock: &Clock) -> Result<Transaction, StoreError> {
        self.writer().await?.begin(clock).await
    }

    /// The state of the database, without a connection to it. `None`: unknown, so only reading the database finds changes.
    pub fn state(&self) -> Option<DatabaseState> {
        match self {
            Self::Sqlite(database) => Some(DatabaseState::Files(database.file_state())),
            Self::Postgres(database) => database.counters().map(DatabaseState::Counters),
        }
    }

    /// Whether the database was ever created. The call does not create the file.
    pub fn is_made(&self) -> bool {
        self.state().is_none_or(|state| !state.does_not_exist())
    }

    /// Whether a connection is open, in use or idle.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Sqlite(database) => database.is_open(),
            Self::Postgres(database) => database.is_open(),
        }
    }

    /// Closes the connections that were idle for `unused_for`. The next call opens connections again.
    pub async fn close_idle(&self, unused_for: Duration) {
        match self {
            Self::Sqlite(database) => database.close_idle(unused_for).await,
            Self::Postgres(database) => database.close_idle(unused_for),
        }
    }
}

/// A connection for one transaction, which has not begun yet. Dropping it gives it back.
pub struct Writer(Connection);

impl Writer {
    /// Whether the connection leads to a server, which has a clock of its own.
    pub fn is_to_a_server(&self) -> bool {
        self.0.is_postgres()
    }

    /// Begins a transaction.
    pub async fn begin(self, clock: &Clock) -> Result<Transaction, StoreError> {
        Ok(self.begin_with(clock, None).await?.0)
    }

    /// Begins a transaction and runs statements, in one round trip; returns the rows of each.
    pub(crate) async fn begin_with(
        self,
        clock: &Clock,
        statements: impl IntoIterator<Item = Statement>,
    ) -> Result<(Transaction, Vec<Vec<Row>>), StoreError> {
        self.begin_around(clock, Vec::new(), statements.into_iter().collect()).await
    }

    /// Runs a statement and begins a transaction, in one round trip; returns the statement's rows. On PostgreSQL the
    /// statement is a transaction of its own, so that its locks end with the statement. SQLite has one writer anyway,
    /// so there the statement is part of the new transaction.
    pub(crate) async fn begin_after(
        self,
        clock: &Clock,
        statement: Statement,
    ) -> Result<(Transaction, Vec<Row>), StoreError> {
        let (before, within) = match &self.0 {
            Connection::Sqlite(_) => (Vec::new(), vec![statement]),
            Connection::Postgres(_) => (vec![statement], Vec::new()),
        };
        let (transaction, rows) = self.begin_around(clock, before, within).await?;
        Ok((transaction, rows.into_iter().flatten().collect()))
    }

    async fn begin_around(
        mut self,
        clock: &Clock,
        before: Vec<Statement>,
        within: Vec<Statement>,
    ) -> Result<(Transaction, Vec<Vec<Row>>), StoreError> {
        let (now, rows) = match &mut self.0 {
            Connection::Sqlite(connection) => {
                let rows = connection.begin_with(within).await?;
                // The time is read only now, because waiting for the file's lock takes time.
                (clock.now(), rows)
            }
            Connection::Postgres(connection) => connection.begin_around(before, within).await?,
        };
        Ok((Transaction::new(self.0, now), rows))
    }
}
