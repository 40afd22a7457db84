//! One POST, from the URL to an outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use docket_domain::delivery::{FailureClass, Outcome, Report, class_of_status};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HOST, LOCATION, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::Instant;
use url::{Position, Url};

use crate::address::EgressPolicy;
use crate::connector::{Connector, phase};
use crate::exchange::{BodyEnd, Unanswered};
use crate::location;
use crate::pool::{Borrowed, Connections, Open, ReceiverPool};
use crate::resolve::Resolve;
use crate::target::Target;
use crate::trust::Trust;

/// Sends webhooks. Clones share everything, including open connections; create one per process.
#[derive(Clone)]
pub struct Sender(Arc<SenderInner>);

struct SenderInner {
    connector: Arc<Connector>,
    pool: ReceiverPool,
    attempt_timeout: Duration,
}

/// A POST to send.
pub struct Post<'a> {
    /// The target URL; must be `https`. Userinfo and fragment are not sent.
    pub url: &'a Url,
    /// The certificate authorities to trust.
    pub trust: &'a Trust,
    /// The headers. They are sent as they are, except `Host`, `Content-Length`, `Accept`, `Accept-Encoding` and
    /// `User-Agent`, which the sender sets.
    pub headers: HeaderMap,
    /// The body, which is sent unchanged.
    pub body: Bytes,
    /// Whether to use only a connection that no other attempt has used. Set for retries: a receiver that closes
    /// connections without notice may have failed the attempt before.
    pub afresh: bool,
}

impl Sender {
    /// `attempt_timeout` covers a whole attempt, from the DNS lookup to the last byte read of the response; production
    /// uses [`ATTEMPT_TIMEOUT`](docket_domain::delivery::ATTEMPT_TIMEOUT). DNS, connecting and TLS have 5 s each, or a
    /// third of `attempt_timeout` if that is less.
    pub fn new(policy: EgressPolicy, dns: impl Resolve, attempt_timeout: Duration) -> Self {
        let connector = Arc::new(Connector::new(policy, dns, attempt_timeout));
        Self(Arc::new(SenderInner { connector, pool: ReceiverPool::default(), attempt_timeout }))
    }

    /// The numbers of connections to receivers and of attempts that wait for one.
    pub fn connections(&self) -> Connections {
        self.0.pool.connections()
    }

    /// Makes one attempt. At most one POST reaches the wire. Must run inside a Tokio runtime.
    ///
    /// Dropping the future closes the connection; the receiver may have received the POST by then.
    pub async fn post(&self, post: Post<'_>) -> Outcome {
        let started = Instant::now();
        let mut report = Report::default();
        let end = self.0.attempt(post, started + self.0.attempt_timeout, &mut report).await;
        report.times.total = started.elapsed();
        match end {
            Ok(()) => Outcome::Succeeded(report),
            Err(class) => Outcome::Failed(class, report),
        }
    }
}

impl SenderInner {
    async fn attempt(
        &self,
        post: Post<'_>,
        deadline: Instant,
        report: &mut Report,
    ) -> Result<(), FailureClass> {
        let Post { url, trust, headers, body, afresh } = post;
        let target = Arc::new(Target::of(url, trust)?);
        let request = request(url, headers, body)?;
        let (mut borrowed, response) =
            self.exchange(&target, trust, afresh, request, deadline, report).await?;
        if class_of_status(response.status().as_u16()) == Some(FailureClass::Redirect) {
            report.explanation = location::explain(url, response.headers().get(LOCATION));
        }
        let (end, verdict) = borrowed.connection.exchange.read(response, deadline, report).await;
        borrowed.give_back(end == BodyEnd::Whole);
        verdict
    }

    /// Sends the request, on a kept or a new connection, and waits for the headers of the response.
    async fn exchange(
        &self,
        target: &Arc<Target>,
        trust: &Trust,
        mut afresh: bool,
        mut request: Request<Full<Bytes>>,
        deadline: Instant,
        report: &mut Report,
    ) -> Result<(Borrowed, Response<Incoming>), FailureClass> {
        loop {
            let opening = self.opening(target, trust);
            let taken = self.pool.take(target, afresh, deadline, opening).await;
            let mut borrowed = taken.map_err(|(class, opened)| {
                *report = opened;
                class
            })?;
            let is_new = borrowed.opened.is_some();
            *report = borrowed.opened.take().unwrap_or_default();
            report.remote = Some(borrowed.connection.remote);
            let sent = borrowed.connection.exchange.send(request);
            match phase(FailureClass::TimeoutFirstByte, deadline, &mut report.times.first_byte, sent).await {
                Ok(response) => return Ok((borrowed, response)),
                // The receiver had closed the kept connection. Nothing was written, so the next request is still the
                // first POST of this attempt. A request that was written in part is never sent again: the receiver
                // might act on both, and the second POST would be an attempt that no one counts.
                Err(Unanswered::NotSent(back, ..)) if !is_new => {
                    request = *back;
                    *report = Report::default();
                    afresh = true;
                }
                Err(Unanswered::NotSent(_, class, explanation) | Unanswered::Failed(class, explanation)) => {
                    report.explanation = explanation;
                    return Err(class);
                }
            }
        }
    }

    /// Returns the function with which the pool opens a connection, for whichever attempt waits first by then.
    fn opening(&self, target: &Arc<Target>, trust: &Trust) -> Open {
        let (connector, target, trust) = (Arc::clone(&self.connector), Arc::clone(target), trust.clone());
        let limit = self.attempt_timeout;
        Arc::new(move || {
            let (connector, target, trust) = (Arc::clone(&connector), Arc::clone(&target), trust.clone());
            Box::pin(async move {
                let mut report = Report::default();
                match connector.connect(&target, &trust, Instant::now() + limit, &mut report).await {
                    Ok(connection) => Ok((connection, report)),
                    Err(class) => Err((class, report)),
                }
            })
        })
    }
}

/// An origin-form request (`POST /path?query`). The parts of the URL are ASCII here, so the conversions fail only for a
/// path beyond 64 KiB.
fn request(url: &Url, mut headers: HeaderMap, body: Bytes) -> Result<Request<Full<Bytes>>, FailureClass> {
    const OURS: &str = concat!("Docket/", env!("CARGO_PKG_VERSION"));
    let path = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]);
    let host = HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort]);
    let (Ok(path), Ok(host)) = (path, host) else {
        return Err(FailureClass::Transport);
    };
    headers.insert(HOST, host);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(OURS));

    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from(path);
    *request.headers_mut() = headers;
    Ok(request)
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("attempt_timeout", &self.0.attempt_timeout).finish_non_exhaustive()
    }
}

/// Shows only the host: paths, headers and bodies contain secrets and legal content.
impl fmt::Debug for Post<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::ATTEMPT_TIMEOUT;

    use super::*;
    use crate::connection::tests::{closed, connection};
    use crate::resolve::FixedDns;
    use crate::tests::harness::{AMPLE, OK, Receiver, post, private_ca, succeeded};

    #[tokio::test]
    async fn dead_kept_connection_is_replaced_within_the_attempt() {
        let sender = Sender::new(EgressPolicy::default(), FixedDns::new(), ATTEMPT_TIMEOUT);
        let (url, trust) = (Url::parse("https://gone.example/").expect("a url"), Trust::public());
        let target = Arc::new(Target::of(&url, &trust).expect("a target"));
        let request = request(&url, HeaderMap::new(), Bytes::new()).expect("a request");
        let (mut kept, theirs) = connection().await;
        drop(theirs);
        closed(&mut kept).await;
        tokio::task::yield_now().await; // now the runtime notices the close as well
        // Simulates a close that arrives after the pool's check: the pool checks a socket that is still open.
        let (open, _theirs) = connection().await;
        kept.socket = open.socket.try_clone().expect("a descriptor");
        sender.0.pool.keep_idle(&target, kept);

        let mut report = Report::default();
        let deadline = Instant::now() + ATTEMPT_TIMEOUT;
        let end = sender.0.exchange(&target, &trust, false, request, deadline, &mut report).await;
        assert_eq!(end.err(), Some(FailureClass::Dns), "a new connection was started with a DNS lookup");
        assert!(report.remote.is_none() && report.times.dns.is_none() && report.times.first_byte.is_none());
    }

    /// A new connection becomes idle if its attempt got another connection. The tickets that follow the handshake are unread
    /// until it is used.
    #[tokio::test]
    async fn connection_that_no_attempt_has_used_serves_the_next_one() {
        let receiver = Receiver::answering(OK).await;
        let (sender, url, trust) = (receiver.sender(AMPLE), receiver.url(), private_ca());
        let target = Arc::new(Target::of(&url, &trust).expect("a target"));
        let (mut connection, _) =
            sender.0.opening(&target, &trust)().await.map_err(|(class, _)| class).expect("one");
        while connection.socket.peek(&mut [0]).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await; // until the tickets arrive
        }
        // Unread bytes could be a close, so the connection is open only once the runtime has read the tickets.
        while !connection.is_open() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sender.0.pool.keep_idle(&target, connection);
        succeeded(post(&sender, &url, &trust, AMPLE).await);
        assert_eq!(receiver.connections(), 1);
    }
}
