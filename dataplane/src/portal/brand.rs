//! The tenant's colour and logo. Anyone may see them, as on the sign-in page.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawQuery};
use axum::response::{IntoResponse, Response};
use docket_crds::look::{Color, Logo};
use docket_portal::brand;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;

use super::session::{tenant_of, version};
use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::tenancy::ServedTenant;

const NO_COLOR: ApiError = ApiError::NotFound("The tenant has no colour of its own");
const NO_LOGO: ApiError = ApiError::NotFound("The tenant has no logo");

/// The tenant of the host.
pub struct AtHost(pub(super) Arc<ServedTenant>);

impl FromRequestParts<Arc<ApiState>> for AtHost {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        tenant_of(parts, state).map(Self)
    }
}

/// GET /portal/brand.css.
pub async fn stylesheet(AtHost(tenant): AtHost, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let text = tenant.config.portal.color.as_deref().ok_or(NO_COLOR)?;
    // An operator of another version may write what this version does not know.
    let color = text.parse::<Color>().map_err(|_| NO_COLOR)?;
    Ok(asset("text/css; charset=utf-8", brand::stylesheet(color).into_bytes(), text, query))
}

/// GET /portal/logo.
pub async fn logo(AtHost(tenant): AtHost, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let text = tenant.config.portal.logo.as_deref().ok_or(NO_LOGO)?;
    let logo = Logo::of_base64(text).ok_or(NO_LOGO)?;
    Ok(asset(logo.format.content_type(), logo.bytes, text, query))
}

/// What browsers keep for a year if they ask for this version.
fn asset(kind: &'static str, bytes: Vec<u8>, text: &str, query: Option<String>) -> Response {
    let is_this = query.is_some_and(|query| query.strip_prefix("v=") == Some(version(text).as_str()));
    let cache = if is_this { "public, max-age=31536000, immutable" } else { "no-cache" };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, cache)], bytes).into_response()
}
