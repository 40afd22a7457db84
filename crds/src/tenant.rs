//! The kind `Tenant`: a tenant's API keys, its database, and which namespaces may attach webhooks to it.

#![cfg_attr(
    feature = "kube",
    expect(
        unreachable_pub,
        reason = "KubeSchema makes public copies of the structs, which no other module sees"
    )
)]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::database_secret::{self, Beside, CERTIFICATE_KEYS, KEYS};
use crate::label_selector::{self, LabelSelector};
use crate::rules::{
    self, Check, DISPLAY_NAME, Distinct, Field, LABEL, NAMED_SECRET, Rule, SECRET_KEY_REF, TENANT_METADATA,
    optional, required,
};
use crate::{EventCode, KeyVersion, TenantLimits, Violation, client_code, limits, look};

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

/// A named API key. Set exactly one of `secretKeyRef` and `generate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeySpec {
    /// The key's name: a DNS label, unique in the tenant.
    pub name: String,
    /// Whether the key works. Requests with an inactive key get 401. Default true.
    #[serde(default = "yes")]
    pub active: bool,
    /// The API version that the key is for. Only v2 keys work on the v2 API. Default v2.
    #[serde(default)]
    pub version: KeyVersion,
    /// The Secret in the Tenant's namespace that contains the key: at least 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKeyRef>,
    /// The operator generates the key.
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
    /// The key in the Secret.
    pub key: String,
}

/// A key that the operator generates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerateKey {
    /// When you raise this number, the operator generates a new key. Default 0.
    pub rotation_generation: i64,
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

/// The database with the tenant's data. Set exactly one of `managed` and `external`; a Tenant can't switch later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(kube::KubeSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatabaseSpec {
    /// The operator creates the database, its role and its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_SERVER))]
    pub managed: Option<ManagedDatabase>,
    /// Use an existing database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalDatabase>,
}

/// A database that the operator creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(kube::KubeSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedDatabase {
    /// The name of the database, 1 to 63 lower-case letters, digits and `_`, not reserved by PostgreSQL. Immutable, and
    /// unique among all Tenants.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_DATABASE))]
    pub name: String,
    /// The name of the PostgreSQL server, as the operator's `--database-server` gives it. Default: the operator's first
    /// server. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What happens to the database when the Tenant is deleted. Default Retain.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// How many connections the role may hold, 1 to 1000. Default 50.
    #[serde(default = "default_connection_limit")]
    pub connection_limit: u32,
    /// When you raise this number, the operator generates a new password. Default 0.
    #[serde(default)]
    pub password_rotation_generation: i64,
}

fn default_connection_limit() -> u32 {
    50
}

/// What happens to a managed database when its Tenant is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum DeletionPolicy {
    /// The database stays.
    #[default]
    Retain,
    /// The database is dropped with all its data.
    Delete,
}

/// An existing database. Set exactly one of `secretKeyRef` and `secretRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalDatabase {
    /// The Secret in the Tenant's namespace that contains the connection URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKeyRef>,
    /// The Secret in the Tenant's namespace with the keys `host`, `port`, `user` or `username`, `password` and `dbname`, as
    /// CloudNativePG and other operators write it. It may also have the keys of `certificateSecretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<NamedSecret>,
    /// The Secret in the Tenant's namespace with the client's certificate `tls.crt`, its private key `tls.key`, and the
    /// authorities `ca.crt` of the server's certificate. Each is optional. Default: the keys of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret_ref: Option<NamedSecret>,
    /// The server's host name or address. Default: the key `host` of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The server's port, 1 to 65535. Default: the key `port` of `secretRef`, or 5432.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The name of the database. Default: the key `dbname` of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dbname: Option<String>,
    /// disable, prefer, require, verify-ca or verify-full, as in libpq. Default: verify-full if there is a `ca.crt`, otherwise
    /// require.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_mode: Option<String>,
    /// Whether the host is a pooler in transaction mode, such as PgBouncer. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<bool>,
}

impl ExternalDatabase {
    /// What is declared beside `secretRef`.
    pub fn beside(&self) -> Beside {
        Beside {
            host: self.host.clone(),
            port: self.port,
            dbname: self.dbname.clone(),
            ssl_mode: self.ssl_mode.clone(),
            ssl_root_cert: None,
            is_pooled: self.pooler == Some(true),
        }
    }

    /// The name of the Secret with the login.
    pub fn secret_name(&self) -> Option<&str> {
        let key = self.secret_key_ref.as_ref().map(|secret| secret.name.as_str());
        key.or(self.secret_ref.as_ref().map(|secret| secret.name.as_str()))
    }

    /// The keys of Secrets from which the URL comes, each after its Secret's name.
    pub fn keys(&self) -> Vec<(&str, &str)> {
        let url = self.secret_key_ref.iter().map(|secret| (secret.name.as_str(), secret.key.as_str()));
        let parts = KEYS.iter().chain(&CERTIFICATE_KEYS);
        url.chain(parts.filter_map(|key| Some((self.secret_of(key)?, *key)))).collect()
    }

    /// The name of the Secret that has this key of a login, if `secretRef` is set.
    pub fn secret_of(&self, key: &str) -> Option<&str> {
        let login = self.secret_ref.as_ref()?;
        let certificates = self.certificate_secret_ref.as_ref().unwrap_or(login);
        let secret = if CERTIFICATE_KEYS.contains(&key) { certificates } else { login };
        Some(&secret.name)
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

/// Which webhooks and events a tenant allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookSettings {
    /// The namespaces whose Webhooks may name this Tenant. Default: only the Tenant's own.
    pub allowed_namespaces: AllowedNamespaces,
    /// Events that are disabled for this tenant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled_events: Vec<EventCode>,
}

/// The namespaces whose Webhooks may name a Tenant. Its own namespace always may.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// How namespaces are chosen: Same (only the Tenant's own), All, or Selector. Default Same.
    pub from: NamespacesFrom,
    /// Selects namespaces by their labels. Set it only with `from: Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// How namespaces are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum NamespacesFrom {
    /// Only the Tenant's own namespace.
    #[default]
    Same,
    /// Every namespace.
    All,
    /// The Tenant's own namespace and those that the selector matches.
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

const HOST: Rule = Rule::Text {
    length: 1..=253,
    checks: &[Check {
        holds: database_secret::is_host,
        cel: "self.matches('^[A-Za-z0-9._-]+$') || isIP(self)",
        message: "must be a host name or an address",
    }],
};

const EXTERNAL: Rule = Rule::Record {
    fields: &[
        optional("secretKeyRef", &SECRET_KEY_REF),
        optional("secretRef", &NAMED_SECRET),
        optional("certificateSecretRef", &NAMED_SECRET),
        optional("host", &HOST),
        optional("port", &Rule::Whole(1..=65535)),
        optional("dbname", &Rule::Text { length: 1..=63, checks: &[] }),
        optional("sslMode", &Rule::Choice { noun: "sslMode", values: &database_secret::SSL_MODES }),
        optional("pooler", &Rule::Flag),
    ],
    checks: &[
        Check {
            holds: |external| external.contains_key("secretKeyRef") != external.contains_key("secretRef"),
            cel: "has(self.secretKeyRef) != has(self.secretRef)",
            message: "set exactly one of secretKeyRef or secretRef",
        },
        Check {
            holds: |external| {
                let parts = ["certificateSecretRef", "host", "port", "dbname", "sslMode", "pooler"];
                external.contains_key("secretRef") || !parts.iter().any(|part| external.contains_key(*part))
            },
            cel: "has(self.secretRef) || !(has(self.certificateSecretRef) || has(self.host) || has(self.port) || \
                  has(self.dbname) || has(self.sslMode) || has(self.pooler))",
            message: "only secretRef may have other settings beside it; a URL contains them",
        },
    ],
};

const DATABASE: Rule = Rule::Record {
    fields: &[optional("managed", &MANAGED), optional("external", &EXTERNAL)],
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

/// The rule for a set of event codes with this many entries.
pub(crate) const fn events(entries: std::ops::RangeInclusive<usize>) -> Rule {
    const EVENT: Rule = Rule::Choice { noun: "event", values: &EventCode::WORDS };
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
        optional("limits", &limits::RULE),
        optional("portal", &look::RULE),
    ],
    checks: &[],
};

// What must not change: a CEL rule for the API server, and its message.
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
    fn api_key_without_one_source_or_own_name_is_refused() {
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
    fn database_must_be_either_managed_or_external() {
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
    fn managed_database_beyond_its_limits_is_refused() {
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
    fn selector_is_allowed_only_with_from_selector() {
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
    fn disabled_event_outside_the_catalog_is_refused() {
        refused(
            with("/spec/webhooks", json!({"disabledEvents": ["order.create"]})),
            &[
                "spec.webhooks.disabledEvents[0]: unknown event \"order.create\"; one of: order.created, order.updated, \
             order.exported, order.status_changed, note.created, invoice.created",
            ],
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
