//! POST /WebhookLogs/Resend, POST /WebhookLogs/StopResend and GET /WebhookLogs/Resends.

use std::time::Duration;

use docket_tests::server::{Client, Reply, eventually, webhook_yaml};
use serde_json::{Value, json};

use super::rig::{Rig, captioned, refused, save, wrong_fields};
use super::webhook_logs::{all_dead, dying, items};

async fn resend(client: &Client, body: &Value) -> Reply {
    client.post("/WebhookLogs/Resend", body).await
}

/// Makes `count` dead letters of the webhook `orders`, and signs an administrator in.
async fn dead(count: i64) -> (Rig, Client) {
    let rig = dying().await;
    let ada = rig.ada().await;
    for number in 0..count {
        save(&ada, &captioned(&number.to_string())).await;
    }
    all_dead(&rig, count).await;
    let alex = rig.alex().await;
    (rig, alex)
}

fn orders() -> Value {
    json!({"webhook": "default/orders", "perSecond": 1})
}

async fn progress(client: &Client, id: &Value) -> Value {
    let id = id.as_str().expect("an id");
    items(client, &format!("/WebhookLogs/Resends?resendId={id}")).await.remove(0)
}

#[tokio::test]
async fn one_delivery_is_queued_again_as_a_new_one_and_noted() {
    let (rig, alex) = dead(1).await;
    let old = items(&alex, "/WebhookLogs/Search").await.remove(0);
    let answer = resend(&alex, &json!({"deliveryId": old["deliveryId"]})).await;
    assert_eq!((answer.status, &answer.json()["resendOf"]), (200, &old["deliveryId"]), "{answer:?}");
    let id = answer.json()["deliveryId"].as_str().expect("an id").to_owned();
    let new = alex.get(&format!("/WebhookLogs/Get?deliveryId={id}")).await.json();
    assert_eq!((&new["resendOf"], &new["eventId"]), (&old["deliveryId"], &old["eventId"]));
    assert_eq!((&new["requestedBy"], &new["resendId"]), (&json!("employee 52"), &Value::Null));
    let line = rig.logged("delivery resent").await;
    assert!(line.contains(&id) && line.contains("employee 52") && line.contains("ACME"), "{line}");
}

#[tokio::test]
async fn what_is_still_being_tried_is_not_resent() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    save(&rig.ada().await, &captioned("x")).await;
    let alex = rig.alex().await;
    let id = items(&alex, "/WebhookLogs/Search").await[0]["deliveryId"].clone();
    let reply = resend(&alex, &json!({"deliveryId": id})).await;
    assert!(reply.status == 409 && reply.detail().contains("still being tried"), "{reply:?}");
}

#[tokio::test]
async fn a_webhook_must_be_there_active_and_of_the_same_customer() {
    let (rig, alex) = dead(1).await;
    let one = json!({"deliveryId": items(&alex, "/WebhookLogs/Search").await[0]["deliveryId"]});
    let others = webhook_yaml("acme", "others", "C-2", "https://127.0.0.1:9/");
    let orders_of = |customer: &str| webhook_yaml("acme", "orders", customer, "https://127.0.0.1:9/");
    let served = async |yaml: String, word: &str| {
        rig.home.write("more.yaml", &(others.clone() + &yaml));
        let mut reply = resend(&alex, &one).await;
        for _ in 0..100 {
            if reply.status == 409 && reply.detail().contains(word) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            reply = resend(&alex, &one).await;
        }
        panic!("{word}: {reply:?}");
    };
    served(orders_of("C-1") + "  active: false\n", "inactive").await;
    for body in [orders(), json!({"webhook": "default/orders", "preview": true})] {
        let reply = resend(&alex, &body).await;
        assert!(reply.status == 409 && reply.detail().contains("inactive"), "{reply:?}");
    }
    served(String::new(), "not declared").await;
    for webhook in ["default/orders", "default/never"] {
        let reply = resend(&alex, &json!({"webhook": webhook})).await;
        assert!(reply.status == 409 && reply.detail().contains("not declared"), "{reply:?}");
    }
    // The new webhook has the same name, and is another webhook.
    served(orders_of("C-2"), "another customer's").await;
    for body in [orders(), json!({"webhook": "default/orders", "preview": true})] {
        let reply = resend(&alex, &body).await;
        assert!(reply.status == 409 && reply.detail().contains("another customer's"), "{reply:?}");
    }
}

#[tokio::test]
async fn many_are_previewed_resent_followed_and_stopped() {
    let (rig, alex) = dead(4).await;
    let preview = resend(&alex, &json!({"webhook": "default/orders", "perSecond": 1, "preview": true})).await;
    let preview = preview.json();
    assert_eq!(
        (&preview["preview"], &preview["count"], &preview["seconds"]),
        (&json!(true), &json!(4), &json!(3))
    );
    let time = |name: &str| preview[name].as_str().expect("text").parse::<jiff::Timestamp>().expect("a time");
    assert!(time("oldest") <= time("newest"), "{preview}");
    assert_eq!(rig.count("SELECT count(*) FROM delivery"), 4);

    let made = resend(&alex, &orders()).await.json();
    for name in ["count", "seconds", "oldest", "newest"] {
        assert_eq!(made[name], preview[name], "{name}");
    }
    let id = &made["resendId"];
    let stopped = alex.post("/WebhookLogs/StopResend", &json!({"resendId": id})).await.json();
    let (back, gone) =
        (stopped["takenBack"].as_i64().expect("a number"), stopped["gone"].as_i64().expect("a number"));
    assert!(back >= 2 && back + gone == 4, "{stopped}");
    let again = alex.post("/WebhookLogs/StopResend", &json!({"resendId": id})).await.json();
    assert_eq!((&again["takenBack"], &again["gone"]), (&json!(0), &json!(gone)));
    let state = progress(&alex, id).await;
    assert_eq!(
        (&state["webhook"], &state["count"], &state["perSecond"]),
        (&json!("default/orders"), &json!(4), &json!(1))
    );
    assert_eq!((&state["requestedBy"], &state["stoppedBy"]), (&json!("employee 52"), &json!("employee 52")));
    let counts =
        ["pending", "failed", "succeeded", "deadLetter"].map(|name| state[name].as_i64().expect("a number"));
    assert_eq!(counts.iter().sum::<i64>(), gone, "{state}");
    assert_eq!(state["takenBack"], back, "the counts add up: {state}");
    for what in ["dead letters resent", "resend stopped"] {
        let line = rig.logged(what).await;
        assert!(line.contains(id.as_str().expect("text")) && line.contains("employee 52"), "{line}");
    }
    let unknown = alex.post("/WebhookLogs/StopResend", &json!({"resendId": "0".repeat(32)})).await;
    refused(&unknown, 404, "There is no such resend");
}

#[tokio::test]
async fn many_are_chosen_by_their_time_and_number() {
    let (rig, alex) = dead(4).await;
    rig.change("UPDATE delivery_history SET created_at_ms = 86400000 * (SELECT CAST(substr(web_order_id, 2) AS INTEGER) FROM event WHERE id = event_id)");
    let count = async |more: Value| {
        let body = super::rig::with(json!({"webhook": "file:default/orders", "preview": true}), more);
        resend(&alex, &body).await.json()["count"].as_i64().expect("a number")
    };
    assert_eq!(count(json!({})).await, 4);
    assert_eq!(count(json!({"limit": 3})).await, 3);
    assert_eq!(count(json!({"from": "1970-01-03"})).await, 3);
    assert_eq!(count(json!({"from": "1970-01-03T00:00:00Z", "to": "1970-01-05"})).await, 2);
    assert_eq!(count(json!({"from": null, "to": null, "limit": null, "perSecond": null})).await, 4);
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_and_sends_nothing_twice() {
    let (rig, alex) = dead(2).await;
    let key = [("idempotency-key", "again")];
    let post = async |body: Value| {
        alex.try_post("/WebhookLogs/Resend", &body.to_string(), &key).await.expect("an answer")
    };
    let (first, again) = (post(orders()).await, post(orders()).await);
    assert_eq!((first.status, &first.body), (200, &again.body));
    assert_eq!(again.headers.get("idempotency-replayed").map(String::as_str), Some("true"));
    assert_eq!(rig.count("SELECT count(*) FROM resend"), 1);
    assert_eq!(rig.count("SELECT count(*) FROM delivery WHERE resend_id IS NOT NULL"), 2);
    assert_eq!(post(json!({"webhook": "default/others"})).await.status, 409);
    let wrong = [("idempotency-key", "")];
    for body in [orders(), json!({"webhook": "default/orders", "preview": true})] {
        let reply = alex.try_post("/WebhookLogs/Resend", &body.to_string(), &wrong).await.expect("an answer");
        assert_eq!(wrong_fields(&reply), ["Idempotency-Key"]);
    }
}

#[tokio::test]
async fn what_is_wrong_in_a_body_is_named() {
    let rig = Rig::start().await;
    let alex = rig.alex().await;
    let id = "01900000-0000-7000-8000-00000000dead";
    for (body, fields) in [
        (json!({}), vec!["webhook"]),
        (json!({"webhook": null}), vec!["webhook"]),
        (json!({"webhook": "a/b", "deliveryId": id}), vec!["webhook"]),
        (json!({"deliveryId": id, "preview": true}), vec!["preview"]),
        (json!({"deliveryId": null}), vec!["deliveryId"]),
        (json!({"deliveryId": "x"}), vec!["deliveryId"]),
        (json!({"deliveryId": id.to_uppercase()}), vec!["deliveryId"]),
        (json!({"deliveryId": 7}), vec!["deliveryId"]),
        (json!({"webhook": "a/b", "limit": 0, "perSecond": 101}), vec!["limit", "perSecond"]),
        (json!({"webhook": "a/b", "limit": 10_001, "perSecond": 0}), vec!["limit", "perSecond"]),
        (json!({"webhook": "a/b", "limit": 1.5, "preview": "yes"}), vec!["limit", "preview"]),
        (json!({"webhook": "a/b", "from": "now", "to": 7}), vec!["from", "to"]),
        (json!({"webhook": "a/b", "status": "DeadLetter"}), vec!["status"]),
    ] {
        assert_eq!(wrong_fields(&resend(&alex, &body).await), fields, "{body}");
    }
    for body in [json!({}), json!({"resendId": "x"}), json!({"resendId": "A".repeat(32)})] {
        assert_eq!(wrong_fields(&alex.post("/WebhookLogs/StopResend", &body).await), ["resendId"], "{body}");
    }
}

#[tokio::test]
async fn what_is_being_sent_again_is_not_doubled() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    all_dead(&rig, 1).await;
    let alex = rig.alex().await;
    let one = json!({"deliveryId": items(&alex, "/WebhookLogs/Search").await[0]["deliveryId"]});
    // This delivery stays under way during the test.
    rig.change(
        "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms)
         SELECT '0fffffff-0000-7000-8000-000000000001', event_id, webhook, webhook_name, 'Pending', 0, 99999999999999, 0
         FROM delivery",
    );
    let reply = resend(&alex, &one).await;
    assert!(reply.status == 409 && reply.detail().contains("already"), "{reply:?}");
    assert_eq!(rig.count("SELECT count(*) FROM delivery"), 2);
}

#[tokio::test]
async fn an_event_that_is_not_subscribed_any_more_is_not_sent_again() {
    let (rig, alex) = dead(1).await;
    let one = json!({"deliveryId": items(&alex, "/WebhookLogs/Search").await[0]["deliveryId"]});
    let yaml = webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/");
    rig.home.write("more.yaml", &yaml.replace("order.created, ", ""));
    eventually("the webhook is edited", Duration::from_secs(10), async || {
        resend(&alex, &one).await.text().contains("not subscribed")
    })
    .await;
    let preview = resend(&alex, &json!({"webhook": "default/orders", "preview": true})).await.json();
    assert_eq!((&preview["count"], &preview["total"]), (&json!(0), &json!(0)));
}
