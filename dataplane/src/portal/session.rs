//! Who may see the portal: the user of the session, and the tenant of the host.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Redirect, Response};
use docket_listener::fair_share::Share;
use docket_portal::page::Frame;
use docket_portal::{ROOT, href};
use http::Method;
use http::request::Parts;

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

/// A signed-in user that may see the portal, by the database's last word: an administrator of the tenant, or a contact that
/// manages the webhooks of its customer, which [`Caller`] names. A handler with this argument can't forget the check.
pub struct Viewer {
    /// The user, as the API knows it.
    pub caller: Caller,
    csrf: String,
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
    pub fn frame(&self, state: &ApiState) -> Frame {
        Frame {
            tenant: name_of(&self.caller.tenant),
            user: self.caller.name(),
            csrf: self.csrf.clone(),
            now: state.clock.now(),
            is_of_tenant: self.caller.customer.is_none(),
        }
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

/// Leads to the sign-in page, and from there back to this page; back to the first page if the request is a form.
pub(super) fn to_sign_in(parts: &Parts) -> NoViewer {
    let back = match (&parts.method, parts.uri.path_and_query()) {
        (&Method::GET, Some(path)) => path.as_str(),
        _ => ROOT,
    };
    NoViewer::SignIn(href(&format!("{ROOT}/sign-in"), [("to", back)]))
}

impl FromRequestParts<Arc<ApiState>> for Viewer {
    type Rejection = NoViewer;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, NoViewer> {
        let tenant = tenant_of(parts, state)?;
        let Some(token) = Cookies::of(parts)?.token(&parts.headers) else { return Err(to_sign_in(parts)) };
        let caller = match Caller::of_token(Addressed::Tenant(tenant), token, parts, state).await {
            Err(ApiError::InvalidToken) => return Err(to_sign_in(parts)),
            caller => caller?,
        };
        let csrf = csrf_of(token);
        let WebhookManager(caller) = WebhookManager::of_caller(caller, state).await?;
        Ok(Self { caller, csrf, _body: None })
    }
}
