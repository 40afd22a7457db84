//! The cost of a message does not depend on the number of waiting messages. Cost is the number of pages read and
//! written to begin and end its attempt.

use std::time::Duration;

use docket_domain::delivery::{self, DeliveryId, FailureClass, Outcome, Report};
use docket_program::clock::Clock;
use docket_rig::postgres;
use docket_rig::tenant_database::{Place, T0, TenantDatabase, end, lease};
use docket_store::deliveries::{self, End, EndResult};
use docket_store::{Database, events};
use tokio_postgres::Client;

/// The number of messages that are begun and ended for one figure.
const MESSAGES: u32 = 600;

fn id(number: u32) -> DeliveryId {
    format!("01900000-0000-7000-8000-{number:012}").parse().expect("an id")
}

/// Adds waiting deliveries with the numbers from `first` to `last`, each with an event of its own.
async fn queue(client: &Client, first: u32, last: u32) {
    let sql = format!(
        "INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms) \
         SELECT 'evt_' || lpad(n::text, 32, '0'), 'order.created', 'SMITH', 'W1', 'x', {T0} \
         FROM generate_series({first}, {last}) n"
    );
    client.batch_execute(&sql).await.expect("rows");
    let sql = format!(
        "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
         SELECT '01900000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'evt_' || lpad(n::text, 32, '0'), 'w', 'a/w', 'Pending', 0, \
         {T0}, {T0} FROM generate_series({first}, {last}) n"
    );
    client.batch_execute(&sql).await.expect("rows");
}

/// Begins and ends the attempts of these deliveries, as a worker does.
async fn deliver(database: &Database, ids: &[DeliveryId]) {
    let lease = lease("mine", 4_000);
    let mut ends = Vec::new();
    for claimed in ids.chunks(25) {
        let mut transaction = database.begin(&Clock::System).await.expect("a turn");
        let now_ms = transaction.now_ms().max(T0);
        let started = deliveries::begin_attempts(&mut transaction, claimed, &lease, now_ms).await;
        let started = started.expect("a statement");
        let event_ids: Vec<String> = started.iter().map(|started| started.event_id.clone()).collect();
        let events = events::to_send(&mut transaction, &event_ids).await.expect("a statement");
        assert_eq!(events.len(), claimed.len());
        transaction.commit().await.expect("a commit");
        assert_eq!(started.len(), claimed.len());
        ends.extend(started);
    }
    for started in ends.chunks(60) {
        let ends: Vec<End> =
            (0..).zip(started).map(|(place, started)| end(started, "mine", &outcome(place))).collect();
        let next = |place: usize, now| {
            delivery::after_attempt(ends[place].started.id, &outcome(place), 1, now, Duration::from_secs(60))
        };
        let writer = database.writer().await.expect("a turn");
        let stored = deliveries::finish_attempts(writer, &Clock::System, &ends, false, next).await;
        let stored = stored.expect("stored");
        assert!(stored.iter().all(|stored| *stored != EndResult::LeaseLost));
    }
}

/// One of five attempts fails and will be retried.
fn outcome(place: usize) -> Outcome {
    match place % 5 {
        4 => Outcome::Failed(FailureClass::ServerError, Report::default()),
        _ => Outcome::Succeeded(Report::default()),
    }
}

const TABLES: [&str; 4] = ["delivery_queue", "delivery_history", "attempt_history", "event"];

/// The number of pages of these tables that the database's sessions have read or written so far, cached or not.
pub(crate) async fn pages(database: &Database, client: &Client, tables: &[&str]) -> i64 {
    let mut reader = database.reader().await.expect("the connection");
    reader.query("SELECT pg_stat_force_next_flush()", Vec::new()).await.expect("its counts are written");
    drop(reader);
    // Also flushes this session's counts. Otherwise its vacuum would be counted up to a minute later, as if the
    // database's sessions had read the pages.
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.expect("its counts are written");
    let sql = "SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint \
               FROM pg_statio_user_tables WHERE relname = ANY ($1)";
    client.query_one(sql, &[&tables]).await.expect("a statement").get(0)
}

/// The number of pages per message.
async fn cost(database: &Database, client: &Client, first: u32) -> f64 {
    let ids: Vec<DeliveryId> = (first..first + MESSAGES).map(id).collect();
    let before = pages(database, client, &TABLES).await;
    deliver(database, &ids).await;
    let pages = pages(database, client, &TABLES).await - before;
    pages as f64 / f64::from(MESSAGES)
}

/// All messages use one connection, whose statements were prepared and planned while the tables were empty. Nothing
/// ever analyzes the tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_costs_as_much_with_a_hundred_thousand_waiting_as_with_a_thousand() {
    let rig = TenantDatabase::postgres().await;
    let Place::Url(url) = &rig.place else { panic!("a URL") };
    let client = postgres::client(url).await;
    for table in ["delivery_queue", "delivery_history", "attempt_history", "event"] {
        let sql = format!("ALTER TABLE {table} SET (autovacuum_enabled = off)");
        client.batch_execute(&sql).await.expect("a setting");
    }
    let database = rig.opened_with(1);
    for number in 1..=10 {
        queue(&client, number, number).await;
        deliver(&database, &[id(number)]).await;
    }
    queue(&client, 1_001, 2_000).await;
    let of_a_thousand = cost(&database, &client, 1_201).await;
    queue(&client, 100_001, 200_000).await;
    let of_many = cost(&database, &client, 150_001).await;
    println!("pages per message: {of_a_thousand:.1} with 1,000 waiting, {of_many:.1} with 100,000 waiting");
    assert!(of_a_thousand > 1.0 && of_many < 1.5 * of_a_thousand, "{of_a_thousand} {of_many}");
    let analyzed = "SELECT count(*) FROM pg_stat_user_tables WHERE analyze_count + autoanalyze_count > 0 \
                    AND relname = ANY ($1)";
    assert_eq!(client.query_one(analyzed, &[&&TABLES[..]]).await.expect("a statement").get::<_, i64>(0), 0);
}
