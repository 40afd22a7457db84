//! The outcome of an attempt by the status of the response.

use docket_domain::delivery::FailureClass;
use docket_domain::failure::Explanation;

use super::harness::{AMPLE, OK, Receiver, failed, succeeded};

#[tokio::test]
async fn status_decides_the_outcome() {
    for (status, class) in [
        ("200 OK", None),
        ("204 No Content", None),
        ("299 Whatever", None),
        ("101 Switching Protocols", Some(FailureClass::ClientError)),
        ("304 Not Modified", Some(FailureClass::ClientError)),
        ("400 Bad Request", Some(FailureClass::ClientError)),
        ("410 Gone", Some(FailureClass::ClientError)),
        ("500 Internal Server Error", Some(FailureClass::ServerError)),
        ("999 Odd", Some(FailureClass::ServerError)),
    ] {
        let receiver = Receiver::answering(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
        let outcome = receiver.attempt(AMPLE).await;
        assert_eq!(outcome.failure(), class, "{status}");
        assert_eq!(outcome.report().http_status, status[..3].parse().ok());
        assert_eq!(receiver.posts().len(), 1);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Receiver::answering(OK).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let location = format!("https://{}/", elsewhere.address);
        let answer = format!("HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let receiver = Receiver::answering(answer).await;
        let report = failed(receiver.attempt(AMPLE).await, FailureClass::Redirect);
        assert_eq!(report.explanation, Explanation { cause: None, detail: Some(location) });
        assert_eq!(receiver.posts().len(), 1, "{status}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn interim_answers_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(20);
    succeeded(Receiver::answering(interim + OK).await.attempt(AMPLE).await);
}

#[tokio::test]
async fn compressed_answer_is_kept_as_it_came() {
    let bomb = [b"\x1f\x8b\x08\0".as_slice(), &[b'z'; 60]].concat();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len());
    let receiver = Receiver::answering([head.as_bytes(), &bomb].concat()).await;
    let answer = succeeded(receiver.attempt(AMPLE).await).answer.expect("an answer");
    assert_eq!(answer, format!("\x1f\u{fffd}\x08{}", "z".repeat(60)), "raw, but valid text without NUL");
}
