//! Pure: everything fetched and made becomes what should exist, and what is to be said about it.

use std::collections::{BTreeSet, HashSet};

use docket_crds::{
    ApiKeyDigest, Compiled, EventCode, Generated, GeneratedDatabase, Inputs, Reason, Runtime, SecretBytes,
    Tenant, TenantConfig, ValueKind, Webhook, WebhookConfig, compile::compile, conditions::ReasonCode,
};

use crate::{
    state::{declared::Declared, name::Name},
    tenant::{
        database::Database,
        fetch::{Fetched, Subject},
        signing::Rotated,
        stored::Memory,
    },
    webhook::Outcome,
};

/// What was made for a tenant in this pass, or found made.
#[derive(Debug)]
pub struct Made {
    /// Generated API keys, by name.
    pub api_keys: Vec<(String, SecretBytes)>,
    /// Token keys.
    pub signing: Rotated,
    /// The database.
    pub database: Database,
    /// What could not be made.
    pub reasons: Vec<Reason>,
}

/// What came of a tenant.
#[derive(Debug)]
pub struct Built {
    /// The runtime Secret's content; `None`: there is nothing to serve.
    pub runtime: Option<(Runtime, Memory)>,
    /// Everything that is wrong with the Tenant, whether it is served or not.
    pub reasons: Vec<Reason>,
    /// Each Webhook that names the tenant.
    pub webhooks: Vec<(Name, String, Outcome)>,
}

impl Built {
    /// Takes out API keys that another Tenant has, and says so.
    pub fn without_keys(&mut self, tenant: &Tenant, taken: &HashSet<ApiKeyDigest>) {
        let Some((runtime, _)) = self.runtime.as_mut().filter(|_| !taken.is_empty()) else {
            return;
        };
        let Runtime { generation, mut config, held_webhooks, .. } = runtime.clone();
        for key in config.api_keys.extract_if(.., |key| taken.contains(&key.digest)) {
            let index = tenant.spec.api_keys.iter().position(|spec| spec.name == key.name);
            let field = format!("spec.apiKeys[{}]", index.unwrap_or_default());
            let message =
                "another Tenant, which is older, has this very key; give this one its own".to_owned();
            self.reasons.push(Reason { code: ReasonCode::SecretInvalid, field, message });
        }
        *runtime = Runtime::new(generation, config, held_webhooks);
    }
}

/// Whether the Webhook of this name and uid is there and can't be read at all.
pub type IsUnreadable<'a> = &'a dyn Fn(&Name, &str) -> bool;

/// Compiles a tenant that can be read. `refused`: why nothing new is made for it, if so.
pub fn build(
    subject: &Subject,
    tenant: &Tenant,
    refused: &[Reason],
    fetched: &Fetched,
    made: &Made,
    platform_disabled_events: &BTreeSet<EventCode>,
    is_unreadable: IsUnreadable<'_>,
) -> Built {
    let stored = fetched.stored.as_ref();
    let previous = stored.and_then(|stored| stored.config()).map(|config| without_lost(config, refused));
    let readable: Vec<(&Declared<Webhook>, (String, Webhook))> = subject
        .webhooks
        .iter()
        .filter_map(|declared| {
            let document = declared.document.as_ref().ok()?;
            Some((&**declared, (declared.meta.uid.clone(), document.clone())))
        })
        .collect();
    let webhooks: Vec<_> = readable.iter().map(|(_, webhook)| webhook.clone()).collect();
    let generated = generated(made, previous.as_ref());
    let inputs = Inputs {
        tenant,
        uid: &subject.tenant.meta.uid,
        webhooks: &webhooks,
        values: fetched,
        generated: &generated,
        platform_disabled_events,
        namespace_labels: &|namespace| fetched.labels(namespace),
    };
    let mut compiled = compile(&inputs);
    if refused.iter().any(|reason| reason.code != ReasonCode::InvalidSpec) {
        compiled.config = Err(refused.to_vec());
    }
    if let Some(previous) = &previous {
        compiled = compiled.or_last_good(&inputs, previous);
    }
    let mut reasons = made.reasons.clone();
    for reason in compiled.config.as_ref().err().into_iter().flatten().chain(&compiled.degraded) {
        if !reasons.contains(reason) && !is_told_better(reason, &reasons) {
            reasons.push(reason.clone());
        }
    }
    let Compiled { config, webhooks: told, .. } = compiled;
    let mut config = config.ok();
    if let (Some(config), Some(previous)) = (config.as_mut(), &previous) {
        config.webhooks.extend(unreadable_webhooks(config, previous, is_unreadable));
    }
    let outcomes = told.into_iter().map(|(index, reasons)| {
        let (declared, _) = readable[index];
        let served = config.as_ref().is_some_and(|config| serves(config, &declared.meta.uid));
        let outcome = outcome(declared, reasons, served, tenant.spec.suspend, fetched);
        (declared.meta.name.clone(), declared.meta.uid.clone(), outcome)
    });
    let webhooks: Vec<_> = outcomes.collect();
    let runtime = config.map(|config| {
        let held = held(subject, &config, &webhooks, stored.and_then(|stored| stored.runtime.as_ref()));
        let runtime = Runtime::new(subject.tenant.meta.generation, config, held);
        (runtime, memory(made, fetched))
    });
    Built { runtime, reasons, webhooks }
}

/// The last configuration without subdomains that another tenant has now.
fn without_lost(previous: &TenantConfig, refused: &[Reason]) -> TenantConfig {
    let lost = |subdomain: &&String| {
        let quoted = format!("{subdomain:?}");
        let conflicts = refused.iter().filter(|reason| reason.code == ReasonCode::SubdomainConflict);
        conflicts.into_iter().any(|reason| reason.message.contains(&quoted))
    };
    let subdomains = previous.subdomains.iter().filter(|subdomain| !lost(subdomain)).cloned().collect();
    TenantConfig { subdomains, ..previous.clone() }
}

fn generated(made: &Made, previous: Option<&TenantConfig>) -> Generated {
    let text = |value: &SecretBytes| String::from_utf8_lossy(value.expose()).into_owned();
    let served = previous.and_then(|previous| previous.database.as_ref());
    let url = match (&made.database, served) {
        (Database::Ready(_, url), _) => Some(url),
        // The password before this one is over, and the schema goes on as it is.
        (Database::Failed(_, Some(url)), Some(served)) if url.is_same_database(served) => Some(url),
        // What was ensured before is served on; that it could not be seen to is told by DatabaseReady.
        (Database::Failed(..) | Database::NotTried, served) => served,
    };
    Generated {
        api_keys: made.api_keys.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        signing_keys: made.signing.signing_keys(),
        database: GeneratedDatabase::Ensured(url.cloned()),
    }
}

/// That a key has not been made says less than why it could not be.
fn is_told_better(reason: &Reason, told: &[Reason]) -> bool {
    reason.code == ReasonCode::Pending && told.iter().any(|other| other.field == reason.field)
}

fn memory(made: &Made, fetched: &Fetched) -> Memory {
    let database = match &made.database {
        Database::Ready(ensured, _) => Some(ensured.clone()),
        Database::Failed(..) | Database::NotTried => {
            fetched.stored.as_ref().and_then(|stored| stored.memory.database.clone())
        }
    };
    Memory { signing_keys: made.signing.keys.clone(), database }
}

fn serves(config: &TenantConfig, webhook_uid: &str) -> bool {
    config.webhooks.iter().any(|webhook| webhook.uid == webhook_uid)
}

/// Whether both serve a webhook, and in the same way.
pub fn same_webhook(one: &TenantConfig, other: &TenantConfig, uid: &str) -> bool {
    let of = |config: &TenantConfig| config.webhooks.iter().find(|webhook| webhook.uid == uid).cloned();
    of(one).is_some() && of(one) == of(other)
}

/// Webhooks that were served and whose object is there but can't be read.
fn unreadable_webhooks(
    config: &TenantConfig,
    previous: &TenantConfig,
    is_unreadable: IsUnreadable<'_>,
) -> Vec<WebhookConfig> {
    let gone = previous.webhooks.iter().filter(|webhook| !serves(config, &webhook.uid));
    let unreadable =
        gone.filter(|webhook| is_unreadable(&Name::new(&webhook.namespace, &webhook.name), &webhook.uid));
    unreadable.cloned().collect()
}

/// Webhooks that are declared and not served: what is queued for them waits. One that the tenant does not allow is
/// held only if it once was served, so that strangers cannot fill the tenant's Secret.
fn held(
    subject: &Subject,
    config: &TenantConfig,
    told: &[(Name, String, Outcome)],
    previous: Option<&Runtime>,
) -> BTreeSet<String> {
    let known = |uid: &String| {
        previous.is_some_and(|previous| previous.held_webhooks.contains(uid) || serves(&previous.config, uid))
    };
    let forbidden = |uid: &String| {
        let outcome = told.iter().find(|(_, told, _)| told == uid);
        outcome.is_some_and(|(_, _, outcome)| {
            outcome.reasons.iter().any(|reason| reason.code == ReasonCode::RefNotPermitted)
        })
    };
    let declared = subject.webhooks.iter().map(|webhook| webhook.meta.uid.clone());
    declared.filter(|uid| !serves(config, uid) && (known(uid) || !forbidden(uid))).collect()
}

fn outcome(
    declared: &Declared<Webhook>,
    reasons: Vec<Reason>,
    served: bool,
    tenant_suspended: bool,
    fetched: &Fetched,
) -> Outcome {
    let secret = declared.document.as_ref().ok().and_then(|webhook| webhook.spec.secret_ref.as_ref());
    let secret_version = secret.and_then(|secret| {
        let name = Name::new(&declared.meta.name.namespace, &secret.name);
        fetched.version(ValueKind::Secret, &name).map(str::to_owned)
    });
    Outcome {
        generation: declared.meta.generation,
        reasons,
        served,
        signed: secret.is_some(),
        secret_version,
        tenant_suspended,
        programmed: None,
    }
}

/// A tenant that can't be read: what was served goes on untouched, and nothing is said about its Webhooks.
pub fn unreadable(reasons: Vec<Reason>) -> Built {
    Built { runtime: None, reasons, webhooks: Vec::new() }
}
