//! Deliveries that end or are taken over without a worker finishing an attempt.

use std::time::Duration;

use docket_domain::delivery::{DeliveryId, FailureClass, MAX_ATTEMPTS, Next, Outcome, Report, Status};
use docket_program::owner::Owner;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase, WEBHOOK, at, delivery_id, held, lease, new_delivery};
use docket_store::deliveries::{self, EndedLeases, LATE_END_MS, Lease, NewDelivery};
use docket_store::events;

on_both_databases!(
    deliveries_without_a_webhook_end,
    a_new_delivery_does_not_end_for_its_webhook,
    a_webhook_that_no_sweep_saw_missing_is_missing_from_now_on,
    what_ends_for_its_webhook_is_counted_to_a_bound,
    rows_of_before_keys_get_them,
    bulk_resends_and_test_events_of_before_keys_get_them,
    finished_rows_of_before_keys_get_them_a_few_at_a_time,
    what_is_leased_is_not_ended_for_its_webhook,
    an_attempt_cut_off_before_its_webhook_went_is_lost,
    a_lost_fifth_attempt_is_a_dead_letter,
    a_second_lost_attempt_waits_for_the_backoff,
    a_fifth_attempt_under_way_is_left_alone,
    a_fifth_attempt_is_waited_for_beyond_its_lease,
    a_dead_process_leaves_its_leases,
    a_process_releases_the_leases_of_its_earlier_lives_only,
    a_released_fifth_attempt_is_a_dead_letter_at_once,
    an_attempt_given_back_does_not_count,
);

async fn end_without_webhook(rig: &TenantDatabase, ids: &[DeliveryId], now_ms: i64) -> u64 {
    rig.write(async |t| {
        deliveries::note_missing(t, [WEBHOOK], T0 - 3, T0 - 3).await?;
        assert_eq!(
            deliveries::end_without_webhook(t, ids, T0 - 4, T0, now_ms).await?,
            0,
            "it is not missing for so long"
        );
        deliveries::end_without_webhook(t, ids, T0 - 3, T0, now_ms).await
    })
    .await
}

/// The number of attempts that the call ended, and of deliveries that became dead letters.
async fn end_lost(rig: &TenantDatabase, ids: &[DeliveryId], now_ms: i64) -> (u64, u64) {
    let base = Duration::from_millis(10);
    rig.write(async |t| deliveries::end_lost_attempts(t, ids, base, at(now_ms)).await).await
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

/// A worker with an old configuration finds the webhook missing for long, and does not know that it is declared again.
async fn a_new_delivery_does_not_end_for_its_webhook(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    rig.run(&format!("UPDATE delivery_queue SET created_at_ms = {} WHERE id = '{}'", T0 + 5, ids[1])).await;
    let end = async |created_ms| {
        rig.write(async |t| deliveries::end_without_webhook(t, &ids, T0, created_ms, T0 + 9).await).await
    };
    rig.write(async |t| deliveries::note_missing(t, [WEBHOOK], T0, T0).await).await;
    assert_eq!((end(T0 + 4).await, end(T0 + 4).await), (1, 0));
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Pending);
    assert_eq!(end(T0 + 5).await, 1);
}

async fn a_webhook_that_no_sweep_saw_missing_is_missing_from_now_on(rig: TenantDatabase) {
    let note = async |now_ms, seen_ms| {
        let both = [WEBHOOK, "other", WEBHOOK];
        let noted = rig.write(async |t| deliveries::note_missing(t, both, now_ms, seen_ms).await).await;
        assert_eq!(noted, deliveries::missing(&mut rig.reader().await).await.expect("a statement"));
        noted.into_iter().map(|one| (one.since_ms, one.seen_ms, one.is_ending)).collect::<Vec<_>>()
    };
    assert_eq!(note(100, 0).await, [(100, 100, false); 2]);
    let begin = async || rig.write(async |t| deliveries::begin_to_end(t, ["other", WEBHOOK]).await).await;
    let mut begun = begin().await;
    begun.sort();
    assert_eq!((begun, begin().await), (vec!["other".to_owned(), WEBHOOK.to_owned()], Vec::new()));
    assert_eq!(note(200, 100).await, [(100, 200, true); 2], "it was seen meanwhile");
    assert_eq!(note(900, 201).await, [(900, 900, false); 2]);
    rig.write(async |t| deliveries::forget_missing(t, ["other"]).await).await;
    let left = deliveries::missing(&mut rig.reader().await).await.expect("a statement");
    assert_eq!(left.iter().map(|one| one.webhook.as_str()).collect::<Vec<_>>(), [WEBHOOK]);
}

async fn what_ends_for_its_webhook_is_counted_to_a_bound(rig: TenantDatabase) {
    rig.queued(3, T0).await;
    let count = async || {
        deliveries::count_queued(&mut rig.reader().await, ["other", WEBHOOK]).await.expect("a statement")
    };
    assert_eq!(count().await, Some([(WEBHOOK.to_owned(), 3)].into()));
    let event = rig.event("many").await;
    let fill = format!(
        "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
         WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 9997) \
         SELECT CAST(n AS TEXT), '{}', 'other', 'n', 'Pending', 0, n, n FROM s",
        event.as_str()
    );
    rig.run(&fill).await;
    assert_eq!(count().await.map(|counts| counts.values().sum::<i64>()), Some(deliveries::MOST_COUNTED));
    let one_more = format!(
        "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
         VALUES ('one more', '{}', 'other', 'n', 'Pending', 0, 0, 0)",
        event.as_str()
    );
    rig.run(&one_more).await;
    assert_eq!(count().await, None);
}

async fn what_is_leased_is_not_ended_for_its_webhook(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    let started = rig.begin(&ids[..1], "mine", T0, T0 + 4).await;
    let before = rig.picture(ids[0]).await;
    assert_eq!(end_without_webhook(&rig, &ids, T0 + 3).await, 1);
    assert_eq!(rig.picture(ids[0]).await, before);
    let outcome = Outcome::Succeeded(Report::default());
    let ours = rig.finish(&started[0], "mine", &outcome, Next::Succeeded, T0 + 3).await;
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
            assert_eq!(rig.begin(&ids[1..], "dead", now_ms, now_ms).await.len(), 1, "{attempt}");
            assert_eq!(end_lost(&rig, &ids, now_ms).await, (1, 0), "after attempt {attempt}");
            let ready = format!("UPDATE delivery_queue SET due_at_ms = {T0} WHERE id = '{}'", ids[1]);
            rig.run(&ready).await;
        }
    }
    let over_ms = T0 + 6 + LATE_END_MS;
    assert_eq!(end_lost(&rig, &ids, over_ms).await, (1, 1));
    let stored = rig.delivery(ids[0]).await;
    assert_eq!((stored.status, stored.attempt_count), (Status::DeadLetter, 5));
    assert_eq!(
        (stored.failure_class, stored.finished_at_ms),
        (Some(FailureClass::WorkerLost), Some(over_ms))
    );
    assert_eq!(rig.lease(ids[0]).await, (None, None));
    let attempts = rig.attempts(ids[0]).await;
    assert_eq!(attempts.len(), 5);
    assert!(attempts.iter().all(|attempt| attempt.failure_class == Some(FailureClass::WorkerLost)));
    assert_eq!(attempts[4].finished_at_ms, Some(over_ms));
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Failed);
    assert_eq!(end_lost(&rig, &ids, over_ms + 1).await, (0, 0), "it has ended already");
}

/// The ids fill more than one list of the statement.
async fn a_second_lost_attempt_waits_for_the_backoff(rig: TenantDatabase) {
    let ids = rig.queued(60, T0).await;
    rig.begin(&ids, "dead", T0, T0 + 4).await;
    assert_eq!(end_lost(&rig, &ids, T0 + 3).await, (0, 0), "they are leased");
    assert_eq!(end_lost(&rig, &ids, T0 + 5).await, (60, 0));
    let due = async |id| {
        let stored = rig.delivery(id).await;
        assert_eq!((stored.status, stored.failure_class), (Status::Failed, Some(FailureClass::WorkerLost)));
        stored.due_at_ms
    };
    assert_eq!(due(ids[0]).await, T0 + 5, "the first time at once");
    // Between the two losses, another worker gets a response. It does not change the count of losses.
    let second = rig.begin(&ids[..2], "mine", T0 + 5, T0 + 9).await;
    let one = second.iter().find(|started| started.id == ids[1]).expect("it was begun");
    let failed = Outcome::Failed(FailureClass::ServerError, Report::default());
    assert!(rig.finish(one, "mine", &failed, Next::RetryAt(at(T0 + 6)), T0 + 6).await);
    rig.begin(&ids[1..2], "dead", T0 + 6, T0 + 9).await;
    assert_eq!(end_lost(&rig, &ids, T0 + 9).await, (2, 0));
    let again = due(ids[0]).await;
    assert!((T0 + 49..=T0 + 50).contains(&again), "2 attempts made");
    assert!((T0 + 89..=T0 + 91).contains(&due(ids[1]).await), "3 attempts made");
    let lease = lease("mine", 9);
    let begun = rig.write(async |t| deliveries::begin_attempts(t, &ids[..1], &lease, again - 1).await).await;
    assert!(begun.is_empty());
    let begun = rig.write(async |t| deliveries::begin_attempts(t, &ids[..1], &lease, again).await).await;
    assert_eq!(begun[0].attempt, 3);
}

async fn a_fifth_attempt_under_way_is_left_alone(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    for attempt in 1..=i64::from(MAX_ATTEMPTS) {
        rig.begin(&[id], "mine", T0 + attempt, T0 + attempt + 1).await;
    }
    rig.write(async |t| deliveries::renew(t, &held(&lease("mine", 0), &[id]), T0 + 100).await).await;
    let before = rig.picture(id).await;
    assert_eq!(end_lost(&rig, &[id], T0 + 99).await, (0, 0));
    assert_eq!(rig.picture(id).await, before);
}

/// The worker may know the end of the attempt, but can't reach the database.
async fn a_fifth_attempt_is_waited_for_beyond_its_lease(rig: TenantDatabase) {
    let ids = rig.queued(3, T0).await;
    let mut fifth = Vec::new();
    for attempt in 1..=i64::from(MAX_ATTEMPTS) {
        fifth = rig.begin(&ids[..2], "mine", T0 + attempt, T0 + attempt + 1).await;
    }
    let over_ms = T0 + 6;
    let asked = [ids[0], ids[2]];
    assert_eq!(end_lost(&rig, &asked, over_ms + LATE_END_MS - 1).await, (0, 0));
    let due = deliveries::due_again(&mut rig.reader().await, &ids[..1]).await.expect("a statement");
    assert_eq!(due[0].at_ms, over_ms + LATE_END_MS, "it is not checked before");
    assert_eq!(end_lost(&rig, &asked, over_ms + LATE_END_MS).await, (1, 1));
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Failed, "it was not asked for");
    let outcome = Outcome::Succeeded(Report::default());
    let second = fifth.iter().find(|started| started.id == ids[1]).expect("it was begun");
    assert!(rig.finish(second, "mine", &outcome, Next::Succeeded, T0 + 99).await);
    assert_eq!(rig.delivery(ids[1]).await.status, Status::Succeeded);
}

async fn a_dead_process_leaves_its_leases(rig: TenantDatabase) {
    let ids = rig.queued(4, T0).await;
    rig.begin(&ids[..3], "dead", T0, T0 + 100).await;
    rig.set_status(ids[2], Status::Succeeded).await;
    assert_eq!(rig.write(async |t| deliveries::queue_unfinished(t, Some(&EndedLeases::All)).await).await, 2);
    assert_eq!(
        rig.write(async |t| deliveries::queue_unfinished(t, Some(&EndedLeases::All)).await).await,
        0,
        "they have ended already"
    );
    let started = rig.begin(&ids, "mine", T0 + 5, T0 + 9).await;
    let mut taken: Vec<_> = started.iter().map(|started| (started.id, started.attempt)).collect();
    taken.sort();
    assert_eq!(taken, [(ids[0], 2), (ids[1], 2), (ids[3], 1)]);
    assert_eq!(rig.attempts(ids[0]).await[0].failure_class, Some(FailureClass::WorkerLost));
}

/// Leases of this incarnation stay, and so do leases of other processes, even if their names begin the same.
async fn a_process_releases_the_leases_of_its_earlier_lives_only(rig: TenantDatabase) {
    let ids = rig.queued(5, T0).await;
    let owner =
        |process: &str, incarnation: &str| Owner { process: process.into(), incarnation: incarnation.into() };
    let holders = [("0a", "1"), ("0a", "22"), ("0a", "2"), ("0a0a", "1"), ("0b", "1")];
    for (batch, (id, (process, incarnation))) in (0..).zip(ids.iter().zip(holders)) {
        let lease = Lease::new(&owner(process, incarnation), batch, Duration::from_secs(1));
        let begun = rig.write(async |t| deliveries::begin_attempts(t, &[*id], &lease, T0).await).await;
        assert_eq!(begun.len(), 1);
    }
    let dead = EndedLeases::Predecessors(owner("0a", "2"));
    assert_eq!(rig.write(async |t| deliveries::queue_unfinished(t, Some(&dead)).await).await, 2);
    let mut until = Vec::new();
    for id in &ids {
        until.push(rig.lease(*id).await.1.expect("a lease"));
    }
    assert_eq!(until, [0, 0, T0 + 1_000, T0 + 1_000, T0 + 1_000]);
    assert_eq!(rig.write(async |t| deliveries::queue_unfinished(t, Some(&dead)).await).await, 0);
}

/// A released fifth attempt is a dead letter, because no process can store its end any more.
async fn a_released_fifth_attempt_is_a_dead_letter_at_once(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    for attempt in 1..=i64::from(MAX_ATTEMPTS) {
        rig.begin(&[id], "dead", T0 + attempt, T0 + attempt + 1).await;
    }
    assert_eq!(end_lost(&rig, &[id], T0 + 7).await, (0, 0));
    assert_eq!(rig.write(async |t| deliveries::queue_unfinished(t, Some(&EndedLeases::All)).await).await, 1);
    assert_eq!(end_lost(&rig, &[id], T0 + 7).await, (1, 1));
}

async fn an_attempt_given_back_does_not_count(rig: TenantDatabase) {
    let ids = rig.queued(3, T0).await;
    let before = rig.picture(ids[0]).await;
    let mine = lease("mine", 4);
    rig.begin(&ids[..2], "mine", T0, T0 + 4).await;
    let give_back = async |id: DeliveryId, lease: &Lease| {
        rig.write(async |t| deliveries::give_back(t, &held(lease, &[id])[0]).await).await
    };
    let leased = rig.picture(ids[1]).await;
    assert!(!give_back(ids[1], &lease("theirs", 4)).await);
    assert_eq!(rig.picture(ids[1]).await, leased);
    assert!(give_back(ids[0], &mine).await);
    assert_eq!(rig.picture(ids[0]).await, before, "as if it had not been begun");
    assert!(!give_back(ids[0], &mine).await, "it counts once");
    assert!(!give_back(ids[2], &mine).await, "it was not begun");
    assert_eq!(rig.delivery(ids[0]).await.attempt_count, 0);
    let again = rig.begin(&ids[..1], "theirs", T0, T0 + 4).await;
    assert_eq!(again[0].attempt, 1);
    // After an earlier failure, giving back restores the state after that failure.
    let failed = Outcome::Failed(FailureClass::ServerError, Report::default());
    assert!(rig.finish(&again[0], "theirs", &failed, Next::RetryAt(at(T0 + 5)), T0 + 1).await);
    let before = rig.picture(ids[0]).await;
    rig.begin(&ids[..1], "mine", T0 + 5, T0 + 9).await;
    assert!(give_back(ids[0], &mine).await);
    assert_eq!(rig.picture(ids[0]).await, before);
}

/// An older worker does not know keys, and would end deliveries two minutes after they were created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_of_before_keys_cannot_end_deliveries_for_their_webhook() {
    let rig = TenantDatabase::postgres().await;
    rig.one_queued().await;
    let sql = "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, attempt_count, due_at_ms, created_at_ms, status, \
               failure_class, finished_at_ms) SELECT id, event_id, webhook, webhook_name, attempt_count, due_at_ms, created_at_ms, \
               'DeadLetter', $1, 1 FROM delivery_queue";
    let clock = docket_program::clock::Clock::System;
    for (class, is_refused) in [(FailureClass::WebhookGone, true), (FailureClass::ServerError, false)] {
        let mut transaction = rig.database.begin(&clock).await.expect("a transaction");
        let done = transaction.execute(sql, vec![class.as_str().into()]).await;
        assert_eq!(done.is_err(), is_refused, "{class}");
    }
}

/// Rows from before webhooks had keys get the keys of their webhooks, for every uid.
async fn rows_of_before_keys_get_them(rig: TenantDatabase) {
    let ids = rig.queued(4, T0).await;
    rig.set_status(ids[2], Status::Succeeded).await;
    rig.set_status(ids[3], Status::DeadLetter).await;
    for table in ["delivery_queue", "delivery_history"] {
        rig.run(&format!("UPDATE {table} SET webhook = 'uid-' || id")).await;
    }
    rekey_queue(&rig).await;
    let uids = deliveries::uids(&mut rig.reader().await).await.expect("a statement");
    assert_eq!(uids, [format!("uid-{}", ids[2]), format!("uid-{}", ids[3])]);
    for uid in &uids {
        assert_eq!(rig.write(async |t| deliveries::rekey_finished(t, uid, 10).await).await, 1);
    }
    assert_eq!(deliveries::uids(&mut rig.reader().await).await.expect("a statement"), [] as [String; 0]);
    let stored = format!("SELECT count(*) FROM delivery WHERE webhook = '{WEBHOOK}'");
    assert_eq!(rig.number(&stored).await, 4);
}

async fn rekey_queue(rig: &TenantDatabase) {
    let dues = deliveries::unfinished(&mut rig.reader().await, None, 100).await.expect("a statement");
    assert!(dues.iter().all(deliveries::has_uid));
    rig.write(async |t| deliveries::rekey_queued(t, &dues).await).await;
}

/// Bulk resends and test events of older versions get the webhook's key, whether their deliveries wait or have ended.
async fn bulk_resends_and_test_events_of_before_keys_get_them(rig: TenantDatabase) {
    let mut ids = Vec::new();
    for number in 0..2 {
        let event = rig.event("test").await;
        let id = delivery_id(number);
        rig.write(async |t| {
            events::mark_as_test(t, &event, "uid").await?;
            deliveries::insert(t, &new_delivery(id, &event), T0).await
        })
        .await;
        rig.run(&format!(
            "INSERT INTO resend (id, webhook, webhook_name, per_second, count, requested_by, created_at_ms) \
             VALUES ('r{number}', 'uid', 'smith/orders', 1, 1, 'employee 1', 1); \
             UPDATE delivery_queue SET resend_id = 'r{number}', webhook = 'uid' WHERE id = '{id}'"
        ))
        .await;
        ids.push(id);
    }
    rig.set_status(ids[1], Status::DeadLetter).await;
    rekey_queue(&rig).await;
    let of = async |table: &str| {
        rig.number(&format!("SELECT count(*) FROM {table} WHERE webhook = '{WEBHOOK}'")).await
    };
    assert_eq!((of("test_event").await, of("delivery").await, of("resend").await), (1, 1, 0));
    rig.write(async |t| deliveries::rekey_resends(t, ["uid"]).await).await;
    assert_eq!(rig.write(async |t| deliveries::rekey_finished(t, "uid", 10).await).await, 1);
    assert_eq!((of("test_event").await, of("delivery").await, of("resend").await), (2, 2, 2));
}

/// A row whose idempotency key the webhook has already stays a delivery, without the key.
async fn finished_rows_of_before_keys_get_them_a_few_at_a_time(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    for (number, uid, key) in [(0, "a", "k0"), (1, "a", "k1"), (2, "b", "k1")] {
        let id = delivery_id(number);
        let new = NewDelivery {
            webhook: uid.into(),
            idempotency_key: Some(key.into()),
            ..new_delivery(id, &event)
        };
        assert!(rig.write(async |t| deliveries::insert(t, &new, T0).await).await);
        rig.set_status(id, Status::Succeeded).await;
    }
    let rekey = async |uid: &str, most: i64| {
        rig.write(async |t| deliveries::rekey_finished(t, uid, most).await).await
    };
    assert_eq!([rekey("a", 1).await, rekey("a", 1).await, rekey("a", 1).await], [1, 1, 0]);
    assert_eq!(rekey("b", 9).await, 1);
    let mut keys = Vec::new();
    for number in 0..3 {
        keys.push(rig.delivery(delivery_id(number)).await.idempotency_key);
    }
    assert_eq!(keys, [Some("k0".to_owned()), Some("k1".to_owned()), None]);
    let keyed = format!("SELECT count(*) FROM delivery_history WHERE webhook = '{WEBHOOK}'");
    assert_eq!(rig.number(&keyed).await, 3);
}

/// A bulk resend marks many deliveries in another order. If both waited, they would deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_deliveries_that_are_being_marked_get_their_keys_later() {
    let rig = TenantDatabase::postgres().await;
    let ids = rig.queued(3, T0).await;
    for id in &ids {
        rig.set_status(*id, Status::DeadLetter).await;
    }
    rig.run("UPDATE delivery_history SET webhook = 'uid'").await;
    let mut marks = rig.database.begin(&docket_program::clock::Clock::System).await.expect("a transaction");
    let sql = "UPDATE delivery_history SET resent = TRUE WHERE id = $1";
    marks.execute(sql, vec![ids[1].to_string().into()]).await.expect("a statement");
    let rekey = rig.write(async |t| deliveries::rekey_finished(t, "uid", 10).await);
    let soon = tokio::time::timeout(Duration::from_secs(5), rekey).await;
    assert_eq!(soon.expect("it does not wait"), 2);
    marks.commit().await.expect("commits");
    assert_eq!(rig.write(async |t| deliveries::rekey_finished(t, "uid", 10).await).await, 1);
    let all = format!("SELECT count(*) FROM delivery_history WHERE webhook = '{WEBHOOK}'");
    assert_eq!((rig.number(&all).await, rig.delivery(ids[1]).await.status), (3, Status::DeadLetter));
}
