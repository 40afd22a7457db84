//! The error responses and the headers that operations share, each a component.

use docket_orders::Problem;
use serde_json::{Value, json};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response};

use crate::api::idempotency;
use crate::http::error::ApiError;
use crate::http::problem_examples::example;
use crate::http::problem_type::ProblemType;

/// An error response that many operations have, as a component of its own.
pub(super) struct ErrorResponse {
    /// The name of the component.
    pub name: &'static str,
    /// When Docket sends it.
    pub about: &'static str,
    /// The types of problems that the response can have, all with one status; the first one is the example.
    pub kinds: &'static [ProblemType],
}

pub(super) const BAD_REQUEST: ErrorResponse = ErrorResponse {
    name: "BadRequest",
    about: "The request is not valid; `errors` lists each field",
    kinds: &[ProblemType::InvalidFields, ProblemType::InvalidRequest],
};
pub(super) const UNAUTHORIZED: ErrorResponse = ErrorResponse {
    name: "Unauthorized",
    about: "Invalid API key, or no valid Bearer token",
    kinds: &[ProblemType::InvalidApiKey, ProblemType::InvalidToken],
};
pub(super) const TENANT_NOT_FOUND: ErrorResponse = ErrorResponse {
    name: "TenantNotFound",
    about: "Tenant not found",
    kinds: &[ProblemType::TenantNotFound],
};
pub(super) const METHOD_NOT_ALLOWED: ErrorResponse = ErrorResponse {
    name: "MethodNotAllowed",
    about: "The path does not accept the method; see Allow",
    kinds: &[ProblemType::MethodNotAllowed],
};
pub(super) const INTERNAL_ERROR: ErrorResponse =
    ErrorResponse { name: "InternalError", about: "Internal error", kinds: &[ProblemType::InternalError] };
pub(super) const UNAVAILABLE: ErrorResponse = ErrorResponse {
    name: "Unavailable",
    about: "The tenant's database is unavailable; see Retry-After",
    kinds: &[ProblemType::Unavailable],
};
pub(super) const BODY_TOO_SLOW: ErrorResponse = ErrorResponse {
    name: "BodyTooSlow",
    about: "Timeout while reading the body",
    kinds: &[ProblemType::BodyTooSlow],
};
pub(super) const BODY_TOO_LONG: ErrorResponse =
    ErrorResponse { name: "BodyTooLong", about: "The body is too long", kinds: &[ProblemType::BodyTooLong] };
pub(super) const UNSUPPORTED_MEDIA_TYPE: ErrorResponse = ErrorResponse {
    name: "UnsupportedMediaType",
    about: "The body is not application/json",
    kinds: &[ProblemType::UnsupportedMediaType],
};
pub(super) const TOO_MANY_SIGN_INS: ErrorResponse = ErrorResponse {
    name: "TooManySignIns",
    about: "Too many failed sign-ins, or the tenant is at a limit; see Retry-After",
    kinds: &[ProblemType::TooManySignIns, ProblemType::AtLimit],
};
pub(super) const AT_LIMIT: ErrorResponse = ErrorResponse {
    name: "AtLimit",
    about: "The tenant is at a limit; see Retry-After",
    kinds: &[ProblemType::AtLimit],
};
pub(super) const CONFLICT: ErrorResponse = ErrorResponse {
    name: "Conflict",
    about: "The request does not fit what is stored, or the Idempotency-Key was used for another request",
    kinds: &[ProblemType::IdempotencyKeyReused, ProblemType::Conflict],
};
pub(super) const API_ACCESS_OFF: ErrorResponse = ErrorResponse {
    name: "ApiAccessOff",
    about: "Legacy host only: the client sent the hexadecimal key as clientCode",
    kinds: &[ProblemType::ApiAccessOff],
};
pub(super) const NOT_ADMINISTRATOR: ErrorResponse = ErrorResponse {
    name: "NotAdministrator",
    about: "Not an administrator of the tenant",
    kinds: &[ProblemType::NotAdministrator],
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
    /// The status.
    pub(super) fn status(&self) -> u16 {
        self.kinds[0].status().as_u16()
    }

    /// The body of an example.
    pub(super) fn example(&self) -> Value {
        example(self.kinds[0])
    }

    /// The response, with an example.
    pub(super) fn response(&self) -> Response {
        let mut response = Response::new(self.about);
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
        response.content.insert(PROBLEM.to_owned(), problem.example(Some(self.example())).build().into());
        let more = match self.status() {
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
        Some(("WebhookLogs", "Search")) => {
            let message = "no webhook has this name; did you mean back-office/orders?".to_owned();
            ApiError::NoSuchName(Problem { field: "webhook".to_owned(), message })
        }
        Some(("WebhookLogs", "StopResend")) => ApiError::NotFound("There is no such resend"),
        Some(("WebhookLogs", _)) => ApiError::NotFound("There is no such delivery"),
        _ => return example(ProblemType::UnknownUser),
    };
    error.example()
}
