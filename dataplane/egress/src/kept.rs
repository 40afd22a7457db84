//! Idle connections: open connections that no attempt uses.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::target::{HostPort, Target};

/// How long an idle connection is kept. Receivers close idle connections after 5 s by default (Node.js, Apache,
/// uvicorn). A POST that crosses with such a close is a failed attempt, so Docket closes well before.
pub const IDLE_LIMIT: Duration = Duration::from_millis(1500);
/// The limit of idle connections per target: as many as a webhook can have attempts at a time.
pub const MAX_PER_TARGET: usize = 256;
/// The limit of all idle connections. Each takes 35 KiB, most of it hyper's buffers, and two file descriptors.
const MAX_KEPT: usize = 512;

/// Idle connections, within their bounds and times. Where a bound is reached, the connection that was unused for longest is closed.
pub(crate) struct IdleConnections<C> {
    /// The connections, numbered in the order in which they came. The first has been idle for longest.
    idle: BTreeMap<u64, IdleConnection<C>>,
    /// The numbers of each target of a receiver, in the same order. Targets and receivers without an idle connection are left
    /// out.
    by_receiver: HashMap<HostPort, HashMap<Arc<Target>, VecDeque<u64>>>,
    next: u64,
}

struct IdleConnection<C> {
    target: Arc<Target>,
    connection: C,
    since: Instant,
}

impl<C> Default for IdleConnections<C> {
    fn default() -> Self {
        Self { idle: BTreeMap::new(), by_receiver: HashMap::new(), next: 0 }
    }
}

impl<C> IdleConnections<C> {
    /// Adds a connection. Returns the connection that it replaces, if there is no room for both.
    pub(crate) fn push(&mut self, target: Arc<Target>, connection: C, now: Instant) -> Option<C> {
        let numbers = self.numbers(&target).filter(|numbers| numbers.len() >= MAX_PER_TARGET);
        let oldest = match numbers {
            Some(numbers) => numbers.front().copied(),
            None if self.idle.len() >= MAX_KEPT => self.idle.keys().next().copied(),
            None => None,
        };
        let replaced = oldest.and_then(|number| self.remove(number));
        let targets = self.by_receiver.entry(target.receiver.clone()).or_default();
        targets.entry(Arc::clone(&target)).or_default().push_back(self.next);
        self.idle.insert(self.next, IdleConnection { target, connection, since: now });
        self.next += 1;
        replaced
    }

    /// Removes the connection to `target` that was added last.
    pub(crate) fn pop(&mut self, target: &Target) -> Option<C> {
        let number = *self.numbers(target)?.back()?;
        self.remove(number)
    }

    pub(crate) fn count(&self) -> usize {
        self.idle.len()
    }

    fn numbers(&self, target: &Target) -> Option<&VecDeque<u64>> {
        self.by_receiver.get(&target.receiver)?.get(target)
    }

    /// Removes the connections that were idle for [`IDLE_LIMIT`].
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<C> {
        let mut expired = Vec::new();
        while let Some((&number, idle)) = self.idle.first_key_value()
            && now.duration_since(idle.since) >= IDLE_LIMIT
        {
            expired.extend(self.remove(number));
        }
        expired
    }

    /// Removes the connections to a receiver, over all its URLs, that have been idle for `limit`.
    pub(crate) fn expired_at(&mut self, receiver: &HostPort, limit: Duration, now: Instant) -> Vec<C> {
        let numbers = self.by_receiver.get(receiver).into_iter().flat_map(HashMap::values).flatten();
        let since = |number: &&u64| now.duration_since(self.idle[*number].since) >= limit;
        let expired: Vec<u64> = numbers.filter(since).copied().collect();
        expired.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// When the connection expires that was unused for longest; `None` without connections.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.idle.first_key_value().map(|(_, idle)| idle.since + IDLE_LIMIT)
    }

    fn remove(&mut self, number: u64) -> Option<C> {
        let IdleConnection { target, connection, .. } = self.idle.remove(&number)?;
        if let Entry::Occupied(mut targets) = self.by_receiver.entry(target.receiver.clone())
            && let Entry::Occupied(mut numbers) = targets.get_mut().entry(target)
        {
            let place = numbers.get().binary_search(&number);
            let _ = place.map(|place| numbers.get_mut().remove(place));
            if numbers.get().is_empty() {
                numbers.remove();
                if targets.get().is_empty() {
                    targets.remove();
                }
            }
        }
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(number: usize) -> Arc<Target> {
        let url = format!("https://r{number}.example/").parse().expect("a url");
        Arc::new(Target::of(&url, &crate::Trust::public()).expect("a target"))
    }

    /// Numbers stand for the connections.
    fn kept(connections: impl IntoIterator<Item = (usize, usize)>, now: Instant) -> IdleConnections<usize> {
        let mut kept = IdleConnections::default();
        for (number, connection) in connections {
            kept.push(target(number), connection, now);
        }
        kept
    }

    /// The other tests use these by name, so a missing digit would change the tests as well.
    #[test]
    fn idle_connections_are_bounded_by_target_and_in_all() {
        assert_eq!((MAX_PER_TARGET, MAX_KEPT), (256, 512));
    }

    #[test]
    fn connection_used_last_is_returned_first_and_once() {
        let mut kept = kept([(1, 10), (2, 20), (1, 11), (1, 12)], Instant::now());
        assert_eq!([(); 4].map(|()| kept.pop(&target(1))), [Some(12), Some(11), Some(10), None]);
        assert_eq!(
            (kept.pop(&target(3)), kept.pop(&target(2)), kept.pop(&target(2))),
            (None, Some(20), None)
        );
        assert!(kept.idle.is_empty() && kept.by_receiver.is_empty());
    }

    #[test]
    fn full_target_replaces_its_own_oldest_connection() {
        let now = Instant::now();
        let others = kept([(2, 0)], now);
        let mut kept = (0..MAX_PER_TARGET).fold(others, |mut kept, connection| {
            assert_eq!(kept.push(target(1), connection, now), None);
            kept
        });
        assert_eq!(kept.push(target(1), MAX_PER_TARGET, now), Some(0));
        assert_eq!(kept.push(target(1), MAX_PER_TARGET + 1, now), Some(1));
        assert_eq!(kept.numbers(&target(1)).map_or(0, VecDeque::len), MAX_PER_TARGET);
        assert_eq!((kept.pop(&target(1)), kept.pop(&target(2))), (Some(MAX_PER_TARGET + 1), Some(0)));
    }

    #[test]
    fn ten_thousand_receivers_replace_the_oldest_connections() {
        let mut kept = kept((0..10_000).map(|number| (number, number)), Instant::now());
        assert_eq!((kept.idle.len(), kept.by_receiver.len()), (MAX_KEPT, MAX_KEPT));
        let oldest = 10_000 - MAX_KEPT;
        assert_eq!(kept.pop(&target(oldest - 1)), None);
        assert_eq!(kept.push(target(0), 0, Instant::now()), Some(oldest));
        assert_eq!(kept.pop(&target(9_999)), Some(9_999));
    }

    #[test]
    fn connections_expire_after_1500_ms_in_the_order_of_their_use() {
        let start = Instant::now();
        let mut kept = kept([(1, 10), (2, 20), (1, 11)], start);
        assert_eq!(kept.pop(&target(1)), Some(11));
        kept.push(target(1), 11, start + Duration::from_millis(1));
        assert!(kept.expired(start + Duration::from_millis(1_499)).is_empty());
        assert_eq!(kept.next_expiry(), Some(start + IDLE_LIMIT));
        assert_eq!(kept.expired(start + IDLE_LIMIT), [10, 20]);
        assert_eq!((kept.idle.len(), kept.by_receiver.len()), (1, 1));
        assert_eq!(kept.expired(start + Duration::from_millis(1_501)), [11]);
        assert!(kept.idle.is_empty() && kept.by_receiver.is_empty());
    }

    #[test]
    fn connections_of_all_urls_of_a_receiver_expire_together() {
        let trust = crate::Trust::public();
        let at = |url: &str| Arc::new(Target::of(&url.parse().expect("a url"), &trust).expect("a target"));
        let (mut kept, start) = (IdleConnections::default(), Instant::now());
        let limit = Duration::from_millis(100);
        for (url, connection, after) in [
            ("https://a.example/one", 1, Duration::ZERO),
            ("https://a.example/two", 2, Duration::ZERO),
            ("https://a.example:444/", 3, Duration::ZERO),
            ("https://b.example/", 4, Duration::ZERO),
            ("https://a.example/one", 5, Duration::from_millis(1)),
        ] {
            kept.push(at(url), connection, start + after);
        }
        let mut expired = kept.expired_at(&at("https://a.example/three").receiver, limit, start + limit);
        expired.sort_unstable();
        assert_eq!((expired, kept.idle.len(), kept.by_receiver.len()), (vec![1, 2], 3, 3));
    }
}
