//! How many places a webhook and a tenant have: pure rules, which `redis/queues.lua` has as well. One contract suite
//! proves both.

use std::time::Duration;

use docket_program::clock::millis;

/// An attempt that holds its place no longer than this is quick.
pub const QUICK: Duration = Duration::from_secs(1);
/// An attempt that holds its place for longer is long. One between the two is slow, but its receiver does its work: to look up a name that
/// no server knows takes four seconds, and to connect to a host that does not respond five.
pub const LONG: Duration = Duration::from_millis(3_500);
/// What has been due for so long is a backlog, which new deliveries do not overtake. Sooner it is none: a burst that had more deliveries
/// than places must not send everything that comes after it through the queue.
pub const BACKLOG: Duration = Duration::from_millis(250);
/// The pause between two decreases of one webhook's share: a burst of timeouts is one reason, not many.
pub(crate) const DECREASE_EVERY: Duration = Duration::from_secs(1);

/// How much of the work one tenant and one webhook may have at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Claims of one webhook at once.
    pub per_webhook: ShareLimits,
    /// What one tenant may have, unless it has [limits](crate::Schedule::limit) of its own.
    pub per_tenant: TenantShares,
    /// How many webhooks the schedule remembers. Over it an arbitrary one is unknown again, which costs nothing but the
    /// time to grow.
    pub known: usize,
}

/// What one tenant may have in the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShares {
    /// Claims at once.
    pub claims: usize,
    /// Entries, of some 450 bytes each in Redis. More are left out until a sweep finds their rows, so that no tenant fills the
    /// schedule, however many of its deliveries wait.
    pub entries: usize,
}

/// The limits of a webhook's share, which follows how its endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// Of a webhook of which nothing is known, and of one that answers slowly.
    pub start: usize,
    /// Of one that answers quickly.
    pub most: usize,
    /// Of one whose attempts are long: enough to notice that it answers again.
    pub least: usize,
}

/// A quick endpoint gets all the places that its attempts can use, and a dead one a small part of a worker's slots. A
/// tenant has twice the places of its busiest webhook, so that one webhook never keeps the others waiting.
pub const SHARES: Shares = Shares {
    per_webhook: ShareLimits { start: 8, most: 256, least: 2 },
    per_tenant: TenantShares { claims: 512, entries: 100_000 },
    known: 100_000,
};

/// How many times webhooks got more or fewer places when claims ended or were renewed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareChanges {
    /// How many shares grew.
    pub grown: u64,
    /// How many shares shrank.
    pub shrunk: u64,
}

impl ShareChanges {
    /// Counts a webhook that had `before` places and has `after`.
    pub(crate) fn count(&mut self, before: usize, after: usize) {
        self.grown += u64::from(after > before);
        self.shrunk += u64::from(after < before);
    }
}

/// What is known of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WebhookShare {
    /// How many of its entries may be claimed at once.
    pub(crate) share: usize,
    /// Whether its endpoint answers quickly.
    pub(crate) quick: bool,
    /// Whether all its places were in use at once since the share changed last.
    full: bool,
    /// When the share decreased last.
    decreased_ms: Option<i64>,
}

impl WebhookShare {
    /// Of a webhook of which nothing is known.
    pub(crate) fn unknown(limits: ShareLimits) -> Self {
        Self { share: limits.start, quick: false, full: false, decreased_ms: None }
    }

    /// Whether the share was reduced because attempts were not quick, and they are not quick again.
    pub(crate) fn is_reduced(&self) -> bool {
        !self.quick && self.decreased_ms.is_some()
    }

    /// An entry was claimed: now so many are.
    pub(crate) fn claimed(&mut self, in_flight: usize) {
        self.full |= in_flight >= self.share;
    }

    /// The longest of the claims that ended together held its place for `held`.
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

    /// A claim holds its place longer than [`QUICK`]. How long it will take is not known yet.
    pub(crate) fn renewed(&mut self, now_ms: i64, limits: ShareLimits) {
        self.shrink(now_ms, limits.start);
    }

    fn grow(&mut self, most: usize) {
        if self.full && self.share < most {
            self.change((self.share * 2).min(most));
        }
    }

    /// An attempt was not quick.
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
        // The places that were full before the decrease say nothing about those of now.
        assert_eq!((pace.share, pace.quick), (2, true));
        pace.claimed(2);
        pace.ended(QUICK, 2, LIMITS);
        assert_eq!(pace.share, 4);
    }
}
