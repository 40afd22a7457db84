//! The watcher of a PostgreSQL server reports which databases were written. It never reports a written database as not written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use docket_crds::{DatabaseUrl, TenantConfig};
use docket_rig::postgres::{self, PostgresServer};
use docket_rig::tenant_database::{CUSTOMER, tenant_config};
use docket_store::postgres::{Budget, ConnectionLimits, Counters, Postgres, UsedConnections, Watcher};
use docket_store::stores::{Schema, StoreSource, Stores};
use tokio_postgres::Client;

/// The interval is so long that no result expires within a test.
const EVERY: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(20);

/// A server of this test's own: it has a watcher without rights, and a tenant's database with a table.
struct Rig {
    server: PostgresServer,
    watcher: Watcher,
    name: String,
}

impl Rig {
    async fn new() -> Self {
        let server = PostgresServer::start().await;
        let url = server.database().await;
        let name = url.rsplit('/').next().expect("a path").to_owned();
        let admin = postgres::client(&url).await;
        let sql = format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC; CREATE TABLE t (n BIGINT)");
        admin.batch_execute(&sql).await.expect("a table");
        let watcher = Watcher::new(&server.watcher().await).expect("a URL");
        Self { server, watcher, name }
    }

    /// A connection of another program.
    async fn program(&self) -> Client {
        postgres::client(&self.server.url(&self.name)).await
    }

    /// Runs statements like another program that connects and disconnects.
    async fn run(&self, sql: &str) {
        self.program().await.batch_execute(sql).await.expect("a statement");
    }

    async fn counters(&self) -> Option<Counters> {
        self.watcher.look(EVERY).await;
        self.watcher.counters(&self.name)
    }

    /// The counters when no program is connected any more.
    async fn at_rest(&self) -> Counters {
        let begun = Instant::now();
        loop {
            if let Some(counters) = self.counters().await {
                return counters;
            }
            assert!(begun.elapsed() < SOON, "a session stays");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_counted_and_reading_is_not() {
    let rig = Rig::new().await;
    let before = rig.at_rest().await;
    for read in ["SELECT count(*) FROM t", "BEGIN; UPDATE t SET n = 0; DELETE FROM t; COMMIT", "VACUUM t"] {
        rig.run(read).await;
    }
    assert_eq!(rig.at_rest().await, before, "no row was written");
    for write in
        ["INSERT INTO t VALUES (1)", "UPDATE t SET n = 2", "DELETE FROM t", "COPY t FROM PROGRAM 'echo 3'"]
    {
        let before = rig.at_rest().await;
        rig.run(write).await;
        assert_eq!(rig.at_rest().await.written, before.written + 1, "{write}");
    }
}

/// A session inside a transaction has not yet reported the counts of its previous transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_in_use_by_another_program_has_no_counters() {
    let rig = Rig::new().await;
    let before = rig.at_rest().await;
    let program = rig.program().await;
    // The session reports the first transaction. The second transaction follows too soon for a report.
    program.batch_execute("BEGIN; INSERT INTO t VALUES (1); COMMIT").await.expect("a transaction");
    program.batch_execute("BEGIN; INSERT INTO t VALUES (2); COMMIT").await.expect("a transaction");
    program.batch_execute("BEGIN; SELECT 1").await.expect("a transaction");
    assert_eq!(rig.counters().await, None);
    let counted = async || {
        let admin = postgres::client(&rig.server.url("postgres")).await;
        let sql = "SELECT tup_inserted FROM pg_stat_database WHERE datname = $1";
        admin.query_one(sql, &[&rig.name]).await.expect("a row").get::<_, i64>(0)
    };
    let (late, elsewhere) = (counted().await, rig.counters().await);
    drop(program);
    let after = rig.at_rest().await;
    println!("{} of 2 rows were counted while the program was connected", late + 2 - counted().await);
    assert_eq!((after.written, elsewhere), (before.written + 2, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_sessions_keep_no_database_from_being_counted() {
    let rig = Rig::new().await;
    rig.at_rest().await;
    let url = format!("{}?application_name=docket", rig.server.url(&rig.name));
    let _own = postgres::client(&url).await;
    assert!(rig.counters().await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_counts_are_a_change() {
    let rig = Rig::new().await;
    rig.run("INSERT INTO t VALUES (1)").await;
    let mut seen = vec![rig.at_rest().await];
    let mut differs = |now: Counters, what: &str| {
        assert!(!seen.contains(&now), "{what}: {now:?} in {seen:?}");
        seen.push(now);
    };
    rig.run("SELECT pg_stat_reset()").await;
    differs(rig.at_rest().await, "the database's counts");
    rig.run("SELECT pg_stat_reset_shared('bgwriter')").await;
    differs(rig.at_rest().await, "the server's");
    // The process of one session dies, and the server loses all counts. The watcher's process continues.
    let program = rig.program().await;
    let pid: i32 = program.query_one("SELECT pg_backend_pid()", &[]).await.expect("a row").get(0);
    let other = postgres::client(&rig.server.url("postgres")).await;
    let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.expect("it is a program").success());
    drop(program);
    let begun = Instant::now();
    // The server ends all other sessions before it recovers.
    while other.simple_query("").await.is_ok() || !postgres_is_up(&rig).await {
        assert!(begun.elapsed() < SOON, "it does not recover");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    differs(rig.at_rest().await, "a crash of a session");
    rig.server.crash();
    assert!(rig.watcher.counters(&rig.name).is_some(), "the last answer is not old");
    rig.server.start_again();
    differs(rig.at_rest().await, "a crash of the server");
    let admin = postgres::client(&rig.server.url("postgres")).await;
    for sql in [format!("DROP DATABASE {}", rig.name), format!("CREATE DATABASE {}", rig.name)] {
        admin.batch_execute(&sql).await.expect("no session is there");
    }
    differs(rig.at_rest().await, "another database of the name");
}

async fn postgres_is_up(rig: &Rig) -> bool {
    tokio_postgres::connect(&rig.server.url("postgres"), tokio_postgres::NoTls).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_answer_nothing_is_known() {
    let rig = Rig::new().await;
    rig.at_rest().await;
    assert_eq!(rig.watcher.counters("another"), None);
    rig.watcher.look(Duration::from_millis(1)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(rig.watcher.counters(&rig.name), None, "the answer is old");
    let admin = postgres::client(&rig.server.url("postgres")).await;
    admin.batch_execute("ALTER ROLE watcher SET track_counts = off").await.expect("a superuser may");
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'watcher'";
    admin.execute(sql, &[]).await.expect("a superuser may");
    // The first query finds that the connection was closed.
    for _ in 0..2 {
        assert_eq!(rig.counters().await, None, "nothing is counted");
    }
    admin
        .batch_execute("ALTER ROLE watcher RESET track_counts; ALTER ROLE watcher NOLOGIN")
        .await
        .expect("may");
    admin.execute(sql, &[]).await.expect("a superuser may");
    for _ in 0..2 {
        assert_eq!(rig.counters().await, None, "it may not log in");
    }
    admin.batch_execute("ALTER ROLE watcher LOGIN").await.expect("a superuser may");
    assert!(rig.counters().await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_all_programs_are_counted_against_their_limits() {
    let server = PostgresServer::start().await;
    let url = server.database().await;
    let admin = postgres::client(&server.url("postgres")).await;
    let row = admin.query_one("SELECT current_setting('max_connections')::int::float8", &[]).await;
    let most: f64 = row.expect("a setting").get(0);
    admin.batch_execute("ALTER ROLE postgres CONNECTION LIMIT 16").await.expect("a superuser may");
    let watcher = Arc::new(Watcher::new(&server.watcher().await).expect("a URL"));
    let budget = Budget::new(ConnectionLimits { total: 2, per_tenant: 2 });
    let database = Postgres::within(&url, &budget).expect("a URL").watched_by(Arc::clone(&watcher));
    let used = async || -> Option<UsedConnections> {
        watcher.look(EVERY).await;
        budget.counts().used_connections(50).into_iter().next().map(|(_, used)| used)
    };
    assert_eq!(budget.counts().used_connections(50), [], "it was not asked yet");
    // Earlier sessions may still be ending.
    let sessions = async |count: f64| -> UsedConnections {
        let begun = Instant::now();
        loop {
            let used = used().await.expect("the server says");
            if (used.role - count / 16.0).abs() < 1e-9 {
                return used;
            }
            assert!(begun.elapsed() < SOON, "{used:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let before = sessions(1.0).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(postgres::client(&server.url("postgres")).await);
    }
    let after = sessions(5.0).await;
    // The watcher is one session more, and some connections are kept for superusers.
    assert!(before.server >= 2.0 / most && after.server >= 6.0 / most, "{before:?} {after:?} of {most}");
    assert!(after.server < 1.0, "{after:?}");
    admin.batch_execute("ALTER ROLE watcher NOLOGIN").await.expect("a superuser may");
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'watcher'";
    admin.execute(sql, &[]).await.expect("a superuser may");
    for _ in 0..2 {
        assert_eq!(used().await, None, "it may not log in");
    }
    drop(database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_of_a_server_share_its_watcher_and_others_have_none() {
    let urls = [postgres::database().await, postgres::database().await];
    let elsewhere = PostgresServer::start().await.database().await;
    let config = |uid: &str, url: &str, watcher: Option<&str>| -> TenantConfig {
        let mut config: TenantConfig =
            serde_json::from_value(tenant_config(uid, uid, CUSTOMER, 0)).expect("a configuration");
        let parse = |url: &str| DatabaseUrl::parse(url).expect("a URL");
        (config.database, config.watcher) = (Some(parse(url)), watcher.map(parse));
        config
    };
    let budget = Budget::new(ConnectionLimits { total: 2, per_tenant: 2 });
    let stores = Arc::new(Stores::new(StoreSource::Postgres(budget), Schema::Migrate));
    let (server, _) = urls[0].rsplit_once('/').expect("a path");
    let watcher = format!("{server}/postgres");
    let of = |uid: &str, url: &str, watcher| stores.of(&config(uid, url, watcher)).expect("a store");
    let (one, two) = (of("ONE", &urls[0], Some(&watcher)), of("TWO", &urls[1], Some(&watcher)));
    let (moved, polled) = (of("THREE", &elsewhere, Some(&watcher)), of("FOUR", &urls[0], None));
    let unknown_mode = format!("{watcher}?sslmode=on");
    let unusable = of("FIVE", &urls[0], Some(&unknown_mode));
    let watching = Arc::clone(&stores);
    let watching = tokio::spawn(async move { watching.watch(Duration::from_millis(100)).await });
    let begun = Instant::now();
    while one.database().state().is_none() || two.database().state().is_none() {
        assert!(begun.elapsed() < SOON, "no answer");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for without in [moved, polled, unusable] {
        assert_eq!(without.database().state(), None);
    }
    let admin = postgres::client(&watcher).await;
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'docket' AND datname = 'postgres'";
    assert_eq!(admin.query_one(sql, &[]).await.expect("a row").get::<_, i64>(0), 1, "one connection for all");
    assert!(!Arc::ptr_eq(&one, &of("ONE", &urls[0], None)), "without its watcher it is another store");
    watching.abort();
}
