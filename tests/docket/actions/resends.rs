//! Dead letters that are sent again: which ones, how fast, never twice, and back again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use docket::actions::By;
use docket::actions::choice::Choice;
use docket::actions::resend::{self, Many, Progress, StoppedResend};
use docket::actions::set_aside;
use docket::refusal::Refusal;
use docket::tenancy::{HeldWebhooks, Webhooks};
use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, Status};
use docket_domain::resend::Aside;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{
    CUSTOMER, Place, T0, TenantDatabase, WEBHOOK, delivery_id, ended_sql, event_id, new_delivery,
};
use docket_store::deliveries::{self, Due, NewDelivery};
use docket_store::resends::{self, DeadFilter, DeadLetterRange, Resend};
use docket_store::{Database, StoreError, Transaction};
use jiff::Timestamp;

on_both_databases!(
    the_oldest_dead_letters_come_first_and_each_filter_counts,
    of_each_event_only_the_latest_delivery_is_sent_again,
    many_are_due_one_after_the_other,
    a_preview_says_what_a_resend_does_and_writes_nothing,
    two_requests_at_once_send_no_dead_letter_twice,
    one_dead_letter_and_all_of_them_are_changed_one_after_the_other,
    a_stop_cancels_deliveries_without_an_attempt,
    what_was_taken_back_can_be_sent_again,
    ten_thousand_are_queued_in_a_moment,
    requests_are_paged_newest_first,
    only_events_that_the_webhook_takes_are_chosen,
    a_webhook_on_hold_gets_nothing_of_another_customer,
);

fn no_unknown_webhooks() -> HeldWebhooks {
    HeldWebhooks::These([("uid".to_owned(), WEBHOOK.to_owned())].into())
}

fn many(per_second: i64) -> Many {
    let webhook = WEBHOOK.into();
    let choice =
        Choice { webhook, event: None, from_ms: None, to_ms: None, ended_before_ms: None, limit: 10_000 };
    Many { choice, per_second }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("in range")
}

async fn try_resend(
    database: &Database,
    many: &Many,
    now_ms: i64,
) -> Result<(Resend, DeadLetterRange, Vec<Due>), Refusal> {
    let mut transaction = database.begin(&Clock::System).await?;
    let held = no_unknown_webhooks();
    let active_events = BTreeSet::new();
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let done = resend::resend_many(&mut transaction, webhooks, many, "employee 99", at(now_ms)).await?;
    transaction.commit().await?;
    Ok(done)
}

async fn resend(rig: &TenantDatabase, many: &Many, now_ms: i64) -> (Resend, DeadLetterRange, Vec<Due>) {
    try_resend(&rig.database, many, now_ms).await.expect("the resend is accepted")
}

async fn stop(rig: &TenantDatabase, id: &str, by: &str, now_ms: i64) -> Result<StoppedResend, Refusal> {
    let mut transaction = rig.database.begin(&Clock::System).await?;
    let stopped = resend::stop(&mut transaction, None, id, by, at(now_ms)).await?;
    transaction.commit().await?;
    Ok(stopped)
}

/// Makes the dead letters 0, 1, …, each of another event, one per second.
async fn dead_letters(rig: &TenantDatabase, count: u16) {
    let events = rig.number("SELECT count(*) FROM event").await;
    rig.write(async |t| {
        for number in 0..count {
            let event = event_id(u16::try_from(events).expect("few") + number);
            let body = docket_store::events::Event {
                id: event.clone(),
                code: EventCode::OrderCreated,
                customer_code: CUSTOMER.into(),
                about: docket_store::events::About::web_order("W-1"),
                body: b"{}".to_vec().into(),
            };
            docket_store::events::insert(t, &body, T0).await?;
            let new = new_delivery(delivery_id(number), &event);
            deliveries::insert(t, &new, T0 + 1000 * i64::from(number)).await?;
        }
        Ok(())
    })
    .await;
    rig.run(&ended_sql(Status::DeadLetter, "created_at_ms", "TRUE")).await;
}

async fn chosen(rig: &TenantDatabase, change: impl FnOnce(&mut DeadFilter)) -> Vec<String> {
    let mut filter = DeadFilter {
        webhook: WEBHOOK.into(),
        customer_code: Some(CUSTOMER.into()),
        limit: 100,
        sendable: true,
        ..DeadFilter::default()
    };
    change(&mut filter);
    let mut reader = rig.reader().await;
    let dead = resends::dead_letters(&mut reader, &filter).await.expect("a statement");
    let (extent, total) = resends::extent(&mut reader, &filter, 1).await.expect("a statement");
    assert_eq!(extent, DeadLetterRange::of(&dead), "a preview counts what is chosen");
    assert_eq!(total, dead.len() as i64);
    let few = DeadFilter { limit: dead.len().min(2) as i64, ..filter };
    let (extent, most) = resends::extent(&mut reader, &few, 3).await.expect("a statement");
    assert_eq!(extent, DeadLetterRange::of(&dead[..dead.len().min(2)]), "the oldest");
    let (all, _) =
        resends::extent(&mut reader, &DeadFilter { limit: 100, ..few }, 1).await.expect("a statement");
    assert_eq!(most, all.count.min(3), "and no more are counted");
    dead.into_iter().map(|dead| dead.id).collect()
}

fn ids(numbers: impl IntoIterator<Item = u16>) -> Vec<String> {
    numbers.into_iter().map(|number| delivery_id(number).to_string()).collect()
}

async fn the_oldest_dead_letters_come_first_and_each_filter_counts(rig: TenantDatabase) {
    dead_letters(&rig, 6).await;
    rig.set_status(delivery_id(3), Status::Succeeded).await;
    rig.set_status(delivery_id(4), Status::Failed).await;
    assert_eq!(chosen(&rig, |_| {}).await, ids([0, 1, 2, 5]));
    assert_eq!(chosen(&rig, |filter| filter.limit = 2).await, ids([0, 1]));
    assert_eq!(chosen(&rig, |filter| filter.from_ms = Some(T0 + 1000)).await, ids([1, 2, 5]));
    assert_eq!(chosen(&rig, |filter| filter.to_ms = Some(T0 + 2000)).await, ids([0, 1]));
    assert_eq!(chosen(&rig, |filter| filter.webhook = "another".into()).await, ids([]));
    assert_eq!(chosen(&rig, |filter| filter.customer_code = Some("JONES".into())).await, ids([]));
    assert_eq!(chosen(&rig, |filter| filter.customer_code = None).await, ids([0, 1, 2, 5]));
}

async fn of_each_event_only_the_latest_delivery_is_sent_again(rig: TenantDatabase) {
    dead_letters(&rig, 3).await;
    let again = |number: u16, event: u16, webhook: &str| NewDelivery {
        webhook: webhook.into(),
        webhook_name: webhook.trim_end_matches("/SMITH").into(),
        ..new_delivery(delivery_id(number), &event_id(event))
    };
    rig.write(async |t| {
        deliveries::insert(t, &again(10, 0, WEBHOOK), T0 + 9000).await?;
        deliveries::insert(t, &again(11, 1, WEBHOOK), T0 + 9000).await?;
        deliveries::insert(t, &again(12, 2, "another"), T0 + 9000).await
    })
    .await;
    // One resend is still being tried, and another is a dead letter too; the third event's newer delivery is to another webhook.
    rig.set_status(delivery_id(11), Status::DeadLetter).await;
    assert_eq!(chosen(&rig, |_| {}).await, ids([2, 11]));
    rig.set_status(delivery_id(10), Status::Succeeded).await;
    assert_eq!(chosen(&rig, |_| {}).await, ids([2, 11]));
}

async fn many_are_due_one_after_the_other(rig: TenantDatabase) {
    dead_letters(&rig, 60).await;
    let (resend, extent, dues) = resend(&rig, &many(4), T0 + 100_000).await;
    assert_eq!(extent, DeadLetterRange { count: 60, oldest_ms: Some(T0), newest_ms: Some(T0 + 59_000) });
    assert_eq!((resend.count, dues.len()), (60, 60));
    for (number, due) in (0..).zip(&dues) {
        let row = rig.delivery(due.id).await;
        assert_eq!(row.resend_of, Some(delivery_id(number).to_string()), "oldest first");
        assert_eq!((row.due_at_ms, due.at_ms), (due.at_ms, T0 + 100_000 + 250 * i64::from(number)));
        assert_eq!((row.status, row.attempt_count, row.created_at_ms), (Status::Pending, 0, T0 + 100_000));
        assert_eq!(row.event_id, rig.delivery(delivery_id(number)).await.event_id);
        assert_eq!(
            (row.resend_id, row.requested_by.as_deref()),
            (Some(resend.id.clone()), Some("employee 99"))
        );
    }
}

async fn a_preview_says_what_a_resend_does_and_writes_nothing(rig: TenantDatabase) {
    dead_letters(&rig, 30).await;
    let Many { choice, per_second } = many(10);
    let choice = Choice { from_ms: Some(T0 + 5_000), to_ms: Some(T0 + 20_000), limit: 12, ..choice };
    let asked = Many { choice, per_second };
    let held = no_unknown_webhooks();
    let active_events = BTreeSet::new();
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let (preview, total) =
        resend::preview(&mut rig.reader().await, webhooks, &asked).await.expect("a preview");
    assert_eq!(total, 15, "without the limit");
    assert_eq!(
        preview,
        DeadLetterRange { count: 12, oldest_ms: Some(T0 + 5_000), newest_ms: Some(T0 + 16_000) }
    );
    assert_eq!(rig.number("SELECT count(*) FROM delivery WHERE status <> 'DeadLetter'").await, 0);
    assert_eq!(rig.number("SELECT count(*) FROM resend").await, 0);
    assert_eq!(resend(&rig, &asked, T0 + 100_000).await.1, preview);
}

async fn a_webhook_on_hold_gets_nothing_of_another_customer(rig: TenantDatabase) {
    dead_letters(&rig, 1).await;
    let held = HeldWebhooks::These([("uid".to_owned(), "smith/orders/OTHER".to_owned())].into());
    let active_events = BTreeSet::new();
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let mut transaction = rig.database.begin(&Clock::System).await.expect("a transaction");
    let refused = resend::resend_many(&mut transaction, webhooks, &many(10), "employee 99", at(T0)).await;
    assert!(matches!(refused, Err(Refusal::Conflict(_))), "{refused:?}");
    let id = delivery_id(0);
    let by = By { webhooks, customer: None, name: "employee 99" };
    let refused = resend::resend_one(&mut transaction, by, id, at(T0)).await;
    assert!(matches!(refused, Err(Refusal::Conflict(_))), "{refused:?}");
}

async fn two_requests_at_once_send_no_dead_letter_twice(rig: TenantDatabase) {
    dead_letters(&rig, 80).await;
    let request = |number| {
        let database = rig.opened_again();
        async move { try_resend(&database, &many(100), T0 + 100_000 + number).await }
    };
    let all = futures_util::future::join_all((0..4).map(request));
    let (mut counts, mut made) = (0, BTreeSet::new());
    for resent in rig.meeting(4, "delivery_queue", all).await {
        let (resend, extent, dues) = resent.expect("accepted");
        assert_eq!((resend.count, extent.count), (dues.len() as i64, dues.len() as i64));
        counts += dues.len();
        made.extend(dues.into_iter().map(|due| due.id));
    }
    assert_eq!((counts, made.len()), (80, 80));
    assert_eq!(rig.number("SELECT count(*) FROM delivery WHERE resend_id IS NOT NULL").await, 80);
    assert_eq!(rig.number("SELECT count(DISTINCT resend_of) FROM delivery").await, 80);
    assert_eq!(rig.number("SELECT CAST(sum(count) AS BIGINT) FROM resend").await, 80);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Action {
    ResendOne,
    ResendMany,
    SetOneAside,
    SetManyAside,
}

/// Performs the action on dead letter 0 or on all. Returns how many it changed.
async fn act(transaction: &mut Transaction, action: Action) -> Result<i64, Refusal> {
    let (held, active_events) = (no_unknown_webhooks(), BTreeSet::new());
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let by = By { webhooks, customer: None, name: "employee 99" };
    let (id, now, many) = (delivery_id(0), at(T0 + 100_000), many(100));
    match action {
        Action::ResendOne => resend::resend_one(transaction, by, id, now).await.map(|_| 1),
        Action::ResendMany => {
            let made = resend::resend_many(transaction, webhooks, &many, by.name, now).await;
            made.map(|(made, ..)| made.count)
        }
        Action::SetOneAside => set_aside::one(transaction, by, id, Aside::Set, now).await.map(i64::from),
        Action::SetManyAside => {
            set_aside::many(transaction, by, &many.choice, Aside::Set, now).await.map(|(_, count)| count)
        }
    }
}

async fn one_dead_letter_and_all_of_them_are_changed_one_after_the_other(rig: TenantDatabase) {
    dead_letters(&rig, 1).await;
    for (first, second, expected, queued, aside) in [
        (Action::ResendMany, Action::SetOneAside, Err("resent and counts no longer"), 1, 0),
        (Action::ResendMany, Action::ResendOne, Err("being sent to this webhook already"), 1, 0),
        (Action::ResendOne, Action::ResendMany, Ok(0), 1, 0),
        (Action::ResendOne, Action::SetManyAside, Ok(0), 1, 0),
        (Action::ResendOne, Action::ResendOne, Err("being sent to this webhook already"), 1, 0),
        (Action::SetOneAside, Action::ResendMany, Ok(0), 0, 1),
        (Action::SetManyAside, Action::SetOneAside, Ok(0), 0, 1),
    ] {
        let mut transaction = rig.database.begin(&Clock::System).await.expect("a transaction");
        assert_eq!(act(&mut transaction, first).await.expect("it is accepted"), 1, "{first:?}");
        let other = rig.opened_again();
        let waiting = tokio::spawn(async move {
            let mut transaction = other.begin(&Clock::System).await?;
            let done = act(&mut transaction, second).await?;
            transaction.commit().await?;
            Ok::<_, Refusal>(done)
        });
        rig.another_waits().await;
        transaction.commit().await.expect("a commit");
        let done = waiting.await.expect("no panic").map_err(|refusal| refusal.to_string());
        match (&done, expected) {
            (Ok(done), Ok(expected)) => assert_eq!(*done, expected, "{first:?}, {second:?}"),
            (Err(done), Err(expected)) => assert!(done.contains(expected), "{first:?}, {second:?}: {done}"),
            _ => panic!("{first:?}, {second:?}: {done:?}"),
        }
        let resent = rig.number("SELECT count(*) FROM delivery WHERE status = 'Pending'").await;
        let set = rig.number("SELECT count(*) FROM delivery WHERE set_aside_at_ms IS NOT NULL").await;
        assert_eq!((resent, set), (queued, aside), "{first:?}, {second:?}");
        rig.run("DELETE FROM delivery_queue").await;
        rig.run("UPDATE delivery_history SET resent = NULL, set_aside_by = NULL, set_aside_at_ms = NULL")
            .await;
    }
}

async fn a_stop_cancels_deliveries_without_an_attempt(rig: TenantDatabase) {
    dead_letters(&rig, 40).await;
    let now = T0 + 100_000;
    let (made, _, dues) = resend(&rig, &many(10), now).await;
    let begun: Vec<DeliveryId> = dues[..3].iter().map(|due| due.id).collect();
    assert_eq!(rig.begin(&begun, "mine", now + 1000, now + 5000).await.len(), 3);
    assert_eq!(
        stop(&rig, &made.id, "employee 7", now + 1000).await.expect("stops"),
        StoppedResend { taken_back: 37, gone: 3 }
    );
    let left = rig.number("SELECT count(*) FROM delivery WHERE status <> 'DeadLetter'").await;
    assert_eq!((left, rig.number("SELECT count(*) FROM delivery").await), (3, 43));
    // A second stop does not even change who stopped it.
    assert_eq!(
        stop(&rig, &made.id, "employee 8", now + 2000).await.expect("stops"),
        StoppedResend { taken_back: 0, gone: 3 }
    );
    let found =
        resend::progress(&mut rig.reader().await, None, Some(&made.id), None, 10).await.expect("a page");
    let (stopped_by, stopped_at_ms) = (Some("employee 7".into()), Some(now + 1000));
    let stopped = Resend { stopped_by, stopped_at_ms, taken_back: 37, ..made };
    assert_eq!(found, [Progress { resend: stopped, pending: 3, failed: 0, succeeded: 0, dead_letter: 0 }]);
    let unknown = stop(&rig, "no such", "employee 7", now).await;
    assert!(matches!(unknown, Err(Refusal::NotFound(_))), "{unknown:?}");
}

async fn what_was_taken_back_can_be_sent_again(rig: TenantDatabase) {
    dead_letters(&rig, 30).await;
    let (first, ..) = resend(&rig, &many(10), T0 + 100_000).await;
    assert_eq!(resend(&rig, &many(10), T0 + 100_001).await.0.count, 0, "nothing is left for another request");
    assert_eq!(stop(&rig, &first.id, "x", T0 + 100_002).await.expect("stops").taken_back, 30);
    assert_eq!(resend(&rig, &many(10), T0 + 100_003).await.0.count, 30);
    // Retention may have deleted a dead letter meanwhile: its event goes with the last delivery that needs it.
    let sql = "DELETE FROM delivery_history WHERE resend_id IS NULL AND resend_of IS NULL";
    rig.write(async |t| t.execute(sql, Vec::new()).await).await;
    let newest =
        resend::progress(&mut rig.reader().await, None, None, None, 1).await.expect("a page").remove(0);
    assert_eq!(stop(&rig, &newest.resend.id, "x", T0 + 100_004).await.expect("stops").taken_back, 30);
    assert_eq!(rig.number("SELECT count(*) FROM event").await, 0);
}

async fn ten_thousand_are_queued_in_a_moment(rig: TenantDatabase) {
    dead_letters(&rig, 10_000).await;
    let begun = Instant::now();
    let (resend, ..) = resend(&rig, &many(100), T0 + 20_000_000).await;
    let took = begun.elapsed();
    println!("10,000 dead letters queued in {took:?}");
    assert_eq!(resend.count, 10_000);
    // On SQLite, other transactions wait for their turn to write, and are refused after three seconds. PostgreSQL lets them
    // write.
    let limit = Duration::from_secs(if matches!(rig.place, Place::File(_)) { 3 } else { 30 });
    assert!(took < limit, "{took:?}");
}

async fn requests_are_paged_newest_first(rig: TenantDatabase) {
    let row = |number: i64| Resend {
        id: format!("r{number}"),
        webhook: WEBHOOK.into(),
        webhook_name: "smith/orders".into(),
        from_ms: Some(1),
        to_ms: None,
        per_second: 10,
        count: number,
        requested_by: "command line".into(),
        created_at_ms: T0 + number / 2,
        stopped_by: None,
        stopped_at_ms: None,
        taken_back: 0,
    };
    rig.write(async |t| {
        for number in 0..60 {
            resends::insert(t, &row(number)).await?;
        }
        Ok::<_, StoreError>(())
    })
    .await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let mut reader = rig.reader().await;
        let page = resend::progress(&mut reader, None, None, after.as_ref(), 7).await.expect("a page");
        let Some(last) = page.last() else { break };
        after = Some((last.resend.created_at_ms, last.resend.id.clone()));
        seen.extend(page.into_iter().map(|progress| progress.resend));
    }
    let mut expected: Vec<Resend> = (0..60).map(row).collect();
    expected.sort_by_key(|resend| std::cmp::Reverse((resend.created_at_ms, resend.id.clone())));
    assert_eq!(seen, expected);
}

async fn only_events_that_the_webhook_takes_are_chosen(rig: TenantDatabase) {
    dead_letters(&rig, 3).await;
    for (codes, count) in [
        (vec![EventCode::OrderCreated], 3),
        (vec![EventCode::NoteCreated, EventCode::InvoiceCreated], 0),
        (Vec::new(), 0),
    ] {
        let found = chosen(&rig, |filter| filter.event_codes = Some(codes.clone())).await;
        assert_eq!(found.len(), count, "{codes:?}");
    }
}
