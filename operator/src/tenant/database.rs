//! I/O: creates or repairs the tenant's database, or finds that neither is needed.
//!
//! A check costs a login. So the database is checked when something about it changed, when the last check failed,
//! when a user requests it, and from time to time; but not for every change of a Webhook.

use std::sync::Arc;

use docket_crds::compile::external_database_url;
use docket_crds::{ConditionType, DatabaseUrl, ReasonCode, SecretBytes, Tenant, TenantStatus};
use docket_schema::postgres::ExternalDatabases;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::database::{
    DatabaseError, MigrationTurn, WantedDatabase, WantedExternalDatabase, database_of, migrate_external,
};
use crate::metrics::Store;
use crate::state::conditions;
use crate::state::declared::Declared;
use crate::tenant::fetch::Fetched;
use crate::tenant::stored::EnsuredDatabase;
use crate::tenant::validate::Valid;

/// The state of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvisionedDatabase {
    /// The database has the declared state, at this URL.
    Ready(EnsuredDatabase, DatabaseUrl),
    /// The database could not be brought to the declared state. If only the schema differs, contains the URL with
    /// which its role logs in.
    Failed(DatabaseError, Option<DatabaseUrl>),
    /// Another problem must be fixed first, which another condition reports.
    NotTried,
}

impl ProvisionedDatabase {
    /// The last known state, without a check.
    pub fn unchanged(fetched: &Fetched) -> Self {
        let known = fetched.stored.as_ref().and_then(|stored| stored.memory.database.clone());
        let url = fetched.stored.as_ref().and_then(|stored| stored.config()?.database.clone());
        match (known, url) {
            (Some(known), Some(url)) => Self::Ready(known, url),
            _ => Self::NotTried,
        }
    }
}

/// The state of the database, and whether this pass checked it.
#[derive(Debug)]
pub struct CheckedDatabase {
    /// The state of the database.
    pub database: ProvisionedDatabase,
    /// Whether this pass checked it; otherwise its last known state is reported.
    pub check: DatabaseCheck,
}

/// Whether a pass checked a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseCheck {
    /// The pass checked the database.
    Done,
    /// No check was needed.
    NotDue,
    /// The server is away for all its databases, which says nothing about this database.
    ServerAway,
}

/// The declared database, managed or external.
enum Want<'a> {
    Managed(WantedDatabase<'a>),
    External(WantedExternalDatabase<'a>),
}

/// Facts about a database that are not in its declaration.
struct Surroundings<'a> {
    /// The Tenant's `namespace/name`.
    tenant: String,
    installation: String,
    server: Option<String>,
    password: Option<SecretString>,
    /// The last known URL and schema version.
    known: Option<(&'a DatabaseUrl, i64)>,
    migration: MigrationTurn<'a>,
}

/// Brings the database to its declared state. `password`: the password of a managed database, once its Secret exists.
/// `check`: whether to check the database although nothing about it changed. `may_migrate`: whether a migration of an
/// existing database may begin now.
pub async fn provision_database(
    context: &Context,
    valid: Valid<'_>,
    password: Option<&SecretBytes>,
    check: bool,
    may_migrate: bool,
) -> CheckedDatabase {
    let fetched = valid.fetched();
    let meta = fetched.subject.meta();
    let declared = &fetched.subject.tenant;
    let stored = fetched.stored.as_ref();
    let known = stored.and_then(|stored| stored.memory.database.as_ref());
    let url = stored.and_then(|stored| stored.config()?.database.as_ref());
    let surroundings = Surroundings {
        tenant: meta.name.to_string(),
        installation: context.kube.installation(),
        server: server_of(declared),
        password: password.map(|password| text(password).into()),
        known: url.zip(known.map(|known| known.schema_version)).filter(|_| !is_schema_wrong(declared)),
        migration: MigrationTurn { is_now: may_migrate, places: &context.migration_places },
    };
    let Some(mut want) = want(valid, &surroundings, &context.settings.external_databases) else {
        return CheckedDatabase { database: ProvisionedDatabase::NotTried, check: DatabaseCheck::NotDue };
    };
    let mark = match &want {
        Want::Managed(wanted) => context.databases.mark(wanted.server).await,
        Want::External(_) => None,
    };
    let fingerprint = fingerprint(&meta.uid, &want, mark.as_deref());
    let ensured = known.filter(|known| known.fingerprint == fingerprint);
    let may_continue = may_migrate && ensured.is_some_and(EnsuredDatabase::is_behind);
    if let (Some(ensured), Some(url), false) = (ensured, url, check || may_continue) {
        let database = ProvisionedDatabase::Ready(ensured.clone(), url.clone());
        return CheckedDatabase { database, check: DatabaseCheck::NotDue };
    }
    // A database is taken over from another Tenant only once. If the annotation stays, it must not take the database
    // again from a Tenant that took it over since.
    if let Want::External(external) = &mut want {
        external.adopt &= ensured.is_none();
    }
    let database = ensure(context, want, fingerprint).await;
    if let ProvisionedDatabase::Failed(error, _) = &database {
        tracing::warn!(tenant = %meta.name, %error, "database reconciliation failed");
    }
    let check = match &database {
        ProvisionedDatabase::Failed(DatabaseError::ServerAway { .. }, _) => DatabaseCheck::ServerAway,
        _ => DatabaseCheck::Done,
    };
    match (check, ensured, url) {
        (DatabaseCheck::ServerAway, Some(ensured), Some(url)) if was_well(&fetched.subject.previous) => {
            let database = ProvisionedDatabase::Ready(ensured.clone(), url.clone());
            CheckedDatabase { database, check }
        }
        _ => CheckedDatabase { database, check },
    }
}

/// Whether the status reports no problem of the database.
pub fn was_well(previous: &TenantStatus) -> bool {
    let reported = conditions::find(&previous.conditions, ConditionType::DatabaseReady);
    reported.is_none_or(|reported| reported.status == "True")
}

/// Whether the last check found a schema of another version.
fn is_schema_wrong(tenant: &Declared<Tenant>) -> bool {
    let status = tenant.status();
    let found = conditions::find(&status.conditions, ConditionType::DatabaseReady);
    let reason = found.and_then(|found| found.reason.parse().ok());
    matches!(reason, Some(ReasonCode::MigrationFailed | ReasonCode::SchemaNewer))
}

async fn ensure(context: &Context, want: Want<'_>, fingerprint: String) -> ProvisionedDatabase {
    let (url, role, server, schema) = match want {
        Want::Managed(wanted) => {
            let made = context.databases.ensure(&wanted).await;
            if let Ok(server) = context.databases.name_of(wanted.server) {
                let is_up = !matches!(made, Err(DatabaseError::ServerAway { .. }));
                context.metrics.store(Store::Postgres(server), is_up);
            }
            match made {
                Ok(made) => (made.url, Some(made.role), Some(made.server), made.schema),
                Err(error) => return ProvisionedDatabase::Failed(error, None),
            }
        }
        Want::External(external) => {
            let schema = migrate_external(&external).await;
            (external.url, None, None, schema)
        }
    };
    match schema {
        Ok(schema_version) => {
            ProvisionedDatabase::Ready(EnsuredDatabase { fingerprint, role, server, schema_version }, url)
        }
        Err(error) => ProvisionedDatabase::Failed(error, role.map(|_| url)),
    }
}

/// The server of a managed database: the declared one, else the one where the database was created. So a Tenant that
/// declares no server stays where it is, even if servers are added in front.
pub fn server_of(tenant: &Declared<Tenant>) -> Option<String> {
    let declared = tenant.document.as_ref().ok().and_then(|document| document.spec.database.managed.as_ref());
    let made = || tenant.status().database.and_then(|database| database.server);
    declared.and_then(|managed| managed.server.clone()).or_else(made)
}

fn want<'a>(
    valid: Valid<'a>,
    surroundings: &'a Surroundings<'a>,
    allowed: &'a Arc<ExternalDatabases>,
) -> Option<Want<'a>> {
    let (tenant, fetched) = (valid.tenant(), valid.fetched());
    let meta = fetched.subject.meta();
    let adopts = |database: &str| meta.adopt_database.as_deref() == Some(database);
    if let Some(managed) = &tenant.spec.database.managed {
        return Some(Want::Managed(WantedDatabase {
            server: surroundings.server.as_deref(),
            name: &managed.name,
            owner_uid: &meta.uid,
            tenant: &surroundings.tenant,
            installation: &surroundings.installation,
            adopt: adopts(&managed.name),
            connection_limit: managed.connection_limit,
            password: surroundings.password.as_ref()?,
            known: surroundings.known,
            migration: surroundings.migration,
        }));
    }
    let external = tenant.spec.database.external.as_ref()?;
    // The compile step reports a Secret that is missing or does not say how to connect.
    let url = external_database_url(fetched, &meta.name.namespace, external).ok()?;
    let adopt = adopts(&database_of(&url));
    let (owner_uid, migration) = (meta.uid.as_str(), surroundings.migration);
    Some(Want::External(WantedExternalDatabase { url, allowed, owner_uid, migration, adopt }))
}

fn text(bytes: &SecretBytes) -> &str {
    std::str::from_utf8(bytes.expose()).unwrap_or_default()
}

/// A digest of everything from which a database is provisioned. It is stored in the runtime Secret, beside the secrets.
fn fingerprint(uid: &str, want: &Want<'_>, server_mark: Option<&str>) -> String {
    use secrecy::ExposeSecret;
    let schema = docket_schema::MIGRATIONS.len();
    let parts = match want {
        Want::Managed(WantedDatabase {
            server: _,
            name,
            owner_uid,
            tenant: _,
            installation: _,
            adopt: _,
            connection_limit,
            password,
            known: _,
            migration: _,
        }) => {
            let server = server_mark.unwrap_or_default();
            format!("managed|{server}|{name}|{owner_uid}|{connection_limit}|{}", password.expose_secret())
        }
        Want::External(WantedExternalDatabase { url, .. }) => format!("external|{}", url.expose()),
    };
    hex::encode(&Sha256::digest(format!("{uid}|{schema}|{parts}"))[..16])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn database_is_ensured_again_when_anything_changes_that_it_is_made_from() {
        let (places, password, other) =
            (Semaphore::new(1), SecretString::from("hunter2"), SecretString::from("hunter3"));
        let wanted = WantedDatabase {
            server: None,
            name: "acme",
            owner_uid: "u",
            tenant: "a/acme",
            installation: "i",
            adopt: false,
            connection_limit: 50,
            password: &password,
            known: None,
            migration: MigrationTurn { is_now: true, places: &places },
        };
        let of =
            |wanted: WantedDatabase<'_>, mark: &str| fingerprint("u", &Want::Managed(wanted), Some(mark));
        let before = of(wanted, "m");
        let adopting = WantedDatabase { adopt: true, ..wanted };
        assert_eq!(of(adopting, "m"), before, "an annotation that stays is no change");
        let changed = [
            of(wanted, "another server, or its pooler"),
            of(WantedDatabase { name: "beta", ..wanted }, "m"),
            of(WantedDatabase { owner_uid: "v", ..wanted }, "m"),
            of(WantedDatabase { connection_limit: 51, ..wanted }, "m"),
            of(WantedDatabase { password: &other, ..wanted }, "m"),
            fingerprint("v", &Want::Managed(wanted), Some("m")),
            before,
        ];
        assert_eq!(changed.iter().collect::<HashSet<_>>().len(), changed.len());
        assert!(changed.iter().all(|one| !one.contains("hunter")));
    }
}
