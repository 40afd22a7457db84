//! I/O: a Tenant at rest. Checks what no watch reports, its database and objects without the label, instead of reading everything
//! again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{SecretBytes, Tenant};
use tokio::time::Instant;

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::State;
use crate::state::declared::Declared;
use crate::state::done::Done;
use crate::state::resyncs::{Rest, Resync};
use crate::tenant::apply::Applied;
use crate::tenant::database::{DatabaseCheck, ProvisionedDatabase, provision_database, server_of};
use crate::tenant::fetch::{Fetched, fetch_for_database};
use crate::tenant::generated;
use crate::tenant::validate::validate;
use crate::tenant::watcher::watcher;

/// When a Tenant without keys to rotate needs a whole pass.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Makes a pass over a Tenant that no change concerns. `None`: it needs a whole pass.
pub(super) async fn resync(
    context: &Context,
    state: &State,
    tenant: &Arc<Declared<Tenant>>,
) -> Result<Option<Done>, CallError> {
    let (uid, server) = (&tenant.meta.uid, server(context, tenant).await);
    let now = Instant::now();
    let next = context.settings.resync_of(uid);
    let unwatched = match state.resync(uid, server, now) {
        Resync::Whole => return Ok(None),
        // The next pass comes in time for a change of the server.
        Resync::Later(at) => return Ok(Some(Done::After(Some(next.min(at - now))))),
        Resync::Check(unwatched) => unwatched,
    };
    for ((kind, name), version) in unwatched.iter() {
        if context.kube.version(*kind, name).await? != *version {
            return Ok(None);
        }
    }
    let fetched = fetch_for_database(&context.kube, state, tenant.clone()).await?;
    let done = match check_database(context, &fetched).await {
        Some(DatabaseCheck::ServerAway) => Done::Failed,
        Some(_) => {
            state.database_checked(uid, now, next);
            state.rests_still(uid);
            Done::After(Some(next))
        }
        None => {
            // The whole pass must check it too, and report what it finds.
            state.database_checked(uid, now, Duration::ZERO);
            return Ok(None);
        }
    };
    Ok(Some(done))
}

/// Checks the database. `None`: something differs from what the last whole pass left.
async fn check_database(context: &Context, fetched: &Fetched) -> Option<DatabaseCheck> {
    let valid = validate(fetched).ok()?;
    let password = password(valid.tenant(), fetched);
    let before = ProvisionedDatabase::unchanged(fetched);
    let checked = provision_database(context, valid, password.as_ref(), true, false).await;
    (checked.database == before && checked.check != DatabaseCheck::NotDue).then_some(checked.check)
}

fn password(tenant: &Tenant, fetched: &Fetched) -> Option<SecretBytes> {
    let wanted = generated::of_database(tenant, true)?;
    wanted.value(fetched.secret(&wanted.name)?, fetched.subject.meta())
}

/// Records that a Tenant is at rest, if a whole pass had nothing more to do.
pub(super) async fn rest(context: &Context, state: &State, applied: &Applied<'_>, done: Done) {
    let Done::After(Some(next)) = done else { return };
    let compiled = &applied.compiled;
    let (provisioned, fetched) = (&compiled.provisioned, compiled.provisioned.fetched);
    let (tenant, subject) = (&fetched.subject.tenant, &fetched.subject);
    let uid = &tenant.meta.uid;
    // A signing secret or a name that is kept for a while needs a whole pass when its time is up.
    let keeps = subject.own_secrets.iter().any(|secret| secret.unused_since.is_some())
        || compiled.runtime.as_ref().is_some_and(|(_, memory)| !memory.missing_webhooks.is_empty());
    let is_well = matches!(provisioned.database, ProvisionedDatabase::Ready(..))
        && provisioned.refused.is_empty()
        // These may be about Secrets of users that have the names of generated ones, which no watch reports.
        && provisioned.reasons.is_empty()
        && provisioned.webhook_secrets.values().all(Result::is_ok)
        && provisioned.check != DatabaseCheck::ServerAway;
    if !is_well || keeps || !subject.unknown_namespaces().is_empty() || next < context.settings.resync_of(uid)
    {
        return;
    }
    let now = context.clock.now();
    let until = provisioned
        .signing
        .as_ref()
        .map_or(LONGEST, |signing| Duration::try_from(signing.next.duration_since(now)).unwrap_or_default());
    let unwatched = {
        let cluster = state.cluster();
        fetched.versions().filter(|((kind, name), _)| !cluster.is_watched(*kind, name)).collect()
    };
    let server = server(context, tenant).await;
    state.rests(uid, Rest { server, until: Instant::now() + until, unwatched });
}

/// A digest of the URLs of the Tenant's database server and of its watcher.
async fn server(context: &Context, tenant: &Declared<Tenant>) -> u64 {
    let mut hasher = DefaultHasher::new();
    if tenant.document.as_ref().is_ok_and(|document| document.spec.database.managed.is_some()) {
        let server = server_of(tenant);
        context.databases.mark(server.as_deref()).await.hash(&mut hasher);
        let watcher = watcher(context, server.as_deref()).await;
        watcher.as_ref().map(|url| url.expose()).hash(&mut hasher);
    }
    hasher.finish()
}
