//! Events: the envelope's bytes, stored once and sent to every webhook.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use docket_crds::EventCode;
use docket_domain::event::{EventId, LONGEST_ENVELOPE};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Rows, SLOTS, Statement, params};

/// The numbers by which the deliveries of an event are found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The web order.
    pub web_order_id: Option<String>,
    /// The work order. An export has only its web order, because that leads to all its work orders.
    pub work_order: Option<String>,
    /// The invoice.
    pub invoice_number: Option<String>,
}

impl About {
    /// The numbers of an event about a web order.
    pub fn web_order(id: &str) -> Self {
        Self { web_order_id: Some(id.to_owned()), ..Self::default() }
    }

    /// The most specific number, for people.
    pub fn shown(&self) -> &str {
        let Self { web_order_id, work_order, invoice_number } = self;
        invoice_number.as_ref().or(work_order.as_ref()).or(web_order_id.as_ref()).map_or("", String::as_str)
    }
}

/// A published event.
#[derive(Clone)]
pub struct Event {
    /// The event's id, the `id` of the envelope.
    pub id: EventId,
    /// The event's code.
    pub code: EventCode,
    /// The customer that owns the event.
    pub customer_code: String,
    /// The numbers that the event is about.
    pub about: About,
    /// The bytes of the envelope.
    pub body: Bytes,
}

static INSERT: Rows = Rows::new(
    "INSERT INTO event (id, code, customer_code, web_order_id, work_order, invoice_number, body, occurred_at_ms) \
     {text, text, text, text, text, text, bytea, bigint}",
);

/// Stores an event.
pub async fn insert(transaction: &mut Transaction, event: &Event, now_ms: i64) -> Result<(), StoreError> {
    transaction.all(inserts([event], now_ms)).await.map(drop)
}

pub(crate) fn inserts<'a>(events: impl IntoIterator<Item = &'a Event>, now_ms: i64) -> Option<Statement> {
    INSERT.statement(events.into_iter().map(|event| {
        let Event { id, code, customer_code, about, body } = event;
        let About { web_order_id, work_order, invoice_number } = about;
        [
            Param::from(id.as_str()),
            Param::Word(code.as_str()),
            customer_code.into(),
            web_order_id.as_ref().into(),
            work_order.as_ref().into(),
            invoice_number.as_ref().into(),
            body.clone().into(),
            now_ms.into(),
        ]
    }))
}

/// Marks an event as a test of the webhook with this key.
pub async fn mark_as_test(
    transaction: &mut Transaction,
    id: &EventId,
    webhook: &str,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO test_event (id, webhook) VALUES ($1, $2)";
    transaction.execute(sql, params![id.as_str(), webhook]).await.map(drop)
}

/// Whether the webhook with this key has an unfinished delivery of a test event. Other transactions that call this
/// function wait until this transaction ends.
pub async fn is_test_under_way(transaction: &mut Transaction, webhook: &str) -> Result<bool, StoreError> {
    let lock = "SELECT pg_advisory_xact_lock(hashtext('test event'), hashtext($1))";
    transaction.lock(lock, params![webhook]).await?;
    let sql =
        "SELECT 1 FROM test_event t JOIN delivery_queue q ON q.event_id = t.id WHERE t.webhook = $1 LIMIT 1";
    Ok(transaction.query_opt(sql, params![webhook]).await?.is_some())
}

/// Locks the event until the transaction ends. Other transactions that change its deliveries wait.
pub async fn lock(transaction: &mut Transaction, id: &str) -> Result<(), StoreError> {
    transaction.lock("SELECT id FROM event WHERE id = $1 FOR UPDATE", params![id]).await
}

/// Locks these events, as [`lock`] does.
pub(crate) async fn lock_many(transaction: &mut Transaction, ids: &[String]) -> Result<(), StoreError> {
    transaction.lock_all(LOCK.statement(ids.iter().map(|id| [Param::from(id)]))).await
}

/// Deletes an event that no delivery carries.
pub async fn delete(transaction: &mut Transaction, id: &EventId) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM event WHERE id = $1", params![id.as_str()]).await.map(|_| ())
}

static LOCK: Rows = Rows::new("SELECT id FROM event WHERE id {$1 text} ORDER BY id FOR UPDATE");

/// The envelope of an event; `None`: it is longer than [`LONGEST_ENVELOPE`], or the event does not exist or has no valid id.
pub async fn body(connection: &mut Connection, id: &str) -> Result<Option<Bytes>, StoreError> {
    let events = to_send(connection, &[id.to_owned()]).await?;
    Ok(events.into_values().find_map(|event| event.body))
}

/// Whether the event `e` of a statement is a test.
pub(crate) const IS_TEST: &str = "EXISTS (SELECT 1 FROM test_event t WHERE t.id = e.id)";
/// Whether the event of the delivery `d` of a statement is none that tests a webhook.
pub(crate) const NO_TEST: &str = "NOT EXISTS (SELECT 1 FROM test_event t WHERE t.id = d.event_id)";

/// The part of an event that an attempt needs.
#[derive(Clone)]
pub struct ToSend {
    /// The event's code, also a code that only a newer version knows.
    pub code: Cow<'static, str>,
    /// The customer that owns the event.
    pub customer_code: String,
    /// The envelope; `None`: it is longer than [`LONGEST_ENVELOPE`].
    pub body: Option<Bytes>,
    /// Whether the event is a test of a webhook.
    pub is_test: bool,
}

/// The parts that attempts need, by the event's id. An event without a valid id or code is missing.
pub async fn to_send(
    connection: &mut Connection,
    ids: &[String],
) -> Result<HashMap<String, ToSend>, StoreError> {
    let body = format!("CASE WHEN length(body) <= {LONGEST_ENVELOPE} THEN body END");
    let sql =
        format!("SELECT id, code, customer_code, {body}, {IS_TEST} FROM event e WHERE id IN ({{values}})");
    let mut events = HashMap::new();
    // Few at a time, because envelopes may be long.
    for chunk in ids.chunks(SLOTS) {
        for row in connection.query_in(&sql, Vec::new(), chunk).await? {
            // Checked again here, because the owner of a database decides what its functions do.
            let body: Option<Vec<u8>> = row.get(3)?;
            let body = body.filter(|body| body.len() <= LONGEST_ENVELOPE).map(Bytes::from);
            let (text, customer_code, is_test) = (row.event_id(1)?, row.id(2)?, row.get(4)?);
            let code = match text.parse::<EventCode>() {
                Ok(code) => Cow::Borrowed(code.as_str()),
                Err(_) => Cow::Owned(text),
            };
            events.insert(row.event_id(0)?, ToSend { code, customer_code, body, is_test });
        }
    }
    // Invalid ids and codes are read as the empty text.
    events.retain(|id, event| !id.is_empty() && !event.code.is_empty());
    Ok(events)
}
