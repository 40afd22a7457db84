//! Receivers that respond too slowly. At its time limit, the sender closes the connection, and so the receiver's script ends.

use std::time::Duration;

use docket_domain::delivery::FailureClass;
use http::HeaderMap;

use super::harness::{AMPLE, Receiver, SHORT, failed, post, private_ca, succeeded};
use crate::Post;

#[tokio::test]
async fn silence_after_the_request_is_a_first_byte_timeout() {
    let receiver = Receiver::tls(|mut talk| async move { talk.silence().await }).await;
    let report = failed(receiver.attempt(SHORT).await, FailureClass::TimeoutFirstByte);
    assert!(report.times.total >= SHORT && report.http_status.is_none() && report.answer.is_none());
    assert!(
        report.times.tls.is_some() && report.times.first_byte.is_none(),
        "no byte came: {:?}",
        report.times
    );
    receiver.closed(1).await;
}

#[tokio::test]
async fn receiver_that_does_not_read_is_a_first_byte_timeout() {
    let receiver = Receiver::tls(|mut talk| async move {
        tokio::time::sleep(SHORT * 2).await;
        while talk.say("x").await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let receiver = receiver.await;
    let body = vec![b' '; 32 << 20].into();
    let post =
        Post { url: &receiver.url(), trust: &private_ca(), headers: HeaderMap::new(), body, afresh: false };
    let outcome = receiver.sender(SHORT).post(post).await;
    assert!(outcome.report().times.total < SHORT * 2);
    failed(outcome, FailureClass::TimeoutFirstByte);
    receiver.closed(1).await;
}

#[tokio::test]
async fn dripping_headers_are_a_first_byte_timeout() {
    let receiver = Receiver::tls(|mut talk| async move {
        let head = "HTTP/1.1 200 OK\r\nx-a: ".to_owned() + &"a".repeat(10_000);
        talk.drip(head, Duration::from_millis(10)).await;
    });
    let receiver = receiver.await;
    failed(receiver.attempt(SHORT).await, FailureClass::TimeoutFirstByte);
    receiver.closed(1).await;
}

#[tokio::test]
async fn endless_interim_answers_are_a_first_byte_timeout() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        let flood = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(1_000);
        while talk.say(&flood).await {}
    });
    let receiver = receiver.await;
    failed(receiver.attempt(SHORT).await, FailureClass::TimeoutFirstByte);
    receiver.closed(1).await;
}

/// A receiver that responds with `status`, then slowly sends a body that never ends.
async fn dripping(status: &'static str) -> Receiver {
    Receiver::tls(move |mut talk| async move {
        talk.request().await;
        talk.say(format!("HTTP/1.1 {status}\r\ncontent-length: 5000\r\n\r\n")).await;
        talk.drip("x".repeat(5_000), Duration::from_millis(10)).await;
    })
    .await
}

#[tokio::test]
async fn dripping_body_of_a_success_stays_a_success() {
    let receiver = dripping("200 OK").await;
    let report = succeeded(receiver.attempt(SHORT).await);
    assert!(report.answer.expect("what came").starts_with("xxx"));
    receiver.closed(1).await;
}

#[tokio::test]
async fn dripping_body_of_a_success_is_read_for_2_seconds_at_most() {
    let receiver = dripping("200 OK").await;
    let limit = Duration::from_secs(2);
    let report = succeeded(post(&receiver.sender(AMPLE), &receiver.url(), &private_ca(), limit).await);
    assert!(report.times.total >= limit);
}

#[tokio::test]
async fn dripping_body_of_an_error_is_a_body_timeout() {
    let attempt = async |status: &'static str| {
        let report = failed(dripping(status).await.attempt(SHORT).await, FailureClass::BodyTimeout);
        assert_eq!(report.http_status, status[..3].parse().ok());
        assert!(report.answer.expect("what came").starts_with("xxx"));
    };
    tokio::join!(attempt("500 Internal Server Error"), attempt("404 Not Found"), attempt("302 Found"));
}
