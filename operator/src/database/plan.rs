//! From what is seen to the next step. Each step is one statement, or several in one transaction, so a crash leaves a
//! state that the next look recognises.
//!
//! CREATE DATABASE and its comment can't be one transaction. The role is made first, together with its comment, and
//! owns the database from its first moment: a database without a comment is ours if its owner is our marked role.
//! Until the comment is there and PUBLIC has lost its rights, the database takes no connections.

use secrecy::{ExposeSecret, SecretString};

use super::names::{Mark, identifier, literal};
use super::observed::{Database, Observed, Role};
use super::{DatabaseError, Wanted};

/// What to run, as one simple query: several statements are one transaction.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) sql: String,
    /// The right it takes, for when the server says that it is missing.
    pub(super) needs: String,
}

/// The next step towards `wanted`; `None`: all is as wanted.
pub(super) fn next(
    observed: &Observed,
    wanted: &Wanted<'_>,
    role: &str,
) -> Result<Option<Step>, DatabaseError> {
    if observed.version < 150_000 {
        return Err(DatabaseError::refused("managed databases need PostgreSQL 15 or newer"));
    }
    match owner(observed, wanted.name, role) {
        Owner::Foreign(error) => return Err(error),
        Owner::Tenant(mark) if mark.uid != wanted.owner_uid => {
            let is_earlier = mark.of == Some((wanted.tenant, wanted.installation));
            if !is_earlier || !wanted.adopt {
                return Err(others(observed, wanted, role, mark.uid, is_earlier));
            }
        }
        Owner::Nobody | Owner::Tenant(_) => {}
    }
    let Some(seen) = &observed.role else { return create_role(observed, wanted, role).map(Some) };
    if let Some(step) = repair(observed, seen, wanted, role)? {
        return Ok(Some(step));
    }
    if observed.database.is_none() {
        create_database(observed, wanted.name, role).map(Some)
    } else {
        Ok(None)
    }
}

/// The next step of dropping what `owner_uid` has; `None`: it has nothing here.
pub(super) fn next_of_deletion(
    observed: &Observed,
    name: &str,
    role: &str,
    owner_uid: &str,
) -> Result<Option<Step>, DatabaseError> {
    match (owner(observed, name, role), &observed.database) {
        (Owner::Tenant(mark), Some(database)) if mark.uid == owner_uid => {
            let lent = observed.role.as_ref().is_none_or(|role| role.lent_to_admin);
            let quoted = identifier(name);
            let sql = match database {
                _ if !lent => lend_to_admin(observed, role)?,
                Database { open: true, .. } => format!("ALTER DATABASE {quoted} ALLOW_CONNECTIONS false"),
                Database { sessions: true, .. } => end_sessions(name),
                // Without FORCE: that asks for the right to end autovacuum, which this ends by itself.
                Database { .. } => format!("DROP DATABASE {quoted}"),
            };
            Ok(Some(Step {
                sql,
                needs: format!("the rights of role {role:?}, and to end all sessions there"),
            }))
        }
        (Owner::Tenant(mark), None) if mark.uid == owner_uid => {
            let sql = format!("DROP ROLE {}", identifier(role));
            Ok(Some(Step { sql, needs: format!("CREATEROLE and ADMIN OPTION on role {role:?}") }))
        }
        (Owner::Tenant(mark), Some(_)) => {
            Err(not_owned(observed, name, role, mark.uid, "nothing of it is dropped"))
        }
        (Owner::Foreign(error), Some(_)) => Err(error),
        (Owner::Nobody | Owner::Tenant(_) | Owner::Foreign(_), _) => Ok(None),
    }
}

fn end_sessions(name: &str) -> String {
    let name = literal(name);
    format!(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
         WHERE datname = {name} AND usesysid IS NOT NULL"
    )
}

/// A new password for the role; connections that are open stay open.
pub(super) fn set_password(role: &str, password: &SecretString) -> Step {
    let sql = format!("ALTER ROLE {} PASSWORD {}", identifier(role), verifier(password));
    Step { sql, needs: format!("CREATEROLE and ADMIN OPTION on role {role:?}") }
}

/// For a role that can't be dropped.
pub(super) fn lock_out(role: &str) -> Step {
    let sql = format!("ALTER ROLE {} NOLOGIN", identifier(role));
    Step { sql, needs: format!("CREATEROLE and ADMIN OPTION on role {role:?}") }
}

enum Owner<'a> {
    /// Neither database nor role is there.
    Nobody,
    /// The Tenant with this mark.
    Tenant(Mark<'a>),
    /// Not Docket's.
    Foreign(DatabaseError),
}

fn owner<'a>(observed: &'a Observed, name: &str, role: &str) -> Owner<'a> {
    let mark_of_role = observed.role.as_ref().and_then(|role| role.comment.as_deref().and_then(Mark::read));
    let foreign = |what: &str, name: &str| {
        Owner::Foreign(DatabaseError::NotOwned {
            what: format!("{what} {name:?}"),
            whose: "is not Docket's: it has no comment by Docket; choose another database name".to_owned(),
        })
    };
    match (&observed.database, &observed.role) {
        (None, None) => Owner::Nobody,
        (None, Some(_)) => mark_of_role.map_or_else(|| foreign("role", role), Owner::Tenant),
        (Some(Database { comment: Some(comment), owned_by_role, .. }), seen) => match Mark::read(comment) {
            None => foreign("database", name),
            // Not ours by its comment, and nothing of ours belongs to it.
            Some(_) if seen.is_some() && mark_of_role.is_none() && !owned_by_role => foreign("role", role),
            Some(mark) => Owner::Tenant(mark),
        },
        (Some(Database { comment: None, owned_by_role: true, .. }), _) => {
            mark_of_role.map_or_else(|| foreign("database", name), Owner::Tenant)
        }
        (Some(Database { comment: None, .. }), _) => foreign("database", name),
    }
}

/// `is_earlier`: it was that of an earlier Tenant of this name, here. Nobody else's is given away by somebody who may only
/// annotate a Tenant of his own.
fn others(
    observed: &Observed,
    wanted: &Wanted<'_>,
    role: &str,
    uid: &str,
    is_earlier: bool,
) -> DatabaseError {
    let name = wanted.name;
    let way = match (is_earlier, &observed.database) {
        (true, _) => format!("to take it over, annotate this Tenant with docket.dev/adopt-database={name}"),
        (false, database) => {
            let (kind, what) = if database.is_some() { ("DATABASE", name) } else { ("ROLE", role) };
            let (what, mark) = (identifier(what), literal(&mark_of(wanted)));
            format!(
                "it was not made for an earlier Tenant {} of this installation, so only the server's administrator \
                 can hand it over: COMMENT ON {kind} {what} IS {mark}",
                wanted.tenant
            )
        }
    };
    not_owned(observed, name, role, uid, &way)
}

fn not_owned(observed: &Observed, name: &str, role: &str, uid: &str, then: &str) -> DatabaseError {
    let what = match observed.database {
        Some(_) => format!("database {name:?}"),
        None => format!("role {role:?}"),
    };
    DatabaseError::NotOwned { what, whose: format!("belongs to the Tenant with UID {uid}; {then}") }
}

fn mark_of(wanted: &Wanted<'_>) -> String {
    Mark::new(wanted.owner_uid, wanted.tenant, wanted.installation).to_string()
}

fn create_role(observed: &Observed, wanted: &Wanted<'_>, role: &str) -> Result<Step, DatabaseError> {
    need(observed, observed.admin.creates_roles, "CREATEROLE")?;
    let quoted = identifier(role);
    let mut sql = format!(
        "CREATE ROLE {quoted} LOGIN CONNECTION LIMIT {} PASSWORD {}; COMMENT ON ROLE {quoted} IS {}",
        wanted.connection_limit,
        verifier(wanted.password),
        literal(&mark_of(wanted)),
    );
    if !observed.admin.superuser {
        sql = format!("{sql}; {}", lend_to_admin(observed, role)?);
    }
    Ok(Step { sql, needs: "CREATEROLE".to_owned() })
}

fn create_database(observed: &Observed, name: &str, role: &str) -> Result<Step, DatabaseError> {
    need(observed, observed.admin.creates_databases, "CREATEDB")?;
    // template0: nothing in it that somebody has put into template1, and nobody connected to it.
    let sql = format!(
        "CREATE DATABASE {} OWNER {} TEMPLATE template0 ENCODING 'UTF8' ALLOW_CONNECTIONS false",
        identifier(name),
        identifier(role)
    );
    Ok(Step { sql, needs: "CREATEDB".to_owned() })
}

/// What differs, in one transaction.
fn repair(
    observed: &Observed,
    seen: &Role,
    wanted: &Wanted<'_>,
    role: &str,
) -> Result<Option<Step>, DatabaseError> {
    let (quoted, mark) = (identifier(role), mark_of(wanted));
    let mut statements = Vec::new();
    if !seen.lent_to_admin {
        statements.push(lend_to_admin(observed, role)?);
    }
    if !seen.can_log_in || i64::from(seen.connection_limit) != i64::from(wanted.connection_limit) {
        let limit = wanted.connection_limit;
        statements.push(format!("ALTER ROLE {quoted} LOGIN CONNECTION LIMIT {limit} VALID UNTIL 'infinity'"));
    }
    if seen.comment.as_deref() != Some(&mark) {
        statements.push(format!("COMMENT ON ROLE {quoted} IS {}", literal(&mark)));
    }
    if let Some(database) = &observed.database {
        // What an interrupted DROP DATABASE leaves.
        if database.connection_limit == -2 {
            let name = wanted.name;
            return Err(DatabaseError::refused(format!(
                "database {name:?} was dropped halfway: drop it again"
            )));
        }
        statements.extend(repair_database(database, wanted.name, &quoted, &mark));
    }
    let needs = format!("the rights of role {role:?}, with ADMIN OPTION, and of the database's owner");
    Ok((!statements.is_empty()).then(|| Step { sql: statements.join("; "), needs }))
}

fn repair_database(database: &Database, name: &str, role: &str, mark: &str) -> Vec<String> {
    let (is_marked, name) = (database.comment.as_deref() == Some(mark), identifier(name));
    [
        (!database.owned_by_role, format!("ALTER DATABASE {name} OWNER TO {role}")),
        (!is_marked, format!("COMMENT ON DATABASE {name} IS {}", literal(mark))),
        (database.public, format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC")),
        (!database.role_connects, format!("GRANT ALL ON DATABASE {name} TO {role}")),
        (!database.open, format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")),
    ]
    .into_iter()
    .filter_map(|(differs, statement)| differs.then_some(statement))
    .collect()
}

/// An admin that is no superuser makes and changes a role's databases with the role's rights.
fn lend_to_admin(observed: &Observed, role: &str) -> Result<String, DatabaseError> {
    let role = identifier(role);
    if observed.version >= 160_000 {
        return Ok(format!("GRANT {role} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE"));
    }
    need(observed, observed.admin.inherits, "INHERIT")?;
    Ok(format!("GRANT {role} TO CURRENT_USER"))
}

fn need(observed: &Observed, has: bool, right: &str) -> Result<(), DatabaseError> {
    let (admin, superuser) = (&observed.admin.name, observed.admin.superuser);
    if has || superuser { Ok(()) } else { Err(lacks(admin, right)) }
}

fn lacks(admin: &str, right: &str) -> DatabaseError {
    let admin_quoted = identifier(admin);
    DatabaseError::refused(format!("the admin role lacks {right}: ALTER ROLE {admin_quoted} {right}"))
}

/// What the server keeps of a password. The password itself never reaches the server, nor its log.
fn verifier(password: &SecretString) -> String {
    literal(&postgres_protocol::password::scram_sha_256(password.expose_secret().as_bytes()))
}

#[cfg(test)]
mod tests;
