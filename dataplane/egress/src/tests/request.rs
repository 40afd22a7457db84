//! The request: exactly these bytes.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use url::Url;

use super::harness::{AMPLE, OK, Receiver, post, private_ca, succeeded};
use crate::{Post, Trust};

#[tokio::test]
async fn post_sends_exactly_these_bytes() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let url: Url =
        format!("https://user:pw@receiver.test:{port}/hooks/ä b?to=a%20b&x=[1]#part").parse().expect("a url");
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("x-service-delivery-id", HeaderValue::from_static("d-1"));
    headers.insert("host", HeaderValue::from_static("internal.example"));
    headers.insert("accept", HeaderValue::from_static("text/html"));
    headers.insert("accept-encoding", HeaderValue::from_static("gzip"));
    let post =
        Post { url: &url, trust: &private_ca(), headers, body: "{\"größe\": 1}\n".into(), afresh: false };
    let report = succeeded(receiver.sender(AMPLE).post(post).await);

    let sent = receiver.posts().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").expect("a head");
    let mut lines: Vec<_> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /hooks/%C3%A4%20b?to=a%20b&x=[1] HTTP/1.1");
    lines.sort_unstable();
    let expected = [
        "accept-encoding: identity",
        "accept: */*",
        "content-length: 15",
        "content-type: application/json",
        &format!("host: receiver.test:{port}"),
        concat!("user-agent: Docket/", env!("CARGO_PKG_VERSION")),
        "x-service-delivery-id: d-1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(body, "{\"größe\": 1}\n");

    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!((report.http_status, report.answer.as_deref()), (Some(200), Some("ok")));
    let times = report.times;
    let phases =
        [times.dns, times.connect, times.tls, times.first_byte].map(|time| time.expect("each was reached"));
    assert!(phases.iter().sum::<Duration>() <= times.total, "{times:?}");
}

#[tokio::test]
async fn post_to_an_address_connects_to_it_and_checks_the_certificate_for_it() {
    let receiver = Receiver::answering(OK).await;
    let url = format!("https://{}/", receiver.address).parse().expect("a url");
    let report = succeeded(post(&receiver.sender(AMPLE), &url, &private_ca(), AMPLE).await);
    assert_eq!(report.times.dns, None);
    assert!(receiver.posts()[0].contains(&format!("host: {}\r\n", receiver.address)));
}

#[test]
fn debug_output_shows_neither_path_nor_headers_nor_body() {
    let url = "https://receiver.test/token-1".parse().expect("a url");
    let mut headers = HeaderMap::new();
    headers.insert("x-service-signature", HeaderValue::from_static("sig-1"));
    let post = Post { url: &url, trust: &Trust::public(), headers, body: "body-1".into(), afresh: false };
    assert_eq!(format!("{post:?}"), r#"Post { host: Some("receiver.test"), .. }"#);
}
