//! An open HTTP/1.1 connection to a receiver, and one request on it.

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use docket_domain::delivery::FailureClass;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bounds of an answer's header block, in number and in size. The number is hyper's default, made explicit.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 * 1024;
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// An open connection to a receiver. Dropping it closes the socket at once, whatever the receiver is doing.
///
/// No task belongs to it: an attempt that waits for its answer does the work of the connection, so that a POST wakes no
/// other task, and between two attempts nothing runs.
pub(crate) struct Connection {
    pub(crate) remote: SocketAddr,
    requests: http1::SendRequest<Full<Bytes>>,
    /// hyper's work on the connection: writes the request and reads the answer. `None` once the connection has ended.
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    /// The same socket, to look at it while the connection is idle.
    socket: TcpStream,
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
    /// A connection over `stream`, whose bytes go through `socket`.
    pub(crate) async fn start<S>(
        stream: S,
        socket: TcpStream,
        remote: SocketAddr,
    ) -> Result<Self, FailureClass>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, driver) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEADER_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| FailureClass::Transport)?;
        Ok(Self { remote, requests, driver: Some(Box::pin(driver)), socket })
    }

    /// Sends `request` and waits for the headers of the answer. Skips interim 1xx answers; the caller sets the time
    /// limit.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let sending = self.requests.try_send_request(request);
        self.drive(sending).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::NotSent(Box::new(request)),
            None => Unanswered::Failed(class_of_exchange(error.error())),
        })
    }

    /// Works on the connection until `waiting`, which waits for it, is done.
    pub(crate) async fn drive<T>(&mut self, waiting: impl Future<Output = T>) -> T {
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

    /// Writes and reads what is possible now. The errors of a connection are also returned by its request.
    fn advance(&mut self, context: &mut Context<'_>) {
        let ended = self.driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready());
        if ended {
            self.driver = None; // a request that it has not begun comes back
        }
    }

    /// Whether it can take another request after an answer that was read to its end: the receiver has read the whole
    /// request, has said nothing more, and has neither closed the connection nor announced that it will.
    pub(crate) fn is_reusable(&mut self) -> bool {
        self.advance(&mut Context::from_waker(Waker::noop()));
        self.requests.is_ready()
    }

    /// Whether an idle connection is still open: nothing has arrived on it, and so no close. Asks the system, because
    /// while all threads are busy the runtime does not learn what has arrived.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
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
pub(crate) mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;

    use super::*;

    /// An open connection, and the receiver's side of it.
    pub(crate) async fn connection() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let remote = listener.local_addr().expect("an address");
        let connecting = TcpSocket::new_v4().expect("a socket").connect(remote);
        let (ours, theirs) = tokio::join!(connecting, listener.accept());
        let ours = ours.expect("a connection");
        let socket = ours.as_fd().try_clone_to_owned().expect("a descriptor").into();
        let connection = Connection::start(ours, socket, remote).await.expect("a connection");
        (connection, theirs.expect("a connection").0)
    }

    fn request() -> Request<Full<Bytes>> {
        Request::post("/").header("host", "a.example").body(Full::from("body")).expect("a request")
    }

    /// One request and its answer.
    async fn exchange(connection: &mut Connection, theirs: &mut TcpStream) {
        let receiver = async {
            let read = theirs.read(&mut [0; 4_096]).await.expect("a request");
            theirs.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an open connection");
            read
        };
        let (answer, _) = tokio::join!(connection.send(request()), receiver);
        assert!(answer.is_ok());
        assert!(connection.is_reusable() && connection.is_open());
    }

    /// Waits until what the receiver did has arrived.
    pub(crate) async fn closed(connection: &Connection) {
        let closed = async {
            while connection.is_open() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(5), closed).await.expect("it is noticed");
    }

    #[tokio::test]
    async fn idle_connection_is_open_until_something_arrives() {
        let (mut connection, mut theirs) = connection().await;
        for _ in 0..3 {
            exchange(&mut connection, &mut theirs).await;
        }
        theirs.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.expect("an open connection");
        closed(&connection).await;
    }

    #[tokio::test]
    async fn idle_connection_is_open_until_the_receiver_closes_it() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        drop(theirs);
        closed(&connection).await;
    }

    #[tokio::test]
    async fn request_on_a_closed_connection_comes_back_unsent() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        drop(theirs);
        closed(&connection).await;
        tokio::task::yield_now().await; // now the runtime notices as well
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
