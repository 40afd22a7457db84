//! The deliveries to a webhook that ended just before and just after another one.

use docket_domain::delivery::Status;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{Place, T0, TenantDatabase, WEBHOOK, delivery_id};
use docket_store::deliveries::{self, Neighbours, neighbours_sql};

on_both_databases!(
    neighbours_are_of_the_same_webhook_by_the_time_of_their_end,
    neighbours_are_read_from_the_index_of_the_webhook,
);

/// Ends a queued delivery.
async fn finish(rig: &TenantDatabase, number: u16, status: Status, finished_at_ms: i64) {
    let id = delivery_id(number);
    rig.set_status(id, status).await;
    rig.run(&format!("UPDATE delivery_history SET finished_at_ms = {finished_at_ms} WHERE id = '{id}'"))
        .await;
}

async fn of(rig: &TenantDatabase, number: u16, finished_at_ms: Option<i64>) -> Neighbours {
    let id = delivery_id(number).to_string();
    let mut reader = rig.reader().await;
    deliveries::neighbours(&mut reader, WEBHOOK, finished_at_ms, &id).await.expect("a statement")
}

fn expected(before: Option<u16>, after: Option<u16>) -> Neighbours {
    let id = |number: u16| delivery_id(number).to_string();
    Neighbours { before: before.map(id), after: after.map(id) }
}

async fn neighbours_are_of_the_same_webhook_by_the_time_of_their_end(rig: TenantDatabase) {
    rig.queued(7, T0).await;
    assert_eq!(of(&rig, 0, None).await, expected(None, None));
    finish(&rig, 2, Status::Succeeded, T0 + 1).await;
    finish(&rig, 0, Status::DeadLetter, T0 + 2).await;
    // These two ended in one transaction: their ids decide.
    finish(&rig, 4, Status::DeadLetter, T0 + 2).await;
    finish(&rig, 1, Status::Succeeded, T0 + 3).await;
    for (number, webhook) in [(3, "a/first/SMITH"), (5, "z/last/SMITH")] {
        finish(&rig, number, Status::Succeeded, T0 + 2).await;
        let id = delivery_id(number);
        rig.run(&format!("UPDATE delivery_history SET webhook = '{webhook}' WHERE id = '{id}'")).await;
    }
    assert_eq!(of(&rig, 2, Some(T0 + 1)).await, expected(None, Some(0)));
    assert_eq!(of(&rig, 0, Some(T0 + 2)).await, expected(Some(2), Some(4)));
    assert_eq!(of(&rig, 4, Some(T0 + 2)).await, expected(Some(0), Some(1)));
    assert_eq!(of(&rig, 1, Some(T0 + 3)).await, expected(Some(4), None));
    assert_eq!(of(&rig, 6, None).await, expected(Some(1), None), "it has not ended");
}

/// The index finds the neighbours even if many deliveries of other webhooks ended since.
async fn neighbours_are_read_from_the_index_of_the_webhook(rig: TenantDatabase) {
    let event = rig.event("W1").await;
    let fill = format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) \
         SELECT CAST(n AS TEXT), '{}', CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'usual' END, 'n', 'Succeeded', 1, n, n, n FROM s",
        event.as_str()
    );
    rig.run(&fill).await;
    let (explain, column) = match &rig.place {
        Place::File(_) => ("EXPLAIN QUERY PLAN ", 3),
        Place::Url(_) => ("EXPLAIN ", 0),
    };
    // SQLite has no statistics here: only PostgreSQL is tried with and without them.
    for analyzed in [false].into_iter().chain(matches!(rig.place, Place::Url(_)).then_some(true)) {
        if analyzed {
            rig.run("ANALYZE").await;
        }
        for webhook in ["'rare'", "'usual'"] {
            // EXPLAIN accepts no parameters on PostgreSQL.
            let sql = neighbours_sql().replace("$1", webhook).replace("$2", "10000").replace("$3", "'10000'");
            let database = rig.opened_again();
            let mut reader = database.reader().await.expect("a connection");
            let rows = reader.query(&format!("{explain}{sql}"), Vec::new()).await.expect("a plan");
            let plan: String =
                rows.iter().map(|row| row.get::<String>(column).expect("text") + "\n").collect();
            // If nearly all deliveries are of the webhook, the index of all ends leads to it as well.
            if !(analyzed && webhook == "'usual'") {
                // The second one has only lost deliveries of a webhook.
                let of_webhook =
                    ["delivery_by_end", "delivery_dead"].map(|index| plan.matches(index).count());
                assert_eq!(of_webhook.iter().sum::<usize>(), 4, "analyzed: {analyzed}\n{plan}");
            }
            let other = ["Seq Scan on delivery_history", "SCAN d\n"];
            assert!(!other.iter().any(|other| plan.contains(other)), "analyzed: {analyzed}\n{plan}");
        }
    }
}
