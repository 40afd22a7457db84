//! What was announced of webhooks, and who has been sent it.

use std::collections::HashMap;

use docket_domain::delivery::{FailureClass, Status};
use docket_domain::failure::Cause;
use docket_domain::notice::{Announced, WebhookState};
use docket_domain::token::UserKind;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase, WEBHOOK};
use docket_store::notices::{self, News, Notice, NoticedFailure};
use docket_store::people::{self, Person};
use docket_store::subscriptions::{self, Claim, Claimed, Recipient, Subscriber, Subscription};

on_both_databases!(
    deliveries_fail_from_the_third_failed_attempt_on,
    of_two_processes_one_announces_a_change,
    a_state_that_was_replaced_is_kept_for_who_was_not_sent_it,
    a_state_that_ended_in_silence_is_no_news,
    a_notice_is_forgotten_with_what_it_replaced,
    a_missing_webhook_keeps_its_notice,
    numbers_of_notices_are_the_order_of_their_commits,
    a_subscription_is_sent_what_changes_after_it,
    a_state_that_is_added_begins_from_now,
    of_two_claims_of_a_message_one_is_accepted,
    a_tenant_sends_so_many_messages_in_an_hour,
    a_user_sends_so_many_of_them,
    of_two_subscriptions_one_asks_for_an_address,
    a_message_at_a_limit_is_held_back,
    an_address_is_refused_once,
    a_sign_out_everywhere_and_another_password_end_typed_addresses,
    a_user_without_the_right_has_no_address,
    a_message_that_failed_is_due_later_and_settled_once,
    old_links_are_deleted,
);

const HOUR_MS: i64 = 3_600_000;

fn notice(number: i64, state: WebhookState) -> Notice {
    let [failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms] =
        [1, 2, 3, 4].map(|ms| Some(number + 10 * ms));
    let announced = Announced { state, failing_at_ms, lost_at_ms, works_at_ms, lost_until_ms };
    let (class, cause) = (FailureClass::TlsUntrusted, Some(Cause::SelfSigned));
    let failure = Some(NoticedFailure { class, cause, http_status: Some(503) });
    Notice { webhook: WEBHOOK.into(), announced, number, count: 3, failure, missing_since_ms: None }
}

/// Stores a notice in place of `before`.
async fn replace(rig: &TenantDatabase, before: Option<&Notice>, notice: &Notice) {
    assert!(rig.write(async |t| notices::store(t, notice, before).await).await, "{notice:?}");
}

/// The states that subscribers are sent, with their numbers.
async fn news(rig: &TenantDatabase) -> Vec<(WebhookState, i64)> {
    let news = notices::news(&mut rig.reader().await).await.expect("a statement");
    news.iter().map(|news| (news.state, news.number)).collect()
}

fn subscription(id: &str) -> Subscription {
    Subscription {
        id: id.into(),
        subscriber: Subscriber { kind: UserKind::Contact, code: "11".into() },
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
    let claim = Claim { token_digest: digest, now_ms, until_ms: now_ms + 50, ..CLAIM };
    rig.write(async |t| subscriptions::claim(t, recipient, &claim).await).await
}

const CLAIM: Claim<'static> = Claim {
    token_digest: "",
    address_digest: None,
    now_ms: T0,
    until_ms: T0 + 50,
    most_in_an_hour: 2,
    most_of_user: 9,
};

/// Adds a subscription of another contact, and returns it as a recipient.
async fn subscribed_by(rig: &TenantDatabase, id: &str, code: &str) -> Recipient {
    let subscriber = Subscriber { kind: UserKind::Contact, code: code.into() };
    let new = Subscription { subscriber, ..subscription(id) };
    rig.write(async |t| subscriptions::insert(t, &new).await).await;
    recipients(rig).await.into_iter().find(|one| one.subscription.id == id).expect("it is there")
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
    let stored = notices::all(&mut rig.reader().await).await.expect("a statement");
    assert_eq!(stored, std::slice::from_ref(&first));
    let lost = notice(3, WebhookState::Lost);
    assert!(store(&lost, Some(&first)).await && !store(&other, Some(&first)).await);
    assert_eq!(notices::all(&mut rig.reader().await).await.expect("a statement"), [lost]);
    rig.write(async |t| notices::forget(t, WEBHOOK).await).await;
    assert!(notices::is_empty(&mut rig.reader().await).await.expect("a statement"));
}

async fn a_state_that_was_replaced_is_kept_for_who_was_not_sent_it(rig: TenantDatabase) {
    use WebhookState::{Failing, Lost, Works};
    let (failing, lost) = (notice(1, Failing), notice(2, Lost));
    replace(&rig, None, &failing).await;
    replace(&rig, Some(&failing), &lost).await;
    replace(&rig, Some(&lost), &notice(3, Works)).await;
    assert_eq!(news(&rig).await, [(Failing, 1), (Lost, 2), (Works, 3)]);
    let found = notices::news(&mut rig.reader().await).await.expect("a statement").swap_remove(1);
    let expected = News {
        webhook: WEBHOOK.into(),
        state: Lost,
        number: 2,
        count: 3,
        failure: lost.failure,
        state_now: Works,
    };
    assert_eq!(found, expected);
    // The last notice of each state is kept, and no other.
    replace(&rig, Some(&notice(3, Works)), &notice(4, Lost)).await;
    assert_eq!(news(&rig).await, [(Failing, 1), (Works, 3), (Lost, 4)]);
    replace(&rig, Some(&notice(4, Lost)), &notice(5, Works)).await;
    assert_eq!(news(&rig).await, [(Failing, 1), (Lost, 4), (Works, 5)]);
}

async fn a_state_that_ended_in_silence_is_no_news(rig: TenantDatabase) {
    use WebhookState::{Failing, Lost, Works};
    let (failing, lost) = (notice(1, Failing), notice(2, Lost));
    replace(&rig, None, &failing).await;
    replace(&rig, Some(&failing), &lost).await;
    // The dead letters of the webhook were set aside.
    replace(&rig, Some(&lost), &notice(0, Works)).await;
    assert_eq!(news(&rig).await, [(Failing, 1)]);
    replace(&rig, Some(&notice(0, Works)), &notice(3, Lost)).await;
    assert_eq!(news(&rig).await, [(Failing, 1), (Lost, 3)]);
}

async fn a_notice_is_forgotten_with_what_it_replaced(rig: TenantDatabase) {
    for is_all in [true, false] {
        let lost = notice(1, WebhookState::Lost);
        replace(&rig, None, &lost).await;
        replace(&rig, Some(&lost), &notice(2, WebhookState::Works)).await;
        rig.write(async |t| match is_all {
            true => notices::forget_all(t).await,
            false => notices::forget(t, WEBHOOK).await,
        })
        .await;
        assert!(notices::is_empty(&mut rig.reader().await).await.expect("a statement"));
        assert_eq!(rig.number("SELECT count(*) FROM replaced_notice").await, 0);
    }
}

async fn a_missing_webhook_keeps_its_notice(rig: TenantDatabase) {
    let served = notice(1, WebhookState::Lost);
    let missing = Notice { missing_since_ms: Some(T0), ..served.clone() };
    replace(&rig, None, &served).await;
    replace(&rig, Some(&served), &missing).await;
    assert_eq!(notices::all(&mut rig.reader().await).await.expect("a statement"), [missing]);
    assert_eq!(news(&rig).await, [(WebhookState::Lost, 1)], "it is sent meanwhile");
}

async fn numbers_of_notices_are_the_order_of_their_commits(rig: TenantDatabase) {
    let take = async || rig.write(async |t| notices::take_number(t).await).await;
    let (one, other) = rig.meeting(2, "counter", async { tokio::join!(take(), take()) }).await;
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

async fn a_state_that_is_added_begins_from_now(rig: TenantDatabase) {
    use WebhookState::{Failing, Lost, Works};
    people(&rig).await;
    let subscriber = subscribed(&rig, "a").await.subscription.subscriber;
    let set = async |states: &[WebhookState]| {
        assert!(rig.write(async |t| subscriptions::set_states(t, &subscriber, "a", states).await).await);
        recipients(&rig).await.remove(0)
    };
    // A loss and a failure wait when the user adds losses.
    for _ in 0..2 {
        rig.write(async |t| notices::take_number(t).await).await;
    }
    let added = set(&[Failing, Lost]).await;
    assert!(added.awaits(Failing, 1), "it waits as before");
    assert!(!added.awaits(Lost, 2) && added.awaits(Lost, 3));
    assert!(!added.awaits(Works, 3), "it was removed");
    // Saved again without a change.
    rig.write(async |t| notices::take_number(t).await).await;
    assert!(set(&[Failing, Lost]).await.awaits(Lost, 3));
    let again = set(&[Failing, Lost, Works]).await;
    assert!(!again.awaits(Works, 3) && again.awaits(Works, 4) && again.awaits(Lost, 3));
}

async fn of_two_claims_of_a_message_one_is_accepted(rig: TenantDatabase) {
    people(&rig).await;
    let recipient = subscribed(&rig, "a").await;
    let both = async { tokio::join!(claim(&rig, &recipient, "1", T0), claim(&rig, &recipient, "2", T0)) };
    let (one, other) = rig.meeting(2, "mail_link", both).await;
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

async fn a_user_sends_so_many_of_them(rig: TenantDatabase) {
    let of = async |recipient: &Recipient, digest: &str, address_digest: Option<&str>, now_ms: i64| {
        let claim = Claim {
            token_digest: digest,
            address_digest,
            now_ms,
            most_in_an_hour: 9,
            most_of_user: 1,
            ..CLAIM
        };
        rig.write(async |t| subscriptions::claim(t, recipient, &claim).await).await
    };
    let own = [subscribed_by(&rig, "a", "11").await, subscribed_by(&rig, "b", "11").await];
    let other = subscribed_by(&rig, "c", "12").await;
    assert_eq!(of(&own[0], "1", None, T0).await, Claimed::Yes);
    assert_eq!(of(&own[1], "2", None, T0 + 1).await, Claimed::AtLimit);
    assert_eq!(of(&own[1], "3", Some("address"), T0 + 1).await, Claimed::Yes, "another kind of message");
    assert_eq!(of(&other, "4", None, T0 + 1).await, Claimed::Yes, "another user");
    // A subscription of the user that ends and begins again counts as before.
    rig.write(async |t| subscriptions::end(t, "a").await).await;
    let again = subscribed_by(&rig, "d", "11").await;
    assert_eq!(of(&again, "5", None, T0 + HOUR_MS - 1).await, Claimed::AtLimit);
    assert_eq!(of(&again, "5", None, T0 + HOUR_MS).await, Claimed::Yes);
}

async fn of_two_subscriptions_one_asks_for_an_address(rig: TenantDatabase) {
    let (one, other) = (subscribed_by(&rig, "a", "11").await, subscribed_by(&rig, "b", "12").await);
    let ask = async |recipient: &Recipient, digest: &str, now_ms: i64| {
        let claim =
            Claim { token_digest: digest, address_digest: Some("x"), now_ms, most_in_an_hour: 9, ..CLAIM };
        rig.write(async |t| subscriptions::claim(t, recipient, &claim).await).await
    };
    let both = async { tokio::join!(ask(&one, "1", T0), ask(&other, "2", T0)) };
    let claimed = rig.meeting(2, "mail_link", both).await;
    let (first, second) = match claimed {
        (Claimed::Yes, Claimed::AtLimit) => (one, other),
        (Claimed::AtLimit, Claimed::Yes) => (other, one),
        claimed => panic!("{claimed:?}"),
    };
    // The message that could not be sent is tried again, and the other message waits for it.
    let first = recipients(&rig).await.into_iter().find(|found| found.subscription == first.subscription);
    assert_eq!(ask(&first.expect("it is there"), "3", T0 + 50).await, Claimed::Yes);
    let day_ms = subscriptions::ASK_AGAIN_MS;
    assert_eq!(ask(&second, "4", T0 + 50 + day_ms - 1).await, Claimed::AtLimit);
    assert_eq!(ask(&second, "4", T0 + 50 + day_ms).await, Claimed::Yes);
}

async fn a_message_at_a_limit_is_held_back(rig: TenantDatabase) {
    people(&rig).await;
    let recipient = subscribed(&rig, "a").await;
    rig.write(async |t| subscriptions::hold(t, &recipient, T0 + 7).await).await;
    // Another process has held the message back already.
    rig.write(async |t| subscriptions::hold(t, &recipient, T0 + 9).await).await;
    let held = recipients(&rig).await.remove(0);
    assert_eq!((held.due_at_ms, held.failures), (T0 + 7, 0));
}

async fn an_address_is_refused_once(rig: TenantDatabase) {
    let is_refused =
        async |digest| subscriptions::is_refused(&mut rig.reader().await, digest).await.expect("a statement");
    for now_ms in [T0, T0 + 1] {
        rig.write(async |t| subscriptions::refuse_address(t, "x", now_ms).await).await;
    }
    assert!(is_refused("x").await && !is_refused("y").await);
    assert_eq!(rig.number("SELECT refused_at_ms FROM refused_address").await, T0);
    rig.run(
        "INSERT INTO refused_address WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
         SELECT 'd' || i, 2000000000000 FROM n",
    )
    .await;
    rig.write(async |t| subscriptions::refuse_address(t, "z", 2_000_000_000_001).await).await;
    assert!(!is_refused("x").await && is_refused("z").await, "the oldest is forgotten");
}

async fn a_sign_out_everywhere_and_another_password_end_typed_addresses(rig: TenantDatabase) {
    people(&rig).await;
    rig.run(
        "INSERT INTO employee (code, user_name, user_key, name, administrator, active, created_at_ms) \
         VALUES ('11', 'ann', 'ann', 'Ann', TRUE, TRUE, 0)",
    )
    .await;
    let add = async |id: &str, kind: UserKind, email: Option<&str>| {
        let subscriber = Subscriber { kind, code: "11".into() };
        let email = email.map(str::to_owned);
        let new = Subscription { subscriber, email, ..subscription(id) };
        rig.write(async |t| subscriptions::insert(t, &new).await).await;
    };
    let left = async || -> Vec<String> {
        recipients(&rig).await.into_iter().map(|recipient| recipient.subscription.id).collect()
    };
    let (contact, employee) = (UserKind::Contact, UserKind::Employee);
    add("own", contact, None).await;
    for is_sign_out in [true, false] {
        add("typed", contact, Some("b@one.example")).await;
        add("typed-by-employee", employee, Some("b@one.example")).await;
        rig.write(async |t| match is_sign_out {
            true => people::end_tokens(t, Person { kind: contact, code: "11" }).await.map(drop),
            false => people::set_password(t, contact, "ada@one.example", "$other").await.map(drop),
        })
        .await;
        assert_eq!(left().await, ["own", "typed-by-employee"]);
        rig.write(async |t| match is_sign_out {
            true => people::end_tokens(t, Person { kind: employee, code: "11" }).await.map(drop),
            false => people::set_password(t, employee, "ann", "$other").await.map(drop),
        })
        .await;
        assert_eq!(left().await, ["own"]);
    }
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
    rig.run(
        "INSERT INTO mail_link (token_digest, subscription_id, user_kind, user_code, sent_at_ms) \
         SELECT '2', subscription_id, user_kind, user_code, sent_at_ms FROM mail_link",
    )
    .await;
    let delete =
        async |now_ms| rig.write(async |t| subscriptions::delete_old_links(t, now_ms, 1).await).await;
    let days = 90 * 24 * HOUR_MS;
    assert_eq!(delete(T0 + days).await, 0);
    let deleted = [delete(T0 + days + 1).await, delete(T0 + days + 1).await, delete(T0 + days + 1).await];
    assert_eq!(deleted, [1, 1, 0], "one at a time");
}
