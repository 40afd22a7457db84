//! I/O: reads the objects that a Tenant and its Webhooks refer to, and those that were made for it before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use docket_crds::{Missing, SecretBytes, Tenant, ValueKind, compile, runtime};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;

use crate::kube::call_error::CallError;
use crate::kube::client::{KubeApi, ObjectData};
use crate::state::State;
use crate::state::declared::Declared;
use crate::state::name::Name;
use crate::state::references::{of_tenant, of_webhook};
use crate::tenant::generated;
use crate::tenant::stored::Stored;
use crate::tenant::subject::Subject;

/// How many reads of one tenant are under way at once.
const AT_ONCE: usize = 8;

/// A Tenant and all that was read for it.
#[derive(Debug)]
pub struct Fetched {
    /// The Tenant with its surroundings.
    pub subject: Subject,
    values: HashMap<(ValueKind, Name), Option<ObjectData>>,
    /// Secrets that we make, by name; `None`: not there.
    secrets: HashMap<Name, Option<Secret>>,
    /// The runtime Secret; `None`: not there.
    pub stored: Option<Stored>,
    /// The uids of Webhooks that were served and whose object is there but can't be read.
    pub unreadable_webhooks: BTreeSet<String>,
    labels: HashMap<String, BTreeMap<String, String>>,
}

impl Fetched {
    /// What the watches have of it, before anything was read.
    pub fn nothing_of(subject: Subject) -> Self {
        let labels = subject.labels.clone();
        Self {
            subject,
            values: HashMap::new(),
            secrets: HashMap::new(),
            stored: None,
            unreadable_webhooks: BTreeSet::new(),
            labels,
        }
    }

    /// A Secret that we make.
    pub fn secret(&self, name: &Name) -> Option<&Secret> {
        self.secrets.get(name)?.as_ref()
    }

    /// The labels of a namespace; none when it is not there.
    pub fn labels(&self, namespace: &str) -> BTreeMap<String, String> {
        self.labels.get(namespace).cloned().unwrap_or_default()
    }

    /// The version of an object that was referred to.
    pub fn version(&self, kind: ValueKind, name: &Name) -> Option<&str> {
        let values = self.values.get(&(kind, name.clone()))?.as_ref()?;
        Some(&values.resource_version)
    }

    /// A value that was referred to.
    pub fn value(&self, kind: ValueKind, name: &Name, key: &str) -> Result<&SecretBytes, Missing> {
        let values =
            self.values.get(&(kind, name.clone())).and_then(Option::as_ref).ok_or(Missing::NotFound)?;
        values.entries.get(key).ok_or(Missing::KeyNotFound)
    }

    #[cfg(test)]
    pub(crate) fn with(mut self, kind: ValueKind, name: Name, entries: &[(&str, &str)]) -> Self {
        let entries = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), SecretBytes::from(value.as_bytes().to_vec())))
            .collect();
        self.values.insert((kind, name), Some(ObjectData { entries, resource_version: "1".into() }));
        self
    }
}

impl compile::Values for Fetched {
    fn get(&self, kind: ValueKind, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Missing> {
        self.value(kind, &Name::new(namespace, name), key).map(|value| value.expose().to_vec())
    }
}

/// Reads all of it. What is not there, or may not be read, is part of the result; only a failing call is an error.
pub async fn fetch(
    kube: &KubeApi,
    state: &State,
    tenant: Arc<Declared<Tenant>>,
) -> Result<Fetched, CallError> {
    let subject = Subject::of(&state.cluster(), tenant);
    let webhooks = subject.webhooks.iter().filter_map(|webhook| webhook.document.as_ref().ok());
    let mut wanted: BTreeSet<_> = webhooks.flat_map(of_webhook).collect();
    let mut ours = Vec::new();
    if let Ok(tenant) = &subject.tenant.document {
        wanted.extend(of_tenant(tenant));
        ours = generated::names(tenant);
    }
    let namespace = &subject.meta().name.namespace;
    let webhooks = subject.webhooks.iter().filter_map(|webhook| webhook.document.as_ref().ok());
    ours.extend(webhooks.filter_map(|webhook| generated::webhook_name(namespace, webhook)));
    let values = stream::iter(wanted)
        .map(|(kind, name)| async move { Ok(((kind, name.clone()), kube.values(kind, &name).await?)) })
        .buffer_unordered(AT_ONCE)
        .try_collect();
    let secrets = stream::iter(ours)
        .map(|name| async move { Ok((name.clone(), kube.secret(&name).await?)) })
        .buffer_unordered(AT_ONCE)
        .try_collect();
    let namespaces: Vec<String> = subject.unknown_namespaces().into_iter().map(str::to_owned).collect();
    let labels = stream::iter(namespaces)
        .map(|name| async move { Ok((name.clone(), kube.namespace(&name).await?)) })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>();
    let runtime = Name::new(kube.release_namespace(), runtime::secret_name(&subject.meta().uid));
    let (values, secrets, labels, runtime) =
        futures_util::future::try_join4(values, secrets, labels, kube.secret(&runtime)).await?;
    let mut fetched = Fetched { values, secrets, ..Fetched::nothing_of(subject) };
    fetched.labels.extend(
        labels
            .into_iter()
            .filter_map(|(name, namespace)| Some((name, namespace?.metadata.labels.unwrap_or_default()))),
    );
    let meta = fetched.subject.meta();
    fetched.stored =
        runtime.map(|secret| Stored::read(&secret, kube.release_namespace(), &meta.name, &meta.uid));
    fetched.unreadable_webhooks = unreadable_webhooks(state, fetched.stored.as_ref());
    Ok(fetched)
}

/// Such a Webhook may no longer say which Tenant it names.
fn unreadable_webhooks(state: &State, stored: Option<&Stored>) -> BTreeSet<String> {
    let served = stored.and_then(Stored::config).map(|config| config.webhooks.as_slice()).unwrap_or_default();
    let cluster = state.cluster();
    let is_unreadable = |namespace: &str, name: &str, uid: &str| {
        cluster.is_unreadable_webhook(&Name::new(namespace, name), uid)
    };
    let unreadable =
        served.iter().filter(|webhook| is_unreadable(&webhook.namespace, &webhook.name, &webhook.uid));
    unreadable.map(|webhook| webhook.uid.clone()).collect()
}
