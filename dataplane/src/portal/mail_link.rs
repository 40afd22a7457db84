//! The link in a message about webhooks. GET shows a page with a button, because programs that check mail open links. POST does it,
//! also from a mail program (RFC 8058), without a session: the message is the proof.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Html;
use docket_domain::audit::{AuditEvent, Origin};
use docket_listener::fair_share::Share;
use docket_portal::mail_link::{self, MailLink};
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

/// A request with a link: its tenant, its origin, and its turn. Anyone may send one, and each reads a database.
pub struct OfLink {
    tenant: Arc<ServedTenant>,
    origin: Origin,
    _turn: Share,
}

impl OfLink {
    async fn of(parts: &Parts, state: &ApiState) -> Result<Self, ApiError> {
        let tenant = tenant_of(parts, state)?;
        let (source, origin) = origin(parts, &state.proxies)?;
        Ok(Self { tenant, origin, _turn: state.mail_links.take(source.subscriber(), 1).await? })
    }
}

/// GET /portal/mail/{token}.
pub async fn page(
    State(state): State<Arc<ApiState>>,
    token: Token,
    request: Request,
) -> Result<Html<String>, ApiError> {
    let (parts, _) = request.into_parts();
    let of_link = OfLink::of(&parts, &state).await?;
    let (tenant, Path(token)) = (&of_link.tenant, token.map_err(|_| NO_LINK)?);
    if subscriptions::token_digest(&token).is_none() {
        return Ok(shown(tenant, &token, MailLink::Nothing));
    }
    let mut reader = tenant.store.reader(&state.clock).await?;
    let found = subscriptions::by_token(&mut reader, &token, state.clock.now()).await?;
    let link = match found.map(|found| found.confirmed_at_ms) {
        None => MailLink::Nothing,
        Some(None) => MailLink::Confirm,
        Some(Some(_)) => MailLink::Unsubscribe,
    };
    Ok(shown(tenant, &token, link))
}

/// POST /portal/mail/{token}: confirms the address if the form says so. Everything else, such as the one click of a mail program, ends
/// the subscription.
pub async fn act(
    State(state): State<Arc<ApiState>>,
    token: Token,
    request: Request,
) -> Result<Html<String>, ApiError> {
    let (parts, body) = request.into_parts();
    let of_link = OfLink::of(&parts, &state).await?;
    let Path(token) = token.map_err(|_| NO_LINK)?;
    // A mail program may send another kind of form, which is never the button that confirms.
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let confirms = kind.starts_with(b"application/x-www-form-urlencoded") && {
        let bytes = form_bytes(&parts.headers, body, SIGN_IN_LIMIT).await?;
        pairs_of(&bytes)?.iter().any(|(name, value)| name == "action" && value == "confirm")
    };
    if subscriptions::token_digest(&token).is_none() {
        return Ok(shown(&of_link.tenant, &token, MailLink::Nothing));
    }
    let mut transaction = of_link.tenant.store.begin(&state.clock).await?;
    let now = transaction.now();
    let is_done = done(&mut transaction, &token, confirms, now).await?;
    let event = if confirms { AuditEvent::SubscriptionConfirmed } else { AuditEvent::SubscriptionEnded };
    let entry =
        is_done.map(|id| state.audit.entry(event).about("subscription", &id).at(of_link.origin.clone()));
    audit::insert(&mut transaction, entry.as_slice()).await?;
    transaction.commit().await?;
    if let Some(entry) = &entry {
        state.audit.stored(&of_link.tenant, entry);
    }
    let link = match (entry.is_some(), confirms) {
        (true, true) => MailLink::Confirmed,
        // A second click finds the subscription ended, as its user wants it.
        (_, false) => MailLink::Unsubscribed,
        (false, true) => MailLink::Nothing,
    };
    Ok(shown(&of_link.tenant, &token, link))
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

fn shown(tenant: &ServedTenant, token: &str, link: MailLink) -> Html<String> {
    Html(mail_link::page(&name_of(tenant), &brand_of(tenant), token, link))
}
