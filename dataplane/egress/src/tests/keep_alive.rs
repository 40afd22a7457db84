//! Connections that are kept for the next attempt.

use std::time::Duration;

use docket_domain::delivery::FailureClass;

use super::harness::{AMPLE, CA, OK, Receiver, failed, post, private_ca, succeeded};
use crate::Trust;

#[tokio::test]
async fn connection_is_reused_for_the_next_post() {
    let receiver = Receiver::answering(OK).await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    let report = succeeded(post(&sender, &receiver.url(), &trust.clone(), AMPLE).await);
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 2));
    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!((report.times.dns, report.times.connect, report.times.tls), (None, None, None));
    assert!(report.times.first_byte.is_some());
}

#[tokio::test]
async fn connection_is_reused_after_an_error_answer() {
    let receiver =
        Receiver::answering("HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n")
            .await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    for _ in 0..3 {
        failed(post(&sender, &receiver.url(), &trust, AMPLE).await, FailureClass::ServerError);
    }
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 3));
}

#[tokio::test]
async fn connection_is_not_shared_between_trusts_names_or_paths() {
    let receiver = Receiver::answering(OK).await;
    let (sender, first) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &first, AMPLE).await);
    // The bundle has the same authority, but other bytes.
    let second = Trust::with_bundle(format!("# second\n{}", CA.pem())).expect("a bundle");
    succeeded(post(&sender, &receiver.url(), &second, AMPLE).await);
    let by_address = format!("https://{}/", receiver.address).parse().expect("a url");
    succeeded(post(&sender, &by_address, &first, AMPLE).await);
    for other in ["/other", "/other?query"] {
        let by_path = receiver.url().join(other).expect("a url");
        succeeded(post(&sender, &by_path, &first, AMPLE).await);
    }
    assert_eq!(receiver.connections(), 5);
    failed(post(&sender, &receiver.url(), &Trust::public(), AMPLE).await, FailureClass::TlsUntrusted);
    assert_eq!(receiver.posts().len(), 5);
}

#[tokio::test]
async fn connection_that_closes_or_has_unread_bytes_is_not_kept() {
    let long = "x".repeat(9_000);
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n{long}"),
        format!("{OK}HTTP/1.1 200 an answer to nothing\r\n\r\n"),
    ] {
        let receiver = Receiver::answering(answer).await;
        let (sender, trust) = (receiver.sender(AMPLE), private_ca());
        succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
        succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
        assert_eq!((receiver.connections(), receiver.posts().len()), (2, 2));
    }
}

#[tokio::test]
async fn idle_connection_is_closed_after_1500_ms() {
    let receiver = Receiver::answering(OK).await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_400)).await;
    tokio::time::resume();
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    assert_eq!(receiver.connections(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_500)).await;
    tokio::time::resume();
    receiver.closed(1).await;
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    assert_eq!(receiver.connections(), 2);
}

/// A receiver that responds to one request per connection, promises to keep the connection, and closes it.
async fn forgetful() -> Receiver {
    Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
    })
    .await
}

#[tokio::test]
async fn kept_connection_closed_by_its_receiver_is_replaced() {
    let receiver = forgetful().await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    for count in 1..=20 {
        succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
        receiver.closed(count).await;
        assert_eq!((receiver.connections(), receiver.posts().len()), (count, count));
    }
}

/// The close has arrived, but the runtime has not noticed it: the only thread of this test waits, so the reactor does
/// not run. The pool must ask the system before it uses the connection.
#[tokio::test]
async fn close_that_arrived_while_the_sender_was_busy_costs_no_attempt() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
        tokio::time::sleep(Duration::from_millis(10)).await; // time for the sender to put the connection into its pool
    });
    let receiver = receiver.await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    for count in 1..=10 {
        let report = succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
        assert!(report.times.tls.is_some(), "on a fresh connection, and timed as one");
        while !receiver.has_closed(count) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((receiver.connections(), receiver.posts().len()), (count, count));
    }
}

#[tokio::test]
async fn kept_connection_that_breaks_after_the_request_is_not_retried() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
        talk.request().await; // then closes without an answer
    });
    let receiver = receiver.await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    let report = failed(post(&sender, &receiver.url(), &trust, AMPLE).await, FailureClass::Transport);
    assert_eq!((report.remote, report.times.tls), (Some(receiver.address), None));
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 2), "one POST per attempt");
}

/// The receiver closes at random moments around the second request. No attempt may make two POSTs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_never_makes_two_posts() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
        let patience = Duration::from_micros(talk.number as u64 * 37 % 1_000);
        let _ = tokio::time::timeout(patience, talk.request()).await;
    });
    let receiver = receiver.await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    let mut answered = 0;
    for attempt in 1..=300 {
        let outcome = post(&sender, &receiver.url(), &trust, AMPLE).await;
        answered += usize::from(outcome.failure().is_none());
        assert!(matches!(outcome.failure(), None | Some(FailureClass::Transport)), "{outcome:?}");
        assert!(receiver.posts().len() <= attempt, "attempt {attempt}");
        tokio::time::sleep(Duration::from_micros(attempt as u64 * 53 % 1_000)).await;
    }
    assert!(receiver.posts().len() >= answered && answered > 100, "{answered} answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_posts_reach_one_receiver_once_each() {
    let receiver = Receiver::answering(OK).await;
    let (sender, trust, url) = (receiver.sender(AMPLE), private_ca(), receiver.url());
    for round in 1..=4 {
        let mut posts = tokio::task::JoinSet::new();
        for _ in 0..25 {
            let (sender, trust, url) = (sender.clone(), trust.clone(), url.clone());
            posts.spawn(async move { succeeded(post(&sender, &url, &trust, AMPLE).await) });
        }
        posts.join_all().await;
        assert_eq!(receiver.posts().len(), round * 25);
    }
    // An opening may end after its attempt got another connection. So there may be two connections for each of 25 attempts.
    assert!(receiver.connections() <= 50, "all are kept between rounds: {}", receiver.connections());
}
