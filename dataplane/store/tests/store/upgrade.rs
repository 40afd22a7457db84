//! Upgrades a database of an older version, whose deliveries of all states were in one table. It keeps all
//! deliveries, and programs of the older version can't change them any more.

use docket_domain::delivery::{DeliveryId, FailureClass, Status};
use docket_program::clock::Clock;
use docket_rig::tenant_database::{Place, TenantDatabase, at, lease};
use docket_rig::{postgres, scratch};
use docket_store::deliveries::{self, NewDelivery};
use docket_store::{Database, StoreError};
use tokio_postgres::Client;

/// The older version.
const BEFORE: usize = 3;

/// A day in 2027, in milliseconds since 1970.
const NOW: i64 = 1_800_000_000_000;

/// Deliveries of all states, with their attempts.
const ROWS: &str = "INSERT INTO customer VALUES ('C-1', 'One', 0);
    INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms)
      VALUES ('evt_1', 'order.created', 'C-1', 'W1', 'x', 3);
    INSERT INTO delivery (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token,
      lease_until_ms, failure_class, http_status, response_body, idempotency_key, resend_of, requested_by, resend_id,
      created_at_ms, finished_at_ms) VALUES
      ('01900000-0000-7000-8000-000000000001', 'evt_1', 'w', 'a/w', 'Pending', 0, 5, NULL, NULL, NULL, NULL, NULL, 'k1', NULL, NULL, NULL, 5, NULL),
      ('01900000-0000-7000-8000-000000000002', 'evt_1', 'w', 'a/w', 'Pending', 1, 5, 'old', 1900000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 5, NULL),
      ('01900000-0000-7000-8000-000000000003', 'evt_1', 'w', 'a/w', 'Failed', 2, 1900000000000, NULL, NULL, 'ServerError', 500, 'oops', 'k3', NULL, NULL, NULL, 6, NULL),
      ('01900000-0000-7000-8000-000000000004', 'evt_1', 'v', 'a/v', 'Failed', 2, 7, 'dead', 8, 'Dns', NULL, NULL, NULL, NULL, NULL, NULL, 6, NULL),
      ('01900000-0000-7000-8000-000000000005', 'evt_1', 'w', 'a/w', 'Succeeded', 2, 7, NULL, NULL, NULL, 202, 'fine', 'k5', NULL, NULL, NULL, 6, 9),
      ('01900000-0000-7000-8000-000000000006', 'evt_1', 'w', 'a/w', 'DeadLetter', 5, 7, NULL, NULL, 'ClientError', 404, 'no', 'k6', NULL, NULL, NULL, 6, 10),
      ('01900000-0000-7000-8000-000000000007', 'evt_1', 'v', 'a/v', 'DeadLetter', 0, 7, NULL, NULL, 'WebhookGone', NULL, NULL, NULL, NULL, NULL, NULL, 6, 11),
      ('01900000-0000-7000-8000-000000000008', 'evt_1', 'w', 'a/w', 'Pending', 0, 12, NULL, NULL, NULL, NULL, NULL, NULL, '01900000-0000-7000-8000-000000000006', 'employee 1', 'r1', 12, NULL),
      ('01900000-0000-7000-8000-000000000009', 'evt_1', 'w', 'a/w', 'Succeeded', 1, 12, NULL, NULL, NULL, 200, '', NULL, '01900000-0000-7000-8000-000000000006', 'employee 1', 'r1', 12, 13);
    INSERT INTO attempt VALUES
      ('01900000-0000-7000-8000-000000000002', 1, 6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      ('01900000-0000-7000-8000-000000000003', 1, 6, 7, 'Timeout(FirstByte)', NULL, '127.0.0.1:9', NULL, 1, 2, 3, NULL, 4),
      ('01900000-0000-7000-8000-000000000003', 2, 8, 9, 'ServerError', 500, '127.0.0.1:9', 'oops', 1, 2, 3, 4, 5),
      ('01900000-0000-7000-8000-000000000004', 1, 6, 7, 'Dns', NULL, NULL, NULL, 1, NULL, NULL, NULL, 1),
      ('01900000-0000-7000-8000-000000000004', 2, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      ('01900000-0000-7000-8000-000000000005', 1, 6, 7, 'WorkerLost', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0),
      ('01900000-0000-7000-8000-000000000005', 2, 8, 9, NULL, 202, '127.0.0.1:9', 'fine', NULL, 2, 3, 4, 5),
      ('01900000-0000-7000-8000-000000000006', 1, 6, 6, 'ClientError', 404, NULL, 'no', NULL, NULL, NULL, NULL, 1),
      ('01900000-0000-7000-8000-000000000006', 2, 7, 7, 'ClientError', 404, NULL, 'no', NULL, NULL, NULL, NULL, 1),
      ('01900000-0000-7000-8000-000000000006', 3, 8, 8, 'ClientError', 404, NULL, 'no', NULL, NULL, NULL, NULL, 1),
      ('01900000-0000-7000-8000-000000000006', 4, 9, 9, 'ClientError', 404, NULL, 'no', NULL, NULL, NULL, NULL, 1),
      ('01900000-0000-7000-8000-000000000006', 5, 9, 10, 'ClientError', 404, NULL, 'no', NULL, NULL, NULL, NULL, 1),
      ('01900000-0000-7000-8000-000000000009', 1, 12, 13, NULL, 200, '127.0.0.1:9', '', NULL, NULL, NULL, 4, 5);";

/// The writes of programs of the older version.
const OLD_WRITES: [&str; 6] = [
    "INSERT INTO delivery (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
     VALUES ('01900000-0000-7000-8000-00000000000a', 'evt_1', 'w', 'a/w', 'Pending', 0, 0, 0) ON CONFLICT DO NOTHING",
    "UPDATE delivery SET attempt_count = attempt_count + 1, lease_token = 'old', lease_until_ms = 9 WHERE due_at_ms < 99",
    "UPDATE delivery SET status = 'Succeeded', lease_token = NULL, finished_at_ms = 9 WHERE lease_token = 'old'",
    "INSERT INTO attempt (delivery_id, attempt_no, started_at_ms) VALUES ('01900000-0000-7000-8000-000000000001', 1, 1)",
    "UPDATE attempt SET finished_at_ms = 9 WHERE finished_at_ms IS NULL",
    "DELETE FROM delivery WHERE finished_at_ms < 100",
];

fn version_before() -> String {
    version(BEFORE)
}

/// The statements that create a database of this version from an empty one.
pub(super) fn version(number: usize) -> String {
    let mut sql = format!("{};", docket_schema::CREATE_VERSION_TABLE);
    for step in &docket_schema::MIGRATIONS[..number] {
        sql.push_str(step.sql.postgres());
        sql.push_str(&format!("; INSERT INTO schema_version VALUES ({}, '{}', 0);", step.version, step.name));
    }
    sql
}

fn id(number: u16) -> DeliveryId {
    format!("01900000-0000-7000-8000-{number:012}").parse().expect("an id")
}

/// Everything that both versions show of deliveries and attempts.
async fn shown(database: &Database) -> Vec<String> {
    const DELIVERY: &str = "id event_id webhook webhook_name status attempt_count due_at_ms lease_token lease_until_ms \
                            failure_class http_status idempotency_key resend_of requested_by resend_id created_at_ms \
                            finished_at_ms";
    const ATTEMPT: &str = "delivery_id attempt_no started_at_ms finished_at_ms failure_class http_status remote_address \
                           response_body dns_us connect_us tls_us first_byte_us total_us";
    let mut reader = database.reader().await.expect("a connection");
    let mut shown = Vec::new();
    for (table, columns) in [("delivery", DELIVERY), ("attempt", ATTEMPT)] {
        let text = |column| format!("'{column}=' || coalesce(CAST({column} AS TEXT), 'NULL')");
        let columns: Vec<String> = columns.split_whitespace().map(text).collect();
        let sql = format!("SELECT {} AS row FROM {table} ORDER BY row", columns.join(" || ' ' || "));
        let rows = reader.query(&sql, Vec::new()).await.expect("a statement");
        shown.extend(rows.iter().map(|row| row.get::<String>(0).expect("text")));
    }
    shown
}

async fn count(database: &Database, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let mut reader = database.reader().await.expect("a connection");
    let row = reader.query_opt(&sql, Vec::new()).await.expect("a statement").expect("a row");
    row.get(0).expect("a number")
}

async fn keeps_everything(place: Place) {
    let before = shown(&place.open(1)).await;
    assert_eq!(before.len(), 9 + 13);
    let rig = TenantDatabase { database: place.open(8), place };
    rig.database.migrate(&Clock::System).await.expect("it is migrated");
    assert_eq!(shown(&rig.opened_again()).await, before);
    assert_eq!(
        (count(&rig.database, "delivery_queue").await, count(&rig.database, "delivery_history").await),
        (5, 4)
    );
    assert_eq!(count(&rig.database, "attempt_history").await, 11, "all but the two that are being made");

    for write in OLD_WRITES {
        let written = rig.try_write(async |t| t.execute(write, Vec::new()).await).await;
        assert!(matches!(written, Err(StoreError::Refused(_))), "{write}: {written:?}");
    }
    assert_eq!(shown(&rig.opened_again()).await, before);
    continues(&rig).await;
}

/// Programs of this version continue with the rows of the older one.
async fn continues(rig: &TenantDatabase) {
    let all: Vec<DeliveryId> = (1..=9).map(id).collect();
    let begun = rig.begin(&all, "mine", NOW, NOW + 4).await;
    let mut begun: Vec<_> = begun.iter().map(|started| (started.id, started.attempt)).collect();
    begun.sort();
    // The second delivery is leased, the third is not due, and the worker of the fourth was lost.
    assert_eq!(begun, [(id(1), 1), (id(4), 3), (id(8), 1)]);
    let attempts = rig.attempts(id(4)).await;
    assert_eq!((attempts.len(), attempts[1].failure_class), (3, Some(FailureClass::WorkerLost)));
    // No worker can renew this lease any more. The delivery is taken over when the lease ends.
    let lost = rig
        .write(async |t| {
            let base = std::time::Duration::ZERO;
            deliveries::end_lost_attempts(t, &[id(2)], base, at(1_900_000_000_000)).await
        })
        .await;
    assert_eq!(lost, (1, 0));
    let mine = lease("mine", 4);
    let begun =
        rig.write(async |t| deliveries::begin_attempts(t, &[id(2)], &mine, 1_900_000_000_000).await).await;
    assert_eq!(begun[0].attempt, 2);
    for (place, key) in (20..).zip(["k1", "k3", "k5", "k6"]) {
        let twin = NewDelivery {
            id: id(place),
            event_id: "evt_1".into(),
            webhook: "w".into(),
            webhook_name: "a/w".into(),
            idempotency_key: Some(key.into()),
            resend_of: None,
            requested_by: None,
            resend_id: None,
            due_at_ms: None,
        };
        assert!(!rig.write(async |t| deliveries::insert(t, &twin, NOW).await).await, "{key}");
    }
    assert_eq!(rig.delivery(id(5)).await.status, Status::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_version_before_keeps_everything() {
    let place = Place::File(scratch::Folder::new("store"));
    let file = rusqlite::Connection::open(place.file()).expect("a file");
    file.execute_batch(&(version_before() + ROWS)).expect("the version before");
    drop(file);
    keeps_everything(place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_database_of_the_version_before_keeps_everything() {
    let url = postgres::database().await;
    postgres::client(&url).await.batch_execute(&(version_before() + ROWS)).await.expect("the version before");
    keeps_everything(Place::Url(url)).await;
}

#[test]
fn programs_of_the_version_before_refuse_a_migrated_database() {
    let step = docket_schema::MIGRATIONS[BEFORE];
    assert!(!step.name.ends_with(" (additive)"), "{}", step.name);
}

/// Writes that a worker of the older version has begun are kept; statements that it has prepared fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_transactions_under_way_and_fails_later_ones() {
    let url = postgres::database().await;
    let mut old = postgres::client(&url).await;
    old.batch_execute(&(version_before() + ROWS)).await.expect("the version before");
    let prepared = old.prepare("UPDATE delivery SET due_at_ms = $1").await.expect("a statement");
    let transaction = old.transaction().await.expect("a transaction");
    transaction.execute(&prepared, &[&77_i64]).await.expect("it is a table still");
    let database = Place::Url(url.clone()).open(1);
    let migration = tokio::spawn(async move { database.migrate(&Clock::System).await });
    let other = postgres::client(&url).await;
    postgres::lock_waits(&other, 1).await;
    transaction.commit().await.expect("the worker was first");
    migration.await.expect("no panic").expect("it is migrated");
    let moved = "SELECT count(*) FROM delivery WHERE due_at_ms = 77";
    assert_eq!(other.query_one(moved, &[]).await.expect("a statement").get::<_, i64>(0), 9);
    assert!(old.execute(&prepared, &[&88_i64]).await.is_err(), "a statement of before has written");
}

/// Identifies the files of the tables and indexes of finished deliveries and their attempts. If a table is rewritten,
/// it gets another file.
async fn files(client: &Client) -> Vec<(String, i64)> {
    let sql = "SELECT CASE c.relkind WHEN 'r' THEN (CASE WHEN c.relname LIKE 'attempt%' THEN 'attempt' ELSE 'delivery' END) \
               ELSE c.relname END, c.relfilenode::bigint \
               FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_class t ON t.oid = coalesce(i.indrelid, c.oid) \
               WHERE c.relkind IN ('r', 'i') AND t.relname IN ('delivery', 'attempt', 'delivery_history', 'attempt_history') \
               AND c.relname <> 'delivery_due' ORDER BY 1";
    let rows = client.query(sql, &[]).await.expect("a statement");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// How many rows and pages of both tables were read and written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Work {
    scanned_whole: i64,
    fetched: i64,
    updated: i64,
    deleted: i64,
    pages: i64,
}

async fn work(client: &Client) -> Work {
    let sql = "SELECT sum(seq_tup_read)::bigint, sum(idx_tup_fetch)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_del)::bigint, \
               sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint \
               FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid) \
               WHERE pg_stat_user_tables.relname IN ('delivery', 'attempt', 'delivery_history', 'attempt_history')";
    let row = client.query_one(sql, &[]).await.expect("a statement");
    Work {
        scanned_whole: row.get(0),
        fetched: row.get(1),
        updated: row.get(2),
        deleted: row.get(3),
        pages: row.get(4),
    }
}

/// Waits until only `client` is connected: the work of other sessions is counted when they end.
async fn alone(client: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
               AND backend_type = 'client backend'";
    while client.query_one(sql, &[]).await.expect("a statement").get::<_, i64>(0) > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The migration holds its locks only for a moment, even with a long history.
async fn leaves_finished_deliveries_alone(analyzed: bool) {
    const FINISHED: i64 = 60_000;
    const UNFINISHED: i64 = 200;
    let url = postgres::database().await;
    let filler = postgres::client(&url).await;
    let fill = format!(
        "{}{ROWS} ALTER TABLE delivery SET (autovacuum_enabled = off); ALTER TABLE attempt SET (autovacuum_enabled = off); \
         INSERT INTO delivery (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) SELECT 'd' || lpad(n::text, 8, '0'), 'evt_1', 'w', 'a/w', \
         CASE WHEN n > {FINISHED} THEN 'Failed' WHEN n % 100 = 0 THEN 'DeadLetter' ELSE 'Succeeded' END, 1, n, n, \
         CASE WHEN n <= {FINISHED} THEN n END FROM generate_series(1, {FINISHED} + {UNFINISHED}) n; \
         INSERT INTO attempt (delivery_id, attempt_no, started_at_ms, finished_at_ms) \
         SELECT id, 1, 1, 2 FROM delivery WHERE id LIKE 'd%';",
        version_before()
    );
    filler.batch_execute(&fill).await.expect("rows");
    if analyzed {
        filler.batch_execute("ANALYZE").await.expect("analyzed");
    }
    drop(filler);
    let client = postgres::client(&url).await;
    alone(&client).await;
    let (files_before, before) = (files(&client).await, work(&client).await);
    assert_eq!(files_before.len(), 2 + 2 + 7, "{files_before:?}");

    let database = Place::Url(url).open(1);
    database.migrate(&Clock::System).await.expect("it is migrated");
    drop(database);
    alone(&client).await;
    let (files_after, after) = (files(&client).await, work(&client).await);
    assert_eq!(files_after, files_before, "written again");
    assert_eq!((after.scanned_whole, after.updated), (before.scanned_whole, before.updated), "{after:?}");
    // The five deliveries of ROWS, and their two attempts in progress.
    assert_eq!(after.deleted - before.deleted, UNFINISHED + 5 + 2);
    let (fetched, pages) = (after.fetched - before.fetched, after.pages - before.pages);
    println!("analyzed: {analyzed}; {fetched} rows fetched, {pages} pages read or written");
    assert!(fetched < 10 * UNFINISHED, "{fetched} rows fetched");
    assert!(pages < 30 * UNFINISHED, "{pages} pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_leaves_finished_deliveries_alone() {
    leaves_finished_deliveries_alone(false).await;
    leaves_finished_deliveries_alone(true).await;
}

/// A session that reads a table for long, such as a dump, keeps a migration from changing the table. Writes that wait
/// behind the migration wait less than a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_waits_for_a_lock_does_not_hold_writes_up() {
    let url = postgres::database().await;
    let old = postgres::client(&url).await;
    old.batch_execute(&format!("{}{ROWS}", version_before())).await.expect("rows");
    let reader = postgres::client(&url).await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM delivery").await.expect("it reads");
    let migrating = tokio::spawn({
        let url = url.clone();
        async move { Place::Url(url).open(1).migrate(&Clock::System).await }
    });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'delivery'::regclass";
    while reader.query_one(waits, &[]).await.expect("a statement").get::<_, i64>(0) == 0 {
        assert!(!migrating.is_finished(), "it needs the table");
    }
    old.batch_execute("SET lock_timeout = '1s'").await.expect("a setting");
    old.batch_execute("UPDATE delivery SET due_at_ms = 9 WHERE status = 'Pending'")
        .await
        .expect("a second is enough");
    let error = migrating.await.expect("no panic").expect_err("the table is read");
    assert!(matches!(error, StoreError::Unavailable(_)), "it is tried again: {error}");
    reader.batch_execute("COMMIT").await.expect("it has read");
    Place::Url(url).open(1).migrate(&Clock::System).await.expect("it is migrated");
}
