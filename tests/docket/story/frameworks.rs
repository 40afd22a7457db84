//! The receivers of docs/webhooks/frameworks.md, each in its own framework and on PostgreSQL, judge the deliveries of
//! docs/vectors.json, and store each event once. A framework that is not here fails, unless DOCKET_TEST_WITHOUT names a program
//! that it needs, as tests/run does after it has counted the missing one.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docket_domain::signature;
use docket_rig::ports::free_port;
use docket_rig::postgres;
use docket_rig::scratch::Folder;
use docket_tests::languages::{cache, without};
use docket_tests::server::{eventually, request};
use serde_json::Value;

use super::example::repository;

/// The secret of most vectors.
const SECRET: &str = "correct-horse-battery-staple-2026";
/// How long a receiver may take to compile and start.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// What runs a receiver of the page.
struct Framework {
    /// The programs that it needs.
    needs: &'static [&'static str],
    /// The files of its program.
    files: Vec<(&'static str, String)>,
    /// What compiles and runs it. `$CACHE` is the folder of tests/run.
    run: &'static str,
}

/// The one block of this language on a page.
fn block(page: &str, language: &str) -> String {
    let text = std::fs::read_to_string(repository().join(page)).expect("readable");
    let fence = format!("```{language}\n");
    let mut blocks = text.split(&fence).skip(1);
    let block = blocks.next().unwrap_or_else(|| panic!("{page} has no {language}"));
    assert!(blocks.next().is_none(), "{page} has two blocks of {language}");
    block.split("```").next().expect("split returns at least one part").to_owned()
}

fn receiver(language: &str) -> String {
    block("docs/webhooks/frameworks.md", language)
}

fn verifier(language: &str) -> String {
    block("docs/webhooks/verify.md", language)
}

/// A file of tests/frameworks.
fn rig(name: &str) -> String {
    std::fs::read_to_string(repository().join("tests/frameworks").join(name)).expect("readable")
}

fn express(receiver: String, verifier: String) -> Framework {
    Framework {
        needs: &["node", "npm"],
        files: vec![("main.js", receiver), ("verify.js", verifier)],
        run: "NODE_PATH=$CACHE/frameworks/node/node_modules exec node main.js",
    }
}

fn django(receiver: String, verifier: String) -> Framework {
    Framework {
        needs: &["python3"],
        files: vec![
            ("main.py", rig("django_main.py")),
            ("receiver/__init__.py", String::new()),
            ("receiver/views.py", receiver),
            ("receiver/verify.py", verifier),
        ],
        run: "exec $CACHE/venv/bin/python main.py",
    }
}

fn spring() -> Framework {
    let in_package = |class: String| format!("package receiver;\n{class}");
    Framework {
        needs: &["javac", "mvn"],
        files: vec![
            ("Main.java", rig("Main.java")),
            ("DocketController.java", in_package(receiver("java"))),
            ("Webhook.java", in_package(verifier("java"))),
        ],
        run: "javac -cp \"$CACHE/frameworks/jars/*\" -d . *.java
              exec java -cp \".:$CACHE/frameworks/jars/*\" receiver.Main",
    }
}

fn rails() -> Framework {
    Framework {
        needs: &["ruby", "rails", "puma"],
        files: vec![
            ("config.ru", rig("config.ru")),
            ("receiver.rb", receiver("ruby")),
            ("verify.rb", verifier("ruby")),
        ],
        run: "exec puma --bind tcp://127.0.0.1:$PORT config.ru",
    }
}

/// A receiver that runs, and its database.
struct Running {
    folder: Folder,
    child: Child,
    address: SocketAddr,
    database: tokio_postgres::Client,
}

impl Running {
    /// Starts it; `None`: this machine lacks the framework, and tests/run has counted that.
    async fn start(framework: &Framework) -> Option<Self> {
        if framework.needs.iter().any(|program| without(program)) {
            return None;
        }
        let (folder, url, port) = (Folder::new("framework"), postgres::database().await, free_port());
        for (name, text) in &framework.files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        let database = postgres::client(&url).await;
        database.batch_execute(&receiver("sql")).await.expect("the table of the page");
        let log = File::create(folder.path().join("log")).expect("writable");
        let child = Command::new("sh")
            .args(["-euc", framework.run])
            .current_dir(folder.path())
            .env("CACHE", cache())
            .env("PORT", port.to_string())
            .env("WEBHOOK_SECRET", SECRET)
            .env("DATABASE_URL", url)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("sh");
        let mut running = Self { folder, child, address: (Ipv4Addr::LOCALHOST, port).into(), database };
        eventually("the receiver answers", STARTS_WITHIN, async || {
            let ended = running.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{ended:?}: {}\ntests/run fetches the frameworks", running.log());
            request(running.address, "GET", "/", &[], "").await.is_ok()
        })
        .await;
        Some(running)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Posts a delivery twice, as a sender does that gets no answer; checks the status of both.
    async fn post(&self, name: &str, headers: &[(&str, &str)], body: &str, status: u16) {
        let headers = [&[("content-type", "application/json")][..], headers].concat();
        for _ in 0..2 {
            let reply = request(self.address, "POST", "/webhooks/docket", &headers, body).await;
            let reply = reply.unwrap_or_else(|error| panic!("{name}: {error}: {}", self.log()));
            assert_eq!(reply.status, status, "{name}: {}", self.log());
        }
    }

    /// Checks that the inbox has these events and no others.
    async fn has(&self, expected: &BTreeMap<String, String>) {
        let rows = self.database.query("SELECT id, body FROM inbox", &[]).await.expect("the table");
        let rows: BTreeMap<String, String> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(&rows, expected, "{}", self.log());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn vectors() -> Vec<Value> {
    let text = std::fs::read_to_string(repository().join("docs/vectors.json")).expect("readable");
    let vectors: Value = serde_json::from_str(&text).expect("JSON");
    let all = vectors["vectors"].as_array().expect("a list").iter();
    all.filter(|vector| vector["secret"] == SECRET).cloned().collect()
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().expect("a text")
}

/// The events of vectors that a receiver must store: body by id.
fn events<'a>(accepted: impl Iterator<Item = &'a Value>) -> BTreeMap<String, String> {
    let event = |vector: &Value| (text(vector, "webhookId").to_owned(), text(vector, "body").to_owned());
    accepted.map(event).collect()
}

async fn judges_the_vectors(framework: &Framework) {
    let Some(running) = Running::start(framework).await else { return };
    let vectors = vectors();
    for vector in &vectors {
        let status = if vector["valid"] == true { 204 } else { 401 };
        let headers = [("x-service-signature", text(vector, "signature"))];
        running.post(text(vector, "name"), &headers, text(vector, "body"), status).await;
    }
    running.post("no header", &[], text(&vectors[0], "body"), 401).await;
    let test = r#"{"id":"evt_of_a_test"}"#;
    let signature = signature::sign(SECRET.as_bytes(), test.as_bytes());
    let headers = [("x-service-signature", signature.as_str()), ("x-service-test", "true")];
    running.post("a test event", &headers, test, 204).await;
    running.has(&events(vectors.iter().filter(|vector| vector["valid"] == true))).await;
}

#[expect(clippy::disallowed_methods, reason = "the libraries compare with the real time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Posts the events of vectors with the headers of Standard Webhooks, signed now: the libraries refuse old ones.
async fn judges_standard_webhooks(framework: &Framework) {
    let Some(running) = Running::start(framework).await else { return };
    let vectors: Vec<Value> = vectors().into_iter().filter(|vector| vector["valid"] == true).collect();
    let old = now() - jiff::SignedDuration::from_mins(10);
    for vector in &vectors {
        let (id, body) = (text(vector, "webhookId"), text(vector, "body"));
        for (what, secret, at, status) in [
            ("another secret", "another-secret-with-24-bytes-or-more", now(), 401),
            ("an old timestamp", SECRET, old, 401),
            ("as it is", SECRET, now(), 204),
        ] {
            let seconds = at.as_second().to_string();
            let signature = signature::standard_webhooks(secret.as_bytes(), id, at, body.as_bytes());
            let headers = [
                ("webhook-id", id),
                ("webhook-timestamp", seconds.as_str()),
                ("webhook-signature", signature.as_str()),
            ];
            running.post(&format!("{id}, {what}"), &headers, body, status).await;
        }
    }
    running.has(&events(vectors.iter())).await;
}

#[tokio::test]
async fn receiver_in_express_stores_each_valid_event_once() {
    let verifier = verifier("javascript") + "exports.verify = verify;\n";
    judges_the_vectors(&express(receiver("javascript"), verifier)).await;
}

#[tokio::test]
async fn receiver_in_express_verifies_with_the_library_of_standard_webhooks() {
    let changed = with_all_headers("javascript", r#"request.get("X-Service-Signature") ?? """#);
    judges_standard_webhooks(&express(changed, receiver("js"))).await;
}

#[tokio::test]
async fn receiver_in_django_stores_each_valid_event_once() {
    judges_the_vectors(&django(receiver("python"), verifier("python"))).await;
}

#[tokio::test]
async fn receiver_in_django_verifies_with_the_library_of_standard_webhooks() {
    let changed = with_all_headers("python", r#"request.headers.get("X-Service-Signature", "")"#);
    judges_standard_webhooks(&django(changed, receiver("py"))).await;
}

#[tokio::test]
async fn receiver_in_spring_boot_stores_each_valid_event_once() {
    judges_the_vectors(&spring()).await;
}

#[tokio::test]
async fn receiver_in_rails_stores_each_valid_event_once() {
    judges_the_vectors(&rails()).await;
}

/// The receiver as the page says to change it: it gives all headers to the function instead of the one header.
fn with_all_headers(language: &str, one_header: &str) -> String {
    let receiver = receiver(language);
    assert!(receiver.contains(one_header), "{receiver}");
    receiver.replace(one_header, "request.headers")
}

#[test]
fn each_receiver_of_the_page_is_run_or_said_not_to_be() {
    let page = "docs/webhooks/frameworks.md";
    let text = std::fs::read_to_string(repository().join(page)).expect("readable");
    let fences = text.lines().filter_map(|line| line.strip_prefix("```")).filter(|fence| !fence.is_empty());
    let fences: Vec<&str> = fences.collect();
    assert_eq!(fences, ["sql", "javascript", "python", "java", "ruby", "csharp", "js", "py"]);
    let (_, section) = text.split_once("\n### ASP.NET Core\n").expect("a section");
    let (before, _) = section.split_once("```csharp\n").expect("its receiver");
    assert!(before.replace('\n', " ").contains("tests do not run this receiver"), "{before}");
}
