//! Open connections between two POSTs to the same target.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Connection;
use crate::target::Target;

/// How long an unused connection is kept. Receivers close theirs after 5 s by default (Node.js, Apache, uvicorn), and a
/// POST that crosses with that close is a failed attempt; so this side closes well before.
pub const IDLE_LIMIT: Duration = Duration::from_millis(1500);
/// Connections kept per target: as many attempts as a webhook can have at a time. A POST on a new connection costs seven
/// times the CPU of one on a kept connection.
pub const MAX_PER_TARGET: usize = 256;
/// Connections kept in total. Each takes 35 KiB, most of it hyper's buffers, and two file descriptors.
const MAX_KEPT: usize = 512;

/// Connections between two POSTs. Where a bound is reached, the one that was unused for longest is closed.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Kept<Connection>>);

impl Pool {
    /// Returns an open connection to `target`: the one that was used last, so that the others can expire.
    pub(crate) fn take(&self, target: &Target) -> Option<Connection> {
        self.drop_idle();
        loop {
            let connection = self.lock().pop(target)?;
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last answer has been read to its end, if it is reusable.
    pub(crate) fn keep(&self, target: Arc<Target>, mut connection: Connection) {
        if connection.exchange.is_reusable() {
            let replaced = self.lock().push(target, connection, Instant::now());
            drop(replaced); // closing needs time, but not the lock
        }
    }

    /// Drops connections that were unused for too long.
    pub(crate) fn drop_idle(&self) {
        let now = Instant::now();
        let expired = self.lock().expired(now);
        drop(expired); // closing needs time, but not the lock
    }

    fn lock(&self) -> MutexGuard<'_, Kept<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept, within its bounds and times. No step walks over all of it.
struct Kept<C> {
    /// Numbered in the order in which they came: the one that was unused for longest is the first.
    idle: BTreeMap<u64, Idle<C>>,
    /// The numbers of each target, in the same order. A target that has none is not in it.
    by_target: HashMap<Arc<Target>, VecDeque<u64>>,
    next: u64,
}

struct Idle<C> {
    target: Arc<Target>,
    connection: C,
    since: Instant,
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Self { idle: BTreeMap::new(), by_target: HashMap::new(), next: 0 }
    }
}

impl<C> Kept<C> {
    /// Adds a connection. Returns the one that it replaces, if there is no room for both.
    fn push(&mut self, target: Arc<Target>, connection: C, now: Instant) -> Option<C> {
        let numbers = self.by_target.get(&target).filter(|numbers| numbers.len() >= MAX_PER_TARGET);
        let oldest = match numbers {
            Some(numbers) => numbers.front().copied(),
            None if self.idle.len() >= MAX_KEPT => self.idle.keys().next().copied(),
            None => None,
        };
        let replaced = oldest.and_then(|number| self.remove(number));
        self.by_target.entry(Arc::clone(&target)).or_default().push_back(self.next);
        self.idle.insert(self.next, Idle { target, connection, since: now });
        self.next += 1;
        replaced
    }

    /// Removes the connection to `target` that was added last.
    fn pop(&mut self, target: &Target) -> Option<C> {
        let number = *self.by_target.get(target)?.back()?;
        self.remove(number)
    }

    /// Removes the connections that have been here for too long.
    fn expired(&mut self, now: Instant) -> Vec<C> {
        let mut expired = Vec::new();
        while let Some((&number, idle)) = self.idle.first_key_value()
            && now.duration_since(idle.since) >= IDLE_LIMIT
        {
            expired.extend(self.remove(number));
        }
        expired
    }

    /// Removes the first or the last connection of its target.
    fn remove(&mut self, number: u64) -> Option<C> {
        let Idle { target, connection, .. } = self.idle.remove(&number)?;
        if let Entry::Occupied(mut numbers) = self.by_target.entry(target) {
            let place = numbers.get().binary_search(&number);
            let _ = place.map(|place| numbers.get_mut().remove(place));
            if numbers.get().is_empty() {
                numbers.remove();
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
    fn kept(connections: impl IntoIterator<Item = (usize, usize)>, now: Instant) -> Kept<usize> {
        let mut kept = Kept::default();
        for (number, connection) in connections {
            kept.push(target(number), connection, now);
        }
        kept
    }

    #[test]
    fn connection_used_last_is_returned_first_and_once() {
        let mut kept = kept([(1, 10), (2, 20), (1, 11), (1, 12)], Instant::now());
        assert_eq!([(); 4].map(|()| kept.pop(&target(1))), [Some(12), Some(11), Some(10), None]);
        assert_eq!(
            (kept.pop(&target(3)), kept.pop(&target(2)), kept.pop(&target(2))),
            (None, Some(20), None)
        );
        assert!(kept.idle.is_empty() && kept.by_target.is_empty());
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
        assert_eq!(kept.by_target[&target(1)].len(), MAX_PER_TARGET);
        assert_eq!((kept.pop(&target(1)), kept.pop(&target(2))), (Some(MAX_PER_TARGET + 1), Some(0)));
    }

    #[test]
    fn ten_thousand_receivers_replace_the_oldest_connections() {
        let mut kept = kept((0..10_000).map(|number| (number, number)), Instant::now());
        assert_eq!((kept.idle.len(), kept.by_target.len()), (MAX_KEPT, MAX_KEPT));
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
        assert_eq!(kept.expired(start + IDLE_LIMIT), [10, 20]);
        assert_eq!((kept.idle.len(), kept.by_target.len()), (1, 1));
        assert_eq!(kept.expired(start + Duration::from_millis(1_501)), [11]);
        assert!(kept.idle.is_empty() && kept.by_target.is_empty());
    }
}
