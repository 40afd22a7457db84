//! The rig of a test: its own `docket dev`, whose tenants have people, and requests as bytes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docket::http::problem_type::ProblemType;
use docket_orders::OrderType;
use docket_tests::people::{self, ADA, ALEX, BEA, MO};
use docket_tests::server::{
    Client, Home, JSON, Options, PASSWORD, Reply, Server, api_key, eventually, request,
};
use docket_tests::stores::{self, Database};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// A `docket dev` and its files.
pub(crate) struct Rig {
    // Dropped in this order: the process, the check of its log, the files.
    pub(crate) server: Server,
    pub(crate) log: Log,
    pub(crate) home: Home,
}

/// The log of a `docket dev`. Dropping it fails the test if the log has an error: nothing that a client sends is an internal
/// error.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("a log")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // If the test took the rig apart, the log is gone with its folder.
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        if !std::thread::panicking() {
            assert!(!text.contains(" ERROR ") && !text.contains("panicked"), "an error was logged: {text}");
        }
    }
}

/// A tenant's uid, the id of the key that signs its tokens, and the key.
pub(crate) struct SigningKey {
    pub(crate) uid: String,
    pub(crate) kid: String,
    pub(crate) secret: Vec<u8>,
}

/// Makes files with these tenants, each with the people Ada, Bea, Mo and Alex.
pub(crate) fn home(tenants: &[(&str, char)], more_yaml: &str) -> Home {
    let home = Home::new();
    for (name, digit) in tenants {
        people::add_tenant(&home, name, *digit);
    }
    if !more_yaml.is_empty() {
        home.write("more.yaml", more_yaml);
    }
    home
}

impl Rig {
    /// Starts with one tenant: `acme`, with the key `aaa…`.
    pub(crate) async fn start() -> Self {
        Self::with("", "").await
    }

    /// Starts with one tenant, more documents, and flags.
    pub(crate) async fn with(more_yaml: &str, flags: &str) -> Self {
        Self::on(home(&[("acme", 'a')], more_yaml), flags).await
    }

    /// Starts with these tenants.
    pub(crate) async fn of(tenants: &[(&str, char)]) -> Self {
        Self::on(home(tenants, ""), "").await
    }

    /// Starts on these files.
    pub(crate) async fn on(home: Home, flags: &str) -> Self {
        let server = Server::start(&home, Options::flags(flags)).await;
        Self { server, log: Log(home.log("err")), home }
    }

    /// Kills the program and starts it again.
    pub(crate) async fn restarted(self) -> Self {
        let Self { server, home, .. } = self;
        server.kill();
        Self::on(home, "").await
    }

    /// Opens a tenant's database, past the API.
    pub(crate) fn database(&self, client_code: &str) -> Database {
        self.home.open(client_code)
    }

    /// Reads the key that signs a tenant's tokens.
    pub(crate) fn signing_key(&self, client_code: &str) -> SigningKey {
        let path = self.home.data().join("tenants").join(client_code).join("keys.json");
        let keys: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let key = &keys["signingKeys"][0];
        let secret = hex::decode(text(&key["secret"])).expect("hexadecimal");
        SigningKey { uid: text(&keys["uid"]), kid: text(&key["kid"]), secret }
    }

    /// Runs a statement on ACME's database, past the API.
    pub(crate) fn change(&self, sql: &str) {
        self.database("ACME").change(sql);
    }

    /// Reads a number from ACME's database, past the API.
    pub(crate) fn count(&self, sql: &str) -> i64 {
        self.database("ACME").get(sql)
    }

    /// Counts ACME's orders, past the API.
    pub(crate) fn orders(&self) -> i64 {
        self.count("SELECT count(*) FROM web_order")
    }

    /// Reads the codes of ACME's events in order, past the API.
    pub(crate) fn events(&self) -> Vec<String> {
        let sql = format!("SELECT code FROM event ORDER BY {}", stores::order());
        self.database("ACME").rows(&sql, &[]).iter().map(|row| row.get(0)).collect()
    }

    /// Reads the envelopes of ACME's events with this code in order, past the API.
    pub(crate) fn published(&self, code: &str) -> Vec<Value> {
        let sql = format!("SELECT body FROM event WHERE code = ?1 ORDER BY {}", stores::order());
        let rows = self.database("ACME").rows(&sql, &[code]);
        rows.iter().map(|row| serde_json::from_slice(&row.get::<Vec<u8>>(0)).expect("JSON")).collect()
    }

    pub(crate) async fn ada(&self) -> Client {
        self.server.sign_in(&api_key('a'), ADA).await
    }

    pub(crate) async fn bea(&self) -> Client {
        self.server.sign_in(&api_key('a'), BEA).await
    }

    pub(crate) async fn mo(&self) -> Client {
        self.server.sign_in_employee(&api_key('a'), MO).await
    }

    pub(crate) async fn alex(&self) -> Client {
        self.server.sign_in_employee(&api_key('a'), ALEX).await
    }

    /// POSTs a sign-in with ACME's key.
    pub(crate) async fn sign_in(&self, path: &str, body: &Value) -> Reply {
        self.server.send("POST", path, &[("x-api-key", &api_key('a')), JSON], &body.to_string()).await
    }

    /// The log so far. The program writes an informational line up to 50 ms later; see [`logged`](Self::logged).
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Waits for the first line of the log with this text.
    pub(crate) async fn logged(&self, text: &str) -> String {
        let is_whole = |line: &&str| line.ends_with('\n') && line.contains(text);
        let line = || self.log().split_inclusive('\n').find(is_whole).map(str::to_owned);
        eventually(text, Duration::from_secs(5), async || line().is_some()).await;
        line().expect("a log only grows")
    }
}

/// The body of a sign-in with the right password.
pub(crate) fn credentials(user: &str) -> Value {
    json!({"userId": user, "password": PASSWORD})
}

/// The complete example of an order of this type.
pub(crate) fn example(kind: OrderType) -> Value {
    let (_, text) = docket_orders::examples().into_iter().find(|(other, _)| *other == kind).expect("seven");
    serde_json::from_str(text).expect("JSON")
}

/// Adds the fields of `more` to an object.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    let fields = object.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    object
}

/// Saves a new order; returns its id.
pub(crate) async fn save(client: &Client, order: &Value) -> String {
    let reply = client.post("/Orders/Save", order).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["webOrderId"].as_str().expect("an id").to_owned()
}

/// Sends requests on as many connections, all at the same moment; returns the replies in the order of the requests.
pub(crate) async fn at_once(
    client: &Client,
    path: &'static str,
    bodies: Vec<(Value, Option<&'static str>)>,
) -> Vec<Reply> {
    let barrier = Arc::new(Barrier::new(bodies.len()));
    let mut requests = JoinSet::new();
    for (place, (body, key)) in bodies.into_iter().enumerate() {
        let (client, barrier) = (client.clone(), Arc::clone(&barrier));
        requests.spawn(async move {
            let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
            barrier.wait().await;
            (place, client.try_post(path, &body.to_string(), &headers).await.expect("a response"))
        });
    }
    let mut replies = requests.join_all().await;
    replies.sort_by_key(|(place, _)| *place);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// A draft with this caption, by which a search finds it.
pub(crate) fn captioned(caption: &str) -> Value {
    json!({"orderType": "Court", "case": {"caption": caption}})
}

/// Asserts that a response is a problem of RFC 9457 with this status. Returns its body without the fields that differ every time.
#[track_caller]
pub(crate) fn problem(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.headers.get("content-type").map(String::as_str), Some("application/problem+json"));
    let mut body = reply.json();
    let id = body.as_object_mut().expect("an object").remove("requestId").expect("a requestId");
    assert_eq!(Some(id.as_str().expect("text")), reply.headers.get("x-request-id").map(String::as_str));
    let title = StatusCode::from_u16(status).expect("a status").canonical_reason();
    assert_eq!(body["status"], json!(status));
    let kinds = ProblemType::ALL.into_iter().filter(|kind| kind.status().as_u16() == status);
    assert!(kinds.map(ProblemType::reference).any(|kind| body["type"] == kind), "{body}");
    assert_eq!(body["title"].as_str(), title);
    assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body}");
    let names = body.as_object().expect("an object").keys().map(String::as_str);
    assert!(
        names
            .into_iter()
            .all(|name| ["type", "title", "status", "detail", "errors", "limit"].contains(&name))
    );
    body
}

/// Asserts that a response is this problem without field errors.
#[track_caller]
pub(crate) fn refused(reply: &Reply, status: u16, detail: &str) {
    let body = problem(reply, status);
    assert_eq!((body["detail"].as_str(), body.get("errors")), (Some(detail), None));
}

/// The fields that a 400 names.
#[track_caller]
pub(crate) fn wrong_fields(reply: &Reply) -> Vec<String> {
    let body = problem(reply, 400);
    let errors = body["errors"].as_array().unwrap_or_else(|| panic!("no errors: {body}")).clone();
    assert!(errors.iter().all(|error| error["message"].as_str().is_some_and(|text| !text.is_empty())));
    errors.iter().map(|error| error["field"].as_str().expect("a field").to_owned()).collect()
}

/// Sends these bytes on a new connection, and reads until the server closes it. Returns every response. Fails after 25 s.
pub(crate) async fn exchange(to: SocketAddr, bytes: &[u8]) -> Vec<Reply> {
    let mut stream = connect(to).await;
    // The server may refuse and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    replies(&read_to_end(&mut stream).await)
}

#[expect(clippy::disallowed_methods, reason = "a test client, to loopback only")]
pub(crate) async fn connect(to: SocketAddr) -> TcpStream {
    TcpStream::connect(to).await.expect("it listens")
}

/// Reads until the server closes the connection.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(25), stream.read_to_end(&mut bytes)).await;
    // A reset after the response ends it as well.
    let _ = read.expect("the other end closes within 25 s");
    bytes
}

fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = std::str::from_utf8(&bytes[..end]).expect("ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let headers: std::collections::HashMap<_, _> = headers.collect();
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
        let (body, rest) = bytes[end + 4..].split_at(length);
        replies.push(Reply { status, headers, body: bytes::Bytes::copy_from_slice(body) });
        bytes = rest;
    }
    assert!(bytes.is_empty(), "more than answers: {}", String::from_utf8_lossy(bytes));
    replies
}

/// POSTs bytes that may not be text, with exactly these headers beside `Host`, `Connection` and `Content-Length`.
pub(crate) async fn post_bytes(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut message = format!("POST {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n").into_bytes();
    for (name, value) in headers {
        message.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    message.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes());
    message.extend(body);
    let mut replies = exchange(to, &message).await;
    assert_eq!(replies.len(), 1, "one request, one answer");
    replies.remove(0)
}

/// Sends a GET with these headers only.
pub(crate) async fn get(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    request(to, "GET", path, headers, "").await.expect("an answer")
}

/// The header's value `Bearer …` of a client.
pub(crate) fn bearer(client: &Client) -> String {
    format!("Bearer {}", client.token)
}
