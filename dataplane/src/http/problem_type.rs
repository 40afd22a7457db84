//! The types of problems. docs/reference/problems.md is generated from this file and has a heading for each type, to which the
//! `type` of a response leads.

use docket_docs::ROOT;
use http::StatusCode;

docket_crds::words! {
    /// The type of a problem, in the order of the statuses.
    #[expect(missing_docs, reason = "`description` says what each is")]
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

/// What the documentation says about a type.
pub struct TypeDescription {
    /// The status of the responses.
    pub status: StatusCode,
    /// What is wrong.
    pub cause: &'static str,
    /// What the author of a client does about it, and whether the client may repeat the request.
    pub remedy: &'static str,
}

impl ProblemType {
    /// The status of its responses.
    pub fn status(self) -> StatusCode {
        self.description().status
    }

    /// The value of `type`: the heading in the documentation of this program, relative to the API's own address.
    pub fn reference(self) -> String {
        format!("{ROOT}reference/problems.html#{self}")
    }

    /// What the documentation says about the type.
    pub fn description(self) -> TypeDescription {
        let (status, cause, remedy) = match self {
            Self::InvalidFields => (
                StatusCode::BAD_REQUEST,
                "Fields of the request are missing, unknown or wrong.",
                "`errors` names each of these fields by its path, such as `servees[0].party`, and says what is valid. Show all of them to the user at once. Do not repeat the same request: it fails again.",
            ),
            Self::InvalidRequest => (
                StatusCode::BAD_REQUEST,
                "The request itself is wrong: its headers, its host or its encoding, or its body is not JSON.",
                "`detail` says what is wrong. Correct the client, or the proxy in front of it that changes the request. Do not repeat the same request.",
            ),
            Self::InvalidApiKey => (
                StatusCode::UNAUTHORIZED,
                "The key in `X-Api-Key` is missing, inactive or for the older API, it was sent twice, or it belongs to another tenant than the host.",
                "Send an active key of the tenant in the header `X-Api-Key`, and not in the body. Or call the tenant's own host, which needs no key. The portal lists the keys under *API keys*, by name and fingerprint. Do not repeat the request with the same key.",
            ),
            Self::InvalidToken => (
                StatusCode::UNAUTHORIZED,
                "The Bearer token is missing, it has expired, a sign-out ended it, or it belongs to another tenant. If a token was sent, `WWW-Authenticate` has `error=\"invalid_token\"`.",
                "Get another token with `POST /Auth/Token`, on the legacy host with `POST /Session/Create`, and repeat the request once with it. If the new token is refused too, compare the host of the sign-in with the host of the request.",
            ),
            Self::UnknownClusterUser => (
                StatusCode::UNAUTHORIZED,
                "The Bearer token of `kubectl docket` is missing, or the cluster's API server does not know it.",
                "Sign in to the cluster again, or use `--account`. `kubectl auth whoami` shows which user the cluster knows.",
            ),
            Self::ApiAccessOff => (
                StatusCode::FORBIDDEN,
                "The client sent the hexadecimal API key as the client code to the legacy host.",
                "Send the tenant's short client code instead, such as `ACME`. To use the key, call the host of the current API, and send the key in `X-Api-Key`.",
            ),
            Self::NotAdministrator => (
                StatusCode::FORBIDDEN,
                "Only administrators of the tenant may read the webhook logs.",
                "Sign in with `POST /Employee/SignIn` as an employee who is an administrator. Contacts see the deliveries of their own customer in the [portal](../webhooks/portal.md), if they have the right to manage webhooks. Do not repeat the request with the same token.",
            ),
            Self::NoClusterRight => (
                StatusCode::FORBIDDEN,
                "The user of the cluster lacks the right that `detail` names.",
                "Ask an administrator of the cluster for this right. [kubectl docket](kubectl-docket.md#rights) lists the rights that each command needs. `kubectl auth can-i` shows whether you have it.",
            ),
            Self::ForeignForm => (
                StatusCode::FORBIDDEN,
                "A form of the portal was sent from another site, from another session or over plain HTTP. `detail` says which.",
                "Open the page again over HTTPS, and send the form from there. On your own machine, a host name below `localhost` works over plain HTTP too.",
            ),
            Self::TenantNotFound => (
                StatusCode::NOT_FOUND,
                "The request has no API key, and no tenant has the subdomain of its host.",
                "Send `X-Api-Key`, or send the request to the tenant's host. Correct the first label of the host: it is a subdomain of the tenant. If the host is right, ask the people who run Docket whether the tenant is suspended.",
            ),
            Self::UnknownUser => (
                StatusCode::NOT_FOUND,
                "No active contact or employee of the tenant has this user id and password.",
                "Correct the user id or the password. A contact signs in with an e-mail address at `POST /Auth/Token`, an employee with a check-in name at `POST /Employee/SignIn`. If you send `clientCode`, it must be the code of the tenant. Do not repeat the request: further failures make the next sign-ins wait.",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "What the request names does not exist, or this user may not see it.",
                "Correct the id. A contact sees only what belongs to the contact's own customer, so check which user's token the client sent. Do not repeat the same request.",
            ),
            Self::NoSuchRoute => (
                StatusCode::NOT_FOUND,
                "The API has no such path. Paths are case-sensitive, and do not end with a slash. `detail` names the path that is written almost like it.",
                "Correct the path. [HTTP API](http-api.md) lists all paths, and so does `/swagger/`.",
            ),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "The route does not accept this method.",
                "Use one of the methods in the header `Allow`. A page in a browser gets this response to its preflight request: [call from your server](../api/sign-in.md#call-from-your-server).",
            ),
            Self::BodyTooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "The body did not arrive in time.",
                "Repeat the request. Send a write with the same `Idempotency-Key`. If it happens often, look for a slow connection, or for a client that announces more bytes than it sends.",
            ),
            Self::Conflict => (
                StatusCode::CONFLICT,
                "The request does not fit the stored data.",
                "`detail` says what does not fit. Read the present state, for example with `GET /Orders/Get`, and decide by it. Do not repeat the same request: it fails until the state is another one.",
            ),
            Self::OrderChanged => (
                StatusCode::CONFLICT,
                "The order has another version than the `version` of the request, or another request changed it at the same time. Nothing was changed.",
                "Get the order, make the change in what you get, and save it with the `version` that it has now. [Lose no change](../api/orders.md#lose-no-change) shows how.",
            ),
            Self::IdempotencyKeyReused => (
                StatusCode::CONFLICT,
                "The `Idempotency-Key` was used for another request: another path, another body or another `If-Match`. Nothing was changed.",
                "Use a new key for a new request. For a repeat, send the same bytes with the same `If-Match` to the same path, so [store the body with the key](../api/retry-safely.md). A body that your program writes again can differ in its bytes.",
            ),
            Self::RefusedByCluster => (
                StatusCode::CONFLICT,
                "The cluster does not accept the Webhook that the portal declares.",
                "`detail` quotes the cluster's API server. Correct the form, or ask the people who run the cluster.",
            ),
            Self::PreconditionFailed => (
                StatusCode::PRECONDITION_FAILED,
                "The order has another version than the header `If-Match` names. Nothing was changed.",
                "Get the order, make the change in what you get, and send it with the `ETag` that it has now. [Lose no change](../api/orders.md#lose-no-change) shows how.",
            ),
            Self::BodyTooLong => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is longer than the route accepts. `detail` says how many bytes it accepts.",
                "Send less in one request: shorter texts, or fewer documents and parties. An order has at most 1 MiB, a sign-in 4 KiB, any other body 64 KiB. A tenant's own [limit](limits.md#of-one-tenant) for orders can be lower.",
            ),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body is not `application/json`, or it is compressed.",
                "Send `Content-Type: application/json`, and an uncompressed body without `Content-Encoding`. `curl -d` sends another type unless you add the header with `-H`.",
            ),
            Self::TooManySignIns => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many sign-ins of this user, or from this address, have failed.",
                "Wait for the seconds in `Retry-After`, then sign in with the right password. With each further failure the wait gets longer. A program that repeats a wrong password locks its own user out: let it stop after a 404.",
            ),
            Self::AtLimit => (
                StatusCode::TOO_MANY_REQUESTS,
                "The tenant is at one of its limits. `limit` names it: `requestsPerSecond`, `signInsPerMinute` or `databaseConnections`.",
                "Wait for the seconds in `Retry-After`, and repeat the request. If it happens often, send fewer requests at a time, or ask the people who run Docket for [another limit](limits.md#of-one-tenant).",
            ),
            Self::InternalError => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Docket has a bug, or the tenant's database has tables that are not Docket's.",
                "Repeat a write with the same `Idempotency-Key` a few times, with longer and longer pauses. If it fails again, report the `requestId` to the people who run Docket. They find the cause in the log by this id.",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The tenant's database does not respond, is locked or is full. Or too many sign-ins, large bodies or large responses of the tenant are in progress.",
                "Repeat the request after the seconds in `Retry-After`. Send a write with the same `Idempotency-Key`, because Docket may have stored it already. If it lasts for minutes, report it to the people who run Docket.",
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
