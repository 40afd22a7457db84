//! Receivers whose TLS handshake fails.

use docket_domain::delivery::FailureClass;
use docket_domain::failure::{Cause, Explanation};

use super::harness::{AMPLE, OK, Receiver, SHORT, failed, post, private_ca, server_config};
use crate::Trust;

#[tokio::test]
async fn certificate_of_an_unknown_authority_is_not_trusted() {
    let receiver = Receiver::answering(OK).await;
    let outcome = post(&receiver.sender(AMPLE), &receiver.url(), &Trust::public(), AMPLE).await;
    let report = failed(outcome, FailureClass::TlsUntrusted);
    assert_eq!(report.remote, Some(receiver.address));
    assert!(report.times.connect.is_some() && report.times.tls.is_none());
    assert_eq!(receiver.posts().len(), 0);
}

#[tokio::test]
async fn certificate_for_another_name_is_not_trusted() {
    let receiver = Receiver::tls_as(server_config(&["other.test"], false), |mut talk| async move {
        talk.request().await;
    });
    let receiver = receiver.await;
    failed(receiver.attempt(AMPLE).await, FailureClass::TlsUntrusted);
    let by_address = format!("https://{}/", receiver.address).parse().expect("a url");
    let outcome = post(&receiver.sender(AMPLE), &by_address, &private_ca(), AMPLE).await;
    failed(outcome, FailureClass::TlsUntrusted);
    assert_eq!(receiver.posts().len(), 0);
}

#[tokio::test]
async fn receiver_without_tls_fails_as_tls_other() {
    for (greeting, cause) in [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", Cause::PlainHttp),
        ("SSH-2.0-OpenSSH_9.6\r\n", Cause::NotTls),
        ("220 mail.test ESMTP\r\n", Cause::NotTls),
        ("", Cause::HandshakeClosed),
    ] {
        let receiver = Receiver::tcp(move |mut talk| async move {
            talk.say(greeting).await;
        });
        let report = failed(receiver.await.attempt(AMPLE).await, FailureClass::TlsOther);
        assert!(report.times.first_byte.is_none(), "{greeting}");
        assert_eq!(report.explanation, Explanation::of(cause), "{greeting}");
    }
}

#[tokio::test]
async fn receiver_that_wants_a_client_certificate_fails_as_tls_other() {
    let receiver = Receiver::tls_as(server_config(&["receiver.test"], true), |mut talk| async move {
        talk.request().await;
    });
    let receiver = receiver.await;
    failed(receiver.attempt(AMPLE).await, FailureClass::TlsOther);
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 0));
}

#[tokio::test]
async fn silence_in_the_handshake_ends_at_its_own_limit() {
    let receiver = Receiver::tcp(|mut talk| async move { talk.silence().await }).await;
    let outcome = post(&receiver.sender(SHORT), &receiver.url(), &private_ca(), SHORT / 3).await;
    failed(outcome, FailureClass::TimeoutTls);
    receiver.closed(1).await;
}
