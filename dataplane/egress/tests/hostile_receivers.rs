//! Attempts against receivers on real sockets, most of them ill-behaved.

#[path = "hostile_receivers/harness.rs"]
mod harness;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{FailureClass, KEPT_ANSWER_CHARS, Phase};
use docket_egress::{EgressPolicy, FixedDns, Post, Sender, Trust};
use harness::{AMPLE, Receiver, SHORT, failed, post, private_ca, server_config, succeeded};
use http::{HeaderMap, HeaderValue};
use tokio::net::TcpSocket;
use url::Url;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

// What is sent

#[tokio::test]
async fn exactly_these_bytes_are_sent() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let url: Url =
        format!("https://user:pw@receiver.test:{port}/hooks/ä b?to=a%20b&x=[1]#part").parse().expect("a url");
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("x-service-delivery-id", HeaderValue::from_static("d-1"));
    headers.insert("host", HeaderValue::from_static("internal.example"));
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
async fn an_address_as_host_is_connected_to_and_named_in_the_certificate() {
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

// Which answer is what

#[tokio::test]
async fn the_status_decides() {
    for (status, class) in [
        ("200 OK", None),
        ("204 No Content", None),
        ("299 Whatever", None),
        ("101 Switching Protocols", Some(FailureClass::ClientError)),
        ("304 Not Modified", Some(FailureClass::Redirect)),
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
        failed(receiver.attempt(AMPLE).await, FailureClass::Redirect);
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
async fn a_compressed_answer_is_kept_as_it_came() {
    let bomb = [b"\x1f\x8b\x08\0".as_slice(), &[b'z'; 60]].concat();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len());
    let receiver = Receiver::answering([head.as_bytes(), &bomb].concat()).await;
    let answer = succeeded(receiver.attempt(AMPLE).await).answer.expect("an answer");
    assert_eq!(answer, format!("\x1f\u{fffd}\x08{}", "z".repeat(60)), "raw, but valid text without NUL");
}

// Receivers that cannot be reached

#[tokio::test]
async fn a_closed_port_is_refused() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    drop(socket);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![address]), FixedDns::new(), AMPLE);
    let url = format!("https://{address}/").parse().expect("a url");
    let report = failed(post(&sender, &url, &private_ca(), AMPLE).await, FailureClass::Refused);
    assert!(report.remote.is_none() && report.times.connect.is_some() && report.times.tls.is_none());
}

/// Listens, and drops further connections silently because its queue is full.
fn deaf(address: SocketAddr) -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(address).expect("a port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let fill = |_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let full: Vec<_> = (0..4).map(fill).collect();
    (address, (listener, full))
}

#[tokio::test]
async fn a_full_accept_queue_is_a_connect_timeout() {
    let (address, _deaf) = deaf(SocketAddr::new(LOOPBACK, 0));
    let sender = Sender::new(EgressPolicy::new(vec![], vec![address]), FixedDns::new(), SHORT);
    let url = format!("https://{address}/").parse().expect("a url");
    failed(post(&sender, &url, &private_ca(), SHORT / 3).await, FailureClass::Timeout(Phase::Connect));
}

#[tokio::test]
async fn a_silent_address_leaves_time_for_the_next_one() {
    let receiver = Receiver::answering(OK).await;
    let (silent, _deaf) = deaf(SocketAddr::new([127, 0, 0, 2].into(), receiver.address.port()));
    let dns = FixedDns::new().answer("receiver.test", [silent.ip(), LOOPBACK]);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![silent, receiver.address]), dns, SHORT);
    let report = succeeded(post(&sender, &receiver.url(), &private_ca(), SHORT).await);
    assert_eq!(report.remote, Some(receiver.address));
}

#[tokio::test]
async fn the_next_address_is_tried_and_none_is_looked_up_twice() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let dead = IpAddr::from([127, 0, 0, 2]);
    let dns = Arc::new(FixedDns::new().answer("receiver.test", [dead, LOOPBACK]));
    let policy = EgressPolicy::new(vec![], vec![SocketAddr::new(dead, port), receiver.address]);
    let sender = Sender::new(policy, dns.clone(), AMPLE);
    let report = succeeded(post(&sender, &receiver.url(), &private_ca(), AMPLE).await);
    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!(dns.lookups(), 1);
}

// Addresses that must not be reached

#[tokio::test]
async fn a_forbidden_target_gets_no_packet() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("nonblocking");
    let port = listener.local_addr().expect("an address").port();
    let public = IpAddr::from([8, 8, 8, 8]);
    let dns = FixedDns::new()
        .answer("internal.test", [LOOPBACK])
        .answer("mixed.test", [LOOPBACK, public])
        .answer("mixed6.test", [public, "::1".parse().expect("an address")])
        .answer("mapped.test", ["::ffff:127.0.0.1".parse().expect("an address")]);
    let sender = Sender::new(EgressPolicy::default(), dns, AMPLE);
    for host in [
        "127.0.0.1",
        "0.0.0.0",
        "0177.1",
        "2130706433",
        "0x7f.1",
        "１２７.０.０.１",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "internal.test",
        "mixed.test",
        "mixed6.test",
        "mapped.test",
    ] {
        let url = format!("https://{host}:{port}/").parse().expect("a url");
        let report = failed(post(&sender, &url, &private_ca(), AMPLE).await, FailureClass::BlockedAddress);
        assert!(report.remote.is_none() && report.times.connect.is_none(), "{host}");
    }
    let accepted = listener.accept().map(|_| ());
    assert_eq!(accepted.expect_err("nobody came").kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_name_that_rebinds_is_refused_when_it_does() {
    let receiver =
        Receiver::answering("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    let dns =
        FixedDns::new().answer("receiver.test", [LOOPBACK]).answer("receiver.test", [[127, 0, 0, 2].into()]);
    let dns = Arc::new(dns);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![receiver.address]), dns.clone(), AMPLE);
    succeeded(post(&sender, &receiver.url(), &private_ca(), AMPLE).await);
    failed(post(&sender, &receiver.url(), &private_ca(), AMPLE).await, FailureClass::BlockedAddress);
    assert_eq!((dns.lookups(), receiver.connections()), (2, 1));
}

// TLS

#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let receiver = Receiver::answering(OK).await;
    let outcome = post(&receiver.sender(AMPLE), &receiver.url(), &Trust::public(), AMPLE).await;
    let report = failed(outcome, FailureClass::TlsUntrusted);
    assert_eq!(report.remote, Some(receiver.address));
    assert!(report.times.tls.is_some() && report.times.first_byte.is_none());
    assert_eq!(receiver.posts().len(), 0);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
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
async fn what_is_not_tls_is_another_tls_failure() {
    for greeting in ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.6\r\n", ""] {
        let receiver = Receiver::tcp(move |mut talk| async move {
            talk.say(greeting).await;
        });
        let report = failed(receiver.await.attempt(AMPLE).await, FailureClass::TlsOther);
        assert!(report.times.first_byte.is_none(), "{greeting}");
    }
}

#[tokio::test]
async fn a_receiver_that_wants_a_client_certificate_is_another_tls_failure() {
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
    failed(outcome, FailureClass::Timeout(Phase::Tls));
    receiver.closed(1).await;
}

// Receivers that take their time. Each is left as soon as the time is up: its script ends because we close.

#[tokio::test]
async fn silence_after_the_request() {
    let receiver = Receiver::tls(|mut talk| async move { talk.silence().await }).await;
    let report = failed(receiver.attempt(SHORT).await, FailureClass::Timeout(Phase::FirstByte));
    assert!(report.times.total >= SHORT && report.http_status.is_none() && report.answer.is_none());
    receiver.closed(1).await;
}

#[tokio::test]
async fn a_receiver_that_does_not_read_is_left_too() {
    let receiver = Receiver::tls(|mut talk| async move {
        tokio::time::sleep(SHORT).await;
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
    failed(outcome, FailureClass::Timeout(Phase::FirstByte));
    receiver.closed(1).await;
}

#[tokio::test]
async fn dripping_headers() {
    let receiver = Receiver::tls(|mut talk| async move {
        let head = "HTTP/1.1 200 OK\r\nx-a: ".to_owned() + &"a".repeat(10_000);
        talk.drip(head, Duration::from_millis(10)).await;
    });
    let receiver = receiver.await;
    failed(receiver.attempt(SHORT).await, FailureClass::Timeout(Phase::FirstByte));
    receiver.closed(1).await;
}

#[tokio::test]
async fn endless_interim_answers() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        let flood = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(1_000);
        while talk.say(&flood).await {}
    });
    let receiver = receiver.await;
    failed(receiver.attempt(SHORT).await, FailureClass::Timeout(Phase::FirstByte));
    receiver.closed(1).await;
}

/// Answers with `status`, then drips a body that never ends.
async fn dripping(status: &'static str) -> Receiver {
    Receiver::tls(move |mut talk| async move {
        talk.request().await;
        talk.say(format!("HTTP/1.1 {status}\r\ncontent-length: 5000\r\n\r\n")).await;
        talk.drip("x".repeat(5_000), Duration::from_millis(10)).await;
    })
    .await
}

#[tokio::test]
async fn a_dripping_body_takes_nothing_from_a_success() {
    let receiver = dripping("200 OK").await;
    let report = succeeded(receiver.attempt(SHORT).await);
    assert!(report.answer.expect("what came").starts_with("xxx"));
    receiver.closed(1).await;
}

#[tokio::test]
async fn a_dripping_success_holds_the_slot_for_2_seconds_at_most() {
    let receiver = dripping("200 OK").await;
    let limit = Duration::from_secs(2);
    let report = succeeded(post(&receiver.sender(AMPLE), &receiver.url(), &private_ca(), limit).await);
    assert!(report.times.total >= limit);
}

#[tokio::test]
async fn a_dripping_error_is_a_body_timeout() {
    let attempt = async |status: &'static str| {
        let report = failed(dripping(status).await.attempt(SHORT).await, FailureClass::BodyTimeout);
        assert_eq!(report.http_status, status[..3].parse().ok());
        assert!(report.answer.expect("what came").starts_with("xxx"));
    };
    tokio::join!(attempt("500 Internal Server Error"), attempt("404 Not Found"), attempt("302 Found"));
}

// Receivers that say too much, too little, or nonsense

#[tokio::test]
async fn of_an_endless_body_8_kib_are_read() {
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
async fn an_endless_header_block_is_cut_off() {
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
async fn headers_of_32_kib_are_too_many() {
    for (size, class) in [(20_000, None), (40_000, Some(FailureClass::Transport))] {
        let answer = format!("HTTP/1.1 200 OK\r\nx-a: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(size));
        assert_eq!(Receiver::answering(answer).await.attempt(AMPLE).await.failure(), class, "{size}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_transport_failure() {
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
async fn an_answer_cut_after_its_headers_keeps_its_status() {
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
async fn a_connection_cut_before_the_answer_is_not_tried_again() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
    });
    let receiver = receiver.await;
    let report = failed(receiver.attempt(AMPLE).await, FailureClass::Transport);
    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 1));
}

// Kept-alive connections

#[tokio::test]
async fn a_connection_is_used_again() {
    let receiver = Receiver::answering(OK).await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    let other_path = receiver.url().join("/other").expect("a url");
    let report = succeeded(post(&sender, &other_path, &trust.clone(), AMPLE).await);
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 2));
    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!((report.times.dns, report.times.connect, report.times.tls), (None, None, None));
    assert!(report.times.first_byte.is_some());
}

#[tokio::test]
async fn an_error_answer_leaves_the_connection_usable() {
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
async fn a_connection_is_not_shared_between_trusts_nor_between_names() {
    let receiver = Receiver::answering(OK).await;
    let (sender, first) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &first, AMPLE).await);
    succeeded(post(&sender, &receiver.url(), &private_ca(), AMPLE).await);
    let by_address = format!("https://{}/", receiver.address).parse().expect("a url");
    succeeded(post(&sender, &by_address, &first, AMPLE).await);
    assert_eq!(receiver.connections(), 3);
    failed(post(&sender, &receiver.url(), &Trust::public(), AMPLE).await, FailureClass::TlsUntrusted);
    assert_eq!(receiver.posts().len(), 3);
}

#[tokio::test]
async fn a_connection_is_not_kept_when_the_receiver_closes_it_or_half_the_answer_is_unread() {
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
async fn an_idle_connection_is_closed_after_a_second_and_a_half() {
    let receiver = Receiver::answering(OK).await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_400)).await;
    tokio::time::resume();
    sender.drop_idle();
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    assert_eq!(receiver.connections(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_500)).await;
    tokio::time::resume();
    sender.drop_idle();
    receiver.closed(1).await;
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    assert_eq!(receiver.connections(), 2);
}

/// Answers one request per connection, says that it will keep the connection, and closes it.
async fn forgetful() -> Receiver {
    Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
    })
    .await
}

#[tokio::test]
async fn a_kept_connection_closed_by_its_receiver_is_replaced() {
    let receiver = forgetful().await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    for count in 1..=20 {
        succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
        receiver.closed(count).await;
        assert_eq!((receiver.connections(), receiver.posts().len()), (count, count));
    }
}

/// The close has arrived, but nobody on our side has looked yet: this test's one thread sleeps, and the reactor and
/// hyper's task with it. The pool has to give them a turn before it believes that a connection is open.
#[tokio::test]
async fn a_close_that_arrived_while_we_were_busy_costs_no_attempt() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
        tokio::time::sleep(Duration::from_millis(10)).await; // the sender has put the connection by
    });
    let receiver = receiver.await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    for count in 1..=10 {
        let report = succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
        assert!(report.times.tls.is_some(), "on a fresh connection, and timed as one");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((receiver.connections(), receiver.posts().len()), (count, count));
    }
}

#[tokio::test]
async fn a_kept_connection_that_breaks_after_the_request_is_a_failure_and_not_sent_again() {
    let receiver = Receiver::tls(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
        talk.request().await; // and closes without a word
    });
    let receiver = receiver.await;
    let (sender, trust) = (receiver.sender(AMPLE), private_ca());
    succeeded(post(&sender, &receiver.url(), &trust, AMPLE).await);
    let report = failed(post(&sender, &receiver.url(), &trust, AMPLE).await, FailureClass::Transport);
    assert_eq!((report.remote, report.times.tls), (Some(receiver.address), None));
    assert_eq!((receiver.connections(), receiver.posts().len()), (1, 2), "one POST per attempt");
}

/// Receivers that close at random moments around the second request: whatever happens, no attempt makes two POSTs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attempt_ever_makes_two_posts() {
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
async fn many_at_once_reach_one_receiver_once_each() {
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
    assert!(
        receiver.connections() <= 25 * 4 - 8 * 3,
        "8 are kept between rounds: {}",
        receiver.connections()
    );
}
