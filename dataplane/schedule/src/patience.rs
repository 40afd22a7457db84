//! How long a caller waits for the schedule, which may hang.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

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
}

impl Patience {
    /// Claims entries of deliveries that are about to be committed ([`Schedule::hand_off`]), or has them wait for one `lease`. If the
    /// schedule does not respond, it claims none, and the rows are scheduled after their commit, which logs it if that fails too.
    pub async fn hand_off(
        &self,
        schedule: &impl Schedule,
        mut entries: Vec<Entry>,
        room: Room,
        lease: Duration,
    ) -> HandOffs {
        entries.truncate(MOST_ENTRIES);
        self.ask(schedule.hand_off(entries, room, lease)).await.unwrap_or_default()
    }

    /// Waits for the call, at most half a second. `None`: it failed, did not respond in time, or no call responds at present.
    async fn ask<T>(&self, call: impl Future<Output = Result<T, ScheduleError>>) -> Option<T> {
        {
            let mut rest = self.lock();
            if let Some(until) = *rest {
                let now = Instant::now();
                if now < until {
                    return None;
                }
                *rest = Some(now + TIMEOUT);
            }
        }
        let response = timeout(TIMEOUT, call).await;
        *self.lock() = response.is_err().then(|| Instant::now() + REST);
        response.ok().and_then(Result::ok)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn while_the_schedule_hangs_one_caller_waits_in_a_while() {
        let patience = Patience::default();
        let hangs = || pending::<Result<(), ScheduleError>>();
        let began = Instant::now();
        let took = || began.elapsed().as_millis();
        assert_eq!(patience.ask(ready(Ok(1))).await, Some(1));
        assert_eq!(patience.ask(hangs()).await, None);
        assert_eq!(took(), 500);
        assert_eq!(patience.ask(ready(Ok(1))).await, None, "no caller asks it");
        tokio::time::advance(REST).await;
        let (one, other) = tokio::join!(patience.ask(hangs()), patience.ask(ready(Ok(1))));
        assert_eq!((one, other, took()), (None, None, 2_000), "one asks");
        tokio::time::advance(REST).await;
        assert_eq!(patience.ask(ready(Ok(1))).await, Some(1));
        assert_eq!(patience.ask(ready(Ok(2))).await, Some(2));
        let refused = || ready(Err::<(), _>(ScheduleError("refused".into())));
        assert_eq!(patience.ask(refused()).await, None);
        assert_eq!(patience.ask(ready(Ok(3))).await, Some(3), "a failure takes no time");
    }
}
