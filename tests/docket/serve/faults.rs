//! Faults of real processes and servers: nothing is lost, nothing is sent without being counted, and Docket needs no
//! restart.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use docket_rig::postgres;
use docket_rig::proxy::Way;
use docket_schedule::SHARES;
use docket_tests::receiver::{Post, Receiver, Response};
use docket_tests::server::{Client, Server, eventually, signal};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_postgres::Client as Database;

use crate::serve::stage::{SOON, Stage, external, save, sign_in, wired_to_postgres};

/// Slow enough for attempts to be under way when something happens.
const SLOW: fn(&Post) -> Response = |_| after_ms(400, 200);

fn after_ms(delay: u64, status: u16) -> Response {
    Response::after(Duration::from_millis(delay), Response::Status(status))
}

async fn save_many(client: &Client, count: usize) {
    for _ in 0..count {
        save(client).await;
    }
}

async fn number(database: &Database, sql: &str) -> i64 {
    database.query_one(sql, &[]).await.expect("a statement").get(0)
}

/// Waits until there are `count` deliveries and all have succeeded. Then checks that none had a sixth attempt, and that none was sent
/// more often than was counted.
async fn all_succeed(stage: &Stage, database: &Database, count: i64) {
    const DONE: &str = "SELECT count(*) FROM delivery WHERE status = 'Succeeded'";
    eventually(&format!("{count} deliveries succeed"), 2 * SOON, async || {
        number(database, DONE).await == count
    })
    .await;
    assert_eq!(number(database, "SELECT count(*) FROM delivery").await, count);
    let rows = database.query("SELECT id, attempt_count FROM delivery", &[]).await.expect("a statement");
    let counted: HashMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut posts: HashMap<String, i64> = HashMap::new();
    for post in stage.receiver.posts() {
        *posts.entry(post.delivery()).or_default() += 1;
    }
    for (id, count) in &counted {
        assert!(*count <= 5, "{count} attempts of {id}");
        assert!(posts.contains_key(id), "{id} succeeded and never came");
    }
    for (id, count) in posts {
        assert!(counted[&id] >= count, "{count} POSTs of {id}, {} counted", counted[&id]);
    }
}

/// Waits until attempts of one worker are under way, while the other worker is stopped.
async fn under_way(database: &Database) {
    const LEASED: &str = "SELECT count(*) FROM delivery WHERE lease_token IS NOT NULL AND status = 'Pending'";
    eventually("attempts are under way", SOON, async || number(database, LEASED).await >= 5).await;
}

async fn two_workers(stage: &Stage) -> (Server, Server, Server) {
    tokio::join!(stage.serve("api"), stage.serve("worker"), stage.serve("worker"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_workers_deliveries_are_taken_over_within_seconds() {
    let stage = Stage::with(SLOW).await;
    let (api, victim, other) = two_workers(&stage).await;
    let database = postgres::client(&stage.database).await;
    // This worker has all the work: the other worker is stopped until attempts are under way.
    signal(other.id(), "STOP");
    save_many(&sign_in(&api).await, 30).await;
    under_way(&database).await;
    let killed_ms = number(&database, "SELECT floor(extract(epoch FROM now()) * 1000)::bigint").await;
    victim.kill();
    signal(other.id(), "CONT");
    all_succeed(&stage, &database, 30).await;

    let lost = number(&database, "SELECT count(*) FROM attempt WHERE failure_class = 'WorkerLost'").await;
    assert!(lost >= 5, "only {lost} attempts were cut off");
    let last = "SELECT max(a.started_at_ms) FROM attempt a JOIN attempt l ON l.delivery_id = a.delivery_id \
                AND l.attempt_no = a.attempt_no - 1 WHERE l.failure_class = 'WorkerLost'";
    let took_ms = number(&database, last).await - killed_ms;
    println!("{lost} attempts were cut off; the last one was taken over after {took_ms} ms");
    assert!(took_ms < 8_000, "{took_ms} ms; a lease is 4 s");
    // PostgreSQL counts what a connection has done when it ends.
    drop((api, other));
    const FINISHED: &str =
        "FROM pg_stat_user_tables WHERE relname IN ('delivery_history', 'attempt_history', 'event')";
    let inserted = format!("SELECT sum(n_tup_ins)::bigint {FINISHED}");
    eventually("it is counted", SOON, async || number(&database, &inserted).await >= 60 + lost).await;
    let updated = format!("SELECT sum(n_tup_upd)::bigint {FINISHED}");
    assert_eq!(number(&database, &updated).await, 0, "what is finished is not written again");
}

/// A process that listens where an earlier process of the same pod did replaces it, so the earlier process is dead: no worker waits
/// for the end of its leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_process_takes_over_what_it_had_without_waiting_for_leases() {
    let stage = Stage::with(|_| Response::Hang).await;
    let database = postgres::client(&stage.database).await;
    let pod = "--pod-name docket-0";
    let process = stage.spawn("api,worker", pod).ready(&stage.home).await;
    let addresses = [process.api, process.management];
    save_many(&sign_in(&process).await, 8).await;
    stage.received(8).await;
    process.kill();
    // Far beyond what this test waits for.
    let later = "UPDATE hand_off SET lease_until_ms = lease_until_ms + 600000; \
                 UPDATE delivery_queue SET lease_until_ms = lease_until_ms + 600000 WHERE lease_token IS NOT NULL";
    database.batch_execute(later).await.expect("statements");
    let leased = "SELECT count(*) FROM delivery WHERE lease_until_ms > created_at_ms + 600000";
    assert_eq!(number(&database, leased).await, 8);
    stage.receiver.script(|_| Response::Status(200));
    let arguments = stage.arguments("api,worker", pod);
    let _successor = Server::spawn_at(&stage.home, &arguments, &[], addresses).ready(&stage.home).await;
    all_succeed(&stage, &database, 8).await;
    let lost = "SELECT count(*) FROM attempt WHERE failure_class = 'WorkerLost' AND attempt_no = 1";
    assert_eq!(number(&database, lost).await, 8);
    assert_eq!(number(&database, "SELECT max(attempt_count) FROM delivery").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_workers_late_end_changes_nothing() {
    let stage = Stage::with(SLOW).await;
    let (api, frozen, other) = two_workers(&stage).await;
    let database = postgres::client(&stage.database).await;
    signal(other.id(), "STOP");
    save_many(&sign_in(&api).await, 30).await;
    under_way(&database).await;
    signal(frozen.id(), "STOP");
    signal(other.id(), "CONT");
    all_succeed(&stage, &database, 30).await;
    let picture = async || {
        let sql = "SELECT id, status, attempt_count, finished_at_ms FROM delivery ORDER BY id";
        let rows = database.query(sql, &[]).await.expect("a statement");
        let row = |row: &tokio_postgres::Row| {
            (row.get::<_, String>(0), row.get::<_, String>(1), row.get::<_, i64>(2), row.get::<_, i64>(3))
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let before = picture().await;
    signal(frozen.id(), "CONT");
    stage.logs("the lease of the attempt was lost; its outcome does not count").await;
    assert_eq!(picture().await, before);
    all_succeed(&stage, &database, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_costs_no_attempt_its_lease() {
    let stage = Stage::with(|_| after_ms(8_000, 200)).await;
    let worker = stage.spawn("worker", "--attempt-timeout 20s");
    let (api, _worker) = tokio::join!(stage.serve("api"), worker.ready(&stage.home));
    let database = postgres::client(&stage.database).await;
    save_many(&sign_in(&api).await, 5).await;
    under_way(&database).await;
    stage.redis.freeze();
    let lapsed = "SELECT count(*) FROM delivery WHERE lease_until_ms < extract(epoch FROM now()) * 1000";
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        assert_eq!(number(&database, lapsed).await, 0, "after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.redis.thaw();
    all_succeed(&stage, &database, 5).await;
    assert_eq!(stage.receiver.count(), 5, "each came once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_loses_no_delivery_and_no_retry() {
    let mut failures = 0;
    let stage = Stage::with(move |_| {
        failures += 1;
        after_ms(50, if failures <= 40 { 500 } else { 200 })
    })
    .await;
    let (api, _one, _two) = two_workers(&stage).await;
    let database = postgres::client(&stage.database).await;
    let client = sign_in(&api).await;
    for _ in 0..4 {
        save_many(&client, 10).await;
        assert_eq!(stage.redis.cli(&["FLUSHALL"]).trim(), "OK");
    }
    all_succeed(&stage, &database, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_redis_repeats_nothing_and_forgets_nothing() {
    let mut stage = Stage::new().await;
    let api = stage.serve("api").await;
    let client = sign_in(&api).await;
    save_many(&client, 20).await;
    stage.redis.save();
    let dump = stage.redis.dump();
    let _worker = stage.serve("worker").await;
    let database = postgres::client(&stage.database).await;
    all_succeed(&stage, &database, 20).await;

    // The entries of the dump have long been done, and deliveries queued from now on are not in it.
    stage.redis.kill();
    save_many(&client, 5).await;
    stage.redis.restart_with(&dump);
    all_succeed(&stage, &database, 25).await;
    save(&client).await;
    all_succeed(&stage, &database, 26).await;
    assert_eq!(stage.receiver.count(), 26, "each came once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_deliveries_to_a_hanging_endpoint_delay_no_other_tenant() {
    let stage = Stage::new().await;
    let hanging = Receiver::verifying(|_| after_ms(20_000, 200)).await;
    let stuck = postgres::database().await;
    let yaml = external("stuck", 'b', &stuck) + &hanging.webhook_yaml("stuck", "stuck", "C-1", "/stuck");
    stage.home.write("stuck.yaml", &yaml);
    let (api, _worker) = tokio::join!(stage.serve("api"), stage.serve("worker"));
    let database = postgres::client(&stuck).await;
    eventually("the tenant has its tables", SOON, async || {
        database.query_opt("SELECT 1 FROM delivery_queue LIMIT 0", &[]).await.is_ok()
    })
    .await;
    database
        .batch_execute(
            "INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms) SELECT 'evt_' || \
             lpad(n::text, 32, '0'), 'order.created', 'C-1', 'W1', '{}'::bytea, 0 FROM generate_series(1, 1000) n; \
             INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
             SELECT '01900000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'evt_' || lpad(n::text, 32, '0'), \
             'file:default/stuck', 'default/stuck', 'Pending', 0, 0, 0 FROM generate_series(1, 1000) n",
        )
        .await
        .expect("a thousand deliveries");
    const LEASED: &str = "SELECT count(*) FROM delivery WHERE lease_token IS NOT NULL";
    const START: i64 = SHARES.per_webhook.start as i64;
    eventually("its share is taken", SOON, async || number(&database, LEASED).await >= START).await;

    let client = sign_in(&api).await;
    for count in 1..=10 {
        save(&client).await;
        let begun = std::time::Instant::now();
        stage.received(count).await;
        // Attempts to the hanging endpoint take 3 s here, so a delivery that waited for one of them would show.
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

/// The way to the database is cut at each question of a save, then at the response to its COMMIT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_a_response_sends_nothing_until_another_attempt_takes_over() {
    let direct = postgres::database().await;
    let (proxy, wired) = wired_to_postgres(&direct);
    let stage = Stage::on(wired, |_| Response::Status(200)).await;
    let server = stage.serve("api,worker").await;
    let database = postgres::client(&direct).await;
    let client = sign_in(&server).await;
    let court = json!({"orderType": "Court"});
    let stored = async || number(&database, "SELECT count(*) FROM web_order").await;
    // Saves an order once the way is there again: a database that was away is tried again after a moment. Then no attempt
    // is under way that the next cut could meet.
    let settled = async || {
        let saved = async || client.post("/Orders/Save", &court).await.status == 200;
        eventually("orders are saved again", SOON, saved).await;
        let stored = stored().await;
        all_succeed(&stage, &database, stored).await;
        stored
    };
    let mut refused = 0;
    // Other tasks send questions at the same time, and a new connection prepares statements, so it is not known which question is
    // cut.
    for question in 1..=30 {
        let before = settled().await;
        proxy.cut_at_question(question);
        let reply = client.post("/Orders/Save", &court).await;
        proxy.restore();
        match (reply.status, stored().await - before) {
            (200, 1) | (503, 1) => {}
            (503, 0) => refused += 1,
            other => panic!("question {question}: {other:?}"),
        }
    }
    assert!(refused > 0, "no cut met a save before its COMMIT");

    let mut unclear = Vec::new();
    for _ in 0..3 {
        let before = settled().await;
        proxy.cut_at_commit();
        let reply = client.post("/Orders/Save", &court).await;
        assert!(proxy.restore(), "no COMMIT was met");
        assert_eq!((reply.status, stored().await - before), (503, 1));
        let newest = "SELECT id FROM web_order ORDER BY id DESC LIMIT 1";
        unclear.push(database.query_one(newest, &[]).await.expect("an order").get::<_, String>(0));
    }
    settled().await;
    for id in unclear {
        let posts = stage.receiver.posts().iter().filter(|post| post.order() == id).count();
        let counted = format!(
            "SELECT attempt_count FROM delivery d JOIN event e ON e.id = d.event_id WHERE e.web_order_id = '{id}'"
        );
        // The first attempt is the hand-off, which was counted and never made.
        assert_eq!((posts, number(&database, &counted).await), (1, 2), "{id}");
    }
}

/// The response to the BEGIN that stores a failed attempt comes late. The backoff still counts from the end of the attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_responds_late_makes_no_retry_early() {
    let (proxy, wired) = wired_to_postgres(&postgres::database().await);
    let mut count = 0;
    let stage = Stage::on(wired, move |_| {
        count += 1;
        after_ms(300, if count == 1 { 500 } else { 200 })
    })
    .await;
    let server = stage.spawn("api,worker", "--backoff-base 1s").ready(&stage.home).await;
    save(&sign_in(&server).await).await;
    stage.received(1).await;
    proxy.stall(Way::ToClient);
    // The attempt ends meanwhile.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(!proxy.restore(), "it was not cut");
    stage.received(2).await;
    let posts = stage.receiver.posts();
    let gap = posts[1].at - posts[0].at;
    assert!(gap >= Duration::from_millis(2_300), "{gap:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_crashes_under_load_loses_nothing_acknowledged() {
    let server = postgres::PostgresServer::start().await;
    let stage = Stage::on(server.database().await, |_| after_ms(50, 200)).await;
    let (api, _one, _two) = two_workers(&stage).await;
    let client = Arc::new(sign_in(&api).await);
    let (stop, saves) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut savers = JoinSet::new();
    for _ in 0..4 {
        let (client, stop, saves) = (Arc::clone(&client), Arc::clone(&stop), Arc::clone(&saves));
        savers.spawn(async move {
            let (mut saved, mut refused) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                let reply = client.post("/Orders/Save", &json!({"orderType": "Court"})).await;
                match reply.status {
                    200 => {
                        saved.push(reply.json()["webOrderId"].as_str().expect("an id").to_owned());
                        saves.fetch_add(1, Ordering::Relaxed);
                    }
                    status => {
                        assert_eq!(status, 503, "{reply:?}");
                        refused += 1;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
            (saved, refused)
        });
    }
    let under_load = async || {
        let (saved, sent) = (saves.load(Ordering::Relaxed), stage.receiver.count());
        eventually("orders are saved and sent", 2 * SOON, async || {
            saves.load(Ordering::Relaxed) >= saved + 100 && stage.receiver.count() >= sent + 50
        })
        .await;
    };
    for _ in 0..3 {
        under_load().await;
        server.crash();
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.start_again();
    }
    under_load().await;
    stop.store(true, Ordering::Relaxed);
    let (mut saved, mut refused) = (Vec::new(), 0);
    while let Some(ended) = savers.join_next().await {
        let (more, failed) = ended.expect("no panic");
        saved.extend(more);
        refused += failed;
    }
    assert!(saved.len() > 50 && refused > 0, "{} saved, {refused} refused", saved.len());

    // Orders that were committed and not acknowledged are stored whole as well.
    let database = postgres::client(&stage.database).await;
    let count = number(&database, "SELECT count(*) FROM delivery").await;
    all_succeed(&stage, &database, count).await;
    let rows = database.query("SELECT web_order_id FROM event", &[]).await.expect("a statement");
    let sent: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let lost: Vec<&String> = saved.iter().filter(|id| !sent.contains(*id)).collect();
    assert!(lost.is_empty(), "saved and not sent: {lost:?}");
    println!("{} saved, {refused} refused, {count} delivered", saved.len());
}
