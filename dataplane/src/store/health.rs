//! How a tenant's webhooks are doing: what `Webhook.status.deliveries` is made of.

use super::sql::params;
use super::{Connection, StoreError};

/// Finished deliveries that are looked at for the last success and the last dead letter of each webhook: enough to
/// tell of a webhook that is in use, and bounded for one that is not.
const LATEST: i64 = 1_000;

/// One webhook's deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookHealth {
    /// The webhook's uid.
    pub webhook: String,
    /// Deliveries that are still to be made, those that failed before included.
    pub pending: i64,
    /// Of these, those whose last attempt failed.
    pub retrying: i64,
    /// Deliveries that were given up and are still kept.
    pub dead_letter: i64,
    /// When one succeeded last, in milliseconds since 1970; `None`: none among the latest.
    pub last_success_at_ms: Option<i64>,
    /// When one was given up last, in milliseconds since 1970; `None`: none among the latest.
    pub last_dead_letter_at_ms: Option<i64>,
}

/// Of every webhook that has deliveries, in the order of their uids.
pub async fn by_webhook(connection: &mut Connection) -> Result<Vec<WebhookHealth>, StoreError> {
    let sql = "SELECT webhook, CAST(sum(pending) AS BIGINT), CAST(sum(retrying) AS BIGINT), CAST(sum(dead) AS BIGINT), \
               max(succeeded), max(died) FROM (\
               SELECT webhook, count(*) AS pending, count(CASE WHEN status = 'Failed' THEN 1 END) AS retrying, \
               0 AS dead, CAST(NULL AS BIGINT) AS succeeded, CAST(NULL AS BIGINT) AS died \
               FROM delivery WHERE status IN ('Pending', 'Failed') GROUP BY webhook \
               UNION ALL SELECT webhook, 0, 0, count(*), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT) FROM delivery \
               WHERE status = 'DeadLetter' GROUP BY webhook \
               UNION ALL SELECT webhook, 0, 0, 0, max(CASE WHEN status = 'Succeeded' THEN finished_at_ms END), \
               max(CASE WHEN status = 'DeadLetter' THEN finished_at_ms END) FROM (\
               SELECT webhook, status, finished_at_ms FROM delivery WHERE finished_at_ms IS NOT NULL \
               ORDER BY finished_at_ms DESC LIMIT $1) latest GROUP BY webhook) parts \
               GROUP BY webhook ORDER BY webhook";
    let rows = connection.query(sql, params![LATEST]).await?;
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
