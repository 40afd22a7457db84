//! A tenant's dead database or flood of invoices delays no other tenant's invoices, and a tenant at rest costs nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use docket_tests::receiver::Receiver;
use docket_tests::server::{Home, eventually, tenant_yaml};
use docket_tests::stores::Database;
use rusqlite::Connection;

use crate::delivery::invoices::{
    arrives, assert_one_each, back_office, insert, insert_many, insert_sql, start, webhook,
};
use crate::delivery::stage::{SOON, all_end_within, alone, deliveries_of, home, remains, together};

/// The tenants `acme` and `globex`, each with a customer and a webhook for invoices.
async fn two_tenants(acme: &Receiver, globex: &Receiver) -> Home {
    let home = home(&[webhook("acme", "acme", acme)]);
    home.write("globex.yaml", &tenant_yaml("globex", 'b'));
    webhook("globex", "globex", globex).write(&home);
    home.add_contact("GLOBEX", "C-1", "bea@globex.example");
    home
}

/// How long invoices of this tenant take to arrive, one after another.
async fn slowest_of(count: usize, database: &Database, hook: &Receiver) -> Duration {
    let mut slowest = Duration::ZERO;
    for number in 0..count {
        let begun = Instant::now();
        insert(database, "photo_copy_invoice", &format!("lone {number}"));
        arrives(hook, &format!("lone {number}")).await;
        slowest = slowest.max(begun.elapsed());
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_database_delays_no_other_tenant_and_is_read_again_once_repaired() {
    let _turn = alone().await;
    let (broken, fine) = (Receiver::start().await, Receiver::start().await);
    let home = two_tenants(&broken, &fine).await;
    let server = start(&home).await;
    let (acme, globex) = (back_office(&home, "ACME"), back_office(&home, "GLOBEX"));
    insert(&acme, "court_invoice", "before");
    arrives(&broken, "before").await;
    insert(&acme, "court_invoice", "during");
    drop(acme);
    arrives(&broken, "during").await;
    // The last connection to close it writes the log into the file.
    assert!(server.terminate().await.success());

    let path = home.database("ACME");
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).expect("renamable");
    std::fs::write(&path, "This is not a database. ".repeat(1_000)).expect("writable");
    let server = start(&home).await;
    let failures = async || server.metric("docket_invoice_scan_failures_total").await;
    eventually("its failures are counted", SOON, async || failures().await >= 2.0).await;
    let slowest = slowest_of(8, &globex, &fine).await;
    assert!(slowest < Duration::from_millis(1_500), "{slowest:?}");

    let whole = Connection::open(&aside).expect("a file");
    whole.execute_batch(&insert_sql("court_invoice", "after")).expect("an invoice");
    whole.close().expect("closes");
    std::fs::rename(&aside, &path).expect("renamable");
    arrives(&broken, "after").await;
    let log = std::fs::read_to_string(home.log("err")).expect("a log");
    assert_eq!(log.matches("scanning for invoices failed").count(), 1, "logged once: {log}");
}

/// Whether this process has the database open.
fn is_open(process: u32, path: &Path) -> bool {
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).expect("its descriptors");
    links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok()).any(|target| target == path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_has_not_changed_is_not_opened() {
    let _turn = together().await;
    let (one, other) = (Receiver::start().await, Receiver::start().await);
    let home = two_tenants(&one, &other).await;
    let server = start(&home).await;
    let path = home.database("GLOBEX");
    let left_out = async || server.metric("docket_unchanged_databases_total{reader=\"detector\"}").await;
    eventually("both are left out five times", SOON, async || left_out().await >= 10.0).await;
    eventually("it is closed", SOON, async || !is_open(server.id(), &path)).await;
    remains("it stays closed", Duration::from_secs(2), async || !is_open(server.id(), &path)).await;
    let database = back_office(&home, "GLOBEX");
    insert(&database, "court_invoice", "1");
    arrives(&other, "1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_invoices_of_one_tenant_do_not_delay_another() {
    let _turn = alone().await;
    let (flooded, calm) = (Receiver::start().await, Receiver::start().await);
    let home = two_tenants(&flooded, &calm).await;
    let server = start(&home).await;
    let (acme, globex) = (back_office(&home, "ACME"), back_office(&home, "GLOBEX"));
    let begun = Instant::now();
    insert_many(&acme, 0..5_000);
    let slowest = slowest_of(5, &globex, &calm).await;
    let detected = server.metric("docket_invoices_detected_total").await;
    println!(
        "the slowest of five took {slowest:?}; {detected} were detected by then, after {:?}",
        begun.elapsed()
    );
    assert!(slowest < Duration::from_millis(1_500), "{slowest:?}");
    all_end_within(&home, 5_000, Duration::from_secs(90)).await;
    println!("all 5,000 were delivered after {:?}", begun.elapsed());
    assert_one_each(&home, &["acme"], 5_000);
    assert_eq!(deliveries_of(&home, "GLOBEX").len(), 5);
}
