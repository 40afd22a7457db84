//! Brings a tenant's schema up to date, or reads which version it has.
//!
//! `docket_schema::postgres` does the same for the operator, which has its own client, and no pool, SQLite or
//! [`Transaction`]. Both take the statements and the lock from `docket_schema`.

use std::sync::atomic::{AtomicI64, Ordering};

use docket_program::clock::Clock;
use docket_schema::{AppliedMigrations, MIGRATIONS, Migration};

use crate::connection::{Connection, Transaction};
use crate::database::Database;
use crate::error::StoreError;
use crate::sql::{params, read};

impl Database {
    /// Applies the migrations that the database lacks, in one transaction. Repeated or concurrent calls do no harm. A
    /// PostgreSQL database that is up to date is only read.
    pub async fn migrate(&self, clock: &Clock) -> Result<(), StoreError> {
        self.migrate_to(clock, MIGRATIONS).await
    }

    /// Like [`migrate`](Self::migrate), for the first of the migrations. With fewer than all, it makes a database as an
    /// older version left it. For tests.
    pub async fn migrate_to(&self, clock: &Clock, first: &'static [Migration]) -> Result<(), StoreError> {
        let (connection, now) = match self {
            Self::Sqlite(database) => (Connection::Sqlite(database.begin_migration().await?), clock.now()),
            Self::Postgres(database) => {
                let applied = self.applied().await?;
                if missing(applied, first)?.is_empty() {
                    return Ok(());
                }
                let (connection, now) = database.begin_migration().await?;
                (Connection::Postgres(connection), now)
            }
        };
        let mut transaction = Transaction::new(connection, now);
        transaction.batch(docket_schema::CREATE_VERSION_TABLE).await?;
        let applied = read_applied(&mut transaction).await?;
        let steps = missing(applied, first)?;
        match self {
            Self::Postgres(_) => {
                transaction.batch(&docket_schema::statements(applied.version, steps)).await?;
            }
            Self::Sqlite(_) => {
                for step in steps {
                    transaction.batch(step.sql.sqlite()).await?;
                    for index in step.indexes {
                        transaction.batch(index.create).await?;
                    }
                    let params = params![step.version, step.name, now.as_millisecond()];
                    transaction.execute(docket_schema::RECORD_VERSION, params).await?;
                }
            }
        }
        transaction.commit().await?;
        self.schema().store(applied.version.max(first.len() as i64), Ordering::Relaxed);
        Ok(())
    }

    /// Reads which steps were applied. It takes no lock. A file without a schema is an error, a PostgreSQL database
    /// without one has version 0.
    pub async fn applied(&self) -> Result<AppliedMigrations, StoreError> {
        let mut connection = self.reader().await?;
        let has_table = match &connection {
            // Opening a file that has no such table fails.
            Connection::Sqlite(_) => Some(true),
            Connection::Postgres(_) => connection.value(docket_schema::HAS_VERSION_TABLE, Vec::new()).await?,
        };
        let applied = match has_table {
            Some(true) => read_applied(&mut connection).await?,
            _ => AppliedMigrations::default(),
        };
        self.schema().store(applied.version, Ordering::Relaxed);
        Ok(applied)
    }

    /// Refuses a database whose schema this program can't use. It migrates nothing.
    pub async fn expect_schema(&self) -> Result<(), StoreError> {
        let usable = self.applied().await?.usable();
        usable.map(drop).map_err(|unfit| StoreError::Unavailable(Box::new(unfit)))
    }

    /// The version of the schema, as it was last read. At first it is this program's version.
    fn schema(&self) -> &AtomicI64 {
        match self {
            Self::Sqlite(database) => database.schema(),
            Self::Postgres(database) => database.schema(),
        }
    }
}

async fn read_applied(connection: &mut Connection) -> Result<AppliedMigrations, StoreError> {
    let row = connection.query_opt(docket_schema::CURRENT_VERSION, Vec::new()).await?;
    let row = row.ok_or(StoreError::Unexpected("no schema version"))?;
    Ok(read!(row => AppliedMigrations { version, needed }))
}

/// The migrations among `first` that the database lacks.
fn missing(
    applied: AppliedMigrations,
    first: &'static [Migration],
) -> Result<&'static [Migration], StoreError> {
    let missing = applied.missing().map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    let lacks = first.len().saturating_sub(MIGRATIONS.len() - missing.len());
    Ok(&missing[..lacks])
}
