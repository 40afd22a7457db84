//! Finds deliveries, and reads one with its attempts: for the webhook logs and the command line.

mod rare;

use std::collections::HashMap;

use docket_crds::{EventCode, webhook_key};
use docket_domain::delivery::{DeadLetter, DeliveryId, DeliveryKind, FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use docket_program::clock::Clock;

use super::history::WITH_WEBHOOKS;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::events::{About, IS_TEST};
use crate::marks;
use crate::sql::{Row, Search, ending, params, read};
use crate::walk::{Page, RowPosition, Walk};

/// A delivery and its event, without the payload, as the logs and the CLI list it.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct ListedDelivery {
    pub id: String,
    pub event_id: String,
    /// The event's code, also a code that only a newer version knows; empty if no header can carry it.
    pub event_code: String,
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
    pub is_test: bool,
    /// Whether it is a dead letter that was resent, so that a later delivery counts instead.
    pub resent: bool,
    /// Who set the dead letter aside, and when.
    pub set_aside: Option<(String, i64)>,
    /// `None` also for a cause that only a newer program knows: then the class says enough.
    pub failure_cause: Option<Cause>,
    pub failure_detail: Option<String>,
}

impl ListedDelivery {
    /// The failure of the last attempt; `None`: no attempt has failed, or the delivery succeeded later.
    pub fn failure(&self) -> Option<Failure<'_>> {
        let class = self.failure_class.filter(|_| self.status != Status::Succeeded)?;
        Some(failure(class, self.failure_cause, self.http_status, self.failure_detail.as_deref()))
    }
}

fn failure(
    class: FailureClass,
    cause: Option<Cause>,
    http_status: Option<i64>,
    detail: Option<&str>,
) -> Failure<'_> {
    Failure { class, cause, http_status: http_status.and_then(|status| u16::try_from(status).ok()), detail }
}

const LISTED: &str = "SELECT d.id, d.event_id, e.code, e.web_order_id, e.work_order, e.invoice_number, \
                      e.customer_code, d.webhook, d.webhook_name, d.status, d.attempt_count, d.due_at_ms, \
                      d.failure_class, d.http_status, d.idempotency_key, d.resend_of, d.requested_by, d.resend_id, \
                      d.created_at_ms, d.finished_at_ms, EXISTS (SELECT 1 FROM test_event t WHERE t.id = e.id), \
                      coalesce(d.resent, FALSE), d.set_aside_by, d.set_aside_at_ms, \
                      (SELECT a.failure_cause FROM attempt_history a WHERE a.delivery_id = d.id \
                       AND a.failure_class = d.failure_class ORDER BY a.attempt_no DESC LIMIT 1), \
                      (SELECT a.failure_detail FROM attempt_history a WHERE a.delivery_id = d.id \
                       AND a.failure_class = d.failure_class ORDER BY a.attempt_no DESC LIMIT 1)";
const ALL: &str = "delivery";
const HISTORY: &str = "delivery_history";
/// The unfinished deliveries, with the columns of the history.
const QUEUED: &str = "(SELECT q.*, CAST(NULL AS BIGINT) AS finished_at_ms, CAST(NULL AS BOOLEAN) AS resent, \
                      CAST(NULL AS TEXT) AS set_aside_by, CAST(NULL AS BIGINT) AS set_aside_at_ms FROM delivery_unfinished q)";

/// The columns of a delivery in either table, before it is joined with its event.
const COLUMNS: &str = "d.id, d.event_id, d.webhook, d.webhook_name, d.status, d.attempt_count, d.due_at_ms, d.failure_class, \
                       d.http_status, d.idempotency_key, d.resend_of, d.requested_by, d.resend_id, d.created_at_ms, \
                       d.finished_at_ms, d.resent, d.set_aside_by, d.set_aside_at_ms";
const JOINED: &str = "d JOIN event e ON e.id = d.event_id";

/// The keys in the history of the webhooks with this `namespace/name`, one for each customer; also their uids, which
/// older rows have.
pub(crate) async fn named(connection: &mut Connection, full_name: &str) -> Result<Vec<String>, StoreError> {
    // All deliveries to one webhook have the same name.
    let sql = format!(
        "{WITH_WEBHOOKS} SELECT webhook FROM hook WHERE $1 = (SELECT h.webhook_name FROM delivery_history h \
         WHERE h.webhook >= hook.webhook ORDER BY h.webhook LIMIT 1)"
    );
    connection.column(&sql, params![full_name]).await
}

/// The largest number of webhooks of one customer whose deliveries are searched for one webhook after the other.
const MOST_OF_CUSTOMER: usize = 30;
/// The condition that a delivery may be to a webhook of the customer whose [`suffix`] is `$1`. A row from before keys has a uid,
/// which names no customer.
const MAY_BE_OF_CUSTOMER: &str = "(d.webhook LIKE $1 ESCAPE '\\' OR d.webhook NOT LIKE '%/%/%')";

/// The condition that an event is about the export that created the work order `$1`. Such an event is about all work orders of the export.
const IS_ITS_EXPORT: &str = "(e.code = 'order.exported' AND e.web_order_id = \
                             (SELECT w.web_order_id FROM work_order w WHERE w.number = $1))";

/// The pattern for the keys of this customer's webhooks.
fn suffix(customer_code: &str) -> String {
    ending(&format!("/{customer_code}"))
}

/// The keys of this customer's webhooks in the history, and all uids there, because older rows have a uid in place of a key. `None`: there
/// are more than [`MOST_OF_CUSTOMER`].
async fn of_customer(
    connection: &mut Connection,
    customer_code: &str,
) -> Result<Option<Vec<String>>, StoreError> {
    let most = MOST_OF_CUSTOMER + 1;
    let sql = format!("{WITH_WEBHOOKS} SELECT d.webhook FROM hook d WHERE {MAY_BE_OF_CUSTOMER} LIMIT {most}");
    let mut keys: Vec<String> = connection.column(&sql, params![suffix(customer_code)]).await?;
    if keys.len() > MOST_OF_CUSTOMER {
        return Ok(None);
    }
    // SQLite's LIKE takes capital and small letters for the same.
    keys.retain(|key| webhook_key::customer_code(key).is_none_or(|own| own == customer_code));
    Ok(Some(keys))
}

/// Whether there is a delivery to a webhook with this `namespace/name`; with a customer, only to one of this customer.
pub async fn has_webhook(
    connection: &mut Connection,
    full_name: &str,
    customer_code: Option<&str>,
) -> Result<bool, StoreError> {
    let mut keys = named(connection, full_name).await?;
    let queued = "SELECT DISTINCT webhook FROM delivery_unfinished WHERE webhook_name = $1";
    keys.extend(connection.column::<String>(queued, params![full_name]).await?);
    let is_its =
        |key: &String| customer_code.is_none_or(|customer| webhook_key::customer_code(key) == Some(customer));
    Ok(keys.iter().any(is_its))
}

/// The SELECT of deliveries `from` a table or view.
fn select(from: &str) -> String {
    format!("{LISTED} FROM {from} {JOINED}")
}

/// The table or view with the deliveries in this status.
fn table(status: Option<Status>) -> &'static str {
    match status {
        None => ALL,
        Some(Status::Pending | Status::Failed) => QUEUED,
        Some(Status::Succeeded | Status::DeadLetter) => HISTORY,
    }
}

fn listed(row: &Row) -> Result<ListedDelivery, StoreError> {
    let (customer_code, webhook, webhook_name): (String, String, String) =
        (row.get(6)?, row.get(7)?, row.get(8)?);
    // An older row has the webhook's uid in place of its key.
    let is_key = webhook_key::full_name(&webhook).is_some();
    let webhook = if is_key { webhook } else { webhook_key::of(&webhook_name, &customer_code) };
    Ok(ListedDelivery {
        id: row.get(0)?,
        event_id: row.event_id(1)?,
        event_code: row.event_id(2)?,
        about: About { web_order_id: row.get(3)?, work_order: row.get(4)?, invoice_number: row.get(5)? },
        customer_code,
        webhook,
        webhook_name,
        status: row.parsed(9)?,
        attempt_count: row.get(10)?,
        due_at_ms: row.get(11)?,
        failure_class: row.class(12)?,
        http_status: row.get(13)?,
        idempotency_key: row.get(14)?,
        resend_of: row.get(15)?,
        requested_by: row.get(16)?,
        resend_id: row.get(17)?,
        created_at_ms: row.get(18)?,
        finished_at_ms: row.get(19)?,
        is_test: row.get(20)?,
        resent: row.get(21)?,
        set_aside: row.get::<Option<String>>(22)?.zip(row.get(23)?),
        failure_cause: row.known(24)?,
        failure_detail: row.get(25)?,
    })
}

/// The conditions of a search. Times are inclusive at the start and exclusive at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only deliveries in this status.
    pub status: Option<Status>,
    /// Only dead letters in this state.
    pub dead_letter: Option<DeadLetter>,
    /// Only deliveries whose last attempt failed: those that are tried again, and all dead letters.
    pub is_failed: bool,
    /// Only deliveries to this webhook: its key, or its `namespace/name` for deliveries of every customer.
    pub webhook: Option<String>,
    /// Only deliveries of this event code.
    pub event_code: Option<EventCode>,
    /// Only deliveries whose last attempt failed in this way.
    pub failure_class: Option<FailureClass>,
    /// Only deliveries whose last attempt got this HTTP status.
    pub http_status: Option<i64>,
    /// Only this delivery.
    pub id: Option<DeliveryId>,
    /// Only deliveries of the event with this id.
    pub event_id: Option<String>,
    /// Only deliveries that the bulk resend with this id has queued.
    pub resend_id: Option<String>,
    /// Created at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Created before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// About this web order, or about a work order that an export made of it.
    pub web_order_id: Option<String>,
    /// About this work order, or about the export that created it.
    pub work_order: Option<String>,
    /// About this invoice.
    pub invoice_number: Option<String>,
    /// About a web order, work order or invoice with this number.
    pub about: Option<String>,
    /// Only deliveries of this customer's events.
    pub customer_code: Option<String>,
    /// Only deliveries of this kind.
    pub kind: Option<DeliveryKind>,
    /// After this delivery, in the order of the search.
    pub after: Option<RowPosition>,
}

/// The newest matching deliveries, at most `page_size`, newest first. New deliveries do not change the pages.
pub async fn search(
    connection: &mut Connection,
    clock: &Clock,
    filter: &DeliveryFilter,
    page_size: i64,
) -> Result<Page<ListedDelivery>, StoreError> {
    let (is_indexed, rare_first, after) = (filter.is_indexed(), filter.is_rare(), filter.after.as_ref());
    let rare = if is_indexed { Vec::new() } else { filter.rare(connection).await? };
    let walk = Walk { table: "d", page_size, after, is_indexed, rare, rare_first };
    let table = table(filter.status());
    let rows = || filter.in_time(Search::new(&format!("SELECT d.created_at_ms, d.id FROM {table} d")));
    let matching = |few: Option<Search>| {
        filter.matching(filter.in_time(match few {
            Some(few) => few.within(&format!("{LISTED} FROM"), JOINED),
            None => Search::new(&select(table)),
        }))
    };
    let place_of = |listed: &ListedDelivery| (listed.created_at_ms, listed.id.clone());
    walk.page(connection, clock, rows, matching, listed, place_of).await
}

impl DeliveryFilter {
    /// The status that all matching deliveries have; `None`: their statuses differ.
    fn status(&self) -> Option<Status> {
        self.status.or(self.dead_letter.map(|_| Status::DeadLetter))
    }

    /// Whether an index finds what matches, or everything of the time matches.
    fn is_indexed(&self) -> bool {
        let Self { id, web_order_id, work_order, invoice_number, about, .. } = self;
        let numbers = [web_order_id, work_order, invoice_number, about];
        let after = self.after.clone();
        let of_time = Self { from_ms: self.from_ms, to_ms: self.to_ms, after, ..Self::default() };
        id.is_some() || numbers.into_iter().any(Option::is_some) || *self == of_time
    }

    /// Whether the filter has a value that is nearly always rare.
    fn is_rare(&self) -> bool {
        let is_dead = self.status() == Some(Status::DeadLetter);
        is_dead || self.is_failed || self.event_id.is_some() || self.resend_id.is_some()
    }

    fn in_time(&self, mut search: Search) -> Search {
        search.and_some("d.created_at_ms >= $1", self.from_ms);
        search.and_some("d.created_at_ms < $1", self.to_ms);
        search
    }

    fn matching(&self, mut search: Search) -> Search {
        let Self { status, webhook, event_code, failure_class, .. } = self;
        search.and_some("d.status = $1", status.map(Status::as_str));
        if let Some(which) = self.dead_letter {
            search.and(marks::condition(which), []);
        }
        if self.is_failed {
            search.and("d.status IN ('Failed', 'DeadLetter')", []);
        }
        if let Some(webhook) = webhook {
            search.and("(d.webhook = $1 OR d.webhook_name = $1)", [webhook.into()]);
        }
        if let Some(customer) = &self.customer_code {
            // The first condition needs no event, so most deliveries of others are passed over before events are joined.
            search.and(MAY_BE_OF_CUSTOMER, [suffix(customer).into()]);
            search.and("e.customer_code = $1", [customer.into()]);
        }
        match self.kind {
            Some(DeliveryKind::First) => {
                search.and(&format!("d.resend_of IS NULL AND NOT {IS_TEST}"), []);
            }
            Some(DeliveryKind::Resend) => search.and("d.resend_of IS NOT NULL", []),
            Some(DeliveryKind::Test) => search.and(IS_TEST, []),
            None => {}
        }
        search.and_some("e.code = $1", event_code.map(EventCode::as_str));
        search.and_some("d.failure_class = $1", failure_class.map(FailureClass::as_str));
        search.and_some("d.http_status = $1", self.http_status);
        search.and_some("d.id = $1", self.id.map(|id| id.to_string()));
        search.and_some("d.event_id = $1", self.event_id.as_ref());
        search.and_some("d.resend_id = $1", self.resend_id.as_ref());
        search.and_some("e.web_order_id = $1", self.web_order_id.as_ref());
        if let Some(number) = &self.work_order {
            search.and(&format!("(e.work_order = $1 OR {IS_ITS_EXPORT})"), [number.into()]);
        }
        search.and_some("e.invoice_number = $1", self.invoice_number.as_ref());
        if let Some(number) = &self.about {
            let is_number = "e.web_order_id = $1 OR e.work_order = $1 OR e.invoice_number = $1";
            search.and(&format!("({is_number} OR {IS_ITS_EXPORT})"), [number.into()]);
        }
        search
    }
}

/// Reads one delivery.
pub async fn find(connection: &mut Connection, id: DeliveryId) -> Result<Option<ListedDelivery>, StoreError> {
    let sql = format!("{} WHERE d.id = $1", select(ALL));
    connection.query_opt(&sql, params![id.to_string()]).await?.as_ref().map(listed).transpose()
}

/// The largest number of deliveries that [`later`] returns.
const MAX_LATER: i64 = 20;

/// The later deliveries of the same event to the same webhook, newest first, at most 20: resends of the delivery, and
/// resends of resends.
pub async fn later(
    connection: &mut Connection,
    listed: &ListedDelivery,
) -> Result<Vec<ListedDelivery>, StoreError> {
    // Found by the webhook's name, because older rows have its uid. The name is enough, because an event belongs to
    // one customer.
    let sql = format!(
        "{} WHERE d.event_id = $1 AND d.webhook_name = $2 AND (d.created_at_ms, d.id) > ($3, $4) \
         ORDER BY d.created_at_ms DESC, d.id DESC LIMIT {MAX_LATER}",
        select(ALL)
    );
    let ListedDelivery { event_id, webhook_name, created_at_ms, id, .. } = listed;
    let rows = connection.query(&sql, params![event_id, webhook_name, *created_at_ms, id]).await?;
    rows.iter().map(self::listed).collect()
}

/// The newest deliveries of test events to this webhook (given by key), at most `limit`, newest first.
pub async fn last_tests(
    connection: &mut Connection,
    webhook: &str,
    limit: i64,
) -> Result<Vec<ListedDelivery>, StoreError> {
    // The id of an event begins with its time.
    let newest = "SELECT id FROM test_event WHERE webhook = $1 ORDER BY id DESC LIMIT $2";
    let events: Vec<String> = connection.column(newest, params![webhook, limit]).await?;
    let sql = format!("{} WHERE d.event_id IN ({{values}})", select(ALL));
    let rows = connection.query_in(&sql, Vec::new(), &events).await?;
    let mut found = rows.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    found.sort_by(|one, other| (other.created_at_ms, &other.id).cmp(&(one.created_at_ms, &one.id)));
    found.truncate(usize::try_from(limit).unwrap_or(0));
    Ok(found)
}

/// How long the last attempt of each of these deliveries took, in microseconds, by the delivery's id. A delivery without an
/// attempt that has ended is missing.
pub async fn last_times(
    connection: &mut Connection,
    ids: &[String],
) -> Result<HashMap<String, i64>, StoreError> {
    let failed = "SELECT delivery_id, total_us FROM attempt_history WHERE total_us IS NOT NULL AND delivery_id IN ({values}) \
                  ORDER BY attempt_no";
    let succeeded =
        "SELECT id, total_us FROM delivery_history WHERE total_us IS NOT NULL AND id IN ({values})";
    let mut times = HashMap::new();
    // Each replaces the time of the attempt before.
    for sql in [failed, succeeded] {
        for row in connection.query_in(sql, Vec::new(), ids).await? {
            times.insert(row.get(0)?, row.get(1)?);
        }
    }
    Ok(times)
}

/// One attempt as it is stored: `…_ms` in milliseconds since 1970, `…_us` in microseconds.
#[derive(Clone)]
#[expect(missing_docs, reason = "the columns of the table; the answer does not print")]
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
    pub failure_cause: Option<Cause>,
    pub failure_detail: Option<String>,
}

impl StoredAttempt {
    /// How the attempt failed; `None`: it did not fail.
    pub fn failure(&self) -> Option<Failure<'_>> {
        let class = self.failure_class?;
        Some(failure(class, self.failure_cause, self.http_status, self.failure_detail.as_deref()))
    }
}

/// Reads one delivery and its attempts, first to last. One statement reads both, so both show the same moment: an
/// attempt that has ended never comes with an older state of the delivery.
pub async fn find_with_attempts(
    connection: &mut Connection,
    id: DeliveryId,
) -> Result<Option<(ListedDelivery, Vec<StoredAttempt>)>, StoreError> {
    let sql = format!(
        "{LISTED}, a.attempt_no, a.started_at_ms, a.finished_at_ms, a.failure_class, a.http_status, a.remote_address, \
         a.response_body, a.dns_us, a.connect_us, a.tls_us, a.first_byte_us, a.total_us, \
         a.failure_cause, a.failure_detail \
         FROM {ALL} {JOINED} LEFT JOIN (SELECT * FROM attempt WHERE delivery_id = $1) a ON TRUE \
         WHERE d.id = $1 ORDER BY a.attempt_no"
    );
    let rows = connection.query(&sql, params![id.to_string()]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let attempts = rows.iter().filter_map(|row| attempt(row).transpose()).collect::<Result<_, _>>()?;
    Ok(Some((listed(first)?, attempts)))
}

/// Reads the attempt in a row; `None`: the delivery has no attempt.
fn attempt(row: &Row) -> Result<Option<StoredAttempt>, StoreError> {
    if row.get::<Option<i64>>(26)?.is_none() {
        return Ok(None);
    }
    Ok(Some(read!(row, 26 => StoredAttempt {
        number, started_at_ms, finished_at_ms, failure_class: class, http_status, remote_address, response_body,
        dns_us, connect_us, tls_us, first_byte_us, total_us, failure_cause: known, failure_detail,
    })))
}
