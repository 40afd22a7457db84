//! Texts that operators of other versions wrote: the version before formats wrote format 1, and a newer version the next format.

use serde_json::json;

use super::*;

const UID: &str = "5d0d8f6e-2f0b-4a35-9a64-0f6d2a1f7c10";
const RUNTIME: &str = include_str!("../../../../crds/src/runtime/format-1.json");
const RUNTIME_FOR_NEWER_READERS: &str = include_str!("../../../../crds/src/runtime/for-newer-readers.json");
const FORMAT_1: &str = include_str!("format-1.json");
const NEWER: &str = include_str!("newer.json");
const FOR_NEWER_READERS: &str = include_str!("for-newer-readers.json");

fn name() -> Name {
    Name::new("tenants", "acme")
}

fn stored(runtime: &str, memory: &str) -> Stored {
    let entry = |(key, text): (&str, &str)| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    let secret = Secret {
        metadata: metadata("docket", &name(), UID),
        data: Some(BTreeMap::from([(runtime::KEY, runtime), (MEMORY_KEY, memory)].map(entry))),
        type_: Some(runtime::SECRET_TYPE.to_owned()),
        ..Secret::default()
    };
    Stored::read(&secret, "docket", &name(), UID)
}

/// What this version writes.
fn written(memory: &Memory) -> (Secret, Value) {
    let mut runtime = Runtime::read(RUNTIME.as_bytes()).unwrap();
    runtime.format = runtime::FORMAT;
    let secret = secret("docket", &name(), UID, &runtime, memory);
    let json = serde_json::from_slice(&secret.data.as_ref().unwrap()[MEMORY_KEY].0).unwrap();
    (secret, json)
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn secret_of_the_version_before_formats_is_written_once_with_all_that_it_holds() {
    let found = stored(RUNTIME, FORMAT_1);
    assert_eq!(found.unreadable, None);
    let runtime = found.runtime.clone().expect("it is readable");
    let (secret, json) = written(&found.memory);
    assert_eq!((&json["format"], &json["minReader"]), (&json!(FORMAT.format), &json!(FORMAT.min_reader)));
    for key in ["signingKeys", "database"] {
        assert_eq!(json[key], value(FORMAT_1)[key]);
    }
    let now = Runtime { format: runtime::FORMAT, ..runtime };
    assert!(!found.is(&now, &found.memory));
    let again = Stored::read(&secret, "docket", &name(), UID);
    assert!(again.is(&now, &found.memory), "at rest nothing is written");
}

#[test]
fn configuration_of_another_tenant_is_not_taken_for_the_tenants_own() {
    let of_another = stored(&RUNTIME.replace(UID, "5d0d8f6e-0000-4a35-9a64-0f6d2a1f7c10"), FORMAT_1);
    assert!(stored(RUNTIME, FORMAT_1).runtime.is_some());
    assert_eq!((of_another.runtime, of_another.unreadable), (None, None), "it is compiled again");
}

#[test]
fn memory_of_a_newer_operator_is_read_key_by_key_and_the_rest_survives() {
    let found = stored(RUNTIME, NEWER);
    assert_eq!(found.unreadable, None);
    let memory = found.memory;
    assert_eq!(memory.signing_keys, stored(RUNTIME, FORMAT_1).memory.signing_keys);
    assert_eq!(memory.database, None, "it has another form, so it is ensured again");
    let missing: Vec<_> =
        memory.missing_webhooks.iter().map(|(name, since)| (&**name, since.is_some())).collect();
    assert_eq!(missing, [("tenants/invoices", true), ("tenants/notes", false)]);
    assert_eq!(written(&memory).1["migrations"], value(NEWER)["migrations"]);
    let shown = format!("{memory:?}");
    assert!(shown.contains("migrations") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn damage_beside_the_signing_keys_ends_none_of_them() {
    let keys = stored(RUNTIME, FORMAT_1).memory.signing_keys;
    let without = |part: &str| {
        let mut memory = value(FORMAT_1);
        memory["database"].as_object_mut().unwrap().remove(part);
        memory.to_string()
    };
    let mut other = value(FORMAT_1);
    other["missingWebhooks"] = json!(["tenants/w"]);
    for memory in [without("schemaVersion"), without("fingerprint"), other.to_string()] {
        let found = stored("{\"config\": 7}", &memory);
        assert_eq!((found.memory.signing_keys, found.unreadable), (keys.clone(), None), "{memory}");
        assert_eq!(found.runtime, None, "it is compiled again");
    }
}

#[test]
fn secret_whose_signing_keys_cannot_be_read_or_that_is_for_newer_readers_must_stay() {
    let readers = "was written by a newer operator for readers of format 3; this program reads up to 2";
    let newer = stored(RUNTIME, FOR_NEWER_READERS).unreadable;
    assert_eq!(newer, Some(format!("operator.json {readers}")));
    let restricted = stored(RUNTIME_FOR_NEWER_READERS, FORMAT_1).unreadable;
    assert_eq!(restricted, Some(format!("runtime.json {readers}")));
    let mut odd = value(FORMAT_1);
    odd["signingKeys"][1]["secret"] = json!("hunter2");
    for memory in ["", "[", "{\"signingKeys\": null}", &odd.to_string()] {
        let why = stored(RUNTIME, memory).unreadable.unwrap_or_else(|| panic!("{memory} is read"));
        assert!(why.contains("operator.json") && why.contains("not what this version"), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    assert_eq!(stored(RUNTIME, "{}").unreadable, None, "there are no keys that could be lost");
}
