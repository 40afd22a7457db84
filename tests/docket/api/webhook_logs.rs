//! GET /WebhookLogs/Search and GET /WebhookLogs/Get.

use std::time::Duration;

use docket_orders::OrderType;
use docket_tests::people::ALEX;
use docket_tests::server::{Client, Reply, api_key, eventually, webhook_yaml};
use docket_tests::stores;
use serde_json::{Value, json};

use super::rig::{Rig, captioned, example, get, home, problem, refused, save, with, wrong_fields};

/// A forbidden address, so that an attempt fails at once.
const NOWHERE: &str = "https://127.0.0.1:9/";
const FORBIDDEN: &str = "Only an administrator of the tenant may see this";
/// The id of no delivery.
const UNKNOWN: &str = "01900000-0000-7000-8000-00000000dead";

/// Starts with the webhooks `orders` of C-1 and `others` of C-2, whose deliveries soon become dead letters.
pub(crate) async fn dying() -> Rig {
    let webhooks =
        webhook_yaml("acme", "orders", "C-1", NOWHERE) + &webhook_yaml("acme", "others", "C-2", NOWHERE);
    Rig::with(&webhooks, "--backoff-base 1ms --poll-interval 100ms").await
}

/// Waits until there are `count` deliveries and all are dead letters.
pub(crate) async fn all_dead(rig: &Rig, count: i64) {
    eventually("all are dead letters", Duration::from_secs(15), async || {
        rig.count("SELECT count(*) FROM delivery WHERE status = 'DeadLetter'") == count
    })
    .await;
    assert_eq!(rig.count("SELECT count(*) FROM delivery"), count);
}

pub(super) async fn items(client: &Client, target: &str) -> Vec<Value> {
    let reply = client.get(target).await;
    assert_eq!(reply.status, 200, "{target}: {reply:?}");
    reply.json()["items"].as_array().expect("items").clone()
}

async fn search(client: &Client, query: &str) -> Vec<Value> {
    items(client, &format!("/WebhookLogs/Search{query}")).await
}

async fn one(client: &Client, id: &Value) -> Reply {
    client.get(&format!("/WebhookLogs/Get?deliveryId={}", id.as_str().expect("an id"))).await
}

#[tokio::test]
async fn the_logs_are_for_administrators() {
    let rig = Rig::start().await;
    let (ada, mo, alex) = (rig.ada().await, rig.mo().await, rig.alex().await);
    let id = "0".repeat(32);
    let (unknown, get) = (json!({"deliveryId": UNKNOWN}), format!("/WebhookLogs/Get?deliveryId={UNKNOWN}"));
    for client in [&ada, &mo] {
        for path in ["/WebhookLogs/Search", &get, "/WebhookLogs/Get", "/WebhookLogs/Resends"] {
            refused(&client.get(path).await, 403, FORBIDDEN);
        }
        for body in [&unknown, &json!({"webhook": "default/x"}), &json!({})] {
            refused(&client.post("/WebhookLogs/Resend", body).await, 403, FORBIDDEN);
        }
        refused(&client.post("/WebhookLogs/StopResend", &json!({"resendId": id})).await, 403, FORBIDDEN);
        for path in ["/WebhookLogs/SetAside", "/WebhookLogs/UndoSetAside"] {
            refused(&client.post(path, &unknown).await, 403, FORBIDDEN);
        }
    }
    assert_eq!(alex.get("/WebhookLogs/Search").await.json(), json!({"items": [], "nextCursor": null}));
    assert_eq!(alex.get("/WebhookLogs/Resends").await.json(), json!({"items": [], "nextCursor": null}));
    refused(&alex.get(&get).await, 404, "There is no such delivery");
    refused(&alex.post("/WebhookLogs/Resend", &unknown).await, 404, "There is no such delivery");
}

#[tokio::test]
async fn the_older_api_has_no_logs() {
    let rig = Rig::with("", "--legacy-host old.localhost").await;
    let alex = rig.alex().await;
    let bearer = format!("Bearer {}", alex.token);
    let headers = [("host", "old.localhost"), ("authorization", bearer.as_str())];
    let orders = rig.server.send("GET", "/Orders/Search", &headers, "").await;
    assert_eq!(orders.status, 200, "the token is good there");
    for path in ["/WebhookLogs/Search", "/WebhookLogs/Get", "/WebhookLogs/Resends"] {
        refused(&get(rig.server.api, path, &headers).await, 404, "There is no such route; see /swagger");
    }
    let posts = [
        "/WebhookLogs/Resend",
        "/WebhookLogs/StopResend",
        "/WebhookLogs/SetAside",
        "/WebhookLogs/UndoSetAside",
    ];
    for path in posts {
        let reply = rig.server.send("POST", path, &headers, "{}").await;
        refused(&reply, 404, "There is no such route; see /swagger");
    }
}

#[tokio::test]
async fn a_delivery_of_another_tenant_does_not_exist() {
    let webhook = webhook_yaml("acme", "orders", "C-1", NOWHERE);
    let rig = Rig::on(home(&[("acme", 'a'), ("blue", 'b')], &webhook), "").await;
    save(&rig.ada().await, &captioned("x")).await;
    let id = search(&rig.alex().await, "").await[0]["deliveryId"].clone();
    let blue = rig.server.sign_in_employee(&api_key('b'), ALEX).await;
    assert!(search(&blue, "").await.is_empty());
    refused(&one(&blue, &id).await, 404, "There is no such delivery");
    let resend = blue.post("/WebhookLogs/Resend", &json!({"deliveryId": id})).await;
    refused(&resend, 404, "There is no such delivery");
}

#[tokio::test]
async fn a_delivery_shows_its_payload_and_every_attempt_with_what_to_do() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    all_dead(&rig, 1).await;
    let alex = rig.alex().await;
    let listed = search(&alex, "").await.remove(0);
    let mut shown = one(&alex, &listed["deliveryId"]).await.json();
    let more = shown.as_object_mut().expect("an object");
    let [remedy, resends, attempts, payload] =
        ["remedy", "resends", "attempts", "payload"].map(|name| more.remove(name).expect("a field"));
    assert_eq!((&shown, resends), (&listed, json!([])));
    let fixed = with(listed, json!({"deliveryId": 0, "eventId": 0, "createdAt": 0, "finishedAt": 0}));
    let expected = json!({"deliveryId": 0, "eventId": 0, "event": "order.created", "customerCode": "C-1",
        "webOrderId": "W00000001", "workOrder": null, "invoiceNumber": null, "webhook": "default/orders",
        "status": "DeadLetter", "attemptCount": 5, "nextAttemptAt": null, "waitsFor": null, "failureClass": "BlockedAddress",
        "failureCause": null, "failureDetail": null,
        "httpStatus": null, "idempotencyKey": null, "resendOf": null, "resendId": null, "isTest": false, "requestedBy": null, "createdAt": 0, "finishedAt": 0,
        "resent": false, "setAsideBy": null, "setAsideAt": null});
    assert_eq!(fixed, expected);
    assert_eq!((&payload["id"], &payload["event"]), (&shown["eventId"], &json!("order.created")));
    assert_eq!(payload["data"], json!({"orderType": "Court", "webOrderId": "W00000001"}));
    assert!(remedy.as_str().is_some_and(|text| text.contains("public address")), "{remedy}");

    let attempts = attempts.as_array().expect("a list");
    assert_eq!(attempts.iter().map(|one| one["number"].clone()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    for attempt in attempts {
        assert_eq!(
            (&attempt["outcome"], &attempt["failureClass"]),
            (&json!("Failed"), &json!("BlockedAddress"))
        );
        assert_eq!((&attempt["remedy"], &attempt["responseBody"]), (&remedy, &Value::Null));
        assert!(attempt["startedAt"].is_string() && attempt["finishedAt"].is_string(), "{attempt}");
        assert!(attempt["timesMicroseconds"]["total"].is_i64(), "{attempt}");
    }
}

#[tokio::test]
async fn the_payload_is_the_stored_bytes_and_reading_it_is_logged_by_ids() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    let alex = rig.alex().await;
    let id = search(&alex, "").await[0]["deliveryId"].clone();
    let reply = one(&alex, &id).await;
    let body: Vec<u8> = rig.database("ACME").get("SELECT body FROM event");
    let body = String::from_utf8(body).expect("JSON");
    assert!(reply.text().contains(&body), "{reply:?}");
    let line = rig.logged("delivery read").await;
    assert!(line.contains(id.as_str().expect("text")) && line.contains("employee 52"), "{line}");
    assert!(!search(&alex, "").await[0].as_object().expect("an object").contains_key("payload"));
}

/// The statements that give the event of the dead letter this id, past the API.
pub(crate) fn event_renamed(id: &str) -> [String; 2] {
    [
        format!(
            "INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms) \
             SELECT '{id}', code, customer_code, web_order_id, body, occurred_at_ms FROM event LIMIT 1"
        ),
        format!("UPDATE delivery_history SET event_id = '{id}'"),
    ]
}

/// Ids that no header can carry.
pub(crate) fn invalid_ids() -> [String; 4] {
    ["evt_x\nINJECTED".into(), "evt_é".into(), "x".repeat(400), String::new()]
}

#[tokio::test]
async fn a_delivery_whose_events_id_is_invalid_is_shown_without_payload_and_is_not_resent() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    all_dead(&rig, 1).await;
    let alex = rig.alex().await;
    let id = search(&alex, "").await[0]["deliveryId"].clone();
    let preview = json!({"webhook": "default/orders", "preview": true});
    let total = async || alex.post("/WebhookLogs/Resend", &preview).await.json()["total"].clone();
    assert_eq!(total().await, 1, "with a valid id");
    for event in invalid_ids() {
        event_renamed(&event).iter().for_each(|sql| rig.change(sql));
        let shown = one(&alex, &id).await;
        assert_eq!(shown.status, 200, "{event:?}: {shown:?}");
        let shown = shown.json();
        assert_eq!(
            (&shown["deliveryId"], &shown["eventId"], &shown["payload"]),
            (&id, &json!(""), &Value::Null),
            "{event:?}"
        );
        assert_eq!(search(&alex, "").await[0]["eventId"], "", "{event:?}");
        let resend = alex.post("/WebhookLogs/Resend", &json!({"deliveryId": id})).await;
        assert!(
            resend.status == 409 && resend.detail().contains("event is invalid"),
            "{event:?}: {resend:?}"
        );
        assert_eq!(search(&alex, "?deadLetter=open").await.len(), 1, "{event:?} counts");
        assert_eq!(total().await, 0, "{event:?}");
        let resend = alex.post("/WebhookLogs/Resend", &json!({"webhook": "default/orders"})).await;
        assert_eq!((resend.status, &resend.json()["count"]), (200, &json!(0)), "{event:?}: {resend:?}");
        for path in ["/WebhookLogs/SetAside", "/WebhookLogs/UndoSetAside"] {
            assert_eq!(alex.post(path, &json!({"deliveryId": id})).await.status, 200, "{event:?} {path}");
        }
    }
    assert!(!rig.log().contains("INJECTED"));
}

#[tokio::test]
async fn a_delivery_whose_stored_event_is_no_json_or_too_long_is_shown_without_payload() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    all_dead(&rig, 1).await;
    let alex = rig.alex().await;
    let id = search(&alex, "").await[0]["deliveryId"].clone();
    let bodies = match stores::are_servers() {
        true => [
            "'{'",
            "'\\xff'",
            "''",
            "decode(repeat('00', 65537), 'hex')",
            "decode(repeat('00', 9000000), 'hex')",
        ],
        false => ["x'7b'", "x'ff'", "x''", "zeroblob(65537)", "zeroblob(9000000)"],
    };
    for body in bodies {
        rig.change(&format!("UPDATE event SET body = {body}"));
        let shown = one(&alex, &id).await;
        assert_eq!((shown.status, &shown.json()["payload"]), (200, &Value::Null), "{body}: {shown:?}");
    }
}

#[tokio::test]
async fn deliveries_are_found_by_what_they_are() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("one")).await;
    save(&rig.bea().await, &captioned("two")).await;
    all_dead(&rig, 2).await;
    rig.change("UPDATE delivery_history SET created_at_ms = 86400000 WHERE webhook_name = 'default/orders'");
    rig.change("UPDATE delivery_history SET status = 'Succeeded', failure_class = NULL WHERE webhook_name = 'default/others'");
    rig.change("UPDATE delivery_history SET http_status = 429 WHERE webhook_name = 'default/others'");
    let alex = rig.alex().await;
    let one = search(&alex, "?webhook=default/orders").await.remove(0);
    let [event, delivery] = ["eventId", "deliveryId"].map(|name| one[name].as_str().expect("text"));
    let (first, second) = (vec!["W00000001"], vec!["W00000002"]);
    for (query, expected) in [
        ("", vec!["W00000002", "W00000001"]),
        ("?status=DeadLetter", first.clone()),
        ("?status=Succeeded", second.clone()),
        ("?status=Pending", vec![]),
        ("?webhook=default/orders", first.clone()),
        ("?webhook=file:default/others", second.clone()),
        ("?webhook=ORDERS", first.clone()),
        ("?customerCode=C-1", first.clone()),
        ("?customerCode=C-2&status=Succeeded", second.clone()),
        ("?customerCode=C-3", vec![]),
        ("?customerCode=c-1", vec![]),
        ("?kind=first", vec!["W00000002", "W00000001"]),
        ("?kind=resend", vec![]),
        ("?kind=test", vec![]),
        ("?find=W00000002", second.clone()),
        ("?find=w00000002", second.clone()),
        ("?find=W00000002&status=DeadLetter", vec![]),
        ("?find=W00000009", vec![]),
        (&format!("?find={}", event.to_uppercase()), first.clone()),
        (&format!("?find={}", delivery.to_uppercase()), first.clone()),
        ("?event=order.created", vec!["W00000002", "W00000001"]),
        ("?event=note.created", vec![]),
        ("?failureClass=BlockedAddress", first.clone()),
        ("?failureClass=Dns", vec![]),
        ("?to=1970-01-02", vec![]),
        ("?from=1970-01-02&to=1970-01-03", first.clone()),
        ("?from=1970-01-03", second.clone()),
        ("?webOrderId=W00000002", second.clone()),
        ("?webOrderId=W00000002&status=DeadLetter", vec![]),
        ("?workOrder=W00000002", vec![]),
        ("?httpStatus=429", second.clone()),
        ("?httpStatus=429&status=DeadLetter", vec![]),
        ("?httpStatus=500", vec![]),
        ("?httpStatus=999", vec![]),
        (&format!("?eventId={event}"), first.clone()),
        (&format!("?eventId={event}&status=Succeeded"), vec![]),
        ("?eventId=evt_0", vec![]),
        ("?resendId=0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a", vec![]),
        (&format!("?deliveryId={delivery}"), first),
        (&format!("?deliveryId={UNKNOWN}"), vec![]),
    ] {
        let found = search(&alex, query).await;
        let found: Vec<&str> = found.iter().filter_map(|item| item["webOrderId"].as_str()).collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test]
async fn resends_and_tests_are_found_by_their_kind() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("one")).await;
    save(&rig.ada().await, &captioned("two")).await;
    all_dead(&rig, 2).await;
    let alex = rig.alex().await;
    let [second, first] = &search(&alex, "").await[..] else { panic!("not two") };
    let resent = alex.post("/WebhookLogs/Resend", &json!({"deliveryId": first["deliveryId"]})).await;
    assert_eq!(resent.status, 200, "{resent:?}");
    let event = second["eventId"].as_str().expect("text");
    rig.change(&format!("INSERT INTO test_event (id, webhook) VALUES ('{event}', 'default/orders/C-1')"));
    let found = async |kind: &str| {
        let found = search(&alex, &format!("?kind={kind}")).await;
        found.iter().map(|item| (item["resendOf"].clone(), item["isTest"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(found("resend").await, [(first["deliveryId"].clone(), json!(false))]);
    assert_eq!(found("test").await, [(Value::Null, json!(true))]);
    assert_eq!(found("first").await, [(Value::Null, json!(false))]);
}

#[tokio::test]
async fn name_of_no_webhook_is_refused_with_the_nearest_name() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    all_dead(&rig, 1).await;
    // The earlier webhook is not declared any more.
    rig.change("UPDATE delivery_history SET webhook = 'default/gone/C-1', webhook_name = 'default/gone'");
    let alex = rig.alex().await;
    assert_eq!(search(&alex, "?webhook=default/gone").await.len(), 1);
    assert_eq!(search(&alex, "?webhook=default/gone/C-1").await.len(), 1);
    for (name, said) in [
        ("default/ordres", "did you mean default/orders?"),
        ("othrs", "did you mean default/others?"),
        ("zzzzzzzzzzzz", "no delivery went to one of this name"),
    ] {
        let reply = alex.get(&format!("/WebhookLogs/Search?webhook={name}")).await;
        assert_eq!(problem(&reply, 404)["errors"][0]["field"], "webhook", "{name}");
        assert!(reply.text().contains(said), "{name}: {reply:?}");
    }
}

#[tokio::test]
async fn deliveries_are_found_by_each_work_order_of_an_export_and_by_invoice() {
    let rig = dying().await;
    let order = with(example(OrderType::Process), json!({"export": true}));
    let exported = rig.ada().await.post("/Orders/Save", &order).await.json();
    let made = exported["processWorkOrders"].as_array().expect("work orders").clone();
    assert_eq!(made.len(), 2);
    let alex = rig.alex().await;
    for number in made {
        let found = search(&alex, &format!("?workOrder={}", number.as_str().expect("text"))).await;
        assert_eq!(found.len(), 1, "{number}");
        assert_eq!(found[0]["event"], "order.exported");
        let order = found[0]["webOrderId"].as_str().expect("text");
        assert_eq!(found[0]["idempotencyKey"], format!("order.exported:{order}"));
    }
    // Changes the event to what the detector of invoices stores.
    rig.change("UPDATE event SET code = 'invoice.created', web_order_id = NULL, work_order = 'CT7', invoice_number = 'I-7' WHERE code = 'order.created'");
    // The last two are facility keys.
    for query in [
        "?invoiceNumber=I-7",
        "?find=i-7",
        "?find=ct7",
        "?find=CT7-F00213",
        "?workOrder=CT7",
        "?workOrder=CT7:1",
        "?workOrder=CT7-F00213",
    ] {
        let found = search(&alex, query).await;
        assert_eq!((found.len(), &found[0]["invoiceNumber"]), (1, &json!("I-7")), "{query}");
    }
    assert!(search(&alex, "?invoiceNumber=CT7").await.is_empty());
}

#[tokio::test]
async fn pages_join_without_gaps() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", NOWHERE), "").await;
    let ada = rig.ada().await;
    for number in 0..5 {
        save(&ada, &captioned(&number.to_string())).await;
    }
    let alex = rig.alex().await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = alex.get(&format!("/WebhookLogs/Search?pageSize=2{cursor}")).await.json();
        seen.extend(page["items"].as_array().expect("items").iter().map(|item| item["webOrderId"].clone()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["W00000005", "W00000004", "W00000003", "W00000002", "W00000001"]);
}

#[tokio::test]
async fn what_is_still_to_come_has_a_next_attempt() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", NOWHERE), "").await;
    save(&rig.ada().await, &captioned("x")).await;
    eventually("it failed once", Duration::from_secs(10), async || {
        rig.count("SELECT count(*) FROM delivery WHERE status = 'Failed'") == 1
    })
    .await;
    let item = search(&rig.alex().await, "?status=Failed").await.remove(0);
    assert!(item["nextAttemptAt"].is_string() && item["finishedAt"].is_null(), "{item}");
}

#[tokio::test]
async fn what_is_wrong_in_a_query_is_named() {
    let rig = Rig::start().await;
    let alex = rig.alex().await;
    let long = "x".repeat(331);
    for (target, field) in [
        ("Search?status=dead", "status"),
        ("Search?event=order", "event"),
        ("Search?failureClass=dns", "failureClass"),
        ("Search?from=now", "from"),
        ("Search?to=2026-02-30", "to"),
        ("Search?webOrderId=", "webOrderId"),
        ("Search?workOrder=%00", "workOrder"),
        (&format!("Search?webhook={long}"), "webhook"),
        (&format!("Search?invoiceNumber={}", &long[..65]), "invoiceNumber"),
        ("Search?httpStatus=99", "httpStatus"),
        ("Search?httpStatus=1000", "httpStatus"),
        ("Search?httpStatus=4xx", "httpStatus"),
        ("Search?resendId=r1", "resendId"),
        ("Search?eventId=", "eventId"),
        ("Search?deliveryId=W00000001", "deliveryId"),
        ("Search?kind=none", "kind"),
        (&format!("Search?customerCode={}", &long[..65]), "customerCode"),
        (&format!("Search?find={}", &long[..81]), "find"),
        ("Search?pageSize=0", "pageSize"),
        ("Search?cursor=x", "cursor"),
        ("Search?about=W1", "about"),
        ("Get", "deliveryId"),
        ("Get?deliveryId=W00000001", "deliveryId"),
        (&format!("Get?deliveryId={}", UNKNOWN.to_uppercase()), "deliveryId"),
        (&format!("Get?deliveryId={UNKNOWN}&x=1"), "x"),
        ("Resends?resendId=1", "resendId"),
        (&format!("Resends?resendId={}", "G".repeat(32)), "resendId"),
    ] {
        assert_eq!(wrong_fields(&alex.get(&format!("/WebhookLogs/{target}")).await), [field], "{target}");
    }
}

#[tokio::test]
async fn who_is_no_administrator_any_more_sees_nothing_with_an_old_token() {
    let rig = Rig::start().await;
    let alex = rig.alex().await;
    assert_eq!(alex.get("/WebhookLogs/Search").await.status, 200);
    for change in ["administrator = FALSE", "administrator = TRUE, active = FALSE"] {
        rig.change(&format!("UPDATE employee SET {change} WHERE code = '52'"));
        refused(&alex.get("/WebhookLogs/Search").await, 403, FORBIDDEN);
    }
    rig.change("DELETE FROM employee WHERE code = '52'");
    refused(&alex.get("/WebhookLogs/Search").await, 403, FORBIDDEN);
}
