//! Decides which changes of webhooks are announced, and stores them. `docket_domain::notice` has the rule.

use std::collections::{HashMap, HashSet};

use docket_crds::{WebhookConfig, webhook_key};
use docket_domain::delivery::Status;
use docket_domain::notice::{APART, Announced, Decision, DeliveryFacts, WebhookState};
use docket_program::clock::{Clock, millis};
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
    let served: HashSet<&str> = decided.iter().map(|one| &*one.webhook).collect();
    let others = stored.iter().filter(|notice| !served.contains(&*notice.webhook));
    let others = others.filter_map(|notice| unserved(notice, is_wanted(&notice.webhook), clock.now_ms()));
    let writes = in_order(decided.iter().filter_map(change).chain(others).collect());
    let announced = writes.iter().filter(|write| write.is_announced());
    let announced: Vec<String> = announced.map(|write| write.webhook().to_owned()).collect();
    let failures = match announced.is_empty() {
        true => Vec::new(),
        false => recent::failures(&mut reader, &announced).await?,
    };
    drop(reader);
    if writes.is_empty() {
        return Ok(is_held);
    }
    let mut transaction = database.begin(clock).await?;
    // The first lock of each transaction that announces.
    let number = if announced.is_empty() { 0 } else { notices::take_number(&mut transaction).await? };
    for write in writes {
        match write {
            Write::Store { mut notice, before, is_announced } => {
                if is_announced {
                    notice.number = number;
                    notice.failure = failure_of(&failures, &notice);
                }
                // If another process was faster, its notice stays.
                notices::store(&mut transaction, &notice, before).await?;
            }
            Write::Forget { webhook } => notices::forget(&mut transaction, webhook).await?,
        }
    }
    transaction.commit().await?;
    Ok(is_held)
}

/// What follows for each of these webhooks.
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
        // Rows from before webhooks had keys contain the uid.
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
    Ok(wanted.iter().map(decided).collect())
}

/// A change of the row of a webhook.
#[derive(Debug, PartialEq, Eq)]
enum Write<'a> {
    Store {
        notice: Notice,
        before: Option<&'a Notice>,
        /// Whether subscribers hear of the change. Then the notice gets its number when it is stored.
        is_announced: bool,
    },
    Forget {
        webhook: &'a str,
    },
}

impl Write<'_> {
    fn webhook(&self) -> &str {
        match self {
            Self::Store { notice, .. } => &notice.webhook,
            Self::Forget { webhook } => webhook,
        }
    }

    fn is_announced(&self) -> bool {
        matches!(self, Self::Store { is_announced: true, .. })
    }
}

/// All processes lock rows in the order of their keys, for every kind of change, so that no two processes wait for each other.
fn in_order(mut writes: Vec<Write<'_>>) -> Vec<Write<'_>> {
    writes.sort_by(|one, other| one.webhook().cmp(other.webhook()));
    writes
}

fn change(Decided { webhook, facts, before, decision }: &Decided) -> Option<Write<'_>> {
    let before = before.as_ref();
    let (announced, number) = match (*decision, before) {
        // Subscribers hear of what changes from now on.
        (Decision::Nothing, None) => (Announced::nothing(facts), 0),
        (Decision::Remember(now), Some(before)) if now.state == before.announced.state => {
            (now, before.number)
        }
        (Decision::Remember(now) | Decision::Announce(now), _) => (now, 0),
        // The webhook is served again.
        (Decision::Nothing | Decision::Wait, Some(before)) if before.missing_since_ms.is_some() => {
            let notice = Notice { missing_since_ms: None, ..before.clone() };
            return Some(Write::Store { notice, before: Some(before), is_announced: false });
        }
        (Decision::Nothing | Decision::Wait, _) => return None,
    };
    let count = match announced.state {
        WebhookState::Failing => facts.failing,
        WebhookState::Lost => facts.lost,
        WebhookState::Works => 0,
    };
    let is_announced = matches!(decision, Decision::Announce(_));
    let failure = before.and_then(|before| before.failure);
    let webhook = webhook.clone();
    let notice = Notice { webhook, announced, number, count, failure, missing_since_ms: None };
    Some(Write::Store { notice, before, is_announced })
}

/// What becomes of the row of a webhook that is not served, or that no recipient hears of (`is_wanted`). A webhook that is not served
/// for a moment keeps its row: without it, a state would be announced twice in [`APART`].
fn unserved(notice: &Notice, is_wanted: bool, now_ms: i64) -> Option<Write<'_>> {
    match notice.missing_since_ms {
        None if is_wanted => {
            let missing = Notice { missing_since_ms: Some(now_ms), ..notice.clone() };
            Some(Write::Store { notice: missing, before: Some(notice), is_announced: false })
        }
        Some(since_ms) if is_wanted && now_ms.saturating_sub(since_ms) < millis(APART) => None,
        _ => Some(Write::Forget { webhook: &notice.webhook }),
    }
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
pub(super) mod tests {
    use docket_domain::delivery::FailureClass;
    use docket_domain::token::UserKind;
    use docket_store::subscriptions::{Subscriber, Subscription};

    use super::*;

    pub(in crate::notices) fn recipient(
        webhook: Option<&str>,
        customer: Option<&str>,
        is_confirmed: bool,
    ) -> Recipient {
        let subscriber = Subscriber { kind: UserKind::Contact, code: "11".into() };
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
        let Some(Write::Store { notice, before: None, is_announced: false }) = change(&decided) else {
            panic!("a row is stored, and not announced")
        };
        assert_eq!((notice.number, notice.announced.lost_until_ms), (0, Some(5)));
    }

    fn noticed(webhook: &str, missing_since_ms: Option<i64>) -> Notice {
        let announced = Announced {
            state: WebhookState::Failing,
            failing_at_ms: Some(1),
            ..Announced::nothing(&DeliveryFacts::default())
        };
        Notice { webhook: webhook.into(), announced, number: 4, count: 1, failure: None, missing_since_ms }
    }

    #[test]
    fn webhook_that_is_not_served_keeps_its_row_for_an_hour() {
        let hour_ms = millis(APART);
        let (served, missing) = (noticed("a/b/C", None), noticed("a/b/C", Some(7)));
        let stored = Write::Store { notice: missing.clone(), before: Some(&served), is_announced: false };
        assert_eq!(unserved(&served, true, 7), Some(stored));
        assert_eq!(unserved(&missing, true, 7 + hour_ms - 1), None);
        let forgotten = || Some(Write::Forget { webhook: "a/b/C" });
        assert_eq!(unserved(&missing, true, 7 + hour_ms), forgotten());
        assert_eq!(unserved(&served, false, 7), forgotten(), "no recipient hears of it");
        assert_eq!(unserved(&missing, false, 7), forgotten());
    }

    #[test]
    fn webhook_that_is_served_again_within_the_hour_is_not_announced_again() {
        let facts = DeliveryFacts { failing: 1, ..DeliveryFacts::default() };
        let before = noticed("a/b/C", Some(7));
        let decision = before.announced.next(&facts, 8);
        let decided = Decided { webhook: "a/b/C".into(), facts, before: Some(before.clone()), decision };
        let served = noticed("a/b/C", None);
        let stored = Write::Store { notice: served, before: Some(&before), is_announced: false };
        assert_eq!(change(&decided), Some(stored));
    }

    #[test]
    fn rows_are_written_in_the_order_of_keys_whatever_is_done() {
        let row = |webhook| Write::Store { notice: noticed(webhook, None), before: None, is_announced: true };
        let writes = vec![row("a/c/C"), row("a/a/C"), Write::Forget { webhook: "a/b/C" }];
        let order = in_order(writes);
        assert_eq!(order.iter().map(Write::webhook).collect::<Vec<_>>(), ["a/a/C", "a/b/C", "a/c/C"]);
    }

    #[test]
    fn notice_counts_the_deliveries_of_its_state() {
        let facts = DeliveryFacts { failing: 3, lost: 2, ..DeliveryFacts::default() };
        for (state, expected) in
            [(WebhookState::Failing, 3), (WebhookState::Lost, 2), (WebhookState::Works, 0)]
        {
            let before = noticed("a/b/C", None);
            let decision = Decision::Announce(Announced { state, ..before.announced });
            let decided = Decided { webhook: "a/b/C".into(), facts, before: Some(before), decision };
            let Some(Write::Store { notice, is_announced: true, .. }) = change(&decided) else {
                panic!("{state} is announced")
            };
            assert_eq!((notice.announced.state, notice.count, notice.number), (state, expected, 0));
        }
    }

    #[test]
    fn notice_names_the_most_frequent_failure_of_its_webhook_and_state() {
        let found = |webhook: &str, status, class| {
            let webhook = webhook.to_owned();
            Failures { webhook, status, class, count: 1, http_status: None, cause: None }
        };
        let failures = [
            found("a/other/C", Status::DeadLetter, FailureClass::Dns),
            found("a/b/C", Status::DeadLetter, FailureClass::Refused),
            found("a/b/C", Status::DeadLetter, FailureClass::Connect),
            found("a/b/C", Status::Failed, FailureClass::ServerError),
        ];
        let class = |state| {
            let mut notice = noticed("a/b/C", None);
            notice.announced.state = state;
            failure_of(&failures, &notice).map(|failure| failure.class)
        };
        assert_eq!(class(WebhookState::Lost), Some(FailureClass::Refused));
        assert_eq!(class(WebhookState::Failing), Some(FailureClass::ServerError));
        assert_eq!(class(WebhookState::Works), None);
    }
}
