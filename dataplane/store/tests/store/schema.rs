//! Migrations of a database to this version's schema.

use std::time::{Duration, Instant};

use docket_program::clock::Clock;
use docket_rig::tenant_database::{CUSTOMER, Place, T0, TenantDatabase};
use docket_rig::{on_both_databases, postgres, scratch};
use docket_store::deliveries::{self, DeliveryFilter};
use docket_store::processes::{self, ProcessFilter};
use docket_store::sql::Param;
use docket_store::{Database, StoreError};

use crate::upgrade;

on_both_databases!(
    a_second_migration_changes_nothing,
    a_newer_schema_is_refused,
    a_newer_schema_that_only_adds_is_worked_on
);

async fn a_second_migration_changes_nothing(rig: TenantDatabase) {
    const LAST: &str = "SELECT max(applied_at_ms) FROM schema_version";
    let applied = rig.number(LAST).await;
    rig.database.migrate(&Clock::System).await.expect("the schema is there already");
    rig.opened_again().migrate(&Clock::System).await.expect("the schema is there already");
    assert_eq!(
        rig.number("SELECT count(*) FROM schema_version").await,
        docket_schema::MIGRATIONS.len() as i64
    );
    assert_eq!(rig.number(LAST).await, applied);
    assert_eq!(rig.number(&format!("SELECT count(*) FROM customer WHERE code = '{CUSTOMER}'")).await, 1);
}

async fn a_newer_schema_is_refused(rig: TenantDatabase) {
    let newer = docket_schema::MIGRATIONS.len() as i64 + 1;
    let params = vec![Param::from(newer), Param::from("from the future"), Param::from(T0)];
    rig.write(async |t| t.execute(docket_schema::RECORD_VERSION, params).await).await;
    let error = rig.opened_again().migrate(&Clock::System).await.expect_err("we can't know that schema");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("run a newer Docket"), "{error}");
    assert_eq!(rig.number("SELECT count(*) FROM schema_version").await, newer);
}

/// During an upgrade, older processes continue if all new steps are additive.
async fn a_newer_schema_that_only_adds_is_worked_on(rig: TenantDatabase) {
    let newer = docket_schema::MIGRATIONS.len() as i64 + 1;
    let params = vec![Param::from(newer), Param::from("more of it (additive)"), Param::from(T0)];
    rig.write(async |t| t.execute(docket_schema::RECORD_VERSION, params).await).await;
    rig.opened_again().migrate(&Clock::System).await.expect("we need not know it");
    assert_eq!(rig.number("SELECT count(*) FROM schema_version").await, newer);
    assert_eq!(rig.number(&format!("SELECT count(*) FROM customer WHERE code = '{CUSTOMER}'")).await, 1);
}

/// Acts like eight processes that are started at the same time.
async fn eight_migrations_at_once(place: Place) {
    let databases: Vec<_> = (0..8).map(|_| place.open(1)).collect();
    let migrations: Vec<_> = databases
        .into_iter()
        .map(|database| tokio::spawn(async move { database.migrate(&Clock::System).await }))
        .collect();
    for migration in migrations {
        migration.await.expect("no panic").expect("all find the schema, in whatever order they come");
    }
    let mut reader = place.open(1).reader().await.expect("a connection");
    let row = reader.query_opt("SELECT count(*) FROM counter WHERE name = 'web_order'", Vec::new()).await;
    assert_eq!(row.expect("a statement").expect("a row").get::<i64>(0).expect("a number"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_migrations_at_once_of_a_new_file() {
    // The switch to a write-ahead log is where this may fail, and it happens once per file.
    for _ in 0..5 {
        eight_migrations_at_once(Place::File(scratch::Folder::new("store"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_migrations_at_once_of_a_new_postgresql_database() {
    for _ in 0..5 {
        eight_migrations_at_once(Place::Url(postgres::database().await)).await;
    }
}

/// A database of the first version with an exported order and its dead letter.
const FIRST_VERSION: &str = "INSERT INTO customer VALUES ('C-1', 'One', 0);
    INSERT INTO web_order VALUES
      ('W1', 'Process', 'C-1', 'Exported', NULL, '{}', '26STCV1', 'A v. B', NULL, '', 2, 1, 2, 3);
    INSERT INTO work_order VALUES ('PR1', 'Process', 'W1', 0, 'C-1', 'Ann', '26STCV1', 'Open', 3),
      ('PR2', 'Process', 'W1', 1, 'C-1', 'Bob', '26STCV1', 'Open', 3);
    INSERT INTO event (id, code, customer_code, subject, body, occurred_at_ms)
      VALUES ('evt_1', 'order.exported', 'C-1', 'W1', 'x', 3);
    INSERT INTO delivery (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms)
      VALUES ('01900000-0000-7000-8000-000000000001', 'evt_1', 'uid', 'default/a', 'DeadLetter', 5, 3, 3);";

fn first_version() -> String {
    let first = docket_schema::MIGRATIONS[0];
    let version = format!("INSERT INTO schema_version VALUES (1, '{}', 0)", first.name);
    [docket_schema::CREATE_VERSION_TABLE, ";", first.sql.postgres(), &version, ";", FIRST_VERSION].concat()
}

/// The rows of the first version are in the newest one, as far as their tables exist.
async fn keeps_its_rows(database: Database) {
    database.migrate(&Clock::System).await.expect("it is migrated");
    let mut reader = database.reader().await.expect("a connection");
    let filter = DeliveryFilter { work_order: Some("PR2".into()), ..DeliveryFilter::default() };
    let found = deliveries::search(&mut reader, &Clock::System, &filter, 9).await.expect("a statement").items;
    assert_eq!((found.len(), found[0].about.web_order_id.as_deref()), (1, Some("W1")));
    let found = processes::search(&mut reader, &ProcessFilter::default(), 9).await.expect("a statement");
    let shown: Vec<_> = found
        .iter()
        .map(|one| (one.work_order.as_str(), one.caption.as_deref(), one.status.as_str()))
        .collect();
    assert_eq!(shown, [("PR2", Some("A v. B"), "New"), ("PR1", Some("A v. B"), "New")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_version_is_migrated_with_its_rows() {
    let place = Place::File(scratch::Folder::new("store"));
    let file = rusqlite::Connection::open(place.file()).expect("a file");
    file.execute_batch(&first_version()).expect("the first version");
    drop(file);
    keeps_its_rows(place.open(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_database_of_the_first_version_is_migrated_with_its_rows() {
    let url = postgres::database().await;
    postgres::client(&url).await.batch_execute(&first_version()).await.expect("the first version");
    keeps_its_rows(Place::Url(url).open(1)).await;
}

/// What a dump says of the schema: no comment, no setting of the session, no name of the schema.
fn statements_of(dump: &str) -> String {
    let is_ours = |line: &&str| {
        let left_out = ["--", "SET ", "SELECT pg_catalog.set_config", "\\restrict", "\\unrestrict"];
        !line.is_empty() && !left_out.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = dump.lines().filter(is_ours).collect();
    let text = lines.join("\n").replace("public.", "");
    text + "\n"
}

/// The first lines that differ.
fn different<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let longer = one.lines().count().max(other.lines().count());
    let lines = one.lines().chain(std::iter::repeat("")).zip(other.lines().chain(std::iter::repeat("")));
    lines.take(longer).find(|(one, other)| one != other)
}

/// A database of the baseline has what the steps make. `UPDATE_SCHEMA=1` writes the baseline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_baseline_is_what_the_steps_make() {
    let by_steps = postgres::database().await;
    let client = postgres::client(&by_steps).await;
    client.batch_execute(docket_schema::CREATE_VERSION_TABLE).await.expect("a statement");
    for step in docket_schema::MIGRATIONS {
        client.batch_execute(step.sql.postgres()).await.expect("a step");
        for index in step.indexes {
            client.batch_execute(index.create).await.expect("an index");
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/migrations/baseline_postgres.sql");
    let made = statements_of(&postgres::dump(&by_steps, "schema_version"));
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(file, &made).expect("the repository is writable");
    }
    let kept = std::fs::read_to_string(file).expect("the baseline");
    assert_eq!(different(&kept, &made), None, "run this test again with UPDATE_SCHEMA=1");

    let (by_operator, by_store) = (postgres::database().await, postgres::database().await);
    let mut client = postgres::client(&by_operator).await;
    let version = docket_schema::postgres::migrate(&mut client).await.expect("a new schema");
    assert_eq!(version, docket_schema::MIGRATIONS.len() as i64);
    let store = Place::Url(by_store.clone()).open(1);
    store.migrate(&Clock::System).await.expect("a new schema");
    // PostgreSQL writes `(a AND b) AND c` of a step as such, and reads it as `a AND b AND c`.
    let without_brackets = |text: &str| text.replace(['(', ')'], "");
    for url in [by_operator, by_store] {
        let dumped = statements_of(&postgres::dump(&url, "schema_version"));
        let (dumped, made) = (without_brackets(&dumped), without_brackets(&made));
        assert_eq!(different(&dumped, &made), None, "the baseline does not make what the file says");
        let client = postgres::client(&url).await;
        let applied = docket_schema::postgres::applied(&client).await.expect("a statement");
        assert_eq!(applied.missing(), Ok(&[][..]));
    }
}

/// A session ends a statement after a time that may be too short for a step on a large table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_may_take_longer_than_a_statement_of_the_session() {
    const LIMITED: &str = "CREATE FUNCTION unlimited() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF current_setting('statement_timeout') <> '0' THEN RAISE EXCEPTION 'a step has a limit'; END IF; END $$; \
        CREATE EVENT TRIGGER unlimited ON ddl_command_start EXECUTE FUNCTION unlimited(); \
        SET statement_timeout = '10s'";
    let mut client = postgres::client(&postgres::database().await).await;
    let older = upgrade::version(docket_schema::OLDEST as usize);
    client.batch_execute(&older).await.expect("the schema of the previous release");
    client.batch_execute(LIMITED).await.expect("a superuser");
    let migrated = docket_schema::postgres::migrate(&mut client).await;
    assert_eq!(migrated.expect("no limit ends a step"), docket_schema::NEWEST);
}

/// Writes to a table wait behind a step that waits for the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_the_operator_does_not_wait_long_for_a_table_in_use() {
    let url = postgres::database().await;
    let (mut client, reader) = (postgres::client(&url).await, postgres::client(&url).await);
    let older = upgrade::version(docket_schema::OLDEST as usize);
    client.batch_execute(&older).await.expect("the schema of the previous release");
    reader.batch_execute("BEGIN; SELECT count(*) FROM audit").await.expect("it reads");
    let begun = Instant::now();
    assert!(docket_schema::postgres::migrate(&mut client).await.is_err(), "the table is read");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let applied = docket_schema::postgres::applied(&client).await.expect("a statement");
    assert_eq!(applied.version, docket_schema::OLDEST, "no step was applied");
    reader.batch_execute("COMMIT").await.expect("it has read");
    let migrated = docket_schema::postgres::migrate(&mut client).await;
    assert_eq!(migrated.expect("the table is free"), docket_schema::NEWEST);
}
