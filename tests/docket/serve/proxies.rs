//! Clients behind proxies: whose address counts when guessing is slowed down.

use docket_tests::server::{JSON, Server, api_key, request};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::serve::stage::{Stage, USER};

async fn guess(api: &Server, forwarded_for: &str, user: usize) -> u16 {
    let body = json!({"userId": format!("user-{user}"), "password": "not-the-password"}).to_string();
    let key = api_key('a');
    let headers = [("x-api-key", key.as_str()), JSON, ("x-forwarded-for", forwarded_for)];
    api.send("POST", "/Auth/Token", &headers, &body).await.status
}

/// Guesses until the source has to wait.
async fn guess_until_refused(api: &Server, forwarded_for: &str) {
    for user in 0..60 {
        if guess(api, forwarded_for, user).await == 429 {
            return;
        }
    }
    panic!("60 guesses from {forwarded_for} were answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_a_trusted_proxy_names_is_the_one_that_waits() {
    let stage = Stage::new().await;
    let api = stage.spawn("api", "--trusted-proxy 127.0.0.0/8").ready(&stage.home).await;
    guess_until_refused(&api, "203.0.113.9, 198.51.100.7").await;
    assert_eq!(guess(&api, "198.51.100.7:4711, 127.0.0.9", 100).await, 429, "the same client");
    assert_eq!(guess(&api, "198.51.100.7, 198.51.100.8", 100).await, 404, "another one");
    // The proxy names no client, so no source waits.
    for user in 200..260 {
        assert_eq!(guess(&api, "unknown", user).await, 404);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_counts_only_from_a_trusted_proxy() {
    let stage = Stage::new().await;
    let api = stage.spawn("api", "--trusted-proxy 192.0.2.0/24").ready(&stage.home).await;
    guess_until_refused(&api, "198.51.100.7").await;
    assert_eq!(guess(&api, "198.51.100.8", 100).await, 429);
}

/// Sends `start` and then a sign-in with the right password; returns the status, or `None` if the connection was closed.
async fn sign_in_after(api: &Server, start: &[u8]) -> Option<u16> {
    let body = json!({"userId": USER, "password": "a-password-for-tests"}).to_string();
    let head = format!(
        "POST /Auth/Token HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        api_key('a'),
        body.len()
    );
    #[expect(clippy::disallowed_methods, reason = "a test client, to loopback only")]
    let mut stream = TcpStream::connect(api.api).await.expect("it listens");
    // The server may refuse while the request is being sent.
    let _ = stream.write_all(&[start, head.as_bytes(), body.as_bytes()].concat()).await;
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    let reply = String::from_utf8_lossy(&reply).into_owned();
    reply.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_protocol_is_required_where_it_is_on() {
    let stage = Stage::new().await;
    let flags = "--trusted-proxy 127.0.0.1/32 --proxy-protocol";
    let api = stage.spawn("api", flags).ready(&stage.home).await;
    assert_eq!(sign_in_after(&api, b"PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\n").await, Some(200));
    let second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\x07\xc0\0\x02\x01\x12\x67\x01\xbb";
    assert_eq!(sign_in_after(&api, second).await, Some(200));
    assert_eq!(sign_in_after(&api, b"").await, None);
    assert_eq!(sign_in_after(&api, b"PROXY nonsense\r\n").await, None);
    let elsewhere =
        stage.spawn("api", "--trusted-proxy 192.0.2.0/24 --proxy-protocol").ready(&stage.home).await;
    assert_eq!(sign_in_after(&elsewhere, second).await, None, "not a trusted proxy");
    // The management port has no proxy in front.
    let ready = request(api.management, "GET", "/readyz", &[], "").await.expect("an answer");
    assert_eq!(ready.status, 200);
}
