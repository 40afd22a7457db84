//! The file with the URL of Redis changes while processes run: they follow it without a restart, and lose nothing. And what
//! they do when Sentinels choose another primary.

use std::path::Path;
use std::time::Duration;

use docket_receiver::Certificate;
use docket_rig::ports::free_port;
use docket_rig::redis::{RedisServer, Sentinels};
use docket_tests::server::{Server, eventually, request};
use docket_tests::stores::write_secret;

use crate::serve::stage::{SOON, Stage, save, sign_in};

const IS_STALE: &str = "docket_redis_url_stale";
const REFUSED: &str = "the URL of Redis that was read before stays in use";
const RENEWED: &str = "the new URL of Redis is in use";

/// A stage whose Redis has these settings, and the file with its URL.
async fn stage(settings: &'static [&'static str], login: &str) -> Stage {
    let mut stage = Stage::new().await;
    let start = || RedisServer::start_with_password("of-the-administrator", settings);
    stage.redis = tokio::task::spawn_blocking(start).await.expect("Redis starts");
    point(&stage, &format!("redis://{login}@127.0.0.1:{}", stage.redis.port));
    stage
}

/// Changes the file, whole at once as the kubelet does.
fn point(stage: &Stage, url: &str) {
    let new = stage.home.log("redis-url.new");
    write_secret(&new, url);
    std::fs::rename(new, stage.home.log("redis-url")).expect("renamable");
}

async fn both(stage: &Stage, more: &str) -> (Server, Server) {
    let (api, worker) = (stage.spawn("api", more), stage.spawn("worker", more));
    tokio::join!(api.ready(&stage.home), worker.ready(&stage.home))
}

/// The users of the connections to Redis, without the connection of this command.
fn users(redis: &RedisServer) -> Vec<String> {
    let list = redis.cli(&["CLIENT", "LIST"]);
    let users = list.lines().filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("user=")));
    users.filter(|user| *user != "default").map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_user_is_taken_up_before_the_old_one_is_removed() {
    let stage = stage(&["user old on >first ~* &* +@all"], "old:first").await;
    let (api, _worker) = both(&stage, "").await;
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    assert!(users(&stage.redis).iter().all(|user| user == "old") && !users(&stage.redis).is_empty());
    stage.redis.cli(&["ACL", "SETUSER", "new", "on", ">second", "~*", "&*", "+@all"]);
    point(&stage, &format!("redis://new:second@127.0.0.1:{}", stage.redis.port));
    eventually("both processes have left the old user", SOON, async || {
        let users = users(&stage.redis);
        users.len() >= 4 && users.iter().all(|user| user == "new")
    })
    .await;
    assert_eq!(stage.redis.cli(&["ACL", "DELUSER", "old"]), "1");
    save(&client).await;
    stage.received(2).await;
    assert!(!stage.log().contains(REFUSED), "{}", stage.log());
    assert!(!stage.log().contains("second"), "no password is logged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_saved_while_redis_refuses_the_password_are_delivered_once_the_file_is_right() {
    let stage = stage(&["user docket on >first ~* &* +@all"], "docket:first").await;
    let (api, _worker) = both(&stage, "").await;
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    // Someone changed the password before the file. Open connections would stay open.
    stage.redis.cli(&["ACL", "SETUSER", "docket", "<first", ">second"]);
    stage.redis.cli(&["CLIENT", "KILL", "USER", "docket"]);
    for _ in 0..5 {
        let took = save(&client).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    point(&stage, &format!("redis://docket:second@127.0.0.1:{}", stage.redis.port));
    stage.received(6).await;
    eventually("both processes say so", SOON, async || stage.log().matches(RENEWED).count() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_redis_is_filled_and_the_old_one_is_left() {
    let mut stage = Stage::new().await;
    let (api, _worker) = both(&stage, "").await;
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    let other = tokio::task::spawn_blocking(|| RedisServer::start(&[])).await.expect("Redis starts");
    point(&stage, &other.url());
    let old = std::mem::replace(&mut stage.redis, other);
    eventually("the old one has no client but the command", SOON, async || {
        old.cli(&["INFO", "clients"]).contains("connected_clients:1\r")
    })
    .await;
    eventually("the new one is complete", SOON, async || {
        !stage.redis.cli(&["HGET", "{docket}:3:state", "built"]).is_empty()
    })
    .await;
    drop(old);
    save(&client).await;
    stage.received(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_used_keeps_the_old_url_and_is_logged_once() {
    let stage = stage(&["user docket on >first ~* &* +@all"], "docket:first").await;
    let api = stage.spawn("api", "").ready(&stage.home).await;
    let client = sign_in(&api).await;
    let is = async |expected: f64| {
        let what = format!("{IS_STALE} {expected}");
        eventually(&what, SOON, async || api.metric(IS_STALE).await == expected).await;
    };
    is(0.0).await;
    let wrong = format!("redis://docket:hunter2@127.0.0.1:{}", stage.redis.port);
    let evicting = tokio::task::spawn_blocking(|| RedisServer::start(&["maxmemory-policy allkeys-lru"]));
    let evicting = evicting.await.expect("Redis starts");
    let evicts = evicting.url();
    for (logged, (url, why)) in [
        ("http://:hunter2@redis", "must start with redis://"),
        (wrong.as_str(), "authentication failed"),
        (evicts.as_str(), "it must be noeviction"),
    ]
    .into_iter()
    .enumerate()
    {
        point(&stage, url);
        stage.logs(why).await;
        is(1.0).await;
        // A lost connection has the file read again, and the old URL is used again.
        let connections = users(&stage.redis).len();
        stage.redis.cli(&["CLIENT", "KILL", "USER", "docket"]);
        eventually("it is connected again", SOON, async || users(&stage.redis).len() >= connections).await;
        save(&client).await;
        assert_eq!(stage.log().matches(REFUSED).count(), logged + 1, "{}", stage.log());
    }
    std::fs::remove_file(stage.home.log("redis-url")).expect("it was there");
    stage.logs("redis-url can't be read").await;
    point(&stage, &format!("redis://docket:first@127.0.0.1:{}", stage.redis.port));
    is(0.0).await;
    assert!(!stage.log().contains("hunter2") && !stage.log().contains(RENEWED), "{}", stage.log());
}

/// A process that waits for Redis reads the file too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_waits_for_redis_takes_up_a_corrected_address() {
    let stage = Stage::new().await;
    point(&stage, "redis://127.0.0.1:1");
    let worker = stage.spawn("worker", "");
    stage.logs("Redis is not available; retrying").await;
    point(&stage, &stage.redis.url());
    let _worker = worker.ready(&stage.home).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_sentinels_needs_no_restart_and_loses_nothing() {
    let stage = Stage::new().await;
    let start = || Sentinels::start_guarded("of-the-servers", Some("of-the-sentinels"));
    let mut rig = tokio::task::spawn_blocking(start).await.expect("they start");
    point(&stage, &rig.url());
    let (api, worker) = both(&stage, "").await;
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    rig.servers[0].kill();
    for _ in 0..5 {
        let took = save(&client).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    // The Sentinels wait for three seconds, then they vote.
    eventually("the replica is the primary", 2 * SOON, async || {
        rig.servers[1].cli(&["ROLE"]).starts_with("master")
    })
    .await;
    stage.received(6).await;
    save(&client).await;
    stage.received(7).await;
    for process in [&api, &worker] {
        let reply = request(process.management, "GET", "/readyz", &[], "").await.expect("an answer");
        assert_eq!(reply.status, 200);
    }
    assert!(!stage.log().contains("of-the-se"), "no password is logged");
}

/// Writes a certificate for `127.0.0.1` of an authority of its own to a folder; returns the authority.
#[expect(clippy::disallowed_methods, reason = "certificates are valid around the real time")]
fn certificate(folder: &Path) -> String {
    let now = jiff::Timestamp::now().as_second();
    Certificate::load_or_generate(folder, now).expect("a certificate").ca_pem().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_over_tls_may_get_a_certificate_of_another_authority() {
    let mut stage = Stage::new().await;
    let (first, second) = (stage.home.log("tls-1"), stage.home.log("tls-2"));
    let (first_ca, second_ca) = (certificate(&first), certificate(&second));
    let file = |folder: &Path, name: &str| folder.join(name).display().to_string();
    let port = free_port();
    let settings = [
        format!("tls-port {port}"),
        format!("tls-cert-file {}", file(&first, "receiver.pem")),
        format!("tls-key-file {}", file(&first, "receiver-key.pem")),
        format!("tls-ca-cert-file {}", file(&first, "receiver-ca.pem")),
        "tls-auth-clients no".to_owned(),
    ];
    let start = move || RedisServer::start(&settings.each_ref().map(String::as_str));
    stage.redis = tokio::task::spawn_blocking(start).await.expect("Redis starts");
    point(&stage, &format!("rediss://127.0.0.1:{port}"));
    let ca = stage.home.log("redis-ca");
    std::fs::write(&ca, &first_ca).expect("writable");
    let (api, _worker) = both(&stage, &format!("--redis-ca-file {}", ca.display())).await;
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;

    // First both authorities are trusted, then the server has the new certificate.
    std::fs::write(&ca, format!("{first_ca}{second_ca}")).expect("writable");
    eventually("both processes have read it", SOON, async || stage.log().matches(RENEWED).count() == 2).await;
    let [certificate, key] = ["receiver.pem", "receiver-key.pem"].map(|name| file(&second, name));
    let changed = ["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key];
    assert_eq!(stage.redis.cli(&changed), "OK");
    stage.redis.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    stage.redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    std::fs::write(&ca, &second_ca).expect("writable");
    eventually("the old authority is gone", SOON, async || stage.log().matches(RENEWED).count() == 4).await;
    save(&client).await;
    stage.received(2).await;
}
