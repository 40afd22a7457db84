//! A leaky bucket: limits how often something happens in the long run, and how often at once.
//!
//! Each event adds one unit to the bucket, and the bucket loses one unit in each interval. The state of a bucket is the time at
//! which it will be empty, so an empty bucket needs no memory. Callers pass the time since any moment in the past, such as
//! [`Clock::elapsed`](crate::clock::Clock::elapsed).
//!
//! ```
//! use std::time::Duration;
//!
//! use docket_program::leaky_bucket::{LeakyBucket, Rate};
//!
//! let rate = Rate { every: Duration::from_secs(1), burst: 2 };
//! let (mut bucket, now) = (LeakyBucket::default(), Duration::from_secs(60));
//! assert_eq!(bucket.try_add(rate, now), Ok(()));
//! assert_eq!(bucket.try_add(rate, now), Ok(()));
//! assert_eq!(bucket.try_add(rate, now), Err(Duration::from_secs(1)));
//! ```

use std::time::Duration;

/// How fast a bucket leaks, and how much fits into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time in which the bucket loses one unit. If it is zero, every unit fits.
    pub every: Duration,
    /// The number of units that fit into an empty bucket.
    pub burst: u32,
}

impl Rate {
    /// The level of a full bucket.
    pub fn full(self) -> Duration {
        self.every * self.burst
    }
}

/// A bucket. The default bucket is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeakyBucket {
    empty_at: Duration,
}

impl LeakyBucket {
    /// Adds a unit if it fits. Errors: the time until a unit fits.
    ///
    /// The bucket may hold more than fits at this rate: a slower rate filled it, or the time stepped back. Then the excess is lost.
    pub fn try_add(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        self.empty_at = self.empty_at.min(now + rate.full());
        let level = self.level(now) + rate.every;
        match level.checked_sub(rate.full()) {
            None | Some(Duration::ZERO) => {
                self.empty_at = now + level;
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }

    /// Adds a unit. If the unit does not fit, the bucket is full afterwards.
    pub fn add_up_to(&mut self, rate: Rate, now: Duration) {
        self.add(rate.every, now);
        self.empty_at = self.empty_at.min(now + rate.full());
    }

    /// Adds a unit to a bucket of any size.
    pub fn add(&mut self, every: Duration, now: Duration) {
        self.empty_at = self.empty_at.max(now) + every;
    }

    /// Removes a unit that was added.
    pub fn remove(&mut self, every: Duration) {
        self.empty_at = self.empty_at.saturating_sub(every);
    }

    /// The time until the bucket is empty.
    pub fn level(self, now: Duration) -> Duration {
        self.empty_at.saturating_sub(now)
    }

    /// The number of units in the bucket. A unit counts until all of it has leaked.
    pub fn count(self, every: Duration, now: Duration) -> u32 {
        let units = self.level(now).as_nanos().div_ceil(every.as_nanos().max(1));
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const THREE: Rate = Rate { every: SECOND, burst: 3 };
    const NOW: Duration = Duration::from_secs(1_000);

    /// How many units of a flood fit.
    fn fitting(bucket: &mut LeakyBucket, rate: Rate, now: Duration) -> usize {
        (0..100).take_while(|_| bucket.try_add(rate, now).is_ok()).count()
    }

    #[test]
    fn burst_fits_at_once_and_one_unit_in_each_interval_after_it() {
        let mut bucket = LeakyBucket::default();
        let counts = [0, 0, 1, 3].map(|seconds| fitting(&mut bucket, THREE, NOW + SECOND * seconds));
        assert_eq!(counts, [3, 0, 1, 2]);
    }

    #[test]
    fn unit_fits_exactly_when_the_wait_ends() {
        let mut bucket = LeakyBucket::default();
        assert_eq!(fitting(&mut bucket, THREE, NOW), 3);
        let (wait, tick) = (bucket.try_add(THREE, NOW).expect_err("full"), Duration::from_nanos(1));
        assert_eq!(wait, SECOND);
        assert_eq!(bucket.try_add(THREE, NOW + wait - tick), Err(tick));
        assert_eq!(bucket.try_add(THREE, NOW + wait), Ok(()));
        assert_eq!(bucket.level(NOW + wait), THREE.full());
    }

    #[test]
    fn no_more_than_the_burst_fits_after_a_long_pause() {
        let mut bucket = LeakyBucket::default();
        assert_eq!(fitting(&mut bucket, THREE, NOW), 3);
        assert_eq!(fitting(&mut bucket, THREE, NOW * 1_000), 3);
    }

    #[test]
    fn unit_waits_no_longer_after_the_time_stepped_back() {
        let mut bucket = LeakyBucket::default();
        assert_eq!(fitting(&mut bucket, THREE, NOW), 3);
        assert_eq!(bucket.try_add(THREE, NOW / 2), Err(SECOND));
        assert_eq!(bucket.try_add(THREE, NOW / 2 + SECOND), Ok(()));
    }

    #[test]
    fn raised_rate_counts_at_once() {
        let mut bucket = LeakyBucket::default();
        let slow = Rate { every: 60 * SECOND, burst: 100 };
        assert_eq!(fitting(&mut bucket, slow, NOW), 100);
        assert_eq!(bucket.try_add(THREE, NOW), Err(SECOND));
        assert_eq!(fitting(&mut bucket, THREE, NOW + 2 * SECOND), 2);
    }

    #[test]
    fn every_unit_fits_without_an_interval_and_none_without_a_burst() {
        let mut bucket = LeakyBucket::default();
        assert_eq!(fitting(&mut bucket, Rate { every: Duration::ZERO, burst: 1 }, NOW), 100);
        assert_eq!(bucket.count(Duration::ZERO, NOW), 0);
        assert_eq!(bucket.try_add(Rate { every: SECOND, burst: 0 }, NOW), Err(SECOND));
    }

    #[test]
    fn forced_unit_fills_the_bucket_at_most() {
        let mut bucket = LeakyBucket::default();
        let levels = [1, 2, 3, 3, 3].map(|level| {
            bucket.add_up_to(THREE, NOW);
            (bucket.level(NOW), SECOND * level)
        });
        assert!(levels.iter().all(|(level, expected)| level == expected), "{levels:?}");
        bucket.add(SECOND, NOW);
        assert_eq!(bucket.level(NOW), 4 * SECOND, "no size limits it");
    }

    #[test]
    fn unit_counts_until_it_has_leaked_or_is_removed() {
        let mut bucket = LeakyBucket::default();
        (0..4).for_each(|_| bucket.add(SECOND, NOW));
        let counts = [0, 1, 1_000, 1_001, 4_000, 9_000]
            .map(|millis| bucket.count(SECOND, NOW + Duration::from_millis(millis)));
        assert_eq!(counts, [4, 4, 3, 3, 0, 0]);
        bucket.remove(SECOND);
        assert_eq!(bucket.count(SECOND, NOW), 3);
        (0..4).for_each(|_| bucket.remove(SECOND));
        assert_eq!((bucket.count(SECOND, NOW), bucket.level(NOW)), (0, Duration::ZERO));
        bucket.add(SECOND, NOW);
        assert_eq!(bucket.count(SECOND, NOW), 1, "more was removed than was in it");
    }
}
