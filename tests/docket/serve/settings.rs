//! Settings that are missing or wrong end the start, with the setting's name and what would be right.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use docket_rig::postgres;
use docket_rig::redis::RedisServer;
use docket_tests::server::{Server, request};

use crate::serve::stage::{Stage, external, sign_in};

fn replaced(arguments: &[String], flag: &str, value: &Path) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    let at = arguments.iter().position(|argument| argument == flag).expect("it is there");
    arguments[at + 1] = value.display().to_string();
    arguments
}

fn without(arguments: &[String], flag: &str) -> Vec<String> {
    let at = arguments.iter().position(|argument| argument == flag).expect("it is there");
    [&arguments[..at], &arguments[at + 2..]].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_or_wrong_is_named() {
    let stage = Stage::new().await;
    let good = stage.arguments("api,worker", "");
    let with = |more: &[&str]| good.iter().cloned().chain(more.iter().map(|&word| word.to_owned())).collect();
    let file = |name: &str, text: &str| {
        let path = stage.home.log(name);
        std::fs::write(&path, text).expect("writable");
        path
    };
    let bad_url = replaced(&good, "--redis-url-file", &file("bad-url", "http://:hunter2@redis"));
    let missing_file = replaced(&good, "--redis-url-file", Path::new("/nowhere/url"));
    let no_folder = replaced(&good, "--config-dir", Path::new("/nowhere"));
    let bad_limits = file("bad-limits", "maxima: {webhook: 1}").display().to_string();
    let no_certificate = file("ca", "none").display().to_string();
    let no_source = without(&without(&good, "--config-dir"), "--data-dir");
    let mut unknown_role = good.clone();
    unknown_role[2] = "api,mailer".to_owned();
    let cases: Vec<(Vec<String>, &[&str])> = vec![
        (without(&good, "--redis-url-file"), &["--redis-url-file is missing", "redis://"]),
        (missing_file, &["--redis-url-file", "/nowhere/url"]),
        (bad_url, &["--redis-url-file", "redis://"]),
        (with(&["--redis-ca-file", &no_certificate]), &["--redis-ca-file", "rediss://"]),
        (with(&["--redis-release", "a b"]), &["--redis-release", "letters"]),
        (no_source, &["--config-dir", "--config-namespace"]),
        (with(&["--config-namespace", "docket"]), &["--config-dir", "--config-namespace"]),
        (no_folder, &["/nowhere", "--config-dir"]),
        (unknown_role, &["mailer", "--roles", "api, worker, detector, portal"]),
        (with(&["--tenant-limits", &bad_limits]), &["bad-limits: maxima.webhook: unknown field", "webhooks"]),
        (with(&["--database-connections", "0"]), &["--database-connections", "0"]),
        (replaced(&good, "--shutdown-delay", Path::new("5")), &["--shutdown-delay", "a number and a unit"]),
        (with(&["--pod-name", "a b"]), &["--pod-name", "spaces"]),
        (
            with(&["--database-connections", "4", "--database-connections-per-tenant", "5"]),
            &["--database-connections-per-tenant is 5", "--database-connections is 4"],
        ),
    ];
    for (arguments, words) in cases {
        let words_of: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (done, text) = stage.home.command_alone(&words_of);
        assert!(!done, "{arguments:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{word:?} is not in {text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_with_a_password_that_every_user_can_read_is_named_in_the_log() {
    let stage = Stage::new().await;
    let url = stage.home.log("redis-url");
    let watcher = stage.home.log("watcher-url");
    std::fs::write(&watcher, &stage.database).expect("writable");
    for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
        for file in [&url, &watcher] {
            std::fs::set_permissions(file, Permissions::from_mode(mode)).expect("its owner");
        }
        let more = format!("--watcher-url-file {}", watcher.display());
        let _server = stage.spawn("api", &more).ready(&stage.home).await;
        let log = stage.log();
        for flag in ["--redis-url-file", "--watcher-url-file"] {
            let line = format!("{flag} {}", if flag.contains("redis") { &url } else { &watcher }.display());
            let is_named = log.contains(&format!("{line} can be read by every user of this machine"));
            assert_eq!(is_named, warned, "{mode:o}: {log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_may_evict_is_refused_at_start() {
    let stage = Stage::new().await;
    let evicting = RedisServer::start(&["maxmemory-policy allkeys-lru"]);
    let url = stage.home.log("evicting");
    std::fs::write(&url, evicting.url()).expect("writable");
    let arguments =
        replaced(&stage.arguments("worker", "--management 127.0.0.1:0"), "--redis-url-file", &url);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (done, text) = stage.home.command_alone(&words);
    assert!(!done && text.contains("--redis-url-file") && text.contains("noeviction"), "{text}");
}

/// Redis would refuse every later login too: only a change of the file helps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_refuses_the_login_ends_the_start() {
    let stage = Stage::new().await;
    let server = RedisServer::start_with_password("right", &[]);
    // The server there has a certificate of an unknown authority; nothing else of it matters.
    let untrusted = stage.receiver.url("").replace("https://", "rediss://:right@");
    for (url, why) in [
        (format!("redis://:hunter2@127.0.0.1:{}", server.port), "authentication failed"),
        (format!("redis://127.0.0.1:{}", server.port), "NOAUTH"),
        (untrusted, "invalid peer certificate"),
    ] {
        let file = stage.home.log("denied");
        std::fs::write(&file, url).expect("writable");
        let arguments =
            replaced(&stage.arguments("worker", "--management 127.0.0.1:0"), "--redis-url-file", &file);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (done, text) = stage.home.command_alone(&words);
        assert!(!done && text.contains("--redis-url-file: Redis can't be used"), "{why}: {text}");
        assert!(text.contains(why), "{why:?} is not in {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_database_is_refused_in_a_folder_and_other_tenants_are_served() {
    let stage = Stage::new().await;
    let other = postgres::database().await;
    let managed = docket_tests::server::tenant_yaml("blaise", 'b');
    let good = external("corwin", 'c', &other);
    stage.home.write("more.yaml", &format!("{managed}---\n{good}"));
    let api: Server = stage.serve("api").await;
    stage.logs("spec.database.managed").await;
    assert!(stage.log().contains("only the operator makes managed databases"), "{}", stage.log());
    sign_in(&api).await;
    let of = async |digit: char| {
        let key = docket_tests::server::api_key(digit);
        let headers = [("x-api-key", key.as_str()), ("content-type", "application/json")];
        request(api.api, "POST", "/Auth/Token", &headers, "{}").await.expect("an answer").status
    };
    assert_eq!((of('b').await, of('c').await), (401, 400));
    assert!(!stage.log().contains(&other), "no URL is logged");
}
