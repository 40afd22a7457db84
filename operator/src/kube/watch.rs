//! The watches: one per kind and namespace. Each updates the index in `state::cluster`.
//!
//! Secrets and ConfigMaps are watched by label, and only their metadata: no watch transfers their values, and Secrets
//! of other programs cost nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{Tenant, ValueKind, Webhook, runtime};
use docket_program::apiserver::watch_error;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::kube::heard::client_of_watch;
use crate::kube::object::resource;
use crate::kube::stream::{Events, WatchedObject, all_metadata, metadata, objects};
use crate::metrics::Metrics;
use crate::state::by_name::Listed;
use crate::state::cluster::{ClusterState, NamespaceState};
use crate::state::name::{Name, ObjectKey};
use crate::state::own_secrets::OwnSecret;
use crate::state::{State, labels};

/// How often the operator checks whether missing CRDs are installed.
const KINDS_EVERY: Duration = Duration::from_secs(2);

/// The objects of one watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchSubject {
    Tenants,
    Webhooks,
    Values(ValueKind),
    /// Secrets that the operator created in tenants' namespaces.
    Generated,
    /// Secrets that the operator created for the data plane.
    Runtimes,
    Namespaces,
}

impl WatchSubject {
    /// Whether work may begin without having seen these: they say when to reconcile, what they hold is read by name.
    const fn may_be_missing(self) -> bool {
        matches!(self, Self::Values(_) | Self::Generated)
    }

    /// The kind in the metrics.
    const fn kind(self) -> &'static str {
        match self {
            Self::Tenants => "Tenant",
            Self::Webhooks => "Webhook",
            Self::Values(ValueKind::Secret) => "Secret",
            Self::Values(ValueKind::ConfigMap) => "ConfigMap",
            Self::Generated => "GeneratedSecret",
            Self::Runtimes => "RuntimeSecret",
            Self::Namespaces => "Namespace",
        }
    }
}

/// Where the watches report what they see.
#[derive(Clone, Debug)]
pub struct Sink {
    /// The index.
    pub state: Arc<State>,
    /// The metrics, which count failures.
    pub metrics: Arc<Metrics>,
    /// The namespace of the data plane's Secrets.
    pub release_namespace: String,
}

impl Sink {
    /// A watch that begins now. `events` opens it with a client that records when the API server is heard.
    fn watch(
        &self,
        client: &Client,
        subject: WatchSubject,
        scope: Option<&str>,
        events: impl FnOnce(&Client) -> Events,
    ) -> Watch {
        let heard = self.state.sight.begin(subject.kind(), Instant::now());
        let client = client_of_watch(client, heard, self.metrics.clone());
        Watch::new(subject, scope, events(&client))
    }
}

/// Runs all watches, without end. `namespaces`: the namespaces to watch; empty: all.
pub async fn watch_all(sink: Sink, client: Client, namespaces: &[String]) {
    let mut watches: Vec<Watch> = match namespaces {
        [] => of_scope(&sink, &client, None),
        some => some.iter().flat_map(|namespace| of_scope(&sink, &client, Some(namespace))).collect(),
    };
    let release = Some(sink.release_namespace.as_str());
    let ours = format!("{}={}", runtime::LABEL, runtime::LABEL_VALUE);
    watches.push(sink.watch(&client, WatchSubject::Runtimes, release, |client| {
        metadata::<core::Secret>(client, release, &ours)
    }));
    if namespaces.is_empty() {
        sink.state.cluster().watch_namespaces();
        let all = |client: &Client| all_metadata::<core::Namespace>(client);
        watches.push(sink.watch(&client, WatchSubject::Namespaces, None, all));
    }
    sink.state.progress.expect(watches.len());
    futures_util::future::join_all(watches.into_iter().map(|watch| watch.follow(&sink))).await;
}

/// The watches of one namespace; `None`: of all namespaces.
fn of_scope(sink: &Sink, client: &Client, scope: Option<&str>) -> Vec<Watch> {
    let marked = format!("{}=true", labels::WATCH);
    let ours = format!("{}={},{}", labels::MANAGED_BY, labels::OPERATOR, labels::TENANT_UID);
    let (secret, config_map) =
        (WatchSubject::Values(ValueKind::Secret), WatchSubject::Values(ValueKind::ConfigMap));
    vec![
        sink.watch(client, WatchSubject::Tenants, scope, |client| objects::<Tenant>(client, scope)),
        sink.watch(client, WatchSubject::Webhooks, scope, |client| objects::<Webhook>(client, scope)),
        sink.watch(client, secret, scope, |client| metadata::<core::Secret>(client, scope, &marked)),
        sink.watch(client, config_map, scope, |client| metadata::<core::ConfigMap>(client, scope, &marked)),
        sink.watch(client, WatchSubject::Generated, scope, |client| {
            metadata::<core::Secret>(client, scope, &ours)
        }),
    ]
}

/// One watch and its progress.
struct Watch {
    subject: WatchSubject,
    scope: Option<String>,
    events: Events,
    /// The names in the current list so far.
    listed: HashSet<Name>,
    is_complete: bool,
}

impl Watch {
    fn new(subject: WatchSubject, scope: Option<&str>, events: Events) -> Self {
        let (scope, listed) = (scope.map(str::to_owned), HashSet::new());
        Self { subject, scope, events, listed, is_complete: false }
    }

    async fn follow(mut self, sink: &Sink) {
        let mut has_failed = false;
        while let Some(event) = self.events.next().await {
            match event {
                Ok(event) => {
                    if std::mem::take(&mut has_failed) {
                        sink.state.recovered();
                    }
                    let keys = self.take_in(event, sink);
                    sink.state.changed(keys);
                }
                Err(error) => {
                    has_failed = true;
                    self.failed(error, sink);
                }
            }
        }
    }

    fn failed(&mut self, error: watcher::Error, sink: &Sink) {
        sink.metrics.watch_failed();
        // A watched namespace may have been deleted with the operator's Role in it. Other namespaces must not wait for it.
        if is_forbidden(&error) && self.subject.may_be_missing() {
            self.complete(sink);
        }
        let (subject, namespace, error) = (self.subject, &self.scope, watch_error(&error));
        tracing::warn!(?subject, namespace, error, "watching the API server failed; retrying");
    }

    fn complete(&mut self, sink: &Sink) {
        if !std::mem::replace(&mut self.is_complete, true) {
            sink.state.progress.listed();
        }
    }

    fn take_in(&mut self, event: Event<WatchedObject>, sink: &Sink) -> Vec<ObjectKey> {
        let (subject, release) = (self.subject, sink.release_namespace.as_str());
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.extend(object.name());
                applied(&mut sink.state.cluster(), subject, release, object)
            }
            Event::Apply(object) => applied(&mut sink.state.cluster(), subject, release, object),
            Event::Delete(object) => deleted(&mut sink.state.cluster(), subject, &object),
            Event::InitDone => {
                let names = std::mem::take(&mut self.listed);
                let listed = Listed { namespace: self.scope.clone(), names };
                let keys = whole(&mut sink.state.cluster(), subject, &listed);
                self.complete(sink);
                keys
            }
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403)
}

fn applied(
    cluster: &mut ClusterState,
    subject: WatchSubject,
    release: &str,
    object: WatchedObject,
) -> Vec<ObjectKey> {
    let name = object.name();
    match object {
        WatchedObject::Tenant(tenant) => cluster.tenant_applied(tenant),
        WatchedObject::Webhook(webhook) => cluster.webhook_applied(webhook),
        WatchedObject::Meta(meta) => {
            name.map(|name| meta_applied(cluster, subject, release, name, *meta)).unwrap_or_default()
        }
    }
}

fn meta_applied(
    cluster: &mut ClusterState,
    subject: WatchSubject,
    release: &str,
    name: Name,
    meta: ObjectMeta,
) -> Vec<ObjectKey> {
    match subject {
        WatchSubject::Values(kind) => {
            cluster.value_applied(kind, name, meta.resource_version.unwrap_or_default())
        }
        WatchSubject::Generated | WatchSubject::Runtimes => {
            OwnSecret::of(&meta, release).map(|secret| cluster.own_applied(secret)).unwrap_or_default()
        }
        WatchSubject::Namespaces => {
            let terminating = meta.deletion_timestamp.is_some();
            let labels = meta.labels.unwrap_or_default();
            cluster.namespace_applied(&name.name, NamespaceState { labels, terminating })
        }
        WatchSubject::Tenants | WatchSubject::Webhooks => Vec::new(),
    }
}

fn deleted(cluster: &mut ClusterState, subject: WatchSubject, object: &WatchedObject) -> Vec<ObjectKey> {
    let Some(name) = object.name() else {
        return Vec::new();
    };
    match subject {
        WatchSubject::Tenants => cluster.tenant_deleted(&name),
        WatchSubject::Webhooks => cluster.webhook_deleted(&name),
        WatchSubject::Values(kind) => cluster.value_deleted(kind, &name),
        WatchSubject::Generated | WatchSubject::Runtimes => cluster.own_deleted(&name),
        WatchSubject::Namespaces => {
            cluster.namespace_deleted(&name.name);
            Vec::new()
        }
    }
}

fn whole(cluster: &mut ClusterState, subject: WatchSubject, listed: &Listed) -> Vec<ObjectKey> {
    match subject {
        WatchSubject::Tenants => cluster.tenants_listed(listed),
        WatchSubject::Webhooks => cluster.webhooks_listed(listed),
        WatchSubject::Values(kind) => cluster.values_listed(kind, listed),
        WatchSubject::Generated => cluster.own_listed(listed, |secret| !secret.is_runtime),
        WatchSubject::Runtimes => cluster.own_listed(listed, |secret| secret.is_runtime),
        // A namespace that was deleted while nothing watched holds no objects any more.
        WatchSubject::Namespaces => Vec::new(),
    }
}

/// Waits until the CRDs exist. The operator and the CRDs may be installed in any order.
pub async fn wait_for_kinds(client: &Client, namespaces: &[String]) {
    let missing = |resource: ApiResource| async move {
        let api: Api<DynamicObject> = match namespaces.first() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let one = ListParams::default().limit(1);
        matches!(api.list_metadata(&one).await, Err(kube::Error::Api(status)) if status.code == 404)
    };
    let mut is_logged = false;
    while missing(resource::<Tenant>()).await || missing(resource::<Webhook>()).await {
        if !std::mem::replace(&mut is_logged, true) {
            tracing::warn!("the CRDs are not installed; apply the output of `docket-operator crds`");
        }
        tokio::time::sleep(KINDS_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(name: &str) -> WatchedObject {
        WatchedObject::Meta(Box::new(ObjectMeta {
            namespace: Some("a".into()),
            name: Some(name.into()),
            resource_version: Some("1".into()),
            ..ObjectMeta::default()
        }))
    }

    #[test]
    fn list_that_was_broken_off_keeps_nothing_and_each_watch_counts_once() {
        let (state, _changes) = State::new();
        let sink =
            Sink { state: Arc::new(state), metrics: Arc::default(), release_namespace: "docket".into() };
        sink.state.progress.expect(2);
        let subject = WatchSubject::Values(ValueKind::Secret);
        let mut watch = Watch::new(subject, None, futures_util::stream::empty().boxed());
        let known = |name: &str| sink.state.cluster().is_watched(ValueKind::Secret, &Name::new("a", name));
        for event in [
            Event::Init,
            Event::InitApply(labelled("gone")),
            Event::Init,
            Event::InitApply(labelled("there")),
            Event::InitDone,
            Event::Init,
            Event::InitApply(labelled("there")),
            Event::InitDone,
        ] {
            watch.take_in(event, &sink);
        }
        assert!(known("there") && !known("gone"));
        assert!(!sink.state.progress.is_complete(), "the other watch has no list");
        watch.take_in(Event::Apply(labelled("new")), &sink);
        assert!(known("new"));
        watch.take_in(Event::Delete(labelled("new")), &sink);
        assert!(known("there") && !known("new"));
    }
}
