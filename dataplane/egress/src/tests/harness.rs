//! Receivers on real sockets. Each receiver follows a script on its own thread, so that a test can block the sender's
//! runtime while a receiver acts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use docket_domain::delivery::{FailureClass, Outcome, Report};
use http::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use url::Url;

use crate::{EgressPolicy, FixedDns, Post, Sender, Trust};

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The timeout of attempts that end before it, because the receiver does something.
pub(crate) const AMPLE: Duration = Duration::from_secs(10);
/// The timeout of attempts that end by it. DNS, connecting and TLS have a third each.
pub(crate) const SHORT: Duration = Duration::from_millis(750);
/// How much longer than its limit an attempt may take on a busy machine.
const SLACK: Duration = Duration::from_millis(500);

static RECEIVERS: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
/// The CA of these tests.
pub(crate) static CA: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
});

pub(crate) fn private_ca() -> Trust {
    Trust::with_bundle(CA.pem()).expect("a bundle")
}

pub(crate) fn server_config(names: &[&str], client_certificate_wanted: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let certificate = params.expect("names").signed_by(&key, &*CA).expect("a certificate");
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.expect("ring has suites");
    let builder = if client_certificate_wanted {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CA.der().clone()).expect("a CA");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.expect("a verifier"))
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS#8");
    Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).expect("a key that fits"))
}

/// What a receiver has counted and read.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    closed: AtomicUsize,
    posts: Mutex<Vec<String>>,
}

/// A listening socket whose connections follow a script.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

/// An accepted connection, at the receiver's end.
pub(crate) struct Talk<S = TlsStream<TcpStream>> {
    pub(crate) stream: S,
    /// The number of the connection, from 1.
    pub(crate) number: usize,
    seen: Arc<Seen>,
}

impl Receiver {
    /// A receiver that speaks TLS as `receiver.test` and as 127.0.0.1, then follows `script`.
    pub(crate) async fn tls<F: Future<Output = ()> + Send>(
        script: impl Fn(Talk) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::tls_as(server_config(&["receiver.test", "127.0.0.1"], false), script).await
    }

    pub(crate) async fn tls_as<F: Future<Output = ()> + Send>(
        config: Arc<ServerConfig>,
        script: impl Fn(Talk) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let acceptor = TlsAcceptor::from(config);
        Self::tcp(move |Talk { stream, number, seen }| {
            let (acceptor, script) = (acceptor.clone(), script.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    script(Talk { stream, number, seen }).await;
                }
            }
        })
        .await
    }

    /// A receiver that follows `script` on the bare TCP connection.
    pub(crate) async fn tcp<F: Future<Output = ()> + Send>(
        script: impl Fn(Talk<TcpStream>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::tcp_at(SocketAddr::new(LOOPBACK, 0), script).await
    }

    /// A receiver that follows `script` on the bare TCP connection, at `address`.
    pub(crate) async fn tcp_at<F: Future<Output = ()> + Send>(
        address: SocketAddr,
        script: impl Fn(Talk<TcpStream>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port").into_std().expect("a socket");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Seen::default());
        let seen_here = seen.clone();
        RECEIVERS.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                let number = seen.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let (script, seen) = (script.clone(), seen.clone());
                tokio::spawn(async move {
                    script(Talk { stream, number, seen: seen.clone() }).await;
                    seen.closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, seen: seen_here }
    }

    /// A receiver with `workers` workers. Each worker serves one connection at a time, takes `work` for a request, and
    /// waits `keep_alive` for the next request, unless its response closes the connection. Other connections wait in
    /// the system's queue.
    pub(crate) async fn with_workers(
        workers: usize,
        work: Duration,
        keep_alive: Duration,
        answer: &'static str,
    ) -> Self {
        let acceptor = TlsAcceptor::from(server_config(&["receiver.test", "127.0.0.1"], false));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port").into_std().expect("a socket");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Seen::default());
        let seen_here = seen.clone();
        RECEIVERS.spawn(async move {
            let listener = Arc::new(TcpListener::from_std(listener).expect("a socket"));
            for _ in 0..workers {
                let (listener, acceptor, seen) = (listener.clone(), acceptor.clone(), seen.clone());
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        let number = seen.connections.fetch_add(1, Ordering::SeqCst) + 1;
                        let Ok(stream) = acceptor.accept(stream).await else { continue };
                        let mut talk = Talk { stream, number, seen: seen.clone() };
                        while let Ok(true) = tokio::time::timeout(keep_alive, talk.request()).await {
                            tokio::time::sleep(work).await;
                            talk.say(answer).await;
                            if answer.contains("connection: close") {
                                break;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen: seen_here }
    }

    /// A receiver that responds to every request with the same bytes and keeps the connection open.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::tls(move |mut talk| {
            let answer = answer.clone();
            async move {
                while talk.request().await {
                    talk.say(&*answer).await;
                }
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The requests that have arrived as a whole.
    pub(crate) fn posts(&self) -> Vec<String> {
        self.seen.posts.lock().expect("a lock").clone()
    }

    /// Whether the scripts of this many connections have ended.
    pub(crate) fn has_closed(&self, count: usize) -> bool {
        self.seen.closed.load(Ordering::SeqCst) >= count
    }

    /// Waits until the scripts of this many connections have ended.
    pub(crate) async fn closed(&self, count: usize) {
        let ended = async {
            while !self.has_closed(count) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the connection is closed");
    }

    /// A sender that may reach this receiver and resolves its name.
    pub(crate) fn sender(&self, attempt_timeout: Duration) -> Sender {
        let dns = FixedDns::new().answer("receiver.test", [self.address.ip()]);
        Sender::new(EgressPolicy::new(vec![], vec![self.address]), dns, attempt_timeout)
    }

    pub(crate) fn url(&self) -> Url {
        format!("https://receiver.test:{}/hooks", self.address.port()).parse().expect("a url")
    }

    /// Makes one attempt with a new sender and checks that it ends in time.
    pub(crate) async fn attempt(&self, attempt_timeout: Duration) -> Outcome {
        post(&self.sender(attempt_timeout), &self.url(), &private_ca(), attempt_timeout).await
    }
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Talk<S> {
    /// Reads one request to its end. False if the connection ended instead.
    pub(crate) async fn request(&mut self) -> bool {
        let mut bytes = Vec::new();
        loop {
            if let Some(head) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
                let length =
                    text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if bytes.len() >= head + 4 + length.unwrap_or(0) {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.seen.posts.lock().expect("a lock").push(text);
                    return true;
                }
            }
            match self.stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        }
    }

    /// Writes bytes. Returns false once the sender has closed.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Writes `bytes` one at a time, with a `pause` between them.
    pub(crate) async fn drip(&mut self, bytes: impl AsRef<[u8]>, pause: Duration) -> bool {
        for byte in bytes.as_ref() {
            if !self.say([*byte]).await {
                return false;
            }
            tokio::time::sleep(pause).await;
        }
        true
    }

    /// Writes nothing until the sender closes.
    pub(crate) async fn silence(&mut self) {
        let mut buffer = [0; 1024];
        while matches!(self.stream.read(&mut buffer).await, Ok(1..)) {}
    }
}

/// Makes one attempt. Checks that it ends within `limit`, by its own report and by the test's clock.
pub(crate) async fn post(sender: &Sender, url: &Url, trust: &Trust, limit: Duration) -> Outcome {
    let body = r#"{"event":"Order.Created"}"#.into();
    let started = std::time::Instant::now();
    let outcome = sender.post(Post { url, trust, headers: HeaderMap::new(), body, afresh: false }).await;
    assert!(started.elapsed() < limit + SLACK, "ended after {:?}", started.elapsed());
    assert!(outcome.report().times.total < limit + SLACK, "{outcome:?}");
    outcome
}

#[track_caller]
pub(crate) fn failed(outcome: Outcome, class: FailureClass) -> Report {
    assert_eq!(outcome.failure(), Some(class), "{outcome:?}");
    outcome.report().clone()
}

#[track_caller]
pub(crate) fn succeeded(outcome: Outcome) -> Report {
    assert_eq!(outcome.failure(), None, "{outcome:?}");
    outcome.report().clone()
}
