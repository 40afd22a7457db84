//! What every schedule must do. Each implementation runs these cases with its own [`Rig`].

use std::future::Future;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_schedule::{Claim, Entry, Hint, Schedule, Shares};
use jiff::Timestamp;

/// The shares that the suite is written for.
pub(crate) const SHARES: Shares = Shares { per_webhook: 2, per_tenant: 3 };
/// How long the suite's claims last.
const LEASE: Duration = Duration::from_secs(30);
const NOW: Duration = Duration::ZERO;

/// An empty schedule and its clock, which the suite advances.
pub(crate) trait Rig {
    type Schedule: Schedule;
    fn schedule(&self) -> &Self::Schedule;
    fn advance(&self, time: Duration) -> impl Future<Output = ()>;
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

pub(crate) async fn a_claim_that_was_lost_is_not_settled(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, NOW)]).await;
    let first = claimed(&rig, 9).await;
    rig.advance(LEASE).await;
    let second = claimed(&rig, 9).await;
    assert_ne!(first[0].fence, second[0].fence);
    settle(&rig, &first[0], Some(NOW)).await;
    assert_eq!(ids(&rig, 9).await, []);
    settle(&rig, &second[0], None).await;
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await, []);
    assert_eq!(next_due(&rig).await, None);
}

pub(crate) async fn what_is_put_back_gives_its_share_back(rig: impl Rig) {
    put(&rig, (0..9).map(|n| hint("a", &format!("w{}", n / 3), n, NOW))).await;
    for _ in 0..4 {
        let claims = claimed(&rig, 9).await;
        assert_eq!(claims.len(), SHARES.per_tenant);
        let ended = claims.into_iter().map(|claim| (claim, Some(NOW))).collect();
        rig.schedule().settle(ended).await.expect("settles");
    }
    assert_eq!(claimed(&rig, 9).await.len(), SHARES.per_tenant);
    rig.advance(LEASE).await;
    assert_eq!(claimed(&rig, 9).await.len(), SHARES.per_tenant);
}

pub(crate) async fn a_put_and_a_settled_claim_wake_a_waiter(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, NOW)]).await;
    rig.schedule().changed().await;
    let claims = claimed(&rig, 9).await;
    settle(&rig, &claims[0], Some(seconds(7))).await;
    rig.schedule().changed().await;
}

/// `contract_suite!(Rig::new())` makes a test of each case, each with a new rig.
macro_rules! contract_suite {
    ($rig:expr) => {
        $crate::contract::contract_suite! { $rig;
            due_entries_are_claimed_once_in_order_of_time,
            a_claim_takes_no_more_than_its_limit,
            an_entry_falls_due_again_when_its_claim_runs_out,
            a_renewed_claim_is_kept,
            a_claim_that_was_lost_is_not_renewed,
            a_claim_that_was_lost_is_not_settled,
            settling_ends_an_entry_or_sets_its_next_time,
            putting_again_moves_an_entry_but_not_a_claimed_one,
            one_webhook_gets_no_more_than_its_share,
            one_tenant_gets_no_more_than_its_share_and_its_turn,
            what_is_put_back_gives_its_share_back,
            a_put_and_a_settled_claim_wake_a_waiter,
        }
    };
    ($rig:expr; $($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            $crate::contract::$case($rig).await;
        }
    )*};
}
pub(crate) use contract_suite;
