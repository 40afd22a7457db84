//! The watcher of a server: a role that may log in and has no other right. With it, the data plane finds out from the
//! server's statistics which databases changed, without connecting to any of them.

use std::time::Duration;

use docket_crds::DatabaseUrl;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::error::DatabaseError;
use super::external::database_of;
use super::names::{identifier, literal};
use super::plan::{set_password, verifier};
use super::pool::{AdminConnection, AdminPool};
use super::servers::{KnownWatcher, Servers};
use super::session::{LoginError, Session};
use super::step::Step;

/// The limit of the role's connections: one for each process of the data plane that reads databases, and twice as
/// many while processes are replaced.
const CONNECTIONS: i32 = 64;
/// How long a successful check counts, and how long a failed one.
const CHECKED: Duration = Duration::from_secs(600);
const FAILED: Duration = Duration::from_secs(60);
/// The limit of steps, which is higher than any state of the role needs.
const STEPS: usize = 4;

/// The state of the role on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WatcherRole {
    comment: Option<String>,
    /// Whether the role can log in without expiry, has the right limit of connections, and inherits nothing.
    is_sound: bool,
    /// Whether the role has a right of its own, or is a member of another role.
    has_rights: bool,
    /// Whether the role may connect to the administrator's database.
    connects: bool,
}

/// The query: `$1` is the role, `$2` the limit of its connections.
const QUERY: &str = "
    SELECT
        r.oid IS NOT NULL,
        left(shobj_description(r.oid, 'pg_authid'), 1024),
        r.rolcanlogin AND NOT r.rolinherit AND r.rolconnlimit = $2 AND coalesce(r.rolvaliduntil = 'infinity', true),
        r.rolsuper OR r.rolcreatedb OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls
            OR EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid),
        has_database_privilege(r.oid, current_database(), 'CONNECT')
    FROM (SELECT) one LEFT JOIN pg_roles r ON r.rolname = $1";

/// Whether every role may connect to the administrator's database, and whether the administrator may end that.
const OPEN: &str = "
    SELECT
        EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba)))
                WHERE grantee = 0 AND privilege_type = 'CONNECT'),
        pg_has_role(datdba, 'USAGE')
    FROM pg_database WHERE datname = current_database()";

impl Servers {
    /// The URL of the watcher of the server that a Tenant uses. Creates or repairs the watcher if needed. It checks
    /// the watcher only from time to time, not at each call. `password` returns the password of the server with this
    /// name. `None`: there is no watcher; the reason is logged.
    pub async fn watcher<E: std::fmt::Display>(
        &self,
        wanted: Option<&str>,
        installation: &str,
        password: impl AsyncFnOnce(&str) -> Result<SecretString, E>,
    ) -> Option<DatabaseUrl> {
        let server = self.choose(wanted).ok()?;
        let admin = server.admin().await.ok()?;
        let mut known = server.watcher().await;
        let is_of_admin = known.admin.as_ref() == Some(admin.url());
        if is_of_admin && known.until.is_some_and(|until| Instant::now() < until) {
            return known.url.clone();
        }
        let is_open = close(&admin, server.name(), known.is_open).await;
        let ensured = match password(server.name()).await {
            Ok(password) => ensure(&admin, installation, &password).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let time = if ensured.is_ok() { CHECKED } else { FAILED };
        let url = match ensured {
            Ok(url) => Some(url),
            Err(problem) => {
                tracing::warn!(
                    server = server.name(),
                    "making the server's watcher failed: {problem}; its databases are read one by one; retrying"
                );
                known.url.take().filter(|_| is_of_admin)
            }
        };
        let admin = Some(admin.url().clone());
        *known = KnownWatcher { url, admin, is_open, until: Some(Instant::now() + time) };
        known.url.clone()
    }
}

/// Closes the administrator's database to all roles without a grant: a role that connects there could hold the locks
/// that protect other tenants' databases. Returns whether it stays open, and logs this if it is new.
async fn close(admin: &AdminPool, server: &str, was_open: bool) -> bool {
    let database = database_of(admin.url());
    let sql = format!("REVOKE CONNECT, TEMPORARY ON DATABASE {} FROM PUBLIC", identifier(&database));
    match try_to_close(admin, &sql).await {
        Ok(Closed::Before) => return false,
        Ok(Closed::Now) => {
            tracing::warn!(
                server,
                database,
                "all roles, also the tenants' roles, could connect to the administrator's database; \
                the operator revoked that; grant CONNECT to the roles that need it"
            );
            return false;
        }
        Ok(Closed::NotOurs) if !was_open => tracing::warn!(
            server,
            database,
            "all roles may connect to the \
            administrator's database, and tenants can delay each other there; as its owner, run: {sql}"
        ),
        Ok(Closed::NotOurs) => {}
        Err(error) => {
            tracing::warn!(server, "closing the administrator's database failed: {error}; retrying")
        }
    }
    true
}

enum Closed {
    Before,
    Now,
    /// The database is open and belongs to another role.
    NotOurs,
}

/// Takes no lock: a role that connects there may hold the lock in order to prevent this.
async fn try_to_close(admin: &AdminPool, sql: &str) -> Result<Closed, DatabaseError> {
    let mut connection = admin.connection().await?;
    let row = connection.query_one(OPEN, &[]).await?;
    let closed = match (row.try_get(0)?, row.try_get(1)?) {
        (false, _) => Closed::Before,
        (true, false) => Closed::NotOurs,
        (true, true) => {
            let needs = "the ownership of its own database".to_owned();
            connection.batch(&Step { sql: sql.to_owned(), needs }).await?;
            Closed::Now
        }
    };
    connection.give_back();
    Ok(closed)
}

/// Creates the role, or repairs differences, and logs in with it. Calls for the same role take turns.
async fn ensure(
    admin: &AdminPool,
    installation: &str,
    password: &SecretString,
) -> Result<DatabaseUrl, DatabaseError> {
    let (role, database) = (role_of(installation), database_of(admin.url()));
    let mut locked = admin.lock(&role).await?;
    for _ in 0..STEPS {
        let observed = WatcherRole::read(&mut locked, &role).await?;
        match next(observed.as_ref(), installation, &database, password)? {
            Some(step) => locked.batch(&step).await?,
            None => break,
        }
    }
    let url = admin.tenant_url(&database, &role, password);
    match Session::open(url.expose()).await {
        Ok(_) | Err(LoginError::Full(_)) => {}
        Err(LoginError::Password(_)) => {
            locked.batch(&set_password(&role, password)).await?;
            Session::open(url.expose()).await?;
        }
        Err(LoginError::Silent(error) | LoginError::Other(error)) => return Err(error),
    }
    locked.unlock().await?;
    Ok(url)
}

/// The role of an installation's watchers. Its name contains the installation, because two installations may share a
/// server. It contains a `-`, so it is never the role of a database.
pub fn role_of(installation: &str) -> String {
    format!("docket-watcher-{}", hex::encode(&Sha256::digest(installation)[..6]))
}

impl WatcherRole {
    async fn read(admin: &mut AdminConnection, role: &str) -> Result<Option<Self>, DatabaseError> {
        let row = admin.query_one(QUERY, &[&role, &CONNECTIONS]).await?;
        if !row.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        Ok(Some(Self {
            comment: row.try_get(1)?,
            is_sound: row.try_get(2)?,
            has_rights: row.try_get(3)?,
            connects: row.try_get(4)?,
        }))
    }
}

/// The next step towards a watcher that may connect to `database` and has no other right; `None`: nothing differs. Pure.
fn next(
    observed: Option<&WatcherRole>,
    installation: &str,
    database: &str,
    password: &SecretString,
) -> Result<Option<Step>, DatabaseError> {
    let role = role_of(installation);
    let (quoted, mark) = (identifier(&role), format!("docket.dev/watcher installation={installation}"));
    let needs = |what: &str| format!("{what} for role {role:?}");
    let Some(observed) = observed else {
        let sql = format!(
            "CREATE ROLE {quoted} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS \
             CONNECTION LIMIT {CONNECTIONS} PASSWORD {}; COMMENT ON ROLE {quoted} IS {}",
            verifier(password),
            literal(&mark),
        );
        return Ok(Some(Step { sql, needs: "CREATEROLE".to_owned() }));
    };
    if observed.comment.as_deref() != Some(&mark) {
        let whose = "was not created by this installation of Docket; rename or drop it".to_owned();
        return Err(DatabaseError::NotOwned { what: format!("role {role:?}"), whose });
    }
    if observed.has_rights {
        return Err(DatabaseError::refused(format!(
            "role {role:?} has rights that were not granted by Docket; drop it"
        )));
    }
    if !observed.is_sound {
        let sql = format!(
            "ALTER ROLE {quoted} LOGIN NOINHERIT CONNECTION LIMIT {CONNECTIONS} VALID UNTIL 'infinity'"
        );
        return Ok(Some(Step { sql, needs: needs("CREATEROLE and ADMIN OPTION") }));
    }
    if !observed.connects {
        let sql = format!("GRANT CONNECT ON DATABASE {} TO {quoted}", identifier(database));
        return Ok(Some(Step { sql, needs: needs("the right to grant CONNECT on its own database") }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role() -> WatcherRole {
        let comment = Some("docket.dev/watcher installation=here".to_owned());
        WatcherRole { comment, is_sound: true, has_rights: false, connects: true }
    }

    fn step(observed: Option<&WatcherRole>) -> Result<Option<String>, String> {
        let step = next(observed, "here", "docket", &SecretString::from("hunter2"));
        step.map(|step| step.map(|step| step.sql)).map_err(|error| error.to_string())
    }

    #[test]
    fn role_that_is_as_it_should_be_needs_no_step() {
        assert_eq!(step(Some(&role())), Ok(None));
    }

    #[test]
    fn each_difference_has_its_step() {
        let name = format!("\"{}\"", role_of("here"));
        let created = step(None).unwrap().unwrap();
        let beginning = format!("CREATE ROLE {name} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE");
        assert!(created.starts_with(&beginning) && !created.contains("hunter2"), "{created}");
        let altered = step(Some(&WatcherRole { is_sound: false, ..role() })).unwrap().unwrap();
        assert!(altered.starts_with(&format!("ALTER ROLE {name} LOGIN NOINHERIT")), "{altered}");
        let granted = step(Some(&WatcherRole { connects: false, ..role() })).unwrap().unwrap();
        assert_eq!(granted, format!("GRANT CONNECT ON DATABASE \"docket\" TO {name}"));
    }

    #[test]
    fn role_of_another_or_with_rights_is_not_used() {
        let foreign = step(Some(&WatcherRole { comment: None, ..role() })).unwrap_err();
        assert!(foreign.contains("was not created by this installation"), "{foreign}");
        let mighty = step(Some(&WatcherRole { has_rights: true, ..role() })).unwrap_err();
        assert!(mighty.contains("has rights"), "{mighty}");
    }

    #[test]
    fn installations_have_their_own_roles() {
        assert_ne!(role_of("here"), role_of("there"));
        assert!(role_of("here").len() < 63);
    }
}
