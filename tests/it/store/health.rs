//! How webhooks are doing, as the operator shows it.

use docket::store::deliveries as rows;
use docket::store::health::{self, WebhookHealth};
use docket_domain::delivery::Status;

use super::{Rig, T0, WEBHOOK, delivery_id, new_delivery, on_both_databases};

on_both_databases!(deliveries_are_counted_by_webhook, an_unused_database_has_no_webhooks);

async fn deliveries_are_counted_by_webhook(rig: Rig) {
    let ids = rig.queued(6, T0).await;
    for (id, status) in
        ids.iter().zip([Status::Failed, Status::Succeeded, Status::Succeeded, Status::DeadLetter])
    {
        rig.set_status(*id, status).await;
    }
    for (id, finished) in ids[1..4].iter().zip([T0 + 3, T0 + 7, T0 + 5]) {
        let sql = format!("UPDATE delivery SET finished_at_ms = {finished} WHERE id = '{id}'");
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

async fn an_unused_database_has_no_webhooks(rig: Rig) {
    assert_eq!(health::by_webhook(&mut rig.reader().await).await.expect("a statement"), []);
}
