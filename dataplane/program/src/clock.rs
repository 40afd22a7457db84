//! The clock: everything that needs the time takes it as an argument. Only this file reads the system's clock.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

/// A clock: returns the time, and waits.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A clock that only a test moves.
    Manual(ManualClock),
}

impl Clock {
    /// The time in UTC.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => system_now(),
            Self::Manual(clock) => *clock.time.borrow(),
        }
    }

    /// Milliseconds since 1970 in UTC, as the database stores it.
    pub fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }

    /// The time since some moment in the past. It is monotonic: setting the machine's clock does not change it.
    pub fn elapsed(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        match self {
            Self::System => START.elapsed(),
            Self::Manual(_) => duration(self.now_ms()),
        }
    }

    /// Waits for a duration on this clock.
    pub async fn sleep(&self, time: Duration) {
        self.sleep_until_ms(self.now_ms().saturating_add(millis(time))).await;
    }

    /// Waits until this clock's time is `at_ms` (milliseconds since 1970) or later.
    pub async fn sleep_until_ms(&self, at_ms: i64) {
        match self {
            Self::System => {
                let left = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
            Self::Manual(clock) => {
                let mut time = clock.time.subscribe();
                // The sender lives as long as `clock`, so this returns only when the time has come.
                let _ = time.wait_for(|now| now.as_millisecond() >= at_ms).await;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
fn system_now() -> Timestamp {
    Timestamp::now()
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub struct ManualClock {
    time: Arc<watch::Sender<Timestamp>>,
}

impl ManualClock {
    /// A clock whose time is `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { time: Arc::new(watch::Sender::new(start)) }
    }

    /// Moves the clock forward. Tasks that sleep until the new time or earlier wake up.
    pub fn advance(&self, by: Duration) {
        self.time.send_modify(|now| *now += by);
    }
}

/// A duration in milliseconds, as the database stores it.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A duration in whole seconds, rounded up, as the header `Retry-After` has it.
pub fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// The duration of this number of milliseconds; zero if the number is negative.
pub fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the future is done within this time.
    async fn is_done(within: Duration, future: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(within, future).await.is_ok()
    }

    #[tokio::test]
    async fn clock_of_a_test_stands_still_until_it_is_moved() {
        let manual = ManualClock::new(Timestamp::UNIX_EPOCH + Duration::from_secs(10));
        let clock = Clock::Manual(manual.clone());
        let read = || (clock.now().as_millisecond(), clock.now_ms(), clock.elapsed());
        assert_eq!(read(), (10_000, 10_000, Duration::from_secs(10)));
        let mut sleep = std::pin::pin!(clock.sleep(Duration::from_millis(500)));
        assert!(!is_done(Duration::ZERO, &mut sleep).await);
        manual.advance(Duration::from_millis(499));
        assert!(!is_done(Duration::ZERO, &mut sleep).await);
        manual.advance(Duration::from_millis(1));
        assert!(is_done(Duration::from_secs(10), sleep).await, "its time has come");
        assert_eq!(read(), (10_500, 10_500, Duration::from_millis(10_500)));
        assert!(is_done(Duration::from_secs(10), clock.sleep_until_ms(10_500)).await, "now");
    }

    #[tokio::test]
    async fn clock_of_the_machine_runs() {
        let clock = Clock::System;
        let (real, shown, begun) = (system_now(), clock.now(), clock.elapsed());
        // Later than 2020: the clock is no constant.
        assert!(
            real.as_second() > 1_577_836_800 && shown >= real && clock.now_ms() >= shown.as_millisecond()
        );
        clock.sleep(Duration::from_millis(20)).await;
        assert!(clock.now_ms() >= shown.as_millisecond() + 20 && clock.elapsed() > begun);
        assert!(is_done(Duration::from_secs(10), clock.sleep_until_ms(0)).await, "it is past");
    }

    #[test]
    fn seconds_are_rounded_up_and_no_duration_is_negative() {
        for (micros, seconds) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(whole_seconds(Duration::from_micros(micros)), seconds, "{micros}");
        }
        assert_eq!([-1, 0, 1_500].map(duration), [0, 0, 1_500].map(Duration::from_millis));
        assert_eq!([Duration::from_micros(1_999), Duration::MAX].map(millis), [1, i64::MAX]);
    }
}
