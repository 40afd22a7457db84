//! PostgreSQL: connects by a URL, and brings a database's schema up to date.
//!
//! No statement here is prepared under a name, because a pooler in transaction mode would lose it.

mod connect;
mod external;
mod frames;
mod target;
mod words;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Transaction};

pub use connect::{Boxed, Connected, ExcessFound, NotAllowed};
pub use external::{AllowedDatabase, CA_FOLDER, ExternalDatabases, LARGEST_CA_FILE, PARAMETERS};
pub use frames::{Excess, LONGEST_ANSWER, LONGEST_MESSAGE, LONGEST_ROW, MOST_MESSAGES, MOST_SETTINGS};
pub use target::{DatabaseTarget, InvalidUrl};
pub use words::{class_of, shown, with_causes};

use crate::{
    ADVISORY_LOCK, AppliedMigrations, CREATE_VERSION_TABLE, CURRENT_VERSION, HAS_VERSION_TABLE, NewerSchema,
    statements,
};

/// Why a database was not migrated. The database is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database is ahead of this program.
    #[error(transparent)]
    Newer(#[from] NewerSchema),
    /// A statement failed, or the server went away.
    #[error(transparent)]
    Database(#[from] Error),
}

/// How long a step waits for the lock of a table. Writes to the table wait behind it for the same time at most. After
/// it the migration fails, and is tried again.
pub const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '500ms'";

/// Applies the steps that the database lacks, in one transaction; a new database gets all of them at once, by the same
/// [`statements()`]. Repeated or concurrent calls do no harm. Returns the version.
///
/// A database that is up to date is only read. The call waits for another migration up to 30 s or the session's
/// `statement_timeout`, and up to [`LOCK_TIMEOUT`] for each table that is in use. The steps themselves have no time
/// limit, because a large database may take long. If the call fails or is dropped, it changes nothing.
pub async fn migrate(client: &mut Client) -> Result<i64, MigrateError> {
    let newest = crate::MIGRATIONS.len() as i64;
    let before = applied(client).await?;
    let missing = before.missing()?;
    if missing.is_empty() {
        return Ok(before.version);
    }
    if before.version == 0 {
        // One query, without a lock: it is a transaction by itself.
        match client.batch_execute(&statements(before.version, missing)).await {
            Ok(()) => return Ok(newest),
            // Another program makes the schema, or has made it, or the database has a table of the same name.
            Err(error) if is_there_already(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let transaction = client.transaction().await?;
    lock(&transaction).await?;
    transaction.batch_execute(&format!("SET LOCAL statement_timeout = 0; {LOCK_TIMEOUT}")).await?;
    transaction.batch_execute(CREATE_VERSION_TABLE).await?;
    apply_missing(&transaction).await?;
    transaction.commit().await?;
    Ok(newest)
}

/// Whether a statement failed because another session has made the same table, or its type, in the meantime.
fn is_there_already(error: &Error) -> bool {
    [&SqlState::DUPLICATE_TABLE, &SqlState::UNIQUE_VIOLATION, &SqlState::DUPLICATE_OBJECT]
        .iter()
        .any(|state| error.code() == Some(*state))
}

/// Waits for other sessions that migrate or claim the database.
async fn lock(transaction: &Transaction<'_>) -> Result<(), Error> {
    // A session through a pooler has no limit of its own.
    transaction.batch_execute("SET LOCAL lock_timeout = '30s'").await?;
    let sql = "SELECT pg_advisory_xact_lock($1)";
    transaction.execute_typed(sql, &[(&ADVISORY_LOCK, Type::INT8)]).await.map(drop)
}

/// The steps that were applied to a database.
pub async fn applied(client: &Client) -> Result<AppliedMigrations, Error> {
    let there = client.query_typed_one(HAS_VERSION_TABLE, &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(AppliedMigrations::default());
    }
    let row = client.query_typed_one(CURRENT_VERSION, &[]).await?;
    Ok(AppliedMigrations { version: row.try_get(0)?, needed: row.try_get(1)? })
}

/// The uid of the tenant that owns a database which Docket did not create; `None`: no tenant owns it.
pub async fn owner(client: &Client) -> Result<Option<String>, Error> {
    let there = client.query_typed_one("SELECT to_regclass('tenant_owner') IS NOT NULL", &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = client.query_typed_opt("SELECT uid FROM tenant_owner LIMIT 1", &[]).await?;
    row.map(|row| row.try_get(0)).transpose()
}

/// The comment on the client's database.
pub async fn comment(client: &Client) -> Result<Option<String>, Error> {
    let sql = "SELECT left(shobj_description(oid, 'pg_database'), 1024) FROM pg_database WHERE datname = current_database()";
    client.query_typed_one(sql, &[]).await?.try_get(0)
}

/// Makes the tenant the owner of an external database that has no owner, or with `adopt` of any external database.
/// Call [`owner`] for the result. A repeated call writes nothing.
pub async fn claim(client: &mut Client, uid: &str, adopt: bool) -> Result<(), Error> {
    if owner(client).await?.is_some_and(|owner| owner == uid || !adopt) {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    lock(&transaction).await?;
    let table = "CREATE TABLE IF NOT EXISTS tenant_owner \
                 (one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one), uid TEXT NOT NULL)";
    transaction.batch_execute(table).await?;
    let claim = match adopt {
        true => {
            "INSERT INTO tenant_owner (uid) VALUES ($1) ON CONFLICT (one) DO UPDATE SET uid = excluded.uid"
        }
        false => "INSERT INTO tenant_owner (uid) VALUES ($1) ON CONFLICT (one) DO NOTHING",
    };
    transaction.execute_typed(claim, &[(&uid, Type::TEXT)]).await?;
    transaction.commit().await
}

async fn apply_missing(transaction: &Transaction<'_>) -> Result<(), MigrateError> {
    let row = transaction.query_typed_one(CURRENT_VERSION, &[]).await?;
    let applied = AppliedMigrations { version: row.try_get(0)?, needed: row.try_get(1)? };
    let missing = statements(applied.version, applied.missing()?);
    Ok(transaction.batch_execute(&missing).await?)
}
