//! GET /ProcessStatus/Search.

use docket_orders::OrderType;
use docket_tests::server::Client;
use serde_json::{Value, json};

use super::notes_add::exported;
use super::rig::{Rig, example, wrong_fields};

async fn page(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("/ProcessStatus/Search{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json()
}

fn numbers(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items");
    items.iter().map(|item| item["workOrder"].as_str().expect("text").to_owned()).collect()
}

async fn found(client: &Client, query: &str) -> Vec<String> {
    numbers(&page(client, query).await)
}

#[tokio::test]
async fn an_export_makes_one_per_servee() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    exported(&ada, OrderType::Process).await;
    exported(&ada, OrderType::FileAndServe).await;
    exported(&ada, OrderType::Court).await;
    let page = page(&ada, "").await;
    assert_eq!(numbers(&page), ["PR1000003", "PR1000002", "PR1000001"]);
    let mut item = page["items"][2].clone();
    assert!(
        item.as_object_mut().expect("an object").remove("createdAt").is_some_and(|time| time.is_string())
    );
    let expected = json!({"workOrder": "PR1000001", "webOrderId": "W00000001", "customerCode": "C-1",
        "caseNumber": "26STCV99901", "caption": "Larkspur Tile Co. v. Brindle", "servee": "Orrin Brindle",
        "serveeIndex": 0, "serveeAddress": "1200 Example Terrace, Pasadena, CA 91101", "status": "New", "serveResult": null, "serviceMethod": null, "servedAt": null, "servedOn": null,
        "mailedOn": null, "deemedServedOn": null, "notServedReason": null, "proofSignedOn": null,
        "proofFiledOn": null, "attempts": []});
    assert_eq!(item, expected);
}

#[tokio::test]
async fn servees_of_one_name_differ_by_place_and_address() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for kind in [OrderType::Process, OrderType::FileAndServe] {
        let mut order = example(kind);
        let mut smith = order["servees"][0].clone();
        let mut smiths = Vec::new();
        for street in ["1 First Street", "2 Second Street", "3 Third Street"] {
            smith["addresses"][0] = json!({"street1": street, "city": "Toronto", "state": "ON",
                "postalCode": "M5V 2T6", "country": "CA"});
            smiths.push(smith.clone());
        }
        order["servees"] = smiths.into();
        order["export"] = json!(true);
        let saved = ada.post("/Orders/Save", &order).await;
        assert_eq!(saved.status, 200, "{saved:?}");
        for (index, number) in
            saved.json()["processWorkOrders"].as_array().expect("numbers").iter().enumerate()
        {
            let found = page(&ada, &format!("?workOrder={}", number.as_str().expect("text"))).await;
            let item = &found["items"][0];
            let address = ["1 First Street", "2 Second Street", "3 Third Street"][index];
            assert_eq!(item["serveeIndex"], json!(index), "{kind}");
            assert_eq!(item["serveeAddress"], json!(format!("{address}, Toronto, ON M5V 2T6, CA")), "{kind}");
        }
    }
    rig.change(
        "INSERT INTO work_order (number, work_order_type, customer_code, servee, created_at_ms)
         VALUES ('DESK1', 'Process', 'C-1', 'Desk Person', 0)",
    );
    let item = page(&ada, "?workOrder=DESK1").await["items"][0].clone();
    assert_eq!((&item["serveeIndex"], &item["serveeAddress"]), (&Value::Null, &Value::Null));
    // A further one of the order with a court work order, in whose place it is.
    rig.change("UPDATE work_order SET position = 9 WHERE work_order_type = 'Court'");
    rig.change(
        "INSERT INTO work_order (number, work_order_type, web_order_id, customer_code, servee, created_at_ms)
         SELECT 'DESK2', 'Process', web_order_id, 'C-1', 'Desk Person', 0 FROM work_order
         WHERE work_order_type = 'Court'",
    );
    let item = page(&ada, "?workOrder=DESK2").await["items"][0].clone();
    assert_eq!((&item["workOrder"], &item["serveeIndex"]), (&json!("DESK2"), &Value::Null));
}

#[tokio::test]
async fn what_the_back_office_notes_is_shown() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    exported(&ada, OrderType::Process).await;
    rig.change(
        "UPDATE process_status SET status = 'Served', serve_result = 'Substituted', service_method = 'Substituted',
           served_at_ms = 86400000, served_on_name = 'Mavis Brindle', served_on_relationship = 'Sister',
           mailed_on = '2026-12-24', proof_signed_on = '2027-01-04', proof_filed_on = '2027-01-05'
         WHERE work_order = 'PR1000001';
         INSERT INTO process_attempt VALUES
           ('PR1000001', 2, 90000000, 'America/Los_Angeles', '1200 Example Terrace', 'SubServed', 'Substituted',
            'Mavis Brindle', 'Sister', '40-50', 'Tall', 'Left with her', 34.05, -118.24, 5, 2, 'Sam Sample', '9999, Los Angeles', 90000001),
           ('PR1000001', 1, 80000000, NULL, NULL, 'NoAnswer', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 80000001)",
    );
    let item = page(&ada, "?workOrder=PR1000001").await["items"][0].clone();
    assert_eq!(item["status"], "Served");
    assert_eq!(item["servedAt"], "1970-01-02T00:00:00.000Z");
    assert_eq!(item["servedOn"], json!({"name": "Mavis Brindle", "relationship": "Sister"}));
    assert_eq!((&item["mailedOn"], &item["deemedServedOn"]), (&json!("2026-12-24"), &json!("2027-01-03")));
    assert_eq!((&item["proofSignedOn"], &item["proofFiledOn"]), (&json!("2027-01-04"), &json!("2027-01-05")));
    let first = json!({"sequence": 1, "attemptedAt": "1970-01-01T22:13:20.000Z", "timeZone": null, "address": null,
        "outcome": "NoAnswer", "serviceMethod": null, "personServed": null, "comments": null, "latitude": null,
        "longitude": null, "gpsAccuracyMeters": null, "photoCount": null, "serverName": null,
        "serverRegistration": null, "recordedAt": "1970-01-01T22:13:20.001Z"});
    let second = json!({"sequence": 2, "attemptedAt": "1970-01-02T01:00:00.000Z", "timeZone": "America/Los_Angeles",
        "address": "1200 Example Terrace", "outcome": "SubServed", "serviceMethod": "Substituted",
        "personServed": {"name": "Mavis Brindle", "relationship": "Sister", "age": "40-50", "description": "Tall"},
        "comments": "Left with her", "latitude": 34.05, "longitude": -118.24, "gpsAccuracyMeters": 5.0,
        "photoCount": 2, "serverName": "Sam Sample", "serverRegistration": "9999, Los Angeles",
        "recordedAt": "1970-01-02T01:00:00.001Z"});
    assert_eq!(item["attempts"], json!([first, second]));
}

#[tokio::test]
async fn filters() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    exported(&ada, OrderType::Process).await;
    let mut other = example(OrderType::Process);
    other["export"] = json!(true);
    other["case"]["caseNumber"] = json!("26STCV00002");
    other["servees"].as_array_mut().expect("a list").truncate(1);
    other["servees"][0]["party"]["firstName"] = json!("Élodie 100%_x");
    assert_eq!(ada.post("/Orders/Save", &other).await.status, 200);
    rig.change(
        "UPDATE process_status SET status = 'Served' WHERE work_order = 'PR1000002';
         UPDATE work_order SET created_at_ms = 86400000 WHERE number = 'PR1000001';
         INSERT INTO work_order (number, work_order_type, customer_code, servee, created_at_ms)
           VALUES ('DESK1', 'Process', 'C-1', 'DESK Person', 1)",
    );
    for (query, expected) in [
        ("?workOrder=PR1000002", vec!["PR1000002"]),
        ("?workOrder=CT1000001", vec![]),
        ("?caseNumber=26STCV00002", vec!["PR1000003"]),
        ("?caseNumber=26STCV0000", vec![]),
        ("?servee=orrin", vec!["PR1000001"]),
        ("?servee=%C3%89LODIE", vec!["PR1000003"]),
        ("?servee=elodie", vec!["PR1000003"]),
        ("?servee=0%25_X", vec!["PR1000003"]),
        ("?servee=0%25_y", vec![]),
        ("?servee=desk+PER", vec!["DESK1"]),
        ("?status=Served", vec!["PR1000002"]),
        ("?status=New", vec!["PR1000003", "PR1000001", "DESK1"]),
        ("?from=1970-01-02&to=1970-01-03", vec!["PR1000001"]),
        ("?servee=brindle&status=New&from=1970-01-02", vec!["PR1000003", "PR1000001"]),
    ] {
        assert_eq!(found(&ada, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn pages_are_stable() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for _ in 0..3 {
        exported(&ada, OrderType::Process).await;
    }
    // All process rows have the same time: only the number distinguishes them.
    rig.change("UPDATE work_order SET created_at_ms = 7");
    let all: Vec<String> = (1..=6).rev().map(|n| format!("PR{}", 1_000_000 + n)).collect();
    for size in [1, 2, 4, 6] {
        let (mut seen, mut query) = (Vec::new(), format!("?pageSize={size}"));
        loop {
            let page = page(&ada, &query).await;
            seen.extend(numbers(&page));
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            query = format!("?pageSize={size}&cursor={cursor}");
        }
        assert_eq!(seen, all, "{size}");
    }
}

#[tokio::test]
async fn more_servees_than_one_list_holds_have_their_own_attempts() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let mut many = example(OrderType::Process);
    many["export"] = json!(true);
    let servee = many["servees"][0].clone();
    many["servees"] = vec![servee; 50].into();
    assert_eq!(ada.post("/Orders/Save", &many).await.status, 200);
    rig.change(
        "INSERT INTO process_attempt (work_order, sequence, attempted_at_ms, outcome, comments, recorded_at_ms)
         SELECT number, 1, 0, 'NotIn', number, 0 FROM work_order",
    );
    let page = page(&ada, "?pageSize=100").await;
    let items = page["items"].as_array().expect("items");
    assert_eq!(items.len(), 50);
    for item in items {
        assert_eq!(
            (&item["attempts"][0]["comments"], item["attempts"].as_array().map(Vec::len)),
            (&item["workOrder"], Some(1))
        );
    }
}

#[tokio::test]
async fn a_contact_sees_its_customers_only() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let (ada, bea, mo) = (rig.ada().await, rig.bea().await, rig.mo().await);
    exported(&ada, OrderType::Process).await;
    let there = rig.server.sign_in(&docket_tests::server::api_key('b'), docket_tests::people::ADA).await;
    for client in [&bea, &there] {
        for query in ["", "?workOrder=PR1000001", "?caseNumber=26STCV99901", "?servee=brindle"] {
            assert_eq!(page(client, query).await, json!({"items": [], "nextCursor": null}), "{query}");
        }
    }
    assert_eq!(found(&mo, "").await.len(), 2);
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (query, field) in [
        ("?status=served", "status"),
        ("?status=", "status"),
        ("?servee=", "servee"),
        ("?from=1", "from"),
        ("?cursor=zz", "cursor"),
        ("?pageSize=0", "pageSize"),
        ("?case=1", "case"),
    ] {
        assert_eq!(
            wrong_fields(&ada.get(&format!("/ProcessStatus/Search{query}")).await),
            [field],
            "{query}"
        );
    }
}
