//! PostgreSQL behind a PgBouncer in transaction mode, with one session of the server for all connections: no setting, no
//! lock and no prepared statement of a session survives a transaction.

use std::time::Instant;

use docket_domain::delivery::{DeliveryId, Next, Outcome, Report};
use docket_program::clock::Clock;
use docket_rig::pgbouncer::PgBouncer;
use docket_rig::postgres::{self, PostgresServer};
use docket_rig::tenant_database::{Place, T0, TenantDatabase};
use docket_schema::{INDEX_LOCK, indexes};
use docket_store::Database;
use docket_store::postgres::{Budget, ConnectionLimits, Postgres};
use docket_store::sql::Param;

/// A database behind a pooler, and its URL without the pooler.
struct Pooled {
    rig: TenantDatabase,
    direct: String,
    pooler: PgBouncer,
}

/// Starts a pooler for the database at this URL, with this many sessions of its server.
async fn pooler(direct: &str, sessions: u32) -> PgBouncer {
    let url = direct.to_owned();
    let start = move || PgBouncer::start(&url, sessions);
    tokio::task::spawn_blocking(start).await.expect("PgBouncer starts, see above")
}

impl Pooled {
    /// Starts a pooler that uses this many sessions of the server.
    async fn new(sessions: u32) -> Self {
        let direct = postgres::database().await;
        let pooler = pooler(&direct, sessions).await;
        let rig = TenantDatabase::at(Place::Url(pooler.url(&direct))).await;
        Self { rig, direct, pooler }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_every_kind_arrive_as_they_are() {
    let pooled = Pooled::new(1).await;
    let mut reader = pooled.rig.reader().await;
    let sql = "SELECT ($1::bigint + 1)::text, (NOT $2)::text, $3::text, encode($4, 'hex'), \
               array_to_string($5::text[], '|', 'NULL'), array_to_string($6::bigint[], '|'), ($7::text IS NULL)::text, \
               (SELECT string_agg(encode(bytes, 'hex'), '|') FROM unnest($8::bytea[]) AS bytes)";
    let text = "it's \"quoted\", {braced}, \\ and ä";
    let values = vec![
        Param::from(i64::MAX - 1),
        Param::from(true),
        Param::from(text),
        Param::from(vec![0_u8, 0xff, b'\\']),
        Param::Array(vec!["null".into(), Param::Null, text.into(), "".into()]),
        Param::Array(vec![Param::from(-1_i64), Param::from(2_i64)]),
        Param::Null,
        Param::Array(vec![Param::from(vec![0_u8, 1]), Param::from(vec![0xfe_u8])]),
    ];
    let row = reader.query_opt(sql, values).await.expect("a statement").expect("a row");
    let read: Vec<String> = (0..8).map(|place| row.get(place).expect("a text")).collect();
    let list = format!("null|NULL|{text}|");
    assert_eq!(
        read,
        ["9223372036854775807", "false", text, "00ff5c", list.as_str(), "-1|2", "true", "0001|fe"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_two_processes_share_one_session() {
    let pooled = Pooled::new(1).await;
    let ids = pooled.rig.queued(40, T0).await;
    let work = |half: Vec<DeliveryId>, token: &'static str| {
        let other = TenantDatabase {
            database: pooled.rig.opened_again(),
            place: Place::Url(pooled.pooler.url(&pooled.direct)),
        };
        tokio::spawn(async move {
            for id in half {
                let started = other.begin(&[id], token, T0, T0 + 1_000).await;
                assert_eq!(started.len(), 1);
                let outcome = Outcome::Succeeded(Report { http_status: Some(200), ..Report::default() });
                assert!(other.finish(&started[0], token, &outcome, Next::Succeeded, T0 + 1).await);
            }
        })
    };
    let (one, other) = ids.split_at(20);
    let (one, other) = (work(one.to_vec(), "one"), work(other.to_vec(), "other"));
    one.await.expect("no panic");
    other.await.expect("no panic");
    let sql = "SELECT count(*) FROM delivery_history WHERE status = 'Succeeded'";
    assert_eq!(pooled.rig.number(sql).await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_in_a_transaction_and_not_after_it() {
    let pooled = Pooled::new(1).await;
    let settings = "SELECT current_setting('statement_timeout') || ' ' || \
                    current_setting('idle_in_transaction_session_timeout')";
    let mut transaction = pooled.rig.database.begin(&Clock::System).await.expect("a transaction");
    let row = transaction.query_opt(settings, Vec::new()).await.expect("a statement").expect("a row");
    assert_eq!(row.get::<String>(0).expect("a text"), "10s 15s");
    transaction.commit().await.expect("a commit");
    let row = pooled.rig.reader().await.query_opt(settings, Vec::new()).await.expect("a statement");
    assert_eq!(row.expect("a row").get::<String>(0).expect("a text"), "0 0");
}

/// A pooler takes connections while its server is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_to_a_pooler_is_no_response_of_its_server() {
    let server = PostgresServer::start().await;
    let direct = server.database().await;
    let pooler = pooler(&direct, 1).await;
    let budget = Budget::new(ConnectionLimits { total: 1, per_tenant: 1 });
    let database = Database::Postgres(Postgres::within(&pooler.url(&direct), &budget).expect("a URL"));
    let is_up = || budget.counts().servers(1, Instant::now()).first().map(|(_, is_up)| *is_up);
    let asked = async || database.reader().await?.query("SELECT 1", Vec::new()).await;
    assert!(asked().await.is_ok() && is_up() == Some(true));
    server.crash();
    assert!(asked().await.is_err() && is_up() == Some(false));
    let connected = database.reader().await;
    assert_eq!(is_up(), Some(false), "{:?}", connected.err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_at_a_time_builds_indexes() {
    let pooled = Pooled::new(2).await;
    // The tenant may have one connection, and a build needs two.
    let budget = Budget::new(ConnectionLimits { total: 4, per_tenant: 1 });
    let url = pooled.pooler.url(&pooled.direct);
    let database = Database::Postgres(Postgres::within(&url, &budget).expect("a URL"));
    database.migrate(&Clock::System).await.expect("it is up to date");
    let client = postgres::client(&pooled.direct).await;
    let index = indexes(docket_schema::NEWEST).next().expect("there are some").name;
    let drop_it = format!("DROP INDEX {index}");
    client.batch_execute(&drop_it).await.expect("a new database has it");
    let lock = format!("SELECT pg_advisory_lock({INDEX_LOCK})");
    client.batch_execute(&lock).await.expect("it is free");
    assert!(!database.build_indexes().await.expect("it looks"), "another session builds them");
    client.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("its own lock");
    assert!(database.build_indexes().await.expect("it is built"));
    let sql = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)";
    assert!(client.query_one(sql, &[&index]).await.expect("it is there").get::<_, bool>(0));
    client.batch_execute(&lock).await.expect("the lock was released");
}
