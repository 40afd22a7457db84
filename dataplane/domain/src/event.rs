//! An event: the envelope that every delivery carries, and the payload of each event code (Events).
//!
//! The bytes of an envelope are created once, when the event is published, and stored. Every attempt and every resend
//! signs and sends these bytes.

use std::fmt;

use docket_crds::EventCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::moment;

/// The longest body of a delivery, in bytes. Even a note of 4,000 characters, each escaped in six bytes, or 51
/// numbers of work orders are far below this limit.
pub const LONGEST_ENVELOPE: usize = 64 * 1024;
/// The longest id of an event, in bytes; Docket's ids have 36.
pub const LONGEST_EVENT_ID: usize = 64;

/// The id of an event: `evt_` and 32 hexadecimal characters. Time-ordered, so that rows land together in an index.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct EventId(String);

impl EventId {
    /// A new id from the time and ten random bytes.
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0).to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&millis[2..]);
        bytes[6..].copy_from_slice(&random);
        Self(["evt_", &hex::encode(bytes)].concat())
    }

    /// The id as it is sent and stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The payload of an event. One variant per event code, so that no payload can be sent with another code.
#[derive(Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each variant is the event code of the same name")]
pub enum Payload {
    OrderCreated(OrderSaved),
    OrderUpdated(OrderSaved),
    OrderExported(OrderExported),
    OrderStatusChanged(OrderStatusChanged),
    NoteCreated(NoteCreated),
    InvoiceCreated(InvoiceCreated),
}

impl Payload {
    /// The event code this payload belongs to.
    pub fn code(&self) -> EventCode {
        match self {
            Self::OrderCreated(_) => EventCode::OrderCreated,
            Self::OrderUpdated(_) => EventCode::OrderUpdated,
            Self::OrderExported(_) => EventCode::OrderExported,
            Self::OrderStatusChanged(_) => EventCode::OrderStatusChanged,
            Self::NoteCreated(_) => EventCode::NoteCreated,
            Self::InvoiceCreated(_) => EventCode::InvoiceCreated,
        }
    }

    /// The payload of `code` with these fields.
    ///
    /// # Errors
    ///
    /// A field is missing, has another type, or does not belong to this event.
    pub fn from_json(code: EventCode, data: Value) -> serde_json::Result<Self> {
        use serde_json::from_value;
        Ok(match code {
            EventCode::OrderCreated => Self::OrderCreated(from_value(data)?),
            EventCode::OrderUpdated => Self::OrderUpdated(from_value(data)?),
            EventCode::OrderExported => Self::OrderExported(from_value(data)?),
            EventCode::OrderStatusChanged => Self::OrderStatusChanged(from_value(data)?),
            EventCode::NoteCreated => Self::NoteCreated(from_value(data)?),
            EventCode::InvoiceCreated => Self::InvoiceCreated(from_value(data)?),
        })
    }
}

/// Shows only the code: payloads are legal content.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, [redacted])", self.code())
    }
}

/// `data` of `order.created` and `order.updated`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderSaved {
    /// The type of the order.
    pub order_type: String,
    /// The web order.
    pub web_order_id: String,
    /// Only on photocopy orders: whether the save finalized the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finalize: Option<bool>,
}

/// `data` of `order.exported`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderExported {
    /// The type of the order.
    pub order_type: String,
    /// The web order.
    pub web_order_id: String,
    /// The work order that the response of Orders/Export names.
    pub work_order_id: String,
    /// The court work order that the export of a file-and-serve order created; null if there is none.
    #[schema(required)]
    pub court_work_order: Option<String>,
    /// The process work orders that the export created; null if there are none.
    #[schema(required)]
    pub process_work_orders: Option<Vec<String>>,
}

/// `data` of `order.status_changed`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderStatusChanged {
    /// The work order.
    pub work_order: String,
    /// The type of the order.
    pub order_type: String,
    /// The stop: `<workOrder>:<facilityLineItem>` if the note named it so, else the `workOrder` of the request as it was
    /// sent, such as `<workOrder>-<facilityId>`.
    pub facility_key: String,
    /// The line of the stop on its work order; null if unknown.
    #[schema(required)]
    pub facility_line_item: Option<i64>,
    /// The code of the milestone.
    pub milestone_code: i64,
    /// The title of the milestone; left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub milestone: Option<String>,
    /// The code of the milestone before; null if there was none.
    #[schema(required)]
    pub previous_milestone_code: Option<i64>,
    /// The title of the milestone before; null if there was none or it has no title.
    #[schema(required)]
    pub previous_milestone: Option<String>,
}

/// `data` of `note.created`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoteCreated {
    /// The work order.
    pub work_order: String,
    /// The type of the work order.
    pub work_order_type: String,
    /// The note's text.
    pub report: String,
    /// The number of the note on its work order, from 1.
    pub line_item: i64,
    /// The line of the stop on its work order; null if unknown.
    #[schema(required)]
    pub facility_line_item: Option<i64>,
}

/// `data` of `invoice.created`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvoiceCreated {
    /// The work order.
    pub work_order: String,
    /// The type of the order.
    pub order_type: String,
    /// The invoice.
    pub invoice_number: String,
    /// The invoice's date and time, without a zone; null if unknown.
    #[schema(required)]
    pub invoice_date: Option<String>,
    /// The customer who gets the invoice; null if unknown.
    #[schema(required)]
    pub bill_to_customer_code: Option<String>,
    /// The line of the stop on its work order; null if unknown.
    #[schema(required)]
    pub facility_line_item: Option<i64>,
    /// The total in dollars; null if unknown, and on orders that are no photocopy orders.
    #[schema(required)]
    pub amount: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    id: &'a str,
    event: &'a str,
    occurred_at: String,
    customer_code: &'a str,
    data: &'a Payload,
}

/// The body of every delivery of this event: the envelope as JSON, in the contract's order of fields.
/// `occurred_at` is when the event is enqueued.
pub fn envelope(id: &EventId, occurred_at: Timestamp, customer_code: &str, data: &Payload) -> Vec<u8> {
    let occurred_at = moment::written(occurred_at);
    written(&Envelope { id: id.as_str(), event: data.code().as_str(), occurred_at, customer_code, data })
}

fn written(envelope: &Envelope<'_>) -> Vec<u8> {
    serde_json::to_vec(envelope).expect("plain structs with string keys serialise")
}

/// The bytes that Docket sent for the event in `body`, even if another program has parsed and rewritten it. Returns
/// `None` if `body` is not an envelope.
pub fn as_sent(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Parsed {
        id: String,
        event: EventCode,
        occurred_at: String,
        customer_code: String,
        data: Value,
    }
    let Parsed { id, event, occurred_at, customer_code, data } = serde_json::from_slice(body).ok()?;
    let data = Payload::from_json(event, data).ok()?;
    let (id, customer_code) = (&id, &customer_code);
    Some(written(&Envelope { id, event: event.as_str(), occurred_at, customer_code, data: &data }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn at() -> Timestamp {
        "2026-11-21T05:06:07.123Z".parse().expect("a timestamp")
    }

    fn body(payload: Payload) -> String {
        let id = EventId::new(at(), [0xab; 10]);
        String::from_utf8(envelope(&id, at(), "C-1001", &payload)).expect("JSON is UTF-8")
    }

    #[test]
    fn event_ids_are_evt_and_32_hex_in_the_order_of_time() {
        let id = EventId::new(at(), [0xab; 10]);
        assert_eq!(id.as_str(), format!("evt_{:012x}{}", at().as_millisecond(), "ab".repeat(10)));
        let later = EventId::new(at() + std::time::Duration::from_millis(1), [0; 10]);
        assert!(id.as_str() < later.as_str());
    }

    #[test]
    fn occurred_at_has_three_digits_of_the_second() {
        for (at, written) in [
            ("2026-11-21T05:06:07Z", "2026-11-21T05:06:07.000Z"),
            ("2026-11-21T05:06:07.1Z", "2026-11-21T05:06:07.100Z"),
            ("2026-11-21T05:06:07.123999999Z", "2026-11-21T05:06:07.123Z"),
        ] {
            let at: Timestamp = at.parse().expect("a timestamp");
            let saved = OrderSaved { order_type: "Court".into(), web_order_id: "W1".into(), finalize: None };
            let body = envelope(&EventId::new(at, [0; 10]), at, "C-1001", &Payload::OrderCreated(saved));
            let body = String::from_utf8(body).expect("JSON is UTF-8");
            assert!(body.contains(&format!(r#""occurredAt":"{written}""#)), "{body}");
        }
    }

    #[test]
    fn order_created_envelope_has_exactly_these_bytes() {
        let saved = OrderSaved { order_type: "Court".into(), web_order_id: "W1".into(), finalize: None };
        assert_eq!(
            body(Payload::OrderCreated(saved)),
            r#"{"id":"evt_01a1fc7f5a93abababababababababab","event":"order.created","occurredAt":"2026-11-21T05:06:07.123Z","customerCode":"C-1001","data":{"orderType":"Court","webOrderId":"W1"}}"#
        );
    }

    #[test]
    fn absent_values_of_order_exported_are_null() {
        let exported = OrderExported {
            order_type: "Court".into(),
            web_order_id: "W1".into(),
            work_order_id: "CT1".into(),
            court_work_order: None,
            process_work_orders: None,
        };
        assert!(body(Payload::OrderExported(exported)).ends_with(
            r#""data":{"orderType":"Court","webOrderId":"W1","workOrderId":"CT1","courtWorkOrder":null,"processWorkOrders":null}}"#
        ));
    }

    #[test]
    fn every_event_is_written_again_as_it_was_sent() {
        for code in EventCode::ALL {
            let sent = body(sample::payload(code));
            let value: Value = serde_json::from_str(&sent).expect("JSON");
            // The JSON is indented, and its fields are in alphabetical order.
            let rewritten = serde_json::to_vec_pretty(&value).expect("JSON");
            assert_ne!(rewritten, sent.as_bytes());
            assert_eq!(as_sent(&rewritten).as_deref(), Some(sent.as_bytes()), "{code}");
        }
        for other in ["", "{}", "[]", r#"{"id":"evt_1","event":"order.created","data":{}}"#] {
            assert_eq!(as_sent(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn photocopy_saves_contain_finalize() {
        let saved =
            OrderSaved { order_type: "PhotoCopy".into(), web_order_id: "W1".into(), finalize: Some(false) };
        let payload = Payload::OrderUpdated(saved);
        assert_eq!(format!("{payload:?}"), "Payload(order.updated, [redacted])");
        assert!(body(payload).contains(r#""finalize":false"#));
    }
}
