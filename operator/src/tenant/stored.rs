//! The runtime Secret: the configuration for the data plane, and the operator's only memory.
//!
//! Beside the configuration it stores when signing keys were generated, and the state of the database when it was
//! last ensured. Both are in one object, so that a crash can't separate them. The data plane ignores the second key.

use std::collections::BTreeMap;

use docket_crds::{Runtime, TenantConfig, runtime};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::state::labels;
use crate::state::name::Name;
use crate::tenant::signing::KnownKey;

/// The key for what only the operator reads.
const MEMORY_KEY: &str = "operator.json";

/// What the operator remembers of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
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
}

/// A database that was ensured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnsuredDatabase {
    /// Of all that it was ensured for; another one means that it must be ensured again.
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

/// A runtime Secret as it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The configuration; `None`: it is damaged, or not written yet.
    pub runtime: Option<Runtime>,
    /// The memory; empty if it is damaged.
    pub memory: Memory,
    /// Whether labels, type and owner are as they should be.
    sound: bool,
}

impl Stored {
    /// Reads the Secret of the tenant with this uid.
    pub fn read(secret: &Secret, release_namespace: &str, tenant: &Name, uid: &str) -> Self {
        let entry = |key: &str| secret.data.as_ref()?.get(key).map(|value| value.0.as_slice());
        // The parser's message could quote a secret, so it is dropped.
        let runtime = entry(runtime::KEY).and_then(|json| serde_json::from_slice::<Runtime>(json).ok());
        let memory = entry(MEMORY_KEY).and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
        let wanted = metadata(release_namespace, tenant, uid);
        let has = |wanted: &Option<BTreeMap<String, String>>, found: &Option<BTreeMap<String, String>>| {
            let found = found.as_ref();
            let found = |key: &String| found.and_then(|found| found.get(key));
            wanted.iter().flatten().all(|(key, value)| found(key) == Some(value))
        };
        let sound = has(&wanted.labels, &secret.metadata.labels)
            && has(&wanted.annotations, &secret.metadata.annotations)
            && secret.type_.as_deref() == Some(runtime::SECRET_TYPE);
        Self { runtime: runtime.filter(|runtime| *runtime.config.uid == *uid), memory, sound }
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
            (MEMORY_KEY.to_owned(), json(serde_json::to_vec(memory))),
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
