//! The operator's port of health and metrics, which every pod may reach.

use std::time::Duration;

use docket_tests::operator::Release;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// How long an answer may take while others hold connections. The kubelet waits for 5 s.
const SOON: Duration = Duration::from_secs(3);
/// The operator gives the headers 10 s.
const LATE: Duration = Duration::from_secs(20);

/// A connection from another address of this machine.
async fn from(source: u8, port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, source], 0).into()).expect("an address of this machine");
    socket.connect(([127, 0, 0, 1], port).into()).await.expect("it listens")
}

/// One that has sent half of a request's head.
async fn half_a_head(source: u8, port: u16) -> TcpStream {
    let mut client = from(source, port).await;
    // One that is refused may be closed already.
    let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    client
}

/// The response to a peer that has no other connection, like the kubelet, which has only the connection of its probe.
async fn answer_in_time(source: u8, port: u16, request: &str) -> String {
    let answer = async {
        let mut client = from(source, port).await;
        let head = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.write_all(head.as_bytes()).await.expect("it is open");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        answer
    };
    let answer = tokio::time::timeout(SOON, answer).await;
    answer.unwrap_or_else(|_| panic!("{request}: no answer in {SOON:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_response_has_the_headers_that_protect_browsers() {
    let release = Release::new("protected");
    let operator = release.start().await;
    for (request, status) in [
        ("GET /healthz", 200),
        ("GET /readyz", 200),
        ("GET /metrics", 200),
        ("GET /nothing", 404),
        ("POST /metrics", 405),
    ] {
        let answer = answer_in_time(1, operator.management, request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        for header in [
            "cache-control: no-store\r\n",
            "content-security-policy: default-src 'none'; ",
            "referrer-policy: same-origin\r\n",
            "x-content-type-options: nosniff\r\n",
        ] {
            assert!(answer.contains(header), "{request}: {header}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_finished_heads_keep_neither_the_kubelet_nor_prometheus_waiting() {
    let release = Release::new("heads");
    let operator = release.start().await;
    let mut held = Vec::new();
    // One source has half of the connections. Eight sources want five times as many as there are.
    for source in 2..10 {
        for _ in 0..40 {
            held.push(half_a_head(source, operator.management).await);
        }
        for (probe, request) in [(100, "GET /healthz"), (200, "GET /readyz")] {
            let answer = answer_in_time(probe + source, operator.management, request).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{request}: {answer}");
        }
    }
    let metrics = answer_in_time(250, operator.management, "GET /metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
    for reason in ["Peer", "Full"] {
        let none = format!("docket_operator_connections_refused_total{{reason=\"{reason}\"}} 0\n");
        assert!(
            metrics.contains(none.trim_end_matches(" 0\n")) && !metrics.contains(&none),
            "{reason}: {metrics}"
        );
    }
    let all_end = async {
        for client in &mut held {
            while client.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
        }
    };
    tokio::time::timeout(LATE, all_end)
        .await
        .expect("the operator closes each connection without a whole head");
}
