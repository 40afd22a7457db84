//! Managed databases, which the operator creates: ensures and drops them step by step.

use docket_crds::DatabaseUrl;

use super::error::DatabaseError;
use super::names::{self, role_of};
use super::observed::Observed;
use super::plan::{self, NextOfDeletion};
use super::pool::{AdminPool, LockedDatabase};
use super::servers::{Server, Servers};
use super::session::{LoginError, Session};
use super::wanted::WantedDatabase;

/// A managed database that exists and accepts logins with this URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeDatabase {
    /// The name of its server.
    pub server: String,
    /// The URL for the data plane, with the role's password.
    pub url: DatabaseUrl,
    /// The role that owns the database and everything in it.
    pub role: String,
    /// The version of its schema, which is older than this program's while a migration waits; or why the database can't
    /// be used. It is separate from the URL,
    /// because a new password must take effect immediately, whatever happens to the schema.
    pub schema: Result<i64, DatabaseError>,
}

/// The parts that remain after a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Nothing remains.
    Wholly,
    /// The role remains.
    ButTheRole {
        /// Why the server does not drop the role.
        why: String,
        /// Whether the role can no longer log in.
        is_locked_out: bool,
    },
    /// The database and the Tenant's role remain.
    NotTheDatabase {
        /// Why the database does not belong to the role.
        why: String,
        /// Whether the role can no longer log in.
        is_locked_out: bool,
    },
}

/// The limit of steps, which is higher than any state of a database needs. If they are not enough, another program
/// must be undoing them.
const STEPS: usize = 8;

impl Servers {
    /// Creates the database as declared, or repairs differences, and migrates it if it is new or its turn has come.
    ///
    /// If nothing differs, this is one query by the administrator and one login by the role, or two if there is a pooler.
    /// The login proves the role's password and reads the schema's version. Open connections stay open, even after a new password. The
    /// future may be dropped at any point and the call repeated. Calls for the same database take turns, in all
    /// processes.
    ///
    /// Errors: [`DatabaseError::ServerAway`] if the server does not respond to the administrator either, or if the pooler
    /// does not respond.
    pub async fn ensure(&self, wanted: &WantedDatabase<'_>) -> Result<MadeDatabase, DatabaseError> {
        names::check(wanted.name)?;
        let server = self.choose(wanted.server)?;
        let admin = server.admin().await?;
        // Only the administrator's connection says whether the server itself responds.
        let (result, is_away) = match self.ensure_by(server, &admin, wanted).await {
            Err(DatabaseError::Unreachable { reason }) if admin.connection().await.is_err() => {
                (Err(DatabaseError::ServerAway { reason }), true)
            }
            other => (other, false),
        };
        self.responded(server, !is_away);
        result
    }

    async fn ensure_by(
        &self,
        server: &Server,
        admin: &AdminPool,
        wanted: &WantedDatabase<'_>,
    ) -> Result<MadeDatabase, DatabaseError> {
        let role = role_of(wanted.name);
        if differs(admin, wanted, &role).await? {
            repair(admin, wanted, &role).await?;
        }
        let direct = admin.tenant_url(wanted.name, &role, wanted.password);
        let url = admin.served_url(&direct);
        let (login, is_new_password) = log_in(admin, wanted, &role, &direct, &url).await?;
        let mut schema = schema(login, is_new_password, wanted, &role, &url).await?;
        if schema.is_ok() && url != direct {
            schema = match check_pooler(&url).await {
                Ok(checked) => checked.and(schema),
                // The role has the new password already, so the data plane must get the new URL, although the pooler is away.
                Err(away) if is_new_password => Err(away),
                Err(away) => return Err(away),
            };
        }
        Ok(MadeDatabase { server: server.name().to_owned(), url, role, schema })
    }

    /// Drops a managed database and its role, and ends its sessions. If the database does not exist, it succeeds. The
    /// role stays, but can no longer log in, in two cases: the server refuses to drop it, because it owns or may use
    /// something elsewhere; or another role owns the database.
    ///
    /// Errors: [`DatabaseError::NotOwned`] if the database belongs to another Tenant. Then it is left unchanged.
    pub async fn drop_database(
        &self,
        server: Option<&str>,
        name: &str,
        owner_uid: &str,
    ) -> Result<Dropped, DatabaseError> {
        let server = self.choose(server)?;
        let admin = server.admin().await?;
        let result = drop_by(&admin, name, owner_uid).await;
        let is_doubted = matches!(result, Err(DatabaseError::Unreachable { .. }));
        self.responded(server, !is_doubted || admin.connection().await.is_ok());
        result
    }
}

async fn drop_by(admin: &AdminPool, name: &str, owner_uid: &str) -> Result<Dropped, DatabaseError> {
    let role = role_of(name);
    let mut locked = admin.lock(name).await?;
    for _ in 0..STEPS {
        let observed = Observed::read(&mut locked, name, &role).await?;
        let step = match plan::next_of_deletion(&observed, name, &role, owner_uid)? {
            NextOfDeletion::Step(step) => step,
            NextOfDeletion::Nothing => {
                locked.unlock().await?;
                return Ok(Dropped::Wholly);
            }
            NextOfDeletion::LockOut(why) => {
                let is_locked_out = lock_out(locked, &role).await?;
                return Ok(Dropped::NotTheDatabase { why, is_locked_out });
            }
        };
        match locked.batch(&step).await {
            Err(DatabaseError::Refused { reason }) if observed.database.is_none() => {
                let is_locked_out = lock_out(locked, &role).await?;
                return Ok(Dropped::ButTheRole { why: reason, is_locked_out });
            }
            result => result?,
        }
    }
    Err(DatabaseError::changing(name))
}

/// Whether the database needs a step. It takes no lock, so that a pass without steps costs one query.
async fn differs(admin: &AdminPool, wanted: &WantedDatabase<'_>, role: &str) -> Result<bool, DatabaseError> {
    let mut connection = admin.connection().await?;
    let observed = Observed::read(&mut connection, wanted.name, role).await?;
    connection.give_back();
    Ok(plan::next(&observed, wanted, role)?.is_some())
}

/// Takes steps under the lock until none is left.
async fn repair(admin: &AdminPool, wanted: &WantedDatabase<'_>, role: &str) -> Result<(), DatabaseError> {
    let mut locked = admin.lock(wanted.name).await?;
    for _ in 0..STEPS {
        let observed = Observed::read(&mut locked, wanted.name, role).await?;
        match plan::next(&observed, wanted, role)? {
            Some(step) => locked.batch(&step).await?,
            None => return locked.unlock().await,
        }
    }
    Err(DatabaseError::changing(wanted.name))
}

/// Takes LOGIN away from a role that can't be dropped. Returns whether this succeeded.
async fn lock_out(mut locked: LockedDatabase, role: &str) -> Result<bool, DatabaseError> {
    let is_locked_out = locked.batch(&plan::lock_out(role)).await.is_ok();
    locked.unlock().await?;
    Ok(is_locked_out)
}

/// Logs in through the pooler, as the data plane does. The outer error says that the pooler is away, which says nothing
/// about this database; the inner error, that the pooler refuses the login.
async fn check_pooler(url: &DatabaseUrl) -> Result<Result<(), DatabaseError>, DatabaseError> {
    let login = match Session::open(url.expose()).await {
        Ok(session) => session.check().await,
        Err(error) => Err(error),
    };
    match login {
        Ok(()) | Err(LoginError::Full(_)) => Ok(Ok(())),
        Err(LoginError::Silent(error)) => {
            Err(DatabaseError::ServerAway { reason: format!("the pooler: {}", reason(error)) })
        }
        Err(LoginError::Password(error) | LoginError::Other(error)) => {
            let refused = format!("the pooler refuses the role's login: {}", reason(error));
            Ok(Err(DatabaseError::unreachable(refused)))
        }
    }
}

fn reason(error: DatabaseError) -> String {
    match error {
        DatabaseError::Unreachable { reason } | DatabaseError::Refused { reason } => reason,
        other => other.to_string(),
    }
}

/// Logs in as the role at the server itself. If the server may have another password, the function sets this password
/// first; the second value says whether it did. `direct` is the URL of the server, `url` the URL that the data plane gets.
async fn log_in(
    admin: &AdminPool,
    wanted: &WantedDatabase<'_>,
    role: &str,
    direct: &DatabaseUrl,
    url: &DatabaseUrl,
) -> Result<(Result<Session, LoginError>, bool), DatabaseError> {
    let login = Session::open(direct.expose()).await;
    // If the server has no free connection, it may not have checked the password.
    let is_doubted = match &login {
        Err(LoginError::Password(_)) => true,
        Err(LoginError::Full(_)) => known_version(wanted, url).is_none(),
        Err(LoginError::Silent(_) | LoginError::Other(_)) | Ok(_) => false,
    };
    if !is_doubted {
        return Ok((login, false));
    }
    let mut locked = admin.lock(wanted.name).await?;
    locked.batch(&plan::set_password(role, wanted.password)).await?;
    locked.unlock().await?;
    Ok((Session::open(direct.expose()).await, true))
}

/// Migrates the schema to this version, if its turn has come. The outer error is about the login, the inner error about the schema.
async fn schema(
    login: Result<Session, LoginError>,
    is_new_password: bool,
    wanted: &WantedDatabase<'_>,
    role: &str,
    url: &DatabaseUrl,
) -> Result<Result<i64, DatabaseError>, DatabaseError> {
    match login {
        // The data plane has the old password until this pass ends, and a migration may take long. So the migration
        // is left to the next pass.
        Ok(session)
            if is_new_password
                && wanted.known.is_some()
                && wanted.migration.is_now
                && session.is_behind().await =>
        {
            Ok(Err(DatabaseError::unreachable(
                "the new password is handed over before the schema is migrated",
            )))
        }
        Ok(mut session) => Ok(session.migrate(wanted.migration).await),
        // It must not log in as the administrator instead: the tenant controls the database, and the tenant's code
        // would run with the administrator's rights.
        Err(LoginError::Full(error)) => {
            // All connections are in use, so the database works. Its migration waits for another offer.
            Ok(known_version(wanted, url).ok_or_else(|| full(role, &error)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The schema's version from the last pass, if that pass used this URL.
fn known_version(wanted: &WantedDatabase<'_>, url: &DatabaseUrl) -> Option<i64> {
    wanted.known.filter(|(known, _)| *known == url).map(|(_, version)| version)
}

fn full(role: &str, error: &DatabaseError) -> DatabaseError {
    DatabaseError::unreachable(format!(
        "no connection left for the role {role:?} to check the schema; raise \
         spec.database.managed.connectionLimit above the sum of the data plane's pools ({error})"
    ))
}
