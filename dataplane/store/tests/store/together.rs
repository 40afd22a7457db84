//! Several results in one transaction: the ends of attempts, and the saves of requests. Each has its own result.

use std::time::Duration;

use docket_crds::EventCode;
use docket_domain::delivery::{FailureClass, Next, Outcome, Report, Status};
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_rig::tenant_database::{
    CUSTOMER, Place, T0, TenantDatabase, at, delivery_id, end, event_id, held, lease, new_delivery,
};
use docket_rig::{on_both_databases, postgres};
use docket_store::deliveries::{self, End, EndResult, Lease, NewHandOff, Started};
use docket_store::events::{About, Event};
use docket_store::idempotency::{self, KeptAnswer, ToKeep};
use docket_store::saves::{self, Save};
use docket_store::{Database, StoreError, Transaction, orders};
use jiff::Timestamp;

use super::orders::order;

on_both_databases!(
    ends_of_one_call_have_each_their_own_result,
    an_end_that_was_stored_already_is_stored_once_however_often_it_comes,
    a_retry_waits_from_the_time_of_its_transaction,
    no_ends_are_stored_without_an_error,
    saves_of_one_group_are_stored_with_all_that_belongs_to_them,
    a_group_with_a_violation_stores_nothing,
    numbers_of_a_group_that_is_not_committed_are_left_out_on_postgresql,
    two_groups_of_a_tenant_are_stored_at_once_on_postgresql,
    ends_and_renewals_lock_their_rows_in_one_order_on_postgresql,
    groups_keep_answers_in_one_order_on_postgresql,
);

async fn begin(database: &Database, count: usize) -> Result<(Transaction, i64), StoreError> {
    saves::begin(database.writer().await?, &Clock::System, count).await
}

async fn finish_attempts(
    database: &Database,
    ends: &[End],
    next: impl Fn(usize, Timestamp) -> Next,
) -> Result<Vec<EndResult>, StoreError> {
    deliveries::finish_attempts(database.writer().await?, &Clock::System, ends, false, next).await
}

fn succeeded() -> Outcome {
    Outcome::Succeeded(Report { http_status: Some(204), ..Report::default() })
}

fn failed() -> Outcome {
    Outcome::Failed(FailureClass::ServerError, Report { http_status: Some(500), ..Report::default() })
}

/// The situation of an end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    Success,
    Retry,
    Dead,
    /// Another worker has taken the delivery over.
    Lost(Next),
    /// An earlier commit, whose response was lost, has stored the end.
    Stored(Next),
}

const LATER: i64 = T0 + 60_000;

impl Case {
    /// Several ends of each case, and more successes than one statement for SQLite has rows.
    fn of(place: usize) -> Self {
        match place {
            3 | 41 => Self::Lost(Next::Succeeded),
            4 | 42 => Self::Lost(Next::RetryAt(at(LATER))),
            5 | 43 => Self::Lost(Next::DeadLetter),
            6 | 44 => Self::Stored(Next::Succeeded),
            7 | 45 => Self::Stored(Next::RetryAt(at(LATER))),
            8 | 46 => Self::Stored(Next::DeadLetter),
            9 | 70 => Self::Retry,
            10 | 71 => Self::Dead,
            _ => Self::Success,
        }
    }

    fn next(self) -> Next {
        match self {
            Self::Success => Next::Succeeded,
            Self::Retry => Next::RetryAt(at(LATER)),
            Self::Dead => Next::DeadLetter,
            Self::Lost(next) | Self::Stored(next) => next,
        }
    }

    fn outcome(self) -> Outcome {
        if self.next() == Next::Succeeded { succeeded() } else { failed() }
    }
}

async fn ends_of_one_call_have_each_their_own_result(rig: TenantDatabase) {
    let ids = rig.queued(90, T0).await;
    let mut started = rig.begin(&ids, "mine", T0, T0 + 4).await;
    started.sort_by_key(|started| started.id);
    let cases: Vec<Case> = (0..90).map(Case::of).collect();
    let mut before = Vec::new();
    for ((id, started), case) in ids.iter().zip(&started).zip(&cases) {
        match case {
            Case::Lost(_) => assert_eq!(rig.begin(&[*id], "theirs", T0 + 4, T0 + 8).await.len(), 1),
            Case::Stored(next) => {
                assert!(rig.finish(started, "mine", &case.outcome(), *next, T0 + 1).await);
            }
            _ => continue,
        }
        before.push((*id, rig.picture(*id).await));
    }
    let ends: Vec<End> =
        started.iter().zip(&cases).map(|(started, case)| end(started, "mine", &case.outcome())).collect();
    let stored = finish_attempts(&rig.database, &ends, |place, _| cases[place].next());
    let stored = stored.await.expect("stored");

    assert_eq!(stored.len(), 90);
    for ((id, case), stored) in ids.iter().zip(&cases).zip(stored) {
        match (case, stored) {
            (Case::Lost(_), stored) => assert_eq!(stored, EndResult::LeaseLost, "{case:?}"),
            (_, EndResult::Next(next, wait)) => {
                assert_eq!((next, wait.is_some()), (case.next(), matches!(next, Next::RetryAt(_))));
            }
            (case, stored) => panic!("{case:?} {stored:?}"),
        }
        let row = rig.delivery(*id).await;
        let attempts = rig.attempts(*id).await;
        match case {
            Case::Success => {
                assert_eq!((row.status, row.http_status), (Status::Succeeded, Some(204)));
                assert_eq!((attempts.len(), attempts[0].failure_class), (1, None));
            }
            Case::Retry => {
                assert_eq!((row.status, row.due_at_ms), (Status::Failed, LATER));
                assert_eq!(rig.lease(*id).await, (None, None));
            }
            Case::Dead => assert_eq!(row.status, Status::DeadLetter),
            Case::Lost(_) | Case::Stored(_) => continue,
        }
        if *case != Case::Success {
            assert_eq!((row.failure_class, row.http_status), (Some(FailureClass::ServerError), Some(500)));
            assert_eq!((attempts.len(), attempts[0].http_status), (1, Some(500)), "{case:?}");
        }
    }
    for (id, picture) in before {
        assert_eq!(rig.picture(id).await, picture);
    }
}

async fn an_end_that_was_stored_already_is_stored_once_however_often_it_comes(rig: TenantDatabase) {
    let ids = rig.queued(3, T0).await;
    let mut started = rig.begin(&ids, "mine", T0, T0 + 4).await;
    started.sort_by_key(|started| started.id);
    let nexts = [Next::Succeeded, Next::RetryAt(at(LATER)), Next::DeadLetter];
    let outcomes = [succeeded(), failed(), failed()];
    let ends: Vec<End> =
        started.iter().zip(&outcomes).map(|(started, outcome)| end(started, "mine", outcome)).collect();
    let mut pictures = Vec::new();
    for _ in 0..3 {
        let stored = finish_attempts(&rig.database, &ends, |place, _| nexts[place]);
        let stored = stored.await.expect("stored");
        let nexts_stored: Vec<Option<Next>> = stored
            .iter()
            .map(|stored| match stored {
                EndResult::Next(next, _) => Some(*next),
                EndResult::LeaseLost => None,
            })
            .collect();
        assert_eq!(nexts_stored, nexts.map(Some));
        let mut picture = Vec::new();
        for id in &ids {
            picture.push(rig.picture(*id).await);
        }
        pictures.push(picture);
    }
    assert_eq!(pictures[1], pictures[0]);
    assert_eq!(pictures[2], pictures[0]);
    assert_eq!(rig.number("SELECT count(*) FROM attempt").await, 3);
}

async fn a_retry_waits_from_the_time_of_its_transaction(rig: TenantDatabase) {
    let ids = rig.queued(1, T0).await;
    let started = rig.begin(&ids, "mine", T0, T0 + 4).await;
    let ends = [end(&started[0], "mine", &failed())];
    let minute = Duration::from_secs(60);
    let stored = finish_attempts(&rig.database, &ends, |_, now| Next::RetryAt(now + minute)).await;
    let stored = stored.expect("stored");
    assert!(matches!(stored[..], [EndResult::Next(_, Some(wait))] if wait == minute), "{stored:?}");
}

async fn no_ends_are_stored_without_an_error(rig: TenantDatabase) {
    let stored = finish_attempts(&rig.database, &[], |_, _| Next::Succeeded);
    assert_eq!(stored.await.expect("nothing to do"), []);
    let unknown = Started {
        id: delivery_id(999),
        event_id: String::new(),
        webhook: String::new(),
        attempt: 1,
        at_ms: T0,
    };
    let ends = [end(&unknown, "mine", &succeeded())];
    let stored = finish_attempts(&rig.database, &ends, |_, _| Next::Succeeded);
    assert_eq!(stored.await.expect("nothing is changed"), [EndResult::LeaseLost]);
}

/// A save of the order `number`, with an event, two deliveries and a response to keep. The first delivery is a hand-off.
pub(super) fn save(number: u16) -> Save {
    let id = event_id(number);
    let web_order_id = format!("W{number:08}");
    let new = new_delivery(delivery_id(2 * number), &id);
    let (webhook, webhook_name) = (new.webhook, new.webhook_name);
    let first = NewHandOff { id: new.id, webhook, webhook_name, lease: lease_of_batch(0, 1) };
    let second = deliveries::NewDelivery {
        webhook: "smith/another/SMITH".into(),
        webhook_name: "smith/another".into(),
        ..new_delivery(delivery_id(2 * number + 1), &id)
    };
    let event = Event {
        id,
        code: EventCode::OrderCreated,
        customer_code: CUSTOMER.into(),
        about: About::web_order(&web_order_id),
        body: format!("{{\"number\":{number}}}").into(),
    };
    let kept = KeptAnswer {
        route: "/Orders/Save".into(),
        request_digest: "00".into(),
        status: 200,
        body: format!("answer {number}"),
    };
    Save {
        order: order(&web_order_id),
        event: Some(event),
        deliveries: vec![second],
        hand_offs: vec![first],
        to_keep: Some(ToKeep { caller: "contact C1".into(), key: format!("key {number}"), kept }),
    }
}

/// Commits these saves in one transaction. Their hand-offs are a batch of their own.
pub(super) async fn commit(rig: &TenantDatabase, saves: &[Save]) -> (i64, Result<(), StoreError>) {
    let begun = begin(&rig.database, saves.len()).await;
    let (transaction, first) = begun.expect("the numbers are there");
    let mut saves = saves.to_vec();
    let count = saves.iter().map(|save| save.hand_offs.len()).sum();
    for hand_off in saves.iter_mut().flat_map(|save| &mut save.hand_offs) {
        hand_off.lease = lease_of_batch(first.unsigned_abs(), count);
    }
    (first, saves::commit(transaction, &saves).await)
}

/// The lease of one batch of `count` hand-offs of the process `mine`.
pub(super) fn lease_of_batch(batch: u64, count: usize) -> Lease {
    let owner = Owner { process: "mine".into(), incarnation: "1".into() };
    Lease::new(&owner, batch, Duration::from_secs(4)).of_first_attempts(count)
}

/// The numbers of rows in the tables that a save writes.
async fn rows(rig: &TenantDatabase) -> [i64; 5] {
    let mut counts = [0; 5];
    let tables = ["web_order", "event", "delivery", "attempt", "idempotency"];
    for (count, table) in counts.iter_mut().zip(tables) {
        *count = rig.number(&format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

async fn saves_of_one_group_are_stored_with_all_that_belongs_to_them(rig: TenantDatabase) {
    // More saves than one statement for SQLite has rows. One has no event, one has no response.
    let mut group: Vec<Save> = (1..=70).map(save).collect();
    group[5] = Save { event: None, deliveries: Vec::new(), hand_offs: Vec::new(), ..save(6) };
    group[6].to_keep = None;
    let (first, committed) = commit(&rig, &group).await;
    committed.expect("all are sound");
    assert_eq!(first, 1);
    assert_eq!(rows(&rig).await, [70, 69, 138, 69, 69]);
    let mut reader = rig.reader().await;
    for number in [1, 40, 70] {
        let stored = orders::find(&mut reader, &format!("W{number:08}"), None).await.expect("a statement");
        assert!(stored.is_some(), "{number}");
        let kept = idempotency::find(&mut reader, "contact C1", &format!("key {number}")).await;
        assert_eq!(kept.expect("a statement").expect("kept").body, format!("answer {number}"));
        let (leased, queued) = (delivery_id(2 * number), delivery_id(2 * number + 1));
        let row = rig.delivery(leased).await;
        assert_eq!((row.status, row.attempt_count), (Status::Pending, 1));
        assert_eq!((row.about.shown(), row.due_at_ms), (format!("W{number:08}").as_str(), row.created_at_ms));
        assert_eq!(rig.lease(leased).await, (Some("mine".into()), Some(row.created_at_ms + 4_000)));
        let attempt = rig.attempts(leased).await.remove(0);
        assert_eq!((attempt.started_at_ms, attempt.finished_at_ms), (row.created_at_ms, None));
        let row = rig.delivery(queued).await;
        assert_eq!(
            (row.status, row.attempt_count, row.webhook.as_str()),
            (Status::Pending, 0, "smith/another/SMITH")
        );
        assert_eq!(rig.lease(queued).await, (None, None));
    }
    let next = begin(&rig.database, 1).await.expect("a number");
    assert_eq!(next.1, 71);
}

async fn a_group_with_a_violation_stores_nothing(rig: TenantDatabase) {
    let (_, committed) = commit(&rig, &[save(1)]).await;
    committed.expect("it is sound");
    let before = rows(&rig).await;
    let unknown_customer = |save: &mut Save| save.order.head.customer_code = "UNKNOWN".into();
    let known_key = |save: &mut Save| {
        save.to_keep.iter_mut().for_each(|to_keep| to_keep.key = "key 1".into());
    };
    let same_key = |save: &mut Save| {
        save.to_keep.iter_mut().for_each(|to_keep| to_keep.key = "key 2".into());
    };
    let known_order = |save: &mut Save| save.order.head.id = "W00000001".into();
    let known_event = |save: &mut Save| save.event.iter_mut().for_each(|event| event.id = event_id(1));
    type Violation<'a> = (&'a str, &'a dyn Fn(&mut Save));
    let violations: [Violation<'_>; 5] = [
        ("the customer of an employee is unknown", &unknown_customer),
        ("an answer is kept under the key already", &known_key),
        ("two of the group have the same key", &same_key),
        ("the order is there already", &known_order),
        ("the event is there already", &known_event),
    ];
    let mut next = 2;
    for (why, violate) in violations {
        for place in [0, 3, 7] {
            let mut group: Vec<Save> = (2..10).map(save).collect();
            if place == 0 && why.starts_with("two") {
                continue;
            }
            violate(&mut group[place]);
            let (first, committed) = commit(&rig, &group).await;
            assert!(matches!(committed, Err(StoreError::Conflict)), "{why}: {committed:?}");
            assert_eq!((rows(&rig).await, first), (before, next), "{why}");
            if is_postgres(&rig) {
                next += 8;
            }
        }
    }
    // The other saves succeed without the bad one.
    let others: Vec<Save> = (3..10).map(save).collect();
    commit(&rig, &others).await.1.expect("all are sound");
    assert_eq!(rows(&rig).await[0], 8);
}

async fn numbers_of_a_group_that_is_not_committed_are_left_out_on_postgresql(rig: TenantDatabase) {
    let left_out = if is_postgres(&rig) { 5 } else { 0 };
    for round in 0..3 {
        let begun = begin(&rig.database, 5).await.expect("numbers");
        assert_eq!(begun.1, 1 + left_out * round);
    }
    let (transaction, first) = begin(&rig.database, 2).await.expect("numbers");
    saves::commit(transaction, &[]).await.expect("nothing to store");
    let begun = tokio::time::timeout(Duration::from_secs(5), begin(&rig.database, 1));
    assert_eq!(begun.await.expect("soon").expect("numbers").1, first + 2);
}

async fn two_groups_of_a_tenant_are_stored_at_once_on_postgresql(rig: TenantDatabase) {
    if !is_postgres(&rig) {
        return; // a file has one writer at a time
    }
    let (first, number) = begin(&rig.database, 2).await.expect("numbers");
    let saves = [save(3)];
    let second = tokio::time::timeout(Duration::from_secs(5), commit(&rig, &saves));
    let (later, committed) = second.await.expect("it does not wait for the first");
    committed.expect("it is sound");
    assert_eq!((number, later), (1, 3));
    saves::commit(first, &[save(1), save(2)]).await.expect("both are sound");
    assert_eq!(rows(&rig).await[0], 3);
}

/// Runs two calls on PostgreSQL. Another transaction has run the statement `middle`, and keeps the call `one` back among its rows, then
/// `other` too. If the two lock rows in different orders, each waits for the other after that, and PostgreSQL ends one of them.
async fn crossing<A, B>(
    url: &str,
    middle: &str,
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> (A, B) {
    let (holder, watcher) = (postgres::client(url).await, postgres::client(url).await);
    holder.batch_execute(&format!("BEGIN; {middle}")).await.expect("free rows");
    let later = async {
        postgres::lock_waits(&watcher, 1).await;
        other.await
    };
    let release = async {
        postgres::lock_waits(&watcher, 2).await;
        holder.batch_execute("ROLLBACK").await.expect("a rollback");
    };
    let (one, other, ()) = tokio::join!(one, later, release);
    (one, other)
}

/// The rows are more than a statement for leases has.
async fn ends_and_renewals_lock_their_rows_in_one_order_on_postgresql(rig: TenantDatabase) {
    let Place::Url(url) = &rig.place else {
        return; // a file has one writer at a time
    };
    let ids = rig.queued(60, T0).await;
    let middle = format!("SELECT 1 FROM delivery_queue WHERE id = '{}' FOR UPDATE", ids[30]);
    let later = |_: usize, _: Timestamp| Next::RetryAt(at(T0));

    let mut started = rig.begin(&ids, "mine", T0, T0 + 4).await;
    started.sort_by_key(|started| started.id);
    let ends: Vec<End> = started.iter().map(|started| end(started, "mine", &failed())).collect();
    let reversed: Vec<End> = ends.iter().rev().cloned().collect();
    let (one, other) = crossing(
        url,
        &middle,
        finish_attempts(&rig.database, &reversed, later),
        finish_attempts(&rig.database, &ends, later),
    )
    .await;
    assert_eq!((one.expect("its turn").len(), other.expect("its turn").len()), (60, 60));

    let mut started = rig.begin(&ids, "mine", T0, T0 + 4).await;
    started.sort_by_key(|started| started.id);
    let ends: Vec<End> = started.iter().map(|started| end(started, "mine", &failed())).collect();
    let (lease, reversed) = (lease("mine", 0), ids.iter().rev().copied().collect::<Vec<_>>());
    let held = held(&lease, &reversed);
    let (one, other) = crossing(
        url,
        &middle,
        finish_attempts(&rig.database, &ends, later),
        rig.try_write(async |t| deliveries::renew(t, &held, T0 + 9).await),
    )
    .await;
    assert_eq!(one.expect("its turn").len(), 60);
    other.expect("its turn");
}

async fn groups_keep_answers_in_one_order_on_postgresql(rig: TenantDatabase) {
    let Place::Url(url) = &rig.place else {
        return; // a file has one writer at a time
    };
    let middle = "INSERT INTO idempotency (caller, key, route, request_digest, answer_status, answer_body, created_at_ms) \
                  VALUES ('contact C1', 'b', '/Orders/Save', '00', 200, '', 0)";
    let group = |first: u16, keys: [&str; 3]| -> Vec<Save> {
        let keyed = |(number, key): (u16, &str)| {
            let mut save = save(number);
            save.to_keep.iter_mut().for_each(|to_keep| to_keep.key = key.into());
            save
        };
        (first..).zip(keys).map(keyed).collect()
    };
    let (first, second) = (group(1, ["a", "b", "c"]), group(4, ["c", "b", "a"]));
    let ((_, one), (_, other)) = crossing(url, middle, commit(&rig, &first), commit(&rig, &second)).await;
    one.expect("its turn");
    assert!(matches!(other, Err(StoreError::Conflict)), "{other:?}");
}

fn is_postgres(rig: &TenantDatabase) -> bool {
    matches!(rig.database, Database::Postgres(_))
}
