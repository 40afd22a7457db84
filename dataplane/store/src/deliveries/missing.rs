//! Webhooks with queued deliveries that are not declared any more: since when, and the end of what is queued for them.

use docket_domain::delivery::{DeliveryId, FailureClass};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Rows, SLOTS, filled, params, slots};

/// A webhook that was missing at a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its key.
    pub webhook: String,
    /// When it was found to be missing, in milliseconds since 1970.
    pub since_ms: i64,
}

/// The most webhooks that are looked at. Each is deleted when it is declared again, or when nothing is queued for it.
const MOST: i64 = 10_000;

/// The webhooks that are known to be missing.
pub async fn missing(connection: &mut Connection) -> Result<Vec<Missing>, StoreError> {
    let sql = "SELECT webhook, since_ms FROM missing_webhook ORDER BY webhook LIMIT $1";
    let rows = connection.query(sql, params![MOST]).await?;
    rows.iter().map(|row| Ok(Missing { webhook: row.id(0)?, since_ms: row.get(1)? })).collect()
}

static NOTE: Rows =
    Rows::new("INSERT INTO missing_webhook (webhook, since_ms) {text, bigint} ON CONFLICT DO NOTHING");

/// Records that these webhooks are missing from now on, unless they were before.
pub async fn note_missing<'a>(
    transaction: &mut Transaction,
    webhooks: impl IntoIterator<Item = &'a str>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let rows = webhooks.into_iter().map(|webhook| [Param::from(webhook), now_ms.into()]);
    transaction.all(NOTE.statement(rows)).await.map(drop)
}

static FORGET: Rows = Rows::new("DELETE FROM missing_webhook WHERE webhook {$1 text}");

/// Forgets that these webhooks were missing.
pub async fn forget_missing<'a>(
    transaction: &mut Transaction,
    webhooks: impl IntoIterator<Item = &'a str>,
) -> Result<(), StoreError> {
    let rows = webhooks.into_iter().map(|webhook| [Param::from(webhook)]);
    transaction.all(FORGET.statement(rows)).await.map(drop)
}

/// Records that the deliveries to this webhook are being ended. Returns how many are queued; `None`: it was recorded before.
pub async fn begin_to_end(transaction: &mut Transaction, webhook: &str) -> Result<Option<i64>, StoreError> {
    let sql = "UPDATE missing_webhook SET is_ending = TRUE WHERE webhook = $1 AND is_ending = FALSE";
    if transaction.execute(sql, params![webhook]).await? == 0 {
        return Ok(None);
    }
    let sql = "SELECT count(*) FROM delivery_queue WHERE webhook = $1";
    let row = transaction.query_opt(sql, params![webhook]).await?;
    row.map_or(Ok(Some(0)), |row| row.get(0).map(Some))
}

/// The columns that the queue and the history share.
const COLUMNS: &str = "id, event_id, webhook, webhook_name, attempt_count, due_at_ms, http_status, idempotency_key, \
                       resend_of, requested_by, resend_id, created_at_ms";

/// Ends those of these deliveries that no worker attempts and whose webhook is missing since `since_ms` or before. An attempt that was
/// cut off is recorded as [`FailureClass::WorkerLost`]. Returns how many it ended, without those of test events.
pub async fn end_without_webhook(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    since_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    const SINCE: &str = "(SELECT m.since_ms FROM missing_webhook m WHERE m.webhook = delivery_queue.webhook)";
    let condition = |place: usize| {
        let first = place + 2;
        format!(
            "(lease_until_ms IS NULL OR lease_until_ms <= ${place}) AND {SINCE} <= ${} AND id IN ({})",
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
        "INSERT INTO delivery_history ({COLUMNS}, status, failure_class, finished_at_ms, webhook_missing_since_ms) \
         SELECT {COLUMNS}, 'DeadLetter', $1, $2, {SINCE} FROM delivery_queue WHERE {}",
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
            values.extend(params![now_ms, since_ms]);
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
