//! The audit with a manual clock, on a file.

use docket_crds::TenantConfig;
use docket_domain::audit::Actor;
use docket_program::clock::ManualClock;
use docket_rig::scratch::Folder;
use docket_store::audit::AuditFilter;
use docket_store::sqlite::Sqlite;
use serde_json::{Value, json};

use super::*;
use crate::tenancy::{Tenants, testing};

const NAME: &str = "zoe@canary.example";

struct Rig {
    time: ManualClock,
    metrics: Arc<Metrics>,
    audit: Arc<Audit>,
    tenant: Arc<ServedTenant>,
    folder: Folder,
}

impl Rig {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let key = json!({"kid": "k1", "secret": "07".repeat(32)});
        let tokens = json!({"lifetimeMinutes": 60, "signingKeys": [key]});
        let tokens = serde_json::from_value(tokens).expect("keys of tokens");
        let config = TenantConfig { tokens, ..testing::config("uid-a") };
        let tenant = testing::served(config, Sqlite::new(folder.path().join("tenant.db")));
        let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
        let metrics = Arc::<Metrics>::default();
        let stream = Stream::open(&folder.path().join("audit.log"), Arc::clone(&metrics)).expect("a file");
        let tenants = Arc::<Tenants>::default();
        tenants.replace(vec![Arc::clone(&tenant)]);
        let audit = Audit::new(Clock::Manual(time.clone()), Arc::clone(&metrics), tenants, Some(stream));
        Self { time, metrics, audit, tenant, folder }
    }

    /// Creates the database.
    async fn made(self) -> Self {
        assert_eq!(self.rows().await, []);
        self
    }

    fn signed_in(&self) {
        let entry = self.audit.entry(AuditEvent::SignedIn).by(&Actor::Contact("11".into()));
        self.audit.record(&self.tenant, entry);
    }

    fn refused(&self, source: u8, name: &str) {
        let address = Some(IpAddr::from([192, 0, 2, source]));
        self.audit.sign_in_refused(Some(&self.tenant), address, "contact", name);
    }

    /// The stored entries, newest first.
    async fn rows(&self) -> Vec<AuditRecord> {
        let database = self.tenant.store.ready(&self.audit.clock).await.expect("a schema");
        let mut reader = database.reader().await.expect("a reader");
        audit::search(&mut reader, &AuditFilter::default(), 20_000).await.expect("a statement").items
    }

    /// Lets time pass until this many entries are stored.
    async fn stores(&self, count: usize) {
        let stored = async {
            while self.rows().await.len() != count {
                self.time.advance(GATHER);
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), stored).await.expect("they are stored");
    }

    fn stream(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.log")).expect("a stream")
    }

    fn lines(&self) -> Vec<Value> {
        self.stream().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn lost(&self, what: &str) -> u64 {
        let name = format!("docket_audit_lost_total{{what=\"{what}\"}} ");
        let text = self.metrics.text();
        let value = text.lines().find_map(|line| line.strip_prefix(&name)).expect("a series");
        value.parse().expect("a number")
    }
}

/// The other tests use these by name, so a wrong unit or a missing digit would change the tests as well.
#[test]
fn times_and_bounds_are_the_documented_ones() {
    let times = [GATHER, STORE_TIME, LONGEST_PAUSE, WINDOW];
    assert_eq!(times.map(|time| time.as_secs()), [1, 5, 60, 60]);
    assert_eq!((WRITERS, MAX_WAITING, MAX_STORED), (4, (250, 20_000), 1_000));
}

#[tokio::test]
async fn entries_of_a_second_are_stored_together_and_are_in_the_stream_at_once() {
    let rig = Rig::new("together").made().await;
    for _ in 0..30 {
        rig.signed_in();
    }
    tokio::task::yield_now().await;
    assert_eq!(rig.rows().await, [], "they are gathered");
    rig.audit.stream.as_ref().expect("a stream").flush().await;
    assert_eq!(rig.lines().len(), 30);
    rig.stores(30).await;
    rig.signed_in();
    rig.stores(31).await;
    let ids: Vec<String> = rig.rows().await.into_iter().map(|row| row.id).collect();
    rig.audit.close().await;
    assert!(rig.lines().iter().all(|line| ids.iter().any(|id| line["id"] == id.as_str())));
}

#[tokio::test]
async fn close_stores_waiting_entries() {
    let rig = Rig::new("end").made().await;
    rig.signed_in();
    rig.refused(1, NAME);
    rig.audit.close().await;
    let events: Vec<AuditEvent> = rig.rows().await.iter().map(|row| row.event).collect();
    assert_eq!(events.len(), 2);
    assert!(events.contains(&AuditEvent::SignedIn) && events.contains(&AuditEvent::SignInRefused));
    rig.signed_in();
    rig.audit.close().await;
    assert_eq!(rig.rows().await.len(), 3, "also what comes later");
}

#[tokio::test]
async fn flood_of_refused_sign_ins_is_few_entries_of_one_window() {
    let rig = Rig::new("flood").made().await;
    for number in 0..10_000 {
        rig.refused(1, &format!("{number}{NAME}"));
        rig.refused(2, NAME);
    }
    tokio::task::yield_now().await;
    rig.time.advance(Duration::from_secs(60) - Duration::from_millis(1));
    tokio::task::yield_now().await;
    assert_eq!((rig.rows().await, rig.stream()), (Vec::new(), String::new()), "the window has not ended");
    rig.time.advance(Duration::from_millis(1));
    rig.stores(21).await;
    let rows = rig.rows().await;
    assert_eq!(rows.iter().map(|row| row.count).sum::<i64>(), 20_000);
    let of_second = rows.iter().find(|row| row.origin.address == Some(IpAddr::from([192, 0, 2, 2])));
    let of_second = of_second.expect("its address");
    let digest = name_digest(&[7; 32], "contact", NAME);
    assert_eq!((of_second.count, of_second.subject.clone()), (10_000, Some(format!("name {digest}"))));
    assert!(rows.iter().all(|row| row.actor.is_none()));
    // A new window begins.
    rig.refused(2, NAME);
    rig.audit.close().await;
    assert_eq!(rig.rows().await.len(), 22);
    assert!(!rig.stream().contains(NAME));
    assert_eq!(rig.lines().len(), 22);
}

#[tokio::test]
async fn flood_of_sign_ins_of_one_user_is_an_entry_a_minute() {
    let rig = Rig::new("again").made().await;
    let sign_in = |contact: &str| {
        let entry = rig.audit.entry(AuditEvent::SignedIn).by(&Actor::Contact(contact.into()));
        rig.audit.record_sign_in(&rig.tenant, entry);
    };
    for _ in 0..5_000 {
        sign_in("11");
    }
    sign_in("12");
    rig.stores(2).await;
    assert!(rig.rows().await.iter().all(|row| row.count == 1), "the first ones are stored soon");
    rig.time.advance(WINDOW);
    rig.stores(3).await;
    for _ in 0..700 {
        sign_in("11");
    }
    sign_in("12");
    rig.audit.close().await;
    let of = |rows: &[AuditRecord], contact: &str| -> Vec<i64> {
        let actor = Some(format!("contact {contact}"));
        rows.iter().filter(|row| row.actor == actor).map(|row| row.count).collect()
    };
    let rows = rig.rows().await;
    assert_eq!((of(&rows, "11").iter().sum::<i64>(), of(&rows, "12").iter().sum::<i64>()), (5_700, 2));
    assert!(rows.len() <= 6, "at most two of each window and user: {rows:?}");
    assert_eq!((rig.lines().len(), rig.lost("row")), (rows.len(), 0));
    assert!(rig.audit.signed_in.lock().is_empty());
}

#[tokio::test]
async fn read_at_one_tenant_hides_none_at_another() {
    let rig = Rig::new("reads").made().await;
    let other = testing::tenant("uid-b", Sqlite::new(rig.folder.path().join("other.db")));
    for tenant in [&rig.tenant, &other, &rig.tenant] {
        // Two tenants may have an employee and a delivery of the same name.
        let entry = rig.audit.entry(AuditEvent::PayloadRead).by(&Actor::Employee("52".into()));
        rig.audit.record_read(tenant, entry.about("delivery", "1"));
    }
    rig.audit.close().await;
    assert_eq!((rig.lines().len(), rig.rows().await.len()), (2, 1), "one of each tenant");
}

#[tokio::test]
async fn sign_in_at_an_unknown_tenant_is_in_the_stream_alone() {
    let rig = Rig::new("unknown").made().await;
    rig.audit.sign_in_refused(None, None, "contact", NAME);
    rig.audit.close().await;
    assert_eq!(rig.rows().await, []);
    let lines = rig.lines();
    assert_eq!(lines.len(), 1);
    let parts = ["tenant", "subject", "address"].map(|field| &lines[0][field]);
    assert_eq!(parts, [&Value::Null; 3], "{lines:?}");
}

#[tokio::test]
async fn refused_sign_in_at_a_tenant_that_is_gone_since_is_in_the_stream_alone() {
    let rig = Rig::new("gone").made().await;
    rig.refused(1, NAME);
    rig.audit.tenants.replace(Vec::new());
    rig.audit.close().await;
    assert_eq!((rig.rows().await, rig.lines().len(), rig.lost("row")), (Vec::new(), 1, 0));
}

#[tokio::test]
async fn entries_beyond_the_bound_are_counted_and_are_in_the_stream() {
    let rig = Rig::new("bound").made().await;
    for _ in 0..MAX_WAITING.0 + 7 {
        rig.signed_in();
    }
    // Another event has its own places.
    rig.audit.record(&rig.tenant, rig.audit.entry(AuditEvent::WebhookRemoved));
    rig.audit.close().await;
    assert_eq!((rig.rows().await.len(), rig.lost("row"), rig.lost("line")), (MAX_WAITING.0 + 1, 7, 0));
    assert_eq!(rig.lines().len(), MAX_WAITING.0 + 8);
    assert_eq!(rig.audit.waiting.lock().all, 0);
    assert!(rig.audit.waiting.lock().of.is_empty());
}

#[tokio::test]
async fn unavailable_database_loses_rows_and_no_line() {
    let rig = Rig::new("away");
    std::fs::write(rig.folder.path().join("tenant.db"), "no database").expect("writable");
    rig.signed_in();
    rig.signed_in();
    rig.audit.close().await;
    assert_eq!((rig.lost("row"), rig.lost("line"), rig.lines().len()), (2, 0, 2));
    assert_eq!(rig.audit.waiting.lock().all, 0);
}
