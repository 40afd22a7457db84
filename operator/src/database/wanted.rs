//! The databases that Tenants declare.

use std::sync::Arc;

use docket_crds::DatabaseUrl;
use docket_schema::postgres::ExternalDatabases;
use secrecy::SecretString;
use tokio::sync::Semaphore;

/// Whether an existing database may be migrated in this pass. A new database always is.
#[derive(Clone, Copy, Debug)]
pub struct MigrationTurn<'a> {
    /// Whether the turn of this migration has come.
    pub is_now: bool,
    /// The places of migrations that run at the same time. If all are taken, an existing database stays as it is.
    pub places: &'a Semaphore,
}

/// A managed database as a Tenant declares it.
#[derive(Clone, Copy, Debug)]
pub struct WantedDatabase<'a> {
    /// `spec.database.managed.server`; `None`: the first server.
    pub server: Option<&'a str>,
    /// The database's name, 1 to 63 bytes.
    pub name: &'a str,
    /// The Tenant's UID.
    pub owner_uid: &'a str,
    /// The Tenant's `namespace/name`.
    pub tenant: &'a str,
    /// Distinguishes this operator's installation from others that use the same server.
    pub installation: &'a str,
    /// Whether to take over the database of an earlier Tenant of this name: the annotation
    /// `docket.dev/adopt-database` has the database's name.
    pub adopt: bool,
    /// How many connections the role may hold.
    pub connection_limit: u32,
    /// The role's password. If the server has another password, this password replaces it.
    pub password: &'a SecretString,
    /// The URL from the last pass and the schema version found there. It is trusted while the data plane uses all of
    /// the role's connections.
    pub known: Option<(&'a DatabaseUrl, i64)>,
    /// Whether the database may be migrated.
    pub migration: MigrationTurn<'a>,
}

/// A database that a user created, as a Tenant declares it.
#[derive(Clone, Debug)]
pub struct WantedExternalDatabase<'a> {
    /// The URL of the database.
    pub url: DatabaseUrl,
    /// Where external databases may be.
    pub allowed: &'a Arc<ExternalDatabases>,
    /// The Tenant's UID.
    pub owner_uid: &'a str,
    /// Whether the database may be migrated.
    pub migration: MigrationTurn<'a>,
    /// Whether to take the database over from another Tenant: the annotation `docket.dev/adopt-database` has its
    /// name. This reveals nothing: a user who may write this URL can read the database anyway.
    pub adopt: bool,
}
