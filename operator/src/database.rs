//! Tenants' databases on PostgreSQL servers: made, kept as declared, migrated, dropped.
//!
//! A database belongs to a Tenant by the comment on the database and on its role: the Tenant's UID, name and installation. Each pass looks
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
use docket_schema::postgres::Target;
use secrecy::SecretString;

pub use error::DatabaseError;
pub use names::role_of;
pub use servers::{InvalidServer, Servers};

use admin::{Admin, Locked};
use observed::Observed;
use session::{LoginError, Session};

/// A managed database as a Tenant declares it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// `spec.database.managed.server`; `None`: the first one.
    pub server: Option<&'a str>,
    /// The database's name, up to 63 bytes.
    pub name: &'a str,
    /// The Tenant's UID.
    pub owner_uid: &'a str,
    /// The Tenant's `namespace/name`.
    pub tenant: &'a str,
    /// Tells this operator's installation from others that use the server.
    pub installation: &'a str,
    /// Whether a database is taken over that an earlier Tenant of this very name had: the annotation
    /// `docket.dev/adopt-database` has the database's name.
    pub adopt: bool,
    /// How many connections the role may hold.
    pub connection_limit: u32,
    /// The role's password; one that differs from the server's replaces it.
    pub password: &'a SecretString,
    /// The URL that was made last and the version of the schema there. It is believed while the role has no connection
    /// left, because the data plane has them all.
    pub known: Option<(&'a DatabaseUrl, i64)>,
}

/// A managed database that is there and takes logins with this URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The server it is on.
    pub server: String,
    /// For the data plane, with the role's password.
    pub url: DatabaseUrl,
    /// Owns the database and all that is in it.
    pub role: String,
    /// The version of its schema, or why it is not this version's. Apart from the URL, because a new password counts
    /// from its first moment, whatever becomes of the schema.
    pub schema: Result<i64, DatabaseError>,
}

/// What a deletion has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Nothing.
    Wholly,
    /// The role: why the server does not drop it, and whether it was kept from logging in.
    ButTheRole(String, bool),
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
        let schema = schema(&admin, wanted, &role, &url).await?;
        Ok(Made { server: server.name().to_owned(), url, role, schema })
    }

    /// Drops a managed database and its role, with what sessions it has. That it is absent is success. A role that the server
    /// does not drop, since somebody has given it something elsewhere, can't log in from then on.
    ///
    /// Errors: [`DatabaseError::NotOwned`] when the database is marked as somebody else's; nothing is touched then.
    pub async fn drop_database(
        &self,
        server: Option<&str>,
        name: &str,
        owner_uid: &str,
    ) -> Result<Dropped, DatabaseError> {
        let role = role_of(name);
        let admin = self.choose(server)?.admin().await?;
        let mut locked = admin.lock(name).await?;
        for _ in 0..STEPS {
            let observed = Observed::read(&mut locked, name, &role).await?;
            let Some(step) = plan::next_of_deletion(&observed, name, &role, owner_uid)? else {
                locked.unlock().await?;
                return Ok(Dropped::Wholly);
            };
            match locked.batch(&step).await {
                Err(DatabaseError::Refused { reason }) if observed.database.is_none() => {
                    let is_locked_out = locked.batch(&plan::lock_out(&role)).await.is_ok();
                    locked.unlock().await?;
                    return Ok(Dropped::ButTheRole(reason, is_locked_out));
                }
                result => result?,
            }
        }
        Err(DatabaseError::changing(name))
    }
}

/// A database that somebody else has made, as a Tenant declares it.
#[derive(Clone, Debug)]
pub struct External<'a> {
    /// Where it is.
    pub url: DatabaseUrl,
    /// The Tenant's UID.
    pub owner_uid: &'a str,
    /// Whether it is taken from another Tenant that has, or had, it: the annotation `docket.dev/adopt-database` has its
    /// name. Who may write this URL can read all that is there anyway.
    pub adopt: bool,
}

/// Migrates a database that somebody else has made, and writes into it which Tenant has it; answers the version of its
/// schema. Two Tenants on one database would each give up the other's deliveries.
///
/// Errors: [`DatabaseError::NotOwned`] when another Tenant has it, or it is a managed one; nothing is touched then.
pub async fn migrate_external(external: &External<'_>) -> Result<i64, DatabaseError> {
    let External { url, owner_uid, adopt } = external;
    let mut session = Session::open(url.expose()).await.map_err(DatabaseError::from)?;
    let others = async |session: &Session| {
        Ok::<_, DatabaseError>(session.owner().await?.filter(|owner| owner != owner_uid && !adopt))
    };
    if let Some(other) = session.made_for().await? {
        let (name, whose) =
            (database_of(url), format!("was made for the Tenant with UID {other}; choose another one"));
        return Err(DatabaseError::NotOwned { what: format!("database {name:?}"), whose });
    }
    if let Some(other) = others(&session).await? {
        return Err(has_another(url, &other));
    }
    let version = session.migrate().await?;
    session.claim(owner_uid, *adopt).await?;
    // Of two at once, one was first.
    match others(&session).await? {
        Some(other) => Err(has_another(url, &other)),
        None => Ok(version),
    }
}

/// The name of the database that a URL means; empty where it means none.
pub fn database_of(url: &DatabaseUrl) -> String {
    let target = Target::parse(url.expose()).ok();
    target.and_then(|target| target.config.get_dbname().map(str::to_owned)).unwrap_or_default()
}

fn has_another(url: &DatabaseUrl, owner: &str) -> DatabaseError {
    let name = database_of(url);
    let whose = format!(
        "is that of the Tenant with UID {owner}: two can't share one. Give this Tenant another database; or, if that \
         Tenant is gone, annotate this one with docket.dev/adopt-database={name}"
    );
    DatabaseError::NotOwned { what: format!("database {name:?}"), whose }
}

/// Proves the role's password, and sets it where it is another; brings the schema to this version. An error is about the
/// login, a result about the schema.
async fn schema(
    admin: &Admin,
    wanted: &Wanted<'_>,
    role: &str,
    url: &DatabaseUrl,
) -> Result<Result<i64, DatabaseError>, DatabaseError> {
    let known = wanted.known.filter(|(known, _)| *known == url).map(|(_, version)| version);
    let mut login = Session::open(url.expose()).await;
    // A server that is full need not have looked at the password.
    let is_doubted = match &login {
        Err(LoginError::Password(_)) => true,
        Err(LoginError::Full(_)) => known.is_none(),
        _ => false,
    };
    if is_doubted {
        let mut locked = admin.lock(wanted.name).await?;
        locked.batch(&plan::set_password(role, wanted.password)).await?;
        locked.unlock().await?;
        login = Session::open(url.expose()).await;
    }
    let newest = docket_schema::MIGRATIONS.len() as i64;
    match login {
        // Until this pass ends the data plane has the password before, and a migration may take its time.
        Ok(session) if is_doubted && wanted.known.is_some() && session.is_behind().await => Ok(Err(
            DatabaseError::unreachable("the new password is handed over before the schema is migrated"),
        )),
        Ok(mut session) => Ok(session.migrate().await),
        // Never the admin in its place: what is in the database is the tenant's, and would run with the admin's rights.
        Err(LoginError::Full(error)) => {
            Ok(known.filter(|known| *known >= newest).ok_or_else(|| full(role, &error)))
        }
        Err(error) => Err(error.into()),
    }
}

fn full(role: &str, error: &DatabaseError) -> DatabaseError {
    DatabaseError::unreachable(format!(
        "no connection left for the role {role:?} to see to the schema; raise \
         spec.database.managed.connectionLimit above what the data plane's pods take together ({error})"
    ))
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
