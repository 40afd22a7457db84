//! Decides on the next step from the observed state. Pure.
//!
//! Each step is one statement, or several statements in one transaction, so a crash leaves a state that the next pass
//! recognizes. CREATE DATABASE and its comment can't be one transaction. So the role is created first, together with
//! its comment, and owns the database from the start. A database without a comment belongs to Docket if its owner is
//! a role with Docket's mark. The database accepts no connections until it has its comment and PUBLIC has no rights
//! on it.

use secrecy::{ExposeSecret, SecretString};

use super::error::DatabaseError;
use super::names::{Mark, identifier, literal};
use super::observed::{Observed, TenantDatabase, TenantRole};
use super::owner::{DatabaseOwner, mark_of, not_owned, owned_by_another, owner};
use super::step::Step;
use super::wanted::WantedDatabase;

/// The next step towards `wanted`; `None`: nothing differs.
pub(super) fn next(
    observed: &Observed,
    wanted: &WantedDatabase<'_>,
    role: &str,
) -> Result<Option<Step>, DatabaseError> {
    if observed.version < 150_000 {
        return Err(DatabaseError::refused("managed databases need PostgreSQL 15 or newer"));
    }
    match owner(observed, wanted.name, role) {
        DatabaseOwner::Foreign(error) => return Err(error),
        DatabaseOwner::Tenant(mark) if mark.uid != wanted.owner_uid => {
            let is_earlier = mark.of == Some((wanted.tenant, wanted.installation));
            if !is_earlier || !wanted.adopt {
                return Err(owned_by_another(observed, wanted, role, mark.uid, is_earlier));
            }
        }
        DatabaseOwner::NoOne | DatabaseOwner::Tenant(_) => {}
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

/// The next step in deleting a Tenant's database and role.
pub(super) enum NextOfDeletion {
    /// There is nothing to do: neither database nor role exists any more, or the role belongs to another owner.
    Nothing,
    /// Take this step.
    Step(Step),
    /// The role belongs to the Tenant, but the database does not belong to the role, for this reason. The role must
    /// lose its login.
    LockOut(String),
}

/// The next step in deleting the database and role of the Tenant `owner_uid`. The comment on the role and the owner
/// of the database decide. If the role has a comment, the comment on the database does not count: the role owns the
/// database and may change its comment.
pub(super) fn next_of_deletion(
    observed: &Observed,
    name: &str,
    role: &str,
    owner_uid: &str,
) -> Result<NextOfDeletion, DatabaseError> {
    let mark = observed.role.as_ref().and_then(|role| role.comment.as_deref().and_then(Mark::read));
    let Some(database) = &observed.database else {
        if mark.is_none_or(|mark| mark.uid != owner_uid) {
            return Ok(NextOfDeletion::Nothing);
        }
        let sql = format!("DROP ROLE {}", identifier(role));
        let needs = format!("CREATEROLE and ADMIN OPTION on role {role:?}");
        return Ok(NextOfDeletion::Step(Step { sql, needs }));
    };
    match (mark, owner(observed, name, role)) {
        (Some(mark), _) if mark.uid != owner_uid => {
            Err(not_owned(observed, name, role, mark.uid, "it is not dropped"))
        }
        (Some(_), _) if !database.owned_by_role => {
            Ok(NextOfDeletion::LockOut(format!("another role owns it than the Tenant's, {role:?}")))
        }
        (Some(_), _) => drop_database(observed, database, name, role),
        (None, DatabaseOwner::Tenant(mark)) if mark.uid != owner_uid => {
            Err(not_owned(observed, name, role, mark.uid, "it is not dropped"))
        }
        (None, DatabaseOwner::Tenant(_)) => drop_database(observed, database, name, role),
        (None, DatabaseOwner::Foreign(error)) => Err(error),
        (None, DatabaseOwner::NoOne) => Ok(NextOfDeletion::Nothing),
    }
}

fn drop_database(
    observed: &Observed,
    database: &TenantDatabase,
    name: &str,
    role: &str,
) -> Result<NextOfDeletion, DatabaseError> {
    let lent = observed.role.as_ref().is_none_or(|role| role.lent_to_admin);
    let quoted = identifier(name);
    let sql = match database {
        _ if !lent => lend_to_admin(observed, role)?,
        TenantDatabase { open: true, .. } => {
            format!("ALTER DATABASE {quoted} ALLOW_CONNECTIONS false")
        }
        TenantDatabase { sessions: true, .. } => end_sessions(name),
        // FORCE is not used, because it needs the right to end autovacuum. A plain DROP ends autovacuum by itself.
        TenantDatabase { .. } => format!("DROP DATABASE {quoted}"),
    };
    let needs = format!("the rights of role {role:?}, and to end all sessions there");
    Ok(NextOfDeletion::Step(Step { sql, needs }))
}

fn end_sessions(name: &str) -> String {
    let name = literal(name);
    format!(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
         WHERE datname = {name} AND usesysid IS NOT NULL"
    )
}

/// Sets a new password for the role. Open connections stay open.
pub(super) fn set_password(role: &str, password: &SecretString) -> Step {
    let sql = format!("ALTER ROLE {} PASSWORD {}", identifier(role), verifier(password));
    Step { sql, needs: format!("CREATEROLE and ADMIN OPTION on role {role:?}") }
}

/// Takes away LOGIN from a role that can't be dropped.
pub(super) fn lock_out(role: &str) -> Step {
    let sql = format!("ALTER ROLE {} NOLOGIN", identifier(role));
    Step { sql, needs: format!("CREATEROLE and ADMIN OPTION on role {role:?}") }
}

fn create_role(observed: &Observed, wanted: &WantedDatabase<'_>, role: &str) -> Result<Step, DatabaseError> {
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
    // template0 contains nothing that a user put into template1, and accepts no connections.
    let sql = format!(
        "CREATE DATABASE {} OWNER {} TEMPLATE template0 ENCODING 'UTF8' ALLOW_CONNECTIONS false",
        identifier(name),
        identifier(role)
    );
    Ok(Step { sql, needs: "CREATEDB".to_owned() })
}

/// Repairs all differences in one transaction.
fn repair(
    observed: &Observed,
    seen: &TenantRole,
    wanted: &WantedDatabase<'_>,
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
        // An interrupted DROP DATABASE leaves this value.
        if database.connection_limit == -2 {
            let name = wanted.name;
            return Err(DatabaseError::refused(format!(
                "database {name:?} is half dropped; run DROP DATABASE again"
            )));
        }
        statements.extend(repair_database(database, wanted.name, &quoted, &mark));
    }
    let needs = format!("the rights of role {role:?}, with ADMIN OPTION, and of the database's owner");
    Ok((!statements.is_empty()).then(|| Step { sql: statements.join("; "), needs }))
}

fn repair_database(database: &TenantDatabase, name: &str, role: &str, mark: &str) -> Vec<String> {
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

/// Grants the role to the administrator: without superuser rights, the administrator creates and changes a role's
/// databases with the role's rights.
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

/// The verifier that the server stores instead of a password. The password itself never reaches the server or its log.
pub(super) fn verifier(password: &SecretString) -> String {
    literal(&postgres_protocol::password::scram_sha_256(password.expose_secret().as_bytes()))
}

#[cfg(test)]
mod tests;
