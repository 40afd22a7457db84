//! Forms that pages of a session have sent, and the names and values in a form or a query.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use docket_listener::fair_share::Share;
use docket_portal::sign_in::SignInPage;
use http::request::Parts;

use super::cookies::Cookies;
use super::csrf::{check_origin, is_csrf_of};
use super::kept::KeptForm;
use super::session::{NoViewer, Viewer, name_of, tenant_of, to_sign_in};
use crate::api::state::ApiState;
use crate::http::body::{KEPT_FORM_LIMIT, LIMIT, OfTenant, form_bytes};
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::request::FromFields;
use crate::tenancy::ServedTenant;

/// A form that a page of the viewer's session has sent.
pub struct Posted<F> {
    /// The user.
    pub viewer: Viewer,
    /// The fields. Empty ones count as absent.
    pub form: F,
}

/// What the fields of a form are read into; `csrf` is not among them.
pub trait FromForm: Sized {
    /// Reads the fields that were filled in.
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError>;
}

impl<F: FromFields> FromForm for F {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        F::read(RequestFields::of_pairs(pairs))
    }
}

/// A form without fields of its own.
impl FromForm for () {
    fn from_form(pairs: Vec<(String, String)>) -> Result<(), ApiError> {
        RequestFields::of_pairs(pairs).finish()
    }
}

impl<F: FromForm> FromRequest<Arc<ApiState>> for Posted<F> {
    type Rejection = NoViewer;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, NoViewer> {
        let (mut parts, body) = request.into_parts();
        check_origin(&parts)?;
        let viewer = match Viewer::from_request_parts(&mut parts, state).await {
            Err(NoViewer::SignIn { to, has_ended }) => {
                return Err(without_session(&parts, body, state, to, has_ended).await);
            }
            viewer => viewer?,
        };
        let (pairs, share) = pairs_of_session(&parts, body, &viewer.caller.tenant, state).await?;
        Ok(Self { viewer: viewer.with_body(share), form: F::from_form(pairs)? })
    }
}

/// The answer to a form whose session has ended: the sign-in page with the form, or a redirect to the page without it if the form
/// does not say whose it is, or is too long. `to`: the path of the page that has sent it.
async fn without_session(
    parts: &Parts,
    body: Body,
    state: &ApiState,
    to: String,
    has_ended: bool,
) -> NoViewer {
    let Ok(tenant) = tenant_of(parts, state) else { return NoViewer::SignIn { to, has_ended } };
    let bytes = form_bytes(&parts.headers, body, KEPT_FORM_LIMIT).await;
    let pairs = bytes.and_then(|bytes| pairs_of(&bytes)).unwrap_or_default();
    let Some(kept) = KeptForm::new(parts.uri.path(), pairs).and_then(|form| form.text()) else {
        return NoViewer::SignIn { to, has_ended };
    };
    // The page is longer than other answers to a request without a session.
    OfTenant::record(parts, &tenant);
    let (tenant, kept) = (name_of(&tenant), Some(kept));
    NoViewer::Kept(Box::new(SignInPage { tenant, to, has_ended: true, kept, ..SignInPage::default() }))
}

/// A form without fields of its own that a page of the session has sent, whatever its user may still see.
pub struct PostedByAnyone {
    /// The tenant of the host.
    pub tenant: Arc<ServedTenant>,
    /// The token of the session, which was not verified.
    pub token: String,
}

impl FromRequest<Arc<ApiState>> for PostedByAnyone {
    type Rejection = NoViewer;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, NoViewer> {
        let (parts, body) = request.into_parts();
        check_origin(&parts)?;
        let tenant = tenant_of(&parts, state)?;
        let Some(token) = Cookies::of(&parts)?.token(&parts.headers).map(str::to_owned) else {
            return Err(to_sign_in(&parts, false));
        };
        pairs_of_session(&parts, body, &tenant, state).await?;
        Ok(Self { tenant, token })
    }
}

/// The names and values of a form, without `csrf`, which proves that a page of the session has sent it; and its share of the
/// memory.
async fn pairs_of_session(
    parts: &Parts,
    body: Body,
    tenant: &ServedTenant,
    state: &ApiState,
) -> Result<(Vec<(String, String)>, Option<Share>), ApiError> {
    let arrived = state.bodies.read_form(&tenant.config.uid, &parts.headers, body, LIMIT).await?;
    let (csrf, pairs): (Vec<_>, Vec<_>) =
        pairs_of(&arrived.bytes)?.into_iter().partition(|(name, _)| name == "csrf");
    let token = Cookies::of(parts)?.token(&parts.headers).ok_or(ApiError::Internal)?;
    match csrf.first().is_some_and(|(_, csrf)| is_csrf_of(token, csrf)) {
        true => Ok((pairs, arrived.share)),
        false => Err(ApiError::ForeignForm),
    }
}

/// The names and values of a form, without the fields that were left empty.
pub(super) fn pairs_of(bytes: &[u8]) -> Result<Vec<(String, String)>, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ApiError::BadRequest("The form is not UTF-8"))?;
    Ok(filled_in(text))
}

/// The names and values of a form or a query, without the fields that were left empty: a browser sends an empty text for each.
pub(super) fn filled_in(urlencoded: &str) -> Vec<(String, String)> {
    let pairs = url::form_urlencoded::parse(urlencoded.as_bytes()).into_owned();
    pairs.filter(|(_, value)| !value.is_empty()).collect()
}
