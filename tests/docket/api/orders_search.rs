//! GET /Orders/Search.

use docket_orders::OrderType;
use docket_tests::server::Client;
use serde_json::{Value, json};

use super::rig::{Rig, captioned, example, save, with};

async fn page(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("/Orders/Search{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json()
}

/// The ids that a search finds, in its order, without the zeros in front.
async fn found(client: &Client, query: &str) -> Vec<i64> {
    let page = page(client, query).await;
    let id = |item: &Value| item["webOrderId"].as_str().expect("an id")[1..].parse().expect("a number");
    page["items"].as_array().expect("items").iter().map(id).collect()
}

#[tokio::test]
async fn nothing_is_found_in_nothing() {
    let rig = Rig::start().await;
    assert_eq!(page(&rig.ada().await, "").await, json!({"items": [], "nextCursor": null}));
}

#[tokio::test]
async fn an_item_is_what_an_order_is_known_by() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    save(&ada, &with(example(OrderType::Process), json!({"export": true}))).await;
    let mut item = page(&ada, "").await["items"][0].clone();
    let fields = item.as_object_mut().expect("an object");
    for name in ["createdAt", "updatedAt", "exportedAt"] {
        assert!(fields.remove(name).is_some_and(|time| time.is_string()), "{name}");
    }
    let expected = json!({"orderType": "Process", "webOrderId": "W00000001", "status": "Exported", "version": 2,
        "customerCode": "C-1", "caseNumber": "26STCV99901", "caption": "Larkspur Tile Co. v. Brindle",
        "clientMatterNumber": "4410-0012"});
    assert_eq!(item, expected);
}

#[tokio::test]
async fn an_order_is_found_by_its_callers_own_key() {
    let rig = Rig::start().await;
    let (ada, other) = (rig.ada().await, rig.bea().await);
    for key in ["Zeile 4/ä+1", "4410", "4410"] {
        let order = with(captioned("x"), json!({"externalReference": key}));
        save(&ada, &order).await;
    }
    save(&other, &with(captioned("x"), json!({"externalReference": "4410"}))).await;
    for (query, ids) in [
        ("?externalReference=Zeile%204/%C3%A4%2B1", vec![1]),
        ("?externalReference=zeile%204/%C3%A4%2B1", vec![]),
        ("?externalReference=Zeile", vec![]),
        ("?externalReference=4410", vec![3, 2]),
        ("?externalReference=4410&status=Draft&text=x", vec![3, 2]),
        ("?externalReference=4410&status=Exported", vec![]),
        ("?externalReference=4410&to=2020-01-01", vec![]),
        ("?text=4410", vec![]),
    ] {
        assert_eq!(found(&ada, query).await, ids, "{query}");
    }
    let change = json!({"webOrderId": "W00000003", "externalReference": "4411"});
    save(&ada, &with(captioned("x"), change)).await;
    assert_eq!(found(&ada, "?externalReference=4410").await, [2]);
    assert_eq!(found(&ada, "?externalReference=4411").await, [3]);
    assert_eq!(ada.get("/Orders/Search?externalReference=").await.status, 400);
}

/// Every text below these names, wherever they stand.
fn texts_named(value: &Value, names: &[&str], out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if names.contains(&name.as_str()) => out.push(text.to_owned()),
                    _ => texts_named(value, names, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts_named(item, names, out)),
        _ => {}
    }
}

#[tokio::test]
async fn restricted_fields_are_neither_shown_nor_searched() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    const RESTRICTED: [&str; 6] =
        ["dob", "ssnLast4", "driverLicenseLast4", "accountNumber", "accessNotes", "url"];
    let (mut orders, mut restricted) = (Vec::new(), Vec::new());
    for kind in OrderType::ALL {
        let mut order = example(kind);
        if kind == OrderType::PhotoCopy {
            order["facilities"][0]["accountNumber"] = json!("MRN-778899");
            order["subject"]["ssnLast4"] = json!("9731");
        }
        texts_named(&order, &RESTRICTED, &mut restricted);
        orders.push(order);
        save(&ada, orders.last().expect("just pushed")).await;
    }
    assert!(restricted.len() >= 5, "{restricted:?}");
    let all = ada.get("/Orders/Search?pageSize=100").await.text().to_owned();
    for text in restricted.iter().filter(|text| text.len() > 4 || *text == "9731") {
        assert!(!all.contains(text.as_str()), "{text}");
        let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(found(&ada, &format!("?text={query}")).await, [0i64; 0], "{text}");
    }
}

#[tokio::test]
async fn filters_keep_what_they_name() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    save(&ada, &captioned("one")).await;
    save(&ada, &with(example(OrderType::Delivery), json!({"export": true}))).await;
    save(&ada, &example(OrderType::PhotoCopy)).await;
    for (query, ids) in [
        ("", vec![3, 2, 1]),
        ("?orderType=Court", vec![1]),
        ("?orderType=Process", vec![]),
        ("?status=Draft", vec![1]),
        ("?status=Exported", vec![2]),
        ("?status=Finalized", vec![3]),
        ("?status=Cancelled", vec![]),
        ("?orderType=Delivery&status=Exported", vec![2]),
        ("?orderType=Delivery&status=Draft", vec![]),
        ("?from=2020-01-01", vec![3, 2, 1]),
        ("?from=2020-01-01T00:00:00Z&to=2999-12-31", vec![3, 2, 1]),
        ("?to=2020-01-01", vec![]),
        ("?from=2999-12-31T23:59:59-08:00", vec![]),
        ("?text=petrakis", vec![3]),
        ("?text=WC-7781", vec![3]),
    ] {
        assert_eq!(found(&ada, query).await, ids, "{query}");
    }
}

#[tokio::test]
async fn times_are_inclusive_at_the_start_and_exclusive_at_the_end() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    save(&ada, &captioned("x")).await;
    rig.change("UPDATE web_order SET created_at_ms = 1795219200000"); // 2026-11-21T00:00:00Z
    for (query, count) in [
        ("?from=2026-11-21", 1),
        ("?from=2026-11-21T00:00:00.001Z", 0),
        ("?to=2026-11-21", 0),
        ("?to=2026-11-21T00:00:00.001Z", 1),
        ("?from=2026-11-20T16:00:00-08:00", 1),
        ("?from=2026-11-21T09:00:00%2B09:00", 1),
        ("?from=2026-11-21T08:59:59%2B08:00", 0),
    ] {
        assert_eq!(found(&ada, query).await.len(), count, "{query}");
    }
}

#[tokio::test]
async fn wildcards_in_a_text_are_letters() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for caption in ["100% sure", "100x sure", "a_b", "axb", r"back\slash", "it's", "q\"q"] {
        save(&ada, &captioned(caption)).await;
    }
    for (text, ids) in [
        ("100%25", vec![1]),
        ("%25", vec![1]),
        ("_", vec![3]),
        ("a_b", vec![3]),
        ("%5C", vec![5]),
        ("%5C%25", vec![]),
        ("it%27s", vec![6]),
        ("%22", vec![7]),
        ("*", vec![]),
        ("%27%20OR%201=1%20--", vec![]),
    ] {
        assert_eq!(found(&ada, &format!("?text={text}")).await, ids, "{text}");
    }
}

#[tokio::test]
async fn texts_are_found_in_any_case_and_script() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for caption in ["Larkspur v. BRINDLE", "Ärger GmbH", "漢字 😀 Corp", "Ελλάδα", "O’Brien v. Straße"]
    {
        save(&ada, &captioned(caption)).await;
    }
    for (text, ids) in [
        ("brindle", vec![1]),
        ("LARKSPUR%20V.", vec![1]),
        ("larkspur+v", vec![1]),
        ("%C3%A4RGER", vec![2]),
        ("%C3%84rger", vec![2]),
        ("%F0%9F%98%80", vec![3]),
        ("%E6%BC%A2", vec![3]),
        ("%CE%95%CE%9B%CE%9B", vec![4]),
        // People type other spellings.
        ("arger", vec![2]),
        ("a%CC%88rger", vec![2]),
        ("%CE%95%CE%BB%CE%BB%CE%AC%CE%B4%CE%B1", vec![4]),
        ("%CE%B5%CE%BB%CE%BB%CE%B1%CE%B4%CE%B1", vec![4]),
        ("o%27brien", vec![5]),
        ("O%E2%80%99BRIEN", vec![5]),
        ("strasse", vec![5]),
        ("r", vec![5, 3, 2, 1]),
    ] {
        assert_eq!(found(&ada, &format!("?text={text}")).await, ids, "{text}");
    }
}

#[tokio::test]
async fn pages_lead_to_the_end_without_a_duplicate_while_orders_are_saved() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for n in 0..10 {
        save(&ada, &captioned(&format!("order {n}"))).await;
    }
    // Some were saved in the same millisecond.
    rig.change("UPDATE web_order SET created_at_ms = (SELECT min(created_at_ms) FROM web_order) + CAST(substr(id, 2) AS BIGINT) / 4");
    let (mut seen, mut query) = (Vec::new(), "?pageSize=3".to_owned());
    for _ in 0..10 {
        seen.extend(found(&ada, &query).await);
        let cursor = page(&ada, &query).await["nextCursor"].clone();
        save(&ada, &captioned("meanwhile")).await;
        match cursor.as_str() {
            Some(cursor) => query = format!("?pageSize=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, (1..=10).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_last_full_page_has_no_next_one() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for _ in 0..4 {
        save(&ada, &captioned("x")).await;
    }
    for (size, next) in [(1, true), (3, true), (4, false), (5, false), (100, false)] {
        let page = page(&ada, &format!("?pageSize={size}")).await;
        assert_eq!(page["items"].as_array().expect("items").len(), size.min(4));
        assert_eq!(page["nextCursor"].is_string(), next, "{size}");
    }
}

#[tokio::test]
async fn a_page_has_25_orders_unless_said_otherwise() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let row = "INSERT INTO web_order SELECT 'W9' || value, 'Court', 'C-1', 'Draft', NULL, '{}', NULL, NULL, NULL, '',
               1, value, value, NULL, NULL FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n
               WHERE value < 120) SELECT value FROM n) rows";
    rig.change(row);
    for (query, count) in [("", 25), ("?pageSize=100", 100), ("?pageSize=1", 1)] {
        assert_eq!(page(&ada, query).await["items"].as_array().expect("items").len(), count, "{query}");
    }
}

#[tokio::test]
async fn a_cursor_of_another_customer_shows_nothing_of_it() {
    let rig = Rig::start().await;
    let (ada, bea) = (rig.ada().await, rig.bea().await);
    for _ in 0..3 {
        save(&ada, &captioned("of one")).await;
    }
    let cursor = page(&ada, "?pageSize=1").await["nextCursor"].as_str().expect("a cursor").to_owned();
    assert_eq!(found(&bea, &format!("?cursor={cursor}")).await, [0i64; 0]);
}

#[tokio::test]
async fn a_changed_order_is_found_by_what_it_is_now() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("before")).await;
    ada.post("/Orders/Save", &with(captioned("after"), json!({"webOrderId": id}))).await;
    assert_eq!(found(&ada, "?text=before").await, [0i64; 0]);
    assert_eq!(found(&ada, "?text=after").await, [1]);
}
