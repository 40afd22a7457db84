//! I/O: reads the objects to which a Tenant and its Webhooks refer, and the objects that were generated for it before.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use docket_crds::{
    Missing, PlatformLimits, SecretBytes, Tenant, ValueKind, Webhook, WebhookConfig, compile, runtime,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;

use crate::kube::call_error::CallError;
use crate::kube::client::{KubeApi, ObjectData};
use crate::state::State;
use crate::state::declared::Declared;
use crate::state::name::Name;
use crate::state::references::{Value, keys_of_webhook};
use crate::state::resyncs::Unwatched;
use crate::tenant::room::{ROOM, placed, wanted, without_room};
use crate::tenant::stored::Stored;
use crate::tenant::subject::Subject;
use crate::tenant::{generated, kept};

/// The number of reads for one tenant at a time.
const AT_ONCE: usize = 8;

/// A Tenant and everything that was read for it.
#[derive(Debug)]
pub struct Fetched {
    /// The Tenant with its surroundings.
    pub subject: Subject,
    /// The Webhooks that the Tenant takes and whose values fit into the memory limit, in the Tenant's order.
    pub placed: Vec<Arc<Declared<Webhook>>>,
    /// The uids of Webhooks that the Tenant takes, but for which not all values were read, because of the memory limit.
    pub without_room: HashSet<String>,
    values: HashMap<Value, Option<ObjectData>>,
    /// The operator's Secrets, by name; `None`: the Secret does not exist.
    secrets: HashMap<Name, Option<Secret>>,
    /// The runtime Secret; `None`: it does not exist.
    pub stored: Option<Stored>,
    /// The uids of Webhooks that were served and whose objects exist but can't be read.
    pub unreadable_webhooks: BTreeSet<String>,
    labels: HashMap<String, BTreeMap<String, String>>,
}

impl Fetched {
    /// The Tenant with only what the watches know: nothing was read.
    pub fn nothing_of(subject: Subject) -> Self {
        let labels = subject.labels.clone();
        Self {
            subject,
            placed: Vec::new(),
            without_room: HashSet::new(),
            values: HashMap::new(),
            secrets: HashMap::new(),
            stored: None,
            unreadable_webhooks: BTreeSet::new(),
            labels,
        }
    }

    /// A Secret that the operator generates.
    pub fn secret(&self, name: &Name) -> Option<&Secret> {
        self.secrets.get(name)?.as_ref()
    }

    /// The labels of a namespace; empty if it does not exist.
    pub fn labels(&self, namespace: &str) -> BTreeMap<String, String> {
        self.labels.get(namespace).cloned().unwrap_or_default()
    }

    /// The resource version of an object to which the Tenant or a Webhook refers.
    pub fn version(&self, kind: ValueKind, name: &Name) -> Option<&str> {
        let values = self.values.get(&(kind, name.clone()))?.as_ref()?;
        Some(&values.resource_version)
    }

    /// The Secrets and ConfigMaps to which the Tenant and its Webhooks refer, with the versions that were read.
    pub fn versions(&self) -> impl Iterator<Item = Unwatched> {
        self.values.iter().map(|(value, data)| {
            let version = data.as_ref().map(|data| data.resource_version.clone());
            (value.clone(), version)
        })
    }

    /// The configurations of Webhooks that stay served although their objects can't be read.
    pub fn unreadable(&self) -> Vec<&WebhookConfig> {
        let served = self.stored.as_ref().and_then(Stored::config);
        let served = served.into_iter().flat_map(|config| &config.webhooks);
        served.filter(|webhook| self.unreadable_webhooks.contains(&webhook.uid)).collect()
    }

    /// A value to which the Tenant or a Webhook refers.
    pub fn value(&self, kind: ValueKind, name: &Name, key: &str) -> Result<&SecretBytes, Missing> {
        let values =
            self.values.get(&(kind, name.clone())).and_then(Option::as_ref).ok_or(Missing::NotFound)?;
        values.entries.get(key).ok_or(Missing::KeyNotFound)?.as_ref().map_err(|missing| *missing)
    }

    /// Reads the values and the operator's Secrets, in the order of the Webhooks, up to the memory limit [`ROOM`].
    async fn read_all(&mut self, kube: &KubeApi, tenant: &Tenant) -> Result<(), CallError> {
        let secrets = self.made(tenant).into_iter().map(|name| async move {
            let _turn = kube.users_turn().await;
            Ok((name.clone(), kube.secret(&name).await?.map(generated::slim)))
        });
        let values = wanted(tenant, &self.placed).into_iter().map(|((kind, name), keys)| async move {
            let data = kube.values(kind, &name, &keys).await?;
            Ok(((kind, name), data))
        });
        let (secrets, values) = (read(secrets, generated::size), read(values, ObjectData::size));
        (self.secrets, self.values) = futures_util::future::try_join(secrets, values).await?;
        self.without_room = without_room(&self.placed, |webhook| self.size(webhook));
        self.placed.retain(|webhook| !self.without_room.contains(&webhook.meta.uid));
        Ok(())
    }

    /// The names of the Secrets that the operator makes: the Tenant's own first, then the Webhooks', including Secrets that were
    /// set aside for a Webhook.
    fn made(&self, tenant: &Tenant) -> Vec<Name> {
        let (namespace, name) = (&tenant.metadata.namespace, &self.subject.meta().name);
        let own = self.subject.own_secrets.iter().filter(|secret| secret.signs);
        let own: HashSet<&Name> = own.map(|secret| &secret.name).collect();
        let webhooks = self.placed.iter().filter_map(|webhook| webhook.document.as_ref().ok());
        let of_webhooks = webhooks.flat_map(|webhook| {
            let made = generated::webhook_name(namespace, webhook);
            let customer = made.as_ref().map(|_| webhook.spec.customer_code.as_str());
            let aside = customer.map(|customer| kept::aside(name, &webhook.metadata.name, customer));
            made.into_iter().chain(aside.filter(|aside| own.contains(aside)))
        });
        generated::names(tenant).into_iter().chain(of_webhooks).collect()
    }

    /// The number of bytes that were read for a Webhook, including values that other Webhooks use too; `None`: not
    /// everything was read.
    fn size(&self, webhook: &Declared<Webhook>) -> Option<usize> {
        let Ok(document) = &webhook.document else {
            return Some(0);
        };
        let of_key = |(value, key): (Value, &str)| {
            Some(self.values.get(&value)?.as_ref().map_or(0, |data| data.size_of(key)))
        };
        let made = generated::webhook_name(&self.subject.meta().name.namespace, document);
        let made = made.map(|name| Some(self.secrets.get(&name)?.as_ref().map_or(0, generated::size)));
        keys_of_webhook(document).map(of_key).chain(made).sum()
    }

    #[cfg(test)]
    pub(crate) fn with(mut self, kind: ValueKind, name: Name, entries: &[(&str, &str)]) -> Self {
        let entries = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Ok(SecretBytes::from(value.as_bytes().to_vec()))))
            .collect();
        self.values.insert((kind, name), Some(ObjectData { entries, resource_version: "1".into() }));
        self
    }
}

/// Reads several objects at a time, in order, until their size exceeds [`ROOM`].
async fn read<K: Eq + Hash, V>(
    reads: impl Iterator<Item = impl Future<Output = Result<(K, Option<V>), CallError>>>,
    size: impl Fn(&V) -> usize,
) -> Result<HashMap<K, Option<V>>, CallError> {
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let (mut read, mut total) = (HashMap::new(), 0);
    while total <= ROOM
        && let Some((key, value)) = reads.try_next().await?
    {
        total += value.as_ref().map_or(0, &size);
        read.insert(key, value);
    }
    Ok(read)
}

impl compile::Values for Fetched {
    fn get(&self, kind: ValueKind, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Missing> {
        self.value(kind, &Name::new(namespace, name), key).map(|value| value.expose().to_vec())
    }
}

/// Reads everything that a Tenant needs, and of its Webhooks only those that the Tenant takes and that fit into the
/// memory limit. An object that does not exist, or may not be read, is part of the result. Only a call that fails is
/// an error.
pub async fn fetch(
    kube: &KubeApi,
    state: &State,
    limits: &PlatformLimits,
    tenant: Arc<Declared<Tenant>>,
) -> Result<Fetched, CallError> {
    let mut fetched = Fetched::nothing_of(Subject::of(&state.cluster(), tenant));
    let meta = fetched.subject.meta();
    let runtime = Name::new(kube.release_namespace(), runtime::secret_name(&meta.uid));
    let namespaces: Vec<String> =
        fetched.subject.unknown_namespaces().into_iter().map(str::to_owned).collect();
    let namespaces = namespaces.into_iter().map(|name| async move {
        let namespace = kube.namespace(&name).await?;
        Ok((name, namespace.map(|namespace| namespace.metadata.labels.unwrap_or_default())))
    });
    let labels = read(namespaces, |_| 0);
    let (labels, runtime) = futures_util::future::try_join(labels, kube.secret(&runtime)).await?;
    fetched.stored =
        runtime.map(|secret| Stored::read(&secret, kube.release_namespace(), &meta.name, &meta.uid));
    fetched.labels.extend(labels.into_iter().filter_map(|(name, labels)| Some((name, labels?))));
    fetched.unreadable_webhooks = unreadable_webhooks(state, fetched.stored.as_ref());
    if let Ok(document) = &Arc::clone(&fetched.subject.tenant).document {
        let labels = |namespace: &str| fetched.labels(namespace);
        fetched.placed = placed(&fetched.subject, document, &fetched.unreadable(), limits, &labels);
        fetched.read_all(kube, document).await?;
    }
    Ok(fetched)
}

/// Reads what the check of a database needs, and nothing else: the runtime Secret, and the Secret with the password or the URL.
pub async fn fetch_for_database(
    kube: &KubeApi,
    state: &State,
    tenant: Arc<Declared<Tenant>>,
) -> Result<Fetched, CallError> {
    let mut fetched = Fetched::nothing_of(Subject::of(&state.cluster(), tenant));
    let meta = fetched.subject.meta();
    let runtime = kube.secret(&Name::new(kube.release_namespace(), runtime::secret_name(&meta.uid))).await?;
    fetched.stored =
        runtime.map(|secret| Stored::read(&secret, kube.release_namespace(), &meta.name, &meta.uid));
    let declared = Arc::clone(&fetched.subject.tenant);
    let Ok(document) = &declared.document else { return Ok(fetched) };
    if let Some(external) = &document.spec.database.external {
        let mut wanted: BTreeMap<Name, BTreeSet<String>> = BTreeMap::new();
        for (name, key) in external.keys() {
            let name = Name::new(&document.metadata.namespace, name);
            wanted.entry(name).or_default().insert(key.to_owned());
        }
        for (name, keys) in wanted {
            let data = kube.values(ValueKind::Secret, &name, &keys).await?;
            fetched.values.insert((ValueKind::Secret, name), data);
        }
    } else {
        let _turn = kube.users_turn().await;
        let name = generated::database_name(document);
        let secret = kube.secret(&name).await?.map(generated::slim);
        fetched.secrets.insert(name, secret);
    }
    Ok(fetched)
}

/// The served Webhooks whose objects can't be read. Such an object may not say any more which Tenant it names, so
/// they come from the stored configuration.
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
