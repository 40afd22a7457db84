//! Who keeps an object that the portal does not declare.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;

/// Who keeps an object that the portal does not: its owner, a tool, or who wrote its spec last.
pub(super) fn keeper(metadata: &ObjectMeta) -> Option<String> {
    tool(metadata).or_else(|| last_manager(metadata))
}

/// The owner of an object, or the tool whose marks it carries.
pub(super) fn tool(metadata: &ObjectMeta) -> Option<String> {
    let of = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref()?.get(key).cloned();
    let label = |key| of(&metadata.labels, key);
    let annotation = |key| of(&metadata.annotations, key);
    if let Some(owner) = metadata.owner_references.iter().flatten().next() {
        return Some(format!("{} {}", owner.kind, owner.name));
    }
    let tools = [
        ("the Helm release", annotation("meta.helm.sh/release-name")),
        ("the Flux HelmRelease", label("helm.toolkit.fluxcd.io/name")),
        ("the Flux Kustomization", label("kustomize.toolkit.fluxcd.io/name")),
        ("Argo CD's application", label("argocd.argoproj.io/instance")),
        ("Argo CD", annotation("argocd.argoproj.io/tracking-id")),
    ];
    tools.into_iter().find_map(|(tool, name)| Some(format!("{tool} {}", name?)))
}

fn last_manager(metadata: &ObjectMeta) -> Option<String> {
    let managers = metadata.managed_fields.iter().flatten();
    let of_spec = managers
        .filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:spec").is_some()));
    let last = of_spec.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    // kubectl has several managers, such as kubectl-client-side-apply and kubectl-edit.
    let manager = last.manager.as_deref().filter(|manager| !manager.is_empty())?;
    Some(if manager.starts_with("kubectl") { "kubectl".to_owned() } else { manager.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kept(metadata: Value) -> Option<String> {
        keeper(&serde_json::from_value(metadata).expect("metadata"))
    }

    #[test]
    fn keeper_is_named_as_its_users_know_it() {
        let text = |metadata| kept(metadata).unwrap_or_default();
        let owner = json!([{"apiVersion": "v1", "kind": "Shop", "name": "s", "uid": "u"}]);
        assert_eq!(text(json!({"ownerReferences": owner})), "Shop s");
        let helm = json!({"annotations": {"meta.helm.sh/release-name": "acme"}});
        assert_eq!(text(helm), "the Helm release acme");
        let flux = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}});
        assert_eq!(text(flux), "the Flux Kustomization apps");
        let argo = json!({"labels": {"argocd.argoproj.io/instance": "apps"}});
        assert_eq!(text(argo), "Argo CD's application apps");
        let field = |manager: &str, time: &str, part: &str| json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": {part: {}}});
        let fields = json!([
            field("kubectl-create", "2026-01-01T00:00:00Z", "f:spec"),
            field("kubectl-client-side-apply", "2026-01-02T00:00:00Z", "f:spec"),
            field("docket-operator", "2026-01-03T00:00:00Z", "f:status"),
        ]);
        assert_eq!(text(json!({"managedFields": fields})), "kubectl");
        assert_eq!(kept(json!({})), None);
    }
}
