//! The driver of Tenants: fetch, validate, provision, compile, apply, status, in this order, for one Tenant at a time.
//!
//! Each step takes the type that the previous step returns, so none can be skipped: `Fetched`, `Valid` (or
//! `Refused`), `Provisioned`, `Compiled`, `Applied`. `remove` comes first: it deletes what an earlier Tenant of this
//! name left, and for a Tenant that is being deleted the pass ends there. Before the status, only `provision` and
//! `apply` write. `provision` adds the finalizer first, which protects what it creates.
//!
//! After `fetch` the pass also ends if the Tenant's runtime Secret can't be read and must stay as it is: see `stored`.
//! A Tenant that no change concerns, at rest since its last pass, gets no such pass: see `rest`.
//!
//! A mistake in a user's declaration is part of a pass's result. An error is something that kept the pass from ending.

pub mod apply;
pub mod compile;
pub mod database;
pub mod fetch;
pub mod generated;
pub mod kept;
pub mod provision;
pub mod remove;
mod rest;
mod room;
pub mod signing;
pub mod status;
pub mod stored;
pub mod subject;
pub mod validate;
pub mod watcher;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{ConditionType, ReasonCode, Remedy, Tenant, TenantStatus};
use docket_program::apiserver::ApiServerError;
use tokio::time::Instant;

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::arrivals::Lacking;
use crate::state::conditions;
use crate::state::declared::{Declared, Meta};
use crate::state::done::Done;
use crate::state::name::{Name, ObjectKey};
use crate::state::{State, Urgency};
use crate::tenant::apply::{Applied, apply};
use crate::tenant::compile::compile;
use crate::tenant::database::{DatabaseCheck, ProvisionedDatabase, was_well};
use crate::tenant::fetch::{Fetched, fetch};
use crate::tenant::provision::{Provisioned, finalizer, provision};
use crate::tenant::status::Served;
use crate::tenant::subject::Subject;
use crate::tenant::validate::validate;

/// Makes one pass over a Tenant. If the API server refuses a request, the status reports it before the pass fails: a
/// user can fix a quota, a policy or a missing right.
pub async fn reconcile(
    context: &Context,
    state: &State,
    name: &Name,
    urgency: Urgency,
) -> Result<Done, CallError> {
    let result = pass(context, state, name, urgency).await;
    let tenant = state.cluster().tenant(name);
    if let (
        Err(error @ CallError::Api(ApiServerError::Forbidden(_) | ApiServerError::Refused(_))),
        Some(tenant),
    ) = (&result, tenant)
    {
        let previous = tenant.status();
        let status = status::refused(&tenant.meta, error, &previous, context.clock.now());
        publish(context, &tenant, &previous, &status).await?;
    }
    result
}

async fn pass(context: &Context, state: &State, name: &Name, urgency: Urgency) -> Result<Done, CallError> {
    let Some(tenant) = state.cluster().tenant(name) else {
        return remove::gone(context, state, name).await;
    };
    if tenant.meta.deleting.is_some() {
        return remove::delete(context, state, &tenant).await;
    }
    remove::earlier(context, state, &tenant).await?;
    if tenant.meta.paused {
        let previous = tenant.status();
        let status = status::paused(&tenant.meta, &previous, context.clock.now());
        publish(context, &tenant, &previous, &status).await?;
        return Ok(Done::After(None));
    }
    if urgency == Urgency::Scheduled
        && let Some(done) = rest::resync(context, state, &tenant).await?
    {
        return Ok(done);
    }
    steps(context, state, tenant, urgency).await
}

async fn steps(
    context: &Context,
    state: &State,
    tenant: Arc<Declared<Tenant>>,
    urgency: Urgency,
) -> Result<Done, CallError> {
    state.rests_no_more(&tenant.meta.uid);
    let fetched = fetch(&context.kube, state, &context.settings.limits, tenant).await?;
    let meta = fetched.subject.meta();
    if is_behind(context, &fetched).await? {
        tracing::warn!(tenant = %meta.name, "the watch of Tenants is behind the API server; nothing is done until it has caught up");
        return Ok(Done::Failed);
    }
    if finalizer(context, &fetched).await? {
        return Ok(Done::After(None));
    }
    if let Some(why) = fetched.stored.as_ref().and_then(|stored| stored.unreadable.as_deref()) {
        return leave(context, state, &fetched.subject, why, urgency).await;
    }
    let provisioned = match validate(&fetched) {
        Ok(valid) => {
            let check = check_database(context, state, meta, &fetched.subject.previous);
            let (rules, now) = (context.settings.migrations, context.clock.now());
            let waiting = state.migration_waits(&fetched.subject.tenant, rules, now);
            provision(context, valid, check, waiting).await?
        }
        Err(refused) => Provisioned::unchanged(refused),
    };
    record_check(context, state, meta, &provisioned);
    let now = context.clock.now();
    let compiled = compile(provisioned, &context.settings, now, |keys| state.claim_keys(meta, keys));
    let applied = apply(context, compiled).await?;
    let status = report(context, state, &applied, urgency).await?;
    let now = Instant::now();
    let arrivals = [
        state.read_again(&meta.uid, lacking(&applied), now),
        conditions::arrival_ends(&status.conditions, context.clock.now()),
    ];
    let done = done(context, &applied, arrivals.into_iter().flatten().min());
    rest::rest(context, state, &applied, done).await;
    Ok(done)
}

/// Reports that the runtime Secret can't be read and must stay as it is. Nothing else is done: a new password, for example, would have no
/// place.
async fn leave(
    context: &Context,
    state: &State,
    subject: &Subject,
    why: &str,
    urgency: Urgency,
) -> Result<Done, CallError> {
    let (meta, previous) = (subject.meta(), &subject.previous);
    let status = status::unreadable(meta, why, previous, context.clock.now());
    publish(context, &subject.tenant, previous, &status).await?;
    state.concerns(without_outcome(state, subject), urgency);
    Ok(Done::After(Some(context.settings.resync_of(&meta.uid))))
}

/// The Webhooks that no pass of the Tenant has seen as they are now: they report that the Tenant is not ready.
fn without_outcome(state: &State, subject: &Subject) -> Vec<ObjectKey> {
    let cluster = state.cluster();
    let is_seen =
        |meta: &Meta| cluster.outcome(&meta.uid).is_some_and(|outcome| outcome.generation == meta.generation);
    let unseen = subject.webhooks.iter().map(|webhook| &webhook.meta).filter(|meta| !is_seen(meta));
    unseen.map(|meta| ObjectKey::Webhook(meta.name.clone())).collect()
}

/// Whether the watch is behind the API server, as after a start with an old list: the data plane already has a later generation of the
/// Tenant, or the Tenant, which is not served, does not exist any more. A pass would delete a key that the later generation declares, or
/// create a database again that was dropped.
async fn is_behind(context: &Context, fetched: &Fetched) -> Result<bool, CallError> {
    let meta = fetched.subject.meta();
    match fetched.stored.as_ref().and_then(|stored| stored.runtime.as_ref()) {
        Some(handed_over) => Ok(handed_over.generation > meta.generation),
        None => Ok(!context.kube.exists::<Tenant>(&meta.name, &meta.uid).await?),
    }
}

/// Whether to check the database although nothing about it changed: because a user requests it, because it was not
/// well, or because a check is due.
fn check_database(context: &Context, state: &State, meta: &Meta, previous: &TenantStatus) -> bool {
    let asked = previous.last_handled_reconcile_at != meta.requested_at;
    let interval = context.settings.resync_of(&meta.uid);
    let is_due = state.database_check_is_due(&meta.uid, Instant::now(), interval);
    asked || !was_well(previous) || is_due
}

fn record_check(context: &Context, state: &State, meta: &Meta, provisioned: &Provisioned<'_>) {
    if provisioned.check != DatabaseCheck::NotDue {
        let next = match provisioned.database {
            ProvisionedDatabase::Ready(..) if provisioned.check == DatabaseCheck::Done => {
                context.settings.resync_of(&meta.uid)
            }
            _ => Duration::ZERO,
        };
        state.database_checked(&meta.uid, Instant::now(), next);
    }
}

/// The Secrets and ConfigMaps that the Tenant and its Webhooks name and lack.
fn lacking(applied: &Applied<'_>) -> HashSet<Lacking> {
    let compiled = &applied.compiled;
    let meta = compiled.provisioned.fetched.subject.meta();
    let of_tenant = (&meta.uid, meta.generation, &compiled.reasons);
    let of_webhooks =
        compiled.webhooks.iter().map(|outcome| (&outcome.uid, outcome.generation, &outcome.reasons));
    let all = [of_tenant].into_iter().chain(of_webhooks).flat_map(|(uid, generation, reasons)| {
        reasons.iter().map(move |reason| (uid.clone(), generation, reason.code))
    });
    let is_lacking = |code: ReasonCode| {
        code.remedy() == Remedy::Arrival && code.condition() == ConditionType::ResolvedRefs
    };
    all.filter(|(_, _, code)| is_lacking(*code)).collect()
}

/// Records the outcome of each Webhook, which the Webhooks' own passes report. Then publishes the Tenant's status and returns it.
async fn report(
    context: &Context,
    state: &State,
    applied: &Applied<'_>,
    urgency: Urgency,
) -> Result<TenantStatus, CallError> {
    let subject = &applied.compiled.provisioned.fetched.subject;
    let runtime = applied.compiled.runtime.as_ref();
    let handed = runtime.map(|_| state.hand_over(subject.meta(), applied.stored(), applied.handed_over()));
    let served = Served::of(applied, handed.as_ref());
    let keys = state.cluster().set_outcomes(served.webhooks);
    state.concerns(keys, urgency);
    let at_limit = state.at_limit(&subject.meta().uid);
    let status = status::status(applied, served.tenant, at_limit.as_ref(), context.clock.now());
    publish(context, &subject.tenant, &subject.previous, &status).await?;
    Ok(status)
}

async fn publish(
    context: &Context,
    tenant: &Declared<Tenant>,
    previous: &TenantStatus,
    status: &TenantStatus,
) -> Result<(), CallError> {
    context.kube.publish_status(tenant, previous, status, &status::events(previous, status)).await
}

/// When the next pass is due. `arrivals`: when to look again for what is missing and may still arrive.
fn done(context: &Context, applied: &Applied<'_>, arrivals: Option<Duration>) -> Done {
    let provisioned = &applied.compiled.provisioned;
    let database_may_recover = match &provisioned.database {
        ProvisionedDatabase::Failed(error, _) => status::reason_of(error).remedy() == Remedy::Retry,
        ProvisionedDatabase::Ready(..) => provisioned.check == DatabaseCheck::ServerAway,
        ProvisionedDatabase::NotTried => false,
    };
    if applied.refused.is_some() || database_may_recover {
        return Done::Failed;
    }
    let resync = context.settings.resync_of(&provisioned.fetched.subject.meta().uid);
    let now = context.clock.now();
    let rotation = provisioned.signing.as_ref();
    let rotation = rotation.and_then(|signing| signing.next.duration_since(now).try_into().ok());
    Done::After([rotation, arrivals, Some(resync)].into_iter().flatten().min())
}
