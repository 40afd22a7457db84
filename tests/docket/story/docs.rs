//! /docs/ and `docket docs`: the documentation as web pages.

use std::process::Command;

use docket_docs::Site;
use docket_rig::scratch::Folder;
use docket_tests::browser::Browser;
use docket_tests::server::{Options, Server, binary};

use crate::api::rig::{Rig, get, refused};
use crate::portal::browser::inspect::{complaints, wrong, wrong_in_short};
use crate::serve::stage::Stage;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

#[tokio::test]
async fn the_documentation_is_served_to_everyone_on_the_hosts_of_the_api() {
    let rig = Rig::start().await;
    let at = async |path: &str| get(rig.server.api, path, &[]).await;
    let redirect = at("/docs").await;
    assert_eq!((redirect.status, redirect.headers["location"].as_str()), (308, "/docs/"));
    for (path, kind, part) in [
        ("/docs/", "text/html; charset=utf-8", "Verify a delivery"),
        ("/docs/reference/problems.html", "text/html; charset=utf-8", "id=\"at-limit\""),
        ("/docs/search?q=idempotency+key", "text/html; charset=utf-8", "api/retry-safely.html#"),
        ("/docs/search", "text/html; charset=utf-8", "Give one or more words."),
        ("/docs/docs.css", "text/css; charset=utf-8", "--ground"),
        ("/docs/docs.js", "text/javascript; charset=utf-8", "use strict"),
        ("/docs/vectors.json", "application/json", "signature"),
        ("/docs/examples/acme.yaml", "text/plain; charset=utf-8", "kind: Tenant"),
    ] {
        let reply = at(path).await;
        assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, kind), "{path}");
        assert!(reply.text().contains(part), "{path}: {}", reply.text());
        assert_eq!(reply.headers["content-security-policy"], POLICY);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(reply.headers[name], value, "{path}");
        }
    }
    assert_eq!(at("/docs/images/overview.webp").await.headers["content-type"], "image/webp");
    let found = at("/docs/search?q=%3Cscript%3Ealert(1)%3C/script%3E").await;
    assert!(
        found.text().contains("&lt;script&gt;") && !found.text().contains("<script>"),
        "{}",
        found.text()
    );
    for missing in ["/docs/nothing.html", "/docs/..%2FCargo.toml", "/docs/%FF", "/docs/images/"] {
        let reply = at(missing).await;
        assert_eq!(
            (reply.status, reply.headers["content-type"].as_str()),
            (404, "text/html; charset=utf-8"),
            "{missing}"
        );
        assert_eq!(
            (&*reply.headers["content-security-policy"], &*reply.headers["cache-control"]),
            (POLICY, "no-store")
        );
        assert!(
            reply.text().contains("No such page") && reply.text().contains("action=\"/docs/search\""),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn pages_on_the_api_name_the_host_at_which_they_are_read() {
    let rig = Rig::start().await;
    let read = async |host: &str, scheme: &str| {
        let headers = [("host", host), ("x-forwarded-proto", scheme)];
        get(rig.server.api, "/docs/api/sign-in.html", &headers).await.text().to_owned()
    };
    let local = "http://acme.localhost:8080/Auth/Token";
    for (host, scheme, expected) in [
        ("acme.api.example.com", "https", "https://acme.api.example.com/Auth/Token"),
        ("acme.api.example.com:8081", "http", "http://acme.api.example.com:8081/Auth/Token"),
    ] {
        let page = read(host, scheme).await;
        assert!(
            page.contains(expected) && !page.contains(local) && !page.contains("in the repository"),
            "{page}"
        );
    }
    for host in ["acme.localhost:8080", "127.0.0.1:9000", "a'b.example"] {
        let page = read(host, "http").await;
        assert!(
            page.contains(local) && page.contains("in the repository") && !page.contains("b.example"),
            "{host}: {page}"
        );
    }
}

#[tokio::test]
async fn the_documentation_can_be_turned_off() {
    let stage = Stage::new().await;
    let on = stage.serve("api").await;
    assert_eq!(get(on.api, "/docs/", &[]).await.status, 200);
    let off = stage.spawn("api", "--docs off").ready(&stage.home).await;
    for path in [
        "/docs",
        "/docs/",
        "/docs/search?q=a",
        "/docs/reference/problems.html",
        "/swagger",
        "/swagger/",
        "/swagger/swagger-ui-bundle.js",
        "/openapi.json",
        "/openapi/events.json",
    ] {
        let text = "The documentation is turned off here; `docket docs` writes it as files";
        refused(&get(off.api, path, &[]).await, 404, text);
    }
    assert_eq!(get(off.api, "/Orders/Search", &[]).await.status, 401, "the API is served");
}

#[test]
fn the_documentation_is_written_as_files() {
    let folder = Folder::new("docs");
    let out = folder.path().join("site");
    let write = || Command::new(binary()).args(["docs", "--out"]).arg(&out).output().expect("it runs");
    let written = write();
    assert!(written.status.success(), "{written:?}");
    let site = Site::new(false);
    for path in site.paths() {
        let file = std::fs::read(out.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(file == site.get(&path).expect("it is there").bytes, "{path}");
    }
    let again = write();
    assert!(!again.status.success());
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(text.contains("site is not empty; name a folder that is empty"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_read_by_everyone_in_either_theme_at_any_width() {
    let home = docket_tests::server::Home::new();
    let server = Server::start(&home, Options::flags("")).await;
    let browser = Browser::open().await;
    let site = Site::new(true);
    let pages: Vec<String> = site.paths().filter(|path| path.ends_with(".html")).collect();
    let go = async |page: &str| {
        browser.go(&format!("http://{}/docs/{page}", server.api)).await;
        browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })").await;
    };
    let mut all = Vec::new();
    for page in &pages {
        go(page).await;
        all.extend(wrong_in_short(&browser).await.into_iter().map(|line| format!("{page}: {line}")));
    }
    for page in
        ["index.html", "start/embedded.html", "search?q=rotate+secret", "search?q=zzzz", "no/such-page.html"]
    {
        go(page).await;
        all.extend(wrong(&browser).await.into_iter().map(|line| format!("{page}: {line}")));
    }
    assert!(all.is_empty(), "{} findings:\n{}", all.len(), all.join("\n"));
    go("start/embedded.html").await;
    let buttons = "document.querySelectorAll('.copies > pre + button.copy').length > 3";
    assert_eq!(browser.look(buttons).await, Some(true.into()), "commands can be copied");
    let outputs = "document.querySelectorAll('.output button').length";
    assert_eq!(browser.look(outputs).await, Some(0.into()), "outputs have no button");
    let said = complaints(&browser).await;
    assert!(said.is_empty(), "{said:#?}");
}
