//! What the operator can't or does not do is reported on the object that it concerns, and no tenant is served because of it.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;
use serde_json::{Value, json};

#[tokio::test]
async fn a_write_that_the_api_server_refuses_is_reported() {
    let mut release = Release::new("policy");
    release.with_postgres().await;
    let _operator = release.start().await;
    let namespace = release.tenants.as_str();
    let policy = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": namespace},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
                ]},
                "validations": [{"expression": "false", "message": "no Secrets without a ticket"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": namespace},
            "spec": {
                "policyName": namespace, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
            },
        },
    ]});
    cluster().kubectl(&["apply", "-f", "-"], &policy.to_string()).expect("the administrator makes policies");
    let create = ["--namespace", namespace, "create", "secret", "generic", "probe", "--dry-run=server"];
    let refused = async || cluster().kubectl(&create, "").err.contains("without a ticket");
    eventually("the policy counts", SOON, refused).await;
    release.apply(&tenant_yaml("limited"));
    let message = release.wait("tenant", "limited", "Ready", "False ApiRefused").await;
    assert!(message.contains("no Secrets without a ticket"), "{message}");
    assert!(release.condition("tenant", "limited", "Reconciling").starts_with("True ApiRefused"));
    let mark = cluster().mark();
    let delete = ["delete", "validatingadmissionpolicybinding", namespace];
    cluster().kubectl(&delete, "").expect("the administrator removes policies");
    eventually("it no longer counts", SOON, async || !refused().await).await;
    release.kubectl(&["annotate", "tenant", "limited", "docket.dev/requestedAt=now"]);
    release.wait("tenant", "limited", "Ready", "True").await;
    let writes = release.writes(mark);
    let status = writes.iter().filter(|write| write.ends_with("tenants/status/limited")).count();
    // The operator's own next try may come before the requested one. The status then repeats the annotation.
    assert!(status <= 2, "a refusal is reported once: {writes:?}");
}

#[tokio::test]
async fn webhooks_of_another_namespace_do_not_keep_a_tenant_from_being_suspended() {
    let mut release = Release::new("large");
    release.with_postgres().await;
    let other = cluster().namespace("large-other");
    release.watch(&other);
    let operator = release.start().await;
    operator.leads().await;
    let allowed = "  webhooks: {allowedNamespaces: {from: All}}\n---\n";
    release.apply(&tenant_yaml("crowded").replace("---\n", allowed));
    release.wait("tenant", "crowded", "Ready", "True").await;
    let authority = include_str!("../../crds/src/compile/authority/prime256v1.pem");
    let bundle = authority.repeat(65_536 / authority.len());
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": bundle},
    });
    release.apply_in(&other, &bundle.to_string());
    let named = format!("tenantRef: {{name: crowded, namespace: {}}}", release.tenants);
    let large = (1..=18).map(|number| {
        webhook_yaml(&format!("large-{number}"), "crowded", "  caBundleRef: {kind: ConfigMap, name: ca}\n")
            .replace("tenantRef: {name: crowded}", &named)
    });
    release.apply_in(&other, &large.collect::<String>());
    release.apply(&webhook_yaml("own", "crowded", ""));
    release.wait("webhook", "own", "Ready", "True").await;
    release.kubectl(&["patch", "tenant", "crowded", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]);
    let suspended = async || release.runtime("crowded").expect("it is served")["config"]["suspended"] == true;
    eventually("it is suspended", SOON, suspended).await;
    let refused = || {
        let list = ["--namespace", &other, "get", "webhooks", "--output=jsonpath={..reason}"];
        let list = cluster().kubectl(&list, "").expect("the administrator reads everything");
        list.split(' ').filter(|reason| *reason == "TooManyWebhooks").count()
    };
    eventually("those that do not fit say so", SOON, async || refused() >= 3).await;
}

#[tokio::test]
async fn a_webhook_says_that_its_tenant_is_paused_or_on_its_way_out() {
    let mut release = Release::new("waiting");
    release.with_postgres().await;
    let _operator = release.start().await;
    let delete = "{name: tenant_waiting, deletionPolicy: Delete}";
    let tenant = tenant_yaml("waiting").replace("{name: tenant_waiting}", delete);
    release.apply(&(tenant + &webhook_yaml("before", "waiting", "")));
    release.wait("webhook", "before", "Ready", "True").await;
    release.kubectl(&["annotate", "tenant", "waiting", "docket.dev/reconcile=disabled"]);
    release.wait("tenant", "waiting", "Ready", "Unknown Paused").await;
    release.apply(&webhook_yaml("after", "waiting", ""));
    let message = release.wait("webhook", "after", "Ready", "False TenantNotReady").await;
    assert!(message.contains("paused"), "{message}");
    release.wait("webhook", "before", "Ready", "True").await;
    release.kubectl(&["annotate", "tenant", "waiting", "docket.dev/reconcile-"]);
    release.wait("webhook", "after", "Ready", "True").await;

    // No server listens at this address, so the Tenant can't be deleted yet.
    release.file("main.url", "postgres://postgres:x@127.0.0.1:1/postgres");
    release.kubectl(&["delete", "tenant", "waiting", "--wait=false"]);
    for webhook in ["before", "after"] {
        let message = release.wait("webhook", webhook, "Ready", "False TenantNotFound").await;
        assert!(message.contains("is being deleted"), "{message}");
        assert!(release.condition("webhook", webhook, "Programmed").starts_with("False"));
    }
}

#[tokio::test]
async fn a_tenant_stays_unserved_although_its_successor_is_refused_or_paused() {
    let mut release = Release::new("successor");
    release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&(tenant_yaml("holder") + &tenant_yaml("refused") + &tenant_yaml("paused")));
    let uid = |name: &str| release.object("tenant", name)["metadata"]["uid"].as_str().unwrap().to_owned();
    for name in ["holder", "refused", "paused"] {
        release.wait("tenant", name, "Ready", "True").await;
    }
    let earlier = ["refused", "paused"].map(uid);
    operator.terminate().await;
    release.kubectl(&["delete", "tenant", "refused", "paused"]);
    let annotated = "metadata: {name: paused, annotations: {docket.dev/reconcile: disabled}}";
    release.apply(&tenant_yaml("refused").replace("REFUSED", "HOLDER"));
    release.apply(&tenant_yaml("paused").replace("metadata: {name: paused}", annotated));
    let _operator = release.start().await;
    release.wait("tenant", "refused", "Ready", "False ClientCodeConflict").await;
    release.wait("tenant", "paused", "Ready", "Unknown Paused").await;
    for uid in earlier {
        eventually("the earlier one is gone", SOON, async || release.runtime_of(&uid).is_none()).await;
    }
}

#[tokio::test]
async fn a_role_that_cannot_be_dropped_holds_no_tenant() {
    let mut release = Release::new("role");
    let admin = release.with_postgres().await;
    let _operator = release.start().await;
    let delete = "{name: tenant_role, deletionPolicy: Delete}";
    release.apply(&tenant_yaml("role").replace("{name: tenant_role}", delete));
    release.wait("tenant", "role", "Ready", "True").await;
    let client = docket_rig::postgres::client(&admin).await;
    client
        .batch_execute("CREATE DATABASE elsewhere OWNER tenant_role_app")
        .await
        .expect("the administrator may");
    release.kubectl(&["delete", "tenant", "role", "--timeout=60s"]);
    assert!(release.events("role").contains(&"RoleRetained".to_owned()), "{:?}", release.events("role"));
    let role = "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'tenant_role_app'";
    assert!(!client.query_one(role, &[]).await.expect("it stays").get::<_, bool>(0));
}

#[tokio::test]
async fn an_api_key_is_the_older_tenants() {
    let mut release = Release::new("samekey");
    release.with_postgres().await;
    let _operator = release.start().await;
    let key = "5".repeat(64);
    release.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: same}}\nstringData: {{key: '{key}'}}\n"
    ));
    let with_it = |name: &str| {
        tenant_yaml(name)
            .replace("{name: primary, generate: {}}", "{name: own, secretKeyRef: {name: same, key: key}}")
    };
    release.apply(&with_it("samekey-a"));
    release.wait("tenant", "samekey-a", "Ready", "True").await;
    // Ages count in seconds.
    let made = release.object("tenant", "samekey-a")["metadata"]["creationTimestamp"].clone();
    let now = ["create", "secret", "generic", "probe", "--dry-run=server", "--output=json"];
    let now = || serde_json::from_str::<Value>(&release.kubectl(&now)).expect("it is JSON");
    eventually("it is a later second", SOON, async || {
        now()["metadata"]["creationTimestamp"].as_str() > made.as_str()
    })
    .await;
    release.apply(&with_it("samekey-b"));
    let message = release.wait("tenant", "samekey-b", "ResolvedRefs", "False SecretInvalid").await;
    assert!(message.contains("spec.apiKeys[0]") && message.contains("another Tenant"), "{message}");
    release.wait("tenant", "samekey-b", "DatabaseReady", "True").await;
    let keys = |tenant: &str| release.runtime(tenant).unwrap()["config"]["apiKeys"].as_array().unwrap().len();
    assert_eq!((keys("samekey-a"), keys("samekey-b")), (1, 0));
    release.kubectl(&["delete", "tenant", "samekey-a"]);
    release.wait("tenant", "samekey-b", "Ready", "True").await;
    assert_eq!(keys("samekey-b"), 1);
}
