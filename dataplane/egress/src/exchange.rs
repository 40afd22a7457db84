//! HTTP/1.1 on an open stream to a receiver: one POST after the other, and the part of each response that is kept.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::iter::successors;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use docket_domain::delivery::{FailureClass, READ_ANSWER_BYTES, Report, class_of_status, kept_answer};
use docket_domain::failure::{Cause, Explanation};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use crate::cause;
use crate::head::{self, Head, MAX_HEADER_BYTES, MAX_HEADERS};

const MAX_BUFFER_BYTES: usize = 64 * 1024;
/// The limit for reading the body of a 2xx response. The status has already decided the outcome, and the body is only
/// for the log. So a receiver that sends the body slowly must not hold a slot for the whole attempt.
pub const SUCCESS_BODY_LIMIT: Duration = Duration::from_secs(2);

/// HTTP/1.1 on an open stream. Dropping it closes the stream immediately, whatever the receiver is doing.
///
/// An exchange has no task of its own: the attempt that waits for a response does the work of the connection. So a
/// POST wakes no other task, and between two attempts nothing runs.
pub struct Exchange {
    requests: http1::SendRequest<Full<Bytes>>,
    /// The bytes that arrive before the headers of a response are complete.
    head: Head,
    /// hyper's work on the connection: writes the request and reads the response. `None` once the connection has ended.
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
}

/// Why a request has no response.
#[derive(Debug)]
pub enum Unanswered {
    /// No byte of the request was written. Contains the request, and how the connection ended.
    NotSent(Box<Request<Full<Bytes>>>, FailureClass, Explanation),
    /// The request was written at least in part, or the time limit was reached.
    Failed(FailureClass, Explanation),
}

impl From<FailureClass> for Unanswered {
    fn from(class: FailureClass) -> Self {
        Self::Failed(class, Explanation::default())
    }
}

/// How far the body of a response was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// The body was read to its end.
    Whole,
    /// The body was not read to its end: it is longer than the kept part, or the connection broke.
    Cut,
    /// The time limit was reached before the body's end.
    TimedOut,
}

impl Exchange {
    /// Begins on `stream`, on which no byte has been written or read.
    ///
    /// # Errors
    ///
    /// [`FailureClass::Transport`]: the stream is broken.
    pub async fn start<S>(stream: S) -> Result<Self, FailureClass>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let head = Head::default();
        let stream = head.of(stream);
        head.begin();
        let (requests, driver) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEADER_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| FailureClass::Transport)?;
        Ok(Self { requests, head, driver: Some(Box::pin(driver)) })
    }

    /// Sends `request` and waits for the headers of the response. Skips interim 1xx responses; the caller sets the time limit.
    ///
    /// # Errors
    ///
    /// There is no response, or it breaks a rule of HTTP/1.1 or a limit of headers.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        self.head.begin();
        let sending = self.requests.try_send_request(request);
        let sent = self.drive(sending).await.map_err(|mut error| {
            let (class, explanation) = class_of_exchange(error.error(), &self.head);
            match error.take_message() {
                Some(request) if class == FailureClass::Transport => {
                    let (class, explanation) = self.refusal();
                    Unanswered::NotSent(Box::new(request), class, explanation)
                }
                Some(request) => Unanswered::NotSent(Box::new(request), class, explanation),
                None => Unanswered::Failed(class, explanation),
            }
        });
        if sent.is_ok() {
            self.head.end();
        }
        sent
    }

    /// Why no request could be sent on a stream: the receiver closed it, or sent something first.
    fn refusal(&self) -> (FailureClass, Explanation) {
        match self.head.take() {
            said if said.is_empty() => (FailureClass::Transport, Explanation::default()),
            said => (FailureClass::NotHttp, head::explain(&said)),
        }
    }

    /// Reads the part of the response's body that is kept, until `deadline` at the latest. Reports it with the status.
    pub async fn read(
        &mut self,
        response: Response<Incoming>,
        deadline: Instant,
        report: &mut Report,
    ) -> (BodyEnd, Result<(), FailureClass>) {
        let status = response.status();
        let mut answer = Vec::new();
        let reading = self.drive(read(response.into_body(), &mut answer));
        let end = timeout_at(body_deadline(status, deadline, Instant::now()), reading)
            .await
            .unwrap_or(BodyEnd::TimedOut);
        report.http_status = Some(status.as_u16());
        report.answer = Some(kept_answer(&answer));
        let verdict = match class_of_status(status.as_u16()) {
            None => Ok(()),
            Some(_) if end == BodyEnd::TimedOut => Err(FailureClass::BodyTimeout),
            Some(class) => Err(class),
        };
        (end, verdict)
    }

    /// Does the work of the connection until `waiting`, a future that depends on it, is ready.
    async fn drive<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        poll_fn(|context| {
            if let Poll::Ready(done) = waiting.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            self.advance(context);
            waiting.as_mut().poll(context)
        })
        .await
    }

    /// Writes and reads as much as possible without waiting. Errors of the connection are dropped, because its
    /// request returns them too.
    fn advance(&mut self, context: &mut Context<'_>) {
        let ended = self.driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready());
        if ended {
            self.driver = None; // hyper returns a request that the driver has not begun
        }
    }

    /// Whether the connection can take a request now. This is so before the first request, and after a response that
    /// was read to its end, if the receiver has read the whole request, has sent nothing more, and has neither closed
    /// the connection nor announced that it will.
    pub fn is_reusable(&mut self) -> bool {
        self.advance(&mut Context::from_waker(Waker::noop()));
        self.requests.is_ready()
    }
}

/// Reads at most [`READ_ANSWER_BYTES`] into `kept`, unchanged: a compressed response stays compressed, so it cannot grow.
async fn read(mut body: Incoming, kept: &mut Vec<u8>) -> BodyEnd {
    loop {
        if body.is_end_stream() {
            return BodyEnd::Whole;
        }
        let room = READ_ANSWER_BYTES - kept.len();
        if room == 0 {
            return BodyEnd::Cut;
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default(); // trailers are not kept
                kept.extend_from_slice(&data[..data.len().min(room)]);
            }
            Some(Err(_)) => return BodyEnd::Cut,
            None => return BodyEnd::Whole,
        }
    }
}

/// The failure class of an error of the exchange. In TLS 1.3 a receiver can refuse a handshake after the client has
/// completed it, for example because there is no client certificate. The refusal then arrives as such an error.
fn class_of_exchange(error: &hyper::Error, head: &Head) -> (FailureClass, Explanation) {
    // If the request was not sent, its error has the connection's error as its source.
    let sources = successors(error.source(), |source: &&(dyn Error + 'static)| (*source).source());
    let tls = sources.filter_map(|source| source.downcast_ref::<io::Error>()).find_map(tls_error);
    match tls {
        Some(rustls::Error::AlertReceived(alert)) => {
            // At this time, only a missing client certificate can still end the handshake.
            (FailureClass::TlsOther, cause::of_alert(*alert, true))
        }
        _ if error.is_parse() => (FailureClass::NotHttp, explain(error, &head.take())),
        _ => (FailureClass::Transport, Explanation::default()),
    }
}

/// Finds out which rule of HTTP the response breaks, from the received bytes, else from hyper's error.
fn explain(error: &hyper::Error, said: &[u8]) -> Explanation {
    match head::explain(said) {
        Explanation { cause: None, .. } if error.is_parse_too_large() => {
            Explanation::of(Cause::HeadersTooLong)
        }
        Explanation { cause: None, .. } if error.is_parse_status() => {
            Explanation::of(Cause::InvalidStatusLine)
        }
        Explanation { cause: None, .. } if error.is_parse_version_h2() => Explanation::of(Cause::Http2Answer),
        explanation => explanation,
    }
}

/// The TLS error inside an [`io::Error`]: tokio-rustls returns TLS errors in this form.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Until when the body of a response is read: of a success for [`SUCCESS_BODY_LIMIT`], of an error until the deadline, because the
/// body may say what is wrong.
fn body_deadline(status: StatusCode, deadline: Instant, now: Instant) -> Instant {
    if status.is_success() { deadline.min(now + SUCCESS_BODY_LIMIT) } else { deadline }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_of_an_error_is_read_until_the_deadline_and_of_a_success_for_2_seconds() {
        let now = Instant::now();
        let seconds = |status: StatusCode, deadline| {
            (body_deadline(status, now + Duration::from_secs(deadline), now) - now).as_secs()
        };
        assert_eq!([1, 15].map(|deadline| seconds(StatusCode::OK, deadline)), [1, 2]);
        for status in [StatusCode::FOUND, StatusCode::NOT_FOUND, StatusCode::INTERNAL_SERVER_ERROR] {
            assert_eq!(seconds(status, 15), 15, "{status}");
        }
    }
}
