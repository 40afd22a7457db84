//! What was last announced of each webhook. A notice has no row per subscriber: each subscriber knows the number of the last
//! notice that it was sent.

use std::collections::HashMap;

use docket_domain::delivery::FailureClass;
use docket_domain::failure::Cause;
use docket_domain::notice::{Announced, FAILING_FROM};

use crate::connection::{Connection, Transaction};
use crate::counter::next_number;
use crate::error::StoreError;
use crate::sql::{Row, params};

/// The most webhooks whose notices are read.
const MOST: i64 = 10_000;

/// What was last announced of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The webhook's key.
    pub webhook: String,
    /// The state, and when each state was announced.
    pub announced: Announced,
    /// Counts notices in the order of their commits; 0: the state was not announced.
    pub number: i64,
    /// The number of deliveries that the notice is about.
    pub count: i64,
    /// The most frequent failure among these deliveries.
    pub failure: Option<NoticedFailure>,
}

/// The failure that a notice names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticedFailure {
    /// The class.
    pub class: FailureClass,
    /// The cause, if it is known.
    pub cause: Option<Cause>,
    /// The HTTP status, if all responses had the same.
    pub http_status: Option<i64>,
}

/// The number of deliveries of each webhook that will be tried again after [`FAILING_FROM`] or more failed attempts, by the
/// webhook's key. Test events do not count.
pub async fn failing(connection: &mut Connection) -> Result<HashMap<String, i64>, StoreError> {
    // An attempt is counted when it begins, so the one that is being made has not failed.
    let sql = format!(
        "SELECT webhook, count(*) FROM delivery_queue q WHERE status = 'Failed' \
         AND attempt_count - CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END >= {FAILING_FROM} \
         AND NOT EXISTS (SELECT 1 FROM test_event t WHERE t.id = q.event_id) \
         GROUP BY webhook ORDER BY webhook LIMIT {MOST}"
    );
    let rows = connection.query(&sql, Vec::new()).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// What was last announced of each webhook, in the order of keys, for the first 10,000.
pub async fn all(connection: &mut Connection) -> Result<Vec<Notice>, StoreError> {
    let sql = format!(
        "SELECT webhook, state, failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms, number, count, failure_class, \
         failure_cause, http_status FROM webhook_notice ORDER BY webhook LIMIT {MOST}"
    );
    connection.query(&sql, Vec::new()).await?.iter().map(notice).collect()
}

/// Whether nothing is stored of any webhook.
pub async fn is_empty(connection: &mut Connection) -> Result<bool, StoreError> {
    Ok(connection.query_opt("SELECT 1 FROM webhook_notice LIMIT 1", Vec::new()).await?.is_none())
}

fn notice(row: &Row) -> Result<Notice, StoreError> {
    // An older or newer version may have stored a word that this one does not know.
    let word = |index| Ok::<_, StoreError>(row.get::<Option<String>>(index)?.unwrap_or_default());
    let class: Option<FailureClass> = word(8)?.parse().ok();
    let cause: Option<Cause> = word(9)?.parse().ok();
    let http_status: Option<i64> = row.get(10)?;
    let announced = Announced {
        state: row.parsed(1)?,
        failing_at_ms: row.get(2)?,
        lost_at_ms: row.get(3)?,
        works_at_ms: row.get(4)?,
        lost_until_ms: row.get(5)?,
    };
    Ok(Notice {
        webhook: row.get(0)?,
        announced,
        number: row.get(6)?,
        count: row.get(7)?,
        failure: class.map(|class| NoticedFailure { class, cause, http_status }),
    })
}

/// Takes the number of the notices of this transaction. No other transaction takes one until this transaction ends, so the
/// order of numbers is the order of commits.
pub async fn take_number(transaction: &mut Transaction) -> Result<i64, StoreError> {
    next_number(transaction, "notice").await
}

/// The number of the last notice.
pub(crate) const LAST_NUMBER: &str = "(SELECT value FROM counter WHERE name = 'notice')";

/// Stores what is announced of a webhook now, in place of `before`. Returns `false`, and stores nothing, if another process has
/// announced something of the webhook since `before` was read.
pub async fn store(
    transaction: &mut Transaction,
    notice: &Notice,
    before: Option<&Notice>,
) -> Result<bool, StoreError> {
    let Notice { webhook, announced, number, count, failure } = notice;
    let Announced { state, failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms } = announced;
    let (class, cause) = (failure.map(|failure| failure.class.as_str()), failure.and_then(|one| one.cause));
    let status = failure.and_then(|failure| failure.http_status);
    let mut values = params![
        webhook,
        state.as_str(),
        *number,
        *failing_at_ms,
        *lost_at_ms,
        *works_at_ms,
        *lost_until_ms,
        *count,
        class,
        cause.map(|cause| cause.as_str()),
        status
    ];
    let sql = match before {
        None => {
            "INSERT INTO webhook_notice (webhook, state, number, failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms, count, \
             failure_class, failure_cause, http_status) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
             ON CONFLICT DO NOTHING"
        }
        Some(before) => {
            values.extend(params![before.number, before.announced.state.as_str()]);
            "UPDATE webhook_notice SET state = $2, number = $3, failing_at_ms = $4, lost_at_ms = $5, works_at_ms = $6, \
             lost_until_ms = $7, count = $8, failure_class = $9, failure_cause = $10, http_status = $11 \
             WHERE webhook = $1 AND number = $12 AND state = $13"
        }
    };
    Ok(transaction.execute(sql, values).await? == 1)
}

/// Forgets what was announced of a webhook.
pub async fn forget(transaction: &mut Transaction, webhook: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM webhook_notice WHERE webhook = $1";
    transaction.execute(sql, params![webhook]).await.map(drop)
}

/// Forgets what was announced, because there is no subscriber.
pub async fn forget_all(transaction: &mut Transaction) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM webhook_notice", Vec::new()).await.map(drop)
}
