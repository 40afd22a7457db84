//! Pure: what a Tenant's status says.

use docket_crds::{
    Reason, Tenant, TenantConfig, TenantStatus,
    conditions::{ConditionType, ReasonCode},
    status::{ApiKeyStatus, DatabaseStatus},
};
use jiff::Timestamp;

use crate::{
    database::{DatabaseError, role_of},
    kube::client::CallError,
    state::{
        conditions::{self, Truth, Verdict},
        declared::Meta,
    },
    tenant::{database::Database, generated},
};

/// What is known after a pass.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The object.
    pub meta: &'a Meta,
    /// What it declares; `None`: it can't be read.
    pub tenant: Option<&'a Tenant>,
    /// All that is wrong.
    pub reasons: &'a [Reason],
    /// What is handed to the data plane.
    pub config: Option<&'a TenantConfig>,
    /// The database.
    pub database: &'a Database,
    /// Whether the data plane serves it; `None`: there is nothing to serve.
    pub programmed: Option<Verdict>,
}

/// The status after a pass.
pub fn status(facts: &Facts<'_>, previous: &TenantStatus, now: Timestamp) -> TenantStatus {
    let of_type = |kind: ConditionType| -> Vec<&Reason> {
        facts.reasons.iter().filter(|reason| reason.code.condition() == kind).collect()
    };
    let mut verdicts = vec![Verdict::of_reasons(
        ConditionType::Accepted,
        &of_type(ConditionType::Accepted),
        (ReasonCode::Accepted, "valid, and nothing it wants is another Tenant's"),
    )];
    if facts.tenant.is_some() {
        verdicts.push(Verdict::of_reasons(
            ConditionType::ResolvedRefs,
            &of_type(ConditionType::ResolvedRefs),
            (ReasonCode::ResolvedRefs, "every Secret it refers to is there and usable"),
        ));
        verdicts.push(database(facts.database));
        verdicts.push(facts.programmed.clone().unwrap_or_else(|| {
            let message = "not served, for the reasons of the other conditions";
            Verdict::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, message)
        }));
    }
    let suspended = facts.tenant.filter(|tenant| tenant.spec.suspend).map(|_| {
        let message = "spec.suspend is true: API keys answer 401 and no new deliveries are made";
        Verdict::new(ConditionType::Ready, Truth::False, ReasonCode::Suspended, message)
    });
    let mut verdicts = conditions::summarized(verdicts, "the tenant is served as declared", suspended);
    if facts.config.is_some()
        && verdicts[0].reason != ReasonCode::Suspended
        && verdicts[0].truth != Truth::True
    {
        verdicts[0].message.push_str("; what could be served before goes on being served");
    }
    TenantStatus {
        observed_generation: Some(facts.meta.generation),
        last_handled_reconcile_at: facts.meta.requested_at.clone(),
        webhooks: match facts.tenant {
            Some(_) => Some(
                facts.config.map_or(0, |config| u32::try_from(config.webhooks.len()).unwrap_or(u32::MAX)),
            ),
            None => previous.webhooks,
        },
        database: match facts.tenant {
            Some(tenant) => Some(database_status(tenant, facts.database, previous)),
            None => previous.database.clone(),
        },
        api_keys: match facts.tenant {
            Some(tenant) => api_keys(tenant, facts.config),
            None => previous.api_keys.clone(),
        },
        conditions: conditions::conditions(&previous.conditions, &verdicts, facts.meta.generation, now),
    }
}

/// The status of a paused object.
pub fn paused(meta: &Meta, previous: &TenantStatus, now: Timestamp) -> TenantStatus {
    let conditions = conditions::paused(&previous.conditions, meta.generation, now);
    TenantStatus { conditions, ..previous.clone() }
}

/// The status while the database can't be dropped.
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
    let verdict = Verdict::new(ConditionType::DatabaseReady, Truth::False, reason_of(error), message);
    let verdicts = conditions::summarized(vec![verdict], "", None);
    TenantStatus {
        observed_generation: Some(meta.generation),
        conditions: conditions::conditions(&previous.conditions, &verdicts, meta.generation, now),
        ..previous.clone()
    }
}

/// The status after the API server has not let us do what we have to; the conditions of what was seen before stay.
pub fn refused(meta: &Meta, error: &CallError, previous: &TenantStatus, now: Timestamp) -> TenantStatus {
    let verdict = |kind, truth| Verdict::new(kind, truth, ReasonCode::ApiRefused, error.to_string());
    let verdicts =
        [verdict(ConditionType::Ready, Truth::False), verdict(ConditionType::Reconciling, Truth::True)];
    TenantStatus {
        observed_generation: Some(meta.generation),
        conditions: conditions::with_ready(&previous.conditions, &verdicts, meta.generation, now),
        ..previous.clone()
    }
}

fn database(database: &Database) -> Verdict {
    let verdict = |truth, reason, message| Verdict::new(ConditionType::DatabaseReady, truth, reason, message);
    match database {
        Database::Ready(..) => verdict(
            Truth::True,
            ReasonCode::Migrated,
            "the database has the schema of this version".to_owned(),
        ),
        Database::Failed(error, _) => verdict(Truth::False, reason_of(error), error.to_string()),
        Database::NotTried => verdict(
            Truth::False,
            ReasonCode::Provisioning,
            "nothing is done about the database before the other conditions are mended".to_owned(),
        ),
    }
}

fn reason_of(error: &DatabaseError) -> ReasonCode {
    match error {
        DatabaseError::Unreachable { .. } | DatabaseError::Refused { .. } => ReasonCode::Unreachable,
        DatabaseError::NotOwned { .. } => ReasonCode::NotOwned,
        DatabaseError::MigrationFailed { .. } => ReasonCode::MigrationFailed,
        DatabaseError::SchemaNewer(_) => ReasonCode::SchemaNewer,
        DatabaseError::ServerUnknown { .. } => ReasonCode::ServerNotFound,
    }
}

fn database_status(tenant: &Tenant, database: &Database, previous: &TenantStatus) -> DatabaseStatus {
    let ensured = match database {
        Database::Ready(ensured, _) => Some(ensured),
        Database::Failed(..) | Database::NotTried => None,
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
            secret_name: Some(external.secret_key_ref.name.clone()),
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
    // A status with two entries of one name is refused; such a spec is told to be invalid.
    let mut named = Vec::<ApiKeyStatus>::new();
    for key in keys {
        if named.iter().all(|other| other.name != key.name) {
            named.push(key);
        }
    }
    named
}
