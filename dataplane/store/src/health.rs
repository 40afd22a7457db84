//! The health of a tenant's webhooks, for `Webhook.status.deliveries`. Test events do not count.

use crate::connection::Connection;
use crate::deliveries::WITH_WEBHOOKS;
use crate::error::StoreError;
use crate::marks::OPEN;
use crate::recent::MAX_COUNT;
use crate::sql::{Row, read};

/// The deliveries of one webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookHealth {
    /// The webhook's key; for older rows its uid.
    pub webhook: String,
    /// The number of deliveries that have not ended, including failed ones.
    pub pending: i64,
    /// The number of pending deliveries whose last attempt failed.
    pub retrying: i64,
    /// The number of open dead letters: neither resent nor set aside.
    pub dead_letter: i64,
    /// When a delivery last succeeded, in milliseconds since 1970; `None`: no stored delivery has succeeded.
    pub last_success_at_ms: Option<i64>,
    /// When a delivery last became a dead letter that is still open, in milliseconds since 1970; `None`: no dead
    /// letter is open.
    pub last_dead_letter_at_ms: Option<i64>,
}

impl WebhookHealth {
    /// Adds deliveries of the same webhook that older rows have under its uid.
    pub fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.retrying += other.retrying;
        self.dead_letter += other.dead_letter;
        self.last_success_at_ms = self.last_success_at_ms.max(other.last_success_at_ms);
        self.last_dead_letter_at_ms = self.last_dead_letter_at_ms.max(other.last_dead_letter_at_ms);
    }
}

/// A limit of twice [`MAX_COUNT`] and one more, because the dead letters of test events, which are fewer, are subtracted.
#[doc(hidden)] // for the suite that checks the plan
pub const BOUND: &str = "LIMIT 20001";
const _: () = assert!(MAX_COUNT == 10_000);

/// The statement for [`by_webhook`]. Dead letters are counted by the index alone, and the few of test events are subtracted.
#[doc(hidden)] // for the suite that checks its plan
pub fn sql(bound: &str) -> String {
    format!(
        "{WITH_WEBHOOKS}, queued (webhook, pending, retrying) AS (SELECT webhook, count(*), \
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

/// The health of every webhook that has deliveries, in the order of keys, for the first 10,000 keys. The keys come
/// from the database, so a webhook may be deleted or belong to another tenant.
pub async fn by_webhook(connection: &mut Connection) -> Result<Vec<WebhookHealth>, StoreError> {
    read(connection, "").await
}

/// Like [`by_webhook`], but counts dead letters only until it is clear that there are more than [`MAX_COUNT`].
pub async fn by_webhook_bounded(connection: &mut Connection) -> Result<Vec<WebhookHealth>, StoreError> {
    read(connection, BOUND).await
}

async fn read(connection: &mut Connection, bound: &str) -> Result<Vec<WebhookHealth>, StoreError> {
    let rows = connection.query(&sql(bound), Vec::new()).await?;
    let health = |row: &Row| {
        Ok(read!(row => WebhookHealth {
            webhook, pending, retrying, dead_letter, last_success_at_ms, last_dead_letter_at_ms,
        }))
    };
    rows.iter().map(health).collect()
}
