//! The detector over a thousand databases, by a clock that only the test moves.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use docket::delivery::outbox::Outbox;
use docket::detector::{Detector, PLACES};
use docket::telemetry::Metrics;
use docket::tenancy::{ServedTenant, Tenants};
use docket_program::clock::{Clock, ManualClock};
use docket_rig::scratch::Folder;
use docket_rig::tenant_database::tenant_config;
use docket_schedule::{Room, SHARES, Schedule};
use docket_store::Database;
use docket_store::sqlite::Sqlite;
use docket_tests::server::eventually;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::tenant_of;

const TENANTS: usize = 1_000;
const INTERVAL: Duration = Duration::from_secs(60);
/// A debug build on a busy machine.
const SOON: Duration = Duration::from_secs(120);

/// A file with one work order, to be copied.
async fn template(path: &Path) {
    Database::Sqlite(Sqlite::new(path.to_owned())).migrate(&Clock::System).await.expect("a schema");
    let database = Connection::open(path).expect("a file");
    let sql = "INSERT INTO customer (code, name, created_at_ms) VALUES ('C-1', 'One', 0);
        INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) VALUES ('CT1', 'Court', 'C-1', 0);
        PRAGMA wal_checkpoint(TRUNCATE)";
    database.execute_batch(sql).expect("a work order");
}

fn insert(path: &Path, from: usize, count: usize) {
    let mut database = Connection::open(path).expect("a file");
    database.busy_timeout(Duration::from_secs(5)).expect("settable");
    let transaction = database.transaction().expect("a transaction");
    for number in from..from + count {
        let sql =
            "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) VALUES (?1, 'CT1', 0)";
        transaction.execute(sql, [format!("{number:06}")]).expect("an invoice");
    }
    transaction.commit().expect("commits");
}

fn tenant(number: usize, path: &Path) -> Arc<ServedTenant> {
    let config = tenant_config(&format!("uid-{number}"), &format!("T{number}"), "C-1", 1);
    Arc::new(tenant_of(config, Database::Sqlite(Sqlite::new(path.to_owned()))))
}

fn number_of(metrics: &Metrics, series: &str) -> usize {
    let text = metrics.text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    line.unwrap_or(0)
}

fn detected(metrics: &Metrics) -> usize {
    number_of(metrics, "docket_invoices_detected_total")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_databases_are_scanned_in_turn_a_few_at_once() {
    let folder = Folder::new("detector");
    let original = folder.path().join("template.db");
    template(&original).await;
    let paths: Vec<_> = (0..TENANTS).map(|number| folder.path().join(format!("{number}.db"))).collect();
    for path in &paths {
        std::fs::copy(&original, path).expect("writable");
        insert(path, 0, 1);
    }
    insert(&paths[0], 1, 1_999);
    std::fs::write(&paths[1], "This is not a database. ".repeat(100)).expect("writable");
    let all: Vec<_> = paths.iter().enumerate().map(|(number, path)| tenant(number, path)).collect();
    let tenants = Arc::new(Tenants::default());
    tenants.replace(all.clone());
    let (time, metrics) =
        (ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time")), Arc::new(Metrics::default()));
    let clock = Clock::Manual(time.clone());
    let schedule = Arc::new(Schedule::in_memory(clock.clone(), SHARES));
    let outbox = Outbox::new(Arc::clone(&schedule), Arc::clone(&tenants), Arc::clone(&metrics));
    let detector = Detector::new(clock, tenants, outbox, Arc::clone(&metrics), INTERVAL, Duration::ZERO);
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(detector.run(shutdown.clone()));

    // All of this happens within the first interval, because the clock stands still. The flood belongs to the first tenant.
    let open = || all.iter().filter(|tenant| tenant.store.database().is_open()).count();
    let (begun, mut most_open) = (Instant::now(), 0);
    eventually("all are detected", SOON, async || {
        most_open = most_open.max(open());
        detected(&metrics) == TENANTS - 2 + 2_000
    })
    .await;
    println!("{} invoices in {:?}, at most {most_open} databases open", detected(&metrics), begun.elapsed());
    assert!(most_open <= PLACES + 2, "{most_open}");
    eventually("all are closed", SOON, async || open() == 0).await;
    assert_eq!(number_of(&metrics, "docket_invoice_scan_failures_total"), 1);
    let hints = schedule
        .claim(Room { slots: 10_000, slow: 10_000, without_claim: 0 }, Duration::from_secs(3600))
        .await
        .expect("claims")
        .len();
    assert!(hints >= TENANTS - 2, "{hints}");

    // The detector scans no tenant before the next interval, and then each tenant with new invoices.
    for path in paths.iter().skip(2).step_by(100) {
        insert(path, 7_000, 3);
    }
    let before = detected(&metrics);
    time.advance(INTERVAL - Duration::from_millis(1));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(detected(&metrics), before);
    time.advance(Duration::from_millis(1));
    eventually("the new ones are detected", SOON, async || detected(&metrics) == before + 30).await;
    eventually("the broken one is tried again", SOON, async || {
        number_of(&metrics, "docket_invoice_scan_failures_total") == 2
    })
    .await;
    shutdown.cancel();
    run.await.expect("it ends");
    assert_eq!(open(), 0);
}
