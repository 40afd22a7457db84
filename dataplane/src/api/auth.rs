//! POST /Auth/Token, /Session/Create and /Employee/SignIn.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use docket_domain::token::Subject;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::{SIGN_IN_LIMIT, json_bytes};
use super::error::{ApiError, ProblemBody};
use super::kinds::{Line, Password};
use super::request::{Body, request};
use super::tenant::{Addressed, AtTenant};
use crate::actions::sign_in::{Credentials, Issued};
use crate::app::App;
use crate::tenants::Tenant;

request! {
    /// The body of the token endpoints.
    body SessionTokenRequest {
        /// Short tenant code. Optional beside X-Api-Key; if sent it must be the tenant's.
        // Longer than any code: a hexadecimal key sent by mistake gets its own message.
        opt client_code: Line<256>, example "ACME";
        /// A contact's e-mail address; at /Employee/SignIn an employee's check-in name.
        // The longest e-mail address.
        req user_id: Line<320>, example "ada@quillfeather.example";
        /// The password. The example is that of the sample users of `docket dev`.
        req password: Password, example "docket-sample-1";
    }
}

/// The answer of POST /Auth/Token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "holds a token")]
pub struct TokenResponse {
    /// A JWT, for `Authorization: Bearer {token}`.
    token: String,
    /// Always `Bearer`.
    #[schema(example = "Bearer")]
    token_type: &'static str,
    /// Lifetime of the token in minutes. Always sent, though the contract leaves it optional.
    #[schema(example = 60, required = false)]
    expires_in_minutes: u32,
    /// Code of the customer the contact belongs to.
    #[schema(example = "C-1001")]
    customer_code: String,
    /// Code of the contact.
    #[schema(example = "1001")]
    contact_code: String,
    /// Display name of the contact.
    #[schema(example = "Ada Quillfeather")]
    contact: String,
}

/// The answer of POST /Session/Create.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "holds a token")]
pub struct SessionResponse {
    /// The JWT, under the name that the older session shape gave it.
    session_guid: String,
    /// Lifetime of the token in minutes.
    #[schema(example = 60)]
    expires_in_minutes: u32,
    /// Code of the customer the contact belongs to.
    #[schema(example = "C-1001")]
    customer_code: String,
    /// Code of the contact.
    #[schema(example = "1001")]
    contact_code: String,
    /// Display name of the contact.
    #[schema(example = "Ada Quillfeather")]
    contact: String,
}

/// The answer of POST /Employee/SignIn.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "holds a token")]
pub struct EmployeeTokenResponse {
    /// A JWT, for `Authorization: Bearer {token}`.
    token: String,
    /// Always `Bearer`.
    #[schema(example = "Bearer")]
    token_type: &'static str,
    /// Lifetime of the token in minutes.
    #[schema(example = 60)]
    expires_in_minutes: u32,
    /// Code of the employee.
    #[schema(example = "101")]
    employee_code: String,
    /// Display name of the employee.
    #[schema(example = "Mo Ito")]
    employee: String,
}

/// Issues a token to a contact.
#[utoipa::path(post, path = "/Auth/Token", operation_id = "Auth.CreateToken", tag = "Auth",
    security(("ApiKey" = [])), request_body = SessionTokenRequest,
    responses((status = 200, body = TokenResponse, description = "The token"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json",
               description = "No such contact with this password, another tenant's clientCode, or no such tenant")))]
pub async fn create_token(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<TokenResponse>, ApiError> {
    let (issued, contact) = contact(&app, request).await?;
    let Issued { token, expires_in_minutes, name, .. } = issued;
    let (contact_code, customer_code) = contact;
    Ok(Json(TokenResponse {
        token,
        token_type: "Bearer",
        expires_in_minutes,
        customer_code,
        contact_code,
        contact: name,
    }))
}

/// Issues a token to a contact in the older session shape; new integrations use POST /Auth/Token.
#[utoipa::path(post, path = "/Session/Create", operation_id = "Session.Create", tags = ["Auth", "Legacy host"],
    security(("ApiKey" = [])), request_body = SessionTokenRequest,
    responses((status = 200, body = SessionResponse, description = "The session"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json",
               description = "No such contact with this password, another tenant's clientCode, or no such tenant")))]
pub async fn create_session(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<SessionResponse>, ApiError> {
    let (issued, contact) = contact(&app, request).await?;
    let Issued { token, expires_in_minutes, name, .. } = issued;
    let (contact_code, customer_code) = contact;
    Ok(Json(SessionResponse {
        session_guid: token,
        expires_in_minutes,
        customer_code,
        contact_code,
        contact: name,
    }))
}

/// Issues a token to an employee, by the check-in credentials of the back office.
#[utoipa::path(post, path = "/Employee/SignIn", operation_id = "Employee.SignIn", tag = "Auth",
    security(("ApiKey" = [])), request_body(content = SessionTokenRequest, example = json!({"userId": "mo.ito", "password": "docket-sample-1"})),
    responses((status = 200, body = EmployeeTokenResponse, description = "The token"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json",
               description = "No such employee with this password, another tenant's clientCode, or no such tenant")))]
pub async fn employee_sign_in(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<EmployeeTokenResponse>, ApiError> {
    let (mut parts, body) = request.into_parts();
    let AtTenant(tenant) = AtTenant::from_request_parts(&mut parts, &app).await?;
    let credentials = credentials(Request::from_parts(parts, body)).await?;
    let user_id = credentials.user_id.clone();
    let issued = app.sign_in().employee(&tenant, credentials).await;
    let Issued { token, expires_in_minutes, subject, name } =
        issued.map_err(|error| ApiError::from_sign_in(error, user_id))?;
    let Subject::Employee { employee_code, .. } = subject else { return Err(ApiError::Internal) };
    Ok(Json(EmployeeTokenResponse {
        token,
        token_type: "Bearer",
        expires_in_minutes,
        employee_code,
        employee: name,
    }))
}

/// Signs a contact in; answers the token, and the codes of the contact and of its customer.
async fn contact(app: &Arc<App>, request: Request) -> Result<(Issued, (String, String)), ApiError> {
    let (mut parts, body) = request.into_parts();
    let addressed = Addressed::from_request_parts(&mut parts, app).await?;
    let credentials = credentials(Request::from_parts(parts, body)).await?;
    let user_id = credentials.user_id.clone();
    let tenant = match addressed {
        Addressed::Tenant(tenant) => Some(tenant),
        Addressed::Legacy => legacy_tenant(app, &credentials)?,
    };
    let Some(tenant) = tenant else {
        return Err(ApiError::from_sign_in(app.sign_in().nobody(credentials).await, user_id));
    };
    let issued = app.sign_in().contact(&tenant, credentials).await;
    let issued = issued.map_err(|error| ApiError::from_sign_in(error, user_id))?;
    match &issued.subject {
        Subject::Contact { contact_code, customer_code } => {
            let codes = (contact_code.clone(), customer_code.clone());
            Ok((issued, codes))
        }
        Subject::Employee { .. } => Err(ApiError::Internal),
    }
}

/// On the legacy host the client code resolves the tenant, and the hexadecimal key must not be used as one.
fn legacy_tenant(app: &App, credentials: &Credentials) -> Result<Option<Arc<Tenant>>, ApiError> {
    let Some(code) = &credentials.client_code else {
        return Err(ApiError::field("clientCode", "required on this host"));
    };
    if docket_crds::ApiKeyDigest::of(code).is_ok() {
        return Err(ApiError::ApiAccessOff(code.clone()));
    }
    Ok(app.tenants.by_client_code(code))
}

async fn credentials(request: Request) -> Result<Credentials, ApiError> {
    let source = source(&request);
    let body = json_bytes(request, SIGN_IN_LIMIT).await?;
    let SessionTokenRequest { client_code, user_id, password } = SessionTokenRequest::of_body(&body)?;
    Ok(Credentials { client_code, user_id, password, source })
}

/// The address of the other end. Forwarded headers count only from configured proxies, of which there are none yet.
fn source(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::from([0, 0, 0, 0]), |ConnectInfo(address)| address.ip().to_canonical())
}
