//! One sample of each event code, for test events, documents and test vectors.
//!
//! Each id in the data of a sample begins with [`TEST_ID_PREFIX`]. So a receiver that takes a sample for a real event
//! finds nothing by its ids. A sample that is sent carries [`TEST_HEADER`] as well.

use docket_crds::EventCode;
use serde_json::Value;

use crate::event::{InvoiceCreated, NoteCreated, OrderExported, OrderSaved, OrderStatusChanged, Payload};

/// The beginning of each id in the data of a sample.
pub const TEST_ID_PREFIX: &str = "TEST-";
/// The header of a delivery whose event is a sample; its value is `true`. Other deliveries do not have this header.
pub const TEST_HEADER: &str = "x-service-test";

/// The sample of `code`. Every field of the event's data has a value.
pub fn payload(code: EventCode) -> Payload {
    let id = |rest: &str| format!("{TEST_ID_PREFIX}{rest}");
    let saved = || OrderSaved {
        order_type: "PhotoCopy".to_owned(),
        web_order_id: id("W00000001"),
        finalize: Some(false),
    };
    match code {
        EventCode::OrderCreated => Payload::OrderCreated(saved()),
        EventCode::OrderUpdated => Payload::OrderUpdated(OrderSaved { finalize: Some(true), ..saved() }),
        EventCode::OrderExported => Payload::OrderExported(OrderExported {
            order_type: "FileAndServe".to_owned(),
            web_order_id: id("W00000002"),
            work_order_id: id("CT1000001"),
            court_work_order: Some(id("CT1000001")),
            process_work_orders: Some(vec![id("PR1000001"), id("PR1000002")]),
        }),
        EventCode::OrderStatusChanged => Payload::OrderStatusChanged(OrderStatusChanged {
            work_order: id("PC1000001"),
            order_type: "PhotoCopy".to_owned(),
            facility_key: id("PC1000001:7"),
            facility_line_item: Some(7),
            milestone_code: 30,
            milestone: Some("Records received".to_owned()),
            previous_milestone_code: Some(20),
            previous_milestone: Some("Request served".to_owned()),
        }),
        EventCode::NoteCreated => Payload::NoteCreated(NoteCreated {
            work_order: id("PC1000001"),
            work_order_type: "PhotoCopy".to_owned(),
            report: "This is a test event of Docket: the custodian’s “ready” date is 2026-12-01.".to_owned(),
            line_item: 42,
            facility_line_item: Some(7),
        }),
        EventCode::InvoiceCreated => Payload::InvoiceCreated(InvoiceCreated {
            work_order: id("PC1000001"),
            order_type: "PhotoCopy".to_owned(),
            invoice_number: id("INV-5001"),
            invoice_date: Some("2026-11-20T00:00:00".to_owned()),
            bill_to_customer_code: Some(id("C-1001")),
            facility_line_item: Some(7),
            amount: Some(149.5),
        }),
    }
}

/// A copy of `payload` with another value in one field. For a text field, `value` is the text itself, for other
/// fields it is JSON.
///
/// # Errors
///
/// The event has no such field, or the value does not fit it. The message names the field and the value, or lists the
/// event's fields.
pub fn with(payload: &Payload, field: &str, value: &str) -> Result<Payload, String> {
    let code = payload.code();
    let Ok(Value::Object(data)) = serde_json::to_value(payload) else {
        return Err(format!("{code} has no fields"));
    };
    if !data.contains_key(field) {
        let fields = data.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(format!("{code} has no field data.{field}; it has {fields}"));
    }
    let changed = |value| {
        let mut data = data.clone();
        data.insert(field.to_owned(), value);
        Payload::from_json(code, Value::Object(data))
    };
    // In a field that may be unknown, `null` is JSON. In a required text field, it is a text.
    let json = serde_json::from_str(value).ok();
    let null = json.clone().filter(Value::is_null).and_then(|null| changed(null).ok());
    null.or_else(|| changed(Value::String(value.to_owned())).ok()).or_else(|| changed(json?).ok()).ok_or_else(
        || format!("data.{field} of {code} can't be `{value}`; a value that fits is {}", data[field]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_takes_what_fits_it() {
        for (code, field, value, written) in [
            (EventCode::NoteCreated, "report", "30", r#""report":"30""#),
            (EventCode::NoteCreated, "report", "null", r#""report":"null""#),
            (EventCode::NoteCreated, "lineItem", "7", r#""lineItem":7"#),
            (EventCode::NoteCreated, "facilityLineItem", "null", r#""facilityLineItem":null"#),
            (EventCode::OrderExported, "courtWorkOrder", "null", r#""courtWorkOrder":null"#),
            (EventCode::OrderExported, "processWorkOrders", r#"["PR1"]"#, r#""processWorkOrders":["PR1"]"#),
            (EventCode::OrderCreated, "finalize", "true", r#""finalize":true"#),
            (EventCode::InvoiceCreated, "amount", "12", r#""amount":12.0"#),
        ] {
            let changed = with(&payload(code), field, value).unwrap_or_else(|error| panic!("{error}"));
            let json = serde_json::to_string(&changed).expect("JSON");
            assert!(json.contains(written), "{json}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let error = |code, field, value| with(&payload(code), field, value).expect_err("refused");
        assert_eq!(
            error(EventCode::OrderCreated, "orderTyp", "Court"),
            "order.created has no field data.orderTyp; it has finalize, orderType, webOrderId"
        );
        assert_eq!(
            error(EventCode::NoteCreated, "lineItem", "seven"),
            "data.lineItem of note.created can't be `seven`; a value that fits is 42"
        );
        assert!(error(EventCode::OrderStatusChanged, "milestoneCode", "null").contains("fits is 30"));
    }

    #[test]
    fn each_sample_has_its_code_and_a_value_in_each_field() {
        for code in EventCode::ALL {
            let payload = payload(code);
            assert_eq!(payload.code(), code);
            let Value::Object(data) = serde_json::to_value(&payload).expect("JSON") else { panic!("{code}") };
            let fields = match code {
                EventCode::OrderCreated | EventCode::OrderUpdated => 3,
                EventCode::OrderExported | EventCode::NoteCreated => 5,
                EventCode::InvoiceCreated => 7,
                EventCode::OrderStatusChanged => 8,
            };
            assert_eq!(data.len(), fields, "{code}: {data:?}");
            assert!(data.values().all(|value| !value.is_null()), "{code}: {data:?}");
        }
    }

    #[test]
    fn each_id_in_a_sample_begins_with_test() {
        // Fields that are not ids, so a receiver can't look them up.
        const NO_IDS: [&str; 6] =
            ["orderType", "workOrderType", "report", "milestone", "previousMilestone", "invoiceDate"];
        for code in EventCode::ALL {
            let Value::Object(data) = serde_json::to_value(payload(code)).expect("JSON") else {
                panic!("{code}")
            };
            for (field, value) in data.iter().filter(|(field, _)| !NO_IDS.contains(&field.as_str())) {
                let texts: Vec<&str> = match value {
                    Value::String(text) => vec![text],
                    Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
                    _ => vec![],
                };
                assert!(
                    texts.iter().all(|text| text.starts_with(TEST_ID_PREFIX)),
                    "{code} {field}: {texts:?}"
                );
            }
        }
    }
}
