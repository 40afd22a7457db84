//! What was announced of webhooks, and who has been sent it.

use std::collections::HashMap;

use docket_domain::delivery::{FailureClass, Status};
use docket_domain::notice::{Announced, DeliveryFacts, WebhookState};
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase, WEBHOOK};
use docket_store::notices::{self, Notice, NoticedFailure};
use docket_store::subscriptions::{
    self, Claim, Claimed, Recipient, Subscriber, SubscriberKind, Subscription,
};

on_both_databases!(
    deliveries_fail_from_the_third_failed_attempt_on,
    of_two_processes_one_announces_a_change,
    numbers_of_notices_are_the_order_of_their_commits,
    a_subscription_is_sent_what_changes_after_it,
    of_two_claims_of_a_message_one_is_accepted,
    a_tenant_sends_so_many_messages_in_an_hour,
    a_user_without_the_right_has_no_address,
    a_message_that_failed_is_due_later_and_settled_once,
    old_links_are_deleted,
);

const HOUR_MS: i64 = 3_600_000;

fn notice(number: i64, state: WebhookState) -> Notice {
    let announced = Announced { state, ..Announced::nothing(&DeliveryFacts::default()) };
    let class = FailureClass::ServerError;
    let failure = Some(NoticedFailure { class, cause: None, http_status: Some(503) });
    Notice { webhook: WEBHOOK.into(), announced, number, count: 3, failure }
}

fn subscription(id: &str) -> Subscription {
    Subscription {
        id: id.into(),
        subscriber: Subscriber { kind: SubscriberKind::Contact, code: "11".into() },
        email: None,
        webhook: None,
        states: vec![WebhookState::Failing, WebhookState::Works],
        confirmed_at_ms: Some(T0),
        created_at_ms: T0,
    }
}

async fn people(rig: &TenantDatabase) {
    rig.run(
        "INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms, manages_webhooks) \
         VALUES ('11', 'SMITH', 'ada@one.example', 'ada@one.example', 'Ada', TRUE, 0, TRUE)",
    )
    .await;
}

async fn recipients(rig: &TenantDatabase) -> Vec<Recipient> {
    subscriptions::recipients(&mut rig.reader().await).await.expect("a statement")
}

/// Adds a subscription, and returns it as a recipient.
async fn subscribed(rig: &TenantDatabase, id: &str) -> Recipient {
    rig.write(async |t| subscriptions::insert(t, &subscription(id)).await).await;
    let found = recipients(rig).await.into_iter().find(|one| one.subscription.id == id);
    found.expect("it is there")
}

async fn claim(rig: &TenantDatabase, recipient: &Recipient, digest: &str, now_ms: i64) -> Claimed {
    let claim =
        Claim { token_digest: digest, confirms: false, now_ms, until_ms: now_ms + 50, most_in_an_hour: 2 };
    rig.write(async |t| subscriptions::claim(t, recipient, &claim).await).await
}

async fn deliveries_fail_from_the_third_failed_attempt_on(rig: TenantDatabase) {
    let ids = rig.queued(4, T0).await;
    for (id, attempts, lease) in
        [(ids[0], 2, "NULL"), (ids[1], 3, "NULL"), (ids[2], 3, "'a.1.b'"), (ids[3], 4, "'a.1.b'")]
    {
        rig.set_status(id, Status::Failed).await;
        // The attempt under a lease is being made.
        let sql = format!(
            "UPDATE delivery_queue SET attempt_count = {attempts}, lease_token = {lease} WHERE id = '{id}'"
        );
        rig.run(&sql).await;
    }
    let failing = notices::failing(&mut rig.reader().await).await.expect("a statement");
    assert_eq!(failing, HashMap::from([(WEBHOOK.to_owned(), 2)]));
    rig.run(&format!("INSERT INTO test_event (id, webhook) SELECT id, '{WEBHOOK}' FROM event")).await;
    let failing = notices::failing(&mut rig.reader().await).await.expect("a statement");
    assert!(failing.is_empty(), "test events do not count");
}

async fn of_two_processes_one_announces_a_change(rig: TenantDatabase) {
    let store = async |notice: &Notice, before: Option<&Notice>| {
        rig.write(async |t| notices::store(t, notice, before).await).await
    };
    let (first, other) = (notice(1, WebhookState::Failing), notice(2, WebhookState::Failing));
    assert!(store(&first, None).await && !store(&other, None).await);
    let lost = notice(3, WebhookState::Lost);
    assert!(store(&lost, Some(&first)).await && !store(&other, Some(&first)).await);
    assert_eq!(notices::all(&mut rig.reader().await).await.expect("a statement"), [lost]);
    rig.write(async |t| notices::forget(t, WEBHOOK).await).await;
    assert!(notices::is_empty(&mut rig.reader().await).await.expect("a statement"));
}

async fn numbers_of_notices_are_the_order_of_their_commits(rig: TenantDatabase) {
    let take = async || rig.write(async |t| notices::take_number(t).await).await;
    let (one, other) = tokio::join!(take(), take());
    assert_eq!([one.min(other), one.max(other)], [1, 2]);
}

async fn a_subscription_is_sent_what_changes_after_it(rig: TenantDatabase) {
    people(&rig).await;
    rig.write(async |t| notices::take_number(t).await).await;
    let recipient = subscribed(&rig, "a").await;
    assert_eq!(recipient.subscription, subscription("a"));
    assert_eq!(recipient.address.as_deref(), Some("ada@one.example"));
    assert_eq!(recipient.customer_code.as_deref(), Some("SMITH"));
    assert_eq!((recipient.sent_number, recipient.due_at_ms, recipient.failures), (1, T0, 0));
}

async fn of_two_claims_of_a_message_one_is_accepted(rig: TenantDatabase) {
    people(&rig).await;
    let recipient = subscribed(&rig, "a").await;
    let (one, other) = tokio::join!(claim(&rig, &recipient, "1", T0), claim(&rig, &recipient, "2", T0));
    assert!([one, other].contains(&Claimed::Yes) && [one, other].contains(&Claimed::No), "{one:?} {other:?}");
    assert_eq!(rig.number("SELECT count(*) FROM mail_link").await, 1);
    assert_eq!(recipients(&rig).await[0].due_at_ms, T0 + 50);
}

async fn a_tenant_sends_so_many_messages_in_an_hour(rig: TenantDatabase) {
    people(&rig).await;
    for (id, claimed) in [("a", Claimed::Yes), ("b", Claimed::Yes), ("c", Claimed::AtLimit)] {
        let recipient = subscribed(&rig, id).await;
        assert_eq!(claim(&rig, &recipient, id, T0).await, claimed);
    }
    // The messages of a subscription that has ended count as well.
    rig.write(async |t| subscriptions::end(t, "a").await).await;
    let third = recipients(&rig).await.pop().expect("c");
    assert_eq!(claim(&rig, &third, "d", T0 + HOUR_MS - 1).await, Claimed::AtLimit);
    assert_eq!(claim(&rig, &third, "d", T0 + HOUR_MS).await, Claimed::Yes);
}

async fn a_user_without_the_right_has_no_address(rig: TenantDatabase) {
    people(&rig).await;
    subscribed(&rig, "a").await;
    let typed = Subscription { email: Some("b@one.example".into()), ..subscription("b") };
    rig.write(async |t| subscriptions::insert(t, &typed).await).await;
    let addresses = async || -> Vec<Option<String>> {
        recipients(&rig).await.into_iter().map(|recipient| recipient.address).collect()
    };
    let both = [Some("ada@one.example".to_owned()), Some("b@one.example".to_owned())];
    assert_eq!(addresses().await, both);
    for change in ["manages_webhooks = FALSE", "manages_webhooks = TRUE, active = FALSE"] {
        rig.run(&format!("UPDATE contact SET {change}")).await;
        assert_eq!(addresses().await, [None, None], "{change}");
    }
}

async fn a_message_that_failed_is_due_later_and_settled_once(rig: TenantDatabase) {
    people(&rig).await;
    let recipient = subscribed(&rig, "a").await;
    assert_eq!(claim(&rig, &recipient, "1", T0).await, Claimed::Yes);
    let state = async || {
        let found = recipients(&rig).await.remove(0);
        (found.sent_number, found.due_at_ms, found.failures)
    };
    rig.write(async |t| subscriptions::put_off(t, ("a", T0 + 50), T0 + 60).await).await;
    assert_eq!(state().await, (0, T0 + 60, 1));
    // This process was late: its claim has ended.
    rig.write(async |t| subscriptions::settle(t, ("a", T0 + 50), Some(7), T0 + 70).await).await;
    assert_eq!(state().await, (0, T0 + 60, 1));
    let recipient = recipients(&rig).await.remove(0);
    assert_eq!(claim(&rig, &recipient, "2", T0 + 60).await, Claimed::Yes);
    rig.write(async |t| subscriptions::settle(t, ("a", T0 + 110), Some(7), T0 + 200).await).await;
    assert_eq!(state().await, (7, T0 + 200, 0));
}

async fn old_links_are_deleted(rig: TenantDatabase) {
    people(&rig).await;
    let recipient = subscribed(&rig, "a").await;
    claim(&rig, &recipient, "1", T0).await;
    let delete = async |now_ms| rig.write(async |t| subscriptions::delete_old_links(t, now_ms).await).await;
    let days = 90 * 24 * HOUR_MS;
    assert_eq!((delete(T0 + days).await, delete(T0 + days + 1).await), (0, 1));
}
