//! Retention with a manual clock.

use std::ops::Range;

use docket_domain::audit::{AuditEvent, AuditRecord};
use docket_program::clock::ManualClock;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::scratch::Folder;
use docket_store::sqlite::Sqlite;
use futures_util::FutureExt;

use super::*;
use crate::tenancy::testing;

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Rig {
    time: ManualClock,
    retention: Retention,
    tenants: Vec<Arc<ServedTenant>>,
    metrics: Arc<Metrics>,
    folder: Folder,
}

impl Rig {
    /// Tenants `A`, `B`, …, each with `count` deliveries that ended at the start of the clock.
    async fn new(name: &str, tenants: &[&str], count: usize) -> Self {
        let folder = Folder::new(name);
        let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
        let clock = Clock::Manual(time.clone());
        let tenant = |uid: &&str| testing::tenant(uid, Sqlite::new(folder.path().join(uid)));
        let tenants: Vec<Arc<ServedTenant>> = tenants.iter().map(tenant).collect();
        for tenant in &tenants {
            fill(tenant, &clock, count).await;
        }
        let served = Arc::new(Tenants::default());
        served.replace(tenants.clone());
        let metrics = Arc::<Metrics>::default();
        let retention = Retention::new(clock, served, (30 * DAY, KEEP_AUDIT), None, Arc::clone(&metrics));
        Self { time, retention, tenants, metrics, folder }
    }

    /// Closes the connections that the test has opened.
    async fn close(&self) {
        for tenant in &self.tenants {
            tenant.store.database().close_idle(Duration::ZERO).await;
        }
    }

    async fn left(&self, index: usize) -> i64 {
        count(&self.tenants[index]).await
    }
}

async fn fill(tenant: &ServedTenant, clock: &Clock, count: usize) {
    let mut transaction = tenant.store.begin(clock).await.expect("a schema");
    let sql = "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) \
               VALUES ('e', 'order.created', 'C-1', X'7B7D', 0)";
    transaction.execute(sql, Vec::new()).await.expect("inserts");
    transaction.commit().await.expect("commits");
    fill_more(tenant, clock, 0..count).await;
}

/// Deliveries with these numbers, which end now.
async fn fill_more(tenant: &ServedTenant, clock: &Clock, numbers: Range<usize>) {
    let mut transaction = tenant.store.begin(clock).await.expect("a schema");
    let now_ms = clock.now_ms();
    for number in numbers {
        let sql = format!(
            "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
             finished_at_ms) VALUES ('{number}', 'e', 'w', 'w', 'Succeeded', 1, 0, 0, {now_ms})"
        );
        transaction.execute(&sql, Vec::new()).await.expect("inserts");
    }
    transaction.commit().await.expect("commits");
}

async fn count(tenant: &ServedTenant) -> i64 {
    let mut reader = tenant.store.database().reader().await.expect("a reader");
    let row = reader.query_opt("SELECT count(*) FROM delivery", Vec::new()).await.expect("a statement");
    row.expect("a row").get(0).expect("a number")
}

#[tokio::test]
async fn round_deletes_all_old_deliveries_and_no_younger_ones() {
    let rig = Rig::new("round", &["A"], 450).await;
    rig.time.advance(30 * DAY);
    rig.retention.round().await;
    assert_eq!(rig.left(0).await, 450, "not a millisecond too early");
    rig.time.advance(Duration::from_millis(1));
    rig.retention.round().await;
    assert_eq!(rig.left(0).await, 0);
    let metrics = rig.metrics.text();
    for line in [
        "docket_deliveries_deleted_total 450",
        "docket_upkeep_round_seconds_count{task=\"retention\"} 2",
        "docket_upkeep_tenants_total{task=\"retention\",result=\"ok\"} 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in:\n{metrics}");
    }
}

#[tokio::test]
async fn old_deliveries_are_deleted_while_redis_can_not_say_whose_turn_it_is() {
    let rig = Rig::new("turn", &["A"], 1).await;
    // No server listens at this address.
    let url = RedisUrl::parse("redis://127.0.0.1:1").expect("a URL");
    let redis = RedisConnection::new(url, None).expect("without TLS");
    let board = Arc::new(Board::new(redis, Keys::new(None).expect("the only one")));
    rig.time.advance(31 * DAY);
    Retention { board: Some(board), ..rig.retention.clone() }.round_in_turn(DAY).await;
    assert_eq!(rig.left(0).await, 0);
}

#[tokio::test]
async fn tenant_that_is_not_served_any_more_is_forgotten() {
    let rig = Rig::new("forgotten", &["A", "B"], 1).await;
    rig.retention.round().await;
    assert_eq!(rig.retention.memories.lock().len(), 2);
    rig.retention.tenants.replace(vec![Arc::clone(&rig.tenants[0])]);
    rig.retention.round().await;
    assert_eq!(rig.retention.memories.lock().len(), 1);
}

#[tokio::test]
async fn database_without_anything_old_is_passed_over_until_something_is() {
    let rig = Rig::new("pass", &["A"], 1).await;
    let passed = || {
        let text = rig.metrics.text();
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("docket_unchanged_databases_total{reader=\"retention\"} "));
        count.map_or(0, |count| count.parse::<u64>().expect("a number"))
    };
    // The rig closes the connections that it opened: otherwise the log of the file moves with the reads.
    rig.close().await;
    for (rounds, expected) in [(2, 0), (3, 3)] {
        for _ in 0..rounds {
            rig.retention.round().await;
        }
        assert_eq!(passed(), expected, "files have to look the same twice");
    }
    rig.time.advance(Duration::from_secs(2 * 3600));
    rig.retention.round().await;
    assert_eq!(passed(), 3, "the full round");
    rig.retention.round().await;
    assert_eq!(passed(), 4);
    fill_more(&rig.tenants[0], &rig.retention.clock, 1..2).await;
    rig.close().await;
    rig.retention.round().await;
    assert_eq!(passed(), 4, "it was written");
    rig.time.advance(30 * DAY);
    rig.retention.round().await;
    assert_eq!(rig.left(0).await, 1, "the first one is old now");
}

#[tokio::test]
async fn links_of_messages_are_deleted_after_90_days_although_no_message_is_sent() {
    let rig = Rig::new("links", &["A"], 0).await;
    let mut transaction = rig.tenants[0].store.begin(&rig.retention.clock).await.expect("a schema");
    let now_ms = rig.retention.clock.now_ms();
    for number in 0..450 {
        let sql = format!(
            "INSERT INTO mail_link (token_digest, subscription_id, user_kind, user_code, sent_at_ms) \
             VALUES ('{number}', 's', 'contact', '11', {now_ms})"
        );
        transaction.execute(&sql, Vec::new()).await.expect("inserts");
    }
    transaction.commit().await.expect("commits");
    let left = async || {
        let mut reader = rig.tenants[0].store.database().reader().await.expect("a reader");
        let row = reader.query_opt("SELECT count(*) FROM mail_link", Vec::new()).await.expect("a statement");
        row.expect("a row").get::<i64>(0).expect("a number")
    };
    rig.time.advance(90 * DAY);
    rig.retention.round().await;
    assert_eq!(left().await, 450, "not a millisecond too early");
    rig.time.advance(Duration::from_millis(1));
    rig.retention.round().await;
    assert_eq!(left().await, 0);
}

#[tokio::test]
async fn bulk_resends_are_kept_for_30_days_although_deliveries_are_not() {
    let rig = Rig::new("resends", &["A"], 1).await;
    let retention = Retention { keep: DAY, ..rig.retention.clone() };
    let mut transaction = rig.tenants[0].store.begin(&retention.clock).await.expect("a schema");
    let sql = format!(
        "INSERT INTO resend (id, webhook, webhook_name, per_second, count, requested_by, created_at_ms) \
         VALUES ('a', 'w', 'a/w', 1, 1, 'x', {})",
        retention.clock.now_ms()
    );
    transaction.execute(&sql, Vec::new()).await.expect("inserts");
    transaction.commit().await.expect("commits");
    let resends = async || {
        let mut reader = rig.tenants[0].store.database().reader().await.expect("a reader");
        let row = reader.query_opt("SELECT count(*) FROM resend", Vec::new()).await.expect("a statement");
        row.expect("a row").get::<i64>(0).expect("a number")
    };
    rig.time.advance(30 * DAY);
    retention.round().await;
    assert_eq!((rig.left(0).await, resends().await), (0, 1), "not a millisecond too early");
    rig.time.advance(Duration::from_millis(1));
    retention.round().await;
    assert_eq!(resends().await, 0);
}

/// The numbers are documented.
#[test]
fn each_event_of_the_audit_has_its_own_limit() {
    for (event, most) in [
        (AuditEvent::SignedIn, 50_000),
        (AuditEvent::SignInRefused, 20_000),
        (AuditEvent::PayloadRead, 50_000),
        (AuditEvent::PeopleRead, 50_000),
        (AuditEvent::TestSent, 5_000),
    ] {
        assert_eq!(most_of(event.as_str()), most, "{event:?}");
    }
    assert_eq!(most_of("Invented"), 5_000, "another program's");
}

#[tokio::test]
async fn pause_between_rounds_is_a_tenth_of_the_shorter_retention_within_bounds() {
    let rig = Rig::new("pause", &[], 0).await;
    let pause = |keep: u64, keep_audit: u64| {
        let [keep, keep_audit] = [keep, keep_audit].map(Duration::from_secs);
        Retention { keep, keep_audit, ..rig.retention.clone() }.pause().as_secs()
    };
    assert_eq!([pause(600, 900), pause(900, 600), pause(5, 600), pause(90_000, 90_000)], [60, 60, 1, 3_600]);
}

#[tokio::test]
async fn unavailable_database_does_not_stop_the_others() {
    let rig = Rig::new("away", &["A", "B", "C"], 1).await;
    if let Database::Sqlite(sqlite) = rig.tenants[1].store.database() {
        sqlite.close_idle(Duration::ZERO).await;
    }
    std::fs::write(rig.folder.path().join("B"), "no database, but long enough to be looked at")
        .expect("writable");
    rig.time.advance(31 * DAY);
    rig.retention.round().await;
    assert_eq!((rig.left(0).await, rig.left(2).await), (0, 0));
}

#[tokio::test]
async fn missing_database_is_not_created() {
    let rig = Rig::new("never", &["A"], 1).await;
    if let Database::Sqlite(sqlite) = rig.tenants[0].store.database() {
        sqlite.close_idle(Duration::ZERO).await;
    }
    std::fs::remove_file(rig.folder.path().join("A")).expect("removable");
    rig.retention.round().await;
    assert!(!rig.folder.path().join("A").exists());
}

/// The pause between rounds is a tenth of the retention, and an hour at most.
#[tokio::test]
async fn rounds_run_until_shutdown() {
    let rig = Rig::new("run", &["A"], 1).await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(rig.retention.clone().run(shutdown.clone()));
    rig.time.advance(31 * DAY);
    // The first round may have come before the clock was moved; the next one comes an hour later at most.
    let mut rounds = 0;
    while rig.left(0).await > 0 {
        rounds += 1;
        assert!(rounds < 1_000, "no round");
        rig.time.advance(Duration::from_secs(3600));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    running.await.expect("it ends");
}

#[tokio::test]
async fn round_deletes_old_audit_entries_and_comes_back_when_the_next_is_old() {
    let rig = Rig::new("audit", &["A"], 0).await;
    let tenant = &rig.tenants[0];
    let entries = async || {
        let mut reader = tenant.store.database().reader().await.expect("a reader");
        let row = reader.query_opt("SELECT count(*) FROM audit", Vec::new()).await.expect("a statement");
        row.expect("a row").get::<i64>(0).expect("a number")
    };
    let now_ms = rig.retention.clock.now_ms();
    let mut transaction = tenant.store.begin(&rig.retention.clock).await.expect("a schema");
    // The entries are more than two batches, and one of them is a millisecond younger.
    let ages = (0..450_u64).map(|number| (number, 0)).chain([(450, 1)]);
    let records: Vec<AuditRecord> = ages
        .map(|(number, later)| AuditRecord::new(AuditEvent::SignedIn, now_ms + later, number.to_be_bytes()))
        .collect();
    audit::insert(&mut transaction, &records).await.expect("inserts");
    transaction.commit().await.expect("commits");
    rig.time.advance(90 * DAY);
    rig.retention.round().await;
    assert_eq!(entries().await, 451, "not a millisecond too early");
    rig.time.advance(Duration::from_millis(1));
    rig.retention.round().await;
    assert_eq!(entries().await, 1);
    rig.time.advance(Duration::from_millis(1));
    rig.retention.round().await;
    assert_eq!(entries().await, 0, "nothing was written since, but it became old");
}

#[tokio::test]
async fn what_a_user_repeats_pushes_no_other_event_out_of_the_audit() {
    let rig = Rig::new("repeated", &["A"], 0).await;
    let tenant = &rig.tenants[0];
    let now_ms = rig.retention.clock.now_ms();
    let mut transaction = tenant.store.begin(&rig.retention.clock).await.expect("a schema");
    // There is an entry of each event, older than all entries that a user repeats.
    let others: Vec<AuditRecord> = AuditEvent::ALL
        .into_iter()
        .zip(0_u64..)
        .map(|(event, number)| AuditRecord::new(event, now_ms - 1, number.to_be_bytes()))
        .collect();
    audit::insert(&mut transaction, &others).await.expect("inserts");
    for (event, count) in [("SignedIn", 100_000), ("TestSent", 6_000), ("Invented", 5_001)] {
        let sql = format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) \
             INSERT INTO audit (at_ms, id, event, count) SELECT {now_ms} + n, '{event}' || n, '{event}', 1 FROM numbers"
        );
        transaction.execute(&sql, Vec::new()).await.expect("inserts");
    }
    transaction.commit().await.expect("commits");
    rig.retention.round().await;
    let mut reader = tenant.store.database().reader().await.expect("a reader");
    let rows = reader.query("SELECT event, count(*) FROM audit GROUP BY event", Vec::new()).await;
    let left: HashMap<String, i64> = rows
        .expect("a statement")
        .iter()
        .map(|row| (row.get(0).expect("an event"), row.get(1).expect("a number")))
        .collect();
    let expected = AuditEvent::ALL.into_iter().map(|event| match event {
        AuditEvent::SignedIn => (event.as_str(), MAX_SIGN_INS),
        AuditEvent::TestSent => (event.as_str(), MAX_OF_AN_EVENT),
        event => (event.as_str(), 1),
    });
    let expected = expected.chain([("Invented", MAX_OF_AN_EVENT)]);
    assert_eq!(left, expected.map(|(event, count)| (event.to_owned(), count)).collect());
}

/// The database's owner can make a table that always has more to delete.
#[tokio::test]
async fn database_that_never_ends_keeps_no_other_from_its_turn_and_no_round_from_its_end() {
    let rig = Rig::new("endless", &["A", "B"], 450).await;
    let endless = "CREATE TRIGGER endless AFTER DELETE ON audit BEGIN \
                   INSERT INTO audit (at_ms, id, event, count) VALUES (old.at_ms, old.id, old.event, 1); END";
    let now_ms = rig.retention.clock.now_ms();
    let records: Vec<AuditRecord> = (0..450_u64)
        .map(|number| AuditRecord::new(AuditEvent::SignedIn, now_ms, number.to_be_bytes()))
        .collect();
    let mut transaction = rig.tenants[0].store.begin(&rig.retention.clock).await.expect("a schema");
    audit::insert(&mut transaction, &records).await.expect("inserts");
    transaction.execute(endless, Vec::new()).await.expect("its owner's");
    transaction.commit().await.expect("commits");
    rig.time.advance(91 * DAY);
    let round = rig.retention.clone();
    let round = tokio::spawn(async move { round.round().await });
    while !round.is_finished() {
        rig.time.advance(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((rig.left(0).await, rig.left(1).await), (0, 0), "all deliveries are deleted");
}

#[tokio::test]
async fn batches_rest_at_first_and_are_larger_later() {
    let time = Duration::from_secs;
    let turn = RetentionTime { calm_until: time(600), end: time(630) };
    assert_eq!(turn.pace(time(600) - Duration::from_millis(1)), (50, 3));
    assert_eq!(turn.pace(time(600)), (200, 0));

    let rig = Rig::new("rest", &[], 0).await;
    let began = rig.retention.clock.elapsed();
    let turn = RetentionTime { calm_until: began + time(20), end: began + time(30) };
    rig.time.advance(time(2));
    let mut rest = std::pin::pin!(rig.retention.rest(turn, began, 3));
    for _ in 0..6 {
        assert!(rest.as_mut().now_or_never().is_none(), "it rests three times as long as the batch took");
        rig.time.advance(time(1));
    }
    assert!(rest.await);
    assert!(rig.retention.rest(turn, began, 0).await, "without a rest");
    let mut rest = std::pin::pin!(rig.retention.rest(turn, began, 3));
    assert!(rest.as_mut().now_or_never().is_none());
    rig.time.advance(time(22));
    assert!(!rest.await, "the batch took 8 s, but its turn ends after 22");
}
