//! Ends deliveries without a further attempt.

use docket_domain::delivery::{DeliveryId, FailureClass, MAX_ATTEMPTS};

use super::begin::record_lost_attempt;
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{SLOTS, filled, params, slots};

/// Ends those of these deliveries that were created at `made_ms` or before: their webhook is gone. An attempt that was
/// cut off is recorded as [`FailureClass::WorkerLost`].
pub async fn end_without_webhook(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    made_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let condition = "(lease_until_ms IS NULL OR lease_until_ms <= $2) AND created_at_ms <= $3";
    end(transaction, ids, FailureClass::WebhookGone, now_ms, condition, made_ms).await
}

/// Ends deliveries whose fifth attempt was cut off and whose lease expired at `over_ms` or before: no sixth attempt can
/// report how the fifth went. See [`LATE_END_MS`](super::LATE_END_MS).
pub async fn end_lost_fifths(
    transaction: &mut Transaction,
    over_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let sql = "SELECT id FROM delivery WHERE status IN ('Pending', 'Failed') AND attempt_count >= $1 \
               AND lease_until_ms <= $2";
    let rows = transaction.query(sql, params![MAX_ATTEMPTS, over_ms]).await?;
    let ids = rows.iter().map(|row| row.parsed(0)).collect::<Result<Vec<_>, _>>()?;
    end_lost_fifths_of(transaction, &ids, over_ms, now_ms).await
}

/// Like [`end_lost_fifths`], of these deliveries only.
pub async fn end_lost_fifths_of(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    over_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let condition = format!("attempt_count >= {MAX_ATTEMPTS} AND lease_until_ms <= $3");
    end(transaction, ids, FailureClass::WorkerLost, now_ms, &condition, over_ms).await
}

/// Makes dead letters of those of these deliveries that are unfinished and meet `condition`, in which `$2` is `now_ms`
/// and `$3` is `until_ms`. Returns how many there were.
async fn end(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    class: FailureClass,
    now_ms: i64,
    condition: &str,
    until_ms: i64,
) -> Result<u64, StoreError> {
    let sql = format!(
        "UPDATE delivery SET status = 'DeadLetter', failure_class = $1, finished_at_ms = $2, lease_token = NULL, \
         lease_until_ms = NULL, http_status = NULL, response_body = NULL WHERE status IN ('Pending', 'Failed') \
         AND {condition} AND id IN ({}) RETURNING id, attempt_count",
        slots(4)
    );
    let mut ended = 0;
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![class.as_str(), now_ms, until_ms];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        for row in transaction.query(&sql, params).await? {
            ended += 1;
            if row.get::<i64>(1)? > 0 {
                record_lost_attempt(transaction, row.parsed(0)?, now_ms).await?;
            }
        }
    }
    Ok(ended)
}
