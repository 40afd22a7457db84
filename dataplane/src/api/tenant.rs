//! The tenant of a request (Authentication, rules 1-3 and 8).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;

use super::state::ApiState;
use crate::http::body::OfTenant;
use crate::http::error::ApiError;
use crate::http::host::{HostKind, host};
use crate::tenancy::ServedTenant;

/// How a request identifies its tenant.
pub enum Addressed {
    /// The API key or the subdomain named this tenant, on the v2 API.
    Tenant(Arc<ServedTenant>),
    /// On the legacy host, the `clientCode` in the body or the session's token will name the tenant.
    Legacy,
}

/// The proof that a request on the v2 API is for this tenant. Requests to the legacy host are refused.
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

/// Reads the API key, under one of its two names or under both. Refuses a key that is sent twice under one name, also as the list
/// that a proxy makes of the two, and two keys that differ.
fn api_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut keys = headers.get_all("x-api-key").iter().chain(headers.get_all("apikey"));
    let one_each = ["x-api-key", "apikey"].iter().all(|name| headers.get_all(*name).iter().count() <= 1);
    let Some(first) = keys.next() else { return Ok(None) };
    let first = first.to_str().map_err(|_| ApiError::InvalidApiKey)?;
    // No key has a comma.
    let is_list = first.split(',').filter(|key| !key.trim().is_empty()).nth(1).is_some();
    if !one_each || is_list || keys.any(|other| other.as_bytes() != first.as_bytes()) {
        return Err(ApiError::RepeatedApiKey);
    }
    Ok(Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_that_is_sent_more_than_once_is_refused_as_repeated() {
        let read = |sent: &[(&'static str, &'static str)]| {
            let headers = sent
                .iter()
                .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            match api_key(&headers.collect::<HeaderMap>()) {
                Ok(key) => Ok(key.map(str::to_owned)),
                Err(ApiError::RepeatedApiKey) => Err("repeated"),
                Err(_) => Err("invalid"),
            }
        };
        assert_eq!(read(&[]), Ok(None));
        let key = Ok(Some("ab".to_owned()));
        assert_eq!(read(&[("x-api-key", "ab")]), key);
        assert_eq!(read(&[("x-api-key", "ab"), ("apikey", "ab")]), key);
        for twice in [
            &[("x-api-key", "ab"), ("x-api-key", "ab")][..],
            &[("apikey", "ab"), ("apikey", "cd")],
            &[("x-api-key", "ab"), ("apikey", "cd")],
            &[("x-api-key", "ab, ab")],
            &[("apikey", "ab,ab")],
        ] {
            assert_eq!(read(twice), Err("repeated"), "{twice:?}");
        }
    }
}
