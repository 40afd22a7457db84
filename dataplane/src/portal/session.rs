//! Who may see the portal: the user of the session, and the tenant of the host.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use docket_crds::{PortalLook, WebhookConfig};
use docket_listener::fair_share::Share;
use docket_portal::brand::Brand;
use docket_portal::page::{Frame, Role, WebhookName};
use docket_portal::{ROOT, href};
use docket_store::health::by_webhook_bounded;
use http::Method;
use http::request::Parts;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::cookies::Cookies;
use super::csrf::csrf_of;
use crate::api::caller::{Caller, WebhookManager};
use crate::api::state::ApiState;
use crate::api::tenant::Addressed;
use crate::http::error::ApiError;
use crate::http::host::{HostKind, host};
use crate::tenancy::ServedTenant;

/// The tenant of a page: by the host alone.
pub(super) fn tenant_of(parts: &Parts, state: &ApiState) -> Result<Arc<ServedTenant>, ApiError> {
    match host(parts)?.map(|host| state.hosts.kind(&host)) {
        Some(HostKind::Subdomain(label)) => {
            state.tenants.by_subdomain(&label).ok_or(ApiError::TenantNotFound)
        }
        Some(HostKind::Legacy) => Err(ApiError::NoSuchRoute),
        Some(HostKind::Base) | None => Err(ApiError::NotFound(
            "This address names no tenant; open /portal at the tenant's own subdomain, such as acme.localhost for docket dev on localhost",
        )),
    }
}

/// A tenant's name for people.
pub(super) fn name_of(tenant: &ServedTenant) -> String {
    let config = &tenant.config;
    config.display_name.clone().unwrap_or_else(|| config.client_code.as_str().to_owned())
}

/// What pages of a tenant have of its own.
pub(super) fn brand_of(tenant: &ServedTenant) -> Brand {
    let PortalLook { color, logo } = &tenant.config.portal;
    Brand { color: color.as_deref().map(version), logo: logo.as_deref().map(version) }
}

/// The version of a colour or a logo: it changes with the text.
pub(super) fn version(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

/// A signed-in user that may see the portal, by the database's last word: an administrator of the tenant, or a contact that
/// manages the webhooks of its customer, which [`Caller`] names. A handler with this argument can't forget the check.
pub struct Viewer {
    /// The user, as the API knows it.
    pub caller: Caller,
    frame: Frame,
    /// Of the form that the user has sent.
    _body: Option<Share>,
}

impl Viewer {
    /// The same user, whose form has this share of the memory.
    #[must_use]
    pub(super) fn with_body(self, share: Option<Share>) -> Self {
        Self { _body: share, ..self }
    }

    /// What is around the user's pages.
    pub const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Refuses a page that concerns the whole tenant to a contact, which manages its customer's webhooks.
    pub fn must_be_administrator(&self) -> Result<(), ApiError> {
        match self.caller.customer {
            None => Ok(()),
            Some(_) => Err(ApiError::NotAdministrator),
        }
    }
}

/// Why there is no viewer.
pub enum NoViewer {
    /// The user has to sign in, to come back here.
    SignIn(String),
    /// Another reason.
    Api(ApiError),
}

impl From<ApiError> for NoViewer {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl IntoResponse for NoViewer {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(to) => Redirect::to(&to).into_response(),
            Self::Api(error) => error.into_response(),
        }
    }
}

/// The parameter of the sign-in page that says that a session has ended.
pub(super) const ENDED: &str = "ended";

/// Leads to the sign-in page, and from there back to this page; back to the first page if the request is a form.
/// `has_ended`: there was a session.
pub(super) fn to_sign_in(parts: &Parts, has_ended: bool) -> NoViewer {
    let back = match (&parts.method, parts.uri.path_and_query()) {
        (&Method::GET, Some(path)) => path.as_str(),
        _ => ROOT,
    };
    let ended = if has_ended { "yes" } else { "" };
    NoViewer::SignIn(href(&format!("{ROOT}/sign-in"), [("to", back), (ENDED, ended)]))
}

impl FromRequestParts<Arc<ApiState>> for Viewer {
    type Rejection = NoViewer;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, NoViewer> {
        let tenant = tenant_of(parts, state)?;
        let Some(token) = Cookies::of(parts)?.token(&parts.headers) else {
            return Err(to_sign_in(parts, false));
        };
        let caller = match Caller::of_token(Addressed::Tenant(tenant), token, parts, state).await {
            Err(ApiError::InvalidToken) => return Err(to_sign_in(parts, true)),
            caller => caller?,
        };
        let (tenant, brand) = (name_of(&caller.tenant), brand_of(&caller.tenant));
        let (user, csrf, now) = (caller.name(), csrf_of(token), state.clock.now());
        let mut frame =
            Frame { tenant, brand, user, role: Role::None, csrf, now, attention: 0, webhooks: Vec::new() };
        // Before the first check that may refuse the user, who then sees the reason and how to sign out.
        let seen = parts.extensions.get::<Seen>().cloned().unwrap_or_default();
        seen.set(&frame);
        let WebhookManager { caller, name, customer_name } = WebhookManager::of_caller(caller, state).await?;
        frame.user = name;
        frame.role = customer_name.map_or(Role::Administrator, Role::Contact);
        frame.webhooks = names(&caller);
        // The answer to a form is seldom a page.
        if parts.method == Method::GET {
            frame.attention = attention(&caller, state).await?;
        }
        seen.set(&frame);
        Ok(Self { caller, frame, _body: None })
    }
}

/// The names of the served webhooks, in their order for people.
fn names(caller: &Caller) -> Vec<WebhookName> {
    let name = |webhook: &WebhookConfig| {
        let full_name = webhook.full_name();
        let name = webhook.display_name.clone().filter(|name| !name.trim().is_empty());
        WebhookName { name: name.unwrap_or_else(|| full_name.clone()), full_name }
    };
    let mut names: Vec<WebhookName> = caller.webhooks().served().map(name).collect();
    names.sort_by_cached_key(|webhook| (webhook.name.to_lowercase(), webhook.full_name.clone()));
    names
}

/// The number of served webhooks that lose deliveries or whose attempts fail.
async fn attention(caller: &Caller, state: &ApiState) -> Result<usize, ApiError> {
    let found = by_webhook_bounded(&mut caller.reader(state).await?).await?;
    let health = caller.webhooks().health(found);
    let served = caller.webhooks().served().filter_map(|webhook| health.get(&webhook.uid));
    Ok(served.filter(|health| health.dead_letter > 0 || health.retrying > 0).count())
}

/// What is around the page of a request, as far as its user is known: the page of an error has it too.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Option<Frame>>>);

impl Seen {
    fn set(&self, frame: &Frame) {
        *self.0.lock() = Some(frame.clone());
    }
}

/// Runs a request, and hands what is around its page to the page of its error.
pub(super) async fn framed(mut request: Request, next: Next) -> Response {
    let seen = Seen::default();
    request.extensions_mut().insert(seen.clone());
    let mut response = next.run(request).await;
    if let Some(frame) = seen.0.lock().take() {
        response.extensions_mut().insert(frame);
    }
    response
}
