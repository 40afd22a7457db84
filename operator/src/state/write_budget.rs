//! How many writes to the API server no user waits for.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many writes a second leave room for passes that no user's change caused.
pub const WRITES_PER_SECOND: u32 = 100;
/// How far the writes of users' changes hold those passes back, and how many of them may follow a quiet time at once.
const SLACK: Duration = Duration::from_secs(1);

/// What is left for passes that no user's change caused: after a failover, a resync, news of pods and of deliveries. All
/// writes are counted; those of users' changes never wait.
#[derive(Debug, Default)]
pub struct WriteBudget(Mutex<Option<Instant>>);

impl WriteBudget {
    /// A write is sent.
    pub fn spend(&self, now: Instant) {
        let mut next = self.0.lock();
        // A clock that starts within the slack of its own beginning has no earlier time.
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let from = next.map_or(earliest, |next| next.clamp(earliest, now + SLACK));
        *next = Some(from + Duration::from_secs(1) / WRITES_PER_SECOND);
    }

    /// When such a pass may begin; `None`: now.
    pub fn closed_until(&self, now: Instant) -> Option<Instant> {
        self.0.lock().filter(|next| *next > now)
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
