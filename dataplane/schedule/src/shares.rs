//! The rules for how many places a webhook and a tenant have. `redis/queues.lua` has the same rules, and one contract suite
//! tests both.

use std::time::Duration;

use docket_program::clock::millis;

/// The longest quick attempt.
pub const QUICK: Duration = Duration::from_secs(1);
/// The longest slow attempt. Attempts between [`QUICK`] and this are slow, but their receiver works. A longer attempt is of a receiver that
/// can't be reached: looking up a name that no server knows takes four seconds, and connecting to a host that does not respond takes five.
pub const LONG: Duration = Duration::from_millis(3_500);
/// How long an entry has been due when it is a backlog, which new deliveries do not overtake. Entries that are due for a shorter time are
/// no backlog: after a burst of more deliveries than places, the next deliveries need not go through the queue.
pub const BACKLOG: Duration = Duration::from_millis(250);
/// The pause between two decreases of one webhook's share, so that a burst of timeouts decreases it once.
pub(crate) const DECREASE_EVERY: Duration = Duration::from_secs(1);

/// The limits of each webhook and each tenant, and of what the schedule remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// The limits of a webhook's share.
    pub per_webhook: ShareLimits,
    /// The limits of a tenant without [limits](crate::Schedule::limit) of its own.
    pub per_tenant: TenantShares,
    /// The largest number of webhooks that the schedule remembers. If there are more, it forgets one of them, whose share then begins
    /// again.
    pub known: usize,
}

/// The limits of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShares {
    /// The largest number of claims at a time.
    pub claims: usize,
    /// The largest number of entries. Each takes some 450 bytes in Redis. Further entries are left out until a sweep finds their rows, so
    /// that no tenant fills the schedule.
    pub entries: usize,
}

/// The limits of a webhook's share: the number of its claims at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// The share of a new webhook, and of a slow webhook.
    pub start: usize,
    /// The largest share of a quick webhook.
    pub most: usize,
    /// The smallest share of a webhook whose attempts are long. It is enough to notice that the receiver responds again.
    pub least: usize,
}

/// The limits in production. A quick webhook gets all places that its attempts can use, and a webhook that does not respond gets a small
/// part of a worker's slots. A tenant has twice as many places as one webhook, so that the other webhooks do not wait for one of them.
pub const SHARES: Shares = Shares {
    per_webhook: ShareLimits { start: 8, most: 256, least: 2 },
    per_tenant: TenantShares { claims: 512, entries: 100_000 },
    known: 100_000,
};

/// The number of shares that changed when claims ended or were renewed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareChanges {
    /// The number of shares that grew.
    pub grown: u64,
    /// The number of shares that shrank.
    pub shrunk: u64,
}

impl ShareChanges {
    /// Counts a share that was `before` and is `after`.
    pub(crate) fn count(&mut self, before: usize, after: usize) {
        self.grown += u64::from(after > before);
        self.shrunk += u64::from(after < before);
    }
}

/// What is known of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WebhookShare {
    /// The largest number of its claims at a time.
    pub(crate) share: usize,
    pub(crate) quick: bool,
    /// Whether all of its places have been in use at the same time since its share last changed.
    full: bool,
    /// When the share last decreased, in milliseconds since 1970; `None`: never.
    decreased_ms: Option<i64>,
}

impl WebhookShare {
    /// The share of a new webhook.
    pub(crate) fn unknown(limits: ShareLimits) -> Self {
        Self { share: limits.start, quick: false, full: false, decreased_ms: None }
    }

    /// Whether the share was reduced because attempts were not quick, and no attempt has been quick since.
    pub(crate) fn is_reduced(&self) -> bool {
        !self.quick && self.decreased_ms.is_some()
    }

    /// Counts the claim of an entry. `in_flight`: the number of claims, including this one.
    pub(crate) fn claimed(&mut self, in_flight: usize) {
        self.full |= in_flight >= self.share;
    }

    /// Learns that claims have ended together. `held`: how long the longest attempt took.
    pub(crate) fn ended(&mut self, held: Duration, now_ms: i64, limits: ShareLimits) {
        let ShareLimits { start, most, least } = limits;
        if held <= QUICK {
            self.quick = true;
            self.grow(most);
        } else if held <= LONG {
            self.grow(start);
            self.shrink(now_ms, start);
        } else {
            self.shrink(now_ms, least);
        }
    }

    /// Learns that an attempt takes longer than [`QUICK`]. How long it will take is not known yet.
    pub(crate) fn renewed(&mut self, now_ms: i64, limits: ShareLimits) {
        self.shrink(now_ms, limits.start);
    }

    /// Doubles the share up to `most`, if the webhook has used all of it.
    fn grow(&mut self, most: usize) {
        if self.full && self.share < most {
            self.change((self.share * 2).min(most));
        }
    }

    /// Halves the share, but not below `least`, because an attempt was not quick.
    fn shrink(&mut self, now_ms: i64, least: usize) {
        self.quick = false;
        let pause_ms = millis(DECREASE_EVERY).unsigned_abs();
        if self.share > least && self.decreased_ms.is_none_or(|at_ms| now_ms.abs_diff(at_ms) >= pause_ms) {
            self.change((self.share / 2).max(least));
            self.decreased_ms = Some(now_ms);
        }
    }

    fn change(&mut self, share: usize) {
        self.full &= share == self.share;
        self.share = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ShareLimits = SHARES.per_webhook;
    const MS: Duration = Duration::from_millis(1);

    /// The other tests and the contract suite use these by name, so a wrong unit or a missing digit would change the tests as well.
    #[test]
    fn numbers_of_production_are_the_documented_ones() {
        assert_eq!(
            [QUICK, LONG, BACKLOG, DECREASE_EVERY].map(|time| time.as_millis()),
            [1_000, 3_500, 250, 1_000]
        );
        let ShareLimits { start, most, least } = SHARES.per_webhook;
        assert_eq!((start, most, least), (8, 256, 2));
        let TenantShares { claims, entries } = SHARES.per_tenant;
        assert_eq!((claims, entries, SHARES.known), (512, 100_000, 100_000));
    }

    #[test]
    fn quick_webhook_with_a_full_share_doubles_it_up_to_the_most() {
        let mut pace = WebhookShare::unknown(LIMITS);
        let mut shares = Vec::new();
        for _ in 0..7 {
            pace.claimed(pace.share);
            pace.ended(QUICK, 0, LIMITS);
            shares.push(pace.share);
        }
        assert!(pace.quick);
        assert_eq!(shares, [16, 32, 64, 128, 256, 256, 256]);
    }

    #[test]
    fn share_that_was_not_full_since_its_last_change_stays() {
        let mut pace = WebhookShare::unknown(LIMITS);
        pace.claimed(7);
        pace.ended(QUICK, 0, LIMITS);
        assert_eq!((pace.share, pace.quick), (8, true));
        pace.claimed(8);
        pace.ended(QUICK, 0, LIMITS);
        pace.ended(QUICK, 0, LIMITS);
        assert_eq!(pace.share, 16);
    }

    #[test]
    fn long_claims_halve_the_share_once_a_second_down_to_the_least() {
        let mut pace = WebhookShare { share: 30, quick: true, full: true, decreased_ms: None };
        let mut shares = Vec::new();
        for now_ms in [0, 0, 999, 1_000, 2_000, 2_500, 3_000, 9_000] {
            pace.ended(LONG + MS, now_ms, LIMITS);
            assert!(!pace.quick);
            shares.push(pace.share);
        }
        assert_eq!(shares, [15, 15, 15, 7, 3, 3, 2, 2]);
    }

    #[test]
    fn slow_webhook_gets_the_places_of_an_unknown_one_from_either_side() {
        for held in [QUICK + MS, LONG] {
            let mut pace = WebhookShare { share: 30, quick: true, full: true, decreased_ms: None };
            let mut shares = Vec::new();
            for now_ms in [0, 1_000, 2_000] {
                pace.ended(held, now_ms, LIMITS);
                assert!(!pace.quick);
                shares.push(pace.share);
            }
            assert_eq!(shares, [15, 8, 8]);
            let mut pace = WebhookShare { share: 2, quick: false, full: false, decreased_ms: None };
            pace.ended(held, 0, LIMITS);
            assert_eq!(pace.share, 2, "it does not use what it has");
            for share in [4, 8, 8] {
                pace.claimed(pace.share);
                pace.ended(held, 0, LIMITS);
                assert_eq!((pace.share, pace.quick), (share, false));
            }
        }
    }

    #[test]
    fn webhook_that_recovers_grows_from_where_it_is() {
        let mut pace = WebhookShare { share: 4, quick: true, full: true, decreased_ms: None };
        pace.ended(LONG + MS, 0, LIMITS);
        pace.ended(QUICK, 1, LIMITS);
        // That the larger share was used up says nothing about the new one.
        assert_eq!((pace.share, pace.quick), (2, true));
        pace.claimed(2);
        pace.ended(QUICK, 2, LIMITS);
        assert_eq!(pace.share, 4);
    }

    #[test]
    fn share_is_halved_again_although_the_clock_was_set_back() {
        let mut pace = WebhookShare { share: 32, quick: true, full: true, decreased_ms: None };
        pace.ended(LONG + MS, 3_600_000, LIMITS);
        pace.ended(LONG + MS, 0, LIMITS);
        assert_eq!(pace.share, 8);
    }
}
