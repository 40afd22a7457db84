//! invoice.created: rows that another program inserts become deliveries, one for each webhook and invoice, despite kills and
//! failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use docket_tests::receiver::Receiver;
use docket_tests::server::{Home, Options, Server, eventually};
use docket_tests::stores::{self, Database, Row};
use serde_json::{Value, json};

use crate::delivery::stage::{SOON, Webhook, all_end_within, alone, home, reload, remains, together};

const FLAGS: &str = "--backoff-base 50ms --poll-interval 200ms --attempt-timeout 3s \
                     --allow-egress 127.0.0.1/32 --invoice-scan-interval 200ms";
/// The number of invoices that were not found yet.
const LEFT: &str = "SELECT count(*) FROM court_invoice WHERE detected_at_ms IS NULL";

/// A webhook of customer C-1, for invoices.
pub(crate) fn webhook(tenant: &'static str, name: &str, hook: &Receiver) -> Webhook {
    let secret = Some(if tenant == "acme" { "acme-signing" } else { "globex-signing" });
    Webhook { tenant, secret, events: "invoice.created", ..Webhook::new(name, hook.url(&format!("/{name}"))) }
}

pub(crate) async fn start(home: &Home) -> Server {
    Server::start(home, Options::flags(FLAGS)).await
}

/// A work order PC1 of C-1, as the back office makes one.
pub(crate) fn back_office(home: &Home, client_code: &str) -> Database {
    let database = home.open(client_code);
    database.change(
        "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) \
         VALUES ('PC1', 'PhotoCopy', 'C-1', 1)",
    );
    database
}

/// The statement that adds an invoice of now.
pub(crate) fn insert_sql(table: &str, number: &str) -> String {
    let now_ms = stores::now_ms();
    format!(
        "INSERT INTO {table} (invoice_number, work_order, created_at_ms) VALUES ('{number}', 'PC1', {now_ms});"
    )
}

pub(crate) fn insert(database: &Database, table: &str, number: &str) {
    database.change(&insert_sql(table, number));
}

/// Adds these invoices in one transaction.
pub(crate) fn insert_many(database: &Database, numbers: std::ops::Range<usize>) {
    let all: String = numbers.map(|number| insert_sql("court_invoice", &format!("{number:05}"))).collect();
    database.change(&format!("BEGIN; {all} COMMIT"));
}

fn invoice_numbers(hook: &Receiver) -> Vec<String> {
    let number = |data: Value| data["data"]["invoiceNumber"].as_str().expect("a number").to_owned();
    hook.posts().iter().map(|post| number(post.envelope())).collect()
}

pub(crate) async fn arrives(hook: &Receiver, number: &str) {
    eventually(number, SOON, async || invoice_numbers(hook).iter().any(|other| other == number)).await;
}

/// Each webhook has exactly one delivery of each invoice.
pub(crate) fn assert_one_each(home: &Home, webhooks: &[&str], invoices: usize) {
    let database = home.open("ACME");
    let sql = "SELECT webhook_name, e.invoice_number, d.idempotency_key FROM delivery d JOIN event e ON e.id = d.event_id";
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let texts = |row: &Row| [0, 1, 2].map(|place| row.get::<String>(place));
    for [webhook, number, key] in database.rows(sql, &[]).iter().map(texts) {
        assert_eq!(key, format!("invoice.created:Court:{number}"));
        found.entry(webhook.replace("default/", "")).or_default().push(number);
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), webhooks);
    for (webhook, numbers) in found {
        let distinct: BTreeSet<_> = numbers.iter().collect();
        assert_eq!((numbers.len(), distinct.len()), (invoices, invoices), "{webhook}");
    }
    let events = database.get::<i64>("SELECT count(*) FROM event");
    assert_eq!(events, i64::try_from(invoices).expect("few"));
    assert_eq!(database.get::<i64>(LEFT), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_all_four_tables_arrive_with_all_their_fields() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[webhook("acme", "invoices", &hook)]);
    let server = start(&home).await;
    let database = back_office(&home, "ACME");
    let now_ms = stores::now_ms();
    let sql = format!(
        "INSERT INTO photo_copy_invoice (invoice_number, work_order, facility_line_item, invoice_date,
            bill_to_customer_code, amount_cents, created_at_ms)
            VALUES ('88214', 'PC1', 2, '2026-11-21', 'CARRIER-9', 23050, {now_ms});
        INSERT INTO photo_copy_invoice (invoice_number, work_order, invoice_date, created_at_ms)
            VALUES ('88215-A', 'PC1', '2026-99-99', {now_ms});
        INSERT INTO court_invoice (invoice_number, work_order, invoice_date, bill_to_customer_code, created_at_ms)
            VALUES ('88214', 'PC1', '2026-11-21 09:30:00', 'C-2', {now_ms});
        INSERT INTO delivery_invoice (invoice_number, work_order, invoice_date, created_at_ms)
            VALUES ('D 7/\"é\"', 'PC1', '2026-11-21T09:30:00.5', {now_ms});
        INSERT INTO investigation_invoice (invoice_number, work_order, created_at_ms) VALUES ('1', 'PC1', {now_ms});"
    );
    let begun = Instant::now();
    database.change(&sql);
    eventually("all arrive", SOON, async || hook.count() == 5).await;
    println!("all five arrived after {:?}", begun.elapsed());
    let mut data: Vec<Value> = Vec::new();
    for post in hook.posts() {
        let envelope = post.envelope();
        assert_eq!(post.header("x-service-event"), Some("invoice.created"));
        assert_eq!(
            (&envelope["event"], &envelope["customerCode"]),
            (&json!("invoice.created"), &json!("C-1"))
        );
        data.push(envelope["data"].clone());
    }
    data.sort_by_key(|data| (data["orderType"].to_string(), data["invoiceNumber"].to_string()));
    let row = |kind: &str, number: &str, date: Value, payer: Value, facility: Value, amount: Value| {
        json!({"workOrder": "PC1", "orderType": kind, "invoiceNumber": number, "invoiceDate": date,
            "billToCustomerCode": payer, "facilityLineItem": facility, "amount": amount})
    };
    let none = Value::Null;
    let expected = [
        row("Court", "88214", json!("2026-11-21T09:30:00"), json!("C-2"), none.clone(), none.clone()),
        row(
            "Delivery",
            "D 7/\"é\"",
            json!("2026-11-21T09:30:00.5"),
            none.clone(),
            none.clone(),
            none.clone(),
        ),
        row("Investigation", "1", none.clone(), none.clone(), none.clone(), none.clone()),
        row("PhotoCopy", "88214", json!("2026-11-21T00:00:00"), json!("CARRIER-9"), json!(2), json!(230.5)),
        row("PhotoCopy", "88215-A", none.clone(), none.clone(), none.clone(), none),
    ];
    assert_eq!(data, expected);
    assert_eq!(server.metric("docket_invoices_detected_total").await, 5.0);
    let log = std::fs::read_to_string(home.log("err")).expect("a log");
    assert_eq!(log.matches("invoice date is not a local date").count(), 1, "{log}");
    assert!(log.contains("88215-A") && !log.contains("CARRIER-9"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_the_middle_of_two_hundred_invoices_lose_and_repeat_none() {
    let _turn = alone().await;
    let hook = Receiver::start().await;
    let home = home(&[webhook("acme", "one", &hook), webhook("acme", "two", &hook)]);
    let database = back_office(&home, "ACME");
    let mut cut = 0;
    for round in 0..40 {
        insert_many(&database, round * 5..round * 5 + 5);
        // The scan begins when the program starts, so the processes end before, during and after a scan.
        let server = Server::spawn(&home, &Options::flags(FLAGS));
        tokio::time::sleep(Duration::from_millis(4 + round as u64)).await;
        match round % 4 {
            3 => drop(server.terminate().await),
            _ => server.kill(),
        }
        cut += usize::from(database.get::<i64>(LEFT) > 0);
    }
    println!("{cut} of 40 ends left new invoices behind");
    assert!(cut > 0, "all ends came too late");
    let server = start(&home).await;
    let rows = all_end_within(&home, 400, Duration::from_secs(30)).await;
    assert_one_each(&home, &["one", "two"], 200);
    // For each invoice and webhook, the deliveries that came, and how often. A kill may repeat a delivery, but no more often than
    // attempts were counted.
    let mut sent: BTreeMap<(String, String), BTreeMap<String, i64>> = BTreeMap::new();
    for (post, number) in hook.posts().iter().zip(invoice_numbers(&hook)) {
        *sent.entry((post.path.clone(), number)).or_default().entry(post.delivery()).or_default() += 1;
    }
    assert_eq!(sent.len(), 400);
    let attempts: BTreeMap<&str, i64> = rows.iter().map(|row| (row.id.as_str(), row.attempts)).collect();
    for (what, deliveries) in sent {
        assert_eq!(deliveries.len(), 1, "{what:?}: {deliveries:?}");
        for (id, count) in deliveries {
            assert!(
                count <= attempts[id.as_str()],
                "{count} POSTs of {what:?}, {} counted",
                attempts[id.as_str()]
            );
        }
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_a_slow_transaction_arrives_whatever_its_number_and_time() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[webhook("acme", "invoices", &hook)]);
    let _server = start(&home).await;
    let database = back_office(&home, "ACME");
    insert(&database, "court_invoice", "5");
    arrives(&hook, "5").await;
    database.change("BEGIN");
    insert(&database, "court_invoice", "4");
    remains("it is not detected", Duration::from_secs(2), async || hook.count() == 1).await;
    database.change("COMMIT");
    arrives(&hook, "4").await;
    // This invoice is older than all invoices that were found.
    let sql = "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) VALUES ('0', 'PC1', ";
    database.change(&format!("{sql} {} - 29 * CAST(86400000 AS BIGINT))", stores::now_ms()));
    arrives(&hook, "0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imported_history_is_not_sent_to_customers_unless_the_platform_says_so() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[webhook("acme", "invoices", &hook)]);
    let database = back_office(&home, "ACME");
    let history = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150) \
                   INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) \
                   SELECT 'H' || i, 'PC1', 1000 * i FROM n";
    database.change(history);
    insert(&database, "court_invoice", "new");
    let server = start(&home).await;
    arrives(&hook, "new").await;
    eventually("all are marked", SOON, async || database.get::<i64>(LEFT) == 0).await;
    assert_eq!(server.metric("docket_invoices_detected_total").await, 1.0);
    assert_eq!(database.get::<String>("SELECT invoice_number FROM event"), "new");
    drop(server);
    let _server = Server::start(&home, Options::flags(&format!("{FLAGS} --invoice-max-age 0"))).await;
    database.change("UPDATE court_invoice SET detected_at_ms = NULL WHERE invoice_number = 'H7'");
    arrives(&hook, "H7").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_is_removed_leads_to_no_second_delivery() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[webhook("acme", "invoices", &hook)]);
    let _server = start(&home).await;
    let database = back_office(&home, "ACME");
    insert(&database, "court_invoice", "1");
    arrives(&hook, "1").await;
    for _ in 0..3 {
        database.change("UPDATE court_invoice SET detected_at_ms = NULL");
        eventually("it is marked again", SOON, async || database.get::<i64>(LEFT) == 0).await;
    }
    remains("one POST", Duration::from_millis(500), async || hook.count() == 1).await;
    assert_one_each(&home, &["invoices"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_inactive_unsubscribed_or_of_another_customer_gets_nothing() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhooks = [
        webhook("acme", "right", &hook),
        Webhook { active: false, ..webhook("acme", "inactive", &hook) },
        Webhook { events: "order.created, note.created", ..webhook("acme", "unsubscribed", &hook) },
        Webhook { customer: "C-2", ..webhook("acme", "other", &hook) },
    ];
    let home = home(&webhooks);
    let _server = start(&home).await;
    let database = back_office(&home, "ACME");
    insert(&database, "court_invoice", "1");
    arrives(&hook, "1").await;
    remains("only one", Duration::from_millis(500), async || hook.count() == 1).await;
    assert_one_each(&home, &["right"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_invoices_of_a_suspended_tenant_wait_until_it_is_resumed() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[webhook("acme", "invoices", &hook)]);
    let yaml = std::fs::read_to_string(home.config().join("all.yaml")).expect("the tenant");
    let _server = start(&home).await;
    let database = back_office(&home, "ACME");
    let suspended = yaml.replace("  clientCode: ACME\n", "  clientCode: ACME\n  suspend: true\n");
    assert_ne!(suspended, yaml);
    reload(&home, || home.write("all.yaml", &suspended)).await;
    // A scan that began with the earlier state of the tenant has ended by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    insert(&database, "court_invoice", "1");
    remains("it waits", Duration::from_secs(1), async || hook.count() == 0).await;
    assert_eq!(database.get::<i64>(LEFT), 1);
    reload(&home, || home.write("all.yaml", &yaml)).await;
    arrives(&hook, "1").await;
}
