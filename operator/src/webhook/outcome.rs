//! Pure: the outcome of a Webhook from its Tenant's pass, or why there is none.

use docket_crds::compile::unreachable_tenant;
use docket_crds::{ConditionType, Reason, ReasonCode, Tenant, Webhook, WebhookStatus};

use crate::state::cluster::ClusterState;
use crate::state::conditions;
use crate::state::declared::Declared;
use crate::state::outcome::WebhookOutcome;

/// The outcome to report. `None`: there was no pass of its Tenant over this generation yet, or everything is reported already.
pub fn outcome(
    cluster: &ClusterState,
    webhook: &Declared<Webhook>,
    previous: &WebhookStatus,
) -> Option<WebhookOutcome> {
    let document = match &webhook.document {
        Ok(document) => document,
        Err(violations) => {
            let reasons = violations.iter().cloned().map(Reason::from).collect();
            return Some(of_reasons(webhook, reasons, false));
        }
    };
    let tenant = cluster.tenant(webhook.tenant_ref.as_ref()?);
    let known = cluster.outcome(&webhook.meta.uid);
    let current = known.filter(|known| known.generation == webhook.meta.generation);
    match tenant {
        None => Some(of_reasons(webhook, vec![unreachable_tenant(document)], false)),
        Some(tenant) if tenant.meta.deleting.is_some() => {
            Some(of_reasons(webhook, vec![lost_tenant(document, Lost::Deleting)], false))
        }
        Some(tenant)
            if tenant.meta.paused || tenant.document.is_err() || (current.is_none() && is_left(&tenant)) =>
        {
            // There is no pass of its Tenant, so the last report about this generation stays.
            if current.is_some() || previous.observed_generation == Some(webhook.meta.generation) {
                return current.filter(|_| tenant.document.is_ok()).cloned();
            }
            let served = known.is_some_and(|known| known.served);
            Some(of_reasons(webhook, vec![lost_tenant(document, Lost::NotReady)], served))
        }
        Some(_) => current.cloned(),
    }
}

/// Whether the operator leaves a Tenant as it is, because it can't read the Tenant's runtime Secret.
fn is_left(tenant: &Declared<Tenant>) -> bool {
    let status = tenant.status();
    let ready = conditions::find(&status.conditions, ConditionType::Ready);
    ready.is_some_and(|ready| ready.reason == ReasonCode::ConfigurationUnreadable.as_str())
}

fn of_reasons(webhook: &Declared<Webhook>, reasons: Vec<Reason>, served: bool) -> WebhookOutcome {
    WebhookOutcome {
        webhook: webhook.meta.name.clone(),
        uid: webhook.meta.uid.clone(),
        generation: webhook.meta.generation,
        reasons,
        served,
        signed: webhook.document.as_ref().is_ok_and(Webhook::is_signed),
        secret_version: None,
        warning: None,
        tenant_suspended: false,
        programmed: None,
    }
}

/// Why an existing Tenant does not serve the webhook.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Deleting,
    NotReady,
}

/// The reason if a webhook's Tenant does nothing for it. In another namespace than the Tenant's, it is the same as if
/// the Tenant did not exist, so that it does not reveal that the Tenant exists.
fn lost_tenant(webhook: &Webhook, lost: Lost) -> Reason {
    if webhook.tenant_namespace() != webhook.metadata.namespace {
        return unreachable_tenant(webhook);
    }
    let name = &webhook.spec.tenant_ref.name;
    let (code, message) = match lost {
        Lost::Deleting => (ReasonCode::TenantNotFound, format!("Tenant {name:?} is being deleted")),
        Lost::NotReady => (
            ReasonCode::TenantNotReady,
            format!(
                "Tenant {name:?} is paused, or it or its runtime Secret can't be read; see its conditions"
            ),
        ),
    };
    Reason { code, field: "spec.tenantRef".to_owned(), message }
}
