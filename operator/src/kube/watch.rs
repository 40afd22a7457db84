//! The watches: one per kind and namespace, each feeding [`Cluster`] and the queues.
//!
//! Secrets and ConfigMaps are watched by label and as metadata only: their values never come over a watch, and those of
//! others cost nothing.

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use docket_crds::{Tenant, ValueKind, Webhook, runtime};
use futures_util::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams, ObjectMeta, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher, watcher::Event},
};
use serde::de::DeserializeOwned;

use crate::{
    state::{
        by_name::Listed,
        cluster::{Cluster, Key, Namespace, OwnSecret},
        declared::{Declared, Document, resource},
        labels,
        name::Name,
    },
    work::Operator,
};

/// What one watch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Tenants,
    Webhooks,
    Values(ValueKind),
    /// Secrets we made in tenants' namespaces.
    Generated,
    /// Secrets we made for the data plane.
    Runtimes,
    Namespaces,
}

impl Subject {
    /// Whether work may begin without having seen these: they tell when to look, what they hold is read by name.
    const fn may_be_missing(self) -> bool {
        matches!(self, Self::Values(_) | Self::Generated)
    }
}

/// One object of a watch, in the form its subject needs.
enum Seen {
    Tenant(Arc<Declared<Tenant>>),
    Webhook(Arc<Declared<Webhook>>),
    Meta(Box<ObjectMeta>),
}

/// How far the watches are.
#[derive(Debug, Default)]
pub struct Progress {
    listed: AtomicUsize,
    wanted: AtomicUsize,
}

impl Progress {
    /// Whether every watch has its first list.
    pub fn is_complete(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        wanted > 0 && self.listed.load(Ordering::Acquire) >= wanted
    }
}

/// Watches for ever. `namespaces` empty: all of them.
pub async fn watch_all(operator: Arc<Operator>, client: Client, namespaces: &[String]) {
    let scopes: Vec<Option<String>> = match namespaces {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let mut watches = Vec::new();
    for scope in &scopes {
        let scope = scope.as_deref();
        watches.push((Subject::Tenants, scope, objects::<Tenant>(&client, scope)));
        watches.push((Subject::Webhooks, scope, objects::<Webhook>(&client, scope)));
        let watched = format!("{}=true", labels::WATCH);
        watches.push((
            Subject::Values(ValueKind::Secret),
            scope,
            metadata::<core::Secret>(&client, scope, &watched),
        ));
        watches.push((
            Subject::Values(ValueKind::ConfigMap),
            scope,
            metadata::<core::ConfigMap>(&client, scope, &watched),
        ));
        let ours = format!("{}={},{}", labels::MANAGED_BY, labels::OPERATOR, labels::TENANT_UID);
        watches.push((Subject::Generated, scope, metadata::<core::Secret>(&client, scope, &ours)));
    }
    let release = Some(operator.kube.release_namespace().to_owned());
    let ours = format!("{}={}", runtime::LABEL, runtime::LABEL_VALUE);
    let release = release.as_deref();
    watches.push((Subject::Runtimes, release, metadata::<core::Secret>(&client, release, &ours)));
    if namespaces.is_empty() {
        operator.cluster().watch_namespaces();
        watches.push((Subject::Namespaces, None, all_metadata::<core::Namespace>(&client)));
    }
    operator.progress.wanted.store(watches.len(), Ordering::Release);
    let watches = watches.into_iter().map(|(subject, scope, stream)| {
        let scope = scope.map(str::to_owned);
        follow(operator.clone(), subject, scope, stream)
    });
    futures_util::future::join_all(watches).await;
}

type Events = BoxStream<'static, watcher::Result<Event<Seen>>>;

fn objects<T: Document>(client: &Client, scope: Option<&str>) -> Events
where
    Declared<T>: IntoSeen,
{
    let resource = resource::<T>();
    let api: Api<DynamicObject> = match scope {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let read = |object| Declared::<T>::read(object).map(IntoSeen::into_seen);
    events(watcher(api, watcher::Config::default()), read)
}

/// A typed object as what a watch hands on.
trait IntoSeen {
    fn into_seen(self: Arc<Self>) -> Seen;
}

impl IntoSeen for Declared<Tenant> {
    fn into_seen(self: Arc<Self>) -> Seen {
        Seen::Tenant(self)
    }
}

impl IntoSeen for Declared<Webhook> {
    fn into_seen(self: Arc<Self>) -> Seen {
        Seen::Webhook(self)
    }
}

fn metadata<K>(client: &Client, scope: Option<&str>, selector: &str) -> Events
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let config = watcher::Config::default().labels(selector);
    events(watcher(api, config), |object| Some(Seen::Meta(Box::new(object.metadata))))
}

fn all_metadata<K>(client: &Client) -> Events
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client.clone());
    events(watcher(api, watcher::Config::default()), |object| Some(Seen::Meta(Box::new(object.metadata))))
}

/// The events of a stream in our form; objects that cannot be told apart are left out.
fn events<K: Send + 'static>(
    stream: impl futures_util::Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    read: impl Fn(K) -> Option<Seen> + Send + 'static,
) -> Events {
    let convert = move |event: watcher::Result<Event<K>>| {
        let event = match event {
            Err(error) => return futures_util::future::ready(Some(Err(error))),
            Ok(Event::Apply(object)) => read(object).map(Event::Apply),
            Ok(Event::Delete(object)) => read(object).map(Event::Delete),
            Ok(Event::InitApply(object)) => read(object).map(Event::InitApply),
            Ok(Event::Init) => Some(Event::Init),
            Ok(Event::InitDone) => Some(Event::InitDone),
        };
        futures_util::future::ready(event.map(Ok))
    };
    stream.default_backoff().filter_map(convert).boxed()
}

async fn follow(operator: Arc<Operator>, subject: Subject, scope: Option<String>, mut events: Events) {
    let mut listed = HashSet::new();
    let (mut complete, mut failed) = (false, false);
    let release = operator.kube.release_namespace();
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                operator.metrics.watch_failed();
                tracing::warn!(?subject, namespace = scope, error = %told(&error), "a watch failed; it is tried again");
                failed = true;
                // A watched namespace may be gone, and our Role with it: the others must not wait for it.
                if is_forbidden(&error) && subject.may_be_missing() && !std::mem::replace(&mut complete, true)
                {
                    operator.progress.listed.fetch_add(1, Ordering::AcqRel);
                }
                continue;
            }
        };
        if std::mem::take(&mut failed) {
            operator.recovered();
        }
        let mut cluster = operator.cluster();
        let keys = match event {
            Event::Init => {
                listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                listed.extend(name_of(&object));
                applied(&mut cluster, subject, release, object)
            }
            Event::Apply(object) => applied(&mut cluster, subject, release, object),
            Event::Delete(object) => deleted(&mut cluster, subject, &object),
            Event::InitDone => {
                let names = std::mem::take(&mut listed);
                let listed = Listed { namespace: scope.clone(), names };
                if !std::mem::replace(&mut complete, true) {
                    operator.progress.listed.fetch_add(1, Ordering::AcqRel);
                }
                whole(&mut cluster, subject, &listed)
            }
        };
        drop(cluster);
        operator.changed(keys);
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403)
}

/// An error of a watch, without what an object may hold.
fn told(error: &watcher::Error) -> String {
    match error {
        watcher::Error::WatchError(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn name_of(object: &Seen) -> Option<Name> {
    match object {
        Seen::Tenant(tenant) => Some(tenant.meta.name.clone()),
        Seen::Webhook(webhook) => Some(webhook.meta.name.clone()),
        Seen::Meta(meta) => meta_name(meta),
    }
}

/// Namespaces have none themselves.
fn meta_name(meta: &ObjectMeta) -> Option<Name> {
    Some(Name::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone()?))
}

fn applied(cluster: &mut Cluster, subject: Subject, release: &str, object: Seen) -> Vec<Key> {
    match (subject, object) {
        (_, Seen::Tenant(tenant)) => cluster.tenant_applied(tenant),
        (_, Seen::Webhook(webhook)) => cluster.webhook_applied(webhook),
        (subject, Seen::Meta(meta)) => {
            let Some(name) = meta_name(&meta) else {
                return Vec::new();
            };
            match subject {
                Subject::Values(kind) => {
                    cluster.value_applied(kind, name, meta.resource_version.unwrap_or_default())
                }
                Subject::Generated | Subject::Runtimes => OwnSecret::of(name, &meta, release)
                    .map(|secret| cluster.own_applied(secret))
                    .unwrap_or_default(),
                Subject::Namespaces => {
                    let labels = meta.labels.unwrap_or_default();
                    let terminating = meta.deletion_timestamp.is_some();
                    cluster.namespace_applied(&name.name, Namespace { labels, terminating })
                }
                Subject::Tenants | Subject::Webhooks => Vec::new(),
            }
        }
    }
}

fn deleted(cluster: &mut Cluster, subject: Subject, object: &Seen) -> Vec<Key> {
    let Some(name) = name_of(object) else {
        return Vec::new();
    };
    match subject {
        Subject::Tenants => cluster.tenant_deleted(&name),
        Subject::Webhooks => cluster.webhook_deleted(&name),
        Subject::Values(kind) => cluster.value_deleted(kind, &name),
        Subject::Generated | Subject::Runtimes => cluster.own_deleted(&name),
        Subject::Namespaces => {
            cluster.namespace_deleted(&name.name);
            Vec::new()
        }
    }
}

fn whole(cluster: &mut Cluster, subject: Subject, listed: &Listed) -> Vec<Key> {
    match subject {
        Subject::Tenants => cluster.tenants_listed(listed),
        Subject::Webhooks => cluster.webhooks_listed(listed),
        Subject::Values(kind) => cluster.values_listed(kind, listed),
        Subject::Generated => cluster.own_listed(listed, |secret| !secret.is_runtime),
        Subject::Runtimes => cluster.own_listed(listed, |secret| secret.is_runtime),
        // One that was deleted while nobody watched holds no objects any more.
        Subject::Namespaces => Vec::new(),
    }
}

/// Waits until the CRDs are there; the operator and they may be installed in any order.
pub async fn wait_for_kinds(client: &Client, namespaces: &[String]) {
    let missing = |resource: ApiResource| async move {
        let api: Api<DynamicObject> = match namespaces.first() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let one = ListParams::default().limit(1);
        matches!(api.list_metadata(&one).await, Err(kube::Error::Api(status)) if status.code == 404)
    };
    let mut told = false;
    while missing(resource::<Tenant>()).await || missing(resource::<Webhook>()).await {
        if !std::mem::replace(&mut told, true) {
            tracing::warn!("the CRDs are not there; apply what `docket-operator crds` prints");
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}
