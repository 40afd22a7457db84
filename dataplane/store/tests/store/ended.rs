//! Deliveries that end, or are taken over, although no worker finishes an attempt.

use docket_domain::delivery::{FailureClass, MAX_ATTEMPTS, Next, Outcome, Report, Status};
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::deliveries::{self, LATE_END_MS};

on_both_databases!(
    deliveries_without_a_webhook_end,
    what_is_leased_is_not_ended_for_its_webhook,
    an_attempt_cut_off_before_its_webhook_went_is_lost,
    a_lost_fifth_attempt_is_a_dead_letter,
    a_fifth_attempt_under_way_is_left_alone,
    a_fifth_attempt_is_waited_for_beyond_its_lease,
    a_dead_process_leaves_its_leases,
);

async fn end_without_webhook(
    rig: &TenantDatabase,
    ids: &[docket_domain::delivery::DeliveryId],
    now_ms: i64,
) -> u64 {
    rig.write(async |t| deliveries::end_without_webhook(t, ids, now_ms, now_ms).await).await
}

async fn end_lost_fifths(rig: &TenantDatabase, now_ms: i64) -> u64 {
    rig.write(async |t| deliveries::end_lost_fifths(t, now_ms, now_ms).await).await
}

async fn deliveries_without_a_webhook_end(rig: TenantDatabase) {
    let ids = rig.queued(61, T0).await;
    rig.set_status(ids[0], Status::Failed).await;
    assert_eq!(end_without_webhook(&rig, &ids[..60], T0 + 3).await, 60);
    for id in [ids[0], ids[59]] {
        let stored = rig.delivery(id).await;
        assert_eq!((stored.status, stored.attempt_count), (Status::DeadLetter, 0));
        assert_eq!(stored.failure_class, Some(FailureClass::WebhookGone));
        assert_eq!(stored.finished_at_ms, Some(T0 + 3));
    }
    assert_eq!(rig.delivery(ids[60]).await.status, Status::Pending);
    assert_eq!(end_without_webhook(&rig, &ids[..60], T0 + 4).await, 0, "they have ended already");
    assert_eq!(rig.delivery(ids[0]).await.finished_at_ms, Some(T0 + 3));
    rig.set_status(ids[60], Status::Succeeded).await;
    assert_eq!(end_without_webhook(&rig, &ids[60..], T0 + 4).await, 0, "it has succeeded");
}

async fn what_is_leased_is_not_ended_for_its_webhook(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    let started = rig.begin(&ids[..1], "mine", T0, T0 + 4).await;
    let before = rig.picture(ids[0]).await;
    assert_eq!(end_without_webhook(&rig, &ids, T0 + 3).await, 1);
    assert_eq!(rig.picture(ids[0]).await, before);
    let ours = rig
        .write(async |t| {
            let outcome = Outcome::Succeeded(Report::default());
            deliveries::finish_attempt(t, &started[0], "mine", &outcome, Next::Succeeded, T0 + 3).await
        })
        .await;
    assert!(ours);
}

async fn an_attempt_cut_off_before_its_webhook_went_is_lost(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    rig.begin(&[id], "dead", T0, T0 + 4).await;
    assert_eq!(end_without_webhook(&rig, &[id], T0 + 4).await, 1);
    let stored = rig.delivery(id).await;
    assert_eq!((stored.status, stored.failure_class), (Status::DeadLetter, Some(FailureClass::WebhookGone)));
    assert_eq!(rig.lease(id).await, (None, None));
    let attempt = rig.attempts(id).await.remove(0);
    assert_eq!(
        (attempt.finished_at_ms, attempt.failure_class),
        (Some(T0 + 4), Some(FailureClass::WorkerLost))
    );
}

async fn a_lost_fifth_attempt_is_a_dead_letter(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    for attempt in 1..=MAX_ATTEMPTS {
        let now_ms = T0 + i64::from(attempt);
        rig.begin(&ids[..1], "dead", now_ms, now_ms + 1).await;
        if attempt < MAX_ATTEMPTS {
            rig.begin(&ids[1..], "dead", now_ms, now_ms + 1).await;
            assert_eq!(end_lost_fifths(&rig, now_ms + 1).await, 0, "after attempt {attempt}");
        }
    }
    assert_eq!(end_lost_fifths(&rig, T0 + 6).await, 1);
    let stored = rig.delivery(ids[0]).await;
    assert_eq!((stored.status, stored.attempt_count), (Status::DeadLetter, 5));
    assert_eq!((stored.failure_class, stored.finished_at_ms), (Some(FailureClass::WorkerLost), Some(T0 + 6)));
    assert_eq!(rig.lease(ids[0]).await, (None, None));
    let attempts = rig.attempts(ids[0]).await;
    assert_eq!(attempts.len(), 5);
    assert!(attempts.iter().all(|attempt| attempt.failure_class == Some(FailureClass::WorkerLost)));
    assert_eq!(attempts[4].finished_at_ms, Some(T0 + 6));
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Failed);
    assert_eq!(end_lost_fifths(&rig, T0 + 7).await, 0, "it has ended already");
}

async fn a_fifth_attempt_under_way_is_left_alone(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    for attempt in 1..=i64::from(MAX_ATTEMPTS) {
        rig.begin(&[id], "mine", T0 + attempt, T0 + attempt + 1).await;
    }
    rig.write(async |t| deliveries::renew(t, &[id], "mine", T0 + 100).await).await;
    let before = rig.picture(id).await;
    assert_eq!(end_lost_fifths(&rig, T0 + 99).await, 0);
    assert_eq!(rig.picture(id).await, before);
}

/// Its worker may have the end and no way to the database.
async fn a_fifth_attempt_is_waited_for_beyond_its_lease(rig: TenantDatabase) {
    let ids = rig.queued(3, T0).await;
    let mut fifth = Vec::new();
    for attempt in 1..=i64::from(MAX_ATTEMPTS) {
        fifth = rig.begin(&ids[..2], "mine", T0 + attempt, T0 + attempt + 1).await;
    }
    let over_ms = T0 + 6;
    let lost = async |now_ms| {
        let asked = [ids[0], ids[2]];
        rig.write(async |t| deliveries::end_lost_fifths_of(t, &asked, now_ms - LATE_END_MS, now_ms).await)
            .await
    };
    assert_eq!(lost(over_ms + LATE_END_MS - 1).await, 0);
    let due = deliveries::due_again(&mut rig.reader().await, &ids[..1]).await.expect("a statement");
    assert_eq!(due[0].at_ms, over_ms + LATE_END_MS, "it is not checked before");
    assert_eq!(lost(over_ms + LATE_END_MS).await, 1);
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Failed, "it was not asked for");
    let outcome = Outcome::Succeeded(Report::default());
    let second = fifth.iter().find(|started| started.id == ids[1]).expect("it was begun");
    let ours = rig
        .write(async |t| {
            deliveries::finish_attempt(t, second, "mine", &outcome, Next::Succeeded, T0 + 99).await
        })
        .await;
    assert!(ours);
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Succeeded);
}

async fn a_dead_process_leaves_its_leases(rig: TenantDatabase) {
    let ids = rig.queued(4, T0).await;
    rig.begin(&ids[..3], "dead", T0, T0 + 100).await;
    rig.set_status(ids[2], Status::Succeeded).await;
    assert_eq!(rig.write(async |t| deliveries::release_leases(t, T0 + 5).await).await, 2);
    let started = rig.begin(&ids, "mine", T0 + 5, T0 + 9).await;
    let mut taken: Vec<_> = started.iter().map(|started| (started.id, started.attempt)).collect();
    taken.sort();
    assert_eq!(taken, [(ids[0], 2), (ids[1], 2), (ids[3], 1)]);
    assert_eq!(rig.attempts(ids[0]).await[0].failure_class, Some(FailureClass::WorkerLost));
    assert_eq!(
        rig.write(async |t| deliveries::release_leases(t, T0 + 9).await).await,
        0,
        "they ran out by themselves"
    );
}
