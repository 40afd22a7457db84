//! I/O: creates what a Tenant declares and the data plane needs: keys, passwords, the database.
//!
//! A later step refers only to things that exist. Values are generated once, with a guarded write, before anything
//! depends on them.

use std::collections::BTreeMap;

use docket_crds::tenant::DeletionPolicy;
use docket_crds::{
    ApiKeyDigest, ConditionType, DatabaseUrl, Reason, SecretBytes, SigningSecrets, Tenant, Webhook,
};

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::conditions;
use crate::state::declared::{DeclaredKind, Meta};
use crate::state::migrations::Waiting;
use crate::state::name::Name;
use crate::tenant::database::{
    CheckedDatabase, DatabaseCheck, ProvisionedDatabase, provision_database, server_of,
};
use crate::tenant::fetch::Fetched;
use crate::tenant::generated::{self, GeneratedSecret, PlannedSecret, SecretStep};
use crate::tenant::signing::{Rotated, rotate};
use crate::tenant::stored::Stored;
use crate::tenant::validate::{Refused, Valid};
use crate::tenant::watcher::watcher;

/// A Tenant with everything that was created for it, in this pass or before.
#[derive(Debug)]
pub struct Provisioned<'a> {
    /// Everything that was read for the Tenant.
    pub fetched: &'a Fetched,
    /// The declared Tenant; `None`: it can't be read.
    pub tenant: Option<&'a Tenant>,
    /// The reasons for which nothing new is created for the Tenant; empty: the Tenant is not refused.
    pub refused: Vec<Reason>,
    /// The subdomains that belong to an earlier Tenant.
    pub lost_subdomains: Vec<String>,
    /// Generated API keys, by name.
    pub api_keys: Vec<(String, SecretBytes)>,
    /// Generated signing secrets by the uids of their Webhooks, or why one could not be generated.
    pub webhook_secrets: BTreeMap<String, Result<SigningSecrets, Reason>>,
    /// The keys for session tokens; `None`: this pass does not rotate them.
    pub signing: Option<Rotated>,
    /// The database.
    pub database: ProvisionedDatabase,
    /// The URL of the watcher of a managed database's server; `None`: unknown.
    pub watcher: Option<DatabaseUrl>,
    /// Whether the database was checked in this pass.
    pub check: DatabaseCheck,
    /// What a migration of the database waits for, if it has not begun.
    pub migration_waits: Waiting,
    /// What could not be made.
    pub reasons: Vec<Reason>,
}

/// Adds the finalizer before there is a database to drop, and removes it when there is none to drop any more. Returns
/// whether it wrote. Then the pass must end: the watch reports the object again, with the version that guards the
/// next writes.
pub async fn finalizer(context: &Context, fetched: &Fetched) -> Result<bool, CallError> {
    let meta = fetched.subject.meta();
    let Ok(document) = &fetched.subject.tenant.document else {
        return Ok(false);
    };
    let managed = document.spec.database.managed.as_ref();
    let wanted = managed.is_some_and(|managed| managed.deletion_policy == DeletionPolicy::Delete);
    if wanted == meta.has_finalizer() {
        return Ok(false);
    }
    context.kube.set_finalizer::<Tenant>(meta, wanted).await?;
    Ok(true)
}

/// Creates everything that a valid Tenant declares. `check_database`: whether to check the database although nothing
/// about it changed. `waiting`: what a migration of the database waits for; `None`: it may begin.
pub async fn provision<'a>(
    context: &Context,
    valid: Valid<'a>,
    check_database: bool,
    waiting: Option<Waiting>,
) -> Result<Provisioned<'a>, CallError> {
    let (fetched, tenant) = (valid.fetched(), valid.tenant());
    let previous = &fetched.subject.previous;
    let mut reasons = Vec::new();
    let mut api_keys = Vec::new();
    for (index, spec) in tenant.spec.api_keys.iter().enumerate() {
        let reported = previous.api_keys.iter().find(|key| key.name == spec.name);
        let made_before = reported.is_some_and(|key| key.fingerprint.is_some());
        if let Some(wanted) = generated::of_api_key(tenant, index, spec, made_before)
            && let Some(value) = value(context, fetched, &wanted, &mut reasons).await?
        {
            api_keys.push((spec.name.clone(), value));
        }
    }
    let webhook_secrets = webhook_secrets(context, fetched).await?;
    let made_before = previous.database.as_ref().is_some_and(|database| database.schema_version.is_some());
    let password = match generated::of_database(tenant, made_before) {
        Some(wanted) => value(context, fetched, &wanted, &mut reasons).await?,
        None => None,
    };
    let CheckedDatabase { database, check } =
        provision_database(context, valid, password.as_ref(), check_database, waiting.is_none()).await;
    let watcher = match &tenant.spec.database.managed {
        Some(_) => watcher(context, server_of(&fetched.subject.tenant).as_deref()).await,
        None => None,
    };
    Ok(Provisioned {
        fetched,
        tenant: Some(tenant),
        refused: Vec::new(),
        lost_subdomains: Vec::new(),
        api_keys,
        webhook_secrets,
        signing: Some(signing(context, tenant, fetched)),
        database,
        watcher,
        check,
        migration_waits: waiting.unwrap_or(Waiting::Place),
        reasons,
    })
}

/// The value of a generated Secret, which is created if needed. `None`, with a reason: the Secret belongs to another owner.
async fn value(
    context: &Context,
    fetched: &Fetched,
    wanted: &GeneratedSecret,
    reasons: &mut Vec<Reason>,
) -> Result<Option<SecretBytes>, CallError> {
    let (found, tenant, now) = (fetched.secret(&wanted.name), fetched.subject.meta(), context.clock.now());
    match wanted.plan(found, None, tenant, now, &mut { context.random }) {
        Ok(planned) => {
            write::<Tenant>(context, tenant, &planned).await?;
            Ok(Some(planned.value))
        }
        Err(reason) => {
            reasons.push(reason);
            Ok(None)
        }
    }
}

/// The generated signing secrets of Webhooks, which are created if needed.
async fn webhook_secrets(
    context: &Context,
    fetched: &Fetched,
) -> Result<BTreeMap<String, Result<SigningSecrets, Reason>>, CallError> {
    let mut made = BTreeMap::new();
    let tenant = fetched.subject.meta();
    for webhook in &fetched.placed {
        let Some(wanted) = generated::of_webhook(tenant, webhook, was_generated(fetched, &webhook.meta.uid))
        else {
            continue;
        };
        let aside = wanted.aside(tenant);
        let (found, now) = (fetched.secret(&wanted.name), context.clock.now());
        let copy = aside.as_ref().and_then(|name| fetched.secret(name));
        let value = match wanted.plan(found, copy, tenant, now, &mut { context.random }) {
            Ok(planned) => match set_aside(context, &wanted, &planned).await? {
                None => {
                    write::<Webhook>(context, &webhook.meta, &planned).await?;
                    if let Some(name) = aside.filter(|_| planned.ends_aside) {
                        end_aside(context, fetched, &name).await?;
                    }
                    Ok(SigningSecrets { current: planned.value, next: planned.next })
                }
                Some(reason) => Err(reason),
            },
            Err(reason) => Err(reason),
        };
        made.insert(webhook.meta.uid.clone(), value);
    }
    Ok(made)
}

/// Whether the webhook is served with a secret in the form of a generated value.
fn was_generated(fetched: &Fetched, uid: &str) -> bool {
    let served =
        fetched.stored.as_ref().and_then(Stored::config).into_iter().flat_map(|config| &config.webhooks);
    let secret = served.filter(|webhook| webhook.uid == uid).find_map(|webhook| webhook.secret.as_ref());
    let text = secret.and_then(|secret| std::str::from_utf8(secret.expose()).ok());
    text.is_some_and(|text| ApiKeyDigest::of(text).is_ok())
}

/// Sets aside what the Secret held for a Webhook of another customer or Tenant. Returns why it can't.
async fn set_aside(
    context: &Context,
    wanted: &GeneratedSecret,
    planned: &PlannedSecret,
) -> Result<Option<Reason>, CallError> {
    let Some(kept) = &planned.set_aside else { return Ok(None) };
    let is_written = context.kube.put_secret(kept).await?;
    Ok((!is_written).then(|| wanted.is_not_set_aside(kept)))
}

/// Deletes a Secret that was set aside, unless it was written since this pass began: a Tenant to which the Webhook moves may be setting
/// its value aside again.
async fn end_aside(context: &Context, fetched: &Fetched, name: &Name) -> Result<(), CallError> {
    match fetched.subject.own_secrets.iter().find(|own| own.name == *name) {
        Some(own) => context.kube.delete_unchanged_secret(own).await,
        None => Ok(()),
    }
}

async fn write<T: DeclaredKind>(
    context: &Context,
    owner: &Meta,
    planned: &PlannedSecret,
) -> Result<(), CallError> {
    match planned.step {
        SecretStep::Keep => return Ok(()),
        SecretStep::Create => context.kube.create_secret(&planned.secret).await?,
        SecretStep::Replace => context.kube.replace_secret(&planned.secret).await?,
    }
    if let Some(event) = &planned.event {
        context.kube.publish::<T>(owner, event).await;
    }
    Ok(())
}

fn signing(context: &Context, tenant: &Tenant, fetched: &Fetched) -> Rotated {
    let known = fetched.stored.as_ref().map(|stored| stored.memory.signing_keys.clone()).unwrap_or_default();
    let programmed = conditions::find(&fetched.subject.previous.conditions, ConditionType::Programmed);
    let distributed = programmed.is_none_or(|programmed| programmed.status == "True");
    let days = tenant.spec.tokens.signing_key_rotation_days;
    rotate(known, days, distributed, context.clock.now(), &mut { context.random })
}

impl<'a> Provisioned<'a> {
    /// The state of a Tenant that is refused: nothing new is created, and what it has stays.
    pub fn unchanged(refused: Refused<'a>) -> Self {
        let Refused { fetched, tenant, reasons, lost_subdomains } = refused;
        let keys = tenant.into_iter().flat_map(|tenant| {
            let specs = tenant.spec.api_keys.iter().enumerate();
            specs.filter_map(move |(index, spec)| {
                let wanted = generated::of_api_key(tenant, index, spec, true)?;
                let value = wanted.value(fetched.secret(&wanted.name)?, fetched.subject.meta())?;
                Some((spec.name.clone(), value))
            })
        });
        let secrets = fetched.subject.webhooks.iter().filter_map(|webhook| {
            let wanted = generated::of_webhook(fetched.subject.meta(), webhook, true)?;
            let secret = fetched.secret(&wanted.name)?;
            let current = wanted.value(secret, fetched.subject.meta())?;
            Some((webhook.meta.uid.clone(), Ok(SigningSecrets { current, next: wanted.next(secret) })))
        });
        Self {
            fetched,
            tenant,
            refused: reasons,
            lost_subdomains,
            api_keys: keys.collect(),
            webhook_secrets: secrets.collect(),
            signing: None,
            database: ProvisionedDatabase::unchanged(fetched),
            watcher: None,
            check: DatabaseCheck::NotDue,
            migration_waits: Waiting::OtherConditions,
            reasons: Vec::new(),
        }
    }

    /// The runtime Secret from an earlier pass.
    pub fn stored(&self) -> Option<&'a Stored> {
        self.fetched.stored.as_ref()
    }
}
