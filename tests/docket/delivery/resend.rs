//! Rows that other programs write: `docket deliveries resend`, and SQL.

use std::time::{Duration, Instant};

use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Home, eventually};

use crate::delivery::stage::{
    FAST, ONCE, SOON, Webhook, all_end, deliveries, delivery_to, queue, remains, save, stage, together,
};

fn resend(home: &Home, id: &str) -> (bool, String) {
    home.command(&["deliveries", "resend", "--tenant", "ACME", id], "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resend_is_a_new_delivery_of_the_same_event_and_goes_out_at_once() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    // The poll is far away: the command wakes the running program.
    let flags = ONCE.replace("200ms", "1h");
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    let first = all_end(&home, 1).await.remove(0);
    let (done, text) = resend(&home, &first.id);
    let asked = Instant::now();
    assert!(done, "{text}");
    eventually("it arrives", SOON, async || hook.count() == 2).await;
    assert!(asked.elapsed() < Duration::from_secs(2), "only after {:?}", asked.elapsed());
    let rows = all_end(&home, 2).await;
    let second = rows.iter().find(|row| row.id != first.id).expect("another row");
    assert!(text.contains(&second.id), "{text}");
    assert_eq!((second.resend_of.as_ref(), second.attempts), (Some(&first.id), 1));
    assert_eq!((&second.event, second.status.as_str()), (&first.event, "Succeeded"));
    let posts = hook.posts();
    assert_eq!((posts[0].event(), &posts[0].body), (posts[1].event(), &posts[1].body));
    assert_eq!((posts[0].delivery(), posts[1].delivery()), (first.id.clone(), second.id.clone()));
    // The original delivery does not change.
    assert_eq!(deliveries(&home).iter().find(|row| row.id == first.id).map(|row| row.attempts), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_resent_to_a_webhook_that_is_inactive_or_gone() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, server, client) = stage(std::slice::from_ref(&webhook), ONCE).await;
    save(&client).await;
    let first = all_end(&home, 1).await.remove(0);
    server.terminate().await;
    Webhook { active: false, ..webhook }.write(&home);
    let (done, text) = resend(&home, &first.id);
    assert!(!done && text.contains("is inactive"), "{text}");
    std::fs::remove_file(home.config().join("webhook-orders.yaml")).expect("removable");
    let (done, text) = resend(&home, &first.id);
    assert!(!done && text.contains("is not declared"), "{text}");
    assert_eq!(deliveries(&home).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_can_be_resent_and_has_five_attempts_again() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Status(410)).await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    save(&client).await;
    let first = all_end(&home, 1).await.remove(0);
    assert!(resend(&home, &first.id).0);
    let rows = all_end(&home, 2).await;
    assert!(rows.iter().all(|row| (row.status.as_str(), row.attempts) == ("DeadLetter", 5)), "{rows:?}");
    assert_eq!(hook.count(), 10);
    // A resend of a resend names the delivery that it repeats.
    let second = rows.iter().find(|row| row.id != first.id).expect("another row").clone();
    hook.script(|_| Response::Status(200));
    assert!(resend(&home, &second.id).0);
    let third = all_end(&home, 3).await.remove(2);
    assert_eq!((third.resend_of, third.status.as_str()), (Some(second.id), "Succeeded"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_still_being_tried_is_not_resent() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Status(500)).await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], ONCE).await;
    save(&client).await;
    eventually("it failed", SOON, async || delivery_to(&home, "orders").status == "Failed").await;
    let (done, text) = resend(&home, &delivery_to(&home, "orders").id);
    assert!(!done && text.contains("Failed") && text.contains("still being tried"), "{text}");
    let (done, text) = resend(&home, "01900000-0000-7000-8000-00000000dead");
    assert!(!done && text.contains("no delivery"), "{text}");
    assert_eq!(deliveries(&home).len(), 1);
    remains("no further POST", Duration::from_millis(700), async || hook.count() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_another_program_writes_is_found_within_a_poll() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let flags = ONCE.replace("200ms", "1s");
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    all_end(&home, 1).await;
    for round in 1..=3 {
        let id = queue(&home, "ACME", "orders", 1).remove(0);
        let written = Instant::now();
        let came = || hook.posts().iter().any(|post| post.delivery() == id);
        eventually("it arrives", SOON, async || came()).await;
        assert!(
            written.elapsed() < Duration::from_secs(2),
            "round {round}: only after {:?}",
            written.elapsed()
        );
    }
    assert_eq!(all_end(&home, 4).await.len(), 4);
    assert_eq!(hook.count(), 4);
}

/// A transaction that began before others and commits after them is not overlooked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_written_with_an_old_time_is_found_like_any_other() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], ONCE).await;
    save(&client).await;
    all_end(&home, 1).await;
    let id = queue(&home, "ACME", "orders", 1).remove(0);
    let created: i64 =
        home.open("ACME").get(&format!("SELECT created_at_ms FROM delivery WHERE id = '{id}'"));
    assert_eq!(created, 0, "older than anything that was swept");
    all_end(&home, 2).await;
    assert_eq!(hook.count(), 2);
}
