//! I/O: the end of a Tenant. First nobody is served any more, then its database goes, if that was declared, then it.
//!
//! Nothing here waits for something that may never come: a database server that is away is tried again and the
//! condition says how to give up; in a namespace that is being deleted the database is kept and an Event tells it.

use docket_crds::{EventReason, Occurrence, Tenant, TenantStatus, runtime, tenant::DeletionPolicy};
use jiff::{SignedDuration, Timestamp};

use crate::{
    database::{DatabaseError, Dropped},
    kube::client::{CallError, News},
    state::{declared::Declared, name::Name, pods},
    tenant::{apply, database, set_status, status},
    work::{Operator, queue::Done},
};

/// How long pods get to let go of a database before it is dropped under them.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// What is left of a Tenant whose object is gone.
pub async fn gone(operator: &Operator, name: &Name) -> Result<Done, CallError> {
    operator.metrics.forget::<Tenant>(name);
    if !operator.settings.watches(&name.namespace) {
        return Ok(Done::After(None));
    }
    let own = operator.cluster().own_secrets(name);
    // The others go with their owner.
    apply::remove_of_gone(operator, own.iter().filter(|secret| secret.is_runtime)).await?;
    Ok(Done::After(None))
}

/// A Tenant that is being deleted.
pub async fn delete(operator: &Operator, tenant: &Declared<Tenant>) -> Result<Done, CallError> {
    let meta = &tenant.meta;
    operator.forget(&meta.uid);
    let runtime = Name::new(operator.kube.release_namespace(), runtime::secret_name(&meta.uid));
    if let Some(secret) = operator.kube.secret(&runtime).await? {
        operator.kube.delete_secret(&runtime, secret.metadata.uid.as_deref().unwrap_or_default()).await?;
    }
    if !meta.is_held() {
        return Ok(Done::After(None));
    }
    let since = meta.deleting.unwrap_or(Timestamp::UNIX_EPOCH);
    if !pods::is_unserved(&operator.pods(), &meta.uid) && operator.now() < since + PATIENCE {
        return Ok(Done::After(Some(pods::LOOK_AGAIN)));
    }
    let retained = match drop_database(operator, tenant).await {
        Ok(Dropped::Wholly) => None,
        Ok(Dropped::ButTheRole(why, is_locked_out)) => {
            let and = if is_locked_out { "can't log in any more" } else { "can still log in" };
            let note = format!("the database is dropped; its role stays, and {and}: {why}");
            Some((Occurrence::RoleRetained, note))
        }
        Err(error) if is_terminating(operator, &meta.name.namespace).await? => {
            let what = "the namespace is being deleted and the database could not be dropped, so it stays";
            Some((Occurrence::DatabaseRetained, format!("{what}: {error}")))
        }
        Err(error) => {
            let previous: TenantStatus = tenant.status();
            let status = status::not_dropped(meta, &error, &previous, operator.now());
            set_status(operator, tenant, &previous, &status).await?;
            return Ok(Done::Failed);
        }
    };
    if let Some((occurrence, note)) = retained {
        // A namespace that is being deleted takes no Events, and there is no object any more to look at.
        let database =
            tenant.document.as_ref().ok().and_then(|document| document.spec.database.managed.as_ref());
        let (database, server) = (database.map(|managed| managed.name.as_str()), database::server_of(tenant));
        tracing::warn!(tenant = %meta.name, database, server, "{note}");
        let reason = EventReason::Occurrence(occurrence);
        let news = News { reason, action: "Delete", note, warning: true, secret: None };
        operator.kube.tell::<Tenant>(meta, &news).await;
    }
    match operator.kube.hold::<Tenant>(meta, false).await {
        Ok(_) | Err(CallError::NotFound) => Ok(Done::After(None)),
        Err(error) => Err(error),
    }
}

async fn drop_database(operator: &Operator, tenant: &Declared<Tenant>) -> Result<Dropped, DatabaseError> {
    // What can't be read has no policy that we could follow.
    let managed = tenant.document.as_ref().ok().and_then(|document| document.spec.database.managed.as_ref());
    match managed {
        Some(managed) if managed.deletion_policy == DeletionPolicy::Delete => {
            let server = database::server_of(tenant);
            match operator.databases.drop_database(server.as_deref(), &managed.name, &tenant.meta.uid).await {
                // It is another's: there is nothing of ours to drop.
                Err(DatabaseError::NotOwned { .. }) => Ok(Dropped::Wholly),
                other => other,
            }
        }
        _ => Ok(Dropped::Wholly),
    }
}

async fn is_terminating(operator: &Operator, namespace: &str) -> Result<bool, CallError> {
    let known = operator.cluster().namespace(namespace).map(|namespace| namespace.terminating);
    match known {
        Some(terminating) => Ok(terminating),
        None => {
            let namespace = operator.kube.namespace(namespace).await?;
            Ok(namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
        }
    }
}
