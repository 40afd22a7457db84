//! Tenants' databases on PostgreSQL servers: made, kept as declared, migrated, dropped.
//!
//! A database belongs to a Tenant by the Tenant's UID in the comment on the database and on its role. Each pass looks
//! first (`observed`), decides on one step (`plan`), takes it and looks again, until nothing is left to do; so it
//! does not matter where the pass before it ended. A pass at rest writes nothing.

mod admin;
mod error;
mod names;
mod observed;
mod plan;
mod servers;
mod session;

use docket_crds::DatabaseUrl;
use secrecy::SecretString;

pub use error::DatabaseError;
pub use names::role_of;
pub use servers::{InvalidServer, Servers};

use admin::Locked;
use observed::Observed;

/// A managed database as a Tenant declares it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// `spec.database.managed.server`; `None`: the first one.
    pub server: Option<&'a str>,
    /// The database's name, up to 63 bytes.
    pub name: &'a str,
    /// The Tenant's UID.
    pub owner_uid: &'a str,
    /// Whether a database with another Tenant's mark is taken over: the Tenant's annotation
    /// `docket.dev/adopt-database` has this very name.
    pub adopt: bool,
    /// How many connections the role may hold.
    pub connection_limit: u32,
    /// The role's password; one that differs from the server's replaces it.
    pub password: &'a SecretString,
}

/// A managed database that is there, migrated, and answers with this URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The server it is on.
    pub server: String,
    /// For the data plane, with the role's password.
    pub url: DatabaseUrl,
    /// Owns the database and all that is in it.
    pub role: String,
    /// The version of its schema.
    pub schema_version: i64,
}

/// More steps than any state of a database needs: somebody undoes them as fast as they are taken.
const STEPS: usize = 8;

impl Servers {
    /// Makes the database as wanted, or repairs what differs, and migrates it.
    ///
    /// At rest this is one query by the admin, and one login by the role that proves its password and reads the
    /// schema's version. Connections that are open stay open, also after a new password. It may be dropped at any
    /// point and called again; calls for the same database take turns, whichever process they come from.
    pub async fn ensure(&self, wanted: &Wanted<'_>) -> Result<Made, DatabaseError> {
        names::check(wanted.name)?;
        let server = self.choose(wanted.server)?;
        let role = role_of(wanted.name);
        let admin = server.admin().await?;
        let mut lent = admin.lend().await?;
        let observed = Observed::read(&mut lent, wanted.name, &role).await?;
        lent.give_back();
        if plan::next(&observed, wanted, &role)?.is_some() {
            let mut locked = admin.lock(wanted.name).await?;
            settle(&mut locked, wanted, &role).await?;
            locked.unlock().await?;
        }
        let url = admin.tenant_url(wanted.name, &role, wanted.password);
        let mut session = match admin.log_in(&url, wanted.name, &role).await {
            Err(session::LoginError::Password(_)) => {
                let mut locked = admin.lock(wanted.name).await?;
                locked.batch(&plan::set_password(&role, wanted.password)).await?;
                locked.unlock().await?;
                admin.log_in(&url, wanted.name, &role).await?
            }
            session => session?,
        };
        let schema_version = session.migrate().await?;
        Ok(Made { server: server.name().to_owned(), url, role, schema_version })
    }

    /// Drops a managed database and its role, with what sessions it has. That it is absent is success.
    ///
    /// Errors: [`DatabaseError::NotOwned`] when the database is marked as somebody else's; nothing is touched then.
    pub async fn drop_database(
        &self,
        server: Option<&str>,
        name: &str,
        owner_uid: &str,
    ) -> Result<(), DatabaseError> {
        let role = role_of(name);
        let admin = self.choose(server)?.admin().await?;
        let mut locked = admin.lock(name).await?;
        for _ in 0..STEPS {
            let observed = Observed::read(&mut locked, name, &role).await?;
            match plan::next_of_deletion(&observed, name, &role, owner_uid)? {
                Some(step) => locked.batch(&step).await?,
                None => return locked.unlock().await,
            }
        }
        Err(DatabaseError::changing(name))
    }
}

/// Migrates a database that somebody else has made; answers the version of its schema.
pub async fn migrate_external(url: &DatabaseUrl) -> Result<i64, DatabaseError> {
    session::Session::open(url.expose()).await.map_err(DatabaseError::from)?.migrate().await
}

async fn settle(locked: &mut Locked, wanted: &Wanted<'_>, role: &str) -> Result<(), DatabaseError> {
    for _ in 0..STEPS {
        let observed = Observed::read(locked, wanted.name, role).await?;
        match plan::next(&observed, wanted, role)? {
            Some(step) => locked.batch(&step).await?,
            None => return Ok(()),
        }
    }
    Err(DatabaseError::changing(wanted.name))
}
