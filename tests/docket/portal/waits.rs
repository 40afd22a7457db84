//! A delivery that is due and not sent says what it waits for.

use docket_tests::people::ALEX;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{api_key, eventually};
use docket_tests::stores;
use jiff::Timestamp;
use serde_json::Value;

use super::rig::Browser;
use crate::delivery::stage::{SOON, Webhook, queue, stage, together};

/// Longer than an attempt may take that keeps its webhook's places.
const FLAGS: &str =
    "--backoff-base 1h --poll-interval 200ms --attempt-timeout 4s --allow-egress 127.0.0.1/32";

#[expect(clippy::disallowed_methods, reason = "the program compares with the real time")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_that_is_due_says_what_it_waits_for() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Hang).await;
    let (home, server, _client) = stage(&[Webhook::new("slow", hook.url("/"))], FLAGS).await;
    queue(&home, "ACME", "slow", 40);
    let alex = server.sign_in_employee(&api_key('a'), ALEX).await;
    let waits = async || {
        let before = Timestamp::now();
        let page = alex.get("/WebhookLogs/Search?pageSize=100").await.json();
        let items = page["items"].as_array().expect("items").clone();
        assert_eq!(items.len(), 40, "{page}");
        for item in &items {
            let next = item["nextAttemptAt"].as_str().map(|text| text.parse::<Timestamp>().expect("a time"));
            let is_past = next.is_some_and(|next| next < before);
            assert!(!is_past || item["waitsFor"].is_string(), "in the past without a word: {item}");
        }
        items
    };
    let saying = async |what: &str| {
        let items = waits().await;
        items.into_iter().find(|item| item["waitsFor"].as_str().is_some_and(|text| text.contains(what)))
    };
    eventually("some are under way", SOON, async || saying("attempt that is under way").await.is_some())
        .await;
    eventually("the others wait for them", SOON, async || {
        saying("one of 8 places, which are taken").await.is_some()
    })
    .await;
    // This takes as long as two time-outs: each halves the places.
    eventually("they say why", SOON, async || {
        saying("one of 2 places: the receiver was slow").await.is_some()
    })
    .await;

    let waiting: Value = saying(": the receiver was slow").await.expect("one that waits");
    let id = waiting["deliveryId"].as_str().expect("text");
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    for path in [format!("/portal/logs/{id}"), "/portal/logs?status=Pending".to_owned()] {
        let page = browser.get(&path).await;
        assert!(page.text().contains("waits for one of 2 places: the receiver was slow"), "{path}: {page:?}");
    }
    // A command reads the schedule in Redis, and not one in the memory of another process.
    let said = match stores::are_servers() {
        true => "waits for one of 2 places",
        false => "waits for a place, or a worker",
    };
    for arguments in
        [&["deliveries", "show", "--tenant", "ACME", id][..], &["deliveries", "list", "--tenant", "ACME"]]
    {
        let (done, text) = home.command(arguments, "");
        assert!(done && text.contains(said), "{text}");
    }

    // No byte came, so the first byte has no time.
    let failed = alex.get("/WebhookLogs/Search?failureClass=TimeoutFirstByte&pageSize=1").await.json();
    let id = failed["items"][0]["deliveryId"].as_str().expect("one that failed").to_owned();
    assert!(failed["items"][0]["waitsFor"].is_null(), "it is due in an hour: {failed}");
    let attempt = alex.get(&format!("/WebhookLogs/Get?deliveryId={id}")).await.json()["attempts"][0].take();
    let times = &attempt["timesMicroseconds"];
    assert!(times["firstByte"].is_null() && times["total"].as_i64() >= Some(4_000_000), "{attempt}");
    let (_, text) = home.command(&["deliveries", "show", "--tenant", "ACME", &id], "");
    assert!(text.contains("TimeoutFirstByte") && !text.contains("first byte"), "{text}");
    let page = browser.get(&format!("/portal/logs/{id}")).await;
    assert!(
        page.text().contains("No answer came within 4 s") && page.text().contains(" · 4.0 s"),
        "{page:?}"
    );
    assert!(!page.text().contains("first byte"), "{page:?}");
}
