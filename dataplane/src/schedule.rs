//! The port "what is due": an index of time over the deliveries, which can be thrown away and rebuilt.
//!
//! The tenant's database decides whether an attempt may be made; a schedule only says when to look, and in which
//! order, so that no tenant and no webhook can keep the others waiting. An entry is claimed by moving it into the
//! future, never by taking it out: if its worker dies, it falls due again by itself.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;

pub mod live;
pub mod memory;

/// A delivery in the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tenant's uid.
    pub tenant: Arc<str>,
    /// The webhook's uid.
    pub webhook: Arc<str>,
    /// The delivery.
    pub id: DeliveryId,
}

/// When to look at a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The delivery.
    pub entry: Entry,
    /// How long from now; zero: at once.
    pub wait: Duration,
}

/// An entry that is this worker's for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What was claimed.
    pub entry: Entry,
    /// Fences a late worker off: only the claim that holds the entry may settle it.
    pub fence: u64,
}

/// How much of the work one tenant and one webhook may have at a time.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// Attempts to one webhook at once: a dead endpoint holds no more than these for a whole timeout.
    pub per_webhook: usize,
    /// Attempts of one tenant at once.
    pub per_tenant: usize,
}

/// Enough for a fast endpoint to be served at full speed, and a small part of a worker's slots.
pub const SHARES: Shares = Shares { per_webhook: 32, per_tenant: 256 };

/// The index could not be reached. Nothing is lost: the rows are the truth, and a sweep finds them.
#[derive(Debug, thiserror::Error)]
#[error("the schedule is not available: {0}")]
pub struct ScheduleError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What is due, and whose turn it is. Every implementation passes the contract suite at the foot of this file.
///
/// A schedule has a clock of its own, so callers say how long to wait, never until when: the database's clock, the
/// schedule's and the process's need not agree.
pub trait Schedule: Send + Sync + 'static {
    /// Adds entries, or moves them to another time; an entry that is claimed stays as it is.
    fn put(&self, hints: Vec<Hint>) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Up to `limit` due entries, taken in turn from the tenants and from each tenant's webhooks, within their shares.
    /// They fall due again after `lease`.
    fn claim(
        &self,
        limit: usize,
        lease: Duration,
    ) -> impl Future<Output = Result<Vec<Claim>, ScheduleError>> + Send;

    /// Keeps claims for `lease` from now. One that was lost meanwhile stays lost.
    fn renew(
        &self,
        claims: &[Claim],
        lease: Duration,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Ends claims: each entry goes, or is due again after so long. A lost claim changes nothing.
    fn settle(
        &self,
        ended: Vec<(Claim, Option<Duration>)>,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// How long until the next entry that a claim could get falls due; zero: it is due; `None`: there is none.
    fn next_due(&self) -> impl Future<Output = Result<Option<Duration>, ScheduleError>> + Send;

    /// Returns after entries were added or claims ended since the last call of this; may return early.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Returns when entries may have been lost, so that a sweep has to tell them again.
    fn lost(&self) -> impl Future<Output = ()> + Send;

    /// Says that a sweep has told all there is, after [`lost`](Self::lost).
    fn rebuilt(&self) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Whether this process may sweep now: of all that share a schedule, one in each interval.
    fn sweep_turn(&self, every: Duration) -> impl Future<Output = Result<bool, ScheduleError>> + Send;
}

/// What every schedule must do.
#[cfg(test)]
pub(crate) mod contract {
    use super::*;
    use jiff::Timestamp;

    /// The shares that the suite is written for.
    pub(crate) const SHARES: Shares = Shares { per_webhook: 2, per_tenant: 3 };
    /// How long the suite's claims last.
    const LEASE: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::ZERO;

    /// A schedule, empty, whose time the suite moves.
    pub(crate) trait Rig {
        type Schedule: Schedule;
        fn schedule(&self) -> &Self::Schedule;
        async fn advance(&self, time: Duration);
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn id(number: u8) -> DeliveryId {
        DeliveryId::new(Timestamp::UNIX_EPOCH, [number; 10])
    }

    fn hint(tenant: &str, webhook: &str, number: u8, wait: Duration) -> Hint {
        Hint { entry: Entry { tenant: tenant.into(), webhook: webhook.into(), id: id(number) }, wait }
    }

    async fn put(rig: &impl Rig, hints: impl IntoIterator<Item = Hint>) {
        rig.schedule().put(hints.into_iter().collect()).await.expect("puts");
    }

    async fn claimed(rig: &impl Rig, limit: usize) -> Vec<Claim> {
        rig.schedule().claim(limit, LEASE).await.expect("claims")
    }

    async fn ids(rig: &impl Rig, limit: usize) -> Vec<DeliveryId> {
        claimed(rig, limit).await.into_iter().map(|claim| claim.entry.id).collect()
    }

    async fn settle(rig: &impl Rig, claim: &Claim, next: Option<Duration>) {
        rig.schedule().settle(vec![(claim.clone(), next)]).await.expect("settles");
    }

    async fn next_due(rig: &impl Rig) -> Option<Duration> {
        rig.schedule().next_due().await.expect("a time")
    }

    pub(crate) async fn due_entries_are_claimed_once_in_order_of_time(rig: impl Rig) {
        let hints = [(2, seconds(20)), (1, seconds(10)), (3, seconds(99))];
        put(&rig, hints.map(|(number, wait)| hint("a", "w", number, wait))).await;
        assert_eq!(ids(&rig, 9).await, []);
        let wait = next_due(&rig).await.expect("something is to come");
        assert!(wait <= seconds(10) && wait > seconds(5), "{wait:?}");
        rig.advance(seconds(20)).await;
        assert_eq!(next_due(&rig).await, Some(NOW));
        assert_eq!(ids(&rig, 9).await, [id(1), id(2)]);
        assert_eq!(ids(&rig, 9).await, []);
    }

    pub(crate) async fn a_claim_takes_no_more_than_its_limit(rig: impl Rig) {
        put(&rig, (0..5).map(|n| hint("a", &format!("w{n}"), n, NOW))).await;
        assert_eq!(ids(&rig, 2).await.len(), 2);
    }

    pub(crate) async fn an_entry_falls_due_again_when_its_claim_runs_out(rig: impl Rig) {
        put(&rig, [hint("a", "w", 1, NOW)]).await;
        let first = claimed(&rig, 9).await;
        assert_eq!(ids(&rig, 9).await, []);
        rig.advance(LEASE).await;
        let second = claimed(&rig, 9).await;
        assert_eq!(second.len(), 1);
        // The late worker's end of the first claim changes nothing.
        settle(&rig, &first[0], None).await;
        rig.advance(LEASE).await;
        assert_eq!(ids(&rig, 9).await, [id(1)]);
    }

    pub(crate) async fn a_renewed_claim_is_kept(rig: impl Rig) {
        put(&rig, [hint("a", "w", 1, NOW)]).await;
        let claims = claimed(&rig, 9).await;
        rig.schedule().renew(&claims, seconds(10)).await.expect("renews");
        rig.advance(seconds(5)).await;
        assert_eq!(ids(&rig, 9).await, []);
        rig.advance(seconds(5)).await;
        assert_eq!(ids(&rig, 9).await, [id(1)]);
    }

    pub(crate) async fn a_claim_that_was_lost_is_not_renewed(rig: impl Rig) {
        put(&rig, [hint("a", "w", 1, NOW)]).await;
        let first = claimed(&rig, 9).await;
        rig.advance(LEASE).await;
        assert_eq!(ids(&rig, 9).await, [id(1)]);
        rig.schedule().renew(&first, seconds(60)).await.expect("renews");
        rig.advance(LEASE).await;
        assert_eq!(ids(&rig, 9).await, [id(1)]);
    }

    pub(crate) async fn settling_ends_an_entry_or_sets_its_next_time(rig: impl Rig) {
        put(&rig, [hint("a", "w", 1, NOW), hint("a", "w", 2, NOW)]).await;
        let claims = claimed(&rig, 9).await;
        settle(&rig, &claims[0], None).await;
        settle(&rig, &claims[1], Some(seconds(60))).await;
        rig.advance(seconds(30)).await;
        assert_eq!(ids(&rig, 9).await, []);
        rig.advance(seconds(30)).await;
        assert_eq!(ids(&rig, 9).await, [claims[1].entry.id]);
    }

    pub(crate) async fn putting_again_moves_an_entry_but_not_a_claimed_one(rig: impl Rig) {
        put(&rig, [hint("a", "w", 1, seconds(500))]).await;
        put(&rig, [hint("a", "w", 1, NOW)]).await;
        assert_eq!(claimed(&rig, 10).await.len(), 1);
        put(&rig, [hint("a", "w", 1, NOW)]).await;
        assert_eq!(ids(&rig, 20).await, []);
    }

    pub(crate) async fn one_webhook_gets_no_more_than_its_share(rig: impl Rig) {
        put(&rig, (0..9).map(|n| hint("a", "slow", n, NOW))).await;
        put(&rig, [hint("a", "fast", 9, NOW)]).await;
        let claims = claimed(&rig, 9).await;
        let slow = claims.iter().filter(|claim| &*claim.entry.webhook == "slow").count();
        assert_eq!((slow, claims.len()), (SHARES.per_webhook, 3));
        // Its rest waits for a claim to end, and is no reason to wake up before.
        assert_eq!(ids(&rig, 9).await, []);
        assert_ne!(next_due(&rig).await, Some(NOW));
        let ended = claims.iter().find(|claim| &*claim.entry.webhook == "slow").expect("claimed");
        settle(&rig, ended, None).await;
        assert_eq!(ids(&rig, 9).await.len(), 1);
    }

    pub(crate) async fn one_tenant_gets_no_more_than_its_share_and_its_turn(rig: impl Rig) {
        put(&rig, (0..100).map(|n| hint("flood", &format!("w{n}"), n, NOW))).await;
        put(&rig, [hint("calm", "w", 200, NOW)]).await;
        let turn = claimed(&rig, 2).await;
        let tenants: Vec<&str> = turn.iter().map(|claim| &*claim.entry.tenant).collect();
        assert!(tenants.contains(&"calm") && tenants.contains(&"flood"), "{tenants:?}");
        assert_eq!(ids(&rig, 50).await.len(), SHARES.per_tenant - 1);
    }

    pub(crate) async fn a_put_and_a_settled_claim_are_told(rig: impl Rig) {
        put(&rig, [hint("a", "w", 1, NOW)]).await;
        rig.schedule().changed().await;
        let claims = claimed(&rig, 9).await;
        settle(&rig, &claims[0], Some(seconds(7))).await;
        rig.schedule().changed().await;
    }
}
