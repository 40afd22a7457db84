//! Who gets an e-mail when the state of a webhook changes, and the links in the messages.

use docket_domain::notice::WebhookState;
use docket_domain::token::UserKind;
use docket_schema::SUBSCRIPTIONS;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::notices::LAST_NUMBER;
use crate::sql::{Row, params, read};

/// The most subscriptions of a user.
pub const MOST_OF_USER: i64 = 20;
/// The most subscriptions of the contacts of a customer.
pub const MOST_OF_CUSTOMER: i64 = 40;
/// The most subscriptions of a tenant.
pub const MOST_OF_TENANT: i64 = 200;
/// The most subscriptions of all contacts of a tenant. The others are kept for its employees.
pub const MOST_OF_CONTACTS: i64 = MOST_OF_TENANT - 40;
/// The most addresses whose owners want no messages.
const MOST_REFUSED: i64 = 10_000;
/// How long no other subscription asks the owner of an address to confirm it, in milliseconds.
pub const ASK_AGAIN_MS: i64 = 24 * 3600 * 1000;
/// How long the links of messages work, in milliseconds.
pub const KEEP_LINKS_MS: i64 = 90 * 24 * 3600 * 1000;
/// How long an address may take to confirm its subscription, in milliseconds.
pub const CONFIRM_MS: i64 = 7 * 24 * 3600 * 1000;
/// The end of the year 9999: nothing is due.
const NEVER_MS: i64 = 253_402_300_799_999;

/// Whether the database has subscriptions: one of the previous release has no table of them.
pub fn are_there(connection: &Connection) -> bool {
    connection.has_step(SUBSCRIPTIONS)
}

/// A user who subscribes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// Its kind.
    pub kind: UserKind,
    /// The code of the contact or employee.
    pub code: String,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its id: random, hexadecimal.
    pub id: String,
    /// The user.
    pub subscriber: Subscriber,
    /// An address that the user typed; `None`: the contact's own.
    pub email: Option<String>,
    /// The webhook's key; `None`: all webhooks that the user may see.
    pub webhook: Option<String>,
    /// The states that it announces.
    pub states: Vec<WebhookState>,
    /// When the owner of the address confirmed it, in milliseconds since 1970; `None`: it sends nothing else yet.
    pub confirmed_at_ms: Option<i64>,
    /// When the subscription was added, in milliseconds since 1970.
    pub created_at_ms: i64,
}

const COLUMNS: &str = "s.id, s.user_kind, s.user_code, s.email, s.webhook, s.on_failing, s.on_lost, s.on_works, \
                       s.confirmed_at_ms, s.created_at_ms";

fn subscription(row: &Row) -> Result<Subscription, StoreError> {
    let mut states = Vec::new();
    for (index, state) in (5..).zip(WebhookState::ALL) {
        states.extend(row.get::<bool>(index)?.then_some(state));
    }
    Ok(Subscription {
        id: row.get(0)?,
        subscriber: Subscriber { kind: row.parsed(1)?, code: row.get(2)? },
        email: row.get(3)?,
        webhook: row.get(4)?,
        states,
        confirmed_at_ms: row.get(8)?,
        created_at_ms: row.get(9)?,
    })
}

/// The subscriptions of a user, the oldest first.
pub async fn of_user(
    connection: &mut Connection,
    subscriber: &Subscriber,
) -> Result<Vec<Subscription>, StoreError> {
    connection.needs_step(SUBSCRIPTIONS)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM subscription s WHERE s.user_kind = $1 AND s.user_code = $2 \
         ORDER BY s.created_at_ms, s.id LIMIT {MOST_OF_TENANT}"
    );
    let values = params![subscriber.kind.as_str(), &subscriber.code];
    connection.query(&sql, values).await?.iter().map(subscription).collect()
}

/// Waits until no other transaction adds a subscription, claims a message or refuses an address. None does until this transaction ends.
pub async fn lock(transaction: &mut Transaction) -> Result<(), StoreError> {
    transaction.needs_step(SUBSCRIPTIONS)?;
    transaction.lock("SELECT value FROM counter WHERE name = 'notice' FOR UPDATE", Vec::new()).await
}

/// The numbers of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Subscriptions of the user.
    pub of_user: i64,
    /// Subscriptions of all contacts of the user's customer.
    pub of_customer: i64,
    /// Subscriptions of all contacts of the tenant.
    pub of_contacts: i64,
    /// Subscriptions of all users of the tenant.
    pub of_tenant: i64,
}

/// Counts subscriptions, under the [`lock`]. `customer_code`: the customer of a contact.
pub async fn count(
    transaction: &mut Transaction,
    subscriber: &Subscriber,
    customer_code: Option<&str>,
) -> Result<Counts, StoreError> {
    let sql = "SELECT count(CASE WHEN s.user_kind = $1 AND s.user_code = $2 THEN 1 END), \
               count(CASE WHEN c.customer_code = $3 THEN 1 END), \
               count(CASE WHEN s.user_kind = 'contact' THEN 1 END), count(*) FROM subscription s \
               LEFT JOIN contact c ON s.user_kind = 'contact' AND c.code = s.user_code";
    let values = params![subscriber.kind.as_str(), &subscriber.code, customer_code];
    let row = transaction.query_opt(sql, values).await?;
    let row = row.ok_or(StoreError::Unexpected("a count has no row"))?;
    Ok(read!(row => Counts { of_user, of_customer, of_contacts, of_tenant }))
}

/// The ids of the subscriptions with an address that a user typed, and the addresses.
pub async fn typed(connection: &mut Connection) -> Result<Vec<(String, String)>, StoreError> {
    let sql = format!(
        "SELECT id, email FROM subscription WHERE email IS NOT NULL ORDER BY id LIMIT {MOST_OF_TENANT}"
    );
    let rows = connection.query(&sql, Vec::new()).await?;
    let typed = |row: &Row| Ok::<(String, String), StoreError>((row.get(0)?, row.get(1)?));
    rows.iter().map(typed).collect()
}

/// Keeps the digest of an address whose owner wants no messages.
pub async fn refuse_address(
    transaction: &mut Transaction,
    address_digest: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO refused_address (address_digest, refused_at_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    transaction.execute(sql, params![address_digest, now_ms]).await?;
    let sql = format!(
        "DELETE FROM refused_address WHERE refused_at_ms < \
         (SELECT refused_at_ms FROM refused_address ORDER BY refused_at_ms DESC LIMIT 1 OFFSET {})",
        MOST_REFUSED - 1
    );
    transaction.execute(&sql, Vec::new()).await.map(drop)
}

/// Whether the owner of the address with this digest wants no messages.
pub async fn is_refused(connection: &mut Connection, address_digest: &str) -> Result<bool, StoreError> {
    let sql = "SELECT refused_at_ms FROM refused_address WHERE address_digest = $1";
    Ok(connection.query_opt(sql, params![address_digest]).await?.is_some())
}

/// Adds a subscription. It announces what changes from now on.
pub async fn insert(transaction: &mut Transaction, new: &Subscription) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO subscription (id, user_kind, user_code, email, webhook, on_failing, on_lost, on_works, confirmed_at_ms, \
         created_at_ms, due_at_ms, sent_number) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, {LAST_NUMBER})"
    );
    let [failing, lost, works] = WebhookState::ALL.map(|state| new.states.contains(&state));
    let Subscription { id, subscriber, email, webhook, states: _, confirmed_at_ms, created_at_ms } = new;
    let values = params![
        id,
        subscriber.kind.as_str(),
        &subscriber.code,
        email.as_ref(),
        webhook.as_ref(),
        failing,
        lost,
        works,
        *confirmed_at_ms,
        *created_at_ms,
        *created_at_ms
    ];
    transaction.execute(&sql, values).await.map(drop)
}

/// Changes which states a subscription of this user announces. A state that is added announces what changes from now on. Returns
/// whether there is such a subscription.
pub async fn set_states(
    transaction: &mut Transaction,
    subscriber: &Subscriber,
    id: &str,
    states: &[WebhookState],
) -> Result<bool, StoreError> {
    transaction.needs_step(SUBSCRIPTIONS)?;
    let sql = format!(
        "UPDATE subscription SET \
         failing_after = CASE WHEN $4 AND NOT on_failing THEN {LAST_NUMBER} ELSE failing_after END, \
         lost_after = CASE WHEN $5 AND NOT on_lost THEN {LAST_NUMBER} ELSE lost_after END, \
         works_after = CASE WHEN $6 AND NOT on_works THEN {LAST_NUMBER} ELSE works_after END, \
         on_failing = $4, on_lost = $5, on_works = $6 WHERE id = $1 AND user_kind = $2 AND user_code = $3"
    );
    let [failing, lost, works] = WebhookState::ALL.map(|state| states.contains(&state));
    let values = params![id, subscriber.kind.as_str(), &subscriber.code, failing, lost, works];
    Ok(transaction.execute(&sql, values).await? == 1)
}

/// Removes a subscription of this user. Returns whether there was one.
pub async fn remove(
    transaction: &mut Transaction,
    subscriber: &Subscriber,
    id: &str,
) -> Result<bool, StoreError> {
    transaction.needs_step(SUBSCRIPTIONS)?;
    let sql = "DELETE FROM subscription WHERE id = $1 AND user_kind = $2 AND user_code = $3";
    let values = params![id, subscriber.kind.as_str(), &subscriber.code];
    Ok(transaction.execute(sql, values).await? == 1)
}

/// Removes the subscriptions of this user with an address that was typed: another person may have added them in the user's session.
pub(crate) async fn end_typed(
    transaction: &mut Transaction,
    kind: UserKind,
    code: &str,
) -> Result<(), StoreError> {
    if !transaction.has_step(SUBSCRIPTIONS) {
        return Ok(());
    }
    let sql = "DELETE FROM subscription WHERE user_kind = $1 AND user_code = $2 AND email IS NOT NULL";
    transaction.execute(sql, params![kind.as_str(), code]).await.map(drop)
}

/// Removes a subscription of any user. Returns whether it was there.
pub async fn end(transaction: &mut Transaction, id: &str) -> Result<bool, StoreError> {
    Ok(transaction.execute("DELETE FROM subscription WHERE id = $1", params![id]).await? == 1)
}

/// The subscription that a message with this link was about, if it has not ended.
pub async fn by_link(
    connection: &mut Connection,
    token_digest: &str,
) -> Result<Option<Subscription>, StoreError> {
    connection.needs_step(SUBSCRIPTIONS)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM subscription s WHERE s.id = (SELECT subscription_id FROM mail_link WHERE token_digest = $1)"
    );
    connection.query_opt(&sql, params![token_digest]).await?.as_ref().map(subscription).transpose()
}

/// Confirms the address of a subscription, which announces what changes from now on. Returns whether it was not confirmed before.
pub async fn confirm(transaction: &mut Transaction, id: &str, now_ms: i64) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE subscription SET confirmed_at_ms = $2, due_at_ms = $2, failures = 0, sent_number = {LAST_NUMBER} \
         WHERE id = $1 AND confirmed_at_ms IS NULL"
    );
    Ok(transaction.execute(&sql, params![id, now_ms]).await? == 1)
}

/// A subscription with what a process needs to send its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The subscription.
    pub subscription: Subscription,
    /// The address; `None`: the user is gone or lost the right to see webhooks.
    pub address: Option<String>,
    /// The contact's customer, whose webhooks are its concern; `None`: the subscriber is an employee.
    pub customer_code: Option<String>,
    /// The number of the last notice that was sent.
    pub sent_number: i64,
    /// For each state of [`WebhookState::ALL`], the number of the last notice when the user added the state; `None`: it was not added.
    pub added_after: [Option<i64>; 3],
    /// When the next message may be sent, in milliseconds since 1970.
    pub due_at_ms: i64,
    /// How many times in a row the message could not be sent.
    pub failures: i64,
}

impl Recipient {
    /// Whether the recipient wants a notice of this state with this number, and was not sent it.
    pub fn awaits(&self, state: WebhookState, number: i64) -> bool {
        let added = WebhookState::ALL.into_iter().zip(self.added_after).find(|(added, _)| *added == state);
        let added_after = added.and_then(|(_, number)| number).unwrap_or_default();
        self.subscription.states.contains(&state) && number > self.sent_number.max(added_after)
    }
}

/// All recipients of the tenant, at most [`MOST_OF_TENANT`].
pub async fn recipients(connection: &mut Connection) -> Result<Vec<Recipient>, StoreError> {
    connection.needs_step(SUBSCRIPTIONS)?;
    let sql = format!(
        "SELECT {COLUMNS}, CASE WHEN c.code IS NOT NULL OR e.code IS NOT NULL THEN coalesce(s.email, c.email) END, \
         c.customer_code, s.sent_number, s.due_at_ms, s.failures, s.failing_after, s.lost_after, s.works_after \
         FROM subscription s \
         LEFT JOIN contact c ON s.user_kind = 'contact' AND c.code = s.user_code AND c.active AND c.manages_webhooks \
         LEFT JOIN employee e ON s.user_kind = 'employee' AND e.code = s.user_code AND e.active AND e.administrator \
         ORDER BY s.id LIMIT {MOST_OF_TENANT}"
    );
    let recipient = |row: &Row| {
        Ok(Recipient {
            subscription: subscription(row)?,
            address: row.get(10)?,
            customer_code: row.get(11)?,
            sent_number: row.get(12)?,
            due_at_ms: row.get(13)?,
            failures: row.get(14)?,
            added_after: [row.get(15)?, row.get(16)?, row.get(17)?],
        })
    };
    connection.query(&sql, Vec::new()).await?.iter().map(recipient).collect()
}

/// The time and the bounds of a message that a process wants to send.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The digest of the token in the message's link.
    pub token_digest: &'a str,
    /// The digest of the address that the message asks its owner to confirm; `None`: the message is about webhooks.
    pub address_digest: Option<&'a str>,
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
    /// Until when no other process sends a message of this subscription, in milliseconds since 1970.
    pub until_ms: i64,
    /// The highest number of messages of this kind in the hour before `now_ms`, including messages that could not be sent.
    pub most_in_an_hour: i64,
    /// The most of these messages that one user causes.
    pub most_of_user: i64,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// This process sends the message.
    Yes,
    /// Another process sends it, or the subscription has ended.
    No,
    /// The tenant or the user has sent as many messages in the last hour as it may, or another subscription has asked the owner of the
    /// address within [`ASK_AGAIN_MS`].
    AtLimit,
}

/// Claims a message of this recipient, and stores its link.
pub async fn claim(
    transaction: &mut Transaction,
    recipient: &Recipient,
    claim: &Claim<'_>,
) -> Result<Claimed, StoreError> {
    let Claim { token_digest, address_digest, now_ms, until_ms, most_in_an_hour, most_of_user } = *claim;
    // Two processes that claim at the same time count one after the other.
    lock(transaction).await?;
    let Subscription { id, subscriber: Subscriber { kind, code }, .. } = &recipient.subscription;
    let sql = "SELECT count(*), count(CASE WHEN user_kind = $3 AND user_code = $4 THEN 1 END) FROM mail_link \
               WHERE sent_at_ms > $1 AND (address_digest IS NOT NULL) = $2";
    let values = params![now_ms - 3_600_000, address_digest.is_some(), kind.as_str(), code];
    let row = transaction.query_opt(sql, values).await?;
    let row = row.ok_or(StoreError::Unexpected("a count has no row"))?;
    if row.get::<i64>(0)? >= most_in_an_hour || row.get::<i64>(1)? >= most_of_user {
        return Ok(Claimed::AtLimit);
    }
    if let Some(digest) = address_digest {
        let sql = "SELECT token_digest FROM mail_link WHERE sent_at_ms > $1 AND address_digest = $2 \
                   AND subscription_id <> $3 LIMIT 1";
        let values = params![now_ms - ASK_AGAIN_MS, digest, id];
        if transaction.query_opt(sql, values).await?.is_some() {
            return Ok(Claimed::AtLimit);
        }
    }
    let sql = "UPDATE subscription SET due_at_ms = $3 WHERE id = $1 AND due_at_ms = $2 AND sent_number = $4";
    let values = params![id, recipient.due_at_ms, until_ms, recipient.sent_number];
    if transaction.execute(sql, values).await? == 0 {
        return Ok(Claimed::No);
    }
    let sql = "INSERT INTO mail_link (token_digest, subscription_id, user_kind, user_code, address_digest, sent_at_ms) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    let values = params![token_digest, id, kind.as_str(), code, address_digest, now_ms];
    transaction.execute(sql, values).await?;
    Ok(Claimed::Yes)
}

/// Lets a message that is [at a limit](Claimed::AtLimit) wait until `due_at_ms`.
pub async fn hold(
    transaction: &mut Transaction,
    recipient: &Recipient,
    due_at_ms: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE subscription SET due_at_ms = $3 WHERE id = $1 AND due_at_ms = $2";
    let values = params![&recipient.subscription.id, recipient.due_at_ms, due_at_ms];
    transaction.execute(sql, values).await.map(drop)
}

/// Records that the message was sent, or given up, and ends its claim. `sent_number`: of the newest notice in it; `None`: it asked
/// for confirmation. `due_at_ms`: when the next one may be sent.
pub async fn settle(
    transaction: &mut Transaction,
    (id, until_ms): (&str, i64),
    sent_number: Option<i64>,
    due_at_ms: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE subscription SET sent_number = coalesce($3, sent_number), due_at_ms = $4, failures = 0 \
               WHERE id = $1 AND due_at_ms = $2";
    // Nothing else is due before the address is confirmed.
    let due_at_ms = if sent_number.is_some() { due_at_ms } else { NEVER_MS };
    transaction.execute(sql, params![id, until_ms, sent_number, due_at_ms]).await.map(drop)
}

/// Records that the message could not be sent, and ends its claim. It is due again at `due_at_ms`.
pub async fn put_off(
    transaction: &mut Transaction,
    (id, until_ms): (&str, i64),
    due_at_ms: i64,
) -> Result<(), StoreError> {
    let sql =
        "UPDATE subscription SET due_at_ms = $3, failures = failures + 1 WHERE id = $1 AND due_at_ms = $2";
    transaction.execute(sql, params![id, until_ms, due_at_ms]).await.map(drop)
}

/// Deletes the oldest links that are older than [`KEEP_LINKS_MS`], at most `limit`. Returns how many there were.
pub async fn delete_old_links(
    transaction: &mut Transaction,
    now_ms: i64,
    limit: i64,
) -> Result<u64, StoreError> {
    if !transaction.has_step(SUBSCRIPTIONS) {
        return Ok(0);
    }
    let sql = "DELETE FROM mail_link WHERE token_digest IN \
               (SELECT token_digest FROM mail_link WHERE sent_at_ms < $1 ORDER BY sent_at_ms LIMIT $2)";
    transaction.execute(sql, params![now_ms - KEEP_LINKS_MS, limit]).await
}
