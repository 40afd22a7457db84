//! I/O: removes a Tenant. The operator waits until no pod serves it, then drops its database if the Tenant declares
//! so, then removes the finalizer.
//!
//! Nothing here waits for something that may never happen. If the database server is unavailable, the operator
//! retries, and the condition says how to give up. In a namespace that is being deleted, the database stays, and an
//! Event reports it.

use docket_crds::conditions::{EventReason, Occurrence};
use docket_crds::tenant::DeletionPolicy;
use docket_crds::{Tenant, runtime};
use docket_program::apiserver::ApiServerError;
use jiff::{SignedDuration, Timestamp};

use crate::context::Context;
use crate::database::{DatabaseError, Dropped};
use crate::kube::call_error::CallError;
use crate::state::State;
use crate::state::declared::Declared;
use crate::state::done::Done;
use crate::state::name::Name;
use crate::state::object_event::ObjectEvent;
use crate::state::own_secrets::OwnSecret;
use crate::state::pods::{CHECK_AGAIN, Pods, is_unserved};
use crate::tenant::database::server_of;
use crate::tenant::status;

/// How long the operator waits for pods to stop using a database before it drops the database all the same.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// Removes what remains of a Tenant whose object does not exist any more.
pub async fn gone(context: &Context, state: &State, name: &Name) -> Result<Done, CallError> {
    context.kube.forget_status::<Tenant>(name);
    if !context.settings.watches(&name.namespace) {
        return Ok(Done::After(None));
    }
    let own = state.cluster().own_secrets(name);
    // Kubernetes removes other Secrets with their owner.
    leftovers(context, state, own.iter().filter(|secret| secret.is_runtime)).await?;
    Ok(Done::After(None))
}

/// Removes what earlier Tenants of the same name have left, even if nothing else is done about this Tenant. Otherwise
/// the data plane would serve it beside this Tenant, or instead of this Tenant.
pub async fn earlier(context: &Context, state: &State, tenant: &Declared<Tenant>) -> Result<(), CallError> {
    let own = state.cluster().own_secrets(&tenant.meta.name);
    let earlier = own.iter().filter(|secret| secret.is_runtime && secret.tenant_uid != tenant.meta.uid);
    leftovers(context, state, earlier).await
}

async fn leftovers(
    context: &Context,
    state: &State,
    secrets: impl Iterator<Item = &OwnSecret>,
) -> Result<(), CallError> {
    for secret in secrets {
        // The watch may be behind: after a change of leaders, it may not have a Secret yet that the previous leader
        // created. So the API server is asked.
        if !context.kube.exists::<Tenant>(&secret.tenant, &secret.tenant_uid).await? {
            state.forget(&secret.tenant_uid);
            context.kube.delete_secret(&secret.name, &secret.uid).await?;
        }
    }
    Ok(())
}

/// Makes a pass over a Tenant that is being deleted.
pub async fn delete(context: &Context, state: &State, tenant: &Declared<Tenant>) -> Result<Done, CallError> {
    let meta = &tenant.meta;
    state.forget(&meta.uid);
    let runtime = Name::new(context.kube.release_namespace(), runtime::secret_name(&meta.uid));
    if let Some(secret) = context.kube.secret(&runtime).await? {
        context.kube.delete_secret(&runtime, secret.metadata.uid.as_deref().unwrap_or_default()).await?;
    }
    if !meta.has_finalizer() {
        return Ok(Done::After(None));
    }
    let since = meta.deleting.unwrap_or(Timestamp::UNIX_EPOCH);
    if !may_drop(&state.pods(), &meta.uid, since, context.clock.now()) {
        return Ok(Done::After(Some(CHECK_AGAIN)));
    }
    let retained = match drop_database(context, tenant).await {
        Ok(dropped) => remaining(dropped),
        Err(error @ DatabaseError::NotOwned { .. }) => {
            Some((Occurrence::DatabaseRetained, format!("nothing is dropped: {error}")))
        }
        Err(error) if is_terminating(context, state, &meta.name.namespace).await? => {
            let what = "the namespace is being deleted and the database could not be dropped, so it stays";
            Some((Occurrence::DatabaseRetained, format!("{what}: {error}")))
        }
        Err(error) => return not_dropped(context, tenant, &error).await,
    };
    if let Some((occurrence, note)) = retained {
        report(context, tenant, occurrence, note).await;
    }
    match context.kube.set_finalizer::<Tenant>(meta, false).await {
        Ok(()) | Err(CallError::Api(ApiServerError::NotFound)) => Ok(Done::After(None)),
        Err(error) => Err(error),
    }
}

/// Whether no pod uses the Tenant's database any more, or the pods have had [`PATIENCE`] to stop.
fn may_drop(pods: &Pods, uid: &str, since: Timestamp, now: Timestamp) -> bool {
    is_unserved(pods, uid) || now >= since + PATIENCE
}

/// Returns what remains after a deletion, and the note that says so; `None`: nothing remains.
fn remaining(dropped: Dropped) -> Option<(Occurrence, String)> {
    let login = |is_locked_out| if is_locked_out { "can't log in any more" } else { "can still log in" };
    match dropped {
        Dropped::Wholly => None,
        Dropped::ButTheRole { why, is_locked_out } => {
            let login = login(is_locked_out);
            let note = format!("the database is dropped; its role stays and {login}: {why}");
            Some((Occurrence::RoleRetained, note))
        }
        Dropped::NotTheDatabase { why, is_locked_out } => {
            let login = login(is_locked_out);
            let note = format!("the database is not dropped: {why}; the Tenant's role {login}");
            Some((Occurrence::DatabaseRetained, note))
        }
    }
}

/// Publishes in the status why the database is not dropped. The operator retries.
async fn not_dropped(
    context: &Context,
    tenant: &Declared<Tenant>,
    error: &DatabaseError,
) -> Result<Done, CallError> {
    let previous = tenant.status();
    let status = status::not_dropped(&tenant.meta, error, &previous, context.clock.now());
    let events = status::events(&previous, &status);
    context.kube.publish_status(tenant, &previous, &status, &events).await?;
    Ok(Done::Failed)
}

/// Reports an occurrence as an Event and in the log: a namespace that is being deleted accepts no Events, and the
/// object itself is about to disappear.
async fn report(context: &Context, tenant: &Declared<Tenant>, occurrence: Occurrence, note: String) {
    let managed = tenant.document.as_ref().ok().and_then(|document| document.spec.database.managed.as_ref());
    let (database, server) = (managed.map(|managed| managed.name.as_str()), server_of(tenant));
    tracing::warn!(tenant = %tenant.meta.name, database, server, "{note}");
    let reason = EventReason::Occurrence(occurrence);
    let event = ObjectEvent { reason, action: "Delete", note, warning: true, secret: None };
    context.kube.publish::<Tenant>(&tenant.meta, &event).await;
}

async fn drop_database(context: &Context, tenant: &Declared<Tenant>) -> Result<Dropped, DatabaseError> {
    // A Tenant that can't be read has no policy that the operator could follow.
    let managed = tenant.document.as_ref().ok().and_then(|document| document.spec.database.managed.as_ref());
    match managed {
        Some(managed) if managed.deletion_policy == DeletionPolicy::Delete => {
            let server = server_of(tenant);
            context.databases.drop_database(server.as_deref(), &managed.name, &tenant.meta.uid).await
        }
        _ => Ok(Dropped::Wholly),
    }
}

async fn is_terminating(context: &Context, state: &State, namespace: &str) -> Result<bool, CallError> {
    let known = state.cluster().namespace(namespace).map(|namespace| namespace.terminating);
    match known {
        Some(terminating) => Ok(terminating),
        None => {
            let namespace = context.kube.namespace(namespace).await?;
            Ok(namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn database_is_dropped_once_no_pod_serves_it_or_after_half_a_minute() {
        let since = Timestamp::UNIX_EPOCH;
        let may = |pods: &Pods, uid: &str, second| {
            may_drop(pods, uid, since, since + SignedDuration::from_secs(second))
        };
        let served = Arc::new(HashMap::from([("u".to_owned(), "revision".to_owned())]));
        let pods = Pods::Seen(BTreeMap::from([("pod".to_owned(), served)]));
        for second in [0, 29] {
            assert!(!may(&pods, "u", second), "a pod serves it");
            assert!(!may(&Pods::Unavailable(None), "u", second), "a pod may serve it");
            assert!(may(&pods, "other", second));
        }
        assert!(may(&pods, "u", 30) && may(&Pods::Unavailable(None), "u", 30));
    }
}
