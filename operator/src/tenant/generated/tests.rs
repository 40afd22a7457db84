//! Secrets of API keys, and what all generated Secrets have in common.

mod signing_secrets;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::*;
use crate::state::examples::{declared, tenant};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn wanted(rotation: i64, made_before: bool) -> (GeneratedSecret, Meta) {
    let mut tenant = tenant();
    tenant.spec.api_keys[0].generate.as_mut().unwrap().rotation_generation = rotation;
    let wanted = of_api_key(&tenant, 0, &tenant.spec.api_keys[0], made_before).unwrap();
    (wanted, declared().meta.clone())
}

fn plan(wanted: &(GeneratedSecret, Meta), found: Option<&Secret>, byte: u8) -> PlannedSecret {
    wanted.0.plan(found, None, &wanted.1, NOW, &mut |bytes| bytes.fill(byte)).unwrap()
}

fn stored(rotation: i64) -> Secret {
    let mut secret = plan(&wanted(rotation, false), None, 7).secret;
    secret.metadata.resource_version = Some("5".into());
    secret
}

#[test]
fn of_a_large_secret_only_what_is_ours_is_kept() {
    let with = |bytes: usize| {
        let mut secret = stored(0);
        let data = secret.data.as_mut().unwrap();
        data.insert("theirs".to_owned(), ByteString(vec![b'x'; bytes]));
        data.insert(NEXT_SECRET.to_owned(), ByteString(vec![b'x'; 2 * LARGEST_VALUE]));
        secret
    };
    let small = with(1000);
    assert_eq!(slim(small.clone()), small);
    let slimmed = slim(with(LARGEST));
    assert_eq!(slimmed.data, stored(0).data);
    assert_eq!(plan(&wanted(0, true), Some(&slimmed), 8).step, SecretStep::Keep);
}

#[test]
fn key_is_generated_once_and_kept() {
    let wanted = wanted(0, false);
    let made = plan(&wanted, None, 7);
    assert_eq!(made.step, SecretStep::Create);
    assert_eq!(made.value.expose(), "07".repeat(32).as_bytes());
    assert_eq!(made.secret.metadata.name.as_deref(), Some("acme-apikey-primary"));
    assert_eq!(made.event.unwrap().reason.as_str(), "SecretMade");
    let kept = plan(&wanted, Some(&stored(0)), 8);
    assert_eq!((kept.step, kept.event), (SecretStep::Keep, None));
    assert_eq!(kept.value, made.value);
}

#[test]
fn deleted_secret_is_regenerated_with_a_warning() {
    let event = plan(&wanted(0, true), None, 7).event.unwrap();
    assert!(event.warning && event.reason.as_str() == "SecretRemade", "{event:?}");
}

#[test]
fn raised_generation_replaces_the_value_on_that_version() {
    let rotated = plan(&wanted(1, true), Some(&stored(0)), 8);
    assert_eq!(rotated.step, SecretStep::Replace);
    assert_eq!(rotated.value.expose(), "08".repeat(32).as_bytes());
    assert_eq!(rotated.secret.metadata.resource_version.as_deref(), Some("5"));
    assert_eq!(plan(&wanted(0, true), Some(&stored(1)), 8).step, SecretStep::Keep);
}

#[test]
fn value_of_a_user_counts_if_it_is_a_key() {
    let mut secret = stored(0);
    let other = "ab".repeat(16);
    secret.data.as_mut().unwrap().insert(API_KEY.into(), ByteString(other.clone().into_bytes()));
    let kept = plan(&wanted(0, true), Some(&secret), 8);
    assert_eq!((kept.step, kept.value.expose()), (SecretStep::Keep, other.as_bytes()));
    secret.data.as_mut().unwrap().insert(API_KEY.into(), ByteString(b"secret".to_vec()));
    let repaired = plan(&wanted(0, true), Some(&secret), 8);
    assert_eq!(
        (repaired.step, repaired.event.unwrap().reason.as_str()),
        (SecretStep::Replace, "SecretRemade")
    );
}

#[test]
fn lost_metadata_is_restored_without_a_new_value() {
    let mut secret = stored(0);
    secret.metadata.labels = None;
    let repaired = plan(&wanted(0, true), Some(&secret), 8);
    assert_eq!((repaired.step, repaired.event), (SecretStep::Replace, None));
    assert_eq!(repaired.value.expose(), "07".repeat(32).as_bytes());
}

#[test]
fn labels_and_keys_of_users_stay() {
    let mut secret = stored(0);
    secret.metadata.labels.as_mut().unwrap().insert("team".into(), "a".into());
    secret.data.as_mut().unwrap().insert("note".into(), ByteString(b"n".to_vec()));
    assert_eq!(plan(&wanted(0, true), Some(&secret), 8).step, SecretStep::Keep);
    let rotated = plan(&wanted(1, true), Some(&secret), 8).secret;
    assert_eq!(rotated.metadata.labels.unwrap()["team"], "a");
    assert_eq!(rotated.data.unwrap()["note"].0, b"n");
    assert_eq!(rotated.metadata.owner_references.unwrap().len(), 1);
}

#[test]
fn foreign_secret_is_not_touched() {
    let mut secret = stored(0);
    secret.metadata.labels = None;
    secret.metadata.owner_references = None;
    let (wanted, meta) = wanted(0, false);
    let reason = wanted.plan(Some(&secret), None, &meta, NOW, &mut |_| {}).unwrap_err();
    assert_eq!(
        reason.to_string(),
        "SecretInvalid: spec.apiKeys[0].generate: Secret tenants/acme-apikey-primary exists and was not created for \
         this Tenant; remove it, or choose another name"
    );
    assert!(wanted.value(&secret, &meta).is_none());
}
