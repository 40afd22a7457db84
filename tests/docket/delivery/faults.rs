//! A database that is locked by another process, and a process that stands still for longer than its leases.

use std::collections::HashMap;
use std::time::Duration;

use docket_rig::tenant_database::QUEUE_HAND_OFFS_SQL;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Home, eventually, signal};
use serde_json::json;

use crate::delivery::stage::{
    FAST, SOON, Webhook, all_end, attempts, attempts_of, deliveries, open, remains, save, stage, together,
};

/// More than a lease, and more than the store waits for a lock.
const LONG: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_that_meet_a_locked_database_are_stored_afterwards_and_not_sent_again() {
    let _turn = together().await;
    let mut count = 0;
    let hook = Receiver::scripted(move |_| {
        count += 1;
        Response::after(Duration::from_millis(800), Response::Status(if count <= 2 { 500 } else { 200 }))
    })
    .await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    for _ in 0..6 {
        save(&client).await;
    }
    eventually("all are under way", SOON, async || hook.count() == 6).await;
    let other = open(&home, "ACME");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let refused =
        tokio::spawn(async move { client.post("/Orders/Save", &json!({"orderType": "Court"})).await });
    remains("nothing is stored and nothing is sent", LONG, async || {
        hook.count() == 6 && deliveries(&home).iter().all(|row| row.leased)
    })
    .await;
    assert_eq!(hook.answered(), 6);
    assert_eq!(refused.await.expect("an answer").status, 503);
    other.execute_batch("COMMIT").expect("released");
    let rows = all_end(&home, 6).await;
    assert!(rows.iter().all(|row| row.status == "Succeeded"), "{rows:?}");
    // The two failed deliveries were tried once more, the others were not.
    let mut counts: Vec<i64> = rows.iter().map(|row| row.attempts).collect();
    counts.sort_unstable();
    assert_eq!((counts, hook.count()), (vec![1, 1, 1, 1, 2, 2], 8));
    assert!(attempts(&home).iter().all(|attempt| attempt.class() != "WorkerLost"));
    assert_eq!(server.metric("docket_delivery_stale_finishes_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stood_still_ends_each_delivery_right() {
    let _turn = together().await;
    let mut count = 0;
    let hook = Receiver::scripted(move |_| {
        count += 1;
        Response::after(Duration::from_millis(400), Response::Status(if count % 4 == 0 { 500 } else { 200 }))
    })
    .await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    for _ in 0..12 {
        save(&client).await;
    }
    eventually("some are under way", SOON, async || hook.count() > hook.answered()).await;
    signal(server.id(), "STOP");
    eventually("the answers wait for it", SOON, async || hook.count() == hook.answered()).await;
    let sent = hook.count();
    remains("nothing is sent", LONG, async || hook.count() == sent).await;
    signal(server.id(), "CONT");
    let rows = all_end(&home, 12).await;
    let mut sent: HashMap<String, i64> = HashMap::new();
    hook.posts().iter().for_each(|post| *sent.entry(post.delivery()).or_default() += 1);
    for row in rows {
        assert_eq!(row.status, "Succeeded", "{row:?}");
        assert_eq!(attempts_of(&home, &row.id).len() as i64, row.attempts);
        assert!(sent[&row.id] <= row.attempts && row.attempts <= 5, "{row:?}");
    }
    assert_eq!(server.metric("docket_deliveries_total{status=\"Succeeded\"}").await, 12.0, "each ended once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_lasts_longer_than_a_lease_is_made_once() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::after(LONG, Response::Status(200))).await;
    let flags = FAST.replace("3s", "30s");
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Succeeded", 1, 1));
}

/// An attempt that was overtaken ends while the attempt that overtook it is under way, and must not end that attempt's lease. The
/// test writes what another worker would write, so that each attempt is certainly overtaken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overtaken_attempt_leaves_its_successors_lease_alone() {
    let _turn = together().await;
    let mut count = 0;
    let hook = Receiver::scripted(move |_| {
        count += 1;
        // A new webhook may have eight attempts at once.
        let delay_ms = if count <= 8 { 3_000 } else { 0 };
        Response::after(Duration::from_millis(delay_ms), Response::Status(200))
    })
    .await;
    let flags = FAST.replace("3s", "30s");
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    for _ in 0..8 {
        save(&client).await;
    }
    eventually("they are under way", SOON, async || hook.count() == 8).await;
    signal(server.id(), "STOP");
    let until_ms = overtake_all(&home);
    eventually("the answers wait for it", SOON, async || hook.answered() == 8).await;
    signal(server.id(), "CONT");
    let stale = async || server.metric("docket_delivery_stale_finishes_total").await;
    eventually("each late end is refused", SOON, async || stale().await == 8.0).await;
    assert_eq!(leases(&home), vec![("another worker".to_owned(), until_ms); 8]);
    assert_eq!(hook.count(), 8, "nothing is sent while the other worker has the lease");

    // The other worker never ends its attempts, so this worker makes the third attempt.
    let rows = all_end(&home, 8).await;
    for row in rows {
        let classes: Vec<_> = attempts_of(&home, &row.id).iter().map(|a| a.class().to_owned()).collect();
        assert_eq!((row.status.as_str(), row.attempts), ("Succeeded", 3), "{row:?}");
        assert_eq!(classes, ["WorkerLost", "WorkerLost", ""], "{row:?}");
    }
    assert_eq!(hook.count(), 16);
    assert_eq!(server.metric("docket_deliveries_total{status=\"Succeeded\"}").await, 8.0, "each ended once");
    assert_eq!(stale().await, 8.0);
}

/// Takes all eight first attempts over, as another worker does once their leases have expired. Returns when its leases
/// expire.
fn overtake_all(home: &Home) -> i64 {
    let mut database = open(home, "ACME");
    let transaction = database.transaction().expect("a transaction");
    transaction.execute_batch(QUEUE_HAND_OFFS_SQL).expect("the first attempts");
    let sql = "SELECT max(lease_until_ms) + 6000 FROM delivery";
    let until_ms: i64 = transaction.query_row(sql, [], |row| row.get(0)).expect("leases");
    let sql = "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class) \
               SELECT id, 1, started_at_ms, started_at_ms + 1, 'WorkerLost' FROM delivery_queue";
    assert_eq!(transaction.execute(sql, []).expect("the first attempts"), 8);
    let sql = "UPDATE delivery_queue SET attempt_count = 2, lost_count = 1, status = 'Failed', \
               failure_class = 'WorkerLost', lease_token = 'another worker', lease_until_ms = ?1, \
               started_at_ms = started_at_ms + 1 WHERE attempt_count = 1 AND lease_token IS NOT NULL";
    assert_eq!(transaction.execute(sql, [until_ms]).expect("a statement"), 8);
    transaction.commit().expect("committed");
    until_ms
}

/// The token and the end of each lease.
fn leases(home: &Home) -> Vec<(String, i64)> {
    let database = open(home, "ACME");
    let mut statement =
        database.prepare("SELECT lease_token, lease_until_ms FROM delivery").expect("a statement");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("leases")
}
