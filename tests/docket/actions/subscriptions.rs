//! Subscriptions through the library: who may have how many, and what the link of a message does.

use std::collections::BTreeSet;

use docket::actions::subscriptions::{self as actions, NewSubscription, token_digest};
use docket::refusal::Refusal;
use docket::tenancy::{HeldWebhooks, Webhooks};
use docket_crds::WebhookConfig;
use docket_domain::notice::WebhookState;
use docket_domain::token::TokenSubject;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase, at, tenant_config};
use docket_store::contacts;
use docket_store::subscriptions::{
    self, Claim, Claimed, MOST_OF_CONTACTS, MOST_OF_CUSTOMER, MOST_OF_TENANT, MOST_OF_USER, Recipient,
    Subscription,
};

on_both_databases!(
    a_subscription_is_listed_changed_and_ended_by_its_user_alone,
    a_user_may_subscribe_once_to_each_webhook_at_an_address,
    a_field_that_is_wrong_is_named,
    a_user_and_a_tenant_have_bounds,
    contacts_leave_seats_to_each_other_and_to_employees,
    an_address_whose_owner_refuses_it_gets_nothing_any_more,
    a_link_confirms_in_time_and_ends_a_subscription_once,
);

fn employee(code: &str) -> TokenSubject {
    TokenSubject::Employee { employee_code: code.into(), administrator: true }
}

fn contact() -> TokenSubject {
    TokenSubject::Contact { contact_code: "11".into(), customer_code: CUSTOMER.into() }
}

fn new(email: Option<&str>) -> NewSubscription {
    let states = vec![WebhookState::Lost, WebhookState::Works];
    NewSubscription { webhook: None, states, email: email.map(str::to_owned) }
}

async fn subscribe(
    rig: &TenantDatabase,
    subject: &TokenSubject,
    new: NewSubscription,
) -> Result<Subscription, Refusal> {
    subscribe_to(rig, &[], subject, new).await
}

/// Subscribes a user of a tenant with these webhooks.
async fn subscribe_to(
    rig: &TenantDatabase,
    served: &[WebhookConfig],
    subject: &TokenSubject,
    new: NewSubscription,
) -> Result<Subscription, Refusal> {
    let (active, held) = (BTreeSet::new(), HeldWebhooks::These([].into()));
    let webhooks = Webhooks::new(served, &active, &held);
    let mut transaction = rig.database.begin(&Clock::System).await?;
    let subscription = actions::subscribe(&mut transaction, webhooks, subject, new, at(T0)).await?;
    transaction.commit().await?;
    Ok(subscription)
}

async fn a_subscription_is_listed_changed_and_ended_by_its_user_alone(rig: TenantDatabase) {
    let own = subscribe(&rig, &contact(), new(None)).await.expect("accepted");
    assert_eq!(own.confirmed_at_ms, Some(T0), "a contact's own address");
    let typed = subscribe(&rig, &employee("52"), new(Some(" alex@acme.example "))).await;
    let typed = typed.expect("accepted");
    assert_eq!((typed.confirmed_at_ms, typed.email.as_deref()), (None, Some("alex@acme.example")));
    let list = async |subject: &TokenSubject| {
        actions::list(&mut rig.reader().await, subject).await.expect("a statement")
    };
    assert_eq!(list(&contact()).await, std::slice::from_ref(&own));
    assert_eq!(list(&employee("52")).await, [typed]);
    let failing = vec![WebhookState::Failing];
    for (subject, states, is_changed) in [
        (employee("52"), failing.clone(), false),
        (contact(), Vec::new(), false),
        (contact(), failing.clone(), true),
    ] {
        let mut transaction = rig.database.begin(&Clock::System).await.expect("a transaction");
        let changed = actions::change(&mut transaction, &subject, &own.id, &states).await;
        transaction.commit().await.expect("committed");
        assert_eq!(changed.is_ok(), is_changed);
    }
    assert_eq!(list(&contact()).await[0].states, failing);
    let end = async |subject: &TokenSubject| {
        let mut transaction = rig.database.begin(&Clock::System).await.expect("a transaction");
        let ended = actions::unsubscribe(&mut transaction, subject, &own.id).await;
        transaction.commit().await.expect("committed");
        ended
    };
    for (subject, is_ended) in [(employee("52"), false), (contact(), true), (contact(), false)] {
        assert_eq!(end(&subject).await.is_ok(), is_ended);
    }
    assert!(list(&contact()).await.is_empty());
}

async fn a_user_may_subscribe_once_to_each_webhook_at_an_address(rig: TenantDatabase) {
    let mut config = tenant_config("u", "ACME", CUSTOMER, 2);
    let served: Vec<WebhookConfig> = serde_json::from_value(config["webhooks"].take()).expect("webhooks");
    let subscribed = async |webhook: Option<&str>| {
        let new = NewSubscription { webhook: webhook.map(str::to_owned), ..new(None) };
        subscribe_to(&rig, &served, &contact(), new).await
    };
    for webhook in &served {
        let made = subscribed(Some(&webhook.full_name())).await.expect("accepted");
        assert_eq!(made.webhook, Some(webhook.key()), "each message is about this one");
        for name in [webhook.full_name(), webhook.key(), webhook.uid.clone()] {
            let again = subscribed(Some(&name)).await;
            assert!(matches!(again, Err(Refusal::Conflict(_))), "{name}");
        }
    }
    assert_eq!(subscribed(None).await.expect("accepted").webhook, None, "all of them");
}

async fn a_field_that_is_wrong_is_named(rig: TenantDatabase) {
    let refused = async |subject: TokenSubject, new: NewSubscription| {
        subscribe(&rig, &subject, new).await.expect_err("refused")
    };
    let none = NewSubscription { states: Vec::new(), ..new(Some("alex@acme.example")) };
    let long = format!("{}@acme.example", "x".repeat(300));
    for (subject, new, field) in [
        (employee("52"), none, "states"),
        (employee("52"), new(None), "email"),
        (employee("52"), new(Some("alex")), "email"),
        (contact(), new(Some("a@b.example\r\nBcc: eve@evil.example")), "email"),
        (contact(), new(Some(&long)), "email"),
    ] {
        let Refusal::Invalid(problems) = refused(subject, new).await else { panic!("{field}") };
        assert!(format!("{problems:?}").contains(field), "{problems:?}");
    }
    let unknown = NewSubscription { webhook: Some("default/none".into()), ..new(None) };
    assert!(matches!(refused(contact(), unknown).await, Refusal::NotFound(_)));
    assert!(subscribe(&rig, &contact(), new(None)).await.is_ok());
    assert!(matches!(refused(contact(), new(None)).await, Refusal::Conflict(_)), "the same again");
}

async fn a_user_and_a_tenant_have_bounds(rig: TenantDatabase) {
    let address = |number: i64| format!("a{number}@acme.example");
    for number in 0..MOST_OF_USER {
        assert!(subscribe(&rig, &employee("52"), new(Some(&address(number)))).await.is_ok());
    }
    let more = subscribe(&rig, &employee("52"), new(Some(&address(99)))).await;
    assert!(matches!(more, Err(Refusal::Conflict(text)) if text.contains("20")));
    for number in MOST_OF_USER..MOST_OF_TENANT {
        let user = employee(&(100 + number / MOST_OF_USER).to_string());
        assert!(subscribe(&rig, &user, new(Some(&address(number)))).await.is_ok());
    }
    let more = subscribe(&rig, &contact(), new(None)).await;
    assert!(matches!(more, Err(Refusal::Conflict(text)) if text.contains("200")));
}

/// Claims the message that asks for confirmation, with this digest of its token.
async fn asked(rig: &TenantDatabase, recipient: &Recipient, digest: &str) {
    let claim = Claim {
        token_digest: digest,
        address_digest: Some("of an address"),
        now_ms: T0,
        until_ms: T0 + 1,
        most_in_an_hour: 1,
        most_of_user: 1,
    };
    let claimed = rig.write(async |t| subscriptions::claim(t, recipient, &claim).await).await;
    assert_eq!(claimed, Claimed::Yes);
}

async fn contacts_leave_seats_to_each_other_and_to_employees(rig: TenantDatabase) {
    let address = |number: i64| format!("a{number}@acme.example");
    let contact = |customer: i64, contact: i64| TokenSubject::Contact {
        contact_code: format!("{customer}-{contact}"),
        customer_code: format!("C{customer}"),
    };
    for customer in 0..5 {
        rig.write(async |t| contacts::insert_customer(t, &format!("C{customer}"), "A firm", T0).await).await;
        for contact in 0..3 {
            rig.run(&format!(
                "INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms) VALUES \
                 ('{customer}-{contact}', 'C{customer}', '{customer}{contact}@one.example', '{customer}{contact}@one.example', \
                 'Ada', TRUE, 0)"
            ))
            .await;
        }
    }
    let refused = async |subject: &TokenSubject, bound: &str| {
        let more = subscribe(&rig, subject, new(Some("more@acme.example"))).await;
        assert!(matches!(more, Err(Refusal::Conflict(text)) if text.contains(bound)), "{bound}");
    };
    for customer in 0..4 {
        for number in 0..MOST_OF_CUSTOMER {
            let user = contact(customer, number / MOST_OF_USER);
            assert!(subscribe(&rig, &user, new(Some(&address(number)))).await.is_ok());
        }
        refused(&contact(customer, 2), "40").await;
    }
    refused(&contact(4, 0), "160").await;
    for number in MOST_OF_CONTACTS..MOST_OF_TENANT {
        let user = employee(&(number / MOST_OF_USER).to_string());
        assert!(subscribe(&rig, &user, new(Some(&address(number)))).await.is_ok());
    }
    refused(&employee("52"), "200").await;
}

async fn an_address_whose_owner_refuses_it_gets_nothing_any_more(rig: TenantDatabase) {
    let refused = "victim@other.example";
    let asks = subscribe(&rig, &employee("52"), new(Some(refused))).await.expect("accepted").id;
    let again =
        subscribe(&rig, &employee("53"), new(Some(" Victim@Other.example"))).await.expect("accepted").id;
    let other = subscribe(&rig, &employee("52"), new(Some("alex@acme.example"))).await.expect("accepted").id;
    let token = "0f".repeat(32);
    let digest = token_digest(&token).expect("a token");
    let recipients = subscriptions::recipients(&mut rig.reader().await).await.expect("a statement");
    let recipient = recipients.iter().find(|one| one.subscription.id == asks).expect("it is there");
    asked(&rig, recipient, &digest).await;
    let refuse =
        async |token: &str| rig.write(async |t| actions::refuse_address(t, token, at(T0)).await).await;
    assert!(refuse(&"0e".repeat(32)).await.is_empty());
    let mut ended = refuse(&token).await;
    let mut expected = vec![asks, again];
    ended.sort();
    expected.sort();
    assert_eq!(ended, expected);
    assert!(refuse(&token).await.is_empty(), "again");
    let left = subscriptions::recipients(&mut rig.reader().await).await.expect("a statement");
    assert_eq!(left.iter().map(|one| &one.subscription.id).collect::<Vec<_>>(), [&other]);
    let more = subscribe(&rig, &employee("54"), new(Some("VICTIM@other.example"))).await;
    let Err(Refusal::Invalid(problems)) = more else { panic!("it is refused") };
    assert!(format!("{problems:?}").contains("email"), "{problems:?}");
}

async fn a_link_confirms_in_time_and_ends_a_subscription_once(rig: TenantDatabase) {
    rig.run(
        "INSERT INTO employee (code, user_name, user_key, name, administrator, active, created_at_ms) \
         VALUES ('52', 'alex', 'alex', 'Alex', TRUE, TRUE, 0)",
    )
    .await;
    let made = subscribe(&rig, &employee("52"), new(Some("alex@acme.example"))).await;
    let id = made.expect("accepted").id;
    let token = "0f".repeat(32);
    let digest = token_digest(&token).expect("a token");
    let recipients = subscriptions::recipients(&mut rig.reader().await).await.expect("a statement");
    asked(&rig, &recipients[0], &digest).await;
    let confirm = async |token: &str, now_ms| {
        rig.write(async |t| actions::confirm(t, token, at(now_ms)).await).await.map(|found| found.id)
    };
    for wrong in ["", "0f", &"0e".repeat(32), &"zz".repeat(32)] {
        assert_eq!(confirm(wrong, T0).await, None, "{wrong}");
    }
    // The message says so.
    let within_7_days = T0 + 7 * 24 * 3600 * 1000;
    assert_eq!(confirm(&token, within_7_days + 1).await, None, "too late");
    assert_eq!(confirm(&token, within_7_days).await, Some(id.clone()));
    assert_eq!(confirm(&token, within_7_days).await, None, "again");
    let end = async || {
        let late = at(T0 + 9 * (within_7_days - T0));
        let ended = rig.write(async |t| actions::unsubscribe_by_token(t, &token, late).await).await;
        ended.map(|found| found.id)
    };
    assert_eq!((end().await, end().await), (Some(id), None));
}
