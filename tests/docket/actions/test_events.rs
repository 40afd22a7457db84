//! Test events that are asked for at the same moment.

use std::collections::BTreeSet;

use docket::actions::test_event::send_test;
use docket::refusal::Refusal;
use docket::tenancy::{HeldWebhooks, Webhooks};
use docket_crds::{EventCode, WebhookConfig};
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase, WEBHOOK};
use jiff::Timestamp;

on_both_databases!(of_several_at_once_one_is_sent);

fn webhook() -> WebhookConfig {
    WebhookConfig {
        uid: WEBHOOK.into(),
        namespace: "default".into(),
        name: "orders".into(),
        display_name: None,
        customer_code: CUSTOMER.parse().expect("a code"),
        target_url: "https://hooks.example/".parse().expect("a URL"),
        secret: None,
        next_secret: None,
        ca_bundle: None,
        events: [EventCode::OrderCreated].into(),
        active: true,
    }
}

async fn of_several_at_once_one_is_sent(rig: TenantDatabase) {
    let (served, active, held) =
        ([webhook()], BTreeSet::from(EventCode::ALL), HeldWebhooks::These([].into()));
    let now = Timestamp::from_millisecond(T0).expect("in range");
    let send = async || -> Result<(), Refusal> {
        let mut transaction = rig.database.begin(&Clock::System).await?;
        let webhooks = Webhooks::new(&served, &active, &held);
        send_test(&mut transaction, webhooks, "default/orders", None, "employee 52", now).await?;
        transaction.commit().await?;
        Ok(())
    };
    // A pooler in front of the tests' server has four sessions.
    let all = futures_util::future::join_all((0..4).map(|_| send()));
    let sent = rig.meeting(4, "test_event", all).await;
    assert_eq!(sent.iter().filter(|sent| sent.is_ok()).count(), 1);
    assert_eq!(rig.number("SELECT count(*) FROM test_event").await, 1);
}
