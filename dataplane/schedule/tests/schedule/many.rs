//! Several processes on one index, and what a claim costs beside many others' work.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use docket_redis::cmd;
use docket_rig::redis::RedisServer;
use docket_schedule::{Hint, LOOK_EVERY, Room, SHARES, ShareLimits, Shares, TenantShares, shares};

use crate::rig::{
    Rig, advance, claimed, connection, end, end_after, end_again, hint, keys, put, restarted, room, schedule,
    soon,
};

const LEASE: Duration = Duration::from_secs(60);
const WIDE: Shares = Shares {
    per_webhook: ShareLimits { start: 100_000, most: 100_000, least: 2 },
    per_tenant: TenantShares { claims: 100_000, entries: 1_000_000 },
    known: 100,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_claim_each_entry_once() {
    let rig = Rig::with(SHARES);
    put(&rig.schedule, (0..10_000).map(|n| hint(&format!("t{}", n % 7), &format!("w{}", n % 31), n))).await;
    let mut processes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let schedule = schedule(&rig.server.url(), SHARES);
        processes.spawn(async move {
            let mut ids = Vec::new();
            loop {
                let claims = claimed(&schedule, 25).await;
                if claims.is_empty() {
                    return ids;
                }
                ids.extend(claims.iter().map(|claim| claim.entry.id));
                end(&schedule, claims).await;
            }
        });
    }
    let all: Vec<_> = processes.join_all().await;
    assert!(all.iter().all(|ids| !ids.is_empty()), "each got some");
    let ids: Vec<_> = all.into_iter().flatten().collect();
    assert_eq!(ids.len(), 10_000);
    assert_eq!(ids.into_iter().collect::<HashSet<_>>().len(), 10_000);
    // Nothing of finished deliveries stays: the remaining keys say whose turn it was, and which fence was given last.
    assert_eq!(rig.server.cli(&["KEYS", "*"]), "{docket}:3:state");
}

#[tokio::test]
async fn what_is_due_is_counted_in_parts() {
    let rig = Rig::with(WIDE);
    put(&rig.schedule, (0..600).map(|n| hint(&format!("t{}", n % 7), &format!("w{n}"), n))).await;
    let (mut entries, mut after, mut parts) = (0, String::new(), 0);
    loop {
        let overdue = rig.schedule.overdue(&after).await.expect("counts");
        (entries, parts) = (entries + overdue.entries, parts + 1);
        match overdue.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!((entries, parts), (600, 3));
    assert_eq!(claimed(&rig.schedule, 250).await.len(), 250, "it has changed nothing");
}

#[tokio::test]
async fn shares_count_over_all_processes() {
    let rig = Rig::new();
    let other = schedule(&rig.server.url(), crate::contract::SHARES);
    put(&rig.schedule, (0..9).map(|n| hint("a", "w", n))).await;
    let first = claimed(&rig.schedule, 1).await;
    assert_eq!((first.len(), claimed(&other, 9).await.len()), (1, 1));
    assert_eq!(claimed(&rig.schedule, 9).await, []);
    end(&rig.schedule, first).await;
    assert_eq!(claimed(&other, 9).await.len(), 1);
}

#[tokio::test]
async fn another_process_is_woken() {
    let rig = Rig::new();
    let other = schedule(&rig.server.url(), crate::contract::SHARES);
    // The schedule reports one change when it has begun to listen.
    soon("the subscription", other.changed()).await;
    put(&rig.schedule, [Hint { wait: LOOK_EVERY / 2, ..hint("a", "w", 1) }]).await;
    soon("word of what is to come", other.changed()).await;
    assert!(other.next_due().await.expect("a time").expect("it is to come") > LOOK_EVERY / 4);
    put(&rig.schedule, (2..6).map(|n| hint("a", "w", n))).await;
    soon("word of what is due", other.changed()).await;
    let claims = claimed(&other, 2).await;
    assert_eq!(claims.len(), 2);
    // The share was the only thing in the way.
    end(&other, claims).await;
    soon("word of a share that is free", rig.schedule.changed()).await;
    assert_eq!(rig.schedule.next_due().await.expect("a time"), Some(Duration::ZERO));
}

#[tokio::test]
async fn other_processes_are_not_woken_for_what_they_look_for_in_time() {
    let rig = Rig::new();
    let messages = || rig.server.cli(&["INFO", "commandstats"]).matches("cmdstat_publish:").count();
    put(&rig.schedule, [Hint { wait: LOOK_EVERY, ..hint("a", "w", 1) }]).await;
    assert_eq!(messages(), 0);
    put(&rig.schedule, [Hint { wait: LOOK_EVERY / 2, ..hint("a", "w", 2) }]).await;
    assert_eq!(messages(), 1);
}

#[tokio::test]
async fn another_process_is_woken_for_a_quick_webhook_while_slow_ones_are_due() {
    let rig = Rig::with(SHARES);
    let quick = vec![hint("a", "quick", 0).entry];
    let claims = rig.schedule.hand_off(quick, room(1), LEASE).await.expect("hands off").claims;
    end_after(&rig.schedule, claims, Duration::ZERO).await;
    put(&rig.schedule, [hint("b", "slow", 1)]).await;
    let other = schedule(&rig.server.url(), SHARES);
    soon("the subscription", other.changed()).await;
    put(&rig.schedule, [hint("a", "quick", 2)]).await;
    soon("word of what is due and quick", other.changed()).await;
}

#[tokio::test]
async fn a_tenant_of_5000_webhooks_does_not_delay_another() {
    let rig = Rig::with(SHARES);
    put(&rig.schedule, (0..5_000).map(|n| hint("large", &format!("w{n}"), n))).await;
    put(&rig.schedule, [hint("small", "w", 9_999)]).await;
    let claims = claimed(&rig.schedule, 25).await;
    assert_eq!(claims.len(), 25);
    assert!(claims[..2].iter().any(|claim| &*claim.entry.tenant == "small"));
    // 5,000 entries become due at once, beside an entry of another tenant that is due already.
    let later = (10_000..15_000)
        .map(|n| Hint { wait: Duration::from_secs(100), ..hint("late", &format!("w{n}"), n) });
    put(&rig.schedule, later).await;
    advance(&rig.server.url(), Duration::from_secs(101)).await;
    put(&rig.schedule, [hint("tiny", "w", 20_000)]).await;
    let claims = claimed(&rig.schedule, 25).await;
    assert!(claims.iter().any(|claim| &*claim.entry.tenant == "tiny"));
    assert!(claims.iter().any(|claim| &*claim.entry.tenant == "late"));
}

#[tokio::test]
async fn ten_thousand_behind_a_full_share_cost_a_claim_nothing() {
    let rig = Rig::with(SHARES);
    put(&rig.schedule, (0..10_000).map(|n| hint("stuck", "hanging", n))).await;
    assert_eq!(claimed(&rig.schedule, 100).await.len(), SHARES.per_webhook.start);
    assert_ne!(rig.schedule.next_due().await.expect("a time"), Some(Duration::ZERO));
    put(&rig.schedule, [hint("other", "w", 1)]).await;
    let claims = claimed(&rig.schedule, 25).await;
    assert_eq!((claims.len(), &*claims[0].entry.tenant), (1, "other"));
    let (claims, commands) = counted(&rig, claimed(&rig.schedule, 25)).await;
    assert_eq!(claims, []);
    assert!(commands < 20, "{commands} commands for a claim of nothing");
}

#[tokio::test]
async fn thousands_that_are_not_quick_cost_a_claim_of_quick_ones_nothing() {
    let rig = Rig::with(SHARES);
    let entries = |numbers: Range<u32>| numbers.map(|n| hint("a", "quick", n).entry).collect::<Vec<_>>();
    let claims = rig.schedule.hand_off(entries(0..1), room(1), LEASE).await.expect("hands off").claims;
    end_after(&rig.schedule, claims, Duration::ZERO).await;
    put(&rig.schedule, (0..3_000).map(|n| hint(&format!("t{}", n % 500), &format!("w{n}"), n))).await;
    put(&rig.schedule, [hint("a", "quick", 5_000)]).await;
    let none_slow = Room { slots: 25, slow: 0, without_claim: 0 };
    let (claims, commands) = counted(&rig, rig.schedule.claim(none_slow, LEASE)).await;
    assert_eq!(claims.expect("claims").len(), 1);
    assert!(commands < 40, "{commands} commands for a claim of one");
}

/// Runs something, and counts the commands that Redis executes for it.
async fn counted<T>(rig: &Rig, work: impl Future<Output = T>) -> (T, u64) {
    rig.server.cli(&["CONFIG", "RESETSTAT"]);
    let result = work.await;
    let stats = rig.server.cli(&["INFO", "commandstats"]);
    let calls = |line: &str| line.split_once("calls=")?.1.split_once(',')?.0.parse::<u64>().ok();
    (result, stats.lines().filter_map(calls).sum())
}

#[tokio::test]
async fn a_call_for_many_entries_takes_few_commands() {
    const COUNT: u32 = 64;
    let each = |commands: u64| commands as f64 / f64::from(COUNT);
    // The webhooks of 64 entries of 4 tenants, and how many commands each entry may cost a hand-off, its end, a put and a claim.
    for (webhooks, most) in
        [(1, [0.5, 0.5, 0.5, 0.7]), (16, [1.0, 1.5, 1.5, 2.5]), (COUNT, [2.0, 3.5, 4.0, 6.0])]
    {
        let rig = Rig::with(WIDE);
        // This process makes a claim first, so that Redis knows the scripts.
        put(&rig.schedule, [hint("z", "w", 9_999)]).await;
        let warm = claimed(&rig.schedule, 1).await;
        end(&rig.schedule, warm).await;
        let _ = rig.schedule.hand_off(Vec::new(), room(1), LEASE).await;
        let all: Vec<Hint> = (0..COUNT)
            .map(|n| hint(&format!("t{}", n % webhooks % 4), &format!("w{}", n % webhooks), n))
            .collect();
        let entries = all.iter().map(|hint| hint.entry.clone()).collect();
        let (claims, handed_off) = counted(&rig, rig.schedule.hand_off(entries, room(99), LEASE)).await;
        let (_, ended) =
            counted(&rig, end_after(&rig.schedule, claims.expect("hands off").claims, LEASE)).await;
        let (_, put) = counted(&rig, put(&rig.schedule, all)).await;
        let (claims, claimed) = counted(&rig, claimed(&rig.schedule, 99)).await;
        assert_eq!(claims.len(), 64);
        let (_, failed) = counted(&rig, end_again(&rig.schedule, claims)).await;
        let costs = [handed_off, ended, put, claimed].map(each);
        println!(
            "{webhooks} webhooks, commands per entry: hand-off, end, put, claim: {costs:.2?}, {:.2} failed",
            each(failed)
        );
        assert!(costs.iter().zip(most).all(|(cost, most)| *cost <= most), "{webhooks}: {costs:?}");
    }
}

#[tokio::test]
async fn what_a_dead_predecessor_held_is_found_and_released() {
    let rig = Rig::with(WIDE);
    let (url, entries) = (rig.server.url(), |tenant: &str, numbers: Range<u32>| {
        numbers.map(|n| hint(tenant, "w", n).entry).collect::<Vec<_>>()
    });
    let process = |name: &str| restarted(&url, name, WIDE);
    let (before, other) = (process("pod-1"), process("pod-2"));
    // These are more claims than one look takes.
    for tenant in ["a", "b"] {
        let claims =
            before.hand_off(entries(tenant, 0..600), room(600), LEASE).await.expect("hands off").claims;
        assert_eq!(claims.len(), 600);
    }
    other.hand_off(entries("c", 0..3), room(3), LEASE).await.expect("hands off");
    put(&other, [Hint { wait: LEASE, ..hint("d", "w", 1) }]).await;
    assert!(before.abandoned().await.expect("looks").is_empty(), "it holds them itself");

    let after = process("pod-1");
    assert_eq!(claimed(&after, 9).await, []);
    let tenants: BTreeSet<_> = after.abandoned().await.expect("looks").into_iter().collect();
    assert_eq!(tenants, BTreeSet::from(["a".into(), "b".into()]));
    assert_eq!(claimed(&after, 9).await, [], "a look changes nothing");
    let waiting = restarted(&url, "pod-3", WIDE);
    soon("the subscription", waiting.changed()).await;
    after.release_abandoned().await.expect("releases");
    soon("word of what is due", waiting.changed()).await;
    assert_eq!(after.next_due().await.expect("answers"), Some(Duration::ZERO));
    let mut count = 0;
    while after.next_due().await.expect("answers") == Some(Duration::ZERO) {
        let claims = claimed(&after, 250).await;
        assert!(claims.iter().all(|claim| matches!(&*claim.entry.tenant, "a" | "b")));
        count += claims.len();
    }
    assert_eq!(count, 1_200);
    assert!(after.abandoned().await.expect("looks").is_empty(), "they are its own");
    // When the earlier process ends late, nothing changes.
    assert_eq!(process("pod-1").abandoned().await.expect("looks").len(), 2);
}

/// Redis serves no other client while a script runs.
#[tokio::test]
async fn a_call_ends_at_most_500_claims_that_have_expired() {
    let rig = Rig::with(WIDE);
    let entries = (0..600).map(|n| hint("a", "w", n).entry).collect();
    let claims = rig.schedule.hand_off(entries, room(600), LEASE).await.expect("hands off").claims;
    assert_eq!(claims.len(), 600);
    advance(&rig.server.url(), LEASE).await;
    for expected in ["101", "2"] {
        assert_eq!(claimed(&rig.schedule, 1).await.len(), 1);
        assert_eq!(rig.server.cli(&["ZCARD", &keys().schedule()[2]]), expected);
    }
}

#[tokio::test]
async fn a_call_makes_at_most_500_queues_ready_that_fell_due() {
    let rig = Rig::with(WIDE);
    put(&rig.schedule, (0..600).map(|n| Hint { wait: LEASE, ..hint("a", &format!("w{n}"), n) })).await;
    advance(&rig.server.url(), LEASE).await;
    for expected in ["100", "0"] {
        assert_eq!(claimed(&rig.schedule, 1).await.len(), 1);
        assert_eq!(rig.server.cli(&["ZCARD", &keys().schedule()[5]]), expected);
    }
}

/// These claims are made: if their worker did not know of them, their deliveries would wait until the claims expire.
#[tokio::test]
async fn a_hand_off_whose_second_call_fails_has_the_claims_of_the_first() {
    let rig = Rig::with(WIDE);
    // The number of entries of tenant `b` is not a number, so the script fails.
    rig.server.cli(&["HSET", &keys().schedule()[11], "b", "none"]);
    let entries =
        |tenant: &str, numbers: Range<u32>| numbers.map(|n| hint(tenant, "w", n).entry).collect::<Vec<_>>();
    assert!(rig.schedule.hand_off(entries("b", 0..1), room(600), LEASE).await.is_err());
    let all = [entries("a", 0..250), entries("b", 250..251)].concat();
    let handed_off = rig.schedule.hand_off(all, room(600), LEASE).await.expect("the first call responds");
    assert_eq!(handed_off.claims.len(), 250);
}

#[tokio::test]
async fn one_of_many_sweeps_in_an_interval() {
    let rig = Rig::new();
    let other = schedule(&rig.server.url(), SHARES);
    let minute = Duration::from_secs(60);
    assert!(rig.schedule.sweep_turn(minute).await.expect("answers"));
    assert!(!other.sweep_turn(minute).await.expect("answers"));
    advance(&rig.server.url(), minute).await;
    assert!(other.sweep_turn(minute).await.expect("answers"));
    assert!(!rig.schedule.sweep_turn(minute).await.expect("answers"));
    // The clock of Redis was set back since.
    rig.server.cli(&["HSET", "{docket}:3:state", "swept", "99999999999999"]);
    assert!(rig.schedule.sweep_turn(minute).await.expect("answers"));
    assert!(!other.sweep_turn(minute).await.expect("answers"));
}

#[tokio::test]
async fn share_is_halved_although_the_clock_of_redis_was_set_back_since_it_last_was() {
    let rig = Rig::with(SHARES);
    let (keys, url) = (keys().schedule(), rig.server.url());
    let mut known = cmd("HSET");
    known.arg(&keys[4]).arg("a\0w").arg("8 0 0 99999999999999");
    assert_eq!(connection(&url).query::<i64>(&known).await.expect("it responds"), 1);
    let entries = (0..8).map(|n| hint("a", "w", n).entry).collect();
    let claims = rig.schedule.hand_off(entries, room(8), LEASE).await.expect("hands off").claims;
    assert_eq!(claims.len(), 8);
    end_after(&rig.schedule, claims, shares::LONG + Duration::from_millis(1)).await;
    let places = rig.schedule.places("a", &["w".to_owned()]).await.expect("places");
    assert_eq!(places.webhooks[0].all, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_share_a_busy_index() {
    let rig = Rig::with(WIDE);
    let schedule = Arc::new(schedule(&rig.server.url(), WIDE));
    put(&schedule, (0..2_000).map(|n| hint("a", "w", n))).await;
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let schedule = Arc::clone(&schedule);
        tasks.spawn(async move { claimed(&schedule, 50).await.len() });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<usize>(), 2_000);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_tenant_cannot_fill_redis() {
    let server = RedisServer::start(&["maxmemory 64mb", "maxmemory-policy noeviction"]);
    let schedule = schedule(&server.url(), SHARES);
    let tenant = "01234567-89ab-cdef-0123-456789abcdef";
    for batch in 0..20 {
        put(&schedule, (0..10_000).map(|n| hint(tenant, tenant, batch * 10_000 + n))).await;
    }
    put(&schedule, [hint("calm", "w", 1)]).await;
    let tenants: Vec<_> = claimed(&schedule, 2).await.into_iter().map(|claim| claim.entry.tenant).collect();
    assert!(tenants.iter().any(|tenant| &**tenant == "calm"), "{tenants:?}");
    assert_eq!(server.cli(&["HLEN", "{docket}:3:entries"]), "100001");
}
