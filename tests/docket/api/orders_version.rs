//! `version`, ETag and If-Match: of two people who change one order, none loses the other's change unknowingly.

use docket_orders::OrderType;
use docket_tests::server::Reply;
use serde_json::{Value, json};

use super::rig::{Rig, at_once, captioned, example, problem, refused, save, with, wrong_fields};

fn version(reply: &Reply) -> (u16, Value, Option<&str>) {
    (reply.status, reply.json()["version"].clone(), reply.headers.get("etag").map(String::as_str))
}

fn kind(reply: &Reply) -> (u16, String) {
    let body = problem(reply, reply.status);
    let (_, name) = body["type"].as_str().expect("a type").split_once('#').expect("a heading");
    (reply.status, name.to_owned())
}

#[tokio::test]
async fn each_change_has_a_version_which_get_save_and_export_name() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let order = example(OrderType::Court);
    let saved = ada.post("/Orders/Save", &order).await;
    assert_eq!(version(&saved), (200, json!(1), Some("\"1\"")));
    let id = saved.json()["webOrderId"].clone();
    let path = format!("/Orders/Get?webOrderId={}", id.as_str().expect("an id"));
    assert_eq!(version(&ada.get(&path).await), (200, json!(1), Some("\"1\"")));
    let same = ada.post("/Orders/Save", &with(order.clone(), json!({"webOrderId": id}))).await;
    assert_eq!(version(&same), (200, json!(1), Some("\"1\"")), "nothing changed");
    let change = json!({"webOrderId": id, "version": 1, "clientMatterNumber": "another"});
    assert_eq!(
        version(&ada.post("/Orders/Save", &with(order, change)).await),
        (200, json!(2), Some("\"2\""))
    );
    for _ in ["the first", "again"] {
        let exported = ada.post("/Orders/Export", &json!({"webOrderId": id})).await;
        assert_eq!(version(&exported), (200, json!(3), Some("\"3\"")));
    }
    assert_eq!(version(&ada.get(&path).await), (200, json!(3), Some("\"3\"")));
    let listed = ada.get("/Orders/Search").await.json();
    assert_eq!(listed["items"][0]["version"], 3);
    let both = ada.post("/Orders/Save", &with(example(OrderType::Process), json!({"export": true}))).await;
    assert_eq!(version(&both), (200, json!(2), Some("\"2\"")), "a save and an export");
}

#[tokio::test]
async fn of_two_changes_of_one_version_the_second_is_refused_and_loses_nothing() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("first")).await;
    let change = |caption: &str, more: Value| with(with(captioned(caption), json!({"webOrderId": id})), more);
    assert_eq!(ada.post("/Orders/Save", &change("A's", json!({"version": 1}))).await.status, 200);
    let late = ada.post("/Orders/Save", &change("B's", json!({"version": 1}))).await;
    assert_eq!(kind(&late), (409, "order-changed".to_owned()));
    assert!(late.json()["detail"].as_str().expect("text").contains("has version 2 now"), "{late:?}");
    let path = format!("/Orders/Get?webOrderId={id}");
    assert_eq!(ada.get(&path).await.json()["caption"], "A's");
    // The version as HTTP's `If-Match`.
    let post = async |tag: &str, body: &Value| {
        ada.try_post("/Orders/Save", &body.to_string(), &[("if-match", tag)]).await.expect("an answer")
    };
    for tag in ["\"1\"", "\"3\"", "W/\"2\"", "2", "nope", "\"1\", \"3\""] {
        let refused = post(tag, &change("B's", json!({}))).await;
        assert_eq!(kind(&refused), (412, "precondition-failed".to_owned()), "{tag}");
    }
    assert_eq!(ada.get(&path).await.json()["caption"], "A's");
    for (tag, to) in [("\"2\"", 3), ("*", 4), ("\"1\", \"4\"", 5)] {
        let saved = post(tag, &change(tag, json!({}))).await;
        assert_eq!((saved.status, &saved.json()["version"]), (200, &json!(to)), "{tag}: {saved:?}");
    }
    // Without a version and without `If-Match`, the last save wins.
    assert_eq!(ada.post("/Orders/Save", &change("B's", json!({}))).await.json()["version"], 6);
    let export = json!({"webOrderId": id}).to_string();
    let late = ada.try_post("/Orders/Export", &export, &[("if-match", "\"5\"")]).await.expect("an answer");
    assert_eq!(kind(&late), (412, "precondition-failed".to_owned()));
}

#[tokio::test]
async fn a_repeated_export_returns_the_numbers_of_the_first_whatever_it_matched() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("a draft of before")).await;
    let complete = with(example(OrderType::Court), json!({"webOrderId": id}));
    assert_eq!(ada.post("/Orders/Save", &complete).await.json()["version"], 2);
    let export = json!({"webOrderId": id}).to_string();
    let post = async |tag: &str| {
        ada.try_post("/Orders/Export", &export, &[("if-match", tag)]).await.expect("an answer")
    };
    assert_eq!(kind(&post("\"1\"").await), (412, "precondition-failed".to_owned()));
    let first = post("\"2\"").await;
    assert_eq!(version(&first), (200, json!(3), Some("\"3\"")));
    for tag in ["\"2\"", "\"3\"", "*"] {
        let again = post(tag).await;
        assert_eq!((version(&again), again.text()), (version(&first), first.text()), "{tag}");
    }
    // A client with an older copy did not ask for the export of this order.
    for tag in ["\"1\"", "\"4\"", "nope"] {
        assert_eq!(kind(&post(tag).await), (412, "precondition-failed".to_owned()), "{tag}");
    }
}

#[tokio::test]
async fn what_no_version_allows_is_refused_before_the_version() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let order = example(OrderType::Court);
    let id = save(&ada, &order).await;
    assert_eq!(ada.post("/Orders/Export", &json!({"webOrderId": id})).await.status, 200);
    let exported = "the order is exported and can no longer be changed";
    let late = ada.post("/Orders/Save", &with(order.clone(), json!({"webOrderId": id, "version": 1}))).await;
    refused(&late, 409, exported);
    let again = with(order, json!({"webOrderId": id, "export": true})).to_string();
    let late = ada.try_post("/Orders/Save", &again, &[("if-match", "\"1\"")]).await.expect("an answer");
    refused(&late, 409, exported);
    let other = with(example(OrderType::Delivery), json!({"webOrderId": id, "version": 1}));
    assert_eq!(wrong_fields(&ada.post("/Orders/Save", &other).await), ["orderType"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_changes_at_once_of_one_version_one_is_made() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("first")).await;
    let change = |number: i32| {
        let more = json!({"webOrderId": id, "version": 1});
        (with(captioned(&format!("change {number}")), more), None)
    };
    let replies = at_once(&ada, "/Orders/Save", (0..24).map(change).collect()).await;
    let made: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(made.len(), 1);
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(kind(reply), (409, "order-changed".to_owned()), "{reply:?}");
    }
}

#[tokio::test]
async fn a_version_needs_a_saved_order_and_is_a_whole_number() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("first")).await;
    for (more, field) in [
        (json!({"version": 1}), "version"),
        (json!({"webOrderId": id, "version": 0}), "version"),
        (json!({"webOrderId": id, "version": "1"}), "version"),
        (json!({"webOrderId": id, "version": 1.5}), "version"),
    ] {
        let reply = ada.post("/Orders/Save", &with(captioned("x"), more.clone())).await;
        assert_eq!((reply.status, wrong_fields(&reply)), (400, vec![field.to_owned()]), "{more}");
    }
    let new = captioned("x").to_string();
    let reply = ada.try_post("/Orders/Save", &new, &[("if-match", "\"1\"")]).await.expect("an answer");
    assert_eq!((reply.status, wrong_fields(&reply)), (400, vec!["If-Match".to_owned()]));
    // Another customer's order is unknown, whatever its version.
    let unknown = json!({"webOrderId": "W99999999", "version": 7});
    assert_eq!(kind(&ada.post("/Orders/Save", &with(captioned("x"), unknown)).await).0, 404);
}

#[tokio::test]
async fn a_repeat_has_the_etag_of_the_first_response_and_a_key_for_another_body_its_own_type() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let post = async |body: &Value| {
        ada.try_post("/Orders/Save", &body.to_string(), &[("idempotency-key", "k")]).await.expect("an answer")
    };
    for replayed in [None, Some("true")] {
        let reply = post(&captioned("first")).await;
        assert_eq!(version(&reply), (200, json!(1), Some("\"1\"")));
        assert_eq!(reply.headers.get("idempotency-replayed").map(String::as_str), replayed);
    }
    assert_eq!(kind(&post(&captioned("second")).await), (409, "idempotency-key-reused".to_owned()));
    // Another version makes it another request: the kept response would say that a change was saved which was not.
    let change = with(captioned("third"), json!({"webOrderId": "W00000001"})).to_string();
    for (tag, expected) in [("\"1\"", 200), ("\"1\"", 200), ("\"2\"", 409)] {
        let headers = [("idempotency-key", "k2"), ("if-match", tag)];
        let reply = ada.try_post("/Orders/Save", &change, &headers).await.expect("an answer");
        assert_eq!(reply.status, expected, "{tag}");
    }
}
