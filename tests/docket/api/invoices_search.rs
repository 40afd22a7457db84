//! GET /Invoices/Search.

use docket_tests::people::ADA;
use docket_tests::server::{Client, api_key};
use serde_json::{Value, json};

use super::rig::{Rig, wrong_fields};

const ROWS: &str = "
    INSERT INTO web_order (id, order_type, customer_code, status, body, search_text, version, created_at_ms, updated_at_ms)
        VALUES ('W00000001', 'PhotoCopy', 'C-1', 'Exported', '{}', '', 1, 0, 0);
    INSERT INTO work_order (number, work_order_type, web_order_id, customer_code, created_at_ms)
        VALUES ('PC1', 'PhotoCopy', 'W00000001', 'C-1', 0);
    INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms)
        VALUES ('CT1', 'Court', 'C-1', 0), ('IN2', 'Investigation', 'C-2', 0);
    INSERT INTO photo_copy_invoice (invoice_number, work_order, facility_line_item, invoice_date, bill_to_customer_code,
        amount_cents, created_at_ms) VALUES ('7', 'PC1', 2, '2026-11-20', 'CARRIER', 23050, 1795219200000);
    INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) VALUES ('7', 'CT1', 1795219200000);
    INSERT INTO delivery_invoice (invoice_number, work_order, created_at_ms) VALUES ('8', 'CT1', 1795219200001);
    INSERT INTO investigation_invoice (invoice_number, work_order, invoice_date, created_at_ms)
        VALUES ('9', 'IN2', '2026-99-99', 1795219200002);";

async fn rig() -> Rig {
    let rig = Rig::start().await;
    // The first request opens the database.
    rig.ada().await;
    rig.change(ROWS);
    rig
}

async fn page(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("/Invoices/Search{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json()
}

/// `<orderType>:<invoiceNumber>` of what a search finds, in its order.
async fn found(client: &Client, query: &str) -> Vec<String> {
    let page = page(client, query).await;
    let text = |item: &Value, name: &str| item[name].as_str().expect("a text").to_owned();
    let id = |item: &Value| format!("{}:{}", text(item, "orderType"), text(item, "invoiceNumber"));
    page["items"].as_array().expect("items").iter().map(id).collect()
}

#[tokio::test]
async fn nothing_is_found_in_nothing() {
    let rig = Rig::start().await;
    assert_eq!(page(&rig.ada().await, "").await, json!({"items": [], "nextCursor": null}));
}

#[tokio::test]
async fn an_item_is_the_header_with_what_its_work_order_knows() {
    let rig = rig().await;
    let items = page(&rig.ada().await, "").await["items"].clone();
    let expected = json!([
        {"invoiceNumber": "8", "orderType": "Delivery", "workOrder": "CT1", "webOrderId": null, "customerCode": "C-1",
         "facilityLineItem": null, "invoiceDate": null, "billToCustomerCode": null, "amount": null,
         "createdAt": "2026-11-21T00:00:00.001Z"},
        {"invoiceNumber": "7", "orderType": "PhotoCopy", "workOrder": "PC1", "webOrderId": "W00000001",
         "customerCode": "C-1", "facilityLineItem": 2, "invoiceDate": "2026-11-20T00:00:00",
         "billToCustomerCode": "CARRIER", "amount": 230.5, "createdAt": "2026-11-21T00:00:00.000Z"},
        {"invoiceNumber": "7", "orderType": "Court", "workOrder": "CT1", "webOrderId": null, "customerCode": "C-1",
         "facilityLineItem": null, "invoiceDate": null, "billToCustomerCode": null, "amount": null,
         "createdAt": "2026-11-21T00:00:00.000Z"},
    ]);
    assert_eq!(items, expected);
}

#[tokio::test]
async fn a_contact_sees_its_customers_invoices_and_an_employee_all() {
    let rig = rig().await;
    assert_eq!(found(&rig.ada().await, "").await, ["Delivery:8", "PhotoCopy:7", "Court:7"]);
    assert_eq!(found(&rig.bea().await, "").await, ["Investigation:9"]);
    assert_eq!(found(&rig.mo().await, "").await, ["Investigation:9", "Delivery:8", "PhotoCopy:7", "Court:7"]);
    // A search does not find another customer's invoices.
    for query in ["?workOrder=IN2", "?invoiceNumber=9", "?orderType=Investigation"] {
        assert_eq!(found(&rig.ada().await, query).await, [""; 0], "{query}");
    }
}

#[tokio::test]
async fn filters_keep_what_they_name() {
    let rig = rig().await;
    let ada = rig.ada().await;
    for (query, ids) in [
        ("?workOrder=CT1", vec!["Delivery:8", "Court:7"]),
        ("?workOrder=ct1", vec![]),
        ("?workOrder=none", vec![]),
        ("?orderType=PhotoCopy", vec!["PhotoCopy:7"]),
        ("?orderType=Court", vec!["Court:7"]),
        ("?invoiceNumber=7", vec!["PhotoCopy:7", "Court:7"]),
        ("?invoiceNumber=%25", vec![]),
        ("?invoiceNumber=7&orderType=Court&workOrder=CT1", vec!["Court:7"]),
        ("?invoiceNumber=7&orderType=Court&workOrder=PC1", vec![]),
        ("?from=2026-11-21", vec!["Delivery:8", "PhotoCopy:7", "Court:7"]),
        ("?from=2026-11-21T00:00:00.001Z", vec!["Delivery:8"]),
        ("?to=2026-11-21", vec![]),
        ("?to=2026-11-21T00:00:00.001Z", vec!["PhotoCopy:7", "Court:7"]),
    ] {
        assert_eq!(found(&ada, query).await, ids, "{query}");
    }
}

#[tokio::test]
async fn pages_lead_to_the_end_without_a_duplicate_while_invoices_arrive() {
    let rig = rig().await;
    let mo = rig.mo().await;
    for size in [1, 2, 3] {
        let (mut seen, mut query) = (Vec::new(), format!("?pageSize={size}&to=2026-11-22"));
        for round in 0..20 {
            seen.extend(found(&mo, &query).await);
            let cursor = page(&mo, &query).await["nextCursor"].clone();
            let sql = format!(
                "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) \
                               VALUES ('new {size} {round}', 'CT1', 1795219300000)"
            );
            rig.change(&sql);
            let Some(cursor) = cursor.as_str() else { break };
            query = format!("?pageSize={size}&to=2026-11-22&cursor={cursor}");
        }
        seen.retain(|id| !id.contains("new"));
        assert_eq!(seen, ["Investigation:9", "Delivery:8", "PhotoCopy:7", "Court:7"], "pages of {size}");
    }
}

#[tokio::test]
async fn another_tenants_invoices_are_not_there() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    rig.ada().await;
    let blue = rig.server.sign_in(&api_key('b'), ADA).await;
    rig.change(ROWS);
    assert_eq!(found(&blue, "").await, [""; 0]);
    let bearer = format!("Bearer {}", blue.token);
    for headers in [
        vec![("x-api-key", blue.key.as_str())],
        vec![("authorization", bearer.as_str())],
        vec![("x-api-key", &api_key('a')), ("authorization", &bearer)],
    ] {
        assert_eq!(rig.server.send("GET", "/Invoices/Search", &headers, "").await.status, 401);
    }
}

#[tokio::test]
async fn every_wrong_parameter_is_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let long = |name: &str, length| format!("?{name}={}", "x".repeat(length));
    for (query, fields) in [
        ("?orderType=Process".to_owned(), vec!["orderType"]),
        ("?orderType=court".to_owned(), vec!["orderType"]),
        ("?workOrder=".to_owned(), vec!["workOrder"]),
        (long("workOrder", 33), vec!["workOrder"]),
        (long("invoiceNumber", 65), vec!["invoiceNumber"]),
        ("?invoiceNumber=%00".to_owned(), vec!["invoiceNumber"]),
        ("?from=yesterday&to=2026-13-01".to_owned(), vec!["from", "to"]),
        ("?pageSize=101".to_owned(), vec!["pageSize"]),
        ("?cursor=7".to_owned(), vec!["cursor"]),
        ("?customerCode=C-2".to_owned(), vec!["customerCode"]),
        ("?workOrder=a&workOrder=a".to_owned(), vec!["workOrder"]),
    ] {
        assert_eq!(wrong_fields(&ada.get(&format!("/Invoices/Search{query}")).await), fields, "{query}");
    }
}
