//! The receiver of all webhooks: HTTPS with a certificate of its own authority. It notes the time and the order of
//! each POST, and then does what the path says: `/<tenant>/<webhook>/<behaviour>`.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

use crate::apache::Apache;
use crate::order;

/// The time that a slow endpoint takes to respond.
pub(crate) const SLOW: Duration = Duration::from_secs(20);

/// The time that a worker of [`Behaviour::Few`] waits for the next request, as a worker of Apache does by default.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What an endpoint does with a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Responds 200 at once, or after the time that [`Receiver::take_longer`] sets.
    Prompt,
    /// Responds 200 after [`SLOW`].
    Slow,
    /// Never responds.
    Silent,
    /// Responds 200 at once until [`Receiver::hang`], then never.
    Hanging,
    /// Responds 200 after `takes_ms` milliseconds, with `workers` workers. A worker serves one connection until the
    /// connection closes or is idle for [`KEEP_ALIVE`].
    Few { workers: u16, takes_ms: u16 },
    /// Like [`Few`](Self::Few), behind Apache's prefork with `workers` processes.
    Apache { workers: u16, takes_ms: u16 },
}

impl Behaviour {
    const ALL: [Self; 4] = [Self::Prompt, Self::Slow, Self::Silent, Self::Hanging];

    fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::Hanging => "hanging",
            Self::Few { .. } | Self::Apache { .. } => "prompt",
        }
    }
}

/// A POST to a prompt endpoint, whose body was read to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) tenant: u32,
    pub(crate) webhook: u32,
    pub(crate) order: u64,
    pub(crate) at: Instant,
}

#[derive(Default)]
struct Shared {
    arrivals: Mutex<Vec<Arrival>>,
    answered: AtomicUsize,
    stuck: AtomicUsize,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
    late: AtomicUsize,
    is_hanging: AtomicBool,
    handshakes: AtomicUsize,
    prompt_takes_ms: AtomicU64,
}

impl Shared {
    fn takes(&self) -> Duration {
        Duration::from_millis(self.prompt_takes_ms.load(Ordering::Relaxed))
    }
}

/// A POST that waits for its response. Dropping it ends the wait.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        shared.most_waiting.fetch_max(waiting, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The receiver, which runs on a thread of its own until the program ends.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    pub(crate) ca_pem: String,
    shared: Arc<Shared>,
    certificate: Certificate,
    runtime: tokio::runtime::Handle,
    apaches: Mutex<Vec<Apache>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let certificate = certificate();
        let config = Arc::clone(&certificate.config);
        let shared = Arc::new(Shared::default());
        let (own, (say, hear)) = (Arc::clone(&shared), std::sync::mpsc::channel());
        let serve = async move {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
            // With Tokio's backlog of 128, Linux drops connections that come while both cores are busy; their POSTs
            // come a second late.
            let listener = socket.listen(1_024).expect("it is bound");
            let port = listener.local_addr().expect("it is bound").port();
            say.send((port, tokio::runtime::Handle::current())).expect("it waits");
            accept(listener, TlsAcceptor::from(config), own).await;
        };
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve);
        };
        std::thread::Builder::new().name("receiver".to_owned()).spawn(run).expect("a thread");
        let (port, runtime) = hear.recv().expect("it listens");
        let ca_pem = certificate.ca_pem.clone();
        Self { port, ca_pem, shared, certificate, runtime, apaches: Mutex::default() }
    }

    /// The target URL of a webhook. For a behaviour with few workers, an endpoint on a port of its own starts to listen.
    pub(crate) fn url(&self, tenant: usize, webhook: usize, behaviour: Behaviour) -> String {
        let port = match behaviour {
            Behaviour::Few { workers, takes_ms } => self.listen(usize::from(workers), takes_ms),
            Behaviour::Apache { workers, takes_ms } => {
                // Apache has the few workers, so the endpoint behind it has enough.
                let behind = self.listen(1_000, takes_ms);
                let Certificate { leaf_pem, key_pem, .. } = &self.certificate;
                let apache = Apache::start(leaf_pem, key_pem, behind, usize::from(workers));
                let port = apache.port;
                self.apaches.lock().unwrap_or_else(PoisonError::into_inner).push(apache);
                port
            }
            _ => self.port,
        };
        format!("https://127.0.0.1:{port}/{tenant}/{webhook}/{}", behaviour.word())
    }

    /// Starts `workers` workers on a port of their own; each takes `takes_ms` milliseconds to respond. Returns the port.
    fn listen(&self, workers: usize, takes_ms: u16) -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("it is bound").port();
        let takes = Duration::from_millis(takes_ms.into());
        let (tls, shared) =
            (TlsAcceptor::from(Arc::clone(&self.certificate.config)), Arc::clone(&self.shared));
        self.runtime.spawn(async move {
            let listener = Arc::new(TcpListener::from_std(listener).expect("a socket"));
            for _ in 0..workers {
                tokio::spawn(work(Arc::clone(&listener), tls.clone(), Arc::clone(&shared), takes));
            }
        });
        port
    }

    /// The number of POSTs to prompt endpoints since the last [`take`](Self::take).
    pub(crate) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// The number of these POSTs whose arrival satisfies `is_meant`.
    pub(crate) fn answered_of(&self, is_meant: impl Fn(&Arrival) -> bool) -> usize {
        let arrivals = self.shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.iter().filter(|arrival| is_meant(arrival)).count()
    }

    /// The number of POSTs to all other endpoints since the start.
    pub(crate) fn stuck(&self) -> usize {
        self.shared.stuck.load(Ordering::Relaxed)
    }

    /// The largest number of POSTs that waited for a response at the same time since the start.
    pub(crate) fn most_waiting(&self) -> usize {
        self.shared.most_waiting.load(Ordering::Relaxed)
    }

    /// The number of POSTs to which slow endpoints have responded since the start.
    pub(crate) fn late(&self) -> usize {
        self.shared.late.load(Ordering::Relaxed)
    }

    /// Makes hanging endpoints stop responding.
    pub(crate) fn hang(&self) {
        self.shared.is_hanging.store(true, Ordering::Relaxed);
    }

    /// The number of TLS handshakes since the start.
    pub(crate) fn handshakes(&self) -> usize {
        self.shared.handshakes.load(Ordering::Relaxed)
    }

    /// Sets the time that prompt endpoints take to respond, in whole milliseconds.
    pub(crate) fn take_longer(&self, time: Duration) {
        let milliseconds = u64::try_from(time.as_millis()).expect("short");
        self.shared.prompt_takes_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// The time that prompt endpoints take to respond.
    pub(crate) fn takes(&self) -> Duration {
        self.shared.takes()
    }

    /// The POSTs to prompt endpoints since the last call, with which counting begins at zero again.
    pub(crate) fn take(&self) -> Vec<Arrival> {
        let mut arrivals = self.shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.answered.store(0, Ordering::Relaxed);
        std::mem::take(&mut *arrivals)
    }
}

/// The certificate of all receivers, and the authority that issued it.
struct Certificate {
    ca_pem: String,
    leaf_pem: String,
    key_pem: String,
    config: Arc<ServerConfig>,
}

/// Creates an authority and a server's certificate that it issues.
fn certificate() -> Certificate {
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name.push(DnType::CommonName, "Docket benchmark, throw-away authority");
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into());
    let mut config = config.expect("the key belongs to it");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Certificate {
        ca_pem: authority.pem(),
        leaf_pem: leaf.pem(),
        key_pem: key.serialize_pem(),
        config: Arc::new(config),
    }
}

/// Runs one worker, which serves a connection until it closes, and then the next connection.
async fn work(listener: Arc<TcpListener>, tls: TlsAcceptor, shared: Arc<Shared>, takes: Duration) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let Ok(stream) = tls.accept(stream).await else { continue };
        let service = service_fn(async |request| {
            let response = receive(request, &shared).await;
            tokio::time::sleep(takes).await;
            response
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        // hyper's time limit for a request's head covers the wait for the next request too, so an idle connection is closed.
        http.timer(TokioTimer::new()).header_read_timeout(KEEP_ALIVE);
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        // An error here concerns one client, or is too many open files, which the counts will show.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let Ok(stream) = tls.accept(stream).await else { return };
            shared.handshakes.fetch_add(1, Ordering::Relaxed);
            let service = service_fn(|request| receive(request, &shared));
            let http = hyper::server::conn::http1::Builder::new();
            // An error here is the end of a connection whose sender was killed.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn receive(request: Request<Incoming>, shared: &Shared) -> Result<Response<Empty<Bytes>>, Infallible> {
    let place = place(request.uri().path());
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let at = Instant::now();
    let order = body.ok().and_then(|body| order::number(&body));
    let (Some((tenant, webhook, behaviour)), Some(order)) = (place, order) else {
        let mut response = Response::new(Empty::new());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    if behaviour == Behaviour::Prompt {
        let arrival = Arrival { tenant, webhook, order, at };
        shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        shared.answered.fetch_add(1, Ordering::Relaxed);
    } else {
        shared.stuck.fetch_add(1, Ordering::Relaxed);
    }
    let is_hanging = shared.is_hanging.load(Ordering::Relaxed);
    match behaviour {
        Behaviour::Prompt => match shared.takes() {
            Duration::ZERO => {}
            time => tokio::time::sleep(time).await,
        },
        Behaviour::Few { .. } | Behaviour::Apache { .. } => {}
        Behaviour::Hanging if !is_hanging => {}
        Behaviour::Slow => {
            let _waiting = Waiting::new(shared);
            tokio::time::sleep(SLOW).await;
            shared.late.fetch_add(1, Ordering::Relaxed);
        }
        Behaviour::Silent | Behaviour::Hanging => {
            let _waiting = Waiting::new(shared);
            std::future::pending().await
        }
    }
    Ok(Response::new(Empty::new()))
}

/// The tenant, the webhook and the behaviour in a path.
fn place(path: &str) -> Option<(u32, u32, Behaviour)> {
    let mut parts = path.strip_prefix('/')?.splitn(3, '/');
    let (tenant, webhook, word) = (parts.next()?, parts.next()?, parts.next()?);
    let behaviour = Behaviour::ALL.into_iter().find(|behaviour| behaviour.word() == word)?;
    Some((tenant.parse().ok()?, webhook.parse().ok()?, behaviour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_who_and_how() {
        assert_eq!(place("/3/12/slow"), Some((3, 12, Behaviour::Slow)));
        assert_eq!(place("/3/12/other"), None);
        assert_eq!(place("/"), None);
    }
}
