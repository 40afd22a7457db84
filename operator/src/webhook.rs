//! The driver of Webhooks: what became of one, in its status. What is served of it is its Tenant's business.

pub mod status;

use docket_crds::{
    Reason, TargetUrl, Webhook, WebhookStatus,
    compile::unreachable_tenant,
    conditions::{ConditionType, ReasonCode},
};

use crate::{
    kube::client::CallError,
    state::{
        conditions::{self, Verdict},
        declared::Declared,
        name::Name,
    },
    webhook::status::Facts,
    work::{Operator, queue::Done},
};

/// What its Tenant's compilation said about a Webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The Webhook's generation that was compiled.
    pub generation: i64,
    /// What is wrong with it.
    pub reasons: Vec<Reason>,
    /// It is in what the data plane serves, perhaps as it last was good.
    pub served: bool,
    /// It asks for signatures.
    pub signed: bool,
    /// The version of the Secret that signs.
    pub secret_version: Option<String>,
    /// Its Tenant is suspended.
    pub tenant_suspended: bool,
    /// Whether the data plane serves what it was handed; `None`: it was handed nothing.
    pub programmed: Option<Verdict>,
}

/// One pass over a Webhook.
pub async fn reconcile(operator: &Operator, name: &Name) -> Result<Done, CallError> {
    let Some(webhook) = operator.cluster().webhook(name) else {
        operator.metrics.forget::<Webhook>(name);
        return Ok(Done::After(None));
    };
    if webhook.meta.deleting.is_some() {
        return Ok(Done::After(None));
    }
    let previous: WebhookStatus = webhook.status();
    let now = operator.now();
    if webhook.meta.paused {
        let status = status::paused(&webhook.meta, &previous, now);
        set_status(operator, &webhook, &previous, &status).await?;
        return Ok(Done::After(None));
    }
    let Some(outcome) = outcome(operator, &webhook, &previous) else {
        // Its Tenant is being looked at, and this one after it.
        return Ok(Done::After(None));
    };
    let health = operator.health(&webhook.meta.uid);
    let observed = operator.reads_the_board();
    let target = webhook.document.as_ref().ok().map(|document| document.spec.target_url.parse::<TargetUrl>());
    let is_private = target.is_some_and(|target| target.is_ok_and(|target| target.is_private_address()));
    let facts =
        Facts { meta: &webhook.meta, outcome: &outcome, health: health.as_ref(), observed, is_private };
    let status = status::status(&facts, &previous, now);
    set_status(operator, &webhook, &previous, &status).await?;
    Ok(Done::After(None))
}

/// What there is to say; `None` while the Tenant has not been looked at for this generation, and where all was said.
fn outcome(operator: &Operator, webhook: &Declared<Webhook>, previous: &WebhookStatus) -> Option<Outcome> {
    let mut served = false;
    let reasons = match &webhook.document {
        Err(violations) => violations.iter().cloned().map(Reason::from).collect(),
        Ok(document) => {
            let cluster = operator.cluster();
            let tenant = cluster.tenant(webhook.tenant_ref.as_ref()?);
            let known = cluster.outcome(&webhook.meta.uid);
            let current = known.filter(|known| known.generation == webhook.meta.generation);
            match tenant {
                None => vec![unreachable_tenant(document)],
                Some(tenant) if tenant.meta.deleting.is_some() => {
                    vec![lost_tenant(document, Lost::Deleting)]
                }
                Some(tenant) if tenant.meta.paused || tenant.document.is_err() => {
                    // Nobody looks at it, so what was said of this generation stays said.
                    if current.is_some() || previous.observed_generation == Some(webhook.meta.generation) {
                        return current.filter(|_| tenant.document.is_ok()).cloned();
                    }
                    served = known.is_some_and(|known| known.served);
                    vec![lost_tenant(document, Lost::NotReady)]
                }
                Some(_) => return current.cloned(),
            }
        }
    };
    Some(Outcome {
        generation: webhook.meta.generation,
        reasons,
        served,
        signed: webhook.document.as_ref().is_ok_and(|document| document.spec.secret_ref.is_some()),
        secret_version: None,
        tenant_suspended: false,
        programmed: None,
    })
}

/// How a Tenant that exists is of no use to its webhooks.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Deleting,
    NotReady,
}

/// Why a webhook's Tenant does nothing for it. Across namespaces it is what is told where there is none: that there is one
/// is nobody's business there.
fn lost_tenant(webhook: &Webhook, lost: Lost) -> Reason {
    if webhook.tenant_namespace() != webhook.metadata.namespace {
        return unreachable_tenant(webhook);
    }
    let name = &webhook.spec.tenant_ref.name;
    let (code, message) = match lost {
        Lost::Deleting => (ReasonCode::TenantNotFound, format!("Tenant {name:?} is being deleted")),
        Lost::NotReady => (
            ReasonCode::TenantNotReady,
            format!("Tenant {name:?} is paused or can't be read; see its conditions"),
        ),
    };
    Reason { code, field: "spec.tenantRef".to_owned(), message }
}

async fn set_status(
    operator: &Operator,
    webhook: &Declared<Webhook>,
    previous: &WebhookStatus,
    status: &WebhookStatus,
) -> Result<(), CallError> {
    operator.metrics.conditions::<Webhook>(&webhook.meta.name, &status.conditions);
    if status == previous {
        return Ok(());
    }
    let body = serde_json::to_value(status).expect("a status is plain data");
    let written = operator.kube.apply_status::<Webhook>(&webhook.meta, &body).await?;
    if let Some(written) = Declared::read(written) {
        operator.cluster().webhook_written(written, &webhook.meta);
    }
    for kind in [ConditionType::Ready, ConditionType::DeliveryHealthy] {
        if let Some(news) = conditions::news_of(kind, &previous.conditions, &status.conditions, false) {
            operator.kube.tell::<Webhook>(&webhook.meta, &news).await;
        }
    }
    Ok(())
}
