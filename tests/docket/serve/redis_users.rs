//! Each component has a user of Redis of its own, with the rights of `charts/docket/redis-users.acl` and no others.

use docket_board::Board;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::postgres;
use docket_rig::redis::RedisServer;

use crate::serve::stage::{SOON, Stage, save, sign_in};
use docket_tests::server::eventually;

const USERS: &str = include_str!("../../../charts/docket/redis-users.acl");

/// A Redis with these users, whose passwords are their names.
fn redis() -> RedisServer {
    let users: Vec<String> = USERS
        .lines()
        .filter(|line| line.starts_with("user "))
        .map(|line| {
            let name = line.split(' ').nth(1).expect("a name");
            line.replace("PASSWORD", name)
        })
        .collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    RedisServer::start_with_password("of-the-administrator", &users)
}

fn url(redis: &RedisServer, component: &str) -> String {
    format!("redis://docket-{component}:docket-{component}@127.0.0.1:{}", redis.port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_component_works_with_the_rights_of_its_user() {
    let mut stage = Stage::new().await;
    stage.redis = tokio::task::spawn_blocking(redis).await.expect("Redis starts");
    let yaml = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("the stage's");
    stage.home.write("all.yaml", &yaml.replace("order.created,", "order.created, invoice.created,"));
    let spawn = async |component: &str| {
        let file = stage.home.log(&format!("redis-url-{component}"));
        std::fs::write(&file, url(&stage.redis, component)).expect("writable");
        let flags = format!("--pod-name {component} --redis-url-file {}", file.display());
        stage.spawn(component, &flags).ready(&stage.home).await
    };
    let (api, worker, _detector) = tokio::join!(spawn("api"), spawn("worker"), spawn("detector"));
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    let database = postgres::client(&stage.database).await;
    let invoice = "INSERT INTO work_order (number, customer_code, work_order_type, created_at_ms) \
                   VALUES ('W1', 'C-1', 'Court', 1); \
                   INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) VALUES ('I1', 'W1', (extract(epoch FROM now()) * 1000)::bigint)";
    database.batch_execute(invoice).await.expect("the back office's rows");
    stage.received(2).await;
    // The next worker of this name releases the claims.
    drop(worker);
    save(&client).await;
    let _worker = spawn("worker").await;
    stage.received(3).await;
    assert_eq!(stage.redis.cli(&["FLUSHALL"]), "OK");
    save(&client).await;
    stage.received(4).await;

    let target = RedisUrl::parse(&url(&stage.redis, "operator")).expect("a URL");
    let connection = RedisConnection::new(target, None).expect("no TLS");
    connection.check().await.expect("the operator's user may check the server");
    let board = Board::new(connection, Keys::new(None).expect("no name"));
    eventually("the operator sees all pods", SOON, async || {
        board.pods().await.is_ok_and(|pods| pods.len() == 3)
    })
    .await;
    // A folder's documents have uids of their names.
    let sql = "SELECT DISTINCT 'file:' || webhook_name FROM delivery";
    let webhook: String = database.query_one(sql, &[]).await.expect("one webhook").get(0);
    eventually("the operator sees a webhook's health", SOON, async || {
        board.webhooks(std::slice::from_ref(&webhook)).await.is_ok_and(|health| health[0].is_some())
    })
    .await;
    // Redis logs every refusal.
    assert_eq!(stage.redis.cli(&["ACL", "LOG"]), "");
}

#[test]
fn no_component_may_do_more() {
    let redis = redis();
    redis.cli(&["HSET", "{docket}:3:entries", "a", "b"]);
    let refused = |component: &str, command: &[&str]| {
        let user = format!("docket-{component}");
        let said = redis.cli(&[&["--no-auth-warning", "--user", &user, "--pass", &user], command].concat());
        assert!(said.contains("NOPERM"), "{component} {command:?}: {said}");
    };
    for component in ["operator", "api", "worker", "detector"] {
        for command in [
            &["FLUSHALL"][..],
            &["FLUSHDB"],
            &["KEYS", "*"],
            &["SCAN", "0"],
            &["CONFIG", "GET", "*"],
            &["ACL", "LIST"],
            &["CLIENT", "KILL", "ID", "1"],
            &["SCRIPT", "FLUSH"],
            &["MONITOR"],
            &["REPLICAOF", "NO", "ONE"],
            &["SHUTDOWN"],
            &["HGETALL", "{docket:blue}:3:entries"],
            &["HGETALL", "another-program"],
            &["SUBSCRIBE", "another-program"],
        ] {
            refused(component, command);
        }
    }
    refused("operator", &["HGETALL", "{docket}:3:entries"]);
    refused("operator", &["PUBLISH", "{docket}:changed", ""]);
    for component in ["api", "detector"] {
        refused(component, &["HGETALL", "{docket}:webhooks-health"]);
    }
}
