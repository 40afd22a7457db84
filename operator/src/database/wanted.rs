//! The databases that Tenants declare.

use std::sync::Arc;

use docket_crds::DatabaseUrl;
use docket_schema::postgres::ExternalDatabases;
use secrecy::SecretString;

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
    /// Whether to take the database over from another Tenant: the annotation `docket.dev/adopt-database` has its
    /// name. This reveals nothing: a user who may write this URL can read the database anyway.
    pub adopt: bool,
}
