//! What the API server stores about Tenants and their Webhooks. Pure, except for reading and printing.

use docket_commands::arguments::Output;
use docket_commands::text::{json, table};
use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use docket_crds::{ConditionType, ReasonCode, Remedy};
use docket_program::screen::clean;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::problem::Problem;

/// A condition; `None` in a field of it means that the operator has not said it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct ConditionState {
    status: Option<String>,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantView {
    namespace: String,
    name: String,
    client_code: String,
    suspended: bool,
    ready: ConditionState,
    database: Option<String>,
    schema_version: Option<String>,
    api_keys: Vec<KeyView>,
    webhooks: Vec<WebhookView>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyView {
    name: String,
    active: bool,
    fingerprint: Option<String>,
    secret_name: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookView {
    namespace: String,
    name: String,
    customer_code: String,
    active: bool,
    ready: ConditionState,
    healthy: ConditionState,
    pending: Option<i64>,
    dead_letter: Option<i64>,
    last_success_at: Option<String>,
}

/// Prints one Tenant or all.
pub(crate) async fn print(cluster: &Cluster, name: Option<&str>, output: Output) -> Result<(), Problem> {
    let tenants = match name {
        Some(name) => vec![cluster.tenant(name).await?],
        None => cluster.tenants().await?,
    };
    let views = views(&tenants, &cluster.webhooks().await?);
    match output {
        Output::Json => json(&serde_json::json!({ "tenants": views })),
        Output::Table | Output::Wide if views.is_empty() => {
            println!("No Tenant is here; -A looks in all namespaces.")
        }
        Output::Table | Output::Wide => print!("{}", text(&views)),
    }
    match views.iter().find(|tenant| !tenant.is_well()) {
        Some(tenant) => {
            Err(Problem::Found(format!("Tenant {}/{} needs a look", tenant.namespace, tenant.name)))
        }
        None => Ok(()),
    }
}

impl TenantView {
    /// Whether the Tenant is suspended or paused on purpose, or served with all its Webhooks. A receiver that does
    /// not accept deliveries is not well; a webhook without deliveries is.
    fn is_well(&self) -> bool {
        let is_chosen =
            |reason: &str| reason.parse::<ReasonCode>().is_ok_and(|reason| reason.remedy() == Remedy::Chosen);
        let ready = |state: &ConditionState| {
            state.status.as_deref() == Some("True") || state.reason.as_deref().is_some_and(is_chosen)
        };
        let delivers = |state: &ConditionState| state.status.as_deref() != Some("False");
        let webhooks = || self.webhooks.iter().all(|one| ready(&one.ready) && delivers(&one.healthy));
        self.suspended || ready(&self.ready) && webhooks()
    }
}

/// The Tenants, each with its Webhooks.
pub(crate) fn views(tenants: &[TenantObject], webhooks: &[WebhookObject]) -> Vec<TenantView> {
    let view = |tenant: &TenantObject| {
        let status = tenant.status.clone().unwrap_or_default();
        let (namespace, name) = (tenant.namespace().unwrap_or_default(), tenant.name_any());
        let its = |webhook: &&WebhookObject| {
            let to = &webhook.spec.tenant_ref;
            let in_namespace = to.namespace.clone().filter(|given| !given.is_empty()).or(webhook.namespace());
            to.name == name && in_namespace.as_deref() == Some(&namespace)
        };
        let database = status.database.clone().unwrap_or_default();
        let key = |key: &docket_crds::tenant::ApiKeySpec| {
            let known = status.api_keys.iter().find(|known| known.name == key.name);
            KeyView {
                name: key.name.clone(),
                active: key.active,
                fingerprint: known.and_then(|known| known.fingerprint.clone()),
                secret_name: known.and_then(|known| known.secret_name.clone()),
            }
        };
        TenantView {
            client_code: tenant.spec.client_code.clone(),
            suspended: tenant.spec.suspend,
            ready: state(&status.conditions, ConditionType::Ready),
            database: database.name.or(database.secret_name),
            schema_version: database.schema_version,
            api_keys: tenant.spec.api_keys.iter().map(key).collect(),
            webhooks: webhooks.iter().filter(its).map(webhook_view).collect(),
            namespace,
            name,
        }
    };
    tenants.iter().map(view).collect()
}

fn webhook_view(webhook: &WebhookObject) -> WebhookView {
    let status = webhook.status.clone().unwrap_or_default();
    let deliveries = status.deliveries.as_ref();
    WebhookView {
        namespace: webhook.namespace().unwrap_or_default(),
        name: webhook.name_any(),
        customer_code: webhook.spec.customer_code.clone(),
        active: webhook.spec.active,
        ready: state(&status.conditions, ConditionType::Ready),
        healthy: state(&status.conditions, ConditionType::DeliveryHealthy),
        pending: deliveries.map(|deliveries| deliveries.pending),
        dead_letter: deliveries.map(|deliveries| deliveries.dead_letter),
        last_success_at: deliveries
            .and_then(|one| one.last_success_at.as_ref())
            .map(|time| time.0.to_string()),
    }
}

fn state(conditions: &[Condition], of: ConditionType) -> ConditionState {
    let found = conditions.iter().find(|condition| condition.type_ == of.as_str());
    found.map_or_else(ConditionState::default, |found| ConditionState {
        status: Some(found.status.clone()),
        reason: Some(found.reason.clone()),
        message: Some(found.message.clone()),
    })
}

fn text(tenants: &[TenantView]) -> String {
    let mut text = String::new();
    for tenant in tenants {
        let word = |state: &ConditionState| state.status.as_deref().map_or_else(|| "–".to_owned(), clean);
        let TenantView { namespace, name, ready, .. } = tenant;
        let client_code = clean(&tenant.client_code);
        text += &format!("Tenant {namespace}/{name} ({client_code})  Ready: {}", word(ready));
        text += &why(ready).map_or("\n".to_owned(), |why| format!("  {why}\n"));
        let unknown = || "not known yet".to_owned();
        let database = tenant.database.clone().unwrap_or_else(unknown);
        let schema = tenant.schema_version.clone().unwrap_or_else(unknown);
        text += &format!("  database {}, schema {}\n", clean(&database), clean(&schema));
        for key in &tenant.api_keys {
            let active = if key.active { "active" } else { "inactive" };
            let fingerprint = key.fingerprint.as_deref().unwrap_or("not resolved");
            text += &format!("  API key {} {active} {}\n", clean(&key.name), clean(fingerprint));
        }
        if !tenant.webhooks.is_empty() {
            let head = [
                "WEBHOOK",
                "CUSTOMER",
                "ACTIVE",
                "READY",
                "HEALTHY",
                "PENDING",
                "DEAD",
                "LAST SUCCESS",
                "WHY",
            ];
            let number = |number: Option<i64>| number.map_or("–".to_owned(), |number| number.to_string());
            let row = |webhook: &WebhookView| {
                vec![
                    format!("{}/{}", webhook.namespace, webhook.name),
                    clean(&webhook.customer_code),
                    webhook.active.to_string(),
                    word(&webhook.ready),
                    word(&webhook.healthy),
                    number(webhook.pending),
                    number(webhook.dead_letter),
                    webhook.last_success_at.clone().unwrap_or_else(|| "–".to_owned()),
                    why(&webhook.ready).or_else(|| why(&webhook.healthy)).unwrap_or_default(),
                ]
            };
            let rows = [head.map(str::to_owned).to_vec()].into_iter().chain(tenant.webhooks.iter().map(row));
            text += &table("  ", &rows.collect::<Vec<_>>());
        }
    }
    text
}

/// What a condition that is not true says.
fn why(state: &ConditionState) -> Option<String> {
    let ConditionState { status, reason, message } = state;
    if status.as_deref() == Some("True") {
        return None;
    }
    Some(clean(&format!("{}: {}", reason.as_deref()?, message.as_deref()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn tenant() -> TenantObject {
        from_value(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": "acme", "namespace": "tenants"},
            "spec": {"clientCode": "ACME", "database": {"managed": {"name": "tenant_acme"}}, "apiKeys": [
                {"name": "primary", "generate": {}}, {"name": "partner", "active": false, "generate": {}}]},
            "status": {
                "database": {"name": "tenant_acme", "schemaVersion": "7"},
                "apiKeys": [{"name": "primary", "active": true, "fingerprint": "sha256:9f2c", "secretName": "acme-apikey-primary"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-21T00:00:00Z"}]
            }
        }))
        .expect("a Tenant")
    }

    fn webhook(namespace: &str, to: serde_json::Value) -> WebhookObject {
        from_value(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
            "metadata": {"name": "orders", "namespace": namespace},
            "spec": {"tenantRef": to, "customerCode": "C-1", "targetURL": "https://a.example", "events": ["order.created"]},
            "status": {"deliveries": {"pending": 2, "deadLetter": 3, "lastSuccessAt": "2026-11-21T09:00:00Z"}, "conditions": [
                {"type": "DeliveryHealthy", "status": "False", "reason": "Failing", "message": "Refused:\nstart it", "lastTransitionTime": "2026-11-21T00:00:00Z"}]}
        }))
        .expect("a Webhook")
    }

    #[test]
    fn a_tenant_is_shown_with_its_keys_and_webhooks() {
        let others = [
            webhook("tenants", json!({"name": "acme"})),
            webhook("elsewhere", json!({"name": "acme", "namespace": "tenants"})),
            webhook("elsewhere", json!({"name": "acme"})),
            webhook("tenants", json!({"name": "other"})),
        ];
        let views = views(&[tenant()], &others);
        assert_eq!(views[0].webhooks.len(), 2, "{views:?}");
        assert!(!views[0].is_well() && super::views(&[tenant()], &[])[0].is_well());
        assert_eq!(
            text(&views),
            "Tenant tenants/acme (ACME)  Ready: True\n  database tenant_acme, schema 7\n  API key primary active sha256:9f2c\n  \
             API key partner inactive not resolved\n  \
             WEBHOOK           CUSTOMER  ACTIVE  READY  HEALTHY  PENDING  DEAD  LAST SUCCESS          WHY\n  \
             tenants/orders    C-1       true    –      False    2        3     2026-11-21T09:00:00Z  Failing: Refused: start it\n  \
             elsewhere/orders  C-1       true    –      False    2        3     2026-11-21T09:00:00Z  Failing: Refused: start it\n"
        );
    }

    #[test]
    fn tenant_is_well_if_it_and_its_webhooks_are_served_or_left_alone_on_purpose() {
        let condition = |status: &str, reason: &str| ConditionState {
            status: Some(status.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(String::new()),
        };
        let is_well = |suspended: bool, ready: ConditionState, of_webhook: [ConditionState; 2]| {
            let mut views = views(&[tenant()], &[webhook("tenants", json!({"name": "acme"}))]);
            let mut view = views.remove(0);
            (view.suspended, view.ready) = (suspended, ready);
            [view.webhooks[0].ready, view.webhooks[0].healthy] = of_webhook;
            view.is_well()
        };
        let fine = || [condition("True", "Ready"), ConditionState::default()];
        let broken = || condition("False", "DatabaseNotReady");
        assert!(is_well(false, condition("True", "Ready"), fine()), "a webhook may have no delivery yet");
        assert!(is_well(false, condition("False", "Paused"), fine()));
        assert!(is_well(
            false,
            condition("True", "Ready"),
            [condition("False", "TenantSuspended"), condition("True", "x")]
        ));
        assert!(is_well(true, broken(), [broken(), broken()]), "it is suspended");
        assert!(!is_well(false, broken(), fine()));
        assert!(!is_well(false, ConditionState::default(), fine()), "no one has looked at it");
        assert!(!is_well(false, condition("True", "Ready"), [broken(), ConditionState::default()]));
        assert!(!is_well(false, condition("True", "Ready"), [condition("True", "Ready"), broken()]));
    }
}
