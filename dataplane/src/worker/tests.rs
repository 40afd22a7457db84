//! The worker with a manual clock. Each attempt ends at once, because the target's address is forbidden.

use std::sync::Arc;
use std::time::Duration;

use docket_crds::TenantConfig;
use docket_domain::delivery::{BACKOFF_BASE, DeliveryId, FailureClass, POLL_INTERVAL, Status};
use docket_domain::event::{OrderSaved, Payload};
use docket_egress::{EgressPolicy, FixedDns, Sender, Trust};
use docket_program::clock::ManualClock;
use docket_schedule::memory::MemorySchedule;
use docket_schedule::{Entry, Hint, SHARES};
use docket_store::deliveries::{self, ListedDelivery};
use docket_store::events::About;
use docket_store::sqlite::Sqlite;
use docket_store::stores::Store;
use docket_store::{Database, contacts};
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::actions::publish_event::{Publication, publish_event};
use crate::tenants::{HeldWebhooks, ServedTenant};

struct Rig {
    time: ManualClock,
    tenant: Arc<ServedTenant>,
    schedule: Arc<MemorySchedule>,
    clock: Clock,
    folder: std::path::PathBuf,
    _stop: DropGuard,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A temporary folder: leftovers do no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Rig {
    /// A running worker for one tenant with one webhook.
    async fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("docket-worker-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("writable");
        let store = Arc::new(Store::new(Database::Sqlite(Sqlite::new(folder.join("tenant.db")))));
        let tenant = Arc::new(ServedTenant::new(
            config(),
            store,
            HeldWebhooks::These(Default::default()),
            &Trust::public(),
            None,
        ));
        let tenants = Arc::new(Tenants::default());
        tenants.replace(vec![Arc::clone(&tenant)]);
        let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
        let clock = Clock::Manual(time.clone());
        let schedule = Arc::new(MemorySchedule::new(clock.clone(), SHARES));
        let sender = Sender::new(EgressPolicy::default(), FixedDns::new(), Duration::from_secs(1));
        let settings = WorkerSettings {
            poll_interval: POLL_INTERVAL,
            backoff_base: BACKOFF_BASE,
            slots: 8,
            source_lag: Duration::ZERO,
            drain: Duration::from_secs(1),
        };
        let worker =
            Worker::new(clock.clone(), tenants, Arc::clone(&schedule), sender, settings, Arc::default());
        let shutdown = CancellationToken::new();
        tokio::spawn(worker.run(shutdown.clone()));
        let mut transaction = tenant.store.begin(&clock).await.expect("a schema");
        contacts::insert_customer(&mut transaction, "C-1", "One", 0).await.expect("inserts");
        transaction.commit().await.expect("commits");
        Self { time, tenant, schedule, clock, folder, _stop: shutdown.drop_guard() }
    }

    async fn publish(&self, subject: &str) -> DeliveryId {
        let data = OrderSaved { order_type: "Court".into(), web_order_id: subject.into(), finalize: None };
        let publication = Publication {
            customer_code: "C-1",
            about: About::web_order(subject),
            payload: Payload::OrderCreated(data),
            idempotency_key: None,
        };
        let mut transaction = self.tenant.store.database().begin(&self.clock).await.expect("begins");
        let hints = publish_event(&mut transaction, &self.tenant, publication, self.clock.now())
            .await
            .expect("publishes");
        transaction.commit().await.expect("commits");
        let id = hints[0].entry.id;
        self.schedule.put(hints).await.expect("scheduled");
        id
    }

    async fn delivery(&self, id: DeliveryId) -> ListedDelivery {
        let mut reader = self.tenant.store.database().reader().await.expect("a reader");
        deliveries::find(&mut reader, id).await.expect("a statement").expect("the delivery")
    }

    /// Waits until a delivery published now was attempted. By then the worker has claimed everything that was due.
    async fn settle(&self) {
        let witness = self.publish("witness").await;
        self.attempted(witness, 1).await;
    }

    async fn attempted(&self, id: DeliveryId, attempts: i64) -> ListedDelivery {
        for _ in 0..5_000 {
            let mut reader = self.tenant.store.database().reader().await.expect("a reader");
            let attempt = deliveries::attempts(&mut reader, id).await.expect("a statement").pop();
            let ended =
                attempt.is_some_and(|attempt| attempt.number == attempts && attempt.finished_at_ms.is_some());
            // Read after the attempts: read before, it could show the state during the attempt.
            let listed = self.delivery(id).await;
            if listed.attempt_count == attempts && ended {
                return listed;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("attempt {attempts} of {id} did not end");
    }
}

fn config() -> TenantConfig {
    serde_json::from_value(json!({
        "uid": "uid-1", "namespace": "default", "name": "acme", "displayName": null, "clientCode": "ACME",
        "subdomains": [], "suspended": false, "apiKeys": [],
        "tokens": {"lifetimeMinutes": 60, "signingKeys": [{"kid": "k", "secret": "00".repeat(32)}]},
        "database": null, "activeEvents": ["order.created"],
        "webhooks": [{"uid": "hook", "namespace": "default", "name": "hook", "displayName": null,
            "customerCode": "C-1", "targetUrl": "https://10.0.0.1/hook", "secret": null, "caBundle": null,
            "events": ["order.created"], "active": true}],
    }))
    .expect("a configuration")
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_follow_failures_after_60_120_240_and_480_seconds() {
    let rig = Rig::start("backoff").await;
    let id = rig.publish("order").await;
    for (attempt, delay) in [(1, 60), (2, 120), (3, 240), (4, 480)] {
        let listed = rig.attempted(id, attempt).await;
        assert_eq!(listed.status, Status::Failed);
        assert_eq!(listed.failure_class, Some(FailureClass::BlockedAddress));
        assert_eq!(listed.due_at_ms - rig.clock.now_ms(), delay * 1000);

        rig.time.advance(Duration::from_millis(delay as u64 * 1000 - 1));
        rig.settle().await;
        assert_eq!(rig.delivery(id).await.attempt_count, attempt);
        rig.time.advance(Duration::from_millis(1));
    }
    assert_eq!(rig.attempted(id, 5).await.status, Status::DeadLetter);
    rig.time.advance(Duration::from_secs(24 * 3600));
    rig.settle().await;
    assert_eq!(rig.delivery(id).await.attempt_count, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_fifth_attempt_becomes_a_dead_letter_when_claimed() {
    let rig = Rig::start("fifth").await;
    let id = rig.publish("order").await;
    rig.attempted(id, 1).await;
    let mut transaction = rig.tenant.store.database().begin(&rig.clock).await.expect("begins");
    let now_ms = rig.clock.now_ms();
    let sql = "UPDATE delivery SET attempt_count = 5, lease_token = 'dead', lease_until_ms = $1, due_at_ms = $2 WHERE id = $3";
    let params = vec![now_ms.into(), now_ms.into(), id.to_string().into()];
    transaction.execute(sql, params).await.expect("updates");
    transaction.commit().await.expect("commits");
    // Its outcome may still be stored.
    rig.time.advance(Duration::from_secs(60));
    rig.settle().await;
    assert_eq!(rig.delivery(id).await.status, Status::Failed);
    rig.time.advance(Duration::from_millis(deliveries::LATE_END_MS as u64));
    rig.settle().await;
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.failure_class), (Status::DeadLetter, Some(FailureClass::WorkerLost)));
    assert_ne!(rig.schedule.next_due().await.expect("a time"), Some(Duration::ZERO));
}

#[tokio::test]
async fn poll_claims_at_most_25_due_deliveries() {
    let clock = Clock::Manual(ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time")));
    let schedule = Arc::new(MemorySchedule::new(clock.clone(), SHARES));
    let hint = |n: u8, wait| Hint {
        entry: Entry {
            tenant: format!("tenant-{}", n % 4).into(),
            webhook: format!("webhook-{n}").into(),
            id: DeliveryId::new(clock.now(), [n; 10]),
        },
        wait,
    };
    let due = (0..60).map(|n| hint(n, Duration::ZERO));
    schedule.put(due.chain([hint(60, Duration::from_millis(1))]).collect()).await.expect("scheduled");
    let sender = Sender::new(EgressPolicy::default(), FixedDns::new(), Duration::from_secs(1));
    let settings = WorkerSettings {
        poll_interval: POLL_INTERVAL,
        backoff_base: BACKOFF_BASE,
        slots: 256,
        source_lag: Duration::ZERO,
        drain: Duration::from_secs(1),
    };
    let worker = Worker::new(clock, Arc::default(), schedule, sender, settings, Arc::default());
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(worker.claim_once().await.expect("claims"));
    }
    assert_eq!(taken, [25, 25, 10, 0], "the 61st is not due");
}
