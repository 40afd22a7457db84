//! The rows of one history in a real database, through the functions that the data plane calls.

use std::time::Duration;

use docket_crds::EventCode;
use docket_domain::delivery::{self, DeliveryId, Due, Next, Outcome, Status};
use docket_domain::event::EventId;
use docket_domain::order_type::OrderType;
use docket_model::state::{Place, Row, RowLease, TaskId};
use docket_program::clock::{Clock, duration};
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase, delivery_id, event_id, new_delivery};
use docket_store::deliveries::{self, End, EndResult, Held, Lease, NewDelivery, NewHandOff, Started};
use docket_store::events::{self, About, Event};
use docket_store::idempotency::{self, KeptAnswer, ToKeep};
use docket_store::orders::{OrderHead, OrderStatus, StoredOrder};
use docket_store::saves::{self, Save};
use docket_store::sql::Param;
use docket_store::{StoreError, Transaction};

use crate::{TICK, TICK_MS, ticks};

/// The base of the backoff: the fourth wait, sixteen times as long with its spread, is less than a tick.
const BACKOFF_BASE: Duration = Duration::from_secs(180);

/// The rows of one history.
pub(crate) struct Rows<'a> {
    database: &'a TenantDatabase,
    number: u16,
    /// The ids of the deliveries.
    pub(crate) ids: [DeliveryId; 2],
    /// The webhook's key.
    pub(crate) webhook: String,
    webhook_name: String,
}

/// What followed when a worker tried to begin an attempt.
pub(crate) enum Begun {
    /// The attempt is begun, under this lease.
    Attempt(Started, Lease),
    /// The attempt is not begun. Holds the time until the delivery is due again; `None`: the delivery is final.
    Refused(Option<Duration>),
}

impl<'a> Rows<'a> {
    /// Rows that no other history with another number has.
    pub(crate) fn new(database: &'a TenantDatabase, number: u16) -> Self {
        let webhook_name = format!("smith/orders-{number}");
        Self {
            database,
            number,
            ids: [2 * number, 2 * number + 1].map(delivery_id),
            webhook: format!("{webhook_name}/{CUSTOMER}"),
            webhook_name,
        }
    }

    async fn begin_transaction(&self) -> Transaction {
        self.database.database.begin(&Clock::System).await.expect("a connection")
    }

    fn event_id(&self, place: usize) -> EventId {
        event_id(2 * self.number + u16::from(place == 1))
    }

    fn event(&self, place: usize) -> Event {
        let number = self.number;
        Event {
            id: self.event_id(place),
            code: EventCode::OrderCreated,
            customer_code: CUSTOMER.into(),
            about: About::web_order(&format!("H{number}")),
            body: format!("{{\"history\":{number}}}").into(),
        }
    }

    fn new_delivery(&self, place: usize, of_event: usize) -> NewDelivery {
        NewDelivery {
            webhook: self.webhook.clone(),
            webhook_name: self.webhook_name.clone(),
            ..new_delivery(self.ids[place], &self.event_id(of_event))
        }
    }

    fn to_keep(&self) -> ToKeep {
        let kept = KeptAnswer {
            route: "/Orders/Save".into(),
            request_digest: "00".into(),
            status: 200,
            body: "{}".into(),
        };
        ToKeep { caller: "contact C1".into(), key: format!("history {}", self.number), kept }
    }

    /// Stores an order with one event and `count` deliveries, in one transaction. Returns the time of the transaction.
    pub(crate) async fn save(&self, count: usize, hand_off: Option<&Lease>) -> Result<i64, StoreError> {
        let writer = self.database.database.writer().await?;
        let (transaction, _) = saves::begin(writer, &Clock::System, 1).await?;
        let head = OrderHead {
            id: format!("H{}", self.number),
            order_type: OrderType::Process,
            customer_code: CUSTOMER.into(),
            status: OrderStatus::Draft,
            finalized: None,
            case_number: None,
            caption: None,
            client_matter_number: None,
            created_at_ms: T0,
            updated_at_ms: T0,
            exported_at_ms: None,
            version: 1,
        };
        let order =
            StoredOrder { head, body: "{}".into(), search_text: String::new(), external_reference: None };
        let all: Vec<NewDelivery> = (0..count).map(|place| self.new_delivery(place, 0)).collect();
        let handed_off = |lease: &Lease| {
            let of = |NewDelivery { id, webhook, webhook_name, .. }: &NewDelivery| NewHandOff {
                id: *id,
                webhook: webhook.clone(),
                webhook_name: webhook_name.clone(),
                lease: lease.clone(),
            };
            all.iter().map(of).collect::<Vec<_>>()
        };
        let hand_offs: Vec<NewHandOff> = hand_off.map(handed_off).unwrap_or_default();
        let queued = if hand_off.is_some() { Vec::new() } else { all };
        let to_keep = Some(self.to_keep());
        let save = Save { order, event: Some(self.event(0)), deliveries: queued, hand_offs, to_keep };
        let at_ms = transaction.now_ms();
        saves::commit(transaction, &[save]).await?;
        Ok(at_ms)
    }

    /// Like [`save`](Self::save), while another request has the same Idempotency-Key, so that the save is refused.
    pub(crate) async fn refused_save(&self, count: usize, hand_off: Option<&Lease>) {
        let to_keep = self.to_keep();
        self.database.write(async |t| idempotency::keep(t, &to_keep, T0).await).await;
        let refused = self.save(count, hand_off).await;
        assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
    }

    /// Publishes the event of a delivery under a key, which all publications of a history share. Returns what is to be scheduled.
    pub(crate) async fn publish(&self, place: usize, commits: bool) -> Vec<(DeliveryId, Duration)> {
        let (event, key) = (self.event(place), format!("key {}", self.number));
        let new = NewDelivery { idempotency_key: Some(key.clone()), ..self.new_delivery(place, place) };
        let mut transaction = self.begin_transaction().await;
        let now_ms = transaction.now_ms();
        events::insert(&mut transaction, &event, now_ms).await.expect("a new event");
        let inserted = deliveries::insert(&mut transaction, &new, now_ms).await.expect("a statement");
        let due = if inserted {
            Some(Due { id: new.id, webhook: new.webhook, at_ms: now_ms })
        } else {
            events::delete(&mut transaction, &event.id).await.expect("a statement");
            deliveries::due_by_key(&mut transaction, &self.webhook, &key).await.expect("a statement")
        };
        match commits {
            true => transaction.commit().await.expect("a commit"),
            false => transaction.rollback().await.expect("a rollback"),
        }
        due.into_iter().map(|due| (due.id, duration(due.at_ms - now_ms))).collect()
    }

    /// The first attempt of a delivery that was saved as a hand-off at this time.
    pub(crate) fn first_attempt(&self, place: usize, at_ms: i64) -> Started {
        let event_id = self.event_id(0).as_str().to_owned();
        Started { id: self.ids[place], event_id, webhook: self.webhook.clone(), attempt: 1, at_ms }
    }

    /// Begins an attempt as `attempt/begin` does.
    pub(crate) async fn begin(&self, place: usize, lease: Lease) -> Begun {
        let ids = [self.ids[place]];
        let mut transaction = self.begin_transaction().await;
        let now = transaction.now();
        let now_ms = now.as_millisecond();
        let started = deliveries::begin_attempts(&mut transaction, &ids, &lease, now_ms).await;
        if let Some(started) = started.expect("a statement").pop() {
            let sent = events::to_send(&mut transaction, std::slice::from_ref(&started.event_id)).await;
            let mut sent = sent.expect("a statement");
            transaction.commit().await.expect("a commit");
            // The same bytes under the same event id.
            let bytes = sent.remove(&started.event_id).and_then(|event| event.body);
            assert_eq!(bytes, Some(self.event(0).body));
            return Begun::Attempt(started, lease);
        }
        let lost = deliveries::end_lost_attempts(&mut transaction, &ids, BACKOFF_BASE, now).await;
        lost.expect("statements");
        let left = deliveries::due_again(&mut transaction, &ids).await.expect("a statement");
        transaction.commit().await.expect("a commit");
        Begun::Refused(left.first().map(|due| duration(due.at_ms - now_ms)))
    }

    fn held<'b>(&'b self, started: &Started, lease: &'b Lease) -> Held<'b> {
        Held { id: started.id, webhook: &self.webhook, lease }
    }

    /// Gives an attempt back.
    pub(crate) async fn give_back(&self, started: &Started, lease: &Lease) {
        let held = self.held(started, lease);
        self.database.write(async |t| deliveries::give_back(t, &held).await).await;
    }

    /// Renews a lease.
    pub(crate) async fn renew(&self, started: &Started, lease: &Lease) {
        let held = [self.held(started, lease)];
        let mut transaction = self.begin_transaction().await;
        let until_ms = transaction.now_ms() + TICK_MS;
        deliveries::renew(&mut transaction, &held, until_ms).await.expect("statements");
        transaction.commit().await.expect("a commit");
    }

    /// Stores the end of an attempt. Returns the time until the delivery is due again, unless it is final.
    pub(crate) async fn finish(&self, end: End, again: bool) -> Option<Duration> {
        let writer = self.database.database.writer().await.expect("a connection");
        let (started, outcome): (&Started, &Outcome) = (&end.started, &end.outcome);
        let next = |_, now| -> Next {
            delivery::after_attempt(started.id, outcome, started.attempt, now, BACKOFF_BASE)
        };
        let ends = std::slice::from_ref(&end);
        let stored = deliveries::finish_attempts(writer, &Clock::System, ends, again, next).await;
        match stored.expect("statements")[0] {
            EndResult::Next(_, wait) => wait,
            EndResult::LeaseLost => Some(TICK),
        }
    }

    /// Reads the queue as a sweep does. Returns the time until each delivery is due, for the schedule.
    pub(crate) async fn sweep(&self, is_served: bool) -> Vec<(DeliveryId, Duration)> {
        self.database.write(async |t| deliveries::queue_unfinished(t, None).await).await;
        let mut transaction = self.begin_transaction().await;
        let now_ms = transaction.now_ms();
        let mut page = deliveries::unfinished(&mut transaction, None, 10_000).await.expect("a statement");
        page.retain(|due| self.ids.contains(&due.id));
        let mut due = Vec::new();
        if is_served {
            let webhook = [self.webhook.as_str()];
            deliveries::forget_missing(&mut transaction, webhook).await.expect("a statement");
            due.extend(page.iter().map(|due| (due.id, duration(due.at_ms - now_ms))));
        } else if !page.is_empty() {
            let webhook = [self.webhook.as_str()];
            deliveries::note_missing(&mut transaction, webhook, now_ms, 0).await.expect("statements");
            let ids: Vec<DeliveryId> = page.iter().map(|due| due.id).collect();
            let since_ms = now_ms - TICK_MS;
            // That a new delivery waits for two minutes is not in the model.
            let ended =
                deliveries::end_without_webhook(&mut transaction, &ids, since_ms, i64::MAX, now_ms).await;
            ended.expect("statements");
        }
        transaction.commit().await.expect("a commit");
        due
    }

    /// Moves the times of all rows, as if a tick had passed or, with `back`, as if the clock was set back by a tick.
    pub(crate) async fn tick(&self, back: bool) {
        let mut transaction = self.begin_transaction().await;
        let now_ms = transaction.now_ms();
        // Time that has passed does not count further in the model, so a clock that is set back makes up for one tick only.
        let moved = |column: &str, floor_ms: i64| match back {
            false => format!("{column} = {column} - {TICK_MS}"),
            true => format!(
                "{column} = {TICK_MS} + CASE WHEN {column} < {floor_ms} THEN {floor_ms} ELSE {column} END"
            ),
        };
        let (due, lease) = (moved("due_at_ms", now_ms), moved("lease_until_ms", now_ms - TICK_MS));
        let (first, since) = (moved("started_at_ms", now_ms), moved("since_ms", now_ms));
        for sql in [
            format!("UPDATE delivery_queue SET {due}, {lease}"),
            format!("UPDATE hand_off SET {first}, {lease}"),
            format!("UPDATE missing_webhook SET {since}"),
        ] {
            transaction.execute(&sql, Vec::new()).await.expect("a statement");
        }
        transaction.commit().await.expect("a commit");
    }

    /// The rows, as the model has them. `tokens`: the token of each task.
    pub(crate) async fn read(&self, tokens: &[Option<String>]) -> [Row; 2] {
        let mut transaction = self.begin_transaction().await;
        let mut rows = [Row::default(); 2];
        for (row, id) in rows.iter_mut().zip(self.ids) {
            *row = read(&mut transaction, id, tokens).await.expect("statements");
        }
        transaction.rollback().await.expect("a rollback");
        rows
    }
}

async fn read(
    transaction: &mut Transaction,
    id: DeliveryId,
    tokens: &[Option<String>],
) -> Result<Row, StoreError> {
    let now_ms = transaction.now_ms();
    let id = || vec![Param::from(id.to_string())];
    let sql =
        "SELECT status, attempt_count, due_at_ms, lease_token, lease_until_ms FROM delivery WHERE id = $1";
    let Some(found) = transaction.query_opt(sql, id()).await? else { return Ok(Row::default()) };
    let sql = "SELECT lost_count FROM delivery_queue WHERE id = $1";
    let queued = transaction.query_opt(sql, id()).await?;
    let attempts = u8::try_from(found.get::<i64>(1)?).expect("at most five");
    let status: Status = found.get::<String>(0)?.parse().expect("a status");
    let place = match (status, &queued) {
        (Status::Succeeded, _) => Place::Succeeded,
        (Status::DeadLetter, _) => Place::DeadLetter,
        (_, Some(_)) => Place::Queue,
        (_, None) => Place::HandOff,
    };
    if place.is_final() {
        return Ok(Row { place, attempts, ..Row::default() });
    }
    let lost = queued.map(|row| row.get::<i64>(0)).transpose()?;
    let holder = |token: &str| tokens.iter().position(|held| held.as_deref() == Some(token));
    let lease = match (found.get::<Option<String>>(3)?, found.get::<Option<i64>>(4)?) {
        (Some(token), Some(until_ms)) => Some(RowLease {
            holder: holder(&token).and_then(|place| TaskId::try_from(place).ok()),
            left: ticks(until_ms - now_ms).max(-1),
        }),
        _ => None,
    };
    let due = ticks(found.get::<i64>(2)? - now_ms).max(0);
    Ok(Row { place, attempts, has_lost: lost.is_some_and(|lost| lost > 0), due, lease })
}
