//! I/O: writes what was planned and built.
//!
//! The order is that of need: what a later step refers to is there before it. Values are made up once, under a guard,
//! before anything depends on them; the runtime Secret comes last, so that nobody is served what is not there.

use docket_crds::{Runtime, SecretBytes, Tenant, runtime};

use crate::{
    kube::client::CallError,
    state::{cluster::OwnSecret, declared::Meta, name::Name},
    tenant::{
        generated::{self, Planned, Step},
        stored::{self, Memory, Stored},
    },
    work::Operator,
};

/// Makes or replaces a Secret as planned, and tells it; answers its value.
pub async fn secret(operator: &Operator, meta: &Meta, planned: Planned) -> Result<SecretBytes, CallError> {
    let written = match planned.step {
        Step::Keep => return Ok(planned.value),
        Step::Create => operator.kube.create_secret(&planned.secret).await?,
        Step::Replace => operator.kube.replace_secret(&planned.secret).await?,
    };
    if let Some(own) = stored::own(&written, operator.kube.release_namespace()) {
        operator.cluster().own_written(own);
    }
    if let Some(news) = &planned.news {
        operator.kube.tell::<Tenant>(meta, news).await;
    }
    Ok(planned.value)
}

/// Writes the runtime Secret, if it is not like that already.
pub async fn runtime(
    operator: &Operator,
    meta: &Meta,
    found: Option<&Stored>,
    runtime: &Runtime,
    memory: &Memory,
) -> Result<bool, CallError> {
    if found.is_some_and(|found| found.is(runtime, memory)) {
        return Ok(false);
    }
    let namespace = operator.kube.release_namespace();
    let secret = stored::secret(namespace, &meta.name, &meta.uid, runtime, memory);
    let written = operator.kube.apply_secret(&secret).await?;
    if let Some(own) = stored::own(&written, operator.kube.release_namespace()) {
        operator.cluster().own_written(own);
    }
    Ok(true)
}

/// Removes what Tenants that are gone have left: it must not go on being served beside, or instead of, one of their name.
pub async fn remove_of_gone(
    operator: &Operator,
    secrets: impl Iterator<Item = &OwnSecret>,
) -> Result<(), CallError> {
    for secret in secrets {
        // What the watch has may be old: after a change of leaders, older than what the one before has made.
        if !operator.kube.lives::<Tenant>(&secret.tenant, &secret.tenant_uid).await? {
            operator.forget(&secret.tenant_uid);
            operator.kube.delete_secret(&secret.name, &secret.uid).await?;
        }
    }
    Ok(())
}

/// Removes Secrets of API keys that are no longer generated. `tenant`: what is declared; what it wants stays.
pub async fn remove_orphans(operator: &Operator, meta: &Meta, tenant: &Tenant) -> Result<(), CallError> {
    let generated = tenant.spec.api_keys.iter().filter(|key| key.generate.is_some());
    let mut wanted: Vec<Name> = generated.map(|key| generated::api_key_name(tenant, &key.name)).collect();
    wanted.extend(tenant.spec.database.managed.iter().map(|_| generated::database_name(tenant)));
    wanted.push(Name::new(operator.kube.release_namespace(), runtime::secret_name(&meta.uid)));
    let own = operator.cluster().own_secrets(&meta.name);
    for secret in own.iter().filter(|secret| secret.tenant_uid == meta.uid && !wanted.contains(&secret.name))
    {
        operator.kube.delete_secret(&secret.name, &secret.uid).await?;
    }
    Ok(())
}
