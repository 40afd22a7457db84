//! Which objects a change concerns.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::state::examples;

fn tenant(name: &str, code: &str, uid: &str, generation: i64) -> Arc<Declared<Tenant>> {
    examples::with(json!({
        "metadata": {"name": name, "uid": uid, "generation": generation},
        "spec": {"clientCode": code, "database": {"managed": {"name": name}},
            "apiKeys": [{"name": "k", "secretKeyRef": {"name": "key", "key": "k"}, "generate": null}]}
    }))
}

fn webhook(name: &str, generation: i64, spec: Value) -> Arc<Declared<Webhook>> {
    let mut document = json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
        "metadata": {"name": name, "namespace": "tenants", "uid": name, "generation": generation,
            "resourceVersion": "1"},
        "spec": {"tenantRef": {"name": "a"}, "customerCode": "C", "targetURL": "https://h.example/",
            "secretRef": {"name": "sign"}, "events": ["order.created"]}
    });
    for (key, value) in spec.as_object().unwrap() {
        document["spec"][key] = value.clone();
    }
    let object: DynamicObject = serde_json::from_value(document).unwrap();
    Declared::read(object).unwrap()
}

fn name(name: &str) -> Name {
    Name::new("tenants", name)
}

fn key(of: &str) -> ObjectKey {
    ObjectKey::Tenant(name(of))
}

fn hook(of: &str) -> ObjectKey {
    ObjectKey::Webhook(name(of))
}

#[test]
fn own_status_write_concerns_no_object() {
    let mut cluster = ClusterState::default();
    assert_eq!(cluster.tenant_applied(tenant("a", "A", "1", 1)), [key("a")]);
    assert_eq!(cluster.tenant_applied(tenant("a", "A", "1", 1)), []);
    assert_eq!(cluster.tenant_applied(tenant("a", "A", "1", 2)), [key("a")]);
}

#[test]
fn webhook_change_concerns_its_tenant_alone() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    cluster.tenant_applied(tenant("b", "B", "2", 1));
    assert_eq!(cluster.webhook_applied(webhook("w", 1, json!({}))), [key("a"), hook("w")]);
    assert_eq!(cluster.webhook_applied(webhook("w", 1, json!({}))), []);
    let moved = webhook("w", 2, json!({"tenantRef": {"name": "b"}}));
    assert_eq!(cluster.webhook_applied(moved), [key("a"), key("b"), hook("w")]);
    assert!(cluster.webhooks_of(&name("a")).is_empty());
    assert_eq!(cluster.webhook_deleted(&name("w")), [key("b")]);
    assert_eq!(cluster.webhook_deleted(&name("w")), []);
}

#[test]
fn tenant_deletion_concerns_its_webhooks_and_rivals() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "ACME", "1", 1));
    assert_eq!(cluster.tenant_applied(tenant("b", "acme", "2", 1)), [key("a"), key("b")]);
    cluster.webhook_applied(webhook("w", 1, json!({})));
    assert_eq!(cluster.rivals(&name("b")).len(), 2);
    assert_eq!(cluster.tenant_deleted(&name("a")), [key("a"), key("b"), hook("w")]);
    assert_eq!(cluster.rivals(&name("b")).len(), 1);
}

#[test]
fn rivals_are_sorted_by_age_then_acceptance() {
    let mut cluster = ClusterState::default();
    let accepted = json!({"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let code = json!({"clientCode": "ACME", "database": {"managed": {"name": "d"}}});
    let of = |name: &str, uid: &str, created: &str, status: &Value| {
        let meta = json!({"name": name, "uid": uid, "creationTimestamp": created});
        examples::with(json!({"metadata": meta, "spec": code, "status": status}))
    };
    let order = |cluster: &ClusterState| -> Vec<String> {
        let rivals = cluster.rivals(&name("a"));
        rivals.iter().map(|rival| rival.meta.name.name.clone()).collect()
    };
    cluster.tenant_applied(of("a", "9", "2026-01-01T00:00:00Z", &accepted));
    cluster.tenant_applied(of("b", "1", "2026-01-01T00:00:00Z", &json!({})));
    cluster.tenant_applied(of("c", "2", "2026-01-01T00:00:00Z", &json!({})));
    cluster.tenant_applied(of("d", "0", "2026-01-01T00:00:01Z", &accepted));
    assert_eq!(order(&cluster), ["a", "b", "c", "d"]);
}

#[test]
fn secret_change_concerns_the_objects_that_name_it() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    cluster.tenant_applied(tenant("b", "B", "2", 1));
    cluster.webhook_applied(webhook("w", 1, json!({"tenantRef": {"name": "b"}})));
    let applied = |cluster: &mut ClusterState, secret: &str, version: &str| {
        cluster.value_applied(ValueKind::Secret, name(secret), version.into())
    };
    assert_eq!(applied(&mut cluster, "sign", "1"), [key("b")]);
    assert_eq!(applied(&mut cluster, "sign", "1"), [], "the same version again");
    assert_eq!(applied(&mut cluster, "key", "1"), [key("a"), key("b")]);
    assert_eq!(applied(&mut cluster, "other", "1"), []);
    assert_eq!(cluster.value_applied(ValueKind::ConfigMap, name("sign"), "1".into()), []);
    assert_eq!(cluster.value_deleted(ValueKind::Secret, &name("sign")), [key("b")]);
    cluster.webhook_deleted(&name("w"));
    assert_eq!(applied(&mut cluster, "sign", "2"), []);
}

#[test]
fn object_missing_from_a_list_is_deleted() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    cluster.tenant_applied(tenant("b", "B", "2", 1));
    let listed = Listed { namespace: None, names: HashSet::from([name("b")]) };
    assert_eq!(cluster.tenants_listed(&listed), [key("a")]);
    let elsewhere = Listed { namespace: Some("other".into()), names: HashSet::new() };
    assert_eq!(cluster.tenants_listed(&elsewhere), []);
    assert_eq!(cluster.counts(), (1, 0));
}

#[test]
fn own_secret_writes_concern_no_object_and_those_of_others_do() {
    let secret = |version: &str| OwnSecret {
        name: name("a-database"),
        uid: "s".into(),
        tenant: name("a"),
        tenant_uid: "1".into(),
        resource_version: version.into(),
        is_runtime: false,
        signs: false,
        unused_since: None,
        is_made: true,
    };
    let mut cluster = ClusterState::default();
    cluster.own_written(secret("5"));
    assert_eq!(cluster.own_applied(secret("5")), []);
    assert_eq!(cluster.own_applied(secret("6")), [key("a")]);
    assert_eq!(cluster.own_applied(secret("6")), [], "the watch began again");
    assert_eq!(cluster.own_secrets(&name("a")).len(), 1);
    assert_eq!(cluster.own_deleted(&name("a-database")), [key("a")]);
    assert!(cluster.own_secrets(&name("a")).is_empty());
    assert_eq!(cluster.everything(), []);
}

#[test]
fn namespace_labels_concern_the_tenants_named_from_it() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    cluster.webhook_applied(webhook("w", 1, json!({})));
    let labelled = |team: &str| NamespaceState {
        labels: BTreeMap::from([("team".to_owned(), team.to_owned())]),
        terminating: false,
    };
    assert_eq!(cluster.namespace_applied("tenants", labelled("a")), [], "the first report is no change");
    assert_eq!(cluster.namespace_applied("tenants", labelled("a")), []);
    assert_eq!(cluster.namespace_applied("tenants", labelled("b")), [key("a")]);
    assert_eq!(cluster.namespace_applied("other", labelled("b")), []);
    cluster.namespace_deleted("tenants");
    assert_eq!(cluster.namespace_applied("tenants", labelled("c")), [], "it is another one");
}

#[test]
fn namespace_concerns_its_own_tenants_and_those_that_its_webhooks_name() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    let there = json!({"tenantRef": {"name": "b", "namespace": "elsewhere"}});
    cluster.webhook_applied(webhook("w", 1, there));
    let ending = |terminating| NamespaceState { labels: BTreeMap::new(), terminating };
    cluster.namespace_applied("tenants", ending(false));
    let named = ObjectKey::Tenant(Name::new("elsewhere", "b"));
    assert_eq!(cluster.namespace_applied("tenants", ending(true)), [named, key("a")]);
}

#[test]
fn tenant_that_is_paused_or_replaced_concerns_its_webhooks() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    cluster.webhook_applied(webhook("w", 1, json!({})));
    assert_eq!(cluster.tenant_applied(tenant("a", "A", "1", 2)), [key("a")], "its pass decides about them");
    assert_eq!(cluster.tenant_applied(tenant("a", "A", "2", 2)), [key("a"), hook("w")]);
    let mut paused = Arc::unwrap_or_clone(tenant("a", "A", "2", 2));
    paused.meta.paused = true;
    assert_eq!(cluster.tenant_applied(Arc::new(paused)), [key("a"), hook("w")]);
}

#[test]
fn list_of_one_sort_of_our_secrets_says_nothing_about_the_other() {
    let secret = |of: &str, is_runtime| OwnSecret {
        name: name(of),
        uid: of.into(),
        tenant: name("a"),
        tenant_uid: "1".into(),
        resource_version: "1".into(),
        is_runtime,
        signs: false,
        unused_since: None,
        is_made: true,
    };
    let mut cluster = ClusterState::default();
    cluster.own_applied(secret("docket-tenant-1", true));
    cluster.own_applied(secret("a-database", false));
    let listed = Listed { namespace: Some("tenants".into()), names: HashSet::new() };
    assert_eq!(cluster.own_listed(&listed, |secret| secret.is_runtime), [key("a")]);
    let left: Vec<_> = cluster.own_secrets(&name("a")).into_iter().map(|secret| secret.uid).collect();
    assert_eq!(left, ["a-database"]);
}

#[test]
fn webhook_or_value_missing_from_a_list_is_gone() {
    let mut cluster = ClusterState::default();
    cluster.webhook_applied(webhook("w", 1, json!({})));
    cluster.value_applied(ValueKind::Secret, name("sign"), "1".into());
    assert!(cluster.is_watched(ValueKind::Secret, &name("sign")));
    let nothing = Listed { namespace: None, names: HashSet::new() };
    assert_eq!(cluster.values_listed(ValueKind::ConfigMap, &nothing), []);
    assert_eq!(cluster.values_listed(ValueKind::Secret, &nothing), [key("a")]);
    assert!(!cluster.is_watched(ValueKind::Secret, &name("sign")));
    assert_eq!(cluster.webhooks_listed(&nothing), [key("a")]);
    assert!(cluster.webhooks_of(&name("a")).is_empty());
}

#[test]
fn secret_is_ours_only_where_the_operator_creates_it() {
    let meta: ObjectMeta = serde_json::from_value(json!({
        "uid": "s", "labels": {"docket.dev/tenant-uid": "1"}, "annotations": {"docket.dev/tenant": "tenants/a"}
    }))
    .unwrap();
    let of = |namespace: &str, name: &str| {
        OwnSecret::of(
            &ObjectMeta { namespace: Some(namespace.into()), name: Some(name.into()), ..meta.clone() },
            "docket",
        )
        .map(|secret| secret.is_runtime)
    };
    assert_eq!(of("docket", "docket-tenant-1"), Some(true));
    assert_eq!(of("tenants", "a-database"), Some(false));
    assert_eq!(
        of("tenants", "docket-tenant-1"),
        Some(false),
        "any user of the namespace may have created it"
    );
    assert_eq!(of("elsewhere", "docket-tenant-1"), None);
    assert_eq!(of("docket", "a-database"), None);
}

#[test]
fn copy_of_a_secret_was_not_made_by_the_operator() {
    let made = |managers: Value| {
        let meta = json!({
            "uid": "s", "namespace": "tenants", "name": "a-apikey-copy",
            "labels": {"docket.dev/tenant-uid": "1"}, "annotations": {"docket.dev/tenant": "tenants/a"},
            "managedFields": managers,
        });
        OwnSecret::of(&serde_json::from_value(meta).unwrap(), "docket").unwrap().is_made
    };
    let by = |manager: &str| json!({"manager": manager, "operation": "Update", "apiVersion": "v1"});
    assert!(made(json!([by("kubectl-edit"), by("docket-operator")])), "a user has changed it since");
    assert!(!made(json!([by("kubectl-create")])));
    assert!(!made(json!([])));
}

#[test]
fn signing_secret_is_known_with_its_mark() {
    let of = |annotations: Value| {
        let mut all = json!({"docket.dev/tenant": "tenants/a"});
        all.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
        let meta = json!({
            "uid": "s", "namespace": "tenants", "name": "w.signing-secret",
            "labels": {"docket.dev/tenant-uid": "1"}, "annotations": all,
        });
        let secret = OwnSecret::of(&serde_json::from_value(meta).unwrap(), "docket").unwrap();
        (secret.signs, secret.unused_since.map(|since| since.as_second()))
    };
    assert_eq!(of(json!({})), (false, None));
    assert_eq!(of(json!({"docket.dev/customer-code": "C"})), (true, None));
    let mark = |since: &str| json!({"docket.dev/customer-code": "C", "docket.dev/unused-since": since});
    assert_eq!(of(mark("1970-01-01T00:01:00Z")), (true, Some(60)));
    assert_eq!(of(mark("yesterday")), (true, None), "a user wrote it");
}

#[test]
fn user_change_during_our_status_write_still_concerns_the_object() {
    let mut cluster = ClusterState::default();
    let seen = tenant("a", "A", "1", 1);
    cluster.tenant_applied(seen.clone());
    cluster.written(tenant("a", "A", "1", 2), &seen.meta);
    assert_eq!(cluster.tenant_applied(tenant("a", "A", "1", 2)), [key("a")]);
    let seen = webhook("w", 1, json!({}));
    cluster.webhook_applied(seen.clone());
    cluster.written(webhook("w", 2, json!({})), &seen.meta);
    assert_eq!(cluster.webhook_applied(webhook("w", 2, json!({}))), [key("a"), hook("w")]);
}

#[test]
fn status_write_whose_answer_is_late_does_not_hide_a_newer_object() {
    let mut cluster = ClusterState::default();
    let of_version = |generation, version: &str| {
        let mut tenant = Arc::unwrap_or_clone(tenant("a", "A", "1", generation));
        tenant.meta.resource_version = version.to_owned();
        Arc::new(tenant)
    };
    let seen = of_version(1, "1");
    cluster.tenant_applied(seen.clone());
    cluster.written(of_version(1, "2"), &seen.meta);
    let known = |cluster: &ClusterState| cluster.tenant(&name("a")).unwrap().meta.resource_version.clone();
    assert_eq!(known(&cluster), "2", "the next pass sees the new status");
    let seen = of_version(1, "2");
    cluster.tenant_applied(of_version(2, "4"));
    cluster.written(of_version(1, "3"), &seen.meta);
    assert_eq!(known(&cluster), "4");
}

fn outcome(of: &str) -> WebhookOutcome {
    WebhookOutcome {
        webhook: name(of),
        uid: of.to_owned(),
        generation: 1,
        reasons: Vec::new(),
        served: true,
        signed: true,
        secret_version: None,
        warning: None,
        tenant_suspended: false,
        programmed: None,
    }
}

#[test]
fn outcome_concerns_its_webhook_when_it_changes_and_ends_with_its_tenant_or_webhook() {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant("a", "A", "1", 1));
    let declare = |cluster: &mut ClusterState, uid: &str| {
        let mut webhook = Arc::unwrap_or_clone(webhook("w", 1, json!({})));
        webhook.meta.uid = uid.to_owned();
        cluster.webhook_applied(Arc::new(webhook));
    };
    let of = |uid: &str| WebhookOutcome { uid: uid.to_owned(), ..outcome("w") };
    declare(&mut cluster, "first");
    assert_eq!(cluster.set_outcomes(vec![of("first")]), [hook("w")]);
    assert_eq!(cluster.set_outcomes(vec![of("first")]), []);
    let unserved = WebhookOutcome { served: false, ..of("first") };
    assert_eq!(cluster.set_outcomes(vec![unserved]), [hook("w")]);
    declare(&mut cluster, "second");
    assert!(cluster.outcome("first").is_none(), "another object has its name");
    cluster.set_outcomes(vec![of("second")]);
    cluster.tenant_deleted(&name("a"));
    assert!(cluster.outcome("second").is_none(), "a later Tenant has decided nothing");
    cluster.set_outcomes(vec![of("second")]);
    cluster.webhook_deleted(&name("w"));
    assert!(cluster.outcome("second").is_none());
}

#[test]
fn tenants_of_webhooks_count_once() {
    let mut cluster = ClusterState::default();
    for (name, tenant) in [("u", "a"), ("v", "a"), ("w", "b")] {
        cluster.webhook_applied(webhook(name, 1, json!({"tenantRef": {"name": tenant}})));
    }
    cluster.set_outcomes(["u", "v", "w"].map(outcome).to_vec());
    let count = |uids: &[&str]| {
        let uids: Vec<String> = uids.iter().map(|uid| (*uid).to_owned()).collect();
        cluster.tenants_of_webhooks(&uids)
    };
    assert_eq!([count(&[]), count(&["u", "v"]), count(&["u", "v", "w", "gone"])], [0, 1, 2]);
}
