//! One sample of each event code: what a test event carries, and what documents and test vectors show.
//!
//! Each id in the data of a sample begins with [`TEST_ID_PREFIX`], so that a receiver that takes one for real finds
//! nothing by it. A sample that is sent carries [`TEST_HEADER`] as well.

use docket_crds::EventCode;

use crate::event::{InvoiceCreated, NoteCreated, OrderExported, OrderSaved, OrderStatusChanged, Payload};

/// The beginning of each id in the data of a sample.
pub const TEST_ID_PREFIX: &str = "TEST-";
/// The header of a delivery whose event is a sample; its value is `true`. Other deliveries lack it.
pub const TEST_HEADER: &str = "x-service-test";

/// The sample of `code`. Every field of the event's data is there and has a value.
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

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
        // What names nothing that a receiver could look up.
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
