//! Sessions of the portal: the API's token in a cookie, and the proofs that a form was sent by a page of the session.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Redirect, Response};
use docket_listener::fair_share::Share;
use docket_portal::page::Frame;
use docket_portal::{ROOT, href};
use hmac::{Hmac, KeyInit, Mac};
use http::header::{COOKIE, HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method};
use sha2::Sha256;
use url::Url;

use crate::api::body::LIMIT;
use crate::api::caller::{Caller, WebhookManager};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::host::{HostKind, host};
use crate::api::request::FromFields;
use crate::api::state::ApiState;
use crate::api::tenant::Addressed;
use crate::tenants::ServedTenant;

/// The kind of the session's cookie. No header of a request decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookies {
    /// `__Host-docket`: browsers send it over HTTPS only, or over HTTP to their own machine.
    Secure,
    /// `docket`, for plain HTTP on this machine.
    Plain,
}

impl Cookies {
    /// The kind for `docket dev`, which listens here.
    pub fn of_dev(listen: SocketAddr) -> Self {
        if listen.ip().is_loopback() { Self::Plain } else { Self::Secure }
    }

    /// The kind that the router was made with.
    pub fn of(parts: &Parts) -> Result<Self, ApiError> {
        parts.extensions.get().copied().ok_or(ApiError::Internal)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-docket",
            Self::Plain => "docket",
        }
    }

    /// `Set-Cookie` for a token that is valid for this many seconds; with 0 the browser forgets it.
    pub fn set(self, token: &str, seconds: u64) -> Result<HeaderValue, ApiError> {
        let secure = match self {
            Self::Secure => "; Secure",
            Self::Plain => "",
        };
        let name = self.name();
        let text = format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut value = HeaderValue::try_from(text).map_err(|_| ApiError::Internal)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// What the forms of the request's session carry; `None`: it has none.
    pub fn csrf(self, headers: &HeaderMap) -> Option<String> {
        self.token(headers).map(csrf_of)
    }

    /// The token of a request. Two cookies of the name are none: a host above this one may have set the other.
    fn token(self, headers: &HeaderMap) -> Option<&str> {
        let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = sent.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut tokens = pairs.filter(|(name, _)| *name == self.name()).map(|(_, token)| token);
        let first = tokens.next();
        first.filter(|_| tokens.next().is_none())
    }
}

/// The tenant of a page: by the host alone.
pub fn tenant_of(parts: &Parts, state: &ApiState) -> Result<Arc<ServedTenant>, ApiError> {
    match host(parts)?.map(|host| state.hosts.kind(&host)) {
        Some(HostKind::Subdomain(label)) => {
            state.tenants.by_subdomain(&label).ok_or(ApiError::TenantNotFound)
        }
        Some(HostKind::Legacy) => Err(ApiError::NoSuchRoute),
        Some(HostKind::Base) | None => Err(ApiError::NotFound(
            "This address names no tenant; open /portal at the tenant's own subdomain, such as acme.localhost for docket dev on localhost",
        )),
    }
}

/// A tenant's name for people.
pub fn name_of(tenant: &ServedTenant) -> String {
    let config = &tenant.config;
    config.display_name.clone().unwrap_or_else(|| config.client_code.as_str().to_owned())
}

/// A signed-in user that may see the portal, by the database's last word: an administrator of the tenant, or a contact that
/// manages the webhooks of its customer, which [`Caller`] names. A handler with
/// this argument can't forget the check.
pub struct Viewer {
    /// The user, as the API knows it.
    pub caller: Caller,
    csrf: String,
    /// Of the form that it has sent.
    _body: Option<Share>,
}

impl Viewer {
    /// What is around the user's pages.
    pub fn frame(&self, state: &ApiState) -> Frame {
        Frame {
            tenant: name_of(&self.caller.tenant),
            user: self.caller.name(),
            csrf: self.csrf.clone(),
            now: state.clock.now(),
            is_of_tenant: self.caller.customer.is_none(),
        }
    }

    /// Refuses a page that concerns the whole tenant to a contact, which manages its customer's webhooks.
    pub fn must_be_administrator(&self) -> Result<(), ApiError> {
        match self.caller.customer {
            None => Ok(()),
            Some(_) => Err(ApiError::NotAdministrator),
        }
    }
}

/// Why there is no viewer.
pub enum Refused {
    /// The user has to sign in, to come back here.
    SignIn(String),
    /// Another reason.
    Api(ApiError),
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(to) => Redirect::to(&to).into_response(),
            Self::Api(error) => error.into_response(),
        }
    }
}

fn to_sign_in(parts: &Parts) -> Refused {
    let back = match (&parts.method, parts.uri.path_and_query()) {
        (&Method::GET, Some(path)) => path.as_str(),
        _ => ROOT,
    };
    Refused::SignIn(href(&format!("{ROOT}/sign-in"), [("to", back)]))
}

impl FromRequestParts<Arc<ApiState>> for Viewer {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, Refused> {
        let tenant = tenant_of(parts, state)?;
        let Some(token) = Cookies::of(parts)?.token(&parts.headers) else { return Err(to_sign_in(parts)) };
        let caller = match Caller::of_token(Addressed::Tenant(tenant), token, parts, state).await {
            Err(ApiError::InvalidToken) => return Err(to_sign_in(parts)),
            caller => caller?,
        };
        let csrf = csrf_of(token);
        let WebhookManager(caller) = WebhookManager::of_caller(caller, state).await?;
        Ok(Self { caller, csrf, _body: None })
    }
}

/// What each form of a session carries.
fn csrf_of(token: &str) -> String {
    hex::encode(form_mac(token).finalize().into_bytes())
}

/// What only the pages of a session can know: its cookie is unreadable for scripts and other sites.
fn form_mac(token: &str) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes a key of any length");
    mac.chain_update(b"a form of the portal")
}

/// A form without fields of its own.
impl FromForm for () {
    fn from_form(pairs: Vec<(String, String)>) -> Result<(), ApiError> {
        Fields::of_pairs(pairs).finish()
    }
}

/// A form that a page of the viewer's session has sent.
pub struct Posted<F> {
    /// The user.
    pub viewer: Viewer,
    /// The fields. Empty ones count as absent.
    pub form: F,
}

/// What the fields of a form are read into; `csrf` is not among them.
pub trait FromForm: Sized {
    /// Reads the fields that were filled in.
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError>;
}

impl<F: FromFields> FromForm for F {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        F::read(Fields::of_pairs(pairs))
    }
}

impl<F: FromForm> FromRequest<Arc<ApiState>> for Posted<F> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, Refused> {
        let (mut parts, body) = request.into_parts();
        check_origin(&parts)?;
        let mut viewer = Viewer::from_request_parts(&mut parts, state).await?;
        let (pairs, share) = fields_of_session(&parts, body, &viewer.caller.tenant, state).await?;
        viewer._body = share;
        Ok(Self { viewer, form: F::from_form(pairs)? })
    }
}

/// A form without fields of its own that a page of the session has sent, whatever its user may still see.
pub struct PostedByAnyone;

impl FromRequest<Arc<ApiState>> for PostedByAnyone {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, Refused> {
        let (parts, body) = request.into_parts();
        check_origin(&parts)?;
        let tenant = tenant_of(&parts, state)?;
        if Cookies::of(&parts)?.token(&parts.headers).is_none() {
            return Err(to_sign_in(&parts));
        }
        fields_of_session(&parts, body, &tenant, state).await?;
        Ok(Self)
    }
}

/// The names and values of a form, without `csrf`, which proves that a page of the session has sent it; and its share of the
/// memory.
async fn fields_of_session(
    parts: &Parts,
    body: Body,
    tenant: &ServedTenant,
    state: &ApiState,
) -> Result<(Vec<(String, String)>, Option<Share>), ApiError> {
    let arrived = state.bodies.read_form(&tenant.config.uid, &parts.headers, body, LIMIT).await?;
    let (csrf, pairs): (Vec<_>, Vec<_>) =
        pairs_of(&arrived.bytes)?.into_iter().partition(|(name, _)| name == "csrf");
    let sent = csrf.first().and_then(|(_, sent)| hex::decode(sent).ok());
    let token = Cookies::of(parts)?.token(&parts.headers).ok_or(ApiError::Internal)?;
    match sent.map(|sent| form_mac(token).verify_slice(&sent)) {
        Some(Ok(())) => Ok((pairs, arrived.share)),
        Some(Err(_)) | None => Err(ApiError::ForeignForm),
    }
}

/// The names and values of a form.
fn pairs_of(bytes: &[u8]) -> Result<Vec<(String, String)>, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ApiError::BadRequest("The form is not UTF-8"))?;
    Ok(set(text))
}

/// The fields of a form.
pub fn fields_of_form(bytes: &[u8]) -> Result<Fields<'static>, ApiError> {
    Ok(Fields::of_pairs(pairs_of(bytes)?))
}

/// The names and values of a form or a query. A browser sends a field that was left empty as an empty text; it is left out.
pub fn set(urlencoded: &str) -> Vec<(String, String)> {
    let pairs = url::form_urlencoded::parse(urlencoded.as_bytes()).into_owned();
    pairs.filter(|(_, value)| !value.is_empty()).collect()
}

/// Refuses a form that another site has sent, of the same base domain or not.
pub fn check_origin(parts: &Parts) -> Result<(), ApiError> {
    let one = |name| {
        let mut sent = parts.headers.get_all(name).iter();
        let first = sent.next().and_then(|value| value.to_str().ok());
        first.filter(|_| sent.next().is_none())
    };
    let host = parts.uri.authority().map(Authority::as_str).or_else(|| one(HOST));
    let site = parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let origin = one(ORIGIN);
    let over_https =
        origin.and_then(|origin| origin.strip_prefix("http:")).map(|rest| format!("https:{rest}"));
    match is_same_origin(origin, site, host) {
        true => Ok(()),
        false if is_same_origin(over_https.as_deref(), site, host) => Err(ApiError::PlainHttp),
        false => Err(ApiError::ForeignForm),
    }
}

/// Whether a browser says that a page of `host` has sent a request. It may hide the origin as `null`; then the site decides.
fn is_same_origin(origin: Option<&str>, site: Option<&[u8]>, host: Option<&str>) -> bool {
    let same_site = site.map(|site| site == b"same-origin");
    match origin.filter(|origin| *origin != "null") {
        Some(origin) => host.is_some_and(|host| is_origin_of(origin, host)) && same_site != Some(false),
        None => same_site == Some(true),
    }
}

fn is_origin_of(origin: &str, host: &str) -> bool {
    let (Ok(origin), Ok(host)) = (Url::parse(origin), host.parse::<Authority>()) else { return false };
    let name = host.host().trim_end_matches('.');
    let is_local =
        name == "localhost" || name.ends_with(".localhost") || name == "127.0.0.1" || name == "[::1]";
    let default = match origin.scheme() {
        "https" => 443,
        "http" if is_local => 80,
        _ => return false,
    };
    let same_name = origin.host_str().is_some_and(|other| other.eq_ignore_ascii_case(name));
    same_name && origin.port().unwrap_or(default) == host.port_u16().unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_another_origin_is_foreign() {
        let host = Some("acme.example");
        for (origin, site, same) in [
            (Some("https://acme.example"), Some("same-origin"), true),
            (Some("https://ACME.example:443"), None, true),
            (Some("null"), Some("same-origin"), true),
            (None, Some("same-origin"), true),
            (None, None, false),
            (Some("null"), None, false),
            (Some("null"), Some("cross-site"), false),
            (None, Some("same-site"), false),
            (None, Some("none"), false),
            (Some("https://acme.example"), Some("same-site"), false),
            (Some("http://acme.example"), None, false),
            (Some("https://bolt.example"), None, false),
            (Some("https://acme.example.evil"), None, false),
            (Some("https://acme.example:8443"), None, false),
            (Some("acme.example"), None, false),
        ] {
            assert_eq!(is_same_origin(origin, site.map(str::as_bytes), host), same, "{origin:?} {site:?}");
        }
        assert!(is_origin_of("http://acme.localhost:8080", "acme.localhost:8080"));
        assert!(!is_origin_of("http://acme.localhost:8080", "acme.localhost:8081"));
        assert!(!is_same_origin(Some("https://acme.example"), None, None));
    }

    #[test]
    fn form_of_a_page_over_plain_http_is_refused_as_such() {
        let checked = |origin: &str, host: &str| {
            let request = Request::post("/portal/sign-in").header(HOST, host).header(ORIGIN, origin);
            check_origin(&request.body(Body::empty()).expect("a request").into_parts().0)
        };
        assert!(checked("https://acme.example", "acme.example").is_ok());
        assert!(matches!(checked("http://acme.example", "acme.example"), Err(ApiError::PlainHttp)));
        assert!(matches!(checked("http://bolt.example", "acme.example"), Err(ApiError::ForeignForm)));
        assert!(matches!(checked("https://bolt.example", "acme.example"), Err(ApiError::ForeignForm)));
    }

    #[test]
    fn cookie_of_the_name_counts_only_if_it_is_the_only_one() {
        let token = |sent: &[&str]| {
            let mut headers = HeaderMap::new();
            for text in sent {
                headers.append(COOKIE, HeaderValue::from_str(text).expect("ASCII"));
            }
            Cookies::Secure.token(&headers).map(str::to_owned)
        };
        assert_eq!(token(&["a=1; __Host-docket=t; docket=u"]), Some("t".to_owned()));
        assert_eq!(token(&["docket=u"]), None);
        assert_eq!(token(&["__Host-docket=t; __Host-docket=u"]), None);
        assert_eq!(token(&["__Host-docket=t", "__Host-docket=u"]), None);
    }
}
