//! The calls about Tenants and Webhooks: their status, their finalizer, and the Events about them.

use docket_crds::API_VERSION;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use serde_json::json;

use crate::kube::call_error::CallError;
use crate::kube::client::{KubeApi, MANAGER, within};
use crate::state::cluster::Indexed;
use crate::state::declared::{Declared, DeclaredKind, Meta, ObjectStatus};
use crate::state::labels::FINALIZER;
use crate::state::name::Name;
use crate::state::object_event::ObjectEvent;

/// The field manager of statuses.
const STATUS_MANAGER: &str = "docket-operator/status";

/// How the API server calls a kind.
pub fn resource<T: DeclaredKind>() -> ApiResource {
    ApiResource {
        group: docket_crds::GROUP.to_owned(),
        version: docket_crds::VERSION.to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        plural: T::PLURAL.to_owned(),
    }
}

impl KubeApi {
    fn objects<T: DeclaredKind>(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource::<T>())
    }

    /// Whether there is an object of this name and uid at this moment.
    pub async fn exists<T: DeclaredKind>(&self, name: &Name, uid: &str) -> Result<bool, CallError> {
        let found = within(self.objects::<T>(&name.namespace).get_metadata_opt(&name.name)).await?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_deref() == Some(uid)))
    }

    /// Adds our finalizer to an object, or removes it; on the very version that `meta` is of.
    pub async fn set_finalizer<T: DeclaredKind>(&self, meta: &Meta, wanted: bool) -> Result<(), CallError> {
        let mut finalizers: Vec<&str> = meta.finalizers.iter().map(String::as_str).collect();
        finalizers.retain(|finalizer| *finalizer != FINALIZER);
        if wanted {
            finalizers.push(FINALIZER);
        }
        let body = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}});
        let Name { namespace, name } = &meta.name;
        let parameters = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        self.write(self.objects::<T>(namespace).patch(name, &parameters, &Patch::Merge(body))).await?;
        Ok(())
    }

    /// Writes a status if it differs from `previous`, and then publishes these Events. The metrics then show its conditions.
    pub async fn publish_status<T: Indexed>(
        &self,
        object: &Declared<T>,
        previous: &T::Status,
        status: &T::Status,
        events: &[ObjectEvent],
    ) -> Result<(), CallError> {
        let meta = &object.meta;
        if self.leadership.may_write() {
            self.metrics.conditions::<T>(&meta.name, status.conditions());
        }
        if status == previous {
            return Ok(());
        }
        let written = self.apply_status::<T>(meta, status).await?;
        if let Some(written) = Declared::<T>::read(written) {
            self.state.cluster().written(written, meta);
        }
        for event in events {
            if event.warning {
                tracing::warn!("{} {}: {}", T::KIND, meta.name, event.note);
            }
            self.publish::<T>(meta, event).await;
        }
        Ok(())
    }

    /// An object is gone: the metrics no longer show it.
    pub fn forget_status<T: DeclaredKind>(&self, name: &Name) {
        self.metrics.forget::<T>(name);
    }

    /// Writes the status of the object with this uid. Another object of the same name stays as it is.
    async fn apply_status<T: DeclaredKind>(
        &self,
        meta: &Meta,
        status: &T::Status,
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

    /// Publishes an Event. A failure is only logged: no pass waits for it.
    pub async fn publish<T: DeclaredKind>(&self, meta: &Meta, event: &ObjectEvent) {
        if let Err(error) = self.write(self.recorder.publish(&to_kube(event), &reference::<T>(meta))).await {
            tracing::warn!(object = %meta.name, event = event.reason.as_str(), %error, "publishing an Event failed");
        }
    }
}

fn to_kube(event: &ObjectEvent) -> Event {
    let mut note = event.note.clone();
    // The API server accepts at most 1,024 bytes.
    note.truncate(note.floor_char_boundary(1000));
    // With the Secret, two Events with the same reason about different Secrets do not count as a repetition.
    let secondary = event.secret.as_ref().map(|secret| ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Secret".into()),
        namespace: Some(secret.namespace.clone()),
        name: Some(secret.name.clone()),
        ..ObjectReference::default()
    });
    Event {
        type_: if event.warning { EventType::Warning } else { EventType::Normal },
        reason: event.reason.as_str().to_owned(),
        note: Some(note),
        action: event.action.to_owned(),
        secondary,
    }
}

fn reference<T: DeclaredKind>(meta: &Meta) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.into()),
        kind: Some(T::KIND.into()),
        namespace: Some(meta.name.namespace.clone()),
        name: Some(meta.name.name.clone()),
        uid: Some(meta.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use docket_crds::{EventReason, ReasonCode};

    use super::*;

    #[test]
    fn event_fits_and_names_the_secret_that_it_is_about() {
        let event = ObjectEvent {
            reason: EventReason::Condition(ReasonCode::SecretNotFound),
            action: "Reconcile",
            note: "ü".repeat(600),
            warning: true,
            secret: Some(Name::new("a", "key")),
        };
        let sent = to_kube(&event);
        assert_eq!(sent.note.map(|note| note.len()), Some(1000), "the API server takes 1,024 bytes");
        assert_eq!((sent.type_, sent.reason.as_str()), (EventType::Warning, "SecretNotFound"));
        let secret = sent.secondary.expect("it is about one");
        assert_eq!((secret.namespace.as_deref(), secret.name.as_deref()), (Some("a"), Some("key")));
        let calm = to_kube(&ObjectEvent { warning: false, secret: None, ..event });
        assert!(calm.type_ == EventType::Normal && calm.secondary.is_none());
    }
}
