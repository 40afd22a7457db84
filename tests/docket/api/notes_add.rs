//! POST /Notes/Add: what is refused and what is stored; the events it publishes are in `delivery/notes`.

use docket_orders::OrderType;
use docket_tests::server::{Client, Reply};
use serde_json::{Value, json};

use super::rig::{Rig, at_once, example, refused, with, wrong_fields};

/// Exports the example of a type; returns its work order.
pub(super) async fn exported(client: &Client, kind: OrderType) -> String {
    let reply = client.post("/Orders/Save", &with(example(kind), json!({"export": true}))).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["workOrderId"].as_str().expect("a work order").to_owned()
}

pub(super) fn note(work_order: &str, kind: &str, more: Value) -> Value {
    let note = json!({"workOrder": work_order, "workOrderType": kind, "report": "The clerk has it."});
    with(note, more)
}

fn line_item(reply: &Reply) -> i64 {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json().as_object().map(serde_json::Map::len), Some(1), "{reply:?}");
    reply.json()["lineItem"].as_i64().expect("a number")
}

#[tokio::test]
async fn contacts_and_employees_add_notes_which_are_numbered_in_their_work_order() {
    let rig = Rig::start().await;
    let (ada, mo) = (rig.ada().await, rig.mo().await);
    let (court, process) = (exported(&ada, OrderType::Court).await, exported(&ada, OrderType::Process).await);
    for (client, work_order, kind, expected) in [
        (&ada, &court, "Court", 1),
        (&mo, &court, "Court", 2),
        (&ada, &process, "Process", 1),
        (&ada, &court, "Court", 3),
    ] {
        let reply = client.post("/Notes/Add", &note(work_order, kind, json!({}))).await;
        assert_eq!(line_item(&reply), expected, "{work_order}");
    }
    let authors = "SELECT count(*) FROM note WHERE author IN ('contact 11', 'employee 51')";
    assert_eq!(rig.count(authors), 4);
}

#[tokio::test]
async fn lines_that_other_programs_added_are_counted() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let court = exported(&ada, OrderType::Court).await;
    rig.change(&format!(
        "INSERT INTO note (work_order, line_item, report, created_at_ms) VALUES ('{court}', 41, 'x', 0)"
    ));
    assert_eq!(line_item(&ada.post("/Notes/Add", &note(&court, "Court", json!({}))).await), 42);
    assert_eq!(line_item(&ada.post("/Notes/Add", &note(&court, "Court", json!({}))).await), 43);
}

#[tokio::test]
async fn a_report_keeps_its_lines_and_languages() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let court = exported(&ada, OrderType::Court).await;
    let report = "Žofie’s 契約 📦\n\tsecond line";
    let reply = ada.post("/Notes/Add", &note(&court, "Court", json!({"report": report}))).await;
    assert_eq!(line_item(&reply), 1);
    let found = ada.get("/Notes/Search").await.json();
    assert_eq!(found["items"][0]["report"], report);
}

#[tokio::test]
async fn every_wrong_field_is_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let court = exported(&ada, OrderType::Court).await;
    let good = note(&court, "Court", json!({}));
    for (change, fields) in [
        (json!({"workOrder": ""}), vec!["workOrder"]),
        (json!({"workOrder": null}), vec!["workOrder"]),
        (json!({"workOrder": 7}), vec!["workOrder"]),
        (json!({"workOrder": "x".repeat(81)}), vec!["workOrder"]),
        (json!({"workOrder": "CT\u{0}1"}), vec!["workOrder"]),
        (json!({"workOrderType": "court"}), vec!["workOrderType"]),
        (json!({"workOrderType": "FileAndServe"}), vec!["workOrderType"]),
        (json!({"workOrderType": "PhotoCopy"}), vec!["workOrderType"]),
        (json!({"report": ""}), vec!["report"]),
        (json!({"report": " \n "}), vec!["report"]),
        (json!({"report": "x".repeat(4001)}), vec!["report"]),
        (json!({"report": "a\u{0}b"}), vec!["report"]),
        (json!({"report": ["a"]}), vec!["report"]),
        (json!({"facilityLineItem": 0}), vec!["facilityLineItem"]),
        (json!({"facilityLineItem": "1"}), vec!["facilityLineItem"]),
        (json!({"facilityLineItem": 1.5}), vec!["facilityLineItem"]),
        (json!({"facilityLineItem": 1e300}), vec!["facilityLineItem"]),
        (json!({"milestoneCode": -1}), vec!["milestoneCode"]),
        (json!({"milestoneCode": true}), vec!["milestoneCode"]),
        (json!({"milestone": "Closed"}), vec!["milestone"]),
        (json!({"report": "", "workOrderType": "x", "extra": 1}), vec!["workOrderType", "report", "extra"]),
    ] {
        let reply = ada.post("/Notes/Add", &with(good.clone(), change.clone())).await;
        assert_eq!(wrong_fields(&reply), fields, "{change}");
    }
    assert_eq!(
        wrong_fields(&ada.post("/Notes/Add", &json!({})).await),
        ["workOrder", "workOrderType", "report"]
    );
    assert_eq!(rig.count("SELECT count(*) FROM note"), 0);
}

#[tokio::test]
async fn numbers_that_must_not_leave_are_refused_without_being_repeated() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let court = exported(&ada, OrderType::Court).await;
    for secret in ["219-09-9999", "SSN 219099999", "4111 1111 1111 1111", "4111111111111111"] {
        let body = note(&court, "Court", json!({"report": format!("He gave {secret} to the clerk")}));
        let reply = ada.post("/Notes/Add", &body).await;
        assert_eq!(wrong_fields(&reply), ["report"], "{secret}");
        assert!(!reply.text().contains(secret) && !rig.log().contains(secret), "{reply:?}");
    }
    assert_eq!(rig.count("SELECT count(*) FROM note"), 0);
}

#[tokio::test]
async fn another_customers_work_order_is_as_unknown_as_none() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let (ada, bea, mo) = (rig.ada().await, rig.bea().await, rig.mo().await);
    let photo = exported(&ada, OrderType::PhotoCopy).await;
    let there = rig.server.sign_in(&docket_tests::server::api_key('b'), docket_tests::people::ADA).await;
    for client in [&bea, &there] {
        for key in [photo.clone(), format!("{photo}-F00213"), "PC9999999".to_owned(), "-".to_owned()] {
            for more in [
                json!({}),
                json!({"milestoneCode": 210}),
                json!({"milestoneCode": 7, "facilityLineItem": 99}),
            ] {
                // The response is the same for every type, so it does not show that the order exists.
                for kind in ["PhotoCopy", "Court"] {
                    let reply = client.post("/Notes/Add", &note(&key, kind, more.clone())).await;
                    refused(&reply, 404, "There is no such work order");
                }
            }
        }
    }
    assert_eq!(rig.count("SELECT count(*) FROM note"), 0);
    assert_eq!(
        mo.post("/Notes/Add", &note(&photo, "PhotoCopy", json!({}))).await.status,
        200,
        "an employee may"
    );
}

#[tokio::test]
async fn milestones_and_stops_belong_to_photocopy_work_orders() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (kind, word) in [
        (OrderType::Court, "Court"),
        (OrderType::Process, "Process"),
        (OrderType::Delivery, "Delivery"),
        (OrderType::Investigation, "Investigation"),
    ] {
        let work_order = exported(&ada, kind).await;
        for (more, field) in [
            (json!({"milestoneCode": 100}), "milestoneCode"),
            (json!({"facilityLineItem": 1}), "facilityLineItem"),
        ] {
            let reply = ada.post("/Notes/Add", &note(&work_order, word, more)).await;
            assert_eq!(wrong_fields(&reply), [field], "{word}");
        }
        let reply = ada.post("/Notes/Add", &note(&format!("{work_order}-F1"), word, json!({}))).await;
        refused(&reply, 404, "There is no such work order");
    }
    assert_eq!(rig.count("SELECT count(*) FROM note"), 0);
}

#[tokio::test]
async fn milestones_and_stops_have_to_exist() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let photo = exported(&ada, OrderType::PhotoCopy).await;
    rig.change("UPDATE milestone SET active = FALSE WHERE code = 220");
    for (key, more, field) in [
        (photo.clone(), json!({"milestoneCode": 101}), "milestoneCode"),
        (photo.clone(), json!({"milestoneCode": 220}), "milestoneCode"),
        (photo.clone(), json!({"facilityLineItem": 3}), "facilityLineItem"),
        (format!("{photo}-F99"), json!({}), "workOrder"),
        (format!("{photo}-F00213"), json!({"facilityLineItem": 2}), "facilityLineItem"),
        (format!("{photo}-"), json!({}), "workOrder"),
    ] {
        let reply = ada.post("/Notes/Add", &note(&key, "PhotoCopy", more.clone())).await;
        assert_eq!(wrong_fields(&reply), [field], "{key} {more}");
    }
    assert_eq!(rig.count("SELECT count(*) FROM note"), 0);
    rig.change("INSERT INTO milestone (code, title) VALUES (101, NULL)");
    for more in
        [json!({"milestoneCode": 101}), json!({"facilityLineItem": 2}), json!({"facilityLineItem": 1.0})]
    {
        assert_eq!(ada.post("/Notes/Add", &note(&photo, "PhotoCopy", more)).await.status, 200);
    }
}

#[tokio::test]
async fn a_facility_with_several_stops_needs_the_line_item() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let photo = exported(&ada, OrderType::PhotoCopy).await;
    rig.change(&format!("INSERT INTO facility VALUES ('{photo}', 3, 'F00213', 'Its other department')"));
    let key = format!("{photo}-F00213");
    let reply = ada.post("/Notes/Add", &note(&key, "PhotoCopy", json!({}))).await;
    assert_eq!(wrong_fields(&reply), ["facilityLineItem"]);
    let reply = ada.post("/Notes/Add", &note(&key, "PhotoCopy", json!({"facilityLineItem": 3}))).await;
    assert_eq!(line_item(&reply), 1);
}

#[tokio::test]
async fn a_repeated_key_adds_one_note() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let court = exported(&ada, OrderType::Court).await;
    let body = note(&court, "Court", json!({})).to_string();
    let key = [("idempotency-key", "note-1")];
    let first = ada.try_post("/Notes/Add", &body, &key).await.expect("an answer");
    let again = ada.try_post("/Notes/Add", &body, &key).await.expect("an answer");
    assert_eq!((line_item(&first), line_item(&again)), (1, 1));
    assert_eq!(again.headers.get("idempotency-replayed").map(String::as_str), Some("true"));
    assert_eq!(rig.count("SELECT count(*) FROM note"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_at_the_same_time_get_numbers_of_their_own() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let court = exported(&ada, OrderType::Court).await;
    let body = note(&court, "Court", json!({}));
    let replies = at_once(&ada, "/Notes/Add", vec![(body, None); 20]).await;
    let mut numbers: Vec<i64> = replies.iter().map(line_item).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
}
