//! The tenant of a request (Authentication, rules 1-3 and 8).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;

use super::body::OfTenant;
use super::error::ApiError;
use super::host::{HostKind, host};
use super::state::ApiState;
use crate::tenants::ServedTenant;

/// How a request identifies its tenant.
pub enum Addressed {
    /// On the v2 API: by the API key or the subdomain.
    Tenant(Arc<ServedTenant>),
    /// On the legacy host: by the `clientCode` in the body or the session's token.
    Legacy,
}

/// The proof that a request on the v2 API is for this tenant. A request to the legacy host is refused.
pub struct AtTenant(pub Arc<ServedTenant>);

impl FromRequestParts<Arc<ApiState>> for Addressed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        let kind = host(parts)?.map_or(HostKind::Base, |host| state.hosts.kind(&host));
        let by_host = match &kind {
            HostKind::Legacy => return Ok(Self::Legacy),
            HostKind::Subdomain(label) => state.tenants.by_subdomain(label),
            HostKind::Base => None,
        };
        let by_key = match api_key(&parts.headers)? {
            Some(key) => Some(state.tenants.by_key(key).ok_or(ApiError::InvalidApiKey)?),
            None => None,
        };
        let tenant = match (by_key, by_host, kind) {
            (Some((tenant, _)), Some(host), _) if tenant.config.uid != host.config.uid => {
                return Err(ApiError::InvalidApiKey);
            }
            (Some((tenant, key)), _, _) => {
                state.key_uses.note(key, &tenant);
                tenant
            }
            (None, Some(tenant), _) => tenant,
            (None, None, HostKind::Subdomain(_)) => return Err(ApiError::TenantNotFound),
            (None, None, HostKind::Base | HostKind::Legacy) => return Err(ApiError::InvalidApiKey),
        };
        OfTenant::record(parts, &tenant);
        Ok(Self::Tenant(tenant))
    }
}

impl FromRequestParts<Arc<ApiState>> for AtTenant {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        match Addressed::from_request_parts(parts, state).await? {
            Addressed::Tenant(tenant) => Ok(Self(tenant)),
            Addressed::Legacy => Err(ApiError::NoSuchRoute),
        }
    }
}

/// The API key, under either of its names. A repeated header, or two that differ, is refused.
fn api_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut keys = headers.get_all("x-api-key").iter().chain(headers.get_all("apikey"));
    let one_each = ["x-api-key", "apikey"].iter().all(|name| headers.get_all(*name).iter().count() <= 1);
    let Some(first) = keys.next() else { return Ok(None) };
    let first = first.to_str().map_err(|_| ApiError::InvalidApiKey)?;
    if !one_each || keys.any(|other| other.as_bytes() != first.as_bytes()) {
        return Err(ApiError::InvalidApiKey);
    }
    Ok(Some(first))
}
