//! The operator's port of health and metrics, which every pod may reach.

use std::time::{Duration, Instant};

use docket_tests::operator::Release;
use docket_tests::server::request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// How long an answer may take while others hold connections. The kubelet waits for 5 s.
const SOON: Duration = Duration::from_secs(3);
/// The operator gives the headers 10 s.
const LATE: Duration = Duration::from_secs(20);

/// A connection from another address of this machine that has sent half of a request's head.
async fn half_a_head(source: u8, port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, source], 0).into()).expect("an address of this machine");
    let mut client = socket.connect(([127, 0, 0, 1], port).into()).await.expect("it listens");
    // One that is refused may be closed already.
    let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    client
}

async fn answer_in_time(port: u16, path: &str) -> String {
    let begun = Instant::now();
    let answer =
        tokio::time::timeout(SOON, request(([127, 0, 0, 1], port).into(), "GET", path, &[], "")).await;
    let reply = answer.unwrap_or_else(|_| panic!("{path}: no answer in {SOON:?}")).expect("an answer");
    assert_eq!(reply.status, 200, "{path} after {:?}: {reply:?}", begun.elapsed());
    reply.text().to_owned()
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
        for path in ["/healthz", "/readyz"] {
            answer_in_time(operator.management, path).await;
        }
    }
    let metrics = answer_in_time(operator.management, "/metrics").await;
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
