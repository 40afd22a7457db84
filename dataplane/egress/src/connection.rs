//! An open connection to a receiver, from one POST to the next.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use docket_domain::delivery::FailureClass;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::exchange::Exchange;

/// An open connection to a receiver. Dropping it closes the socket at once.
pub(crate) struct ReceiverConnection {
    pub(crate) remote: SocketAddr,
    pub(crate) exchange: Exchange,
    pub(crate) opened_at: Instant,
    /// How long opening the connection took; zero until that is known.
    pub(crate) took: Duration,
    /// The same socket, to look at it while the connection is idle.
    pub(crate) socket: TcpStream,
}

impl ReceiverConnection {
    /// A connection over `stream`, whose bytes go through `socket`.
    pub(crate) async fn start<S>(
        stream: S,
        socket: TcpStream,
        remote: SocketAddr,
    ) -> Result<Self, FailureClass>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (exchange, opened_at) = (Exchange::start(stream).await?, Instant::now());
        Ok(Self { remote, exchange, opened_at, took: Duration::ZERO, socket })
    }

    /// Whether an idle connection is still open: neither a close nor an unexpected response has arrived. It asks the
    /// system, because the runtime does not notice what arrives while all its threads are busy. On a connection that
    /// no attempt has used, the tickets may be unread that a receiver sends after a handshake of TLS 1.3; they do not
    /// count.
    pub(crate) fn is_open(&mut self) -> bool {
        self.is_silent() || (self.exchange.is_reusable() && self.is_silent())
    }

    fn is_silent(&self) -> bool {
        matches!(self.socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::AsFd;

    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use crate::exchange::Unanswered;

    /// An open connection, and the receiver's side of it.
    pub(crate) async fn connection() -> (ReceiverConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let remote = listener.local_addr().expect("an address");
        let connecting = TcpSocket::new_v4().expect("a socket").connect(remote);
        let (ours, theirs) = tokio::join!(connecting, listener.accept());
        let ours = ours.expect("a connection");
        let socket = ours.as_fd().try_clone_to_owned().expect("a descriptor").into();
        let connection = ReceiverConnection::start(ours, socket, remote).await.expect("a connection");
        (connection, theirs.expect("a connection").0)
    }

    fn request() -> Request<Full<Bytes>> {
        Request::post("/").header("host", "a.example").body(Full::from("body")).expect("a request")
    }

    /// One request and its answer.
    pub(crate) async fn exchange(connection: &mut ReceiverConnection, theirs: &mut TcpStream) {
        let receiver = async {
            let read = theirs.read(&mut [0; 4_096]).await.expect("a request");
            theirs.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an open connection");
            read
        };
        let (answer, _) = tokio::join!(connection.exchange.send(request()), receiver);
        assert!(answer.is_ok());
        assert!(connection.exchange.is_reusable() && connection.is_open());
    }

    /// Waits until what the receiver did has arrived.
    pub(crate) async fn closed(connection: &mut ReceiverConnection) {
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
        closed(&mut connection).await;
    }

    #[tokio::test]
    async fn idle_connection_is_open_until_the_receiver_closes_it() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        drop(theirs);
        closed(&mut connection).await;
    }

    #[tokio::test]
    async fn request_on_a_closed_connection_comes_back_unsent() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        drop(theirs);
        closed(&mut connection).await;
        tokio::task::yield_now().await; // now the runtime notices the close as well
        assert!(matches!(connection.exchange.send(request()).await, Err(Unanswered::NotSent(..))));
    }

    #[tokio::test]
    async fn request_of_which_one_byte_was_read_does_not_come_back() {
        let (mut connection, mut theirs) = connection().await;
        exchange(&mut connection, &mut theirs).await;
        let receiver = async move { theirs.read_u8().await };
        let (answer, _) = tokio::join!(connection.exchange.send(request()), receiver);
        assert!(matches!(answer, Err(Unanswered::Failed(FailureClass::Transport, _))));
    }
}
