//! External databases, which a user created: migrates them, and marks them with the Tenant that uses them.

use docket_crds::DatabaseUrl;
use docket_schema::postgres::{DatabaseTarget, shown};

use super::error::DatabaseError;
use super::session::Session;
use super::wanted::WantedExternalDatabase;

/// Migrates an external database if its turn has come, records in it which Tenant uses it, and returns its schema version. The record is
/// needed because two Tenants on one database would end each other's deliveries.
///
/// Errors: [`DatabaseError::NotOwned`] if another Tenant uses the database or if it is a managed one. Then it is left
/// unchanged.
pub async fn migrate_external(wanted: &WantedExternalDatabase<'_>) -> Result<i64, DatabaseError> {
    let target = DatabaseTarget::external(wanted.url.expose(), wanted.allowed)
        .map_err(|error| DatabaseError::UrlRefused { reason: error.to_string() })?;
    let mut session = Session::to(target).await?;
    refuse_managed(&session, &wanted.url).await?;
    refuse_used(&session, wanted).await?;
    let version = session.migrate(wanted.migration).await?;
    session.claim(wanted.owner_uid, wanted.adopt).await?;
    // If two Tenants claim the database at the same time, the first Tenant keeps it.
    refuse_used(&session, wanted).await?;
    Ok(version)
}

async fn refuse_managed(session: &Session, url: &DatabaseUrl) -> Result<(), DatabaseError> {
    match session.made_for().await? {
        None => Ok(()),
        Some(other) => {
            let whose = format!("was created for the Tenant with UID {}; choose another one", shown(&other));
            Err(DatabaseError::NotOwned { what: described(url), whose })
        }
    }
}

async fn refuse_used(session: &Session, wanted: &WantedExternalDatabase<'_>) -> Result<(), DatabaseError> {
    let owner = session.owner().await?;
    match owner.filter(|owner| owner != wanted.owner_uid && !wanted.adopt) {
        None => Ok(()),
        Some(other) => Err(used_by(&wanted.url, &other)),
    }
}

fn used_by(url: &DatabaseUrl, owner: &str) -> DatabaseError {
    let whose = format!(
        "is used by the Tenant with UID {}: two Tenants can't share one. Give this Tenant another database; or, if \
         the other Tenant is gone, annotate this one with docket.dev/adopt-database={}",
        shown(owner),
        database_of(url)
    );
    DatabaseError::NotOwned { what: described(url), whose }
}

fn described(url: &DatabaseUrl) -> String {
    format!("database {:?}", database_of(url))
}

/// The name of the database in a URL; empty if the URL has none.
pub fn database_of(url: &DatabaseUrl) -> String {
    DatabaseTarget::database_name(url.expose()).unwrap_or_default()
}
