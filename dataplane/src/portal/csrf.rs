//! The proofs that a page of the session has sent a form: a token in the form, and what the browser says of the form's origin.

use docket_domain::token::claimed_session;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use sha2::Sha256;
use url::Url;

use crate::http::error::ApiError;

/// The token that the forms of a session carry. Only the session's pages can know it: scripts and other sites can't read the cookie.
/// It stays the same when the session is renewed, so that a form of an earlier page is accepted. `user`: whose form it is, which says
/// after the end of the session who may still send it.
pub(super) fn csrf_of(token: &str, user: &str) -> String {
    format!("{} {user}", hex::encode(mac_of(token).finalize().into_bytes()))
}

/// Whether a form with this token is of the session that has `token`.
pub(super) fn is_csrf_of(token: &str, csrf: &str) -> bool {
    let mac = csrf.split_once(' ').map_or(csrf, |(mac, _)| mac);
    hex::decode(mac).is_ok_and(|mac| mac_of(token).verify_slice(&mac).is_ok())
}

/// The user whose form has this token; `None`: the token does not say.
pub(super) fn user_of(csrf: &str) -> Option<&str> {
    csrf.split_once(' ').map(|(_, user)| user).filter(|user| !user.is_empty())
}

fn mac_of(token: &str) -> Hmac<Sha256> {
    // A session of an older version has no id.
    let session = claimed_session(token).unwrap_or_else(|| token.to_owned());
    let mac = Hmac::<Sha256>::new_from_slice(session.as_bytes()).expect("HMAC takes a key of any length");
    mac.chain_update(b"a form of the portal")
}

/// Refuses a form that another site has sent, of the same base domain or not.
pub(super) fn check_origin(parts: &Parts) -> Result<(), ApiError> {
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
    use axum::body::Body;
    use axum::extract::Request;

    use super::*;

    #[test]
    fn token_of_a_form_is_of_one_session_and_says_whose_form_it_is() {
        let csrf = csrf_of("one", "employee 52");
        assert!(is_csrf_of("one", &csrf) && !is_csrf_of("two", &csrf));
        assert!(is_csrf_of("one", &csrf[..64]), "the user is no proof");
        assert!(!is_csrf_of("one", &csrf[2..]) && !is_csrf_of("one", ""));
        assert_eq!(user_of(&csrf), Some("employee 52"));
        assert_eq!([&csrf[..64], &csrf[..65], ""].map(user_of), [None; 3]);
    }

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
        for local in ["localhost", "acme.localhost", "127.0.0.1", "[::1]"] {
            assert!(is_origin_of(&format!("http://{local}"), &format!("{local}:80")), "{local}");
        }
        assert!(!is_origin_of("http://evillocalhost", "evillocalhost"), "it may be on another machine");
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
}
