//! Queueing deliveries, and finding them again.

use docket_crds::webhook_key;
use docket_domain::delivery::{DeliveryId, Next, Outcome, Report, Status};
use docket_domain::event::EventId;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase, WEBHOOK, delivery_id, end, event_id, new_delivery};
use docket_store::StoreError;
use docket_store::deliveries::{self, DeliveryFilter, Due, NewDelivery};

on_both_databases!(
    a_delivery_is_pending_and_due_at_once,
    a_webhook_takes_an_idempotency_key_once,
    of_two_inserts_at_once_with_one_key_one_counts,
    a_key_of_a_finished_delivery_is_taken,
    a_finished_delivery_keeps_what_it_was_queued_with,
    a_delivery_needs_its_event,
    unfinished_is_paged_in_the_order_of_ids,
    unfinished_leaves_out_what_is_finished,
    webhooks_and_events_are_held_up_to_the_length_of_ids,
    due_again_is_the_end_of_the_lease_or_the_due_time,
    the_newest_are_listed_by_status_and_number,
    an_unknown_delivery_is_not_found,
    a_delivery_and_its_attempts_are_read_at_one_moment,
);

async fn a_delivery_is_pending_and_due_at_once(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    let first =
        NewDelivery { idempotency_key: Some("k 🦊".into()), ..new_delivery(delivery_id(1), &event) };
    let second =
        NewDelivery { resend_of: Some(delivery_id(1).to_string()), ..new_delivery(delivery_id(2), &event) };
    for new in [&first, &second] {
        assert!(rig.write(async |t| deliveries::insert(t, new, T0 + 3).await).await);
    }
    let stored = rig.delivery(delivery_id(1)).await;
    assert_eq!((stored.status, stored.attempt_count, stored.due_at_ms), (Status::Pending, 0, T0 + 3));
    assert_eq!((stored.id, stored.event_id), (delivery_id(1).to_string(), event.as_str().to_owned()));
    assert_eq!((stored.webhook.as_str(), stored.webhook_name.as_str()), (WEBHOOK, "smith/orders"));
    assert_eq!((stored.event_code.as_str(), stored.about.shown()), ("order.created", "W-7"));
    assert_eq!((stored.idempotency_key.as_deref(), stored.resend_of), (Some("k 🦊"), None));
    assert_eq!((stored.created_at_ms, stored.finished_at_ms), (T0 + 3, None));
    assert_eq!((stored.failure_class, stored.http_status), (None, None));
    let resent = rig.delivery(delivery_id(2)).await;
    assert_eq!((resent.idempotency_key, resent.resend_of), (None, Some(delivery_id(1).to_string())));
    assert_eq!(rig.lease(delivery_id(1)).await, (None, None));
    assert!(rig.attempts(delivery_id(1)).await.is_empty());
}

async fn a_webhook_takes_an_idempotency_key_once(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    let keyed = |number, webhook: &str, key: Option<&str>| NewDelivery {
        webhook: webhook.into(),
        idempotency_key: key.map(Into::into),
        ..new_delivery(delivery_id(number), &event)
    };
    for (new, queued) in [
        (keyed(1, "one", Some("k")), true),
        (keyed(2, "one", Some("k")), false),
        (keyed(3, "two", Some("k")), true),
        (keyed(4, "one", Some("K")), true),
        (keyed(5, "one", None), true),
        (keyed(6, "one", None), true),
        (keyed(7, "one", Some("")), true),
        (keyed(8, "one", Some("")), false),
    ] {
        let id = new.id;
        assert_eq!(rig.write(async |t| deliveries::insert(t, &new, T0).await).await, queued, "{id}");
        let found = deliveries::find(&mut rig.reader().await, id).await.expect("a statement");
        assert_eq!(found.is_some(), queued, "{id}");
    }
}

async fn of_two_inserts_at_once_with_one_key_one_counts(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    let insert = async |number| {
        let database = rig.opened_again();
        let mut transaction = database.begin(&Clock::System).await.expect("a turn");
        let new = keyed(number, &event);
        let queued = deliveries::insert(&mut transaction, &new, T0).await.expect("a statement");
        transaction.commit().await.expect("a commit");
        queued
    };
    let both = async { tokio::join!(insert(0), insert(1)) };
    let (one, two) = rig.meeting(2, "delivery_queue", both).await;
    assert!(one != two);
    assert_eq!(rig.number("SELECT count(*) FROM delivery").await, 1);
}

fn keyed(number: u16, event: &EventId) -> NewDelivery {
    NewDelivery { idempotency_key: Some("k".into()), ..new_delivery(delivery_id(number), event) }
}

async fn a_key_of_a_finished_delivery_is_taken(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    assert!(rig.write(async |t| deliveries::insert(t, &keyed(0, &event), T0).await).await);
    let started = rig.begin(&[delivery_id(0)], "mine", T0, T0 + 4).await;
    let outcome = Outcome::Succeeded(Report::default());
    assert!(rig.finish(&started[0], "mine", &outcome, Next::Succeeded, T0 + 1).await);
    // The key of one delivery is taken; the other deliveries are queued.
    let other = NewDelivery { idempotency_key: Some("another".into()), ..keyed(2, &event) };
    let elsewhere = NewDelivery { webhook: "elsewhere".into(), ..keyed(3, &event) };
    let many = [keyed(1, &event), other, elsewhere, new_delivery(delivery_id(4), &event)];
    let mut queued = rig.write(async |t| deliveries::insert_many(t, &many, T0 + 2).await).await;
    queued.sort();
    assert_eq!(queued, [delivery_id(2), delivery_id(3), delivery_id(4)]);
    assert_eq!(rig.number("SELECT count(*) FROM delivery WHERE idempotency_key = 'k'").await, 2);
    let mut reader = rig.reader().await;
    assert_eq!(deliveries::due_by_key(&mut reader, WEBHOOK, "k").await.expect("a statement"), None);
    let due = deliveries::due_by_key(&mut reader, "elsewhere", "k").await.expect("a statement");
    assert_eq!(due.map(|due| due.id), Some(delivery_id(3)));
}

/// A transaction that queues the same key waits for the end of the first transaction. Returns whether it queued the delivery.
async fn queued_while_its_twin_ends(commits: bool) -> (bool, i64) {
    let rig = TenantDatabase::postgres().await;
    let event = rig.event("W-7").await;
    assert!(rig.write(async |t| deliveries::insert(t, &keyed(0, &event), T0).await).await);
    let started = rig.begin(&[delivery_id(0)], "mine", T0, T0 + 4).await;
    let end = end(&started[0], "mine", &Outcome::Succeeded(Report::default()));
    let mut ending = rig.database.begin(&Clock::System).await.expect("a turn");
    let ours = deliveries::finish_attempt(&mut ending, &end, Next::Succeeded, T0 + 1).await;
    assert!(ours.expect("a statement"));
    let (other, again) = (rig.opened_again(), keyed(1, &event));
    let inserting = tokio::spawn(async move {
        let mut transaction = other.begin(&Clock::System).await?;
        let queued = deliveries::insert(&mut transaction, &again, T0 + 2).await?;
        transaction.commit().await.map(|()| queued)
    });
    rig.another_waits().await;
    match commits {
        true => ending.commit().await.expect("a commit"),
        false => ending.rollback().await.expect("a rollback"),
    }
    let queued = inserting.await.expect("no panic").expect("no conflict");
    let rows = "SELECT count(*) FROM delivery WHERE idempotency_key = 'k'";
    (queued, rig.number(rows).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_whose_delivery_ends_at_the_same_time_is_not_queued_again() {
    assert_eq!(queued_while_its_twin_ends(true).await, (false, 1));
    assert_eq!(queued_while_its_twin_ends(false).await, (false, 1));
}

/// Whether an attempt has ended it, or its webhook is gone.
async fn a_finished_delivery_keeps_what_it_was_queued_with(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    let first = NewDelivery {
        idempotency_key: Some("k".into()),
        resend_of: Some("another".into()),
        requested_by: Some("employee 1".into()),
        resend_id: Some("bulk".into()),
        due_at_ms: Some(T0 + 7),
        ..new_delivery(delivery_id(1), &event)
    };
    let second =
        NewDelivery { id: delivery_id(2), idempotency_key: Some("another k".into()), ..first.clone() };
    for new in [&first, &second] {
        assert!(rig.write(async |t| deliveries::insert(t, new, T0 + 3).await).await);
    }
    let is_under_way = async |name: &str| {
        let mut reader = rig.reader().await;
        deliveries::is_under_way(&mut reader, event.as_str(), name).await.expect("a statement")
    };
    assert!(is_under_way("smith/orders").await && !is_under_way("smith/another").await);
    let started = rig.begin(&[delivery_id(1)], "mine", T0 + 7, T0 + 9).await;
    let outcome = Outcome::Succeeded(Report::default());
    assert!(rig.finish(&started[0], "mine", &outcome, Next::Succeeded, T0 + 8).await);
    let gone = rig.write(async |t| {
        deliveries::note_missing(t, [WEBHOOK], T0 + 4, T0 + 4).await?;
        deliveries::end_without_webhook(t, &[delivery_id(2)], T0 + 5, T0 + 5, T0 + 9).await
    });
    assert_eq!(gone.await, 1);
    let since = "SELECT webhook_missing_since_ms FROM delivery_history WHERE status = 'DeadLetter'";
    assert_eq!(rig.number(since).await, T0 + 4);
    assert!(!is_under_way("smith/orders").await);
    for (new, status) in [(&first, Status::Succeeded), (&second, Status::DeadLetter)] {
        let stored = rig.delivery(new.id).await;
        assert_eq!((stored.status, stored.created_at_ms, stored.due_at_ms), (status, T0 + 3, T0 + 7));
        assert_eq!((&stored.idempotency_key, &stored.resend_of), (&new.idempotency_key, &new.resend_of));
        assert_eq!((&stored.requested_by, &stored.resend_id), (&new.requested_by, &new.resend_id));
        assert_eq!((&stored.webhook, &stored.webhook_name), (&new.webhook, &new.webhook_name));
    }
}

async fn a_delivery_needs_its_event(rig: TenantDatabase) {
    let new = new_delivery(delivery_id(1), &event_id(9));
    let result = rig.try_write(async |t| deliveries::insert(t, &new, T0).await).await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
}

async fn unfinished_is_paged_in_the_order_of_ids(rig: TenantDatabase) {
    let event = rig.event("W-7").await;
    // Times decrease while ids increase. Four rows have the same time.
    let due = |number: u16| T0 + 9 - i64::from(number / 4);
    rig.write(async |t| {
        for number in 0..40 {
            assert!(deliveries::insert(t, &new_delivery(delivery_id(number), &event), due(number)).await?);
        }
        Ok(())
    })
    .await;
    let expected: Vec<(i64, DeliveryId)> = (0..40).map(|number| (due(number), delivery_id(number))).collect();

    for limit in [1, 3, 4, 7, 100] {
        let mut reader = rig.reader().await;
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = deliveries::unfinished(&mut reader, after, limit).await.expect("a page");
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            assert!(page.len() as i64 <= limit && page.iter().all(|due| due.webhook == WEBHOOK));
            seen.extend(page.iter().map(|due| (due.at_ms, due.id)));
        }
        assert_eq!(seen, expected, "pages of {limit}");
    }
}

async fn unfinished_leaves_out_what_is_finished(rig: TenantDatabase) {
    let ids = rig.queued(4, T0).await;
    let statuses = [Status::Pending, Status::Failed, Status::Succeeded, Status::DeadLetter];
    for (id, status) in ids.iter().zip(statuses) {
        rig.set_status(*id, status).await;
    }
    let due = deliveries::unfinished(&mut rig.reader().await, None, 100).await.expect("a page");
    assert_eq!(due.iter().map(|due| due.id).collect::<Vec<_>>(), ids[..2]);
}

/// The owner of a database may write anything into its rows. A schedule and an attempt keep these values in memory.
async fn webhooks_and_events_are_held_up_to_the_length_of_ids(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    let full_name = format!("{}/{}", "n".repeat(63), "n".repeat(253));
    let (genuine, long) = (webhook_key::of(&full_name, &"🦊".repeat(64)), "🦊".repeat(20_000));
    for (id, webhook) in ids.iter().zip([&genuine, &long]) {
        rig.run(&format!("UPDATE delivery_queue SET webhook = '{webhook}' WHERE id = '{id}'")).await;
    }
    let cut = "🦊".repeat(145);
    let mut reader = rig.reader().await;
    let due = deliveries::unfinished(&mut reader, None, 100).await.expect("a page");
    assert_eq!([&due[0].webhook, &due[1].webhook], [&genuine, &cut]);
    let again = deliveries::due_again(&mut reader, &ids[1..]).await.expect("a statement");
    assert_eq!(again[0].webhook, cut);
    drop(reader);
    let started = rig.begin(&ids[1..], "mine", T0, T0 + 500).await;
    assert_eq!(started[0].webhook, cut);
}

async fn due_again_is_the_end_of_the_lease_or_the_due_time(rig: TenantDatabase) {
    let ids = rig.queued(60, T0).await;
    rig.begin(&ids[..10], "mine", T0, T0 + 500).await;
    rig.set_status(ids[59], Status::Succeeded).await;
    let mut asked = ids.clone();
    asked.push(delivery_id(999));
    let mut due = deliveries::due_again(&mut rig.reader().await, &asked).await.expect("a statement");
    due.sort_by_key(|due| due.id);
    let expected: Vec<Due> = ids[..59]
        .iter()
        .enumerate()
        .map(|(index, id)| Due {
            id: *id,
            webhook: WEBHOOK.into(),
            at_ms: if index < 10 { T0 + 500 } else { T0 },
        })
        .collect();
    assert_eq!(due, expected);
    assert_eq!(deliveries::due_again(&mut rig.reader().await, &[]).await.expect("no statement"), []);
}

async fn the_newest_are_listed_by_status_and_number(rig: TenantDatabase) {
    for (number, subject) in (0..).zip(["W-1", "W-2", "W-1", "W-2", "W-1"]) {
        let event = rig.event(subject).await;
        let new = new_delivery(delivery_id(number), &event);
        // The last two deliveries have the same time.
        let at = T0 + i64::from(number.min(3));
        assert!(rig.write(async |t| deliveries::insert(t, &new, at).await).await);
    }
    rig.set_status(delivery_id(2), Status::DeadLetter).await;
    for (status, about, limit, expected) in [
        (None, None, 10, vec![4, 3, 2, 1, 0]),
        (None, None, 2, vec![4, 3]),
        (Some(Status::DeadLetter), None, 10, vec![2]),
        (None, Some("W-2"), 10, vec![3, 1]),
        (None, Some("w-2"), 10, vec![]),
        (Some(Status::Pending), Some("W-1"), 10, vec![4, 0]),
        (Some(Status::Pending), Some("W-1"), 1, vec![4]),
        (Some(Status::Succeeded), Some("W-1"), 10, vec![]),
    ] {
        let filter = DeliveryFilter { status, about: about.map(str::to_owned), ..DeliveryFilter::default() };
        let page = deliveries::search(&mut rig.reader().await, &Clock::System, &filter, limit).await;
        let ids: Vec<_> = page.expect("a statement").items.into_iter().map(|listed| listed.id).collect();
        let expected: Vec<_> = expected.into_iter().map(|number| delivery_id(number).to_string()).collect();
        assert_eq!(ids, expected, "{status:?} {about:?} {limit}");
    }
}

async fn a_delivery_and_its_attempts_are_read_at_one_moment(rig: TenantDatabase) {
    let ids = rig.queued(40, T0).await;
    let started = rig.begin(&ids, "mine", T0, T0 + 40_000).await;
    let last = ids[ids.len() - 1];
    let mut reader = rig.opened_again().reader().await.expect("a connection");
    let reading = tokio::spawn(async move {
        let mut reads = 0;
        loop {
            for id in &ids {
                let found = deliveries::find_with_attempts(&mut reader, *id).await.expect("a statement");
                let (listed, attempts) = found.expect("the delivery");
                let has_ended = attempts[0].finished_at_ms.is_some();
                assert_eq!(attempts.len(), 1);
                assert_eq!(has_ended, listed.status == Status::Succeeded, "{id} after {reads} reads");
                reads += 1;
                if has_ended && *id == last {
                    return;
                }
            }
        }
    });
    for started in &started {
        let outcome = Outcome::Succeeded(Report::default());
        assert!(rig.finish(started, "mine", &outcome, Next::Succeeded, T0 + 1).await);
    }
    reading.await.expect("no panic");
}

async fn an_unknown_delivery_is_not_found(rig: TenantDatabase) {
    let mut reader = rig.reader().await;
    assert!(deliveries::find(&mut reader, delivery_id(1)).await.expect("a statement").is_none());
    assert!(
        deliveries::find_with_attempts(&mut reader, delivery_id(1)).await.expect("a statement").is_none()
    );
}
