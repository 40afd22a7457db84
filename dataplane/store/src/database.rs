//! One tenant's database, of either kind.

use std::time::Duration;

use docket_program::clock::Clock;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::postgres::Postgres;
use crate::sqlite::{Looks, Sqlite};

/// One tenant's database.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds a URL with a password")]
pub enum Database {
    /// A file, in the embedded mode.
    Sqlite(Sqlite),
    /// A PostgreSQL database.
    Postgres(Postgres),
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
        Ok(Transaction::new(connection, now))
    }

    /// What its files look like; `None`: it is no file, so it has to be asked.
    pub fn look(&self) -> Option<Looks> {
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
}
