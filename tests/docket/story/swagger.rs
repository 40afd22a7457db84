//! /swagger/ in a real browser: Chromium through ChromeDriver, spoken to in plain HTTP (WebDriver).

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_rig::scratch::Folder;
use docket_tests::server::{JSON, eventually, request};
use serde_json::{Value, json};

use super::example::{self, CONTACT, Running};

/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// A page that is slower than this is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// A browser with one page; closed when dropped.
struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
    /// Its profile, which is new.
    _profile: Folder,
}

impl Browser {
    async fn open() -> Self {
        let profile = Folder::new("chromium");
        let port = free_port();
        // Its own group, so that the browsers of a driver that is killed are ended with it.
        let driver = std::os::unix::process::CommandExt::process_group(&mut Command::new("chromedriver"), 0)
            .arg(format!("--port={port}"))
            // The browser keeps things in its user's home as well.
            .env("HOME", profile.path())
            .env("XDG_CONFIG_HOME", profile.path())
            .env("XDG_CACHE_HOME", profile.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("chromedriver can't be run ({error}); tests/run installs it and chromium")
            });
        let mut browser =
            Self { driver, at: ([127, 0, 0, 1], port).into(), session: String::new(), _profile: profile };
        eventually("chromedriver answers", PATIENCE, async || {
            request(browser.at, "GET", "/status", &[], "").await.is_ok_and(|reply| reply.status == 200)
        })
        .await;
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,1400",
            &format!("--user-data-dir={}", browser._profile.path().display()),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let reply = request(browser.at, "POST", "/session", &[JSON], &capabilities.to_string()).await;
        let reply = reply.expect("an answer");
        assert_eq!(reply.status, 200, "chromium does not start; tests/run installs it: {}", reply.text());
        browser.session = reply.json()["value"]["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// One command of WebDriver; `Err` holds what the driver says.
    async fn command(&self, method: &str, path: &str, body: Value) -> Result<Value, Value> {
        let path = format!("/session/{}{path}", self.session);
        let reply = request(self.at, method, &path, &[JSON], &body.to_string()).await.expect("an answer");
        let value = reply.json()["value"].take();
        if reply.status == 200 { Ok(value) } else { Err(value) }
    }

    async fn must(&self, method: &str, path: &str, body: Value) -> Value {
        self.command(method, path, body).await.unwrap_or_else(|said| panic!("{path}: {said}"))
    }

    async fn go(&self, url: &str) {
        self.must("POST", "/url", json!({"url": url})).await;
    }

    /// What a function body returns in the page.
    async fn run(&self, script: &str) -> Value {
        self.must("POST", "/execute/sync", json!({"script": script, "args": []})).await
    }

    /// The first element of a CSS selector, once it is there.
    async fn find(&self, css: &str) -> String {
        let mut found = None;
        eventually(&format!("{css} is there"), PATIENCE, async || {
            let query = json!({"using": "css selector", "value": css});
            found = self.command("POST", "/element", query).await.ok();
            found.is_some()
        })
        .await;
        found.expect("just found")[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Clicks as a user would: it must be visible, and nothing may cover it.
    async fn click(&self, css: &str) {
        eventually(&format!("{css} can be clicked"), PATIENCE, async || {
            let element = self.find(css).await;
            self.command("POST", &format!("/element/{element}/click"), json!({})).await.is_ok()
        })
        .await;
    }

    async fn enter(&self, css: &str, text: &str) {
        let element = self.find(css).await;
        self.must("POST", &format!("/element/{element}/value"), json!({"text": text})).await;
    }

    async fn text(&self, css: &str) -> String {
        let element = self.find(css).await;
        let text = self.must("GET", &format!("/element/{element}/text"), json!({})).await;
        text.as_str().expect("text").to_owned()
    }

    /// Entries of a log since the last look.
    async fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.must("POST", "/se/log", json!({"type": kind})).await;
        entries.as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The whole group: the driver and its browser.
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.driver.wait();
    }
}

/// The Authorize dialog, from open to closed, with one value entered.
async fn authorize(browser: &Browser, input: &str, value: &str) {
    browser.click(".scheme-container .authorize").await;
    let schemes = browser
        .run("return [...document.querySelectorAll('.modal-ux .auth-container h4')].map(e => e.innerText)")
        .await
        .to_string();
    assert!(schemes.contains("ApiKey") && schemes.contains("Bearer"), "{schemes}");
    browser.enter(input, value).await;
    let container = format!(".modal-ux .auth-container:has({input})");
    browser.click(&format!("{container} .auth-btn-wrapper .authorize")).await;
    eventually("it is authorized", PATIENCE, async || {
        browser
            .run("return document.querySelector('.modal-ux').innerText")
            .await
            .to_string()
            .contains("Authorized")
    })
    .await;
    browser.click(".modal-ux .btn-done").await;
}

/// The block of an operation.
fn of(path: &str) -> String {
    format!(".opblock:has([data-path='{path}'])")
}

/// Opens an operation, executes it as it stands; returns the status and the body of the live answer.
async fn execute(browser: &Browser, path: &str) -> (String, String) {
    let block = of(path);
    browser.click(&format!("{block} .opblock-summary-control")).await;
    browser.click(&format!("{block} .execute")).await;
    let live = format!("{block} .live-responses-table .response");
    let status = browser.text(&format!("{live} .response-col_status")).await;
    let body = browser.text(&format!("{live} .response-col_description .highlight-code pre")).await;
    (status.lines().next().unwrap_or_default().to_owned(), body)
}

#[tokio::test]
async fn the_documentation_works_in_a_browser() {
    let (home, receiver) = example::home();
    let running = Running::start(&home, receiver, "").await;
    let own = format!("http://{}/", running.server.api);
    let browser = Browser::open().await;
    browser.go(&format!("{own}swagger/")).await;

    let operations = "return document.querySelectorAll('.opblock').length";
    let document = running.server.send("GET", "/openapi.json", &[], "").await.json();
    let methods = document["paths"].as_object().expect("paths").values().filter_map(Value::as_object);
    // One in each of its sections.
    let shown: usize = methods
        .flat_map(|methods| methods.values())
        .filter_map(|one| Some(one["tags"].as_array()?.len()))
        .sum();
    assert!(shown > 7, "{shown}");
    eventually("all operations", PATIENCE, async || browser.run(operations).await == shown).await;
    assert!(browser.text(".info .title").await.starts_with("Docket"));

    authorize(&browser, "#api_key_value", &running.key("ACME")).await;
    let (status, body) = execute(&browser, "/Auth/Token").await;
    assert_eq!(status, "200", "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let token = answer["token"].as_str().expect("a token");
    let sent = browser.text(&format!("{} .curl", of("/Auth/Token"))).await;
    assert!(sent.contains(CONTACT), "the sample user is filled in: {sent}");

    authorize(&browser, "#auth-bearer-value", token).await;
    let (status, body) = execute(&browser, "/Orders/Save").await;
    assert_eq!(status, "200", "{body}");
    assert!(body.contains("\"webOrderId\"") && body.contains("\"Draft\""), "{body}");
    // Each of the seven examples can be chosen.
    let choices = format!("{} .opblock-section-request-body .examples-select option", of("/Orders/Save"));
    let choices = format!("return document.querySelectorAll(\"{choices}\").length");
    assert_eq!(browser.run(&choices).await, 7);

    let said: Vec<Value> = browser.log("browser").await;
    assert!(said.iter().all(|entry| entry["level"] != "SEVERE" && entry["level"] != "WARNING"), "{said:#?}");
    let mut requests = 0;
    for entry in browser.log("performance").await {
        let event: Value = serde_json::from_str(entry["message"].as_str().expect("text")).expect("JSON");
        let event = &event["message"];
        if event["method"] == "Network.requestWillBeSent" {
            let url = event["params"]["request"]["url"].as_str().expect("a URL");
            // Also the browser's own first page, which is within it.
            let elsewhere = url.starts_with("http") || url.starts_with("ws");
            assert!(url.starts_with(&own) || !elsewhere, "{url}");
            requests += usize::from(url.starts_with(&own));
        }
    }
    assert!(requests >= 5, "the log of requests is there: {requests}");
}
