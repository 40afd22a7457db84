//! The calls to the API server. Each has a time limit, and writes are sent only while the Lease is held.
//!
//! They return the errors of `call_error`, which quote no values.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use docket_crds::compile::MAX_VALUE;
use docket_crds::{Missing, SecretBytes, ValueKind, is_object_name};
use docket_program::apiserver::ApiServerError;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::Recorder;
use kube::{Api, Client};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::kube::call_error::CallError;
use crate::kube::lease::Leadership;
use crate::metrics::Metrics;
use crate::state::name::Name;
use crate::state::own_secrets::OwnSecret;
use crate::state::{State, labels};

/// The field manager of Secrets.
pub const MANAGER: &str = labels::OPERATOR;

/// The time limit of one call.
const DEADLINE: Duration = Duration::from_secs(15);

/// Reads and writes objects.
#[derive(Clone)]
pub struct KubeApi {
    pub(super) client: Client,
    pub(super) leadership: Arc<Leadership>,
    pub(super) recorder: Recorder,
    release_namespace: String,
    pub(super) state: Arc<State>,
    pub(super) metrics: Arc<Metrics>,
    users_objects: Arc<Semaphore>,
}

impl std::fmt::Debug for KubeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeApi").field("release_namespace", &self.release_namespace).finish_non_exhaustive()
    }
}

/// The number of objects of users that are read at a time, over all passes. Each may take some megabytes, until
/// everything but the wanted values is dropped.
const USERS_OBJECTS: usize = 8;

/// The wanted values of a Secret or ConfigMap, and its version.
#[derive(Clone, Debug)]
pub struct ObjectData {
    /// The values by key; for a value that is too large, only this fact.
    pub entries: BTreeMap<String, Result<SecretBytes, Missing>>,
    /// The resource version of the object.
    pub resource_version: String,
}

impl ObjectData {
    /// The size of all values, in bytes.
    pub fn size(&self) -> usize {
        self.entries.keys().map(|key| self.size_of(key)).sum()
    }

    /// The size of the value of a key, in bytes.
    pub fn size_of(&self, key: &str) -> usize {
        let value = self.entries.get(key).and_then(|value| value.as_ref().ok());
        value.map_or(0, |value| value.expose().len())
    }
}

impl KubeApi {
    /// `client` must not retry by itself, because a retry would delay the calls behind it. Each write is recorded in
    /// `state` before the next pass, so that the watch's report about it causes no pass.
    pub fn new(
        client: Client,
        leadership: Arc<Leadership>,
        recorder: Recorder,
        release_namespace: String,
        state: Arc<State>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let users_objects = Arc::new(Semaphore::new(USERS_OBJECTS));
        Self { client, leadership, recorder, release_namespace, state, metrics, users_objects }
    }

    /// The name of this installation on database servers that other installations may use too.
    pub fn installation(&self) -> String {
        self.leadership.installation()
    }

    /// The namespace of runtime Secrets.
    pub fn release_namespace(&self) -> &str {
        &self.release_namespace
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(super) async fn write<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        if !self.leadership.may_write() {
            return Err(CallError::NotLeader);
        }
        self.state.writes.spend(Instant::now());
        within(call).await
    }

    async fn write_secret(&self, call: impl Future<Output = kube::Result<Secret>>) -> Result<(), CallError> {
        let written = self.write(call).await?;
        if let Some(own) = OwnSecret::of(&written.metadata, &self.release_namespace) {
            self.state.cluster().own_written(own);
        }
        Ok(())
    }

    /// Reads a Secret, if it exists. It never sends a name that no object can have, because this would be another request.
    pub async fn secret(&self, name: &Name) -> Result<Option<Secret>, CallError> {
        if !is_object_name(&name.name) {
            return Ok(None);
        }
        within(self.secrets(&name.namespace).get_opt(&name.name)).await
    }

    /// Reads the values under these keys of a Secret or ConfigMap; `None`: the object does not exist, or the operator
    /// may not read it.
    pub async fn values(
        &self,
        kind: ValueKind,
        name: &Name,
        keys: &BTreeSet<String>,
    ) -> Result<Option<ObjectData>, CallError> {
        let _turn = self.users_turn().await;
        let read = match kind {
            ValueKind::Secret => {
                self.secret(name).await.map(|secret| secret.map(|secret| of_secret(secret, keys)))
            }
            ValueKind::ConfigMap if !is_object_name(&name.name) => Ok(None),
            ValueKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &name.namespace);
                within(api.get_opt(&name.name)).await.map(|map| map.map(|map| of_config_map(map, keys)))
            }
        };
        match read {
            Err(CallError::Api(ApiServerError::Forbidden(message))) => {
                tracing::warn!(object = %name, message, "reading a referenced object failed: forbidden; it counts as missing");
                Ok(None)
            }
            other => other,
        }
    }

    /// The resource version of a Secret or ConfigMap, without its values; `None` as in [`values`](Self::values).
    pub async fn version(&self, kind: ValueKind, name: &Name) -> Result<Option<String>, CallError> {
        if !is_object_name(&name.name) {
            return Ok(None);
        }
        let found = match kind {
            ValueKind::Secret => {
                let found = within(self.secrets(&name.namespace).get_metadata_opt(&name.name)).await;
                found.map(|found| found.map(|found| found.metadata))
            }
            ValueKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &name.namespace);
                let found = within(api.get_metadata_opt(&name.name)).await;
                found.map(|found| found.map(|found| found.metadata))
            }
        };
        match found {
            Err(CallError::Api(ApiServerError::Forbidden(_))) => Ok(None),
            found => Ok(found?.map(|meta| meta.resource_version.unwrap_or_default())),
        }
    }

    /// A permit to read an object that users may have filled. Drop it when little of the object is left.
    pub async fn users_turn(&self) -> SemaphorePermit<'_> {
        self.users_objects.acquire().await.expect("nothing closes it")
    }

    /// Reads a namespace; `None`: it does not exist, or the operator may not read it.
    pub async fn namespace(&self, name: &str) -> Result<Option<Namespace>, CallError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        match within(api.get_opt(name)).await {
            Err(CallError::Api(ApiServerError::Forbidden(_))) => Ok(None),
            other => other,
        }
    }

    /// Creates a Secret. [`ApiServerError::Conflict`]: a Secret of this name exists.
    pub async fn create_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.write_secret(self.secrets(namespace).create(&parameters, secret)).await
    }

    /// Replaces a Secret of the version in `secret`. [`ApiServerError::Conflict`]: the Secret has another version.
    pub async fn replace_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let meta = &secret.metadata;
        let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref());
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.write_secret(self.secrets(namespace).replace(name.unwrap_or_default(), &parameters, secret))
            .await
    }

    /// Writes a Secret that nothing else depends on, in place of a Secret of the operator that has its name. Returns whether it was
    /// written: a Secret of a user stays. [`ApiServerError::Conflict`]: the Secret of this name changed meanwhile.
    pub async fn put_secret(&self, secret: &Secret) -> Result<bool, CallError> {
        match self.create_secret(secret).await {
            Err(CallError::Api(ApiServerError::Conflict)) => {}
            created => return created.map(|()| true),
        }
        let (namespace, name) = (secret.metadata.namespace.as_deref(), secret.metadata.name.as_deref());
        let name = Name::new(namespace.unwrap_or_default(), name.unwrap_or_default());
        let Some(found) = self.secret(&name).await? else { return Err(ApiServerError::Conflict.into()) };
        if OwnSecret::of(&found.metadata, &self.release_namespace).is_none() {
            return Ok(false);
        }
        let mut secret = secret.clone();
        secret.metadata.resource_version = found.metadata.resource_version;
        self.replace_secret(&secret).await.map(|()| true)
    }

    /// Writes the whole content of a Secret. [`ApiServerError::Conflict`]: `secret` has a resource version, and it is not the present one.
    pub async fn apply_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let meta = &secret.metadata;
        let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref());
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(secret);
        self.write_secret(self.secrets(namespace).patch(name.unwrap_or_default(), &parameters, &patch)).await
    }

    /// Deletes the Secret with this uid. If it does not exist, the call succeeds. [`ApiServerError::Conflict`]: the Secret of this name has
    /// another uid, or the API server could not delete it. Then the next pass looks again, because a tenant may still be served from it.
    pub async fn delete_secret(&self, name: &Name, uid: &str) -> Result<(), CallError> {
        self.delete(name, Preconditions { uid: Some(uid.to_owned()), resource_version: None }).await
    }

    /// Deletes a Secret of ours as it was seen; success if it does not exist, or was written since.
    pub async fn delete_unchanged_secret(&self, secret: &OwnSecret) -> Result<(), CallError> {
        let (uid, resource_version) = (Some(secret.uid.clone()), Some(secret.resource_version.clone()));
        match self.delete(&secret.name, Preconditions { uid, resource_version }).await {
            Err(CallError::Api(ApiServerError::Conflict)) => Ok(()),
            deleted => deleted,
        }
    }

    async fn delete(&self, name: &Name, preconditions: Preconditions) -> Result<(), CallError> {
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.write(self.secrets(&name.namespace).delete(&name.name, &parameters)).await {
            Ok(_) | Err(CallError::Api(ApiServerError::NotFound)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

pub(super) async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => result.map_err(CallError::from),
        Err(_) => {
            Err(ApiServerError::Unavailable(format!("no response within {} s", DEADLINE.as_secs())).into())
        }
    }
}

fn of_secret(secret: Secret, keys: &BTreeSet<String>) -> ObjectData {
    let all = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    ObjectData {
        entries: wanted(all, keys),
        resource_version: secret.metadata.resource_version.unwrap_or_default(),
    }
}

fn of_config_map(map: ConfigMap, keys: &BTreeSet<String>) -> ObjectData {
    let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    ObjectData {
        entries: wanted(binary.chain(text), keys),
        resource_version: map.metadata.resource_version.unwrap_or_default(),
    }
}

/// Keeps only the values under `keys`, and drops everything else that users put into an object.
fn wanted(
    all: impl Iterator<Item = (String, Vec<u8>)>,
    keys: &BTreeSet<String>,
) -> BTreeMap<String, Result<SecretBytes, Missing>> {
    let wanted = all.filter(|(key, _)| keys.contains(key));
    let within = |value: Vec<u8>| match value.len() {
        ..=MAX_VALUE => Ok(SecretBytes::from(value)),
        _ => Err(Missing::TooLarge),
    };
    wanted.map(|(key, value)| (key, within(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_object_only_what_is_wanted_is_kept_and_nothing_large() {
        let data = BTreeMap::from([
            ("ca.crt".to_owned(), "x".repeat(MAX_VALUE)),
            ("large".to_owned(), "x".repeat(MAX_VALUE + 1)),
            ("other".to_owned(), "x".repeat(500_000)),
        ]);
        let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        let read = of_config_map(map, &["ca.crt", "large", "absent"].map(str::to_owned).into());
        assert_eq!(read.entries.keys().collect::<Vec<_>>(), ["ca.crt", "large"]);
        assert!(matches!(read.entries["large"], Err(Missing::TooLarge)));
        assert_eq!(read.size(), MAX_VALUE);
    }
}
