//! What every schedule must do. Each implementation runs these cases with its own [`Rig`].

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use docket_domain::delivery::DeliveryId;
use docket_schedule::shares::{self, BACKLOG, QUICK};
use docket_schedule::{
    Claim, Ended, Entry, HandOffs, Hint, Overdue, Places, Room, Schedule, ShareChanges, ShareLimits, Shares,
    TenantShares, WebhookPlaces,
};
use jiff::Timestamp;

/// The shares of the cases about turns.
pub(crate) const SHARES: Shares = Shares {
    per_webhook: ShareLimits { start: 2, most: 2, least: 2 },
    per_tenant: TenantShares { claims: 3, entries: 1_000 },
    known: 10,
};
/// The shares of the cases about shares that change.
pub(crate) const CHANGING: Shares = Shares {
    per_webhook: ShareLimits { start: 4, most: 32, least: 3 },
    per_tenant: TenantShares { claims: 40, entries: 5_000 },
    known: 10,
};
/// A tenant may have few entries here, so that the limit matters.
pub(crate) const FEW: Shares = Shares {
    per_webhook: ShareLimits { start: 9, most: 9, least: 2 },
    per_tenant: TenantShares { claims: 9, entries: 5 },
    known: 10,
};
/// How long the suite's claims last.
const LEASE: Duration = Duration::from_secs(30);
const NOW: Duration = Duration::ZERO;
/// Longer than slow.
const LONG: Duration = shares::LONG.saturating_add(Duration::from_millis(1));
/// Room for everything.
const ANY: Room = Room { slots: 1_000, slow: 1_000, without_claim: 0 };

/// An empty schedule and its clock, which the suite advances.
pub(crate) trait Rig {
    fn schedule(&self) -> &Schedule;
    fn advance(&self, time: Duration) -> impl Future<Output = ()>;
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) fn id(number: u32) -> DeliveryId {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    DeliveryId::new(Timestamp::UNIX_EPOCH, random)
}

fn entry(tenant: &str, webhook: &str, number: u32) -> Entry {
    Entry { tenant: tenant.into(), webhook: webhook.into(), id: id(number) }
}

fn entries(tenant: &str, webhook: &str, numbers: Range<u32>) -> Vec<Entry> {
    numbers.map(|number| entry(tenant, webhook, number)).collect()
}

fn hint(tenant: &str, webhook: &str, number: u32, wait: Duration) -> Hint {
    Hint { entry: entry(tenant, webhook, number), wait }
}

async fn put(rig: &impl Rig, hints: impl IntoIterator<Item = Hint>) {
    let _ = rig.schedule().put(hints.into_iter().collect()).await.expect("puts");
}

async fn claimed(rig: &impl Rig, limit: usize) -> Vec<Claim> {
    rig.schedule().claim(Room { slots: limit, slow: limit, without_claim: 0 }, LEASE).await.expect("claims")
}

async fn ids(rig: &impl Rig, limit: usize) -> Vec<DeliveryId> {
    claimed(rig, limit).await.into_iter().map(|claim| claim.entry.id).collect()
}

async fn settle(rig: &impl Rig, claim: &Claim, next: Option<Duration>) {
    rig.schedule()
        .settle(vec![Ended { claim: claim.clone(), again: next, held: None }])
        .await
        .expect("settles");
}

/// Ends claims together, after attempts of this length.
async fn end(rig: &impl Rig, claims: Vec<Claim>, held: Duration) {
    let ended = claims.into_iter().map(|claim| Ended { claim, again: None, held: Some(held) });
    rig.schedule().settle(ended.collect()).await.expect("settles");
}

async fn hand_off(rig: &impl Rig, entries: Vec<Entry>, room: Room) -> Vec<Claim> {
    rig.schedule().hand_off(entries, room, LEASE).await.expect("hands off").claims
}

/// Ends claims without an attempt.
async fn forget(rig: &impl Rig, claims: Vec<Claim>) {
    let ended = claims.into_iter().map(|claim| Ended { claim, again: None, held: None });
    rig.schedule().settle(ended.collect()).await.expect("settles");
}

/// Hands off more than a webhook may have: the claims are as many as its places. The others wait for one lease.
async fn fill(rig: &impl Rig, tenant: &str, webhook: &str) -> Vec<Claim> {
    static NEXT: AtomicU32 = AtomicU32::new(1_000_000);
    let first = NEXT.fetch_add(100, Ordering::Relaxed);
    hand_off(rig, entries(tenant, webhook, first..first + 33), ANY).await
}

/// Doubles the share of a webhook `times` times.
async fn grow(rig: &impl Rig, tenant: &str, webhook: &str, times: usize) {
    for _ in 0..times {
        let claims = fill(rig, tenant, webhook).await;
        end(rig, claims, QUICK).await;
    }
}

/// Makes a webhook quick, which keeps its share.
async fn quicken(rig: &impl Rig, tenant: &str, webhook: &str) {
    let claims = hand_off(rig, vec![entry(tenant, webhook, 999_999)], ANY).await;
    end(rig, claims, QUICK).await;
}

fn webhooks(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| &*claim.entry.webhook).collect()
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

/// A sweep puts entries again, in any order.
pub(crate) async fn a_due_entry_keeps_its_place_when_it_is_put_again(rig: impl Rig) {
    for number in [7, 3] {
        put(&rig, [hint("a", "w", number, NOW)]).await;
        rig.advance(seconds(1)).await;
    }
    put(&rig, [hint("a", "w", 3, NOW), hint("a", "w", 7, NOW)]).await;
    assert_eq!(ids(&rig, 9).await, [id(7), id(3)]);
}

/// The owner of a database may change the webhook of a row.
pub(crate) async fn an_entry_of_another_webhook_than_before_is_claimed_once(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, NOW), hint("a", "w", 2, seconds(60))]).await;
    put(&rig, [hint("a", "x", 1, NOW), hint("a", "x", 2, seconds(60))]).await;
    for _ in 0..2 {
        let claims = claimed(&rig, 9).await;
        assert_eq!(webhooks(&claims), ["x"]);
        forget(&rig, claims).await;
        rig.advance(seconds(60)).await;
    }
    assert_eq!(next_due(&rig).await, None, "nothing is left of the other webhook");
}

pub(crate) async fn one_webhook_gets_no_more_than_its_share(rig: impl Rig) {
    put(&rig, (0..9).map(|n| hint("a", "slow", n, NOW))).await;
    put(&rig, [hint("a", "fast", 9, NOW)]).await;
    let claims = claimed(&rig, 9).await;
    let slow = claims.iter().filter(|claim| &*claim.entry.webhook == "slow").count();
    assert_eq!((slow, claims.len()), (SHARES.per_webhook.start, 3));
    // The other entries of `slow` wait for a claim to end, and are no reason to wake up before.
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
    assert_eq!(ids(&rig, 50).await.len(), SHARES.per_tenant.claims - 1);
    assert_ne!(next_due(&rig).await, Some(NOW), "what waits for a place of its tenant wakes no worker");
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
        assert_eq!(claims.len(), SHARES.per_tenant.claims);
        let ended = claims.into_iter().map(|claim| Ended { claim, again: Some(NOW), held: None }).collect();
        rig.schedule().settle(ended).await.expect("settles");
    }
    assert_eq!(claimed(&rig, 9).await.len(), SHARES.per_tenant.claims);
    rig.advance(LEASE).await;
    assert_eq!(claimed(&rig, 9).await.len(), SHARES.per_tenant.claims);
}

pub(crate) async fn a_put_and_a_settled_claim_wake_a_waiter(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, NOW)]).await;
    rig.schedule().changed().await;
    let claims = claimed(&rig, 9).await;
    settle(&rig, &claims[0], Some(seconds(7))).await;
    rig.schedule().changed().await;
}

pub(crate) async fn each_webhook_and_each_tenant_gets_one_entry_in_turn(rig: impl Rig) {
    put(&rig, (0..9).map(|n| hint("a", ["x", "y", "z"][n as usize % 3], n, NOW))).await;
    put(&rig, (10..13).map(|n| hint("b", "x", n, NOW))).await;
    let mut turns = Vec::new();
    for limit in [1, 2, 3, 3] {
        let claims = claimed(&rig, limit).await;
        turns.extend(claims.iter().map(|claim| format!("{}{}", claim.entry.tenant, claim.entry.webhook)));
        forget(&rig, claims).await;
    }
    assert_eq!(turns, ["ax", "bx", "ay", "bx", "az", "bx", "ax", "ay", "az"]);
}

pub(crate) async fn a_hand_off_claims_what_there_is_room_for(rig: impl Rig) {
    quicken(&rig, "a", "quick").await;
    let slow = [entries("a", "w", 0..3), entries("a", "x", 3..6)].concat();
    let claims = hand_off(&rig, slow.clone(), Room { slots: 9, slow: 4, without_claim: 0 }).await;
    assert_eq!(
        claims.iter().map(|claim| &claim.entry).collect::<Vec<_>>(),
        slow.iter().take(4).collect::<Vec<_>>()
    );
    assert!(claims.iter().all(|claim| !claim.quick));
    let claims =
        hand_off(&rig, entries("a", "quick", 10..15), Room { slots: 3, slow: 0, without_claim: 0 }).await;
    assert_eq!(claims.len(), 3);
    assert!(claims.iter().all(|claim| claim.quick));
    // The two entries that got no slot wait for one lease.
    assert_eq!(ids(&rig, 99).await, []);
    let wait = next_due(&rig).await.expect("something waits");
    assert!(wait > LEASE - seconds(5) && wait <= LEASE, "{wait:?}");
    put(&rig, [hint("a", "quick", 14, NOW)]).await;
    assert_eq!(ids(&rig, 99).await, [id(14)]);
}

pub(crate) async fn a_hand_off_without_room_costs_one_lease(rig: impl Rig) {
    assert_eq!(
        hand_off(&rig, entries("a", "w", 0..3), Room { slots: 0, slow: 0, without_claim: 0 }).await,
        []
    );
    assert_eq!(ids(&rig, 9).await, []);
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await, [id(0), id(1), id(2)]);
}

pub(crate) async fn a_hand_off_stays_within_the_shares(rig: impl Rig) {
    let start = CHANGING.per_webhook.start;
    assert_eq!(hand_off(&rig, entries("a", "w", 0..9), ANY).await.len(), start);
    assert_eq!(hand_off(&rig, entries("a", "w", 10..19), ANY).await, []);
    let others = (0..20).flat_map(|n| entries("a", &format!("x{n}"), n * 10 + 100..n * 10 + 109)).collect();
    assert_eq!(hand_off(&rig, others, ANY).await.len(), CHANGING.per_tenant.claims - start);
    assert_eq!(hand_off(&rig, entries("b", "w", 400..409), ANY).await.len(), start);
}

pub(crate) async fn a_hand_off_does_not_overtake_a_backlog(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, NOW), hint("a", "x", 2, seconds(60))]).await;
    rig.advance(BACKLOG).await;
    assert_eq!(hand_off(&rig, vec![entry("a", "w", 3)], ANY).await, []);
    assert_eq!(hand_off(&rig, vec![entry("a", "x", 4), entry("b", "w", 5)], ANY).await.len(), 2);
    assert_eq!(ids(&rig, 9).await, [id(1)]);
}

pub(crate) async fn a_hand_off_does_not_wait_for_what_has_just_become_due(rig: impl Rig) {
    // Redis has a clock of its own, so a slow machine gets more tries.
    for tenant in ["a", "b", "c", "d", "e"] {
        let begun = Instant::now();
        put(&rig, [hint(tenant, "w", 1, NOW)]).await;
        let claims = hand_off(&rig, vec![entry(tenant, "w", 2)], ANY).await;
        if begun.elapsed() < BACKLOG {
            assert_eq!((claims.len(), ids(&rig, 1).await), (1, vec![id(1)]));
            return;
        }
    }
    panic!("the machine is too slow");
}

pub(crate) async fn a_hand_off_counts_the_entries_of_quick_webhooks_that_wait(rig: impl Rig) {
    quicken(&rig, "a", "quick").await;
    let start = CHANGING.per_webhook.start;
    for (webhook, waiting) in [("unknown", 0), ("quick", 3)] {
        let first = if waiting == 0 { 0 } else { 100 };
        let entries = entries("a", webhook, first..first + u32::try_from(start).expect("small") + 3);
        let handed = rig.schedule().hand_off(entries, ANY, LEASE).await.expect("hands off");
        assert_eq!((handed.claims.len(), handed.quick_waiting), (start, waiting), "{webhook}");
    }
}

pub(crate) async fn a_hand_off_leaves_a_known_entry_as_it_is(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, seconds(60))]).await;
    let held = hand_off(&rig, vec![entry("a", "w", 2)], ANY).await;
    let known = vec![entry("a", "w", 1), entry("a", "w", 2)];
    assert_eq!(hand_off(&rig, known.clone(), ANY).await, []);
    assert_eq!(hand_off(&rig, known, Room { slots: 0, slow: 0, without_claim: 0 }).await, []);
    // The claim still holds, and the other one still waits for its time.
    settle(&rig, &held[0], None).await;
    rig.advance(seconds(59)).await;
    assert_eq!(ids(&rig, 9).await, []);
    rig.advance(seconds(1)).await;
    assert_eq!(ids(&rig, 9).await, [id(1)]);
}

pub(crate) async fn a_hand_off_names_an_entry_twice_and_claims_it_once(rig: impl Rig) {
    let claims = hand_off(&rig, [entries("a", "w", 1..3), entries("a", "w", 1..3)].concat(), ANY).await;
    assert_eq!(claims.len(), 2);
    // The end of a claim that is named twice does not free two places.
    let twice = Ended { claim: claims[0].clone(), again: None, held: None };
    rig.schedule().settle(vec![twice.clone(), twice]).await.expect("settles");
    assert_eq!(fill(&rig, "a", "w").await.len(), CHANGING.per_webhook.start - 1);
}

pub(crate) async fn a_hand_off_whose_commit_failed_leaves_nothing(rig: impl Rig) {
    let claims = hand_off(&rig, entries("a", "w", 0..3), ANY).await;
    forget(&rig, claims).await;
    assert_eq!(next_due(&rig).await, None);
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await, []);
}

pub(crate) async fn a_hand_off_falls_due_again_when_its_claim_runs_out(rig: impl Rig) {
    let first = hand_off(&rig, vec![entry("a", "w", 1)], ANY).await;
    assert_eq!(ids(&rig, 9).await, []);
    rig.advance(LEASE).await;
    let second = claimed(&rig, 9).await;
    assert_eq!(second.len(), 1);
    assert_ne!(first[0].fence, second[0].fence);
    settle(&rig, &first[0], None).await;
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await, [id(1)]);
}

pub(crate) async fn a_large_hand_off_claims_no_more_than_its_room(rig: impl Rig) {
    let all = (0..600).map(|n| entry(&format!("t{}", n % 60), &format!("w{}", n % 300), n)).collect();
    let claims = hand_off(&rig, all, Room { slots: 500, slow: 400, without_claim: 0 }).await;
    assert_eq!(claims.len(), 400);
    assert_eq!(ids(&rig, 999).await, []);
    rig.advance(LEASE).await;
    assert!(claimed(&rig, 250).await.len() == 250);
}

pub(crate) async fn a_share_grows_only_if_it_is_full_and_quick(rig: impl Rig) {
    // Webhook `w` is quick and not full, `x` is full and not quick, `y` is full and has no attempt.
    quicken(&rig, "a", "w").await;
    let claims = fill(&rig, "a", "x").await;
    end(&rig, claims, LONG).await;
    let claims = fill(&rig, "a", "y").await;
    forget(&rig, claims).await;
    let shares = [("w", 4, true), ("x", 3, false), ("y", 4, false)];
    for (webhook, share, quick) in shares {
        let claims = fill(&rig, "a", webhook).await;
        assert_eq!((claims.len(), claims[0].quick), (share, quick), "{webhook}");
    }
    let mut shares = Vec::new();
    for _ in 0..5 {
        let claims = fill(&rig, "b", "w").await;
        shares.push(claims.len());
        end(&rig, claims, QUICK).await;
    }
    assert_eq!(shares, [4, 8, 16, 32, 32]);
}

pub(crate) async fn a_share_that_grows_lets_more_through_at_once(rig: impl Rig) {
    put(&rig, (0..40).map(|n| hint("a", "w", n, NOW))).await;
    let mut claims = claimed(&rig, 99).await;
    assert_eq!(claims.len(), 4);
    end(&rig, vec![claims.remove(0)], QUICK).await;
    assert_eq!(next_due(&rig).await, Some(NOW));
    assert_eq!(claimed(&rig, 99).await.len(), 8 - 3);
}

pub(crate) async fn the_longest_of_claims_that_end_together_counts(rig: impl Rig) {
    let mut claims = fill(&rig, "a", "w").await;
    let ended = |claim, held| Ended { claim, again: None, held: Some(held) };
    let last = claims.pop().expect("four");
    let ended = [ended(last, LONG)].into_iter().chain(claims.into_iter().map(|claim| ended(claim, QUICK)));
    rig.schedule().settle(ended.collect()).await.expect("settles");
    let claims = fill(&rig, "a", "w").await;
    assert_eq!((claims.len(), claims[0].quick), (3, false));
}

pub(crate) async fn many_timeouts_at_once_are_one_decrease(rig: impl Rig) {
    grow(&rig, "a", "w", 3).await;
    let mut shares = Vec::new();
    for wait in [0, 1_000, 1_000, 1_000, 1_000, 1_000] {
        rig.advance(Duration::from_millis(wait)).await;
        let claims = fill(&rig, "a", "w").await;
        shares.push(claims.len());
        for claim in claims {
            end(&rig, vec![claim], LONG).await;
        }
    }
    assert_eq!(shares, [32, 16, 8, 4, 3, 3]);
    // The share recovers as fast as it grew.
    grow(&rig, "a", "w", 4).await;
    let claims = fill(&rig, "a", "w").await;
    assert_eq!((claims.len(), claims[0].quick), (32, true));
}

pub(crate) async fn a_slow_webhook_gets_the_places_of_an_unknown_one(rig: impl Rig) {
    for (webhook, held) in [("w", QUICK + Duration::from_millis(1)), ("x", shares::LONG)] {
        grow(&rig, "a", webhook, 2).await;
        let mut shares = Vec::new();
        for wait in [0, 1_000, 1_000] {
            rig.advance(Duration::from_millis(wait)).await;
            let claims = fill(&rig, "a", webhook).await;
            shares.push((claims.len(), claims[0].quick));
            end(&rig, claims, held).await;
        }
        assert_eq!(shares, [(16, true), (8, false), (4, false)]);
        rig.advance(Duration::from_secs(1)).await;
        let claims = fill(&rig, "a", webhook).await;
        assert_eq!(claims.len(), 4);
        end(&rig, claims, LONG).await;
        for share in [3, 4, 4] {
            let claims = fill(&rig, "a", webhook).await;
            assert_eq!((claims.len(), claims[0].quick), (share, false), "{webhook}");
            end(&rig, claims, held).await;
        }
    }
}

pub(crate) async fn places_say_how_many_are_taken_and_why_there_are_few(rig: impl Rig) {
    let places = async |webhooks: &[&str]| {
        let webhooks: Vec<String> = webhooks.iter().map(|webhook| (*webhook).to_owned()).collect();
        let Places { taken, all, webhooks } = rig.schedule().places("a", &webhooks).await.expect("places");
        let of = |own: WebhookPlaces| (own.taken, own.all, own.is_reduced);
        (taken, all, webhooks.into_iter().map(of).collect::<Vec<_>>())
    };
    assert_eq!(places(&["none", "w"]).await, (0, 40, vec![(0, 4, false), (0, 4, false)]));
    let claims = fill(&rig, "a", "w").await;
    assert_eq!(places(&["none", "w"]).await, (4, 40, vec![(0, 4, false), (4, 4, false)]));
    end(&rig, claims, LONG).await;
    let claims = fill(&rig, "a", "w").await;
    assert_eq!(places(&["w"]).await, (3, 40, vec![(3, 3, true)]));
    end(&rig, claims, QUICK).await;
    assert_eq!(places(&["w"]).await, (0, 40, vec![(0, 6, false)]), "it answers quickly again");
    assert_eq!(places(&[]).await.2, []);
}

pub(crate) async fn a_claim_says_for_how_long_its_entry_was_due(rig: impl Rig) {
    put(&rig, [hint("a", "w", 1, seconds(5))]).await;
    rig.advance(seconds(25)).await;
    let claims = claimed(&rig, 9).await;
    assert!((seconds(20)..seconds(30)).contains(&claims[0].overdue), "{claims:?}");
    let handed_off = hand_off(&rig, vec![entry("b", "w", 2)], ANY).await;
    assert_eq!(handed_off[0].overdue, NOW);
    rig.advance(LEASE + seconds(40)).await;
    let again = claimed(&rig, 9).await;
    assert_eq!(again.len(), 2);
    let since_its_end = seconds(40)..seconds(50);
    assert!(again.iter().all(|claim| since_its_end.contains(&claim.overdue)), "{again:?}");
}

pub(crate) async fn what_is_due_and_not_claimed_is_counted(rig: impl Rig) {
    let overdue = async || {
        let Overdue { entries, held, longest, next } = rig.schedule().overdue("").await.expect("counts");
        assert_eq!(next, None);
        // Redis has a clock of its own.
        (entries, held, longest.map(|longest| longest.as_secs() / 10 * 10))
    };
    assert_eq!(overdue().await, (0, 0, None));
    put(&rig, (0..).zip([10, 20, 30, 900]).map(|(n, wait)| hint("a", "w", n, seconds(wait)))).await;
    put(&rig, [hint("b", "w", 9, seconds(20)), hint("b", "x", 10, seconds(900))]).await;
    assert_eq!(overdue().await, (0, 0, None));
    rig.advance(seconds(30)).await;
    assert_eq!(overdue().await, (4, 0, Some(20)));
    assert_eq!(claimed(&rig, 9).await.len(), 3);
    assert_eq!(overdue().await, (0, 1, None), "it waits for a place of its webhook");
    put(&rig, [hint("a", "x", 20, NOW), hint("a", "y", 21, NOW)]).await;
    assert_eq!(overdue().await, (2, 1, Some(0)));
    assert_eq!(claimed(&rig, 9).await.len(), 1);
    assert_eq!(overdue().await, (0, 2, None), "one waits for a place of its tenant");
    rig.advance(LEASE + seconds(10)).await;
    assert_eq!(overdue().await, (4, 2, Some(10)), "claims have expired");
}

pub(crate) async fn the_end_of_claims_says_how_many_shares_changed(rig: impl Rig) {
    let changes = async |held| {
        let claims = fill(&rig, "a", "w").await;
        let ended = claims.into_iter().map(|claim| Ended { claim, again: None, held: Some(held) });
        let ShareChanges { grown, shrunk } = rig.schedule().settle(ended.collect()).await.expect("settles");
        (grown, shrunk)
    };
    assert_eq!(changes(QUICK).await, (1, 0));
    assert_eq!(changes(LONG).await, (0, 1));
    quicken(&rig, "a", "x").await;
    let claims = hand_off(&rig, vec![entry("a", "x", 1)], ANY).await;
    let ended = claims.into_iter().map(|claim| Ended { claim, again: None, held: Some(QUICK) });
    let unchanged = rig.schedule().settle(ended.collect()).await.expect("settles");
    assert_eq!(unchanged, ShareChanges::default(), "its share was not full");
    grow(&rig, "b", "w", 1).await;
    let claims = fill(&rig, "b", "w").await;
    let renewed = rig.schedule().renew(&claims, LEASE).await.expect("renews");
    assert_eq!((renewed.grown, renewed.shrunk), (0, 1));
}

pub(crate) async fn a_claim_that_needs_to_be_renewed_is_long(rig: impl Rig) {
    grow(&rig, "a", "w", 1).await;
    let claims = fill(&rig, "a", "w").await;
    assert_eq!((claims.len(), claims[0].quick), (8, true));
    rig.schedule().renew(&claims, LEASE).await.expect("renews");
    rig.schedule().renew(&claims, LEASE).await.expect("renews");
    forget(&rig, claims).await;
    let claims = fill(&rig, "a", "w").await;
    assert_eq!((claims.len(), claims[0].quick), (4, false));
    // The webhook is not quick either while earlier claims exceed the new share.
    assert_eq!(fill(&rig, "a", "w").await, []);
}

pub(crate) async fn an_expired_claim_says_nothing_of_its_webhook(rig: impl Rig) {
    quicken(&rig, "a", "w").await;
    let claims = fill(&rig, "a", "w").await;
    rig.advance(LEASE).await;
    assert_eq!(claimed(&rig, 99).await.len(), 4);
    rig.schedule().renew(&claims, LEASE).await.expect("renews");
    end(&rig, claims, LONG).await;
    rig.advance(LEASE).await;
    let claims = claimed(&rig, 99).await;
    assert_eq!((claims.len(), claims[0].quick), (4, true));
}

pub(crate) async fn webhooks_that_are_not_quick_stay_within_their_room(rig: impl Rig) {
    for webhook in ["q1", "q2"] {
        quicken(&rig, "a", webhook).await;
    }
    put(&rig, (0..12).map(|n| hint("b", &format!("s{}", n % 3), n, NOW))).await;
    put(&rig, (20..26).map(|n| hint("a", &format!("q{}", 1 + n % 2), n, NOW))).await;
    let claim = async |slots, slow| {
        rig.schedule().claim(Room { slots, slow, without_claim: 0 }, LEASE).await.expect("claims")
    };
    let claims = claim(7, 3).await;
    assert_eq!(webhooks(&claims), ["s0", "s1", "s2", "q1", "q2", "q1", "q2"]);
    assert!(claims.iter().all(|claim| claim.quick == claim.entry.webhook.starts_with('q')));
    assert_eq!(webhooks(&claim(1, 9).await), ["s0"]);
    assert_eq!(webhooks(&claim(9, 0).await), ["q1", "q2"]);
    assert_eq!(claim(9, 0).await, []);
    // A claim with enough room would return an entry.
    assert_eq!(next_due(&rig).await, Some(NOW));
    assert_eq!(claim(99, 99).await.len(), 8);
}

pub(crate) async fn a_webhook_that_waits_changes_its_class(rig: impl Rig) {
    put(&rig, (0..9).map(|n| hint("a", "w", n, NOW))).await;
    let claim = async |slots, slow| {
        rig.schedule().claim(Room { slots, slow, without_claim: 0 }, LEASE).await.expect("claims")
    };
    assert_eq!(claim(9, 0).await, []);
    let claims = claim(1, 1).await;
    end(&rig, claims, QUICK).await;
    let claims = claim(1, 0).await;
    assert_eq!(claims.len(), 1);
    end(&rig, claims, LONG).await;
    assert_eq!(claim(9, 0).await, []);
    assert_eq!(claim(9, 9).await.len(), 3);
}

pub(crate) async fn a_quick_webhook_is_not_delayed_by_thousands_that_are_not(rig: impl Rig) {
    quicken(&rig, "a", "quick").await;
    put(&rig, (0..3_000).map(|n| hint(&format!("t{}", n % 500), &format!("w{n}"), n, NOW))).await;
    put(&rig, [hint("a", "quick", 5_000, NOW)]).await;
    let none = Room { slots: 9, slow: 0, without_claim: 0 };
    let claims = rig.schedule().claim(none, LEASE).await.expect("claims");
    assert_eq!(webhooks(&claims), ["quick"]);
    // Nor does the quick webhook delay the thousands.
    let claims =
        rig.schedule().claim(Room { slots: 9, slow: 5, without_claim: 0 }, LEASE).await.expect("claims");
    assert_eq!(claims.len(), 5);
}

pub(crate) async fn the_last_slow_places_are_for_tenants_without_a_claim(rig: impl Rig) {
    let claim = async |slow, without_claim| {
        let room = Room { slots: 9, slow, without_claim };
        let claims = rig.schedule().claim(room, LEASE).await.expect("claims");
        claims.into_iter().map(|claim| claim.entry.tenant.to_string()).collect::<Vec<_>>()
    };
    put(&rig, (0..9).map(|n| hint("silent", &format!("w{n}"), n, NOW))).await;
    assert_eq!(claim(4, 2).await, ["silent", "silent"], "and none of the last two, since it has claims");
    assert!(claim(2, 2).await.is_empty());
    put(&rig, (20..23).map(|n| hint("new", "w", n, NOW))).await;
    assert_eq!(claim(2, 2).await, ["new"]);
    assert!(claim(2, 2).await.is_empty(), "it is not new any more");
    let room = Room { slots: 9, slow: 2, without_claim: 2 };
    let entries = [entries("silent", "x", 30..31), entries("newer", "w", 31..33)].concat();
    let claims = hand_off(&rig, entries, room).await;
    let tenants: Vec<&str> = claims.iter().map(|claim| &*claim.entry.tenant).collect();
    assert_eq!(tenants, ["newer"]);
    assert_eq!(claim(9, 0).await.len(), 9);
}

/// The tenant is found behind any number of earlier tenants that have a claim and more due entries.
pub(crate) async fn a_tenant_without_a_claim_is_found_behind_many_with_one(rig: impl Rig) {
    let tenants = 1_100;
    let (first, more) = (0..2 * tenants).partition::<Vec<u32>, _>(|n| *n < tenants);
    let of = |n: u32| hint(&format!("a{:04}", n % tenants), &format!("w{n}"), n, NOW);
    put(&rig, first.into_iter().map(of)).await;
    while !claimed(&rig, 500).await.is_empty() {}
    put(&rig, more.into_iter().map(of)).await;
    put(&rig, [hint("zz", "w", 9_000, NOW), hint("zz", "w", 9_001, NOW)]).await;
    for expected in [vec!["zz"], vec![]] {
        let room = Room { slots: 9, slow: 2, without_claim: 2 };
        let claims = rig.schedule().claim(room, LEASE).await.expect("claims");
        assert_eq!(claims.iter().map(|claim| &*claim.entry.tenant).collect::<Vec<_>>(), expected);
    }
}

pub(crate) async fn a_tenant_has_no_more_entries_than_its_limit(rig: impl Rig) {
    put(&rig, (0..8).map(|n| hint("flood", "w", n, NOW))).await;
    put(&rig, [hint("calm", "w", 9, NOW)]).await;
    // Moving an entry does not add an entry.
    put(&rig, [hint("flood", "w", 4, NOW)]).await;
    let claims = claimed(&rig, 9).await;
    assert_eq!(claims.len(), 6);
    put(&rig, [hint("flood", "w", 7, NOW)]).await;
    assert_eq!(ids(&rig, 9).await, [], "claims count");
    assert_eq!(hand_off(&rig, entries("calm", "w", 20..22), ANY).await.len(), 2);
    forget(&rig, claims).await;
    put(&rig, [hint("flood", "w", 7, NOW)]).await;
    assert_eq!(ids(&rig, 9).await.len(), 1, "there is room again");
}

pub(crate) async fn a_tenant_may_have_limits_of_its_own(rig: impl Rig) {
    let limit = async |tenants: &[(&str, usize, usize)], only| {
        let tenants = tenants.iter().map(|(tenant, claims, entries)| {
            ((*tenant).into(), TenantShares { claims: *claims, entries: *entries })
        });
        rig.schedule().limit(tenants.collect(), only).await.expect("limits");
    };
    limit(&[("small", 1, 2), ("large", 12, 20)], true).await;
    for tenant in ["small", "large", "usual"] {
        put(&rig, (0..15).map(|n| hint(tenant, &format!("w{}", n / 5), n, NOW))).await;
    }
    let count = async || {
        let claims = claimed(&rig, 99).await;
        let of = |tenant| claims.iter().filter(|claim| &*claim.entry.tenant == tenant).count();
        [of("small"), of("large"), of("usual")]
    };
    assert_eq!(count().await, [1, 12, 5]);
    let more = rig.schedule().hand_off(entries("small", "w", 20..21), ANY, LEASE).await.expect("hands off");
    let small: Vec<Arc<str>> = vec!["small".into()];
    let expected = HandOffs { claims: Vec::new(), full: small.clone(), busy: small, quick_waiting: 0 };
    assert_eq!(more, expected);
    // A raised limit counts at once, and leaves the others as they are.
    limit(&[("small", 3, 3)], false).await;
    assert_eq!(next_due(&rig).await, Some(NOW));
    assert_eq!(count().await, [1, 0, 0], "the second of its entries");
    assert_eq!(hand_off(&rig, entries("large", "w", 20..21), ANY).await, [], "it has twelve");
    limit(&[], true).await;
    put(&rig, (30..45).map(|n| hint("small", "w", n, NOW))).await;
    assert_eq!(count().await, [3, 0, 0], "five in all, as tenants have without limits of their own");
}

pub(crate) async fn a_tenant_at_its_limit_keeps_no_entry_for_later(rig: impl Rig) {
    put(&rig, (0..5).map(|n| hint("a", "w", n, NOW))).await;
    let claims = claimed(&rig, 2).await;
    for claim in &claims {
        settle(&rig, claim, Some(LEASE)).await;
    }
    // The first claim to end made room for the second.
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await.len(), 4);
    // What is due now is kept: the claims expire.
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await.len(), 4);
}

pub(crate) async fn a_hand_off_that_is_posted_at_once_passes_the_limit(rig: impl Rig) {
    put(&rig, (0..5).map(|n| hint("a", "slow", n, LEASE))).await;
    let claims = hand_off(&rig, entries("a", "w", 10..12), ANY).await;
    assert_eq!(claims.len(), 2);
    let no_room = Room { slots: 0, slow: 0, without_claim: 0 };
    assert!(hand_off(&rig, entries("a", "w", 12..14), no_room).await.is_empty());
    forget(&rig, claims).await;
    rig.advance(LEASE).await;
    assert_eq!(ids(&rig, 9).await.len(), 5, "the two that waited were left out");
}

pub(crate) async fn no_more_webhooks_are_known_than_allowed(rig: impl Rig) {
    let count = CHANGING.known + 5;
    for n in 0..count {
        quicken(&rig, "a", &format!("w{n}")).await;
    }
    let mut quick = 0;
    for n in 0..count {
        let claims = hand_off(&rig, vec![entry("a", &format!("w{n}"), 1)], ANY).await;
        quick += usize::from(claims[0].quick);
        forget(&rig, claims).await;
    }
    assert_eq!(quick, CHANGING.known);
}

pub(crate) async fn a_first_incarnation_finds_nothing_abandoned(rig: impl Rig) {
    let claims = hand_off(&rig, entries("a", "w", 0..3), ANY).await;
    assert!(rig.schedule().abandoned().await.expect("tenants").is_empty());
    rig.schedule().release_abandoned().await.expect("releases");
    assert_eq!(ids(&rig, 9).await, []);
    forget(&rig, claims).await;
    assert_eq!(next_due(&rig).await, None);
}

/// `contract_suite!(Rig::with)` makes a test of each case, each with a new rig that has these shares.
macro_rules! contract_suite {
    ($rig:expr) => {
        $crate::contract::contract_suite! { $rig, $crate::contract::SHARES;
            due_entries_are_claimed_once_in_order_of_time,
            a_claim_takes_no_more_than_its_limit,
            an_entry_falls_due_again_when_its_claim_runs_out,
            a_renewed_claim_is_kept,
            a_claim_that_was_lost_is_not_renewed,
            a_claim_that_was_lost_is_not_settled,
            settling_ends_an_entry_or_sets_its_next_time,
            putting_again_moves_an_entry_but_not_a_claimed_one,
            a_due_entry_keeps_its_place_when_it_is_put_again,
            an_entry_of_another_webhook_than_before_is_claimed_once,
            one_webhook_gets_no_more_than_its_share,
            one_tenant_gets_no_more_than_its_share_and_its_turn,
            each_webhook_and_each_tenant_gets_one_entry_in_turn,
            what_is_put_back_gives_its_share_back,
            a_put_and_a_settled_claim_wake_a_waiter,
            a_claim_says_for_how_long_its_entry_was_due,
            what_is_due_and_not_claimed_is_counted,
        }
        $crate::contract::contract_suite! { $rig, $crate::contract::CHANGING;
            a_hand_off_claims_what_there_is_room_for,
            a_hand_off_without_room_costs_one_lease,
            a_hand_off_stays_within_the_shares,
            a_hand_off_does_not_overtake_a_backlog,
            a_hand_off_does_not_wait_for_what_has_just_become_due,
            a_hand_off_counts_the_entries_of_quick_webhooks_that_wait,
            a_hand_off_leaves_a_known_entry_as_it_is,
            a_hand_off_names_an_entry_twice_and_claims_it_once,
            a_hand_off_whose_commit_failed_leaves_nothing,
            a_hand_off_falls_due_again_when_its_claim_runs_out,
            a_large_hand_off_claims_no_more_than_its_room,
            a_share_grows_only_if_it_is_full_and_quick,
            a_share_that_grows_lets_more_through_at_once,
            the_longest_of_claims_that_end_together_counts,
            many_timeouts_at_once_are_one_decrease,
            a_slow_webhook_gets_the_places_of_an_unknown_one,
            places_say_how_many_are_taken_and_why_there_are_few,
            the_end_of_claims_says_how_many_shares_changed,
            a_claim_that_needs_to_be_renewed_is_long,
            an_expired_claim_says_nothing_of_its_webhook,
            webhooks_that_are_not_quick_stay_within_their_room,
            a_webhook_that_waits_changes_its_class,
            a_quick_webhook_is_not_delayed_by_thousands_that_are_not,
            the_last_slow_places_are_for_tenants_without_a_claim,
            a_tenant_without_a_claim_is_found_behind_many_with_one,
            no_more_webhooks_are_known_than_allowed,
            a_first_incarnation_finds_nothing_abandoned,
        }
        $crate::contract::contract_suite! { $rig, $crate::contract::FEW;
            a_tenant_has_no_more_entries_than_its_limit,
            a_tenant_may_have_limits_of_its_own,
            a_tenant_at_its_limit_keeps_no_entry_for_later,
            a_hand_off_that_is_posted_at_once_passes_the_limit,
        }
    };
    ($rig:expr, $shares:expr; $($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            $crate::contract::$case($rig($shares)).await;
        }
    )*};
}
pub(crate) use contract_suite;
