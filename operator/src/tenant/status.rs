//! Pure: the content of a Tenant's status, and the Events to publish with it.

use std::collections::BTreeSet;

use docket_crds::status::{ApiKeyStatus, DatabaseStatus};
use docket_crds::{ConditionType, Limit, Reason, ReasonCode, Tenant, TenantConfig, TenantStatus, runtime};
use docket_schema::{NEWEST, OLDEST};
use jiff::Timestamp;

use crate::database::{DatabaseError, role_of};
use crate::kube::call_error::CallError;
use crate::state::conditions::{self, NewCondition, Summary, Truth};
use crate::state::declared::Meta;
use crate::state::handover::HandedOver;
use crate::state::migrations::Waiting;
use crate::state::object_event::ObjectEvent;
use crate::state::outcome::WebhookOutcome;
use crate::state::pods::{Pods, Programmed};
use crate::tenant::apply::Applied;
use crate::tenant::compile::Compiled;
use crate::tenant::database::ProvisionedDatabase;
use crate::tenant::generated;

/// Whether the data plane serves a Tenant and each of its Webhooks.
#[derive(Debug)]
pub struct Served {
    /// The Tenant's `Programmed`; `None`: there is nothing to serve.
    pub tenant: Option<Programmed>,
    /// The outcome of each Webhook.
    pub webhooks: Vec<WebhookOutcome>,
}

impl Served {
    /// Compares what pods serve with what was `handed` over to them; `None`: nothing was handed over.
    pub fn of(applied: &Applied<'_>, handed: Option<&(HandedOver, std::sync::Arc<Pods>)>) -> Self {
        let mut webhooks = applied.compiled.webhooks.clone();
        let Some((handed, pods)) = handed else {
            return Self { tenant: None, webhooks };
        };
        let uid = &applied.compiled.provisioned.fetched.subject.meta().uid;
        let unwritten = applied.refused.as_ref().map(|why| {
            let message = format!("writing its runtime Secret failed: {why}");
            let truth = Truth::False;
            Programmed::Known(NewCondition::new(
                ConditionType::Programmed,
                truth,
                ReasonCode::Pending,
                message,
            ))
        });
        for outcome in &mut webhooks {
            outcome.programmed = match &unwritten {
                Some(unwritten) if !is_as_stored(&applied.compiled, &outcome.uid) => Some(unwritten.clone()),
                _ => handed.webhook(pods, uid, &outcome.uid),
            };
        }
        Self { tenant: Some(unwritten.unwrap_or_else(|| handed.tenant(pods, uid))), webhooks }
    }
}

/// Whether the stored and the compiled configuration contain the same form of a webhook.
fn is_as_stored(compiled: &Compiled<'_>, webhook_uid: &str) -> bool {
    let of =
        |config: &TenantConfig| config.webhooks.iter().find(|webhook| webhook.uid == webhook_uid).cloned();
    let stored = compiled.provisioned.stored().and_then(|stored| of(stored.config()?));
    let now = compiled.runtime.as_ref().and_then(|(runtime, _)| of(&runtime.config));
    stored.is_some() && stored == now
}

/// The status after a pass. `programmed` is as in [`Served`], `at_limit` as in
/// [`State::at_limit`](crate::state::State::at_limit).
pub fn status(
    applied: &Applied<'_>,
    programmed: Option<Programmed>,
    at_limit: Option<&BTreeSet<Limit>>,
    now: Timestamp,
) -> TenantStatus {
    let Compiled { provisioned, runtime, reasons, .. } = &applied.compiled;
    let (subject, tenant) = (&provisioned.fetched.subject, provisioned.tenant);
    let (meta, previous, config) =
        (subject.meta(), &subject.previous, runtime.as_ref().map(|(runtime, _)| &*runtime.config));
    let programmed = programmed.map(|known| known.verdict(&previous.conditions, meta.generation));
    let database = of_database(&provisioned.database, provisioned.migration_waits, meta.generation, previous);
    let within_limits = tenant.map(|_| within_limits(reasons, config, at_limit, previous, meta.generation));
    let arrives = |reason| conditions::on_its_way(&previous.conditions, reason, meta.generation, now);
    let summary = summary(tenant, reasons, database, programmed, within_limits, config.is_some(), arrives);
    let webhooks = config.map_or(0, |config| u32::try_from(config.webhooks.len()).unwrap_or(u32::MAX));
    TenantStatus {
        observed_generation: Some(meta.generation),
        last_handled_reconcile_at: meta.requested_at.clone(),
        webhooks: tenant.map_or(previous.webhooks, |_| Some(webhooks)),
        database: match tenant {
            Some(tenant) => Some(database_status(tenant, &provisioned.database, previous)),
            None => previous.database.clone(),
        },
        api_keys: match tenant {
            Some(tenant) => api_keys(tenant, config),
            None => previous.api_keys.clone(),
        },
        conditions: summary.conditions(&previous.conditions, meta.generation, now),
    }
}

fn summary(
    tenant: Option<&Tenant>,
    reasons: &[Reason],
    database: NewCondition,
    programmed: Option<NewCondition>,
    within_limits: Option<NewCondition>,
    is_served: bool,
    arrives: impl Fn(ReasonCode) -> bool,
) -> Summary {
    let of_type = |kind: ConditionType| -> Vec<&Reason> {
        reasons.iter().filter(|reason| reason.code.condition() == kind).collect()
    };
    let mut verdicts = vec![NewCondition::of_reasons(
        ConditionType::Accepted,
        &of_type(ConditionType::Accepted),
        (ReasonCode::Accepted, "valid, and no other Tenant has what it claims"),
    )];
    if tenant.is_some() {
        verdicts.push(NewCondition::of_reasons(
            ConditionType::ResolvedRefs,
            &of_type(ConditionType::ResolvedRefs),
            (ReasonCode::ResolvedRefs, "every referenced Secret exists and is usable"),
        ));
        verdicts.push(database);
        verdicts.push(programmed.unwrap_or_else(|| {
            let message = "not served; see the other conditions";
            NewCondition::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, message)
        }));
    }
    verdicts.extend(within_limits);
    let suspended = tenant.filter(|tenant| tenant.spec.suspend).map(|_| {
        let message = "spec.suspend is true: API keys get 401 and no new deliveries are created";
        NewCondition::new(ConditionType::Ready, Truth::False, ReasonCode::Suspended, message)
    });
    let mut summary = Summary::of(verdicts, "the tenant is served as declared", suspended, arrives);
    let ready = &mut summary.ready;
    if is_served && ready.reason != ReasonCode::Suspended && ready.truth != Truth::True {
        ready.message.push_str("; the last good configuration stays served");
    }
    summary
}

/// The condition `WithinLimits`. Until the reached limits have been read, the previous condition about them stays.
fn within_limits(
    reasons: &[Reason],
    config: Option<&TenantConfig>,
    at_limit: Option<&BTreeSet<Limit>>,
    previous: &TenantStatus,
    generation: i64,
) -> NewCondition {
    let kind = ConditionType::WithinLimits;
    let above: Vec<_> = reasons.iter().filter(|reason| reason.code.condition() == kind).collect();
    if above.is_empty() && at_limit.is_none() {
        let last = conditions::reported(&previous.conditions, kind, generation);
        if let Some(last) = last.filter(|last| last.reason == ReasonCode::LimitReached) {
            return last;
        }
    }
    let reached = |limit: &Limit| {
        let value = config.map_or(String::new(), |config| format!(" of {}", config.limits.get(*limit)));
        let message = format!(
            "the Tenant is at its limit{value} again and again; what is above it gets 429, or waits; lower its load, or \
             declare more"
        );
        Reason { code: ReasonCode::LimitReached, field: format!("spec.limits.{limit}"), message }
    };
    let reached: Vec<Reason> = at_limit.into_iter().flatten().map(reached).collect();
    let all: Vec<&Reason> = above.into_iter().chain(&reached).collect();
    let good = (ReasonCode::WithinLimits, "what the Tenant declares in spec.limits holds");
    NewCondition::of_reasons(kind, &all, good)
}

/// The Events to publish with a status.
pub fn events(previous: &TenantStatus, status: &TenantStatus) -> Vec<ObjectEvent> {
    let ready = conditions::event_of(ConditionType::Ready, &previous.conditions, &status.conditions, true);
    ready.into_iter().collect()
}

/// The status of a paused object. It is about this generation: there is nothing to wait for.
pub fn paused(meta: &Meta, previous: &TenantStatus, now: Timestamp) -> TenantStatus {
    let conditions = conditions::paused(&previous.conditions, meta.generation, now);
    TenantStatus { observed_generation: Some(meta.generation), conditions, ..previous.clone() }
}

/// The status while dropping the database fails.
pub fn not_dropped(
    meta: &Meta,
    error: &DatabaseError,
    previous: &TenantStatus,
    now: Timestamp,
) -> TenantStatus {
    let message = format!(
        "the database is not dropped yet: {error}; to give up and keep it, set \
         spec.database.managed.deletionPolicy to Retain"
    );
    let verdict = NewCondition::new(ConditionType::DatabaseReady, Truth::False, reason_of(error), message);
    let summary = Summary::of(vec![verdict], "", None, |_| false);
    TenantStatus {
        observed_generation: Some(meta.generation),
        conditions: summary.conditions(&previous.conditions, meta.generation, now),
        ..previous.clone()
    }
}

/// The status after the API server refused a write. The previous pass's other conditions stay.
pub fn refused(meta: &Meta, error: &CallError, previous: &TenantStatus, now: Timestamp) -> TenantStatus {
    let verdict = |kind, truth| NewCondition::new(kind, truth, ReasonCode::ApiRefused, error.to_string());
    let verdicts =
        [verdict(ConditionType::Ready, Truth::False), verdict(ConditionType::Reconciling, Truth::True)];
    TenantStatus {
        observed_generation: Some(meta.generation),
        conditions: conditions::with_ready(&previous.conditions, &verdicts, meta.generation, now),
        ..previous.clone()
    }
}

/// The status of a Tenant whose runtime Secret must stay as it is, and `why`. The previous pass's other conditions stay.
pub fn unreadable(meta: &Meta, why: &str, previous: &TenantStatus, now: Timestamp) -> TenantStatus {
    let message = format!(
        "Secret {}: {why}; the operator leaves the Secret as it is and changes nothing for the Tenant; install the version of Docket that \
         wrote it, or restore the Secret; if you delete it, all sessions end",
        runtime::secret_name(&meta.uid)
    );
    let verdict =
        |kind, truth| NewCondition::new(kind, truth, ReasonCode::ConfigurationUnreadable, message.clone());
    let verdicts =
        [verdict(ConditionType::Ready, Truth::False), verdict(ConditionType::Stalled, Truth::True)];
    TenantStatus {
        observed_generation: Some(meta.generation),
        conditions: conditions::with_ready(&previous.conditions, &verdicts, meta.generation, now),
        ..previous.clone()
    }
}

fn of_database(
    database: &ProvisionedDatabase,
    waiting: Waiting,
    generation: i64,
    previous: &TenantStatus,
) -> NewCondition {
    let verdict =
        |truth, reason, message| NewCondition::new(ConditionType::DatabaseReady, truth, reason, message);
    match database {
        ProvisionedDatabase::Ready(ensured, _) if ensured.is_behind() => {
            let version = ensured.schema_version;
            let (truth, works) = match version < OLDEST {
                true => (Truth::False, "which the data plane of this version does not serve"),
                false => (Truth::True, "which works"),
            };
            let message = format!(
                "the database has schema version {version}, {works}; the migration to {NEWEST} waits for {waiting}"
            );
            verdict(truth, ReasonCode::MigrationPending, message)
        }
        ProvisionedDatabase::Ready(..) => verdict(
            Truth::True,
            ReasonCode::Migrated,
            "the database has the schema of this version".to_owned(),
        ),
        ProvisionedDatabase::Failed(error @ DatabaseError::ServerAway { .. }, _) => {
            // This pass could not check the database, so the previous condition stays.
            conditions::reported(&previous.conditions, ConditionType::DatabaseReady, generation)
                .unwrap_or_else(|| verdict(Truth::False, reason_of(error), error.to_string()))
        }
        ProvisionedDatabase::Failed(error, _) => verdict(Truth::False, reason_of(error), error.to_string()),
        ProvisionedDatabase::NotTried => verdict(
            Truth::False,
            ReasonCode::Provisioning,
            "the database is not provisioned until the other conditions are fixed".to_owned(),
        ),
    }
}

/// The reason of `DatabaseReady` for an error.
pub fn reason_of(error: &DatabaseError) -> ReasonCode {
    match error {
        DatabaseError::Unreachable { .. }
        | DatabaseError::ServerAway { .. }
        | DatabaseError::Refused { .. } => ReasonCode::Unreachable,
        DatabaseError::UrlRefused { .. } => ReasonCode::SecretInvalid,
        DatabaseError::NotOwned { .. } => ReasonCode::NotOwned,
        DatabaseError::MigrationFailed { .. } => ReasonCode::MigrationFailed,
        DatabaseError::SchemaNewer(_) => ReasonCode::SchemaNewer,
        DatabaseError::ServerUnknown { .. } => ReasonCode::ServerNotFound,
    }
}

fn database_status(
    tenant: &Tenant,
    database: &ProvisionedDatabase,
    previous: &TenantStatus,
) -> DatabaseStatus {
    let ensured = match database {
        ProvisionedDatabase::Ready(ensured, _) => Some(ensured),
        ProvisionedDatabase::Failed(..) | ProvisionedDatabase::NotTried => None,
    };
    let last = previous.database.clone().unwrap_or_default();
    let schema_version = ensured.map(|ensured| ensured.schema_version.to_string()).or(last.schema_version);
    match (&tenant.spec.database.managed, &tenant.spec.database.external) {
        (Some(managed), _) => DatabaseStatus {
            name: Some(managed.name.clone()),
            role: Some(role_of(&managed.name)),
            server: ensured.and_then(|ensured| ensured.server.clone()).or(last.server),
            secret_name: Some(generated::database_name(tenant).name),
            schema_version,
        },
        (None, Some(external)) => DatabaseStatus {
            secret_name: external.secret_name().map(str::to_owned),
            schema_version,
            ..DatabaseStatus::default()
        },
        (None, None) => DatabaseStatus::default(),
    }
}

fn api_keys(tenant: &Tenant, config: Option<&TenantConfig>) -> Vec<ApiKeyStatus> {
    let keys = tenant.spec.api_keys.iter().map(|spec| {
        let served = config.and_then(|config| config.api_keys.iter().find(|key| key.name == spec.name));
        let secret = match &spec.secret_key_ref {
            Some(secret) => secret.name.clone(),
            None => generated::api_key_name(tenant, &spec.name).name,
        };
        ApiKeyStatus {
            name: spec.name.clone(),
            active: spec.active,
            fingerprint: served.map(|key| key.digest.fingerprint()),
            secret_name: Some(secret),
        }
    });
    // The API server refuses a status with two entries of the same name. `Accepted` reports such a spec as invalid.
    let mut named = Vec::<ApiKeyStatus>::new();
    for key in keys {
        if named.iter().all(|other| other.name != key.name) {
            named.push(key);
        }
    }
    named
}
