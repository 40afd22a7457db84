//! What becomes of a Webhook.

use docket_rig::memory_group::MemoryGroup;
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, object, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;
use serde_json::{Value, json};

use crate::writes::passes;

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

/// In a deployment from Git, another program makes the Secret, without our label.
#[tokio::test]
async fn a_secret_that_arrives_late_is_found_soon_and_was_no_failure() {
    let mut release = Release::new("arriving");
    release.with_postgres().await;
    let _operator = release.start().await;
    let late = "  secretRef: {name: late}\n";
    release.apply(&(tenant_yaml("arriving") + &webhook_yaml("arriving", "arriving", late)));
    release.wait("webhook", "arriving", "Ready", "False SecretNotFound").await;
    release.wait("webhook", "arriving", "Reconciling", "True SecretNotFound").await;
    assert_eq!(release.condition("webhook", "arriving", "Stalled"), "");

    release.kubectl(&["create", "secret", "generic", "late", "--from-literal=secret=one"]);
    release.wait("webhook", "arriving", "Ready", "True").await;
    assert_eq!(release.condition("webhook", "arriving", "Reconciling"), "");
}

#[tokio::test]
async fn a_generated_secret_rotates_and_belongs_to_its_webhook_and_tenant() {
    const NAME: &str = "made.signing-secret";
    let mut release = Release::new("generate");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(
        &(tenant_yaml("generating")
            + &webhook_yaml("made", "generating", "  generateSecret: {}\n")
            + &webhook_yaml("other", "generating", "  generateSecret: {}\n")),
    );
    release.wait("webhook", "made", "Ready", "True").await;
    release.wait("webhook", "other", "Ready", "True").await;
    let value = |name: &str| release.secret(name, "secret");
    let first = value(NAME).expect("a secret");
    let other = value("other.signing-secret");
    assert!(first.len() == 64 && Some(&first) != other.as_ref());
    let of = |value: &str| value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let made = || {
        let runtime = release.runtime("generating").expect("it is served");
        let webhooks = runtime["config"]["webhooks"].as_array().expect("a list").clone();
        webhooks.into_iter().find(|webhook| webhook["name"] == "made").expect("it is served")
    };
    let served = || made()["secret"].clone();
    assert_eq!(served(), of(&first));
    assert_eq!(release.object("webhook", "made")["status"]["signed"], true);
    let uid = |kind: &str, name: &str| release.object(kind, name)["metadata"]["uid"].clone();
    let owners = || owners(&release, NAME);
    let both = [uid("webhook", "made"), uid("tenant", "generating")];
    assert_eq!(owners(), both);
    // An earlier version made the Secret with its Webhook as the only owner.
    let alone = json!({"metadata": {"ownerReferences": [{"apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "name": "made",
        "uid": both[0]}]}});
    release.kubectl(&["patch", "secret", NAME, "--type=merge", "-p", &alone.to_string()]);
    eventually("it is adopted", SOON, async || owners() == both).await;
    assert_eq!(value(NAME).as_ref(), Some(&first));

    release.apply(&webhook_yaml("made", "generating", "  generateSecret: {rotationGeneration: 1}\n"));
    eventually("a new secret is served", SOON, async || served() != of(&first)).await;
    assert_eq!(served(), of(&value(NAME).expect("a secret")));
    assert_eq!(value("other.signing-secret"), other, "the other one stays");

    let second = value(NAME).expect("a secret");
    let spec = "  generateSecret: {rotationGeneration: 1, next: true}\n";
    release.apply(&webhook_yaml("made", "generating", spec));
    eventually("both are served", SOON, async || made().get("nextSecret").is_some()).await;
    let next = release.secret(NAME, "next").expect("a next secret");
    assert_eq!((served(), &made()["nextSecret"]), (of(&second).into(), &of(&next).into()));
    release.apply(&webhook_yaml("made", "generating", "  generateSecret: {rotationGeneration: 2}\n"));
    eventually("the next one is the current one", SOON, async || served() == of(&next)).await;
    assert_eq!((value(NAME), release.secret(NAME, "next")), (Some(next), None));
    assert_eq!(made().get("nextSecret"), None);
    assert_eq!(value("other.signing-secret"), other);
}

fn owners(release: &Release, secret: &str) -> Vec<Value> {
    let owners = release.object("secret", secret)["metadata"]["ownerReferences"].clone();
    owners.as_array().into_iter().flatten().map(|owner| owner["uid"].clone()).collect()
}

/// The receiver has only the secret of the deleted Webhook, whose deliveries still wait in the queue.
#[tokio::test]
async fn a_recreated_webhook_signs_with_the_secret_that_was_kept_for_it() {
    const NAME: &str = "kept.signing-secret";
    let mut release = Release::new("kept");
    release.with_postgres().await;
    release.flags.push("--resync=5s".into());
    let operator = release.start().await;
    // The controllers delete objects whose owners are gone.
    cluster().start_controllers();
    let webhook = |customer: &str| {
        let spec = "  generateSecret: {rotationGeneration: 1, next: true}\n";
        let webhook = webhook_yaml("kept", "keeping", spec);
        webhook.replace("customerCode: C-1", &format!("customerCode: {customer}"))
    };
    release.apply(&(tenant_yaml("keeping") + &webhook("C-1")));
    release.wait("webhook", "kept", "Ready", "True").await;
    let values = || ["secret", "next"].map(|key| release.secret(NAME, key).unwrap_or_default());
    let of = |value: &str| value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let served = || release.runtime("keeping").expect("it is served")["config"]["webhooks"][0].clone();
    let mark =
        || release.object("secret", NAME)["metadata"]["annotations"]["docket.dev/unused-since"].clone();
    let first = values();
    assert!(first[0].len() == 64 && first[1].len() == 64 && first[0] != first[1]);

    // Replaced at once: the operator may see it gone or not.
    let replace = ["--namespace", &release.tenants, "replace", "--force", "-f", "-"];
    cluster().kubectl(&replace, &webhook("C-1")).expect("it is replaced");
    release.wait("webhook", "kept", "Ready", "True").await;
    assert_eq!((values(), served()["secret"].clone()), (first.clone(), of(&first[0]).into()));

    // Gone for a while, over a restart of the operator.
    release.kubectl(&["delete", "webhook", "kept"]);
    eventually("the secret is marked", SOON, async || mark().is_string()).await;
    let since = mark();
    assert!(operator.terminate().await.success());
    let operator = release.start().await;
    operator.leads().await;
    let written = cluster().mark();
    passes(&operator, 3.0).await;
    assert_eq!(release.writes(written), Vec::<String>::new(), "at rest");
    assert_eq!((values(), mark()), (first.clone(), since));
    release.apply(&webhook("C-1"));
    release.wait("webhook", "kept", "Ready", "True").await;
    assert_eq!((values(), mark()), (first.clone(), Value::Null));
    assert_eq!(
        (&served()["secret"], &served()["nextSecret"]),
        (&of(&first[0]).into(), &of(&first[1]).into())
    );
    let reported = async || release.events("kept").contains(&"SecretKept".to_owned());
    eventually("an Event says so", SOON, reported).await;

    // Another customer's Webhook has other secrets, and the first customer's come back.
    release.kubectl(&["delete", "webhook", "kept"]);
    release.apply(&webhook("C-2"));
    release.wait("webhook", "kept", "Ready", "True").await;
    let others = values();
    assert!(others.iter().all(|value| value.len() == 64 && !first.contains(value)));
    let copy = signing_secrets(&release).into_iter().find(|name| name != NAME).expect("it was set aside");
    let mut left = release.object("secret", &copy);
    release.kubectl(&["delete", "webhook", "kept"]);
    release.apply(&webhook("C-1"));
    release.wait("webhook", "kept", "Ready", "True").await;
    assert_eq!((values(), served()["secret"].clone()), (first.clone(), of(&first[0]).into()));

    // The operator leaves the copy that dies in this state before it deletes it.
    let gone = || !signing_secrets(&release).contains(&copy);
    eventually("the copy is taken back", SOON, async || gone()).await;
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        left["metadata"].as_object_mut().expect("an object").remove(field);
    }
    release.apply(&left.to_string());
    eventually("the copy ends", SOON, async || gone()).await;
    assert_eq!(values(), first);

    // A day after the grace.
    release.kubectl(&["delete", "webhook", "kept"]);
    eventually("the secret is marked", SOON, async || mark().is_string()).await;
    for secret in signing_secrets(&release) {
        let mark = "docket.dev/unused-since=2020-01-01T00:00:00Z";
        release.kubectl(&["annotate", "secret", &secret, mark, "--overwrite"]);
    }
    eventually("no secret is left", SOON, async || signing_secrets(&release).is_empty()).await;
    release.apply(&webhook("C-1"));
    release.wait("webhook", "kept", "Ready", "True").await;
    assert!(values().iter().all(|value| value.len() == 64 && !first.contains(value)));

    // The secrets end with the Tenant and the Webhook.
    release.kubectl(&["delete", "tenant", "keeping"]);
    release.kubectl(&["delete", "webhook", "kept"]);
    eventually("Kubernetes deletes it", 2 * SOON, async || signing_secrets(&release).is_empty()).await;
}

/// The names of the Secrets that were generated for Webhooks.
fn signing_secrets(release: &Release) -> Vec<String> {
    let list = release.kubectl(&["get", "secrets", "--output=json"]);
    let list: Value = serde_json::from_str(&list).expect("it is JSON");
    let all = list["items"].as_array().expect("a list").iter().map(|secret| &secret["metadata"]);
    let of_webhooks = all.filter(|meta| meta["annotations"]["docket.dev/customer-code"].is_string());
    of_webhooks.map(|meta| meta["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_secret_of_a_user_is_never_overwritten_by_a_generated_one() {
    let mut release = Release::new("taken");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.kubectl(&["create", "secret", "generic", "mine.signing-secret", "--from-literal=secret=theirs"]);
    release.apply(&(tenant_yaml("takenname") + &webhook_yaml("mine", "takenname", "  generateSecret: {}\n")));
    let message = release.wait("webhook", "mine", "Ready", "False SecretInvalid").await;
    assert!(message.contains("exists and was not created for"), "{message}");
    release.wait("tenant", "takenname", "Ready", "True").await;
    assert_eq!(release.secret("mine.signing-secret", "secret").as_deref(), Some("theirs"));
}

/// The operator keeps the secret of the first customer's Webhook under a name that a user has given to another Secret.
#[tokio::test]
async fn a_secret_of_a_user_that_has_the_name_of_a_kept_one_is_reported() {
    const ASIDE: &str = "docket.dev/webhook";
    let mut release = Release::new("keptname");
    release.with_postgres().await;
    release.flags.push("--resync=5s".into());
    let _operator = release.start().await;
    let webhook = |customer: &str| {
        let webhook = webhook_yaml("moved", "keptname", "  generateSecret: {}\n");
        webhook.replace("customerCode: C-1", &format!("customerCode: {customer}"))
    };
    let becomes = async |customer: &str, ready: &str| {
        release.kubectl(&["delete", "webhook", "moved", "--ignore-not-found"]);
        release.apply(&webhook(customer));
        release.wait("webhook", "moved", "Ready", ready).await
    };
    release.apply(&tenant_yaml("keptname"));
    becomes("C-1", "True").await;
    becomes("C-2", "True").await;
    let set_aside = signing_secrets(&release)
        .into_iter()
        .find(|name| release.object("secret", name)["metadata"]["annotations"][ASIDE].is_string());
    let set_aside = set_aside.expect("a Secret that was set aside");
    becomes("C-1", "True").await;
    let first = release.secret("moved.signing-secret", "secret");
    eventually("it is taken back", SOON, async || !signing_secrets(&release).contains(&set_aside)).await;
    release.kubectl(&["create", "secret", "generic", &set_aside, "--from-literal=secret=theirs"]);

    let message = becomes("C-2", "False SecretInvalid").await;
    assert!(message.contains(&set_aside), "{message}");
    assert_eq!(release.secret(&set_aside, "secret").as_deref(), Some("theirs"));
    assert_eq!(release.secret("moved.signing-secret", "secret"), first, "nothing is lost");
    // The rest of the Tenant does not wait for this Webhook.
    release.apply(&webhook_yaml("beside", "keptname", "  generateSecret: {}\n"));
    release.wait("webhook", "beside", "Ready", "True").await;
    release.wait("tenant", "keptname", "Ready", "True").await;
    release.kubectl(&["delete", "secret", &set_aside]);
    release.wait("webhook", "moved", "Ready", "True").await;
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
        let limit = SOON;
        let what = format!("{name} {beginning}");
        eventually(&what, limit, async || ready(name).starts_with(beginning)).await;
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

    // The Webhook is created again before its namespace has its label, so its queued deliveries wait.
    let delete = ["--namespace", &other, "delete", "webhook", "stranger"];
    cluster().kubectl(&delete, "").expect("it is deleted");
    let served = || release.runtime("shared").expect("it is served")["config"]["webhooks"].clone();
    eventually("it is not served", SOON, async || served() == json!([])).await;
    let label = ["label", "namespace", &other, "team-"];
    cluster().kubectl(&label, "").expect("the administrator labels namespaces");
    release.apply_in(&other, &webhook("stranger", "shared"));
    reports("stranger", r#""False" "RefNotPermitted""#).await;
    let held = release.runtime("shared").expect("it is served")["heldKeys"].clone();
    let held: Vec<Value> = held.as_object().into_iter().flatten().map(|(_, key)| key.clone()).collect();
    assert_eq!(held, [format!("{other}/stranger/C-1")]);
}

/// The operator's memory limit: more than an operator needs, and less than the size of the objects that the Webhooks below refer
/// to.
const MEMORY: u64 = 112 << 20;

#[tokio::test]
async fn what_strangers_let_webhooks_refer_to_does_not_fill_the_operators_memory() {
    let Some(group) = MemoryGroup::new(MEMORY) else { return };
    let mut release = Release::new("filled");
    release.with_postgres().await;
    release.group = Some(group);
    let other = cluster().namespace("filled-other");
    release.watch(&other);
    let operator = release.start().await;
    release.apply(&tenant_yaml("filled"));
    release.wait("tenant", "filled", "Ready", "True").await;
    let reference = format!("tenantRef: {{name: filled, namespace: {}}}", release.tenants);
    let names: Vec<String> = (0..120).map(|number| format!("ca{number}")).collect();
    for names in names.chunks(20) {
        let items = names.iter().map(|name| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"ca.crt": "x".repeat(1_000_000)},
            })
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()});
        let create = ["--namespace", &other, "create", "-f", "-"];
        cluster().kubectl(&create, &list.to_string()).expect("the API server takes them");
    }
    let webhooks = names.iter().map(|name| {
        let bundle = format!("  caBundleRef: {{kind: ConfigMap, name: {name}}}\n");
        webhook_yaml(name, "filled", &bundle).replace("tenantRef: {name: filled}", &reference)
    });
    release.apply_in(&other, &webhooks.collect::<String>());
    // First no Webhook is allowed. Then the first hundred are allowed, and no bundle is usable.
    for (from, reason) in [("Same", "RefNotPermitted"), ("All", "InvalidCaBundle")] {
        let allowed = format!(r#"{{"spec":{{"webhooks":{{"allowedNamespaces":{{"from":"{from}"}}}}}}}}"#);
        release.kubectl(&["patch", "tenant", "filled", "--type=merge", "-p", &allowed]);
        eventually("the webhooks are refused", SOON, async || {
            object(cluster(), &other, "webhook", "ca0").to_string().contains(reason)
        })
        .await;
    }
    release.apply(&webhook_yaml("own", "filled", ""));
    release.wait("webhook", "own", "Accepted", "True").await;
    operator.terminate().await;
}

#[tokio::test]
async fn limits_of_webhooks_hold_as_far_as_the_platform_gives_them() {
    let mut release = Release::new("limits");
    release.with_postgres().await;
    let file = release.file("limits.yaml", "defaults: {webhooks: 1}\nmaxima: {webhooks: 2}\n");
    release.flags.push(format!("--tenant-limits={}", file.display()));
    let operator = release.start().await;
    release.apply(&tenant_yaml("limits"));
    release.wait("tenant", "limits", "Ready", "True").await;
    release.wait("tenant", "limits", "WithinLimits", "True WithinLimits").await;
    for name in ["a", "b", "c"] {
        release.apply(&webhook_yaml(name, "limits", ""));
    }
    let counted = async |served: usize| {
        let of = |name| release.condition("webhook", name, "Accepted");
        eventually("the limit holds", SOON, async || {
            let accepted = ["a", "b", "c"].into_iter().filter(|name| of(name).starts_with("True")).count();
            let refused =
                ["a", "b", "c"].into_iter().filter(|name| of(name).contains("TooManyWebhooks")).count();
            let runtime = release.runtime("limits").expect("it is served");
            let handed_over = runtime["config"]["webhooks"].as_array().expect("a list").len();
            (accepted, refused, handed_over) == (served, 3 - served, served)
        })
        .await;
    };
    counted(1).await;
    let more = |webhooks: u32| format!(r#"{{"spec":{{"limits":{{"webhooks":{webhooks}}}}}}}"#);
    release.kubectl(&["patch", "tenant", "limits", "--type=merge", "-p", &more(3)]);
    let message = release.wait("tenant", "limits", "WithinLimits", "False AboveMaximum").await;
    assert!(message.contains("spec.limits.webhooks: the platform gives at most 2, not 3"), "{message}");
    release.wait("tenant", "limits", "Ready", "True").await;
    counted(2).await;

    operator.terminate().await;
    release.file("limits.yaml", "");
    let _operator = release.start().await;
    release.wait("tenant", "limits", "WithinLimits", "True WithinLimits").await;
    counted(3).await;
    release.kubectl(&["patch", "tenant", "limits", "--type=merge", "-p", &more(0)]);
    counted(0).await;
}
