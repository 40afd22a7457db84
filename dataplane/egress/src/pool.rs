//! Open connections: sending on one, and keeping it for the next POST to the same receiver.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use docket_domain::delivery::FailureClass;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, timeout};

use crate::connector::{Receiver, tls_error};

/// How long a connection is kept without use. Receivers close theirs after 5 s by default (Node.js, Apache, uvicorn),
/// and a POST that crosses with that close is a failed attempt; so we let go well before.
const IDLE_LIMIT: Duration = Duration::from_millis(1500);
/// Kept per receiver: as many as a worker has under way to one webhook.
const MAX_PER_RECEIVER: usize = 32;
/// Kept in all; bounds open files and makes searching a plain list cheap.
const MAX_KEPT: usize = 256;
/// A connection whose answer has ended is ready as soon as its task has run once more. It is not when the receiver
/// answered without reading our body; then this is all it costs.
const READY_LIMIT: Duration = Duration::from_millis(20);

/// hyper's own limit of headers, written down: the block is bounded in number and in size.
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
    /// Not a byte of it was written; here it is back.
    NotSent(Box<Request<Full<Bytes>>>),
    /// It was written, at least in part, or the time ran out.
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
        // Its errors reach us as the answer's.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { remote, requests, driver })
    }

    /// Sends `request` and waits for the answer's headers. Interim 1xx answers are skipped, for as long as the caller
    /// waits.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        self.requests.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::NotSent(Box::new(request)),
            None => Unanswered::Failed(class_of_exchange(error.error())),
        })
    }

    /// Whether it can take another request: the receiver has not closed it, and said nothing of closing it.
    async fn is_reusable(&mut self) -> bool {
        matches!(timeout(READY_LIMIT, self.requests.ready()).await, Ok(Ok(())))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Left to itself, the task would go on writing to a receiver that does not read, for ever.
        self.driver.abort();
    }
}

/// In TLS 1.3 a receiver refuses a handshake (a client certificate is missing, say) only after we think it is over.
fn class_of_exchange(error: &hyper::Error) -> FailureClass {
    let tls = error.source().and_then(|source| source.downcast_ref::<io::Error>()).and_then(tls_error);
    match tls {
        Some(rustls::Error::AlertReceived(_)) => FailureClass::TlsOther,
        _ => FailureClass::Transport,
    }
}

/// Connections between two POSTs.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Kept>>);

struct Kept {
    receiver: Receiver,
    connection: Connection,
    since: Instant,
}

impl Pool {
    /// A connection to `receiver` that was still open when last seen; the one used last, so that the others can go.
    pub(crate) async fn take(&self, receiver: &Receiver) -> Option<Connection> {
        // A close that arrived while our threads were busy is still unread: let the reactor and hyper's tasks see it
        // first, or the request is written to a dead connection and the attempt lost.
        yield_now().await;
        let mut kept = self.fresh();
        let position = kept.iter().rposition(|kept| kept.receiver == *receiver)?;
        Some(kept.remove(position).connection)
    }

    /// Keeps a connection whose last answer has been read to its end, if it can be used again and there is room.
    pub(crate) async fn keep(&self, receiver: Receiver, mut connection: Connection) {
        if !connection.is_reusable().await {
            return;
        }
        let mut kept = self.fresh();
        let same = kept.iter().filter(|kept| kept.receiver == receiver).count();
        if same < MAX_PER_RECEIVER && kept.len() < MAX_KEPT {
            kept.push(Kept { receiver, connection, since: Instant::now() });
        }
    }

    /// Closes what has been idle for too long, or was closed by its receiver.
    pub(crate) fn drop_idle(&self) {
        drop(self.fresh());
    }

    fn fresh(&self) -> MutexGuard<'_, Vec<Kept>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.since.elapsed() < IDLE_LIMIT && kept.connection.requests.is_ready());
        kept
    }
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
    async fn a_request_that_meets_a_closed_connection_comes_back_unsent() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        drop(theirs);
        assert!(connection.requests.is_ready(), "nobody has looked yet");
        assert!(matches!(connection.send(request()).await, Err(Unanswered::NotSent(_))));
    }

    #[tokio::test]
    async fn a_request_of_which_one_byte_was_read_does_not_come_back() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        let receiver = async move { theirs.read_u8().await };
        let (answer, _) = tokio::join!(connection.send(request()), receiver);
        assert!(matches!(answer, Err(Unanswered::Failed(FailureClass::Transport))));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pool_is_bounded_and_forgets() {
        let receiver = |number: usize| {
            let url = format!("https://r{number}.example/").parse().expect("a url");
            Receiver::of(&url, &crate::Trust::public()).expect("a receiver")
        };
        let pool = Pool::default();
        let mut theirs = Vec::new();
        for number in 0..MAX_KEPT + 20 {
            for _ in 0..if number == 0 { MAX_PER_RECEIVER + 1 } else { 1 } {
                let (connection, their) = connection().await;
                theirs.push(their);
                pool.keep(receiver(number), connection).await;
            }
        }
        let count = |number| pool.fresh().iter().filter(|kept| kept.receiver == receiver(number)).count();
        assert_eq!((count(0), count(1), pool.fresh().len()), (MAX_PER_RECEIVER, 1, MAX_KEPT));

        assert!(pool.take(&receiver(1)).await.is_some());
        assert!(pool.take(&receiver(1)).await.is_none(), "handed out once");
        tokio::time::advance(IDLE_LIMIT).await;
        assert!(pool.take(&receiver(0)).await.is_none());
        assert_eq!(pool.fresh().len(), 0);
    }
}
