//! The runtime Secret: the configuration for the data plane, and the operator's only memory.
//!
//! Beside the configuration it stores when signing keys were generated, and the state of the database when it was
//! last ensured. Both are in one object, so that a crash can't separate them. The data plane ignores the second key.
//!
//! An operator of another version may have written it. The memory is read key by key, so that nothing ends because of something beside
//! it. If the signing keys can't be read, or a part of the Secret is for newer readers, the Secret stays as it is.

use std::collections::BTreeMap;
use std::fmt;

use docket_crds::format::{self, Format};
use docket_crds::{Runtime, TenantConfig, runtime};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::state::labels;
use crate::state::name::Name;
use crate::tenant::signing::KnownKey;

/// The key for what only the operator reads.
const MEMORY_KEY: &str = "operator.json";

/// The format of what this version remembers. Format 1 has no number.
const FORMAT: Format = Format { format: 2, min_reader: 1 };

/// What the operator remembers of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Signing keys with their times.
    pub signing_keys: Vec<KnownKey>,
    /// The database as it was last ensured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<EnsuredDatabase>,
    /// The Webhooks that were served or on hold and are not declared any more: since when, by `namespace/name`. `None`: the Tenant
    /// is suspended.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_webhooks: BTreeMap<String, Option<Timestamp>>,
    /// What a newer operator remembers besides. This version writes it back as it is.
    #[serde(flatten)]
    pub unknown: UnknownKeys,
}

/// The keys that this version does not know, with their values. They may be secrets, so only the keys are printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct UnknownKeys(Map<String, Value>);

impl fmt::Debug for UnknownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The JSON of a [`Memory`].
#[derive(Serialize)]
struct WrittenMemory<'a> {
    #[serde(flatten)]
    format: Format,
    #[serde(flatten)]
    memory: &'a Memory,
}

impl Memory {
    /// Reads what an operator of any version remembers. If the database can't be read, it is ensured again. If the time of a missing
    /// Webhook can't be read, the time begins again.
    ///
    /// # Errors
    ///
    /// Only newer operators can read it, or its signing keys can't be read: without them, all sessions would end. The text quotes nothing.
    fn read(json: &[u8]) -> Result<Self, String> {
        let mut entries: Map<String, Value> =
            format::read(json, FORMAT.format).map_err(|error| format!("{MEMORY_KEY} {error}"))?;
        let signing_keys = match entries.remove("signingKeys") {
            // The parser's message could quote a key, so it is dropped.
            Some(keys) => serde_json::from_value(keys).map_err(|_| {
                format!("the signingKeys in {MEMORY_KEY} are not what this version's operator writes")
            })?,
            None => Vec::new(),
        };
        let database = entries.remove("database").and_then(|database| serde_json::from_value(database).ok());
        let missing_webhooks = match entries.remove("missingWebhooks") {
            Some(Value::Object(missing)) => missing
                .into_iter()
                .map(|(name, since)| (name, serde_json::from_value(since).unwrap_or_default()))
                .collect(),
            _ => BTreeMap::new(),
        };
        entries.retain(|key, _| !matches!(key.as_str(), "format" | "minReader"));
        Ok(Self { signing_keys, database, missing_webhooks, unknown: UnknownKeys(entries) })
    }
}

/// A database that was ensured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnsuredDatabase {
    /// A fingerprint of all that the database was ensured for. If it changes, the database must be ensured again.
    pub fingerprint: String,
    /// The role; absent for an external database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The server; absent for an external database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The version of its schema.
    pub schema_version: i64,
}

impl EnsuredDatabase {
    /// Whether the database waits for a migration.
    pub fn is_behind(&self) -> bool {
        self.schema_version < docket_schema::NEWEST
    }
}

/// A runtime Secret as it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The configuration; `None`: it can't be read, or is not written yet.
    pub runtime: Option<Runtime>,
    /// The memory; empty if it can't be read.
    pub memory: Memory,
    /// Why the Secret must stay as it is: what it holds that this version can't read and must not replace.
    pub unreadable: Option<String>,
    /// The resource version of the Secret.
    pub resource_version: Option<String>,
    /// Whether labels, type and owner are as they should be.
    sound: bool,
}

impl Stored {
    /// Reads the Secret of the tenant with this uid.
    pub fn read(secret: &Secret, release_namespace: &str, tenant: &Name, uid: &str) -> Self {
        let entry = |key: &str| secret.data.as_ref()?.get(key).map(|value| value.0.as_slice());
        // A damaged configuration is compiled again. What a newer operator wrote for newer readers may restrict the tenant.
        let (runtime, newer) = match entry(runtime::KEY).map(Runtime::read) {
            Some(Ok(runtime)) => (Some(runtime), None),
            Some(Err(error)) => (None, error.is_newer().then(|| format!("{} {error}", runtime::KEY))),
            None => (None, None),
        };
        let (memory, lost) = match entry(MEMORY_KEY).map(Memory::read) {
            Some(Ok(memory)) => (memory, None),
            Some(Err(why)) => (Memory::default(), Some(why)),
            None => (Memory::default(), None),
        };
        let wanted = metadata(release_namespace, tenant, uid);
        let has = |wanted: &Option<BTreeMap<String, String>>, found: &Option<BTreeMap<String, String>>| {
            let found = found.as_ref();
            let found = |key: &String| found.and_then(|found| found.get(key));
            wanted.iter().flatten().all(|(key, value)| found(key) == Some(value))
        };
        let sound = has(&wanted.labels, &secret.metadata.labels)
            && has(&wanted.annotations, &secret.metadata.annotations)
            && secret.type_.as_deref() == Some(runtime::SECRET_TYPE);
        let runtime = runtime.filter(|runtime| *runtime.config.uid == *uid);
        let resource_version = secret.metadata.resource_version.clone();
        Self { runtime, memory, unreadable: newer.or(lost), resource_version, sound }
    }

    /// The configuration that is served.
    pub fn config(&self) -> Option<&TenantConfig> {
        self.runtime.as_ref().map(|runtime| &*runtime.config)
    }

    /// Whether the Secret already has this content, so that nothing must be written.
    pub fn is(&self, runtime: &Runtime, memory: &Memory) -> bool {
        self.sound && self.runtime.as_ref() == Some(runtime) && self.memory == *memory
    }
}

/// The runtime Secret as it should be.
pub fn secret(
    release_namespace: &str,
    tenant: &Name,
    uid: &str,
    runtime: &Runtime,
    memory: &Memory,
) -> Secret {
    let json = |value: serde_json::Result<Vec<u8>>| ByteString(value.expect("plain structs serialise"));
    Secret {
        metadata: metadata(release_namespace, tenant, uid),
        data: Some(BTreeMap::from([
            (runtime::KEY.to_owned(), json(serde_json::to_vec(runtime))),
            (MEMORY_KEY.to_owned(), json(serde_json::to_vec(&WrittenMemory { format: FORMAT, memory }))),
        ])),
        type_: Some(runtime::SECRET_TYPE.to_owned()),
        ..Secret::default()
    }
}

fn metadata(release_namespace: &str, tenant: &Name, uid: &str) -> ObjectMeta {
    let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let tenant = tenant.to_string();
    ObjectMeta {
        name: Some(runtime::secret_name(uid)),
        namespace: Some(release_namespace.to_owned()),
        labels: Some(BTreeMap::from(
            [
                (runtime::LABEL, runtime::LABEL_VALUE),
                (labels::MANAGED_BY, labels::OPERATOR),
                (labels::TENANT_UID, uid),
            ]
            .map(text),
        )),
        annotations: Some(BTreeMap::from([text((labels::TENANT, &tenant))])),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests;
