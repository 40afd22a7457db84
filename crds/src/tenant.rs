//! The kind `Tenant`: a tenant's API keys, its database, and which namespaces may attach webhooks to it.

#![cfg_attr(
    feature = "kube",
    expect(
        unreachable_pub,
        reason = "KubeSchema makes public copies of the structs, which no other module sees"
    )
)]

mod api_keys;
mod database;
mod webhooks;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::{self, DISPLAY_NAME, Distinct, Field, LABEL, Rule, TENANT_METADATA, optional, required};
use crate::{TenantLimits, Violation, client_code, limits, look};

pub use api_keys::{ApiKeySpec, GenerateKey};
pub use database::{DatabaseSpec, DeletionPolicy, ExternalDatabase, ManagedDatabase};
pub(crate) use webhooks::events;
pub use webhooks::{AllowedNamespaces, NamespacesFrom, WebhookSettings};

use api_keys::API_KEYS;
use database::{DATABASE, SAME_DATABASE, SAME_SERVER, SAME_SIDE};
use webhooks::WEBHOOKS;

/// A Tenant as declared, without the document's `apiVersion`, `kind` and `status`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Tenant {
    /// Name and namespace.
    pub metadata: Metadata,
    /// What the user declares.
    pub spec: TenantSpec,
}

/// The part of an object's metadata that Docket uses; the rest is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// A DNS name; at most 50 characters for a Tenant.
    pub name: String,
    /// A DNS label. Default: `default`, as in `kubectl`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Counts the changes of the spec in a cluster; absent in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// The desired state of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "kube",
    derive(kube::CustomResource, kube::KubeSchema),
    kube(
        group = "docket.dev",
        version = "v1alpha1",
        kind = "Tenant",
        root = "TenantObject",
        status = "crate::status::TenantStatus",
        namespaced,
        doc = "A tenant of Docket: its API keys, its database, and which namespaces may attach webhooks to it.",
        derive = "PartialEq",
        shortname = "tnt",
        category = "docket",
        selectable = ".spec.clientCode",
        validation = rules::TENANT_NAME,
        printcolumn(name = "Code", type_ = "string", json_path = ".spec.clientCode"),
        printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
        printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
        printcolumn(name = "Suspended", type_ = "boolean", json_path = ".spec.suspend"),
        printcolumn(name = "Webhooks", type_ = "integer", json_path = ".status.webhooks"),
        printcolumn(name = "Database", type_ = "string", json_path = ".status.database.name", priority = "1"),
        printcolumn(name = "Schema", type_ = "string", json_path = ".status.database.schemaVersion", priority = "1"),
        printcolumn(
            name = "Message",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
            priority = "1"
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )
)]
pub struct TenantSpec {
    /// A name for people, at most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The code that API clients may send as `clientCode`: 1 to 63 letters, digits, `-` and `_`, beginning with a letter or
    /// digit. It must not look like an API key. Immutable. Unique among all Tenants; upper and lower case are the same.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_CODE))]
    pub client_code: String,
    /// Whether the tenant is suspended. Requests with its API keys then get 401, no new deliveries are created, and its data
    /// stays as it is. Default false.
    #[serde(default)]
    pub suspend: bool,
    /// Host names below the base domain that select this tenant without an API key. At most 8, each unique among all
    /// Tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subdomains: Vec<String>,
    /// At most 8 API keys, each with its own name. To rotate, add a key, set `active: false` on the old one, then remove
    /// the old one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_keys: Vec<ApiKeySpec>,
    /// Lifetime and rotation of session tokens.
    #[serde(default)]
    pub tokens: TokenSettings,
    /// The database with the tenant's data. The embedded mode ignores it and uses a file.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_SIDE))]
    pub database: DatabaseSpec,
    /// Which webhooks and events the tenant allows.
    #[serde(default)]
    pub webhooks: WebhookSettings,
    /// What the tenant may use. If a limit is left out, the platform's default applies. The platform also sets maxima.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: TenantLimits,
    /// How the tenant's portal looks. The portal shows `displayName`, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub portal: PortalSpec,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) const fn yes() -> bool {
    true
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SecretKeyRef {
    /// The Secret's name.
    pub name: String,
    /// The key in the Secret.
    pub key: String,
}

/// Lifetime and rotation of session tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenSettings {
    /// How long a session token is valid, 1 to 1440 minutes. Default 60.
    pub lifetime_minutes: u32,
    /// How long a key signs session tokens before a new one replaces it, 1 to 365 days. Default 90.
    pub signing_key_rotation_days: u32,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self { lifetime_minutes: 60, signing_key_rotation_days: 90 }
    }
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedSecret {
    /// The Secret's name.
    pub name: String,
}

/// How a tenant's portal looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PortalSpec {
    /// The tenant's colour: `#` and six hexadecimal digits, in quotes. It is behind the first letter of the tenant's name and
    /// in a thin line; the letter is black or white, whichever has more contrast. Default: the portal's own colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The tenant's logo: a PNG, JPEG or WebP image in base64, of at most 32 KiB and 1024 by 1024 pixels. The portal shows
    /// it 32 pixels wide and high. Default: the first letter of the tenant's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
}

const SUBDOMAINS: Rule = Rule::List { entries: 0..=8, each: &LABEL, distinct: Distinct::Entries };

const TOKENS: Rule = Rule::Record {
    fields: &[
        optional("lifetimeMinutes", &Rule::Whole(1..=1440)),
        optional("signingKeyRotationDays", &Rule::Whole(1..=365)),
    ],
    checks: &[],
};

pub(crate) const SPEC: Rule = Rule::Record {
    fields: &[
        optional("displayName", &DISPLAY_NAME),
        required("clientCode", &client_code::RULE),
        optional("suspend", &Rule::Flag),
        optional("subdomains", &SUBDOMAINS),
        optional("apiKeys", &API_KEYS),
        optional("tokens", &TOKENS),
        required("database", &DATABASE),
        optional("webhooks", &WEBHOOKS),
        optional("limits", &limits::RULE),
        optional("portal", &look::RULE),
    ],
    checks: &[],
};

// What must not change: a CEL rule for the API server, and its message.
const SAME_CODE: (&str, &str) = ("self == oldSelf", "clientCode is immutable");

const DOCUMENT: &[Field] = &[
    required("apiVersion", &rules::API_VERSION),
    required("kind", &Rule::Choice { noun: "kind", values: &["Tenant"] }),
    required("metadata", &TENANT_METADATA),
    required("spec", &SPEC),
    optional("status", &Rule::OpenRecord { fields: &[] }),
];

impl Tenant {
    /// Reads a document. Errors: all violations in the document.
    pub fn from_json(document: Value) -> Result<Self, Vec<Violation>> {
        rules::read(&Rule::Record { fields: DOCUMENT, checks: &[] }, document)
    }

    /// The rules of the CRD that this Tenant breaks; empty if it is valid.
    pub fn validate(&self) -> Vec<Violation> {
        rules::check_object((&TENANT_METADATA, &self.metadata), (&SPEC, &self.spec))
    }

    /// The rules of the CRD that a change from `old` to this Tenant breaks.
    pub fn validate_change(&self, old: &Self) -> Vec<Violation> {
        let mut found = Vec::new();
        if self.spec.client_code != old.spec.client_code {
            found.push(Violation::new("spec.clientCode", SAME_CODE.1));
        }
        match (&self.spec.database.managed, &old.spec.database.managed) {
            (Some(new), Some(old)) => {
                if new.server != old.server {
                    found.push(Violation::new("spec.database.managed", SAME_SERVER.1));
                }
                if new.name != old.name {
                    found.push(Violation::new("spec.database.managed.name", SAME_DATABASE.1));
                }
            }
            (Some(_), None) | (None, Some(_)) => found.push(Violation::new("spec.database", SAME_SIDE.1)),
            (None, None) => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{EventCode, KeyVersion};

    fn minimal() -> Value {
        json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"},
            "spec": {"clientCode": "ACME", "database": {"managed": {"name": "tenant_acme"}}}
        })
    }

    pub(super) fn with(pointer: &str, value: Value) -> Value {
        let mut document = minimal();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = value;
        document
    }

    pub(super) fn accepted(document: Value) -> Tenant {
        let tenant = Tenant::from_json(document).unwrap();
        assert_eq!(tenant.validate(), [], "the typed object is valid, too");
        tenant
    }

    #[track_caller]
    pub(super) fn refused(document: Value, expected: &[&str]) {
        let found = Tenant::from_json(document).unwrap_err();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn omitted_field_has_the_default_of_the_crd() {
        let tenant = accepted(minimal());
        assert_eq!(tenant.metadata.namespace, "default");
        assert_eq!(
            serde_json::to_value(&tenant.spec).unwrap(),
            json!({
                "clientCode": "ACME", "suspend": false,
                "tokens": {"lifetimeMinutes": 60, "signingKeyRotationDays": 90},
                "database": {"managed": {"name": "tenant_acme", "deletionPolicy": "Retain",
                    "connectionLimit": 50, "passwordRotationGeneration": 0}},
                "webhooks": {"allowedNamespaces": {"from": "Same"}}
            })
        );
    }

    #[test]
    fn every_field_is_read_and_null_counts_as_omitted() {
        let tenant = accepted(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": "acme", "namespace": "tenants", "generation": 3, "labels": {"a": "b"}, "uid": "u"},
            "spec": {
                "displayName": "Acme Legal", "clientCode": "ACME", "suspend": true, "subdomains": ["acme", "acme-2"],
                "apiKeys": [
                    {"name": "primary", "generate": {}},
                    {"name": "second", "generate": {"rotationGeneration": 1}, "secretKeyRef": null},
                    {"name": "old", "active": false, "version": "v1", "secretKeyRef": {"name": "s", "key": "k"}}
                ],
                "tokens": {"lifetimeMinutes": 5},
                "database": {"managed": null, "external": {"secretKeyRef": {"name": "db", "key": "url"}}},
                "webhooks": {
                    "allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "acme"},
                        "matchExpressions": [{"key": "x", "operator": "In", "values": ["1"]}]}},
                    "disabledEvents": ["note.created"]
                },
                "limits": {"requestsPerSecond": 50, "webhooks": 0, "bodyBytes": null},
                "portal": {"color": "#2f5bd0", "logo": null}
            },
            "status": {"observedGeneration": 3}
        }));
        assert_eq!(tenant.metadata.generation, Some(3));
        assert_eq!(tenant.spec.api_keys[1].generate, Some(GenerateKey { rotation_generation: 1 }));
        assert_eq!(tenant.spec.api_keys[2].version, KeyVersion::V1);
        assert_eq!(tenant.spec.tokens, TokenSettings { lifetime_minutes: 5, signing_key_rotation_days: 90 });
        assert_eq!(tenant.spec.webhooks.disabled_events, [EventCode::NoteCreated]);
        let limits =
            TenantLimits { requests_per_second: Some(50), webhooks: Some(0), ..TenantLimits::default() };
        assert_eq!(tenant.spec.limits, limits);
        assert_eq!(tenant.spec.portal, PortalSpec { color: Some("#2f5bd0".into()), logo: None });
    }

    #[test]
    fn another_kind_or_version_is_refused() {
        refused(
            with("/apiVersion", json!("docket.dev/v1")),
            &["apiVersion: unknown apiVersion \"docket.dev/v1\"; one of: docket.dev/v1alpha1"],
        );
        refused(with("/kind", json!("Tenants")), &["kind: unknown kind \"Tenants\"; one of: Tenant"]);
        refused(
            json!({"apiVersion": "docket.dev/v1alpha1", "kind": "Tenant"}),
            &["metadata: is required", "spec: is required"],
        );
        refused(json!("text"), &["must be an object, not a string"]);
    }

    #[test]
    fn unknown_field_is_named_at_any_depth() {
        refused(
            with("/spec/database/managed/nmae", json!("x")),
            &["spec.database.managed.nmae: unknown field; one of: name, server, deletionPolicy, \
             connectionLimit, passwordRotationGeneration"],
        );
        refused(
            with("/spec/webhooks", json!({"disabled": []})),
            &["spec.webhooks.disabled: unknown field; one of: allowedNamespaces, disabledEvents"],
        );
        assert!(serde_json::from_value::<TenantSpec>(with("/spec/x", json!(1))["spec"].take()).is_err());
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        refused(
            json!({
                "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"},
                "spec": {"clientCode": 12, "suspend": "no", "subdomains": ["ok", "-x"], "tokens": {"lifetimeMinutes": 0}}
            }),
            &[
                "spec.clientCode: must be a string, not a number; put it in quotes",
                "spec.suspend: must be true or false, not a string",
                "spec.subdomains[1]: must be lower-case letters, digits and \"-\", beginning and ending with a \
                 letter or digit",
                "spec.tokens.lifetimeMinutes: must be a whole number from 1 to 1440, not 0",
                "spec.database: is required",
            ],
        );
    }

    #[test]
    fn name_that_is_no_short_dns_name_is_refused() {
        accepted(with("/metadata", json!({"name": "a".repeat(50), "namespace": "n-1"})));
        refused(
            with("/metadata/name", json!("a".repeat(51))),
            &[
                "metadata.name: metadata.name must be at most 50 characters: generated Secrets append a suffix",
            ],
        );
        refused(
            with("/metadata/name", json!("Acme")),
            &[
                "metadata.name: must be lower-case letters, digits, \"-\" and \".\", beginning and ending with a \
             letter or digit",
            ],
        );
        refused(with("/metadata", json!({"namespace": "n"})), &["metadata.name: is required"]);
    }

    #[test]
    fn client_code_that_looks_like_a_key_is_refused() {
        refused(
            with("/spec/clientCode", json!("0123456789abcdefABCDEF0123456789")),
            &["spec.clientCode: clientCode must not look like a hexadecimal API key"],
        );
        refused(
            with("/spec/clientCode", json!("")),
            &["spec.clientCode: must have 1 to 63 characters, not 0"],
        );
        refused(
            with("/spec/clientCode", json!("_x")),
            &["spec.clientCode: must be letters, digits, \"-\" and \"_\", beginning with a letter or digit"],
        );
    }

    #[test]
    fn repeated_or_ninth_subdomain_is_refused() {
        refused(
            with("/spec/subdomains", json!(["a", "b", "a"])),
            &["spec.subdomains[2]: \"a\" is listed twice; list it once"],
        );
        refused(
            with("/spec/subdomains", json!(["a", "b", "c", "d", "e", "f", "g", "h", "i"])),
            &["spec.subdomains: must have 0 to 8 entries, not 9"],
        );
    }

    #[test]
    fn limit_that_is_unknown_or_out_of_its_range_is_refused() {
        refused(
            with("/spec/limits", json!({"requestsPerSecond": 0, "bodyBytes": 1_048_577})),
            &[
                "spec.limits.requestsPerSecond: must be a whole number from 1 to 100000, not 0",
                "spec.limits.bodyBytes: must be a whole number from 65536 to 1048576, not 1048577",
            ],
        );
        refused(
            with("/spec/limits", json!({"requests": 1})),
            &[
                "spec.limits.requests: unknown field; one of: requestsPerSecond, requestBurst, signInsPerMinute, \
             queuedDeliveries, attemptsInFlight, databaseConnections, bodyBytes, webhooks, foreignWebhooks",
            ],
        );
    }

    #[test]
    fn change_of_code_or_database_is_refused() {
        let old = accepted(minimal());
        assert_eq!(old.validate_change(&old), []);
        let mut new = old.clone();
        new.spec.client_code = "acme".into();
        let managed = new.spec.database.managed.as_mut().unwrap();
        managed.name = "other".into();
        managed.server = Some("second".into());
        let messages: Vec<_> = new.validate_change(&old).iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "spec.clientCode: clientCode is immutable",
                "spec.database.managed: database server is immutable",
                "spec.database.managed.name: database name is immutable"
            ]
        );
        new = old.clone();
        new.spec.database.managed = None;
        let found = new.validate_change(&old);
        assert_eq!(found[0].message, "a tenant cannot switch between managed and external databases");
    }
}
