//! The kind `Tenant`: one customer database, its keys, and who may attach webhooks to it.

#![cfg_attr(
    feature = "kube",
    expect(
        unreachable_pub,
        reason = "KubeSchema makes public copies of the structs, which nobody else sees"
    )
)]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    EventCode, KeyVersion, Violation, client_code,
    label_selector::{self, LabelSelector},
    rules::{
        self, Check, DISPLAY_NAME, Distinct, Field, LABEL, Rule, SECRET_KEY_REF, TENANT_METADATA, optional,
        required,
    },
};

/// A Tenant as declared. A document's `apiVersion`, `kind` and `status` are not kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Tenant {
    /// Name and namespace.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: TenantSpec,
}

/// The part of an object's metadata that means something to us; the rest is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// A DNS name; at most 50 characters for a Tenant.
    pub name: String,
    /// Defaults to `default`, as in `kubectl`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Counts the changes of the spec in a cluster; absent in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// What is wanted of a tenant.
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
        doc = "A tenant of Docket: its API keys, its database, and who may attach webhooks to it.",
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
    /// Shown to people; at most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What API clients may send as `clientCode`: letters, digits, `-` and `_`, and no look of an API key. Immutable,
    /// and unique among the tenants.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_CODE))]
    pub client_code: String,
    /// Keys answer 401 and no new deliveries are made; data is untouched. Default false.
    #[serde(default)]
    pub suspend: bool,
    /// Hosts below the base domain that map to this tenant without a key; at most 8, each unique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subdomains: Vec<String>,
    /// At most 8, by name. Rotate by adding one, then `active: false` on the old one, then removing it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_keys: Vec<ApiKeySpec>,
    /// Lifetime and rotation of session tokens.
    #[serde(default)]
    pub tokens: TokenSettings,
    /// Where the tenant's data is; a file in the embedded mode whatever this says.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_SIDE))]
    pub database: DatabaseSpec,
    /// What the tenant allows of webhooks.
    #[serde(default)]
    pub webhooks: WebhookSettings,
}

/// A named API key: exactly one of `secretKeyRef` and `generate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeySpec {
    /// Unique in the tenant; a DNS label.
    pub name: String,
    /// An inactive key answers 401. Default true.
    #[serde(default = "yes")]
    pub active: bool,
    /// Only v2 keys work on the v2 API. Default v2.
    #[serde(default)]
    pub version: KeyVersion,
    /// The key is in a Secret of the tenant's namespace: at least 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKeyRef>,
    /// The operator makes the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<GenerateKey>,
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
    /// The key in it.
    pub key: String,
}

/// A key made by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerateKey {
    /// Raise it to have a new key made. Default 0.
    pub rotation_generation: i64,
}

/// Lifetime and rotation of session tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenSettings {
    /// How long a token is good for, 1 to 1440 minutes. Default 60.
    pub lifetime_minutes: u32,
    /// How long one key signs before the next takes over, 1 to 365 days. Default 90.
    pub signing_key_rotation_days: u32,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self { lifetime_minutes: 60, signing_key_rotation_days: 90 }
    }
}

/// Where the tenant's data is: exactly one of the two, never switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(kube::KubeSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatabaseSpec {
    /// The operator makes database, role and schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_SERVER))]
    pub managed: Option<ManagedDatabase>,
    /// It is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalDatabase>,
}

/// A database made by the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(kube::KubeSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedDatabase {
    /// A PostgreSQL name of up to 63 characters, not reserved; immutable and unique.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_DATABASE))]
    pub name: String,
    /// The PostgreSQL server that holds it, by the name the operator knows it by; the operator's first one when absent.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What becomes of the data when the Tenant is deleted. Default Retain.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Connections the role may hold, 1 to 1000. Default 50.
    #[serde(default = "default_connection_limit")]
    pub connection_limit: u32,
    /// Raise it to have a new password made. Default 0.
    #[serde(default)]
    pub password_rotation_generation: i64,
}

fn default_connection_limit() -> u32 {
    50
}

/// What becomes of a managed database when its Tenant is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum DeletionPolicy {
    /// It stays.
    #[default]
    Retain,
    /// It is dropped.
    Delete,
}

/// A database that is there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalDatabase {
    /// Its connection URL, in a Secret of the tenant's namespace.
    pub secret_key_ref: SecretKeyRef,
}

/// What a tenant allows of webhooks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookSettings {
    /// The namespaces whose Webhooks may name this tenant. Default: its own only.
    pub allowed_namespaces: AllowedNamespaces,
    /// Events that are off in this tenant's catalog.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled_events: Vec<EventCode>,
}

/// The namespaces whose Webhooks may name a tenant, beside its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// How they are chosen. Default Same.
    pub from: NamespacesFrom,
    /// Their labels; given only with `from: Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// How namespaces are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum NamespacesFrom {
    /// The tenant's own namespace.
    #[default]
    Same,
    /// Every namespace.
    All,
    /// The tenant's own and those the selector matches.
    Selector,
}

const SUBDOMAINS: Rule = Rule::List { entries: 0..=8, each: &LABEL, distinct: Distinct::Entries };

const API_KEY: Rule = Rule::Record {
    fields: &[
        required("name", &LABEL),
        optional("active", &Rule::Flag),
        optional("version", &Rule::Choice { noun: "version", values: &["v1", "v2"] }),
        optional("secretKeyRef", &SECRET_KEY_REF),
        optional(
            "generate",
            &Rule::Record {
                fields: &[optional("rotationGeneration", &Rule::Whole(0..=i64::MAX))],
                checks: &[],
            },
        ),
    ],
    checks: &[Check {
        holds: |key| key.contains_key("secretKeyRef") != key.contains_key("generate"),
        cel: "has(self.secretKeyRef) != has(self.generate)",
        message: "set exactly one of secretKeyRef or generate",
    }],
};

const API_KEYS: Rule = Rule::List { entries: 0..=8, each: &API_KEY, distinct: Distinct::By("name") };

const TOKENS: Rule = Rule::Record {
    fields: &[
        optional("lifetimeMinutes", &Rule::Whole(1..=1440)),
        optional("signingKeyRotationDays", &Rule::Whole(1..=365)),
    ],
    checks: &[],
};

const DATABASE_NAME: Rule = Rule::Text {
    length: 1..=63,
    checks: &[
        Check {
            holds: |name| {
                name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
                    && !name.starts_with(|c: char| c.is_ascii_digit())
            },
            cel: "self.matches('^[a-z_][a-z0-9_]*$')",
            message: "must be lower-case letters, digits and \"_\", beginning with a letter or \"_\"",
        },
        Check {
            holds: |name| !matches!(name, "postgres" | "template0" | "template1"),
            cel: "!(self in ['postgres', 'template0', 'template1'])",
            message: "the database name is reserved by PostgreSQL",
        },
        Check {
            holds: |name| !name.starts_with("pg_"),
            cel: "!self.startsWith('pg_')",
            message: "names starting with pg_ are reserved by PostgreSQL",
        },
    ],
};

const MANAGED: Rule = Rule::Record {
    fields: &[
        required("name", &DATABASE_NAME),
        optional("server", &LABEL),
        optional("deletionPolicy", &Rule::Choice { noun: "deletionPolicy", values: &["Retain", "Delete"] }),
        optional("connectionLimit", &Rule::Whole(1..=1000)),
        optional("passwordRotationGeneration", &Rule::Whole(0..=i64::MAX)),
    ],
    checks: &[],
};

const DATABASE: Rule = Rule::Record {
    fields: &[
        optional("managed", &MANAGED),
        optional(
            "external",
            &Rule::Record { fields: &[required("secretKeyRef", &SECRET_KEY_REF)], checks: &[] },
        ),
    ],
    checks: &[Check {
        holds: |database| database.contains_key("managed") != database.contains_key("external"),
        cel: "has(self.managed) != has(self.external)",
        message: "set exactly one of managed or external",
    }],
};

const ALLOWED_NAMESPACES: Rule = Rule::Record {
    fields: &[
        optional("from", &Rule::Choice { noun: "from", values: &["Same", "All", "Selector"] }),
        optional("selector", &label_selector::RULE),
    ],
    checks: &[Check {
        holds: |allowed| {
            let by_selector = allowed.get("from").and_then(Value::as_str) == Some("Selector");
            by_selector == allowed.contains_key("selector")
        },
        cel: "self.from == 'Selector' ? has(self.selector) : !has(self.selector)",
        message: "selector must be set only when from is Selector",
    }],
};

/// A set of event codes, with as many entries as the CRD allows.
pub(crate) const fn events(entries: std::ops::RangeInclusive<usize>) -> Rule {
    const EVENT: Rule = Rule::Choice { noun: "event", values: &EventCode::NAMES };
    Rule::List { entries, each: &EVENT, distinct: Distinct::Entries }
}

const DISABLED_EVENTS: Rule = events(0..=16);

const WEBHOOKS: Rule = Rule::Record {
    fields: &[
        optional("allowedNamespaces", &ALLOWED_NAMESPACES),
        optional("disabledEvents", &DISABLED_EVENTS),
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
    ],
    checks: &[],
};

// What must not change, for the API server in CEL.
const SAME_CODE: (&str, &str) = ("self == oldSelf", "clientCode is immutable");
const SAME_SIDE: (&str, &str) = (
    "has(self.managed) == has(oldSelf.managed)",
    "a tenant cannot switch between managed and external databases",
);
const SAME_DATABASE: (&str, &str) = ("self == oldSelf", "database name is immutable");
const SAME_SERVER: (&str, &str) = (
    "has(self.server) == has(oldSelf.server) && (!has(self.server) || self.server == oldSelf.server)",
    "database server is immutable",
);

const DOCUMENT: &[Field] = &[
    required("apiVersion", &rules::API_VERSION),
    required("kind", &Rule::Choice { noun: "kind", values: &["Tenant"] }),
    required("metadata", &TENANT_METADATA),
    required("spec", &SPEC),
    optional("status", &Rule::OpenRecord { fields: &[] }),
];

impl Tenant {
    /// Reads a document, and says everything that is wrong with it.
    pub fn from_json(document: Value) -> Result<Self, Vec<Violation>> {
        rules::read(&Rule::Record { fields: DOCUMENT, checks: &[] }, document)
    }

    /// What the CRD's rules have against this tenant; empty when it is valid.
    pub fn validate(&self) -> Vec<Violation> {
        rules::check_object((&TENANT_METADATA, &self.metadata), (&SPEC, &self.spec))
    }

    /// What must not change: the CRD's rules about a tenant that was `old` before.
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
    use super::*;
    use serde_json::json;

    fn minimal() -> Value {
        json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"},
            "spec": {"clientCode": "ACME", "database": {"managed": {"name": "tenant_acme"}}}
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut document = minimal();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = value;
        document
    }

    fn accepted(document: Value) -> Tenant {
        let tenant = Tenant::from_json(document).unwrap();
        assert_eq!(tenant.validate(), [], "the typed object is valid, too");
        tenant
    }

    #[track_caller]
    fn refused(document: Value, expected: &[&str]) {
        let found = Tenant::from_json(document).unwrap_err();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn left_out_fields_have_the_defaults_of_the_crd() {
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
    fn every_field_is_read_and_nulls_count_as_left_out() {
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
                }
            },
            "status": {"observedGeneration": 3}
        }));
        assert_eq!(tenant.metadata.generation, Some(3));
        assert_eq!(tenant.spec.api_keys[1].generate, Some(GenerateKey { rotation_generation: 1 }));
        assert_eq!(tenant.spec.api_keys[2].version, KeyVersion::V1);
        assert_eq!(tenant.spec.tokens, TokenSettings { lifetime_minutes: 5, signing_key_rotation_days: 90 });
        assert_eq!(tenant.spec.webhooks.disabled_events, [EventCode::NoteCreated]);
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
    fn unknown_fields_are_named_wherever_they_are() {
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
    fn all_that_is_wrong_is_told_at_once() {
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
    fn names_are_dns_names_of_at_most_50_characters() {
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
    fn a_client_code_does_not_look_like_a_key() {
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
    fn subdomains_are_a_set_of_at_most_8() {
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
    fn an_api_key_has_one_source_and_its_own_name() {
        let one_of = "spec.apiKeys[0]: set exactly one of secretKeyRef or generate";
        refused(with("/spec/apiKeys", json!([{"name": "a"}])), &[one_of]);
        let both = json!([{"name": "a", "generate": {}, "secretKeyRef": {"name": "s", "key": "k"}}]);
        refused(with("/spec/apiKeys", both), &[one_of]);
        let twice = json!([{"name": "a", "generate": {}}, {"name": "a", "generate": {}}]);
        refused(with("/spec/apiKeys", twice), &["spec.apiKeys[1]: \"a\" is listed twice; list it once"]);
        refused(
            with("/spec/apiKeys", json!([{"name": "a", "generate": {}, "version": "v3"}])),
            &["spec.apiKeys[0].version: unknown version \"v3\"; one of: v1, v2"],
        );
        refused(
            with("/spec/apiKeys", json!([{"name": "a", "secretKeyRef": {"name": ""}}])),
            &[
                "spec.apiKeys[0].secretKeyRef.name: must have 1 to 253 characters, not 0",
                "spec.apiKeys[0].secretKeyRef.key: is required",
            ],
        );
    }

    #[test]
    fn a_database_is_managed_or_external() {
        let one_of = "spec.database: set exactly one of managed or external";
        refused(with("/spec/database", json!({})), &[one_of]);
        refused(
            with("/spec/database/external", json!({"secretKeyRef": {"name": "s", "key": "k"}})),
            &[one_of],
        );
    }

    #[test]
    fn reserved_and_malformed_database_names_are_refused() {
        for (name, message) in [
            ("postgres", "the database name is reserved by PostgreSQL"),
            ("template1", "the database name is reserved by PostgreSQL"),
            ("pg_x", "names starting with pg_ are reserved by PostgreSQL"),
            ("1x", "must be lower-case letters, digits and \"_\", beginning with a letter or \"_\""),
            ("a-b", "must be lower-case letters, digits and \"_\", beginning with a letter or \"_\""),
        ] {
            let expected = format!("spec.database.managed.name: {message}");
            refused(with("/spec/database/managed/name", json!(name)), &[&expected]);
        }
        accepted(with("/spec/database/managed/name", json!("_pg_2")));
    }

    #[test]
    fn a_managed_database_has_limits() {
        refused(
            with("/spec/database/managed/connectionLimit", json!(1001)),
            &["spec.database.managed.connectionLimit: must be a whole number from 1 to 1000, not 1001"],
        );
        refused(
            with("/spec/database/managed/deletionPolicy", json!("Keep")),
            &[
                "spec.database.managed.deletionPolicy: unknown deletionPolicy \"Keep\"; one of: Retain, Delete",
            ],
        );
    }

    #[test]
    fn a_selector_goes_with_from_selector_only() {
        let allowed = |value: Value| with("/spec/webhooks", json!({"allowedNamespaces": value}));
        let message = "spec.webhooks.allowedNamespaces: selector must be set only when from is Selector";
        refused(allowed(json!({"from": "Selector"})), &[message]);
        refused(allowed(json!({"from": "All", "selector": {}})), &[message]);
        refused(allowed(json!({"selector": {}})), &[message]);
        accepted(allowed(json!({"from": "Selector", "selector": {}})));
        refused(
            allowed(json!({"from": "Selector", "selector": {"matchlabels": {}}})),
            &["spec.webhooks.allowedNamespaces.selector.matchlabels: unknown field; one of: matchLabels, \
             matchExpressions"],
        );
        let operator = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
        refused(
            allowed(json!({"from": "Selector", "selector": operator})),
            &[
                "spec.webhooks.allowedNamespaces.selector.matchExpressions[0]: values must be given for In and NotIn, \
             and left out for Exists and DoesNotExist",
            ],
        );
    }

    #[test]
    fn disabled_events_are_of_the_catalog() {
        refused(
            with("/spec/webhooks", json!({"disabledEvents": ["order.create"]})),
            &[
                "spec.webhooks.disabledEvents[0]: unknown event \"order.create\"; one of: order.created, order.updated, \
             order.exported, order.status_changed, note.created, invoice.created",
            ],
        );
    }

    #[test]
    fn code_and_database_do_not_change() {
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
