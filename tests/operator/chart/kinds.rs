//! Tenant and Webhook in the chart. That the definitions are the types' own is the operator suite's business.

use serde_json::{Value, json};

use super::helm::{Objects, render_with};

const KINDS: [&str; 2] = ["tenants.docket.dev", "webhooks.docket.dev"];

fn annotations(objects: &Objects) -> [Value; 2] {
    KINDS.map(|kind| objects.one("CustomResourceDefinition", kind)["metadata"]["annotations"].clone())
}

#[test]
fn the_kinds_are_installed_and_kept() {
    let keep = json!({"helm.sh/resource-policy": "keep"});
    assert_eq!(annotations(&render_with("")), [keep.clone(), keep]);
    let values = "crds: {annotations: {argocd.argoproj.io/sync-wave: '-1'}}";
    let both = json!({"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-wave": "-1"});
    assert_eq!(annotations(&render_with(values)), [both.clone(), both]);
}

#[test]
fn the_kinds_can_go_with_the_release_or_be_left_out() {
    assert_eq!(annotations(&render_with("crds: {keep: false}")), [Value::Null, Value::Null]);
    assert!(render_with("crds: {enabled: false}").all("CustomResourceDefinition").is_empty());
}
