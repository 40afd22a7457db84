//! The port "what is due": an index of time over the deliveries, which can be thrown away and rebuilt.
//!
//! The tenant's database decides whether an attempt may be made; a schedule only says when to look, and in which
//! order, so that no tenant and no webhook can keep the others waiting. An entry is claimed by moving it into the
//! future, never by taking it out: if its worker dies, it falls due again by itself.

use std::future::Future;
use std::sync::Arc;

use docket_domain::delivery::DeliveryId;

pub mod memory;

/// When to look at a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The tenant's uid.
    pub tenant: Arc<str>,
    /// The webhook's uid.
    pub webhook: Arc<str>,
    /// The delivery.
    pub id: DeliveryId,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// An entry that is this worker's for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What was claimed.
    pub hint: Hint,
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
pub trait Schedule: Send + Sync + 'static {
    /// Adds entries, or moves them to another time; an entry that is claimed stays as it is.
    fn put(&self, hints: Vec<Hint>) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Up to `limit` due entries, taken in turn from the tenants and from each tenant's webhooks, within their shares.
    /// They fall due again at `until_ms`.
    fn claim(
        &self,
        now_ms: i64,
        limit: usize,
        until_ms: i64,
    ) -> impl Future<Output = Result<Vec<Claim>, ScheduleError>> + Send;

    /// Keeps claims for longer. One that was lost meanwhile stays lost.
    fn renew(
        &self,
        claims: &[Claim],
        until_ms: i64,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Ends a claim: the entry goes, or is due again at `next_ms`. A lost claim changes nothing.
    fn settle(
        &self,
        claim: &Claim,
        next_ms: Option<i64>,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// When the next entry that a claim could get falls due; `None`: there is none.
    fn next_due_ms(&self) -> impl Future<Output = Result<Option<i64>, ScheduleError>> + Send;

    /// Returns after entries were added or claims ended since the last call of this; may return early.
    fn changed(&self) -> impl Future<Output = ()> + Send;
}

/// What every schedule must do.
#[cfg(test)]
pub(crate) mod contract {
    use super::*;
    use jiff::Timestamp;

    /// The shares that the suite is written for.
    pub(crate) const SHARES: Shares = Shares { per_webhook: 2, per_tenant: 3 };

    fn id(number: u8) -> DeliveryId {
        DeliveryId::new(Timestamp::UNIX_EPOCH, [number; 10])
    }

    fn hint(tenant: &str, webhook: &str, number: u8, at_ms: i64) -> Hint {
        Hint { tenant: tenant.into(), webhook: webhook.into(), id: id(number), at_ms }
    }

    async fn claimed(schedule: &impl Schedule, now_ms: i64, limit: usize) -> Vec<Claim> {
        schedule.claim(now_ms, limit, now_ms + 1_000).await.expect("claims")
    }

    async fn ids(schedule: &impl Schedule, now_ms: i64, limit: usize) -> Vec<DeliveryId> {
        claimed(schedule, now_ms, limit).await.into_iter().map(|claim| claim.hint.id).collect()
    }

    pub(crate) async fn due_entries_are_claimed_once_in_order_of_time<S: Schedule>(schedule: S) {
        schedule
            .put(vec![hint("a", "w", 2, 20), hint("a", "w", 1, 10), hint("a", "w", 3, 99)])
            .await
            .expect("puts");
        assert_eq!(ids(&schedule, 5, 9).await, []);
        assert_eq!(schedule.next_due_ms().await.expect("a time"), Some(10));
        assert_eq!(ids(&schedule, 20, 9).await, [id(1), id(2)]);
        assert_eq!(ids(&schedule, 20, 9).await, []);
    }

    pub(crate) async fn a_claim_takes_no_more_than_its_limit<S: Schedule>(schedule: S) {
        schedule.put((0..5).map(|n| hint("a", &format!("w{n}"), n, 0)).collect()).await.expect("puts");
        assert_eq!(ids(&schedule, 0, 2).await.len(), 2);
    }

    pub(crate) async fn an_entry_falls_due_again_when_its_claim_runs_out<S: Schedule>(schedule: S) {
        schedule.put(vec![hint("a", "w", 1, 0)]).await.expect("puts");
        let first = claimed(&schedule, 0, 9).await;
        assert_eq!(ids(&schedule, 999, 9).await, []);
        let second = claimed(&schedule, 1_000, 9).await;
        assert_eq!(second.len(), 1);
        // The late worker's end of the first claim changes nothing.
        schedule.settle(&first[0], None).await.expect("settles");
        assert_eq!(ids(&schedule, 2_000, 9).await, [id(1)]);
    }

    pub(crate) async fn a_renewed_claim_is_kept<S: Schedule>(schedule: S) {
        schedule.put(vec![hint("a", "w", 1, 0)]).await.expect("puts");
        let claims = claimed(&schedule, 0, 9).await;
        schedule.renew(&claims, 5_000).await.expect("renews");
        assert_eq!(ids(&schedule, 4_999, 9).await, []);
        assert_eq!(ids(&schedule, 5_000, 9).await, [id(1)]);
    }

    pub(crate) async fn settling_ends_an_entry_or_sets_its_next_time<S: Schedule>(schedule: S) {
        schedule.put(vec![hint("a", "w", 1, 0), hint("a", "w", 2, 0)]).await.expect("puts");
        let claims = claimed(&schedule, 0, 9).await;
        schedule.settle(&claims[0], None).await.expect("settles");
        schedule.settle(&claims[1], Some(60)).await.expect("settles");
        assert_eq!(schedule.next_due_ms().await.expect("a time"), Some(60));
        assert_eq!(ids(&schedule, 60, 9).await, [id(2)]);
    }

    pub(crate) async fn putting_again_moves_an_entry_but_not_a_claimed_one<S: Schedule>(schedule: S) {
        schedule.put(vec![hint("a", "w", 1, 500)]).await.expect("puts");
        schedule.put(vec![hint("a", "w", 1, 10)]).await.expect("puts");
        let claims = claimed(&schedule, 10, 9).await;
        assert_eq!(claims.len(), 1);
        schedule.put(vec![hint("a", "w", 1, 10)]).await.expect("puts");
        assert_eq!(ids(&schedule, 20, 9).await, []);
    }

    pub(crate) async fn one_webhook_gets_no_more_than_its_share<S: Schedule>(schedule: S) {
        schedule.put((0..9).map(|n| hint("a", "slow", n, 0)).collect()).await.expect("puts");
        schedule.put(vec![hint("a", "fast", 9, 0)]).await.expect("puts");
        let claims = claimed(&schedule, 0, 9).await;
        let slow = claims.iter().filter(|claim| &*claim.hint.webhook == "slow").count();
        assert_eq!((slow, claims.len()), (SHARES.per_webhook, 3));
        // Its rest waits for a claim to end, and is no reason to wake up before.
        assert_eq!(ids(&schedule, 0, 9).await, []);
        assert_ne!(schedule.next_due_ms().await.expect("a time"), Some(0));
        let ended = claims.iter().find(|claim| &*claim.hint.webhook == "slow").expect("claimed");
        schedule.settle(ended, None).await.expect("settles");
        assert_eq!(ids(&schedule, 0, 9).await.len(), 1);
    }

    pub(crate) async fn one_tenant_gets_no_more_than_its_share_and_its_turn<S: Schedule>(schedule: S) {
        let flood = (0..100).map(|n| hint("flood", &format!("w{n}"), n, 0)).collect();
        schedule.put(flood).await.expect("puts");
        schedule.put(vec![hint("calm", "w", 200, 5)]).await.expect("puts");
        let turn = claimed(&schedule, 5, 2).await;
        let tenants: Vec<&str> = turn.iter().map(|claim| &*claim.hint.tenant).collect();
        assert!(tenants.contains(&"calm") && tenants.contains(&"flood"), "{tenants:?}");
        assert_eq!(ids(&schedule, 5, 50).await.len(), SHARES.per_tenant - 1);
    }

    pub(crate) async fn a_put_and_a_settled_claim_are_told<S: Schedule>(schedule: S) {
        schedule.put(vec![hint("a", "w", 1, 0)]).await.expect("puts");
        schedule.changed().await;
        let claims = claimed(&schedule, 0, 9).await;
        schedule.settle(&claims[0], Some(7)).await.expect("settles");
        schedule.changed().await;
    }
}
