//! What pods report through Redis, and the status that the operator makes of it. The pod is a stand-in that writes to the
//! board as a real one does; the board, the operator and everything behind it are real.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docket_board::{AT_LIMIT_COUNTS, AT_LIMIT_OVER, Board, ReportedHealth};
use docket_redis::{Keys, RedisConnection, RedisUrl, cmd};
use docket_rig::redis::RedisServer;
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::writes::passes;

pub(super) const REDIS_IS_UP: &str = "docket_operator_store_up{store=\"redis\",server=\"\"}";
const PASSES: &str = "docket_operator_reconcile_total{kind=\"Webhook\",result=\"ok\"}";

type Served = HashMap<String, String>;

/// A pod that is alive until it is dropped.
pub(super) struct Pod {
    board: Arc<Board>,
    /// What the pod announces; `None`: the pod is cut off, and announces nothing.
    served: Arc<Mutex<Option<Served>>>,
    _heartbeat: JoinSet<()>,
}

fn connection(redis: &RedisServer) -> RedisConnection {
    let target = RedisUrl::parse(&redis.url()).expect("a URL");
    RedisConnection::new(target, None).expect("no certificates to read")
}

impl Pod {
    pub(super) fn start(redis: &RedisServer, name: &'static str) -> Self {
        let board = Arc::new(Board::new(connection(redis), Keys::new(None).expect("no release")));
        let served = Arc::new(Mutex::new(Some(Served::new())));
        let mut heartbeat = JoinSet::new();
        let (announcer, says) = (board.clone(), served.clone());
        heartbeat.spawn(async move {
            loop {
                let served = says.lock().expect("no thread panics with it").clone();
                if let Some(served) = served {
                    // Redis may be away, on purpose.
                    let _ = announcer.announce(name, &["api", "worker"], &served).await;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Self { board, served, _heartbeat: heartbeat }
    }

    /// Reports that the pod serves the current configuration of these tenants.
    pub(super) fn serves(&self, release: &Release, tenants: &[&str]) {
        let revision = |tenant: &&str| {
            let runtime = release.runtime(tenant).expect("it was handed over");
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            (text(&runtime["config"]["uid"]), text(&runtime["revision"]))
        };
        *self.served.lock().expect("no thread panics with it") = Some(tenants.iter().map(revision).collect());
    }

    fn is_cut_off(&self) {
        *self.served.lock().expect("no thread panics with it") = None;
    }

    async fn tells(&self, release: &Release, webhook: &str, health: ReportedHealth) {
        let uid = release.object("webhook", webhook)["metadata"]["uid"].as_str().expect("a uid").to_owned();
        self.board.put_health(&[(uid, health)]).await.expect("Redis is there");
    }
}

fn writes_of(release: &Release, mark: u64, object: &str) -> usize {
    release.writes(mark).iter().filter(|write| write.ends_with(object)).count()
}

#[tokio::test]
async fn a_tenant_that_stays_at_a_limit_has_a_condition_until_it_does_not() {
    let mut release = Release::new("atlimit");
    release.with_postgres().await;
    let redis = release.with_redis();
    let pod = Pod::start(&redis, "one");
    let _operator = release.start().await;
    release.apply(&tenant_yaml("eager"));
    release.wait("tenant", "eager", "WithinLimits", "True WithinLimits").await;
    let uid = release.object("tenant", "eager")["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let report = async || {
        let at_limit = [(&*uid, "requestsPerSecond"), (&*uid, "aLimitOfALaterVersion")];
        pod.board.put_at_limit(&at_limit).await.expect("Redis is there");
    };
    report().await;
    let [last, since] = Keys::new(None).expect("no release").at_limit();
    let member = format!("{uid}\0requestsPerSecond");
    let ago = |time: Duration| {
        let at = std::time::UNIX_EPOCH.elapsed().expect("after 1970") - time;
        at.as_millis().to_string()
    };
    let set = async |command: &str, key: &str, values: [&str; 2]| {
        let set = cmd(command).arg(key).arg(&values).to_owned();
        let _: i64 = connection(&redis).query(&set).await.expect("Redis is there");
    };
    set("HSET", &since, [&member, &ago(AT_LIMIT_COUNTS)]).await;
    let message = release.wait("tenant", "eager", "WithinLimits", "False LimitReached").await;
    assert!(
        message.contains("spec.limits.requestsPerSecond: the Tenant is at its limit of 10000"),
        "{message}"
    );
    release.wait("tenant", "eager", "Accepted", "True Accepted").await;
    set("ZADD", &last, [&ago(AT_LIMIT_OVER), &member]).await;
    release.wait("tenant", "eager", "WithinLimits", "True WithinLimits").await;
}

#[tokio::test]
async fn a_change_waits_for_every_pod_and_leaves_other_tenants_programmed() {
    let mut release = Release::new("programmed");
    release.with_postgres().await;
    let redis = release.with_redis();
    release.flags.push("--resync=5s".into());
    // The pods serve nothing yet, and count all the same.
    let pods = [Pod::start(&redis, "one"), Pod::start(&redis, "two")];
    let operator = release.start().await;
    release.apply(&(tenant_yaml("changing") + &webhook_yaml("kept", "changing", "")));
    let message = release.wait("tenant", "changing", "Programmed", "False Pending").await;
    assert!(message.contains("not served yet by one, two"), "{message}");
    release.wait("webhook", "kept", "Ready", "False Pending").await;
    let has_webhooks = async |count: usize| {
        eventually("the webhooks are handed over", SOON, async || {
            let runtime = release.runtime("changing");
            runtime
                .is_some_and(|runtime| runtime["config"]["webhooks"].as_array().map(Vec::len) == Some(count))
        })
        .await;
    };
    has_webhooks(1).await;
    pods[0].serves(&release, &["changing"]);
    let only =
        async || release.condition("tenant", "changing", "Programmed").ends_with("not served yet by two");
    eventually("one of two", SOON, only).await;
    pods[1].serves(&release, &["changing"]);
    release.wait("tenant", "changing", "Ready", "True").await;
    release.wait("webhook", "kept", "Ready", "True").await;

    let mark = cluster().mark();
    release.apply(&webhook_yaml("added", "changing", ""));
    let message = release.wait("webhook", "added", "Programmed", "False Pending").await;
    assert!(message.contains("one, two"), "{message}");
    has_webhooks(2).await;
    pods.iter().for_each(|pod| pod.serves(&release, &["changing"]));
    release.wait("webhook", "added", "Ready", "True").await;
    assert_eq!(writes_of(&release, mark, "webhooks/status/kept"), 0, "{:?}", release.writes(mark));
    // Its count of webhooks, and nothing else.
    assert_eq!(writes_of(&release, mark, "tenants/status/changing"), 1, "{:?}", release.writes(mark));

    pods[0].tells(&release, "added", ReportedHealth::default()).await;
    let counted = async || !release.object("webhook", "added")["status"]["deliveries"].is_null();
    eventually("it is counted", SOON, counted).await;
    let mark = cluster().mark();
    passes(&operator, 5.0).await;
    assert_eq!(release.writes(mark), Vec::<String>::new(), "at rest");
    operator.terminate().await;
    let operator = release.start().await;
    passes(&operator, 4.0).await;
    assert_eq!(release.writes(mark), Vec::<String>::new(), "over a restart");
}

/// Waits until the operator has read the pods from Redis `count` more times, or once less: the operator reads the tenants at
/// their limits by the same command. No pod uses it.
async fn looks(redis: &RedisServer, count: u64) {
    let so_far = || -> u64 {
        let stats = redis.cli(&["INFO", "commandstats"]);
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_zrangebyscore:calls="));
        calls.and_then(|calls| calls.split_once(',')?.0.parse().ok()).expect("a number of calls")
    };
    let before = so_far();
    eventually("the operator looks at the pods", SOON, async || so_far() >= before + count).await;
}

#[tokio::test]
async fn a_redis_that_is_emptied_or_away_costs_no_write() {
    let mut release = Release::new("redis");
    release.with_postgres().await;
    let redis = release.with_redis();
    let pod = Pod::start(&redis, "pod");
    let operator = release.start().await;
    operator.leads().await;
    release.apply(&(tenant_yaml("emptied") + &webhook_yaml("webhook", "emptied", "")));
    release.wait("webhook", "webhook", "Programmed", "False Pending: not served yet by pod").await;
    pod.serves(&release, &["emptied"]);
    release.wait("tenant", "emptied", "Ready", "True").await;
    release.wait("webhook", "webhook", "Ready", "True").await;

    let mark = cluster().mark();
    pod.is_cut_off();
    assert_eq!(redis.cli(&["FLUSHALL"]), "OK");
    // The operator looks once a second, and believes what it sees after ten seconds.
    looks(&redis, 5).await;
    pod.serves(&release, &["emptied"]);
    looks(&redis, 4).await;
    assert_eq!(release.writes(mark), Vec::<String>::new(), "it was back in time");

    redis.freeze();
    eventually("it is away", SOON, async || operator.metric(REDIS_IS_UP).await == 0.0).await;
    operator.terminate().await;
    // The new process does not know what the earlier one knew of the pods: the status keeps what is known.
    let operator = release.start().await;
    operator.leads().await;
    // The webhook before its tenant, and after it.
    eventually("all is reconciled", SOON, async || operator.metric(PASSES).await >= 2.0).await;
    assert!(operator.text().contains("reading from Redis"), "it is away still");
    assert_eq!(release.writes(mark), Vec::<String>::new(), "also over a restart");

    // A user's change is handed over, and only of what changed nothing is known.
    release.apply(&webhook_yaml("added", "emptied", ""));
    release.wait("webhook", "added", "Programmed", "Unknown StoreUnavailable").await;
    assert!(release.condition("tenant", "emptied", "Ready").starts_with("True"));
    assert_eq!(writes_of(&release, mark, "webhooks/status/webhook"), 0, "{:?}", release.writes(mark));
    pod.serves(&release, &["emptied"]);
    redis.thaw();
    release.wait("webhook", "added", "Ready", "True").await;
    assert_eq!(operator.metric(REDIS_IS_UP).await, 1.0);
    assert_eq!(writes_of(&release, mark, "webhooks/status/webhook"), 0, "{:?}", release.writes(mark));
    // Its count of webhooks.
    assert_eq!(writes_of(&release, mark, "tenants/status/emptied"), 1, "{:?}", release.writes(mark));

    pod.is_cut_off();
    let message = release.wait("tenant", "emptied", "Programmed", "False Pending").await;
    assert!(message.contains("no pod of the data plane is alive"), "{message}");
}

#[tokio::test]
async fn the_status_reports_how_deliveries_go() {
    let mut release = Release::new("health");
    release.with_postgres().await;
    let redis = release.with_redis();
    let pod = Pod::start(&redis, "pod");
    let operator = release.start().await;
    release.apply(&(tenant_yaml("delivering") + &webhook_yaml("webhook", "delivering", "")));
    release.wait("webhook", "webhook", "DeliveryHealthy", "Unknown NoDeliveries").await;
    let lacking = ReportedHealth { lacks_customer: true, ..ReportedHealth::default() };
    pod.tells(&release, "webhook", lacking).await;
    eventually("it says that there is no such customer", SOON, async || {
        let message = release.wait("webhook", "webhook", "DeliveryHealthy", "Unknown NoDeliveries").await;
        message.contains("no customer with this code")
    })
    .await;
    let last_failure_at_ms = Some(1_700_000_000_000);
    let retrying = ReportedHealth { retrying: 2, last_failure_at_ms, ..ReportedHealth::default() };
    pod.tells(&release, "webhook", retrying).await;
    release.wait("webhook", "webhook", "DeliveryHealthy", "False Retrying").await;
    let failing = ReportedHealth { dead_letter: 2, last_failure_at_ms, ..ReportedHealth::default() };
    pod.tells(&release, "webhook", failing).await;
    release.wait("webhook", "webhook", "DeliveryHealthy", "False DeadLettered").await;
    let counted = release.object("webhook", "webhook")["status"]["deliveries"].clone();
    assert_eq!((&counted["pending"], &counted["deadLetter"]), (&0.into(), &2.into()), "with the condition");
    assert_eq!(operator.metric("docket_dead_letters{}").await, 2.0);
    let last_success_at_ms = Some(1_700_000_001_000);
    pod.tells(&release, "webhook", ReportedHealth { last_success_at_ms, ..failing }).await;
    release.wait("webhook", "webhook", "DeliveryHealthy", "True Delivering").await;
    let deliveries = release.object("webhook", "webhook")["status"]["deliveries"].clone();
    let expected =
        serde_json::json!({"pending": 0, "deadLetter": 2, "lastSuccessAt": "2023-11-14T22:13:21Z"});
    assert_eq!(deliveries, expected, "with the condition");
}
