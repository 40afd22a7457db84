//! Missing webhooks, which have queued deliveries but are not declared any more: since when, and the end of their deliveries.

use std::collections::{BTreeMap, BTreeSet};

use docket_domain::delivery::{DeliveryId, FailureClass};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, params, read};

/// A webhook that was missing at a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingWebhook {
    /// Its key.
    pub webhook: String,
    /// When the webhook was first found missing, in milliseconds since 1970.
    pub since_ms: i64,
    /// When a sweep last found the webhook missing, in milliseconds since 1970.
    pub seen_ms: i64,
    /// Whether the webhook's deliveries are being ended.
    pub is_ending: bool,
}

impl MissingWebhook {
    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(read!(row => MissingWebhook { webhook: id, since_ms, seen_ms, is_ending }))
    }
}

/// The largest number of missing webhooks that are read. A row is deleted when its webhook is declared again, or when the webhook
/// has no queued delivery.
const MOST: i64 = 10_000;

/// The webhooks that are known to be missing.
pub async fn missing(connection: &mut Connection) -> Result<Vec<MissingWebhook>, StoreError> {
    let sql = "SELECT webhook, since_ms, seen_ms, is_ending FROM missing_webhook ORDER BY webhook LIMIT $1";
    connection.query(sql, params![MOST]).await?.iter().map(MissingWebhook::read).collect()
}

static LOCK: Rows =
    Rows::new("SELECT webhook FROM missing_webhook WHERE webhook {$1 text} ORDER BY webhook FOR UPDATE");
static BEGIN_AGAIN: Rows = Rows::new(
    "WITH v (webhook, now_ms, seen_ms) AS ({text, bigint, bigint}) \
     UPDATE missing_webhook SET since_ms = v.now_ms, is_ending = FALSE FROM v \
     WHERE missing_webhook.webhook = v.webhook AND missing_webhook.seen_ms < v.seen_ms",
);
static NOTE: Rows = Rows::new(
    "INSERT INTO missing_webhook (webhook, since_ms, seen_ms) {text, bigint, bigint} \
     ON CONFLICT (webhook) DO UPDATE SET seen_ms = excluded.seen_ms RETURNING webhook, since_ms, seen_ms, is_ending",
);

/// Records that these webhooks are missing at `now_ms`, and returns them. If no sweep has seen a webhook missing
/// since `seen_ms`, it counts as missing from `now_ms` on.
pub async fn note_missing<'a>(
    transaction: &mut Transaction,
    webhooks: impl IntoIterator<Item = &'a str>,
    now_ms: i64,
    seen_ms: i64,
) -> Result<Vec<MissingWebhook>, StoreError> {
    let webhooks: BTreeSet<&str> = webhooks.into_iter().collect();
    let rows =
        |last: i64| webhooks.iter().map(move |webhook| [Param::from(*webhook), now_ms.into(), last.into()]);
    transaction.lock_all(LOCK.statement(webhooks.iter().map(|webhook| [Param::from(*webhook)]))).await?;
    transaction.all(BEGIN_AGAIN.statement(rows(seen_ms))).await?;
    let noted = transaction.all(NOTE.statement(rows(now_ms))).await?;
    noted.iter().flatten().map(MissingWebhook::read).collect()
}

static FORGET: Rows = Rows::new("DELETE FROM missing_webhook WHERE webhook {$1 text}");

/// Deletes the records of these webhooks as missing.
pub async fn forget_missing<'a>(
    transaction: &mut Transaction,
    webhooks: impl IntoIterator<Item = &'a str>,
) -> Result<(), StoreError> {
    let rows: Vec<_> = webhooks.into_iter().map(|webhook| [Param::from(webhook)]).collect();
    transaction.lock_all(LOCK.statement(rows.iter().cloned())).await?;
    transaction.all(FORGET.statement(rows)).await.map(drop)
}

/// The largest number of queued deliveries that [`count_queued`] counts.
pub const MOST_COUNTED: i64 = 10_000;

static COUNT: Rows = Rows::new(
    "SELECT webhook, count(*) FROM (SELECT webhook FROM delivery_queue WHERE webhook {$1 text} LIMIT 10001) AS found GROUP BY webhook",
);
const _: () = assert!(MOST_COUNTED == 10_000);

/// The number of queued deliveries for each of these webhooks. `None`: they have more than [`MOST_COUNTED`] together.
pub async fn count_queued<'a>(
    connection: &mut Connection,
    webhooks: impl IntoIterator<Item = &'a str>,
) -> Result<Option<BTreeMap<String, i64>>, StoreError> {
    let rows = webhooks.into_iter().map(|webhook| [Param::from(webhook)]);
    let found = connection.all(COUNT.statement(rows)).await?;
    let counts = found.iter().flatten().map(|row| Ok((row.id(0)?, row.get(1)?)));
    let counts = counts.collect::<Result<BTreeMap<String, i64>, StoreError>>()?;
    Ok((counts.values().sum::<i64>() <= MOST_COUNTED).then_some(counts))
}

static BEGIN_TO_END: Rows = Rows::new(
    "UPDATE missing_webhook SET is_ending = TRUE WHERE webhook {$1 text} AND is_ending = FALSE RETURNING webhook",
);

/// Records that the deliveries to these webhooks are being ended. Returns the webhooks for which this was not recorded before.
pub async fn begin_to_end<'a>(
    transaction: &mut Transaction,
    webhooks: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, StoreError> {
    let rows: Vec<_> = webhooks.into_iter().map(|webhook| [Param::from(webhook)]).collect();
    transaction.lock_all(LOCK.statement(rows.iter().cloned())).await?;
    let begun = transaction.all(BEGIN_TO_END.statement(rows)).await?;
    begun.iter().flatten().map(|row| row.id(0)).collect()
}

/// The columns that the queue and the history share.
const COLUMNS: &str = "id, event_id, webhook, webhook_name, attempt_count, due_at_ms, http_status, idempotency_key, \
                       resend_of, requested_by, resend_id, created_at_ms";

/// Ends deliveries among these that have no attempt in progress, were created at `created_ms` or earlier, and whose
/// webhook has been missing since `since_ms` or earlier. An interrupted attempt is recorded as
/// [`FailureClass::WorkerLost`]. Returns how many deliveries it ended, not counting deliveries of test events.
pub async fn end_without_webhook(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    since_ms: i64,
    created_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    const SINCE: &str = "(SELECT m.since_ms FROM missing_webhook m WHERE m.webhook = delivery_queue.webhook)";
    let values = params![now_ms, since_ms, created_ms];
    let is_ended = format!(
        "(lease_until_ms IS NULL OR lease_until_ms <= $1) AND {SINCE} <= $2 AND created_at_ms <= $3 AND id IN ({{values}})"
    );
    let lock = format!("SELECT id FROM delivery_queue WHERE {is_ended} ORDER BY id FOR UPDATE");
    let attempts = format!(
        "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class) \
         SELECT id, attempt_count, started_at_ms, $1, $4 FROM delivery_queue WHERE started_at_ms IS NOT NULL AND {is_ended}"
    );
    let history = format!(
        "INSERT INTO delivery_history ({COLUMNS}, status, failure_class, finished_at_ms, webhook_missing_since_ms) \
         SELECT {COLUMNS}, 'DeadLetter', $4, $1, {SINCE} FROM delivery_queue WHERE {is_ended}"
    );
    let queue = format!(
        "DELETE FROM delivery_queue WHERE {is_ended} \
         RETURNING EXISTS (SELECT 1 FROM test_event t WHERE t.id = event_id)"
    );
    let with = |class: FailureClass| [values.clone(), params![class.as_str()]].concat();
    transaction.lock_in(&lock, values.clone(), ids).await?;
    transaction.query_in(&attempts, with(FailureClass::WorkerLost), ids).await?;
    transaction.query_in(&history, with(FailureClass::WebhookGone), ids).await?;
    let ended = transaction.query_in(&queue, values, ids).await?;
    ended.iter().map(|row| row.get(0).map(|is_test: bool| u64::from(!is_test))).sum()
}
