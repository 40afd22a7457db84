//! The error responses and the headers that operations share, each a component.

use docket_crds::Limit;
use serde_json::{Value, json};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response};

use crate::access::rates::OverLimit;
use crate::api::idempotency;
use crate::http::body::LIMIT;
use crate::http::error::ApiError;
use crate::refusal::MovedOn;

/// An error response that many operations have, as a component of its own.
pub(super) struct ErrorResponse {
    /// The status.
    pub status: u16,
    /// The name of the component.
    pub name: &'static str,
    /// When Docket sends it.
    pub about: &'static str,
    error: fn() -> ApiError,
}

pub(super) const BAD_REQUEST: ErrorResponse = ErrorResponse {
    status: 400,
    name: "BadRequest",
    about: "The request is not valid; `errors` lists each field",
    error: || ApiError::field("pageSize", "must be a whole number from 1 to 100"),
};
pub(super) const UNAUTHORIZED: ErrorResponse = ErrorResponse {
    status: 401,
    name: "Unauthorized",
    about: "Invalid API key, or no valid Bearer token",
    error: || ApiError::InvalidApiKey,
};
pub(super) const TENANT_NOT_FOUND: ErrorResponse = ErrorResponse {
    status: 404,
    name: "TenantNotFound",
    about: "Tenant not found",
    error: || ApiError::TenantNotFound,
};
pub(super) const METHOD_NOT_ALLOWED: ErrorResponse = ErrorResponse {
    status: 405,
    name: "MethodNotAllowed",
    about: "The path does not accept the method; see Allow",
    error: || ApiError::MethodNotAllowed,
};
pub(super) const INTERNAL_ERROR: ErrorResponse = ErrorResponse {
    status: 500,
    name: "InternalError",
    about: "Internal error",
    error: || ApiError::Internal,
};
pub(super) const UNAVAILABLE: ErrorResponse = ErrorResponse {
    status: 503,
    name: "Unavailable",
    about: "The tenant's database is unavailable; see Retry-After",
    error: || ApiError::Unavailable,
};
pub(super) const BODY_TOO_SLOW: ErrorResponse = ErrorResponse {
    status: 408,
    name: "BodyTooSlow",
    about: "Timeout while reading the body",
    error: || ApiError::RequestTimeout,
};
pub(super) const BODY_TOO_LONG: ErrorResponse = ErrorResponse {
    status: 413,
    name: "BodyTooLong",
    about: "The body is too long",
    error: || ApiError::TooLarge(LIMIT),
};
pub(super) const UNSUPPORTED_MEDIA_TYPE: ErrorResponse = ErrorResponse {
    status: 415,
    name: "UnsupportedMediaType",
    about: "The body is not application/json",
    error: || ApiError::UnsupportedMediaType,
};
pub(super) const TOO_MANY_SIGN_INS: ErrorResponse = ErrorResponse {
    status: 429,
    name: "TooManySignIns",
    about: "Too many failed sign-ins, or the tenant is at a limit; see Retry-After",
    error: || ApiError::TryLater(4),
};
pub(super) const AT_LIMIT: ErrorResponse = ErrorResponse {
    status: 429,
    name: "AtLimit",
    about: "The tenant is at a limit; see Retry-After",
    error: || ApiError::OverLimit(OverLimit { limit: Limit::RequestsPerSecond, seconds: 1 }),
};
pub(super) const CONFLICT: ErrorResponse = ErrorResponse {
    status: 409,
    name: "Conflict",
    about: "The request does not fit what is stored, or the Idempotency-Key was used for another request",
    error: || ApiError::KeyReused,
};
pub(super) const API_ACCESS_OFF: ErrorResponse = ErrorResponse {
    status: 403,
    name: "ApiAccessOff",
    about: "Legacy host only: the client sent the hexadecimal key as clientCode",
    error: || ApiError::ApiAccessOff("0123456789abcdef0123456789abcdef".to_owned()),
};
pub(super) const NOT_ADMINISTRATOR: ErrorResponse = ErrorResponse {
    status: 403,
    name: "NotAdministrator",
    about: "Not an administrator of the tenant",
    error: || ApiError::NotAdministrator,
};

/// All error responses that are components.
pub(super) const ALL: [ErrorResponse; 14] = [
    BAD_REQUEST,
    UNAUTHORIZED,
    API_ACCESS_OFF,
    NOT_ADMINISTRATOR,
    TENANT_NOT_FOUND,
    METHOD_NOT_ALLOWED,
    BODY_TOO_SLOW,
    CONFLICT,
    BODY_TOO_LONG,
    UNSUPPORTED_MEDIA_TYPE,
    TOO_MANY_SIGN_INS,
    AT_LIMIT,
    INTERNAL_ERROR,
    UNAVAILABLE,
];

impl ErrorResponse {
    /// The body of an example.
    pub(super) fn example(&self) -> Value {
        (self.error)().example()
    }

    /// The response, with an example.
    pub(super) fn response(&self) -> Response {
        let mut response = Response::new(self.about);
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
        response.content.insert(PROBLEM.to_owned(), problem.example(Some(self.example())).build().into());
        let more = match self.status {
            401 => Some(WWW_AUTHENTICATE),
            405 => Some(ALLOW),
            429 | 503 => Some(RETRY_AFTER),
            _ => None,
        };
        add_headers(&mut response, [Some(REQUEST_ID), more].into_iter().flatten());
        response
    }
}

/// The media type of every error response.
const PROBLEM: &str = "application/problem+json";

pub(super) const REQUEST_ID: &str = "X-Request-Id";
pub(super) const RETRY_AFTER: &str = "Retry-After";
pub(super) const WWW_AUTHENTICATE: &str = "WWW-Authenticate";
pub(super) const ALLOW: &str = "Allow";

/// The headers of responses, each a component.
pub(super) fn headers() -> [(String, RefOr<Header>); 5] {
    let text = Type::String;
    let all = [
        (
            REQUEST_ID,
            text.clone(),
            "The id of the request. Quote it when you ask for help.",
            json!("0193f0c2a1b07c3e9d6f"),
        ),
        (RETRY_AFTER, Type::Integer, "Seconds to wait before the request is sent again.", json!(2)),
        (
            WWW_AUTHENTICATE,
            text.clone(),
            "Which of the two credentials is missing or wrong. `Bearer error=\"invalid_token\"` refuses a token that was sent; \
             `Bearer` alone says that none was.",
            json!("ApiKey header=\"X-Api-Key\""),
        ),
        (ALLOW, text.clone(), "The methods that the path accepts.", json!("POST")),
        (
            idempotency::REPLAYED,
            text,
            "`true` if the response is that of an earlier request with the same Idempotency-Key. Other responses do not have \
             this header.",
            json!("true"),
        ),
    ];
    all.map(|(name, kind, about, example)| {
        let schema = ObjectBuilder::new().schema_type(kind);
        let header = HeaderBuilder::new().schema(Some(schema)).description(Some(about));
        (name.to_owned(), header.example(Some(example)).build().into())
    })
}

/// Declares these headers of a response.
pub(super) fn add_headers<'a>(response: &mut Response, names: impl Iterator<Item = &'a str>) {
    for name in names {
        let header = Ref::new(format!("#/components/headers/{name}"));
        response.headers.insert(name.to_owned(), RefOr::Ref(header));
    }
}

/// The example of an operation's 404.
pub(super) fn not_found(operation_id: &str) -> Value {
    let error = match operation_id.split_once('.') {
        Some(("Orders", _)) => ApiError::NotFound("There is no such web order"),
        Some(("Notes", _)) => ApiError::NotFound("There is no such work order"),
        Some(("WebhookLogs", "StopResend")) => ApiError::NotFound("There is no such resend"),
        Some(("WebhookLogs", _)) => ApiError::NotFound("There is no such delivery"),
        _ => ApiError::UnknownUser("ada@quillfeather.example".to_owned()),
    };
    error.example()
}

/// The example of a 412: the order has another version than If-Match names.
pub(super) fn precondition_failed() -> Value {
    ApiError::OrderChanged(MovedOn::IfMatch(4)).example()
}
