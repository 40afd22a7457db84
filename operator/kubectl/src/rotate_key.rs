//! The command `kubectl docket rotate-key`: two keys work side by side until every client uses the new key.

use docket_commands::arguments::Output;
use docket_commands::text;
use docket_crds::tenant::{ApiKeySpec, TenantObject};
use kube::ResourceExt;
use kube::api::Patch;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::args::ApiKeyName;
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The largest number of keys of a Tenant.
const MAX_KEYS: usize = 8;
/// What to do if the API server refuses the change of the keys.
const REFUSED: &str = "another user changed it at the same time, or its definition or a policy refuses the change; look at spec.apiKeys and run the command again";

/// A change of `spec.apiKeys`.
#[derive(Debug, PartialEq, Eq)]
enum KeyChange {
    /// Add a key of this name, which the operator generates.
    Add(String),
    /// Deactivate the key at this index.
    Deactivate(usize),
}

/// Adds the second key, or deactivates the first.
pub(crate) async fn run(
    cluster: &Cluster,
    key: &ApiKeyName,
    finish: bool,
    output: Output,
) -> Result<(), Problem> {
    let tenant: TenantObject = cluster.tenant(&key.tenant).await?;
    let status = tenant.status.iter().flat_map(|status| &status.api_keys);
    let made: Vec<&str> =
        status.filter(|key| key.fingerprint.is_some()).map(|key| key.name.as_str()).collect();
    let change = plan(&tenant.spec.api_keys, &made, &key.name, finish).map_err(Problem::Found)?;
    if let Some(owner) = owner(&tenant.metadata) {
        let yaml = match &change {
            KeyChange::Add(name) => format!("add `- {{name: {name}, generate: {{}}}}` to spec.apiKeys"),
            KeyChange::Deactivate(_) => format!("set `active: false` on {}", key.name),
        };
        return Err(Problem::Found(format!(
            "the Tenant is managed by {owner}, which would undo the change: {yaml} there"
        )));
    }
    let patch = patch(&tenant, &change).map_err(|error| Problem::Found(error.to_string()))?;
    cluster.patch::<TenantObject>(&key.tenant, &patch, REFUSED).await?;
    let (namespace, tenant) = (tenant.namespace().unwrap_or_default(), &key.tenant);
    let (added, deactivated, said) = match change {
        KeyChange::Add(name) => {
            let secret_name = format!("{tenant}-apikey-{name}");
            let said = format!(
                "API key {name} is added. When the operator has made it, this prints it:\n  \
                 kubectl --namespace {namespace} get secret {secret_name} --output=go-template='{{{{index .data \"api-key\" | base64decode}}}}'\n\
                 When every client uses it:\n  kubectl docket --namespace {namespace} rotate-key {tenant}/{} --finish",
                key.name
            );
            (json!({"name": name, "secretName": secret_name}), Value::Null, said)
        }
        KeyChange::Deactivate(_) => {
            let said = format!(
                "API key {} is inactive: requests with it get 401. Remove it from spec.apiKeys when you like.",
                key.name
            );
            (Value::Null, json!({"name": key.name}), said)
        }
    };
    let done = json!({"namespace": namespace, "tenant": tenant, "added": added, "deactivated": deactivated});
    text::result(output, &done, &said);
    Ok(())
}

/// `made`: the names of the keys whose value the operator has.
fn plan(keys: &[ApiKeySpec], made: &[&str], name: &str, finish: bool) -> Result<KeyChange, String> {
    let Some(at) = keys.iter().position(|key| key.name == name) else {
        let names = keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(format!("the Tenant has no API key {name}; it has {names}"));
    };
    if finish {
        if !keys[at].active {
            return Err(format!("API key {name} is inactive already"));
        }
        let mut others = keys.iter().filter(|key| key.active && key.name != name).peekable();
        if others.peek().is_none() {
            return Err(format!(
                "API key {name} is the only active one; add another first, without --finish"
            ));
        }
        if !others.any(|key| made.contains(&key.name.as_str())) {
            return Err(format!(
                "no other active key of the Tenant works yet, so that requests would get 401 without {name}; `kubectl docket status` shows the keys"
            ));
        }
        return Ok(KeyChange::Deactivate(at));
    }
    if keys[at].generate.is_none() {
        return Err(format!(
            "API key {name} comes from a Secret of yours: add a key with another secretKeyRef to spec.apiKeys"
        ));
    }
    if keys.len() >= MAX_KEYS {
        return Err(format!(
            "the Tenant has {MAX_KEYS} API keys, which is the limit; remove an inactive one first"
        ));
    }
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
    let base = if base.is_empty() { name } else { base };
    let mut names = (2..).map(|number| format!("{base}-{number}"));
    let free = names.find(|other| keys.iter().all(|key| key.name != *other));
    free.map(KeyChange::Add).ok_or_else(|| "there is no free name".to_owned())
}

/// Only on the version that was read, so that no other change is lost.
fn patch(tenant: &TenantObject, change: &KeyChange) -> serde_json::Result<Patch<Value>> {
    let change = match change {
        KeyChange::Add(name) => {
            json!({"op": "add", "path": "/spec/apiKeys/-", "value": {"name": name, "generate": {}}})
        }
        KeyChange::Deactivate(at) => {
            json!({"op": "add", "path": format!("/spec/apiKeys/{at}/active"), "value": false})
        }
    };
    let unchanged =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": tenant.metadata.resource_version});
    Ok(Patch::Json(serde_json::from_value(json!([unchanged, change]))?))
}

/// The tool that keeps writing the object; `None`: people write it.
fn owner(meta: &ObjectMeta) -> Option<String> {
    let label = |name: &str| meta.labels.as_ref()?.get(name).cloned();
    let annotation = |name: &str| meta.annotations.as_ref()?.get(name).cloned();
    let flux = |kind: &str| {
        let [name, namespace] =
            ["name", "namespace"].map(|part| label(&format!("{kind}.toolkit.fluxcd.io/{part}")));
        Some(format!("{}/{}", namespace?, name?))
    };
    let helm = || {
        (label("app.kubernetes.io/managed-by")? == "Helm").then(|| annotation("meta.helm.sh/release-name"))?
    };
    flux("kustomize")
        .map(|name| format!("the Flux Kustomization {name}"))
        .or_else(|| flux("helm").map(|name| format!("the Flux HelmRelease {name}")))
        .or_else(|| annotation("argocd.argoproj.io/tracking-id").map(|id| format!("Argo CD ({id})")))
        .or_else(|| helm().map(|name| format!("the Helm release {name}")))
        .or_else(|| applier(meta))
}

/// A tool that is recognised by the fields that it owns, because it may mark its objects with labels of the user's
/// choice, as Argo CD does.
fn applier(meta: &ObjectMeta) -> Option<String> {
    let mut managers = meta.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
    let (_, name) = managers.find_map(|manager| APPLIERS.iter().find(|(known, _)| *known == manager))?;
    Some((*name).to_owned())
}

const APPLIERS: [(&str, &str); 5] = [
    ("argocd-controller", "Argo CD"),
    ("argocd-application-controller", "Argo CD"),
    ("kustomize-controller", "Flux"),
    ("helm-controller", "Flux"),
    ("helm", "Helm"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

    use super::*;

    fn keys(all: &[(&str, bool, bool)]) -> Vec<ApiKeySpec> {
        let key = |(name, active, generated): &(&str, bool, bool)| {
            let generate = generated.then(|| json!({}));
            serde_json::from_value(json!({"name": name, "active": active, "generate": generate}))
                .expect("a key")
        };
        all.iter().map(key).collect()
    }

    #[test]
    fn the_second_key_has_the_next_free_name() {
        let add = |all: &[(&str, bool, bool)], name| plan(&keys(all), &[], name, false);
        assert_eq!(add(&[("primary", true, true)], "primary"), Ok(KeyChange::Add("primary-2".into())));
        let both = [("primary", true, true), ("primary-2", true, true)];
        assert_eq!(add(&both, "primary-2"), Ok(KeyChange::Add("primary-3".into())));
        assert_eq!(add(&[("2", true, true)], "2"), Ok(KeyChange::Add("2-2".into())));
        assert!(add(&[("primary", true, false)], "primary").is_err_and(|why| why.contains("secretKeyRef")));
        assert!(add(&both, "other").is_err_and(|why| why.contains("it has primary, primary-2")));
        let eight = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, true, true));
        assert!(add(&eight, "a").is_err_and(|why| why.contains("the limit")));
        assert_eq!(add(&eight[..7], "a"), Ok(KeyChange::Add("a-2".into())));
    }

    #[test]
    fn change_is_made_to_the_version_that_was_read_alone() {
        let tenant: TenantObject = serde_json::from_value(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": "acme", "namespace": "tenants", "resourceVersion": "7"},
            "spec": {"clientCode": "ACME", "apiKeys": [], "database": {"managed": {"name": "tenant_acme"}}},
        }))
        .expect("a Tenant");
        let of = |change: KeyChange| {
            let Patch::Json(patch) = patch(&tenant, &change).expect("a patch") else { panic!("of JSON") };
            serde_json::to_value(patch).expect("JSON")
        };
        let unchanged = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        let ended = json!({"op": "add", "path": "/spec/apiKeys/1/active", "value": false});
        assert_eq!(of(KeyChange::Deactivate(1)), json!([unchanged, ended]));
        let added = json!({"op": "add", "path": "/spec/apiKeys/-", "value": {"name": "b", "generate": {}}});
        assert_eq!(of(KeyChange::Add("b".into())), json!([unchanged, added]));
    }

    #[test]
    fn the_last_active_key_is_never_deactivated() {
        let finish = |all: &[(&str, bool, bool)]| plan(&keys(all), &["x", "primary"], "primary", true);
        assert_eq!(finish(&[("x", true, true), ("primary", true, true)]), Ok(KeyChange::Deactivate(1)));
        assert!(
            finish(&[("primary", true, true), ("x", false, true)])
                .is_err_and(|why| why.contains("only active"))
        );
        assert!(
            finish(&[("primary", false, true), ("x", true, true)]).is_err_and(|why| why.contains("already"))
        );
        let not_made =
            plan(&keys(&[("x", true, true), ("primary", true, true)]), &["primary"], "primary", true);
        assert!(not_made.is_err_and(|why| why.contains("works yet")));
    }

    #[test]
    fn what_writes_the_object_is_named() {
        let of = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            let map = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
                all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
            };
            owner(&ObjectMeta {
                labels: Some(map(labels)),
                annotations: Some(map(annotations)),
                ..Default::default()
            })
        };
        let flux = [
            ("kustomize.toolkit.fluxcd.io/name", "x"),
            ("kustomize.toolkit.fluxcd.io/namespace", "flux-system"),
        ];
        assert_eq!(of(&flux, &[]).as_deref(), Some("the Flux Kustomization flux-system/x"));
        let release = [
            ("helm.toolkit.fluxcd.io/name", "y"),
            ("helm.toolkit.fluxcd.io/namespace", "apps"),
            ("app.kubernetes.io/managed-by", "Helm"),
        ];
        let of_release = of(&release, &[("meta.helm.sh/release-name", "r")]);
        assert_eq!(of_release.as_deref(), Some("the Flux HelmRelease apps/y"), "Flux runs Helm");
        assert_eq!(of(&[], &[("argocd.argoproj.io/tracking-id", "a")]).as_deref(), Some("Argo CD (a)"));
        let helm = [("app.kubernetes.io/managed-by", "Helm")];
        assert_eq!(of(&helm, &[("meta.helm.sh/release-name", "r")]).as_deref(), Some("the Helm release r"));
        assert_eq!(of(&[("app.kubernetes.io/managed-by", "hand")], &[]), None);
        let of_manager = |name: &str| {
            let entry = ManagedFieldsEntry { manager: Some(name.to_owned()), ..Default::default() };
            owner(&ObjectMeta { managed_fields: Some(vec![entry]), ..Default::default() })
        };
        for (manager, tool) in APPLIERS {
            assert_eq!(of_manager(manager).as_deref(), Some(tool));
        }
        assert_eq!(of_manager("kubectl-client-side-apply"), None);
    }
}
