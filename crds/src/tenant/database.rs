//! The database of a Tenant: managed by the operator, or external.

use serde::{Deserialize, Serialize};

use super::{NamedSecret, SecretKeyRef};
use crate::database_secret::{self, Beside, CERTIFICATE_KEYS, KEYS};
use crate::rules::{Check, LABEL, NAMED_SECRET, Rule, SECRET_KEY_REF, optional, required};

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

pub(super) const DATABASE: Rule = Rule::Record {
    fields: &[optional("managed", &MANAGED), optional("external", &EXTERNAL)],
    checks: &[Check {
        holds: |database| database.contains_key("managed") != database.contains_key("external"),
        cel: "has(self.managed) != has(self.external)",
        message: "set exactly one of managed or external",
    }],
};

// What must not change: a CEL rule for the API server, and its message.
pub(super) const SAME_SIDE: (&str, &str) = (
    "has(self.managed) == has(oldSelf.managed)",
    "a tenant cannot switch between managed and external databases",
);
pub(super) const SAME_DATABASE: (&str, &str) = ("self == oldSelf", "database name is immutable");
pub(super) const SAME_SERVER: (&str, &str) = (
    "has(self.server) == has(oldSelf.server) && (!has(self.server) || self.server == oldSelf.server)",
    "database server is immutable",
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant::tests::{accepted, refused, with};

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
}
