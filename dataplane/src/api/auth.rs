//! POST /Auth/Token, /Session/Create and /Employee/SignIn.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request, State};
use docket_domain::audit::{Actor, AuditEvent, Origin};
use docket_domain::token::TokenSubject;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Schema};

use super::state::ApiState;
use super::tenant::{Addressed, AtTenant};
use crate::actions::sign_in::{Credentials, Issued};
use crate::http::body::{JsonResponse, SIGN_IN_LIMIT, json_bytes};
use crate::http::error::{ApiError, ProblemBody};
use crate::http::fields::RequestFields;
use crate::http::kinds::{ClientCodeText, LineText, Password};
use crate::http::origin::origin;
use crate::http::request::{FromFields, object, request};
use crate::refusal::SignInError;
use crate::tenancy::ServedTenant;

request! {
    /// The body of the token endpoints.
    body SessionTokenRequest {
        /// The tenant's client code. Only the legacy host requires it. If you send it elsewhere, it must be the code of the
        /// tenant that the API key or the host selects.
        opt client_code: ClientCodeText, example "ACME";
        /// A contact's e-mail address; for /Employee/SignIn an employee's check-in name.
        // The longest e-mail address.
        req user_id: LineText<320>, example "ada@quillfeather.example";
        /// The password. The example is the password of `docket dev`'s sample users.
        req password: Password, example "docket-sample-1";
    }
}

/// The body of POST /Session/Create, whose other fields are ignored.
pub struct SessionRequest;

impl utoipa::PartialSchema for SessionRequest {
    fn schema() -> RefOr<Schema> {
        let about = "The body of POST /Session/Create. Fields beside these are ignored.";
        match object::<SessionTokenRequest>(about) {
            RefOr::T(Schema::Object(mut object)) => {
                object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
                RefOr::T(Schema::Object(object))
            }
            other => other,
        }
    }
}

impl ToSchema for SessionRequest {}

/// The response of POST /Auth/Token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenResponse {
    /// A JWT, for `Authorization: Bearer {token}`.
    #[schema(example = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMDAxIn0.c2lnbmF0dXJl")]
    token: String,
    /// Always `Bearer`.
    #[schema(example = "Bearer")]
    token_type: &'static str,
    /// Lifetime of the token in minutes. Always present.
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

/// The response of POST /Session/Create.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionResponse {
    /// The JWT, under its name in the older session response.
    #[schema(example = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMDAxIn0.c2lnbmF0dXJl")]
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

/// The response of POST /Employee/SignIn.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmployeeTokenResponse {
    /// A JWT, for `Authorization: Bearer {token}`.
    #[schema(example = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMDAxIn0.c2lnbmF0dXJl")]
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
///
/// Send the token as `Authorization: Bearer` with every other call. It is valid in this tenant only, for `expiresInMinutes`.
#[utoipa::path(post, path = "/Auth/Token", operation_id = "Auth.CreateToken", tag = "Auth",
    security(("ApiKey" = [])), request_body = SessionTokenRequest,
    responses((status = 200, body = TokenResponse, description = "The token"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json",
               description = "No contact has this user id and password, the clientCode is another tenant's, or the tenant is unknown")))]
pub async fn create_token(
    State(state): State<Arc<ApiState>>,
    call: SignInCall<Addressed>,
) -> Result<JsonResponse<TokenResponse>, ApiError> {
    if let Addressed::Legacy = call.addressed {
        // The likeliest mistake on the legacy host: a client of v2 that has the older address.
        return Err(match legacy_tenant(&state, &call.credentials) {
            Err(off @ ApiError::ApiAccessOff(_)) => off,
            _ => ApiError::NoSuchRoute,
        });
    }
    let SignedIn { token, expires_in_minutes, customer_code, contact_code, contact } =
        sign_in_contact(&state, call).await?;
    let token_type = "Bearer";
    Ok(JsonResponse(TokenResponse {
        token,
        token_type,
        expires_in_minutes,
        customer_code,
        contact_code,
        contact,
    }))
}

/// Issues a token to a contact, in the older form of the response.
///
/// New integrations use POST /Auth/Token.
#[utoipa::path(post, path = "/Session/Create", operation_id = "Session.Create", tag = "Legacy host",
    security(("ApiKey" = [])), request_body = SessionRequest,
    responses((status = 200, body = SessionResponse, description = "The session"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json",
               description = "No contact has this user id and password, the clientCode is another tenant's, or the tenant is unknown")))]
pub async fn create_session(
    State(state): State<Arc<ApiState>>,
    SessionCall(call): SessionCall,
) -> Result<JsonResponse<SessionResponse>, ApiError> {
    let SignedIn { token: session_guid, expires_in_minutes, customer_code, contact_code, contact } =
        sign_in_contact(&state, call).await?;
    Ok(JsonResponse(SessionResponse {
        session_guid,
        expires_in_minutes,
        customer_code,
        contact_code,
        contact,
    }))
}

/// Issues a token to an employee, who signs in with the back office's check-in credentials.
///
/// Requests send this token like a contact's. An employee sees the orders of all customers, and an administrator the webhook
/// logs as well.
#[utoipa::path(post, path = "/Employee/SignIn", operation_id = "Employee.SignIn", tag = "Auth",
    security(("ApiKey" = [])), request_body(content = SessionTokenRequest, example = json!({"userId": "mo.ito", "password": "docket-sample-1"})),
    responses((status = 200, body = EmployeeTokenResponse, description = "The token"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json",
               description = "No employee has this user id and password, the clientCode is another tenant's, or the tenant is unknown")))]
pub async fn employee_sign_in(
    State(state): State<Arc<ApiState>>,
    SignInCall { addressed: AtTenant(tenant), credentials, origin }: SignInCall<AtTenant>,
) -> Result<JsonResponse<EmployeeTokenResponse>, ApiError> {
    let user_id = credentials.user_id.clone();
    let issued = state.sign_in().employee(&tenant, credentials).await;
    audit(&state, Some(&tenant), origin, ("employee", &user_id), &issued);
    let Issued { token, expires_in_minutes, subject, name } =
        issued.map_err(|error| ApiError::from_sign_in(error, user_id))?;
    let TokenSubject::Employee { employee_code, .. } = subject else { return Err(ApiError::Internal) };
    Ok(JsonResponse(EmployeeTokenResponse {
        token,
        token_type: "Bearer",
        expires_in_minutes,
        employee_code,
        employee: name,
    }))
}

/// A contact's token, and the names that belong to it.
struct SignedIn {
    token: String,
    expires_in_minutes: u32,
    customer_code: String,
    contact_code: String,
    contact: String,
}

async fn sign_in_contact(state: &ApiState, call: SignInCall<Addressed>) -> Result<SignedIn, ApiError> {
    let SignInCall { addressed, mut credentials, origin } = call;
    credentials.by_code = matches!(addressed, Addressed::Legacy);
    let user_id = credentials.user_id.clone();
    let tenant = match addressed {
        Addressed::Tenant(tenant) => Some(tenant),
        Addressed::Legacy => legacy_tenant(state, &credentials)?,
    };
    let issued = match &tenant {
        Some(tenant) => state.sign_in().contact(tenant, credentials).await,
        None => Err(state.sign_in().unknown_tenant(credentials).await),
    };
    audit(state, tenant.as_ref(), origin, ("contact", &user_id), &issued);
    let Issued { token, expires_in_minutes, subject, name: contact } =
        issued.map_err(|error| ApiError::from_sign_in(error, user_id))?;
    match subject {
        TokenSubject::Contact { contact_code, customer_code } => {
            Ok(SignedIn { token, expires_in_minutes, customer_code, contact_code, contact })
        }
        TokenSubject::Employee { .. } => Err(ApiError::Internal),
    }
}

/// Records a sign-in, or its refusal. A sign-in that could not be checked is neither.
pub fn audit(
    state: &ApiState,
    tenant: Option<&Arc<ServedTenant>>,
    origin: Origin,
    (kind, user_id): (&str, &str),
    issued: &Result<Issued, SignInError>,
) {
    match (issued, tenant) {
        (Ok(Issued { subject, .. }), Some(tenant)) => {
            let entry = state.audit.entry(AuditEvent::SignedIn).by(&Actor::from(subject)).at(origin);
            state.audit.record_sign_in(tenant, entry);
        }
        (Err(SignInError::UnknownUser | SignInError::TryLater(_) | SignInError::OverLimit(_)), tenant) => {
            state.audit.sign_in_refused(tenant, origin.address, kind, user_id);
        }
        (Ok(_), None) | (Err(SignInError::Busy(_) | SignInError::Store(_)), _) => {}
    }
}

/// The tenant of a request to the legacy host, by its client code. The hexadecimal key is refused as client code.
fn legacy_tenant(state: &ApiState, credentials: &Credentials) -> Result<Option<Arc<ServedTenant>>, ApiError> {
    let Some(code) = &credentials.client_code else {
        return Err(ApiError::field("clientCode", "required on this host"));
    };
    if is_key(code) {
        return Err(ApiError::ApiAccessOff(code.clone()));
    }
    Ok(state.tenants.by_client_code(code.trim()))
}

/// Whether `code` is a hexadecimal key in any spelling: like a GUID, in quotation marks, with blanks or line breaks, as a literal
/// (`0x…`, `x'…'`), or as the list of its bytes (`0x8e, 0x68`, `\x8e\x68`).
fn is_key(code: &str) -> bool {
    let is_mark = |c: char| c == 'x' || !c.is_alphanumeric();
    let digits = code.to_ascii_lowercase().replace("0x", "").replace(is_mark, "");
    docket_crds::ApiKeyDigest::of(&digits).is_ok()
}

/// A sign-in: the credentials, and how the request identifies its tenant, which is checked before the body is read.
pub struct SignInCall<A> {
    addressed: A,
    credentials: Credentials,
    origin: Origin,
}

impl<A> SignInCall<A>
where
    A: FromRequestParts<Arc<ApiState>, Rejection = ApiError>,
{
    async fn read(
        request: Request,
        state: &Arc<ApiState>,
        read: fn(RequestFields) -> Result<SessionTokenRequest, ApiError>,
    ) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let (source, origin) = origin(&parts, &state.proxies)?;
        let addressed = A::from_request_parts(&mut parts, state).await?;
        let body = json_bytes(&parts.headers, body, SIGN_IN_LIMIT).await?;
        let SessionTokenRequest { client_code, user_id, password } = read(RequestFields::of_body(&body)?)?;
        // Forms and typed clients send an empty text if they have no code.
        let client_code = client_code.filter(|code| !code.trim().is_empty());
        let credentials =
            Credentials { client_code, by_code: false, user_id, password, source, session: None };
        Ok(Self { addressed, credentials, origin })
    }
}

impl<A> FromRequest<Arc<ApiState>> for SignInCall<A>
where
    A: FromRequestParts<Arc<ApiState>, Rejection = ApiError> + Send,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        Self::read(request, state, SessionTokenRequest::read).await
    }
}

/// A sign-in in the older shape, whose clients may send fields that mean nothing here.
pub struct SessionCall(SignInCall<Addressed>);

impl FromRequest<Arc<ApiState>> for SessionCall {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        SignInCall::read(request, state, SessionTokenRequest::read_known).await.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_known_in_every_spelling_of_its_digits() {
        let key = "0123456789abcdef".repeat(4);
        let bytes: Vec<&str> =
            key.as_bytes().chunks(2).map(|two| str::from_utf8(two).expect("ASCII")).collect();
        for spelling in [
            key.clone(),
            key.to_uppercase(),
            format!("{}\n{}", &key[..32], &key[32..]),
            format!("0X{key}"),
            format!("x'{key}'"),
            format!("\\x{key}"),
            format!("\"{key}\";"),
            format!("{{0x{}}}", bytes.join(", 0x")),
            format!("\\x{}", bytes.join("\\x")),
            bytes.join(":"),
        ] {
            assert!(is_key(&spelling), "{spelling}");
        }
        for other in [
            "ACME",
            "",
            "0x",
            &key[..31],
            &format!("Bearer {key}"),
            &format!("X-Api-Key: {key}"),
            &format!("é{key}"),
        ] {
            assert!(!is_key(other), "{other}");
        }
    }
}
