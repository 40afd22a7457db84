//! Tenants whose PostgreSQL server has a watcher: no process connects to an idle database, and no write is missed.

use docket_program::clock::Clock;
use docket_rig::postgres::{self, PostgresServer};
use docket_tests::receiver::Response;
use docket_tests::server::{Server, eventually};
use docket_tests::stores::write_secret;
use tokio_postgres::Client;

use crate::serve::stage::{SOON, Stage, save, sign_in};

/// A tenant whose database is on a separate server with a watcher, and a process that works for the tenant.
struct Watched {
    stage: Stage,
    server: PostgresServer,
    database: String,
    process: Server,
}

impl Watched {
    async fn new() -> Self {
        let server = PostgresServer::start().await;
        let url = server.database().await;
        let stage = Stage::on(url.clone(), |_| Response::Status(200)).await;
        let hook = stage.receiver.webhook_yaml("acme", "invoices", "C-1", "/invoices");
        let hook = hook.replace("[order.created, order.updated, order.exported]", "[invoice.created]");
        stage.home.write("invoices.yaml", &hook);
        let database = url.rsplit('/').next().expect("a path").to_owned();
        let admin = postgres::client(&server.url("postgres")).await;
        let sql = format!("REVOKE ALL ON DATABASE {database} FROM PUBLIC");
        admin.batch_execute(&sql).await.expect("the database is there");
        let file = stage.home.log("watcher-url");
        write_secret(&file, &format!("{}\n", server.watcher().await));
        let flags = format!("--watcher-url-file {}", file.display());
        let process = stage.spawn("api,worker,detector", &flags).ready(&stage.home).await;
        let sql = "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) \
                   VALUES ('PC1', 'PhotoCopy', 'C-1', 1)";
        postgres::client(&url).await.batch_execute(sql).await.expect("a work order");
        Self { stage, server, database, process }
    }

    /// Connects as another program.
    async fn program(&self) -> Client {
        postgres::client(&self.server.url(&self.database)).await
    }

    async fn skipped(&self, reader: &str) -> f64 {
        self.process.metric(&format!("docket_unchanged_databases_total{{reader=\"{reader}\"}}")).await
    }

    /// Waits until detector and sweep have skipped the database this many times, without a login to it in between.
    async fn rests(&self, times: f64) {
        let admin = postgres::client(&self.server.url("postgres")).await;
        let logins = async || {
            let sql = "SELECT sessions FROM pg_stat_database WHERE datname = $1";
            admin.query_one(sql, &[&self.database]).await.expect("a row").get::<_, i64>(0)
        };
        let both = async || (self.skipped("detector").await, self.skipped("sweep").await);
        let (mut before, mut since) = (logins().await, both().await);
        eventually("the database is left alone", 2 * SOON, async || {
            let (now, skipped) = (logins().await, both().await);
            if now != before {
                (before, since) = (now, skipped);
            }
            skipped.0 >= since.0 + times && skipped.1 >= since.1 + times
        })
        .await;
    }
}

fn invoice(number: u32) -> String {
    format!(
        "INSERT INTO photo_copy_invoice (invoice_number, work_order, created_at_ms) \
         VALUES ('N{number}', 'PC1', (extract(epoch FROM now()) * 1000)::bigint)"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_database_is_left_alone_and_its_invoices_are_found() {
    let watched = Watched::new().await;
    watched.rests(3.0).await;
    // The script is a program that connects, writes and disconnects.
    watched.program().await.batch_execute(&invoice(1)).await.expect("an invoice");
    watched.stage.received(1).await;
    watched.rests(2.0).await;
    // A program whose statistics are late: it begins a transaction, and stays in it, before they are reported.
    let program = watched.program().await;
    for statement in
        ["UPDATE work_order SET created_at_ms = 2".to_owned(), invoice(2), "BEGIN; SELECT 1".to_owned()]
    {
        program.batch_execute(&statement).await.expect("a statement");
    }
    watched.stage.received(2).await;
    drop(program);
    watched.rests(2.0).await;
    // The statistics are lost at the moment of the write.
    for (number, reset) in [(3, "SELECT pg_stat_reset()"), (4, "SELECT pg_stat_reset_shared('bgwriter')")] {
        let program = watched.program().await;
        program.batch_execute(&invoice(number)).await.expect("an invoice");
        program.batch_execute(reset).await.expect("a superuser may");
        drop(program);
        watched.stage.received(number as usize).await;
        watched.rests(2.0).await;
    }
    let log = watched.stage.log();
    assert!(!log.contains("secret-of-watcher") && !log.contains("WARN"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_before_a_crash_of_the_server_is_found_after_it() {
    let watched = Watched::new().await;
    watched.rests(2.0).await;
    watched.program().await.batch_execute(&invoice(1)).await.expect("an invoice");
    watched.server.crash();
    watched.server.start_again();
    watched.stage.received(1).await;
    watched.rests(2.0).await;
}

/// A watcher that can't log in costs what it saves, and nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_watcher_the_database_is_read_as_before() {
    let watched = Watched::new().await;
    watched.rests(2.0).await;
    let admin = postgres::client(&watched.server.url("postgres")).await;
    let sql = "ALTER ROLE watcher NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'watcher'";
    admin.batch_execute(sql).await.expect("a superuser may");
    watched.stage.logs("asking a PostgreSQL server which databases changed failed").await;
    watched.program().await.batch_execute(&invoice(1)).await.expect("an invoice");
    watched.stage.received(1).await;
    save(&sign_in(&watched.process).await).await;
    watched.stage.received(2).await;
    admin.batch_execute("ALTER ROLE watcher LOGIN").await.expect("a superuser may");
    watched.rests(2.0).await;
}

/// The tenant's entry in the schedule may be lost without a trace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_with_an_unfinished_delivery_is_swept_although_nothing_is_written() {
    let watched = Watched::new().await;
    watched.rests(2.0).await;
    let due_ms = Clock::System.now_ms() + 600_000;
    let sql = format!(
        "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) VALUES ('e', 'order.created', 'C-1', '{{}}', 0); \
         INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
         VALUES ('00000000-0000-7000-8000-000000000001', 'e', 'default/invoices/C-1', 'default/invoices', 'Pending', 0, {due_ms}, 0)"
    );
    watched.program().await.batch_execute(&sql).await.expect("a delivery");
    let entries = || watched.stage.redis.cli(&["HLEN", "{docket}:3:entries"]);
    eventually("it is scheduled", SOON, async || entries() == "1").await;
    let (swept, scanned) = (watched.skipped("sweep").await, watched.skipped("detector").await);
    eventually("the detector has nothing to do", SOON, async || {
        watched.skipped("detector").await >= scanned + 4.0
    })
    .await;
    assert_eq!(watched.skipped("sweep").await, swept);
}
