//! The health of webhooks, as the operator shows it.

use docket_domain::delivery::{DeliveryId, Status};
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase, WEBHOOK, delivery_id, ended_sql, new_delivery};
use docket_store::deliveries as rows;
use docket_store::events;
use docket_store::health::{self, WebhookHealth};
use docket_store::recent::MAX_COUNT;
use docket_store::resends::{self, DeadFilter};

on_both_databases!(
    deliveries_are_counted_by_webhook,
    a_busy_webhook_hides_no_other,
    deliveries_of_test_events_do_not_count,
    dead_letters_are_counted_to_a_bound_where_that_is_enough,
    an_unused_database_has_no_webhooks
);

async fn deliveries_are_counted_by_webhook(rig: TenantDatabase) {
    let ids = rig.queued(6, T0).await;
    for (id, status) in
        ids.iter().zip([Status::Failed, Status::Succeeded, Status::Succeeded, Status::DeadLetter])
    {
        rig.set_status(*id, status).await;
    }
    for (id, finished) in ids[1..4].iter().zip([T0 + 3, T0 + 7, T0 + 5]) {
        let sql = format!("UPDATE delivery_history SET finished_at_ms = {finished} WHERE id = '{id}'");
        rig.write(async |t| t.execute(&sql, Vec::new()).await).await;
    }
    let event = rig.event("another").await;
    let other = rows::NewDelivery { webhook: "zulu".into(), ..new_delivery(delivery_id(99), &event) };
    rig.write(async |t| rows::insert(t, &other, T0).await).await;

    let found = health::by_webhook(&mut rig.reader().await).await.expect("a statement");
    let first = WebhookHealth {
        webhook: WEBHOOK.into(),
        pending: 3,
        retrying: 1,
        dead_letter: 1,
        last_success_at_ms: Some(T0 + 7),
        last_dead_letter_at_ms: Some(T0 + 5),
    };
    let second = WebhookHealth { webhook: "zulu".into(), pending: 1, ..WebhookHealth::default() };
    assert_eq!(found, [first, second]);
}

/// The health of a webhook does not depend on how many deliveries another webhook has had since.
async fn a_busy_webhook_hides_no_other(rig: TenantDatabase) {
    let ids = rig.queued(1_200, T0).await;
    let end = async |status: Status, ended: i64, which: &str| {
        rig.run(&ended_sql(status, &ended.to_string(), which)).await;
    };
    end(Status::Succeeded, T0 + 1, &format!("id = '{}'", ids[0])).await;
    end(Status::DeadLetter, T0 + 2, &format!("id = '{}'", ids[1])).await;
    end(Status::Succeeded, T0 + 9, "TRUE").await;
    let quiet =
        format!("UPDATE delivery_history SET webhook = 'alpha' WHERE id IN ('{}', '{}')", ids[0], ids[1]);
    rig.write(async |t| t.execute(&quiet, Vec::new()).await).await;
    let found = health::by_webhook(&mut rig.reader().await).await.expect("a statement");
    let alpha = WebhookHealth {
        webhook: "alpha".into(),
        dead_letter: 1,
        last_success_at_ms: Some(T0 + 1),
        last_dead_letter_at_ms: Some(T0 + 2),
        ..WebhookHealth::default()
    };
    let busy = WebhookHealth {
        webhook: WEBHOOK.into(),
        last_success_at_ms: Some(T0 + 9),
        ..WebhookHealth::default()
    };
    assert_eq!(found, [alpha, busy]);
}

/// Deliveries of test events do not count, whether they wait or have ended, and no bulk resend sends them. The log shows them.
async fn deliveries_of_test_events_do_not_count(rig: TenantDatabase) {
    let real = rig.queued(2, T0).await;
    let (lost, order) = (delivery_id(50), rig.event("W2").await);
    rig.write(async |t| rows::insert(t, &new_delivery(lost, &order), T0).await).await;
    let test = rig.event("TEST-1").await;
    let under_way = async |webhook| rig.write(async |t| events::is_test_under_way(t, webhook).await).await;
    assert!(!under_way(WEBHOOK).await);
    let (test, id) = (&test, |number: u16| delivery_id(100 + number));
    rig.write(async |t| {
        events::mark_as_test(t, test, WEBHOOK).await?;
        let new: Vec<_> = (0..4).map(|number| new_delivery(id(number), test)).collect();
        rows::insert_many(t, &new, T0).await.map(drop)
    })
    .await;
    rig.set_status(id(0), Status::Failed).await;
    let end = async |which: DeliveryId, status: Status, ended: i64| {
        rig.run(&ended_sql(status, &ended.to_string(), &format!("id = '{which}'"))).await;
    };
    end(real[0], Status::Succeeded, T0 + 1).await;
    end(lost, Status::DeadLetter, T0 + 2).await;
    end(id(1), Status::Succeeded, T0 + 3).await;
    end(id(2), Status::DeadLetter, T0 + 4).await;

    let mut reader = rig.reader().await;
    let expected = WebhookHealth {
        webhook: WEBHOOK.into(),
        pending: 1,
        retrying: 0,
        dead_letter: 1,
        last_success_at_ms: Some(T0 + 1),
        last_dead_letter_at_ms: Some(T0 + 2),
    };
    assert_eq!(health::by_webhook(&mut reader).await.expect("a statement"), [expected]);
    assert!(under_way(WEBHOOK).await);
    assert!(!under_way("zulu").await);
    let all = DeadFilter { webhook: WEBHOOK.into(), limit: 10, sendable: true, ..DeadFilter::default() };
    let dead = resends::dead_letters(&mut reader, &all).await.expect("a statement");
    assert_eq!(dead.iter().map(|dead| dead.id.clone()).collect::<Vec<_>>(), [lost.to_string()]);
    drop(reader);
    assert!(rig.delivery(id(2)).await.is_test && !rig.delivery(lost).await.is_test);

    // The webhook is gone. Two deliveries end; one of them is of a test event and does not count.
    let waiting = [real[1], id(0)];
    rig.write(async |t| rows::note_missing(t, [WEBHOOK], T0, T0).await).await;
    let ended = rig.write(async |t| rows::end_without_webhook(t, &waiting, T0, T0, T0 + 10).await).await;
    assert_eq!(ended, 1);
    rig.run(&format!("DELETE FROM delivery_queue WHERE event_id = '{}'", test.as_str())).await;
    rig.run(&format!("DELETE FROM delivery_history WHERE event_id = '{}'", test.as_str())).await;
    rig.write(async |t| rows::delete_undelivered_events(t, &[test.as_str().to_owned()]).await).await;
    assert_eq!(rig.number("SELECT count(*) FROM test_event").await, 0, "its mark goes with the event");
}

async fn dead_letters_are_counted_to_a_bound_where_that_is_enough(rig: TenantDatabase) {
    let event = rig.event("W1").await;
    let fill = format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 30004) \
         SELECT CAST(n AS TEXT), '{}', CASE WHEN n > 30000 THEN 'quiet' ELSE 'busy' END, 'n', 'DeadLetter', 1, n, n, n FROM s",
        event.as_str()
    );
    rig.run(&fill).await;
    let dead = |found: Vec<WebhookHealth>| found.iter().map(|health| health.dead_letter).collect::<Vec<_>>();
    let mut reader = rig.reader().await;
    assert_eq!(dead(health::by_webhook(&mut reader).await.expect("a statement")), [30_000, 4]);
    let bounded = dead(health::by_webhook_bounded(&mut reader).await.expect("a statement"));
    assert!(bounded[0] > MAX_COUNT && bounded[0] < 30_000 && bounded[1] == 4, "{bounded:?}");
}

/// The cost does not depend on the length of the history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_are_found_by_their_index() {
    let rig = TenantDatabase::postgres().await;
    let event = rig.event("W1").await;
    let fill = format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) SELECT n::text, '{}', 'w' || n % 5, 'n', CASE WHEN n % 100 = 0 THEN 'DeadLetter' ELSE \
         'Succeeded' END, 1, n, n, n FROM generate_series(1, 20000) AS s(n)",
        event.as_str()
    );
    rig.write(async |t| t.execute(&fill, Vec::new()).await).await;
    rig.write(async |t| t.execute("ANALYZE delivery_history", Vec::new()).await).await;
    let mut reader = rig.reader().await;
    for bound in ["", health::BOUND] {
        let sql = format!("EXPLAIN {}", health::sql(bound));
        let rows = reader.query(&sql, Vec::new()).await.expect("a plan");
        let plan: Vec<String> = rows.iter().map(|row| row.get(0).expect("text")).collect();
        let plan = plan.join("\n");
        // The queue may be counted whole, because it is small.
        let whole = plan.contains("Seq Scan on delivery_history");
        assert!(plan.contains("delivery_by_end") && !whole, "{plan}");
    }
}

async fn an_unused_database_has_no_webhooks(rig: TenantDatabase) {
    assert_eq!(health::by_webhook(&mut rig.reader().await).await.expect("a statement"), []);
}
