//! The libraries of Standard Webhooks verify our deliveries as they are.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use docket_tests::languages::{run, without};
use docket_tests::receiver::{Post, Receiver};
use docket_tests::server::{SECRET, eventually};
use serde_json::{Value, json};

use super::contract::rotating;
use crate::delivery::stage::{ONCE, SOON, Webhook, all_end, save, stage, together};

const NEW_SECRET: &str = "the-secret-that-takes-its-place";

/// What a library is given, and whether it must accept it.
struct Case {
    name: &'static str,
    delivery: Value,
    valid: bool,
}

/// The secret as the libraries take it.
fn whsec(secret: &str) -> String {
    format!("whsec_{}", BASE64.encode(secret))
}

fn delivery(secret: &str, post: &Post) -> Value {
    let headers: serde_json::Map<String, Value> =
        post.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({"secret": whsec(secret), "body": String::from_utf8(post.body.clone()).expect("UTF-8"), "headers": headers})
}

/// `both` was sent while a secret is being replaced: it carries a signature of each.
fn cases(post: &Post, both: &Post) -> Vec<Case> {
    let case = |name, delivery, valid| Case { name, delivery, valid };
    let with = |header: &str, value: String| {
        let mut changed = delivery(SECRET, post);
        changed["headers"][header] = json!(value);
        changed
    };
    let sent_at =
        post.header("webhook-timestamp").and_then(|text| text.parse::<i64>().ok()).expect("seconds");
    let mut longer = delivery(SECRET, post);
    longer["body"] = json!(format!("{}\n", longer["body"].as_str().expect("a text")));
    vec![
        case("as it is", delivery(SECRET, post), true),
        case("the old secret of two", delivery(SECRET, both), true),
        case("the new secret of two", delivery(NEW_SECRET, both), true),
        case("neither secret of two", delivery("another", both), false),
        case("another secret", delivery(NEW_SECRET, post), false),
        case("another body", longer, false),
        case("an old timestamp", with("webhook-timestamp", (sent_at - 600).to_string()), false),
        case("another id", with("webhook-id", "evt_1".to_owned()), false),
    ]
}

fn assert_judged(library: &str, cases: &[Case], judged: &[bool]) {
    assert_eq!(judged.len(), cases.len(), "{library}");
    for (Case { name, valid, .. }, judged) in cases.iter().zip(judged) {
        assert_eq!(judged, valid, "{library}: {name}");
    }
}

fn in_rust(delivery: &Value) -> bool {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let headers = delivery["headers"].as_object().expect("headers").iter().map(|(name, value)| {
        let name: http::HeaderName = name.parse().expect("a name");
        (name, text(value).parse().expect("a value"))
    });
    let webhook = standardwebhooks::Webhook::new(&text(&delivery["secret"])).expect("a secret");
    webhook.verify(text(&delivery["body"]).as_bytes(), &headers.collect()).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_libraries_of_standard_webhooks_verify_a_delivery_as_it_is() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/hook"))], ONCE).await;
    save(&client).await;
    all_end(&home, 1).await;
    let post = hook.posts_to("/hook").swap_remove(0);
    let secrets = format!("secret: {SECRET}, next: {NEW_SECRET}");
    home.write("webhook-rotating.yaml", &rotating(&hook, &secrets));
    eventually("the webhook with two secrets is served", SOON, async || {
        save(&client).await;
        !hook.posts_to("/").is_empty()
    })
    .await;
    let both = hook.posts_to("/").swap_remove(0);
    let cases = cases(&post, &both);

    let judged: Vec<bool> = cases.iter().map(|case| in_rust(&case.delivery)).collect();
    assert_judged("Rust", &cases, &judged);
    let input = json!(cases.iter().map(|case| &case.delivery).collect::<Vec<_>>()).to_string();
    let cache = docket_tests::languages::cache();
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/verifiers"));
    let fetched = cache.join("verifiers");
    let python = format!("{}/bin/python verify.py", cache.join("venv").display());
    let javascript = format!("NODE_PATH={}/node_modules node verify.js", fetched.display());
    let go = format!("{}/verify-go", fetched.display());
    for (library, command, needs) in
        [("Python", python, "python3"), ("JavaScript", javascript, "npm"), ("Go", go, "go")]
    {
        if without(needs) {
            continue;
        }
        let printed = run(&command, &folder, &input);
        let judged: Vec<bool> = printed.lines().map(|line| line == "true").collect();
        assert_judged(library, &cases, &judged);
    }
}
