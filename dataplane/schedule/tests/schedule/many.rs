//! Several processes on one index, and what a claim costs beside many others' work.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use docket_schedule::{Hint, SHARES, Schedule, Shares};

use crate::rig::{Rig, advance, claimed, end, hint, id, put, schedule, soon};

const WIDE: Shares = Shares { per_webhook: 100_000, per_tenant: 100_000 };

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
    assert_eq!(rig.server.cli(&["KEYS", "*"]), "{docket}:1:state");
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
    // It says so once when it has begun to listen.
    soon("the subscription", other.changed()).await;
    put(&rig.schedule, [Hint { wait: Duration::from_secs(600), ..hint("a", "w", 1) }]).await;
    soon("word of what is to come", other.changed()).await;
    assert!(other.next_due().await.expect("a time").expect("it is to come") > Duration::from_secs(500));
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
async fn a_tenant_of_5000_webhooks_does_not_delay_another() {
    let rig = Rig::with(SHARES);
    put(&rig.schedule, (0..5_000).map(|n| hint("large", &format!("w{n}"), n))).await;
    put(&rig.schedule, [hint("small", "w", 9_999)]).await;
    let claims = claimed(&rig.schedule, 25).await;
    assert_eq!(claims.len(), 25);
    assert!(claims[..2].iter().any(|claim| &*claim.entry.tenant == "small"));
    // 5,000 that fall due at once, beside one of another tenant that is due already.
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
    assert_eq!(claimed(&rig.schedule, 100).await.len(), SHARES.per_webhook);
    assert_ne!(rig.schedule.next_due().await.expect("a time"), Some(Duration::ZERO));
    put(&rig.schedule, [hint("other", "w", 1)]).await;
    let claims = claimed(&rig.schedule, 25).await;
    assert_eq!((claims.len(), &*claims[0].entry.tenant), (1, "other"));
    // What a claim does is counted by Redis itself: not the entries that wait.
    rig.server.cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!(claimed(&rig.schedule, 25).await, []);
    let calls: u64 = rig
        .server
        .cli(&["INFO", "commandstats"])
        .lines()
        .filter_map(|line| line.split_once("calls=")?.1.split_once(',')?.0.parse::<u64>().ok())
        .sum();
    assert!(calls < 20, "{calls} commands for a claim of nothing");
}

#[tokio::test]
async fn a_due_entry_keeps_its_place_when_it_is_put_again() {
    let rig = Rig::with(WIDE);
    put(&rig.schedule, [hint("a", "w", 7)]).await;
    advance(&rig.server.url(), Duration::from_secs(1)).await;
    put(&rig.schedule, [hint("a", "w", 3)]).await;
    advance(&rig.server.url(), Duration::from_secs(1)).await;
    // As a sweep does, in whatever order.
    put(&rig.schedule, [hint("a", "w", 3), hint("a", "w", 7)]).await;
    let ids: Vec<_> = claimed(&rig.schedule, 9).await.into_iter().map(|claim| claim.entry.id).collect();
    assert_eq!(ids, [id(7), id(3)]);
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
