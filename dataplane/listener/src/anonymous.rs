//! Expensive work for clients without credentials: a search of the documentation, the metrics. Such work takes longer
//! than any other response. So it runs a little at a time, on threads that serve no requests, and no tenant notices
//! how many clients ask.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::fair_share::{Busy, FairShare};
use crate::source::RequestSource;

/// How many turns run at the same time. A source has at most one of them.
pub const AT_ONCE: u32 = 2;
/// How long a turn is kept after its work of a millisecond or two. So all of this work together takes a small part of one core.
pub const PAUSE: Duration = Duration::from_millis(20);

/// How many requests may wait for a turn or have one: half of the connections of the smallest listener. The other
/// half stays free for probes.
pub const PLACES: u32 = 32;

/// The turns of one kind of work.
#[derive(Debug)]
pub struct Anonymous {
    places: FairShare<RequestSource>,
    turns: FairShare<RequestSource>,
}

impl Default for Anonymous {
    fn default() -> Self {
        Self { places: FairShare::new(PLACES, 1), turns: FairShare::new(AT_ONCE, 1) }
    }
}

impl Anonymous {
    /// Does the work when the source gets a turn.
    ///
    /// # Errors
    ///
    /// The source may not wait now, or got no turn within two seconds, or the work panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        source: RequestSource,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let source = source.subscriber();
        let _place = self.places.try_take(source, (), 1)?;
        let turn = self.turns.take(source, 1).await?;
        let (done, result) = oneshot::channel();
        // If the client disconnects, the work and its turn end no earlier.
        tokio::spawn(async move {
            let _ = done.send(tokio::task::spawn_blocking(work).await);
            turn.keep_for(PAUSE);
        });
        result.await.ok().and_then(Result::ok).ok_or(Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use tokio::task::JoinSet;

    use super::*;

    fn client(last: u16) -> RequestSource {
        RequestSource::Client(IpAddr::from([0x2001, 0xdb8, 0, last, 0, 0, 0, last]))
    }

    #[tokio::test]
    async fn flood_from_one_source_gets_one_turn_at_a_time_and_another_source_does_not_wait_for_it() {
        let (anonymous, begun) = (Arc::new(Anonymous::default()), Instant::now());
        let mut flood = JoinSet::new();
        for _ in 0..200 {
            let anonymous = Arc::clone(&anonymous);
            flood.spawn(async move { anonymous.run(client(1), || ()).await.is_ok() });
        }
        tokio::task::yield_now().await;
        assert!(anonymous.run(client(2), || ()).await.is_ok());
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let done = flood.join_all().await;
        let (served, time) = (done.into_iter().filter(|done| *done).count(), begun.elapsed());
        assert!((2..200).contains(&served), "{served}");
        assert!(PAUSE * u32::try_from(served - 1).expect("few") <= time, "{served} in {time:?}");
    }

    #[tokio::test]
    async fn of_many_sources_at_once_few_wait_and_the_others_are_refused_at_once() {
        let (anonymous, begun) = (Arc::new(Anonymous::default()), Instant::now());
        let mut waiting = JoinSet::new();
        let [working, most] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
        for source in 0..400 {
            let (anonymous, working, most) =
                (Arc::clone(&anonymous), Arc::clone(&working), Arc::clone(&most));
            let work = move || {
                most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(300));
                working.fetch_sub(1, Ordering::SeqCst);
            };
            waiting.spawn(async move { anonymous.run(client(source), work).await.is_ok() });
        }
        for _ in PLACES..400 {
            assert!(matches!(waiting.join_next().await, Some(Ok(false))));
        }
        assert!(begun.elapsed() < Duration::from_millis(250), "{:?}", begun.elapsed());
        assert_eq!(waiting.len(), 32);
        assert!(matches!(waiting.join_next().await, Some(Ok(true))));
        assert_eq!(most.load(Ordering::SeqCst), 2, "at once");
    }

    #[tokio::test]
    async fn addresses_of_one_subscriber_are_one_source() {
        let anonymous = Anonymous::default();
        let neighbour = RequestSource::Client(IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]));
        let begun = Instant::now();
        for source in [client(1), neighbour] {
            assert!(anonymous.run(source, || ()).await.is_ok());
        }
        assert!(begun.elapsed() >= PAUSE);
    }

    #[tokio::test]
    async fn client_that_leaves_does_not_shorten_its_turn() {
        let anonymous = Anonymous::default();
        let slow = anonymous.run(client(1), || std::thread::sleep(Duration::from_millis(300)));
        assert!(tokio::time::timeout(Duration::from_millis(50), slow).await.is_err());
        assert_eq!(anonymous.turns.left(), AT_ONCE - 1);
        let begun = Instant::now();
        assert!(anonymous.run(client(1), || ()).await.is_ok());
        assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    }
}
