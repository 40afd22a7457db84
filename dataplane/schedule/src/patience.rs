//! How long a caller waits for the schedule, which may hang.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::missed::Missed;
use super::{Entry, HandOffs, Room, Schedule, ScheduleError};

/// How long a caller waits for the schedule.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);
/// How long no caller waits for a schedule that did not respond in time. Then one asks again.
const REST: Duration = Duration::from_secs(1);

/// The most entries of one call: some 50 ms of Redis. More are left out, and scheduled after their commit.
const MOST_ENTRIES: usize = 2_500;

/// What callers share that need an answer soon or none: while the schedule hangs, one of them waits, and the others do without it. A save
/// holds a connection to its database meanwhile, so that saves of some tenants would keep all connections from the others.
#[derive(Debug, Default)]
pub struct Patience {
    /// Until when no caller asks; `None`: the last one got a response.
    rest: Mutex<Option<Instant>>,
    missed: Arc<Missed>,
}

impl Patience {
    /// Counts there what the schedule misses.
    pub fn counted(missed: Arc<Missed>) -> Self {
        Self { rest: Mutex::default(), missed }
    }

    /// Claims entries of deliveries that are about to be committed ([`Schedule::hand_off`]), or has them wait for one `lease`. If the
    /// schedule does not respond, it claims none, and the rows are scheduled after their commit, which logs it if that fails too.
    pub async fn hand_off(
        &self,
        schedule: &Schedule,
        mut entries: Vec<Entry>,
        room: Room,
        lease: Duration,
    ) -> HandOffs {
        let count = entries.len();
        entries.truncate(MOST_ENTRIES);
        let asked = entries.len();
        let handed_off = self.ask(schedule.hand_off(entries, room, lease)).await;
        let announced = if handed_off.is_some() { asked } else { 0 };
        self.missed.announce_none_of(count - announced);
        handed_off.unwrap_or_default()
    }

    /// Waits for the call, at most half a second. `None`: it failed, did not respond in time, or no call responds at present.
    async fn ask<T>(&self, call: impl Future<Output = Result<T, ScheduleError>>) -> Option<T> {
        {
            let mut rest = self.rest.lock();
            if let Some(until) = *rest {
                let now = Instant::now();
                if now < until {
                    return None;
                }
                *rest = Some(now + TIMEOUT);
            }
        }
        let response = timeout(TIMEOUT, call).await;
        let rest = response.is_err().then(|| Instant::now() + REST);
        *self.rest.lock() = rest;
        self.missed.leave_alone(rest);
        response.ok().and_then(Result::ok)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use docket_domain::delivery::DeliveryId;
    use docket_program::clock::Clock;
    use jiff::Timestamp;

    use super::*;
    use crate::SHARES;

    #[tokio::test(start_paused = true)]
    async fn while_the_schedule_hangs_one_caller_waits_in_a_while() {
        let patience = Patience::default();
        let hangs = || pending::<Result<(), ScheduleError>>();
        let began = Instant::now();
        let took = || began.elapsed().as_millis();
        assert_eq!(patience.ask(ready(Ok(1))).await, Some(1));
        assert_eq!(patience.ask(hangs()).await, None);
        assert_eq!(took(), 500);
        assert!(patience.missed.is_left_alone());
        assert_eq!(patience.ask(ready(Ok(1))).await, None, "no caller asks it");
        tokio::time::advance(REST).await;
        assert!(!patience.missed.is_left_alone(), "the next caller asks");
        let (one, other) = tokio::join!(patience.ask(hangs()), patience.ask(ready(Ok(1))));
        assert_eq!((one, other, took()), (None, None, 2_000), "one asks");
        tokio::time::advance(REST).await;
        assert_eq!(patience.ask(ready(Ok(1))).await, Some(1));
        assert_eq!(patience.ask(ready(Ok(2))).await, Some(2));
        assert!(!patience.missed.is_left_alone());
        let refused = || ready(Err::<(), _>(ScheduleError("refused".into())));
        assert_eq!(patience.ask(refused()).await, None);
        assert_eq!(patience.ask(ready(Ok(3))).await, Some(3), "a failure takes no time");
    }

    #[tokio::test(start_paused = true)]
    async fn deliveries_that_are_not_announced_are_counted() {
        let missed = Arc::<Missed>::default();
        let patience = Patience::counted(Arc::clone(&missed));
        let schedule = Schedule::in_memory(Clock::System, SHARES);
        let entries = |count: usize| -> Vec<Entry> {
            let id = |number: usize| {
                let mut random = [0; 10];
                random[2..].copy_from_slice(&number.to_be_bytes());
                DeliveryId::new(Timestamp::UNIX_EPOCH, random)
            };
            (0..count).map(|n| Entry { tenant: "a".into(), webhook: "w".into(), id: id(n) }).collect()
        };
        let lease = Duration::from_secs(4);
        drop(patience.hand_off(&schedule, entries(2), Room::default(), lease).await);
        assert_eq!(missed.not_announced(), 0);
        drop(patience.hand_off(&schedule, entries(MOST_ENTRIES + 3), Room::default(), lease).await);
        assert_eq!(missed.not_announced(), 3, "too many of one call");
        assert_eq!(patience.ask(pending::<Result<(), ScheduleError>>()).await, None);
        drop(patience.hand_off(&schedule, entries(5), Room::default(), lease).await);
        assert_eq!(missed.not_announced(), 8, "the schedule is left alone");
    }
}
