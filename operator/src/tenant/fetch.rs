//! I/O: the objects that a Tenant and its Webhooks refer to, and those we made for it before.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use docket_crds::{
    Missing, ReasonCode, SecretBytes, Tenant, ValueKind, Webhook, compile, runtime, tenant::NamespacesFrom,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;

use crate::{
    kube::client::{CallError, KubeApi, Values},
    state::{
        cluster::Cluster,
        declared::Declared,
        name::Name,
        references::{of_tenant, of_webhook},
    },
    tenant::{generated, stored::Stored},
};

/// How many reads of one tenant are under way at once.
const AT_ONCE: usize = 8;

/// A Tenant with its surroundings, as the watches have them.
#[derive(Debug)]
pub struct Subject {
    /// The Tenant.
    pub tenant: Arc<Declared<Tenant>>,
    /// The Webhooks that name it.
    pub webhooks: Vec<Arc<Declared<Webhook>>>,
    /// All Tenants that want something it wants too, with itself, the first one ahead.
    pub rivals: Vec<Arc<Declared<Tenant>>>,
    /// What those of them have that came before it and cannot be read.
    pub held: Vec<(Name, Vec<(ReasonCode, String)>)>,
    /// Labels of the namespaces of those Webhooks, as far as they are watched.
    labels: HashMap<String, BTreeMap<String, String>>,
    watches_namespaces: bool,
}

impl Subject {
    /// Gathers it.
    pub fn of(cluster: &Cluster, tenant: Arc<Declared<Tenant>>) -> Self {
        let name = &tenant.meta.name;
        let webhooks = cluster.webhooks_of(name);
        let namespaces = webhooks.iter().map(|webhook| webhook.meta.name.namespace.as_str());
        let namespaces: BTreeSet<&str> =
            namespaces.filter(|namespace| *namespace != name.namespace).collect();
        let labels = namespaces
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), cluster.namespace(name)?.labels.clone())))
            .collect();
        let rivals = cluster.rivals(name);
        let ahead = rivals.iter().map(|rival| (&rival.meta.name, rival.document.is_err()));
        let ahead = ahead.take_while(|(rival, _)| *rival != name).filter(|(_, unreadable)| *unreadable);
        let held = ahead.map(|(rival, _)| (rival.clone(), cluster.claims(rival))).collect();
        Self { rivals, held, labels, watches_namespaces: cluster.watches_namespaces(), webhooks, tenant }
    }

    /// Namespaces whose labels decide something and are not known.
    fn unknown_namespaces(&self) -> BTreeSet<&str> {
        let Ok(tenant) = &self.tenant.document else {
            return BTreeSet::new();
        };
        if self.watches_namespaces || tenant.spec.webhooks.allowed_namespaces.from != NamespacesFrom::Selector
        {
            return BTreeSet::new();
        }
        let own = self.tenant.meta.name.namespace.as_str();
        let namespaces = self.webhooks.iter().map(|webhook| webhook.meta.name.namespace.as_str());
        namespaces.filter(|namespace| *namespace != own).collect()
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Fetched {
    values: HashMap<(ValueKind, Name), Option<Values>>,
    /// Secrets that we make, by name; `None`: not there.
    secrets: HashMap<Name, Option<Secret>>,
    /// The runtime Secret; `None`: not there.
    pub stored: Option<Stored>,
    labels: HashMap<String, BTreeMap<String, String>>,
}

impl Fetched {
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
        self.values.insert((kind, name), Some(Values { entries, resource_version: "1".into() }));
        self
    }
}

impl compile::Values for Fetched {
    fn get(&self, kind: ValueKind, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Missing> {
        self.value(kind, &Name::new(namespace, name), key).map(|value| value.expose().to_vec())
    }
}

/// Reads all of it. What is not there, or may not be read, is part of the answer; only a failing call is an error.
pub async fn fetch(kube: &KubeApi, subject: &Subject) -> Result<Fetched, CallError> {
    let meta = &subject.tenant.meta;
    let webhooks = subject.webhooks.iter().filter_map(|webhook| webhook.document.as_ref().ok());
    let mut wanted: BTreeSet<_> = webhooks.flat_map(of_webhook).collect();
    let mut ours = BTreeSet::new();
    if let Ok(tenant) = &subject.tenant.document {
        wanted.extend(of_tenant(tenant));
        let generated = tenant.spec.api_keys.iter().filter(|key| key.generate.is_some());
        ours.extend(generated.map(|key| generated::api_key_name(tenant, &key.name)));
        ours.extend(tenant.spec.database.managed.iter().map(|_| generated::database_name(tenant)));
    }
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
    let runtime = Name::new(kube.release_namespace(), runtime::secret_name(&meta.uid));
    let (values, secrets, labels, runtime) =
        futures_util::future::try_join4(values, secrets, labels, kube.secret(&runtime)).await?;
    let stored = runtime.map(|secret| Stored::read(&secret, kube.release_namespace(), &meta.name, &meta.uid));
    let labels = labels
        .into_iter()
        .filter_map(|(name, namespace)| Some((name, namespace?.metadata.labels.unwrap_or_default())));
    let labels = subject.labels.clone().into_iter().chain(labels).collect();
    Ok(Fetched { values, secrets, stored, labels })
}
