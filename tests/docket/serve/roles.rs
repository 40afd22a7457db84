//! One process serves the API, another delivers, a third detects; each announces the tenants that it serves.

use std::time::{Duration, Instant};

use docket_board::Board;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::postgres;
use docket_tests::server::{Home, SECRET, Server, api_key, eventually, request, signal};
use tokio_postgres::Client;

use crate::serve::stage::{SOON, Stage, save, sign_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_saved_by_one_process_is_delivered_by_another_at_once() {
    let stage = Stage::new().await;
    let (api, worker) = tokio::join!(stage.serve("api"), stage.serve("worker"));
    assert!(request(worker.api, "GET", "/swagger", &[], "").await.is_err(), "a worker has no API");
    let client = sign_in(&api).await;
    save(&client).await;
    let begun = Instant::now();
    stage.received(1).await;
    assert!(stage.receiver.posts()[0].is_signed_with(SECRET));
    println!("delivered after {:?}", begun.elapsed());
    eventually("it is counted where it was made", SOON, async || {
        worker.metric("docket_deliveries_total{status=\"Succeeded\"}").await >= 1.0
    })
    .await;
    assert_eq!(api.metric("docket_deliveries_total{status=\"Succeeded\"}").await, 0.0);
}

/// Waits until another sweep of the database has begun: each sweep first deletes answers that were kept for long enough.
async fn is_swept(client: &Client) {
    let old = "INSERT INTO idempotency (caller, key, route, request_digest, answer_status, answer_body, created_at_ms) \
               VALUES ('contact', 'old', '/', '', 200, '', 0)";
    client.batch_execute(old).await.expect("a statement");
    let kept = async || {
        client.query("SELECT 1 FROM idempotency WHERE key = 'old'", &[]).await.expect("a statement").len()
    };
    eventually("a sweep deletes it", SOON, async || kept().await == 0).await;
}

/// If a worker's watch is late or cut, the process that publishes may know a webhook before the worker does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_behind_gives_up_no_delivery_however_old() {
    let stage = Stage::new().await;
    let yaml = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("the stage's");
    let older: Vec<&str> =
        yaml.split("---\n").filter(|document| !document.contains("kind: Webhook")).collect();
    let behind = Home::with(&older.join("---\n"));
    let (current, older) = (stage.home.config(), behind.config().display().to_string());
    let mut arguments = stage.arguments("worker", "");
    arguments.iter_mut().filter(|argument| **argument == current.display().to_string()).for_each(
        |argument| {
            argument.clone_from(&older);
        },
    );
    let api = stage.serve("api").await;
    let caller = sign_in(&api).await;
    let client = postgres::client(&stage.database).await;
    for age_s in [125, 90, 0] {
        save(&caller).await;
        let sql = format!(
            "UPDATE delivery_queue SET created_at_ms = created_at_ms - {age_s}000 WHERE id = \
             (SELECT id FROM delivery_queue ORDER BY id DESC LIMIT 1)"
        );
        assert_eq!(client.execute(&sql, &[]).await.expect("a statement"), 1);
    }
    let states = async || {
        let sql = "SELECT status || ' ' || attempt_count || ' ' || coalesce(failure_class, '') FROM delivery ORDER BY id";
        let rows = client.query(sql, &[]).await.expect("a statement");
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    let _worker = Server::spawn_server(&stage.home, &arguments, &[]).ready(&stage.home).await;
    const EXPECTED: [&str; 3] = ["Pending 0 "; 3];
    let missing =
        async || client.query("SELECT since_ms FROM missing_webhook", &[]).await.expect("a statement").len();
    eventually("it is missed", SOON, async || missing().await == 1).await;
    // Sweeps come once a second. When the fourth begins, three have ended.
    for _ in 0..4 {
        is_swept(&client).await;
    }
    assert_eq!(states().await, EXPECTED);
    behind.write("all.yaml", &yaml);
    stage.received(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_are_detected_once_by_two_detectors() {
    let stage = Stage::new().await;
    let yaml = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("the stage's");
    stage.home.write("all.yaml", &yaml.replace("order.created,", "order.created, invoice.created,"));
    let _all = tokio::join!(stage.serve("detector"), stage.serve("detector"), stage.serve("worker"));
    let client = postgres::client(&stage.database).await;
    let rows = "INSERT INTO work_order (number, customer_code, work_order_type, created_at_ms) \
                VALUES ('W1', 'C-1', 'Court', 1); \
                INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) \
                SELECT 'I' || n, 'W1', (extract(epoch FROM now()) * 1000)::bigint FROM generate_series(1, 300) n";
    client.batch_execute(rows).await.expect("the back office's rows");
    stage.received(300).await;
    // At the end of a turn, each detector logs how many invoices have no work order, if that number has changed.
    let free = "ALTER TABLE court_invoice DROP CONSTRAINT court_invoice_work_order_fkey";
    client.batch_execute(free).await.expect("its owner may do anything");
    let looks = || stage.log().matches("new invoices refer to a work order that does not exist").count();
    for round in 1..=3 {
        let lost = format!(
            "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) VALUES ('lost {round}', 'absent', 0)"
        );
        client.batch_execute(&lost).await.expect("the back office's row");
        eventually("both detectors have looked again", SOON, async || looks() >= 2 * round).await;
    }
    assert_eq!(stage.receiver.count(), 300, "each once");
    let events = client.query_one("SELECT count(*) FROM event", &[]).await.expect("a statement");
    assert_eq!(events.get::<_, i64>(0), 300, "each once");
}

/// The worker that takes the report back is another process than the worker that made it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customer_that_the_tenant_lacks_is_reported_until_it_is_there() {
    let stage = Stage::new().await;
    let connection =
        RedisConnection::new(RedisUrl::parse(&stage.redis.url()).expect("a URL"), None).expect("no TLS");
    let board = Board::new(connection, Keys::new(None).expect("no name"));
    let lost = "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {name: lost}\nspec:\n  tenantRef: {name: acme}\n  \
                customerCode: C-77\n  targetURL: https://r.example/\n  events: [order.created]\n";
    stage.home.write("lost.yaml", lost);
    let worker = stage.spawn("api,worker", "").ready(&stage.home).await;
    let lacks = async || {
        let found = board.webhooks(&["file:default/lost".to_owned()]).await.expect("Redis answers");
        found[0].map(|health| health.lacks_customer)
    };
    eventually("it is reported", SOON, async || lacks().await == Some(true)).await;
    assert!(worker.terminate().await.success());
    let client = postgres::client(&stage.database).await;
    let sql = "INSERT INTO customer (code, name, created_at_ms) VALUES ('C-77', 'Lost', 0)";
    client.batch_execute(sql).await.expect("a statement");
    assert_eq!(lacks().await, Some(true), "the report of the process that is gone");
    let _worker = stage.spawn("api,worker", "").ready(&stage.home).await;
    eventually("it is taken back", SOON, async || lacks().await == Some(false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_announces_what_it_serves_and_takes_itself_off() {
    let stage = Stage::new().await;
    let connection =
        RedisConnection::new(RedisUrl::parse(&stage.redis.url()).expect("a URL"), None).expect("no TLS");
    let board = Board::new(connection, Keys::new(None).expect("no name"));
    let api = stage.spawn("api,worker", "--pod-name pod-1").ready(&stage.home).await;
    let pods = async || board.pods().await.expect("Redis answers");
    eventually("it is there", SOON, async || pods().await.iter().any(|pod| pod.served.len() == 1)).await;
    let pod = pods().await.remove(0);
    assert_eq!((pod.pod.as_str(), pod.roles.join(",")), ("pod-1", "api,worker".to_owned()));
    let revision = pod.served.values().next().expect("a tenant").clone();
    let yaml = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("the stage's");
    stage.home.write("all.yaml", &yaml.replace("clientCode: ACME", "clientCode: ACME\n  displayName: Acme"));
    eventually("another revision", Duration::from_secs(3), async || {
        pods().await.iter().any(|pod| pod.served.values().all(|other| *other != revision))
    })
    .await;
    assert!(api.terminate().await.success());
    assert_eq!(pods().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sigterm_readiness_fails_and_requests_are_served_until_the_delay_ends() {
    let stage = Stage::new().await;
    let api = stage.spawn("api", "--shutdown-delay 2s").ready(&stage.home).await;
    let client = sign_in(&api).await;
    signal(api.id(), "TERM");
    let begun = Instant::now();
    let management = api.management;
    eventually("it is not ready any more", Duration::from_secs(1), async || {
        let reply = request(management, "GET", "/readyz", &[], "").await.expect("an answer");
        reply.status == 503 && reply.text().contains("shutting down")
    })
    .await;
    while begun.elapsed() < Duration::from_millis(1500) {
        save(&client).await;
    }
    let begun = Instant::now();
    while request(api.api, "POST", "/Auth/Token", &[("x-api-key", &api_key('a'))], "").await.is_ok() {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(api.terminate().await.success());
}
