//! What the operator writes into `status` of the two kinds.
//!
//! Texts have no length limits: only the operator writes them, and a refused status would hide what it reports.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The observed state of a Tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TenantStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last value of the annotation `docket.dev/requestedAt` that the operator acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// How many Webhooks of this Tenant are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<u32>,
    /// The database with the tenant's data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseStatus>,
    /// The API keys of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub api_keys: Vec<ApiKeyStatus>,
    /// Ready, Accepted, ResolvedRefs, DatabaseReady, Programmed, WithinLimits; also Reconciling or Stalled while true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// The database with a tenant's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The name of a managed database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The PostgreSQL role that owns a managed database and that Docket connects as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The name of a managed database's server, as the operator's `--database-server` gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The Secret in the Tenant's namespace with the database's password or connection URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// The version of the database's schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
}

/// An API key, without its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyStatus {
    /// The key's name in the spec.
    pub name: String,
    /// Whether the key is active in the spec.
    pub active: bool,
    /// The beginning of the key's digest, by which you can distinguish keys. Absent while the key is not resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The Secret in the Tenant's namespace with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// The observed state of a Webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last value of the annotation `docket.dev/requestedAt` that the operator acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// Whether deliveries are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<bool>,
    /// The version of the Secret that signs deliveries. It changes when a rotation takes effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_version: Option<String>,
    /// The webhook's deliveries, as the data plane counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<DeliveryStatus>,
    /// Ready, Accepted, ResolvedRefs, Programmed, DeliveryHealthy; also Reconciling or Stalled while true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// The deliveries of a webhook, as the data plane counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryStatus {
    /// How many deliveries wait for their first or next attempt.
    pub pending: i64,
    /// How many deliveries became dead letters, and were neither resent nor set aside since.
    pub dead_letter: i64,
    /// When the receiver last accepted a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Time>,
}

/// The schema of a list of conditions, with Kubernetes' own limits; the derived schema has none.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 8,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}
