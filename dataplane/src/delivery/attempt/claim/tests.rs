//! The worker with a manual clock. Each attempt ends at once, because the target's address is forbidden.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use docket_board::Board;
use docket_crds::{EventCode, TenantConfig};
use docket_domain::delivery::{BACKOFF_BASE, DeliveryId, FailureClass, Status};
use docket_domain::event::{OrderSaved, Payload};
use docket_egress::{EgressPolicy, FixedDns, Sender, Trust};
use docket_orders::SaveRequest;
use docket_program::clock::{Clock, ManualClock};
use docket_program::owner::Owner;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::redis::RedisServer;
use docket_rig::scratch::Folder;
use docket_schedule::{Ended, Entry, Hint, Room, SHARES, Schedule};
use docket_store::deliveries::{self, ListedDelivery, NewDelivery, NewHandOff};
use docket_store::events::About;
use docket_store::orders::{self, OrderFilter};
use docket_store::saves::{self, Save};
use docket_store::sqlite::Sqlite;
use docket_store::{StoreError, contacts, idempotency, unfolded};
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::actions::publish_event::{Publication, publish_event};
use crate::actions::save_order::{NewOrder, Saved};
use crate::delivery::attempt::{HandedOff, WorkerSettings};
use crate::delivery::outbox::Outbox;
use crate::delivery::saves::{CreateOrders, MakeToKeep};
use crate::delivery::upkeep::sweep::Sweeper;
use crate::tenancy::{HeldWebhooks, ServedTenant, Tenants, testing};

const POLL_INTERVAL: Duration = Duration::from_secs(15);

struct Rig {
    time: ManualClock,
    tenant: Arc<ServedTenant>,
    tenants: Arc<Tenants>,
    schedule: Arc<Schedule>,
    clock: Clock,
    worker: Arc<Worker>,
    /// Hands off to the worker.
    create_orders: Arc<CreateOrders>,
    stop: CancellationToken,
    _stop: DropGuard,
    folder: Folder,
}

impl Rig {
    /// A running worker for one tenant with one webhook.
    async fn start(name: &str) -> Self {
        let rig = Self::standing(name).await;
        rig.run();
        rig
    }

    /// A rig whose worker claims nothing: it makes the attempts that are handed off to it.
    async fn standing(name: &str) -> Self {
        let folder = Folder::new(name);
        let tenant = testing::served(config(), Sqlite::new(folder.path().join("tenant.db")));
        let tenants = Arc::new(Tenants::default());
        tenants.replace(vec![Arc::clone(&tenant)]);
        let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
        let clock = Clock::Manual(time.clone());
        let schedule = Arc::new(Schedule::in_memory(clock.clone(), SHARES));
        let worker = worker(&clock, &tenants, &schedule, 8);
        let hand_off = Arc::new(OnceLock::from(Arc::clone(&worker)));
        let outbox = Outbox::new(Arc::clone(&schedule), Arc::clone(&tenants), Arc::default());
        let create_orders = CreateOrders::new(clock.clone(), &tenants, outbox, hand_off, &Arc::default());
        let mut transaction = tenant.store.begin(&clock).await.expect("a schema");
        contacts::insert_customer(&mut transaction, "C-1", "One", 0).await.expect("inserts");
        transaction.commit().await.expect("commits");
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        Self { time, tenant, tenants, schedule, clock, worker, create_orders, stop, _stop, folder }
    }

    /// Starts the worker.
    fn run(&self) {
        tokio::spawn(Arc::clone(&self.worker).run(self.stop.clone()));
    }

    fn new_order(&self) -> NewOrder {
        let request = SaveRequest::read(br#"{"orderType": "Court"}"#).expect("an order");
        let new = NewOrder::new(&self.tenant, "C-1".into(), request, self.clock.now());
        new.unwrap_or_else(|_| panic!("it may be saved"))
    }

    /// Saves an order, as a request does. Returns its delivery.
    async fn save(&self) -> DeliveryId {
        let new = self.new_order();
        let saved = self.create_orders.create(&self.tenant, new, None).await.expect("saved");
        let mut reader = self.tenant.store.database().reader().await.expect("a reader");
        let sql = "SELECT d.id FROM delivery d JOIN event e ON e.id = d.event_id WHERE e.web_order_id = $1";
        let row = reader.query_opt(sql, vec![saved.web_order_id.into()]).await.expect("a statement");
        row.expect("a delivery").parsed(0).expect("an id")
    }

    /// Stores an order whose hand-off has not begun.
    async fn stored(&self) -> (Save, HandedOff) {
        let new = self.new_order();
        let hint = |(id, webhook): (_, &str)| {
            let entry = Entry { tenant: "uid-1".into(), webhook: webhook.into(), id };
            Hint { entry, wait: Duration::ZERO }
        };
        let (_, handed) = self.worker.hand_off(new.deliveries().map(hint).collect(), None).await;
        let writer = self.tenant.store.writer(&self.clock).await.expect("a connection");
        let (transaction, number) = saves::begin(writer, &self.clock, 1).await.expect("begins");
        let (order, published) = new.rows(number, transaction.now());
        let (event, deliveries) = published.expect("a webhook takes it");
        let hand_offs = deliveries.into_iter().map(|NewDelivery { id, webhook, webhook_name, .. }| {
            let lease = handed.lease_of(id).expect("it is claimed").clone();
            NewHandOff { id, webhook, webhook_name, lease }
        });
        let hand_offs = hand_offs.collect();
        let save = Save { order, event: Some(event), deliveries: Vec::new(), hand_offs, to_keep: None };
        saves::commit(transaction, std::slice::from_ref(&save)).await.expect("commits");
        (save, handed)
    }

    /// Claims `count` places of the webhook, for deliveries that are never stored.
    async fn take_places(&self, count: u8) -> HandedOff {
        let hint = |number| {
            let id = DeliveryId::new(self.clock.now(), [number; 10]);
            Hint { entry: Entry { tenant: "uid-1".into(), webhook: "hook".into(), id }, wait: Duration::ZERO }
        };
        self.worker.hand_off((0..count).map(hint).collect(), None).await.1
    }

    /// Leaves the row as a worker does that dies during an attempt: this is attempt `attempt`, and its lease ends now.
    async fn lose(&self, id: DeliveryId, attempt: i64) {
        let mut transaction = self.tenant.store.database().begin(&self.clock).await.expect("begins");
        let sql = "UPDATE delivery_queue SET attempt_count = $1, lease_token = 'dead', lease_until_ms = $2, \
                   started_at_ms = $2, due_at_ms = $2 WHERE id = $3";
        let params = vec![attempt.into(), self.clock.now_ms().into(), id.to_string().into()];
        assert_eq!(transaction.execute(sql, params).await.expect("updates"), 1);
        transaction.commit().await.expect("commits");
    }

    async fn is_leased(&self, id: DeliveryId) -> bool {
        let mut reader = self.tenant.store.database().reader().await.expect("a reader");
        let sql = "SELECT lease_token IS NOT NULL FROM delivery WHERE id = $1";
        let row = reader.query_opt(sql, vec![id.to_string().into()]).await.expect("a statement");
        row.expect("the delivery").get(0).expect("a truth")
    }

    /// Waits until the schedule has something that is due.
    async fn has_due(&self) {
        for _ in 0..5_000 {
            if self.schedule.next_due().await.expect("available") == Some(Duration::ZERO) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("nothing is due");
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
            let found = deliveries::find_with_attempts(&mut reader, id).await.expect("a statement");
            let (listed, mut stored) = found.expect("the delivery");
            let ended = stored
                .pop()
                .is_some_and(|attempt| attempt.number == attempts && attempt.finished_at_ms.is_some());
            // The last step of the attempt's task notifies the schedule, so the attempt has ended once there is no task.
            if listed.attempt_count == attempts && ended && self.worker.tasks.is_empty() {
                return listed;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("attempt {attempts} of {id} did not end");
    }

    /// Waits until the worker has done what it claimed. It began no attempt of the delivery.
    async fn begins_no_attempt(&self, id: DeliveryId) {
        while !self.worker.tasks.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let listed = self.delivery(id).await;
        assert_eq!((listed.status, listed.attempt_count), (Status::Pending, 0));
    }
}

fn worker(clock: &Clock, tenants: &Arc<Tenants>, schedule: &Arc<Schedule>, slots: usize) -> Arc<Worker> {
    let sender = Sender::new(EgressPolicy::default(), FixedDns::new(), Duration::from_secs(1));
    let settings = WorkerSettings {
        poll_interval: POLL_INTERVAL,
        backoff_base: BACKOFF_BASE,
        slots,
        drain: Duration::from_secs(1),
    };
    let outbox = Outbox::new(Arc::clone(schedule), Arc::clone(tenants), Arc::default());
    Worker::new(clock.clone(), outbox, sender, settings, Owner::new(b"worker"))
}

fn config() -> TenantConfig {
    let hook = json!({"uid": "hook", "namespace": "default", "name": "hook", "displayName": null,
        "customerCode": "C-1", "targetUrl": "https://10.0.0.1/hook", "secret": null, "caBundle": null,
        "events": ["order.created"], "active": true});
    let webhooks = vec![serde_json::from_value(hook).expect("a webhook")];
    TenantConfig { active_events: [EventCode::OrderCreated].into(), webhooks, ..testing::config("uid-1") }
}

/// Serves the tenant without webhooks; those in `held` are on hold.
fn serve_without_webhooks(rig: &Rig, held: HeldWebhooks) {
    let (config, store) = (TenantConfig { webhooks: Vec::new(), ..config() }, Arc::clone(&rig.tenant.store));
    rig.tenants.replace(vec![Arc::new(ServedTenant::new(config, store, held, &Trust::none(), None))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_follow_failures_after_60_120_240_and_480_seconds() {
    let rig = Rig::start("backoff").await;
    let id = rig.publish("order").await;
    for (attempt, delay) in [(1, 60), (2, 120), (3, 240), (4, 480)] {
        let listed = rig.attempted(id, attempt).await;
        assert_eq!(listed.status, Status::Failed);
        assert_eq!(listed.failure_class, Some(FailureClass::BlockedAddress));
        let wait_ms = u64::try_from(listed.due_at_ms - rig.clock.now_ms()).expect("it is later");
        assert!((delay * 1000..=delay * 1000 + 2_000).contains(&wait_ms), "{wait_ms}");

        rig.time.advance(Duration::from_millis(wait_ms - 1));
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
async fn webhook_that_is_put_on_hold_while_its_attempt_waits_to_begin_gets_none() {
    let rig = Rig::standing("held").await;
    let id = rig.publish("order").await;
    let writer = rig.tenant.store.begin(&rig.clock).await.expect("a transaction");
    rig.run();
    while rig.schedule.next_due().await.expect("a time") == Some(Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The delivery is claimed. The attempt can't begin while another transaction is open.
    let held = HeldWebhooks::These([("hook".to_owned(), "default/hook".to_owned())].into());
    serve_without_webhooks(&rig, held);
    drop(writer);
    rig.begins_no_attempt(id).await;
}

/// A claim waits like this while the tenant's database does not respond. Another worker may have it by then.
#[tokio::test(flavor = "multi_thread")]
async fn claim_that_waits_to_begin_for_as_long_as_its_lease_begins_no_attempt() {
    let rig = Rig::standing("late").await;
    let id = rig.publish("order").await;
    let writer = rig.tenant.store.begin(&rig.clock).await.expect("a transaction");
    assert_eq!(rig.worker.claim_once().await.expect("claims").0, 1);
    // Nothing renews the lease, since the worker does not run.
    rig.time.advance(LEASE);
    drop(writer);
    rig.begins_no_attempt(id).await;
    let again = rig.schedule.next_due().await.expect("a time");
    assert_eq!(again, Some(Duration::from_secs(2)), "it does not wait for a sweep");
}

/// The owner of a database may write another customer into the event.
#[tokio::test(flavor = "multi_thread")]
async fn event_of_another_customer_is_not_sent() {
    let rig = Rig::standing("customer").await;
    let id = rig.publish("order").await;
    write(&rig, "UPDATE event SET customer_code = 'C-2'").await;
    assert_eq!(rig.worker.claim_once().await.expect("claims").0, 1);
    rig.begins_no_attempt(id).await;
    assert_eq!(rig.schedule.next_due().await.expect("a time"), None, "it is not tried again and again");
}

/// The database of one tenant may be away for minutes, and must not keep the slots from other tenants.
#[tokio::test(flavor = "multi_thread")]
async fn slot_of_an_attempt_is_free_before_its_outcome_is_stored() {
    let rig = Rig::standing("slot").await;
    let (save, handed) = rig.stored().await;
    assert_eq!(rig.worker.admission.room(9).slots, 7);
    // No outcome can be stored while another transaction is open.
    let writer = rig.tenant.store.begin(&rig.clock).await.expect("a transaction");
    handed.start([(&rig.tenant, &save)].into_iter(), rig.clock.now_ms());
    let freed = async {
        while rig.worker.admission.room(9).slots < 8 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("the slot is free");
    assert!(rig.is_leased(save.hand_offs[0].id).await, "its outcome is not stored");
    drop(writer);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_known_to_be_quick_after_a_quick_attempt() {
    let rig = Rig::standing("known").await;
    let is_quick = async || {
        let id = DeliveryId::new(rig.clock.now(), [7; 10]);
        let entry = Entry { tenant: "uid-1".into(), webhook: "default/hook/C-1".into(), id };
        let room = Room { slots: 1, slow: 1, without_claim: 0 };
        let handed = rig.schedule.hand_off(vec![entry], room, LEASE).await.expect("claims");
        let claim = handed.claims[0].clone();
        let ended = Ended { claim: claim.clone(), again: None, held: None };
        rig.schedule.settle(vec![ended]).await.expect("settles");
        claim.quick
    };
    assert!(!is_quick().await, "nothing is known of it");
    let id = rig.save().await;
    rig.attempted(id, 1).await;
    assert!(is_quick().await);
}

/// A test event says nothing about receivers.
#[tokio::test(flavor = "multi_thread")]
async fn attempt_of_a_test_event_counts_in_no_metric() {
    let rig = Rig::standing("test-event").await;
    let counted = || {
        let text = rig.worker.metrics.text();
        let count = |line: &str| {
            line.strip_prefix("docket_delivery_attempts_total{class=\"BlockedAddress\"} ").map(str::to_owned)
        };
        text.lines().find_map(count)
    };
    let id = rig.publish("test").await;
    write(&rig, "INSERT INTO test_event (id, webhook) SELECT id, 'hook' FROM event").await;
    rig.run();
    assert_eq!(rig.attempted(id, 1).await.failure_class, Some(FailureClass::BlockedAddress));
    assert_eq!(counted().as_deref(), Some("0"));
    rig.settle().await;
    assert_eq!(counted().as_deref(), Some("1"));
}

/// An attempt loses its lease when another worker takes the delivery over. The entry stays, in case that worker dies.
#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_lost_its_lease_leaves_its_entry_in_the_schedule() {
    let rig = Rig::standing("stale").await;
    let (save, handed) = rig.stored().await;
    write(&rig, "DELETE FROM hand_off").await;
    handed.start([(&rig.tenant, &save)].into_iter(), rig.clock.now_ms());
    rig.worker.tasks.close();
    rig.worker.tasks.wait().await;
    let places = rig.schedule.places("uid-1", &["hook".to_owned()]).await.expect("places");
    assert_eq!((places.taken, places.webhooks[0].taken), (0, 0), "its claim is settled");
    assert_eq!(rig.schedule.next_due().await.expect("a time"), Some(LEASE));
    let metrics = rig.worker.metrics.text();
    assert!(metrics.contains("docket_delivery_stale_finishes_total 1\n"), "{metrics}");
    assert!(metrics.contains("docket_delivery_attempts_total{class=\"BlockedAddress\"} 0\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_on_hold_leaves_the_schedule_unless_its_webhook_is_served_or_may_be_elsewhere() {
    let rig = Rig::standing("on-hold").await;
    rig.publish("order").await;
    let put_on_hold = async || {
        let mut reserved = rig.worker.admission.claim(1);
        let claim = rig.schedule.claim(reserved.room(), LEASE).await.expect("claims").remove(0);
        let slot = reserved.take(claim.quick).expect("a slot");
        rig.worker.put_on_hold(vec![Claimed::new(claim, slot, None)]).await;
        rig.schedule.next_due().await.expect("a time")
    };
    assert_eq!(put_on_hold().await, Some(Duration::ZERO), "its webhook came back meanwhile");
    let suspended = TenantConfig { suspended: true, ..config() };
    let held = HeldWebhooks::These(Default::default());
    let store = Arc::clone(&rig.tenant.store);
    rig.tenants.replace(vec![Arc::new(ServedTenant::new(suspended, store, held, &Trust::none(), None))]);
    assert_eq!(put_on_hold().await, None, "a sweep schedules it again");
    rig.publish("another").await;
    rig.tenants.doubt();
    assert_eq!(put_on_hold().await, Some(Duration::from_secs(30)), "this process may be behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_offs_that_were_rolled_back_leave_neither_entry_nor_place() {
    let rig = Rig::standing("rolled-back").await;
    rig.take_places(4).await.rolled_back().await;
    assert_eq!(rig.schedule.next_due().await.expect("a time"), None);
    let places = rig.schedule.places("uid-1", &["hook".to_owned()]).await.expect("places");
    assert_eq!((places.taken, places.webhooks[0].taken), (0, 0));
    assert_eq!(rig.worker.admission.room(9).slow, 4, "the slots are free");
}

#[tokio::test(flavor = "multi_thread")]
async fn order_that_is_not_stored_leaves_neither_entry_nor_place() {
    let rig = Rig::standing("conflict").await;
    let kept = "INSERT INTO idempotency (caller, key, route, request_digest, answer_status, answer_body, created_at_ms) \
                VALUES ('contact 11', 'k', '/Orders/Save', '00', 200, '{}', 0)";
    write(&rig, kept).await;
    let to_keep: MakeToKeep = Box::new(|_: &Saved| to_keep());
    let created = rig.create_orders.create(&rig.tenant, rig.new_order(), Some(to_keep)).await;
    assert!(matches!(created, Err(StoreError::Conflict)));
    assert_eq!(rig.schedule.next_due().await.expect("a time"), None);
    assert_eq!(rig.schedule.places("uid-1", &[]).await.expect("places").taken, 0);
}

fn to_keep() -> idempotency::ToKeep {
    idempotency::ToKeep {
        caller: "contact 11".into(),
        key: "k".into(),
        kept: idempotency::KeptAnswer {
            route: "/Orders/Save".into(),
            request_digest: "00".into(),
            status: 200,
            body: "{}".into(),
        },
    }
}

/// The order may be stored. Without an entry in the schedule, its delivery would wait for a sweep.
#[tokio::test(flavor = "multi_thread")]
async fn order_whose_commit_may_have_happened_leaves_its_claim_until_the_lease_ends() {
    let rig = Rig::standing("no-response").await;
    let file = rig.folder.path().join("tenant.db");
    // The transaction has begun when its group makes the answers to keep.
    let to_keep: MakeToKeep = Box::new(move |_: &Saved| {
        std::fs::remove_file(&file).expect("the file of the database");
        to_keep()
    });
    let created = rig.create_orders.create(&rig.tenant, rig.new_order(), Some(to_keep)).await;
    assert!(matches!(created, Err(StoreError::Unavailable(_))));
    assert_eq!(rig.schedule.places("uid-1", &[]).await.expect("places").taken, 1);
    assert_eq!(rig.worker.admission.room(9).slots, 8, "its slot is free");
    rig.time.advance(LEASE);
    assert_eq!(rig.schedule.next_due().await.expect("a time"), Some(Duration::ZERO));
}

/// Sweeps as a process does at its start, if no other process runs.
async fn sweep(rig: &Rig, schedule: &Arc<Schedule>) {
    let (clock, tenants, owner) = (rig.clock.clone(), Arc::clone(&rig.tenants), Owner::new(b"worker"));
    Sweeper::new(clock, tenants, Arc::clone(schedule), owner, Arc::default()).take_over().await;
}

async fn write(rig: &Rig, sql: &str) {
    let mut transaction = rig.tenant.store.begin(&rig.clock).await.expect("a transaction");
    transaction.execute(sql, Vec::new()).await.expect("a statement");
    transaction.commit().await.expect("commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn grace_of_a_missing_webhook_begins_again_after_a_time_without_sweeps() {
    let rig = Rig::standing("unseen").await;
    let id = rig.publish("order").await;
    serve_without_webhooks(&rig, HeldWebhooks::These(Default::default()));
    let missing = async || {
        let mut reader = rig.tenant.store.database().reader().await.expect("a reader");
        let now_ms = rig.clock.now_ms();
        let missing = deliveries::missing(&mut reader).await.expect("a statement").into_iter();
        missing.map(|one| ((now_ms - one.since_ms) / 1000, (now_ms - one.seen_ms) / 1000)).collect::<Vec<_>>()
    };
    sweep(&rig, &rig.schedule).await;
    assert_eq!(missing().await, [(0, 0)]);
    // A day without a worker, or in which the Tenant was deleted.
    rig.time.advance(Duration::from_secs(24 * 3600));
    sweep(&rig, &rig.schedule).await;
    assert_eq!((missing().await, rig.delivery(id).await.status), (vec![(0, 0)], Status::Pending));
    let mut newer = Vec::new();
    for minute in 1..=60 {
        assert_eq!(rig.delivery(id).await.status, Status::Pending, "{minute}");
        if minute >= 58 {
            // A process with an older configuration publishes this.
            newer.push(rig.publish("newer").await);
        }
        rig.time.advance(Duration::from_secs(60));
        sweep(&rig, &rig.schedule).await;
    }
    let status = async |id: DeliveryId| rig.delivery(id).await.status;
    let statuses = [status(newer[0]).await, status(newer[1]).await, status(newer[2]).await];
    assert_eq!(statuses, [Status::DeadLetter, Status::DeadLetter, Status::Pending], "2 min have passed");
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.failure_class), (Status::DeadLetter, Some(FailureClass::WebhookGone)));
    rig.time.advance(Duration::from_secs(60));
    sweep(&rig, &rig.schedule).await;
    assert_eq!(status(newer[2]).await, Status::DeadLetter);
    sweep(&rig, &rig.schedule).await;
    assert_eq!(missing().await, [], "nothing is queued for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_processes_schedules_what_is_due_within_a_quarter_of_an_hour() {
    let rig = Rig::standing("horizon").await;
    let id = rig.publish("order").await;
    for (wait, is_soon) in [(Duration::from_secs(900), true), (Duration::from_secs(901), false)] {
        let due_at_ms = rig.clock.now_ms() + i64::try_from(wait.as_millis()).expect("a small number");
        write(&rig, &format!("UPDATE delivery_queue SET due_at_ms = {due_at_ms} WHERE id = '{id}'")).await;
        for is_shared in [true, false] {
            let schedule = Arc::new(Schedule::in_memory(rig.clock.clone(), SHARES));
            let (clock, tenants) = (rig.clock.clone(), Arc::clone(&rig.tenants));
            let owner = Owner::new(b"worker");
            let mut sweeper = Sweeper::new(clock, tenants, Arc::clone(&schedule), owner, Arc::default());
            if is_shared {
                // No server listens at this address, so the health of webhooks is not published.
                let url = RedisUrl::parse("redis://127.0.0.1:1").expect("a URL");
                let redis = RedisConnection::new(url, None).expect("without TLS");
                sweeper = sweeper.shared(Arc::new(Board::new(redis, Keys::new(None).expect("the only one"))));
            }
            sweeper.take_over().await;
            let expected = Some(wait).filter(|_| is_soon || !is_shared);
            assert_eq!(schedule.next_due().await.expect("available"), expected, "shared: {is_shared}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_deliveries_that_get_no_keys_delay_nothing() {
    let rig = Rig::standing("keyless").await;
    let (ended, id) = (rig.publish("one").await, rig.publish("two").await);
    write(&rig, &format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
         SELECT id, event_id, 'uid', webhook_name, 'DeadLetter', 1, due_at_ms, created_at_ms FROM delivery_queue WHERE id = '{ended}'"
    ))
    .await;
    write(&rig, &format!("DELETE FROM delivery_queue WHERE id = '{ended}'")).await;
    write(
        &rig,
        "CREATE TRIGGER refused BEFORE UPDATE ON delivery_history BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    .await;
    let schedule = Arc::new(Schedule::in_memory(rig.clock.clone(), SHARES));
    sweep(&rig, &schedule).await;
    assert_eq!(schedule.next_due().await.expect("available"), Some(Duration::ZERO), "{id} is scheduled");
    let webhook = async || {
        let mut reader = rig.tenant.store.database().reader().await.expect("a reader");
        let sql = "SELECT webhook FROM delivery_history";
        let row = reader.query_opt(sql, Vec::new()).await.expect("a statement");
        row.expect("a row").get::<String>(0).expect("a text")
    };
    assert_eq!(webhook().await, "uid");
    write(&rig, "DROP TRIGGER refused").await;
    sweep(&rig, &schedule).await;
    assert_eq!(webhook().await, "default/hook/C-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_to_an_idempotency_key_is_kept_for_48_hours() {
    let rig = Rig::standing("answers").await;
    let insert = format!(
        "INSERT INTO idempotency (caller, key, route, request_digest, answer_status, answer_body, created_at_ms) \
         VALUES ('contact 11', 'k', '/Orders/Save', '00', 200, '{{}}', {})",
        rig.clock.now_ms()
    );
    write(&rig, &insert).await;
    let is_kept = async || {
        let mut reader = rig.tenant.store.database().reader().await.expect("a reader");
        idempotency::find(&mut reader, "contact 11", "k").await.expect("a statement").is_some()
    };
    rig.time.advance(Duration::from_secs(48 * 3600));
    sweep(&rig, &rig.schedule).await;
    assert!(is_kept().await, "not a millisecond too early");
    rig.time.advance(Duration::from_millis(1));
    sweep(&rig, &rig.schedule).await;
    assert!(!is_kept().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn searched_text_of_before_is_folded_and_found_after_a_sweep() {
    let rig = Rig::standing("unfolded").await;
    rig.save().await;
    write(&rig, "UPDATE web_order SET search_text = 'o’brien v. núñez'").await;
    let found = async |text: &str| {
        let mut reader = rig.tenant.store.database().reader().await.expect("a reader");
        let filter = OrderFilter { text: Some(text.into()), ..OrderFilter::default() };
        let page = orders::search(&mut reader, &rig.clock, &filter, 10).await.expect("a statement");
        (page.items.len(), unfolded::are_left(&mut reader).await.expect("a statement"))
    };
    assert_eq!((found("O’Brien").await, found("o'brien").await), ((1, true), (0, true)));
    sweep(&rig, &rig.schedule).await;
    for text in ["O’Brien", "o'brien", "Nunez"] {
        assert_eq!(found(text).await, (1, false), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_fifth_attempt_becomes_a_dead_letter_when_claimed() {
    let rig = Rig::start("fifth").await;
    let id = rig.publish("order").await;
    rig.attempted(id, 1).await;
    rig.lose(id, 5).await;
    // The lost worker may still store the outcome of the attempt.
    rig.time.advance(Duration::from_secs(60));
    rig.settle().await;
    assert_eq!(rig.delivery(id).await.status, Status::Failed);
    rig.time.advance(Duration::from_millis(deliveries::LATE_END_MS as u64));
    rig.settle().await;
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.failure_class), (Status::DeadLetter, Some(FailureClass::WorkerLost)));
    assert_ne!(rig.schedule.next_due().await.expect("a time"), Some(Duration::ZERO));
}

#[tokio::test(flavor = "multi_thread")]
async fn second_lost_attempt_waits_for_the_backoff() {
    let rig = Rig::start("lost").await;
    let id = rig.publish("order").await;
    rig.attempted(id, 1).await;
    rig.lose(id, 2).await;
    rig.time.advance(Duration::from_secs(62));
    // After the first loss, the attempt is repeated at once.
    assert_eq!(rig.attempted(id, 3).await.failure_class, Some(FailureClass::BlockedAddress));

    rig.lose(id, 4).await;
    rig.time.advance(Duration::from_secs(248));
    rig.settle().await;
    let listed = rig.attempted(id, 4).await;
    assert_eq!((listed.status, listed.failure_class), (Status::Failed, Some(FailureClass::WorkerLost)));
    let wait_ms = u64::try_from(listed.due_at_ms - rig.clock.now_ms()).expect("it is later");
    assert!((480_000..=482_000).contains(&wait_ms), "{wait_ms}");
    rig.time.advance(Duration::from_millis(wait_ms - 1));
    rig.settle().await;
    assert_eq!(rig.delivery(id).await.attempt_count, 4);
    rig.time.advance(Duration::from_millis(1));
    assert_eq!(rig.attempted(id, 5).await.failure_class, Some(FailureClass::BlockedAddress));
}

/// A program of the tenant may have written such an event.
#[tokio::test(flavor = "multi_thread")]
async fn event_that_is_longer_than_any_of_docket_is_a_dead_letter_at_once() {
    let rig = Rig::standing("long").await;
    let (long, other) = (rig.publish("long").await, rig.publish("other").await);
    let mut transaction = rig.tenant.store.database().begin(&rig.clock).await.expect("begins");
    let sql = "UPDATE event SET body = zeroblob(65537) WHERE web_order_id = 'long'";
    assert_eq!(transaction.execute(sql, Vec::new()).await.expect("updates"), 1);
    transaction.commit().await.expect("commits");
    rig.run();
    let listed = rig.attempted(long, 1).await;
    assert_eq!((listed.status, listed.failure_class), (Status::DeadLetter, Some(FailureClass::EventTooLong)));
    assert_eq!(rig.attempted(other, 1).await.failure_class, Some(FailureClass::BlockedAddress));
}

/// A program of the tenant may have written such an event.
#[tokio::test(flavor = "multi_thread")]
async fn event_whose_id_no_header_can_carry_is_a_dead_letter_at_once() {
    let rig = Rig::standing("odd").await;
    let other = rig.publish("other").await;
    let mut odd = Vec::new();
    for id in ["evt_x\nINJECTED", "evt_é", &"x".repeat(400), ""] {
        odd.push(rig.publish("odd").await);
        let insert = format!(
            "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) \
             SELECT '{id}', code, customer_code, body, occurred_at_ms FROM event LIMIT 1"
        );
        write(&rig, &insert).await;
        let newest = odd.last().expect("one");
        write(&rig, &format!("UPDATE delivery_queue SET event_id = '{id}' WHERE id = '{newest}'")).await;
    }
    rig.run();
    for id in odd {
        let listed = rig.attempted(id, 1).await;
        let ended = (listed.status, listed.failure_class);
        assert_eq!(ended, (Status::DeadLetter, Some(FailureClass::EventIdInvalid)));
    }
    assert_eq!(rig.attempted(other, 1).await.failure_class, Some(FailureClass::BlockedAddress));
}

/// The worker does not run, so nothing can be claimed.
#[tokio::test(flavor = "multi_thread")]
async fn saved_order_is_posted_without_a_claim() {
    let rig = Rig::standing("hand-off").await;
    let id = rig.save().await;
    let listed = rig.attempted(id, 1).await;
    assert_eq!((listed.status, listed.failure_class), (Status::Failed, Some(FailureClass::BlockedAddress)));
    let wait_ms = u64::try_from(listed.due_at_ms - rig.clock.now_ms()).expect("it is later");
    assert!((60_000..=62_000).contains(&wait_ms), "{wait_ms}");
    assert!(!rig.is_leased(id).await);
    // The retry of the delivery is in the schedule.
    for _ in 0..5_000 {
        if rig.schedule.next_due().await.expect("available") == Some(Duration::from_millis(wait_ms)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("its claim was not settled");
}

/// Half of the eight slots are for webhooks without a known speed.
#[tokio::test(flavor = "multi_thread")]
async fn saved_order_without_a_free_slot_is_queued_and_claimed_later() {
    let rig = Rig::standing("full").await;
    let taken = rig.take_places(4).await;
    let id = rig.save().await;
    rig.has_due().await;
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.attempt_count), (Status::Pending, 0));
    assert!(!rig.is_leased(id).await);
    drop(taken);
    rig.run();
    assert_eq!(rig.attempted(id, 1).await.failure_class, Some(FailureClass::BlockedAddress));
}

#[tokio::test(flavor = "multi_thread")]
async fn save_waits_for_a_permit_of_its_tenant_for_a_tenth_of_a_second() {
    let rig = Rig::standing("permits").await;
    let most = usize::try_from(rig.tenant.config.limits.attempts_in_flight).expect("a small number");
    let all = async || {
        let permits = rig.worker.permits(&rig.tenant, rig.clock.elapsed(), most).await;
        let mut permits = permits.expect("half of them are free");
        while permits.count() < most {
            // A permit may belong to a claim that is not settled yet.
            tokio::time::sleep(Duration::from_millis(1)).await;
            permits.grow(most);
        }
        permits
    };
    let held = all().await;
    let mut save = std::pin::pin!(rig.save());
    let moment = Duration::from_millis(50);
    assert!(tokio::time::timeout(moment, &mut save).await.is_err(), "it waits");
    drop(held);
    save.await;

    let held = all().await;
    let begun_ms = rig.clock.now_ms();
    let _slow: Vec<_> = held.assign(&rig.clock, most, 0).collect();
    let mut save = std::pin::pin!(rig.save());
    // The time advances in steps, because the save may look at the clock only now.
    while tokio::time::timeout(moment, &mut save).await.is_err() {
        rig.time.advance(Duration::from_millis(50));
    }
    assert!(rig.clock.now_ms() - begun_ms >= 100, "no sooner");
}

/// If it were free sooner, a save could get it before the schedule has a place for the delivery.
#[tokio::test(flavor = "multi_thread")]
async fn permit_of_a_claim_is_free_once_the_schedule_has_ended_the_claim() {
    let (rig, server) = (Rig::standing("permit").await, RedisServer::start(&[]));
    let url = RedisUrl::parse(&server.url()).expect("a URL");
    let redis = RedisConnection::new(url, None).expect("without TLS");
    let keys = Keys::new(None).expect("the only one");
    let schedule = Arc::new(Schedule::on_redis(redis, &keys, Owner::new(b"worker"), SHARES));
    schedule.next_due().await.expect("it responds");
    let worker = worker(&rig.clock, &rig.tenants, &schedule, 8);
    let most = usize::try_from(rig.tenant.config.limits.attempts_in_flight).expect("a small number");
    let permits = async |count: usize| {
        worker.permits(&rig.tenant, rig.clock.elapsed(), count).await.expect("they are free")
    };
    let id = DeliveryId::new(rig.clock.now(), [1; 10]);
    let entry = Entry { tenant: "uid-1".into(), webhook: "hook".into(), id };
    let hints = vec![Hint { entry, wait: Duration::ZERO }];
    let handed = worker.hand_off(hints, Some(permits(1).await)).await.1;
    assert!(handed.lease_of(id).is_some(), "it is claimed");
    server.freeze();
    let mut settled = std::pin::pin!(handed.rolled_back());
    let moment = Duration::from_millis(50);
    assert!(tokio::time::timeout(moment, &mut settled).await.is_err(), "the schedule does not respond");
    let mut free = permits(most).await;
    free.grow(most);
    assert_eq!(free.count(), most - 1);
    server.thaw();
    settled.await;
    free.grow(most);
    assert_eq!(free.count(), most);
}

/// A SIGTERM between the claim of a hand-off and its POST.
#[tokio::test(flavor = "multi_thread")]
async fn hand_off_whose_post_has_not_begun_is_given_back_uncounted() {
    let rig = Rig::standing("stopping").await;
    rig.worker.stopping.cancel();
    let id = rig.save().await;
    rig.has_due().await;
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.attempt_count), (Status::Pending, 0));
    assert!(!rig.is_leased(id).await);

    let tenants = Arc::new(Tenants::default());
    tenants.replace(vec![Arc::clone(&rig.tenant)]);
    tokio::spawn(worker(&rig.clock, &tenants, &rig.schedule, 8).run(rig.stop.clone()));
    assert_eq!(rig.attempted(id, 1).await.failure_class, Some(FailureClass::BlockedAddress));
}

/// This happens after a commit that took longer than the lease.
#[tokio::test(flavor = "multi_thread")]
async fn hand_off_whose_lease_ends_before_its_post_is_given_back_uncounted() {
    let rig = Rig::standing("slow-commit").await;
    let (save, handed) = rig.stored().await;
    rig.time.advance(LEASE);
    let id = save.hand_offs[0].id;
    handed.start([(&rig.tenant, &save)].into_iter(), rig.clock.now_ms());
    // The worker's tasks give the leases back; the claim in the schedule has expired already.
    rig.worker.tasks.close();
    rig.worker.tasks.wait().await;
    rig.worker.tasks.reopen();
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.attempt_count), (Status::Pending, 0));
    rig.run();
    assert_eq!(rig.attempted(id, 1).await.failure_class, Some(FailureClass::BlockedAddress));
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_has_ended_takes_nothing_over() {
    let rig = Rig::standing("ended").await;
    rig.stop.cancel();
    Arc::clone(&rig.worker).run(rig.stop.clone()).await;
    let id = rig.save().await;
    rig.has_due().await;
    let listed = rig.delivery(id).await;
    assert_eq!((listed.status, listed.attempt_count), (Status::Pending, 0));
    assert!(!rig.is_leased(id).await);
}

#[tokio::test]
async fn poll_claims_at_most_25_due_deliveries() {
    let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
    let clock = Clock::Manual(time.clone());
    let schedule = Arc::new(Schedule::in_memory(clock.clone(), SHARES));
    let entry = |n: u8, id: u8| Entry {
        tenant: format!("tenant-{}", n % 4).into(),
        webhook: format!("webhook-{n}").into(),
        id: DeliveryId::new(clock.now(), [id; 10]),
    };
    let hint = |n: u8, wait| Hint { entry: entry(n, n), wait };
    // Half of the webhooks are known to be quick. Of the others, 6 begin at a time.
    let quick = (0..30).map(|n| entry(n, 100 + n)).collect();
    let handed = schedule
        .hand_off(quick, Room { slots: 30, slow: 30, without_claim: 0 }, LEASE)
        .await
        .expect("claims");
    let ended =
        handed.claims.into_iter().map(|claim| Ended { claim, again: None, held: Some(Duration::ZERO) });
    schedule.settle(ended.collect()).await.expect("settles");
    let due = (0..60).map(|n| hint(n, Duration::ZERO));
    schedule.put(due.chain([hint(60, Duration::from_secs(1))]).collect()).await.expect("scheduled");
    let worker = worker(&clock, &Arc::default(), &schedule, 256);
    let mut taken = Vec::new();
    for starts_end in [false, false, false, true, true, true, true, true] {
        if starts_end {
            time.advance(admission::START);
        }
        taken.push(worker.claim_once().await.expect("claims").0);
    }
    assert_eq!(taken, [25, 11, 0, 6, 6, 6, 6, 0], "the 61st is not due");
}

#[test]
fn pauses_are_the_documented_ones() {
    assert_eq!([SCHEDULE_AWAY, SLOW_FULL].map(|pause| pause.as_millis()), [1_000, 100]);
}

#[test]
fn a_claim_that_left_room_for_all_is_not_repeated_at_once() {
    let room = |slots, slow, without_claim| Room { slots, slow, without_claim };
    assert!(!may_have_left_some(3, room(22, 6, 2)));
    assert!(may_have_left_some(25, room(0, 0, 0)));
    assert!(may_have_left_some(3, room(22, 2, 2)), "slow ones of tenants that have a claim");
    assert!(!may_have_left_some(0, room(25, 0, 0)));
}

#[test]
fn slots_for_tenants_without_a_claim_alone_are_no_reason_to_ask_without_a_pause() {
    let poll = POLL_INTERVAL;
    let room = |slots, slow, without_claim| Room { slots, slow, without_claim };
    let due = Some(Duration::ZERO);
    assert_eq!(pause(room(25, 10, 2), due, poll), Duration::ZERO);
    assert_eq!(pause(room(25, 10, 2), None, poll), LOOK_EVERY);
    // The due deliveries are of tenants that have a claim, so the worker waits for a slow slot.
    assert_eq!(pause(room(25, 2, 2), due, poll), SLOW_FULL);
    // No attempt may start now: the worker waits until others have started.
    assert_eq!(pause(room(25, 0, 0), due, poll), admission::START);
    assert_eq!(pause(room(25, 2, 2), Some(Duration::from_secs(1)), poll), Duration::from_secs(1));
    assert_eq!(pause(room(0, 0, 0), due, poll), SLOW_FULL);
}
