//! HTTP as bytes: what a hostile or broken client sends. Refused or closed, never answered as another client's request.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use docket_orders::OrderType;
use docket_tests::server::{api_key, eventually, webhook_yaml};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rig::{Rig, bearer, captioned, connect, example, exchange, read_to_end, refused, with};

/// The statuses of all answers to these bytes.
async fn statuses(to: SocketAddr, bytes: impl AsRef<[u8]>) -> Vec<u16> {
    exchange(to, bytes.as_ref()).await.iter().map(|reply| reply.status).collect()
}

/// The head of a save with both credentials, without the end of the headers.
async fn save_head(rig: &Rig) -> String {
    let ada = rig.ada().await;
    format!(
        "POST /Orders/Save HTTP/1.1\r\nHost: x\r\nX-Api-Key: {}\r\nAuthorization: {}\r\n\
         Content-Type: application/json\r\nConnection: close\r\n",
        ada.key,
        bearer(&ada)
    )
}

async fn is_healthy(rig: &Rig) {
    assert_eq!(rig.ada().await.get("/Orders/Search").await.status, 200);
}

#[tokio::test]
async fn a_length_that_is_not_one_number_is_refused() {
    let rig = Rig::start().await;
    let (head, body) = (save_head(&rig).await, captioned("x").to_string());
    let n = body.len();
    for lengths in [
        format!("Content-Length: {n}\r\nContent-Length: {}\r\n", n + 1),
        format!("Content-Length: {}\r\nContent-Length: {n}\r\n", n + 1),
        format!("Content-Length: {n}, {}\r\n", n + 1),
        "Content-Length: -1\r\n".to_owned(),
        format!("Content-Length: +{n}\r\n"),
        format!("Content-Length: 0x{n:x}\r\n"),
        "Content-Length: 99999999999999999999\r\n".to_owned(),
        "Content-Length: \r\n".to_owned(),
    ] {
        let got = statuses(rig.server.api, format!("{head}{lengths}\r\n{body}")).await;
        assert_eq!(got, [400], "{lengths:?}");
    }
    assert_eq!(rig.orders(), 0);
    is_healthy(&rig).await;
}

#[tokio::test]
async fn a_content_coding_is_known_in_any_case_and_only_identity_is_taken() {
    let rig = Rig::start().await;
    let (head, body) = (save_head(&rig).await, captioned("x").to_string());
    for (coding, status) in [
        ("identity", 200),
        ("Identity", 200),
        ("IDENTITY", 200),
        ("gzip", 415),
        ("GZip", 415),
        ("br, identity", 415),
    ] {
        let length = body.len();
        let request = format!("{head}Content-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n{body}");
        assert_eq!(statuses(rig.server.api, request).await, [status], "{coding}");
    }
}

#[tokio::test]
async fn a_second_request_is_never_smuggled_past_the_length() {
    let rig = Rig::start().await;
    let head = save_head(&rig).await.replace("Connection: close\r\n", "");
    let smuggled = "GET /swagger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let chunked = format!("0\r\n\r\n{smuggled}");
    for (what, framing) in [
        ("CL, TE", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        ("TE, CL", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        ("TE after a tab", "Content-Length: 5\r\nTransfer-Encoding:\tchunked\r\n"),
        ("TE with a blank in its name", "Content-Length: 5\r\nTransfer-Encoding : chunked\r\n"),
        ("TE with x", "Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n"),
        ("TE chunked, identity", "Content-Length: 5\r\nTransfer-Encoding: chunked, identity\r\n"),
        ("TE identity", "Content-Length: 5\r\nTransfer-Encoding: identity\r\n"),
        ("TE twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        ("TE folded", "Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n"),
        ("TE quoted", "Content-Length: 5\r\nTransfer-Encoding: \"chunked\"\r\n"),
    ] {
        let got = statuses(rig.server.api, format!("{head}{framing}\r\n{chunked}")).await;
        assert!(got.len() <= 1 && got.iter().all(|status| *status == 400), "{what}: {got:?}");
    }
    assert_eq!(rig.orders(), 0);
    is_healthy(&rig).await;
}

#[tokio::test]
async fn a_broken_chunk_is_refused_and_nothing_is_saved() {
    let rig = Rig::start().await;
    let (head, body) = (save_head(&rig).await, captioned("x").to_string());
    let n = body.len();
    for chunks in [
        format!("zz\r\n{body}\r\n0\r\n\r\n"),
        format!("{n:x}\r\n{body}0\r\n\r\n"),
        format!("-1\r\n{body}\r\n0\r\n\r\n"),
        format!("fffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
        format!("{n:x}\n{body}\n0\n\n"),
    ] {
        let got = statuses(rig.server.api, format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}")).await;
        assert!(got.iter().all(|status| *status == 400), "{chunks:?}: {got:?}");
    }
    assert_eq!(rig.orders(), 0);
    let right = format!("{head}Transfer-Encoding: chunked\r\n\r\n{n:x};ext=1\r\n{body}\r\n0\r\nX: y\r\n\r\n");
    assert_eq!(statuses(rig.server.api, right).await, [200]);
}

#[tokio::test]
async fn a_request_names_one_host() {
    let rig = Rig::start().await;
    let get =
        |target: &str, hosts: &str| format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
    let path = "/Orders/Search";
    for (message, detail) in [
        (get(path, "Host: acme.localhost\r\nHost: acme.localhost\r\n"), "Send one Host header"),
        (get(path, "Host: acme.localhost\r\nHost: blue.localhost\r\n"), "Send one Host header"),
        (get(path, ""), "Send a Host header"),
        (get(path, "Host: \r\n"), "The Host header is not a host name"),
        (get(path, "Host: a b\r\n"), "The Host header is not a host name"),
        (get(path, "Host: user@acme.localhost\r\n"), "The Host header is not a host name"),
        (get(path, "Host: acme.localhost:99999\r\n"), "The Host header is not a host name"),
        (
            get("http://acme.localhost/Orders/Search", "Host: blue.localhost\r\n"),
            "The request line and the Host header name different hosts",
        ),
    ] {
        let replies = exchange(rig.server.api, message.as_bytes()).await;
        assert_eq!(replies.len(), 1, "{message:?}");
        refused(&replies[0], 400, detail);
    }
}

#[tokio::test]
async fn an_absolute_uri_counts_as_the_host() {
    let rig = Rig::start().await;
    let body = super::rig::credentials(docket_tests::people::ADA).to_string();
    for (target, hosts, status) in [
        ("http://acme.localhost/Auth/Token", "Host: acme.localhost\r\n", 200),
        ("http://acme.localhost:80/Auth/Token", "Host: ACME.localhost.\r\n", 200),
        ("http://unknown.localhost/Auth/Token", "Host: unknown.localhost\r\n", 404),
    ] {
        let message = format!(
            "POST {target} HTTP/1.1\r\n{hosts}Content-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(statuses(rig.server.api, message).await, [status], "{target}");
    }
}

#[tokio::test]
async fn http_1_0_without_a_host_needs_a_key() {
    let rig = Rig::start().await;
    let without = exchange(rig.server.api, b"GET /Orders/Search HTTP/1.0\r\n\r\n").await;
    refused(&without[0], 401, "Invalid API key");
    let ada = rig.ada().await;
    let message = format!(
        "GET /Orders/Search HTTP/1.0\r\nX-Api-Key: {}\r\nAuthorization: {}\r\n\r\n",
        ada.key,
        bearer(&ada)
    );
    assert_eq!(statuses(rig.server.api, message).await, [200]);
}

#[tokio::test]
async fn what_is_no_http_is_refused_or_closed() {
    let rig = Rig::start().await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    let big_header =
        format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many: String = (0..300).map(|n| format!("X-{n}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    for (what, message) in [
        ("garbage", &b"\x00\x01\x02\xff\xfe garbage \r\n\r\n"[..]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 some client hello \r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("HTTP/0.9", b"GET /\r\n\r\n"),
        ("HTTP/3", b"GET / HTTP/3.0\r\nHost: x\r\n\r\n"),
        ("no method", b" / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("a blank in the target", b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("NUL in the target", b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("NUL in a header", b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n"),
        ("a header without a colon", b"GET / HTTP/1.1\r\nHost: x\r\nX\r\n\r\n"),
        ("a header without a name", b"GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n"),
        ("a folded header", b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n"),
        ("a carriage return alone", b"GET / HTTP/1.1\r\nHost: x\r\nX: a\rY: b\r\n\r\n"),
        ("a long target", long.as_bytes()),
        ("a long header", big_header.as_bytes()),
        ("300 headers", many.as_bytes()),
    ] {
        let got = statuses(rig.server.api, message).await;
        assert!(got.len() <= 1 && got.iter().all(|status| (400..500).contains(status)), "{what}: {got:?}");
    }
    is_healthy(&rig).await;
}

#[tokio::test]
async fn bare_line_feeds_do_not_split_a_request_in_two() {
    let rig = Rig::start().await;
    let message = "GET /swagger HTTP/1.1\nHost: x\nConnection: close\n\nGET /swagger HTTP/1.1\nHost: x\n\n";
    let got = statuses(rig.server.api, message).await;
    assert!(got == [308] || got == [400], "{got:?}");
    let hidden =
        "GET /swagger HTTP/1.1\r\nHost: x\r\nX: y\n\nGET /other HTTP/1.1\r\nConnection: close\r\n\r\n";
    let got = statuses(rig.server.api, hidden).await;
    assert!(got.len() <= 2, "{got:?}");
    is_healthy(&rig).await;
}

#[tokio::test]
async fn odd_targets_are_no_error_of_ours() {
    let rig = Rig::start().await;
    for target in
        ["*", "acme.localhost:80", "http://", "http:///x", "//x//y", "/?", "?", "/#x", "/%", "/%2e%2e/%2e%2e"]
    {
        for method in ["GET", "OPTIONS", "CONNECT", "POST"] {
            let message =
                format!("{method} {target} HTTP/1.1\r\nHost: acme.localhost:80\r\nConnection: close\r\n\r\n");
            let got = statuses(rig.server.api, message).await;
            assert!(got.iter().all(|status| (400..500).contains(status)), "{method} {target}: {got:?}");
        }
    }
    is_healthy(&rig).await;
}

#[tokio::test]
async fn two_requests_in_one_go_get_two_answers_in_order() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let request = |path: &str, more: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: {}\r\nAuthorization: {}\r\n{more}\r\n",
            ada.key,
            bearer(&ada)
        )
    };
    let both = request("/Orders/Get?webOrderId=W1", "") + &request("/Orders/Search", "Connection: close\r\n");
    assert_eq!(statuses(rig.server.api, both).await, [404, 200]);
}

#[tokio::test]
async fn a_refused_body_is_not_taken_for_the_next_request() {
    let rig = Rig::start().await;
    let smuggled = "GET /swagger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    // The server responds 401 before it reads the body, so the next bytes are still the body.
    let message = format!(
        "POST /Orders/Save HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{smuggled}GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        smuggled.len()
    );
    let got = statuses(rig.server.api, message).await;
    assert!(got == [401] || got == [401, 404], "{got:?}");
}

#[tokio::test]
async fn a_client_that_waits_for_continue_gets_it_or_a_refusal() {
    let rig = Rig::start().await;
    let (head, body) = (save_head(&rig).await, captioned("x").to_string());
    let message = format!("{head}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let got = statuses(rig.server.api, message).await;
    assert!(got == [100, 200] || got == [200], "{got:?}");
}

#[tokio::test]
async fn slow_clients_are_given_up_while_others_are_served() {
    let rig = Rig::start().await;
    let head = save_head(&rig).await;
    let (api, begun) = (rig.server.api, Instant::now());
    let slow = |bytes: String, limit: u64, answer: Option<u16>| async move {
        let mut stream = connect(api).await;
        stream.write_all(bytes.as_bytes()).await.expect("writable");
        let read = read_to_end(&mut stream).await;
        assert!(begun.elapsed() < Duration::from_secs(limit), "{:?} for {bytes:?}", begun.elapsed());
        let status = String::from_utf8_lossy(&read).split(' ').nth(1).and_then(|text| text.parse().ok());
        assert_eq!(status, answer, "{bytes:?}");
    };
    // A client that asks for more than the sockets hold, and reads nothing. A byte sent to a closed connection gets a reset.
    let takes_nothing = async {
        let mut stream = connect(api).await;
        let bundle = "GET /swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n".repeat(30);
        stream.write_all(bundle.as_bytes()).await.expect("writable");
        eventually("who takes nothing is given up", Duration::from_secs(24), async || {
            stream.write_all(b"\r\n").await.is_err()
        })
        .await;
    };
    let others = async {
        while begun.elapsed() < Duration::from_secs(2) {
            is_healthy(&rig).await;
        }
    };
    tokio::join!(
        slow("GET /Orders/Se".to_owned(), 12, None),
        slow(format!("{head}Content-Le"), 12, None),
        slow(format!("{head}Content-Length: 100\r\n\r\n{{\"orderType\":"), 23, Some(408)),
        slow(format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"ord\r\n"), 23, Some(408)),
        takes_nothing,
        others,
    );
    assert_eq!(rig.orders(), 0);
    is_healthy(&rig).await;
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_saves_nothing_and_harms_no_other() {
    let rig = Rig::start().await;
    let head = save_head(&rig).await;
    for cut in [0, 10, 60, head.len()] {
        let mut stream = connect(rig.server.api).await;
        let message = format!("{head}Content-Length: 100\r\n\r\n{{\"orderType\":\"Court\"");
        stream.write_all(&message.as_bytes()[..message.len() - cut]).await.expect("writable");
        drop(stream);
    }
    is_healthy(&rig).await;
    assert_eq!(rig.orders(), 0);
}

/// A disconnect cancels nothing that has begun: what was sent whole is saved, whether its client waits for the response
/// or not.
#[tokio::test]
async fn a_client_that_hangs_up_while_its_order_is_written_has_saved_it() {
    let rig = Rig::start().await;
    let head = save_head(&rig).await;
    let order = with(example(OrderType::FileAndServe), json!({"export": true})).to_string();
    let other = rig.database("ACME");
    other.lock_orders();
    let mut stream = connect(rig.server.api).await;
    let head = format!("{head}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", order.len());
    stream.write_all(head.as_bytes()).await.expect("writable");
    // The request has begun when the server asks for the body; hyper drops a request whose client is gone before that.
    let mut asked = *b"HTTP/1.1 100 Continue\r\n\r\n";
    stream.read_exact(&mut asked).await.expect("it asks for the body");
    stream.write_all(order.as_bytes()).await.expect("writable");
    stream.shutdown().await.expect("open");
    // The write waits for the lock. The server has read the body, sees that the client is gone, and closes as well.
    assert!(read_to_end(&mut stream).await.is_empty(), "no response comes before the lock is released");
    other.change("ROLLBACK");
    eventually("it is saved", Duration::from_secs(5), async || rig.orders() == 1).await;
    assert_eq!(rig.count("SELECT count(*) FROM web_order WHERE status = 'Exported'"), 1);
}

/// When the client hangs up decides whether one whole order is saved, or none.
#[tokio::test]
async fn a_client_that_hangs_up_after_its_request_has_saved_one_whole_order_or_none() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    let head = save_head(&rig).await;
    let order = with(example(OrderType::FileAndServe), json!({"export": true})).to_string();
    const CLIENTS: usize = 20;
    for client in 0..CLIENTS {
        let mut stream = connect(rig.server.api).await;
        let message = format!("{head}Content-Length: {}\r\n\r\n{order}", order.len());
        stream.write_all(message.as_bytes()).await.expect("writable");
        // The clients close at different moments: from before the server has read the request to while it writes. The last client
        // sees that the response has begun.
        match client + 1 < CLIENTS {
            true => tokio::time::sleep(Duration::from_millis(client as u64)).await,
            false => assert_eq!(stream.read_u8().await.expect("a response"), b'H'),
        }
        drop(stream);
    }
    is_healthy(&rig).await;
    // The stop waits for requests under way.
    let Rig { server, home, .. } = rig;
    assert!(server.terminate().await.success());
    let rig = Rig::on(home, "").await;
    let count = |sql: &str| rig.count(sql) as usize;
    let saved = count("SELECT count(*) FROM web_order");
    assert!((1..=CLIENTS).contains(&saved), "{saved}");
    assert_eq!(count("SELECT count(*) FROM web_order WHERE status = 'Exported'"), saved);
    assert_eq!(count("SELECT count(*) FROM work_order"), 2 * saved);
    for code in ["order.created", "order.exported"] {
        assert_eq!(rig.published(code).len(), saved, "{code}");
    }
    assert_eq!(count("SELECT count(*) FROM delivery"), 2 * saved);
}

#[tokio::test]
async fn two_hundred_silent_connections_delay_no_other() {
    let rig = Rig::start().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(connect(rig.server.api).await);
    }
    let begun = Instant::now();
    let key = api_key('a');
    assert_eq!(super::rig::get(rig.server.api, "/Orders/Search", &[("x-api-key", &key)]).await.status, 401);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}
