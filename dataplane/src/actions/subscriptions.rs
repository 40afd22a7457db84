//! Subscriptions to changes of webhooks, for the portal: list, subscribe, change, unsubscribe; and what the link of a message does.
//!
//! The caller has checked that the user may see webhooks. Docket checks it again before each message.

use docket_domain::notice::WebhookState;
use docket_domain::token::{TokenSubject, UserKind};
use docket_orders::text::is_email;
use docket_program::random;
use docket_store::people::user_key;
use docket_store::subscriptions::{
    self, CONFIRM_MS, Counts, MOST_OF_CONTACTS, MOST_OF_CUSTOMER, MOST_OF_TENANT, MOST_OF_USER, Subscriber,
    Subscription,
};
use docket_store::{Connection, StoreError, Transaction};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Refusal, invalid};
use crate::tenancy::Webhooks;

const NO_SUCH_WEBHOOK: Refusal =
    Refusal::NotFound("There is no webhook with this namespace/name, key or uid");
const NO_SUCH_SUBSCRIPTION: Refusal = Refusal::NotFound("There is no such subscription");
const SUBSCRIBED: Refusal =
    Refusal::Conflict("You have a subscription to this webhook at this address already");
const MOST_REACHED: Refusal = Refusal::Conflict("A user may have 20 subscriptions; end one of yours first");
const MOST_OF_CUSTOMER_REACHED: Refusal = Refusal::Conflict(
    "All contacts of a customer together may have 40 subscriptions; ask others to end theirs",
);
const MOST_OF_CONTACTS_REACHED: Refusal = Refusal::Conflict(
    "All contacts of a tenant together may have 160 subscriptions; ask others to end theirs",
);
const MOST_OF_TENANT_REACHED: Refusal =
    Refusal::Conflict("All users of a tenant together may have 200 subscriptions; ask others to end theirs");
const _: () = assert!(MOST_OF_USER == 20 && MOST_OF_TENANT == 200);
const _: () = assert!(MOST_OF_CUSTOMER == 40 && MOST_OF_CONTACTS == 160);
/// The longest address, in bytes (RFC 5321, 4.5.3.1).
const LONGEST_ADDRESS: usize = 254;

/// What a user subscribes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSubscription {
    /// A webhook, by `namespace/name`, key or uid; `None`: all webhooks that the user may see, later ones too.
    pub webhook: Option<String>,
    /// The states that are announced: one or more.
    pub states: Vec<WebhookState>,
    /// An address, whose owner has to confirm it; `None`: the contact's own, which needs no confirmation.
    pub email: Option<String>,
}

/// The subscriber that a signed-in user is.
pub fn subscriber(subject: &TokenSubject) -> Subscriber {
    let (kind, code) = subject.user();
    Subscriber { kind, code: code.to_owned() }
}

/// The user's subscriptions, the oldest first.
pub async fn list(
    connection: &mut Connection,
    subject: &TokenSubject,
) -> Result<Vec<Subscription>, StoreError> {
    subscriptions::of_user(connection, &subscriber(subject)).await
}

/// Subscribes the user. `webhooks` are those that the user may see.
///
/// # Errors
///
/// Refused if a field is wrong, the owner of the address wants no messages, the webhook is not served, the user has the same subscription,
/// or there are too many.
pub async fn subscribe(
    transaction: &mut Transaction,
    webhooks: Webhooks<'_>,
    subject: &TokenSubject,
    new: NewSubscription,
    now: Timestamp,
) -> Result<Subscription, Refusal> {
    let NewSubscription { webhook, states, email } = new;
    check_states(&states)?;
    let email = email.map(|email| email.trim().to_owned());
    match (&email, subject) {
        (Some(email), _) if email.len() > LONGEST_ADDRESS || !is_email(email) => {
            return Err(invalid("email", "must be an e-mail address, such as ada@quillfeather.example"));
        }
        (None, TokenSubject::Employee { .. }) => {
            return Err(invalid("email", "required: Docket has no address of an employee"));
        }
        _ => {}
    }
    let webhook = match webhook {
        Some(name) => Some(webhooks.named(&name).ok_or(NO_SUCH_WEBHOOK)?.key()),
        None => None,
    };
    let subscriber = subscriber(subject);
    subscriptions::lock(transaction).await?;
    if let Some(email) = &email
        && subscriptions::is_refused(transaction, &address_digest(email)).await?
    {
        return Err(invalid("email", "its owner wants no messages about webhooks; choose another address"));
    }
    let counts = subscriptions::count(transaction, &subscriber, subject.own_customer()).await?;
    if let Some(refusal) = above(counts, subscriber.kind) {
        return Err(refusal);
    }
    let before = subscriptions::of_user(transaction, &subscriber).await?;
    if before.iter().any(|one| one.webhook == webhook && one.email == email) {
        return Err(SUBSCRIBED);
    }
    let now_ms = now.as_millisecond();
    // A contact's own address is the one it signs in with, so the back office knows it.
    let confirmed_at_ms = email.is_none().then_some(now_ms);
    let id = hex::encode(random::bytes::<10>());
    let subscription =
        Subscription { id, subscriber, email, webhook, states, confirmed_at_ms, created_at_ms: now_ms };
    subscriptions::insert(transaction, &subscription).await?;
    Ok(subscription)
}

/// The bound that one more subscription of this kind of user would exceed.
fn above(counts: Counts, kind: UserKind) -> Option<Refusal> {
    let Counts { of_user, of_customer, of_contacts, of_tenant } = counts;
    let is_contact = kind == UserKind::Contact;
    let bounds = [
        (of_user >= MOST_OF_USER, MOST_REACHED),
        (is_contact && of_customer >= MOST_OF_CUSTOMER, MOST_OF_CUSTOMER_REACHED),
        (is_contact && of_contacts >= MOST_OF_CONTACTS, MOST_OF_CONTACTS_REACHED),
        (of_tenant >= MOST_OF_TENANT, MOST_OF_TENANT_REACHED),
    ];
    bounds.into_iter().find_map(|(is_reached, refusal)| is_reached.then_some(refusal))
}

/// Changes which states a subscription of the user announces.
///
/// # Errors
///
/// Refused if there is no state, or the user has no such subscription.
pub async fn change(
    transaction: &mut Transaction,
    subject: &TokenSubject,
    id: &str,
    states: &[WebhookState],
) -> Result<(), Refusal> {
    check_states(states)?;
    let is_changed = subscriptions::set_states(transaction, &subscriber(subject), id, states).await?;
    if is_changed { Ok(()) } else { Err(NO_SUCH_SUBSCRIPTION) }
}

fn check_states(states: &[WebhookState]) -> Result<(), Refusal> {
    if states.is_empty() { Err(invalid("states", "choose at least one")) } else { Ok(()) }
}

/// Ends a subscription of the user.
///
/// # Errors
///
/// Refused if the user has no such subscription.
pub async fn unsubscribe(
    transaction: &mut Transaction,
    subject: &TokenSubject,
    id: &str,
) -> Result<(), Refusal> {
    let is_ended = subscriptions::remove(transaction, &subscriber(subject), id).await?;
    if is_ended { Ok(()) } else { Err(NO_SUCH_SUBSCRIPTION) }
}

/// The digest of a token, as it is stored; `None`: no token has this form.
pub fn token_digest(token: &str) -> Option<String> {
    let is_token = token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_token.then(|| hex::encode(Sha256::digest(token.to_ascii_lowercase())))
}

/// The digest of an address, by which Docket knows an address that it asked its owner to confirm. Case makes no difference.
pub fn address_digest(address: &str) -> String {
    hex::encode(Sha256::digest(user_key(address)))
}

/// The subscription that the message with this link is about; `None`: it has ended, or was not confirmed in time.
pub async fn by_token(
    connection: &mut Connection,
    token: &str,
    now: Timestamp,
) -> Result<Option<Subscription>, StoreError> {
    let Some(digest) = token_digest(token) else { return Ok(None) };
    let found = subscriptions::by_link(connection, &digest).await?;
    Ok(found.filter(|found| found.confirmed_at_ms.is_some() || !is_late(found, now.as_millisecond())))
}

/// Whether a subscription was not confirmed in time.
pub fn is_late(subscription: &Subscription, now_ms: i64) -> bool {
    subscription.confirmed_at_ms.is_none() && now_ms - subscription.created_at_ms > CONFIRM_MS
}

/// Confirms the address of the subscription that the message with this link is about. Returns the subscription if it was not
/// confirmed before.
pub async fn confirm(
    transaction: &mut Transaction,
    token: &str,
    now: Timestamp,
) -> Result<Option<Subscription>, StoreError> {
    let Some(found) = by_token(transaction, token, now).await? else { return Ok(None) };
    let is_new = subscriptions::confirm(transaction, &found.id, now.as_millisecond()).await?;
    Ok(is_new.then_some(found))
}

/// Ends the subscription that the message with this link is about. Returns the subscription, if it had not ended.
pub async fn unsubscribe_by_token(
    transaction: &mut Transaction,
    token: &str,
    now: Timestamp,
) -> Result<Option<Subscription>, StoreError> {
    let Some(found) = by_token(transaction, token, now).await? else { return Ok(None) };
    let is_ended = subscriptions::end(transaction, &found.id).await?;
    Ok(is_ended.then_some(found))
}

/// Ends all messages to an address, for the person who clicked the link in a message to it: ends each subscription for which a user typed
/// the address, and lets no user subscribe with it again. Returns the ids of the subscriptions that have ended.
pub async fn refuse_address(
    transaction: &mut Transaction,
    token: &str,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    // No user subscribes with the address meanwhile.
    subscriptions::lock(transaction).await?;
    let found = by_token(transaction, token, now).await?;
    let Some(digest) = found.and_then(|found| Some(address_digest(&found.email?))) else {
        return Ok(Vec::new());
    };
    subscriptions::refuse_address(transaction, &digest, now.as_millisecond()).await?;
    let mut ended = Vec::new();
    for (id, email) in subscriptions::typed(transaction).await? {
        if address_digest(&email) == digest && subscriptions::end(transaction, &id).await? {
            ended.push(id);
        }
    }
    Ok(ended)
}
