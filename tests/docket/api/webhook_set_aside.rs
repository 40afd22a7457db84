//! POST /WebhookLogs/SetAside and POST /WebhookLogs/UndoSetAside, and which dead letters count.

use std::time::Duration;

use docket_tests::server::{Client, Reply, api_key, eventually, webhook_yaml};
use serde_json::{Value, json};

use super::rig::{Rig, captioned, refused, save, wrong_fields};
use super::webhook_logs::{all_dead, dying, items};

async fn post(client: &Client, action: &str, body: Value) -> Reply {
    client.post(&format!("/WebhookLogs/{action}"), &body).await
}

/// Makes `count` dead letters of the webhook `orders`, and signs an administrator in. Returns the dead letters oldest first.
async fn dead(count: i64) -> (Rig, Client, Vec<String>) {
    let rig = dying().await;
    let ada = rig.ada().await;
    for number in 0..count {
        save(&ada, &captioned(&number.to_string())).await;
    }
    all_dead(&rig, count).await;
    let alex = rig.alex().await;
    let found = items(&alex, "/WebhookLogs/Search").await;
    let id = |one: &Value| one["deliveryId"].as_str().expect("an id").to_owned();
    let ids = found.iter().rev().map(id).collect();
    (rig, alex, ids)
}

async fn get(client: &Client, id: &str) -> Value {
    client.get(&format!("/WebhookLogs/Get?deliveryId={id}")).await.json()
}

/// How many dead letters a bulk resend would send.
async fn previewed(client: &Client) -> i64 {
    let reply = post(client, "Resend", json!({"webhook": "default/orders", "preview": true})).await;
    reply.json()["count"].as_i64().expect("a number")
}

#[tokio::test]
async fn original_and_resend_name_each_other_with_the_outcome() {
    let (rig, alex, ids) = dead(1).await;
    let [id] = &ids[..] else { panic!("{ids:?}") };
    let reply = post(&alex, "Resend", json!({"deliveryId": id})).await;
    let first = reply.json()["deliveryId"].as_str().expect("an id").to_owned();
    all_dead(&rig, 2).await;
    let original = get(&alex, id).await;
    assert_eq!(
        (&original["resent"], &original["resends"][0]["status"]),
        (&json!(true), &json!("DeadLetter"))
    );
    assert!(original["remedy"].as_str().expect("text").contains("failed for good as well"), "{original}");
    assert_eq!(previewed(&alex).await, 1, "once, as the latest");

    let reply = post(&alex, "Resend", json!({"deliveryId": id})).await;
    let second = reply.json()["deliveryId"].as_str().expect("an id").to_owned();
    all_dead(&rig, 3).await;
    rig.change(&format!("UPDATE delivery_history SET status = 'Succeeded' WHERE id = '{second}'"));
    let original = get(&alex, id).await;
    let resends: Vec<_> = original["resends"].as_array().expect("a list").clone();
    let brief = |one: &Value| json!([one["deliveryId"], one["status"], one["requestedBy"], one["resendOf"]]);
    assert_eq!(
        resends.iter().map(brief).collect::<Vec<_>>(),
        [json!([second, "Succeeded", "employee 52", id]), json!([first, "DeadLetter", "employee 52", id])]
    );
    assert!(resends.iter().all(|one| one["createdAt"].is_string() && one["finishedAt"].is_string()));
    assert_eq!(original["remedy"], "A resend delivered the event; nothing needs to be done.");
    assert_eq!(get(&alex, &second).await["resends"], json!([]));
    assert_eq!(get(&alex, &first).await["resends"].as_array().map(Vec::len), Some(1));
    assert_eq!(previewed(&alex).await, 0);
    for old in [id, &first] {
        let reply = post(&alex, "SetAside", json!({"deliveryId": old})).await;
        assert!(reply.status == 409 && reply.detail().contains("was resent"), "{reply:?}");
    }
    let reply = post(&alex, "SetAside", json!({"deliveryId": second})).await;
    assert!(reply.status == 409 && reply.detail().contains("not a dead letter"), "{reply:?}");
}

#[tokio::test]
async fn one_is_set_aside_and_back_and_says_so() {
    let (rig, alex, ids) = dead(2).await;
    let one = || json!({"deliveryId": ids[0]});
    for count in [1, 0] {
        let reply = post(&alex, "SetAside", one()).await;
        assert_eq!((reply.status, reply.json()), (200, json!({"changed": count})), "{reply:?}");
    }
    let shown = get(&alex, &ids[0]).await;
    assert_eq!((&shown["setAsideBy"], &shown["status"]), (&json!("employee 52"), &json!("DeadLetter")));
    assert!(shown["setAsideAt"].is_string() && shown["remedy"].as_str().expect("text").contains("set aside"));
    assert_eq!(items(&alex, "/WebhookLogs/Search").await[1]["setAsideBy"], "employee 52");
    assert_eq!(previewed(&alex).await, 1);
    let line = rig.logged("dead letters set aside").await;
    assert!(line.contains(&ids[0]) && line.contains("employee 52"), "{line}");
    for count in [1, 0] {
        assert_eq!(post(&alex, "UndoSetAside", one()).await.json(), json!({"changed": count}));
    }
    let shown = get(&alex, &ids[0]).await;
    assert_eq!((&shown["setAsideBy"], &shown["setAsideAt"]), (&Value::Null, &Value::Null));
    assert_eq!(previewed(&alex).await, 2);
    // Resending the dead letter alone ends the setting aside.
    assert_eq!(post(&alex, "SetAside", one()).await.json(), json!({"changed": 1}));
    assert_eq!(post(&alex, "Resend", one()).await.status, 200);
    assert_eq!(get(&alex, &ids[0]).await["setAsideBy"], Value::Null);
}

#[tokio::test]
async fn many_are_chosen_as_for_a_resend() {
    let (rig, alex, ids) = dead(4).await;
    rig.change("UPDATE delivery_history SET created_at_ms = 86400000 * (SELECT CAST(substr(web_order_id, 2) AS INTEGER) FROM event WHERE id = event_id)");
    let of = |more: Value| super::rig::with(json!({"webhook": "default/orders"}), more);
    let preview = post(&alex, "SetAside", of(json!({"preview": true, "limit": 3}))).await.json();
    assert_eq!((&preview["count"], &preview["total"]), (&json!(3), &json!(4)), "{preview}");
    assert_eq!(preview["oldest"], "1970-01-02T00:00:00.000Z");
    for (more, count) in [
        (json!({"event": "note.created"}), 0),
        (json!({"from": "1970-01-03", "to": "1970-01-04"}), 1),
        (json!({"event": "order.created", "limit": 2}), 2),
    ] {
        assert_eq!(
            post(&alex, "SetAside", of(more.clone())).await.json(),
            json!({"changed": count}),
            "{more}"
        );
    }
    assert_eq!(get(&alex, &ids[3]).await["setAsideBy"], Value::Null, "the oldest first");
    assert_eq!(previewed(&alex).await, 1);
    let resent = post(&alex, "Resend", of(json!({"event": "note.created"}))).await.json();
    assert_eq!(resent["count"], 0);
    let back = post(&alex, "UndoSetAside", of(json!({"to": "1970-01-03"}))).await.json();
    assert_eq!((back, previewed(&alex).await), (json!({"changed": 1}), 2));
    assert_eq!(post(&alex, "Resend", of(json!({"preview": false}))).await.json()["count"], 2);
}

#[tokio::test]
async fn what_died_after_the_preview_is_not_set_aside_with_the_others() {
    let (rig, alex, ids) = dead(1).await;
    let all = |more: Value| super::rig::with(json!({"webhook": "default/orders"}), more);
    let preview = post(&alex, "SetAside", all(json!({"preview": true}))).await.json();
    save(&rig.ada().await, &captioned("late")).await;
    all_dead(&rig, 2).await;
    let seen = || all(json!({"endedBefore": preview["endedBefore"]}));
    let again = post(&alex, "SetAside", super::rig::with(seen(), json!({"preview": true}))).await.json();
    assert_eq!(again, preview, "the same once more");
    assert_eq!(post(&alex, "SetAside", seen()).await.json(), json!({"changed": 1}));
    assert!(get(&alex, &ids[0]).await["setAsideBy"].is_string());
    assert_eq!(previewed(&alex).await, 1, "the late one counts");
}

#[tokio::test]
async fn dead_letters_are_found_by_what_became_of_them() {
    let (rig, alex, ids) = dead(3).await;
    let resent = post(&alex, "Resend", json!({"deliveryId": ids[0]})).await.json();
    post(&alex, "SetAside", json!({"deliveryId": ids[1]})).await;
    all_dead(&rig, 4).await;
    let resend = resent["deliveryId"].as_str().expect("an id");
    for (query, expected) in [
        ("?deadLetter=open", vec![resend, &ids[2]]),
        ("?deadLetter=resent", vec![&ids[0]]),
        ("?deadLetter=setAside&status=DeadLetter", vec![&ids[1]]),
        ("?deadLetter=open&status=Succeeded", vec![]),
        ("?deadLetter=open&webhook=default/orders", vec![resend, &ids[2]]),
        ("?deadLetter=open&webhook=default/others", vec![]),
        ("?deadLetter=open&pageSize=1", vec![resend]),
        ("?status=DeadLetter", vec![resend, &ids[2], &ids[1], &ids[0]]),
    ] {
        let found = items(&alex, &format!("/WebhookLogs/Search{query}")).await;
        let found: Vec<&str> = found.iter().filter_map(|item| item["deliveryId"].as_str()).collect();
        assert_eq!(found, expected, "{query}");
    }
    for (word, id) in [("open", &ids[2]), ("resent", &ids[0]), ("set-aside", &ids[1])] {
        let (done, text) =
            rig.home.command(&["deliveries", "list", "--tenant", "ACME", "--dead-letter", word], "");
        assert!(done && text.contains(&**id), "{word}: {text}");
        let others = ids.iter().filter(|other| *other != id);
        assert!(others.into_iter().all(|other| !text.contains(&**other)), "{word}: {text}");
    }
    let wrong = alex.get("/WebhookLogs/Search?deadLetter=set-aside").await;
    assert_eq!(wrong_fields(&wrong), ["deadLetter"]);
}

#[tokio::test]
async fn resend_that_waits_says_for_what_at_the_original_too() {
    let (rig, alex, ids) = dead(1).await;
    // Another process has begun the resend.
    let resend = "01900000-0000-7000-8000-00000000beef";
    rig.change(&format!(
        "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, resend_of, created_at_ms, lease_token, lease_until_ms) \
         SELECT '{resend}', event_id, webhook, webhook_name, 'Pending', 0, 0, id, created_at_ms + 1, 'x', 9000000000000 FROM delivery_history"
    ));
    let shown = get(&alex, &ids[0]).await;
    let waits_for = shown["resends"][0]["waitsFor"].as_str().expect("it is due");
    assert_eq!(get(&alex, resend).await["waitsFor"], waits_for);
    assert_eq!(shown["waitsFor"], Value::Null);
}

/// Such dead letters can only be set aside.
#[tokio::test]
async fn dead_letters_of_a_webhook_that_is_inactive_or_gone_are_set_aside_too() {
    let (rig, alex, _) = dead(1).await;
    let yaml = webhook_yaml("acme", "others", "C-2", "https://127.0.0.1:9/");
    rig.home.write("more.yaml", &yaml);
    eventually("the webhook is gone", Duration::from_secs(10), async || {
        post(&alex, "Resend", json!({"webhook": "default/orders", "preview": true})).await.status == 409
    })
    .await;
    let all = json!({"webhook": "default/orders"});
    assert_eq!(post(&alex, "SetAside", all.clone()).await.json(), json!({"changed": 1}));
    assert_eq!(post(&alex, "UndoSetAside", all).await.json(), json!({"changed": 1}));
    let unknown = post(&alex, "SetAside", json!({"webhook": "default/never"})).await;
    assert!(unknown.status == 404 && unknown.detail().contains("no webhook"), "{unknown:?}");
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_and_a_stranger_none() {
    let (rig, alex, ids) = dead(1).await;
    let body = json!({"deliveryId": ids[0]}).to_string();
    for _ in 0..2 {
        let reply = alex.try_post("/WebhookLogs/SetAside", &body, &[("idempotency-key", "k")]).await;
        assert_eq!(reply.expect("an answer").json(), json!({"changed": 1}));
    }
    assert_eq!(rig.count("SELECT count(*) FROM audit WHERE event = 'DeadLettersSetAside'"), 1);
    let unknown = json!({"deliveryId": "01900000-0000-7000-8000-00000000dead"});
    refused(&post(&alex, "SetAside", unknown).await, 404, "There is no such delivery");
    let ada = rig.server.sign_in(&api_key('a'), docket_tests::people::ADA).await;
    assert_eq!(post(&ada, "SetAside", json!({"deliveryId": ids[0]})).await.status, 403);
}

#[tokio::test]
async fn what_is_wrong_in_a_body_is_named() {
    let rig = Rig::start().await;
    let alex = rig.alex().await;
    let id = "01900000-0000-7000-8000-00000000dead";
    for (body, fields) in [
        (json!({}), vec!["webhook"]),
        (json!({"deliveryId": id, "preview": true}), vec!["preview"]),
        (json!({"webhook": "a/b", "deliveryId": id}), vec!["webhook"]),
        (json!({"webhook": "a/b", "limit": 10_001}), vec!["limit"]),
        (json!({"webhook": "a/b", "event": "x", "from": "now"}), vec!["event", "from"]),
        (json!({"webhook": "a/b", "perSecond": 1}), vec!["perSecond"]),
    ] {
        for action in ["SetAside", "UndoSetAside"] {
            assert_eq!(wrong_fields(&post(&alex, action, body.clone()).await), fields, "{action} {body}");
        }
    }
}
