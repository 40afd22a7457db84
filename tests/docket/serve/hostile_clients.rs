//! Hostile clients of one tenant, beside a healthy tenant, in the memory that the chart gives to an API pod.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use docket_rig::memory_group::MemoryGroup;
use docket_rig::postgres;
use docket_tests::server::{Client, Server, api_key};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, MutexGuard};

use crate::serve::stage::{Stage, USER, save, sign_in};

/// `api.resources.limits.memory` of the chart.
const MEMORY: u64 = 256 << 20;
const ATTACK: Duration = Duration::from_secs(8);

pub(super) async fn connect(from: u8, api: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, from], 0)))?;
    socket.connect(api).await
}

/// Sends a request from an address; returns the status, or 0 if there was none.
pub(super) async fn send(from: u8, api: SocketAddr, path: &str, more: &str, body: &[u8]) -> u16 {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {}\r\n{more}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        api_key('b'),
        body.len()
    );
    let sent = async {
        let mut stream = connect(from, api).await?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await?;
        std::io::Result::Ok(reply)
    };
    status_of(&sent.await.unwrap_or_default())
}

/// Searches the documentation from an address, for words that are nowhere; returns the status, or 0 if there was none.
pub(super) async fn search(from: u8, server: SocketAddr, n: usize) -> u16 {
    let words: Vec<String> = (1..=8).map(|word| format!("zqxw{n}.{word}")).collect();
    let head = format!(
        "GET /docs/search?q={} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        words.join("+")
    );
    let sent = async {
        let mut stream = connect(from, server).await?;
        stream.write_all(head.as_bytes()).await?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await?;
        std::io::Result::Ok(reply)
    };
    status_of(&sent.await.unwrap_or_default())
}

/// Bodies of a megabyte: many small objects, a long list, one long text, and an order with blanks after it.
pub(super) fn large_bodies() -> Vec<Vec<u8>> {
    let filled = |open: &str, item: &str, close: &str| {
        let count = (1024 * 1024 - open.len() - close.len()) / (item.len() + 1);
        format!("{open}{}{close}", vec![item; count].join(",")).into_bytes()
    };
    let order = json!({"orderType": "Court"}).to_string();
    vec![
        filled("{\"servees\":[", "{\"\":0}", "]}"),
        filled("[", "0", "]"),
        format!("{{\"caseNumber\":\"{}\"}}", "x".repeat(1024 * 1024 - 17)).into_bytes(),
        format!("{order}{}", " ".repeat(1024 * 1024 - order.len())).into_bytes(),
    ]
}

/// Sends a body in chunks of one byte, each in a separate segment. Returns the status.
pub(super) async fn drip(from: u8, api: SocketAddr, length: usize) -> u16 {
    let sent = async {
        let mut stream = connect(from, api).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /Auth/Token HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {}\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            api_key('b')
        );
        stream.write_all(head.as_bytes()).await?;
        for _ in 0..length {
            stream.write_all(b"1\r\n \r\n").await?;
        }
        stream.write_all(b"0\r\n\r\n").await?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await?;
        std::io::Result::Ok(reply)
    };
    status_of(&sent.await.unwrap_or_default())
}

fn status_of(reply: &[u8]) -> u16 {
    String::from_utf8_lossy(reply).get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// How long hostile parties attack: a given time, and on a slow machine until each has done its minimum.
pub(super) struct Siege {
    begun: Instant,
    shortest: Duration,
    below_least: AtomicUsize,
}

impl Siege {
    const LONGEST: Duration = Duration::from_secs(120);

    pub(super) fn begin(shortest: Duration) -> Self {
        Self { begun: Instant::now(), shortest, below_least: AtomicUsize::new(0) }
    }

    pub(super) fn lasted(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn party(&self, name: &'static str, least: usize) -> Party<'_> {
        self.below_least.fetch_add(usize::from(least > 0), Ordering::Relaxed);
        Party { siege: self, name, least, done: 0 }
    }

    fn continues(&self) -> bool {
        let all_did_their_least = self.below_least.load(Ordering::Relaxed) == 0;
        self.lasted() < if all_did_their_least { self.shortest } else { Self::LONGEST }
    }
}

/// Waits for the turn of a case that needs the whole machine for its hostile parties. The case holds the result.
pub(super) async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

pub(super) struct Party<'a> {
    siege: &'a Siege,
    name: &'static str,
    least: usize,
    done: usize,
}

impl Party<'_> {
    pub(super) fn continues(&self) -> bool {
        self.siege.continues()
    }

    pub(super) fn did_one(&mut self) {
        self.done += 1;
        if self.done == self.least {
            self.siege.below_least.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Fails the test unless the party did its minimum.
    pub(super) fn end(self) {
        let Self { name, least, done, .. } = self;
        println!("{name}: {done}");
        assert!(done >= least, "{name}: {done} instead of {least} in {:?}", self.siege.lasted());
    }
}

/// Repeats `attack` in parallel tasks. Counts the attacks that got a 200 or a 4xx.
pub(super) async fn attack<A>(mut party: Party<'_>, tasks: usize, attack: impl Fn(usize) -> A)
where
    A: Future<Output = u16> + Send + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    let mut next = 0;
    while party.continues() {
        while running.len() < tasks {
            running.spawn(attack(next));
            next += 1;
        }
        let status = running.join_next().await.expect("some run").expect("no panic");
        if (200..500).contains(&status) {
            party.did_one();
        }
    }
    party.end();
}

/// Saves one order after the other; returns how long each save took, the shortest first.
pub(super) async fn healthy(api: &Server, ada: &Client, mut party: Party<'_>) -> Vec<Duration> {
    let mut times = Vec::new();
    while party.continues() {
        times.push(save(ada).await);
        party.did_one();
        if times.len() % 10 == 0 {
            // Fails the test unless the response is a 200.
            sign_in(api).await;
        }
    }
    times.sort_unstable();
    println!("saves took {times:?}");
    party.end();
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_clients_of_one_tenant_are_not_noticed_by_another() {
    let Some(group) = MemoryGroup::new(MEMORY) else { return };
    let _turn = turn().await;
    let stage = Stage::new().await;
    stage.add_blue().await;
    let server = Server::spawn_in(&stage.home, &group, &stage.arguments("api,worker", ""), &[]);
    let server = server.ready(&stage.home).await;
    let (ada, api) = (sign_in(&server).await, server.api);
    let guest = server.sign_in(&api_key('b'), USER).await;
    let token = guest.token.clone();

    let mut stalled = Vec::new();
    for _ in 0..1200 {
        let Ok(mut stream) = connect(3, api).await else { break };
        // The server closes at once if the peer has as many connections as it may.
        let _ = stream.write_all(format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(30_000)).as_bytes()).await;
        stalled.push(stream);
    }
    let bodies = Arc::new(large_bodies());
    let wrong = |n: usize| json!({"userId": format!("u{n}"), "password": "wrong"}).to_string();
    let large = |n: usize| {
        let (bodies, bearer) = (Arc::clone(&bodies), format!("Authorization: Bearer {token}\r\n"));
        async move { send(2, api, "/Orders/Save", &bearer, &bodies[n % bodies.len()]).await }
    };
    let siege = Siege::begin(ATTACK);
    let (saves, ..) = tokio::join!(
        healthy(&server, &ada, siege.party("saves", 20)),
        attack(siege.party("guesses", 50), 100, |n| {
            let body = wrong(n);
            async move { send(4, api, "/Auth/Token", "", body.as_bytes()).await }
        }),
        attack(siege.party("large bodies", 20), 60, large),
        attack(siege.party("bodies in drops", 10), 40, |_| drip(5, api, 4_000)),
    );
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    println!("in {:?}: {peak}", siege.lasted());
    assert!(saves.iter().all(|time| *time < Duration::from_secs(5)), "{saves:?}");
    drop(stalled);
    stage.received(saves.len()).await;
}

/// The resident memory of a process, in bytes.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("its memory");
    1024 * line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("KiB")
}

/// Saves an order of about 600 KB; returns its path.
async fn large_order(user: &Client) -> String {
    let mut order: serde_json::Value =
        serde_json::from_str(include_str!("../../../dataplane/orders/examples/process.json")).expect("JSON");
    let mut servee = order["servees"][0].clone();
    servee["addresses"][0]["accessNotes"] = "\u{1d11e}".repeat(500).into();
    servee["addresses"] = vec![servee["addresses"][0].clone(); 5].into();
    order["servees"] = vec![servee; 50].into();
    let saved = user.post("/Orders/Save", &order).await;
    assert_eq!(saved.status, 200, "{}", saved.text());
    format!("/Orders/Get?webOrderId={}", saved.json()["webOrderId"].as_str().expect("an id"))
}

/// Sends a request on each of 100 connections and reads only the status. Returns how many were refused, and the connections.
async fn unread(api: SocketAddr, request: &str) -> (usize, Vec<TcpStream>) {
    let (mut unread, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut stream = connect(6, api).await.expect("a place");
        stream.write_all(request.as_bytes()).await.expect("an open connection");
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.expect("a response begins");
        refused += usize::from(status.ends_with(b"503"));
        assert!(status.ends_with(b"200") || status.ends_with(b"503"), "{}", String::from_utf8_lossy(&status));
        unread.push(stream);
    }
    (refused, unread)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_one_tenants_clients_do_not_read_take_a_bounded_part_of_the_memory() {
    let stage = Stage::new().await;
    stage.add_blue().await;
    let server = Server::spawn_server(&stage.home, &stage.arguments("api", "--memory-limit 256Mi"), &[]);
    let server = server.ready(&stage.home).await;
    let (ada, api) = (sign_in(&server).await, server.api);
    let guest = server.sign_in(&api_key('b'), USER).await;
    let (of_ada, of_guest) = (large_order(&ada).await, large_order(&guest).await);
    assert_eq!(ada.get(&of_ada).await.status, 200);
    let before = resident(&server);

    let head = format!(
        "GET {of_guest} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        api_key('b'),
        guest.token
    );
    let (refused, unread) = unread(api, &head).await;
    let taken = resident(&server).saturating_sub(before);
    println!("{refused} of {} responses were refused; the others take {} KiB", unread.len(), taken / 1024);
    // A tenant gets half of an eighth of the memory for responses; the allocator keeps some more.
    assert!(refused > 0 && taken < 64 << 20, "{taken}");
    assert_eq!(ada.get(&of_ada).await.status, 200);
    assert_eq!(guest.get("/Orders/Search").await.status, 200);
}

/// The owner of the database writes the responses that are kept under a key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_writes_whose_responses_are_not_read_take_a_bounded_part_of_the_memory() {
    let stage = Stage::new().await;
    let server = Server::spawn_server(&stage.home, &stage.arguments("api", "--memory-limit 256Mi"), &[]);
    let server = server.ready(&stage.home).await;
    let (ada, body) = (sign_in(&server).await, json!({"orderType": "Court"}).to_string());
    let key = [("Idempotency-Key", "one")];
    assert_eq!(ada.try_post("/Orders/Save", &body, &key).await.expect("an answer").status, 200);
    let long = "UPDATE idempotency SET answer_body = repeat('x', 600000)";
    postgres::client(&stage.database).await.batch_execute(long).await.expect("it is its owner's");

    let head = format!(
        "POST /Orders/Save HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nIdempotency-Key: one\r\nContent-Length: {}\r\n\r\n{body}",
        api_key('a'),
        ada.token,
        body.len()
    );
    let before = resident(&server);
    let (refused, _unread) = unread(server.api, &head).await;
    let taken = resident(&server).saturating_sub(before);
    assert!(refused > 0 && taken < 64 << 20, "{refused} {taken}");
    assert_eq!(ada.try_post("/Orders/Save", &body, &[]).await.expect("an answer").status, 200);
}
