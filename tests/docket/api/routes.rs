//! Routes and methods that do not exist, and the documentation.

use docket_tests::server::{Reply, request};
use docket_tests::stores;
use serde_json::Value;

use super::rig::{Rig, bearer, captioned, get, problem, refused, save};

/// The last three are the documentation's own.
const ROUTES: &[(&str, &str)] = &[
    ("POST", "/Auth/Token"),
    ("POST", "/Session/Create"),
    ("POST", "/Employee/SignIn"),
    ("POST", "/Orders/Save"),
    ("POST", "/Orders/Export"),
    ("GET", "/Orders/Get"),
    ("GET", "/Orders/Search"),
    ("POST", "/Notes/Add"),
    ("GET", "/Notes/Search"),
    ("GET", "/ProcessStatus/Search"),
    ("GET", "/Invoices/Search"),
    ("GET", "/WebhookLogs/Search"),
    ("GET", "/WebhookLogs/Get"),
    ("POST", "/WebhookLogs/Resend"),
    ("POST", "/WebhookLogs/StopResend"),
    ("POST", "/WebhookLogs/SetAside"),
    ("POST", "/WebhookLogs/UndoSetAside"),
    ("GET", "/WebhookLogs/Resends"),
    ("GET", "/openapi.json"),
    ("GET", "/swagger"),
    ("GET", "/swagger/"),
];

async fn send(rig: &Rig, method: &str, path: &str) -> Reply {
    request(rig.server.api, method, path, &[], "").await.expect("an answer")
}

#[tokio::test]
async fn a_wrong_method_gets_405_and_the_allowed_ones() {
    let rig = Rig::start().await;
    for &(right, path) in ROUTES {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "FOO"] {
            if method == right {
                continue;
            }
            let reply = send(&rig, method, path).await;
            assert_eq!(reply.status, 405, "{method} {path}: {reply:?}");
            refused(&reply, 405, "This route does not accept this method; see the Allow header");
            let allow = if right == "GET" { "GET,HEAD" } else { "POST" };
            assert_eq!(reply.headers["allow"], allow, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn an_unknown_route_is_a_problem_whatever_the_method() {
    let rig = Rig::start().await;
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS"] {
        for path in [
            "/",
            "/Auth",
            "/auth/token",
            "/Auth/Token/",
            "//Auth/Token",
            "/Auth/Token%20",
            "/Auth%2FToken",
            "/../etc/passwd",
            "/Orders",
            "/Orders/Delete",
            "/healthz",
            "/metrics",
            "/%00",
            "/%ff",
            "/😀",
            "/.env",
        ] {
            let path = path.replace('😀', "%F0%9F%98%80");
            let reply = send(&rig, method, &path).await;
            refused(&reply, 404, "There is no such route; see /swagger");
        }
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("x")).await;
    let token = bearer(&ada);
    let headers = [("x-api-key", ada.key.as_str()), ("authorization", token.as_str())];
    for (path, status) in [(format!("/Orders/Get?webOrderId={id}"), 200), ("/Orders/Get".to_owned(), 400)] {
        let reply = request(rig.server.api, "HEAD", &path, &headers, "").await.expect("an answer");
        assert_eq!((reply.status, reply.body.len()), (status, 0));
    }
    assert_eq!(
        request(rig.server.api, "HEAD", "/Auth/Token", &headers, "").await.expect("an answer").status,
        405
    );
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own_and_is_not_stored_by_caches() {
    let rig = Rig::start().await;
    let mut ids = std::collections::BTreeSet::new();
    for path in ["/", "/Orders/Search", "/Auth/Token", "/Orders/Get"] {
        let reply = get(rig.server.api, path, &[("x-request-id", "chosen-by-the-client")]).await;
        assert_eq!(reply.headers["cache-control"], "no-store");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        ids.insert(reply.headers["x-request-id"].clone());
    }
    assert!(ids.len() == 4 && !ids.contains("chosen-by-the-client"), "{ids:?}");
}

#[tokio::test]
async fn the_documentation_needs_no_credentials_and_names_both() {
    let rig = Rig::start().await;
    let document: Value = get(rig.server.api, "/openapi.json", &[]).await.json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let schemes = document["components"]["securitySchemes"].as_object().expect("schemes");
    assert_eq!(schemes.keys().map(String::as_str).collect::<Vec<_>>(), ["ApiKey", "Bearer"]);
    let documented: Vec<&str> =
        document["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    let routes = &ROUTES[..ROUTES.len() - 3];
    for (_, path) in routes {
        assert!(documented.contains(path), "{path}");
    }
    assert_eq!(documented.len(), routes.len());
    let redirect = get(rig.server.api, "/swagger", &[]).await;
    assert_eq!((redirect.status, redirect.headers["location"].as_str()), (308, "/swagger/"));
    let page = get(rig.server.api, "/swagger/", &[]).await;
    assert!(
        page.status == 200 && page.headers["content-type"].starts_with("text/html"),
        "{:?}",
        page.headers
    );
    for part in ["default-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"] {
        assert!(page.headers["content-security-policy"].contains(part), "{part}: {:?}", page.headers);
    }
    assert_eq!(page.headers["cross-origin-opener-policy"], "same-origin");
    assert!(page.headers["permissions-policy"].contains("camera=()"));
    assert_eq!(get(rig.server.api, "/swagger/swagger-ui-bundle.js", &[]).await.status, 200);
}

#[tokio::test]
async fn pages_that_came_over_https_keep_the_browser_there_and_others_say_nothing() {
    const HSTS: &str = "strict-transport-security";
    let rig = Rig::start().await;
    let host = ("host", "acme.localhost");
    let paths = ["/swagger/", "/docs/", "/docs/search?q=a", "/portal", "/portal/sign-in", "/portal/nothing"];
    // Servers have no portal.
    for path in paths.into_iter().filter(|path| !stores::are_servers() || !path.starts_with("/portal")) {
        let by = async |scheme| get(rig.server.api, path, &[host, ("x-forwarded-proto", scheme)]).await;
        assert_eq!(
            by("https").await.headers.get(HSTS).map(String::as_str),
            Some("max-age=31536000"),
            "{path}"
        );
        assert!(!by("http").await.headers.contains_key(HSTS), "{path}");
        assert!(!get(rig.server.api, path, &[host]).await.headers.contains_key(HSTS), "{path}");
    }
    let reply = get(rig.server.api, "/Orders/Search", &[("x-forwarded-proto", "https")]).await;
    assert!(!reply.headers.contains_key(HSTS), "{reply:?}");
}

#[tokio::test]
async fn files_beside_the_documentation_are_not_served() {
    let rig = Rig::start().await;
    for file in ["nope.js", "..%2f..%2fCargo.toml", "%2e%2e/Cargo.toml", "%ff", "%00", "a/b/c"] {
        let reply = get(rig.server.api, &format!("/swagger/{file}"), &[]).await;
        assert!((400..500).contains(&reply.status), "{file}: {reply:?}");
        problem(&reply, reply.status);
    }
}

#[tokio::test]
async fn the_management_port_has_no_api_and_the_api_port_no_management() {
    let rig = Rig::start().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(rig.server.management, path, &[]).await.status, 200, "{path}");
        assert_eq!(get(rig.server.api, path, &[]).await.status, 404, "{path}");
    }
    for (_, path) in ROUTES {
        assert_eq!(get(rig.server.management, path, &[]).await.status, 404, "{path}");
    }
    for path in ["/docs", "/docs/", "/docs/search?q=a", "/docs/reference/limits.html"] {
        assert_eq!(get(rig.server.management, path, &[]).await.status, 404, "{path}");
    }
}
