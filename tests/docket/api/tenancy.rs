//! No caller sees or changes what belongs to another tenant or another customer.

use docket_orders::OrderType;
use docket_tests::people::{ADA, BEA};
use docket_tests::server::{Client, JSON, Reply, api_key, request};
use serde_json::{Value, json};

use super::rig::{Rig, bearer, captioned, example, home, problem, refused, save, with};

const TENANTS: [(&str, char); 3] = [("acme", 'a'), ("blue", 'b'), ("coral", 'c')];

/// The word that only this tenant's orders hold.
fn canary(tenant: &str) -> String {
    format!("canary-of-{tenant}")
}

/// A complete order that holds the tenant's word where answers and searches show it.
fn marked(tenant: &str) -> Value {
    let mut order = example(OrderType::Court);
    order["case"]["caption"] = json!(canary(tenant));
    order
}

/// The tenant that a key and a host lead to, written apart from the code under test; or the refusal's status.
fn addressed(key: Option<&str>, host: &str) -> Result<&'static str, u16> {
    let by_host = ["acme", "blue"].into_iter().find(|name| host == format!("{name}.localhost"));
    match (key, by_host) {
        (None, Some(name)) => Ok(name),
        (None, None) => Err(if host == "unknown.localhost" { 404 } else { 401 }),
        (Some("acme"), None | Some("acme")) => Ok("acme"),
        (Some("blue"), None | Some("blue")) => Ok("blue"),
        (Some(_), _) => Err(401),
    }
}

#[tokio::test]
async fn only_matching_key_token_and_host_reach_a_tenants_orders() {
    let rig = Rig::of(&TENANTS).await;
    let mut tokens = vec![None, Some(("garbage", "Bearer garbage".to_owned()))];
    for (name, digit) in TENANTS {
        let client = rig.server.sign_in(&api_key(digit), ADA).await;
        for _ in 0..2 {
            save(&client, &marked(name)).await;
        }
        tokens.push(Some((name, bearer(&client))));
    }
    let keys = [None, Some("garbage"), Some("acme"), Some("blue")];
    let hosts = ["localhost", "acme.localhost", "blue.localhost", "unknown.localhost"];
    let digit =
        |name: &str| TENANTS.iter().find(|(other, _)| *other == name).map_or('e', |(_, digit)| *digit);
    let (mut good, mut all) = (0, 0);
    let cells = keys.iter().flat_map(|key| hosts.iter().map(move |host| (*key, *host)));
    for ((key, host), token) in cells.flat_map(|cell| tokens.iter().map(move |token| (cell, token.as_ref())))
    {
        let key_text = key.map(|name| api_key(digit(name)));
        let mut headers = vec![("host", host), JSON];
        headers.extend(key_text.as_deref().map(|key| ("x-api-key", key)));
        headers.extend(token.map(|(_, value)| ("authorization", value.as_str())));
        let tenant = addressed(key, host);
        let expected = match (tenant, token) {
            (Err(status), _) => status,
            (Ok(tenant), Some((owner, _))) if tenant == *owner => 200,
            (Ok(_), _) => 401,
        };
        for (method, path, body) in [
            ("GET", "/Orders/Get?webOrderId=W00000001", String::new()),
            ("GET", "/Orders/Search?text=canary", String::new()),
            (
                "POST",
                "/Orders/Save",
                with(marked(tenant.unwrap_or("none")), json!({"webOrderId": "W00000001"})).to_string(),
            ),
            ("POST", "/Orders/Export", json!({"webOrderId": "W00000002"}).to_string()),
        ] {
            let reply = request(rig.server.api, method, path, &headers, &body).await.expect("an answer");
            let what =
                format!("{method} {path} with key {key:?}, token {:?}, host {host}", token.map(|t| t.0));
            assert_eq!(reply.status, expected, "{what}: {reply:?}");
            for (name, _) in TENANTS.iter().filter(|(name, _)| expected != 200 || tenant != Ok(*name)) {
                assert!(!reply.text().contains(&canary(name)), "{what}: {reply:?}");
            }
            if method == "GET" && expected == 200 {
                assert!(reply.text().contains(&canary(tenant.expect("a tenant"))), "{what}: {reply:?}");
            }
            (good, all) = (good + u32::from(expected == 200), all + 1);
        }
    }
    assert_eq!((good, all), (8 * 4, 4 * 4 * 5 * 4));
    for (name, _) in TENANTS {
        let sql = format!("SELECT count(*) FROM web_order WHERE body NOT LIKE '%{}%'", canary(name));
        let foreign: i64 = rig.database(&name.to_uppercase()).get(&sql);
        assert_eq!(foreign, 0, "{name} holds only its own");
    }
}

#[tokio::test]
async fn a_sign_in_reaches_only_the_tenant_of_its_key() {
    let rig = Rig::of(&TENANTS).await;
    rig.database("BLUE").change("UPDATE contact SET active = FALSE");
    let body = super::rig::credentials(ADA).to_string();
    for (digit, status) in [('a', 200), ('b', 404), ('c', 200)] {
        let key = api_key(digit);
        assert_eq!(
            rig.server.send("POST", "/Auth/Token", &[("x-api-key", &key), JSON], &body).await.status,
            status
        );
    }
}

/// Every request about one order.
async fn attempts(client: &Client, id: &str) -> Vec<Reply> {
    let order = with(captioned("changed"), json!({"webOrderId": id}));
    vec![
        client.get(&format!("/Orders/Get?webOrderId={id}")).await,
        client.post("/Orders/Export", &json!({"webOrderId": id})).await,
        client.post("/Orders/Save", &order).await,
        client
            .post("/Orders/Save", &with(example(OrderType::Court), json!({"webOrderId": id, "export": true})))
            .await,
    ]
}

#[tokio::test]
async fn another_customers_order_is_like_one_that_does_not_exist() {
    let rig = Rig::start().await;
    let (ada, bea) = (rig.ada().await, rig.bea().await);
    let id = save(&ada, &example(OrderType::Court)).await;
    let foreign = attempts(&bea, &id).await;
    let absent = attempts(&bea, "W99999999").await;
    for (foreign, absent) in foreign.iter().zip(&absent) {
        refused(foreign, 404, "There is no such web order");
        assert_eq!(problem(foreign, 404), problem(absent, 404));
        assert_eq!(foreign.headers.len(), absent.headers.len());
    }
    let got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    assert_eq!((&got["order"], &got["status"]), (&example(OrderType::Court), &json!("Draft")));
}

#[tokio::test]
async fn a_search_finds_only_the_callers_customers_orders() {
    let rig = Rig::start().await;
    let (ada, bea, mo) = (rig.ada().await, rig.bea().await, rig.mo().await);
    save(&ada, &captioned("of one")).await;
    save(&bea, &captioned("of two")).await;
    save(&mo, &with(captioned("of two by mo"), json!({"customerCode": "C-2"}))).await;
    for (client, captions) in [
        (&ada, vec!["of one"]),
        (&bea, vec!["of two by mo", "of two"]),
        (&mo, vec!["of two by mo", "of two", "of one"]),
    ] {
        let page = client.get("/Orders/Search").await.json();
        let items = page["items"].as_array().expect("items").iter();
        let found: Vec<&str> = items.map(|item| item["caption"].as_str().expect("text")).collect();
        assert_eq!(found, captions);
    }
}

#[tokio::test]
async fn an_employee_sees_changes_and_exports_every_customers_orders() {
    let rig = Rig::start().await;
    let (ada, mo) = (rig.ada().await, rig.mo().await);
    let id = save(&ada, &captioned("draft")).await;
    assert_eq!(mo.get(&format!("/Orders/Get?webOrderId={id}")).await.json()["caption"], "draft");
    let complete = with(example(OrderType::Court), json!({"webOrderId": id, "customerCode": "C-1"}));
    assert_eq!(mo.post("/Orders/Save", &complete).await.status, 200);
    let exported = mo.post("/Orders/Export", &json!({"webOrderId": id})).await;
    assert_eq!(exported.json()["workOrderId"], "CT1000001");
    let got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    assert_eq!((&got["customerCode"], &got["status"]), (&json!("C-1"), &json!("Exported")));
}

#[tokio::test]
async fn a_contact_and_an_employee_of_the_same_code_are_two_callers() {
    let rig = Rig::start().await;
    rig.change("UPDATE employee SET code = '11' WHERE code = '51'");
    let (ada, mo) = (rig.ada().await, rig.mo().await);
    let key = [("idempotency-key", "same")];
    let body = captioned("by both").to_string();
    let first = ada.try_post("/Orders/Save", &body, &key).await.expect("an answer");
    let second = mo.try_post("/Orders/Save", &body, &key).await.expect("an answer");
    assert_eq!((first.status, second.status), (200, 400), "an employee must name the customer: {second:?}");
}

#[tokio::test]
async fn each_tenant_counts_its_own_numbers() {
    let rig = Rig::on(home(&TENANTS, ""), "").await;
    for (_, digit) in TENANTS {
        let client = rig.server.sign_in(&api_key(digit), BEA).await;
        assert_eq!(save(&client, &captioned("first")).await, "W00000001");
    }
}
