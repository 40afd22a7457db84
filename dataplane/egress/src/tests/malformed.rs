//! Receivers that say too much, too little, or nonsense.

use docket_domain::delivery::{FailureClass, KEPT_ANSWER_CHARS};

use super::harness::{AMPLE, Receiver, failed};

#[tokio::test]
async fn endless_body_is_read_up_to_8_kib() {
    for (status, class) in [("200 OK", None), ("500 No", Some(FailureClass::ServerError))] {
        for framing in ["content-length: 99999999999\r\n\r\n", "transfer-encoding: chunked\r\n\r\n", "\r\n"] {
            let receiver = Receiver::tls(move |mut talk| async move {
                talk.request().await;
                talk.say(format!("HTTP/1.1 {status}\r\n{framing}")).await;
                let data = format!("1000\r\n{}\r\n", "é".repeat(2_048)).repeat(16);
                while talk.say(&data).await {}
            });
            let receiver = receiver.await;
            let outcome = receiver.attempt(AMPLE).await;
            assert_eq!(outcome.failure(), class);
            let report = outcome.report();
            assert!(report.times.total < AMPLE / 5, "not waited for: {:?}", report.times);
            assert_eq!(report.answer.as_ref().expect("the start").chars().count(), KEPT_ANSWER_CHARS);
            receiver.closed(1).await;
        }
    }
}

#[tokio::test]
async fn endless_header_block_is_cut_off() {
    for header in [format!("x-a: {}\r\n", "a".repeat(1_000)), "x: y\r\n".to_owned(), "a".repeat(1_000)] {
        let block = header.repeat(100);
        let receiver = Receiver::tls(move |mut talk| {
            let block = block.clone();
            async move {
                talk.request().await;
                talk.say("HTTP/1.1 200 OK\r\n").await;
                while talk.say(&block).await {}
            }
        });
        let receiver = receiver.await;
        let report = failed(receiver.attempt(AMPLE).await, FailureClass::Transport);
        assert_eq!(report.http_status, None);
        receiver.closed(1).await;
    }
}

#[tokio::test]
async fn headers_beyond_32_kib_are_a_transport_failure() {
    for (size, class) in [(20_000, None), (40_000, Some(FailureClass::Transport))] {
        let answer = format!("HTTP/1.1 200 OK\r\nx-a: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(size));
        assert_eq!(Receiver::answering(answer).await.attempt(AMPLE).await.failure(), class, "{size}");
    }
}

#[tokio::test]
async fn answer_that_is_not_http_is_a_transport_failure() {
    for nonsense in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\0\0\0\x04\0\0\0\0\0",
        "hello\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200",
    ] {
        let receiver = Receiver::tls(move |mut talk| async move {
            talk.request().await;
            talk.say(nonsense).await;
        });
        let receiver = receiver.await;
        failed(receiver.attempt(AMPLE).await, FailureClass::Transport);
        assert_eq!(receiver.posts().len(), 1, "{nonsense:?}");
    }
}

#[tokio::test]
async fn answer_cut_after_its_headers_keeps_its_status() {
    for (status, class) in [("200 OK", None), ("500 No", Some(FailureClass::ServerError))] {
        let receiver = Receiver::tls(move |mut talk| async move {
            talk.request().await;
            talk.say(format!("HTTP/1.1 {status}\r\ncontent-length: 100\r\n\r\nhalf")).await;
        });
        let outcome = receiver.await.attempt(AMPLE).await;
        assert_eq!(outcome.failure(), class);
        assert_eq!(outcome.report().answer.as_deref(), Some("half"));
    }
}

#[tokio::test]
async fn connection_cut_before_the_answer_is_not_retried() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
    });
    let receiver = receiver.await;
    let report = failed(receiver.attempt(AMPLE).await, FailureClass::Transport);
    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 1));
}
