//! Receivers with a few workers. Each worker serves one connection until it closes: Apache's prefork, Gunicorn's sync workers, a
//! server with a bounded pool of threads. An idle connection holds a worker that another attempt waits for.

use std::time::{Duration, Instant};

use docket_domain::delivery::Outcome;
use http::HeaderMap;
use tokio::task::JoinSet;
use url::Url;

use super::harness::{AMPLE, OK, Receiver, post, private_ca, succeeded};
use crate::{Post, Sender, Trust};

/// The receiver's keep-alive, as in Apache and most others. It is longer than the time that an attempt in these tests
/// has for a handshake.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Makes attempts at these URLs, all at the same time.
async fn burst(sender: &Sender, urls: Vec<Url>, trust: &Trust, afresh: bool) -> Vec<Outcome> {
    let mut attempts = JoinSet::new();
    for url in urls {
        let (sender, trust) = (sender.clone(), trust.clone());
        attempts.spawn(async move {
            let post =
                Post { url: &url, trust: &trust, headers: HeaderMap::new(), body: "{}".into(), afresh };
            sender.post(post).await
        });
    }
    attempts.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn burst_reaches_a_receiver_with_few_workers_at_the_first_attempt() {
    for (workers, work, count) in [(1, 5, 100), (1, 0, 5), (8, 20, 200), (50, 50, 250)] {
        for afresh in [false, true] {
            let receiver = Receiver::with_workers(workers, Duration::from_millis(work), KEEP_ALIVE, OK).await;
            let (sender, trust) = (receiver.sender(AMPLE), private_ca());
            // Retries are fewer, because each needs a connection of its own.
            let count = if afresh { count / 4 } else { count };
            let begun = Instant::now();
            for outcome in burst(&sender, vec![receiver.url(); count], &trust, afresh).await {
                succeeded(outcome);
            }
            assert_eq!(receiver.posts().len(), count, "{workers} workers");
            // The limit of each phase is a third of the attempt's time. No attempt may wait for the end of a phase.
            assert!(begun.elapsed() < AMPLE / 3, "{workers} workers: {:?}", begun.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_of_one_url_does_not_starve_another_url_of_the_receiver() {
    let receiver = Receiver::with_workers(1, Duration::from_millis(5), KEEP_ALIVE, OK).await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    let other = receiver.url().join("/other").expect("a url");
    for _ in 0..5 {
        succeeded(post(&sender, &receiver.url(), &trust, Duration::from_secs(1)).await);
        succeeded(post(&sender, &other, &trust, Duration::from_secs(1)).await);
    }
    let both = (0..100).map(|place| if place % 2 == 0 { receiver.url() } else { other.clone() });
    for outcome in burst(&sender, both.collect(), &trust, false).await {
        succeeded(outcome);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_that_closes_each_connection_gets_a_burst_at_the_first_attempt() {
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::with_workers(2, Duration::from_millis(10), KEEP_ALIVE, answer).await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    for outcome in burst(&sender, vec![receiver.url(); 100], &trust, false).await {
        succeeded(outcome);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_to_busy_workers_wait_longer_than_an_opening_may_take() {
    // The limit of an opening is 0.5 s here. The last attempt gets its turn after 1 s.
    let limit = Duration::from_millis(1_500);
    let receiver = Receiver::with_workers(1, Duration::from_millis(100), KEEP_ALIVE, OK).await;
    let (sender, trust) = (receiver.sender(limit), private_ca());
    for outcome in burst(&sender, vec![receiver.url(); 10], &trust, false).await {
        succeeded(outcome);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_burst_to_one_url_does_not_starve_another_url_or_another_process() {
    // The limit of an opening is 5 s, as in production, and the burst keeps the worker for 6 s.
    let limit = Duration::from_secs(15);
    let receiver = Receiver::with_workers(1, Duration::from_millis(50), KEEP_ALIVE, OK).await;
    let (sender, other_process, trust) = (receiver.sender(limit), receiver.sender(limit), private_ca());
    let other_url = receiver.url().join("/other").expect("a url");
    let (long, elsewhere, retries, beside) = tokio::join!(
        burst(&sender, vec![receiver.url(); 120], &trust, false),
        burst(&sender, vec![other_url; 5], &trust, false),
        burst(&sender, vec![receiver.url(); 5], &trust, true),
        burst(&other_process, vec![receiver.url(); 5], &trust, false),
    );
    for outcome in [long, elsewhere, retries, beside].into_iter().flatten() {
        succeeded(outcome);
    }
}

/// One process has a POST every 0.2 s, so that its connection is never idle for long. The other process has only a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steady_posts_of_a_process_do_not_starve_another_process() {
    let limit = Duration::from_secs(15); // so the limit of an opening is 5 s, as in production
    let receiver = Receiver::with_workers(1, Duration::from_millis(20), KEEP_ALIVE, OK).await;
    let (sender, other_process, trust) = (receiver.sender(limit), receiver.sender(limit), private_ca());
    let url = receiver.url();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let steady = async {
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            succeeded(post(&sender, &url, &trust, limit).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let few = async {
        for _ in 0..3 {
            succeeded(post(&other_process, &url, &trust, limit).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(steady, few);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_may_take_longer_than_an_opening() {
    // The limit of an opening is 0.5 s here.
    let limit = Duration::from_millis(1_500);
    let receiver = Receiver::with_workers(1, Duration::from_millis(700), KEEP_ALIVE, OK).await;
    let (sender, trust) = (receiver.sender(limit), private_ca());
    for outcome in burst(&sender, vec![receiver.url(); 2], &trust, false).await {
        succeeded(outcome);
    }
}
