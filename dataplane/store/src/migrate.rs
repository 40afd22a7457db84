//! Brings a tenant's schema up to date.
//!
//! `docket_schema::postgres` does the same for the operator, which has its own client, and no pool, SQLite or
//! [`Transaction`]. Both take the texts, their order and the lock from `docket_schema`.

use docket_program::clock::Clock;
use docket_schema::{AppliedMigrations, MIGRATIONS, Migration};

use crate::connection::{Connection, Transaction};
use crate::database::Database;
use crate::error::StoreError;
use crate::postgres::Postgres;
use crate::sql::{params, read};

impl Database {
    /// Applies the migrations that the database lacks, in one transaction. Repeated or concurrent calls do no harm. A
    /// PostgreSQL database that is up to date is only read.
    pub async fn migrate(&self, clock: &Clock) -> Result<(), StoreError> {
        let (connection, now) = match self {
            Self::Sqlite(database) => (Connection::Sqlite(database.begin_migration().await?), clock.now()),
            Self::Postgres(database) => {
                if is_up_to_date(database).await? {
                    return Ok(());
                }
                let (connection, now) = database.begin_migration().await?;
                (Connection::Postgres(connection), now)
            }
        };
        let mut transaction = Transaction::new(connection, now);
        transaction.batch(docket_schema::CREATE_VERSION_TABLE).await?;
        let missing = missing(&mut transaction).await?;
        let is_new = missing.len() == MIGRATIONS.len();
        for migration in missing {
            let (sql, builds_indexes) = match self {
                Self::Sqlite(_) => (migration.sql.sqlite(), true),
                Self::Postgres(_) => (migration.sql.postgres(), is_new),
            };
            transaction.batch(sql).await?;
            for index in migration.indexes.iter().filter(|_| builds_indexes) {
                transaction.batch(index.create).await?;
            }
            let params = params![migration.version, migration.name, now.as_millisecond()];
            transaction.execute(docket_schema::RECORD_VERSION, params).await?;
        }
        transaction.commit().await
    }
}

/// Whether the database has all migrations. It takes no lock.
async fn is_up_to_date(database: &Postgres) -> Result<bool, StoreError> {
    let mut connection = Connection::Postgres(database.connection().await?);
    let has_table: Option<bool> = connection.value(docket_schema::HAS_VERSION_TABLE, Vec::new()).await?;
    Ok(has_table == Some(true) && missing(&mut connection).await?.is_empty())
}

async fn missing(connection: &mut Connection) -> Result<&'static [Migration], StoreError> {
    let row = connection.query_opt(docket_schema::CURRENT_VERSION, Vec::new()).await?;
    let row = row.ok_or(StoreError::Unexpected("no schema version"))?;
    let applied = read!(row => AppliedMigrations { version, needed });
    applied.missing().map_err(|error| StoreError::Unavailable(Box::new(error)))
}
