//! Errors of the API as RFC 9457 problem+json. Only this file chooses the type of a problem, which has the status code.
//!
//! A 5xx has a fixed public text; its cause is logged once, here.

use std::fmt;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use docket_crds::Limit;
use docket_listener::fair_share::Busy;
use docket_orders::blank::is_blank;
use docket_orders::{Problem, Problems};
use docket_portal::message::ErrorMessage;
use docket_store::StoreError;
use http::{HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::problem_type::ProblemType;
use crate::access::rates::OverLimit;
use crate::refusal::{MovedOn, Refusal, SignInError};

/// Why a request failed.
pub enum ApiError {
    /// Fields of the request are wrong.
    Invalid(Problems),
    /// The request itself is wrong: its headers, host or encoding.
    BadRequest(&'static str),
    /// No tenant has this key.
    InvalidApiKey,
    /// The key was sent more than once.
    RepeatedApiKey,
    /// No Bearer token was sent.
    NoToken,
    /// The Bearer token that was sent has expired, or is another tenant's.
    InvalidToken,
    /// [`NoToken`](Self::NoToken) on the legacy host.
    NoSession,
    /// [`InvalidToken`](Self::InvalidToken) on the legacy host.
    InvalidSession,
    /// The request has no key, and no tenant has the host's subdomain.
    TenantNotFound,
    /// Wrong user, wrong password, inactive contact or wrong client code. Holds the userId, which the contract puts into the
    /// response.
    UnknownUser(String),
    /// The client sent the hexadecimal key as client code to the legacy host.
    ApiAccessOff(String),
    /// The route is for administrators of the tenant.
    NotAdministrator,
    /// The Bearer token does not belong to a user of the cluster.
    UnknownClusterUser,
    /// The user of the cluster lacks this right.
    NoClusterRight(String),
    /// The cluster's API server can't be asked who the user is and what the user may do.
    ReviewsAway,
    /// A form of the portal was not sent by a page of the session.
    ForeignForm,
    /// A form of the portal came from a page that was opened over plain HTTP.
    PlainHttp,
    /// What the request names does not exist for this caller.
    NotFound(&'static str),
    /// A parameter of a search names something that does not exist for this caller. Holds the parameter and what would be right.
    NoSuchName(Problem),
    /// No such route.
    NoSuchRoute,
    /// No such route. Holds the route that is written almost like it.
    MisspelledRoute(String),
    /// The route does not accept this method.
    MethodNotAllowed,
    /// The cluster's API server is not available for what the portal declares.
    ClusterAway,
    /// The cluster's API server was asked to make a change and gave no answer.
    ClusterSilent,
    /// The request does not fit what is stored.
    Conflict(&'static str),
    /// The order's version differs from the version that the change was made from.
    OrderChanged(MovedOn),
    /// The Idempotency-Key was used for another request.
    KeyReused,
    /// The cluster does not accept what the portal declares. Holds the reason.
    Refused(String),
    /// The body is longer than this many bytes.
    TooLarge(usize),
    /// The body is not `application/json`.
    UnsupportedMediaType,
    /// The body did not arrive in time.
    RequestTimeout,
    /// Too many failed sign-ins; the next one is allowed after this many seconds.
    TryLater(u64),
    /// The tenant is at a limit.
    OverLimit(OverLimit),
    /// The tenant's database is unavailable, or too many of its sign-ins or large bodies are under way.
    Unavailable,
    /// What the request needs is in a part of the tenant's database that its next migration creates.
    BeforeMigration,
    /// An internal error.
    Internal,
}

/// Prints only the type, never a userId, nor a key that was sent as client code.
impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiError({:?})", self.kind())
    }
}

/// The body of every error response (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// The type of problem: a page and heading of the documentation at the API's own address.
    #[serde(rename = "type")]
    #[schema(example = "/docs/reference/problems.html#invalid-fields", format = "uri-reference")]
    pub kind: String,
    /// The name of the status.
    #[schema(example = "Bad Request")]
    pub title: &'static str,
    /// The HTTP status.
    #[schema(example = 400, minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong and how to correct it.
    #[schema(example = "The request is not valid: customerCode: required: an employee names the customer")]
    pub detail: String,
    /// On a 400: each field that is wrong. On a 404: the parameter that names what does not exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Problem>,
    /// On a 429: the limit that the tenant is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<&'static str>,
    /// The same as the header X-Request-Id. Quote it when you ask for help.
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0193f0c2a1b07c3e9d6f")]
    pub request_id: Option<String>,
}

/// A problem without the request's id, which the outermost middleware fills in.
#[derive(Debug, Clone)]
pub(crate) struct Unnumbered {
    kind: ProblemType,
    detail: String,
    errors: Vec<Problem>,
    limit: Option<Limit>,
}

impl Unnumbered {
    /// The limit that the tenant is at.
    pub(crate) const fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// The text of a page of the portal.
    pub(crate) fn message<'a>(
        &'a self,
        fields: &'a [(&'a str, &'a str)],
        request_id: &'a str,
    ) -> ErrorMessage<'a> {
        ErrorMessage { status: self.kind.status().as_u16(), detail: &self.detail, fields, request_id }
    }

    /// The fields that are wrong, each with what would be right.
    pub(crate) fn fields(&self) -> Vec<(&str, &str)> {
        self.errors.iter().map(|problem| (problem.field.as_str(), problem.message.as_str())).collect()
    }

    pub(crate) fn body(&self, request_id: &str) -> Body {
        Body::from(serde_json::to_vec(&self.numbered(request_id)).expect("plain structs serialise"))
    }

    fn numbered(&self, request_id: &str) -> ProblemBody {
        let status = self.kind.status();
        ProblemBody {
            kind: self.kind.reference(),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            limit: self.limit.map(Limit::as_str),
            request_id: Some(request_id.to_owned()),
        }
    }
}

impl ApiError {
    fn kind(&self) -> ProblemType {
        match self {
            Self::Invalid(_) => ProblemType::InvalidFields,
            Self::BadRequest(_) => ProblemType::InvalidRequest,
            Self::InvalidApiKey | Self::RepeatedApiKey => ProblemType::InvalidApiKey,
            Self::NoToken | Self::InvalidToken | Self::NoSession | Self::InvalidSession => {
                ProblemType::InvalidToken
            }
            Self::UnknownClusterUser => ProblemType::UnknownClusterUser,
            Self::ApiAccessOff(_) => ProblemType::ApiAccessOff,
            Self::NotAdministrator => ProblemType::NotAdministrator,
            Self::NoClusterRight(_) => ProblemType::NoClusterRight,
            Self::ForeignForm | Self::PlainHttp => ProblemType::ForeignForm,
            Self::TenantNotFound => ProblemType::TenantNotFound,
            Self::UnknownUser(_) => ProblemType::UnknownUser,
            Self::NotFound(_) | Self::NoSuchName(_) => ProblemType::NotFound,
            Self::NoSuchRoute | Self::MisspelledRoute(_) => ProblemType::NoSuchRoute,
            Self::MethodNotAllowed => ProblemType::MethodNotAllowed,
            Self::RequestTimeout => ProblemType::BodyTooSlow,
            Self::Conflict(_) => ProblemType::Conflict,
            Self::OrderChanged(MovedOn::Version(_)) => ProblemType::OrderChanged,
            Self::OrderChanged(MovedOn::IfMatch(_)) => ProblemType::PreconditionFailed,
            Self::KeyReused => ProblemType::IdempotencyKeyReused,
            Self::Refused(_) => ProblemType::RefusedByCluster,
            Self::TooLarge(_) => ProblemType::BodyTooLong,
            Self::UnsupportedMediaType => ProblemType::UnsupportedMediaType,
            Self::TryLater(_) => ProblemType::TooManySignIns,
            Self::OverLimit(_) => ProblemType::AtLimit,
            Self::Internal => ProblemType::InternalError,
            Self::Unavailable | Self::BeforeMigration => ProblemType::Unavailable,
            Self::ReviewsAway | Self::ClusterAway | Self::ClusterSilent => ProblemType::ClusterAway,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Invalid(problems) => format!("The request is not valid: {}", first_of(problems)),
            Self::BadRequest(text) | Self::Conflict(text) | Self::NotFound(text) => (*text).to_owned(),
            Self::NoSuchName(problem) => problem.to_string(),
            Self::InvalidApiKey => "Invalid API key".to_owned(),
            Self::RepeatedApiKey => {
                "Invalid API key: it was sent twice; send it once, in the header X-Api-Key".to_owned()
            }
            Self::NoToken | Self::InvalidToken => {
                "The Bearer token is missing, has expired or belongs to another tenant; get one from POST /Auth/Token"
                    .to_owned()
            }
            Self::NoSession | Self::InvalidSession => {
                "The Bearer token is missing or has expired; get a sessionGuid from POST /Session/Create".to_owned()
            }
            Self::TenantNotFound => "Tenant not found".to_owned(),
            Self::UnknownUser(user_id) => {
                format!("No contact or employee {} with this password", visible(user_id))
            }
            Self::ApiAccessOff(value) => format!("API access is turned off for {}", visible(value)),
            Self::NotAdministrator => "Only an administrator of the tenant may see this".to_owned(),
            Self::UnknownClusterUser => {
                "The Bearer token is missing, or the cluster's API server does not know it".to_owned()
            }
            Self::NoClusterRight(right) => format!("You may not {right}"),
            Self::ReviewsAway => {
                "The cluster's API server can't be asked who you are and what you may do; try again".to_owned()
            }
            Self::ClusterAway => "The cluster's API server is not available; nothing was changed".to_owned(),
            Self::ClusterSilent => {
                "The cluster's API server did not answer; the change may have been made. Look at the webhooks before you \
                 repeat it"
                    .to_owned()
            }
            Self::Refused(text) => text.clone(),
            Self::ForeignForm => {
                "The form was not sent by a page of this session; open the page again and send the form from there".to_owned()
            }
            Self::PlainHttp => {
                "The portal works over HTTPS only, and this page was opened over plain HTTP; open it at the same address \
                 with https://, or on your own machine at a host name below localhost"
                    .to_owned()
            }
            Self::OrderChanged(moved_on) => {
                let (named, now) = match moved_on {
                    MovedOn::Version(now) => ("version", now),
                    MovedOn::IfMatch(now) => ("If-Match", now),
                };
                format!(
                    "{named}: the order was changed and has version {now} now; get it, make your change in it, and send that version"
                )
            }
            Self::KeyReused => "This Idempotency-Key was used for another request; use a new one".to_owned(),
            Self::NoSuchRoute => "There is no such route; see /swagger".to_owned(),
            Self::MisspelledRoute(right) => {
                format!("There is no such route; did you mean {right}? Paths are case-sensitive.")
            }
            Self::MethodNotAllowed => "This route does not accept this method; see the Allow header".to_owned(),
            Self::TooLarge(limit) => format!("The body is longer than {limit} bytes"),
            Self::UnsupportedMediaType => "Send Content-Type: application/json, uncompressed".to_owned(),
            Self::RequestTimeout => "Timeout while reading the body".to_owned(),
            Self::TryLater(seconds) => format!("Too many failed sign-ins; try again in {seconds} seconds"),
            Self::OverLimit(OverLimit { limit, seconds }) => {
                format!("The tenant is at its limit {limit}; try again in {seconds} seconds")
            }
            Self::Unavailable => "The service is not available for this tenant right now; try again".to_owned(),
            Self::BeforeMigration => {
                "This needs a migration of the tenant's database that was not made yet; the rest of the service works"
                    .to_owned()
            }
            Self::Internal => "Internal error; quote the requestId when you ask for help".to_owned(),
        }
    }
}

/// Removes control characters and invisible characters, which could change how a log or a terminal shows the rest of the text.
fn visible(text: &str) -> String {
    let is_seen = |c: &char| *c == ' ' || !(c.is_control() || is_blank(*c));
    text.chars().filter(is_seen).collect()
}

/// The first few problems in one sentence, and how many more there are.
fn first_of(problems: &Problems) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = problems.len().saturating_sub(SHOWN);
    if more == 0 { shown.join("; ") } else { format!("{}; and {more} more", shown.join("; ")) }
}

impl ApiError {
    /// The fields that are wrong, each with what would be right.
    ///
    /// # Errors
    ///
    /// The error itself, if it is about anything else.
    pub fn wrong_fields(self) -> Result<Vec<(String, String)>, Self> {
        match self {
            Self::Invalid(problems) => {
                Ok(problems.into_iter().map(|problem| (problem.field, problem.message)).collect())
            }
            Self::NoSuchName(problem) => Ok(vec![(problem.field, problem.message)]),
            other => Err(other),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (kind, detail) = (self.kind(), self.detail());
        let mut response = kind.status().into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let retry_after = match &self {
            Self::TryLater(seconds) | Self::OverLimit(OverLimit { seconds, .. }) => {
                Some(HeaderValue::from(*seconds))
            }
            Self::Unavailable | Self::ReviewsAway | Self::ClusterAway => Some(HeaderValue::from_static("2")),
            _ => None,
        };
        headers.extend(retry_after.map(|value| (header::RETRY_AFTER, value)));
        match &self {
            // Only a token that was sent can be wrong (RFC 6750, section 3.1).
            Self::InvalidToken | Self::InvalidSession => {
                let value = HeaderValue::from_static("Bearer error=\"invalid_token\"");
                headers.insert(header::WWW_AUTHENTICATE, value);
            }
            Self::NoToken | Self::NoSession | Self::UnknownClusterUser => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::InvalidApiKey | Self::RepeatedApiKey => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("ApiKey header=\"X-Api-Key\""),
                );
            }
            _ => {}
        }
        let (errors, limit) = match self {
            Self::Invalid(problems) => (problems.into_iter().collect(), None),
            Self::NoSuchName(problem) => (vec![problem], None),
            Self::OverLimit(over) => (Vec::new(), Some(over.limit)),
            _ => (Vec::new(), None),
        };
        response.extensions_mut().insert(Unnumbered { kind, detail, errors, limit });
        response
    }
}

impl ApiError {
    /// The body of its response, for the OpenAPI document.
    pub fn example(self) -> Value {
        let problem = self.into_response().extensions_mut().remove::<Unnumbered>();
        let body = problem.map(|problem| problem.numbered("0193f0c2a1b07c3e9d6f"));
        serde_json::to_value(body).expect("plain structs serialise")
    }
}

impl From<Busy> for ApiError {
    fn from(_: Busy) -> Self {
        Self::Unavailable
    }
}

impl From<OverLimit> for ApiError {
    fn from(over: OverLimit) -> Self {
        Self::OverLimit(over)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) if error.is_at_connection_limit() => {
                Self::OverLimit(OverLimit { limit: Limit::DatabaseConnections, seconds: 1 })
            }
            StoreError::Unavailable(_) if error.needs_migration() => Self::BeforeMigration,
            StoreError::Unavailable(_) => {
                tracing::warn!(error = %error, "tenant database unavailable");
                Self::Unavailable
            }
            StoreError::Conflict | StoreError::Unexpected(_) | StoreError::Refused(_) => {
                tracing::error!(error = %error, "internal error");
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
            Refusal::OrderChanged(moved_on) => Self::OrderChanged(moved_on),
            // Another program took the number or deleted the row that this change refers to. A retry may succeed.
            Refusal::Store(StoreError::Conflict) => Self::Unavailable,
            Refusal::Store(error) => error.into(),
        }
    }
}

impl ApiError {
    /// An error because of one wrong field.
    pub fn field(name: &str, message: &str) -> Self {
        Self::Invalid(Problem { field: name.to_owned(), message: message.to_owned() }.into())
    }

    /// The error of a refused sign-in; `user_id` is what the client sent.
    pub fn from_sign_in(error: SignInError, user_id: String) -> Self {
        match error {
            SignInError::UnknownUser => Self::UnknownUser(user_id),
            SignInError::TryLater(later) => Self::TryLater(later.seconds),
            SignInError::OverLimit(over) => over.into(),
            SignInError::Busy(_) => Self::Unavailable,
            SignInError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_left_out_of_a_detail() {
        for (sent, shown) in [
            ("x\u{202e}y", "xy"),
            ("\u{2066}x\u{200b}\u{feff} y\u{2028}", "x y"),
            ("x\u{1b}\n\u{85} y", "x y"),
            ("ada@müller.example", "ada@müller.example"),
        ] {
            for (error, detail) in [
                (
                    ApiError::UnknownUser(sent.into()),
                    format!("No contact or employee {shown} with this password"),
                ),
                (ApiError::ApiAccessOff(sent.into()), format!("API access is turned off for {shown}")),
            ] {
                assert_eq!(error.detail(), detail);
            }
        }
    }

    #[test]
    fn error_in_a_log_quotes_nothing_that_a_client_sent() {
        let sent = || "zq-sent".to_owned();
        for error in [
            ApiError::UnknownUser(sent()),
            ApiError::ApiAccessOff(sent()),
            ApiError::NoClusterRight(sent()),
            ApiError::Refused(sent()),
            ApiError::field(&sent(), &sent()),
        ] {
            let shown = format!("{error:?}");
            assert!(shown.starts_with("ApiError(") && !shown.contains("zq-sent"), "{shown}");
        }
    }

    #[test]
    fn challenge_calls_a_token_wrong_only_if_one_was_sent() {
        let challenge = |error: ApiError| error.into_response().headers()[header::WWW_AUTHENTICATE].clone();
        for (error, expected) in [
            (ApiError::NoToken, "Bearer"),
            (ApiError::NoSession, "Bearer"),
            (ApiError::InvalidToken, "Bearer error=\"invalid_token\""),
            (ApiError::InvalidSession, "Bearer error=\"invalid_token\""),
            (ApiError::InvalidApiKey, "ApiKey header=\"X-Api-Key\""),
            (ApiError::RepeatedApiKey, "ApiKey header=\"X-Api-Key\""),
        ] {
            assert_eq!(challenge(error), expected);
        }
    }

    #[test]
    fn only_an_error_that_a_repeat_may_get_past_says_when_to_repeat() {
        let away = || StoreError::Unavailable("away".into());
        let full = || StoreError::Unavailable(Box::new(docket_store::AtConnectionLimit));
        for (error, status, seconds) in [
            // Another program took the number that this write has chosen.
            (ApiError::from(Refusal::Store(StoreError::Conflict)), 503, Some("2")),
            (ApiError::from(Refusal::Store(away())), 503, Some("2")),
            (ApiError::from(away()), 503, Some("2")),
            (ApiError::from(full()), 429, Some("1")),
            (ApiError::from(StoreError::Conflict), 500, None),
            (ApiError::from(StoreError::Unexpected("a row")), 500, None),
            (ApiError::ClusterAway, 503, Some("2")),
            (ApiError::ReviewsAway, 503, Some("2")),
            // The change may have been made.
            (ApiError::ClusterSilent, 503, None),
        ] {
            let (detail, response) = (error.detail(), error.into_response());
            let retry_after = response.headers().get(header::RETRY_AFTER).map(HeaderValue::as_bytes);
            assert_eq!(response.status().as_u16(), status, "{detail}");
            assert_eq!(retry_after, seconds.map(str::as_bytes), "{detail}");
        }
    }
}
