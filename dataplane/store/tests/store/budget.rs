//! Many databases within one budget of connections: no database fails while others work, a database that hangs costs
//! only its own tenant, and unused connections are closed.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use docket_crds::{DatabaseUrl, TenantConfig};
use docket_program::clock::Clock;
use docket_rig::postgres;
use docket_rig::tenant_database::{CUSTOMER, TenantDatabase, tenant_config};
use docket_store::postgres::{Budget, ConnectionLimits, Postgres};
use docket_store::stores::{Schema, Store, StoreSource, Stores};
use docket_store::{Database, StoreError, contacts};
use tokio::task::JoinSet;

/// How long a tenant that has a connection leaves idle connections to other tenants.
const PATIENCE: Duration = Duration::from_millis(100);

fn budget(total: usize, per_tenant: usize) -> Budget {
    Budget::new(ConnectionLimits { total, per_tenant })
}

fn open(url: &str, budget: &Budget) -> Database {
    Database::Postgres(Postgres::within(url, budget).expect("a URL"))
}

/// A database with its schema, opened within `budget`.
async fn database(budget: &Budget) -> (String, Database) {
    let url = postgres::database().await;
    let database = open(&url, budget);
    database.migrate(&Clock::System).await.expect("an empty database takes the schema");
    (url, database)
}

async fn look(database: &Database) -> Result<bool, StoreError> {
    contacts::customer_exists(&mut database.reader().await?, CUSTOMER).await
}

async fn write(database: &Database, code: &str) -> Result<(), StoreError> {
    let mut transaction = database.begin(&Clock::System).await?;
    let now_ms = transaction.now().as_millisecond();
    contacts::insert_customer(&mut transaction, code, "New", now_ms).await?;
    transaction.commit().await
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The number of sessions at these databases, as the server counts them.
async fn sessions(url: &str, databases: &[String]) -> i64 {
    let client = postgres::client(url).await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY($1) AND application_name = 'docket'";
    client.query_one(sql, &[&databases]).await.expect("a statement").get(0)
}

fn name_of(url: &str) -> String {
    url.rsplit('/').next().expect("a path").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_databases_in_use_at_once_share_ten_connections() {
    const DATABASES: usize = 60;
    const USERS: usize = 2;
    const ROUNDS: usize = 10;
    let budget = budget(10, 8);
    let mut databases = Vec::new();
    for _ in 0..DATABASES {
        databases.push(database(&budget).await);
    }
    let mut users = JoinSet::new();
    for (_, database) in &databases {
        for user in 0..USERS {
            let database = database.clone();
            users.spawn(async move {
                for round in 0..ROUNDS {
                    write(&database, &format!("{user}-{round}")).await?;
                    look(&database).await?;
                }
                Ok::<_, StoreError>(())
            });
        }
    }
    let begun = Instant::now();
    let (mut failed, mut most) = (0, 0);
    while !users.is_empty() {
        tokio::select! {
            Some(ended) = users.join_next() => failed += usize::from(ended.expect("no panic").is_err()),
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
        }
        most = most.max(budget.open());
    }
    let done = DATABASES * USERS * ROUNDS * 2;
    println!("{done} uses of {DATABASES} databases in {:?}, at most {most} connections", begun.elapsed());
    assert_eq!((failed, most), (0, 10));
    budget.close_idle(Duration::ZERO);
    assert_eq!(budget.open(), 0);
    let names: Vec<String> = databases.iter().map(|(url, _)| name_of(url)).collect();
    let url = &databases[0].0;
    eventually("the server has seen all of them closed", async || sessions(url, &names).await == 0).await;
}

/// Six databases, the URL of another database on their server, and their names.
async fn six_databases(budget: &Budget) -> (Vec<(String, Database)>, String, Vec<String>) {
    let mut databases = Vec::new();
    for _ in 0..6 {
        databases.push(database(budget).await);
    }
    let names = databases.iter().map(|(url, _)| name_of(url)).collect();
    (databases, postgres::database().await, names)
}

/// The number of connections that have been opened to these databases, as the server counts them.
async fn opened(url: &str, databases: &[String]) -> i64 {
    let client = postgres::client(url).await;
    let sql = "SELECT sum(sessions)::bigint FROM pg_stat_database WHERE datname = ANY($1)";
    client.query_one(sql, &[&databases]).await.expect("a statement").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_several_steps_opens_one_connection_while_others_wait() {
    const ROUNDS: usize = 20;
    const STEPS: usize = 3;
    let budget = budget(2, 1);
    let (databases, url, names) = six_databases(&budget).await;
    let before = opened(&url, &names).await;
    let mut users = JoinSet::new();
    for (_, database) in databases {
        users.spawn(async move {
            for _ in 0..ROUNDS {
                for _ in 0..STEPS {
                    look(&database).await.expect("its turn comes");
                }
                // The next round begins after another tenant has had the place.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    users.join_all().await;
    let rounds = i64::try_from(names.len() * ROUNDS).expect("few");
    let opened = opened(&url, &names).await - before;
    println!("{opened} connections for {rounds} rounds of {STEPS} steps");
    assert!(opened < rounds * 3 / 2, "{opened} connections for {rounds} rounds");
    assert!(opened > rounds / 4, "{opened} connections: nothing was shared");
}

/// Acts like a worker that renews the leases of more tenants than it has connections. If the budget closed the
/// connection that was idle longest, it would each time close the connection that is needed next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_that_come_in_turn_mostly_find_their_connections() {
    const ROUNDS: usize = 20;
    let budget = budget(5, 1);
    let (databases, url, names) = six_databases(&budget).await;
    let before = opened(&url, &names).await;
    for _ in 0..ROUNDS {
        for (_, database) in &databases {
            look(database).await.expect("its turn comes");
            // This is mostly longer than a connection is kept for its tenant.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    budget.close_idle(Duration::ZERO);
    let opened = opened(&url, &names).await - before;
    let uses = i64::try_from(names.len() * ROUNDS).expect("few");
    println!("{opened} connections for {uses} uses");
    assert!(opened < uses / 2, "{opened} connections for {uses} uses");
}

/// Taking another tenant's only connection would cost two openings: one now, and one when that tenant needs a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_with_a_connection_leaves_an_idle_one_to_a_tenant_that_has_no_other() {
    let budget = budget(2, 2);
    let (_, one) = database(&budget).await;
    let (_, other) = database(&budget).await;
    eventually("a connection in use came back before its tenant had waited long", async || {
        look(&other).await.expect("a connection");
        let held = one.reader().await.expect("a connection");
        let begun = Instant::now();
        let (looked, held_for) = tokio::join!(look(&one), async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(held);
            begun.elapsed()
        });
        looked.expect("the first one comes back");
        let was_early = held_for < PATIENCE;
        assert!(one.is_open() && (other.is_open() || !was_early), "{held_for:?}");
        was_early
    })
    .await;
    let held = one.reader().await.expect("a connection");
    let begun = Instant::now();
    look(&one).await.expect("it has waited long enough for its own one");
    let took = begun.elapsed();
    assert!(took >= PATIENCE && took < Duration::from_secs(2), "{took:?}");
    assert!(!other.is_open());
    drop(held);
}

/// Opening a connection costs more than most work on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_wait_for_a_connection_in_use_as_long_as_an_opening_takes() {
    let budget = budget(10, 8);
    let (_, database) = database(&budget).await;
    let first = database.reader().await.expect("a connection");
    let mut second = std::pin::pin!(database.reader());
    tokio::select! {
        biased;
        _ = &mut second => panic!("it is in use"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(budget.open(), 1);
    drop(first);
    let second = second.await.expect("the same one");
    assert_eq!(budget.open(), 1);
    let third = database.reader().await.expect("another one");
    assert_eq!(budget.open(), 2);
    drop((second, third));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_databases_keep_their_connections_while_there_is_one_for_each() {
    const USERS: usize = 4;
    const ROUNDS: usize = 100;
    let budget = budget(8, USERS);
    let (databases, url, names) = six_databases(&budget).await;
    let before = opened(&url, &names).await;
    let mut users = JoinSet::new();
    for (_, database) in databases {
        for user in 0..USERS {
            let database = database.clone();
            users.spawn(async move {
                for round in 0..ROUNDS {
                    write(&database, &format!("{user}-{round}")).await.expect("its turn comes");
                }
            });
        }
    }
    users.join_all().await;
    let opened = opened(&url, &names).await - before;
    println!("{opened} connections for {} writes", names.len() * USERS * ROUNDS);
    assert!(opened < 40, "{opened} connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_table_is_locked_costs_another_nothing() {
    let budget = budget(6, 4);
    let (locked_url, locked) = database(&budget).await;
    let (_, other) = database(&budget).await;
    let lock = postgres::client(&locked_url).await;
    lock.batch_execute("BEGIN; LOCK TABLE customer IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let locked = locked.clone();
        waiting.spawn(async move { look(&locked).await });
    }
    eventually("the locked one has all that it may have", async || budget.open() >= 4).await;
    for _ in 0..100 {
        let begun = Instant::now();
        look(&other).await.expect("it is not the other one's lock");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lock.batch_execute("ROLLBACK").await.expect("it was locked");
    while waiting.join_next().await.is_some() {}
    look(&locked).await.expect("it is free again");
}

/// The server accepts connections and sends nothing, like a server that is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tenants_at_a_silent_server_leave_the_others_their_places() {
    let budget = budget(8, 4);
    let (_, other) = database(&budget).await;
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = silent.local_addr().expect("it is bound").port();
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let mut hanging = JoinSet::new();
    for tenant in 0..10 {
        let database = open(&format!("postgres://docket@127.0.0.1:{port}/docket_{tenant}"), &budget);
        for _ in 0..4 {
            let (database, failed) = (database.clone(), failed.clone());
            hanging.spawn(async move {
                loop {
                    assert!(look(&database).await.is_err());
                    // The receiver may have been dropped, if the test has ended.
                    let _ = failed.send(());
                }
            });
        }
    }
    // The process does not know that the server is silent before the first requests have waited in vain.
    for _ in 0..10 * 4 {
        let one = tokio::time::timeout(Duration::from_secs(20), failures.recv());
        one.await.expect("each waits for a few seconds").expect("they go on");
    }
    for _ in 0..100 {
        let begun = Instant::now();
        look(&other).await.expect("it is not this one's server");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        budget.close_idle(Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// More openings hang here than may run at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openings_that_hang_at_a_silent_server_delay_another_by_less_than_their_time_limit() {
    let budget = budget(40, 4);
    let (_, other) = database(&budget).await;
    budget.close_idle(Duration::ZERO);
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = silent.local_addr().expect("it is bound").port();
    let mut hanging = JoinSet::new();
    for tenant in 0..10 {
        let database = open(&format!("postgres://docket@127.0.0.1:{port}/docket_{tenant}"), &budget);
        hanging.spawn(async move { look(&database).await.is_err() });
    }
    eventually("all hang", async || budget.open() == 10).await;
    let begun = Instant::now();
    look(&other).await.expect("it is not this one's server");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(hanging.join_next().await.expect("ten").expect("no panic"), "a silent server does not respond");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gives_up_takes_no_place_with_it() {
    let budget = budget(1, 1);
    let (_, one) = database(&budget).await;
    let (_, other) = database(&budget).await;
    for round in 0..50u64 {
        let held = one.begin(&Clock::System).await.expect("the only place");
        let waiting: Vec<_> = (0..4)
            .map(|waiter| {
                let database = if waiter % 2 == 0 { one.clone() } else { other.clone() };
                let limit = Duration::from_micros(round * 100 + waiter * 50);
                tokio::spawn(async move { tokio::time::timeout(limit, look(&database)).await.is_ok() })
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(round * 60)).await;
        held.rollback().await.expect("it was left alone");
        for waiter in waiting {
            waiter.await.expect("no panic");
        }
        look(&other).await.expect("the place is free");
        assert_eq!(budget.open(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_connections_are_closed_and_others_are_not() {
    let budget = budget(4, 2);
    let (_, one) = database(&budget).await;
    let (_, other) = database(&budget).await;
    look(&one).await.expect("a connection");
    tokio::time::sleep(Duration::from_millis(300)).await;
    look(&other).await.expect("a connection");
    budget.close_idle(Duration::from_millis(300));
    assert!(!one.is_open() && other.is_open());
}

/// The tenant's limit is lowered, then raised above what the process gives each tenant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_the_connections_of_its_limit_and_of_the_process() {
    let (url, _) = database(&budget(1, 1)).await;
    let stores = Stores::new(StoreSource::Postgres(budget(8, 3)), Schema::Migrate);
    let at_once = async |limit: u32| {
        let config = tenant_config("uid", "ACME", CUSTOMER, 0);
        let mut config: TenantConfig = serde_json::from_value(config).expect("a configuration");
        config.database = Some(DatabaseUrl::parse(&url).expect("a URL"));
        config.limits.database_connections = limit;
        let store = stores.of(&config).expect("a store");
        let database = store.ready(&Clock::System).await.expect("its schema");
        let mut held = Vec::new();
        while let Ok(Ok(reader)) = tokio::time::timeout(Duration::from_millis(500), database.reader()).await {
            held.push(reader);
        }
        held.len()
    };
    assert_eq!((at_once(1).await, at_once(2).await, at_once(1000).await), (1, 2, 3));
}

/// The password changes, as after a rotation. Then no tenant is served any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_url_is_another_pool_and_what_is_not_used_closes() {
    let rig = TenantDatabase::postgres().await;
    let docket_rig::tenant_database::Place::Url(url) = &rig.place else { panic!("a URL") };
    let client = postgres::client(url).await;
    let name = name_of(url);
    let role = format!("role_{name}");
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'first'; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT ALL ON SCHEMA public TO {role}"
    );
    client.batch_execute(&grants).await.expect("a role");
    let at = url.rsplit('@').next().expect("a host");
    let with = |password: &str| {
        let mut config: TenantConfig =
            serde_json::from_value(tenant_config("uid", "ACME", CUSTOMER, 0)).expect("a configuration");
        config.database =
            Some(DatabaseUrl::parse(&format!("postgres://{role}:{password}@{at}")).expect("a URL"));
        config
    };
    let stores = Stores::new(StoreSource::Postgres(budget(4, 2)), Schema::Migrate);
    let clock = Clock::System;
    let first = stores.of(&with("first")).expect("a store");
    assert!(Arc::ptr_eq(&first, &stores.of(&with("first")).expect("a store")), "nothing has changed");
    assert!(look(first.ready(&clock).await.expect("its schema")).await.expect("a connection"));
    let change = format!("ALTER ROLE {role} PASSWORD 'second'");
    client.batch_execute(&change).await.expect("another password");
    let second = stores.of(&with("second")).expect("a store");
    let under_way = first.database().begin(&clock).await.expect("a request that had begun");
    drop(first);
    assert!(look(second.ready(&clock).await.expect("its schema")).await.expect("a connection"));
    let roles = async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
        let row = client.query_one(sql, &[&role]).await.expect("a statement");
        row.get::<_, i64>(0)
    };
    eventually("the old one is used still", async || roles().await == 2).await;
    under_way.rollback().await.expect("it ends as it began");
    eventually("the old one is closed", async || roles().await == 1).await;

    stores.retain(&std::iter::once("another").collect());
    assert!(second.database().is_open(), "a session still has it");
    drop(second);
    eventually("the tenant is gone", async || roles().await == 0).await;
    let none = TenantConfig { database: None, ..with("second") };
    let error = stores.of(&none).err().expect("managed databases are the operator's").to_string();
    assert!(error.contains("spec.database") && error.contains("external"), "{error}");
}

/// The tenant's own clients hold its only connection, so it is at its limit. A tenant that waits for a place of the
/// process is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_that_uses_its_own_connections_is_at_its_limit_and_one_without_a_place_is_not() {
    let budget = budget(2, 1);
    let (_, own) = database(&budget).await;
    look(&own).await.expect("it responds");
    let held = own.reader().await.expect("its only connection");
    let error = look(&own).await.expect_err("its own request has it");
    assert!(error.is_at_connection_limit(), "{error}");
    let (_, other) = database(&budget).await;
    look(&other).await.expect("it responds");
    let (_, third) = database(&budget).await;
    look(&third).await.expect("it responds");
    let _all = other.reader().await.expect("the last place");
    let (first, second) = tokio::join!(look(&third), look(&third));
    for error in [first, second].map(|result| result.expect_err("others have all places")) {
        assert!(matches!(error, StoreError::Unavailable(_)) && !error.is_at_connection_limit(), "{error}");
    }
    drop(held);
    look(&own).await.expect("it is free");
}

/// The operator is in the middle of a long migration of these databases, or was killed in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_that_wait_for_a_lock_cost_other_tenants_nothing() {
    const STUCK: usize = 8;
    let budget = budget(8, 4);
    let lock = async |url: &str| {
        let client = postgres::client(url).await;
        let lock = format!("SELECT pg_advisory_lock({})", docket_schema::ADVISORY_LOCK);
        client.batch_execute(&lock).await.expect("no migration runs");
        client
    };
    let (mut locks, mut stores, mut waiting) = (Vec::new(), Vec::new(), JoinSet::new());
    for _ in 0..STUCK {
        let url = postgres::database().await;
        locks.push(lock(&url).await);
        let store = Arc::new(Store::new(open(&url, &budget)));
        stores.push(Arc::clone(&store));
        waiting.spawn(async move {
            let begun = Instant::now();
            (store.ready(&Clock::System).await.map(|_| ()), begun.elapsed())
        });
    }
    eventually("some wait for their locks", async || budget.open() >= 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    // These databases are new to this process and were migrated long ago. Other sessions hold their locks for migrations.
    let mut current = Vec::new();
    for _ in 0..3 {
        let (url, _) = database(&self::budget(1, 1)).await;
        current.push(lock(&url).await);
        let (store, begun) = (Store::new(open(&url, &budget)), Instant::now());
        assert!(!look(store.ready(&Clock::System).await.expect("it is current")).await.expect("it answers"));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    while let Some(waited) = waiting.join_next().await {
        let (result, took) = waited.expect("no panic");
        assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
        assert!(took < Duration::from_secs(7), "{took:?}");
    }
    drop(locks);
    for store in stores {
        store.ready(&Clock::System).await.expect("the lock is free");
    }
}

/// Simulates a process that was frozen, or whose machine was lost: the server ends its transaction and so its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_left_alone_is_ended_by_the_server() {
    let budget = budget(4, 4);
    let (_, database) = database(&budget).await;
    let mut reader = database.reader().await.expect("a connection");
    for (setting, value) in
        [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")]
    {
        let row = reader.query_opt(&format!("SHOW {setting}"), Vec::new()).await.expect("a setting");
        assert_eq!(row.expect("a row").get::<String>(0).expect("a text"), value, "{setting}");
    }
    drop(reader);
    let mut left = database.begin(&Clock::System).await.expect("a connection");
    contacts::insert_customer(&mut left, "NEW", "New", 0).await.expect("a row");
    let begun = Instant::now();
    // The write waits for the row of the other transaction. Its statement has a limit of 10 s.
    let both = async || loop {
        match write(&database, "NEW").await {
            Err(StoreError::Unavailable(_)) => assert!(begun.elapsed() < Duration::from_secs(30)),
            result => return result,
        }
    };
    both().await.expect("the other one was rolled back");
    println!("the row was free after {:?}", begun.elapsed());
    let ended = left.commit().await;
    assert!(matches!(ended, Err(StoreError::Unavailable(_))), "{ended:?}");
}
