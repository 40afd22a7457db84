//! Counts the deliveries that are due and not claimed, over all tenants, for the metrics.

use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use docket_schedule::{Overdue, Schedule};

use crate::telemetry::Metrics;

/// How often to count.
const EVERY: Duration = Duration::from_secs(5);
/// How many calls a count makes at most. On Redis each call looks at 250 webhooks; with more webhooks, the next counts continue.
const MOST_CALLS: usize = 4;

/// A round through all webhooks that have entries in the schedule.
#[derive(Default)]
struct Round {
    /// Where the next call continues; empty: at the first webhook.
    after: String,
    /// What the calls so far have counted.
    so_far: Overdue,
}

impl Round {
    /// Adds a part. After the last one, returns what all webhooks have, and begins the next round.
    fn add(&mut self, Overdue { entries, held, longest, next }: Overdue) -> Option<Overdue> {
        self.so_far.entries += entries;
        self.so_far.held += held;
        self.so_far.longest = self.so_far.longest.max(longest);
        match next {
            Some(next) => {
                self.after = next;
                None
            }
            None => Some(std::mem::take(self).so_far),
        }
    }
}

/// Counts again and again. Never returns.
pub(in crate::delivery) async fn count(clock: Clock, schedule: Arc<Schedule>, metrics: Arc<Metrics>) {
    let mut round = Round::default();
    loop {
        for _ in 0..MOST_CALLS {
            let Ok(part) = schedule.overdue(&round.after).await else {
                // What was counted before the schedule was away may be wrong by now.
                round = Round::default();
                metrics.delivery.due(None);
                break;
            };
            if let Some(all) = round.add(part) {
                metrics.delivery.due(Some(&all));
                break;
            }
        }
        clock.sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(entries: usize, longest: Option<u64>, next: Option<&str>) -> Overdue {
        let longest = longest.map(Duration::from_secs);
        Overdue { entries, held: 10 * entries, longest, next: next.map(str::to_owned) }
    }

    #[test]
    fn a_round_ends_with_its_last_part() {
        let mut round = Round::default();
        assert_eq!(round.add(part(3, Some(40), Some("a"))), None);
        assert_eq!(round.after, "a");
        assert_eq!(round.add(part(0, None, Some("b"))), None);
        assert_eq!(round.add(part(4, Some(41), None)), Some(part(7, Some(41), None)));
        assert_eq!(round.after, "");
        assert_eq!(round.add(part(2, Some(9), None)), Some(part(2, Some(9), None)));
        assert_eq!(round.add(part(0, None, None)), Some(part(0, None, None)));
    }
}
