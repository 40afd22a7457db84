//! Requests at the same time on PostgreSQL, whose transactions run beside each other: each has one outcome.

use std::collections::BTreeSet;

use docket_orders::OrderType;
use docket_rig::postgres;
use docket_tests::receiver::Response;
use docket_tests::server::{Client, Reply, Server, api_key, eventually};
use serde_json::{Value, json};

use crate::api::rig::at_once;
use crate::serve::stage::{SOON, Stage, save, sign_in};

/// More than the connections to a tenant's database.
const AT_ONCE: usize = 16;

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
    let mut exported = example(OrderType::FileAndServe);
    exported["export"] = json!(true);
    let (mut orders, mut events) = (0, 0);
    // Drafts are stored in groups; an order that is exported at once has a separate transaction.
    for (key, body, published) in [("one", titled("1"), 1), ("two", titled("2"), 1), ("three", exported, 2)] {
        let saves = at_once(&client, "/Orders/Save", vec![(body, Some(key)); AT_ONCE]);
        let replies = api.meeting(AT_ONCE, saves).await;
        let replayed = |reply: &&Reply| reply.headers.contains_key("idempotency-replayed");
        for reply in &replies {
            assert_eq!((reply.status, &reply.body), (200, &replies[0].body), "{reply:?}");
        }
        assert_eq!(replies.iter().filter(replayed).count(), AT_ONCE - 1, "one was the first");
        (orders, events) = (orders + 1, events + published);
        for (table, count) in [("web_order", orders), ("event", events), ("delivery", events)] {
            assert_eq!(number(&stage, &format!("SELECT count(*) FROM {table}")).await, count, "{table}");
        }
    }
}

/// Keeps `count` saves of ACME waiting at the process until all of them have come, so that they form one group.
async fn hold_back(
    stage: &Stage,
    (process, client): (&Server, &Client),
    count: usize,
    requests: impl Future<Output = Vec<Reply>>,
) -> Vec<Reply> {
    let (holder, watcher) =
        (postgres::client(&stage.database).await, postgres::client(&stage.database).await);
    holder
        .batch_execute("BEGIN; SELECT value FROM counter WHERE name = 'web_order' FOR UPDATE")
        .await
        .expect("held");
    let release = async {
        postgres::lock_waits(&watcher, 1).await;
        // The first save waits for this lock. The other saves are read before this request is sent, which asks the database as they do.
        eventually("each save is read", SOON, async || process.unread() == 0).await;
        assert_eq!(client.get("/Orders/Search").await.status, 200);
        holder.batch_execute("ROLLBACK").await.expect("released");
    };
    tokio::join!(process.meeting(count, requests), release).0
}

fn titled(caption: &str) -> Value {
    json!({"orderType": "Court", "case": {"caption": caption}})
}

fn web_order_id(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["webOrderId"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saves_that_wait_at_the_same_time_are_stored_in_one_transaction() {
    let stage = Stage::new().await;
    let process = stage.serve("api,worker").await;
    let client = sign_in(&process).await;
    let bodies = (0..AT_ONCE).map(|n| (titled(&n.to_string()), None)).collect();
    let saves = at_once(&client, "/Orders/Save", bodies);
    let replies = hold_back(&stage, (&process, &client), AT_ONCE, saves).await;
    let ids: BTreeSet<String> = replies.iter().map(web_order_id).collect();
    assert_eq!(ids.len(), AT_ONCE);
    // The first two turns make at most two transactions, and all other orders are saved in one.
    let transactions = number(&stage, "SELECT count(DISTINCT xmin::text) FROM web_order").await;
    assert!((1..=3).contains(&transactions), "{transactions}");
    stage.received(AT_ONCE).await;
    let posts: BTreeSet<String> = stage.receiver.posts().iter().map(|post| post.order()).collect();
    assert_eq!((posts, stage.receiver.count()), (ids, AT_ONCE));
}

/// In one group: orders that the database refuses, an employee's for a customer that does not exist, and requests under
/// the same keys. Each gets its own answer, and the others are saved and delivered once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_fails_in_a_group_costs_no_other_its_order() {
    let stage = Stage::new().await;
    let employee = ["employee", "add", "--user", "mo", "--name", "Mo"];
    stage.command(&employee, "a-password-for-tests\n").expect("an employee");
    let database = postgres::client(&stage.database).await;
    let rules = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF NEW.caption = 'poison' THEN RAISE EXCEPTION 'refused'; END IF; \
                 IF NEW.caption = 'gone' THEN RAISE foreign_key_violation; END IF; RETURN NEW; END $$; \
                 CREATE TRIGGER refuse BEFORE INSERT ON web_order FOR EACH ROW EXECUTE FUNCTION refuse()";
    database.batch_execute(rules).await.expect("a rule");
    let process = stage.serve("api,worker").await;
    let (client, mo) = (sign_in(&process).await, process.sign_in_employee(&api_key('a'), "mo").await);
    let of = |customer: &str, caption: &str| {
        let mut body = titled(caption);
        body["customerCode"] = json!(customer);
        (body, None)
    };
    for round in 0..3 {
        let (one, two) = ([["one-0", "one-1", "one-2"][round]; 4], [["two-0", "two-1", "two-2"][round]; 4]);
        let good = (0..5).map(|n| (titled(&format!("{round}-{n}")), None));
        let bad = ["poison", "gone", "poison"].map(|caption| (titled(caption), None));
        let twins = one.into_iter().chain(two).map(|key| (titled(key), Some(key)));
        let bodies: Vec<_> = good.chain(bad).chain(twins).collect();
        let employees = vec![of("C-1", &format!("{round}-mo")), of("UNKNOWN", "x"), of("UNKNOWN", "y")];
        let count = bodies.len() + employees.len();
        let (path, before) = ("/Orders/Save", number(&stage, "SELECT count(*) FROM web_order").await);
        let both = async {
            let (mut replies, more) =
                tokio::join!(at_once(&client, path, bodies), at_once(&mo, path, employees));
            replies.extend(more);
            replies
        };
        let replies = hold_back(&stage, (&process, &client), count, both).await;
        let good: BTreeSet<String> = replies[..5].iter().chain(&replies[16..17]).map(web_order_id).collect();
        assert_eq!(good.len(), 6);
        // The customer of the second order may exist when the save is tried again.
        assert_eq!([5, 6, 7].map(|place| replies[place].status), [500, 503, 500]);
        let mut saved = good;
        for twins in [&replies[8..12], &replies[12..16]] {
            let fresh = twins.iter().filter(|reply| !reply.headers.contains_key("idempotency-replayed"));
            assert_eq!(fresh.count(), 1, "{twins:?}");
            assert!(twins.iter().all(|reply| reply.body == twins[0].body), "{twins:?}");
            assert!(saved.insert(web_order_id(&twins[0])), "{twins:?}");
        }
        for reply in &replies[17..] {
            assert_eq!(reply.status, 400, "{reply:?}");
            assert!(reply.text().contains("customerCode"), "{reply:?}");
        }
        assert_eq!(number(&stage, "SELECT count(*) FROM web_order").await - before, 8);
        assert_eq!(saved.len(), 8);
    }
    let ended = "SELECT count(*) FROM delivery WHERE status = 'Succeeded' AND attempt_count = 1";
    eventually("all are delivered", SOON, async || number(&stage, ended).await == 24).await;
    assert_eq!(stage.receiver.count(), 24, "each came once");
    assert_eq!(number(&stage, "SELECT count(*) FROM delivery").await, 24);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_at_once_all_return_the_first_ones_numbers() {
    let stage = Stage::new().await;
    let api = stage.serve("api").await;
    let client = sign_in(&api).await;
    for round in 1..=5 {
        let id = saved(&client, &example(OrderType::FileAndServe)).await;
        let exports = at_once(&client, "/Orders/Export", vec![(json!({"webOrderId": id}), None); AT_ONCE]);
        let replies = api.meeting(AT_ONCE, exports).await;
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
    let notes = at_once(&client, "/Notes/Add", (1..=AT_ONCE).map(note).collect());
    let replies = api.meeting(AT_ONCE, notes).await;
    // The milestones are in the order of their line items.
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

/// Each press of the button is a request of its own, so without a key: only the row of the event says that one came before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resends_of_a_dead_letter_at_once_over_two_processes_are_one_delivery() {
    let stage = Stage::with(|_| Response::Status(410)).await;
    let employee = ["employee", "add", "--user", "alex", "--name", "Alex", "--administrator"];
    stage.command(&employee, "a-password-for-tests\n").expect("an employee");
    let (one, two) = (stage.serve("api").await, stage.serve("api").await);
    let worker = stage.serve("worker").await;
    save(&sign_in(&one).await).await;
    let dead = "SELECT count(*) FROM delivery WHERE status = 'DeadLetter'";
    eventually("it is a dead letter", SOON, async || number(&stage, dead).await == 1).await;
    let mut alex = Vec::new();
    for api in [&one, &two] {
        alex.push(api.sign_in_employee(&api_key('a'), "alex").await);
    }
    let dead_letter = alex[0].get("/WebhookLogs/Search?status=DeadLetter").await.json()["items"][0].clone();
    let press = || vec![(json!({"deliveryId": dead_letter["deliveryId"]}), None); AT_ONCE];
    worker.kill();
    for round in 1..=3 {
        let path = "/WebhookLogs/Resend";
        let (mut replies, more) = tokio::join!(
            one.meeting(AT_ONCE, at_once(&alex[0], path, press())),
            two.meeting(AT_ONCE, at_once(&alex[1], path, press()))
        );
        replies.extend(more);
        let (made, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
        assert_eq!(made.len(), 1, "round {round}: {replies:?}");
        for reply in refused {
            assert_eq!(reply.status, 409, "{reply:?}");
            assert!(reply.detail().contains("is being sent to this webhook already"), "{reply:?}");
        }
        assert_eq!(number(&stage, "SELECT count(*) FROM delivery").await, 1 + round);
        let worker = stage.serve("worker").await;
        // Each delivery has five attempts.
        eventually("it is a dead letter", SOON, async || number(&stage, dead).await == 1 + round).await;
        worker.kill();
    }
    assert_eq!(stage.receiver.count(), 4 * 5, "each attempt came once");
}
