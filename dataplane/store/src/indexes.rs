//! Builds the indexes on tables that grow, while others write.
//!
//! A migration would block writes for as long as it reads such a table. So on PostgreSQL one process at a time builds what is
//! missing with `CREATE INDEX CONCURRENTLY`, and until then [`walk`](crate::walk) does without.

use docket_schema::{INDEX_LOCK, Index};

use crate::connection::Connection;
use crate::database::Database;
use crate::error::StoreError;
use crate::postgres::PostgresConnection;
use crate::sql::{Param, params};

impl Database {
    /// Builds the indexes that the database lacks; it blocks no write, and may take minutes. Returns whether all are there:
    /// `false` if another process builds them at this moment.
    ///
    /// An index whose build was cut off is dropped and built again. After an error the next call continues.
    pub async fn build_indexes(&self) -> Result<bool, StoreError> {
        let Self::Postgres(database) = self else { return Ok(true) };
        if are_there(&mut self.reader().await?).await? {
            return Ok(true);
        }
        let mut connection = database.unlimited_connection().await?;
        // Not waited for: a session that waits keeps a snapshot, and the build waits for the end of all snapshots.
        let lock = connection.query("SELECT pg_try_advisory_lock($1)", params![INDEX_LOCK]).await?;
        if !lock.first().map_or(Ok(false), |row| row.get(0))? {
            return Ok(false);
        }
        for index in missing(&mut connection).await? {
            // Each alone: statements that are sent together are a transaction, in which neither may run.
            connection.batch(&format!("DROP INDEX CONCURRENTLY IF EXISTS {}", index.name)).await?;
            if !index.first.is_empty() {
                connection.batch(index.first).await?;
            }
            connection.batch(&index.create_concurrently()).await?;
        }
        Ok(true)
    }
}

/// Whether all indexes of this program's schema can be used.
pub(crate) async fn are_there(connection: &mut Connection) -> Result<bool, StoreError> {
    match connection {
        // A migration has built them.
        Connection::Sqlite(_) => Ok(true),
        Connection::Postgres(connection) => Ok(missing(connection).await?.is_empty()),
    }
}

/// Those that were never built, and those whose build was cut off.
async fn missing(connection: &mut PostgresConnection) -> Result<Vec<Index>, StoreError> {
    let sql = "SELECT name FROM unnest($1::text[]) AS wanted (name) WHERE NOT EXISTS \
               (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(name) AND indisvalid)";
    let names = docket_schema::indexes().map(|index| Param::from(index.name)).collect();
    let rows = connection.query(sql, vec![Param::Array(names)]).await?;
    let names = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()?;
    Ok(docket_schema::indexes().filter(|index| names.iter().any(|name| name == index.name)).collect())
}
