//! Where a request came from: for the limits of sign-ins, and for the audit.

use docket_domain::audit::Origin;
use docket_listener::client::{Peer, Proxies};
use docket_listener::source::RequestSource;
use http::request::Parts;

use super::error::ApiError;

/// The id that the middleware gives a request.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Returns the source of a request behind these proxies, and what the audit records of it.
pub fn origin(parts: &Parts, proxies: &Proxies) -> Result<(RequestSource, Origin), ApiError> {
    let peer = *parts.extensions.get::<Peer>().ok_or(ApiError::Internal)?;
    let source = proxies.source(peer, &parts.headers);
    let address = match source {
        RequestSource::Client(address) => Some(address),
        RequestSource::Proxy => None,
    };
    let request_id = parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone());
    Ok((source, Origin { address, request_id }))
}
