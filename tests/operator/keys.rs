//! Values that the operator generates: made once, rotated on request, made again when they are gone.

use std::time::Duration;

use docket_tests::operator::{Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;
use serde_json::json;

#[tokio::test]
async fn a_key_rotates_beside_another_one_and_the_password_reaches_the_database() {
    let mut release = Release::new("rotate");
    release.with_postgres().await;
    let _operator = release.start().await;
    let keys = |primary: u8| {
        format!(
            "[{{name: primary, generate: {{rotationGeneration: {primary}}}}}, {{name: second, generate: {{}}}}]"
        )
    };
    let yaml = |primary: u8, password: u8| {
        tenant_yaml("rotated").replace("[{name: primary, generate: {}}]", &keys(primary)).replace(
            "{name: tenant_rotated}",
            &format!("{{name: tenant_rotated, passwordRotationGeneration: {password}}}"),
        )
    };
    release.apply(&yaml(0, 0));
    release.wait("tenant", "rotated", "Ready", "True").await;
    let key = |name: &str| release.secret(&format!("rotated-apikey-{name}"), "api-key").expect("a key");
    let (first, second) = (key("primary"), key("second"));
    assert_ne!(first, second);
    let url = release.runtime("rotated").unwrap()["config"]["database"].clone();

    release.apply(&yaml(1, 1));
    eventually("generation 2 is served", SOON, async || {
        release.runtime("rotated").unwrap()["generation"] == 2
    })
    .await;
    release.wait("tenant", "rotated", "Ready", "True").await;
    assert_ne!(key("primary"), first);
    assert_eq!(key("second"), second, "the overlap");
    let new = release.runtime("rotated").unwrap()["config"]["database"].as_str().unwrap().to_owned();
    assert_ne!(url, new);
    docket_rig::postgres::client(&new).await.batch_execute("SELECT 1").await.expect("the new password works");
    assert_eq!(release.events("rotated").iter().filter(|reason| *reason == "SecretRotated").count(), 2);
}

/// Roles give the operator every Secret of a tenant's namespace; the policy leaves it those with its labels.
#[tokio::test]
async fn the_operators_account_cannot_write_other_secrets() {
    let release = Release::new("policy");
    release.kubectl(&["create", "secret", "generic", "theirs", "--from-literal=key=value"]);
    let secret = |name: &str, kind: &str, label: &str| {
        format!(
            "{{apiVersion: v1, kind: Secret, type: {kind}, metadata: {{name: {name}, labels: {{app.kubernetes.io/managed-by: {label}, docket.dev/tenant-uid: a}}, \
             annotations: {{kubernetes.io/service-account.name: default}}}}}}"
        )
    };
    let create = ["create", "--filename", "-"];
    let delete = |name: &'static str| release.kubectl_as_operator(&["delete", "secret", name], "");
    // A policy begins to hold some time after it was made.
    eventually("the policy holds", SOON, async || {
        let made = release.kubectl_as_operator(&create, &secret("probe", "Opaque", "someone"));
        if made.ok {
            release.kubectl(&["delete", "secret", "probe"]);
        }
        !made.ok && made.err.contains("the operator writes only Secrets with its labels")
    })
    .await;
    let replaced = release
        .kubectl_as_operator(&["replace", "--filename", "-"], &secret("theirs", "Opaque", "docket-operator"));
    for refused in [delete("theirs"), replaced] {
        assert!(refused.err.contains("the operator writes only Secrets with its labels"), "{}", refused.err);
    }
    // With this Secret, the operator could get a token of any account of the namespace.
    let token = secret("token", "kubernetes.io/service-account-token", "docket-operator");
    let token = release.kubectl_as_operator(&create, &token);
    assert!(token.err.contains("the operator writes no Secret of this type"), "{}", token.err);
    let own = release.kubectl_as_operator(&create, &secret("own", "Opaque", "docket-operator"));
    assert!(own.ok, "{}", own.err);
    let labels = ["app.kubernetes.io/managed-by: docket-operator", "docket.dev/tenant-uid: a"];
    for label in labels {
        let bare = secret("own", "Opaque", "docket-operator").replace(label, "other: label");
        let bare = release.kubectl_as_operator(&["replace", "--filename", "-"], &bare);
        assert!(
            bare.err.contains("the operator writes only Secrets with its labels"),
            "{label}: {}",
            bare.err
        );
    }
    assert!(delete("own").ok);
    // The policy does not bind other users.
    release.kubectl(&["delete", "secret", "theirs"]);
}

#[tokio::test]
async fn secrets_that_are_deleted_or_changed_are_repaired() {
    let mut release = Release::new("repair");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("repaired"));
    release.wait("tenant", "repaired", "Ready", "True").await;
    let key = || release.secret("repaired-apikey-primary", "api-key");
    let first = key();
    release.kubectl(&["delete", "secret", "repaired-apikey-primary"]);
    eventually("a new key", SOON, async || key().is_some_and(|key| Some(key) != first)).await;
    eventually("it is reported", SOON, async || {
        release.events("repaired").contains(&"SecretRemade".to_owned())
    })
    .await;

    let uid = release.object("tenant", "repaired")["metadata"]["uid"].as_str().unwrap().to_owned();
    let name = format!("docket-tenant-{uid}");
    let in_release = |arguments: &[&str]| {
        let arguments = [&["--namespace", release.namespace.as_str()], arguments].concat();
        docket_tests::apiserver::cluster().kubectl(&arguments, "").expect("kubectl succeeds")
    };
    eventually("the new key is served", SOON, async || {
        let served = release.runtime("repaired").unwrap()["config"]["apiKeys"][0]["digest"].clone();
        let status = &release.object("tenant", "repaired")["status"]["apiKeys"][0]["fingerprint"];
        status.as_str().unwrap()[7..] == served.as_str().unwrap()[..12]
    })
    .await;
    let served = release.runtime("repaired").unwrap();
    in_release(&["patch", "secret", &name, "--type=merge", "-p", r#"{"data":{"runtime.json":"e30="}}"#]);
    eventually("drift is repaired", SOON, async || release.runtime("repaired") == Some(served.clone())).await;
    in_release(&["delete", "secret", &name]);
    eventually("it is made again", SOON, async || release.runtime("repaired").is_some()).await;
    let remade = release.runtime("repaired").unwrap();
    assert_eq!(remade["config"]["apiKeys"], served["config"]["apiKeys"]);
    assert_ne!(
        remade["config"]["tokens"], served["config"]["tokens"],
        "signing keys are known to no other process"
    );
    eventually("it is reported", SOON, async || {
        release.events("repaired").contains(&"SigningKeysRemade".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_removed_key_loses_its_secret_and_a_foreign_secret_is_refused() {
    let mut release = Release::new("foreign");
    release.with_postgres().await;
    let _operator = release.start().await;
    release
        .apply("apiVersion: v1\nkind: Secret\nmetadata: {name: owned-apikey-primary}\nstringData: {a: b}\n");
    release.apply(&tenant_yaml("owned"));
    let message = release.wait("tenant", "owned", "Ready", "False SecretInvalid").await;
    assert!(message.contains("owned-apikey-primary"), "{message}");
    assert_eq!(release.secret("owned-apikey-primary", "a").as_deref(), Some("b"));
    release.kubectl(&["delete", "secret", "owned-apikey-primary"]);
    // The Secret had no label, so the operator does not notice its end: the user requests a pass.
    release.kubectl(&["annotate", "tenant", "owned", "docket.dev/requestedAt=now"]);
    release.wait("tenant", "owned", "Ready", "True").await;
    assert_eq!(release.object("tenant", "owned")["status"]["lastHandledReconcileAt"], "now");

    // A copy with the labels and annotations of the operator, as `kubectl get -o yaml | sed | kubectl apply` makes it.
    let mut copy = release.object("secret", "owned-apikey-primary");
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        copy["metadata"].as_object_mut().expect("an object").remove(field);
    }
    copy["metadata"]["name"] = "owned-apikey-copy".into();
    release.apply(&copy.to_string());
    let key = release.secret("owned-apikey-primary", "api-key");
    release.kubectl(&["patch", "tenant", "owned", "--type=merge", "-p", r#"{"spec":{"apiKeys":[]}}"#]);
    eventually("the key goes", Duration::from_secs(30), async || {
        release.object("secret", "owned-apikey-primary").is_null()
    })
    .await;
    assert!(key.is_some());
    assert_eq!(release.secret("owned-apikey-copy", "api-key"), key, "the copy of a user stays");
    eventually("it is no longer served", SOON, async || {
        release.runtime("owned").unwrap()["config"]["apiKeys"].as_array().unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_signing_key_is_handed_out_then_signs_and_the_old_one_verifies_a_day_longer() {
    let mut release = Release::new("signing");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("signing"));
    release.wait("tenant", "signing", "Ready", "True").await;
    let kids = || {
        let runtime = release.runtime("signing").expect("it is served");
        let keys = runtime["config"]["tokens"]["signingKeys"].as_array().expect("keys").clone();
        keys.iter().map(|key| key["kid"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let first = kids();
    assert_eq!(first.len(), 1);
    let aged = async |minutes: i64, what: &str, is_so: &dyn Fn(&[String]) -> bool| {
        release.signing_keys_age("signing", minutes);
        eventually(what, SOON, async || is_so(&kids())).await;
    };
    let days = 24 * 60;
    aged(90 * days, "the next one is handed out", &|kids| kids.len() == 2 && kids[0] == first[0]).await;
    let second = kids()[1].clone();
    aged(10, "it signs", &|kids| kids == [second.clone(), first[0].clone()]).await;
    aged(days + 5, "the first one is retired", &|kids| kids == [second.clone()]).await;
    let events = release.events("signing");
    assert!(!events.contains(&"SigningKeysRemade".to_owned()), "no session has ended: {events:?}");
}

#[tokio::test]
async fn signing_keys_survive_what_another_version_wrote_beside_or_instead_of_them() {
    let mut release = Release::new("memory");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("skewed"));
    release.wait("tenant", "skewed", "Ready", "True").await;
    let tokens = || release.runtime("skewed").expect("it is served")["config"]["tokens"].clone();
    let (first, good) = (tokens(), release.memory("skewed"));
    assert_eq!(good["minReader"], 1);

    // The database has another form, and there is something new.
    let mut other = good.clone();
    other["database"].as_object_mut().expect("a database").remove("schemaVersion");
    other["later"] = json!({"step": 7});
    release.set_memory("skewed", &other);
    eventually("the database is ensured again", SOON, async || {
        release.memory("skewed")["database"] == good["database"]
    })
    .await;
    assert_eq!(release.memory("skewed")["later"], other["later"]);
    assert_eq!(tokens(), first);

    // The Secret is for newer operators: nothing is changed until an operator can read it.
    let mut newer = other;
    newer["format"] = json!(1000);
    newer["minReader"] = json!(1000);
    release.set_memory("skewed", &newer);
    let message = release.wait("tenant", "skewed", "Ready", "False ConfigurationUnreadable").await;
    assert!(
        message.contains("operator.json was written by a newer operator for readers of format 1000"),
        "{message}"
    );
    release.kubectl(&["patch", "tenant", "skewed", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]);
    eventually("the change is seen", SOON, async || {
        release.object("tenant", "skewed")["status"]["observedGeneration"] == 2
    })
    .await;
    assert_eq!(release.memory("skewed"), newer);
    assert_eq!(release.runtime("skewed").expect("it is served")["config"]["suspended"], false);
    release.apply(&webhook_yaml("orders", "skewed", ""));
    let message = release.wait("webhook", "orders", "Ready", "False TenantNotReady").await;
    assert!(message.contains("its runtime Secret can't be read"), "{message}");

    release.set_memory("skewed", &good);
    release.wait("tenant", "skewed", "Ready", "False Suspended").await;
    release.wait("webhook", "orders", "Ready", "False TenantSuspended").await;
    assert_eq!(tokens(), first);
    let events = release.events("skewed");
    assert!(!events.contains(&"SigningKeysRemade".to_owned()), "no session has ended: {events:?}");
}
