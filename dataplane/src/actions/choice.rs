//! Which dead letters of a webhook are resent or set aside.

use docket_crds::{EventCode, webhook_key};
use docket_store::resends::DeadFilter;
use jiff::Timestamp;

/// A choice among the dead letters of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The webhook: `namespace/name`, its key, or the uid of its object.
    pub webhook: String,
    /// Only deliveries of this event.
    pub event: Option<EventCode>,
    /// Only deliveries created at or after this time.
    pub from_ms: Option<i64>,
    /// Only deliveries created before this time.
    pub to_ms: Option<i64>,
    /// Only deliveries that ended before this time: a choice leaves out deliveries that the user has not seen.
    pub ended_before_ms: Option<i64>,
    /// The largest number of deliveries to choose, the oldest first: 1 to [`MAX_COUNT`](docket_domain::resend::MAX_COUNT).
    pub limit: i64,
}

impl Choice {
    /// The choice of a request: by webhook, event, the times `from`, `to` and `endedBefore`, and limit.
    pub fn new(webhook: String, event: Option<EventCode>, times: [Option<Timestamp>; 3], limit: i64) -> Self {
        let [from_ms, to_ms, ended_before_ms] = times.map(|time| time.map(Timestamp::as_millisecond));
        Self { webhook, event, from_ms, to_ms, ended_before_ms, limit }
    }

    /// The choice without deliveries that end from now on, as a user sees it now.
    pub fn as_of(&self, now: Timestamp) -> Self {
        let ended_before_ms = self.ended_before_ms.or(Some(now.as_millisecond()));
        Self { ended_before_ms, ..self.clone() }
    }

    /// The filter of the store for this choice, once the webhook is known: among dead letters that are set aside, or among those
    /// that count.
    pub(super) fn filter(&self, webhook_name: &str, customer_code: String, set_aside: bool) -> DeadFilter {
        DeadFilter {
            webhook: webhook_key::of(webhook_name, &customer_code),
            customer_code: Some(customer_code),
            event_codes: self.event.map(|code| vec![code]),
            from_ms: self.from_ms,
            to_ms: self.to_ms,
            ended_before_ms: self.ended_before_ms,
            limit: self.limit,
            set_aside,
            sendable: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_leaves_out_what_ended_since_the_user_saw_it() {
        let at = |second| Timestamp::from_second(second).ok();
        let seen = |ended_before| {
            let choice = Choice::new("a/b".to_owned(), None, [at(1), at(2), ended_before], 9);
            assert_eq!((choice.from_ms, choice.to_ms), (Some(1_000), Some(2_000)));
            choice.as_of(Timestamp::UNIX_EPOCH).ended_before_ms
        };
        assert_eq!((seen(at(7)), seen(None)), (Some(7_000), Some(0)));
    }
}
