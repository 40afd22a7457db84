//! Hand-offs: shown and taken over like all deliveries, and never sent or stored twice.

use std::time::Duration;

use docket_domain::delivery::{DeliveryId, FailureClass, Next, Outcome, Report, Status};
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{TenantDatabase, at, delivery_id, event_id, held};
use docket_store::deliveries::{
    self, DeliveryFilter, End, EndResult, EndedLeases, Lease, NewHandOff, Started,
};
use docket_store::saves::Save;
use docket_store::{Database, StoreError, health, retention};

use super::together::{commit, lease_of_batch, save};

on_both_databases!(
    a_hand_off_is_shown_as_a_delivery_under_way,
    successes_go_to_the_history_and_the_last_one_takes_the_row_with_it,
    a_failure_moves_its_batch_to_the_queue,
    a_success_after_the_move_counts,
    hand_offs_of_a_dead_process_are_taken_over,
    an_end_that_was_stored_without_a_response_is_stored_once,
    a_renewed_hand_off_is_in_the_queue,
    a_hand_off_given_back_does_not_count,
    the_event_of_a_hand_off_stays,
    hand_offs_to_several_webhooks_have_a_row_each,
    a_delivery_that_ends_while_its_batch_moves_is_there_once,
);

/// Commits saves of these orders. Returns the attempts that began, one per order, and their lease.
async fn handed_off(rig: &TenantDatabase, numbers: std::ops::RangeInclusive<u16>) -> HandedOff {
    let mut saves: Vec<Save> = numbers.clone().map(save).collect();
    saves.iter_mut().for_each(|save| save.deliveries.clear());
    let (first, committed) = commit(rig, &saves).await;
    committed.expect("they are sound");
    let mut started = Vec::new();
    for number in numbers {
        let row = rig.delivery(delivery_id(2 * number)).await;
        let id = row.id.parse().expect("an id");
        let (event_id, webhook, at_ms) = (row.event_id, row.webhook, row.created_at_ms);
        started.push(Started { id, event_id, webhook, attempt: 1, at_ms });
    }
    let lease = lease_of_batch(first.unsigned_abs(), started.len());
    HandedOff { started, lease }
}

/// The attempts of a batch of hand-offs.
struct HandedOff {
    started: Vec<Started>,
    lease: Lease,
}

impl HandedOff {
    fn succeeded(&self, place: usize) -> End {
        self.ended(place, Outcome::Succeeded(Report { http_status: Some(204), ..Report::default() }))
    }

    fn all_succeeded(&self) -> Vec<End> {
        (0..self.started.len()).map(|place| self.succeeded(place)).collect()
    }

    fn failed(&self, place: usize) -> End {
        self.ended(place, Outcome::Failed(FailureClass::ServerError, Report::default()))
    }

    fn ended(&self, place: usize, outcome: Outcome) -> End {
        self.lease.end(self.started[place].clone(), outcome)
    }
}

/// What follows: a failure is retried a second later.
async fn finish(rig: &TenantDatabase, ends: &[End], again: bool) -> Vec<EndResult> {
    try_finish(&rig.database, ends, again).await.expect("statements")
}

async fn try_finish(database: &Database, ends: &[End], again: bool) -> Result<Vec<EndResult>, StoreError> {
    let next = |place: usize, _| match ends[place].outcome.failure() {
        None => Next::Succeeded,
        Some(_) => Next::RetryAt(at(ends[place].started.at_ms + 1_000)),
    };
    let writer = database.writer().await?;
    deliveries::finish_attempts(writer, &Clock::System, ends, again, next).await
}

const SUCCEEDED: EndResult = EndResult::Next(Next::Succeeded, None);

/// The numbers of rows in `hand_off`, `delivery_queue` and `delivery_history`.
async fn places(rig: &TenantDatabase) -> [i64; 3] {
    let mut counts = [0; 3];
    for (count, table) in counts.iter_mut().zip(["hand_off", "delivery_queue", "delivery_history"]) {
        *count = rig.number(&format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

async fn statuses(rig: &TenantDatabase, of: &[Started]) -> Vec<(Status, i64)> {
    let mut statuses = Vec::new();
    for started in of {
        let row = rig.delivery(started.id).await;
        statuses.push((row.status, row.attempt_count));
    }
    statuses
}

async fn a_hand_off_is_shown_as_a_delivery_under_way(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=3).await;
    assert_eq!(places(&rig).await, [1, 0, 0]);
    for (number, started) in (1..).zip(&batch.started) {
        let row = rig.delivery(started.id).await;
        assert_eq!((row.status, row.attempt_count, row.due_at_ms), (Status::Pending, 1, row.created_at_ms));
        assert_eq!((row.webhook_name.as_str(), row.event_id), ("smith/orders", event_id(number).to_string()));
        assert_eq!(rig.lease(started.id).await, (Some("mine".into()), Some(row.created_at_ms + 4_000)));
        let attempts = rig.attempts(started.id).await;
        assert_eq!(attempts.len(), 1);
        assert_eq!((attempts[0].number, attempts[0].finished_at_ms), (1, None));
    }
    let mut reader = rig.reader().await;
    for (status, found) in [(None, 3), (Some(Status::Pending), 3), (Some(Status::Failed), 0)] {
        let filter = DeliveryFilter { status, ..DeliveryFilter::default() };
        let page = deliveries::search(&mut reader, &Clock::System, &filter, 10).await.expect("a statement");
        assert_eq!(page.items.len(), found, "{status:?}");
    }
    let health = health::by_webhook(&mut reader).await.expect("a statement");
    assert_eq!((health[0].pending, health[0].retrying), (3, 0));
}

async fn successes_go_to_the_history_and_the_last_one_takes_the_row_with_it(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=3).await;
    let ends = batch.all_succeeded();
    assert_eq!(finish(&rig, &ends[..2], false).await, [SUCCEEDED, SUCCEEDED]);
    assert_eq!(places(&rig).await, [1, 0, 2]);
    let of_the_rest = [(Status::Succeeded, 1), (Status::Succeeded, 1), (Status::Pending, 1)];
    assert_eq!(statuses(&rig, &batch.started).await, of_the_rest);
    assert_eq!(rig.number("SELECT count(*) FROM delivery").await, 3);
    assert_eq!(rig.number("SELECT count(*) FROM attempt").await, 3);
    assert_eq!(finish(&rig, &ends[2..], false).await, [SUCCEEDED]);
    assert_eq!(places(&rig).await, [0, 0, 3]);
    let row = rig.delivery(batch.started[0].id).await;
    assert_eq!((row.http_status, row.failure_class, row.due_at_ms), (Some(204), None, row.created_at_ms));
    let attempt = rig.attempts(batch.started[0].id).await.remove(0);
    assert_eq!((attempt.started_at_ms, attempt.http_status), (batch.started[0].at_ms, Some(204)));
    assert_eq!(attempt.finished_at_ms, row.finished_at_ms);
}

async fn a_failure_moves_its_batch_to_the_queue(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=4).await;
    let ends = [batch.succeeded(0), batch.failed(1), batch.succeeded(2)];
    let stored = finish(&rig, &ends, false).await;
    let retry = Next::RetryAt(at(batch.started[1].at_ms + 1_000));
    assert!(matches!(stored[1], EndResult::Next(next, Some(_)) if next == retry), "{stored:?}");
    assert_eq!((stored[0], stored[2]), (SUCCEEDED, SUCCEEDED));
    assert_eq!(places(&rig).await, [0, 2, 2]);
    let expected =
        [(Status::Succeeded, 1), (Status::Failed, 1), (Status::Succeeded, 1), (Status::Pending, 1)];
    assert_eq!(statuses(&rig, &batch.started).await, expected);
    let attempt = rig.attempts(batch.started[1].id).await.remove(0);
    assert_eq!(attempt.failure_class, Some(FailureClass::ServerError));
    // A hand-off in progress keeps its lease.
    let until_ms = batch.started[3].at_ms + 4_000;
    assert_eq!(rig.lease(batch.started[3].id).await, (Some("mine".into()), Some(until_ms)));
    assert_eq!(finish(&rig, &[batch.succeeded(3)], false).await, [SUCCEEDED]);
    assert_eq!(places(&rig).await, [0, 1, 3]);
}

async fn a_success_after_the_move_counts(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=2).await;
    rig.write(async |t| deliveries::queue_unfinished(t, None).await).await;
    assert_eq!(places(&rig).await, [0, 2, 0]);
    let ends = batch.all_succeeded();
    assert_eq!(finish(&rig, &ends, false).await, [SUCCEEDED, SUCCEEDED]);
    assert_eq!(places(&rig).await, [0, 0, 2]);
}

async fn hand_offs_of_a_dead_process_are_taken_over(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=3).await;
    assert_eq!(finish(&rig, &[batch.succeeded(0)], false).await, [SUCCEEDED]);
    let released = rig.write(async |t| deliveries::queue_unfinished(t, Some(&EndedLeases::All)).await);
    assert_eq!(released.await, 2);
    let due = deliveries::unfinished(&mut rig.reader().await, None, 10).await.expect("a statement");
    let ids: Vec<DeliveryId> = due.iter().map(|due| due.id).collect();
    assert_eq!(ids, [batch.started[1].id, batch.started[2].id]);
    let now_ms = batch.started[0].at_ms + 1;
    let taken = rig.begin(&ids, "theirs", now_ms, now_ms + 4).await;
    assert_eq!(taken.iter().map(|started| started.attempt).collect::<Vec<_>>(), [2, 2]);
    let lost = rig.attempts(ids[0]).await.remove(0);
    assert_eq!(lost.failure_class, Some(FailureClass::WorkerLost));
    // The process was only slow. The ends that it stores now do not count any more.
    let before = rig.picture(ids[0]).await;
    for end in [batch.succeeded(1), batch.failed(1)] {
        assert_eq!(finish(&rig, &[end], false).await, [EndResult::LeaseLost]);
        assert_eq!(rig.picture(ids[0]).await, before);
    }
}

async fn an_end_that_was_stored_without_a_response_is_stored_once(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=3).await;
    let ends = batch.all_succeeded();
    finish(&rig, &ends[..2], false).await;
    for _ in 0..2 {
        assert_eq!(finish(&rig, &ends, true).await, [SUCCEEDED; 3]);
        assert_eq!(places(&rig).await, [0, 0, 3]);
    }
}

async fn a_renewed_hand_off_is_in_the_queue(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=2).await;
    let (id, until_ms) = (batch.started[0].id, batch.started[0].at_ms + 9_000);
    let held = held(&batch.lease, &[id]);
    for _ in 0..2 {
        rig.write(async |t| deliveries::renew(t, &held, until_ms).await).await;
        assert_eq!(places(&rig).await, [0, 2, 0]);
        assert_eq!(rig.lease(batch.started[0].id).await, (Some("mine".into()), Some(until_ms)));
        assert_eq!(rig.lease(batch.started[1].id).await.1, Some(batch.started[1].at_ms + 4_000));
    }
}

async fn a_hand_off_given_back_does_not_count(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=2).await;
    let given_back =
        rig.write(async |t| deliveries::give_back(t, &held(&batch.lease, &[batch.started[0].id])[0]).await);
    assert!(given_back.await);
    assert_eq!(statuses(&rig, &batch.started).await, [(Status::Pending, 0), (Status::Pending, 1)]);
    assert_eq!(rig.lease(batch.started[0].id).await, (None, None));
    let begun =
        rig.begin(&[batch.started[0].id], "theirs", batch.started[0].at_ms, batch.started[0].at_ms + 4).await;
    assert_eq!(begun[0].attempt, 1);
}

async fn the_event_of_a_hand_off_stays(rig: TenantDatabase) {
    let batch = handed_off(&rig, 1..=1).await;
    let ids = [batch.started[0].event_id.clone()];
    rig.write(async |t| deliveries::delete_undelivered_events(t, &ids).await).await;
    assert_eq!(rig.number("SELECT count(*) FROM event").await, 1);
    rig.write(async |t| deliveries::queue_unfinished(t, None).await).await;
    assert_eq!(statuses(&rig, &batch.started).await, [(Status::Pending, 1)]);
}

/// The [`places`] after a retention, for which nothing is old enough.
async fn after_retention(rig: &TenantDatabase) -> [i64; 3] {
    rig.write(async |t| retention::delete_finished(t, 0, 10).await).await;
    places(rig).await
}

/// The [`places`] after a worker could not begin the attempts of these deliveries. None of them is lost.
async fn after_refusal(rig: &TenantDatabase, ids: &[DeliveryId]) -> [i64; 3] {
    rig.write(async |t| deliveries::end_lost_attempts(t, ids, Duration::ZERO, at(0)).await).await;
    places(rig).await
}

/// Each webhook's hand-offs are queued for themselves.
async fn hand_offs_to_several_webhooks_have_a_row_each(rig: TenantDatabase) {
    let mut saves: Vec<Save> = (1..=3).map(save).collect();
    for save in &mut saves {
        let new = save.deliveries.remove(0);
        let lease = save.hand_offs[0].lease.clone();
        let (webhook, webhook_name) = (new.webhook, new.webhook_name);
        save.hand_offs.push(NewHandOff { id: new.id, webhook, webhook_name, lease });
    }
    let (first, committed) = commit(&rig, &saves).await;
    committed.expect("they are sound");
    assert_eq!(places(&rig).await, [2, 0, 0]);
    assert_eq!(rig.number("SELECT count(*) FROM delivery WHERE webhook = 'smith/another/SMITH'").await, 3);
    assert_eq!(after_retention(&rig).await, [2, 0, 0]);
    assert_eq!(after_refusal(&rig, &[delivery_id(999)]).await, [2, 0, 0]);
    assert_eq!(after_refusal(&rig, &[delivery_id(999), delivery_id(5)]).await, [1, 3, 0]);
    assert_eq!(
        rig.number("SELECT count(*) FROM delivery_queue WHERE webhook = 'smith/another/SMITH'").await,
        3
    );
    // Other hand-offs of the batch are not affected.
    let row = rig.delivery(delivery_id(2)).await;
    let (event_id, webhook, at_ms) = (row.event_id, row.webhook, row.created_at_ms);
    let started = Started { id: delivery_id(2), event_id, webhook, attempt: 1, at_ms };
    let batch = HandedOff { started: vec![started], lease: lease_of_batch(first.unsigned_abs(), 6) };
    assert_eq!(finish(&rig, &[batch.succeeded(0)], false).await, [SUCCEEDED]);
    assert_eq!(places(&rig).await, [1, 3, 1]);
    rig.run("UPDATE hand_off SET lease_until_ms = 1").await;
    assert_eq!(after_retention(&rig).await, [0, 5, 1]);
}

/// The two transactions wait for each other, but do not deadlock.
async fn a_delivery_that_ends_while_its_batch_moves_is_there_once(rig: TenantDatabase) {
    for round in 0..15 {
        let numbers = (1 + 20 * round)..=(20 + 20 * round);
        let batch = handed_off(&rig, numbers).await;
        let ends = batch.all_succeeded();
        let first = try_finish(&rig.database, &ends[..10], false);
        let moved = async {
            let mut transaction = rig.database.begin(&Clock::System).await?;
            deliveries::queue_unfinished(&mut transaction, None).await?;
            transaction.commit().await
        };
        let (stored, moved) = rig.meeting(2, "hand_off", async { tokio::join!(first, moved) }).await;
        moved.expect("it waits for the other");
        assert_eq!(stored.expect("it waits for the other"), [SUCCEEDED; 10], "round {round}");
        assert_eq!(finish(&rig, &ends[10..], false).await, [SUCCEEDED; 10], "round {round}");
        let all = 20 * i64::from(round + 1);
        assert_eq!(places(&rig).await, [0, 0, all]);
    }
}
