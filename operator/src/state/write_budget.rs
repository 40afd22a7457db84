//! The budget of writes to the API server that no user waits for.

use std::time::Duration;

use docket_program::leaky_bucket::{LeakyBucket, Rate};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of writes per second. Passes that no user waits for may begin only while all writes stay below it.
pub const WRITES_PER_SECOND: u32 = 100;
/// How long the writes for users can hold back other passes at most. After a quiet time, other passes may send the
/// writes of this time together.
const SLACK: Duration = Duration::from_secs(1);
/// The bucket of all writes. Passes that no user waits for fill its first half only.
const RATE: Rate =
    Rate { every: Duration::from_millis(1_000 / WRITES_PER_SECOND as u64), burst: 2 * WRITES_PER_SECOND };

/// The budget for passes that no user's change caused: after a failover, a resync, or news of pods and deliveries.
/// All writes are counted, but writes for users' changes never wait.
#[derive(Debug, Default)]
pub struct WriteBudget(Mutex<Option<WritePeriod>>);

/// The time of the first write, and the writes since then.
#[derive(Debug, Clone, Copy)]
struct WritePeriod {
    at: Instant,
    writes: LeakyBucket,
}

impl WriteBudget {
    /// Records that a write is sent.
    pub fn spend(&self, now: Instant) {
        let mut begun = self.0.lock();
        let WritePeriod { at, writes } =
            begun.get_or_insert(WritePeriod { at: now, writes: LeakyBucket::default() });
        writes.add_up_to(RATE, now.saturating_duration_since(*at));
    }

    /// When a pass that no user waits for may begin; `None`: now.
    pub fn closed_until(&self, now: Instant) -> Option<Instant> {
        let WritePeriod { at, writes } = (*self.0.lock())?;
        let level = writes.level(now.saturating_duration_since(at));
        (level > SLACK).then(|| now + (level - SLACK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_no_user_waits_for_are_bounded_a_second() {
        let (budget, mut now, start) =
            (WriteBudget::default(), Instant::now() + SLACK, Instant::now() + SLACK);
        let mut writes = 0;
        while now < start + Duration::from_secs(60) {
            match budget.closed_until(now) {
                None => {
                    budget.spend(now);
                    writes += 1;
                }
                Some(open) => now = open,
            }
        }
        let most = WRITES_PER_SECOND * 61;
        assert!((most - WRITES_PER_SECOND..=most + 1).contains(&writes), "{writes} in a minute");
    }

    #[test]
    fn users_writes_hold_the_others_back_for_a_second_at_most() {
        let (budget, now) = (WriteBudget::default(), Instant::now() + SLACK);
        for _ in 0..100_000 {
            budget.spend(now);
        }
        let open = budget.closed_until(now).expect("it is spent");
        assert!(open <= now + SLACK + Duration::from_millis(10));
    }
}
