//! `tests/bench/invoices`: the scan for invoices in a database with a history, against one without, in the same run.
//!
//! Each round inserts 100 new invoices into both databases. Then it scans one database twice, and then the other: the
//! second scan finds nothing new. The order of the databases alternates, so that neither is always the warm one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use docket::delivery::outbox::Outbox;
use docket::detector::detect_invoices::detect_invoices;
use docket::tenancy::{HeldWebhooks, ServedTenant};
use docket_crds::TenantConfig;
use docket_domain::invoice::InvoiceFamily;
use docket_egress::Trust;
use docket_program::clock::Clock;
use docket_rig::postgres;
use docket_rig::scratch::Folder;
use docket_rig::tenant_database::tenant_config;
use docket_schedule::{SHARES, Schedule};
use docket_store::Database;
use docket_store::postgres::Postgres;
use docket_store::sqlite::Sqlite;
use docket_store::stores::Store;

const ROUNDS: usize = 41;
const NEW: usize = 100;
/// The number of old invoices for each work order.
const PER_WORK_ORDER: usize = 2;

struct Subject {
    database: Database,
    tenant: ServedTenant,
    outbox: Arc<Outbox>,
    sqlite: bool,
    full: Vec<Duration>,
    empty: Vec<Duration>,
}

impl Subject {
    async fn new(database: Database, old: usize) -> Self {
        let json = tenant_config("uid-1", "ACME", "C-1", 1);
        let config: TenantConfig = serde_json::from_value(json).expect("a configuration");
        let store = Arc::new(Store::new(database.clone()));
        let tenant = ServedTenant::new(config, store, HeldWebhooks::AllUnknown, &Trust::public(), None);
        let sqlite = matches!(database, Database::Sqlite(_));
        let schedule = Arc::new(Schedule::in_memory(Clock::System, SHARES));
        let outbox = Outbox::new(schedule, Arc::default(), Arc::default());
        let subject = Self { database, tenant, outbox, sqlite, full: Vec::new(), empty: Vec::new() };
        subject.database.migrate(&Clock::System).await.expect("a schema");
        subject.run("INSERT INTO customer (code, name, created_at_ms) VALUES ('C-1', 'One', 0)").await;
        let orders = (old / PER_WORK_ORDER).max(NEW);
        let sql = format!(
            "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) \
             SELECT 'PC' || n, 'PhotoCopy', 'C-1', 0 FROM ({}) AS q",
            subject.numbers(1, orders)
        );
        subject.run(&sql).await;
        subject.insert(1, old, orders, "n").await;
        subject
    }

    fn numbers(&self, from: usize, to: usize) -> String {
        match self.sqlite {
            true => format!(
                "WITH RECURSIVE s(n) AS (SELECT {from} WHERE {from} <= {to} UNION ALL SELECT n + 1 FROM s WHERE n < {to}) SELECT n FROM s"
            ),
            false => format!("SELECT n FROM generate_series({from}, {to}) AS s(n)"),
        }
    }

    /// Inserts invoices 50,000 at a time, because a statement may take ten seconds at most.
    async fn insert(&self, from: usize, count: usize, orders: usize, detected: &str) {
        for from in (from..from + count).step_by(50_000) {
            let to = (from + 50_000).min(from + count) - 1;
            let sql = format!(
                "INSERT INTO photo_copy_invoice (invoice_number, work_order, facility_line_item, invoice_date, \
                 amount_cents, created_at_ms, detected_at_ms) \
                 SELECT 'I' || n, 'PC' || (1 + n % {orders}), 1, '2026-11-21', 23000, n, {detected} FROM ({}) AS q",
                self.numbers(from, to)
            );
            self.run(&sql).await;
        }
    }

    async fn run(&self, sql: &str) {
        let mut transaction = self.database.begin(&Clock::System).await.expect("begins");
        transaction.execute(sql, Vec::new()).await.expect("a statement");
        transaction.commit().await.expect("commits");
    }

    /// Scans all families once; returns the number of invoices that were found, and the time.
    async fn scan(&self) -> (usize, Duration) {
        let (begun, mut found) = (Instant::now(), 0);
        for family in InvoiceFamily::ALL {
            let Self { database, tenant, outbox, .. } = self;
            let detected =
                detect_invoices(database, tenant, outbox, family, Duration::ZERO, &Clock::System).await;
            found += detected.expect("detects").count;
        }
        (found, begun.elapsed())
    }

    async fn round(&mut self) {
        let (found, time) = self.scan().await;
        assert_eq!(found, NEW);
        self.full.push(time);
        let (found, time) = self.scan().await;
        assert_eq!(found, 0);
        self.empty.push(time);
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

async fn compare(name: &str, old: usize, mut with: Subject, mut without: Subject) {
    for round in 0..ROUNDS {
        for subject in [&with, &without] {
            subject.insert(10_000_000 + round * NEW, NEW, NEW, "NULL").await;
        }
        let pair = match round % 2 {
            0 => [&mut with, &mut without],
            _ => [&mut without, &mut with],
        };
        for subject in pair {
            subject.round().await;
        }
    }
    for (what, with, without) in
        [("100 new", &with.full, &without.full), ("nothing new", &with.empty, &without.empty)]
    {
        let (with, without) = (median(with), median(without));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        println!("{name}, {what}: {with:?} with {old} old ones, {without:?} without; ratio {ratio:.2}");
    }
}

#[tokio::main]
async fn main() {
    let old = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number"));
    let folder = Folder::new("bench");
    let file = |name| Database::Sqlite(Sqlite::new(folder.path().join(name)));
    let (with, without) = (Subject::new(file("old.db"), old).await, Subject::new(file("new.db"), 0).await);
    compare("SQLite", old, with, without).await;
    let (one, other) = (postgres::database().await, postgres::database().await);
    let open = |url: &str| Database::Postgres(Postgres::new(url, 2).expect("a URL"));
    let (with, without) = (Subject::new(open(&one), old).await, Subject::new(open(&other), 0).await);
    compare("PostgreSQL", old, with, without).await;
}
