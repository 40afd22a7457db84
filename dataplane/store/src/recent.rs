//! Figures of the last hours: counts up to a limit, and samples. So the overview of a busy tenant costs no more than
//! the overview of a quiet one. Test events do not count.

use std::collections::HashMap;

use docket_domain::delivery::{FailureClass, Status};
use docket_domain::failure::Cause;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::events::NO_TEST;
use crate::marks::OPEN;
use crate::sql::{Param, Row, SLOTS, params};

/// The highest exact count.
pub const MAX_COUNT: i64 = 10_000;
/// The largest number of deliveries of one period in a [`sample`].
pub const SAMPLE: i64 = 200;
/// The largest number of dead letters of one webhook that [`failures`] reads.
pub const MAX_DEAD: i64 = 500;
/// The largest number of failed deliveries, to all webhooks together, that [`failures`] reads.
pub const MAX_RETRIED: i64 = 5_000;

/// The number of deliveries to these webhooks (given by key) that ended in this status at `from_ms` or later. Of dead
/// letters, only open ones count. More than [`MAX_COUNT`] count as one more.
pub async fn count(
    connection: &mut Connection,
    webhooks: &[String],
    status: Status,
    from_ms: i64,
) -> Result<i64, StoreError> {
    let sql = count_sql(status);
    let mut found = 0;
    for chunk in webhooks.chunks(SLOTS) {
        for row in connection.query_in(&sql, params![from_ms, MAX_COUNT + 1 - found], chunk).await? {
            found += row.get::<i64>(0)?;
        }
    }
    Ok(found)
}

/// The statement for [`count`] of the ends in this status.
#[doc(hidden)] // for the suite that checks its plan
pub fn count_sql(status: Status) -> String {
    // The status is a part of the text: a plan for any status would read all deliveries of the period to find a few
    // dead letters. So would a plan without this order, which only the indexes of a webhook's ends have.
    let ended = match status {
        Status::DeadLetter => OPEN.to_owned(),
        other => format!("d.status = '{other}'"),
    };
    let among = |time, webhook| {
        format!("FROM delivery_history d WHERE {ended} AND {time} >= $1 AND {webhook} IN ({{values}})")
    };
    let all = among("d.finished_at_ms", "d.webhook");
    // The deliveries of a webhook's test events are few. They are counted apart, since the index alone has what the rest needs. An expression in place of
    // a column leaves only the index by event.
    let tests = among("d.finished_at_ms + 0", "d.webhook || ''");
    format!(
        "WITH test (count) AS (SELECT CAST(coalesce(sum((SELECT count(*) {tests} AND d.event_id = t.id)), 0) AS BIGINT) \
         FROM test_event t WHERE t.webhook IN ({{values}})) SELECT count(*) - (SELECT count FROM test) FROM \
         (SELECT 1 {all} ORDER BY d.webhook, d.finished_at_ms LIMIT $2 + (SELECT count FROM test)) AS found"
    )
}

/// A delivery that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedDelivery {
    /// The index of the delivery's period among the periods of the search.
    pub span: usize,
    /// Succeeded or DeadLetter.
    pub status: Status,
    /// The number of attempts.
    pub attempts: i64,
    /// How long the successful attempt took, in microseconds.
    pub total_us: Option<i64>,
}

/// The last deliveries that ended in each of these periods, at most [`SAMPLE`] per period. If `webhooks` (keys) are
/// given, only deliveries to these. Times are in milliseconds since 1970, inclusive at the start and exclusive at the
/// end.
pub async fn sample(
    connection: &mut Connection,
    webhooks: Option<&[String]>,
    spans: &[(i64, i64)],
) -> Result<Vec<EndedDelivery>, StoreError> {
    if webhooks.is_some_and(<[String]>::is_empty) {
        return Ok(Vec::new());
    }
    let sql = sample_sql(connection.is_postgres(), webhooks.map(<[String]>::len), spans.len());
    let times = spans.iter().flat_map(|(from, to)| [Param::from(*from), Param::from(*to)]);
    let keys = webhooks.unwrap_or_default().iter().map(Param::from);
    let rows = connection.query(&sql, times.chain(keys).collect()).await?;
    let ended = |row: &Row| {
        let span = usize::try_from(row.get::<i64>(0)?).map_err(|_| StoreError::Unexpected("a period"))?;
        Ok(EndedDelivery { span, status: row.parsed(1)?, attempts: row.get(2)?, total_us: row.get(3)? })
    };
    rows.iter().map(ended).collect()
}

/// The statement for [`sample`] of this number of webhooks and of periods, at least one of each. It has the deliveries once, and not once
/// for each period and webhook, because PostgreSQL may plan it again each time.
#[doc(hidden)] // for the suite that checks its plan
pub fn sample_sql(is_postgres: bool, webhooks: Option<usize>, spans: usize) -> String {
    let span = |place: usize| {
        let (from, to) = (2 * place + 1, 2 * place + 2);
        format!("(CAST({place} AS BIGINT), CAST(${from} AS BIGINT), CAST(${to} AS BIGINT))")
    };
    let key = |place: usize| format!("(CAST(${} AS TEXT))", 2 * spans + 1 + place);
    let listed = |items: Vec<String>| items.join(", ");
    let spans =
        format!("span (place, from_ms, to_ms) AS (VALUES {})", listed((0..spans).map(span).collect()));
    let (lists, each) = match webhooks {
        None => (spans, "span"),
        Some(count) => {
            let keys = listed((0..count).map(key).collect());
            let statuses = "ended (status) AS (VALUES ('Succeeded'), ('DeadLetter'))";
            (
                format!("{spans}, hook (webhook) AS (VALUES {keys}), {statuses}"),
                "span CROSS JOIN hook CROSS JOIN ended",
            )
        }
    };
    let in_span = "d.finished_at_ms >= span.from_ms AND d.finished_at_ms < span.to_ms";
    let condition = match webhooks {
        None => in_span.to_owned(),
        // The bounds of the status say nothing new. By them PostgreSQL expects few rows in the index of a webhook's ends, whatever it
        // estimates for the webhook. By time alone, which it may prefer, a webhook with few deliveries would cost the whole period.
        Some(_) => format!(
            "d.webhook = hook.webhook AND d.status = ended.status AND d.status >= ended.status AND d.status <= ended.status AND {in_span}"
        ),
    };
    let last = |columns: &str| {
        format!(
            "SELECT {columns} FROM delivery_history d WHERE {condition} AND {NO_TEST} ORDER BY d.finished_at_ms DESC LIMIT {SAMPLE}"
        )
    };
    // SQLite has no LATERAL.
    let joined = match is_postgres {
        true => {
            format!("LATERAL ({}) AS last", last("d.status, d.attempt_count, d.total_us, d.finished_at_ms"))
        }
        false => format!("delivery_history AS last ON last.rowid IN ({})", last("d.rowid")),
    };
    format!(
        "WITH {lists} SELECT place, status, attempt_count, total_us FROM (SELECT span.place, last.status, last.attempt_count, \
         last.total_us, row_number() OVER (PARTITION BY span.place ORDER BY last.finished_at_ms DESC) AS nth \
         FROM {each} CROSS JOIN {joined}) AS numbered WHERE nth <= {SAMPLE}"
    )
}

/// Deliveries of a webhook that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// The webhook's key.
    pub webhook: String,
    /// Failed (they will be retried) or DeadLetter.
    pub status: Status,
    /// The class of their last attempt's failure.
    pub class: FailureClass,
    /// The number of these deliveries among the deliveries that were read.
    pub count: i64,
    /// The HTTP status, if all these deliveries have the same status.
    pub http_status: Option<i64>,
    /// The cause, if all these deliveries have the same cause.
    pub cause: Option<Cause>,
}

/// How the deliveries to these webhooks (given by key) failed: open dead letters first, then deliveries that will be
/// retried; in each group, the most frequent failure first. It reads the last 500 dead letters of each webhook, and
/// 5,000 deliveries that will be retried.
pub async fn failures(connection: &mut Connection, webhooks: &[String]) -> Result<Vec<Failures>, StoreError> {
    // Failures of other classes have no causes.
    let shown = "d.webhook, d.failure_class, d.http_status, CASE WHEN d.failure_class IN ('TlsUntrusted', 'TlsOther', \
                 'NotHttp', 'Redirect') THEN (SELECT a.failure_cause FROM attempt_history a WHERE a.delivery_id = d.id \
                 AND a.failure_class = d.failure_class ORDER BY a.attempt_no DESC LIMIT 1) END AS cause";
    let one = |place: usize| {
        format!(
            "SELECT * FROM (SELECT {shown} FROM delivery_history d \
             WHERE d.webhook = ${place} AND {OPEN} AND d.finished_at_ms IS NOT NULL AND {NO_TEST} \
             ORDER BY d.finished_at_ms DESC LIMIT {MAX_DEAD}) AS last"
        )
    };
    let dead = (1..=SLOTS).map(one).collect::<Vec<_>>().join(" UNION ALL ");
    let retried = format!(
        "SELECT {shown} FROM delivery_queue d WHERE d.status = 'Failed' AND d.webhook IN ({{values}}) \
         AND {NO_TEST} LIMIT {MAX_RETRIED}"
    );
    let mut failures = Vec::new();
    for (status, from) in [(Status::DeadLetter, dead), (Status::Failed, retried)] {
        let sql = format!(
            "SELECT webhook, failure_class, count(*), \
             CASE WHEN count(http_status) = count(*) AND min(http_status) = max(http_status) THEN min(http_status) END, \
             CASE WHEN count(cause) = count(*) AND min(cause) = max(cause) THEN min(cause) END \
             FROM ({from}) AS failed WHERE failure_class IS NOT NULL \
             GROUP BY webhook, failure_class"
        );
        for row in connection.query_in(&sql, Vec::new(), webhooks).await? {
            let class = FailureClass::stored(&row.get::<String>(1)?);
            let (webhook, count) = (row.get(0)?, row.get(2)?);
            let (http_status, cause) = (row.get(3)?, row.known(4)?);
            failures.push(Failures { webhook, status, class, count, http_status, cause });
        }
    }
    failures
        .sort_by_key(|failures| (failures.status != Status::DeadLetter, std::cmp::Reverse(failures.count)));
    Ok(failures)
}

/// The last failure of a webhook's deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// The webhook's key.
    pub webhook: String,
    /// The delivery: an open dead letter if there is any, else a delivery that will be retried.
    pub id: String,
    /// The first 200 characters of the response to its last attempt; `None`: there was no response, or it had no body.
    pub response: Option<String>,
    /// When the first open dead letter ended, or the first delivery that will be retried was queued, in milliseconds
    /// since 1970.
    pub since_ms: i64,
    /// When the first delivery that will be retried is due, in milliseconds since 1970; `None`: it is a dead letter.
    pub next_attempt_at_ms: Option<i64>,
    /// When its last attempt began, in milliseconds since 1970; `None`: it failed without an attempt.
    pub attempted_at_ms: Option<i64>,
}

/// The last failure of each of these webhooks (given by key) whose deliveries fail. Of the deliveries that will be
/// retried, it reads 500 for each webhook.
pub async fn last_failures(
    connection: &mut Connection,
    webhooks: &[String],
) -> Result<Vec<LastFailure>, StoreError> {
    let said = "(SELECT substr(a.response_body, 1, 200) FROM attempt_history a WHERE a.delivery_id = last.id \
                ORDER BY a.attempt_no DESC LIMIT 1)";
    let attempted = "(SELECT a.started_at_ms FROM attempt_history a WHERE a.delivery_id = last.id \
                     ORDER BY a.attempt_no DESC LIMIT 1)";
    let dead = |place: usize| {
        format!(
            "SELECT last.webhook, last.id, {said}, (SELECT d.finished_at_ms FROM delivery_history d \
             WHERE d.webhook = ${place} AND {OPEN} AND d.finished_at_ms IS NOT NULL AND {NO_TEST} \
             ORDER BY d.finished_at_ms LIMIT 1), CAST(NULL AS BIGINT), {attempted} \
             FROM (SELECT d.webhook, d.id FROM delivery_history d WHERE d.webhook = ${place} AND {OPEN} \
             AND d.finished_at_ms IS NOT NULL AND {NO_TEST} ORDER BY d.finished_at_ms DESC LIMIT 1) AS last"
        )
    };
    let retried = |place: usize| {
        format!(
            "SELECT last.webhook, last.id, {said}, last.since, last.due, {attempted} FROM (SELECT min(few.webhook) AS webhook, \
             max(few.id) AS id, min(few.created_at_ms) AS since, min(few.due_at_ms) AS due FROM (SELECT d.webhook, d.id, \
             d.created_at_ms, d.due_at_ms FROM delivery_queue d WHERE d.status = 'Failed' AND d.webhook = ${place} \
             AND {NO_TEST} LIMIT 500) AS few) AS last WHERE last.id IS NOT NULL"
        )
    };
    let union = |one: &dyn Fn(usize) -> String| (1..=SLOTS).map(one).collect::<Vec<_>>().join(" UNION ALL ");
    let mut failures: Vec<LastFailure> = Vec::new();
    for sql in [union(&dead), union(&retried)] {
        for row in connection.query_in(&sql, Vec::new(), webhooks).await? {
            let (webhook, id, since_ms) = (row.get::<String>(0)?, row.get(1)?, row.get(3)?);
            let (next_attempt_at_ms, attempted_at_ms) = (row.get(4)?, row.get(5)?);
            let response = row.get::<Option<String>>(2)?.filter(|text| !text.trim().is_empty());
            // A dead letter comes first.
            if failures.iter().all(|other| other.webhook != webhook) {
                failures.push(LastFailure {
                    webhook,
                    id,
                    response,
                    since_ms,
                    next_attempt_at_ms,
                    attempted_at_ms,
                });
            }
        }
    }
    Ok(failures)
}

/// The first 200 characters of the response to the last failed attempt of each of these deliveries, by the delivery's id. A delivery
/// is missing if that attempt had no response, or a response without a body.
pub async fn last_responses(
    connection: &mut Connection,
    ids: &[String],
) -> Result<HashMap<String, String>, StoreError> {
    let sql = "SELECT delivery_id, substr(response_body, 1, 200) FROM attempt_history WHERE delivery_id IN ({values}) \
               ORDER BY delivery_id, attempt_no";
    let mut last = HashMap::new();
    for row in connection.query_in(sql, Vec::new(), ids).await? {
        let (id, response): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        match response.filter(|text| !text.trim().is_empty()) {
            Some(text) => last.insert(id, text),
            None => last.remove(&id),
        };
    }
    Ok(last)
}
