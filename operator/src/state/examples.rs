//! A minimal Tenant for unit tests.

use std::sync::Arc;

use docket_crds::Tenant;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::state::declared::Declared;

pub(crate) fn document() -> Value {
    serde_saphyr::from_str(
        "
apiVersion: docket.dev/v1alpha1
kind: Tenant
metadata:
  {name: acme, namespace: tenants, uid: uid-acme, generation: 1, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  clientCode: ACME
  apiKeys: [{name: primary, generate: {}}]
  database: {managed: {name: tenant_acme}}
",
    )
    .unwrap()
}

pub(crate) fn declared() -> Arc<Declared<Tenant>> {
    with(json!({}))
}

/// The example with changed fields, by JSON merge patch.
pub(crate) fn with(patch: Value) -> Arc<Declared<Tenant>> {
    let mut document = document();
    merge(&mut document, patch);
    let object: DynamicObject = serde_json::from_value(document).unwrap();
    Declared::read(object).unwrap()
}

pub(crate) fn tenant() -> Tenant {
    declared().document.clone().unwrap()
}

fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}
