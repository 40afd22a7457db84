//! Open connections between two POSTs to the same target.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::target::Target;

/// How long an unused connection is kept. Receivers close theirs after 5 s by default (Node.js, Apache, uvicorn), and a
/// POST that crosses with that close is a failed attempt; so this side closes well before.
const IDLE_LIMIT: Duration = Duration::from_millis(1500);
/// Connections kept per target: as many attempts as a worker makes to one webhook at a time.
const MAX_PER_RECEIVER: usize = 32;
/// Connections kept in total. Bounds the open files and keeps a linear search cheap.
const MAX_KEPT: usize = 256;
/// Connections between two POSTs.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Kept>>);

struct Kept {
    target: Target,
    connection: Connection,
    since: Instant,
}

impl Pool {
    /// Returns a connection to `target` that is still open as far as known. Prefers the one used last, so that the others
    /// can expire.
    pub(crate) async fn take(&self, target: &Target) -> Option<Connection> {
        // A close that arrived while all threads were busy is still unread. The reactor and hyper's tasks have to see
        // it first: a request written to a dead connection is a lost attempt.
        yield_now().await;
        let mut kept = self.fresh();
        let position = kept.iter().rposition(|kept| kept.target == *target)?;
        Some(kept.remove(position).connection)
    }

    /// Keeps a connection whose last answer has been read to its end, if it is reusable and there is room.
    pub(crate) async fn keep(&self, target: Target, mut connection: Connection) {
        if !connection.is_reusable().await {
            return;
        }
        let mut kept = self.fresh();
        let same = kept.iter().filter(|kept| kept.target == target).count();
        if same < MAX_PER_RECEIVER && kept.len() < MAX_KEPT {
            kept.push(Kept { target, connection, since: Instant::now() });
        }
    }

    /// Drops connections that were idle for too long or that the receiver has closed.
    pub(crate) fn drop_idle(&self) {
        drop(self.fresh());
    }

    fn fresh(&self) -> MutexGuard<'_, Vec<Kept>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.since.elapsed() < IDLE_LIMIT && kept.connection.is_open());
        kept
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    async fn connection() -> (Connection, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(4_096);
        (Connection::start(ours, ([8, 8, 8, 8], 443).into()).await.expect("a connection"), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn pool_keeps_a_bounded_number_of_connections_for_a_bounded_time() {
        let target = |number: usize| {
            let url = format!("https://r{number}.example/").parse().expect("a url");
            Target::of(&url, &crate::Trust::public()).expect("a target")
        };
        let pool = Pool::default();
        let mut theirs = Vec::new();
        for number in 0..MAX_KEPT + 20 {
            for _ in 0..if number == 0 { MAX_PER_RECEIVER + 1 } else { 1 } {
                let (connection, their) = connection().await;
                theirs.push(their);
                pool.keep(target(number), connection).await;
            }
        }
        let count = |number| pool.fresh().iter().filter(|kept| kept.target == target(number)).count();
        assert_eq!((count(0), count(1), pool.fresh().len()), (MAX_PER_RECEIVER, 1, MAX_KEPT));

        assert!(pool.take(&target(1)).await.is_some());
        assert!(pool.take(&target(1)).await.is_none(), "returned only once");
        tokio::time::advance(IDLE_LIMIT).await;
        assert!(pool.take(&target(0)).await.is_none());
        assert_eq!(pool.fresh().len(), 0);
    }
}
