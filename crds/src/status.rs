//! What the operator writes into `status` of the two kinds.
//!
//! Texts have no length limits here: nobody but the operator writes them, and a status that is refused helps nobody.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What became of a Tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TenantStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last value of the annotation `docket.dev/requestedAt` that was acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// How many Webhooks of this tenant are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<u32>,
    /// Where the tenant's data is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseStatus>,
    /// The API keys of the spec, as far as they could be resolved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub api_keys: Vec<ApiKeyStatus>,
    /// Ready, Accepted, ResolvedRefs, DatabaseReady, Programmed; Reconciling and Stalled while they are true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// Where a tenant's data is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The role that Docket connects with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The server of a managed database, by the name the operator knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The Secret of the tenant's namespace with the connection URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// The version of the schema in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
}

/// An API key, without the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyStatus {
    /// Its name in the spec.
    pub name: String,
    /// Whether it is active in the spec.
    pub active: bool,
    /// The beginning of its digest; tells keys apart. Absent while the key could not be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The Secret of the tenant's namespace with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// What became of a Webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last value of the annotation `docket.dev/requestedAt` that was acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// Whether deliveries are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<bool>,
    /// Changes with the secret that signs deliveries, so that a rotation can be waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_version: Option<String>,
    /// What the data plane counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<DeliveryStatus>,
    /// Ready, Accepted, ResolvedRefs, Programmed, DeliveryHealthy; Reconciling and Stalled while they are true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// The deliveries of a webhook, as the data plane counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryStatus {
    /// Waiting for their first or their next attempt.
    pub pending: i64,
    /// Given up after the last attempt.
    pub dead_letter: i64,
    /// When the receiver last took one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Time>,
}

/// A list of conditions with the limits of Kubernetes' own; the type's derived schema has none.
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
