//! How a tenant's webhooks are doing: what `Webhook.status.deliveries` is made of. Test events do not count.

use crate::connection::Connection;
use crate::error::StoreError;
use crate::marks::OPEN;
use crate::recent::MAX_COUNT;

/// One webhook's deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookHealth {
    /// The webhook's key, or its uid in rows of before keys.
    pub webhook: String,
    /// Deliveries that are still to be made, those that failed before included.
    pub pending: i64,
    /// Of these, those whose last attempt failed.
    pub retrying: i64,
    /// Deliveries that were given up, not sent again since and not set aside.
    pub dead_letter: i64,
    /// When one succeeded last, in milliseconds since 1970; `None`: none that is still kept.
    pub last_success_at_ms: Option<i64>,
    /// When one of these was given up last, in milliseconds since 1970; `None`: there is none.
    pub last_dead_letter_at_ms: Option<i64>,
}

impl WebhookHealth {
    /// Adds the deliveries of another, which is the same webhook: rows of before keys have its uid.
    pub fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.retrying += other.retrying;
        self.dead_letter += other.dead_letter;
        self.last_success_at_ms = self.last_success_at_ms.max(other.last_success_at_ms);
        self.last_dead_letter_at_ms = self.last_dead_letter_at_ms.max(other.last_dead_letter_at_ms);
    }
}

/// Twice [`MAX_COUNT`] and one more: those of tests are taken off, and are fewer.
#[doc(hidden)] // for the suite that looks at the plan
pub const BOUND: &str = "LIMIT 20001";
const _: () = assert!(MAX_COUNT == 10_000);

/// Each webhook on its own, from one to the next of the index that begins with them: a busy one hides no other, and what
/// has ended long ago is not read. Dead letters are counted by the index alone, and the few of tests are taken off.
#[doc(hidden)] // for the suite that looks at its plan
pub fn sql(bound: &str) -> String {
    format!(
        "WITH RECURSIVE hook (webhook) AS (SELECT min(webhook) FROM delivery_history UNION ALL \
        SELECT (SELECT min(d.webhook) FROM delivery_history d WHERE d.webhook > hook.webhook) \
        FROM hook WHERE hook.webhook IS NOT NULL), \
        queued (webhook, pending, retrying) AS (SELECT webhook, count(*), \
        count(CASE WHEN status = 'Failed' THEN 1 END) FROM delivery_unfinished q \
        WHERE NOT EXISTS (SELECT 1 FROM test_event t WHERE t.id = q.event_id) GROUP BY webhook) \
        SELECT h.webhook, coalesce((SELECT pending FROM queued p WHERE p.webhook = h.webhook), 0), \
        coalesce((SELECT retrying FROM queued p WHERE p.webhook = h.webhook), 0), \
        (SELECT count(*) FROM (SELECT 1 FROM delivery_history d WHERE d.webhook = h.webhook \
        AND {OPEN} {bound}) AS dead) \
        - (SELECT coalesce(CAST(sum((SELECT count(*) FROM delivery_history d WHERE d.event_id = t.id \
        AND {OPEN})) AS BIGINT), 0) FROM test_event t WHERE t.webhook = h.webhook), \
        (SELECT d.finished_at_ms FROM delivery_history d WHERE d.webhook = h.webhook AND d.status = 'Succeeded' \
        AND d.finished_at_ms IS NOT NULL AND (SELECT count(*) FROM test_event t WHERE t.id = d.event_id) = 0 \
        ORDER BY d.finished_at_ms DESC LIMIT 1), \
        (SELECT d.finished_at_ms FROM delivery_history d WHERE d.webhook = h.webhook AND {OPEN} \
        AND d.finished_at_ms IS NOT NULL AND (SELECT count(*) FROM test_event t WHERE t.id = d.event_id) = 0 \
        ORDER BY d.finished_at_ms DESC LIMIT 1) \
        FROM (SELECT webhook FROM hook WHERE webhook IS NOT NULL UNION SELECT webhook FROM queued) h ORDER BY h.webhook LIMIT 10000"
    )
}

/// Of every webhook that has deliveries, in the order of their keys; of the first 10,000 keys. The keys are the database's: they may
/// be of webhooks that are deleted, or that are another's.
pub async fn by_webhook(connection: &mut Connection) -> Result<Vec<WebhookHealth>, StoreError> {
    read(connection, "").await
}

/// The same with dead letters that are counted no further than needed to know that there are more than [`MAX_COUNT`].
pub async fn by_webhook_bounded(connection: &mut Connection) -> Result<Vec<WebhookHealth>, StoreError> {
    read(connection, BOUND).await
}

async fn read(connection: &mut Connection, bound: &str) -> Result<Vec<WebhookHealth>, StoreError> {
    let rows = connection.query(&sql(bound), Vec::new()).await?;
    rows.iter()
        .map(|row| {
            Ok(WebhookHealth {
                webhook: row.get(0)?,
                pending: row.get(1)?,
                retrying: row.get(2)?,
                dead_letter: row.get(3)?,
                last_success_at_ms: row.get(4)?,
                last_dead_letter_at_ms: row.get(5)?,
            })
        })
        .collect()
}
