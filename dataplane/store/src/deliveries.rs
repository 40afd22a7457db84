//! Deliveries and their attempts.
//!
//! An attempt is counted, with a lease and a fencing token, before its POST, and finished only with that token: so
//! that never more than five reach the wire, and a worker that comes back late changes nothing.

use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, FailureClass, MAX_ATTEMPTS, Next, Outcome, Status};

use super::events::About;
use super::sql::{Param, Row, SLOTS, Search, filled, params, slots};
use super::{Connection, StoreError, Transaction};

/// A delivery to be queued.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The event it carries.
    pub event_id: String,
    /// The webhook's uid.
    pub webhook: String,
    /// `namespace/name` of the webhook, for people.
    pub webhook_name: String,
    /// At most one delivery per webhook and key.
    pub idempotency_key: Option<String>,
    /// The delivery this one repeats.
    pub resend_of: Option<String>,
    /// Who asked for the repetition.
    pub requested_by: Option<String>,
    /// The request for many that this one is a part of.
    pub resend_id: Option<String>,
    /// When its first attempt is due; `None`: at once.
    pub due_at_ms: Option<i64>,
}

/// When to look at a delivery again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The delivery.
    pub id: DeliveryId,
    /// Its webhook's uid.
    pub webhook: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// Queues a delivery. `false`: the webhook has one with this idempotency key already.
pub async fn insert(
    transaction: &mut Transaction,
    new: &NewDelivery,
    now_ms: i64,
) -> Result<bool, StoreError> {
    Ok(!insert_many(transaction, std::slice::from_ref(new), now_ms).await?.is_empty())
}

/// Queues many deliveries; answers the ids of those that were, which are all but those whose idempotency key the
/// webhook has already. Some thousand rows take a fraction of a second.
pub async fn insert_many(
    transaction: &mut Transaction,
    deliveries: &[NewDelivery],
    now_ms: i64,
) -> Result<Vec<DeliveryId>, StoreError> {
    let mut inserted = Vec::with_capacity(deliveries.len());
    for chunk in deliveries.chunks(SLOTS) {
        let params: Vec<Param> = chunk.iter().flat_map(|new| row_of(new, now_ms)).collect();
        let places: Vec<String> = (1..=params.len()).map(|number| format!("${number}")).collect();
        let rows: Vec<String> =
            places.chunks(COLUMNS).map(|places| format!("({})", places.join(", "))).collect();
        let sql = format!(
            "INSERT INTO delivery (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, \
             idempotency_key, resend_of, requested_by, resend_id, created_at_ms) \
             VALUES {} ON CONFLICT DO NOTHING RETURNING id",
            rows.join(", ")
        );
        for row in transaction.query(&sql, params).await? {
            inserted.push(row.parsed(0)?);
        }
    }
    Ok(inserted)
}

/// Of [`row_of`].
const COLUMNS: usize = 12;

fn row_of(new: &NewDelivery, now_ms: i64) -> [Param; COLUMNS] {
    [
        new.id.to_string().into(),
        (&new.event_id).into(),
        (&new.webhook).into(),
        (&new.webhook_name).into(),
        Status::Pending.as_str().into(),
        0_i64.into(),
        new.due_at_ms.unwrap_or(now_ms).into(),
        new.idempotency_key.as_ref().into(),
        new.resend_of.as_ref().into(),
        new.requested_by.as_ref().into(),
        new.resend_id.as_ref().into(),
        now_ms.into(),
    ]
}

/// Whether the webhook has an unfinished delivery of this event.
pub async fn is_under_way(
    connection: &mut Connection,
    event_id: &str,
    webhook: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM delivery WHERE event_id = $1 AND webhook = $2 AND status IN ('Pending', 'Failed') LIMIT 1";
    Ok(connection.query_opt(sql, params![event_id, webhook]).await?.is_some())
}

/// When to look at the webhook's delivery with this idempotency key. `None`: there is none, or it is done.
pub async fn due_by_key(
    connection: &mut Connection,
    webhook: &str,
    idempotency_key: &str,
) -> Result<Option<Due>, StoreError> {
    let sql = "SELECT id, webhook, due_at_ms FROM delivery WHERE webhook = $1 AND idempotency_key = $2 \
               AND status IN ('Pending', 'Failed')";
    connection.query_opt(sql, params![webhook, idempotency_key]).await?.as_ref().map(due).transpose()
}

fn due(row: &Row) -> Result<Due, StoreError> {
    Ok(Due { id: row.parsed(0)?, webhook: row.get(1)?, at_ms: row.get(2)? })
}

/// A page of what is still to be done, in the order of its time. `after` is the last row of the page before.
pub async fn unfinished(
    connection: &mut Connection,
    after: Option<&Due>,
    limit: i64,
) -> Result<Vec<Due>, StoreError> {
    let sql = "SELECT id, webhook, due_at_ms FROM delivery WHERE status IN ('Pending', 'Failed') \
               AND (due_at_ms, id) > ($1, $2) ORDER BY due_at_ms, id LIMIT $3";
    let (at_ms, id) = after.map_or((i64::MIN, String::new()), |due| (due.at_ms, due.id.to_string()));
    let rows = connection.query(sql, params![at_ms, id, limit]).await?;
    rows.iter().map(due).collect()
}

/// An attempt that has been counted and may now be made.
#[derive(Debug, Clone)]
pub struct Started {
    /// The delivery.
    pub id: DeliveryId,
    /// Its event.
    pub event_id: String,
    /// Its webhook's uid.
    pub webhook: String,
    /// Which attempt this is, 1 to 5.
    pub attempt: u32,
}

/// Counts one attempt of each of these deliveries that is due and that nobody else is attempting, and leases it to
/// `token` until `lease_until_ms`. What is missing from the answer was finished, taken or not due: the index was stale.
///
/// An earlier attempt that never ended is noted as [`FailureClass::WorkerLost`]; answers also how many were.
pub async fn begin_attempts(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    token: &str,
    now_ms: i64,
    lease_until_ms: i64,
) -> Result<(Vec<Started>, u64), StoreError> {
    let claim = format!(
        "UPDATE delivery SET attempt_count = attempt_count + 1, lease_token = $1, lease_until_ms = $2, \
         status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE 'Failed' END \
         WHERE status IN ('Pending', 'Failed') AND attempt_count < {MAX_ATTEMPTS} AND due_at_ms <= $3 \
         AND (lease_until_ms IS NULL OR lease_until_ms <= $3) AND id IN ({}) \
         RETURNING id, event_id, webhook, attempt_count",
        slots(4)
    );
    let mut started = Vec::new();
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![token, lease_until_ms, now_ms];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        for row in transaction.query(&claim, params).await? {
            let attempt = row.get::<i64>(3)?;
            started.push(Started {
                id: row.parsed(0)?,
                event_id: row.get(1)?,
                webhook: row.get(2)?,
                attempt: u32::try_from(attempt).map_err(|_| StoreError::Unexpected("attempt_count"))?,
            });
        }
    }
    let mut lost = 0;
    for Started { id, attempt, .. } in &started {
        if *attempt > 1 {
            lost += note_lost_attempt(transaction, *id, now_ms).await?;
        }
        let sql = "INSERT INTO attempt (delivery_id, attempt_no, started_at_ms) VALUES ($1, $2, $3)";
        transaction.execute(sql, params![id.to_string(), *attempt, now_ms]).await?;
    }
    Ok((started, lost))
}

async fn note_lost_attempt(
    transaction: &mut Transaction,
    id: DeliveryId,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let sql = "UPDATE attempt SET finished_at_ms = $1, failure_class = $2 \
               WHERE delivery_id = $3 AND finished_at_ms IS NULL";
    let params = params![now_ms, FailureClass::WorkerLost.as_str(), id.to_string()];
    transaction.execute(sql, params).await
}

/// A fifth attempt that did not tell its end is lost when its lease has been over for so long, in milliseconds. A
/// worker that could not reach the database tries for five minutes to store the end, which is the truth; nobody waits for
/// anything else.
pub const LATE_END_MS: i64 = 330_000;

/// When to look again at deliveries that could not be had: the end of somebody's lease, or the row's own due time; of
/// a fifth attempt when it is lost. One that is missing from the answer is done.
pub async fn due_again(connection: &mut Connection, ids: &[DeliveryId]) -> Result<Vec<Due>, StoreError> {
    let sql = format!(
        "SELECT id, webhook, due_at_ms, lease_until_ms, attempt_count FROM delivery \
         WHERE status IN ('Pending', 'Failed') AND id IN ({})",
        slots(1)
    );
    let mut dues = Vec::new();
    for chunk in ids.chunks(SLOTS) {
        for row in connection.query(&sql, filled(chunk.iter().map(|id| id.to_string().into()))).await? {
            let (due, lease): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
            let late = if row.get::<i64>(4)? < i64::from(MAX_ATTEMPTS) { 0 } else { LATE_END_MS };
            let at_ms = lease.map_or(due, |until_ms| until_ms + late).max(due);
            dues.push(Due { id: row.parsed(0)?, webhook: row.get(1)?, at_ms });
        }
    }
    Ok(dues)
}

/// Keeps the lease of the attempts that run under `token`.
pub async fn renew(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    token: &str,
    lease_until_ms: i64,
) -> Result<(), StoreError> {
    let sql =
        format!("UPDATE delivery SET lease_until_ms = $1 WHERE lease_token = $2 AND id IN ({})", slots(3));
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![lease_until_ms, token];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        transaction.execute(&sql, params).await?;
    }
    Ok(())
}

/// Ends the leases of a process that is known to be dead, so that its attempts are taken over at once. Only for a
/// database that no other process delivers from. Writes nothing if there are none.
pub async fn release_leases(transaction: &mut Transaction, now_ms: i64) -> Result<u64, StoreError> {
    let sql = "UPDATE delivery SET lease_until_ms = $1 WHERE status IN ('Pending', 'Failed') AND lease_until_ms > $1";
    transaction.execute(sql, params![now_ms]).await
}

/// Stores how an attempt ended and what the delivery is now. `false`: the lease was lost, somebody else has the
/// delivery, and nothing was changed. Stored already, by a commit whose answer did not come, is stored.
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

/// Whether an attempt has this end already. A lost one has another: only we know how ours ended.
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

/// Ends those of these deliveries that were made at `made_ms` or before without a further attempt: their webhook is gone.
/// An attempt that was cut off is noted as [`FailureClass::WorkerLost`].
pub async fn end_without_webhook(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    made_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let sql = format!(
        "UPDATE delivery SET status = 'DeadLetter', failure_class = $1, finished_at_ms = $2, lease_token = NULL, \
         lease_until_ms = NULL, http_status = NULL, response_body = NULL WHERE status IN ('Pending', 'Failed') \
         AND (lease_until_ms IS NULL OR lease_until_ms <= $3) AND created_at_ms <= $4 AND id IN ({}) \
         RETURNING id, attempt_count",
        slots(5)
    );
    let mut ended = 0;
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![FailureClass::WebhookGone.as_str(), now_ms, now_ms, made_ms];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        for row in transaction.query(&sql, params).await? {
            ended += 1;
            if row.get::<i64>(1)? > 0 {
                note_lost_attempt(transaction, row.parsed(0)?, now_ms).await?;
            }
        }
    }
    Ok(ended)
}

/// Ends deliveries whose fifth attempt was cut off and whose lease was over at `over_ms`: there is no sixth to tell how
/// it went. See [`LATE_END_MS`].
pub async fn end_lost_fifths(
    transaction: &mut Transaction,
    over_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let sql = "SELECT id FROM delivery WHERE status IN ('Pending', 'Failed') AND attempt_count >= $1 \
               AND lease_until_ms <= $2";
    let rows = transaction.query(sql, params![MAX_ATTEMPTS, over_ms]).await?;
    let ids = rows.iter().map(|row| row.parsed(0)).collect::<Result<Vec<_>, _>>()?;
    end_lost_fifths_of(transaction, &ids, over_ms, now_ms).await
}

/// The same of these deliveries.
pub async fn end_lost_fifths_of(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    over_ms: i64,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let sql = format!(
        "UPDATE delivery SET status = 'DeadLetter', failure_class = $1, finished_at_ms = $2, lease_token = NULL, \
         lease_until_ms = NULL, http_status = NULL, response_body = NULL WHERE status IN ('Pending', 'Failed') \
         AND attempt_count >= $3 AND lease_until_ms <= $4 AND id IN ({}) RETURNING id",
        slots(5)
    );
    let mut ended = 0;
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![FailureClass::WorkerLost.as_str(), now_ms, MAX_ATTEMPTS, over_ms];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        for row in transaction.query(&sql, params).await? {
            ended += 1;
            note_lost_attempt(transaction, row.parsed(0)?, now_ms).await?;
        }
    }
    Ok(ended)
}

/// A delivery with its event, without its payload: what the logs and the CLI list.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct Listed {
    pub id: String,
    pub event_id: String,
    pub event_code: EventCode,
    pub about: About,
    pub customer_code: String,
    pub webhook: String,
    pub webhook_name: String,
    pub status: Status,
    pub attempt_count: i64,
    pub due_at_ms: i64,
    pub failure_class: Option<FailureClass>,
    pub http_status: Option<i64>,
    pub idempotency_key: Option<String>,
    pub resend_of: Option<String>,
    pub requested_by: Option<String>,
    pub resend_id: Option<String>,
    pub created_at_ms: i64,
    pub finished_at_ms: Option<i64>,
}

const LISTED: &str = "SELECT d.id, d.event_id, e.code, e.web_order_id, e.work_order, e.invoice_number, \
                      e.customer_code, d.webhook, d.webhook_name, d.status, d.attempt_count, d.due_at_ms, \
                      d.failure_class, d.http_status, d.idempotency_key, d.resend_of, d.requested_by, d.resend_id, \
                      d.created_at_ms, d.finished_at_ms FROM delivery d JOIN event e ON e.id = d.event_id";

fn listed(row: &Row) -> Result<Listed, StoreError> {
    let class = row.get::<Option<String>>(12)?.map(|word| word.parse()).transpose();
    Ok(Listed {
        id: row.get(0)?,
        event_id: row.get(1)?,
        event_code: row.parsed(2)?,
        about: About { web_order_id: row.get(3)?, work_order: row.get(4)?, invoice_number: row.get(5)? },
        customer_code: row.get(6)?,
        webhook: row.get(7)?,
        webhook_name: row.get(8)?,
        status: row.parsed(9)?,
        attempt_count: row.get(10)?,
        due_at_ms: row.get(11)?,
        failure_class: class.map_err(|_| StoreError::Unexpected("failure_class"))?,
        http_status: row.get(13)?,
        idempotency_key: row.get(14)?,
        resend_of: row.get(15)?,
        requested_by: row.get(16)?,
        resend_id: row.get(17)?,
        created_at_ms: row.get(18)?,
        finished_at_ms: row.get(19)?,
    })
}

/// What a search asks for; times are inclusive at the start and exclusive at the end.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// In this status only.
    pub status: Option<Status>,
    /// To this webhook only: its uid, or `namespace/name`.
    pub webhook: Option<String>,
    /// Of this event only.
    pub event_code: Option<EventCode>,
    /// Whose last attempt failed like this.
    pub failure_class: Option<FailureClass>,
    /// Created at or after.
    pub from_ms: Option<i64>,
    /// Created before.
    pub to_ms: Option<i64>,
    /// About this web order, or what an export made of it.
    pub web_order_id: Option<String>,
    /// About this work order, or the export that made it.
    pub work_order: Option<String>,
    /// About this invoice.
    pub invoice_number: Option<String>,
    /// About a web order, a work order or an invoice of this number.
    pub about: Option<String>,
    /// After this delivery, in the order of the search: the `created_at_ms` and id of the last one seen.
    pub after: Option<(i64, String)>,
}

/// The newest `limit` deliveries that match, newest first; stable while others are queued.
pub async fn search(
    connection: &mut Connection,
    filter: &DeliveryFilter,
    limit: i64,
) -> Result<Vec<Listed>, StoreError> {
    let DeliveryFilter { status, webhook, event_code, failure_class, from_ms, to_ms, .. } = filter;
    let DeliveryFilter { web_order_id, work_order, invoice_number, about, after, .. } = filter;
    let mut search = Search::new(LISTED);
    search.and_some("d.status = $1", status.map(Status::as_str));
    if let Some(webhook) = webhook {
        search.and("(d.webhook = $1 OR d.webhook_name = $1)", [webhook.into()]);
    }
    search.and_some("e.code = $1", event_code.map(EventCode::as_str));
    search.and_some("d.failure_class = $1", failure_class.map(FailureClass::as_str));
    search.and_some("d.created_at_ms >= $1", *from_ms);
    search.and_some("d.created_at_ms < $1", *to_ms);
    search.and_some("e.web_order_id = $1", web_order_id.as_ref());
    if let Some(number) = work_order {
        // An export is about all work orders it made.
        let condition = "(e.work_order = $1 OR (e.code = 'order.exported' AND e.web_order_id = \
                         (SELECT w.web_order_id FROM work_order w WHERE w.number = $1)))";
        search.and(condition, [number.into()]);
    }
    search.and_some("e.invoice_number = $1", invoice_number.as_ref());
    if let Some(number) = about {
        let condition = "(e.web_order_id = $1 OR e.work_order = $1 OR e.invoice_number = $1 OR \
                         (e.code = 'order.exported' AND e.web_order_id = \
                         (SELECT w.web_order_id FROM work_order w WHERE w.number = $1)))";
        search.and(condition, [number.into()]);
    }
    if let Some((created_at_ms, id)) = after {
        search.and("(d.created_at_ms, d.id) < ($1, $2)", [(*created_at_ms).into(), id.into()]);
    }
    let (sql, params) = search.end("ORDER BY d.created_at_ms DESC, d.id DESC LIMIT $1", [limit.into()]);
    connection.query(&sql, params).await?.iter().map(listed).collect()
}

/// One delivery.
pub async fn find(connection: &mut Connection, id: DeliveryId) -> Result<Option<Listed>, StoreError> {
    let sql = format!("{LISTED} WHERE d.id = $1");
    connection.query_opt(&sql, params![id.to_string()]).await?.as_ref().map(listed).transpose()
}

/// One attempt, as it is stored: `…_ms` in milliseconds since 1970, `…_us` in microseconds.
#[derive(Clone)]
#[expect(
    missing_docs,
    missing_debug_implementations,
    reason = "the columns of the table; the answer does not print"
)]
pub struct StoredAttempt {
    pub number: i64,
    pub started_at_ms: i64,
    pub finished_at_ms: Option<i64>,
    pub failure_class: Option<FailureClass>,
    pub http_status: Option<i64>,
    pub remote_address: Option<String>,
    pub response_body: Option<String>,
    pub dns_us: Option<i64>,
    pub connect_us: Option<i64>,
    pub tls_us: Option<i64>,
    pub first_byte_us: Option<i64>,
    pub total_us: Option<i64>,
}

/// The attempts of a delivery, first to last.
pub async fn attempts(connection: &mut Connection, id: DeliveryId) -> Result<Vec<StoredAttempt>, StoreError> {
    let sql = "SELECT attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, remote_address, \
               response_body, dns_us, connect_us, tls_us, first_byte_us, total_us \
               FROM attempt WHERE delivery_id = $1 ORDER BY attempt_no";
    let rows = connection.query(sql, params![id.to_string()]).await?;
    rows.iter()
        .map(|row| {
            let class = row.get::<Option<String>>(3)?.map(|word| word.parse()).transpose();
            Ok(StoredAttempt {
                number: row.get(0)?,
                started_at_ms: row.get(1)?,
                finished_at_ms: row.get(2)?,
                failure_class: class.map_err(|_| StoreError::Unexpected("failure_class"))?,
                http_status: row.get(4)?,
                remote_address: row.get(5)?,
                response_body: row.get(6)?,
                dns_us: row.get(7)?,
                connect_us: row.get(8)?,
                tls_us: row.get(9)?,
                first_byte_us: row.get(10)?,
                total_us: row.get(11)?,
            })
        })
        .collect()
}
