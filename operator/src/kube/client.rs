//! The calls to the API server: each with a deadline, each write only while the lease is held.
//!
//! Errors never quote a request's body, which may hold secrets; the API server's own message is passed on without the
//! values it may repeat.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use docket_crds::{API_VERSION, EventReason, SecretBytes, ValueKind, is_object_name};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    runtime::events::{Event, EventType, Recorder},
};
use serde_json::{Value, json};

use crate::{
    kube::lease::Held,
    state::{
        declared::{Document, FINALIZER, Meta, resource},
        name::Name,
    },
};

/// The field manager of Secrets.
pub const MANAGER: &str = "docket-operator";
/// The field manager of status.
pub const STATUS_MANAGER: &str = "docket-operator/status";

/// How long the API server may take for one call.
const DEADLINE: Duration = Duration::from_secs(15);

/// Why a call had no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// We do not hold the lease, so nothing was written.
    #[error("the lease is not held")]
    NotHeld,
    /// The object is another one, or of another version, than we thought.
    #[error("the object changed meanwhile")]
    Conflict,
    /// The object is not there.
    #[error("the object is not there")]
    NotFound,
    /// We may not do that.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The API server does not take it.
    #[error("refused by the API server: {0}")]
    Refused(String),
    /// The API server is away or too slow.
    #[error("the API server is away: {0}")]
    Away(String),
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                403 => Self::Forbidden(status.message.clone()),
                404 => Self::NotFound,
                409 => Self::Conflict,
                429 | 500..=599 => Self::Away(status.message.clone()),
                // What a policy says is somebody's words about it; the API server's own may repeat what was sent.
                _ if status.message.contains(" denied ") => {
                    Self::Refused(format!("{} {}: {}", status.code, status.reason, status.message))
                }
                _ => Self::Refused(format!("{} {}", status.code, status.reason)),
            },
            // It may quote what it could not read.
            kube::Error::SerdeError(_) => Self::Refused("its answer cannot be read".into()),
            other => Self::Away(other.to_string()),
        }
    }
}

/// The API server, as far as we write to it.
#[derive(Clone)]
pub struct KubeApi {
    client: Client,
    held: Arc<Held>,
    recorder: Recorder,
    release_namespace: String,
}

impl std::fmt::Debug for KubeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeApi").field("release_namespace", &self.release_namespace).finish_non_exhaustive()
    }
}

/// The values of a Secret or ConfigMap, and its version.
#[derive(Clone, Debug)]
pub struct Values {
    /// By key.
    pub entries: BTreeMap<String, SecretBytes>,
    /// Of the object.
    pub resource_version: String,
}

impl KubeApi {
    /// `client` should not retry by itself: it would hold up what waits behind it.
    pub fn new(client: Client, held: Arc<Held>, recorder: Recorder, release_namespace: String) -> Self {
        Self { client, held, recorder, release_namespace }
    }

    /// Where runtime Secrets are.
    pub fn release_namespace(&self) -> &str {
        &self.release_namespace
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn objects<T: Document>(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource::<T>())
    }

    async fn write<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        if !self.held.is_held() {
            return Err(CallError::NotHeld);
        }
        within(call).await
    }

    /// A Secret, if it is there. None has a name that no object can have: it would be another request.
    pub async fn secret(&self, name: &Name) -> Result<Option<Secret>, CallError> {
        if !is_object_name(&name.name) {
            return Ok(None);
        }
        within(self.secrets(&name.namespace).get_opt(&name.name)).await
    }

    /// The values of a Secret or ConfigMap; `None` when it is not there or we may not read it.
    pub async fn values(&self, kind: ValueKind, name: &Name) -> Result<Option<Values>, CallError> {
        let read = match kind {
            ValueKind::Secret => self.secret(name).await.map(|secret| secret.map(of_secret)),
            ValueKind::ConfigMap if !is_object_name(&name.name) => Ok(None),
            ValueKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &name.namespace);
                within(api.get_opt(&name.name)).await.map(|map| map.map(of_config_map))
            }
        };
        match read {
            Err(CallError::Forbidden(message)) => {
                tracing::warn!(object = %name, message, "may not be read, which counts as not there");
                Ok(None)
            }
            other => other,
        }
    }

    /// A namespace; `None` when it is not there or we may not read it.
    pub async fn namespace(&self, name: &str) -> Result<Option<Namespace>, CallError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        match within(api.get_opt(name)).await {
            Err(CallError::Forbidden(_)) => Ok(None),
            other => other,
        }
    }

    /// Whether there is an object of this name and uid at this moment.
    pub async fn lives<T: Document>(&self, name: &Name, uid: &str) -> Result<bool, CallError> {
        let found = within(self.objects::<T>(&name.namespace).get_metadata_opt(&name.name)).await?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_deref() == Some(uid)))
    }

    /// Makes a Secret; [`CallError::Conflict`] when there is one of that name.
    pub async fn create_secret(&self, secret: &Secret) -> Result<Secret, CallError> {
        let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.write(self.secrets(namespace).create(&parameters, secret)).await
    }

    /// Replaces a Secret of the version that `secret` names; [`CallError::Conflict`] when it has another.
    pub async fn replace_secret(&self, secret: &Secret) -> Result<Secret, CallError> {
        let meta = &secret.metadata;
        let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref());
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.write(self.secrets(namespace).replace(name.unwrap_or_default(), &parameters, secret)).await
    }

    /// Puts a Secret's whole content there, whatever it was.
    pub async fn apply_secret(&self, secret: &Secret) -> Result<Secret, CallError> {
        let meta = &secret.metadata;
        let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref());
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(secret);
        self.write(self.secrets(namespace).patch(name.unwrap_or_default(), &parameters, &patch)).await
    }

    /// Removes a Secret of this uid; it is fine if it is gone.
    pub async fn delete_secret(&self, name: &Name, uid: &str) -> Result<(), CallError> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.write(self.secrets(&name.namespace).delete(&name.name, &parameters)).await {
            Ok(_) | Err(CallError::NotFound | CallError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts a status there, on the object of this uid alone.
    pub async fn apply_status<T: Document>(
        &self,
        meta: &Meta,
        status: &Value,
    ) -> Result<DynamicObject, CallError> {
        let Name { namespace, name } = &meta.name;
        let body = json!({
            "apiVersion": API_VERSION, "kind": T::KIND,
            "metadata": {"name": name, "namespace": namespace, "uid": meta.uid},
            "status": status,
        });
        let parameters = PatchParams::apply(STATUS_MANAGER).force();
        self.write(self.objects::<T>(namespace).patch_status(name, &parameters, &Patch::Apply(body))).await
    }

    /// Puts our finalizer on an object, or takes it off; on the very version that `meta` is of.
    pub async fn hold<T: Document>(&self, meta: &Meta, hold: bool) -> Result<DynamicObject, CallError> {
        let mut finalizers: Vec<&str> = meta.finalizers.iter().map(String::as_str).collect();
        finalizers.retain(|finalizer| *finalizer != FINALIZER);
        if hold {
            finalizers.push(FINALIZER);
        }
        let body = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}});
        let Name { namespace, name } = &meta.name;
        let parameters = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        self.write(self.objects::<T>(namespace).patch(name, &parameters, &Patch::Merge(body))).await
    }

    /// Tells an Event; a failure is logged and nothing else, since nobody can act on it.
    pub async fn tell<T: Document>(&self, meta: &Meta, event: &News) {
        let reference = ObjectReference {
            api_version: Some(API_VERSION.into()),
            kind: Some(T::KIND.into()),
            namespace: Some(meta.name.namespace.clone()),
            name: Some(meta.name.name.clone()),
            uid: Some(meta.uid.clone()),
            ..ObjectReference::default()
        };
        let type_ = if event.warning { EventType::Warning } else { EventType::Normal };
        let mut note = event.note.clone();
        // The API server takes 1,024 bytes.
        note.truncate(note.floor_char_boundary(1000));
        let reason = event.reason.as_str().to_owned();
        // With it, two Events of one reason about different Secrets are not taken for a repetition.
        let secondary = event.secret.as_ref().map(|secret| ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Secret".into()),
            namespace: Some(secret.namespace.clone()),
            name: Some(secret.name.clone()),
            ..ObjectReference::default()
        });
        let event = Event { type_, reason, note: Some(note), action: event.action.to_owned(), secondary };
        if let Err(error) = self.write(self.recorder.publish(&event, &reference)).await {
            tracing::warn!(object = %meta.name, %error, "an Event could not be told");
        }
    }
}

/// What an Event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Why it is reported.
    pub reason: EventReason,
    /// What was done, in `PascalCase`.
    pub action: &'static str,
    /// For people, without secrets.
    pub note: String,
    /// Whether somebody should look.
    pub warning: bool,
    /// The Secret it is about, too.
    pub secret: Option<Name>,
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => result.map_err(CallError::from),
        Err(_) => Err(CallError::Away(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

fn of_secret(secret: Secret) -> Values {
    let entries = secret.data.unwrap_or_default();
    let entries = entries.into_iter().map(|(key, value)| (key, SecretBytes::from(value.0))).collect();
    Values { entries, resource_version: secret.metadata.resource_version.unwrap_or_default() }
}

fn of_config_map(map: ConfigMap) -> Values {
    let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    let entries = binary.chain(text).map(|(key, value)| (key, SecretBytes::from(value))).collect();
    Values { entries, resource_version: map.metadata.resource_version.unwrap_or_default() }
}
