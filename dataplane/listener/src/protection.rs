//! The headers that protect browsers, on pages and on all other responses.

use axum::response::Response;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// No page uses a sensor, a camera or a payment.
const NO_PERMISSIONS: &str = "accelerometer=(), camera=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), payment=(), usb=()";
/// HTTPS only, for a year, for this host and not for its subdomains.
const STRICT_TRANSPORT: &str = "max-age=31536000";

/// The policy of a response that is not a page: it may neither load nor send anything.
const NO_PAGE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
);

/// Adds the headers to a response. It keeps a page's own Content-Security-Policy, and the Cache-Control of a response
/// that caches may keep.
pub fn protect(headers: &mut HeaderMap, is_https: bool) {
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(NO_PAGE);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in [
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (OPENER_POLICY, "same-origin"),
        (PERMISSIONS_POLICY, NO_PERMISSIONS),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_https {
        // From now on, the browser uses only HTTPS.
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(STRICT_TRANSPORT));
    }
}

/// Adds the headers to a response of a management port, which has neither HTTPS nor a proxy in front. Used as a layer.
pub async fn protected(mut response: Response) -> Response {
    protect(response.headers_mut(), false);
    response
}

/// Whether the request came over HTTPS, according to the proxy in front. A client that sends the proxy's header itself
/// affects only its own response.
pub fn is_https(headers: &HeaderMap) -> bool {
    let last = |name| headers.get_all(name).iter().next_back()?.to_str().ok()?.rsplit(',').next();
    let is = |scheme: &str| scheme.trim().trim_matches('"').eq_ignore_ascii_case("https");
    if let Some(scheme) = last(FORWARDED_PROTO) {
        return is(scheme);
    }
    let mut pairs =
        last(header::FORWARDED).unwrap_or_default().split(';').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, scheme)| name.trim().eq_ignore_ascii_case("proto") && is(scheme))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::map_response;
    use axum::routing::get;
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn the_proxy_in_front_says_whether_it_is_https() {
        for (lines, https) in [
            (&[][..], false),
            (&[("x-forwarded-proto", "https")], true),
            (&[("x-forwarded-proto", "HTTPS")], true),
            (&[("x-forwarded-proto", "http")], false),
            (&[("x-forwarded-proto", "https, http")], false),
            (&[("x-forwarded-proto", "http, https")], true),
            (&[("x-forwarded-proto", "httpsx")], false),
            (&[("forwarded", "for=192.0.2.1;proto=https")], true),
            (&[("forwarded", "for=192.0.2.1; Proto=\"https\"")], true),
            (&[("forwarded", "proto=https, for=192.0.2.1;proto=http")], false),
            (&[("forwarded", "for=\"https\"")], false),
        ] {
            assert_eq!(is_https(&headers(lines)), https, "{lines:?}");
        }
    }

    #[test]
    fn page_keeps_its_own_policy_and_any_other_response_may_do_nothing() {
        let own = "default-src 'self'";
        let mut page = headers(&[("content-security-policy", own), ("cache-control", "max-age=60")]);
        protect(&mut page, true);
        assert_eq!(page[header::CACHE_CONTROL], "max-age=60");
        assert_eq!(page[header::CONTENT_SECURITY_POLICY], own);
        assert_eq!(page[header::STRICT_TRANSPORT_SECURITY], STRICT_TRANSPORT);
        let mut other = HeaderMap::new();
        protect(&mut other, false);
        assert_eq!(other[header::CONTENT_SECURITY_POLICY], NO_PAGE);
        assert_eq!(other[header::CACHE_CONTROL], "no-store");
        assert!(!other.contains_key(header::STRICT_TRANSPORT_SECURITY));
    }

    #[tokio::test]
    async fn layer_protects_every_response_also_those_without_a_route() {
        let router = Router::new().route("/", get(async || "hello")).layer(map_response(protected));
        for (method, path, status) in [("GET", "/", 200), ("GET", "/nothing", 404), ("POST", "/", 405)] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
            let response = router.clone().oneshot(request).await.expect("an answer");
            assert_eq!(response.status(), status, "{method} {path}");
            let headers = response.headers();
            assert_eq!(headers[header::CONTENT_SECURITY_POLICY], NO_PAGE, "{method} {path}");
            assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{method} {path}");
            assert_eq!(headers[header::CACHE_CONTROL], "no-store", "{method} {path}");
        }
    }
}
