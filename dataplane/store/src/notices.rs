//! What was last announced of each webhook, and the last notice of each of its states. A notice has no row per subscriber: each
//! subscriber knows the number of the last notice that it was sent.

use std::collections::HashMap;

use docket_domain::delivery::FailureClass;
use docket_domain::failure::Cause;
use docket_domain::notice::{Announced, FAILING_FROM, WebhookState};

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
    /// Since when the webhook is not served, in milliseconds since 1970; `None`: it is served.
    pub missing_since_ms: Option<i64>,
}

/// A change of a webhook's state that was announced, as subscribers are sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The webhook's key.
    pub webhook: String,
    /// The state that was announced.
    pub state: WebhookState,
    /// The number of the notice.
    pub number: i64,
    /// The number of deliveries that the notice is about.
    pub count: i64,
    /// The most frequent failure among these deliveries.
    pub failure: Option<NoticedFailure>,
    /// The state that the webhook has now. It differs from `state` if a later notice replaced this one.
    pub state_now: WebhookState,
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
    // An attempt is counted when it begins, so the current attempt has not failed.
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
         failure_cause, http_status, missing_since_ms FROM webhook_notice ORDER BY webhook LIMIT {MOST}"
    );
    connection.query(&sql, Vec::new()).await?.iter().map(notice).collect()
}

/// Whether nothing is stored of any webhook.
pub async fn is_empty(connection: &mut Connection) -> Result<bool, StoreError> {
    Ok(connection.query_opt("SELECT 1 FROM webhook_notice LIMIT 1", Vec::new()).await?.is_none())
}

fn notice(row: &Row) -> Result<Notice, StoreError> {
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
        failure: failure(row, 8)?,
        missing_since_ms: row.get(11)?,
    })
}

/// Reads a failure from the columns `failure_class`, `failure_cause` and `http_status`; `first` is the index of the first column.
fn failure(row: &Row, first: usize) -> Result<Option<NoticedFailure>, StoreError> {
    // An older or newer version may have stored a word that this one does not know.
    let word = |index| Ok::<_, StoreError>(row.get::<Option<String>>(index)?.unwrap_or_default());
    let class: Option<FailureClass> = word(first)?.parse().ok();
    let cause: Option<Cause> = word(first + 1)?.parse().ok();
    let http_status: Option<i64> = row.get(first + 2)?;
    Ok(class.map(|class| NoticedFailure { class, cause, http_status }))
}

/// The last notice of each state of each webhook, in the order of their numbers, at most 30,000. A state that ended in silence has none.
pub async fn news(connection: &mut Connection) -> Result<Vec<News>, StoreError> {
    let sql = format!(
        "SELECT n.webhook, n.state, n.number, n.count, n.failure_class, n.failure_cause, n.http_status, n.state AS state_now \
         FROM webhook_notice n WHERE n.number > 0 \
         UNION ALL \
         SELECT r.webhook, r.state, r.number, r.count, r.failure_class, r.failure_cause, r.http_status, n.state AS state_now \
         FROM replaced_notice r JOIN webhook_notice n ON n.webhook = r.webhook WHERE r.state <> n.state \
         ORDER BY 3, 1 LIMIT {}",
        3 * MOST
    );
    let news = |row: &Row| {
        Ok(News {
            webhook: row.get(0)?,
            state: row.parsed(1)?,
            number: row.get(2)?,
            count: row.get(3)?,
            failure: failure(row, 4)?,
            state_now: row.parsed(7)?,
        })
    };
    connection.query(&sql, Vec::new()).await?.iter().map(news).collect()
}

/// Takes the number of the notices of this transaction. No other transaction takes one until this transaction ends, so the
/// order of numbers is the order of commits.
pub async fn take_number(transaction: &mut Transaction) -> Result<i64, StoreError> {
    next_number(transaction, "notice").await
}

/// The number of the last notice.
pub(crate) const LAST_NUMBER: &str = "(SELECT value FROM counter WHERE name = 'notice')";

/// Stores what is announced of a webhook now, in place of `before`. Keeps the notice of a state that another announced state replaces.
/// Returns `false`, and stores nothing, if another process has announced something of the webhook since `before` was read.
///
/// A transaction stores and forgets in the order of the bytes of the webhooks' keys, so that no two transactions wait for each other.
pub async fn store(
    transaction: &mut Transaction,
    notice: &Notice,
    before: Option<&Notice>,
) -> Result<bool, StoreError> {
    let Notice { webhook, announced, number, count, failure, missing_since_ms } = notice;
    let Announced { state, failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms } = announced;
    let (class, cause, status) = words(*failure);
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
        cause,
        status,
        *missing_since_ms
    ];
    let sql = match before {
        None => {
            "INSERT INTO webhook_notice (webhook, state, number, failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms, count, \
             failure_class, failure_cause, http_status, missing_since_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING"
        }
        Some(before) => {
            values.extend(params![before.number, before.announced.state.as_str()]);
            "UPDATE webhook_notice SET state = $2, number = $3, failing_at_ms = $4, lost_at_ms = $5, works_at_ms = $6, \
             lost_until_ms = $7, count = $8, failure_class = $9, failure_cause = $10, http_status = $11, \
             missing_since_ms = $12 WHERE webhook = $1 AND number = $13 AND state = $14"
        }
    };
    let is_stored = transaction.execute(sql, values).await? == 1;
    if let Some(before) = before.filter(|before| is_stored && before.announced.state != *state) {
        keep(transaction, before, notice).await?;
    }
    Ok(is_stored)
}

/// Keeps the notice of a state that has ended, unless the state ended in silence. A notice of the present state replaces all before it.
async fn keep(transaction: &mut Transaction, before: &Notice, now: &Notice) -> Result<(), StoreError> {
    let Notice { webhook, announced, number, count, failure, .. } = before;
    let sql = "DELETE FROM replaced_notice WHERE webhook = $1 AND state IN ($2, $3)";
    let states = params![webhook, announced.state.as_str(), now.announced.state.as_str()];
    transaction.execute(sql, states).await?;
    if *number == 0 || now.number == 0 {
        return Ok(());
    }
    let (class, cause, status) = words(*failure);
    let sql = "INSERT INTO replaced_notice (webhook, state, number, count, failure_class, failure_cause, http_status) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let values = params![webhook, announced.state.as_str(), *number, *count, class, cause, status];
    transaction.execute(sql, values).await.map(drop)
}

/// The class, the cause and the status of a failure, as they are stored.
fn words(failure: Option<NoticedFailure>) -> (Option<&'static str>, Option<&'static str>, Option<i64>) {
    let cause = failure.and_then(|failure| failure.cause);
    (
        failure.map(|failure| failure.class.as_str()),
        cause.map(|cause| cause.as_str()),
        failure.and_then(|failure| failure.http_status),
    )
}

/// Forgets what was announced of a webhook.
pub async fn forget(transaction: &mut Transaction, webhook: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM webhook_notice WHERE webhook = $1";
    transaction.execute(sql, params![webhook]).await.map(drop)
}

/// Forgets what was announced, because there is no subscriber.
pub async fn forget_all(transaction: &mut Transaction) -> Result<(), StoreError> {
    // In the order of `store`.
    let order = "SELECT webhook FROM webhook_notice ORDER BY webhook COLLATE \"C\" FOR UPDATE";
    transaction.lock(order, Vec::new()).await?;
    transaction.execute("DELETE FROM webhook_notice", Vec::new()).await.map(drop)
}
