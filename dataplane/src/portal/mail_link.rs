//! The link in a message about webhooks. GET shows a page with a button, because programs that check mail open links. POST does it,
//! also from a mail program (RFC 8058), without a session: the message is the proof.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Html;
use docket_domain::audit::{AuditEvent, Origin};
use docket_listener::source::RequestSource;
use docket_portal::mail_link::{self, MailLink};
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
    let link = match found.map(|found| found.confirmed_at_ms) {
        None => MailLink::Nothing,
        Some(None) => MailLink::Confirm,
        Some(Some(_)) => MailLink::Unsubscribe,
    };
    Ok(of_link.shown(&token, link))
}

/// POST /portal/mail/{token}: confirms the address if the form says so. Everything else, such as the one click of a mail program, ends
/// the subscription.
pub async fn act(
    State(state): State<Arc<ApiState>>,
    token: Token,
    request: Request,
) -> Result<Html<String>, ApiError> {
    let (parts, body) = request.into_parts();
    let (of_link, token) = (OfLink::of(&parts, &state)?, token.map_err(|_| NO_LINK)?.0);
    // A mail program may send another kind of form, which is never the button that confirms.
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let confirms = kind.starts_with(b"application/x-www-form-urlencoded") && {
        let bytes = form_bytes(&parts.headers, body, SIGN_IN_LIMIT).await?;
        pairs_of(&bytes)?.iter().any(|(name, value)| name == "action" && value == "confirm")
    };
    let is_done = match of_link.subscription(&state, &token).await? {
        Some(_) => of_link.act(&state, &token, confirms).await?,
        None => false,
    };
    let link = match (is_done, confirms) {
        (true, true) => MailLink::Confirmed,
        // A second click finds the subscription ended, as its user wants it.
        (_, false) => MailLink::Unsubscribed,
        (false, true) => MailLink::Nothing,
    };
    Ok(of_link.shown(&token, link))
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

    /// Confirms or ends the subscription, in a transaction, and records it. Returns whether that changed something.
    async fn act(&self, state: &ApiState, token: &str, confirms: bool) -> Result<bool, ApiError> {
        let mut transaction = self.tenant.store.begin(&state.clock).await?;
        let now = transaction.now();
        let is_done = done(&mut transaction, token, confirms, now).await?;
        let event = if confirms { AuditEvent::SubscriptionConfirmed } else { AuditEvent::SubscriptionEnded };
        let entry =
            is_done.map(|id| state.audit.entry(event).about("subscription", &id).at(self.origin.clone()));
        audit::insert(&mut transaction, entry.as_slice()).await?;
        transaction.commit().await?;
        if let Some(entry) = &entry {
            state.audit.stored(&self.tenant, entry);
        }
        Ok(entry.is_some())
    }

    fn shown(&self, token: &str, link: MailLink) -> Html<String> {
        Html(mail_link::page(&name_of(&self.tenant), &brand_of(&self.tenant), token, link))
    }
}

/// Confirms or ends the subscription. Returns its id if that changed something.
async fn done(
    transaction: &mut Transaction,
    token: &str,
    confirms: bool,
    now: Timestamp,
) -> Result<Option<String>, StoreError> {
    let changed = match confirms {
        true => subscriptions::confirm(transaction, token, now).await?,
        false => subscriptions::unsubscribe_by_token(transaction, token, now).await?,
    };
    Ok(changed.map(|changed| changed.id))
}
