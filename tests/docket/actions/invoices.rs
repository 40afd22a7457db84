//! Invoice headers: the detector finds new ones in every order of commits, and only one detector marks each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use docket::delivery::outbox::Outbox;
use docket::detector::detect_invoices::{BATCH, Detected, count_waiting, detect_invoices};
use docket::tenancy::ServedTenant;
use docket_domain::delivery::{LEASE, Status};
use docket_domain::invoice::InvoiceFamily;
use docket_program::clock::{Clock, ManualClock};
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{
    INVOICE_TABLES, Place, T0, TenantDatabase, ended_sql, insert_invoice_sql, tenant_config,
};
use docket_schedule::{Room, SHARES, Schedule};
use docket_store::{Database, StoreError, invoices};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::tenant_of;

on_both_databases!(
    each_family_is_detected_with_all_its_fields,
    an_invoice_is_detected_once,
    the_deliveries_of_an_invoice_are_scheduled,
    a_row_that_is_announced_already_is_not_detected,
    an_old_invoice_is_marked_and_not_announced,
    more_than_a_batch_is_reported,
    two_detectors_at_once_detect_each_invoice_once,
    an_invoice_committed_after_later_ones_is_found,
    a_removed_mark_queues_nothing_again_and_is_scheduled_again,
    an_invoice_without_its_work_order_waits_for_it_and_hides_no_other,
    a_batch_that_fails_leaves_its_invoices_new,
    an_invoice_that_cannot_be_announced_stops_no_other,
    values_of_another_type_are_refused,
);

fn clock() -> Clock {
    Clock::Manual(ManualClock::new(Timestamp::from_millisecond(T0).expect("in range")))
}

/// A tenant on this database whose customer has this number of webhooks.
pub(super) fn tenant(database: Database, webhooks: usize) -> ServedTenant {
    tenant_of(tenant_config("uid-1", "ACME", "SMITH", webhooks), database)
}

/// The outbox of a schedule that nothing claims from.
pub(super) fn outbox() -> Arc<Outbox> {
    Outbox::new(Arc::new(Schedule::in_memory(clock(), SHARES)), Arc::default(), Arc::default())
}

async fn insert(rig: &TenantDatabase, table: &str, number: &str) {
    rig.run(&insert_invoice_sql(table, number, T0)).await;
}

async fn detect(rig: &TenantDatabase, family: InvoiceFamily) -> Detected {
    let database = rig.opened_with(4);
    detect_invoices(&database, &tenant(database.clone(), 2), &outbox(), family, Duration::ZERO, &clock())
        .await
        .expect("detects")
}

/// The data of the events, by their invoice.
async fn payloads(rig: &TenantDatabase) -> Vec<Value> {
    let sql = "SELECT body FROM event ORDER BY invoice_number, id";
    let rows = rig.reader().await.query(sql, Vec::new()).await.expect("a statement");
    let body = |row: &docket_store::sql::Row| row.get::<Vec<u8>>(0).expect("bytes");
    rows.iter().map(|row| serde_json::from_slice(&body(row)).expect("JSON")).collect()
}

async fn each_family_is_detected_with_all_its_fields(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    for (_, table) in INVOICE_TABLES {
        let (columns, values) = match table {
            "photo_copy_invoice" => (", facility_line_item, amount_cents", ", 2, 23050"),
            _ => ("", ""),
        };
        let sql = format!(
            "INSERT INTO {table} (invoice_number, work_order, invoice_date, bill_to_customer_code, created_at_ms{columns}) \
             VALUES ('{table}', 'WO1', '2026-11-21', 'CARRIER', 5{values})"
        );
        rig.run(&sql).await;
    }
    for (family, table) in INVOICE_TABLES {
        assert_eq!(detect(&rig, family).await.count, 1, "{table}");
        let photo_copy = family == InvoiceFamily::PhotoCopy;
        let expected = json!({"workOrder": "WO1", "orderType": family.as_str(), "invoiceNumber": table,
            "invoiceDate": "2026-11-21T00:00:00", "billToCustomerCode": "CARRIER",
            "facilityLineItem": photo_copy.then_some(2), "amount": photo_copy.then_some(230.5)});
        let events = payloads(&rig).await;
        let event = events.iter().find(|event| event["data"]["invoiceNumber"] == table).expect("an event");
        assert_eq!((&event["data"], &event["customerCode"]), (&expected, &json!("SMITH")));
    }
    assert_eq!(rig.number("SELECT count(*) FROM delivery").await, 8);
    assert_eq!(rig.number("SELECT count(*) FROM event WHERE work_order = 'WO1'").await, 4);
}

async fn an_invoice_is_detected_once(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    insert(&rig, "court_invoice", "1").await;
    let mut detected_at = Vec::new();
    for count in [1, 0, 0] {
        let detected = detect(&rig, InvoiceFamily::Court).await;
        assert_eq!((detected.count, detected.hints.len(), detected.full), (count, 2 * count, false));
        detected_at.push(rig.number("SELECT detected_at_ms FROM court_invoice").await);
    }
    assert_eq!(detected_at, [detected_at[0]; 3], "the first time stays");
    // The same number in another family is another invoice.
    insert(&rig, "delivery_invoice", "1").await;
    assert_eq!(detect(&rig, InvoiceFamily::Delivery).await.hints.len(), 2);
}

async fn the_deliveries_of_an_invoice_are_scheduled(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    insert(&rig, "court_invoice", "1").await;
    let (database, outbox, family) = (rig.opened_with(4), outbox(), InvoiceFamily::Court);
    let tenant = tenant(database.clone(), 2);
    let detected = detect_invoices(&database, &tenant, &outbox, family, Duration::ZERO, &clock()).await;
    let room = Room { slots: 9, slow: 9, without_claim: 0 };
    let claims = outbox.schedule.claim(room, LEASE).await.expect("it is in memory");
    assert_eq!((detected.expect("detects").hints.len(), claims.len()), (2, 2));
}

async fn a_row_that_is_announced_already_is_not_detected(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    let sql = "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms, detected_at_ms) \
               VALUES ('old', 'WO1', 1, 1)";
    rig.run(sql).await;
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 0);
}

async fn an_old_invoice_is_marked_and_not_announced(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    let database = rig.opened_with(4);
    let tenant = tenant(database.clone(), 2);
    let begun = database.begin(&clock()).await.expect("begins");
    let now_ms = begun.now().as_millisecond();
    drop(begun);
    let day_ms = 24 * 3600 * 1000;
    rig.run(&insert_invoice_sql("court_invoice", "1970", 1)).await;
    rig.run(&insert_invoice_sql("court_invoice", "older", now_ms - 31 * day_ms)).await;
    rig.run(&insert_invoice_sql("court_invoice", "newer", now_ms - 29 * day_ms)).await;
    rig.run("UPDATE court_invoice SET invoice_date = '2019-03-01' WHERE invoice_number = 'newer'").await;
    let month = Duration::from_secs(30 * 24 * 3600);
    let detected =
        detect_invoices(&database, &tenant, &outbox(), InvoiceFamily::Court, month, &clock()).await;
    let detected = detected.expect("detects");
    assert_eq!((detected.count, detected.old, detected.hints.len()), (3, 2, 2));
    assert_eq!((detected.full, detected.left), (false, false));
    let announced: Vec<Value> =
        payloads(&rig).await.iter().map(|event| event["data"]["invoiceNumber"].clone()).collect();
    assert_eq!(announced, ["newer"]);
    assert_eq!(rig.number("SELECT count(*) FROM court_invoice WHERE detected_at_ms IS NULL").await, 0);
}

async fn more_than_a_batch_is_reported(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    for number in 0..BATCH + 1 {
        insert(&rig, "court_invoice", &format!("{number:04}")).await;
    }
    let first = detect(&rig, InvoiceFamily::Court).await;
    assert_eq!((first.count, first.full), (BATCH, true));
    let second = detect(&rig, InvoiceFamily::Court).await;
    assert_eq!((second.count, second.full), (1, false));
}

/// Detects again until nothing is left, as the scans after a deadlock or a timeout do.
async fn detect_all(database: Database, family: InvoiceFamily) -> usize {
    let tenant = tenant(database.clone(), 1);
    let mut count = 0;
    loop {
        match detect_invoices(&database, &tenant, &outbox(), family, Duration::ZERO, &clock()).await {
            Ok(detected) => count += detected.count,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        if invoices::find_new(&mut database.reader().await.expect("a connection"), family, 1)
            .await
            .expect("a statement")
            .is_empty()
        {
            return count;
        }
    }
}

async fn two_detectors_at_once_detect_each_invoice_once(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    for number in 0..250 {
        insert(&rig, "photo_copy_invoice", &format!("{number:04}")).await;
    }
    let detectors = (0..3).map(|_| tokio::spawn(detect_all(rig.opened_with(4), InvoiceFamily::PhotoCopy)));
    let mut found = 0;
    for detector in detectors.collect::<Vec<_>>() {
        found += detector.await.expect("no panic");
    }
    assert_eq!(found, 250);
    for table in ["event", "delivery"] {
        assert_eq!(rig.number(&format!("SELECT count(*) FROM {table}")).await, 250);
    }
    assert_eq!(rig.number("SELECT count(DISTINCT idempotency_key) FROM delivery").await, 250);
}

/// Numbers and times prove nothing: the invoice that is committed last may be the oldest.
async fn an_invoice_committed_after_later_ones_is_found(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    match &rig.place {
        Place::File(_) => {
            // SQLite has one writer at a time: the slow one is rolled back and writes again.
            let slow = rusqlite::Connection::open(rig.place.file()).expect("a file");
            slow.execute_batch(&format!("BEGIN IMMEDIATE; {}", insert_invoice_sql("court_invoice", "1", 1)))
                .expect("inserts");
            assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 0);
            slow.execute_batch("ROLLBACK").expect("ends");
            insert(&rig, "court_invoice", "2").await;
            assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 1);
            slow.execute_batch(&insert_invoice_sql("court_invoice", "1", 1)).expect("inserts");
        }
        Place::Url(url) => {
            let slow = docket_rig::postgres::client(url).await;
            slow.batch_execute(&format!("BEGIN; {}", insert_invoice_sql("court_invoice", "1", 1)))
                .await
                .expect("inserts");
            insert(&rig, "court_invoice", "2").await;
            assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 1);
            slow.batch_execute("COMMIT").await.expect("ends");
        }
    }
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 1);
    let numbers: Vec<Value> =
        payloads(&rig).await.into_iter().map(|event| event["data"]["invoiceNumber"].clone()).collect();
    assert_eq!(numbers, ["1", "2"]);
}

async fn a_removed_mark_queues_nothing_again_and_is_scheduled_again(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    insert(&rig, "court_invoice", "1").await;
    let first = detect(&rig, InvoiceFamily::Court).await.hints;
    rig.run("UPDATE court_invoice SET detected_at_ms = NULL").await;
    let again = detect(&rig, InvoiceFamily::Court).await;
    // The same deliveries again: the process that marked them may have ended before it scheduled them.
    assert_eq!((again.count, &again.hints), (1, &first));
    rig.run("UPDATE court_invoice SET detected_at_ms = NULL").await;
    rig.run(&ended_sql(Status::Succeeded, "1", "TRUE")).await;
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.hints, []);
    for (table, count) in [("event", 1), ("delivery", 2)] {
        assert_eq!(rig.number(&format!("SELECT count(*) FROM {table}")).await, count, "{table}");
    }
}

async fn an_invoice_without_its_work_order_waits_for_it_and_hides_no_other(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    let orphans: String = (0..BATCH + 10)
        .map(|number| {
            format!("INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) VALUES ('0{number}', 'WO2', 1);")
        })
        .collect();
    match &rig.place {
        Place::File(_) => {
            let other = rusqlite::Connection::open(rig.place.file()).expect("a file");
            other.execute_batch(&format!("PRAGMA foreign_keys = OFF; {orphans}")).expect("inserts");
        }
        Place::Url(url) => {
            let other = docket_rig::postgres::client(url).await;
            let sql = format!("SET session_replication_role = replica; {orphans}");
            other.batch_execute(&sql).await.expect("inserts");
        }
    }
    insert(&rig, "court_invoice", "1").await;
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 1);
    assert_eq!(count_waiting(&rig.database).await.expect("a count"), BATCH as i64 + 10);
    rig.add_work_order("WO2").await;
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, BATCH);
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 10);
    assert_eq!(count_waiting(&rig.database).await.expect("a count"), 0);
}

async fn a_batch_that_fails_leaves_its_invoices_new(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    insert(&rig, "court_invoice", "1").await;
    insert(&rig, "court_invoice", "2").await;
    rig.run("ALTER TABLE delivery_queue RENAME TO delivery_away").await;
    let database = rig.opened_with(2);
    let tenant = tenant(database.clone(), 1);
    // Each of the invoices was tried alone, too.
    let (family, outbox) = (InvoiceFamily::Court, outbox());
    let detected = detect_invoices(&database, &tenant, &outbox, family, Duration::ZERO, &clock()).await;
    let detected = detected.expect("the database is there");
    assert_eq!((detected.count, detected.failed.is_some()), (0, true));
    rig.run("ALTER TABLE delivery_away RENAME TO delivery_queue").await;
    assert_eq!(rig.number("SELECT count(*) FROM court_invoice WHERE detected_at_ms IS NULL").await, 2);
    assert_eq!(rig.number("SELECT count(*) FROM event").await, 0);
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 2);
}

async fn an_invoice_that_cannot_be_announced_stops_no_other(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    for number in ["1", "2", "3"] {
        insert(&rig, "court_invoice", number).await;
    }
    // The event of invoice 2 can't be stored because of this index, as it might break any rule of the database.
    rig.run("CREATE UNIQUE INDEX odd ON event (invoice_number)").await;
    let event = "INSERT INTO event (id, code, customer_code, invoice_number, body, occurred_at_ms) \
                 VALUES ('evt_odd', 'invoice.created', 'SMITH', '2', 'x', 0)";
    rig.run(event).await;
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 2);
    let left = "SELECT count(*) FROM court_invoice WHERE detected_at_ms IS NULL AND invoice_number = '2'";
    assert_eq!(rig.number(left).await, 1);
    rig.run("DROP INDEX odd").await;
    assert_eq!(detect(&rig, InvoiceFamily::Court).await.count, 1);
}

/// SQLite would keep them, and every search would stumble over them.
async fn values_of_another_type_are_refused(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    for (column, value) in [
        ("created_at_ms", "'2026-11-21 09:30:00'"),
        ("created_at_ms", "'now'"),
        ("amount_cents", "'12.50 USD'"),
        ("facility_line_item", "'second'"),
        ("invoice_date", "'11/21/2026'"),
        ("invoice_number", "''"),
    ] {
        let mut row = vec![("invoice_number", "'1'"), ("work_order", "'WO1'"), ("created_at_ms", "1")];
        row.retain(|(name, _)| *name != column);
        row.push((column, value));
        let (names, values): (Vec<_>, Vec<_>) = row.into_iter().unzip();
        let sql =
            format!("INSERT INTO photo_copy_invoice ({}) VALUES ({})", names.join(", "), values.join(", "));
        let result = rig.try_write(async |t| t.execute(&sql, Vec::new()).await).await;
        assert!(matches!(result, Err(StoreError::Refused(_))), "{column} = {value}: {result:?}");
    }
}

/// As long as another transaction changes a new invoice it is not marked; no other invoice waits, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_is_passed_over_and_found_later() {
    let rig = TenantDatabase::postgres().await;
    let Place::Url(url) = &rig.place else { panic!("a URL") };
    rig.add_work_order("WO1").await;
    insert(&rig, "court_invoice", "1").await;
    insert(&rig, "court_invoice", "2").await;
    let other = docket_rig::postgres::client(url).await;
    let hold = "BEGIN; UPDATE court_invoice SET bill_to_customer_code = 'CARRIER' WHERE invoice_number = '2'";
    other.batch_execute(hold).await.expect("updates");
    let begun = Instant::now();
    let detected = detect(&rig, InvoiceFamily::Court).await;
    assert_eq!((detected.count, detected.left), (1, true), "a rollback may give the other one back");
    // A wait for the lock ends with the statement's limit of 10 s.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(rig.number("SELECT count(*) FROM event").await, 1);
    other.batch_execute("COMMIT").await.expect("commits");
    let detected = detect(&rig, InvoiceFamily::Court).await;
    assert_eq!((detected.count, detected.left), (1, false));
    let events = payloads(&rig).await;
    // The event has the invoice as it is when it is marked, not as it was when it was found.
    assert_eq!(events[1]["data"]["billToCustomerCode"], "CARRIER");
    assert_eq!(events.len(), 2);
}
