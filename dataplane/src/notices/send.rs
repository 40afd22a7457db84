//! Sends what a tenant's subscribers have not heard: one message to an address, whatever the number of webhooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_crds::webhook_key;
use docket_domain::failure::Failure;
use docket_mail::text::{self, ChangedWebhook};
use docket_mail::{NotSent, Outgoing, Smtp};
use docket_portal::mail_link;
use docket_portal::page::webhook_link;
use docket_program::clock::{Clock, millis};
use docket_program::random;
use docket_store::notices::{self, News};
use docket_store::subscriptions::{self, Claim, Claimed, Recipient};
use docket_store::{Database, StoreError};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::PortalUrl;
use super::announce::concerns;
use crate::actions::subscriptions::{address_digest, token_digest};
use crate::telemetry::{MailResult, Metrics};
use crate::tenancy::ServedTenant;

/// The most messages about webhooks that a tenant sends in an hour. The changes that come after wait, and are one message to an address.
pub const MOST_NOTICES: i64 = 60;
/// The most of these messages that one user causes.
pub const MOST_NOTICES_OF_USER: i64 = 12;
/// The most messages in an hour that ask the owners of addresses to confirm them.
pub const MOST_CONFIRMATIONS: i64 = 10;
/// The most of these messages that one user causes.
pub const MOST_CONFIRMATIONS_OF_USER: i64 = 3;
/// How long a message waits that is above one of these limits, before it is tried again.
const HOLD: Duration = Duration::from_secs(300);
/// The most messages of one visit. The others follow in the next visit.
const MOST_OF_VISIT: usize = 20;
/// The shortest time between two messages of one subscription. What changes meanwhile is one message.
pub const APART: Duration = Duration::from_secs(300);
/// How long no other process sends a message that one process has claimed: longer than the messages before it may take.
const LEASE: Duration = Duration::from_secs(120);
/// The pause of this process after the SMTP server could not be reached.
const PAUSE: Duration = Duration::from_secs(30);
/// The pause after the first failure of a message; it doubles with each failure.
const BACKOFF: Duration = Duration::from_secs(60);
/// A message is given up after this number of failures in a row, which take eight and a half hours.
const MOST_FAILURES: i64 = 10;

/// Sends messages.
pub(super) struct Mailer {
    clock: Clock,
    smtp: Smtp,
    portal: PortalUrl,
    metrics: Arc<Metrics>,
    /// Until when nothing is sent, by [`Clock::elapsed`].
    paused_until: Mutex<Duration>,
    /// Nothing is sent any more.
    is_closed: AtomicBool,
}

/// A message that is due.
struct DueMessage<'a> {
    recipient: &'a Recipient,
    /// Since the last message; empty: the address is to be confirmed.
    news: Vec<&'a News>,
}

impl DueMessage<'_> {
    fn confirms(&self) -> bool {
        self.news.is_empty()
    }

    /// The most messages of this kind in an hour: of the tenant, and of one user.
    fn most_in_an_hour(&self) -> (i64, i64) {
        match self.confirms() {
            true => (MOST_CONFIRMATIONS, MOST_CONFIRMATIONS_OF_USER),
            false => (MOST_NOTICES, MOST_NOTICES_OF_USER),
        }
    }

    /// The number of the newest notice in the message.
    fn number(&self) -> Option<i64> {
        self.news.iter().map(|news| news.number).max()
    }

    /// The same for each try to send this message, so that mail programs find it twice at most.
    fn id(&self) -> String {
        let Recipient { subscription, .. } = self.recipient;
        let name = format!("{} {}", subscription.id, self.number().unwrap_or_default());
        hex::encode(&Sha256::digest(name)[..16])
    }
}

impl Mailer {
    pub(super) fn new(clock: Clock, smtp: Smtp, portal: PortalUrl, metrics: Arc<Metrics>) -> Self {
        let (paused_until, is_closed) = Default::default();
        Self { clock, smtp, portal, metrics, paused_until, is_closed }
    }

    /// Sends nothing any more. A message that is being sent is sent to its end.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn is_paused(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed) || self.is_without_server()
    }

    /// Whether the SMTP server could not be reached within the last 30 s.
    pub(super) fn is_without_server(&self) -> bool {
        self.clock.elapsed() < *self.paused_until.lock()
    }

    /// Sends what is due to these recipients. Returns how many messages wait.
    pub(super) async fn send(
        &self,
        tenant: &ServedTenant,
        database: &Database,
        recipients: &[Recipient],
    ) -> Result<i64, StoreError> {
        // Without a portal there is no page to end a subscription at.
        let Some(portal) = self.portal.of(tenant) else { return Ok(0) };
        let news = notices::news(&mut database.patient_reader().await?).await?;
        let messages = recipients.iter().filter_map(|recipient| message(recipient, &news));
        let messages: Vec<_> = messages.collect();
        let mut waiting = i64::try_from(messages.len()).unwrap_or(i64::MAX);
        for message in of_visit(&messages, self.clock.now_ms()) {
            if self.is_paused() {
                break;
            }
            waiting -= i64::from(self.send_one(tenant, database, &portal, message).await?);
        }
        Ok(waiting)
    }

    /// Sends a message, if no other process does. Returns whether the message waits no longer.
    async fn send_one(
        &self,
        tenant: &ServedTenant,
        database: &Database,
        portal: &str,
        message: &DueMessage<'_>,
    ) -> Result<bool, StoreError> {
        let (recipient, confirms) = (message.recipient, message.confirms());
        let token = hex::encode(random::bytes::<32>());
        let token_digest = token_digest(&token).ok_or(StoreError::Unexpected("a token has another form"))?;
        let mut transaction = database.begin(&self.clock).await?;
        let now_ms = transaction.now_ms();
        let until_ms = now_ms + millis(LEASE);
        let address_digest = recipient.address.as_deref().filter(|_| confirms).map(address_digest);
        let (most_in_an_hour, most_of_user) = message.most_in_an_hour();
        let (token_digest, address_digest) = (&*token_digest, address_digest.as_deref());
        let claim = Claim { token_digest, address_digest, now_ms, until_ms, most_in_an_hour, most_of_user };
        match subscriptions::claim(&mut transaction, recipient, &claim).await? {
            Claimed::Yes => transaction.commit().await?,
            Claimed::No => {
                transaction.rollback().await?;
                return Ok(true);
            }
            Claimed::AtLimit => {
                // The message is held, so that the next visits send the messages of others.
                subscriptions::hold(&mut transaction, recipient, now_ms + millis(HOLD)).await?;
                transaction.commit().await?;
                return Ok(false);
            }
        }
        let mail = self.mail(tenant, portal, &token, message);
        let result = self.smtp.send(&mail).await;
        self.settle(tenant, database, message, until_ms, result).await
    }

    fn mail(&self, tenant: &ServedTenant, portal: &str, token: &str, message: &DueMessage<'_>) -> Outgoing {
        let config = &tenant.config;
        let name = config.display_name.as_deref().unwrap_or_else(|| config.client_code.as_str());
        let link = format!("{portal}{}", mail_link::path(token));
        let text = match message.confirms() {
            true => text::confirmation(name, &link),
            false => {
                let changed = message.news.iter().map(|news| {
                    let key = &*news.webhook;
                    // A webhook that is not served for a moment has no other name.
                    let full_name = webhook_key::full_name(key).unwrap_or(key);
                    let display_name =
                        tenant.webhook(key).and_then(|webhook| webhook.display_name.as_deref());
                    ChangedWebhook {
                        name: display_name.unwrap_or(full_name),
                        state: news.state,
                        state_now: news.state_now,
                        count: news.count,
                        failure: news.failure.map(|failure| Failure {
                            class: failure.class,
                            cause: failure.cause,
                            http_status: failure.http_status.and_then(|status| u16::try_from(status).ok()),
                            detail: None,
                        }),
                        link: format!("{portal}{}", webhook_link(full_name)),
                    }
                });
                text::notices(name, &changed.collect::<Vec<_>>(), &link)
            }
        };
        Outgoing {
            to: message.recipient.address.clone().unwrap_or_default(),
            id: message.id(),
            at: self.clock.now(),
            text,
            unsubscribe: (!message.confirms()).then_some(link),
        }
    }

    /// Stores what became of a message. Returns whether it waits no longer.
    async fn settle(
        &self,
        tenant: &ServedTenant,
        database: &Database,
        message: &DueMessage<'_>,
        until_ms: i64,
        result: Result<(), NotSent>,
    ) -> Result<bool, StoreError> {
        let (recipient, number) = (message.recipient, message.number());
        let claimed = (&*recipient.subscription.id, until_ms);
        let failures = recipient.failures + 1;
        let retry = if result.is_ok() { None } else { pause_after(failures) };
        let mut transaction = database.begin(&self.clock).await?;
        let now_ms = transaction.now_ms();
        if let Some(pause) = retry {
            subscriptions::put_off(&mut transaction, claimed, now_ms + millis(pause)).await?;
        } else {
            subscriptions::settle(&mut transaction, claimed, number, now_ms + millis(APART)).await?;
        }
        transaction.commit().await?;
        if let Err(reason) = result {
            self.failed(tenant, reason, failures, retry.is_none());
        } else {
            self.metrics.mailed(MailResult::Sent);
        }
        Ok(retry.is_none())
    }

    /// Counts and logs a message that was not sent. The log names it by ids alone.
    fn failed(&self, tenant: &ServedTenant, reason: NotSent, failures: i64, is_given_up: bool) {
        self.metrics.mailed(if is_given_up { MailResult::GivenUp } else { MailResult::Failed });
        let code = tenant.config.client_code.as_str();
        let next = if is_given_up { "it is given up" } else { "retrying" };
        tracing::warn!(
            tenant.code = code,
            reason = reason.as_str(),
            failures,
            "a message to a subscriber was not sent: {next}; check --smtp-url-file and the SMTP server"
        );
        if reason.is_of_the_server() {
            *self.paused_until.lock() = self.clock.elapsed() + PAUSE;
        }
    }
}

/// The message that a recipient has not been sent, if there is one. `news` are in the order of their numbers.
fn message<'a>(recipient: &'a Recipient, news: &'a [News]) -> Option<DueMessage<'a>> {
    if recipient.subscription.confirmed_at_ms.is_none() {
        // Once it was sent, nothing is due until the address is confirmed.
        let was_sent = recipient.due_at_ms > recipient.subscription.created_at_ms + FAR_MS;
        return (!was_sent).then(|| DueMessage { recipient, news: Vec::new() });
    }
    let is_news =
        |news: &&News| recipient.awaits(news.state, news.number) && concerns(recipient, &news.webhook);
    let news: Vec<_> = news.iter().filter(is_news).collect();
    (!news.is_empty()).then_some(DueMessage { recipient, news })
}

/// The messages that one visit sends.
fn of_visit<'a>(messages: &'a [DueMessage<'a>], now_ms: i64) -> Vec<&'a DueMessage<'a>> {
    messages.iter().filter(|message| message.recipient.due_at_ms <= now_ms).take(MOST_OF_VISIT).collect()
}

/// The pause after the last of `failures` in a row, which are at least one. `None`: the message is given up.
fn pause_after(failures: i64) -> Option<Duration> {
    let doubled = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    (failures < MOST_FAILURES).then(|| BACKOFF * 2_u32.saturating_pow(doubled))
}

/// Later than any retry of a message.
const FAR_MS: i64 = 365 * 24 * 3600 * 1000;

#[cfg(test)]
mod tests {
    use docket_domain::notice::WebhookState;

    use super::super::announce::tests::recipient;
    use super::*;

    fn lost(webhook: &str, number: i64) -> News {
        let (state, state_now) = (WebhookState::Lost, WebhookState::Works);
        News { webhook: webhook.into(), state, number, count: 1, failure: None, state_now }
    }

    #[test]
    fn message_has_all_that_its_recipient_may_hear_and_was_not_sent() {
        let news = [lost("a/one/C-1", 3), lost("a/two/C-2", 4), lost("a/three/C-1", 5)];
        let of_customer = || recipient(None, Some("C-1"), true);
        for (recipient, numbers) in [
            (of_customer(), &[3, 5][..]),
            (recipient(None, None, true), &[3, 4, 5]),
            (Recipient { sent_number: 3, ..of_customer() }, &[5]),
            (Recipient { sent_number: 5, ..of_customer() }, &[]),
        ] {
            let message = message(&recipient, &news);
            let its: Vec<i64> =
                message.iter().flat_map(|message| &message.news).map(|news| news.number).collect();
            assert_eq!(its, numbers);
            // The next message begins after it.
            assert_eq!(message.and_then(|message| message.number()), numbers.last().copied());
        }
        let id = |news: &[News]| message(&of_customer(), news).expect("news").id();
        assert!(id(&news) == id(&news) && id(&news) != id(&news[..1]), "each message has its own");
    }

    #[test]
    fn address_is_asked_once_and_hears_nothing_before_it_is_confirmed() {
        let (news, asked) = ([lost("a/one/C-1", 3)], recipient(None, None, false));
        let message_to = |recipient: &Recipient| {
            message(recipient, &news).map(|message| (message.confirms(), message.number()))
        };
        assert_eq!(message_to(&asked), Some((true, None)));
        assert_eq!(message_to(&Recipient { due_at_ms: i64::MAX, ..asked }), None, "it was sent");
    }

    #[test]
    fn visit_sends_twenty_messages_that_are_due() {
        let news = [lost("a/one/C-1", 3)];
        let due = |due_at_ms| Recipient { due_at_ms, ..recipient(None, None, true) };
        let recipients: Vec<_> = (0..30).map(|number| due(100 - number % 2)).collect();
        let messages: Vec<_> = recipients.iter().filter_map(|recipient| message(recipient, &news)).collect();
        assert_eq!([98, 99, 100].map(|now_ms| of_visit(&messages, now_ms).len()), [0, 15, 20]);
    }

    #[test]
    fn strangers_are_asked_less_often_than_subscribers_are_notified() {
        let news = [lost("a/one/C-1", 3)];
        let most = |is_confirmed| {
            let recipient = recipient(None, None, is_confirmed);
            message(&recipient, &news).map(|message| message.most_in_an_hour())
        };
        assert_eq!([most(false), most(true)], [Some((10, 3)), Some((60, 12))]);
    }

    #[test]
    fn pause_doubles_with_each_failure_until_the_tenth_in_a_row() {
        let pauses: Vec<_> = (1..=11).map_while(pause_after).map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 15_360]);
    }
}
