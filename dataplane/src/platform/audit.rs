//! The audit of a tenant: who did what, by codes, ids and times. The right is `list` on `tenants/audit`.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use docket_domain::audit::AuditEvent;
use docket_store::audit::{AuditFilter, search};
use http::request::Parts;
use jiff::Timestamp;

use super::answers::AuditList;
use super::{ObjectName, ObjectPath, Platform, TENANTS};
use crate::http::body::JsonResponse;
use crate::http::error::ApiError;
use crate::http::kinds::{LineText, Whole};
use crate::http::request::{Query, request};
use crate::http::times::DateOrTime;

request! {
    /// Which entries of the audit to list.
    query AuditQuery {
        /// Only entries of this event.
        opt event: LineText<64>;
        /// Only entries about this webhook: its namespace/name.
        opt webhook: LineText<320>;
        /// Only what this actor did and what is about it, such as `employee 52`. An e-mail address is not an actor.
        opt person: LineText<256>;
        /// Only entries at or after this time.
        opt from: DateOrTime;
        /// Only entries before this time.
        opt to: DateOrTime;
        /// At most this many, the newest. The default is 20.
        def limit: Whole<1, 1_000> = 20;
    }
}

/// GET …/tenants/{name}/audit: the newest entries of the tenant's audit.
pub(super) async fn list(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    mut parts: Parts,
) -> Result<JsonResponse<AuditList>, ApiError> {
    let object = ObjectName { subresource: "audit", ..ObjectName::new(TENANTS, object) };
    let principal = platform.principal(&parts, "list", &object).await?;
    let Query(AuditQuery { event, webhook, person, from, to, limit }) =
        Query::from_request_parts(&mut parts, &()).await?;
    let event = event.map(|word| word.parse::<AuditEvent>()).transpose();
    let event = event.map_err(|unknown| ApiError::field("event", &unknown.to_string()))?;
    let [from_ms, to_ms] = [from, to].map(|time| time.map(Timestamp::as_millisecond));
    let filter = AuditFilter { event, webhook, person, from_ms, to_ms, after: None };
    let page = search(&mut principal.reader(&platform.api).await?, &filter, limit).await?;
    principal.searched("audit");
    Ok(JsonResponse(AuditList::new(principal.tenant.config.client_code.as_str(), &page)))
}
