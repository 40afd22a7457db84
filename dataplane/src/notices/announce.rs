//! Decides which changes of webhooks are announced, and stores them. `docket_domain::notice` has the rule.

use std::collections::HashMap;

use docket_crds::{WebhookConfig, webhook_key};
use docket_domain::delivery::Status;
use docket_domain::notice::{Announced, Decision, DeliveryFacts, WebhookState};
use docket_program::clock::Clock;
use docket_store::notices::{self, Notice, NoticedFailure};
use docket_store::recent::Failures;
use docket_store::subscriptions::Recipient;
use docket_store::{Connection, Database, StoreError, health, recent};

use crate::tenancy::ServedTenant;

/// A webhook's notice as it is stored, and what follows from its deliveries.
struct Decided {
    webhook: String,
    facts: DeliveryFacts,
    before: Option<Notice>,
    decision: Decision,
}

/// Whether a recipient hears of this webhook, by its key.
pub(super) fn concerns(recipient: &Recipient, key: &str) -> bool {
    let customer = webhook_key::customer_code(key);
    recipient.subscription.confirmed_at_ms.is_some()
        && recipient.subscription.webhook.as_deref().is_none_or(|webhook| webhook == key)
        && recipient.customer_code.as_deref().is_none_or(|own| customer == Some(own))
}

/// Stores what is to be announced of the tenant's webhooks. Returns whether something waits until its time.
pub(super) async fn announce(
    tenant: &ServedTenant,
    database: &Database,
    clock: &Clock,
    recipients: &[Recipient],
) -> Result<bool, StoreError> {
    let mut reader = database.patient_reader().await?;
    let stored = notices::all(&mut reader).await?;
    let served = tenant.webhooks().served();
    let is_wanted = |key: &str| recipients.iter().any(|recipient| concerns(recipient, key));
    let wanted: Vec<&WebhookConfig> = served.filter(|webhook| is_wanted(&webhook.key())).collect();
    let decided = decide(&mut reader, tenant, clock, &wanted, &stored).await?;
    let is_held = decided.iter().any(|one| one.decision == Decision::Wait);
    let mut changes: Vec<Change<'_>> = decided.iter().filter_map(change).collect();
    let announced = changes.iter().filter(|change| change.is_announced);
    let announced: Vec<String> = announced.map(|change| change.notice.webhook.clone()).collect();
    let failures = match announced.is_empty() {
        true => Vec::new(),
        false => recent::failures(&mut reader, &announced).await?,
    };
    drop(reader);
    let is_gone = |notice: &&Notice| !wanted.iter().any(|webhook| webhook.key() == notice.webhook);
    let gone: Vec<&Notice> = stored.iter().filter(is_gone).collect();
    if changes.is_empty() && gone.is_empty() {
        return Ok(is_held);
    }
    let mut transaction = database.begin(clock).await?;
    // The first lock of each transaction that announces.
    let number = if announced.is_empty() { 0 } else { notices::take_number(&mut transaction).await? };
    for Change { notice, before, is_announced } in &mut changes {
        if *is_announced {
            notice.number = number;
            notice.failure = failure_of(&failures, notice);
        }
        // If another process was faster, its notice stays.
        notices::store(&mut transaction, notice, *before).await?;
    }
    for notice in gone {
        notices::forget(&mut transaction, &notice.webhook).await?;
    }
    transaction.commit().await?;
    Ok(is_held)
}

/// What follows for each of these webhooks, in the order of keys.
async fn decide(
    reader: &mut Connection,
    tenant: &ServedTenant,
    clock: &Clock,
    wanted: &[&WebhookConfig],
    stored: &[Notice],
) -> Result<Vec<Decided>, StoreError> {
    let mut healths = tenant.webhooks().health(health::by_webhook_bounded(reader).await?);
    let failing = notices::failing(reader).await?;
    let before: HashMap<&str, &Notice> = stored.iter().map(|notice| (&*notice.webhook, notice)).collect();
    let now_ms = clock.now_ms();
    let decided = |webhook: &&WebhookConfig| {
        let (key, health) = (webhook.key(), healths.remove(&webhook.uid).unwrap_or_default());
        // Rows of before keys have the uid.
        let count = |name: &str| failing.get(name).copied().unwrap_or_default();
        let facts = DeliveryFacts {
            failing: count(&key) + count(&webhook.uid),
            lost: health.dead_letter,
            last_success_at_ms: health.last_success_at_ms,
            last_lost_at_ms: health.last_dead_letter_at_ms,
        };
        let before = before.get(&*key).map(|notice| (*notice).clone());
        let known = before.as_ref().map_or_else(|| Announced::nothing(&facts), |notice| notice.announced);
        Decided { webhook: key, facts, before, decision: known.next(&facts, now_ms) }
    };
    let mut decided: Vec<Decided> = wanted.iter().map(decided).collect();
    // In one order everywhere, so that two processes do not wait for each other.
    decided.sort_by(|one, other| one.webhook.cmp(&other.webhook));
    Ok(decided)
}

/// A row to store.
struct Change<'a> {
    notice: Notice,
    before: Option<&'a Notice>,
    /// Whether subscribers hear of it. Then it gets its number when it is stored.
    is_announced: bool,
}

fn change(Decided { webhook, facts, before, decision }: &Decided) -> Option<Change<'_>> {
    let (announced, number) = match (*decision, before) {
        // Subscribers hear of what changes from now on.
        (Decision::Nothing, None) => (Announced::nothing(facts), 0),
        (Decision::Remember(now), Some(before)) if now.state == before.announced.state => {
            (now, before.number)
        }
        (Decision::Remember(now) | Decision::Announce(now), _) => (now, 0),
        (Decision::Nothing | Decision::Wait, _) => return None,
    };
    let count = match announced.state {
        WebhookState::Failing => facts.failing,
        WebhookState::Lost => facts.lost,
        WebhookState::Works => 0,
    };
    let (before, is_announced) = (before.as_ref(), matches!(decision, Decision::Announce(_)));
    let failure = before.and_then(|before| before.failure);
    let webhook = webhook.clone();
    let notice = Notice { webhook, announced, number, count, failure, missing_since_ms: None };
    Some(Change { notice, before, is_announced })
}

/// The most frequent failure among the deliveries that a notice is about.
fn failure_of(failures: &[Failures], notice: &Notice) -> Option<NoticedFailure> {
    let status = match notice.announced.state {
        WebhookState::Failing => Status::Failed,
        WebhookState::Lost => Status::DeadLetter,
        WebhookState::Works => return None,
    };
    let found = failures.iter().find(|found| found.webhook == notice.webhook && found.status == status)?;
    Some(NoticedFailure { class: found.class, cause: found.cause, http_status: found.http_status })
}

#[cfg(test)]
mod tests {
    use docket_store::subscriptions::{Subscriber, SubscriberKind, Subscription};

    use super::*;

    fn recipient(webhook: Option<&str>, customer: Option<&str>, is_confirmed: bool) -> Recipient {
        let subscriber = Subscriber { kind: SubscriberKind::Contact, code: "11".into() };
        let subscription = Subscription {
            id: "a".into(),
            subscriber,
            email: None,
            webhook: webhook.map(str::to_owned),
            states: vec![WebhookState::Lost],
            confirmed_at_ms: is_confirmed.then_some(1),
            created_at_ms: 1,
        };
        let (address, customer_code) = (Some("ada@one.example".into()), customer.map(str::to_owned));
        Recipient {
            subscription,
            address,
            customer_code,
            sent_number: 0,
            added_after: [None; 3],
            due_at_ms: 0,
            failures: 0,
        }
    }

    #[test]
    fn contact_hears_of_its_own_customers_webhooks_alone_and_no_one_before_the_address_is_confirmed() {
        let all = recipient(None, Some("C-1"), true);
        assert!(concerns(&all, "default/orders/C-1") && !concerns(&all, "default/orders/C-2"));
        let one = recipient(Some("default/orders/C-1"), None, true);
        assert!(concerns(&one, "default/orders/C-1") && !concerns(&one, "default/other/C-1"));
        // A subscription that another program wrote gives no right.
        let foreign = recipient(Some("default/orders/C-2"), Some("C-1"), true);
        assert!(!concerns(&foreign, "default/orders/C-2"));
        assert!(!concerns(&recipient(None, None, false), "default/orders/C-1"));
    }

    #[test]
    fn first_look_at_a_webhook_stores_what_subscribers_need_not_hear() {
        let facts = DeliveryFacts {
            lost: 2,
            last_lost_at_ms: Some(5),
            last_success_at_ms: Some(9),
            ..DeliveryFacts::default()
        };
        let decision = Announced::nothing(&facts).next(&facts, 10);
        let decided = Decided { webhook: "a/b/C".into(), facts, before: None, decision };
        let change = change(&decided).expect("a row");
        assert!(!change.is_announced && change.before.is_none());
        assert_eq!((change.notice.number, change.notice.announced.lost_until_ms), (0, Some(5)));
    }
}
