//! What a client sends, with a limit for the time in which the headers of a request arrive. hyper has one limit for
//! headers and for the pause between two requests. But this pause may be long: a proxy that reuses connections must
//! not find them closed.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The time from a request's first byte to the end of its headers.
pub const HEADER_TIME: Duration = Duration::from_secs(10);

/// Counts the beginnings and ends of a connection's requests. The count is odd while a request is being served.
#[derive(Debug, Default)]
pub(crate) struct RequestCount(AtomicU64);

impl RequestCount {
    /// A request begins or ends.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the connection has had no request.
    pub(crate) fn is_new(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Whether no request is being served. A response may still be on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_multiple_of(2)
    }
}

/// The reading half of a connection. Reads fail with [`ErrorKind::TimedOut`] when headers take longer than [`HEADER_TIME`].
#[derive(Debug)]
pub(crate) struct HeadLimit<S> {
    stream: S,
    served: Arc<RequestCount>,
    seen: u64,
    /// The time limit for the headers; `None`: no request has begun.
    until: Option<Instant>,
    /// Wakes a read that waits for the rest of the headers.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> HeadLimit<S> {
    /// The reading half of a connection that has just been accepted.
    pub(crate) fn new(stream: S, served: Arc<RequestCount>) -> Self {
        Self { stream, served, seen: 0, until: None, alarm: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimit<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let served = this.served.0.load(Ordering::Relaxed);
        if served != this.seen {
            (this.seen, this.until, this.alarm) = (served, None, None);
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if served % 2 == 1 {
            return read;
        }
        if read.is_ready() && buf.filled().len() > before {
            let now = Instant::now();
            let until = *this.until.get_or_insert(now + HEADER_TIME);
            return if now < until { read } else { Poll::Ready(Err(ErrorKind::TimedOut.into())) };
        }
        if let (Poll::Pending, Some(until)) = (&read, this.until) {
            let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if alarm.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{advance, timeout};

    use super::*;

    const LITTLE_LESS: Duration = Duration::from_millis(9_900);
    const LITTLE: Duration = Duration::from_millis(200);

    fn connection() -> (DuplexStream, HeadLimit<DuplexStream>, Arc<RequestCount>) {
        let (client, server) = duplex(64);
        let served = Arc::<RequestCount>::default();
        (client, HeadLimit::new(server, Arc::clone(&served)), served)
    }

    async fn is_cut_off(server: &mut HeadLimit<DuplexStream>) -> bool {
        let read = timeout(Duration::from_secs(60), server.read_u8()).await;
        read.is_ok_and(|read| read.is_err_and(|error| error.kind() == ErrorKind::TimedOut))
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_the_first_request_is_not_limited_here() {
        let (mut client, mut server, _) = connection();
        assert!(!is_cut_off(&mut server).await);
        client.write_all(b"G").await.expect("written");
        server.read_u8().await.expect("the first request");
        let begun = Instant::now();
        assert!(is_cut_off(&mut server).await);
        assert_eq!(begun.elapsed().as_secs(), HEADER_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn headers_that_drip_are_cut_off_however_often_a_byte_comes() {
        let (mut client, mut server, served) = connection();
        served.step();
        served.step();
        client.write_all(b"G").await.expect("written");
        server.read_u8().await.expect("in time");
        advance(LITTLE_LESS).await;
        client.write_all(b"E").await.expect("written");
        server.read_u8().await.expect("in time");
        advance(LITTLE).await;
        client.write_all(b"T").await.expect("written");
        assert!(is_cut_off(&mut server).await);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_between_requests_is_not_limited_here() {
        let (mut client, mut server, served) = connection();
        client.write_all(b"G").await.expect("written");
        server.read_u8().await.expect("in time");
        served.step();
        advance(HEADER_TIME * 3).await; // the response takes this long
        served.step();
        assert!(!is_cut_off(&mut server).await);
        client.write_all(b"G").await.expect("written");
        server.read_u8().await.expect("the next request");
    }

    #[tokio::test(start_paused = true)]
    async fn body_is_not_limited_here() {
        let (mut client, mut server, served) = connection();
        client.write_all(b"G").await.expect("written");
        server.read_u8().await.expect("in time");
        served.step();
        advance(HEADER_TIME * 3).await;
        client.write_all(b"{").await.expect("written");
        server.read_u8().await.expect("a body");
    }
}
