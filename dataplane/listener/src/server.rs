//! Accepts connections and serves HTTP/1.1 on them.
//!
//! `axum::serve` sets no timer, and without a timer hyper's limit on the wait for a request has no effect. Hence this
//! loop. hyper has no limit on slow writes, and none for headers alone, so the stream enforces both.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::client::{Proxies, ProxyHeaderError};
use crate::fair_share::may_have;
pub use crate::head_limit::HEADER_TIME;
use crate::head_limit::{HeadLimit, RequestCount};
use crate::pace::{Paced, SEND_BUFFER};
use crate::refusals::{Counted, RefusalReason, Refusals};
use crate::source::network;

/// How long an idle connection is kept, before its first request or between two. It is longer than proxies keep
/// theirs (60 s in nginx and in AWS), and than clients keep connections that they open in advance. Otherwise they
/// would send requests on connections that are being closed.
pub const IDLE_TIME: Duration = Duration::from_secs(75);
/// The limit of connections at a time. When it is reached, a further connection waits until one ends: the oldest idle
/// connection of the peer that has most; or, without an idle one, the oldest of that peer after its response.
pub const CONNECTIONS: usize = 8192;
/// The size of a connection's buffer, in bytes: the limit of a request's headers, and of what is read ahead.
pub const BUFFER: usize = 32 * 1024;
/// The system's buffer for bytes that the process has not read yet, in bytes; the system may double it. Without this
/// limit, the system gives a fast client megabytes.
const RECEIVE_BUFFER: usize = BUFFER;
/// The limit of connections to a management port at a time: enough for the kubelet and a few Prometheus servers.
pub const MANAGEMENT_CLIENTS: usize = 64;
/// How long an idle connection to a management port is kept.
const MANAGEMENT_IDLE: Duration = Duration::from_secs(5);
/// The memory of a connection that fills its buffers and stalls, in bytes: two buffers of the process and two pairs
/// of the system, which count in the same control group.
pub const BYTES_PER_CONNECTION: u64 = (2 * BUFFER + 2 * (SEND_BUFFER + RECEIVE_BUFFER)) as u64;
/// How long requests that are being served at shutdown may take.
const DRAIN: Duration = Duration::from_secs(25);

/// The limits for clients of a listener.
#[derive(Debug, Clone)]
pub struct Clients {
    /// The limit of connections at a time (at most 8,192). A peer that is not a trusted proxy may have at most half
    /// of the connections that are free or its own.
    pub most: usize,
    /// How long an idle connection is kept, before its first request or between two.
    pub idle: Duration,
    /// The trusted proxies.
    pub proxies: Arc<Proxies>,
    /// Counts refused connections.
    pub refused: Counted,
}

impl Clients {
    /// The limits of a management port, on which no proxy is trusted.
    pub fn of_management(refused: Counted) -> Self {
        Self { most: MANAGEMENT_CLIENTS, idle: MANAGEMENT_IDLE, proxies: Arc::default(), refused }
    }
}

/// Serves clients until shutdown is requested, then finishes the requests that are being served.
pub async fn serve(listener: TcpListener, router: Router, clients: Clients, shutdown: CancellationToken) {
    let (most, idle) = (clients.most.clamp(1, CONNECTIONS), clients.idle);
    let places = Arc::new(Semaphore::new(most));
    let peers = Arc::new(Peers { places: Arc::clone(&places), open: Mutex::default() });
    let refusals = Arc::new(Refusals::new(clients.refused, listener.local_addr().ok()));
    bound_buffers(&listener);
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let accepted = listener.accept().await;
            if places.available_permits() == 0 {
                refusals.add(RefusalReason::Full);
                peers.make_room();
            }
            (accepted, Arc::clone(&places).acquire_owned().await)
        };
        let (accepted, permit) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually there is no free file descriptor. Wait until connections close.
                tracing::warn!(error = %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (address, handle) = (peer.ip().to_canonical(), Handle::default());
        let is_trusted = clients.proxies.is_trusted(address);
        let of_peer = match is_trusted && clients.proxies.proxy_protocol {
            // The connection counts for the client that its PROXY header will name, not for the proxy.
            true => None,
            false => match Peers::enter(&peers, address, is_trusted, &handle) {
                None => {
                    refusals.add(RefusalReason::Peer);
                    continue;
                }
                of_peer => of_peer,
            },
        };
        let (proxies, peers) = (Arc::clone(&clients.proxies), Arc::clone(&peers));
        let (router, shutdown, refusals) = (router.clone(), shutdown.clone(), Arc::clone(&refusals));
        let permit = ConnectionPermit(Arc::new((permit, of_peer)));
        let accepted = Accepted { stream, address, permit, handle, idle };
        connections.spawn(async move {
            let served = connection(accepted, &proxies, &peers, router, shutdown).await;
            if let Err(reason) = served {
                refusals.add(reason);
            }
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("closing busy connections: not finished within the drain time");
    }
}

/// Limits the system's buffers of each connection, which inherits them from its listener. After an error, the
/// system's own larger buffers stay.
fn bound_buffers(listener: &TcpListener) {
    let listener = socket2::SockRef::from(listener);
    let _ = listener.set_send_buffer_size(SEND_BUFFER);
    let _ = listener.set_recv_buffer_size(RECEIVE_BUFFER);
}

/// The permit of a connection. Its requests hold it too, because they continue when their client disconnects.
#[derive(Clone)]
pub struct ConnectionPermit(
    #[expect(dead_code, reason = "it is only held")] Arc<(PermitResult, Option<OfPeer>)>,
);

type PermitResult = Result<OwnedSemaphorePermit, AcquireError>;

/// The state of a connection that other connections can see, and how they end it.
#[derive(Debug, Clone, Default)]
struct Handle {
    served: Arc<RequestCount>,
    /// Cancelled when another connection needs the place of this one.
    ended: CancellationToken,
}

/// The open connections by peer. Behind a proxy with PROXY headers, the peer is the proxy's client.
#[derive(Debug)]
struct Peers {
    /// The free places. A connection takes its place before it asks here.
    places: Arc<Semaphore>,
    /// The open connections in order of arrival.
    open: Mutex<BTreeMap<u64, (IpAddr, Handle)>>,
}

/// The entry of a connection in [`Peers`], until it is dropped.
#[derive(Debug)]
struct OfPeer(Arc<Peers>, u64);

impl Peers {
    /// Enters a connection of a peer. Returns `None` if the peer has as many as it may have. A trusted proxy may have all.
    fn enter(peers: &Arc<Self>, address: IpAddr, is_trusted: bool, handle: &Handle) -> Option<OfPeer> {
        let peer = network(address);
        let mut open = peers.open.lock();
        let own = open.values().filter(|(other, _)| *other == peer).count();
        let count = |places: usize| u32::try_from(places).unwrap_or(u32::MAX);
        if !is_trusted && !may_have(count(own), 1, count(peers.places.available_permits() + 1)) {
            return None;
        }
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, (peer, handle.clone()));
        Some(OfPeer(Arc::clone(peers), number))
    }

    /// Ends the oldest idle connection of the peer that has most. If no connection is idle, it ends the oldest
    /// connection of that peer after its response. Otherwise peers that send one request after another would keep all
    /// places.
    fn make_room(&self) {
        let open = self.open.lock();
        let mut own = HashMap::<_, usize>::new();
        open.values().for_each(|(peer, _)| *own.entry(peer).or_default() += 1);
        let staying = open.iter().filter(|(_, (_, handle))| !handle.ended.is_cancelled());
        let oldest = staying.max_by_key(|(number, (peer, handle))| {
            (handle.served.is_idle(), own.get(peer), Reverse(*number))
        });
        if let Some((_, (_, handle))) = oldest {
            handle.ended.cancel();
        }
    }
}

impl Drop for OfPeer {
    fn drop(&mut self) {
        let Self(peers, number) = self;
        peers.open.lock().remove(number);
    }
}

/// A connection that was accepted.
struct Accepted {
    stream: TcpStream,
    address: IpAddr,
    permit: ConnectionPermit,
    handle: Handle,
    /// See [`Clients::idle`].
    idle: Duration,
}

async fn connection(
    Accepted { mut stream, address, permit, handle, idle }: Accepted,
    proxies: &Proxies,
    peers: &Arc<Peers>,
    router: Router,
    shutdown: CancellationToken,
) -> Result<(), RefusalReason> {
    let _ = stream.set_nodelay(true);
    let peer = proxies.peer(address, &mut stream).await.map_err(|error| match error {
        ProxyHeaderError::NotTrusted => RefusalReason::NotTrusted,
        ProxyHeaderError::Invalid => RefusalReason::ProxyHeader,
    })?;
    // Behind a proxy with PROXY headers, the peer is the client that the header names.
    let of_client = peer.proxied_for.map(|client| Peers::enter(peers, client, false, &handle));
    if let Some(None) = of_client {
        return Err(RefusalReason::Peer);
    }
    let served = Arc::clone(&handle.served);
    let (reading, writing) = stream.into_split();
    let stream = tokio::io::join(HeadLimit::new(reading, Arc::clone(&served)), Paced::new(writing));
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        // The request is counted before the future, because hyper may read again before it first polls the future.
        served.step();
        let (router, served, permit) = (router.clone(), Arc::clone(&served), permit.clone());
        async move {
            let mut request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(permit);
            let response = router.oneshot(request).await;
            served.step();
            Ok::<_, Infallible>(response.unwrap_or_else(|never| match never {}))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error here is the client's fault: it disconnected, was too slow or did not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = handle.ended.cancelled() => {
            // A graceful shutdown would wait for a first request.
            if !handle.served.is_new() {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    fn clients(most: usize) -> Clients {
        Clients { most, idle: IDLE_TIME, proxies: Arc::default(), refused: Counted::default() }
    }

    #[tokio::test]
    async fn buffers_of_the_system_are_within_what_a_connection_may_take() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        bound_buffers(&listener);
        let address = listener.local_addr().expect("an address");
        let (_client, accepted) = tokio::join!(from(1, address), listener.accept());
        let (stream, _) = accepted.expect("a connection");
        let socket = socket2::SockRef::from(&stream);
        let (sent, received) = (socket.send_buffer_size(), socket.recv_buffer_size());
        let all = 2 * BUFFER + sent.expect("a size") + received.expect("a size");
        assert!(all as u64 <= BYTES_PER_CONNECTION, "{all}");
    }

    #[test]
    fn peers_leave_a_place_for_the_next_one() {
        let places = Arc::new(Semaphore::new(16));
        let peers = Arc::new(Peers { places: Arc::clone(&places), open: Mutex::default() });
        let enter = |last: u8| {
            let permit = Arc::clone(&places).try_acquire_owned().ok()?;
            let address = IpAddr::from([192, 0, 2, last]);
            Some((permit, Peers::enter(&peers, address, false, &Handle::default())?))
        };
        let kept: Vec<Vec<_>> = (1..=4).map(|peer| std::iter::from_fn(|| enter(peer)).collect()).collect();
        assert_eq!(kept.iter().map(Vec::len).collect::<Vec<_>>(), [8, 4, 2, 1]);
        assert!(enter(5).is_some());
        drop(kept);
        assert!(enter(1).is_some());
        assert!(peers.open.lock().is_empty());
    }

    /// A subscriber has all addresses of its network.
    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let places = Arc::new(Semaphore::new(16));
        let peers = Arc::new(Peers { places: Arc::clone(&places), open: Mutex::default() });
        let enter = |host: u16| {
            let permit = Arc::clone(&places).try_acquire_owned().ok()?;
            let address = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]);
            Some((permit, Peers::enter(&peers, address, false, &Handle::default())?))
        };
        let kept: Vec<_> = (1..).map_while(enter).collect();
        assert_eq!(kept.len(), 8, "half of the places");
    }

    #[tokio::test(start_paused = true)]
    async fn served_connection_is_kept_for_its_next_request_longer_than_proxies_keep_theirs() {
        let address = serving(hello(), clients(1)).await;
        let mut client = from(1, address).await;
        for _ in 0..2 {
            let begun = Instant::now();
            greet(&mut client).await;
            assert!(begun.elapsed() < HEADER_TIME, "{:?}", begun.elapsed());
            tokio::time::advance(Duration::from_secs(61)).await;
        }
        let begun = Instant::now();
        assert_eq!(client.read_to_end(&mut Vec::new()).await.expect("closed"), 0);
        // An idle connection is kept for 75 s, and 61 s have passed.
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_opened_in_advance_is_kept_as_long() {
        let address = serving(hello(), clients(1)).await;
        let mut client = from(1, address).await;
        let closed = tokio::time::timeout(Duration::from_secs(61), client.read_u8()).await;
        assert!(closed.is_err(), "{closed:?}");
        greet(&mut client).await;
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_ends_in_the_time_of_its_listener() {
        let address = serving(Router::new(), Clients::of_management(Counted::default())).await;
        let (begun, mut client) = (Instant::now(), from(1, address).await);
        assert_eq!(client.read(&mut [0]).await.expect("closed"), 0);
        assert_eq!(begun.elapsed().as_secs(), 5);
    }

    /// Serves `router` with these limits. Returns the address.
    async fn serving(router: Router, clients: Clients) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, router, clients, CancellationToken::new()));
        address
    }

    fn hello() -> Router {
        Router::new().route("/", get(|| async { "hello" }))
    }

    /// A connection from another address of this machine.
    async fn from(last: u8, to: SocketAddr) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, last], 0).into()).expect("an address of this machine");
        socket.connect(to).await.expect("it listens")
    }

    #[tokio::test(start_paused = true)]
    async fn trusted_proxy_may_have_all_connections_and_its_idle_ones_make_room() {
        let proxies =
            Proxies { trusted: vec!["127.0.0.2/31".parse().expect("a network")], ..Proxies::default() };
        let clients = Clients { proxies: Arc::new(proxies), ..clients(3) };
        let address = serving(hello(), clients).await;
        let mut of_one = Vec::new();
        for _ in 0..3 {
            of_one.push(from(2, address).await);
            greet(of_one.last_mut().expect("one")).await;
        }
        let (begun, mut of_other) = (Instant::now(), from(3, address).await);
        greet(&mut of_other).await;
        assert_eq!(of_one[0].read(&mut [0]).await.expect("closed"), 0);
        assert!(begun.elapsed() < IDLE_TIME, "{:?}", begun.elapsed());
    }

    async fn greet(client: &mut TcpStream) {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("it is open");
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            answer.push(client.read_u8().await.expect("an answer"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_idle_connections_of_the_peer_with_most_make_room_for_others() {
        let address = serving(hello(), clients(4)).await;
        let (mut used, mut unused) = (from(2, address).await, from(2, address).await);
        greet(&mut used).await;
        let mut others = vec![from(3, address).await, from(4, address).await];
        let begun = Instant::now();
        for (number, old) in (5..).zip([&mut used, &mut unused]) {
            others.push(from(number, address).await);
            greet(others.last_mut().expect("one")).await;
            assert_eq!(old.read(&mut [0]).await.expect("closed"), 0);
        }
        assert!(begun.elapsed() < IDLE_TIME, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn management_port_answers_while_half_finished_heads_want_all_its_connections() {
        let refused = Counted::default();
        let address = serving(hello(), Clients::of_management(refused.clone())).await;
        let mut held = Vec::new();
        for source in 2..10 {
            for _ in 0..40 {
                let mut client = from(source, address).await;
                // A refused connection may be closed already.
                let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX: ").await;
                held.push(client);
            }
            let begun = Instant::now();
            greet(&mut from(1, address).await).await;
            assert!(begun.elapsed() < Duration::from_secs(2), "{source}: {:?}", begun.elapsed());
        }
        assert!([RefusalReason::Peer, RefusalReason::Full].iter().all(|reason| refused.count(*reason) > 0));
    }

    #[tokio::test(start_paused = true)]
    async fn peers_that_send_one_request_after_another_make_room_for_others() {
        let slow = async || {
            tokio::time::sleep(Duration::from_secs(2)).await;
            "hello"
        };
        let address = serving(Router::new().route("/", get(slow)), clients(4)).await;
        let mut floods = JoinSet::new();
        for source in [2, 2, 3, 4] {
            let mut client = from(source, address).await;
            let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
            client.write_all(&request).await.expect("it is open");
            floods.spawn(async move {
                let mut answers = Vec::new();
                let _ = client.read_to_end(&mut answers).await;
                answers
            });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        greet(&mut from(5, address).await).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let ended = floods.join_next().await.expect("one").expect("no panic");
        assert!(ended.ends_with(b"hello"), "its response is whole: {}", String::from_utf8_lossy(&ended));
    }

    #[test]
    fn times_and_bounds_are_those_of_the_documentation() {
        assert_eq!((CONNECTIONS, MANAGEMENT_CLIENTS, BUFFER), (8_192, 64, 32 * 1024));
        let times = [DRAIN, IDLE_TIME, HEADER_TIME, MANAGEMENT_IDLE];
        assert_eq!(times.map(|time| time.as_secs()), [25, 75, 10, 5]);
    }
}
