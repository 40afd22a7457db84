//! The ids that were received before. Bounded: a receiver that runs for weeks must not grow.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

/// The number of ids that are remembered. The oldest is forgotten first.
const REMEMBERED: usize = 10_000;

/// Counts how often each of the last [`REMEMBERED`] different ids was received. It keeps 64-bit keyed hashes instead
/// of ids, because a sender chooses the length of an id. The chance that two of 10,000 ids have the same hash is
/// about 1 in 10^11.
#[derive(Debug, Default)]
pub(crate) struct IdCounts {
    hasher: RandomState,
    counts: HashMap<u64, u32>,
    oldest_first: VecDeque<u64>,
}

impl IdCounts {
    /// How often `id` was counted, with this time: 1 is the first.
    pub(crate) fn count(&mut self, id: impl Hash) -> u32 {
        let key = self.hasher.hash_one(id);
        if let Some(count) = self.counts.get_mut(&key) {
            *count = count.saturating_add(1);
            return *count;
        }
        if self.oldest_first.len() == REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.counts.remove(&oldest);
        }
        self.oldest_first.push_back(key);
        self.counts.insert(key, 1);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_forgets_the_oldest() {
        let mut seen = IdCounts::default();
        assert_eq!((seen.count("a"), seen.count("b"), seen.count("a")), (1, 1, 2));
        for other in 0..REMEMBERED - 1 {
            seen.count(other);
        }
        assert_eq!(seen.count("b"), 2, "the newest 10,000 are remembered");
        assert_eq!(seen.count("a"), 1, "the oldest was forgotten");
        assert_eq!((seen.counts.len(), seen.oldest_first.len()), (REMEMBERED, REMEMBERED));
    }
}
