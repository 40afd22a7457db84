//! SIGTERM: requests and attempts under way are finished, and nothing is sent twice.

use std::time::{Duration, Instant};

use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Options, Server, eventually, signal};

use crate::delivery::stage::{
    FAST, SOON, Webhook, all_end, attempts, deliveries, remains, save, stage, together,
};

const SLOW: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_under_way_are_finished_and_nothing_is_sent_twice() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::after(SLOW, Response::Status(200))).await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    for _ in 0..8 {
        save(&client).await;
    }
    eventually("some are under way", SOON, async || hook.count() > hook.answered()).await;
    let status = server.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let after = hook.count();
    assert_eq!(hook.answered(), after, "none was cut off");
    let rows = deliveries(&home);
    let done = rows.iter().filter(|row| row.status == "Succeeded").count();
    assert_eq!(done, after, "each answer is stored");
    assert!(rows.iter().all(|row| !row.leased));
    assert_eq!(attempts(&home).len(), after);

    let _server = Server::start(&home, Options::flags(FAST)).await;
    all_end(&home, 8).await;
    assert_eq!(hook.count(), 8, "one POST each");
    assert!(attempts(&home).iter().all(|attempt| attempt.class.is_none()), "no WorkerLost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_attempt_under_way_is_stored_and_retried_after_the_restart() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::after(SLOW, Response::Status(500))).await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    save(&client).await;
    eventually("it is under way", SOON, async || hook.count() == 1).await;
    assert_eq!(server.terminate().await.code(), Some(0));
    let row = deliveries(&home).remove(0);
    assert_eq!((row.status.as_str(), row.attempts, row.class()), ("Failed", 1, "ServerError"));
    hook.script(|_| Response::Status(200));
    let _server = Server::start(&home, Options::flags(FAST)).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Succeeded", 2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_way_is_answered_and_its_order_delivered() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    let database = home.open("ACME");
    database.lock_orders();
    let saving = tokio::spawn({
        let client = client.clone();
        async move { save(&client).await }
    });
    let busy = "docket_http_requests_total{route=\"/Orders/Save\",code=\"200\"}";
    remains("it waits", Duration::from_millis(400), async || server.metric(busy).await == 0.0).await;
    signal(server.id(), "TERM");
    eventually("no more connections are taken", SOON, async || {
        std::net::TcpStream::connect(client.api).is_err()
    })
    .await;
    database.change("COMMIT");
    let id = saving.await.expect("answered with 200");
    assert_eq!(server.terminate().await.code(), Some(0));
    let _server = Server::start(&home, Options::flags(FAST)).await;
    all_end(&home, 1).await;
    assert_eq!(hook.posts()[0].order(), id);
    assert_eq!(hook.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_stops_at_once() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Hang).await;
    let flags = FAST.replace("3s", "30s");
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    eventually("it is under way", SOON, async || hook.count() == 1).await;
    signal(server.id(), "TERM");
    let says = |log, text| std::fs::read_to_string(home.log(log)).unwrap_or_default().contains(text);
    let drains = || says("out", "Stopping: finishing") || says("err", "stopping: finishing");
    eventually("it drains", SOON, async || drains()).await;
    let second = Instant::now();
    server.terminate().await;
    assert!(second.elapsed() < Duration::from_secs(3), "only after {:?}", second.elapsed());
    assert!(says("err", "Stopped at once."));
    // The next process takes up the deliveries for which this one did not wait.
    hook.script(|_| Response::Status(200));
    let _server = Server::start(&home, Options::flags(FAST)).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts), ("Succeeded", 2));
    assert_eq!(attempts(&home)[0].class(), "WorkerLost");
}
