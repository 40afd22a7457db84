//! Requests at the same time on PostgreSQL, whose transactions run beside each other: each has one outcome.

use std::sync::Arc;

use docket_orders::OrderType;
use docket_rig::postgres;
use docket_tests::server::{Client, Reply};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::serve::stage::{Stage, sign_in};

/// More than the connections to a tenant's database.
const AT_ONCE: usize = 16;

/// Sends requests on as many connections, all at the same moment; returns the replies in the order of the requests.
async fn at_once(
    client: &Client,
    path: &'static str,
    bodies: Vec<(Value, Option<&'static str>)>,
) -> Vec<Reply> {
    let barrier = Arc::new(Barrier::new(bodies.len()));
    let mut requests = JoinSet::new();
    for (place, (body, key)) in bodies.into_iter().enumerate() {
        let (client, barrier) = (client.clone(), Arc::clone(&barrier));
        requests.spawn(async move {
            let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
            barrier.wait().await;
            (place, client.try_post(path, &body.to_string(), &headers).await.expect("a response"))
        });
    }
    let mut replies = requests.join_all().await;
    replies.sort_by_key(|(place, _)| *place);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

fn example(kind: OrderType) -> Value {
    let (_, text) = docket_orders::examples().into_iter().find(|(other, _)| *other == kind).expect("seven");
    serde_json::from_str(text).expect("JSON")
}

async fn number(stage: &Stage, sql: &str) -> i64 {
    postgres::client(&stage.database).await.query_one(sql, &[]).await.expect("a statement").get(0)
}

/// Saves an order; returns its id.
async fn saved(client: &Client, order: &Value) -> String {
    let reply = client.post("/Orders/Save", order).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["webOrderId"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saves_at_once_under_one_key_are_one_order() {
    let stage = Stage::new().await;
    let api = stage.serve("api").await;
    let client = sign_in(&api).await;
    for (round, key) in ["one", "two", "three"].into_iter().enumerate() {
        let body = json!({"orderType": "Court", "case": {"caption": key}});
        let replies = at_once(&client, "/Orders/Save", vec![(body, Some(key)); AT_ONCE]).await;
        let replayed = |reply: &&Reply| reply.headers.contains_key("idempotency-replayed");
        for reply in &replies {
            assert_eq!((reply.status, &reply.body), (200, &replies[0].body), "{reply:?}");
        }
        assert_eq!(replies.iter().filter(replayed).count(), AT_ONCE - 1, "one was the first");
        let count = i64::try_from(round + 1).expect("few");
        for table in ["web_order", "event", "delivery"] {
            assert_eq!(number(&stage, &format!("SELECT count(*) FROM {table}")).await, count, "{table}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_at_once_all_return_the_first_ones_numbers() {
    let stage = Stage::new().await;
    let api = stage.serve("api").await;
    let client = sign_in(&api).await;
    for round in 1..=5 {
        let id = saved(&client, &example(OrderType::FileAndServe)).await;
        let replies =
            at_once(&client, "/Orders/Export", vec![(json!({"webOrderId": id}), None); AT_ONCE]).await;
        for reply in &replies {
            assert_eq!((reply.status, reply.json()), (200, replies[0].json()), "{reply:?}");
        }
        assert_eq!(number(&stage, "SELECT count(*) FROM work_order").await, 2 * round);
        let exported = "SELECT count(*) FROM event WHERE code = 'order.exported'";
        assert_eq!(number(&stage, exported).await, round);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_at_once_are_numbered_and_each_milestone_follows_the_one_before() {
    let stage = Stage::new().await;
    let yaml = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("the stage's");
    stage.home.write("all.yaml", &yaml.replace("order.created,", "order.created, order.status_changed,"));
    let api = stage.serve("api").await;
    let client = sign_in(&api).await;
    let database = postgres::client(&stage.database).await;
    let milestones =
        "INSERT INTO milestone (code, title) SELECT 9000 + n, 'Step ' || n FROM generate_series(1, 16) n";
    database.batch_execute(milestones).await.expect("milestones");
    let id = saved(&client, &example(OrderType::PhotoCopy)).await;
    let export = client.post("/Orders/Export", &json!({"webOrderId": id})).await.json();
    let note = |n: usize| {
        let body = json!({"workOrder": export["workOrderId"], "workOrderType": "PhotoCopy", "report": "Done.",
            "milestoneCode": 9000 + n});
        (body, None)
    };
    let replies = at_once(&client, "/Notes/Add", (1..=AT_ONCE).map(note).collect()).await;
    // The milestones in the order of their line items.
    let mut lines: Vec<(i64, i64)> = Vec::new();
    for (code, reply) in (9001..).zip(&replies) {
        assert_eq!(reply.status, 200, "{reply:?}");
        lines.push((reply.json()["lineItem"].as_i64().expect("a number"), code));
    }
    lines.sort_unstable();
    assert!(lines.iter().map(|(line, _)| *line).eq(1..=AT_ONCE as i64), "{lines:?}");
    let previous = [None].into_iter().chain(lines.iter().map(|(_, code)| Some(*code)));
    let mut expected: Vec<(i64, Option<i64>)> = lines.iter().map(|(_, code)| *code).zip(previous).collect();
    expected.sort_unstable();
    let sql = "SELECT body FROM event WHERE code LIKE 'order.status%'";
    let rows = database.query(sql, &[]).await.expect("a statement");
    let mut published: Vec<(i64, Option<i64>)> = rows
        .iter()
        .map(|row| {
            let envelope: Value = serde_json::from_slice(row.get(0)).expect("JSON");
            let data = &envelope["data"];
            (data["milestoneCode"].as_i64().expect("a code"), data["previousMilestoneCode"].as_i64())
        })
        .collect();
    published.sort_unstable();
    assert_eq!(published, expected);
}
