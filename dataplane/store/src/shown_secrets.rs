//! Marks for the signing secrets that the portal has shown.

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::params;

/// How long a mark is kept, in milliseconds. A secret is shown only in the response to the request that generated it.
const KEPT_MS: i64 = 24 * 3600 * 1000;

/// Marks the secret with this digest as shown. Returns whether it was not marked before. Then the secret may be shown
/// after the commit.
pub async fn mark(transaction: &mut Transaction, digest: &str, now_ms: i64) -> Result<bool, StoreError> {
    let sql = "DELETE FROM shown_secret WHERE shown_at_ms < $1";
    transaction.execute(sql, params![now_ms - KEPT_MS]).await?;
    let sql = "INSERT INTO shown_secret (digest, shown_at_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    Ok(transaction.execute(sql, params![digest, now_ms]).await? == 1)
}
