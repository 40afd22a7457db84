//! The link in a message about webhooks. GET shows a page with a button, because programs that check mail open links. POST does it,
//! also from a mail program (RFC 8058), without a session: the message is the proof.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Html;
use docket_crds::webhook_key;
use docket_domain::audit::{AuditEvent, Origin};
use docket_listener::source::RequestSource;
use docket_portal::mail_link::{self, MailLink, Subscribed};
use docket_store::subscriptions::Subscription;
use docket_store::{StoreError, Transaction, audit};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use jiff::Timestamp;

use super::forms::pairs_of;
use super::session::{brand_of, name_of, tenant_of};
use crate::actions::subscriptions;
use crate::api::state::ApiState;
use crate::http::body::{SIGN_IN_LIMIT, form_bytes};
use crate::http::error::ApiError;
use crate::http::origin::origin;
use crate::tenancy::ServedTenant;

type Token = Result<Path<String>, PathRejection>;

const NO_LINK: ApiError =
    ApiError::NotFound("This is no link of a message; open the link as the message has it");

/// GET /portal/mail/{token}.
pub async fn page(
    State(state): State<Arc<ApiState>>,
    token: Token,
    request: Request,
) -> Result<Html<String>, ApiError> {
    let (parts, _) = request.into_parts();
    let (of_link, token) = (OfLink::of(&parts, &state)?, token.map_err(|_| NO_LINK)?.0);
    let found = of_link.subscription(&state, &token).await?;
    let link = match found.as_ref().map(|found| found.confirmed_at_ms) {
        None => MailLink::Nothing,
        Some(None) => MailLink::Confirm,
        Some(Some(_)) => MailLink::Unsubscribe,
    };
    Ok(of_link.shown(&token, link, found))
}

/// POST /portal/mail/{token}: confirms the address or refuses all messages to it, if the form says so. Everything else, such as the one
/// click of a mail program, ends the subscription.
pub async fn act(
    State(state): State<Arc<ApiState>>,
    token: Token,
    request: Request,
) -> Result<Html<String>, ApiError> {
    let (parts, body) = request.into_parts();
    let (of_link, token) = (OfLink::of(&parts, &state)?, token.map_err(|_| NO_LINK)?.0);
    // The page that confirms sends an urlencoded form. A mail program may send another kind of form, which always ends the
    // subscription.
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let mut act = Act::Unsubscribe;
    if kind.starts_with(b"application/x-www-form-urlencoded") {
        let bytes = form_bytes(&parts.headers, body, SIGN_IN_LIMIT).await?;
        act = Act::of(&pairs_of(&bytes)?);
    }
    let found = of_link.subscription(&state, &token).await?;
    let is_done = match found {
        Some(_) => of_link.act(&state, &token, act).await?,
        None => false,
    };
    let link = match (act, is_done) {
        (Act::Confirm, true) => MailLink::Confirmed,
        (Act::Refuse, true) => MailLink::Refused,
        (Act::Confirm | Act::Refuse, false) => MailLink::Nothing,
        // A second click finds the subscription ended, as its user wants it.
        (Act::Unsubscribe, _) => MailLink::Unsubscribed,
    };
    Ok(of_link.shown(&token, link, found))
}

/// What a form of the page, or a click of a mail program, does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Confirm,
    Refuse,
    Unsubscribe,
}

impl Act {
    fn of(pairs: &[(String, String)]) -> Self {
        let action = pairs.iter().find(|(name, _)| name == "action").map(|(_, value)| value.as_str());
        match action {
            Some("confirm") => Self::Confirm,
            Some("refuse") => Self::Refuse,
            _ => Self::Unsubscribe,
        }
    }

    const fn event(self) -> AuditEvent {
        match self {
            Self::Confirm => AuditEvent::SubscriptionConfirmed,
            Self::Refuse | Self::Unsubscribe => AuditEvent::SubscriptionEnded,
        }
    }
}

/// A request with a link: its tenant and where it came from. Anyone may send one.
struct OfLink {
    tenant: Arc<ServedTenant>,
    source: RequestSource,
    origin: Origin,
}

impl OfLink {
    fn of(parts: &Parts, state: &ApiState) -> Result<Self, ApiError> {
        let tenant = tenant_of(parts, state)?;
        let (source, origin) = origin(parts, &state.proxies)?;
        Ok(Self { tenant, source: source.subscriber(), origin })
    }

    /// The subscription that the link is about. Call it when the whole request has arrived: a slow request must not hold one of the few
    /// turns. A text that is no token takes none.
    async fn subscription(&self, state: &ApiState, token: &str) -> Result<Option<Subscription>, ApiError> {
        if subscriptions::token_digest(token).is_none() {
            return Ok(None);
        }
        let _turn = state.mail_links.take(self.source, 1).await?;
        let mut reader = self.tenant.store.reader(&state.clock).await?;
        Ok(subscriptions::by_token(&mut reader, token, state.clock.now()).await?)
    }

    /// Changes what the form says, in a transaction, and records it. Returns whether something changed.
    async fn act(&self, state: &ApiState, token: &str, act: Act) -> Result<bool, ApiError> {
        let mut transaction = self.tenant.store.begin(&state.clock).await?;
        let now = transaction.now();
        let ids = done(&mut transaction, token, act, now).await?;
        let entry =
            |id: &String| state.audit.entry(act.event()).about("subscription", id).at(self.origin.clone());
        let entries: Vec<_> = ids.iter().map(entry).collect();
        audit::insert(&mut transaction, &entries).await?;
        transaction.commit().await?;
        entries.iter().for_each(|entry| state.audit.stored(&self.tenant, entry));
        Ok(!entries.is_empty())
    }

    fn shown(&self, token: &str, link: MailLink, found: Option<Subscription>) -> Html<String> {
        let subscribed =
            found.filter(|_| link != MailLink::Nothing).map(|Subscription { email, webhook, .. }| {
                Subscribed { address: email, webhook: webhook.map(|key| self.webhook_name(&key)) }
            });
        let (name, brand) = (name_of(&self.tenant), brand_of(&self.tenant));
        Html(mail_link::page(&name, &brand, token, link, subscribed.as_ref()))
    }

    /// The name for people of the webhook with this key. A webhook that is not served has no other name than `namespace/name`.
    fn webhook_name(&self, key: &str) -> String {
        let name = self.tenant.webhook(key).and_then(|webhook| webhook.display_name.as_deref());
        name.unwrap_or_else(|| webhook_key::full_name(key).unwrap_or(key)).to_owned()
    }
}

/// Changes what the form says. Returns the ids of the subscriptions that it confirmed or ended.
async fn done(
    transaction: &mut Transaction,
    token: &str,
    act: Act,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    let changed = match act {
        Act::Confirm => subscriptions::confirm(transaction, token, now).await?,
        Act::Unsubscribe => subscriptions::unsubscribe_by_token(transaction, token, now).await?,
        Act::Refuse => return subscriptions::refuse_address(transaction, token, now).await,
    };
    Ok(changed.map(|changed| changed.id).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_button_confirms_or_refuses_and_all_else_ends_the_subscription() {
        let of = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Act::of(&pairs.iter().map(pair).collect::<Vec<_>>())
        };
        assert_eq!(of(&[("action", "confirm")]), Act::Confirm);
        assert_eq!(of(&[("action", "refuse")]), Act::Refuse);
        for other in [
            &[("List-Unsubscribe", "One-Click")][..],
            &[],
            &[("action", "unsubscribe")],
            &[("action", "Confirm")],
            &[("x", "confirm")],
        ] {
            assert_eq!(of(other), Act::Unsubscribe, "{other:?}");
        }
        let events = [Act::Confirm, Act::Refuse, Act::Unsubscribe].map(Act::event);
        let ended = AuditEvent::SubscriptionEnded;
        assert_eq!(events, [AuditEvent::SubscriptionConfirmed, ended, ended]);
    }
}
