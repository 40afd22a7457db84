//! Routes and methods that do not exist, and the documentation.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use docket_tests::server::{Reply, request};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::rig::{Rig, bearer, captioned, get, problem, refused, save};

/// The last four are the documentation's own.
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
    ("GET", "/openapi/events.json"),
    ("GET", "/swagger"),
    ("GET", "/swagger/"),
];

async fn send(rig: &Rig, method: &str, path: &str) -> Reply {
    request(rig.server.api, method, path, &[], "").await.expect("an answer")
}

#[tokio::test]
async fn root_is_a_page_in_a_browser_and_a_problem_for_programs() {
    let rig = Rig::start().await;
    let at = rig.server.api;
    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = request(at, "GET", "/", &browser, "").await.expect("an answer");
    let kind = page.headers.get("content-type").map(String::as_str);
    assert_eq!((page.status, kind), (200, Some("text/html; charset=utf-8")));
    for link in ["href=\"/docs/\"", "href=\"/swagger/\"", "href=\"/openapi.json\""] {
        assert!(page.text().contains(link), "{link}: {page:?}");
    }
    for (path, accept) in [("/", "*/*"), ("/", "application/json"), ("/none", browser[0].1)] {
        let reply = request(at, "GET", path, &[("accept", accept)], "").await.expect("an answer");
        assert_eq!(reply.status, 404, "{path} {accept}");
        assert!(reply.text().contains("problems.html#no-such-route"), "{path} {accept}: {reply:?}");
    }
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
            "/v1/Auth/Token",
            "/api",
            "/Auth/Tokens",
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
    // A client can't add series, and its path may hold a name.
    let metrics = request(rig.server.management, "GET", "/metrics", &[], "").await.expect("metrics");
    let metrics = metrics.text();
    assert!(metrics.contains("docket_http_requests_total{route=\"unknown\",code=\"404\"} "), "{metrics}");
    assert!(!metrics.contains("passwd") && !rig.log.text().contains("passwd"), "{metrics}");
}

#[tokio::test]
async fn a_path_that_is_almost_a_route_gets_the_right_one() {
    let rig = Rig::start().await;
    for (sent, meant) in [
        ("/auth/token", "/Auth/Token"),
        ("/Auth/Token/", "/Auth/Token"),
        ("//Auth//Token", "/Auth/Token"),
        ("/api/v2/Orders/Search/?text=zq", "/Orders/Search"),
        ("/V2/WEBHOOKLOGS/GET", "/WebhookLogs/Get"),
        ("/employee/signin", "/Employee/SignIn"),
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let reply = send(&rig, method, sent).await;
            let detail = format!("There is no such route; did you mean {meant}? Paths are case-sensitive.");
            refused(&reply, 404, &detail);
            assert!(reply.text().contains("problems.html#no-such-route"), "{reply:?}");
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
    let routes = &ROUTES[..ROUTES.len() - 4];
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
async fn responses_over_https_keep_the_browser_there_and_all_are_protected() {
    const HSTS: &str = "strict-transport-security";
    let rig = Rig::start().await;
    let host = ("host", "acme.localhost");
    let paths = ["/swagger/", "/docs/", "/docs/search?q=a", "/portal", "/portal/sign-in", "/portal/nothing"];
    let other = ["/docs", "/docs/nothing", "/portal/", "/swagger/nothing.js", "/", "/nothing", "/%ff"];
    for path in paths.into_iter().chain(other).chain(ROUTES.iter().map(|(_, path)| *path)) {
        let by = async |scheme| get(rig.server.api, path, &[host, ("x-forwarded-proto", scheme)]).await;
        assert_eq!(
            by("https").await.headers.get(HSTS).map(String::as_str),
            Some("max-age=31536000"),
            "{path}"
        );
        assert!(!by("http").await.headers.contains_key(HSTS), "{path}");
        let reply = get(rig.server.api, path, &[host]).await;
        assert!(!reply.headers.contains_key(HSTS), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(reply.headers.get(name).map(String::as_str), Some(value), "{path}: {name}");
        }
        let policy = reply.headers.get("content-security-policy").map_or("", String::as_str);
        for part in ["default-src '", "form-action '", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{path}: {part}: {policy}");
        }
        let permissions = reply.headers.get("permissions-policy");
        assert!(permissions.is_some_and(|policy| policy.contains("camera=()")), "{path}");
    }
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

#[tokio::test]
async fn every_response_of_the_management_port_has_the_headers_that_protect_browsers() {
    let rig = Rig::start().await;
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nothing", 404),
        ("GET", "/%ff", 404),
        ("POST", "/metrics", 405),
    ] {
        let reply = request(rig.server.management, method, path, &[], "").await.expect("an answer");
        assert_eq!(reply.status, status, "{path}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(reply.headers.get(name).map(String::as_str), Some(value), "{method} {path}: {name}");
        }
        assert!(reply.headers["content-security-policy"].starts_with("default-src 'none'"), "{path}");
    }
}

/// The first line of the response to a request from another address of this machine.
async fn status_from(source: u8, server: SocketAddr, path: &str) -> std::io::Result<String> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, source], 0).into())?;
    let mut client = socket.connect(server).await?;
    client
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).lines().next().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_read_the_metrics_at_once_keep_no_probe_waiting() {
    let rig = Rig::start().await;
    let management = rig.server.management;
    let until = Instant::now() + Duration::from_secs(4);
    // The readers and the probe are fewer than the connections of the port: beyond its limit, an old connection ends for a new
    // one.
    let readers: Vec<_> = (2..=61)
        .map(|source| {
            tokio::spawn(async move {
                let mut statuses = Vec::new();
                while Instant::now() < until {
                    statuses.extend(status_from(source, management, "/metrics").await);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                statuses
            })
        })
        .collect();
    while Instant::now() < until {
        for path in ["/healthz", "/readyz"] {
            let probe =
                tokio::time::timeout(Duration::from_secs(1), status_from(250, management, path)).await;
            let status = probe.expect("an answer within a second").expect("a response");
            assert_eq!(status, "HTTP/1.1 200 OK", "{path}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut statuses = Vec::new();
    for reader in readers {
        statuses.extend(reader.await.expect("no panic"));
    }
    let count = |status: &str| statuses.iter().filter(|line| line.contains(status)).count();
    assert!(count(" 200 ") > 10 && count(" 503 ") > 10, "{} and {}", count(" 200 "), count(" 503 "));
}
