//! The two kinds as custom resources: their definitions for the API server, and the conversion of objects read from it.
//!
//! The derives of [`TenantSpec`](crate::TenantSpec) and [`WebhookSpec`](crate::WebhookSpec) give fields, descriptions,
//! defaults and what must not change. All other limits come from the table that also checks files, so the two can't
//! differ. Therefore only [`definitions`] is complete, and `TenantObject::crd()` is not.

mod constrain;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResourceExt;
use serde_json::{Number, Value};

use crate::rules::Rule;
use crate::tenant::{self, TenantObject};
use crate::webhook::{self, WebhookObject};
use crate::{Metadata, Tenant, Webhook};

/// The definitions of Tenant and Webhook, in this order.
pub fn definitions() -> [CustomResourceDefinition; 2] {
    [definition::<TenantObject>(&tenant::SPEC), definition::<WebhookObject>(&webhook::SPEC)]
}

fn definition<K: CustomResourceExt>(spec: &Rule) -> CustomResourceDefinition {
    let mut definition = K::crd();
    let schema = definition.spec.versions[0].schema.as_mut().and_then(|it| it.open_api_v3_schema.as_mut());
    constrain::root(schema.expect("the derive makes one"), spec);
    definition
}

/// Both definitions as one YAML text of two documents.
pub fn yaml() -> String {
    definitions().iter().map(|definition| format!("---\n{}", document(definition))).collect()
}

/// A definition as YAML. Every build of this crate writes the same text.
pub fn document(definition: &CustomResourceDefinition) -> String {
    let value = serde_json::to_value(definition).expect("a definition is plain data");
    serde_saphyr::to_string(&canonical(value)).expect("plain data can be written as YAML")
}

/// Sorts keys, because another crate of the build can change the order of JSON objects, and writes whole numbers without
/// `.0`.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> =
                map.into_iter().map(|(name, member)| (name, canonical(member))).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(list) => list.into_iter().map(canonical).collect(),
        Value::Number(number) => Value::Number(whole(&number).unwrap_or(number)),
        other => other,
    }
}

fn whole(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "limits of fields are small")]
    let whole = float as i64;
    (whole as f64 == float).then(|| whole.into())
}

/// The object lacks a field that the API server sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object has no {0}: it was not read from a cluster")]
pub struct NotStored(&'static str);

fn identity(meta: &ObjectMeta) -> Result<(String, Metadata), NotStored> {
    let given = |value: &Option<String>, what| value.clone().ok_or(NotStored(what));
    let metadata = Metadata {
        name: given(&meta.name, "metadata.name")?,
        namespace: given(&meta.namespace, "metadata.namespace")?,
        generation: meta.generation,
    };
    Ok((given(&meta.uid, "metadata.uid")?, metadata))
}

impl TenantObject {
    /// The uid and the declaration, as [`compile`](crate::compile()) takes them.
    ///
    /// Errors: the object has no name, namespace or uid.
    pub fn declared(&self) -> Result<(String, Tenant), NotStored> {
        let (uid, metadata) = identity(&self.metadata)?;
        Ok((uid, Tenant { metadata, spec: self.spec.clone() }))
    }
}

impl WebhookObject {
    /// The uid and the declaration, as [`compile`](crate::compile()) takes them.
    ///
    /// Errors: the object has no name, namespace or uid.
    pub fn declared(&self) -> Result<(String, Webhook), NotStored> {
        let (uid, metadata) = identity(&self.metadata)?;
        Ok((uid, Webhook { metadata, spec: self.spec.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definition_is_small_enough_for_every_kind_of_apply() {
        for definition in definitions() {
            let size = serde_json::to_string(&definition).unwrap().len();
            assert!(size < 100 * 1024, "{:?} has {size} bytes", definition.metadata.name);
        }
    }

    #[test]
    fn yaml_has_both_definitions_in_order_and_no_trace_of_rust_types() {
        let yaml = yaml();
        let tenants = yaml.find("name: tenants.docket.dev").unwrap();
        assert!(tenants < yaml.find("name: webhooks.docket.dev").unwrap());
        for foreign in
            ["nullable", "uint32", "title:", "additionalProperties: false", "preserve-unknown", "`["]
        {
            assert!(!yaml.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn object_without_a_uid_is_refused() {
        let json = json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
            "metadata": {"name": "w", "namespace": "n", "uid": "u", "generation": 2},
            "spec": {"tenantRef": {"name": "acme"}, "customerCode": "C", "targetURL": "https://h/",
                "events": ["note.created"]}
        });
        let mut object: WebhookObject = serde_json::from_value(json).unwrap();
        let (uid, webhook) = object.declared().unwrap();
        assert_eq!((uid.as_str(), webhook.metadata.generation), ("u", Some(2)));
        assert_eq!(webhook.validate(), []);
        object.metadata.uid = None;
        assert_eq!(
            object.declared().unwrap_err().to_string(),
            "the object has no metadata.uid: it was not read from a cluster"
        );
    }
}
