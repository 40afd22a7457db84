//! Receivers that say too much, too little, or nonsense.

use docket_domain::delivery::{FailureClass, KEPT_ANSWER_CHARS};
use docket_domain::failure::{Cause, Explanation};

use super::harness::{AMPLE, Receiver, failed, succeeded};

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
        let report = failed(receiver.attempt(AMPLE).await, FailureClass::NotHttp);
        assert_eq!(report.http_status, None);
        assert!(report.explanation.cause.is_some());
        receiver.closed(1).await;
    }
}

#[tokio::test]
async fn headers_beyond_32_kib_are_not_http() {
    let answer = |size| format!("HTTP/1.1 200 OK\r\nx-a: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(size));
    succeeded(Receiver::answering(answer(20_000)).await.attempt(AMPLE).await);
    for size in [40_000, 200_000] {
        let report =
            failed(Receiver::answering(answer(size)).await.attempt(AMPLE).await, FailureClass::NotHttp);
        assert_eq!(report.explanation, Explanation::of(Cause::HeadersTooLong), "{size}");
    }
}

#[tokio::test]
async fn answer_that_is_not_http_names_the_rule_that_it_breaks() {
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x-a: b\r\n".repeat(101));
    for (answer, cause, detail) in [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Cause::Http2Answer, None),
        ("\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64", Cause::Http2Answer, None),
        ("hello\r\n\r\n", Cause::NoStatusLine, None),
        ("{\"ok\":true}", Cause::NoStatusLine, None),
        ("HTTP/2 200\r\n\r\n", Cause::HttpVersion, None),
        ("HTTP/1.1 abc\r\n\r\n", Cause::InvalidStatusLine, None),
        ("HTTP/1.1  200 OK\r\ncontent-length: 0\r\n\r\n", Cause::InvalidStatusLine, None),
        ("HTTP/1.1 099 OK\r\n\r\n", Cause::InvalidStatusLine, None),
        ("HTTP/1.1 200 OK\r\nx-a: 1\r\n more\r\n\r\n", Cause::FoldedHeader, Some("x-a on line 3")),
        ("HTTP/1.1 200 OK\r\nx-a : 1\r\n\r\n", Cause::InvalidHeaderName, Some("x-a on line 2")),
        ("HTTP/1.1 200 OK\r\n<br />\n<b>Warning</b>: a\r\n\r\n", Cause::InvalidHeaderName, Some("line 2")),
        ("HTTP/1.1 200 OK\r\nx-a: a\0b\r\n\r\n", Cause::InvalidHeaderValue, Some("x-a on line 2")),
        ("HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n", Cause::InvalidContentLength, None),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            Cause::InvalidContentLength,
            None,
        ),
        ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Cause::TransferEncoding, None),
        (&many, Cause::TooManyHeaders, None),
    ] {
        let bytes = answer.to_owned();
        let receiver = Receiver::tls(move |mut talk| {
            let bytes = bytes.clone();
            async move {
                talk.request().await;
                talk.say(bytes).await;
                talk.silence().await;
            }
        });
        let receiver = receiver.await;
        let report = failed(receiver.attempt(AMPLE).await, FailureClass::NotHttp);
        let explanation = Explanation { cause: Some(cause), detail: detail.map(str::to_owned) };
        assert_eq!((report.explanation, receiver.posts().len()), (explanation, 1), "{answer:?}");
    }
}

/// The greeting may arrive before or after the request is sent. The outcome is the same.
#[tokio::test]
async fn receiver_that_speaks_first_is_not_http() {
    for (greeting, cause) in
        [("220 mail.test ESMTP\r\n", Cause::NoStatusLine), ("\0\0\0\x04\0\0\0\0\0", Cause::Http2Answer)]
    {
        let receiver = Receiver::tls(move |mut talk| async move {
            talk.say(greeting).await;
            talk.silence().await;
        });
        let report = failed(receiver.await.attempt(AMPLE).await, FailureClass::NotHttp);
        assert_eq!(report.explanation, Explanation::of(cause), "{greeting:?}");
    }
}

#[tokio::test]
async fn answer_that_ends_in_its_head_is_a_transport_failure() {
    for begun in ["", "HTTP", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nx-a: b\r\n"] {
        let receiver = Receiver::tls(move |mut talk| async move {
            talk.request().await;
            talk.say(begun).await;
        });
        let report = failed(receiver.await.attempt(AMPLE).await, FailureClass::Transport);
        assert_eq!(report.explanation, Explanation::default(), "{begun:?}");
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
