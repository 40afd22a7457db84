//! When deliveries are due. The schedule is built from these times.

use docket_domain::delivery::{DeliveryId, Due, MAX_ATTEMPTS};

use crate::connection::Connection;
use crate::error::StoreError;
use crate::sql::{Row, params, read};

/// When the webhook's unfinished delivery with this idempotency key is due. `None`: there is no such delivery, or it is finished.
pub async fn due_by_key(
    connection: &mut Connection,
    webhook: &str,
    idempotency_key: &str,
) -> Result<Option<Due>, StoreError> {
    let sql = "SELECT id, webhook, due_at_ms FROM delivery_queue WHERE webhook = $1 AND idempotency_key = $2";
    connection.query_opt(sql, params![webhook, idempotency_key]).await?.as_ref().map(due).transpose()
}

fn due(row: &Row) -> Result<Due, StoreError> {
    Ok(read!(row => Due { id: parsed, webhook: id, at_ms }))
}

/// A page of the unfinished deliveries, by id. `after` is the last delivery of the previous page.
pub async fn unfinished(
    connection: &mut Connection,
    after: Option<DeliveryId>,
    limit: i64,
) -> Result<Vec<Due>, StoreError> {
    let sql = "SELECT id, webhook, due_at_ms FROM delivery_queue WHERE id > $1 ORDER BY id LIMIT $2";
    let after = after.map_or(String::new(), |id| id.to_string());
    let rows = connection.query(sql, params![after, limit]).await?;
    rows.iter().map(due).collect()
}

/// How long after the end of its lease a fifth attempt counts as lost, in milliseconds. A worker that can't reach the
/// database tries for five minutes to store the real end of the attempt.
pub const LATE_END_MS: i64 = 330_000;

/// When to look again at deliveries that could not begin: when another worker's lease expires, when a fifth attempt
/// counts as lost, or when the row is due. A delivery that is missing in the result is finished.
pub async fn due_again(connection: &mut Connection, ids: &[DeliveryId]) -> Result<Vec<Due>, StoreError> {
    let sql = "SELECT id, webhook, due_at_ms, lease_until_ms, attempt_count FROM delivery_queue WHERE id IN ({values})";
    let again = |row: &Row| {
        let due = due(row)?;
        let late_ms = if row.count(4)? < MAX_ATTEMPTS { 0 } else { LATE_END_MS };
        let free_ms = row.get::<Option<i64>>(3)?.map(|until_ms| until_ms + late_ms);
        Ok(Due { at_ms: due.at_ms.max(free_ms.unwrap_or(due.at_ms)), ..due })
    };
    connection.query_in(sql, Vec::new(), ids).await?.iter().map(again).collect()
}
