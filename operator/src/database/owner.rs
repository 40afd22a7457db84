//! Finds out to which Tenant a database and its role belong. Pure.

use super::error::DatabaseError;
use super::names::{Mark, identifier, literal};
use super::observed::{Observed, TenantDatabase};
use super::wanted::WantedDatabase;

/// Whose a database and its role are.
pub(super) enum DatabaseOwner<'a> {
    /// No one's: neither database nor role exists.
    NoOne,
    /// The Tenant with this mark.
    Tenant(Mark<'a>),
    /// Docket did not create them.
    Foreign(DatabaseError),
}

/// Reads the owner from the comments and from who owns the database.
pub(super) fn owner<'a>(observed: &'a Observed, name: &str, role: &str) -> DatabaseOwner<'a> {
    let mark_of_role = observed.role.as_ref().and_then(|role| role.comment.as_deref().and_then(Mark::read));
    let foreign = |what: &str, name: &str| {
        DatabaseOwner::Foreign(DatabaseError::NotOwned {
            what: format!("{what} {name:?}"),
            whose: "was not created by Docket (it has no comment of Docket's); choose another database name"
                .to_owned(),
        })
    };
    match (&observed.database, &observed.role) {
        (None, None) => DatabaseOwner::NoOne,
        (None, Some(_)) => mark_of_role.map_or_else(|| foreign("role", role), DatabaseOwner::Tenant),
        (Some(TenantDatabase { comment: Some(comment), owned_by_role, .. }), seen) => {
            match Mark::read(comment) {
                None => foreign("database", name),
                // The role has no mark of Docket and does not own the database.
                Some(_) if seen.is_some() && mark_of_role.is_none() && !owned_by_role => {
                    foreign("role", role)
                }
                Some(mark) => DatabaseOwner::Tenant(mark),
            }
        }
        (Some(TenantDatabase { comment: None, owned_by_role: true, .. }), _) => {
            mark_of_role.map_or_else(|| foreign("database", name), DatabaseOwner::Tenant)
        }
        (Some(TenantDatabase { comment: None, .. }), _) => foreign("database", name),
    }
}

/// The refusal to change another Tenant's database. `is_earlier`: the database belonged to an earlier Tenant of this
/// name in this installation. Only then can the annotation hand it over: a user who may annotate a Tenant must not
/// get access to another Tenant's data in this way.
pub(super) fn owned_by_another(
    observed: &Observed,
    wanted: &WantedDatabase<'_>,
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
                "it was not created for an earlier Tenant {} of this installation, so only the server's \
                 administrator can hand it over: COMMENT ON {kind} {what} IS {mark}",
                wanted.tenant
            )
        }
    };
    not_owned(observed, name, role, uid, &way)
}

/// The error about a database or role of another Tenant. `then`: what to do.
pub(super) fn not_owned(observed: &Observed, name: &str, role: &str, uid: &str, then: &str) -> DatabaseError {
    let what = match observed.database {
        Some(_) => format!("database {name:?}"),
        None => format!("role {role:?}"),
    };
    DatabaseError::NotOwned { what, whose: format!("belongs to the Tenant with UID {uid}; {then}") }
}

/// The comment that marks a database and its role with the Tenant.
pub(super) fn mark_of(wanted: &WantedDatabase<'_>) -> String {
    Mark::new(wanted.owner_uid, wanted.tenant, wanted.installation).to_string()
}
