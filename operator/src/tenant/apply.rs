//! I/O: hands the compiled configuration over to the data plane.
//!
//! The runtime Secret comes after all that it refers to. The marks of unused signing secrets come last: nothing depends on them.

use std::collections::HashSet;

use docket_crds::conditions::{EventReason, Occurrence};
use docket_crds::{ConditionType, Runtime, Tenant, runtime};
use docket_program::apiserver::ApiServerError;
use jiff::Timestamp;

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::conditions;
use crate::state::name::Name;
use crate::state::object_event::ObjectEvent;
use crate::state::own_secrets::OwnSecret;
use crate::tenant::compile::Compiled;
use crate::tenant::fetch::Fetched;
use crate::tenant::kept::{self, KeptStep};
use crate::tenant::{generated, stored};

/// A Tenant after its runtime Secret was written, or refused by the API server.
#[derive(Debug)]
pub struct Applied<'a> {
    /// The compiled Tenant.
    pub compiled: Compiled<'a>,
    /// Why the API server refuses the runtime Secret: mostly because it has too many webhooks.
    pub refused: Option<String>,
}

impl Applied<'_> {
    /// The configuration that the data plane had before this pass, perhaps from an earlier process.
    pub fn stored(&self) -> Option<&Runtime> {
        self.compiled.provisioned.stored().and_then(|stored| stored.runtime.as_ref())
    }

    /// The configuration that the data plane has now, from this pass or an earlier one.
    pub fn handed_over(&self) -> Option<&Runtime> {
        self.compiled.runtime.as_ref().map(|(runtime, _)| runtime).filter(|_| self.refused.is_none())
    }
}

/// Removes Secrets that are no longer generated, then writes the runtime Secret if it differs. Signing secrets that no Webhook asks
/// for stay for a while.
pub async fn apply<'a>(context: &Context, compiled: Compiled<'a>) -> Result<Applied<'a>, CallError> {
    let wanted = wanted(context, &compiled);
    remove_orphans(context, &compiled, &wanted).await?;
    let refused = match write_runtime(context, &compiled).await {
        Ok(()) => None,
        Err(CallError::Api(ApiServerError::Refused(why))) => Some(why),
        Err(error) => return Err(error),
    };
    keep_unused(context, &compiled, &wanted).await?;
    Ok(Applied { compiled, refused })
}

/// The Tenant, if it is valid, and the Secrets that the operator made for it. A user's copy of such a Secret stays as it is.
fn own_secrets<'a>(compiled: &'a Compiled<'_>) -> Option<(&'a Tenant, impl Iterator<Item = &'a OwnSecret>)> {
    let provisioned = &compiled.provisioned;
    let tenant = provisioned.tenant.filter(|_| provisioned.refused.is_empty())?;
    let subject = &provisioned.fetched.subject;
    let uid = &subject.meta().uid;
    let own = subject.own_secrets.iter().filter(move |secret| secret.is_made && secret.tenant_uid == *uid);
    Some((tenant, own))
}

/// The names of the Secrets that a Tenant and its Webhooks have.
fn wanted(context: &Context, compiled: &Compiled<'_>) -> HashSet<Name> {
    let fetched = compiled.provisioned.fetched;
    let runtime = runtime::secret_name(&fetched.subject.meta().uid);
    let mut wanted: HashSet<Name> =
        compiled.provisioned.tenant.into_iter().flat_map(generated::names).collect();
    wanted.insert(Name::new(context.kube.release_namespace(), runtime));
    wanted.extend(webhooks_secrets(fetched));
    wanted
}

/// Removes keys and passwords that a valid Tenant no longer has generated.
async fn remove_orphans(
    context: &Context,
    compiled: &Compiled<'_>,
    wanted: &HashSet<Name>,
) -> Result<(), CallError> {
    let Some((_, own)) = own_secrets(compiled) else { return Ok(()) };
    for orphan in own.filter(|secret| !secret.signs && !wanted.contains(&secret.name)) {
        context.kube.delete_secret(&orphan.name, &orphan.uid).await?;
    }
    Ok(())
}

/// Marks the signing secrets that no Webhook of a valid Tenant asks for any more, and deletes those whose time has passed, or of too
/// many the oldest.
async fn keep_unused(
    context: &Context,
    compiled: &Compiled<'_>,
    wanted: &HashSet<Name>,
) -> Result<(), CallError> {
    let Some((tenant, own)) = own_secrets(compiled) else { return Ok(()) };
    let signing = own.filter(|secret| secret.signs);
    // Deliveries of a suspended tenant wait without a limit.
    let counts = !tenant.spec.suspend;
    let (grace, now) = (context.settings.webhook_grace, context.clock.now());
    for (secret, step) in kept::steps(signing, wanted, counts, grace, now) {
        match step {
            KeptStep::Keep => {}
            KeptStep::Mark(since) => mark(context, secret, since).await?,
            KeptStep::Delete => {
                tracing::info!(
                    tenant = %secret.tenant,
                    secret = %secret.name,
                    "deleting a signing secret: no Webhook asked for it in time, or the Tenant has too many unused ones"
                );
                context.kube.delete_unchanged_secret(secret).await?;
            }
        }
    }
    Ok(())
}

/// Writes since when a signing secret is unused; `None`: it is used.
async fn mark(context: &Context, secret: &OwnSecret, since: Option<Timestamp>) -> Result<(), CallError> {
    let _turn = context.kube.users_turn().await;
    let found = context.kube.secret(&secret.name).await?;
    let found = found.filter(|found| found.metadata.uid.as_ref() == Some(&secret.uid));
    // An earlier step of this pass may have written it.
    let Some(marked) = found.and_then(|found| kept::marked(found, since)) else { return Ok(()) };
    match context.kube.replace_secret(&marked).await {
        // Kubernetes has removed the owner that is gone, or the Secret: that change brings another pass.
        Err(CallError::Api(ApiServerError::NotFound | ApiServerError::Conflict)) => return Ok(()),
        written => written?,
    }
    if since.is_some() {
        tracing::info!(
            tenant = %secret.tenant,
            secret = %secret.name,
            "no Webhook asks for this signing secret: it is kept for some time, and signs again if the Webhook is created again"
        );
    }
    Ok(())
}

/// The names of the Secrets that are, or may be, generated for Webhooks. That of a Webhook that can't be read is one of them.
fn webhooks_secrets(fetched: &Fetched) -> Vec<Name> {
    let namespace = &fetched.subject.meta().name.namespace;
    let of_declared = fetched.subject.webhooks.iter().filter_map(|webhook| match &webhook.document {
        Ok(document) => document.generated_secret().filter(|_| document.metadata.namespace == *namespace),
        Err(_) => Some(docket_crds::webhook::generated_secret(&webhook.meta.name.name)),
    });
    let served =
        fetched.stored.iter().filter_map(|stored| stored.config()).flat_map(|config| &config.webhooks);
    let unreadable = served.filter(|webhook| fetched.unreadable_webhooks.contains(&webhook.uid));
    let of_unreadable = unreadable.map(|webhook| docket_crds::webhook::generated_secret(&webhook.name));
    of_declared.chain(of_unreadable).map(|name| Name::new(namespace, name)).collect()
}

async fn write_runtime(context: &Context, compiled: &Compiled<'_>) -> Result<(), CallError> {
    let fetched = compiled.provisioned.fetched;
    let meta = fetched.subject.meta();
    let Some((runtime, memory)) = &compiled.runtime else {
        return Ok(());
    };
    if fetched.stored.as_ref().is_some_and(|stored| stored.is(runtime, memory)) {
        return Ok(());
    }
    let namespace = context.kube.release_namespace();
    let mut secret = stored::secret(namespace, &meta.name, &meta.uid, runtime, memory);
    // A call of a frozen leader may arrive when the next leader has handed over since: other signing keys, or a later generation.
    match &fetched.stored {
        Some(stored) => {
            secret.metadata.resource_version.clone_from(&stored.resource_version);
            context.kube.apply_secret(&secret).await?;
        }
        None => context.kube.create_secret(&secret).await?,
    }
    tracing::info!(tenant = %meta.name, runtime.revision = runtime.revision, "configuration handed over to the data plane");
    if lost_signing_keys(fetched) {
        context.kube.publish::<Tenant>(meta, &remade_signing_keys()).await;
    }
    Ok(())
}

/// Whether a runtime Secret existed before, and its signing keys are lost.
fn lost_signing_keys(fetched: &Fetched) -> bool {
    let known = fetched.stored.as_ref().is_some_and(|stored| !stored.memory.signing_keys.is_empty());
    let programmed = conditions::find(&fetched.subject.previous.conditions, ConditionType::Programmed);
    !known && programmed.is_some_and(|programmed| programmed.status == "True")
}

fn remade_signing_keys() -> ObjectEvent {
    let note = "the runtime Secret was gone, or had no signing keys: new ones sign session tokens, and all sessions have ended";
    let reason = EventReason::Occurrence(Occurrence::SigningKeysRemade);
    ObjectEvent { reason, action: "Make", note: note.to_owned(), warning: true, secret: None }
}
