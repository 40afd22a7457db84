//! The events of one watch, in the form for the index.

use std::fmt::Debug;
use std::sync::Arc;

use docket_crds::{Tenant, Webhook};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use kube::api::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::kube::object::resource;
use crate::state::declared::{Declared, DeclaredKind};
use crate::state::name::Name;
use crate::state::sight::WATCH_SECONDS;

/// An object in a watch.
#[derive(Debug)]
pub(super) enum WatchedObject {
    Tenant(Arc<Declared<Tenant>>),
    Webhook(Arc<Declared<Webhook>>),
    /// The metadata of an object of another kind.
    Meta(Box<ObjectMeta>),
}

impl From<Arc<Declared<Tenant>>> for WatchedObject {
    fn from(tenant: Arc<Declared<Tenant>>) -> Self {
        Self::Tenant(tenant)
    }
}

impl From<Arc<Declared<Webhook>>> for WatchedObject {
    fn from(webhook: Arc<Declared<Webhook>>) -> Self {
        Self::Webhook(webhook)
    }
}

impl WatchedObject {
    /// Its name; in the namespace "" for what has none, as namespaces themselves.
    pub(super) fn name(&self) -> Option<Name> {
        match self {
            Self::Tenant(tenant) => Some(tenant.meta.name.clone()),
            Self::Webhook(webhook) => Some(webhook.meta.name.clone()),
            Self::Meta(meta) => {
                Some(Name::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone()?))
            }
        }
    }
}

/// Ends never; an error is followed by a new list, after a backoff.
pub(super) type Events = BoxStream<'static, watcher::Result<Event<WatchedObject>>>;

/// The Tenants or Webhooks of a namespace; `None`: of all.
pub(super) fn objects<T: DeclaredKind>(client: &Client, namespace: Option<&str>) -> Events
where
    WatchedObject: From<Arc<Declared<T>>>,
{
    let resource = resource::<T>();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    events(watcher(api, config()), |object| Declared::<T>::read(object).map(WatchedObject::from))
}

/// Watches the metadata of objects with these labels in a namespace; `None`: in all namespaces.
pub(super) fn metadata<K>(client: &Client, namespace: Option<&str>, selector: &str) -> Events
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    events(watcher(api, config().labels(selector)), |object| {
        Some(WatchedObject::Meta(Box::new(object.metadata)))
    })
}

/// Watches the metadata of all objects of a kind.
pub(super) fn all_metadata<K>(client: &Client) -> Events
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client.clone());
    events(watcher(api, config()), |object| Some(WatchedObject::Meta(Box::new(object.metadata))))
}

/// The settings of every watch. The server ends a watch after [`WATCH_SECONDS`]. If nothing comes for five seconds longer, the
/// library opens the watch again.
fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// The events of a watch. Objects that `read` does not accept are left out.
fn events<K: Send + 'static>(
    stream: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    read: impl Fn(K) -> Option<WatchedObject> + Send + 'static,
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
