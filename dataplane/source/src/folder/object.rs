//! One document: the object that it declares, and which version counts while the document is broken.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use docket_crds::{SecretBytes, Tenant, Violation, Webhook};
use serde_json::{Map, Value};

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

docket_crds::words! {
    /// The kinds that are read.
    pub(super) enum Kind {
        Tenant,
        Webhook,
        Secret,
        ConfigMap,
    }
}

impl Kind {
    /// The name of an object in problems, such as `Tenant default/acme`.
    pub(super) fn of(self, name: &Name) -> String {
        format!("{self} {name}")
    }
}

/// The kind and name in a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// An object of one of Docket's kinds.
    Known(Kind, Name),
    /// An object of another program's kind, which is not read.
    Foreign(Violation),
    /// Kind or name is missing or wrong: it may be an object that was good before.
    Unclear(Violation),
}

impl Identity {
    pub(super) fn of(document: &Value) -> Self {
        let Some(kind) = document.get("kind").and_then(Value::as_str) else {
            let kinds = Kind::WORDS.join(", ");
            return Self::Unclear(Violation::new("kind", format!("is required; one of: {kinds}")));
        };
        let Ok(ours) = kind.parse::<Kind>() else { return Self::other(kind, document) };
        let metadata = document.get("metadata").unwrap_or(&Value::Null);
        let Some(name) = metadata.get("name").and_then(Value::as_str) else {
            return Self::Unclear(Violation::new("metadata.name", "is required, and must be a string"));
        };
        match metadata.get("namespace").unwrap_or(&Value::Null) {
            Value::Null => Self::Known(ours, Name { namespace: "default".into(), name: name.into() }),
            Value::String(namespace) => {
                Self::Known(ours, Name { namespace: namespace.into(), name: name.into() })
            }
            _ => Self::Unclear(Violation::new("metadata.namespace", "must be a string; put it in quotes")),
        }
    }

    fn other(kind: &str, document: &Value) -> Self {
        let kinds = Kind::WORDS.join(", ");
        let violation = Violation::new("kind", format!("{kind:?} is not read here; one of: {kinds}"));
        let version = document.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        // A version of Docket's group, or none: the document may be a Tenant or Webhook with a typing error.
        if version.is_empty() || version.starts_with(docket_crds::GROUP) {
            Self::Unclear(violation)
        } else {
            Self::Foreign(violation)
        }
    }
}

/// A kind of object, read from a document.
pub(super) trait Object: Clone {
    /// Reads an object. Returns what could be read, and all violations. Without violations, the object is `Some`.
    fn read(document: Value) -> (Option<Self>, Vec<Violation>);

    /// Violations of the rules for fields that never change.
    fn check_change(&self, _last: &Self) -> Vec<Violation> {
        Vec::new()
    }

    /// The version that counts while `now` is broken: the last good version, without everything that `now` switches off.
    fn fall_back(last: Option<&Self>, now: Option<&Self>) -> Option<Self>;
}

/// Reads an object. An object with the right types is read even if it breaks rules.
fn typed<T: serde::de::DeserializeOwned>(
    document: Value,
    valid: fn(Value) -> Result<T, Vec<Violation>>,
) -> (Option<T>, Vec<Violation>) {
    match valid(document.clone()) {
        Ok(object) => (Some(object), Vec::new()),
        Err(violations) => (serde_json::from_value(document).ok(), violations),
    }
}

impl Object for Tenant {
    fn read(document: Value) -> (Option<Self>, Vec<Violation>) {
        typed(document, Self::from_json)
    }

    fn check_change(&self, last: &Self) -> Vec<Violation> {
        self.validate_change(last)
    }

    fn fall_back(last: Option<&Self>, now: Option<&Self>) -> Option<Self> {
        let mut kept = last?.clone();
        if let Some(now) = now {
            let spec = &mut kept.spec;
            spec.suspend |= now.spec.suspend;
            spec.subdomains.retain(|subdomain| now.spec.subdomains.contains(subdomain));
            spec.api_keys.retain(|key| now.spec.api_keys.iter().any(|other| other.name == key.name));
            for key in &mut spec.api_keys {
                key.active &= now.spec.api_keys.iter().any(|other| other.name == key.name && other.active);
            }
        }
        Some(kept)
    }
}

impl Object for Webhook {
    fn read(document: Value) -> (Option<Self>, Vec<Violation>) {
        typed(document, Self::from_json)
    }

    fn check_change(&self, last: &Self) -> Vec<Violation> {
        self.validate_change(last)
    }

    fn fall_back(last: Option<&Self>, now: Option<&Self>) -> Option<Self> {
        let mut kept = last?.clone();
        kept.spec.active &= now.is_none_or(|now| now.spec.active);
        Some(kept)
    }
}

/// The values of a Secret or ConfigMap by key; `None`: the value could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Data(BTreeMap<String, Option<SecretBytes>>);

impl Data {
    pub(super) fn get(&self, key: &str) -> Option<&SecretBytes> {
        self.0.get(key)?.as_ref()
    }

    fn read_field(
        &mut self,
        field: &str,
        value: Option<&Value>,
        decode: impl Fn(&str) -> Result<Vec<u8>, String>,
        found: &mut Vec<Violation>,
    ) {
        let entries = match value {
            None | Some(Value::Null) => return,
            Some(Value::Object(entries)) => entries,
            Some(_) => return found.push(Violation::new(field, "must be an object of keys and strings")),
        };
        for (key, value) in entries {
            let text = value.as_str().ok_or_else(|| "must be a string; put it in quotes".to_owned());
            let bytes = text.and_then(&decode);
            let bytes = bytes.map_err(|wrong| found.push(Violation::new(format!("{field}.{key}"), wrong)));
            self.0.insert(key.clone(), bytes.ok().map(SecretBytes::from));
        }
    }
}

/// Decodes standard base64, which may have line breaks. The message does not repeat the text.
fn base64(text: &str, plain: &str) -> Result<Vec<u8>, String> {
    let one_line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(one_line).map_err(|_| format!("must be base64; plain text goes under {plain}"))
}

impl Object for Data {
    fn read(document: Value) -> (Option<Self>, Vec<Violation>) {
        let mut found = Vec::new();
        let Value::Object(document) = document else {
            return (None, vec![Violation::new("", "must be an object")]);
        };
        if document.get("apiVersion").and_then(Value::as_str) != Some("v1") {
            found.push(Violation::new("apiVersion", "must be v1"));
        }
        let secret = document.get("kind").and_then(Value::as_str) == Some("Secret");
        let (plain, encoded) = if secret { ("stringData", "data") } else { ("data", "binaryData") };
        check_fields(&document, &[plain, encoded], &mut found);
        // Plain values come last: as in a cluster, they win over encoded values of the same key.
        let mut data = Self::default();
        data.read_field(encoded, document.get(encoded), |text| base64(text, plain), &mut found);
        data.read_field(plain, document.get(plain), |text| Ok(text.into()), &mut found);
        (Some(data), found)
    }

    fn fall_back(last: Option<&Self>, now: Option<&Self>) -> Option<Self> {
        let Some(now) = now else { return last.cloned() };
        let mut kept = now.clone();
        for (key, value) in kept.0.iter_mut().filter(|(_, value)| value.is_none()) {
            *value = last.and_then(|last| last.get(key)).cloned();
        }
        Some(kept)
    }
}

fn check_fields(document: &Map<String, Value>, own: &[&str], found: &mut Vec<Violation>) {
    const SHARED: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];
    let known: Vec<&str> = SHARED.iter().chain(own).copied().collect();
    for name in document.keys().filter(|name| !known.contains(&name.as_str())) {
        found.push(Violation::new(name, format!("unknown field; one of: {}", known.join(", "))));
    }
}
