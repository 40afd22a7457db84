//! When API keys were last used.

use std::collections::HashMap;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::params;

/// How long the last use of a key is kept, in milliseconds.
const KEPT_MS: i64 = 366 * 24 * 3600 * 1000;

/// Stores when these keys were last used, by fingerprint, in milliseconds since 1970. A later time that is already
/// stored stays.
pub async fn store(
    transaction: &mut Transaction,
    uses: &HashMap<String, i64>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM api_key_use WHERE last_used_at_ms < $1";
    transaction.execute(sql, params![now_ms - KEPT_MS]).await?;
    let sql = "INSERT INTO api_key_use (fingerprint, last_used_at_ms) VALUES ($1, $2) ON CONFLICT (fingerprint) \
               DO UPDATE SET last_used_at_ms = excluded.last_used_at_ms \
               WHERE excluded.last_used_at_ms > api_key_use.last_used_at_ms";
    for (fingerprint, at_ms) in uses {
        transaction.execute(sql, params![fingerprint, *at_ms]).await?;
    }
    Ok(())
}

/// When each key was last used, by fingerprint, in milliseconds since 1970.
pub async fn all(connection: &mut Connection) -> Result<HashMap<String, i64>, StoreError> {
    let rows = connection.query("SELECT fingerprint, last_used_at_ms FROM api_key_use", Vec::new()).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}
