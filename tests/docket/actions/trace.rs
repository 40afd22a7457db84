//! Traces through the library: what a right to one webhook shows, and what a customer sees.

use std::collections::{BTreeMap, BTreeSet};

use docket::actions::meant::meant;
use docket::actions::trace::{Declared, MissedEvent, Sight, TraceOf, find, read};
use docket::refusal::Refusal;
use docket::tenancy::{HeldWebhooks, Webhooks};
use docket_crds::{EventCode, WebhookConfig};
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{
    CUSTOMER, INVOICE_TABLES, T0, TenantDatabase, WEBHOOK, delivery_id, insert_invoice_sql, tenant_config,
};
use docket_store::contacts;

on_both_databases!(
    right_to_one_webhook_shows_no_invoice_of_another_customer_with_the_same_number,
    customer_finds_no_work_order_and_no_invoice_of_another,
    trace_of_a_delivery_knows_the_other_deliveries_of_its_event,
);

async fn right_to_one_webhook_shows_no_invoice_of_another_customer_with_the_same_number(rig: TenantDatabase) {
    rig.write(async |t| contacts::insert_customer(t, "JONES", "Jones & Partners", T0).await).await;
    rig.add_work_order("WO1").await;
    rig.add_work_order("WO2").await;
    rig.run("UPDATE work_order SET customer_code = 'JONES' WHERE number = 'WO2'").await;
    // Each family counts its own invoices.
    let [(_, own), (family, foreign), ..] = INVOICE_TABLES;
    rig.run(&insert_invoice_sql(own, "7", T0)).await;
    rig.run(&insert_invoice_sql(foreign, "7", T0)).await;
    rig.run(&format!("UPDATE {foreign} SET work_order = 'WO2'")).await;
    rig.run(&format!(
        "INSERT INTO event (id, code, customer_code, work_order, invoice_number, body, occurred_at_ms) \
         VALUES ('evt_{0:032x}', 'invoice.created', 'SMITH', 'WO1', '7', '{{}}', {T0}); \
         INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) VALUES ('01900000-0000-7000-8000-00000000000a', 'evt_{0:032x}', '{WEBHOOK}', 'smith/orders', \
         'Succeeded', 1, 0, {T0}, {T0})",
        1
    ))
    .await;
    let found = async |of, webhook| {
        let sight = Sight { webhook: Some(webhook), customer: None };
        find(&mut rig.reader().await, &Clock::System, of, sight).await
    };
    for of in [TraceOf::Number("7"), TraceOf::Invoice("7")] {
        let found = found(of, "smith/orders").await.unwrap_or_else(|_| panic!("{of:?} is found"));
        assert_eq!((found.listed.len(), found.invoices.len()), (1, 1), "{of:?}");
        assert!(found.invoices.iter().all(|one| one.family != family && one.work_order == "WO1"), "{of:?}");
        assert_eq!(found.work_order.map(|(number, _)| number).as_deref(), Some("WO1"), "{of:?}");
    }
    for of in [TraceOf::Number("7"), TraceOf::Invoice("7"), TraceOf::WorkOrder("WO2")] {
        let other = found(of, "smith/others").await;
        assert!(matches!(other, Err(Refusal::NotFound(_))), "{of:?}: nothing of it went to this webhook");
    }
}

async fn customer_finds_no_work_order_and_no_invoice_of_another(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    let [(_, table), ..] = INVOICE_TABLES;
    rig.run(&insert_invoice_sql(table, "7", T0)).await;
    let seen = async |of, customer| {
        let sight = Sight { webhook: None, customer: Some(customer) };
        find(&mut rig.reader().await, &Clock::System, of, sight).await
    };
    for of in [TraceOf::Number("WO1"), TraceOf::WorkOrder("WO1"), TraceOf::Number("7"), TraceOf::Invoice("7")]
    {
        assert!(seen(of, CUSTOMER).await.is_ok(), "{of:?}");
        let other = seen(of, "JONES").await;
        assert!(matches!(other, Err(Refusal::NotFound(_))), "{of:?}: it is another customer's");
    }
    for text in ["WO1", "7"] {
        let mut reader = rig.reader().await;
        for (customer, count) in [(CUSTOMER, 1), ("JONES", 0)] {
            let named = meant(&mut reader, &Clock::System, text, None, Some(customer)).await;
            assert_eq!(named.expect("a search").len(), count, "{text} of {customer}");
        }
    }
}

async fn trace_of_a_delivery_knows_the_other_deliveries_of_its_event(rig: TenantDatabase) {
    let mut config = tenant_config("u", "ACME", CUSTOMER, 2);
    let served: Vec<WebhookConfig> = serde_json::from_value(config["webhooks"].take()).expect("webhooks");
    let event = format!("evt_{:032x}", 1);
    rig.run(&format!(
        "INSERT INTO event (id, code, customer_code, invoice_number, body, occurred_at_ms) \
         VALUES ('{event}', 'invoice.created', '{CUSTOMER}', '7', '{{}}', {T0})"
    ))
    .await;
    for (number, webhook) in (0..).zip(&served) {
        let (id, key, name) = (delivery_id(number), webhook.key(), webhook.full_name());
        rig.run(&format!(
            "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, \
             created_at_ms, finished_at_ms) VALUES ('{id}', '{event}', '{key}', '{name}', 'Succeeded', 1, 0, {T0}, {T0})"
        ))
        .await;
    }
    let (active, faults) = (BTreeSet::from([EventCode::InvoiceCreated]), BTreeMap::new());
    let held = HeldWebhooks::These([].into());
    let webhooks = Webhooks::new(&served, &active, &held);
    let declared = Declared { webhooks, is_suspended: false, faults: &faults };
    let of = TraceOf::Delivery(delivery_id(0));
    let mut reader = rig.reader().await;
    let traced = read(&mut reader, &Clock::System, of, Sight::default(), Some(&declared)).await;
    let traced = traced.unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!((traced.deliveries.len(), traced.events.len()), (1, 1));
    assert_eq!(traced.events[0].missed, Some(MissedEvent::default()), "both webhooks got it");
}
