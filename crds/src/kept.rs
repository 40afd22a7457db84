//! How long the operator and a folder keep what belongs to a webhook that is not declared any more.
//!
//! A webhook that is declared again takes over its queued deliveries. So its generated signing secret, which its receiver has,
//! must stay at least as long as these deliveries wait. Times are in seconds since 1970, and come in as arguments.

use std::time::Duration;

/// How much longer than the grace of removed webhooks. Deliveries may wait longer than the grace, because it begins when a worker
/// finds the webhook missing, and again after a time without workers. Dead letters are resent with the same secret.
pub const LONGER: Duration = Duration::from_secs(24 * 3600);

/// The most signing secrets of removed webhooks that are kept for a tenant; of more, the oldest end early. Users of a portal can add and
/// remove webhooks all day.
pub const MOST: usize = 100;

/// A clock that is set back by fewer seconds does not change a mark.
const CLOCK_ERROR: i64 = 3600;

/// Since when a webhook is not declared: what is to be stored now, where `marked` is stored. `counts`: whether it is not declared,
/// and its tenant is not suspended, because deliveries of a suspended tenant wait without a limit. The same arguments give the same
/// result, so nothing is stored again and again.
pub fn mark(marked: Option<i64>, counts: bool, now: i64) -> Option<i64> {
    let marked = marked.filter(|since| *since <= now.saturating_add(CLOCK_ERROR));
    counts.then(|| marked.unwrap_or(now))
}

/// When the time of a mark has passed: after the grace of removed webhooks and [`LONGER`].
pub fn end(since: i64, grace: Duration) -> i64 {
    let kept = grace.saturating_add(LONGER).as_secs();
    since.saturating_add(i64::try_from(kept).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    #[test]
    fn mark_stays_while_a_webhook_is_missing_and_begins_again_after_that() {
        assert_eq!(mark(None, true, NOW), Some(NOW));
        assert_eq!(mark(Some(NOW), true, NOW + 5), Some(NOW));
        assert_eq!(mark(Some(NOW), false, NOW + 5), None, "it is declared, or its tenant is suspended");
    }

    #[test]
    fn clock_that_is_set_back_a_little_keeps_the_mark_and_one_that_was_wrong_does_not() {
        assert_eq!(mark(Some(NOW), true, NOW - 60), Some(NOW));
        assert_eq!(mark(Some(NOW), true, NOW - 3600), Some(NOW));
        assert_eq!(mark(Some(NOW), true, NOW - 3601), Some(NOW - 3601));
        let wrong = NOW + 400 * 24 * 3600;
        assert_eq!(mark(Some(wrong), true, NOW), Some(NOW));
    }

    #[test]
    fn end_is_a_day_after_the_grace() {
        assert_eq!(end(NOW, Duration::from_secs(3600)), NOW + 25 * 3600);
        assert_eq!(end(NOW, Duration::MAX), i64::MAX);
    }
}
