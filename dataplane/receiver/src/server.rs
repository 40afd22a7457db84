//! The socket: TLS, HTTP/1.1 with keep-alive. One POST becomes one [`Received`] and one response (Webhook receiver
//! contract). A missing or wrong signature gets 401, everything else gets 200, unless [`Behaviour`] simulates a
//! failure.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io};

use anyhow::Context;
use bytes::Bytes;
use docket_domain::diagnosis::StandardHeaders;
use docket_domain::signature::{
    DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, WEBHOOK_ID_HEADER, WEBHOOK_TIMESTAMP_HEADER,
};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::seen::IdCounts;
use crate::{Behaviour, Certificate, Forward, Forwarded, Verdict};

/// The largest accepted body, in bytes; a larger one gets 413.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// The time limit of the TLS handshake, of the head of each request, and of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of the whole body. The sender itself gives up after this time (Delivery mechanics).
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long `stop` waits for requests in flight. A simulated delay may be much longer.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// The pause before the next attempt to accept while no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The candidate secrets for a path; an empty list: deliveries to it are expected unsigned. It must not block.
pub type SecretsByPath = Arc<dyn Fn(&str) -> Vec<Vec<u8>> + Send + Sync>;

/// The settings of a receiver.
pub struct ReceiverSettings {
    /// Where to listen; port 0 chooses a free one, see [`Receiver::address`].
    pub listen: SocketAddr,
    /// The certificate for senders.
    pub certificate: Certificate,
    /// The secrets to verify with.
    pub secrets: SecretsByPath,
    /// The failures and delays to simulate.
    pub behaviour: Behaviour,
    /// The receiver to which each POST is forwarded, whatever its signature. Its response becomes this receiver's response.
    pub forward: Option<Forward>,
}

impl fmt::Debug for ReceiverSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, certificate, secrets: _, behaviour, forward } = self;
        f.debug_struct("ReceiverSettings")
            .field("listen", listen)
            .field("certificate", certificate)
            .field("behaviour", behaviour)
            .field("forward", forward)
            .finish_non_exhaustive()
    }
}

/// One POST that was read to its end, and its result. The sender chose the texts: do not trust them or print them unchanged.
#[derive(Clone)]
pub struct Received {
    /// `X-Service-Delivery-Id`, if it was sent.
    pub delivery_id: Option<String>,
    /// `X-Service-Event`, if it was sent.
    pub event_code: Option<String>,
    /// The `id` of the envelope; `None`: the body is not a JSON object with an `id`.
    pub event_id: Option<String>,
    /// The path of the request, without a query.
    pub path: String,
    /// The result of checking the signature.
    pub verdict: Verdict,
    /// Whether this event was received on this path before; rejected requests do not count.
    pub seen_before: bool,
    /// How often this delivery id was received, including this time; 1 without an id.
    pub attempt: u32,
    /// The result of forwarding; `None`: the delivery was not forwarded, or the sender disconnected before.
    pub forwarded: Option<Forwarded>,
    /// The status of the response; `None`: before the response, the sender disconnected or the receiver was stopped.
    pub answered: Option<u16>,
    /// The time from the head of the request to the response.
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

/// A running receiver. Dropping it also stops it, without waiting.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Listens, and calls `on_received` for every POST just before the response. `on_received` must not block.
    /// Requests that are no deliveries (another method, a body too long or cut off) are answered and not reported.
    pub async fn start(
        settings: ReceiverSettings,
        on_received: impl Fn(&Received) + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let ReceiverSettings { listen, certificate, secrets, behaviour, forward } = settings;
        behaviour.fail.map_or(Ok(()), |fail| fail.check())?;
        let acceptor = TlsAcceptor::from(certificate.server_config().context("the receiver's certificate")?);
        let listener = TcpListener::bind(listen).await.map_err(|error| cannot_listen(listen, error))?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk {
            secrets,
            behaviour,
            forward,
            on_received: Box::new(on_received),
            requests: AtomicU64::new(0),
            seen: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(());
        let accepting = tokio::spawn(accept(listener, acceptor, desk, stopped));
        Ok(Self { address, stop, accepting })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: accepts no more connections, and waits up to one second for requests in flight.
    pub async fn stop(self) {
        let Self { address: _, stop, accepting } = self;
        drop(stop);
        let _ = accepting.await;
    }
}

fn cannot_listen(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "; stop the process that uses it (`lsof -i :{0}` names it), or choose another port",
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
    // Dropping the set aborts the connections that are left.
    let _ = timeout(STOP_GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

async fn serve(socket: TcpStream, tls: TlsAcceptor, desk: Arc<Desk>, mut stop: watch::Receiver<()>) {
    let _ = socket.set_nodelay(true);
    // The sender reports a failed handshake: it does not trust the certificate, or is not a TLS client.
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

/// The state that all connections share.
struct Desk {
    secrets: SecretsByPath,
    behaviour: Behaviour,
    forward: Option<Forward>,
    on_received: Box<dyn Fn(&Received) + Send + Sync>,
    requests: AtomicU64,
    seen: Mutex<SeenIds>,
}

#[derive(Default)]
struct SeenIds {
    deliveries: IdCounts,
    events: IdCounts,
}

type HttpAnswer = Response<Full<Bytes>>;

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> HttpAnswer {
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
        let mut report = RequestReport { desk: self, started, received };
        let answer = self.answer_to(&mut report.received).await;
        sleep(self.behaviour.delay).await;
        report.received.answered = Some(answer.status().as_u16());
        answer
    }

    /// A simulated failure replaces an answer, and does not keep the delivery from being passed on.
    async fn answer_to(&self, received: &mut Received) -> HttpAnswer {
        let nth = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut answer = match &self.forward {
            Some(forward) => {
                let (answered, forwarded) = forward.pass_on(&received.headers, &received.body).await;
                received.forwarded = Some(forwarded);
                text(answered.status, answered.body)
            }
            None if received.verdict.rejects() => {
                text(StatusCode::UNAUTHORIZED, "the signature is missing or wrong\n")
            }
            None => text(StatusCode::OK, "ok\n"),
        };
        let rehearsed = self.behaviour.fail.and_then(|fail| fail.status_of(nth));
        if let Some(Ok(status)) = rehearsed.map(StatusCode::from_u16) {
            answer = text(status, "simulated failure\n");
        }
        answer
    }

    fn judge(&self, head: http::request::Parts, body: Bytes) -> Received {
        let header =
            |name| head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let path = head.uri.path().to_owned();
        let delivery_id = header(DELIVERY_ID_HEADER);
        let event_id = serde_json::from_slice::<Envelope>(&body).ok().map(|envelope| envelope.id);
        let (id, timestamp) = (header(WEBHOOK_ID_HEADER), header(WEBHOOK_TIMESTAMP_HEADER));
        let standard =
            StandardHeaders { id: id.as_deref(), timestamp: timestamp.as_deref(), signature: None };
        let signature = header(SIGNATURE_HEADER);
        let verdict = Verdict::of(&(self.secrets)(&path), signature.as_deref(), &standard, &body);
        let (attempt, seen_before) = {
            let mut seen = self.seen.lock();
            let attempt = delivery_id.as_ref().map_or(1, |id| seen.deliveries.count(id));
            // Rejected requests do not count. Otherwise anyone could make a real event look repeated by sending its id first.
            let event = event_id.as_ref().filter(|_| !verdict.rejects());
            (attempt, event.is_some_and(|id| seen.events.count((&path, id)) > 1))
        };
        Received {
            delivery_id,
            event_code: header(EVENT_HEADER),
            event_id,
            path,
            verdict,
            seen_before,
            attempt,
            forwarded: None,
            answered: None,
            took: Duration::ZERO,
            body,
            headers: head.headers,
        }
    }
}

/// Reports when dropped, because a sender that hangs up during the delay cancels `answer`.
struct RequestReport<'a> {
    desk: &'a Desk,
    started: Instant,
    received: Received,
}

impl Drop for RequestReport<'_> {
    fn drop(&mut self) {
        self.received.took = self.started.elapsed();
        (self.desk.on_received)(&self.received);
    }
}

#[derive(Deserialize)]
struct Envelope {
    id: String,
}

async fn read(body: Incoming) -> Result<Bytes, HttpAnswer> {
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(text(StatusCode::PAYLOAD_TOO_LARGE, "the body is over 1 MiB\n"))
        }
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the body cannot be read\n")),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the body took too long\n")),
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> HttpAnswer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

#[cfg(test)]
mod tests;
