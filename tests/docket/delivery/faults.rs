//! A database that is locked by another process, and a process that stands still for longer than its leases.

use std::collections::HashMap;
use std::time::Duration;

use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{eventually, signal};
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
    // The two that had failed were tried once more, the others were not.
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

/// An attempt that was overtaken comes back while the one that overtook it is under way, and must not take its lease
/// along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overtaken_attempt_leaves_its_successors_lease_alone() {
    let _turn = together().await;
    let mut seen: HashMap<String, usize> = HashMap::new();
    let hook = Receiver::scripted(move |post| {
        let count = seen.entry(post.delivery()).or_default();
        *count += 1;
        let delay_ms = [6_500, 8_000].get(*count - 1).copied().unwrap_or(0);
        Response::after(Duration::from_millis(delay_ms), Response::Status(200))
    })
    .await;
    let flags = FAST.replace("3s", "30s");
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    for _ in 0..10 {
        save(&client).await;
    }
    eventually("they are under way", SOON, async || hook.count() == 10).await;
    signal(server.id(), "STOP");
    remains("nothing is sent", Duration::from_secs(5), async || hook.count() == 10).await;
    signal(server.id(), "CONT");
    let rows = all_end(&home, 10).await;
    eventually("each POST is answered", SOON, async || hook.answered() == hook.count()).await;
    // Which of them were overtaken and which kept their lease in time is a race; nothing came after either.
    for row in rows {
        let attempts = attempts_of(&home, &row.id);
        assert!(row.status == "Succeeded" && row.attempts <= 2, "{row:?} {attempts:?}");
    }
    let overtaken = hook.count() as f64 - 10.0;
    println!("{overtaken} of 10 were overtaken");
    assert_eq!(server.metric("docket_deliveries_total{status=\"Succeeded\"}").await, 10.0, "each ended once");
    assert_eq!(server.metric("docket_delivery_stale_finishes_total").await, overtaken);
}
