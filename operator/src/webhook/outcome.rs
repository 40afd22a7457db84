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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::state::examples;

    /// A Webhook of generation 2 for the Tenant of the examples.
    fn webhook(namespace: &str, events: Value) -> Arc<Declared<Webhook>> {
        let object = json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
            "metadata": {"name": "w", "namespace": namespace, "uid": "w", "generation": 2, "resourceVersion": "1"},
            "spec": {"tenantRef": {"name": "acme", "namespace": "tenants"}, "customerCode": "C",
                "targetURL": "https://h.example/", "events": events},
        });
        Declared::read(serde_json::from_value(object).unwrap()).unwrap()
    }

    fn good(namespace: &str) -> Arc<Declared<Webhook>> {
        webhook(namespace, json!(["order.created"]))
    }

    fn with_tenant(patch: Value) -> ClusterState {
        let mut cluster = ClusterState::default();
        cluster.tenant_applied(examples::with(patch));
        cluster
    }

    /// The first reason, and whether it is served.
    fn reported(
        cluster: &ClusterState,
        webhook: &Declared<Webhook>,
        observed: Option<i64>,
    ) -> Option<(Option<ReasonCode>, bool)> {
        let previous = WebhookStatus { observed_generation: observed, ..WebhookStatus::default() };
        let outcome = outcome(cluster, webhook, &previous)?;
        Some((outcome.reasons.first().map(|reason| reason.code), outcome.served))
    }

    #[test]
    fn tenant_that_is_gone_or_being_deleted_is_not_revealed_to_other_namespaces() {
        let none = ClusterState::default();
        let deleting = with_tenant(json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}));
        for cluster in [&none, &deleting] {
            let not_found = Some((Some(ReasonCode::TenantNotFound), false));
            assert_eq!(reported(cluster, &good("tenants"), Some(2)), not_found);
        }
        let stranger = good("elsewhere");
        let previous = WebhookStatus::default();
        let refused = outcome(&none, &stranger, &previous);
        assert_eq!(refused.as_ref().unwrap().reasons[0].code, ReasonCode::RefNotPermitted);
        assert_eq!(outcome(&deleting, &stranger, &previous), refused);
    }

    #[test]
    fn paused_tenant_leaves_what_is_reported_about_this_generation() {
        let mut paused =
            with_tenant(json!({"metadata": {"annotations": {"docket.dev/reconcile": "disabled"}}}));
        let webhook = good("tenants");
        let not_ready = |served| Some((Some(ReasonCode::TenantNotReady), served));
        assert_eq!(reported(&paused, &webhook, Some(1)), not_ready(false));
        assert_eq!(reported(&paused, &webhook, Some(2)), None);
        let known = WebhookOutcome { generation: 1, ..of_reasons(&webhook, Vec::new(), true) };
        paused.set_outcomes(vec![known]);
        assert_eq!(reported(&paused, &webhook, Some(1)), not_ready(true), "as it last was");
    }

    #[test]
    fn outcome_of_an_earlier_generation_is_not_reported() {
        let mut cluster = with_tenant(json!({}));
        let webhook = good("tenants");
        let now = of_reasons(&webhook, Vec::new(), true);
        cluster.set_outcomes(vec![WebhookOutcome { generation: 1, ..now.clone() }]);
        assert_eq!(reported(&cluster, &webhook, None), None, "its Tenant's pass comes");
        cluster.set_outcomes(vec![now]);
        assert_eq!(reported(&cluster, &webhook, None), Some((None, true)));
        let unreadable = self::webhook("tenants", json!("all"));
        assert_eq!(reported(&cluster, &unreadable, None), Some((Some(ReasonCode::InvalidSpec), false)));
    }
}
