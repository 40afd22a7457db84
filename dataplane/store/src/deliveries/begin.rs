//! Begins attempts: counts them and leases their rows.

use docket_domain::delivery::{DeliveryId, MAX_ATTEMPTS};

use super::attempt::{Lease, Started};
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{Row, params};

/// Counts an attempt for each delivery of `ids` that is due and has no attempt in progress, and leases the delivery. A
/// delivery that is missing in the result is finished, in progress or not due, or its worker was lost; see
/// [`end_lost_attempts`](super::end_lost_attempts).
pub async fn begin_attempts(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    lease: &Lease,
    now_ms: i64,
) -> Result<Vec<Started>, StoreError> {
    let sql = format!(
        "UPDATE delivery_queue SET attempt_count = attempt_count + 1, lease_token = $1 || id, lease_until_ms = $2, \
         started_at_ms = $3 WHERE attempt_count < {MAX_ATTEMPTS} AND due_at_ms <= $3 AND lease_token IS NULL \
         AND id IN ({{values}}) RETURNING id, event_id, webhook, attempt_count"
    );
    let first = params![lease.batch(), lease.until_ms(now_ms), now_ms];
    let started = |row: &Row| {
        Ok(Started {
            id: row.parsed(0)?,
            event_id: row.event_id(1)?,
            webhook: row.id(2)?,
            attempt: row.count(3)?,
            at_ms: now_ms,
        })
    };
    transaction.query_in(&sql, first, ids).await?.iter().map(started).collect()
}
