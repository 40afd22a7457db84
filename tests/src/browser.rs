//! A real browser: Chromium through ChromeDriver, spoken to in plain HTTP (WebDriver).

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_rig::scratch::Folder;
use serde_json::{Value, json};

use crate::server::{JSON, eventually, request};

/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// A page that is slower than this is broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A browser with one page; closed when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
    /// Its profile, which is new.
    _profile: Folder,
}

impl Browser {
    /// Opens a browser with an empty page of 1280 × 1400 pixels.
    pub async fn open() -> Self {
        let profile = Folder::new("chromium");
        let port = free_port();
        // The driver has a process group of its own, so that its browsers end with it if it is killed.
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

    /// Opens a page.
    pub async fn go(&self, url: &str) {
        self.must("POST", "/url", json!({"url": url})).await;
    }

    /// Goes into the first frame of the page, until another page is opened.
    pub async fn enter_frame(&self) {
        self.must("POST", "/frame", json!({"id": 0})).await;
    }

    /// What a function body returns in the page.
    pub async fn run(&self, script: &str) -> Value {
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
    pub async fn click(&self, css: &str) {
        eventually(&format!("{css} can be clicked"), PATIENCE, async || {
            let element = self.find(css).await;
            self.command("POST", &format!("/element/{element}/click"), json!({})).await.is_ok()
        })
        .await;
    }

    /// Types into the element of a CSS selector.
    pub async fn enter(&self, css: &str, text: &str) {
        let element = self.find(css).await;
        self.must("POST", &format!("/element/{element}/value"), json!({"text": text})).await;
    }

    /// What an element shows.
    pub async fn text(&self, css: &str) -> String {
        let element = self.find(css).await;
        let text = self.must("GET", &format!("/element/{element}/text"), json!({})).await;
        text.as_str().expect("text").to_owned()
    }

    /// What the promise of an expression resolves to.
    pub async fn resolve(&self, expression: &str) -> Value {
        let script =
            format!("const [end] = arguments; ({expression}).then(end, (error) => end(String(error)))");
        self.must("POST", "/execute/async", json!({"script": script, "args": []})).await
    }

    /// One command of the DevTools protocol; `Err` holds what the driver says.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Result<Value, Value> {
        self.command("POST", "/goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    /// What an expression is in the page, also where the page itself may run no script; `None` while a page loads.
    pub async fn look(&self, expression: &str) -> Option<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.devtools("Runtime.evaluate", parameters).await.ok()?;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer:#}");
        Some(answer["result"]["value"].take())
    }

    /// Presses keys one after the other: characters, and the keys of [`keys`].
    pub async fn press(&self, keys: &str) {
        let of = |key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let actions: Vec<Value> = keys.chars().map(String::from).flat_map(of).collect();
        self.act(json!({"type": "key", "id": "keyboard", "actions": actions})).await;
    }

    /// Presses keys together.
    pub async fn press_together(&self, keys: &str) {
        let of = |what| keys.chars().map(move |key| json!({"type": what, "value": key.to_string()}));
        let actions: Vec<Value> = of("keyDown").chain(of("keyUp")).collect();
        self.act(json!({"type": "key", "id": "keyboard", "actions": actions})).await;
    }

    /// Clicks at a place of the window, on the element that is there.
    pub async fn click_at(&self, x: f64, y: f64) {
        let actions = json!([{"type": "pointerMove", "x": x as i64, "y": y as i64},
            {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]);
        self.act(json!({"type": "pointer", "id": "mouse", "actions": actions})).await;
    }

    async fn act(&self, device: Value) {
        self.must("POST", "/actions", json!({"actions": [device]})).await;
    }

    /// The URLs of all requests since the last look.
    pub async fn requests(&self) -> Vec<String> {
        let mut urls = Vec::new();
        for entry in self.log("performance").await {
            let event: Value = serde_json::from_str(entry["message"].as_str().expect("text")).expect("JSON");
            let event = &event["message"];
            if event["method"] == "Network.requestWillBeSent" {
                urls.push(event["params"]["request"]["url"].as_str().expect("a URL").to_owned());
            }
        }
        urls
    }

    /// Entries of a log since the last look: `browser` (the console) or `performance` (events of DevTools).
    pub async fn log(&self, kind: &str) -> Vec<Value> {
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

/// Keys without a character, for [`Browser::press`].
pub mod keys {
    /// Moves to the next element.
    pub const TAB: &str = "\u{E004}";
    /// Follows a link, presses a button.
    pub const ENTER: &str = "\u{E007}";
    /// Is held together with another key.
    pub const CONTROL: &str = "\u{E009}";
}
