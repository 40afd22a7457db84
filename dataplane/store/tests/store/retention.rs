//! Which old rows are deleted, and which rows never are.

use std::time::Duration;

use docket_domain::delivery::{Next, Outcome, Report, Status};
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{Place, T0, TenantDatabase, WEBHOOK, delivery_id, end, new_delivery};
use docket_store::deliveries::{self, NewDelivery};
use docket_store::resends::{self, Resend};
use docket_store::{StoreError, retention};

on_both_databases!(
    what_has_ended_long_ago_goes_with_its_attempts_and_its_event,
    what_is_unfinished_stays_however_old,
    an_event_stays_as_long_as_a_delivery_needs_it,
    the_oldest_go_first_and_no_more_than_the_batch,
    a_request_for_many_goes_after_its_deliveries,
    what_is_being_sent_again_stays,
    the_oldest_of_each_kind_is_known,
    a_resend_at_the_same_time_keeps_its_event,
    a_delivery_that_ends_at_the_same_time_keeps_its_event,
);

async fn finish(rig: &TenantDatabase, number: u16, status: Status, finished_at_ms: i64) {
    let id = delivery_id(number);
    rig.set_status(id, status).await;
    let sql = format!("UPDATE delivery_history SET finished_at_ms = {finished_at_ms} WHERE id = '{id}'");
    rig.write(async |t| t.execute(&sql, Vec::new()).await).await;
}

async fn delete(rig: &TenantDatabase, before_ms: i64, limit: i64) -> u64 {
    rig.write(async |t| retention::delete_finished(t, before_ms, limit).await).await
}

async fn left(rig: &TenantDatabase) -> [i64; 3] {
    let count = async |table: &str| rig.number(&format!("SELECT count(*) FROM {table}")).await;
    [count("delivery").await, count("attempt").await, count("event").await]
}

async fn what_has_ended_long_ago_goes_with_its_attempts_and_its_event(rig: TenantDatabase) {
    for number in 0..3 {
        let event = rig.event(&format!("W-{number}")).await;
        rig.write(async |t| deliveries::insert(t, &new_delivery(delivery_id(number), &event), T0).await)
            .await;
    }
    rig.begin(&[delivery_id(0), delivery_id(1), delivery_id(2)], "mine", T0, T0).await;
    finish(&rig, 0, Status::Succeeded, T0 + 10).await;
    finish(&rig, 1, Status::DeadLetter, T0 + 10).await;
    finish(&rig, 2, Status::Succeeded, T0 + 11).await;
    assert_eq!(delete(&rig, T0 + 10, 100).await, 0, "exactly so old is not older");
    assert_eq!(delete(&rig, T0 + 11, 100).await, 2);
    assert_eq!(left(&rig).await, [1, 1, 1]);
    assert_eq!(rig.delivery(delivery_id(2)).await.about.shown(), "W-2");
}

async fn what_is_unfinished_stays_however_old(rig: TenantDatabase) {
    rig.queued(2, T0).await;
    rig.begin(&[delivery_id(1)], "mine", T0, T0).await;
    rig.set_status(delivery_id(1), Status::Failed).await;
    assert_eq!(delete(&rig, i64::MAX, 100).await, 0);
    rig.run("UPDATE delivery_queue SET due_at_ms = 0, created_at_ms = 0, started_at_ms = 0").await;
    assert_eq!(delete(&rig, i64::MAX, 100).await, 0);
    // The view shows an attempt in whichever table it has begun.
    assert_eq!(left(&rig).await, [2, 2, 1]);
}

async fn an_event_stays_as_long_as_a_delivery_needs_it(rig: TenantDatabase) {
    rig.queued(2, T0).await;
    finish(&rig, 0, Status::Succeeded, T0).await;
    assert_eq!((delete(&rig, T0 + 1, 100).await, left(&rig).await), (1, [1, 0, 1]));
    finish(&rig, 1, Status::Succeeded, T0).await;
    assert_eq!((delete(&rig, T0 + 1, 100).await, left(&rig).await), (1, [0, 0, 0]));
}

async fn the_oldest_go_first_and_no_more_than_the_batch(rig: TenantDatabase) {
    rig.queued(70, T0).await;
    for number in 0..70 {
        finish(&rig, number, Status::Succeeded, T0 + i64::from(number)).await;
    }
    assert_eq!(delete(&rig, T0 + 60, 26).await, 26);
    assert_eq!(rig.number("SELECT min(finished_at_ms) FROM delivery").await, T0 + 26);
    assert_eq!(delete(&rig, T0 + 60, 26).await, 26);
    assert_eq!(delete(&rig, T0 + 60, 26).await, 8);
    assert_eq!(delete(&rig, T0 + 60, 26).await, 0);
    assert_eq!(left(&rig).await, [10, 0, 1]);
}

async fn a_request_for_many_goes_after_its_deliveries(rig: TenantDatabase) {
    let event = rig.event("W-1").await;
    let row = |id: &str, created_at_ms| Resend {
        id: id.into(),
        webhook: WEBHOOK.into(),
        webhook_name: "smith/orders".into(),
        from_ms: None,
        to_ms: None,
        per_second: 10,
        count: 1,
        requested_by: "x".into(),
        created_at_ms,
        stopped_by: None,
        stopped_at_ms: None,
        taken_back: 0,
    };
    rig.write(async |t| {
        resends::insert(t, &row("empty", T0)).await?;
        resends::insert(t, &row("new", T0 + 5)).await?;
        resends::insert(t, &row("full", T0)).await?;
        let new = NewDelivery { resend_id: Some("full".into()), ..new_delivery(delivery_id(1), &event) };
        deliveries::insert(t, &new, T0).await?;
        Ok::<_, StoreError>(())
    })
    .await;
    assert_eq!(rig.write(async |t| retention::delete_resends(t, T0 + 5).await).await, 1);
    assert_eq!(rig.number("SELECT count(*) FROM resend WHERE id = 'empty'").await, 0);
    finish(&rig, 1, Status::DeadLetter, T0).await;
    assert_eq!(delete(&rig, T0 + 1, 100).await, 1);
    assert_eq!(rig.write(async |t| retention::delete_resends(t, T0 + 5).await).await, 1);
    assert_eq!(rig.number("SELECT count(*) FROM resend").await, 1);
}

async fn what_is_being_sent_again_stays(rig: TenantDatabase) {
    let event = rig.event("W-1").await;
    rig.write(async |t| deliveries::insert(t, &new_delivery(delivery_id(1), &event), T0).await).await;
    finish(&rig, 1, Status::DeadLetter, T0).await;
    let again =
        NewDelivery { resend_of: Some(delivery_id(1).to_string()), ..new_delivery(delivery_id(2), &event) };
    rig.write(async |t| deliveries::insert(t, &again, T0).await).await;
    assert_eq!(delete(&rig, T0 + 1, 100).await, 0);
    finish(&rig, 2, Status::Succeeded, T0 + 5).await;
    assert_eq!(delete(&rig, T0 + 1, 100).await, 1);
}

async fn the_oldest_of_each_kind_is_known(rig: TenantDatabase) {
    let oldest = async || rig.write(async |t| retention::oldest(t).await).await;
    rig.queued(3, T0).await;
    assert_eq!(oldest().await, [None; 4], "these are unfinished");
    finish(&rig, 0, Status::Succeeded, T0 + 2).await;
    finish(&rig, 1, Status::DeadLetter, T0 + 1).await;
    rig.run(
        "INSERT INTO resend (id, webhook, webhook_name, per_second, count, requested_by, created_at_ms) \
         VALUES ('a', 'w', 'a/w', 1, 1, 'x', 4), ('b', 'w', 'a/w', 1, 1, 'x', 3); \
         INSERT INTO audit (at_ms, id, event, count) VALUES (6, 'a', 'TestSent', 1), (5, 'b', 'TestSent', 1); \
         INSERT INTO mail_link (token_digest, subscription_id, user_kind, user_code, sent_at_ms) \
         VALUES ('a', 's', 'contact', '11', 8), ('b', 's', 'contact', '11', 7)",
    )
    .await;
    assert_eq!(oldest().await, [Some(T0 + 1), Some(3), Some(5), Some(7)]);
}

async fn a_resend_at_the_same_time_keeps_its_event(rig: TenantDatabase) {
    let event = rig.event("W-1").await;
    rig.write(async |t| deliveries::insert(t, &new_delivery(delivery_id(1), &event), T0).await).await;
    finish(&rig, 1, Status::DeadLetter, T0).await;
    let mut resend = rig.database.begin(&Clock::System).await.expect("begins");
    deliveries::insert(&mut resend, &new_delivery(delivery_id(2), &event), T0).await.expect("queued");
    let other = rig.opened_again();
    let retention = tokio::spawn(async move {
        let mut transaction = other.begin(&Clock::System).await?;
        let deleted = retention::delete_finished(&mut transaction, T0 + 1, 100).await?;
        transaction.commit().await.map(|()| deleted)
    });
    rig.another_waits().await;
    resend.commit().await.expect("committed");
    assert_eq!(retention.await.expect("no panic").expect("no conflict"), 1);
    assert_eq!(left(&rig).await, [1, 0, 1], "the event of the resend is there");
}

/// While a delivery moves from the queue to the history, it holds no lock on its event. Retention must see in one of
/// the two tables that the event is needed.
async fn a_delivery_that_ends_at_the_same_time_keeps_its_event(rig: TenantDatabase) {
    rig.queued(2, T0).await;
    finish(&rig, 0, Status::Succeeded, T0).await;
    let started = rig.begin(&[delivery_id(1)], "mine", T0, T0 + 4).await.remove(0);
    let mut ends = rig.database.begin(&Clock::System).await.expect("begins");
    let end = end(&started, "mine", &Outcome::Succeeded(Report::default()));
    assert!(deliveries::finish_attempt(&mut ends, &end, Next::Succeeded, T0).await.expect("stored"));
    let other = rig.opened_again();
    let retention = tokio::spawn(async move {
        let mut transaction = other.begin(&Clock::System).await?;
        let deleted = retention::delete_finished(&mut transaction, T0 + 1, 100).await?;
        transaction.commit().await.map(|()| deleted)
    });
    let deleted = match &rig.place {
        Place::File(_) => {
            ends.commit().await.expect("committed");
            assert_eq!(retention.await.expect("no panic").expect("no conflict"), 2);
            return assert_eq!(left(&rig).await, [0, 0, 0]);
        }
        Place::Url(_) => {
            tokio::time::timeout(Duration::from_secs(5), retention).await.expect("it does not wait")
        }
    };
    assert_eq!(deleted.expect("no panic").expect("no conflict"), 1);
    ends.commit().await.expect("committed");
    assert_eq!(left(&rig).await, [1, 1, 1]);
    assert_eq!(rig.delivery(delivery_id(1)).await.about.shown(), "web order");
    assert_eq!((delete(&rig, T0 + 1, 100).await, left(&rig).await), (1, [0, 0, 0]));
}
