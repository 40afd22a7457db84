//! The receiver on a real socket.

use docket_domain::diagnosis::{Mismatch, SecretFault, Suspicion, Unreadable};
use docket_domain::signature::sign;
use hyper::client::conn::http1::{SendRequest, handshake};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::Fail;

const SECRET: &[u8] = b"secret";
const BODY: &str = r#"{"id":"evt_1","event":"order.created"}"#;

/// A receiver that expects [`SECRET`] on every path except `/open`, with its reports.
struct Bench {
    receiver: Receiver,
    ca_pem: String,
    reports: mpsc::UnboundedReceiver<Received>,
    /// Notified when a request was read and its check begins.
    judging: Arc<Notify>,
}

impl Bench {
    async fn new(fail: Option<&str>, delay: Duration) -> Self {
        let certificate = certificate();
        let ca_pem = certificate.ca_pem().to_owned();
        let (sender, reports) = mpsc::unbounded_channel();
        let judging = Arc::new(Notify::new());
        let notify = judging.clone();
        let secrets: SecretsByPath = Arc::new(move |path| {
            notify.notify_one();
            if path == "/open" { vec![] } else { vec![SECRET.to_vec()] }
        });
        let settings = ReceiverSettings {
            listen: ([127, 0, 0, 1], 0).into(),
            certificate,
            secrets,
            behaviour: Behaviour { fail: fail.map(|fail| fail.parse().expect("a failure")), delay },
            forward: None,
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

    async fn connect_as(&self, name: &'static str) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = self.stream(name).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        Ok(sender)
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own client, to a receiver it started itself")]
    async fn stream(&self, name: &'static str) -> io::Result<TlsStream<TcpStream>> {
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
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    /// Sends a request on a new connection, and returns the status.
    async fn post(&self, request: Request<Full<Bytes>>) -> StatusCode {
        self.connect().await.send_request(request).await.expect("an answer").status()
    }

    async fn report(&mut self) -> Received {
        timeout(Duration::from_secs(10), self.reports.recv()).await.expect("a report").expect("it is running")
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
async fn verified_request_is_answered_200_and_reported_whole() {
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
    let newline = Mismatch::Known { spelling: None, secret: Some(SecretFault::Newline), body: None };
    for (path, signature, status, verdict) in [
        ("/hook", None, 401, Verdict::Missing),
        ("/hook", Some(&*"0".repeat(64)), 401, Verdict::Wrong(Mismatch::Unknown(Suspicion::OtherSecret))),
        ("/hook", Some("\u{fc}"), 401, Verdict::Wrong(Mismatch::Unreadable(Unreadable::NotHexadecimal))),
        ("/hook", Some(with_newline.as_str()), 401, Verdict::Wrong(newline)),
        ("/open", None, 200, Verdict::Unsigned),
        ("/open", Some("00"), 200, Verdict::NoSecret),
    ] {
        assert_eq!(bench.post(request(path, signature)).await, status, "{verdict:?}");
        let received = bench.report().await;
        assert_eq!((received.verdict, received.answered), (verdict, Some(status)));
    }
}

#[tokio::test]
async fn second_request_on_a_connection_is_reported_as_seen() {
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
async fn event_of_two_webhooks_is_not_seen_before_at_the_second() {
    let mut bench = Bench::plain().await;
    for (path, seen_before) in [("/one", false), ("/two", false), ("/one", true)] {
        assert_eq!(bench.post(request(path, Some(&sign(SECRET, BODY.as_bytes())))).await, 200);
        assert_eq!(bench.report().await.seen_before, seen_before, "{path}");
    }
}

#[tokio::test]
async fn rejected_event_does_not_count_as_seen() {
    let mut bench = Bench::plain().await;
    assert_eq!(bench.post(request("/hook", Some("00"))).await, 401);
    assert_eq!(bench.post(signed()).await, 200);
    bench.report().await;
    let received = bench.report().await;
    assert_eq!((received.attempt, received.seen_before), (2, false));
}

#[tokio::test]
async fn fail_applies_to_the_first_requests_only() {
    let mut bench = Bench::new(Some("500:2"), Duration::ZERO).await;
    for status in [500, 500, 200, 200] {
        assert_eq!(bench.post(signed()).await, status);
        let received = bench.report().await;
        assert_eq!((received.answered, received.verdict), (Some(status), Verdict::Verified));
    }
}

#[tokio::test]
async fn delay_postpones_the_answer() {
    let delay = Duration::from_millis(200);
    let mut bench = Bench::new(None, delay).await;
    let started = Instant::now();
    assert_eq!(bench.post(signed()).await, 200);
    assert!(started.elapsed() >= delay);
    assert!(bench.report().await.took >= delay);
}

#[tokio::test]
async fn sender_that_hung_up_is_reported() {
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
async fn request_that_is_no_delivery_is_refused_and_not_reported() {
    let mut bench = Bench::plain().await;
    let get = Request::get("/hook").body(Full::default()).expect("a request");
    let answer = bench.connect().await.send_request(get).await.expect("an answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()[ALLOW]),
        (405, &HeaderValue::from_static("POST"))
    );
    let of_length = |length| Request::post("/open").body(Full::from(vec![b' '; length])).expect("a request");
    assert_eq!(MAX_BODY_BYTES, 1_048_576);
    assert_eq!(bench.post(of_length(MAX_BODY_BYTES + 1)).await, 413);
    assert_eq!(bench.post(of_length(MAX_BODY_BYTES)).await, 200);
    let received = bench.report().await;
    assert_eq!((received.body.len(), received.event_id), (MAX_BODY_BYTES, None));
}

#[tokio::test]
async fn body_that_is_cut_off_is_no_delivery() {
    let mut bench = Bench::plain().await;
    let mut stream = bench.stream("127.0.0.1").await.expect("a trusted certificate");
    let begun = format!(
        "POST /open HTTP/1.1\r\nhost: 127.0.0.1\r\n{DELIVERY_ID_HEADER}: delivery-1\r\ncontent-length: 9\r\n\r\nhalf"
    );
    stream.write_all(begun.as_bytes()).await.expect("it reads");
    stream.shutdown().await.expect("the other half does not come");
    let mut answer = String::new();
    // The receiver may close the connection without an answer.
    let _ = timeout(Duration::from_secs(10), stream.read_to_string(&mut answer)).await.expect("it ends");
    assert!(!answer.contains(" 200 "), "{answer}");
    assert_eq!(bench.post(signed()).await, 200);
    let received = bench.report().await;
    assert_eq!((received.path.as_str(), received.attempt), ("/hook", 1), "what was cut off is not reported");
}

#[tokio::test]
async fn certificate_is_valid_for_this_machine_only() {
    let bench = Bench::plain().await;
    for name in ["127.0.0.1", "::1", "localhost"] {
        assert!(bench.connect_as(name).await.is_ok(), "{name}");
    }
    assert!(bench.connect_as("docket.example").await.is_err());
}

#[tokio::test]
async fn stop_ends_within_its_grace_and_frees_the_port() {
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
async fn error_explains_a_port_in_use_and_an_invalid_status() {
    let bench = Bench::plain().await;
    let start = |listen, status| {
        let fail = Some(Fail { status, times: None });
        let behaviour = Behaviour { fail, delay: Duration::ZERO };
        let settings = ReceiverSettings {
            listen,
            certificate: certificate(),
            secrets: Arc::new(|_| vec![]),
            behaviour,
            forward: None,
        };
        Receiver::start(settings, |_| {})
    };
    let address = bench.receiver.address();
    let error = start(address, 500).await.expect_err("in use").to_string();
    assert!(error.contains(&address.to_string()) && error.contains("another port"), "{error}");
    let error = start(address, 101).await.expect_err("no final status").to_string();
    assert!(error.contains("200 to 599"), "{error}");
}
