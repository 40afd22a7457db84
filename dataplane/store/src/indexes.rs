//! Builds the indexes of tables that grow, without blocking writes.
//!
//! A migration would block writes while it reads such a table. So on PostgreSQL one process at a time builds missing
//! indexes with `CREATE INDEX CONCURRENTLY`. Until then, [`walk`](crate::walk) searches without them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use docket_schema::{Index, NEWEST};

use crate::connection::Connection;
use crate::database::Database;
use crate::error::StoreError;
use crate::postgres::{Postgres, PostgresConnection};
use crate::sql::Param;

impl Database {
    /// Builds missing indexes of the steps that the database has. It blocks no write, and may take minutes. Returns
    /// whether all of them exist: `false` if another process is building them.
    ///
    /// An index whose build was interrupted is dropped and built again. After an error, the next call continues.
    pub async fn build_indexes(&self) -> Result<bool, StoreError> {
        let Self::Postgres(database) = self else { return Ok(true) };
        if missing(&mut database.connection().await?).await?.is_empty() {
            return Ok(true);
        }
        let built = tokio::time::timeout(LONGEST, build(database)).await;
        built.map_err(|_| StoreError::Unavailable(Box::new(Building)))?
    }
}

/// The longest build of all missing indexes. A server that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, thiserror::Error)]
#[error("indexes still building after {} min", LONGEST.as_secs() / 60)]
struct Building;

async fn build(database: &Postgres) -> Result<bool, StoreError> {
    let mut connection = database.unlimited_connection().await?;
    let Some(_lock) = database.try_index_lock(&mut connection).await? else { return Ok(false) };
    for index in missing(&mut connection).await? {
        // Each statement is sent alone: statements that are sent together are one transaction, and neither may run in
        // a transaction.
        connection.batch(&format!("DROP INDEX CONCURRENTLY IF EXISTS {}", index.name)).await?;
        if !index.first.is_empty() {
            connection.batch(index.first).await?;
        }
        connection.batch(&index.create_concurrently()).await?;
    }
    Ok(true)
}

/// Whether all indexes of this program's schema exist and can be used.
pub(crate) async fn are_there(connection: &mut Connection) -> Result<bool, StoreError> {
    if connection.schema() < NEWEST {
        return Ok(false);
    }
    match connection {
        // On SQLite, migrations build the indexes.
        Connection::Sqlite(_) => Ok(true),
        Connection::Postgres(connection) => Ok(missing(connection).await?.is_empty()),
    }
}

/// The indexes of the database's steps that were never built, and indexes whose build was interrupted.
async fn missing(connection: &mut PostgresConnection) -> Result<Vec<Index>, StoreError> {
    let sql = "SELECT name FROM unnest($1::text[]) AS wanted (name) WHERE NOT EXISTS \
               (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(name) AND indisvalid)";
    let wanted: Vec<Index> = docket_schema::indexes(connection.schema().load(Ordering::Relaxed)).collect();
    let names = wanted.iter().map(|index| Param::from(index.name)).collect();
    let rows = connection.query(sql, vec![Param::Array(names)]).await?;
    let names = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()?;
    Ok(wanted.into_iter().filter(|index| names.iter().any(|name| name == index.name)).collect())
}
