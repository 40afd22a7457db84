//! A Tenant or Webhook as the API server has it, even if it can't be read.
//!
//! Objects are watched without a type. So an object that breaks the CRD's rules (because it was stored before the
//! rules were tightened) affects no others: the operator uses its metadata, its violations become a condition, and
//! the watch continues.

use std::sync::Arc;

use docket_crds::compile::claimed_by;
use docket_crds::webhook::tenant_ref;
use docket_crds::{
    API_VERSION, ConditionType, ReasonCode, Tenant, TenantStatus, Violation, Webhook, WebhookStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::state::labels::{
    ADOPT_DATABASE, FINALIZER, MIGRATE_FIRST, PAUSE_MIGRATIONS, RECONCILE, REQUESTED_AT,
};
use crate::state::migrations::MigratingTenant;
use crate::state::name::Name;

/// The kinds that users declare.
pub trait DeclaredKind: DeserializeOwned + Send + Sync + 'static {
    /// The kind's name.
    const KIND: &'static str;
    /// The kind's name in URLs.
    const PLURAL: &'static str;
    /// The type of the kind's status.
    type Status: ObjectStatus;

    /// Reads a document. Errors: all its violations.
    fn from_json(document: Value) -> Result<Self, Vec<Violation>>;
}

/// A status that has conditions.
pub trait ObjectStatus: Serialize + DeserializeOwned + Default + PartialEq + Sync {
    /// The conditions.
    fn conditions(&self) -> &[Condition];
}

impl ObjectStatus for TenantStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl ObjectStatus for WebhookStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl DeclaredKind for Tenant {
    const KIND: &'static str = "Tenant";
    const PLURAL: &'static str = "tenants";
    type Status = TenantStatus;

    fn from_json(document: Value) -> Result<Self, Vec<Violation>> {
        Self::from_json(document)
    }
}

impl DeclaredKind for Webhook {
    const KIND: &'static str = "Webhook";
    const PLURAL: &'static str = "webhooks";
    type Status = WebhookStatus;

    fn from_json(document: Value) -> Result<Self, Vec<Violation>> {
        Self::from_json(document)
    }
}

/// The part of an object's metadata that the operator uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub name: Name,
    /// Identifies the object; an object of the same name with another uid is another object.
    pub uid: String,
    /// The number of changes of the spec.
    pub generation: i64,
    /// The version of the object to which this metadata belongs.
    pub resource_version: String,
    /// When the object was created. The older of two Tenants keeps values that both claim.
    pub created: Timestamp,
    /// The time since when the object is being deleted; `None`: it is not being deleted.
    pub deleting: Option<Timestamp>,
    /// The finalizers.
    pub finalizers: Vec<String>,
    /// Whether the annotation [`RECONCILE`] is `disabled`.
    pub paused: bool,
    /// The value of the annotation [`REQUESTED_AT`].
    pub requested_at: Option<String>,
    /// The value of the annotation [`ADOPT_DATABASE`].
    pub adopt_database: Option<String>,
    /// Whether the label [`MIGRATE_FIRST`] is `true`.
    pub migrate_first: bool,
    /// Whether the annotation [`PAUSE_MIGRATIONS`] is `true`.
    pub pause_migrations: bool,
}

impl Meta {
    /// Reads metadata. `None`: it lacks a name, namespace or uid, which an API server never sends.
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name).cloned();
        let label = |name: &str| meta.labels.as_ref()?.get(name).cloned();
        Some(Self {
            name: Name::new(meta.namespace.clone()?, meta.name.clone()?),
            uid: meta.uid.clone()?,
            generation: meta.generation.unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            paused: annotation(RECONCILE).as_deref() == Some("disabled"),
            requested_at: annotation(REQUESTED_AT),
            adopt_database: annotation(ADOPT_DATABASE),
            migrate_first: label(MIGRATE_FIRST).as_deref() == Some("true"),
            pause_migrations: annotation(PAUSE_MIGRATIONS).as_deref() == Some("true"),
        })
    }

    /// Whether the object has the operator's finalizer.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// Whether something changed that the operator acts on. The operator's own status writes change only the resource version.
    pub fn differs_from(&self, last: &Self) -> bool {
        let of_interest = |meta: &Self| Self { resource_version: String::new(), ..meta.clone() };
        of_interest(self) != of_interest(last)
    }
}

/// A Tenant or Webhook.
#[derive(Clone, Debug)]
pub struct Declared<T> {
    /// The object's metadata.
    pub meta: Meta,
    /// The declared content, which may break rules; or why it can't be read at all.
    pub document: Result<T, Vec<Violation>>,
    /// The Tenant that a Webhook names, even if the rest of the Webhook can't be read.
    pub tenant_ref: Option<Name>,
    /// The claims of a Tenant that can't be read; see [`claimed_by`].
    pub claims: Vec<(ReasonCode, String)>,
    /// The generation that the status is about; `None`: no operator has reported on the object.
    pub observed_generation: Option<i64>,
    /// The version of the schema that the status of a Tenant reports.
    schema_version: Option<i64>,
    /// Whether the status of a Tenant reports that a migration failed.
    migration_failed: bool,
    /// The object's status as JSON text, which takes the least memory: there are tens of thousands of objects.
    status: Box<str>,
}

impl<T: DeclaredKind> Declared<T> {
    /// Reads what the watch sent; `None` as in [`Meta::of`].
    pub fn read(mut object: DynamicObject) -> Option<Arc<Self>> {
        let meta = Meta::of(&object.metadata)?;
        let (schema_version, migration_failed) = object.data.get("status").map(migration).unwrap_or_default();
        let observed_generation =
            object.data.get("status").and_then(|status| status["observedGeneration"].as_i64());
        let status = object.data.get("status").map(Value::to_string).unwrap_or_default();
        let spec = object.data.get_mut("spec").map(Value::take).unwrap_or_default();
        let tenant_ref = tenant_ref(&spec, &meta.name.namespace);
        let tenant_ref = tenant_ref.map(|(namespace, name)| Name::new(namespace, name));
        let claims = claimed_by(&spec);
        let document = document(&meta, spec);
        let claims = if document.is_ok() { Vec::new() } else { claims };
        let status = status.into();
        Some(Arc::new(Self {
            meta,
            document,
            tenant_ref,
            claims,
            observed_generation,
            schema_version,
            migration_failed,
            status,
        }))
    }

    /// The object's status; the default if the object has no value, or a value that can't be read.
    pub fn status(&self) -> T::Status {
        serde_json::from_str(&self.status).unwrap_or_default()
    }
}

impl Declared<Tenant> {
    /// The Tenant, as far as the migration of its database is concerned.
    pub fn migration(&self) -> MigratingTenant {
        let is_left = self.meta.deleting.is_some();
        MigratingTenant {
            version: self.schema_version.filter(|_| !is_left),
            has_failed: self.migration_failed,
            is_first: self.meta.migrate_first,
            is_paused: self.meta.pause_migrations,
        }
    }
}

/// The schema's version and whether a migration failed, from the status of a Tenant.
fn migration(status: &Value) -> (Option<i64>, bool) {
    let version = status["database"]["schemaVersion"].as_str().and_then(|version| version.parse().ok());
    let failed = ReasonCode::MigrationFailed.as_str();
    let conditions = status["conditions"].as_array();
    let has_failed = conditions.into_iter().flatten().any(|condition| {
        condition["type"] == ConditionType::DatabaseReady.as_str() && condition["reason"] == failed
    });
    (version, has_failed)
}

fn document<T: DeclaredKind>(meta: &Meta, spec: Value) -> Result<T, Vec<Violation>> {
    let Name { namespace, name } = &meta.name;
    let document = json!({
        "apiVersion": API_VERSION, "kind": T::KIND,
        "metadata": {"name": name, "namespace": namespace, "generation": meta.generation},
        "spec": spec,
    });
    match T::from_json(document.clone()) {
        Ok(read) => Ok(read),
        // A spec that breaks rules, but has the right types, is compiled all the same. The compile step reports the
        // violations, and what the spec switches off takes effect.
        Err(violations) => serde_json::from_value(document).map_err(|_| violations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": API_VERSION, "kind": "Webhook",
            "metadata": {"name": "w", "namespace": "a", "uid": "u", "generation": 2, "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {RECONCILE: "disabled", REQUESTED_AT: "now"}},
            "spec": spec, "status": {"observedGeneration": 1},
        }))
        .unwrap()
    }

    fn read(spec: Value) -> Arc<Declared<Webhook>> {
        Declared::read(object(spec)).unwrap()
    }

    fn good() -> Value {
        json!({"tenantRef": {"name": "acme"}, "customerCode": "C-1", "targetURL": "https://hooks.example/",
            "events": ["order.created"]})
    }

    #[test]
    fn object_is_read_with_its_annotations_and_status() {
        let declared = read(good());
        assert_eq!(declared.document.as_ref().unwrap().metadata.generation, Some(2));
        assert!(declared.meta.paused);
        let mut enabled = object(good());
        enabled.metadata.annotations.as_mut().unwrap().insert(RECONCILE.into(), "enabled".into());
        assert!(!Meta::of(&enabled.metadata).unwrap().paused);
        assert_eq!(declared.meta.requested_at.as_deref(), Some("now"));
        assert_eq!(declared.status().observed_generation, Some(1));
        assert_eq!(declared.tenant_ref, Some(Name::new("a", "acme")));
    }

    #[test]
    fn object_that_breaks_a_rule_is_read_all_the_same() {
        let mut spec = good();
        spec["targetURL"] = json!("http://hooks.example/");
        spec["active"] = json!(false);
        let webhook = read(spec).document.clone().unwrap();
        assert!(!webhook.spec.active);
        assert_eq!(webhook.validate().len(), 1);
    }

    #[test]
    fn unreadable_object_keeps_its_place_and_its_violations() {
        let mut spec = good();
        spec["tenantRef"]["namespace"] = json!("other");
        spec["events"] = json!("order.created");
        let declared = read(spec);
        let violations: Vec<_> = declared
            .document
            .as_ref()
            .unwrap_err()
            .iter()
            .map(|violation| violation.field.as_str())
            .collect();
        assert_eq!(violations, ["spec.events"]);
        assert_eq!(declared.tenant_ref, Some(Name::new("other", "acme")));
    }

    #[test]
    fn migration_of_a_tenant_is_read_from_status_label_and_annotation() {
        let document = json!({
            "apiVersion": API_VERSION, "kind": "Tenant",
            "metadata": {"name": "acme", "namespace": "a", "uid": "u", "labels": {MIGRATE_FIRST: "true"},
                "annotations": {PAUSE_MIGRATIONS: "true"}},
            "spec": {}, "status": {"database": {"schemaVersion": "20"},
                "conditions": [{"type": "Ready", "reason": "MigrationFailed"}, {"type": "DatabaseReady", "reason": "Migrated"}]},
        });
        let tenant = |document: &Value| {
            let object: DynamicObject = serde_json::from_value(document.clone()).unwrap();
            Declared::<Tenant>::read(object).unwrap().migration()
        };
        let read = MigratingTenant { version: Some(20), has_failed: false, is_first: true, is_paused: true };
        assert_eq!(tenant(&document), read);
        let mut failed = document.clone();
        failed["status"]["conditions"][1]["reason"] = json!("MigrationFailed");
        assert!(tenant(&failed).has_failed);
        let mut new = document;
        new["status"] = json!({});
        new["metadata"]["labels"][MIGRATE_FIRST] = json!("false");
        let new = tenant(&new);
        assert_eq!((new.version, new.is_first), (None, false));
        let mut other = failed;
        other["metadata"]["annotations"][PAUSE_MIGRATIONS] = json!("false");
        assert!(!tenant(&other).is_paused);
        other["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(tenant(&other).version, None, "it is being deleted");
    }

    #[test]
    fn objects_differ_only_in_what_the_operator_acts_on() {
        let one = read(good()).meta.clone();
        let written = Meta { resource_version: "8".into(), ..one.clone() };
        assert!(!written.differs_from(&one));
        assert!(Meta { generation: 3, ..one.clone() }.differs_from(&one));
        assert!(Meta { requested_at: None, ..one.clone() }.differs_from(&one));
        assert!(Meta { finalizers: vec![FINALIZER.into()], ..one.clone() }.differs_from(&one));
    }
}
