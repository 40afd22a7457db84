//! What each order type reads, refuses and requires at export, tested by variations of the seven examples.

mod export;
mod read;
mod schema;
mod search;

use serde_json::{Value, json};

use crate::servee::Servee;
use crate::{Order, OrderType, Problems, SaveRequest, examples};

/// The example of an order type as a JSON tree.
fn example(kind: OrderType) -> Value {
    let (_, text) = examples().into_iter().find(|(k, _)| *k == kind).expect("one of each");
    serde_json::from_str(text).expect("an example is JSON")
}

fn read(body: &Value) -> Result<SaveRequest, Problems> {
    SaveRequest::read(body.to_string().as_bytes())
}

/// The example with changes: each sets a value at a JSON pointer whose parent exists.
fn with(kind: OrderType, changes: &[(&str, Value)]) -> Value {
    let mut body = example(kind);
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = body.pointer_mut(parent).expect("the parent exists");
        match parent {
            Value::Array(items) => items[name.parse::<usize>().expect("an index")] = value.clone(),
            object => object[name] = value.clone(),
        }
    }
    body
}

/// The order of the example with changes; `null` removes a field.
fn order(kind: OrderType, changes: &[(&str, Value)]) -> Order {
    read(&with(kind, changes)).expect("readable").order
}

fn fields(problems: &Problems) -> Vec<&str> {
    problems.iter().map(|problem| problem.field.as_str()).collect()
}

/// The fields that an export of the changed example requires and does not find.
fn asked(kind: OrderType, changes: &[(&str, Value)]) -> Vec<String> {
    fields(&order(kind, changes).check_export()).into_iter().map(str::to_owned).collect()
}

/// The fields that contradict each other in the changed example.
fn contradictory(kind: OrderType, changes: &[(&str, Value)]) -> Vec<String> {
    fields(&order(kind, changes).check_draft()).into_iter().map(str::to_owned).collect()
}

/// The problems that reading the changed example reports.
fn refused(kind: OrderType, changes: &[(&str, Value)]) -> String {
    read(&with(kind, changes)).expect_err("must be refused").to_string()
}

#[test]
fn every_example_can_be_exported_as_it_is() {
    for (kind, text) in examples() {
        let request =
            SaveRequest::read(text.as_bytes()).unwrap_or_else(|problems| panic!("{kind}: {problems}"));
        assert_eq!(request.order.order_type(), kind);
        assert_eq!(request.order.check_draft(), Problems::default(), "{kind}");
        assert_eq!(request.order.check_export(), Problems::default(), "{kind}");
        assert_eq!(request.finalize, (kind == OrderType::PhotoCopy).then_some(true));
    }
}

#[test]
fn storing_keeps_everything_and_is_stable() {
    for (kind, _) in examples() {
        let sent = order(kind, &[]);
        let stored = sent.to_stored();
        let again = Order::from_stored(&stored).unwrap();
        assert!(again == sent, "{kind}");
        assert_eq!(again.to_stored(), stored);
        let mut expected = example(kind);
        expected.as_object_mut().unwrap().remove("finalize");
        assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), expected, "{kind}");
        assert_eq!(serde_json::to_value(&sent).unwrap(), expected, "{kind}");
        assert!(stored.starts_with(&format!("{{\"orderType\":\"{kind}\"")));
    }
}

#[test]
fn a_stored_draft_holds_no_defaults_and_no_nulls() {
    let body = br#"{"orderType":"Process","dueBy":null,"feeLimit":1e2,"servees":[{}],"export":true,"customerCode":"ACME"}"#;
    let stored = SaveRequest::read(body).unwrap().order.to_stored();
    assert_eq!(stored, r#"{"orderType":"Process","feeLimit":100.00,"servees":[{}]}"#);
}

#[test]
fn what_stands_around_the_order_is_not_stored_and_not_taken_back() {
    let problems = Order::from_stored(r#"{"orderType":"Court","export":true}"#).unwrap_err();
    assert_eq!(fields(&problems), ["export"]);
}

#[test]
fn debug_never_shows_a_value() {
    for (kind, text) in examples() {
        let request = SaveRequest::read(text.as_bytes()).unwrap();
        let shown = format!("{request:?} {:?}", request.order.search_terms());
        let inner = match &request.order {
            Order::Court(order) => format!("{order:?} {:?} {:?}", order.attorney, order.documents),
            Order::Process(order) => format!("{order:?} {:?} {:?}", order.servees, order.last_day_to_serve),
            Order::Delivery(order) => format!("{order:?} {:?} {:?}", order.legs, order.declared_value),
            Order::Investigation(order) => {
                format!("{order:?} {:?}", order.subject.as_ref().unwrap().ssn_last4)
            }
            Order::FileAndServe(order) => format!("{order:?} {:?}", order.e_service_contacts),
            Order::CountyRecording(order) => format!("{order:?} {:?}", order.state),
            Order::PhotoCopy(order) => format!("{order:?} {:?}", order.subject.as_ref().unwrap().dob),
        };
        for leaf in leaves(&example(kind))
            .iter()
            .filter(|leaf| leaf.len() > 4 && !kind.as_str().contains(leaf.as_str()))
        {
            assert!(!shown.contains(leaf), "{kind} shows {leaf}");
            assert!(!inner.contains(leaf), "{kind} shows {leaf}");
        }
        assert!(shown.contains("[redacted]") && inner.contains("[redacted]"));
    }
}

fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(object) => object.values().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn servees_and_facilities_are_counted_and_named() {
    let names = |order: Order| order.servees().iter().map(Servee::display_name).collect::<Vec<_>>();
    let process = order(OrderType::Process, &[]);
    let addresses: Vec<_> = process.servees().iter().filter_map(Servee::first_address).collect();
    assert_eq!(
        addresses,
        ["1200 Example Terrace, Pasadena, CA 91101", "500 Placeholder Plaza, Suite 9, Glendale, CA 91203"]
    );
    assert_eq!(names(process), ["Orrin Brindle", "Brindle Millworks, Inc."]);
    assert_eq!(order(OrderType::FileAndServe, &[]).servees().len(), 1);
    assert_eq!(order(OrderType::Court, &[]).servees().len(), 0);
    assert_eq!(order(OrderType::PhotoCopy, &[]).facilities().len(), 2);
    assert!(order(OrderType::Court, &[]).facilities().is_empty());
    let doe = json!([{"fictitiousName": "Doe 1"}, {}]);
    assert_eq!(names(order(OrderType::Process, &[("/servees", doe)])), ["Doe 1", ""]);
}
