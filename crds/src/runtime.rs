//! The runtime Secret: one per tenant, in which the operator hands a JSON document to the data plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::format::{self, Unreadable};
use crate::{EventCode, TenantConfig};

/// The label that marks runtime Secrets.
pub const LABEL: &str = "docket.dev/runtime";
/// The value of [`LABEL`].
pub const LABEL_VALUE: &str = "true";
/// The type of runtime Secrets.
pub const SECRET_TYPE: &str = "docket.dev/runtime";
/// The key of the Secret that holds a [`Runtime`] as JSON.
pub const KEY: &str = "runtime.json";

/// The newest format of a [`Runtime`] that this version reads, and in which it writes. Format 1 has no number.
pub const FORMAT: u32 = 2;
/// The `minReader` of what this version writes. [`crate::format`] says when it is raised.
const MIN_READER: u32 = 1;

/// How many hexadecimal digits of the digest make a revision.
const REVISION_DIGITS: usize = 16;

/// The most event codes that [`unknown_events`] returns.
const MOST_UNKNOWN: usize = 20;

/// The content of a runtime Secret: a tenant as the data plane serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// The [`FORMAT`] of the operator that wrote it.
    #[serde(default = "format::first")]
    pub format: u32,
    /// The oldest format whose readers may serve the tenant.
    #[serde(default = "format::first")]
    pub min_reader: u32,
    /// The Tenant's `metadata.generation` that this was compiled from.
    pub generation: i64,
    /// 16 hexadecimal digits that change if and only if the fields below change. The fields above do not count.
    pub revision: String,
    /// The tenant's configuration, which a process of the data plane has once.
    pub config: Arc<TenantConfig>,
    /// The uids of Webhooks that are declared but can't be served. Their deliveries are on hold instead of ending.
    pub held_webhooks: BTreeSet<String>,
    /// Their keys `namespace/name/customerCode`, by uid: deliveries know a webhook by its key. Where the customer can't be read it is the
    /// `namespace/name`. Absent in what an older operator wrote.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_keys: BTreeMap<String, String>,
    /// What is wrong with Webhooks, by uid: why they are on hold, or why their last good version is served. Each is `field: what is wrong`
    /// and holds no secret. Absent in what an older operator wrote.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, Vec<String>>,
}

/// The longest of the [`faults`](Runtime::faults), in characters; a longer text is cut.
const LONGEST_FAULT: usize = 400;
/// The largest number of faults of one Webhook.
const MOST_FAULTS: usize = 4;
/// The limit for all faults together, in bytes of JSON. Further faults are left out; the conditions of the Webhooks
/// show them, too.
const ALL_FAULTS: usize = 32 * 1024;

impl Runtime {
    /// Computes the revision. `held` are the keys of the Webhooks on hold, by uid; see [`held_keys`](Self::held_keys).
    pub fn new(
        generation: i64,
        config: impl Into<Arc<TenantConfig>>,
        held: BTreeMap<String, String>,
    ) -> Self {
        let config = config.into();
        let revision = revision(&config, &held, &BTreeMap::new());
        let held_webhooks = held.keys().cloned().collect();
        Self {
            format: FORMAT,
            min_reader: MIN_READER,
            generation,
            revision,
            config,
            held_webhooks,
            held_keys: held,
            faults: BTreeMap::new(),
        }
    }

    /// Reads what an operator of this version, an older one or a newer one wrote, without the fields and the events that this version
    /// does not know.
    ///
    /// # Errors
    ///
    /// It is for newer readers, or damaged.
    pub fn read(json: &[u8]) -> Result<Self, Unreadable> {
        format::read(json, FORMAT)
    }

    /// Adds the faults of Webhooks, by uid, the most important first. It adds at most four texts of a Webhook, and at
    /// most `room` bytes of JSON, but never more than 32 KiB.
    #[must_use]
    pub fn with_faults(
        mut self,
        faults: impl IntoIterator<Item = (String, Vec<String>)>,
        room: usize,
    ) -> Self {
        let mut room = room.min(ALL_FAULTS);
        for (uid, texts) in faults {
            let texts: Vec<String> = texts.iter().take(MOST_FAULTS).map(|text| cut(text)).collect();
            // The size includes the quotes of the uid, the colon and the comma.
            let size = serde_json::to_vec(&(&uid, &texts)).map_or(usize::MAX, |json| json.len() + 1);
            match room.checked_sub(size) {
                Some(rest) if !texts.is_empty() => {
                    room = rest;
                    self.faults.insert(uid, texts);
                }
                _ => {}
            }
        }
        if !self.faults.is_empty() {
            self.revision = revision(&self.config, &self.held(), &self.faults);
        }
        self
    }

    /// The Webhooks on hold: the key or name of each, by uid. The key is empty if an older operator did not write it.
    pub fn held(&self) -> BTreeMap<String, String> {
        let key = |uid: &String| self.held_keys.get(uid).cloned().unwrap_or_default();
        self.held_webhooks.iter().map(|uid| (uid.clone(), key(uid))).collect()
    }
}

/// The name of a tenant's runtime Secret.
pub fn secret_name(tenant_uid: &str) -> String {
    format!("docket-tenant-{tenant_uid}")
}

/// The events in the JSON of a [`Runtime`] that this version does not know, at most 20: a newer operator wrote it. A [`Runtime`] is read
/// without them.
pub fn unknown_events(json: &[u8]) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Outer {
        config: Inner,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        active_events: Vec<String>,
        webhooks: Vec<Subscription>,
    }
    #[derive(Deserialize)]
    struct Subscription {
        events: Vec<String>,
    }
    let Ok(Outer { config }) = serde_json::from_slice(json) else { return BTreeSet::new() };
    let subscribed = config.webhooks.into_iter().flat_map(|webhook| webhook.events);
    let all = config.active_events.into_iter().chain(subscribed);
    let unknown: BTreeSet<String> = all.filter(|code| code.parse::<EventCode>().is_err()).collect();
    unknown.into_iter().take(MOST_UNKNOWN).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_FAULT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn revision(
    config: &TenantConfig,
    held: &BTreeMap<String, String>,
    faults: &BTreeMap<String, Vec<String>>,
) -> String {
    // A list, not a map: so the revision of a tenant without Webhooks on hold stays as an older operator computed it.
    let held: Vec<(&String, &String)> = held.iter().collect();
    let json = match faults.is_empty() {
        true => serde_json::to_vec(&(config, held)),
        false => serde_json::to_vec(&(config, held, faults)),
    };
    let json = json.expect("plain structs with text keys serialise");
    let mut digits = hex::encode(Sha256::digest(json));
    digits.truncate(REVISION_DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, PortalLook, SigningKey, Tokens};

    fn config() -> TenantConfig {
        TenantConfig {
            uid: "u".into(),
            namespace: "default".into(),
            name: "acme".into(),
            display_name: None,
            client_code: "ACME".parse().unwrap(),
            subdomains: Vec::new(),
            suspended: false,
            api_keys: Vec::new(),
            tokens: Tokens {
                lifetime_minutes: 60,
                signing_keys: vec![SigningKey { kid: "1".into(), secret: b"hunter2".to_vec().into() }],
            },
            database: None,
            database_is_external: false,
            watcher: None,
            active_events: BTreeSet::new(),
            limits: Limits::default(),
            portal: PortalLook::default(),
            webhooks: Vec::new(),
        }
    }

    #[test]
    fn revision_changes_only_with_the_content() {
        let runtime = Runtime::new(1, config(), BTreeMap::new());
        assert_eq!(runtime.revision.len(), REVISION_DIGITS);
        assert_eq!(Runtime::new(2, config(), BTreeMap::new()).revision, runtime.revision);
        let held = BTreeMap::from([("w".to_owned(), "default/w".to_owned())]);
        assert_ne!(Runtime::new(1, config(), held).revision, runtime.revision);
        let other = TenantConfig { suspended: true, ..config() };
        assert_ne!(Runtime::new(1, other, BTreeMap::new()).revision, runtime.revision);
    }

    #[test]
    fn faults_are_bounded_and_change_the_revision() {
        let runtime = || Runtime::new(1, config(), BTreeMap::new());
        let fault = |text: &str| [("w".to_owned(), vec![text.to_owned()])];
        let with = runtime().with_faults(fault("spec.targetURL: wrong"), usize::MAX);
        assert_eq!(with.faults, BTreeMap::from(fault("spec.targetURL: wrong")));
        assert_ne!(with.revision, runtime().revision);
        assert_eq!(runtime().with_faults([], usize::MAX), runtime());
        assert_eq!(runtime().with_faults(fault("spec.targetURL: wrong"), 20), runtime(), "there is no room");
        let long = runtime().with_faults(fault(&"ä".repeat(1000)), usize::MAX);
        assert_eq!(long.faults["w"][0].chars().count(), LONGEST_FAULT + 1);
        let many = (0..1000).map(|number| (format!("{number:036}"), vec!["x".repeat(1000)]));
        let many = runtime().with_faults(many, usize::MAX);
        let size = serde_json::to_vec(&many.faults).unwrap().len();
        assert!(many.faults.len() > 50 && size <= ALL_FAULTS, "{size} bytes");
    }

    #[test]
    fn runtime_reads_back_from_json_and_prints_no_secret() {
        let runtime = Runtime::new(3, config(), BTreeMap::from([("w".to_owned(), "default/w".to_owned())]));
        let mut json = serde_json::to_value(&runtime).unwrap();
        assert_eq!(json["heldWebhooks"][0], "w");
        assert_eq!(serde_json::from_value::<Runtime>(json.clone()).unwrap(), runtime);
        json.as_object_mut().unwrap().remove("heldKeys");
        let older: Runtime = serde_json::from_value(json).unwrap();
        assert_eq!(older.held(), BTreeMap::from([("w".to_owned(), String::new())]));
        let shown = format!("{runtime:?}");
        assert!(!shown.contains("hunter2") && !shown.contains(&hex::encode("hunter2")), "{shown}");
    }

    const FORMAT_1: &str = include_str!("runtime/format-1.json");
    const NEWER: &str = include_str!("runtime/newer.json");
    const FOR_NEWER_READERS: &str = include_str!("runtime/for-newer-readers.json");

    #[test]
    fn runtime_names_its_format_which_is_no_part_of_its_revision() {
        let runtime = Runtime::new(3, config(), BTreeMap::new());
        let json = serde_json::to_value(&runtime).unwrap();
        assert_eq!(json["format"], FORMAT);
        assert_eq!(json["minReader"], MIN_READER);
        let older = Runtime { format: 1, ..runtime.clone() };
        assert_ne!(older, runtime, "the operator writes it again");
        let again = Runtime::new(3, Arc::clone(&older.config), older.held());
        assert_eq!(again.revision, older.revision, "and pods serve the same revision");
    }

    #[test]
    fn runtime_of_the_version_before_formats_is_read_as_format_1() {
        let runtime = Runtime::read(FORMAT_1.as_bytes()).unwrap();
        assert_eq!((runtime.format, runtime.min_reader, runtime.generation), (1, 1, 4));
        assert_eq!(&*runtime.config.uid, "5d0d8f6e-2f0b-4a35-9a64-0f6d2a1f7c10");
        assert_eq!(runtime.held().keys().collect::<Vec<_>>(), ["9c4f2b7a-61d8-4a0e-8a27-3e5b9d1c6f42"]);
        let written: serde_json::Value = serde_json::from_str(FORMAT_1).unwrap();
        assert_eq!(serde_json::to_value(&*runtime.config).unwrap(), written["config"], "nothing is left out");
    }

    #[test]
    fn runtime_of_a_newer_operator_is_read_without_what_is_new() {
        let runtime = Runtime::read(NEWER.as_bytes()).unwrap();
        assert_eq!((runtime.format, runtime.min_reader), (FORMAT + 1, MIN_READER));
        let before = Runtime::read(FORMAT_1.as_bytes()).unwrap();
        assert_eq!(runtime.config, before.config);
        let unknown = BTreeSet::from(["note.deleted", "order.archived"].map(str::to_owned));
        assert_eq!(unknown_events(NEWER.as_bytes()), unknown, "of the tenant and of a webhook");
        assert_eq!(unknown_events(FORMAT_1.as_bytes()), BTreeSet::new());
        assert_eq!(unknown_events(b"{"), BTreeSet::new());
    }

    #[test]
    fn runtime_for_newer_readers_is_refused_although_every_known_field_is_right() {
        let refused = Runtime::read(FOR_NEWER_READERS.as_bytes()).unwrap_err();
        assert_eq!(refused, Unreadable::Newer { min_reader: FORMAT + 1, known: FORMAT });
        assert!(serde_json::from_str::<Runtime>(FOR_NEWER_READERS).is_ok(), "only its minReader says so");
    }

    #[test]
    fn secret_name_contains_the_uid() {
        assert_eq!(secret_name("0d2f"), "docket-tenant-0d2f");
    }
}
