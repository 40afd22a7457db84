//! Ends deliveries without a further attempt: their webhook is gone.

use docket_domain::delivery::{DeliveryId, FailureClass};

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{Param, SLOTS, filled, params, slots};

/// The columns that the queue and the history share.
const COLUMNS: &str = "id, event_id, webhook, webhook_name, attempt_count, due_at_ms, http_status, idempotency_key, \
                       resend_of, requested_by, resend_id, created_at_ms";

/// Ends those of these deliveries that were created at `made_ms` or before and that no worker attempts: their webhook is gone. An
/// attempt that was cut off is recorded as [`FailureClass::WorkerLost`]. Returns how many it ended, without those of test events.
pub async fn end_without_webhook(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    made_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let condition = |place: usize| {
        let first = place + 2;
        format!(
            "(lease_until_ms IS NULL OR lease_until_ms <= ${place}) AND created_at_ms <= ${} AND id IN ({})",
            place + 1,
            slots(first)
        )
    };
    let lock = format!("SELECT id FROM delivery_queue WHERE {} ORDER BY id FOR UPDATE", condition(1));
    let attempts = format!(
        "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class) \
         SELECT id, attempt_count, started_at_ms, $1, $2 FROM delivery_queue WHERE started_at_ms IS NOT NULL AND {}",
        condition(3)
    );
    let history = format!(
        "INSERT INTO delivery_history ({COLUMNS}, status, failure_class, finished_at_ms) \
         SELECT {COLUMNS}, 'DeadLetter', $1, $2 FROM delivery_queue WHERE {}",
        condition(3)
    );
    let queue = format!(
        "DELETE FROM delivery_queue WHERE {} \
         RETURNING EXISTS (SELECT 1 FROM test_event t WHERE t.id = event_id)",
        condition(1)
    );
    let mut ended = 0;
    for chunk in ids.chunks(SLOTS) {
        let with = |first: Vec<Param>| {
            let mut values = first;
            values.extend(params![now_ms, made_ms]);
            values.extend(filled(chunk.iter().map(|id| id.to_string().into())));
            values
        };
        transaction.lock(&lock, with(Vec::new())).await?;
        transaction.execute(&attempts, with(params![now_ms, FailureClass::WorkerLost.as_str()])).await?;
        transaction.execute(&history, with(params![FailureClass::WebhookGone.as_str(), now_ms])).await?;
        for row in transaction.query(&queue, with(Vec::new())).await? {
            ended += u64::from(!row.get::<bool>(0)?);
        }
    }
    Ok(ended)
}
