//! The pure steps together, from minimal YAML.

use std::{collections::BTreeSet, sync::Arc};

use docket_crds::{
    DatabaseUrl, Runtime, SecretBytes, TenantStatus, ValueKind, Webhook,
    conditions::{ConditionType, ReasonCode},
};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    build::build,
    signing::rotate,
    status::status,
    stored::{EnsuredDatabase, Stored},
    *,
};
use crate::state::{
    cluster::Cluster,
    conditions::{Truth, Verdict, find},
    examples,
    pods::{Pods, programmed},
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn webhook(uid: &str, namespace: &str, spec: Value) -> Arc<Declared<Webhook>> {
    let mut document = json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
        "metadata": {"name": uid, "namespace": namespace, "uid": uid, "generation": 1, "resourceVersion": "1"},
        "spec": {"tenantRef": {"name": "acme", "namespace": "tenants"}, "customerCode": "C",
            "targetURL": "https://h.example/", "events": ["order.created"]}
    });
    for (key, value) in spec.as_object().unwrap() {
        document["spec"][key] = value.clone();
    }
    let object: DynamicObject = serde_json::from_value(document).unwrap();
    Declared::read(object).unwrap()
}

fn subject(tenant: Arc<Declared<Tenant>>, webhooks: Vec<Arc<Declared<Webhook>>>) -> Subject {
    let mut cluster = Cluster::default();
    cluster.tenant_applied(tenant.clone());
    for webhook in webhooks {
        cluster.webhook_applied(webhook);
    }
    Subject::of(&cluster, tenant)
}

fn made() -> Made {
    let ensured =
        EnsuredDatabase { fingerprint: "f".into(), role: Some("r".into()), server: None, schema_version: 2 };
    let url = DatabaseUrl::parse("postgres://u:p@db/x").unwrap();
    Made {
        api_keys: vec![("primary".into(), SecretBytes::from("ab".repeat(32).into_bytes()))],
        signing: rotate(Vec::new(), 90, true, NOW, &mut |bytes| bytes.fill(1)),
        database: Database::Ready(ensured, url),
        reasons: Vec::new(),
    }
}

fn built(subject: &Subject, fetched: &Fetched, made: &Made, unreadable: bool) -> Built {
    let tenant = subject.tenant.document.as_ref().unwrap();
    let refused = validate(subject).err().map(|refused| refused.reasons).unwrap_or_default();
    build(subject, tenant, &refused, fetched, made, &BTreeSet::new(), &|_, _| unreadable)
}

fn stored(runtime: Runtime, memory: Memory) -> Fetched {
    let name = Name::new("tenants", "acme");
    let secret = stored::secret("docket", &name, "uid-acme", &runtime, &memory);
    let mut fetched = Fetched::default();
    fetched.stored = Some(Stored::read(&secret, "docket", &name, "uid-acme"));
    fetched
}

#[test]
fn a_minimal_tenant_is_built_and_told_ready() {
    let subject = subject(examples::declared(), vec![webhook("w", "tenants", json!({}))]);
    let made = made();
    let built = built(&subject, &Fetched::default(), &made, false);
    let (runtime, memory) = built.runtime.unwrap();
    assert_eq!(runtime.config.webhooks[0].uid, "w");
    assert_eq!(memory.signing_keys, made.signing.keys);
    assert!(built.webhooks[0].2.served && built.webhooks[0].2.reasons.is_empty());
    let facts = Facts {
        meta: &subject.tenant.meta,
        tenant: subject.tenant.document.as_ref().ok(),
        reasons: &built.reasons,
        config: Some(&runtime.config),
        database: &made.database,
        programmed: Some(programmed(&Pods::NotObserved, "uid-acme", &[&runtime.revision])),
    };
    let first = status(&facts, &TenantStatus::default(), NOW);
    assert!(first.conditions.iter().all(|condition| condition.status == "True"), "{first:?}");
    assert_eq!(first.webhooks, Some(1));
    assert_eq!(status(&facts, &first, NOW + jiff::SignedDuration::from_hours(1)), first, "at rest it stays");
}

#[test]
fn the_runtime_secret_reads_back_and_is_written_only_when_it_differs() {
    let subject = subject(examples::declared(), Vec::new());
    let (runtime, memory) = built(&subject, &Fetched::default(), &made(), false).runtime.unwrap();
    let fetched = stored(runtime.clone(), memory.clone());
    let found = fetched.stored.as_ref().unwrap();
    assert!(found.is(&runtime, &memory));
    let other = Runtime { generation: 2, ..runtime.clone() };
    assert!(!found.is(&other, &memory));
    let name = Name::new("tenants", "acme");
    let mut unlabelled = stored::secret("docket", &name, "uid-acme", &runtime, &memory);
    unlabelled.metadata.labels = None;
    assert!(!Stored::read(&unlabelled, "docket", &name, "uid-acme").is(&runtime, &memory));
    let shown = format!("{fetched:?}");
    assert!(!shown.contains(&"01".repeat(32)) && !shown.contains("u:p@"), "{shown}");
}

#[test]
fn what_cannot_be_resolved_goes_on_as_it_last_was() {
    let signed = |secret: &str| webhook("w", "tenants", json!({"secretRef": {"name": secret}}));
    let first = subject(examples::declared(), vec![signed("there")]);
    let there = Fetched::default().with(ValueKind::Secret, Name::new("tenants", "there"), &[("secret", "s")]);
    let (runtime, memory) = built(&first, &there, &made(), false).runtime.unwrap();
    let then = subject(examples::declared(), vec![signed("gone")]);
    let result = built(&then, &stored(runtime.clone(), memory.clone()), &made(), false);
    assert_eq!(result.runtime.as_ref().unwrap().0.config, runtime.config);
    let outcome = &result.webhooks[0].2;
    assert!(outcome.served);
    assert_eq!(outcome.reasons[0].code, ReasonCode::SecretNotFound);

    let failed = Made { database: Database::Failed(away(), None), ..made() };
    let result = built(&first, &stored(runtime.clone(), memory.clone()), &failed, false);
    assert_eq!(result.runtime.unwrap().0.config.database, runtime.config.database);
}

#[test]
fn a_new_password_counts_while_the_schema_fails_and_another_database_does_not() {
    let subject = subject(examples::declared(), Vec::new());
    let (runtime, memory) = built(&subject, &Fetched::default(), &made(), false).runtime.unwrap();
    let served_after = |url: &str, fetched: &Fetched| {
        let url = DatabaseUrl::parse(url).unwrap();
        let failed = Made { database: Database::Failed(away(), Some(url)), ..made() };
        built(&subject, fetched, &failed, false).runtime.map(|(runtime, _)| runtime.config.database.unwrap())
    };
    let before = stored(runtime.clone(), memory);
    assert_eq!(served_after("postgres://u:q@db/x", &before).unwrap().expose(), "postgres://u:q@db/x");
    assert_eq!(served_after("postgres://u:q@other/x", &before), runtime.config.database);
    assert_eq!(served_after("postgres://u:q@db/x", &Fetched::default()), None, "it never had a schema");
}

fn away() -> crate::database::DatabaseError {
    crate::database::DatabaseError::Unreachable { reason: "no route".into() }
}

#[test]
fn a_webhook_that_cannot_be_read_goes_on_or_is_held() {
    let good = subject(examples::declared(), vec![webhook("w", "tenants", json!({}))]);
    let (runtime, memory) = built(&good, &Fetched::default(), &made(), false).runtime.unwrap();
    let bad = subject(examples::declared(), vec![webhook("w", "tenants", json!({"events": "all"}))]);
    let served = built(&bad, &stored(runtime.clone(), memory.clone()), &made(), true).runtime.unwrap().0;
    assert_eq!(served.config.webhooks, runtime.config.webhooks);
    let never = built(&bad, &Fetched::default(), &made(), true).runtime.unwrap().0;
    assert_eq!(never.held_webhooks, BTreeSet::from(["w".to_owned()]));
}

#[test]
fn a_stranger_leaves_no_trace_in_the_tenants_secret() {
    let subject = subject(examples::declared(), vec![webhook("w", "elsewhere", json!({}))]);
    let result = built(&subject, &Fetched::default(), &made(), false);
    let runtime = result.runtime.unwrap().0;
    assert!(runtime.held_webhooks.is_empty() && runtime.config.webhooks.is_empty());
    assert_eq!(result.webhooks[0].2.reasons[0].code, ReasonCode::RefNotPermitted);
}

#[test]
fn a_conflict_makes_nothing_new_and_gives_the_lost_subdomain_up() {
    let mut cluster = Cluster::default();
    let older = examples::with(json!({
        "metadata": {"name": "older", "uid": "0", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"clientCode": "OLD", "subdomains": ["x"], "database": {"managed": {"name": "old"}}}
    }));
    let later = examples::with(json!({"spec": {"subdomains": ["x", "y"]}}));
    cluster.tenant_applied(later.clone());
    let alone = Subject::of(&cluster, later.clone());
    let (runtime, memory) = built(&alone, &Fetched::default(), &made(), false).runtime.unwrap();
    assert_eq!(runtime.config.subdomains, ["x", "y"]);
    cluster.tenant_applied(older);
    let beside = Subject::of(&cluster, later);
    assert!(validate(&beside).is_err());
    let result = built(&beside, &stored(runtime, memory), &made(), false);
    assert_eq!(result.runtime.unwrap().0.config.subdomains, ["y"]);
    assert_eq!(result.reasons[0].code, ReasonCode::SubdomainConflict);
    let never = built(&beside, &Fetched::default(), &made(), false);
    assert!(never.runtime.is_none());
}

#[test]
fn one_that_cannot_be_read_keeps_what_it_has() {
    let mut cluster = Cluster::default();
    let older = examples::with(json!({
        "metadata": {"name": "older", "uid": "0", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"clientCode": "OLD", "subdomains": ["x"], "apiKeys": "all"}
    }));
    assert!(older.document.is_err());
    let later =
        examples::with(json!({"spec": {"clientCode": "old", "database": {"managed": {"name": "other"}}}}));
    let before = examples::with(json!({
        "metadata": {"name": "before", "uid": "b", "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"clientCode": "BEFORE", "subdomains": ["x"], "database": {"managed": {"name": "before"}}}
    }));
    for tenant in [&older, &later, &before] {
        cluster.tenant_applied(tenant.clone());
    }
    let refused = |tenant| {
        let subject = Subject::of(&cluster, tenant);
        validate(&subject).err().map(|refused| refused.reasons[0].to_string())
    };
    let told = refused(later).expect("it is refused");
    assert!(told.contains("\"old\" is already used by Tenant tenants/older"), "{told}");
    assert_eq!(refused(before), None, "who came first is not refused because of a later one");
}

#[test]
fn the_status_says_which_condition_fails_first() {
    let subject = subject(examples::declared(), Vec::new());
    let database = Database::Failed(away(), None);
    let pending = Verdict::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, "late");
    let facts = Facts {
        meta: &subject.tenant.meta,
        tenant: subject.tenant.document.as_ref().ok(),
        reasons: &[],
        config: None,
        database: &database,
        programmed: Some(pending),
    };
    let told = status(&facts, &TenantStatus::default(), NOW);
    let reason = |kind| find(&told.conditions, kind).map(|condition| condition.reason.as_str());
    assert_eq!(reason(ConditionType::Ready), Some(ReasonCode::Unreachable.as_str()));
    assert_eq!(reason(ConditionType::Reconciling), Some(ReasonCode::Unreachable.as_str()));
    assert_eq!(reason(ConditionType::Stalled), None);
}
