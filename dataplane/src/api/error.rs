//! The one file that chooses status codes: every refusal as RFC 9457 problem+json.
//!
//! Public text and internal cause are apart: a 5xx says nothing of its cause, which is logged once, here.

use std::fmt;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use docket_orders::{Problem, Problems};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use crate::actions::Refusal;
use crate::actions::sign_in::SignInError;
use docket_store::StoreError;

/// Why a request was not answered as asked.
pub enum ApiError {
    /// What was sent is wrong, field by field.
    Invalid(Problems),
    /// The request itself is wrong: headers, host, encoding.
    BadRequest(&'static str),
    /// No tenant by this key.
    InvalidApiKey,
    /// The Bearer token is missing or not good here and now.
    InvalidToken,
    /// No key, and the host's subdomain maps to no tenant.
    TenantNotFound,
    /// Wrong user, wrong password, inactive contact or wrong client code. Carries the userId, as the contract says.
    UnknownUser(String),
    /// The hexadecimal key was sent as client code to the legacy host.
    ApiAccessOff(String),
    /// The route is for administrators of the tenant.
    NotAdministrator,
    /// There is no such thing for this caller.
    NotFound(&'static str),
    /// No such route.
    NoSuchRoute,
    /// The route takes other methods.
    MethodNotAllowed,
    /// What was asked does not fit what is stored.
    Conflict(&'static str),
    /// The body is longer than so many bytes.
    TooLarge(usize),
    /// The body is not `application/json`.
    UnsupportedMediaType,
    /// The body did not arrive in time.
    RequestTimeout,
    /// Too many wrong guesses; seconds until the next.
    TryLater(u64),
    /// The tenant's database, or our own capacity, is away for now.
    Unavailable,
    /// A defect of ours.
    Internal,
}

/// The status only: a userId, or a key sent as client code, does not print.
impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiError({})", self.status())
    }
}

/// The body of every answer that is not a success (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// What kind of problem it is; `about:blank`: the status says it.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    pub kind: &'static str,
    /// The status in words.
    #[schema(example = "Bad Request")]
    pub title: &'static str,
    /// The HTTP status.
    #[schema(example = 400, minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong and what would be right.
    #[schema(example = "The request is not valid: customerCode: required: an employee names the customer")]
    pub detail: String,
    /// Each field that is wrong, on a 400.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Problem>,
    /// The same as the header X-Request-Id; name it when you ask for help.
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    #[schema(example = "0193f0c2a1b07c3e9d6f")]
    pub request_id: Option<String>,
}

/// A problem without the request's id, which the outermost layer knows and fills in.
#[derive(Debug, Clone)]
pub(super) struct Unnumbered {
    status: StatusCode,
    detail: String,
    errors: Vec<Problem>,
}

impl Unnumbered {
    pub(super) fn body(&self, request_id: &str) -> Body {
        let body = ProblemBody {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            request_id: Some(request_id.to_owned()),
        };
        Body::from(serde_json::to_vec(&body).expect("plain structs serialise"))
    }
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::InvalidApiKey | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::ApiAccessOff(_) | Self::NotAdministrator => StatusCode::FORBIDDEN,
            Self::TenantNotFound | Self::UnknownUser(_) | Self::NotFound(_) | Self::NoSuchRoute => {
                StatusCode::NOT_FOUND
            }
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TryLater(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Invalid(problems) => format!("The request is not valid: {}", first_of(problems)),
            Self::BadRequest(text) | Self::Conflict(text) | Self::NotFound(text) => (*text).to_owned(),
            Self::InvalidApiKey => "Invalid API key".to_owned(),
            Self::InvalidToken => {
                "The Bearer token is missing, has expired or belongs to another tenant; get one from POST /Auth/Token"
                    .to_owned()
            }
            Self::TenantNotFound => "Tenant not found".to_owned(),
            Self::UnknownUser(user_id) => format!("No contact or employee {user_id} with this password"),
            Self::ApiAccessOff(value) => format!("API access is turned off for {value}"),
            Self::NotAdministrator => "Only an administrator of the tenant may see the webhook logs".to_owned(),
            Self::NoSuchRoute => "There is no such route; see /swagger".to_owned(),
            Self::MethodNotAllowed => "This route takes another method; see the Allow header".to_owned(),
            Self::TooLarge(limit) => format!("The body is longer than {limit} bytes"),
            Self::UnsupportedMediaType => "Send Content-Type: application/json, uncompressed".to_owned(),
            Self::RequestTimeout => "The body did not arrive in time".to_owned(),
            Self::TryLater(seconds) => format!("Too many failed sign-ins; try again in {seconds} seconds"),
            Self::Unavailable => "The service is not available for this tenant right now; try again".to_owned(),
            Self::Internal => "Something went wrong on our side".to_owned(),
        }
    }
}

/// The first problems in one sentence, and how many more there are.
fn first_of(problems: &Problems) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = problems.len().saturating_sub(SHOWN);
    if more == 0 { shown.join("; ") } else { format!("{}; and {more} more", shown.join("; ")) }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        let detail = self.detail();
        let mut response = status.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let retry_after = match &self {
            Self::TryLater(seconds) => Some(HeaderValue::from(*seconds)),
            Self::Unavailable => Some(HeaderValue::from_static("2")),
            _ => None,
        };
        headers.extend(retry_after.map(|value| (header::RETRY_AFTER, value)));
        match &self {
            Self::InvalidToken => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::InvalidApiKey => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("ApiKey header=\"X-Api-Key\""),
                );
            }
            _ => {}
        }
        let errors = match self {
            Self::Invalid(problems) => problems.into_iter().collect(),
            _ => Vec::new(),
        };
        response.extensions_mut().insert(Unnumbered { status, detail, errors });
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) => {
                tracing::warn!(error = %error, "a tenant's database is not available");
                Self::Unavailable
            }
            StoreError::Conflict | StoreError::Unexpected(_) | StoreError::Refused(_) => {
                tracing::error!(error = %error, "a defect");
                Self::Internal
            }
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(problems) => Self::Invalid(problems),
            Refusal::NotFound(text) => Self::NotFound(text),
            Refusal::Conflict(text) => Self::Conflict(text),
            // Another program took the number, or deleted what was referred to, in the same moment.
            Refusal::Store(StoreError::Conflict) => Self::Unavailable,
            Refusal::Store(error) => error.into(),
        }
    }
}

impl ApiError {
    /// One field that is wrong.
    pub fn field(name: &str, message: &str) -> Self {
        Self::Invalid(Problem { field: name.to_owned(), message: message.to_owned() }.into())
    }

    /// A sign-in's refusal; `user_id` is what was sent.
    pub fn from_sign_in(error: SignInError, user_id: String) -> Self {
        match error {
            SignInError::UnknownUser => Self::UnknownUser(user_id),
            SignInError::TryLater(later) => Self::TryLater(later.seconds),
            SignInError::Busy(_) => Self::Unavailable,
            SignInError::Store(error) => error.into(),
        }
    }
}
