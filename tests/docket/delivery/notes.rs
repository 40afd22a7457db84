//! note.created and order.status_changed: exactly the contract's fields.

use std::time::Duration;

use docket_tests::receiver::{Post, Receiver};
use docket_tests::server::{Client, Home, Server};
use serde_json::{Value, json};

use crate::delivery::stage::{ONCE, Webhook, all_end, deliveries, remains, stage, together};

async fn start(hook: &Receiver, events: &'static str) -> (Home, Server, Client) {
    stage(&[Webhook { events, ..Webhook::new("notes", hook.url("/")) }], ONCE).await
}

const BOTH: &str = "note.created, order.status_changed";

/// Exports the photocopy example: two stops, the first with the facility F00213.
async fn photo_copy(client: &Client) -> String {
    let examples = docket_orders::examples();
    let (_, text) = examples.iter().find(|(kind, _)| kind.as_str() == "PhotoCopy").expect("an example");
    let mut order: Value = serde_json::from_str(text).expect("JSON");
    order["export"] = json!(true);
    let reply = client.post("/Orders/Save", &order).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["workOrderId"].as_str().expect("a work order").to_owned()
}

async fn add(client: &Client, work_order: &str, more: Value) -> i64 {
    let mut note =
        json!({"workOrder": work_order, "workOrderType": "PhotoCopy", "report": "Noted at the desk."});
    note.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let reply = client.post("/Notes/Add", &note).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["lineItem"].as_i64().expect("a number")
}

/// The data of the events with this code, in the order in which they were published.
fn data(hook: &Receiver, code: &str) -> Vec<Value> {
    let mut envelopes: Vec<Value> = hook.posts().iter().map(Post::envelope).collect();
    envelopes.retain(|envelope| envelope["event"] == code);
    envelopes.sort_by_key(|envelope| envelope["occurredAt"].to_string());
    for envelope in &envelopes {
        assert_eq!(envelope["customerCode"], "C-1");
    }
    envelopes.into_iter().map(|envelope| envelope["data"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_is_an_event() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = start(&hook, BOTH).await;
    let photo = photo_copy(&client).await;
    add(&client, &photo, json!({"report": "Žofie’s 契約 📦\nsecond line"})).await;
    all_end(&home, 1).await;
    let expected = json!({"workOrder": photo, "workOrderType": "PhotoCopy",
        "report": "Žofie’s 契約 📦\nsecond line", "lineItem": 1, "facilityLineItem": null});
    assert_eq!(data(&hook, "note.created"), [expected]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_milestone_is_a_second_event_with_the_previous_one() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = start(&hook, BOTH).await;
    let photo = photo_copy(&client).await;
    let by_facility = format!("{photo}-F00213");
    let steps = [
        // A stop, named by its line item, with no milestone before this one.
        (&photo, json!({"facilityLineItem": 1, "milestoneCode": 200})),
        // The stop of the previous milestone, by its facility.
        (&by_facility, json!({"milestoneCode": 210})),
        // Another stop has not reached this milestone.
        (&photo, json!({"facilityLineItem": 2, "milestoneCode": 110})),
        // Both a facility and a line item: the line item decides.
        (&by_facility, json!({"facilityLineItem": 1, "milestoneCode": 320})),
        // A note on the whole work order.
        (&photo, json!({"milestoneCode": 410})),
        // A milestone of the whole work order counts for each stop.
        (&photo, json!({"facilityLineItem": 2, "milestoneCode": 900})),
    ];
    for (number, (key, more)) in (1..).zip(&steps) {
        assert_eq!(add(&client, key, more.clone()).await, number);
        all_end(&home, 2 * usize::try_from(number).expect("small")).await;
    }
    let titles = |code: i64| match code {
        110 => "Order reviewed",
        200 => "Request sent to custodian",
        210 => "Custodian served",
        320 => "Records copied or received",
        410 => "Delivered",
        _ => "Closed",
    };
    let changed = |key: &str, stop: Option<i64>, code: i64, previous: Option<i64>| {
        json!({"workOrder": photo, "orderType": "PhotoCopy", "facilityKey": key, "facilityLineItem": stop,
            "milestoneCode": code, "milestone": titles(code), "previousMilestoneCode": previous,
            "previousMilestone": previous.map(titles)})
    };
    let stop = |number: i64| format!("{photo}:{number}");
    let expected = [
        changed(&stop(1), Some(1), 200, None),
        changed(&by_facility, Some(1), 210, Some(200)),
        changed(&stop(2), Some(2), 110, None),
        changed(&stop(1), Some(1), 320, Some(210)),
        changed(&photo, None, 410, Some(320)),
        changed(&stop(2), Some(2), 900, Some(410)),
    ];
    assert_eq!(data(&hook, "order.status_changed"), expected);
    let stops: Vec<Value> =
        data(&hook, "note.created").iter().map(|note| note["facilityLineItem"].clone()).collect();
    assert_eq!(json!(stops), json!([1, 1, 2, 1, null, 2]));
    let works: Vec<Value> =
        data(&hook, "note.created").iter().map(|note| note["workOrder"].clone()).collect();
    assert_eq!(works, vec![json!(photo); 6], "without the facility");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn milestones_of_the_back_office_are_no_events_but_the_previous_ones() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = start(&hook, BOTH).await;
    let photo = photo_copy(&client).await;
    home.open("ACME").change(&format!(
        "INSERT INTO milestone (code, title) VALUES (555, NULL);
         INSERT INTO note (work_order, line_item, facility_line_item, milestone_code, created_at_ms)
           VALUES ('{photo}', 1, 1, 555, 0)"
    ));
    remains("nothing is queued", Duration::from_millis(500), async || deliveries(&home).is_empty()).await;
    assert_eq!(add(&client, &photo, json!({"facilityLineItem": 1, "milestoneCode": 900})).await, 2);
    all_end(&home, 2).await;
    let changed = data(&hook, "order.status_changed").remove(0);
    assert_eq!(
        (&changed["previousMilestoneCode"], &changed["previousMilestone"]),
        (&json!(555), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn title_that_a_milestone_does_not_have_is_left_out() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = start(&hook, BOTH).await;
    let photo = photo_copy(&client).await;
    let untitled = "INSERT INTO milestone (code, title) VALUES (555, NULL)";
    home.open("ACME").change(untitled);
    add(&client, &photo, json!({"milestoneCode": 555})).await;
    all_end(&home, 2).await;
    let expected = json!({"workOrder": photo, "orderType": "PhotoCopy", "facilityKey": photo, "facilityLineItem": null,
        "milestoneCode": 555, "previousMilestoneCode": null, "previousMilestone": null});
    assert_eq!(data(&hook, "order.status_changed"), [expected]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_goes_to_who_subscribed_to_it() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhooks = [
        Webhook { events: "note.created", ..Webhook::new("notes", hook.url("/notes")) },
        Webhook { events: "order.status_changed", ..Webhook::new("milestones", hook.url("/milestones")) },
        Webhook { events: BOTH, customer: "C-2", ..Webhook::new("others", hook.url("/others")) },
    ];
    let (home, _server, client) = stage(&webhooks, ONCE).await;
    let photo = photo_copy(&client).await;
    add(&client, &photo, json!({"milestoneCode": 100})).await;
    all_end(&home, 2).await;
    for (path, code) in [("/notes", "note.created"), ("/milestones", "order.status_changed")] {
        let posts = hook.posts_to(path);
        let codes: Vec<_> = posts.iter().filter_map(|post| post.header("x-service-event")).collect();
        assert_eq!(codes, [code], "{path}");
    }
    assert!(hook.posts_to("/others").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_note_is_no_event() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = start(&hook, BOTH).await;
    let photo = photo_copy(&client).await;
    let note = json!({"workOrder": photo, "workOrderType": "PhotoCopy", "report": "x", "milestoneCode": 101});
    assert_eq!(client.post("/Notes/Add", &note).await.status, 400);
    remains("nothing is queued", Duration::from_millis(500), async || deliveries(&home).is_empty()).await;
    assert_eq!(home.open("ACME").get::<i64>("SELECT count(*) FROM note"), 0);
}
