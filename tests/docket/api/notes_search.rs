//! GET /Notes/Search.

use docket_orders::OrderType;
use docket_tests::server::Client;
use serde_json::{Value, json};

use super::notes_add::{exported, note};
use super::rig::{Rig, wrong_fields};

async fn page(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("/Notes/Search{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json()
}

/// Work order and line item of what is found, in its order.
fn places(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items");
    items
        .iter()
        .map(|item| format!("{}:{}", item["workOrder"].as_str().expect("text"), item["lineItem"]))
        .collect()
}

async fn found(client: &Client, query: &str) -> Vec<String> {
    places(&page(client, query).await)
}

#[tokio::test]
async fn an_item_says_all_of_a_note() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let photo = exported(&ada, OrderType::PhotoCopy).await;
    let more = json!({"facilityLineItem": 1, "milestoneCode": 210});
    ada.post("/Notes/Add", &note(&photo, "PhotoCopy", more)).await;
    let mut item = page(&ada, "").await["items"][0].clone();
    let created = item.as_object_mut().expect("an object").remove("createdAt").expect("a time");
    assert!(created.as_str().is_some_and(|time| time.ends_with('Z')), "{created}");
    let expected = json!({"workOrder": photo, "workOrderType": "PhotoCopy", "webOrderId": "W00000001",
        "customerCode": "C-1", "lineItem": 1, "facilityLineItem": 1, "report": "The clerk has it.",
        "milestoneCode": 210, "milestone": "Custodian served", "author": "contact 11"});
    assert_eq!(item, expected);
}

#[tokio::test]
async fn status_lines_of_the_back_office_are_found_too() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let photo = exported(&ada, OrderType::PhotoCopy).await;
    rig.change(&format!(
        "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) VALUES ('DESK7', 'PhotoCopy', 'C-1', 0);
         INSERT INTO note (work_order, line_item, milestone_code, created_at_ms) VALUES ('{photo}', 1, 410, 5), ('DESK7', 1, 900, 9)"
    ));
    let page = page(&ada, "").await;
    assert_eq!(places(&page), ["DESK7:1".to_owned(), format!("{photo}:1")]);
    let item = &page["items"][0];
    assert_eq!(
        (&item["report"], &item["webOrderId"], &item["author"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(item["milestone"], "Closed");
}

#[tokio::test]
async fn filters_and_pages() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let (court, photo) = (exported(&ada, OrderType::Court).await, exported(&ada, OrderType::PhotoCopy).await);
    // Two notes have the same time, as a second holds many.
    rig.change(&format!(
        "INSERT INTO note (work_order, line_item, facility_line_item, report, created_at_ms) VALUES
           ('{court}', 1, NULL, 'a', 86400000), ('{court}', 2, NULL, 'b', 172800000), ('{photo}', 1, 1, 'c', 172800000),
           ('{court}', 3, NULL, 'd', 172800000), ('{photo}', 2, 2, 'e', 259200000)"
    ));
    let place = |number: &str, line: i64| format!("{number}:{line}");
    let all = [place(&photo, 2), place(&photo, 1), place(&court, 3), place(&court, 2), place(&court, 1)];
    assert_eq!(found(&ada, "").await, all);
    assert_eq!(found(&ada, &format!("?workOrder={court}")).await, all[2..]);
    assert_eq!(found(&ada, &format!("?workOrder={photo}&facilityLineItem=1")).await, all[1..2]);
    assert_eq!(found(&ada, "?from=1970-01-03&to=1970-01-04").await, all[1..4]);
    assert_eq!(
        found(&ada, &format!("?workOrder={photo}-F00213")).await,
        all[1..2],
        "the first stop's facility"
    );
    assert_eq!(found(&ada, &format!("?workOrder={photo}-F9")).await, Vec::<String>::new());
    assert_eq!(found(&ada, "?workOrder=none").await, Vec::<String>::new());

    for size in [1, 2, 3, 5] {
        let (mut seen, mut query) = (Vec::new(), format!("?pageSize={size}"));
        loop {
            let page = page(&ada, &query).await;
            seen.extend(places(&page));
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            query = format!("?pageSize={size}&cursor={cursor}");
            // Notes that are added meanwhile change nothing.
            rig.change(&format!("INSERT INTO note (work_order, line_item, report, created_at_ms) SELECT '{court}', max(line_item) + 1, 'new', 999999999 FROM note"));
        }
        seen.retain(|place| all.contains(place));
        assert_eq!(seen, all, "{size}");
        rig.change("DELETE FROM note WHERE report = 'new'");
    }
}

#[tokio::test]
async fn a_contact_sees_its_customers_notes_only() {
    let rig = Rig::start().await;
    let (ada, bea, mo) = (rig.ada().await, rig.bea().await, rig.mo().await);
    let court = exported(&ada, OrderType::Court).await;
    ada.post("/Notes/Add", &note(&court, "Court", json!({}))).await;
    let query = format!("?workOrder={court}");
    assert_eq!(found(&bea, &query).await, Vec::<String>::new());
    assert_eq!(found(&bea, "").await, Vec::<String>::new());
    assert_eq!(found(&mo, &query).await.len(), 1);
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (query, fields) in [
        ("?workOrder=", vec!["workOrder"]),
        ("?facilityLineItem=0", vec!["facilityLineItem"]),
        ("?facilityLineItem=x", vec!["facilityLineItem"]),
        ("?from=yesterday&pageSize=101", vec!["from", "pageSize"]),
        ("?cursor=00", vec!["cursor"]),
        // The place of an order, which has no line item.
        ("?cursor=352e573031", vec!["cursor"]),
        ("?report=x", vec!["report"]),
        ("?workOrder=a&workOrder=b", vec!["workOrder"]),
    ] {
        let mut named = wrong_fields(&ada.get(&format!("/Notes/Search{query}")).await);
        named.sort_unstable();
        assert_eq!(named, fields, "{query}");
    }
}
