use std::collections::BTreeMap;

use docket_crds::TenantConfig;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::*;

const FORMAT_1: &str = include_str!("../../../../../crds/src/runtime/format-1.json");
const NEWER: &str = include_str!("../../../../../crds/src/runtime/newer.json");
const FOR_NEWER_READERS: &str = include_str!("../../../../../crds/src/runtime/for-newer-readers.json");

fn config(uid: &str, subdomains: &[&str], keys: &[char]) -> TenantConfig {
    let key = |digit: &char| {
        let digest = ApiKeyDigest::of(&digit.to_string().repeat(64)).expect("a key");
        json!({"name": format!("key-{digit}"), "digest": digest, "active": true, "version": "v2"})
    };
    serde_json::from_value(json!({
        "uid": uid, "namespace": "default", "name": uid, "displayName": null, "clientCode": uid.to_uppercase(),
        "subdomains": subdomains, "suspended": false, "apiKeys": keys.iter().map(key).collect::<Vec<_>>(),
        "tokens": {"lifetimeMinutes": 60, "signingKeys": []}, "database": "postgres://u:hunter2@db/x",
        "activeEvents": [], "webhooks": [],
    }))
    .expect("a configuration")
}

fn secret(name: &str, age: i64, text: &str) -> Secret {
    let created = Timestamp::from_second(1_000_000 - age).expect("a time");
    Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(format!("uid of {name}")),
            creation_timestamp: Some(Time(created)),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), ByteString(text.as_bytes().to_vec()))].into()),
        ..Secret::default()
    }
}

fn of(config: TenantConfig, name: &str, age: i64) -> Secret {
    let runtime = Runtime::new(1, config, BTreeMap::new());
    secret(name, age, &serde_json::to_string(&runtime).expect("JSON"))
}

fn plain(name: &str) -> Secret {
    of(config(name, &[], &[]), name, 0)
}

fn list(secrets: &mut Secrets, listed: &[Secret]) {
    secrets.begin_list();
    for secret in listed {
        secrets.listed(secret);
    }
    secrets.end_list();
}

fn uids(secrets: &Secrets) -> Vec<String> {
    secrets.declaration().tenants.iter().map(|served| served.runtime.config.uid.to_string()).collect()
}

#[test]
fn complete_list_replaces_the_tenants_and_a_broken_one_does_not() {
    let mut secrets = Secrets::default();
    list(&mut secrets, &[plain("a"), plain("b")]);
    assert_eq!(uids(&secrets), ["a", "b"]);
    secrets.begin_list();
    secrets.listed(&plain("c"));
    assert_eq!(uids(&secrets), ["a", "b"], "the list has broken off");
    list(&mut secrets, &[plain("b"), plain("c")]);
    assert_eq!(uids(&secrets), ["b", "c"]);
    secrets.delete(&plain("b"));
    secrets.apply(&plain("d"));
    assert_eq!(uids(&secrets), ["c", "d"]);
}

#[test]
fn suddenly_empty_list_keeps_the_tenants_and_is_a_problem() {
    let mut secrets = Secrets::default();
    list(&mut secrets, &[]);
    assert!(secrets.declaration().problems.is_empty(), "no Secret is known yet");
    list(&mut secrets, &[plain("a")]);
    list(&mut secrets, &[]);
    assert_eq!(uids(&secrets), ["a"]);
    assert!(secrets.declaration().problems[0].message.contains("no runtime Secrets any more"));
    list(&mut secrets, &[plain("b")]);
    assert_eq!(uids(&secrets), ["b"]);
    assert!(secrets.declaration().problems.is_empty());
}

#[test]
fn unreadable_secret_keeps_its_last_good_version_and_is_not_quoted() {
    let mut secrets = Secrets::default();
    list(&mut secrets, &[plain("a"), secret("new", 0, "{\"generation\": \"hunter2\"}")]);
    secrets.apply(&secret("a", 0, "{\"config\": {\"tokens\": \"hunter2\"}}"));
    let loaded = secrets.declaration();
    assert_eq!(uids(&secrets), ["a"]);
    let problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    assert!(problems[0].starts_with("Secret a: runtime.json is not"), "{problems:?}");
    assert!(problems[0].ends_with("stays active") && problems[1].ends_with("not served"));
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let mut empty = plain("a");
    empty.data = None;
    list(&mut secrets, std::slice::from_ref(&empty));
    assert_eq!(uids(&secrets), ["a"], "a list does not end a tenant that a change does not end");
    empty.metadata.uid = Some("another".into());
    secrets.apply(&empty);
    assert!(uids(&secrets).is_empty(), "another Secret of the same name");
}

#[test]
fn events_of_a_newer_operator_are_ignored_and_reported_once() {
    let newer = |name: &str| {
        let runtime = Runtime::new(1, config(name, &[], &[]), BTreeMap::new());
        let mut json = serde_json::to_value(&runtime).expect("JSON");
        json["config"]["activeEvents"] = json!(["order.created", "order.archived"]);
        secret(name, 0, &json.to_string())
    };
    let mut secrets = Secrets::default();
    list(&mut secrets, &[newer("a"), newer("b")]);
    let loaded = secrets.declaration();
    assert_eq!(uids(&secrets), ["a", "b"]);
    assert_eq!(loaded.tenants[0].runtime.config.active_events.len(), 1);
    let problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    assert!(problems.len() == 1 && problems[0].contains("does not know: order.archived;"), "{problems:?}");
}

fn problems(secrets: &Secrets) -> Vec<String> {
    secrets.declaration().problems.iter().map(ToString::to_string).collect()
}

#[test]
fn secret_of_an_older_or_newer_operator_is_served_and_only_what_is_new_is_reported() {
    let mut secrets = Secrets::default();
    list(&mut secrets, &[secret("a", 0, FORMAT_1)]);
    let older = secrets.declaration();
    assert!(older.problems.is_empty() && !older.is_unreadable);
    secrets.apply(&secret("a", 0, NEWER));
    let newer = secrets.declaration();
    assert_eq!(newer.tenants[0].runtime.config, older.tenants[0].runtime.config);
    let problems = problems(&secrets);
    assert!(
        problems.len() == 1 && problems[0].contains("does not know: note.deleted, order.archived; upgrade"),
        "{problems:?}"
    );
}

#[test]
fn secret_for_newer_readers_is_refused_and_the_last_good_version_stays() {
    let mut secrets = Secrets::default();
    list(&mut secrets, &[secret("a", 0, FORMAT_1), secret("b", 0, FOR_NEWER_READERS)]);
    secrets.apply(&secret("a", 0, FOR_NEWER_READERS));
    let why = "runtime.json was written by a newer operator for readers of format 3; this program reads up to 2; \
               upgrade the data plane";
    assert_eq!(
        problems(&secrets),
        [
            format!("Secret a: {why}; the last good version stays active"),
            format!("Secret b: {why}; its tenant is not served"),
        ]
    );
    let loaded = secrets.declaration();
    assert!(!loaded.is_unreadable);
    let before: Runtime = serde_json::from_str(FORMAT_1).expect("it is of this version");
    assert_eq!(*loaded.tenants[0].runtime, before, "with no field of the newer one");
    assert!(!format!("{loaded:?}").contains("203.0.113."));
}

#[test]
fn declaration_is_unreadable_while_there_are_secrets_and_no_version_of_one_was_read() {
    let mut secrets = Secrets::default();
    assert!(!secrets.declaration().is_unreadable);
    list(&mut secrets, &[]);
    assert!(!secrets.declaration().is_unreadable, "there is no tenant");
    list(&mut secrets, &[secret("a", 0, FOR_NEWER_READERS), secret("b", 0, "{")]);
    assert!(secrets.declaration().is_unreadable);
    secrets.apply(&plain("c"));
    assert!(!secrets.declaration().is_unreadable, "one can be read");
    secrets.apply(&secret("c", 0, FOR_NEWER_READERS));
    assert!(!secrets.declaration().is_unreadable, "its last good version is served");
    secrets.delete(&plain("c"));
    assert!(secrets.declaration().is_unreadable);
}

#[test]
fn uid_and_client_code_in_any_case_belong_to_one_tenant() {
    let mut secrets = Secrets::default();
    let client_code = serde_json::from_value(json!("oLd")).expect("a code");
    let of_its_code = TenantConfig { client_code, ..config("code", &[], &[]) };
    let of_its_uid = TenantConfig { uid: "old".into(), ..config("uid", &[], &[]) };
    let old = of(config("old", &[], &[]), "old", 9);
    list(&mut secrets, &[of(of_its_code, "code", 5), of(of_its_uid, "uid", 7), old]);
    assert_eq!(uids(&secrets), ["old"]);
    assert_eq!(
        problems(&secrets),
        [
            "Secret uid: its uid is already used by Secret old; its tenant is not served",
            "Secret code: its clientCode is already used by Secret old; its tenant is not served",
        ]
    );
}

#[test]
fn older_secret_wins_what_two_declare() {
    let mut secrets = Secrets::default();
    let twin = TenantConfig { uid: "twin".into(), ..config("old", &[], &[]) };
    list(
        &mut secrets,
        &[
            of(config("young", &["shop", "young"], &['a', 'b']), "young", 1),
            of(config("old", &["SHOP"], &['a']), "old", 9),
            of(twin, "twin", 5),
        ],
    );
    let loaded = secrets.declaration();
    assert_eq!(uids(&secrets), ["old", "young"]);
    assert_eq!(loaded.client_codes(), ["OLD", "YOUNG"]);
    let young = &loaded.tenant("young").expect("served").runtime.config;
    assert_eq!(young.subdomains, ["young"]);
    assert_eq!(young.api_keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["key-b"]);
    assert_eq!(
        loaded.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "Secret twin: its clientCode is already used by Secret old; its tenant is not served",
            "Secret young: subdomain shop is already used by Secret old",
            "Secret young: API key key-a is already used by Secret old",
        ]
    );
}
