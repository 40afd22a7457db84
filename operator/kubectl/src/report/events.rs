//! Decides which Events are about Docket, and which of their fields a report contains.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};

/// The characters that Kubernetes uses in the suffixes of a Deployment's ReplicaSets and pods.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// The names of the workloads that run Docket.
pub(super) struct Workloads<'a> {
    pub(super) namespace: &'a str,
    pub(super) deployments: Vec<String>,
    /// The names of the present pods.
    pub(super) pods: Vec<String>,
}

impl Workloads<'_> {
    /// Whether the Event's object is a Tenant or Webhook, or runs Docket. Former pods and ReplicaSets are recognised
    /// by their Deployment's name.
    fn owns(&self, object: &ObjectReference) -> bool {
        let kind = object.kind.as_deref().unwrap_or_default();
        if object.api_version.as_deref() == Some(docket_crds::API_VERSION) {
            return matches!(kind, "Tenant" | "Webhook");
        }
        let Some(name) = object.name.as_ref().filter(|_| object.namespace.as_deref() == Some(self.namespace))
        else {
            return false;
        };
        let is_of_deployment =
            |parts: usize| self.deployments.iter().any(|one| is_generated(name, one, parts));
        match kind {
            "Deployment" => self.deployments.contains(name),
            "ReplicaSet" => is_of_deployment(1),
            "Pod" => self.pods.contains(name) || is_of_deployment(2),
            _ => false,
        }
    }
}

/// Whether Kubernetes made `name` by adding `parts` suffixes to a Deployment's name.
fn is_generated(name: &str, deployment: &str, parts: usize) -> bool {
    let rest = name.strip_prefix(deployment).and_then(|rest| rest.strip_prefix('-'));
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| GENERATED.contains(c));
    rest.is_some_and(|rest| rest.split('-').count() == parts && rest.split('-').all(is_part))
}

/// The fields of an Event about a Tenant, a Webhook or a workload of Docket; `None`: the Event is about something else.
pub(super) fn event(event: &Event, workloads: &Workloads<'_>) -> Option<Value> {
    let about = event.regarding.as_ref().filter(|about| workloads.owns(about))?;
    let is_object = about.api_version.as_deref() == Some(docket_crds::API_VERSION);
    // The kubelet's notes about a pod may quote the pod's environment, so they are left out.
    let note = event.note.as_deref().filter(|_| is_object);
    Some(json!({
        "time": event.event_time.as_ref().map(|time| time.0.to_string()).or_else(||
            event.deprecated_last_timestamp.as_ref().map(|time| time.0.to_string())),
        "type": event.type_, "reason": event.reason, "kind": about.kind, "namespace": about.namespace, "name": about.name,
        "note": note, "count": event.series.as_ref().map(|series| series.count).or(event.deprecated_count),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_other_workloads_are_left_out() {
        let workloads = Workloads {
            namespace: "docket",
            deployments: vec!["docket-api".to_owned()],
            pods: vec!["api-0".to_owned()],
        };
        let owns = |version: &str, kind: &str, namespace: &str, name: &str| {
            workloads.owns(&ObjectReference {
                api_version: Some(version.to_owned()),
                kind: Some(kind.to_owned()),
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            })
        };
        assert!(owns("docket.dev/v1alpha1", "Tenant", "tenants", "acme"));
        assert!(!owns("other.dev/v1", "Tenant", "tenants", "acme"));
        for (kind, ours, others) in [
            ("Deployment", "docket-api", "docket-api-gateway"),
            ("ReplicaSet", "docket-api-6b8f6c7f4d", "docket-api-gateway-6b8f6c7f4d"),
            ("Pod", "docket-api-6b8f6c7f4d-x7k2p", "docket-api-gateway-6b8f6c7f4d-x7k2p"),
            ("Pod", "api-0", "docket-api-db-0"),
        ] {
            assert!(owns("apps/v1", kind, "docket", ours), "{ours}");
            assert!(!owns("apps/v1", kind, "docket", others), "{others}");
            assert!(!owns("apps/v1", kind, "tenants", ours), "{ours} elsewhere");
        }
        assert!(!owns("v1", "Secret", "docket", "docket-api"));
    }
}
