//! The contacts and employees of a tenant: names, e-mail addresses and check-in names are personal data. So the right is `list` on
//! `tenants/people`, which no role of the chart has, and the audit records each read.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use docket_domain::audit::AuditEvent;
use docket_store::{contacts, employees};
use http::request::Parts;

use super::answers::{ContactList, EmployeeList};
use super::{ObjectName, ObjectPath, Platform, TENANTS};
use crate::api::caller::Principal;
use crate::http::body::JsonResponse;
use crate::http::error::ApiError;
use crate::http::kinds::{CustomerCodeText, Whole};
use crate::http::request::{Query, request};

request! {
    /// Which contacts to list.
    query ContactQuery {
        /// Only contacts of this customer.
        opt customer_code: CustomerCodeText;
        /// At most this many. The default is 100.
        def limit: Whole<1, 1_000> = 100;
    }
}

request! {
    /// Which employees to list.
    query EmployeeQuery {
        /// At most this many. The default is 100.
        def limit: Whole<1, 1_000> = 100;
    }
}

/// GET …/tenants/{name}/contacts: the contacts by e-mail address.
pub(super) async fn contacts(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    mut parts: Parts,
) -> Result<JsonResponse<ContactList>, ApiError> {
    let principal = allowed(&platform, object, &parts).await?;
    let Query(ContactQuery { customer_code, limit }) = Query::from_request_parts(&mut parts, &()).await?;
    let mut reader = principal.reader(&platform.api).await?;
    let found = contacts::list(&mut reader, customer_code.as_deref(), None, limit + 1).await?;
    record(&platform, &principal, "contacts");
    Ok(JsonResponse(ContactList::new(found, limit)))
}

/// GET …/tenants/{name}/employees: the employees by check-in name.
pub(super) async fn employees(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    mut parts: Parts,
) -> Result<JsonResponse<EmployeeList>, ApiError> {
    let principal = allowed(&platform, object, &parts).await?;
    let Query(EmployeeQuery { limit }) = Query::from_request_parts(&mut parts, &()).await?;
    let mut reader = principal.reader(&platform.api).await?;
    let found = employees::list(&mut reader, None, limit + 1).await?;
    record(&platform, &principal, "employees");
    Ok(JsonResponse(EmployeeList::new(found, limit)))
}

/// Returns the user, if it may see the people of the tenant.
async fn allowed(
    platform: &Platform,
    object: (String, String),
    parts: &Parts,
) -> Result<Principal, ApiError> {
    let object = ObjectName { subresource: "people", ..ObjectName::new(TENANTS, object) };
    platform.principal(parts, "list", &object).await
}

/// Records in the audit that the user read a list of people, once in five minutes.
fn record(platform: &Platform, principal: &Principal, who: &'static str) {
    let entry = principal.entry(&platform.api, AuditEvent::PeopleRead).about("people", who);
    platform.api.audit.record_read(&principal.tenant, entry);
    principal.searched(who);
}
