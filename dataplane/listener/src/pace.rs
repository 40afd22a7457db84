//! What a client is sent, with a limit for slow readers: bytes that the client does not read stay in memory.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep_until};

/// The time in which a client must read [`LEAST`] bytes of a response that waits.
const TIME: Duration = Duration::from_secs(20);
/// The fewest bytes that a client must read in [`TIME`].
const LEAST: usize = 64 * 1024;
/// The system's buffer for bytes that the client has not read yet, in bytes; the system may double it. It is small,
/// so that the client's pace shows, and so that the rest stays in memory that Docket counts.
pub(crate) const SEND_BUFFER: usize = 64 * 1024;

/// The writing half of a connection. Writes fail with [`ErrorKind::TimedOut`] when the client reads too slowly.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    slow: Option<Slow>,
}

/// A period that begins when a write has to wait.
#[derive(Debug)]
struct Slow {
    until: Pin<Box<Sleep>>,
    /// The number of bytes that the client has taken in the period.
    taken: usize,
    /// Whether a write waits now. If none waits, the response may be complete, and the next one may begin at any time.
    waits: bool,
}

impl<S> Paced<S> {
    /// The writing half of a connection on which nothing has been written.
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, slow: None }
    }

    /// Returns the result of a write of the stream, or an error if the client is too slow.
    fn judged(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let is_late = |slow: &Slow| Instant::now() >= slow.until.deadline();
        if self.slow.as_ref().is_some_and(|slow| !slow.waits && is_late(slow)) {
            self.slow = None;
        }
        match written {
            Poll::Ready(Ok(count)) => {
                let Some(slow) = &mut self.slow else { return written };
                slow.taken += count;
                if slow.taken >= LEAST {
                    self.slow = None;
                } else if slow.waits && is_late(slow) {
                    return Poll::Ready(Err(ErrorKind::TimedOut.into()));
                } else {
                    slow.waits = false;
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => {
                let until = || Box::pin(sleep_until(Instant::now() + TIME));
                let slow = self.slow.get_or_insert_with(|| Slow { until: until(), taken: 0, waits: true });
                slow.waits = true;
                slow.until.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judged(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judged(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::sleep;

    use super::*;

    const RESPONSE: usize = 1 << 20;

    /// Writes a response to a client that reads `each_second` bytes per second. Returns whether this succeeds, and
    /// how long it takes.
    async fn written(each_second: usize) -> (bool, Duration) {
        let (mut client, server) = duplex(SEND_BUFFER);
        let mut server = Paced::new(server);
        let begun = Instant::now();
        let reading = async {
            let mut bytes = vec![0; each_second.max(1)];
            loop {
                sleep(Duration::from_secs(1)).await;
                if each_second > 0 && client.read_exact(&mut bytes).await.is_err() {
                    return;
                }
            }
        };
        let response = vec![0; RESPONSE];
        tokio::select! {
            written = server.write_all(&response) => (written.is_ok(), begun.elapsed()),
            () = reading => panic!("the server closed"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_nothing_is_disconnected() {
        assert_eq!(written(0).await, (false, Duration::from_secs(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_a_little_all_the_time_is_disconnected() {
        // Somewhat less than 64 KiB in 20 s.
        assert_eq!(written(3_000).await, (false, Duration::from_secs(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_fast_enough_gets_its_response_however_long_it_takes() {
        let (is_written, time) = written(LEAST / 20 + 200).await;
        assert!(is_written && time > TIME * 10, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_the_next_response_is_not_counted() {
        let (mut client, server) = duplex(16);
        let mut server = Paced::new(server);
        for _ in 0..3 {
            let mut taken = [0; 32];
            let (written, read) = tokio::join!(server.write_all(&[0; 32]), client.read_exact(&mut taken));
            assert!(written.is_ok() && read.is_ok());
            sleep(TIME * 2).await;
        }
    }
}
