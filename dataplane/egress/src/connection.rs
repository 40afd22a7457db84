//! An open HTTP/1.1 connection to a receiver, and one request on it.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use docket_domain::delivery::FailureClass;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long to wait until a connection is ready after an answer. It is ready as soon as its task has run once more,
/// unless the receiver answered without reading the whole request; then the connection is dropped after this.
const READY_LIMIT: Duration = Duration::from_millis(20);

/// Bounds of an answer's header block, in number and in size. The number is hyper's default, made explicit.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 * 1024;
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// An open connection to a receiver. Dropping it closes the socket at once, whatever the receiver is doing.
pub(crate) struct Connection {
    pub(crate) remote: SocketAddr,
    requests: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

/// Why a request has no answer.
pub(crate) enum Unanswered {
    /// No byte of it was written; this is the request.
    NotSent(Box<Request<Full<Bytes>>>),
    /// It was written, at least in part, or the time limit was reached.
    Failed(FailureClass),
}

impl From<FailureClass> for Unanswered {
    fn from(class: FailureClass) -> Self {
        Self::Failed(class)
    }
}

impl Connection {
    pub(crate) async fn start<S>(stream: S, remote: SocketAddr) -> Result<Self, FailureClass>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEADER_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| FailureClass::Transport)?;
        // Its errors are also returned by the request in progress.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { remote, requests, driver })
    }

    /// Sends `request` and waits for the headers of the answer. Skips interim 1xx answers; the caller sets the time
    /// limit.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        self.requests.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::NotSent(Box::new(request)),
            None => Unanswered::Failed(class_of_exchange(error.error())),
        })
    }

    /// Whether it was open and ready for a request when its task last ran.
    pub(crate) fn is_open(&self) -> bool {
        self.requests.is_ready()
    }

    /// Whether it can take another request: the receiver has neither closed it nor announced that it will.
    pub(crate) async fn is_reusable(&mut self) -> bool {
        matches!(timeout(READY_LIMIT, self.requests.ready()).await, Ok(Ok(())))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The task would otherwise keep writing for ever to a receiver that does not read.
        self.driver.abort();
    }
}

/// In TLS 1.3 a receiver can refuse a handshake (for example, because a client certificate is missing) after the client
/// has completed it. The refusal then arrives as an error of the exchange.
fn class_of_exchange(error: &hyper::Error) -> FailureClass {
    let tls = error.source().and_then(|source| source.downcast_ref::<io::Error>()).and_then(tls_error);
    match tls {
        Some(rustls::Error::AlertReceived(_)) => FailureClass::TlsOther,
        _ => FailureClass::Transport,
    }
}

/// The TLS error inside an [`io::Error`], which is how tokio-rustls returns it.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    async fn connection() -> (Connection, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(4_096);
        (Connection::start(ours, ([8, 8, 8, 8], 443).into()).await.expect("a connection"), theirs)
    }

    fn request() -> Request<Full<Bytes>> {
        Request::post("/").header("host", "a.example").body(Full::from("body")).expect("a request")
    }

    /// One request and its answer.
    async fn exchange(connection: &mut Connection, theirs: &mut DuplexStream) {
        let receiver = async {
            let read = theirs.read(&mut [0; 4_096]).await.expect("a request");
            theirs.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an open connection");
            read
        };
        let (answer, _) = tokio::join!(connection.send(request()), receiver);
        assert!(answer.is_ok());
        assert!(connection.is_reusable().await);
    }

    #[tokio::test]
    async fn request_on_a_closed_connection_comes_back_unsent() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        drop(theirs);
        assert!(connection.is_open(), "the close has not been noticed yet");
        assert!(matches!(connection.send(request()).await, Err(Unanswered::NotSent(_))));
    }

    #[tokio::test]
    async fn request_of_which_one_byte_was_read_does_not_come_back() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        let receiver = async move { theirs.read_u8().await };
        let (answer, _) = tokio::join!(connection.send(request()), receiver);
        assert!(matches!(answer, Err(Unanswered::Failed(FailureClass::Transport))));
    }
}
