//! The socket: TLS, HTTP/1.1 with keep-alive, and one POST -> one [`Received`] and one answer (Webhook receiver
//! contract). 401 rejects a missing or wrong signature; everything else is accepted with 200, unless [`Behaviour`]
//! rehearses something else.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use docket_domain::signature::{DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::seen::Seen;
use crate::{Behaviour, Certificate, Verdict};

/// The largest body it takes; a longer one is answered with 413.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// For the TLS handshake, and for the head of each request. An idle connection is closed after it too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// For the whole body: the sender itself gives up then (Delivery mechanics).
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long stopping waits for requests in flight; a rehearsed delay may be far longer.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Between attempts to accept while there are no file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The candidate secrets for a path; an empty list: deliveries to it are expected unsigned. It must not block.
pub type Secrets = Arc<dyn Fn(&str) -> Vec<Vec<u8>> + Send + Sync>;

/// What a receiver is started with.
pub struct Settings {
    /// Where to listen; port 0 takes a free one, see [`Receiver::address`].
    pub listen: SocketAddr,
    /// What to present to senders.
    pub certificate: Certificate,
    /// What to verify with.
    pub secrets: Secrets,
    /// What to rehearse.
    pub behaviour: Behaviour,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, certificate, secrets: _, behaviour } = self;
        f.debug_struct("Settings")
            .field("listen", listen)
            .field("certificate", certificate)
            .field("behaviour", behaviour)
            .finish_non_exhaustive()
    }
}

/// One POST that was read to its end, and what came of it. Its texts are the sender's: not trustworthy, not printable.
#[derive(Clone)]
pub struct Received {
    /// `X-Service-Delivery-Id`, if it was sent.
    pub delivery_id: Option<String>,
    /// `X-Service-Event`, if it was sent.
    pub event_code: Option<String>,
    /// The `id` of the envelope; `None` if the body is no JSON object with one.
    pub event_id: Option<String>,
    /// The path of the request, without a query.
    pub path: String,
    /// The finding about the signature.
    pub verdict: Verdict,
    /// Whether this event came to this path before; rejected requests do not count.
    pub seen_before: bool,
    /// How often this delivery id came, with this time; 1 without an id.
    pub attempt: u32,
    /// The status of the answer; `None` if the sender hung up, or the receiver was stopped, before it.
    pub answered: Option<u16>,
    /// From the head of the request to the answer.
    pub took: Duration,
    /// The raw body.
    pub body: Bytes,
    /// The headers of the request.
    pub headers: HeaderMap,
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("delivery_id", &self.delivery_id)
            .field("event_code", &self.event_code)
            .field("event_id", &self.event_id)
            .field("path", &self.path)
            .field("verdict", &self.verdict)
            .field("seen_before", &self.seen_before)
            .field("attempt", &self.attempt)
            .field("answered", &self.answered)
            .field("took", &self.took)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A running receiver. Dropping it stops it as well, without waiting.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Listens, and calls `on_received` for every POST just before it is answered; it must not block. Requests that
    /// are no delivery at all (another method, a body too long or cut off) are answered and not reported.
    pub async fn start(
        settings: Settings,
        on_received: impl Fn(&Received) + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let Settings { listen, certificate, secrets, behaviour } = settings;
        behaviour.fail.map_or(Ok(()), |fail| fail.check())?;
        let acceptor = TlsAcceptor::from(certificate.server_config().context("the receiver's certificate")?);
        let listener = TcpListener::bind(listen).await.map_err(|error| cannot_listen(listen, error))?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk {
            secrets,
            behaviour,
            on_received: Box::new(on_received),
            requests: AtomicU64::new(0),
            seen: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(());
        let accepting = tokio::spawn(accept(listener, acceptor, desk, stopped));
        Ok(Self { address, stop, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, gives requests in flight one second, and ends.
    pub async fn stop(self) {
        let Self { address: _, stop, accepting } = self;
        drop(stop);
        let _ = accepting.await;
    }
}

fn cannot_listen(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "; stop whoever holds it (`lsof -i :{0}` names the process), or choose another port",
            address.port()
        ),
        io::ErrorKind::PermissionDenied => "; choose a port of 1024 or above".to_owned(),
        _ => "; choose an address of this machine".to_owned(),
    };
    anyhow::Error::new(error).context(format!("the receiver cannot listen on {address}{advice}"))
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, desk: Arc<Desk>, mut stop: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => { connections.spawn(serve(socket, tls.clone(), desk.clone(), stop.clone())); }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    // Dropping the set aborts what is left.
    let _ = timeout(STOP_GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

async fn serve(socket: TcpStream, tls: TlsAcceptor, desk: Arc<Desk>, mut stop: watch::Receiver<()>) {
    let _ = socket.set_nodelay(true);
    // A handshake that fails is the sender's to report: it does not trust us, or is no TLS client.
    let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, tls.accept(socket)).await else { return };
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// What all connections share.
struct Desk {
    secrets: Secrets,
    behaviour: Behaviour,
    on_received: Box<dyn Fn(&Received) + Send + Sync>,
    requests: AtomicU64,
    seen: Mutex<SeenIds>,
}

#[derive(Default)]
struct SeenIds {
    deliveries: Seen,
    events: Seen,
}

type Answer = Response<Full<Bytes>>;

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let started = Instant::now();
        if request.method() != Method::POST {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "a webhook is a POST\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return answer;
        }
        let (head, body) = request.into_parts();
        let body = match read(body).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let received = self.judge(head, body);
        let status = self.status(received.verdict);
        let mut report = Report { desk: self, started, received };
        sleep(self.behaviour.delay).await;
        report.received.answered = Some(status.as_u16());
        let said = match status {
            StatusCode::OK => "ok\n",
            StatusCode::UNAUTHORIZED => "the signature is missing or wrong\n",
            _ => "as rehearsed\n",
        };
        text(status, said)
    }

    fn judge(&self, head: http::request::Parts, body: Bytes) -> Received {
        let header =
            |name| head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let path = head.uri.path().to_owned();
        let delivery_id = header(DELIVERY_ID_HEADER);
        let event_id = serde_json::from_slice::<Envelope>(&body).ok().map(|envelope| envelope.id);
        let verdict = Verdict::of(&(self.secrets)(&path), header(SIGNATURE_HEADER).as_deref(), &body);
        let (attempt, seen_before) = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let attempt = delivery_id.as_ref().map_or(1, |id| seen.deliveries.count(id));
            // Marking a rejected one as seen would let anyone make us skip an event by naming it first.
            let event = event_id.as_ref().filter(|_| !verdict.rejects());
            (attempt, event.is_some_and(|id| seen.events.count((&path, id)) > 1))
        };
        let event_code = header(EVENT_HEADER);
        let (answered, took, headers) = (None, Duration::ZERO, head.headers);
        Received {
            delivery_id,
            event_code,
            event_id,
            path,
            verdict,
            seen_before,
            attempt,
            answered,
            took,
            body,
            headers,
        }
    }

    fn status(&self, verdict: Verdict) -> StatusCode {
        let nth = self.requests.fetch_add(1, Ordering::Relaxed);
        let rehearsed = self.behaviour.fail.and_then(|fail| fail.status_of(nth));
        match rehearsed.map(StatusCode::from_u16) {
            Some(Ok(status)) => status,
            _ if verdict.rejects() => StatusCode::UNAUTHORIZED,
            _ => StatusCode::OK,
        }
    }
}

/// Reports on drop, because a sender that hangs up during the delay ends `answer` where it waits.
struct Report<'a> {
    desk: &'a Desk,
    started: Instant,
    received: Received,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.received.took = self.started.elapsed();
        (self.desk.on_received)(&self.received);
    }
}

#[derive(Deserialize)]
struct Envelope {
    id: String,
}

async fn read(body: Incoming) -> Result<Bytes, Answer> {
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(text(StatusCode::PAYLOAD_TOO_LARGE, "the body is over 1 MiB\n"))
        }
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the body cannot be read\n")),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the body took too long\n")),
    }
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

#[cfg(test)]
mod tests {
    use docket_domain::signature::sign;
    use hyper::client::conn::http1::{SendRequest, handshake};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::sync::{Notify, mpsc};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::{Fail, Hint};

    const SECRET: &[u8] = b"secret";
    const BODY: &str = r#"{"id":"evt_1","event":"order.created"}"#;

    /// A receiver that expects [`SECRET`] on every path but `/open`, and what it reported.
    struct Bench {
        receiver: Receiver,
        ca_pem: String,
        reports: mpsc::UnboundedReceiver<Received>,
        /// Told when a request was read and is being judged.
        judging: Arc<Notify>,
    }

    impl Bench {
        async fn new(fail: Option<&str>, delay: Duration) -> Self {
            let certificate = certificate();
            let ca_pem = certificate.ca_pem().to_owned();
            let (sender, reports) = mpsc::unbounded_channel();
            let judging = Arc::new(Notify::new());
            let tell = judging.clone();
            let secrets: Secrets = Arc::new(move |path| {
                tell.notify_one();
                if path == "/open" { vec![] } else { vec![SECRET.to_vec()] }
            });
            let settings = Settings {
                listen: ([127, 0, 0, 1], 0).into(),
                certificate,
                secrets,
                behaviour: Behaviour { fail: fail.map(|fail| fail.parse().expect("a failure")), delay },
            };
            let report = move |received: &Received| drop(sender.send(received.clone()));
            let receiver = Receiver::start(settings, report).await.expect("a free port");
            Self { receiver, ca_pem, reports, judging }
        }

        async fn plain() -> Self {
            Self::new(None, Duration::ZERO).await
        }

        async fn connect(&self) -> SendRequest<Full<Bytes>> {
            self.connect_as("127.0.0.1").await.expect("a trusted certificate")
        }

        #[expect(clippy::disallowed_methods, reason = "a test's own client, to a receiver it started itself")]
        async fn connect_as(&self, name: &'static str) -> io::Result<SendRequest<Full<Bytes>>> {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(self.ca_pem.as_bytes()).expect("PEM"))
                .expect("an authority");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("ring has cipher suites for TLS 1.2 and 1.3")
                .with_root_certificates(roots)
                .with_no_client_auth();
            let socket = TcpStream::connect(self.receiver.address()).await?;
            let name = ServerName::try_from(name).expect("a name");
            let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
            tokio::spawn(connection);
            Ok(sender)
        }

        /// The status of one request on a connection of its own.
        async fn post(&self, request: Request<Full<Bytes>>) -> StatusCode {
            self.connect().await.send_request(request).await.expect("an answer").status()
        }

        async fn report(&mut self) -> Received {
            timeout(Duration::from_secs(10), self.reports.recv())
                .await
                .expect("a report")
                .expect("it is running")
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the client's verifier reads the real time too")]
    fn certificate() -> Certificate {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        Certificate::generate(now.as_secs().cast_signed()).expect("generated")
    }

    fn request(path: &str, signature: Option<&str>) -> Request<Full<Bytes>> {
        let mut request = Request::post(path)
            .header("host", "127.0.0.1")
            .header(EVENT_HEADER, "order.created")
            .header(DELIVERY_ID_HEADER, "delivery-1");
        if let Some(signature) = signature {
            request = request.header(SIGNATURE_HEADER, signature);
        }
        request.body(Full::from(BODY)).expect("a request")
    }

    fn signed() -> Request<Full<Bytes>> {
        request("/hook?a=b", Some(&sign(SECRET, BODY.as_bytes())))
    }

    #[tokio::test]
    async fn verified_is_200_and_reported_whole() {
        let mut bench = Bench::plain().await;
        assert_eq!(bench.post(signed()).await, 200);
        let received = bench.report().await;
        assert_eq!(received.verdict, Verdict::Verified);
        assert_eq!(received.delivery_id.as_deref(), Some("delivery-1"));
        assert_eq!(received.event_code.as_deref(), Some("order.created"));
        assert_eq!(received.event_id.as_deref(), Some("evt_1"));
        assert_eq!((received.path.as_str(), received.answered), ("/hook", Some(200)));
        assert_eq!((received.attempt, received.seen_before), (1, false));
        assert_eq!(
            (&received.body[..], &received.headers["host"]),
            (BODY.as_bytes(), &HeaderValue::from_static("127.0.0.1"))
        );
    }

    #[tokio::test]
    async fn missing_and_wrong_are_rejected_and_unsigned_is_not() {
        let mut bench = Bench::plain().await;
        let with_newline = sign(b"secret\n", BODY.as_bytes());
        for (path, signature, status, verdict) in [
            ("/hook", None, 401, Verdict::Missing),
            ("/hook", Some("00"), 401, Verdict::Wrong(Hint::Unknown)),
            ("/hook", Some("\u{fc}"), 401, Verdict::Wrong(Hint::Unknown)),
            ("/hook", Some(with_newline.as_str()), 401, Verdict::Wrong(Hint::SecretNewline)),
            ("/open", None, 200, Verdict::Unsigned),
            ("/open", Some("00"), 200, Verdict::NoSecret),
        ] {
            assert_eq!(bench.post(request(path, signature)).await, status, "{verdict:?}");
            let received = bench.report().await;
            assert_eq!((received.verdict, received.answered), (verdict, Some(status)));
        }
    }

    #[tokio::test]
    async fn one_connection_carries_two_requests_and_the_second_was_seen() {
        let mut bench = Bench::plain().await;
        let mut connection = bench.connect().await;
        for (attempt, seen_before) in [(1, false), (2, true)] {
            connection.ready().await.expect("kept alive");
            let answer = connection.send_request(signed()).await.expect("an answer");
            assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), "ok\n");
            let received = bench.report().await;
            assert_eq!((received.attempt, received.seen_before), (attempt, seen_before));
        }
    }

    #[tokio::test]
    async fn a_rejected_event_is_not_seen() {
        let mut bench = Bench::plain().await;
        assert_eq!(bench.post(request("/hook", Some("00"))).await, 401);
        assert_eq!(bench.post(signed()).await, 200);
        bench.report().await;
        let received = bench.report().await;
        assert_eq!((received.attempt, received.seen_before), (2, false));
    }

    #[tokio::test]
    async fn fails_the_first_two_and_then_no_more() {
        let mut bench = Bench::new(Some("500:2"), Duration::ZERO).await;
        for status in [500, 500, 200, 200] {
            assert_eq!(bench.post(signed()).await, status);
            let received = bench.report().await;
            assert_eq!((received.answered, received.verdict), (Some(status), Verdict::Verified));
        }
    }

    #[tokio::test]
    async fn answers_late() {
        let delay = Duration::from_millis(200);
        let mut bench = Bench::new(None, delay).await;
        let started = Instant::now();
        assert_eq!(bench.post(signed()).await, 200);
        assert!(started.elapsed() >= delay);
        assert!(bench.report().await.took >= delay);
    }

    #[tokio::test]
    async fn reports_a_sender_that_hung_up() {
        let mut bench = Bench::new(None, Duration::from_secs(60)).await;
        let mut connection = bench.connect().await;
        tokio::select! {
            _ = connection.send_request(signed()) => panic!("answered before its delay"),
            () = bench.judging.notified() => drop(connection),
        }
        let received = bench.report().await;
        assert_eq!((received.answered, received.verdict), (None, Verdict::Verified));
    }

    #[tokio::test]
    async fn what_is_no_delivery_is_refused_and_not_reported() {
        let mut bench = Bench::plain().await;
        let get = Request::get("/hook").body(Full::default()).expect("a request");
        let answer = bench.connect().await.send_request(get).await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[ALLOW]),
            (405, &HeaderValue::from_static("POST"))
        );
        let of_length =
            |length| Request::post("/open").body(Full::from(vec![b' '; length])).expect("a request");
        assert_eq!(bench.post(of_length(MAX_BODY_BYTES + 1)).await, 413);
        assert_eq!(bench.post(of_length(MAX_BODY_BYTES)).await, 200);
        let received = bench.report().await;
        assert_eq!((received.body.len(), received.event_id), (MAX_BODY_BYTES, None));
    }

    #[tokio::test]
    async fn the_certificate_is_for_this_machine_only() {
        let bench = Bench::plain().await;
        for name in ["127.0.0.1", "::1", "localhost"] {
            assert!(bench.connect_as(name).await.is_ok(), "{name}");
        }
        assert!(bench.connect_as("docket.example").await.is_err());
    }

    #[tokio::test]
    async fn stops_within_its_grace_and_frees_the_port() {
        let mut bench = Bench::new(None, Duration::from_secs(60)).await;
        let mut connection = bench.connect().await;
        let answer = tokio::spawn(async move { connection.send_request(signed()).await });
        bench.judging.notified().await;
        let address = bench.receiver.address();
        timeout(Duration::from_secs(5), bench.receiver.stop()).await.expect("it ends");
        assert!(answer.await.expect("no panic").is_err());
        assert_eq!(bench.reports.recv().await.expect("a report").answered, None);
        TcpListener::bind(address).await.expect("the port is free");
    }

    #[tokio::test]
    async fn says_what_to_do_about_a_port_in_use_or_a_status_that_cannot_be() {
        let bench = Bench::plain().await;
        let start = |listen, status| {
            let fail = Some(Fail { status, times: None });
            let behaviour = Behaviour { fail, delay: Duration::ZERO };
            let settings =
                Settings { listen, certificate: certificate(), secrets: Arc::new(|_| vec![]), behaviour };
            Receiver::start(settings, |_| {})
        };
        let address = bench.receiver.address();
        let error = start(address, 500).await.expect_err("in use").to_string();
        assert!(error.contains(&address.to_string()) && error.contains("another port"), "{error}");
        let error = start(address, 101).await.expect_err("no final status").to_string();
        assert!(error.contains("200 to 599"), "{error}");
    }
}
