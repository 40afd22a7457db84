//! I/O: hands what was compiled over to the data plane.
//!
//! The runtime Secret comes last: it refers to nothing that does not exist yet.

use docket_crds::conditions::{EventReason, Occurrence};
use docket_crds::{ConditionType, Runtime, Tenant, runtime};
use docket_program::apiserver::ApiServerError;

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::conditions;
use crate::state::name::Name;
use crate::state::object_event::ObjectEvent;
use crate::tenant::compile::Compiled;
use crate::tenant::fetch::Fetched;
use crate::tenant::{generated, stored};

/// A Tenant whose runtime Secret is as compiled, or refused by the API server.
#[derive(Debug)]
pub struct Applied<'a> {
    /// What was applied.
    pub compiled: Compiled<'a>,
    /// Why the API server refuses the runtime Secret: too many webhooks for one Secret, above all.
    pub refused: Option<String>,
}

impl Applied<'_> {
    /// The configuration that the data plane had before this pass, which may be the first one of this process.
    pub fn stored(&self) -> Option<&Runtime> {
        self.compiled.provisioned.stored().and_then(|stored| stored.runtime.as_ref())
    }

    /// The configuration that the data plane was handed, in this pass or before.
    pub fn handed_over(&self) -> Option<&Runtime> {
        self.compiled.runtime.as_ref().map(|(runtime, _)| runtime).filter(|_| self.refused.is_none())
    }
}

/// Removes Secrets that are no longer generated, then writes the runtime Secret if it differs.
pub async fn apply<'a>(context: &Context, compiled: Compiled<'a>) -> Result<Applied<'a>, CallError> {
    remove_orphans(context, &compiled).await?;
    match write_runtime(context, &compiled).await {
        Ok(()) => Ok(Applied { compiled, refused: None }),
        Err(CallError::Api(ApiServerError::Refused(why))) => Ok(Applied { compiled, refused: Some(why) }),
        Err(error) => Err(error),
    }
}

/// Removes Secrets that a valid Tenant and its Webhooks no longer have generated. One of a Webhook that can't be read stays.
async fn remove_orphans(context: &Context, compiled: &Compiled<'_>) -> Result<(), CallError> {
    let provisioned = &compiled.provisioned;
    let Some(tenant) = provisioned.tenant.filter(|_| provisioned.refused.is_empty()) else {
        return Ok(());
    };
    let (subject, meta) = (&provisioned.fetched.subject, provisioned.fetched.subject.meta());
    let mut wanted = generated::names(tenant);
    wanted.extend(webhooks_secrets(provisioned.fetched));
    wanted.push(Name::new(context.kube.release_namespace(), runtime::secret_name(&meta.uid)));
    let own = subject.own_secrets.iter().filter(|secret| secret.tenant_uid == meta.uid);
    for orphan in own.filter(|secret| !wanted.contains(&secret.name)) {
        context.kube.delete_secret(&orphan.name, &orphan.uid).await?;
    }
    Ok(())
}

/// The names of the Secrets that are, or may be, generated for Webhooks.
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
    let secret = stored::secret(namespace, &meta.name, &meta.uid, runtime, memory);
    context.kube.apply_secret(&secret).await?;
    tracing::info!(tenant = %meta.name, runtime.revision = runtime.revision, "handed over to the data plane");
    if lost_signing_keys(fetched) {
        context.kube.publish::<Tenant>(meta, &remade_signing_keys()).await;
    }
    Ok(())
}

/// Whether there was a runtime Secret once and the signing keys in it are gone.
fn lost_signing_keys(fetched: &Fetched) -> bool {
    let known = fetched.stored.as_ref().is_some_and(|stored| !stored.memory.signing_keys.is_empty());
    let programmed = conditions::find(&fetched.subject.previous.conditions, ConditionType::Programmed);
    !known && programmed.is_some_and(|programmed| programmed.status == "True")
}

fn remade_signing_keys() -> ObjectEvent {
    let note =
        "the runtime Secret was gone or damaged: new keys sign session tokens, and all sessions have ended";
    let reason = EventReason::Occurrence(Occurrence::SigningKeysRemade);
    ObjectEvent { reason, action: "Make", note: note.to_owned(), warning: true, secret: None }
}
