//! The types of problems. docs/reference/problems.md is generated from this file and has a heading for each type, to which the
//! `type` of a response leads.

use std::fmt::Write;

use docket_docs::ROOT;
use http::StatusCode;

docket_crds::words! {
    /// The type of a problem, in the order of the statuses.
    #[expect(missing_docs, reason = "`described` says what each is")]
    pub enum ProblemType {
        InvalidFields = "invalid-fields",
        InvalidRequest = "invalid-request",
        InvalidApiKey = "invalid-api-key",
        InvalidToken = "invalid-token",
        UnknownClusterUser = "unknown-cluster-user",
        ApiAccessOff = "api-access-off",
        NotAdministrator = "not-administrator",
        NoClusterRight = "no-cluster-right",
        ForeignForm = "foreign-form",
        TenantNotFound = "tenant-not-found",
        UnknownUser = "unknown-user",
        NotFound = "not-found",
        NoSuchRoute = "no-such-route",
        MethodNotAllowed = "method-not-allowed",
        BodyTooSlow = "body-too-slow",
        Conflict = "conflict",
        OrderChanged = "order-changed",
        IdempotencyKeyReused = "idempotency-key-reused",
        RefusedByCluster = "refused-by-cluster",
        PreconditionFailed = "precondition-failed",
        BodyTooLong = "body-too-long",
        UnsupportedMediaType = "unsupported-media-type",
        TooManySignIns = "too-many-sign-ins",
        AtLimit = "at-limit",
        InternalError = "internal-error",
        Unavailable = "unavailable",
        ClusterAway = "cluster-away",
    }
}

/// The text of the page about a type.
struct TypeDescription {
    status: StatusCode,
    cause: &'static str,
    remedy: &'static str,
}

impl ProblemType {
    /// The status of its responses.
    pub fn status(self) -> StatusCode {
        self.described().status
    }

    /// The value of `type`: the heading in the documentation of this program, relative to the API's own address.
    pub fn reference(self) -> String {
        format!("{ROOT}reference/problems.html#{self}")
    }

    fn described(self) -> TypeDescription {
        let (status, cause, remedy) = match self {
            Self::InvalidFields => (
                StatusCode::BAD_REQUEST,
                "Fields of the request are missing, unknown or wrong.",
                "`errors` names each of these fields and says what is valid. Correct all of them, and send the request again.",
            ),
            Self::InvalidRequest => (
                StatusCode::BAD_REQUEST,
                "The request itself is wrong: its headers, its host or its encoding, or its body is not JSON.",
                "`detail` says what is wrong. Correct the client.",
            ),
            Self::InvalidApiKey => (
                StatusCode::UNAUTHORIZED,
                "The key in `X-Api-Key` is missing, inactive or for the older API, it was sent twice, or it belongs to another tenant than the host.",
                "Send an active key of the tenant. The portal lists them under *API keys*, by name and fingerprint.",
            ),
            Self::InvalidToken => (
                StatusCode::UNAUTHORIZED,
                "The Bearer token is missing, it has expired, a sign-out ended it, or it belongs to another tenant. If a token was sent, `WWW-Authenticate` has `error=\"invalid_token\"`.",
                "Get another token with `POST /Auth/Token`, on the legacy host with `POST /Session/Create`.",
            ),
            Self::UnknownClusterUser => (
                StatusCode::UNAUTHORIZED,
                "The Bearer token of `kubectl docket` is missing, or the cluster's API server does not know it.",
                "Sign in to the cluster again, or use `--account`.",
            ),
            Self::ApiAccessOff => (
                StatusCode::FORBIDDEN,
                "The client sent the hexadecimal API key as the client code to the legacy host.",
                "Send the tenant's short client code instead.",
            ),
            Self::NotAdministrator => (
                StatusCode::FORBIDDEN,
                "Only administrators of the tenant may read the webhook logs.",
                "Sign in as an employee who is an administrator.",
            ),
            Self::NoClusterRight => (
                StatusCode::FORBIDDEN,
                "The user of the cluster lacks the right that `detail` names.",
                "Ask an administrator of the cluster for this right. [kubectl docket](kubectl-docket.md#rights) lists the rights that each command needs.",
            ),
            Self::ForeignForm => (
                StatusCode::FORBIDDEN,
                "A form of the portal was sent from another site, from another session or over plain HTTP. `detail` says which.",
                "Open the page again over HTTPS, and send the form from there. On your own machine, a host name below `localhost` works over plain HTTP too.",
            ),
            Self::TenantNotFound => (
                StatusCode::NOT_FOUND,
                "The request has no API key, and no tenant has the subdomain of its host.",
                "Send `X-Api-Key`, or send the request to the tenant's host.",
            ),
            Self::UnknownUser => (
                StatusCode::NOT_FOUND,
                "No active contact or employee of the tenant has this user id and password.",
                "Correct the user id or the password.",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "What the request names does not exist, or this user may not see it.",
                "Correct the id. A contact sees only what belongs to the contact's own customer.",
            ),
            Self::NoSuchRoute => (
                StatusCode::NOT_FOUND,
                "The API has no such path. Paths are case-sensitive, and do not end with a slash. `detail` names the path that is written almost like it.",
                "Correct the path. `/swagger/` lists all paths.",
            ),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "The route does not accept this method.",
                "Use one of the methods in the header `Allow`.",
            ),
            Self::BodyTooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "The body did not arrive in time.",
                "Send the request again over a better connection.",
            ),
            Self::Conflict => (
                StatusCode::CONFLICT,
                "The request does not fit the stored data.",
                "`detail` says what does not fit. Read the present state before you decide.",
            ),
            Self::OrderChanged => (
                StatusCode::CONFLICT,
                "The order has another version than the `version` of the request, or another request changed it at the same time. Nothing was changed.",
                "Get the order, make the change in what you get, and save it with the `version` that it has now.",
            ),
            Self::IdempotencyKeyReused => (
                StatusCode::CONFLICT,
                "The `Idempotency-Key` was used for another request: another path, another body or another `If-Match`. Nothing was changed.",
                "Use a new key for a new request. For a repeat, send the same bytes with the same `If-Match` to the same path.",
            ),
            Self::RefusedByCluster => (
                StatusCode::CONFLICT,
                "The cluster does not accept the Webhook that the portal declares.",
                "`detail` quotes the cluster's API server. Correct the form, or ask the people who run the cluster.",
            ),
            Self::PreconditionFailed => (
                StatusCode::PRECONDITION_FAILED,
                "The order has another version than the header `If-Match` names. Nothing was changed.",
                "Get the order, make the change in what you get, and send it with the `ETag` that it has now.",
            ),
            Self::BodyTooLong => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is longer than the route accepts. `detail` says how many bytes it accepts.",
                "Send less in one request.",
            ),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body is not `application/json`, or it is compressed.",
                "Send `Content-Type: application/json` and an uncompressed body.",
            ),
            Self::TooManySignIns => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many sign-ins of this user, or from this address, have failed.",
                "Wait for the seconds in `Retry-After`. With each further failure the wait gets longer.",
            ),
            Self::AtLimit => (
                StatusCode::TOO_MANY_REQUESTS,
                "The tenant is at one of its limits. `limit` names it: `requestsPerSecond`, `signInsPerMinute` or `databaseConnections`.",
                "Wait for the seconds in `Retry-After`. The people who run the platform can change [the limits](limits.md).",
            ),
            Self::InternalError => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Docket has a bug, or the tenant's database has tables that are not Docket's.",
                "Report the `requestId` to the people who run the platform. They find the cause in the log by this id.",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The tenant's database does not respond, is locked or is full. Or too many sign-ins, large bodies or large responses of the tenant are in progress.",
                "Send the request again after the seconds in `Retry-After`. Send a write with the same `Idempotency-Key`, because Docket may have stored it already.",
            ),
            Self::ClusterAway => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The cluster's API server can't be reached, or did not respond. `detail` says whether the change may have been made.",
                "Try again. If the change may have been made, first check whether it was.",
            ),
        };
        TypeDescription { status, cause, remedy }
    }
}

/// Generates docs/reference/problems.md.
pub fn page() -> String {
    let mut page = "# Problems\n\n<!-- This page is generated: UPDATE_DOCS=1 cargo test -p docket-tests --test docket story::reference -->\n\n\
                    Every response of the API that reports a failure is a problem of RFC 9457, \
                    `application/problem+json`. Its `type` leads to a\nheading of this page. `detail` says what is wrong in this \
                    case. Support finds the request in the log by its `requestId`. Write programs\nthat decide by `type` and \
                    `status`: `detail` is for people, and its text may change.\n"
        .to_owned();
    for one in ProblemType::ALL {
        let TypeDescription { status, cause, remedy } = one.described();
        // Writing to a String does not fail.
        let _ = write!(page, "\n## {one}\n\n{}. {cause}\n\n{remedy}\n", status.as_u16());
    }
    page
}
