//! The header Idempotency-Key: a write may be repeated and happens once.

use std::collections::BTreeSet;

use docket_orders::OrderType;
use docket_tests::server::{Client, JSON, Reply, api_key, webhook_yaml};
use serde_json::{Value, json};

use super::rig::{Rig, bearer, captioned, example, refused, save, with, wrong_fields};

async fn post(client: &Client, path: &str, body: &Value, key: &str) -> Reply {
    client.try_post(path, &body.to_string(), &[("idempotency-key", key)]).await.expect("an answer")
}

fn is_replayed(reply: &Reply) -> bool {
    reply.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

#[tokio::test]
async fn a_repeated_save_gets_the_first_answer_and_does_nothing() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    let ada = rig.ada().await;
    let first = post(&ada, "/Orders/Save", &captioned("x"), "one").await;
    let again = post(&ada, "/Orders/Save", &captioned("x"), "one").await;
    assert_eq!((first.status, is_replayed(&first)), (200, false));
    assert_eq!((again.status, is_replayed(&again), &again.body), (200, true, &first.body));
    assert_eq!((rig.orders(), rig.events().len()), (1, 1));
}

#[tokio::test]
async fn a_repeated_export_gets_the_first_answer() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &example(OrderType::Court)).await;
    let first = post(&ada, "/Orders/Export", &json!({"webOrderId": id}), "one").await;
    let again = post(&ada, "/Orders/Export", &json!({"webOrderId": id}), "one").await;
    assert_eq!((first.status, is_replayed(&first)), (200, false));
    assert_eq!((again.status, is_replayed(&again), &again.body), (200, true, &first.body));
}

#[tokio::test]
async fn an_answer_is_kept_as_it_was_even_if_the_order_has_changed() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let first = post(&ada, "/Orders/Save", &captioned("x"), "one").await;
    let id = first.json()["webOrderId"].clone();
    save(&ada, &with(captioned("y"), json!({"webOrderId": id}))).await;
    assert_eq!(post(&ada, "/Orders/Save", &captioned("x"), "one").await.body, first.body);
    let got = ada.get("/Orders/Get?webOrderId=W00000001").await.json();
    assert_eq!(got["caption"], "y");
}

#[tokio::test]
async fn a_key_is_good_for_one_body_and_one_route() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let conflict = "This Idempotency-Key was used for another request; use a new one";
    assert_eq!(post(&ada, "/Orders/Save", &captioned("x"), "one").await.status, 200);
    refused(&post(&ada, "/Orders/Save", &captioned("y"), "one").await, 409, conflict);
    let as_written = r#"{"case": {"caption":"x"},"orderType":"Court"}"#;
    let reply =
        ada.try_post("/Orders/Save", as_written, &[("idempotency-key", "one")]).await.expect("an answer");
    refused(&reply, 409, conflict);
    refused(&post(&ada, "/Orders/Export", &json!({"webOrderId": "W00000001"}), "one").await, 409, conflict);
    assert_eq!(rig.orders(), 1);
}

#[tokio::test]
async fn a_refused_write_may_be_corrected_under_the_same_key() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let incomplete = with(captioned("x"), json!({"export": true}));
    assert_eq!(post(&ada, "/Orders/Save", &incomplete, "one").await.status, 400);
    let reply = post(&ada, "/Orders/Save", &captioned("x"), "one").await;
    assert_eq!((reply.status, is_replayed(&reply)), (200, false), "{reply:?}");
}

#[tokio::test]
async fn sixteen_at_once_under_one_key_are_one_order() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    let ada = rig.ada().await;
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let ada = ada.clone();
            tokio::spawn(async move { post(&ada, "/Orders/Save", &captioned("x"), "one").await })
        })
        .collect();
    // On PostgreSQL a request that loses may have taken the first number.
    let (mut fresh, mut orders) = (0, BTreeSet::new());
    for task in tasks {
        let reply = task.await.expect("an answer");
        assert_eq!(reply.status, 200, "{reply:?}");
        fresh += u32::from(!is_replayed(&reply));
        orders.insert(reply.json()["webOrderId"].to_string());
    }
    assert_eq!((fresh, orders.len(), rig.orders(), rig.events().len()), (1, 1, 1, 1));
}

#[tokio::test]
async fn a_key_belongs_to_its_caller() {
    let rig = Rig::start().await;
    let (ada, bea, mo) = (rig.ada().await, rig.bea().await, rig.mo().await);
    let by_mo = with(captioned("x"), json!({"customerCode": "C-1"}));
    for (client, body) in [(&ada, &captioned("x")), (&bea, &captioned("x")), (&mo, &by_mo)] {
        let reply = post(client, "/Orders/Save", body, "one").await;
        assert_eq!((reply.status, is_replayed(&reply)), (200, false), "{reply:?}");
    }
    assert_eq!(rig.orders(), 3);
}

#[tokio::test]
async fn a_key_outlives_the_callers_token_and_a_restart() {
    let rig = Rig::start().await;
    let first = post(&rig.ada().await, "/Orders/Save", &captioned("x"), "one").await;
    let rig = rig.restarted().await;
    let again = post(&rig.ada().await, "/Orders/Save", &captioned("x"), "one").await;
    assert_eq!((is_replayed(&again), &again.body), (true, &first.body));
}

#[tokio::test]
async fn keys_are_visible_ascii_of_bounded_length_sent_once() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let long = "k".repeat(129);
    for key in ["", " ", "a b", "k\u{e9}", &long, "a\tb"] {
        let reply = post(&ada, "/Orders/Save", &captioned("x"), key).await;
        assert_eq!(reply.status, 400, "{key:?}");
        assert_eq!(wrong_fields(&reply), ["Idempotency-Key"], "{key:?}");
    }
    let (key, token) = (api_key('a'), bearer(&ada));
    let headers = [
        ("x-api-key", key.as_str()),
        ("authorization", token.as_str()),
        JSON,
        ("idempotency-key", "one"),
        ("idempotency-key", "one"),
    ];
    let reply = rig.server.send("POST", "/Orders/Save", &headers, &captioned("x").to_string()).await;
    assert_eq!(wrong_fields(&reply), ["Idempotency-Key"]);
    assert_eq!(rig.orders(), 0);
    for key in ["k", &long[1..], "!~", "\"quoted\""] {
        assert_eq!(post(&ada, "/Orders/Save", &captioned("x"), key).await.status, 200, "{key}");
    }
}

#[tokio::test]
async fn nothing_of_the_body_is_kept_with_the_answer() {
    let rig = Rig::start().await;
    post(&rig.ada().await, "/Orders/Save", &captioned("a secret caption"), "one").await;
    let kept: String = rig.database("ACME").get("SELECT request_digest || answer_body FROM idempotency");
    assert!(!kept.contains("secret"), "{kept}");
}
