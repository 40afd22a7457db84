//! Finishes attempts: stores their ends and the new states of their deliveries.

use std::collections::HashMap;
use std::time::Duration;

use docket_domain::delivery::{
    DeliveryId, FailureClass, MAX_ATTEMPTS, Next, Outcome, Report, after_lost_attempt,
};
use docket_domain::failure::Cause;
use docket_program::clock::Clock;
use jiff::Timestamp;

use super::LATE_END_MS;
use super::attempt::{End, Started, measured};
use super::first_attempt::{self, HandOffSelection};
use super::history::{self, Finished, Unfinished};
use crate::connection::Transaction;
use crate::database::Writer;
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, Statement, params};

/// The result of storing an [`End`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndResult {
    /// The delivery is in this state now; `wait` is how long until it is due again.
    Next(Next, Option<Duration>),
    /// The lease had expired and another worker has the delivery. Nothing was changed.
    LeaseLost,
}

/// Stores how attempts ended, in one transaction. `next` returns the next state of a delivery, for the index of its end and the time of the
/// database.
///
/// An end counts as stored if an earlier commit, whose response was lost, has stored it. `again`: there may be such an end.
pub async fn finish_attempts(
    writer: Writer,
    clock: &Clock,
    ends: &[End],
    again: bool,
    next: impl Fn(usize, Timestamp) -> Next,
) -> Result<Vec<EndResult>, StoreError> {
    // Whether a delivery ends does not depend on the time.
    let is_final = |place: usize| next(place, clock.now()).status().is_final();
    let last: Vec<&End> = (0..).zip(ends).filter(|(place, _)| is_final(*place)).map(|(_, end)| end).collect();
    let (mut transaction, taken) = first_attempt::take_out(writer, clock, ends, last, again).await?;
    let now = transaction.now();
    let nexts: Vec<Next> = (0..ends.len()).map(|place| next(place, now)).collect();
    let (is_ours, mut rest) = store(&mut transaction, ends, &nexts, taken, now.as_millisecond()).await?;
    rest.extend(first_attempt::deletes(ends));
    transaction.commit_after(rest).await?;
    first_attempt::count_stored(ends);
    let stored = |(next, ours): (Next, bool)| match (ours, next) {
        (false, _) => EndResult::LeaseLost,
        (true, Next::RetryAt(at)) => {
            EndResult::Next(next, Some(Duration::try_from(at.duration_since(now)).unwrap_or_default()))
        }
        (true, Next::Succeeded | Next::DeadLetter) => EndResult::Next(next, None),
    };
    Ok(nexts.into_iter().zip(is_ours).map(stored).collect())
}

/// Like [`finish_attempts`], for one attempt, in the caller's transaction and with the caller's time. `false`: the
/// lease was lost.
pub async fn finish_attempt(
    transaction: &mut Transaction,
    end: &End,
    next: Next,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let last: Vec<&End> = Some(end).filter(|_| next.status().is_final()).into_iter().collect();
    let taken = history::taken_out(transaction.all(history::take_out(&last)).await?)?;
    let (is_ours, rest) = store(transaction, std::slice::from_ref(end), &[next], taken, now_ms).await?;
    transaction.all(rest).await?;
    Ok(is_ours == [true])
}

/// Stores ends. `taken` has the deliveries of final ends, which are not in the queue any more. Returns for each end whether its lease was
/// still held, and statements that the caller has to run.
async fn store(
    transaction: &mut Transaction,
    ends: &[End],
    nexts: &[Next],
    mut taken: HashMap<DeliveryId, Unfinished>,
    now_ms: i64,
) -> Result<(Vec<bool>, Vec<Statement>), StoreError> {
    let mut is_ours = vec![false; ends.len()];
    let (mut finished, mut retries) = (Vec::new(), Vec::new());
    for (place, (end, next)) in ends.iter().zip(nexts).enumerate() {
        match (next, taken.remove(&end.started.id)) {
            (Next::RetryAt(at), _) => retries.push((place, retry(end, at.as_millisecond()))),
            (Next::Succeeded | Next::DeadLetter, Some(was)) => {
                is_ours[place] = true;
                finished.push(Finished { was, end, status: next.status() });
            }
            (Next::Succeeded | Next::DeadLetter, None) => {}
        }
    }
    let mut rest: Vec<Statement> = history::inserts(finished, now_ms).into_iter().collect();
    // Renewals lock the rows in the same order.
    retries.sort_by_key(|(place, _)| ends[*place].started.id);
    let (places, updates): (Vec<usize>, Vec<Statement>) = retries.into_iter().unzip();
    for (place, rows) in places.into_iter().zip(transaction.all(updates).await?) {
        is_ours[place] = !rows.is_empty();
    }
    let failed = ends.iter().zip(&is_ours).filter(|(end, ours)| **ours && end.outcome.failure().is_some());
    rest.extend(failed_attempts(failed.map(|(end, _)| end), now_ms));
    if is_ours.contains(&false) {
        find_stored(transaction, ends, &mut is_ours).await?;
    }
    Ok((is_ours, rest))
}

/// The statement that stores a retry. It returns a row if the lease was still held.
fn retry(end: &End, due_at_ms: i64) -> Statement {
    let report = end.outcome.report();
    Statement::new(
        "UPDATE delivery_queue SET status = 'Failed', due_at_ms = $1, lease_token = NULL, lease_until_ms = NULL, \
         started_at_ms = NULL, failure_class = $2, http_status = $3, \
         lost_count = lost_count + (CASE WHEN $2 = 'WorkerLost' THEN 1 ELSE 0 END) \
         WHERE id = $4 AND lease_token = $5 RETURNING id",
        params![
            due_at_ms,
            end.outcome.failure().map(FailureClass::as_str),
            report.http_status.map(i64::from),
            end.started.id.to_string(),
            &end.token,
        ],
    )
}

static INSERT_ATTEMPT: Rows = Rows::new(
    "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, \
     remote_address, response_body, dns_us, connect_us, tls_us, first_byte_us, total_us, failure_cause, failure_detail) \
     {text, bigint, bigint, bigint, text, bigint, text, text, bigint, bigint, bigint, bigint, bigint, text, text}",
);

fn failed_attempts<'a>(ends: impl Iterator<Item = &'a End>, now_ms: i64) -> Option<Statement> {
    INSERT_ATTEMPT.statement(ends.map(|end| {
        let End { started, outcome, .. } = end;
        let report = outcome.report();
        let [remote, dns, connect, tls, first_byte, total] = measured(report);
        [
            Param::from(started.id.to_string()),
            started.attempt.into(),
            started.at_ms.into(),
            now_ms.into(),
            outcome.failure().map(FailureClass::as_str).into(),
            report.http_status.map(i64::from).into(),
            remote,
            report.answer.as_ref().into(),
            dns,
            connect,
            tls,
            first_byte,
            total,
            report.explanation.cause.map(Cause::as_str).into(),
            report.explanation.detail.as_ref().into(),
        ]
    }))
}

/// Finds ends that an earlier commit has stored without a response, and marks them in `is_ours`. If another worker
/// had taken the delivery over, it would have stored [`FailureClass::WorkerLost`].
async fn find_stored(
    transaction: &mut Transaction,
    ends: &[End],
    is_ours: &mut [bool],
) -> Result<(), StoreError> {
    let sql = "SELECT failure_class FROM attempt WHERE delivery_id = $1 AND attempt_no = $2 \
               AND finished_at_ms IS NOT NULL";
    for (end, ours) in ends.iter().zip(is_ours).filter(|(_, ours)| !**ours) {
        let params = params![end.started.id.to_string(), end.started.attempt];
        let row = transaction.query_opt(sql, params).await?;
        let class = row.map(|row| row.get::<Option<String>>(0)).transpose()?;
        *ours =
            class.is_some_and(|class| class.as_deref() == end.outcome.failure().map(FailureClass::as_str));
    }
    Ok(())
}

/// Ends the attempts of these deliveries whose lease has expired: their worker was lost. A fifth attempt ends only
/// [`LATE_END_MS`] later. `backoff_base` is the base of the contract's backoff. Returns how many attempts ended, and
/// how many deliveries became dead letters, not counting deliveries of test events.
pub async fn end_lost_attempts(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    backoff_base: Duration,
    now: Timestamp,
) -> Result<(u64, u64), StoreError> {
    // Some may be first attempts of the process that saved them.
    first_attempt::queue(transaction, HandOffSelection::With(ids)).await?;
    let now_ms = now.as_millisecond();
    const LOST: &str = "FROM delivery_queue WHERE lease_until_ms <= $1 AND id IN ({values}) ORDER BY id";
    transaction.lock_in(&format!("SELECT id {LOST} FOR UPDATE"), params![now_ms], ids).await?;
    let select = format!(
        "SELECT id, event_id, webhook, attempt_count, lost_count, lease_token, lease_until_ms, started_at_ms, \
         EXISTS (SELECT 1 FROM test_event t WHERE t.id = event_id) {LOST}"
    );
    let mut lost = Vec::new();
    for row in transaction.query_in(&select, params![now_ms], ids).await? {
        let is_test = row.get::<bool>(8)?;
        lost.extend(lost_attempt(&row, now, backoff_base)?.map(|(end, next)| (end, next, is_test)));
    }
    let mut dead = 0;
    for (end, next, is_test) in &lost {
        finish_attempt(transaction, end, *next, now_ms).await?;
        dead += u64::from(next.status().is_final() && !is_test);
    }
    Ok((lost.len() as u64, dead))
}

fn lost_attempt(
    row: &Row,
    now: Timestamp,
    backoff_base: Duration,
) -> Result<Option<(End, Next)>, StoreError> {
    let (attempt, lost_before) = (row.count(3)?, row.count(4)?);
    if attempt >= MAX_ATTEMPTS && now.as_millisecond() < row.get::<i64>(6)? + LATE_END_MS {
        return Ok(None);
    }
    let started = Started {
        id: row.parsed(0)?,
        event_id: row.event_id(1)?,
        webhook: row.get(2)?,
        attempt,
        at_ms: row.get::<Option<i64>>(7)?.unwrap_or(now.as_millisecond()),
    };
    let next = after_lost_attempt(started.id, attempt, lost_before, now, backoff_base);
    let outcome = Outcome::Failed(FailureClass::WorkerLost, Report::default());
    let end = End { started, token: row.get(5)?, lease: None, outcome };
    Ok(Some((end, next)))
}
