//! Redis is away, at the start and later: saves succeed, and sweeps find the entries that Redis missed.

use std::time::Duration;

use docket_domain::delivery::Status;
use docket_rig::postgres;
use docket_rig::proxy::Proxy;
use docket_rig::redis::RedisServer;
use docket_rig::tenant_database::reopened_sql;
use docket_tests::server::{Server, api_key, eventually, request};
use docket_tests::stores::write_secret;

use crate::serve::stage::{SOON, Stage, USER, external, save, sign_in};

/// A hint to an unavailable Redis delays a save by no more than this.
const UNHURT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_at_start_is_waited_for_and_named() {
    let mut stage = Stage::new().await;
    stage.redis.kill();
    let api = stage.spawn("api,worker", "");
    let management = api.management;
    eventually("only Redis is missing", SOON, async || {
        let reply = request(management, "GET", "/readyz", &[], "").await;
        reply.is_ok_and(|reply| reply.status == 503 && reply.text() == "not ready: Redis\n")
    })
    .await;
    stage.logs("Redis is not available; retrying").await;
    stage.redis.restart();
    let api = api.ready(&stage.home).await;
    save(&sign_in(&api).await).await;
    stage.received(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_serves_requests_starts_without_redis_and_a_worker_does_not() {
    let mut stage = Stage::new().await;
    stage.redis.kill();
    let worker = stage.spawn("worker", "--redis-wait 100ms");
    let api = stage.spawn("api", "--redis-wait 100ms").ready(&stage.home).await;
    stage.logs("starting without it").await;
    let took = save(&sign_in(&api).await).await;
    assert!(took < UNHURT, "{took:?}");
    let reply = request(worker.management, "GET", "/readyz", &[], "").await.expect("an answer");
    assert_eq!((reply.status, reply.text()), (503, "not ready: Redis\n"));
    stage.redis.restart();
    let _worker = worker.ready(&stage.home).await;
    stage.received(1).await;
}

/// Redis was away at the start, so its settings were not checked then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_later_and_may_evict_is_reported() {
    let stage = Stage::new().await;
    let evicting = RedisServer::start(&["maxmemory-policy allkeys-lru"]);
    let proxy = Proxy::to(([127, 0, 0, 1], evicting.port).into());
    proxy.cut();
    write_secret(&stage.home.log("redis-url"), &format!("redis://{}", proxy.address));
    let _api = stage.spawn("api", "--redis-wait 100ms").ready(&stage.home).await;
    proxy.restore();
    stage.logs("Redis does not meet the requirements").await;
    stage.logs("maxmemory-policy is allkeys-lru").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saves_succeed_without_redis_and_are_delivered_once_it_is_back() {
    let mut stage = Stage::new().await;
    let (api, _worker) = tokio::join!(stage.serve("api"), stage.serve("worker"));
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    for round in 0..2 {
        if round == 0 {
            stage.redis.kill()
        } else {
            stage.redis.freeze()
        }
        for _ in 0..5 {
            let took = save(&client).await;
            assert!(took < UNHURT, "{took:?}");
        }
        let reply = request(api.management, "GET", "/readyz", &[], "").await.expect("an answer");
        assert_eq!(reply.status, 200, "it serves all the same");
        if round == 0 {
            stage.redis.restart()
        } else {
            stage.redis.thaw()
        }
        stage.received(1 + 5 * (round + 1)).await;
    }
}

/// No sweep comes by itself within a test.
const NO_SWEEP: &str = "--sweep-interval 1h";

/// The server for which the index is complete; empty while it is not complete.
fn built(stage: &Stage) -> String {
    stage.redis.cli(&["HGET", "{docket}:3:state", "built"])
}

async fn both(stage: &Stage) -> (Server, Server) {
    // Only the first failure of a tenant's sweeps is a warning.
    let worker = stage.spawn("worker", &format!("{NO_SWEEP} --log info,docket=debug"));
    let api = stage.spawn("api", NO_SWEEP);
    let (api, worker) = tokio::join!(api.ready(&stage.home), worker.ready(&stage.home));
    // The first sweep has ended, and the sweep after Redis was emptied too.
    eventually("the index is complete", SOON, async || !built(stage).is_empty()).await;
    (api, worker)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_missed_by_redis_are_scheduled_when_it_is_back() {
    let stage = Stage::new().await;
    let proxy = Proxy::to(([127, 0, 0, 1], stage.redis.port).into());
    let worker = stage.spawn("worker", NO_SWEEP).ready(&stage.home).await;
    std::fs::write(stage.home.log("redis-url"), format!("redis://{}", proxy.address)).expect("writable");
    let api = stage.spawn("api", NO_SWEEP).ready(&stage.home).await;
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    proxy.cut();
    for _ in 0..5 {
        let took = save(&client).await;
        assert!(took < UNHURT, "{took:?}");
    }
    assert_eq!(stage.receiver.count(), 1);
    proxy.restore();
    stage.received(6).await;
    drop(worker);
}

/// One tenant's database is away while Redis loses everything: the index does not count as complete, and the others continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_ends_only_when_every_tenant_is_scheduled_again() {
    let stage = Stage::new().await;
    let url = postgres::database().await;
    let (rest, name) = url.rsplit_once('/').expect("a path");
    let (user, address) = rest.rsplit_once('@').expect("a host");
    let proxy = Proxy::to(address.parse().expect("an address"));
    let away = format!("{user}@{}/{name}", proxy.address);
    let yaml =
        external("other", 'b', &away) + &stage.receiver.webhook_yaml("other", "others", "C-1", "/others");
    stage.home.write("other.yaml", &yaml);
    let (api, _worker) = both(&stage).await;
    for words in [
        ["customer", "add", "--code", "C-1", "--name", "One"].as_slice(),
        &["contact", "add", "--customer", "C-1", "--email", USER, "--name", "A contact"],
    ] {
        let words = [words, &["--tenant", "OTHER", "--postgresql"]].concat();
        assert!(stage.home.command(&words, "a-password-for-tests\n").0);
    }
    let other = api.sign_in(&api_key('b'), USER).await;
    save(&other).await;
    stage.received(1).await;
    // The failed deliveries must be scheduled again; only the database knows them.
    let database = postgres::client(&url).await;
    let ended = "SELECT 1 FROM delivery WHERE status = 'Succeeded'";
    eventually("its end is stored", SOON, async || {
        database.query_opt(ended, &[]).await.expect("a statement").is_some()
    })
    .await;
    proxy.cut();
    database.batch_execute(&reopened_sql(Status::Failed, "TRUE")).await.expect("a statement");
    let queued = "SELECT count(*) FROM delivery_queue";
    assert_eq!(database.query_one(queued, &[]).await.expect("a statement").get::<_, i64>(0), 1);
    stage.redis.cli(&["FLUSHALL"]);
    save(&sign_in(&api).await).await;
    stage.received(2).await;
    stage.logs("sweeping the tenant failed; retrying").await;
    // The rebuild has tried the unavailable tenant once more.
    stage.logs("sweeping the tenant failed again").await;
    assert_eq!(built(&stage), "", "one tenant is missing");
    proxy.restore();
    stage.received(3).await;
    eventually("all are scheduled", SOON, async || !built(&stage).is_empty()).await;
}

/// The number of scripts that Redis has run, for the schedule and for others.
fn scripts(stage: &Stage) -> u64 {
    let stats = stage.redis.cli(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|calls| calls.split_once(',')?.0.parse().ok()).expect("a number of calls")
}

/// No delivery of a suspended tenant is due, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_tenants_deliveries_leave_the_schedule_and_come_back_with_it() {
    let stage = Stage::new().await;
    let api = stage.spawn("api", NO_SWEEP).ready(&stage.home).await;
    let client = sign_in(&api).await;
    for _ in 0..5 {
        save(&client).await;
    }
    let entries = || stage.redis.cli(&["HLEN", "{docket}:3:entries"]);
    eventually("all are scheduled", SOON, async || entries() == "5").await;
    let yaml = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("the stage's");
    let suspended = yaml.replacen("spec:\n  clientCode:", "spec:\n  suspend: true\n  clientCode:", 1);
    assert_ne!(suspended, yaml);
    stage.home.write("all.yaml", &suspended);
    let _worker = stage.spawn("worker", NO_SWEEP).ready(&stage.home).await;
    eventually("nothing is due", SOON, async || entries() == "0").await;
    // The sweeps of the start are over.
    eventually("the index is complete", SOON, async || !built(&stage).is_empty()).await;
    // Then the worker looks ten times more. Each look runs two scripts, and other tasks run fewer in the same time.
    let before = scripts(&stage);
    eventually("the worker looks again", SOON, async || scripts(&stage) >= before + 40).await;
    assert_eq!((entries().as_str(), stage.receiver.count()), ("0", 0));
    stage.home.write("all.yaml", &yaml);
    stage.received(5).await;
    let database = postgres::client(&stage.database).await;
    let attempts = "SELECT max(attempt_count) FROM delivery";
    assert_eq!(database.query_one(attempts, &[]).await.expect("a statement").get::<_, i64>(0), 1);
}

/// The schedule has room for 300 of the deliveries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_without_room_in_the_schedule_follow_before_the_next_sweep() {
    let stage = Stage::new().await;
    let tenant = external("acme", 'a', &stage.database);
    let limited = tenant.replacen("spec:\n", "spec:\n  limits: {queuedDeliveries: 300}\n", 1);
    assert_ne!(limited, tenant);
    let webhook = stage.receiver.webhook_yaml("acme", "orders", "C-1", "/orders");
    stage.home.write("all.yaml", &format!("{limited}{}{webhook}", docket_tests::receiver::ca_yaml()));
    let queue = "INSERT INTO event (id, code, customer_code, body, occurred_at_ms)
            SELECT 'evt_' || lpad(n::text, 32, '0'), 'order.created', 'C-1', '{}', 0 FROM generate_series(1, 1500) n;
        INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms)
            SELECT '01900000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'evt_' || lpad(n::text, 32, '0'),
                   'file:default/orders', 'default/orders', 'Pending', 0, 0, 0 FROM generate_series(1, 1500) n";
    postgres::client(&stage.database).await.batch_execute(queue).await.expect("rows");
    let _worker = stage.spawn("worker", NO_SWEEP).ready(&stage.home).await;
    stage.received(1_500).await;
}
