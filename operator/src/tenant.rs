//! The driver of Tenants: fetch, validate, build, apply, status, in this order, for one Tenant at a time.
//!
//! Deletion comes first, and a Tenant that is being deleted gets nothing made. What goes wrong with what users declare
//! is part of a pass's result; an error is only what kept us from finishing it.

pub mod apply;
pub mod build;
pub mod database;
pub mod fetch;
pub mod generated;
pub mod remove;
pub mod signing;
pub mod status;
pub mod stored;
pub mod validate;

#[cfg(test)]
mod tests;

use std::time::Duration;

use docket_crds::{
    Reason, Runtime, Tenant, TenantStatus,
    conditions::{ConditionType, EventReason, Occurrence, ReasonCode, Remedy},
    tenant::DeletionPolicy,
};

use crate::{
    kube::client::{CallError, News},
    state::{
        conditions::{self, Truth, Verdict},
        declared::{Declared, Meta},
        name::Name,
    },
    tenant::{
        build::{Built, Made},
        database::Database,
        fetch::{Fetched, Subject},
        generated::Wanted,
        signing::{Rotated, rotate},
        status::Facts,
        stored::Memory,
        validate::{Refused, Valid, validate},
    },
    webhook::Outcome,
    work::{Operator, queue::Done},
};

/// One pass over a Tenant. What the API server does not let us do is told before it is an error: a quota, a policy or a
/// missing right is somebody's to mend.
pub async fn reconcile(operator: &Operator, name: &Name) -> Result<Done, CallError> {
    let result = pass(operator, name).await;
    let tenant = operator.cluster().tenant(name);
    if let (Err(error @ (CallError::Forbidden(_) | CallError::Refused(_))), Some(tenant)) = (&result, tenant)
    {
        let previous: TenantStatus = tenant.status();
        let status = status::refused(&tenant.meta, error, &previous, operator.now());
        set_status(operator, &tenant, &previous, &status).await?;
    }
    result
}

async fn pass(operator: &Operator, name: &Name) -> Result<Done, CallError> {
    let Some(tenant) = operator.cluster().tenant(name) else {
        return remove::gone(operator, name).await;
    };
    if tenant.meta.deleting.is_some() {
        return remove::delete(operator, &tenant).await;
    }
    let own = operator.cluster().own_secrets(name);
    // Also where nothing is done about this one: nobody goes on being served because of what comes after him.
    let earlier = own.iter().filter(|secret| secret.is_runtime && secret.tenant_uid != tenant.meta.uid);
    apply::remove_of_gone(operator, earlier).await?;
    let previous: TenantStatus = tenant.status();
    if tenant.meta.paused {
        let status = status::paused(&tenant.meta, &previous, operator.now());
        set_status(operator, &tenant, &previous, &status).await?;
        return Ok(Done::After(None));
    }
    if hold_if_needed(operator, &tenant).await? {
        // The watch brings the object back, with the version that the next writes are guarded by.
        return Ok(Done::After(None));
    }
    let subject = Subject::of(&operator.cluster(), tenant.clone());
    let fetched = fetch::fetch(&operator.kube, &subject).await?;
    let (built, database, next) = match validate(&subject) {
        Ok(valid) => act(operator, &subject, valid, &fetched, &previous).await?,
        Err(refused) => stay(operator, &subject, refused, &fetched),
    };
    finish(operator, &subject, built, &database, &fetched, &previous, next).await
}

/// Puts the finalizer on before there is a database to drop, and takes it off when there is none to drop any more.
async fn hold_if_needed(operator: &Operator, tenant: &Declared<Tenant>) -> Result<bool, CallError> {
    let Ok(document) = &tenant.document else {
        return Ok(false);
    };
    let managed = document.spec.database.managed.as_ref();
    let wanted = managed.is_some_and(|managed| managed.deletion_policy == DeletionPolicy::Delete);
    if wanted == tenant.meta.is_held() {
        return Ok(false);
    }
    operator.kube.hold::<Tenant>(&tenant.meta, wanted).await?;
    Ok(true)
}

/// Everything is made for a valid Tenant.
async fn act<'a>(
    operator: &Operator,
    subject: &'a Subject,
    valid: Valid<'a>,
    fetched: &Fetched,
    previous: &TenantStatus,
) -> Result<(Built, Database, Option<Duration>), CallError> {
    let (tenant, meta) = (valid.tenant(), &subject.tenant.meta);
    let mut reasons = Vec::new();
    let mut api_keys = Vec::new();
    for (index, spec) in tenant.spec.api_keys.iter().enumerate() {
        let told = previous.api_keys.iter().find(|key| key.name == spec.name);
        let made_before = told.is_some_and(|told| told.fingerprint.is_some());
        if let Some(wanted) = generated::of_api_key(tenant, index, spec, made_before)
            && let Some(value) = value(operator, subject, &wanted, fetched, &mut reasons).await?
        {
            api_keys.push((spec.name.clone(), value));
        }
    }
    let made_before = previous.database.as_ref().is_some_and(|database| database.schema_version.is_some());
    let password = match generated::of_database(tenant, made_before) {
        Some(wanted) => value(operator, subject, &wanted, fetched, &mut reasons).await?,
        None => None,
    };
    let asked = previous.last_handled_reconcile_at != meta.requested_at || !was_well(previous);
    let database = database::ensure(operator, subject, tenant, fetched, password.as_ref(), asked).await;
    let signing = signing(operator, tenant, fetched, previous);
    let next = signing.next.duration_since(operator.now()).try_into().ok();
    let made = Made { api_keys, signing, database, reasons };
    let built = compiled(operator, subject, tenant, &[], fetched, &made);
    apply::remove_orphans(operator, meta, tenant).await?;
    Ok((built, made.database, next))
}

/// Whether the database was as it should be when that was last told.
fn was_well(previous: &TenantStatus) -> bool {
    let told = conditions::find(&previous.conditions, ConditionType::DatabaseReady);
    told.is_none_or(|told| told.status == "True")
}

/// The value of a Secret that we make, made if need be; `None` with a reason when the Secret is somebody else's.
async fn value(
    operator: &Operator,
    subject: &Subject,
    wanted: &Wanted,
    fetched: &Fetched,
    reasons: &mut Vec<Reason>,
) -> Result<Option<docket_crds::SecretBytes>, CallError> {
    let meta = &subject.tenant.meta;
    match wanted.plan(fetched.secret(&wanted.name), meta, &mut operator.random()) {
        Ok(planned) => apply::secret(operator, meta, planned).await.map(Some),
        Err(reason) => {
            reasons.push(reason);
            Ok(None)
        }
    }
}

fn signing(operator: &Operator, tenant: &Tenant, fetched: &Fetched, previous: &TenantStatus) -> Rotated {
    let known = fetched.stored.as_ref().map(|stored| stored.memory.signing_keys.clone()).unwrap_or_default();
    let told = conditions::find(&previous.conditions, ConditionType::Programmed);
    let distributed = told.is_none_or(|told| told.status == "True");
    let days = tenant.spec.tokens.signing_key_rotation_days;
    rotate(known, days, distributed, operator.now(), &mut operator.random())
}

/// Nothing new is made for a Tenant that is refused; what it has goes on.
fn stay(
    operator: &Operator,
    subject: &Subject,
    refused: Refused<'_>,
    fetched: &Fetched,
) -> (Built, Database, Option<Duration>) {
    let stored = fetched.stored.as_ref();
    let ensured = stored.and_then(|stored| stored.memory.database.clone());
    let url = stored.and_then(|stored| stored.config()?.database.clone());
    let database = match (ensured, url) {
        (Some(ensured), Some(url)) => Database::Ready(ensured, url),
        _ => Database::NotTried,
    };
    let Some(tenant) = refused.tenant else {
        return (build::unreadable(refused.reasons), database, None);
    };
    let keys = tenant.spec.api_keys.iter().enumerate().filter_map(|(index, spec)| {
        let wanted = generated::of_api_key(tenant, index, spec, true)?;
        let value = wanted.value(fetched.secret(&wanted.name)?, &subject.tenant.meta)?;
        Some((spec.name.clone(), value))
    });
    let known = stored.map(|stored| stored.memory.signing_keys.clone()).unwrap_or_default();
    let signing = Rotated { keys: known, next: operator.now() };
    let made = Made { api_keys: keys.collect(), signing, database, reasons: Vec::new() };
    let built = compiled(operator, subject, tenant, &refused.reasons, fetched, &made);
    (built, made.database, None)
}

fn compiled(
    operator: &Operator,
    subject: &Subject,
    tenant: &Tenant,
    refused: &[Reason],
    fetched: &Fetched,
    made: &Made,
) -> Built {
    let is_unreadable = |name: &Name, uid: &str| {
        let webhook = operator.cluster().webhook(name);
        webhook.is_some_and(|webhook| webhook.meta.uid == uid && webhook.document.is_err())
    };
    let disabled = &operator.settings.disabled_events;
    let mut built = build::build(subject, tenant, refused, fetched, made, disabled, &is_unreadable);
    for reason in refused {
        if !built.reasons.contains(reason) {
            built.reasons.push(reason.clone());
        }
    }
    let keys = built.runtime.iter().flat_map(|(runtime, _)| &runtime.config.api_keys).map(|key| key.digest);
    let taken = operator.set_keys(&subject.tenant.meta, keys.collect());
    built.without_keys(tenant, &taken);
    built
}

/// Hands the configuration to the data plane, then tells how it is.
async fn finish(
    operator: &Operator,
    subject: &Subject,
    built: Built,
    database: &Database,
    fetched: &Fetched,
    previous: &TenantStatus,
    next: Option<Duration>,
) -> Result<Done, CallError> {
    let meta = &subject.tenant.meta;
    let Built { runtime, reasons, mut webhooks } = built;
    let (mut verdict, mut refused) = (None, false);
    if let Some(content) = &runtime {
        let (told, was_refused) =
            hand_over(operator, meta, content, &mut webhooks, fetched, previous).await?;
        (verdict, refused) = (Some(told), was_refused);
    }
    let config = runtime.as_ref().map(|(runtime, _)| &runtime.config);
    let keys = operator.cluster().set_outcomes(webhooks);
    operator.changed(keys);
    let tenant = subject.tenant.document.as_ref().ok();
    let facts = Facts { meta, tenant, reasons: &reasons, config, database, programmed: verdict };
    let status = status::status(&facts, previous, operator.now());
    set_status(operator, &subject.tenant, previous, &status).await?;
    let told = conditions::find(&status.conditions, ConditionType::DatabaseReady);
    let code = told.and_then(|told| told.reason.parse::<ReasonCode>().ok());
    let may_pass = code.is_some_and(|code| code.remedy() == Remedy::Retry);
    if refused || matches!(database, Database::Failed(..)) && may_pass {
        return Ok(Done::Failed);
    }
    let resync = operator.resync(&meta.uid);
    let soon = [next, Some(resync)];
    Ok(Done::After(soon.into_iter().flatten().min()))
}

/// Writes the runtime Secret; answers whether pods serve the tenant, as it does for each webhook, and whether the API server
/// refused to take it.
async fn hand_over(
    operator: &Operator,
    meta: &Meta,
    (runtime, memory): &(Runtime, Memory),
    webhooks: &mut [(Name, String, Outcome)],
    fetched: &Fetched,
    previous: &TenantStatus,
) -> Result<(Verdict, bool), CallError> {
    let written = match apply::runtime(operator, meta, fetched.stored.as_ref(), runtime, memory).await {
        // Too many webhooks for one Secret, above all: somebody has to know.
        Err(CallError::Refused(why)) => Err(why),
        written => Ok(written?),
    };
    if let Ok(true) = written {
        tracing::info!(tenant = %meta.name, runtime.revision = runtime.revision, "handed over");
        if lost_signing_keys(fetched, previous) {
            operator.kube.tell::<Tenant>(meta, &remade_signing_keys()).await;
        }
    }
    // What was stored before counts too: this may be the first pass of this process.
    let stored = fetched.stored.as_ref().and_then(|stored| stored.runtime.as_ref());
    let handed: Vec<&Runtime> = stored.into_iter().chain(Some(runtime).filter(|_| written.is_ok())).collect();
    let (handed, pods) = operator.handed(meta, &handed);
    let unwritten = written.err().map(|why| {
        let message = format!("its runtime Secret can't be written: {why}");
        Verdict::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, message)
    });
    for (_, uid, outcome) in webhooks {
        let as_stored =
            stored.is_some_and(|stored| build::same_webhook(&stored.config, &runtime.config, uid));
        outcome.programmed = match &unwritten {
            Some(unwritten) if !as_stored => Some(unwritten.clone()),
            _ => handed.webhook(&pods, &meta.uid, uid),
        };
    }
    let refused = unwritten.is_some();
    Ok((unwritten.unwrap_or_else(|| handed.tenant(&pods, &meta.uid)), refused))
}

/// Whether there was a runtime Secret once and the signing keys in it are gone.
fn lost_signing_keys(fetched: &Fetched, previous: &TenantStatus) -> bool {
    let known = fetched.stored.as_ref().is_some_and(|stored| !stored.memory.signing_keys.is_empty());
    let told = conditions::find(&previous.conditions, ConditionType::Programmed);
    !known && told.is_some_and(|told| told.status == "True")
}

fn remade_signing_keys() -> News {
    let note =
        "the runtime Secret was gone or damaged: new keys sign session tokens, and all sessions have ended";
    let reason = EventReason::Occurrence(Occurrence::SigningKeysRemade);
    News { reason, action: "Make", note: note.to_owned(), warning: true, secret: None }
}

/// Writes a status if it is another one, and tells what changed.
pub async fn set_status(
    operator: &Operator,
    tenant: &Declared<Tenant>,
    previous: &TenantStatus,
    status: &TenantStatus,
) -> Result<(), CallError> {
    operator.metrics.conditions::<Tenant>(&tenant.meta.name, &status.conditions);
    if status == previous {
        return Ok(());
    }
    let body = serde_json::to_value(status).expect("a status is plain data");
    let written = operator.kube.apply_status::<Tenant>(&tenant.meta, &body).await?;
    if let Some(written) = Declared::read(written) {
        operator.cluster().tenant_written(written, &tenant.meta);
    }
    if let Some(news) =
        conditions::news_of(ConditionType::Ready, &previous.conditions, &status.conditions, true)
    {
        operator.kube.tell::<Tenant>(&tenant.meta, &news).await;
    }
    Ok(())
}
