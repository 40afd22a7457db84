//! What becomes of a Webhook.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, object, tenant_yaml, webhook_yaml};

#[tokio::test]
async fn a_webhook_is_served_with_its_tenant() {
    let mut release = Release::new("webhook");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&webhook_yaml("orders", "hooked", ""));
    release.wait("webhook", "orders", "Ready", "False TenantNotFound").await;
    release.apply(&tenant_yaml("hooked"));
    release.wait("webhook", "orders", "Ready", "True").await;
    assert_eq!(release.runtime("hooked").unwrap()["config"]["webhooks"][0]["name"], "orders");
    release.wait("tenant", "hooked", "Ready", "True").await;
    assert_eq!(release.object("tenant", "hooked")["status"]["webhooks"], 1);
    let status = &release.object("webhook", "orders")["status"];
    assert_eq!((&status["signed"], &status["observedGeneration"]), (&false.into(), &1.into()));

    release.kubectl(&["patch", "tenant", "hooked", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]);
    release.wait("webhook", "orders", "Ready", "False TenantSuspended").await;
    release.kubectl(&["delete", "tenant", "hooked"]);
    release.wait("webhook", "orders", "Ready", "False TenantNotFound").await;
}

#[tokio::test]
async fn a_missing_secret_is_reported_and_the_old_one_stays_in_use() {
    let mut release = Release::new("secret");
    release.with_postgres().await;
    let _operator = release.start().await;
    let secret = |value: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: sign, labels: {{docket.dev/watch: 'true'}}}}\n\
             stringData: {{secret: {value}}}\n"
        )
    };
    release
        .apply(&(tenant_yaml("signed") + &webhook_yaml("signed", "signed", "  secretRef: {name: sign}\n")));
    let message = release.wait("webhook", "signed", "Ready", "False SecretNotFound").await;
    assert!(message.contains("spec.secretRef"), "{message}");
    release.wait("tenant", "signed", "Ready", "True").await;

    release.apply(&secret("one"));
    release.wait("webhook", "signed", "Ready", "True").await;
    let served = || release.runtime("signed").unwrap()["config"]["webhooks"][0]["secret"].clone();
    let of = |value: &str| value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(served(), of("one"));
    let version = release.object("webhook", "signed")["status"]["secretVersion"].clone();

    release.kubectl(&["delete", "secret", "sign"]);
    let message = release.wait("webhook", "signed", "Ready", "False SecretNotFound").await;
    assert!(message.contains("stays served"), "{message}");
    assert_eq!(served(), of("one"), "the last good secret signs");

    release.apply(&secret("two"));
    release.wait("webhook", "signed", "Ready", "True").await;
    assert_eq!(served(), of("two"));
    assert_ne!(release.object("webhook", "signed")["status"]["secretVersion"], version);
}

#[tokio::test]
async fn a_webhook_of_another_namespace_needs_the_tenants_permission() {
    let mut release = Release::new("cross");
    release.with_postgres().await;
    let other = cluster().namespace("cross-other");
    release.watch(&other);
    let _operator = release.start().await;
    release.apply(&tenant_yaml("shared"));
    release.wait("tenant", "shared", "Ready", "True").await;
    let tenants = &release.tenants;
    let webhook = |name: &str, tenant: &str| {
        webhook_yaml(name, tenant, "").replace(
            &format!("tenantRef: {{name: {tenant}}}"),
            &format!("tenantRef: {{name: {tenant}, namespace: {tenants}}}"),
        )
    };
    release.apply_in(&other, &(webhook("stranger", "shared") + &webhook("lost", "absent")));
    let ready = |name: &str| {
        let webhook = object(cluster(), &other, "webhook", name);
        let conditions = webhook["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
        ready
            .map(|ready| format!("{} {} {}", ready["status"], ready["reason"], ready["message"]))
            .unwrap_or_default()
    };
    let reports = async |name: &str, beginning: &str| {
        let limit = docket_tests::operator::SOON;
        let what = format!("{name} {beginning}");
        docket_tests::server::eventually(&what, limit, async || ready(name).starts_with(beginning)).await;
    };
    reports("stranger", r#""False" "RefNotPermitted""#).await;
    reports("lost", r#""False" "RefNotPermitted""#).await;
    assert_eq!(
        ready("stranger").replace("shared", "?"),
        ready("lost").replace("absent", "?"),
        "nothing is given away"
    );
    assert_eq!(release.runtime("shared").unwrap()["heldWebhooks"], serde_json::json!([]));

    let label = ["label", "namespace", &other, "team=acme"];
    cluster().kubectl(&label, "").expect("the administrator labels namespaces");
    let allowed = r#"{"spec":{"webhooks":{"allowedNamespaces":{"from":"Selector","selector":{"matchLabels":{"team":"acme"}}}}}}"#;
    release.kubectl(&["patch", "tenant", "shared", "--type=merge", "-p", allowed]);
    reports("stranger", r#""True""#).await;
    assert_eq!(release.runtime("shared").unwrap()["config"]["webhooks"][0]["name"], "stranger");
}
