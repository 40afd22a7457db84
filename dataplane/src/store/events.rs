//! Events: the envelope's bytes, stored once and sent to every webhook.

use std::collections::HashMap;

use bytes::Bytes;
use docket_crds::EventCode;
use docket_domain::event::EventId;

use super::sql::{Param, params};
use super::{Connection, StoreError, Transaction};

/// A published event.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "the body is legal content")]
pub struct Event {
    /// Its id, the `id` of the envelope.
    pub id: EventId,
    /// Its code.
    pub code: EventCode,
    /// The customer that owns it.
    pub customer_code: String,
    /// What it is about: a web order id, a work order or an invoice number.
    pub subject: String,
    /// The envelope.
    pub body: Vec<u8>,
}

/// Stores an event.
pub async fn insert(transaction: &mut Transaction, event: &Event, now_ms: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO event (id, code, customer_code, subject, body, occurred_at_ms) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    let Event { id, code, customer_code, subject, body } = event;
    let params = params![id.as_str(), code.as_str(), customer_code, subject, body.clone(), now_ms];
    transaction.execute(sql, params).await.map(|_| ())
}

/// What an attempt needs of an event.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "the body is legal content")]
pub struct ToSend {
    /// Its code.
    pub code: EventCode,
    /// The customer that owns it.
    pub customer_code: String,
    /// The envelope.
    pub body: Bytes,
}

/// What an attempt needs of each of these events, by id.
pub async fn to_send(
    connection: &mut Connection,
    ids: &[String],
) -> Result<HashMap<String, ToSend>, StoreError> {
    let sql = format!(
        "SELECT id, code, customer_code, body FROM event WHERE id IN ({})",
        super::deliveries::slots(1)
    );
    let mut events = HashMap::new();
    for chunk in ids.chunks(super::deliveries::SLOTS) {
        let rows = connection.query(&sql, super::deliveries::filled(chunk.iter().map(Param::from))).await?;
        for row in rows {
            let body = Bytes::from(row.get::<Vec<u8>>(3)?);
            events.insert(row.get(0)?, ToSend { code: row.parsed(1)?, customer_code: row.get(2)?, body });
        }
    }
    Ok(events)
}
