//! Finishes attempts: stores how one ended and what its delivery is now.

use docket_domain::delivery::{FailureClass, Next, Outcome};

use super::begin::Started;
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::params;

/// Stores how an attempt ended and what the delivery is now. `false`: the lease expired, another worker has the delivery,
/// and nothing was changed. `true` also if an earlier commit without a response has stored it.
pub async fn finish_attempt(
    transaction: &mut Transaction,
    started: &Started,
    token: &str,
    outcome: &Outcome,
    next: Next,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let report = outcome.report();
    let class = outcome.failure().map(FailureClass::as_str);
    let http_status = report.http_status.map(i64::from);
    let sql = "UPDATE delivery SET status = $1, due_at_ms = coalesce($2, due_at_ms), lease_token = NULL, \
               lease_until_ms = NULL, failure_class = $3, http_status = $4, response_body = $5, \
               finished_at_ms = $6 WHERE id = $7 AND lease_token = $8 AND attempt_count = $9";
    let due_at_ms = match next {
        Next::RetryAt(at) => Some(at.as_millisecond()),
        Next::Succeeded | Next::DeadLetter => None,
    };
    let params = params![
        next.status().as_str(),
        due_at_ms,
        class,
        http_status,
        report.answer.clone(),
        next.status().is_final().then_some(now_ms),
        started.id.to_string(),
        token,
        started.attempt,
    ];
    if transaction.execute(sql, params).await? == 0 {
        return is_stored(transaction, started, class).await;
    }
    let sql = "UPDATE attempt SET finished_at_ms = $1, failure_class = $2, http_status = $3, remote_address = $4, \
               response_body = $5, dns_us = $6, connect_us = $7, tls_us = $8, first_byte_us = $9, total_us = $10 \
               WHERE delivery_id = $11 AND attempt_no = $12";
    let micros = |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let times = &report.times;
    let params = params![
        now_ms,
        class,
        http_status,
        report.remote.map(|remote| remote.to_string()),
        report.answer.clone(),
        times.dns.map(micros),
        times.connect.map(micros),
        times.tls.map(micros),
        times.first_byte.map(micros),
        micros(times.total),
        started.id.to_string(),
        started.attempt,
    ];
    transaction.execute(sql, params).await?;
    Ok(true)
}

/// Whether an attempt has this end already. Another worker would have stored [`FailureClass::WorkerLost`].
async fn is_stored(
    transaction: &mut Transaction,
    started: &Started,
    class: Option<&'static str>,
) -> Result<bool, StoreError> {
    let sql = "SELECT failure_class FROM attempt WHERE delivery_id = $1 AND attempt_no = $2 \
               AND finished_at_ms IS NOT NULL";
    let row = transaction.query_opt(sql, params![started.id.to_string(), started.attempt]).await?;
    Ok(row
        .map(|row| row.get::<Option<String>>(0))
        .transpose()?
        .is_some_and(|stored| stored.as_deref() == class))
}
