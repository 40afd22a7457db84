//! Redis loses some of its entries, or all of them, or becomes another server.

use std::collections::BTreeSet;
use std::time::Duration;

use docket_rig::redis::{RedisCluster, Sentinels};
use docket_schedule::{Hint, Loss, SHARES, Schedule};

use crate::rig::{Rig, claimed, end, end_after, hint, patiently, put, room, schedule, soon};

/// Whether `lost` returns by itself; it looks once a second.
async fn is_lost(schedule: &Schedule) -> bool {
    tokio::time::timeout(Duration::from_millis(2_500), schedule.lost()).await.is_ok()
}

async fn build(rig: &Rig) {
    soon("an empty Redis to be lost", rig.schedule.lost()).await;
    rig.schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&rig.schedule).await);
}

#[tokio::test]
async fn an_emptied_redis_is_rebuilt() {
    let rig = Rig::new();
    build(&rig).await;
    put(&rig.schedule, [hint("a", "w", 1)]).await;
    let claims = claimed(&rig.schedule, 9).await;
    rig.server.cli(&["FLUSHALL"]);
    soon("word of the loss", rig.schedule.lost()).await;
    // The new index knows no claim from before the loss.
    end(&rig.schedule, claims.clone()).await;
    rig.schedule.renew(&claims, Duration::from_secs(1)).await.expect("renews");
    put(&rig.schedule, [hint("a", "w", 1)]).await;
    rig.schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&rig.schedule).await);
    assert_eq!(claimed(&rig.schedule, 9).await.len(), 1);
    end(&rig.schedule, claims).await;
    assert_eq!(rig.server.cli(&["HLEN", "{docket}:3:entries"]), "1");
}

#[tokio::test]
async fn a_hand_off_is_lost_with_its_redis() {
    let rig = Rig::new();
    build(&rig).await;
    let lease = Duration::from_secs(60);
    let hand_off = |entry| rig.schedule.hand_off(vec![entry], room(9), lease);
    let old = hand_off(hint("a", "w", 1).entry).await.expect("hands off").claims;
    rig.server.cli(&["FLUSHALL"]);
    soon("word of the loss", rig.schedule.lost()).await;
    assert!(rig.schedule.abandoned().await.expect("looks").is_empty());
    // Its end and its renewal are nothing to the new index: neither to the shares nor to what the sweep put.
    put(&rig.schedule, [hint("a", "w", 1)]).await;
    rig.schedule.renew(&old, lease).await.expect("renews");
    end_after(&rig.schedule, old.clone(), Duration::ZERO).await;
    assert_eq!(rig.server.cli(&["EXISTS", "{docket}:3:shares", "{docket}:3:flight"]), "0");
    let new = claimed(&rig.schedule, 9).await;
    assert_eq!((new.len(), new[0].quick), (1, false));
    assert!(new[0].fence > old[0].fence, "no fence is given twice");
    rig.schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&rig.schedule).await);
    assert_eq!(hand_off(hint("a", "w", 2).entry).await.expect("hands off").claims.len(), 1);
}

#[tokio::test]
async fn a_ready_queue_without_entries_is_a_loss() {
    let rig = Rig::new();
    build(&rig).await;
    put(&rig.schedule, [hint("a", "w", 1), hint("b", "w", 1)]).await;
    let held = claimed(&rig.schedule, 1).await;
    rig.server.cli(&["DEL", "{docket}:3:waiting"]);
    assert_eq!(claimed(&rig.schedule, 9).await, []);
    assert!(is_lost(&rig.schedule).await);
    // Nothing contradicts any more.
    end(&rig.schedule, held).await;
    assert_eq!(rig.schedule.next_due().await.expect("answers"), None);
}

#[tokio::test]
async fn a_loss_during_the_rebuilding_is_one_more() {
    let rig = Rig::new();
    let other = schedule(&rig.server.url(), SHARES);
    soon("an empty Redis to be lost", rig.schedule.lost()).await;
    soon("the other one's word", other.lost()).await;
    rig.server.cli(&["FLUSHALL"]);
    rig.schedule.rebuilt().await.expect("tells");
    assert!(is_lost(&rig.schedule).await);
    rig.schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&rig.schedule).await && !is_lost(&other).await);
}

#[tokio::test]
async fn a_loss_is_new_once_and_stands_until_it_is_rebuilt() {
    let rig = Rig::new();
    assert_eq!(soon("an empty Redis", rig.schedule.lost()).await, Loss::New);
    assert_eq!(soon("the same", rig.schedule.lost()).await, Loss::Standing);
    rig.server.cli(&["FLUSHALL"]);
    assert_eq!(soon("another loss", rig.schedule.lost()).await, Loss::New);
    rig.schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&rig.schedule).await);
    rig.server.cli(&["FLUSHALL"]);
    assert_eq!(soon("another loss", rig.schedule.lost()).await, Loss::New);
    rig.server.cli(&["FLUSHALL"]);
    rig.schedule.rebuilt().await.expect("tells");
    assert!(is_lost(&rig.schedule).await, "the entries went with the second one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_responds_again_may_lack_hints() {
    let rig = Rig::new();
    build(&rig).await;
    assert!(!is_lost(&rig.schedule).await);
    rig.server.freeze();
    let failures = async {
        // By then a check has failed too: the schedule makes one each second.
        for _ in 0..5 {
            rig.schedule.next_due().await.expect_err("it does not respond");
        }
        rig.server.thaw();
    };
    let (loss, ()) = tokio::join!(soon("its response", rig.schedule.lost()), failures);
    assert_eq!(loss, Loss::Hints);
    assert!(!is_lost(&rig.schedule).await, "it is reported once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_contradict_each_other_are_thrown_away_and_rebuilt() {
    const KEYS: [&str; 10] = [
        "entries",
        "waiting",
        "claims",
        "flight",
        "shares",
        "heads",
        "ready",
        "ring",
        "ready-quick",
        "ring-quick",
    ];
    let mut without = tokio::task::JoinSet::new();
    for key in KEYS {
        without.spawn(is_rebuilt_without(key));
    }
    without.join_all().await;
}

/// Another program deletes a key, or writes to it.
async fn is_rebuilt_without(key: &str) {
    let rig = Rig::with(SHARES);
    build(&rig).await;
    let quick = vec![hint("c", "quick", 20).entry];
    let claims =
        rig.schedule.hand_off(quick, room(1), Duration::from_secs(9)).await.expect("hands off").claims;
    end_after(&rig.schedule, claims, Duration::ZERO).await;
    let later = Hint { wait: Duration::from_millis(200), ..hint("b", "w", 9) };
    let all: Vec<Hint> = (1..6)
        .map(|number| hint("a", "w", number))
        .chain([hint("c", "quick", 21), hint("c", "quick", 22), later])
        .collect();
    put(&rig.schedule, all.clone()).await;
    let held = rig.schedule.claim(room(2), Duration::from_millis(100)).await.expect("claims");
    assert_eq!(held.len(), 2);
    assert_eq!(rig.server.cli(&["DEL", &format!("{{docket}}:3:{key}")]), "1", "{key}");
    tokio::time::sleep(Duration::from_millis(250)).await;
    let begun = std::time::Instant::now();
    let mut claimed = BTreeSet::new();
    while claimed.len() < all.len() {
        // A sweep puts all deliveries again like this, at each interval or after a loss.
        let lost = tokio::time::timeout(Duration::from_millis(1_200), rig.schedule.lost()).await;
        put(&rig.schedule, all.iter().map(|hint| Hint { wait: Duration::ZERO, ..hint.clone() })).await;
        if lost.is_ok() {
            rig.schedule.rebuilt().await.expect("tells");
        }
        let claims = rig.schedule.claim(room(9), Duration::from_millis(100)).await.expect("no error stays");
        claimed.extend(claims.iter().map(|claim| (claim.entry.tenant.to_string(), claim.entry.id)));
        end(&rig.schedule, claims).await;
        assert!(begun.elapsed() < Duration::from_secs(15), "{key}: {claimed:?}");
    }
}

#[tokio::test]
async fn an_older_dump_is_a_loss() {
    let mut rig = Rig::new();
    build(&rig).await;
    put(&rig.schedule, [hint("a", "w", 1)]).await;
    let old = claimed(&rig.schedule, 9).await;
    rig.server.save();
    let dump = rig.server.dump();
    end(&rig.schedule, old.clone()).await;
    put(&rig.schedule, [hint("a", "w", 2)]).await;
    rig.server.restart_with(&dump);
    soon("word of the loss", rig.schedule.lost()).await;
    put(&rig.schedule, [hint("a", "w", 2)]).await;
    rig.schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&rig.schedule).await);
    // The old entry is back, claimed as before: its row in the database decides. The new entry can be claimed.
    let claims = claimed(&rig.schedule, 9).await;
    assert_eq!(claims.len(), 1);
    assert!(claims[0].fence > old[0].fence, "no fence is given twice");
}

#[tokio::test]
async fn a_killed_redis_is_found_again_and_lost() {
    let mut rig = Rig::new();
    build(&rig).await;
    rig.server.kill();
    assert!(rig.schedule.claim(room(9), Duration::from_secs(1)).await.is_err());
    rig.server.restart();
    patiently("claims", || rig.schedule.claim(room(9), Duration::from_secs(1))).await;
    soon("word of the loss", rig.schedule.lost()).await;
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again() {
    let rig = Rig::new();
    put(&rig.schedule, [hint("a", "w", 1)]).await;
    rig.server.cli(&["SCRIPT", "FLUSH"]);
    put(&rig.schedule, [hint("a", "w", 2)]).await;
    let claims = claimed(&rig.schedule, 9).await;
    rig.server.cli(&["SCRIPT", "FLUSH"]);
    rig.schedule.renew(&claims, Duration::from_secs(9)).await.expect("renews");
    rig.server.cli(&["SCRIPT", "FLUSH"]);
    end(&rig.schedule, claims).await;
    assert_eq!(rig.schedule.next_due().await.expect("answers"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_primary_is_found_and_its_index_is_lost() {
    let mut rig = Sentinels::start("secret");
    let schedule = schedule(&rig.url(), SHARES);
    soon("an empty Redis to be lost", schedule.lost()).await;
    put(&schedule, [hint("a", "w", 1)]).await;
    schedule.rebuilt().await.expect("tells");
    assert!(!is_lost(&schedule).await);
    rig.servers[0].kill();
    patiently("the new primary", || schedule.put(vec![hint("a", "w", 2)])).await;
    soon("word that it may not have everything", schedule.lost()).await;
    schedule.rebuilt().await.expect("tells");
    assert!(rig.servers[1].cli(&["ROLE"]).starts_with("master"));
    // The old primary comes back as a replica. A switch by hand, while both servers live, ends the same way.
    rig.servers[0].restart();
    docket_rig::redis::wait_for("the old one to follow", || {
        rig.servers[0].cli(&["INFO", "replication"]).contains("master_link_status:up")
    });
    let switched = || rig.sentinels[0].cli(&["SENTINEL", "FAILOVER", "main"]) == "OK";
    docket_rig::redis::wait_for("the Sentinels to be ready to switch", switched);
    docket_rig::redis::wait_for("the switch", || rig.servers[0].cli(&["ROLE"]).starts_with("master"));
    // Entries that the other server took before it heard of the switch are lost, and the schedule reports that.
    soon("word that it may not have everything", schedule.lost()).await;
    patiently("the first primary", || schedule.put(vec![hint("a", "w", 3)])).await;
    assert_eq!(rig.servers[0].cli(&["ZCARD", "{docket}:3:waiting"]), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_holds_a_schedule() {
    let mut rig = RedisCluster::start();
    let (one, other) = (schedule(&rig.url(), SHARES), schedule(&rig.url(), SHARES));
    soon("the subscription", other.changed()).await;
    put(&one, (0..100).map(|n| hint(&format!("t{}", n % 7), "w", n))).await;
    soon("word of another process", other.changed()).await;
    let claims = claimed(&other, 25).await;
    assert_eq!(claims.len(), 25);
    end(&one, claims).await;
    assert_eq!(one.next_due().await.expect("answers"), Some(Duration::ZERO));
    soon("an empty Redis to be lost", one.lost()).await;
    one.rebuilt().await.expect("tells");
    assert!(!is_lost(&other).await);
    for node in &rig.nodes {
        node.cli(&["SCRIPT", "FLUSH"]);
    }
    assert_eq!(claimed(&one, 25).await.len(), 25);
    // The whole Cluster goes and comes back, empty.
    for node in &mut rig.nodes {
        node.kill();
    }
    assert!(one.claim(room(9), Duration::from_secs(1)).await.is_err());
    for node in &mut rig.nodes {
        node.restart();
    }
    patiently("the Cluster", || one.put(vec![hint("a", "w", 1)])).await;
    soon("word of the loss", one.lost()).await;
    assert_eq!(claimed(&other, 9).await.len(), 1);
}
