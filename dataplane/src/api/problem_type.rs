//! The types of problems: each has a heading in docs/reference/problems.md, which is made from here, and to which `type` leads.

use std::fmt::Write;

use docket_docs::ROOT;
use http::StatusCode;

/// What kind of problem a response is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`described` says what each is")]
pub enum ProblemType {
    InvalidFields,
    InvalidRequest,
    InvalidApiKey,
    InvalidToken,
    UnknownClusterUser,
    ApiAccessOff,
    NotAdministrator,
    NoClusterRight,
    ForeignForm,
    TenantNotFound,
    UnknownUser,
    NotFound,
    NoSuchRoute,
    MethodNotAllowed,
    BodyTooSlow,
    Conflict,
    RefusedByCluster,
    BodyTooLong,
    UnsupportedMediaType,
    TooManySignIns,
    AtLimit,
    InternalError,
    Unavailable,
    ClusterAway,
}

/// What the page says of a type.
struct Described {
    name: &'static str,
    status: StatusCode,
    cause: &'static str,
    remedy: &'static str,
}

impl ProblemType {
    /// Every type, by status.
    pub const ALL: [Self; 24] = [
        Self::InvalidFields,
        Self::InvalidRequest,
        Self::InvalidApiKey,
        Self::InvalidToken,
        Self::UnknownClusterUser,
        Self::ApiAccessOff,
        Self::NotAdministrator,
        Self::NoClusterRight,
        Self::ForeignForm,
        Self::TenantNotFound,
        Self::UnknownUser,
        Self::NotFound,
        Self::NoSuchRoute,
        Self::MethodNotAllowed,
        Self::BodyTooSlow,
        Self::Conflict,
        Self::RefusedByCluster,
        Self::BodyTooLong,
        Self::UnsupportedMediaType,
        Self::TooManySignIns,
        Self::AtLimit,
        Self::InternalError,
        Self::Unavailable,
        Self::ClusterAway,
    ];

    /// The status of its responses.
    pub fn status(self) -> StatusCode {
        self.described().status
    }

    /// The value of `type`: where the documentation of this very program describes it, relative to the API's own address.
    pub fn reference(self) -> String {
        format!("{ROOT}reference/problems.html#{}", self.described().name)
    }

    fn described(self) -> Described {
        let (name, status, cause, remedy) = match self {
            Self::InvalidFields => (
                "invalid-fields",
                StatusCode::BAD_REQUEST,
                "Fields of the request are missing, unknown or wrong.",
                "`errors` names each field with what would be right: correct them all and send the request again.",
            ),
            Self::InvalidRequest => (
                "invalid-request",
                StatusCode::BAD_REQUEST,
                "The request itself is wrong: its headers, its host, its encoding, or a body that is no JSON.",
                "`detail` says what; correct the client.",
            ),
            Self::InvalidApiKey => (
                "invalid-api-key",
                StatusCode::UNAUTHORIZED,
                "The key in `X-Api-Key` is missing, inactive, of the older API, or of another tenant than the host's.",
                "Send an active key of the tenant. The portal lists them under *API keys*, by name and fingerprint.",
            ),
            Self::InvalidToken => (
                "invalid-token",
                StatusCode::UNAUTHORIZED,
                "The Bearer token is missing, has expired, was ended by a sign-out, or is another tenant's.",
                "Get another one from `POST /Auth/Token`, on the legacy host from `POST /Session/Create`.",
            ),
            Self::UnknownClusterUser => (
                "unknown-cluster-user",
                StatusCode::UNAUTHORIZED,
                "The Bearer token of `kubectl docket` is missing, or the cluster's API server does not know it.",
                "Sign in to the cluster again, or give `--account`.",
            ),
            Self::ApiAccessOff => (
                "api-access-off",
                StatusCode::FORBIDDEN,
                "The hexadecimal API key was sent as client code to the legacy host.",
                "Send the tenant's client code.",
            ),
            Self::NotAdministrator => (
                "not-administrator",
                StatusCode::FORBIDDEN,
                "Webhook logs are for the tenant's administrators.",
                "Sign in as an employee who is an administrator.",
            ),
            Self::NoClusterRight => (
                "no-cluster-right",
                StatusCode::FORBIDDEN,
                "The user of the cluster lacks a right, which `detail` names.",
                "Have it granted: [kubectl docket](kubectl-docket.md#rights) lists the rights of each command.",
            ),
            Self::ForeignForm => (
                "foreign-form",
                StatusCode::FORBIDDEN,
                "A form of the portal came from a page of another site or of another session, or was opened over plain HTTP; `detail` \
                 says which.",
                "Open the page again, over HTTPS, and send the form from there.",
            ),
            Self::TenantNotFound => (
                "tenant-not-found",
                StatusCode::NOT_FOUND,
                "The request has no key, and no tenant has the host's subdomain.",
                "Send `X-Api-Key`, or ask at the tenant's host.",
            ),
            Self::UnknownUser => (
                "unknown-user",
                StatusCode::NOT_FOUND,
                "No active contact or employee of the tenant has this user id and password.",
                "Correct the user id or the password.",
            ),
            Self::NotFound => (
                "not-found",
                StatusCode::NOT_FOUND,
                "What the request names does not exist, or not for this user.",
                "Correct the id. A contact sees what is its customer's.",
            ),
            Self::NoSuchRoute => (
                "no-such-route",
                StatusCode::NOT_FOUND,
                "The path is none of the API. Paths are case-sensitive and end without a slash.",
                "Correct the path; `/swagger/` has all of them.",
            ),
            Self::MethodNotAllowed => (
                "method-not-allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "The route takes another method.",
                "Use one of the header `Allow`.",
            ),
            Self::BodyTooSlow => (
                "body-too-slow",
                StatusCode::REQUEST_TIMEOUT,
                "The body did not arrive in time.",
                "Send it again, from a better connection.",
            ),
            Self::Conflict => (
                "conflict",
                StatusCode::CONFLICT,
                "The request does not fit what is stored, or its `Idempotency-Key` was used for another request.",
                "`detail` says what; read the present state before you decide.",
            ),
            Self::RefusedByCluster => (
                "refused-by-cluster",
                StatusCode::CONFLICT,
                "The cluster does not accept the Webhook that the portal declares.",
                "`detail` is what the API server says; correct the form, or ask who runs the cluster.",
            ),
            Self::BodyTooLong => (
                "body-too-long",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is longer than the route takes, which `detail` says in bytes.",
                "Send less, such as fewer notes at once.",
            ),
            Self::UnsupportedMediaType => (
                "unsupported-media-type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body is not `application/json`, or is compressed.",
                "Send `Content-Type: application/json` and the plain bytes.",
            ),
            Self::TooManySignIns => (
                "too-many-sign-ins",
                StatusCode::TOO_MANY_REQUESTS,
                "Too many sign-ins of this user, or from this address, have failed.",
                "Wait for the seconds in `Retry-After`. More guesses make it longer.",
            ),
            Self::AtLimit => (
                "at-limit",
                StatusCode::TOO_MANY_REQUESTS,
                "The tenant is at one of its limits, which `limit` names: `requestsPerSecond`, `signInsPerMinute` or `databaseConnections`.",
                "Wait for the seconds in `Retry-After`; who runs the platform sets [the limits](limits.md).",
            ),
            Self::InternalError => (
                "internal-error",
                StatusCode::INTERNAL_SERVER_ERROR,
                "Docket has a bug, or the tenant's database has tables that are not Docket's.",
                "Name the `requestId` to who runs the platform: the log has the cause under it.",
            ),
            Self::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                "The tenant's database is away, locked or full, or too many of the tenant's sign-ins, large bodies or large \
                 responses are under way.",
                "Send the request again after the seconds in `Retry-After`, a write with the same `Idempotency-Key`: it may \
                 just have been done.",
            ),
            Self::ClusterAway => (
                "cluster-away",
                StatusCode::SERVICE_UNAVAILABLE,
                "The cluster's API server can't be asked, or did not answer. `detail` says whether a change may have been made.",
                "Try again; if the change may have been made, look first.",
            ),
        };
        Described { name, status, cause, remedy }
    }
}

/// docs/reference/problems.md.
pub fn page() -> String {
    let mut page = "# Problems\n\nEvery response of the API that is not a success is a problem of RFC 9457, `application/problem+json`. \
                    Its `type` leads to a\nheading of this page, `detail` says what is wrong in this case, and `requestId` finds the \
                    request in the log. Programs decide by\n`type` and `status`; `detail` is for people and may change.\n\n\
                    This page is generated: `UPDATE_DOCS=1 cargo test -p docket-tests --test docket story::reference`.\n"
        .to_owned();
    for one in ProblemType::ALL {
        let Described { name, status, cause, remedy } = one.described();
        // A String takes every write.
        let _ = write!(page, "\n## {name}\n\n{}. {cause}\n\n{remedy}\n", status.as_u16());
    }
    page
}
