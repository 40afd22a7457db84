//! Reports of pods to the operator through Redis.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use docket_redis::{Keys, RedisConnection, RedisUrl, cmd};
use docket_rig::redis::RedisServer;

use super::{
    AT_LIMIT_COUNTS, AT_LIMIT_OVER, Board, HEARTBEAT, POD_COUNTS, PodServed, ReportedHealth, read, written,
};

fn board(server: &RedisServer) -> Board {
    let target = RedisUrl::parse(&server.url()).expect("a URL");
    let connection = RedisConnection::new(target, None).expect("no certificates to be read");
    Board::new(connection, Keys::new(None).expect("the only one"))
}

fn served(tenants: &[(&str, &str)]) -> HashMap<String, String> {
    tenants.iter().map(|(uid, revision)| ((*uid).to_owned(), (*revision).to_owned())).collect()
}

fn names(pods: &[PodServed]) -> Vec<&str> {
    pods.iter().map(|pod| pod.pod.as_str()).collect()
}

/// The bytes that the server has sent. Times and numbers of calls do not show what was sent.
fn bytes_out(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "stats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.expect("it counts").trim().parse().expect("a number")
}

#[tokio::test]
async fn pods_are_read_as_they_announced() {
    let server = RedisServer::start(&[]);
    let (one, two, operator) = (board(&server), board(&server), board(&server));
    assert_eq!(operator.pods().await.expect("answers"), []);
    one.announce("api-1", &["api", "worker"], &served(&[("t1", "5"), ("t2", "1")]))
        .await
        .expect("the report is stored");
    two.announce("api-2", &["api"], &HashMap::new()).await.expect("the report is stored");
    let count = async |roles: &[&str]| operator.processes(roles).await.expect("answers");
    assert_eq!((count(&["api"]).await, count(&["worker"]).await, count(&["work"]).await), (2, 1, 0));
    assert_eq!((count(&["worker", "api"]).await, count(&["portal", "worker"]).await), (2, 1));
    let pods = operator.pods().await.expect("answers");
    assert_eq!(names(&pods), ["api-1", "api-2"]);
    assert_eq!(pods[0].roles, ["api", "worker"]);
    assert_eq!(*pods[0].served, served(&[("t1", "5"), ("t2", "1")]));
    assert_eq!((pods[1].roles.len(), pods[1].served.len()), (1, 0));
    // A change is visible immediately, and everything else stays.
    one.announce("api-1", &["api", "worker"], &served(&[("t1", "6")])).await.expect("the report is stored");
    two.announce("api-2", &["api"], &HashMap::new()).await.expect("the report is stored");
    let pods = operator.pods().await.expect("answers");
    assert_eq!(*pods[0].served, served(&[("t1", "6")]));
    two.announce("api-2", &["api", "portal"], &HashMap::new()).await.expect("the report is stored");
    assert_eq!(count(&["portal"]).await, 1, "its role is new, and it serves what it served");
    assert_eq!(operator.pods().await.expect("answers")[1].roles, ["api", "portal"]);
    one.leave("api-1").await.expect("the report is stored");
    assert_eq!((count(&["api"]).await, count(&["worker"]).await), (1, 0));
    assert_eq!(names(&operator.pods().await.expect("answers")), ["api-2"]);
}

#[tokio::test]
async fn pods_that_are_gone_are_forgotten_without_an_operator() {
    let server = RedisServer::start(&[]);
    let board = board(&server);
    board.announce("gone", &["api"], &served(&[("t1", "5")])).await.expect("the report is stored");
    let keys = Keys::new(None).expect("the only one").pods();
    let now_ms = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let long_ago = (now_ms - POD_COUNTS.as_millis() - 1_000).to_string();
    server.cli(&["ZADD", &keys[0], &long_ago, "gone"]);
    assert_eq!(board.processes(&["api"]).await.expect("answers"), 0);
    assert!(keys.iter().all(|key| server.cli(&["EXISTS", key]) == "0"));
}

#[tokio::test]
async fn a_limit_counts_when_a_tenant_is_at_it_again_and_again() {
    let server = RedisServer::start(&[]);
    let board = board(&server);
    let put = async |uid| board.put_at_limit(&[(uid, "bodyBytes"), (uid, "requestsPerSecond")]).await;
    let counts = async || board.at_limit().await.expect("answers");
    put("t1").await.expect("the report is stored");
    assert_eq!(counts().await, [], "it has just begun");
    let now_ms = || std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let [last, since] = Keys::new(None).expect("the only one").at_limit();
    let ago = |time: Duration| (now_ms() - time.as_millis()).to_string();
    let set = async |command: &str, key: &str, values: [&str; 2]| {
        let result: i64 = board.connection.query(cmd(command).arg(key).arg(&values)).await.expect("answers");
        assert!(result >= 0);
    };
    let begun = async |time| set("HSET", &since, ["t1\0bodyBytes", &ago(time)]).await;
    begun(AT_LIMIT_COUNTS - Duration::from_secs(30)).await;
    put("t1").await.expect("the report is stored");
    assert_eq!(counts().await, []);
    // One second more, because the clock of a virtual machine may be set back.
    let moment = Duration::from_secs(1);
    begun(AT_LIMIT_COUNTS + moment).await;
    put("t1").await.expect("the report is stored");
    put("t2").await.expect("the report is stored");
    assert_eq!(counts().await, [("t1".to_owned(), "bodyBytes".to_owned())]);
    set("ZADD", &last, [&ago(AT_LIMIT_OVER + moment), "t1\0bodyBytes"]).await;
    assert_eq!(counts().await, [], "it has ended");
    put("t1").await.expect("the report is stored");
    assert_eq!(counts().await, [], "it begins again");
    assert_eq!(server.cli(&["HLEN", &since]), "4");
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let server = RedisServer::start(&[]);
    let (pod, operator) = (board(&server), board(&server));
    let many: HashMap<String, String> = (0..2_000).map(|n| (format!("tenant-{n}"), "1".to_owned())).collect();
    pod.announce("api-1", &["api"], &many).await.expect("the report is stored");
    assert_eq!(operator.pods().await.expect("answers")[0].served.len(), 2_000);
    let version = server.cli(&["HGET", "{docket}:pods-served", "api-1"]);
    let before = bytes_out(&server);
    for _ in 0..5 {
        pod.announce("api-1", &["api"], &many).await.expect("the report is stored");
        assert_eq!(operator.pods().await.expect("answers")[0].served.len(), 2_000);
    }
    assert!(bytes_out(&server) - before < 10_000);
    assert_eq!(server.cli(&["HGET", "{docket}:pods-served", "api-1"]), version);
}

#[tokio::test]
async fn pods_that_redis_lost_are_announced_with_the_next_heartbeat() {
    let server = RedisServer::start(&[]);
    let (pod, operator) = (board(&server), board(&server));
    for flushed in ["FLUSHALL", "PING"] {
        pod.announce("api-1", &["api"], &served(&[("t1", "5")])).await.expect("the report is stored");
        let pods = operator.pods().await.expect("answers");
        assert_eq!(*pods[0].served, served(&[("t1", "5")]));
        server.cli(&[flushed]);
    }
}

#[tokio::test]
async fn a_silent_pod_is_dropped() {
    let server = RedisServer::start(&[]);
    let (pod, operator) = (board(&server), board(&server));
    pod.announce("api-1", &["api"], &HashMap::new()).await.expect("the report is stored");
    pod.announce("api-2", &["api"], &HashMap::new()).await.expect("the report is stored");
    // Moves the pod's last heartbeat eleven seconds into the past.
    server.cli(&["ZINCRBY", "{docket}:pods", "-11000", "api-1"]);
    assert_eq!(names(&operator.pods().await.expect("answers")), ["api-2"]);
    assert_eq!(server.cli(&["HEXISTS", "{docket}:pods-served", "api-1"]), "0");
    // The pod was only slow, and reports again.
    pod.announce("api-1", &["api"], &HashMap::new()).await.expect("the report is stored");
    assert_eq!(names(&operator.pods().await.expect("answers")), ["api-1", "api-2"]);
}

#[tokio::test]
async fn a_pod_counts_for_ten_seconds_after_each_heartbeat() {
    let server = RedisServer::start(&[]);
    let (pod, operator) = (board(&server), board(&server));
    // Only the first of three heartbeats has news.
    for _ in 0..3 {
        pod.announce("api-1", &["api"], &served(&[("t1", "5")])).await.expect("the report is stored");
        assert_eq!(operator.processes(&["api"]).await.expect("answers"), 1);
        server.cli(&["ZINCRBY", "{docket}:pods", "-6000", "api-1"]);
        assert_eq!(operator.processes(&["api"]).await.expect("answers"), 1);
        assert_eq!(names(&operator.pods().await.expect("answers")), ["api-1"]);
    }
    assert!(HEARTBEAT * 4 <= POD_COUNTS, "a pod may miss some heartbeats");
    assert_eq!((HEARTBEAT, POD_COUNTS), (Duration::from_secs(2), Duration::from_secs(10)));
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!((AT_LIMIT_COUNTS, AT_LIMIT_OVER), (minutes(5), minutes(2)));
}

#[tokio::test]
async fn one_process_at_a_time_has_a_turn() {
    let server = RedisServer::start(&[]);
    let (one, other) = (board(&server), board(&server));
    let every = Duration::from_secs(3);
    assert!(one.turn("a", every).await.expect("answers"));
    assert!(!other.turn("a", every).await.expect("answers"));
    assert!(other.turn("b", every).await.expect("answers"), "something else");
    let begun = Instant::now();
    while !other.turn("a", every).await.expect("answers") {
        assert!(begun.elapsed() < Duration::from_secs(30), "the turn does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn health_of_a_webhook_is_kept_while_it_is_reported() {
    let server = RedisServer::start(&[]);
    let board = board(&server);
    let health = |pending: u64| ReportedHealth {
        pending,
        last_success_at_ms: Some(1_700_000_000_000),
        ..Default::default()
    };
    let reported: Vec<_> = (0..1_200).map(|n| (format!("w{n}"), health(n))).collect();
    board.put_health(&reported).await.expect("the report is stored");
    let (all, healths): (Vec<String>, Vec<_>) =
        reported.iter().map(|(uid, health)| (uid.clone(), Some(*health))).unzip();
    assert_eq!(board.webhooks(&all).await.expect("answers"), healths);
    let asked = vec!["w7".to_owned(), "none".to_owned(), "w1199".to_owned()];
    assert_eq!(board.webhooks(&asked).await.expect("answers"), [Some(health(7)), None, Some(health(1_199))]);
    // Moves the last report more than three hours into the past, and another one nearly as far.
    server.cli(&["ZINCRBY", "{docket}:webhooks", "-10800001", "w7"]);
    server.cli(&["ZINCRBY", "{docket}:webhooks", "-10700000", "w1199"]);
    board.put_health(&reported[..1]).await.expect("the report is stored");
    assert_eq!(board.webhooks(&asked).await.expect("answers"), [None, None, Some(health(1_199))]);
    assert_eq!(board.webhooks(&[]).await.expect("answers"), []);
}

#[test]
fn a_webhooks_health_is_read_as_it_was_written() {
    let health =
        ReportedHealth { pending: 3, dead_letter: 1, last_failure_at_ms: Some(7), ..Default::default() };
    for health in [health, ReportedHealth { lacks_customer: true, ..health }] {
        assert_eq!(read(&written(&health)), Some(health));
    }
    assert_eq!(read("1 2 3 4 -").map(|health| health.lacks_customer), Some(false), "of an older version");
    assert_eq!(read("of another version"), None);
}
