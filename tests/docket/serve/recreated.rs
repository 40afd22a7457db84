//! Webhooks that are deleted and created again, moved or restored: another uid, and the same webhook.

use docket_crds::TenantConfig;
use docket_rig::postgres;
use docket_tests::receiver::{Post, Response, ca_yaml};
use docket_tests::server::{SECRET, eventually};
use serde_json::{Value, json};

use crate::serve::cluster::{Place, config};
use crate::serve::stage::{SOON, Stage, save, sign_in};

/// The tenant `tenant_uid` with the webhook default/orders of this customer, if there is one.
fn tenant(stage: &Stage, tenant_uid: &str, webhook: Option<(&str, &str)>) -> TenantConfig {
    let mut config = serde_json::to_value(config(tenant_uid, "ACME", 'a', &stage.database)).expect("JSON");
    let ca: String = ca_yaml()
        .lines()
        .skip_while(|line| !line.contains("BEGIN"))
        .fold(String::new(), |all, line| all + line.trim() + "\n");
    config["activeEvents"] = json!(["order.created", "invoice.created"]);
    config["webhooks"] = webhook
        .into_iter()
        .map(|(uid, customer)| {
            json!({"uid": uid, "namespace": "default", "name": "orders", "displayName": null, "customerCode": customer,
                "targetUrl": stage.receiver.url("/orders"), "secret": hex::encode(SECRET), "caBundle": ca,
                "events": ["order.created", "invoice.created"], "active": true})
        })
        .collect::<Vec<Value>>()
        .into();
    serde_json::from_value(config).expect("a configuration")
}

async fn states(stage: &Stage) -> Vec<String> {
    let client = postgres::client(&stage.database).await;
    let sql = "SELECT status || ' ' || attempt_count || ' ' || coalesce(failure_class, '') || ' ' || webhook \
               FROM delivery ORDER BY created_at_ms, id";
    client.query(sql, &[]).await.expect("a statement").iter().map(|row| row.get(0)).collect()
}

/// Changes rows to what a version without webhook keys wrote: the uid of an object that no longer exists.
async fn age(stage: &Stage, sql: &str) {
    let client = postgres::client(&stage.database).await;
    client.batch_execute(sql).await.expect("statements");
}

fn deliveries(stage: &Stage, place: &Place, words: &[&str]) -> (bool, String) {
    let environment = [("KUBECONFIG", place.kubeconfig.as_str())];
    let tenant = ["--tenant", "ACME", "--config-namespace", place.namespace.as_str()];
    stage.home.command_in(&[&["deliveries"], words, &tenant].concat(), "", &environment)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_webhook_takes_over_what_is_queued_and_its_dead_letters() {
    let stage = Stage::with(|_| Response::Status(500)).await;
    let place = Place::new(&stage).await;
    place.serve(tenant(&stage, "uid-a", Some(("w1", "C-1"))));
    let server = stage.spawn_in_cluster("api,worker,detector", &place.namespace, &place.kubeconfig);
    let server = server.ready(&stage.home).await;
    let client = sign_in(&server).await;
    // This delivery becomes a dead letter; its delays are 100, 200, 400 and 800 ms.
    save(&client).await;
    const DEAD: &str = "DeadLetter 5 ServerError default/orders/C-1";
    eventually("it is a dead letter", SOON, async || states(&stage).await == [DEAD]).await;
    // Another delivery waits. It is three hours old, and stored as by a version without webhook keys.
    place.serve(tenant(&stage, "uid-a", None));
    eventually("the webhook is gone", SOON, async || {
        let (done, text) = deliveries(&stage, &place, &["resend", "--webhook", "default/orders", "--yes"]);
        !done && text.contains("not declared")
    })
    .await;
    age(&stage, "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
         SELECT 'ffffffff-0000-7000-8000-000000000001', event_id, 'w0', 'default/orders', 'Failed', 1, 0, created_at_ms - 10800000 \
         FROM delivery_history; UPDATE delivery_history SET webhook = 'w0'").await;
    let missing = async || {
        let client = postgres::client(&stage.database).await;
        let rows = client.query("SELECT webhook FROM missing_webhook", &[]).await.expect("a statement");
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    eventually("it is missed", SOON, async || missing().await == ["default/orders/C-1"]).await;
    // The sweep records the missing webhook before it gives finished rows their key.
    eventually("the rows have its key", SOON, async || {
        let mut both = states(&stage).await;
        both.sort();
        both == [DEAD, "Failed 1  default/orders/C-1"]
    })
    .await;

    // The same name for another customer is another webhook.
    place.serve(tenant(&stage, "uid-a", Some(("w2", "C-2"))));
    let id = {
        let client = postgres::client(&stage.database).await;
        let sql = "SELECT id FROM delivery_history WHERE status = 'DeadLetter'";
        client.query_one(sql, &[]).await.expect("a row").get::<_, String>(0)
    };
    for words in [&["resend", "--webhook", "default/orders", "--yes"][..], &["resend", id.as_str()]] {
        eventually("it is refused", SOON, async || {
            let (done, text) = deliveries(&stage, &place, words);
            !done && text.contains("another customer's")
        })
        .await;
    }

    // The same Webhook is created again, with another uid.
    stage.receiver.script(|_| Response::Status(200));
    let posts = stage.receiver.count();
    place.serve(tenant(&stage, "uid-a", Some(("w3", "C-1"))));
    stage.received(posts + 1).await;
    eventually("it is missed no more", SOON, async || missing().await.is_empty()).await;
    let (done, text) = deliveries(&stage, &place, &["resend", id.as_str()]);
    assert!(done, "{text}");
    stage.received(posts + 2).await;

    // The same Webhook comes to another cluster, where the tenant has another uid as well.
    age(&stage, "UPDATE delivery_history SET webhook = 'w0', resend_of = NULL, status = 'DeadLetter', created_at_ms = 1").await;
    place.delete("uid-a");
    place.serve(tenant(&stage, "uid-b", Some(("w4", "C-1"))));
    eventually("it is moved, and both are queued", SOON, async || {
        let (done, text) = deliveries(&stage, &place, &["resend", "--webhook", "default/orders", "--yes"]);
        done && !text.contains("No dead letters")
    })
    .await;
    stage.received(posts + 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invoice_goes_once_to_a_webhook_that_was_recreated() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    place.serve(tenant(&stage, "uid-a", Some(("w1", "C-1"))));
    let server = stage.spawn_in_cluster("api,worker,detector", &place.namespace, &place.kubeconfig);
    let _server = server.ready(&stage.home).await;
    age(&stage, "INSERT INTO work_order (number, customer_code, work_order_type, created_at_ms) VALUES ('W1', 'C-1', 'Court', 1); \
         INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) \
         VALUES ('I1', 'W1', (extract(epoch FROM now()) * 1000)::bigint)").await;
    stage.received(1).await;
    eventually("it is stored", SOON, async || {
        states(&stage).await.iter().any(|state| state.starts_with("Succeeded"))
    })
    .await;
    place.serve(tenant(&stage, "uid-a", Some(("w2", "C-1"))));
    // The back office's database is restored, so that the invoice is new again.
    age(&stage, "BEGIN; UPDATE delivery_history SET webhook = 'w1'; UPDATE court_invoice SET detected_at_ms = NULL; COMMIT").await;
    let client = postgres::client(&stage.database).await;
    eventually("it is detected again", SOON, async || {
        let sql = "SELECT count(*) FROM court_invoice WHERE detected_at_ms IS NULL";
        client.query_one(sql, &[]).await.expect("a statement").get::<_, i64>(0) == 0
    })
    .await;
    // The next invoice is detected and sent after all deliveries of the first.
    let next = "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) \
                VALUES ('I2', 'W1', (extract(epoch FROM now()) * 1000)::bigint)";
    client.batch_execute(next).await.expect("the back office's row");
    stage.received(2).await;
    let number = |post: &Post| post.envelope()["data"]["invoiceNumber"].clone();
    let numbers: Vec<Value> = stage.receiver.posts().iter().map(number).collect();
    assert_eq!(numbers, ["I1", "I2"]);
    assert_eq!(states(&stage).await.len(), 2);
}
