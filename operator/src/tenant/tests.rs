//! The pure steps together, from minimal YAML.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use docket_crds::status::DatabaseStatus;
use docket_crds::{
    ConditionType, DatabaseUrl, Limit, PlatformLimits, ReasonCode, Runtime, SecretBytes, ValueKind, Webhook,
};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::compile::Compiled;
use super::fetch::Fetched;
use super::signing::rotate;
use super::status::status;
use super::stored::{EnsuredDatabase, Memory, Stored};
use super::subject::Subject;
use super::*;
use crate::context::Settings;
use crate::database::DatabaseError;
use crate::state::cluster::ClusterState;
use crate::state::conditions::{NewCondition, Truth, find};
use crate::state::examples;
use crate::state::migrations::{MigrationRules, Waiting};
use crate::state::pods::{Pods, Programmed, ServedRevisions, programmed};

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

/// A Tenant for which nothing was read.
fn fetched(tenant: Arc<Declared<Tenant>>, webhooks: Vec<Arc<Declared<Webhook>>>) -> Fetched {
    let mut cluster = ClusterState::default();
    cluster.tenant_applied(tenant.clone());
    for webhook in webhooks {
        cluster.webhook_applied(webhook);
    }
    Fetched::nothing_of(Subject::of(&cluster, tenant))
}

fn ready() -> ProvisionedDatabase {
    let ensured = EnsuredDatabase {
        fingerprint: "f".into(),
        role: Some("r".into()),
        server: None,
        schema_version: docket_schema::NEWEST,
    };
    ProvisionedDatabase::Ready(ensured, DatabaseUrl::parse("postgres://u:p@db/x").unwrap())
}

fn failed(url: Option<&str>) -> ProvisionedDatabase {
    let error = DatabaseError::Unreachable { reason: "no route".into() };
    ProvisionedDatabase::Failed(error, url.map(|url| DatabaseUrl::parse(url).unwrap()))
}

fn compiled(fetched: &Fetched, database: ProvisionedDatabase) -> Compiled<'_> {
    compiled_at(NOW, fetched, database)
}

fn compiled_at(now: Timestamp, fetched: &Fetched, database: ProvisionedDatabase) -> Compiled<'_> {
    let (refused, lost_subdomains) = match validate(fetched) {
        Ok(_) => (Vec::new(), Vec::new()),
        Err(refused) => (refused.reasons, refused.lost_subdomains),
    };
    let provisioned = Provisioned {
        fetched,
        tenant: fetched.subject.tenant.document.as_ref().ok(),
        refused,
        lost_subdomains,
        api_keys: vec![("primary".into(), SecretBytes::from("ab".repeat(32).into_bytes()))],
        webhook_secrets: BTreeMap::new(),
        signing: Some(rotate(Vec::new(), 90, true, NOW, &mut |bytes| bytes.fill(1))),
        database,
        watcher: None,
        check: DatabaseCheck::Done,
        migration_waits: Waiting::Place,
        reasons: Vec::new(),
    };
    let settings = Settings {
        namespaces: Vec::new(),
        disabled_events: BTreeSet::new(),
        resync: Duration::ZERO,
        webhook_grace: Duration::from_secs(3600),
        concurrency: 1,
        external_databases: Arc::default(),
        limits: PlatformLimits::default(),
        migrations: MigrationRules::default(),
    };
    compile(provisioned, &settings, now, |_| HashSet::new())
}

/// The content that the runtime Secret would get, if any.
fn runtime_of(fetched: &Fetched, database: ProvisionedDatabase) -> Option<(Runtime, Memory)> {
    compiled(fetched, database).runtime
}

impl Fetched {
    fn with_stored(mut self, runtime: &Runtime, memory: &Memory) -> Self {
        let name = Name::new("tenants", "acme");
        let secret = stored::secret("docket", &name, "uid-acme", runtime, memory);
        self.stored = Some(Stored::read(&secret, "docket", &name, "uid-acme"));
        self
    }
}

fn applied(compiled: Compiled<'_>) -> Applied<'_> {
    Applied { compiled, refused: None }
}

#[test]
fn database_that_waits_for_its_migration_is_ready_while_the_data_plane_works_with_it() {
    let read = fetched(examples::declared(), Vec::new());
    let of_version = |schema_version| {
        let ProvisionedDatabase::Ready(ensured, url) = ready() else { panic!("it is ready") };
        ProvisionedDatabase::Ready(EnsuredDatabase { schema_version, ..ensured }, url)
    };
    for (version, truth) in [(docket_schema::OLDEST, "True"), (docket_schema::OLDEST - 1, "False")] {
        let result = compiled(&read, of_version(version));
        let (runtime, _) = result.runtime.clone().unwrap();
        let served = programmed(&Pods::NotObserved, "uid-acme", &[&runtime.revision], false);
        let reported = status(&applied(result), Some(served), Some(&BTreeSet::new()), NOW);
        let database = find(&reported.conditions, ConditionType::DatabaseReady).unwrap();
        assert_eq!((database.status.as_str(), database.reason.as_str()), (truth, "MigrationPending"));
        let message = format!("schema version {version}");
        assert!(database.message.contains(&message), "{}", database.message);
        assert!(database.message.ends_with("waits for migrations of other Tenants (--migrations-at-once)"));
        assert_eq!(find(&reported.conditions, ConditionType::Ready).unwrap().status, truth);
        assert_eq!(reported.database.unwrap().schema_version, Some(version.to_string()));
    }
}

#[test]
fn minimal_tenant_is_compiled_and_reported_ready() {
    let read = fetched(examples::declared(), vec![webhook("w", "tenants", json!({}))]);
    let result = compiled(&read, ready());
    let (runtime, memory) = result.runtime.clone().unwrap();
    assert_eq!(runtime.config.webhooks[0].uid, "w");
    assert_eq!(memory.signing_keys, result.provisioned.signing.as_ref().unwrap().keys);
    assert!(result.webhooks[0].served && result.webhooks[0].reasons.is_empty());
    let verdict = programmed(&Pods::NotObserved, "uid-acme", &[&runtime.revision], false);
    let first = status(&applied(result), Some(verdict.clone()), Some(&BTreeSet::new()), NOW);
    assert!(first.conditions.iter().all(|condition| condition.status == "True"), "{first:?}");
    assert_eq!(first.webhooks, Some(1));
    let mut again = fetched(examples::declared(), vec![webhook("w", "tenants", json!({}))]);
    again.subject.previous = first.clone();
    let later = NOW + jiff::SignedDuration::from_hours(1);
    let second = status(&applied(compiled(&again, ready())), Some(verdict), Some(&BTreeSet::new()), later);
    assert_eq!(second, first, "at rest it stays");
}

#[test]
fn stores_that_are_away_for_ten_minutes_and_a_restart_meanwhile_cost_no_write() {
    let read = |previous: &TenantStatus| {
        let mut read = fetched(examples::declared(), vec![webhook("w", "tenants", json!({}))]);
        read.subject.previous = previous.clone();
        read
    };
    let new = read(&TenantStatus::default());
    let well = compiled(&new, ready());
    let (runtime, memory) = well.runtime.clone().unwrap();
    let revision = [runtime.revision.as_str()];
    let served: ServedRevisions =
        [("pod".into(), Arc::new([("uid-acme".into(), runtime.revision.clone())].into()))].into();
    let seen = programmed(&Pods::Seen(served.clone()), "uid-acme", &revision, false);
    let before = status(&applied(well), Some(seen), Some(&BTreeSet::new()), NOW);
    assert!(before.conditions.iter().all(|condition| condition.status == "True"), "{before:?}");
    for second in (0..=600).step_by(15) {
        // The process of the second half has read nothing from Redis.
        let is_restarted = second > 300;
        let pods = Pods::Unavailable((!is_restarted).then(|| served.clone()));
        let at_limit = (!is_restarted).then(BTreeSet::new);
        let now = NOW + jiff::SignedDuration::from_secs(second);
        let read = read(&before).with_stored(&runtime, &memory);
        let away = DatabaseError::ServerAway { reason: "no route".into() };
        let result = compiled(&read, ProvisionedDatabase::Failed(away, None));
        assert_eq!(result.runtime.as_ref().unwrap().0.revision, runtime.revision, "the Secret stays, too");
        let programmed = programmed(&pods, "uid-acme", &revision, false);
        let after = status(&applied(result), Some(programmed), at_limit.as_ref(), now);
        assert_eq!(after, before, "after {second} s");
    }
}

#[test]
fn tenant_that_stays_at_a_limit_is_reported_until_it_does_not() {
    let now = |previous: Option<TenantStatus>, at_limit: Option<&[Limit]>| {
        let mut read = fetched(examples::declared(), Vec::new());
        read.subject.previous = previous.unwrap_or_default();
        let at_limit: Option<BTreeSet<Limit>> = at_limit.map(|limits| limits.iter().copied().collect());
        let programmed = programmed(&Pods::NotObserved, "uid-acme", &[], false);
        status(&applied(compiled(&read, ready())), Some(programmed), at_limit.as_ref(), NOW)
    };
    let within = |status: &TenantStatus| {
        let condition = find(&status.conditions, ConditionType::WithinLimits).expect("it is there");
        (condition.reason.clone(), condition.message.clone())
    };
    let reached = now(None, Some(&[Limit::RequestsPerSecond, Limit::AttemptsInFlight]));
    let (reason, message) = within(&reached);
    assert_eq!(reason, "LimitReached");
    assert!(message.contains("spec.limits.attemptsInFlight: the Tenant is at its limit of 512"), "{message}");
    assert!(message.contains("spec.limits.requestsPerSecond"), "{message}");
    assert_eq!(find(&reached.conditions, ConditionType::Ready).expect("it is there").status, "True");
    let unknown = now(Some(reached.clone()), None);
    assert_eq!(within(&unknown), within(&reached), "what can't be read stays what it was");
    assert_eq!(within(&now(None, None)).0, "WithinLimits");
    assert_eq!(within(&now(Some(unknown), Some(&[]))).0, "WithinLimits");
}

#[test]
fn runtime_secret_reads_back_and_is_written_only_when_it_differs() {
    let read = fetched(examples::declared(), Vec::new());
    let (runtime, memory) = runtime_of(&read, ready()).unwrap();
    let read = read.with_stored(&runtime, &memory);
    let found = read.stored.as_ref().unwrap();
    assert!(found.is(&runtime, &memory));
    let other = Runtime { generation: 2, ..runtime.clone() };
    assert!(!found.is(&other, &memory));
    let name = Name::new("tenants", "acme");
    let mut unlabelled = stored::secret("docket", &name, "uid-acme", &runtime, &memory);
    unlabelled.metadata.labels = None;
    assert!(!Stored::read(&unlabelled, "docket", &name, "uid-acme").is(&runtime, &memory));
    let shown = format!("{read:?}");
    assert!(!shown.contains(&"01".repeat(32)) && !shown.contains("u:p@"), "{shown}");
}

#[test]
fn tenant_whose_secret_must_stay_says_so_and_keeps_its_other_conditions() {
    let read = fetched(examples::declared(), Vec::new());
    let verdict = programmed(&Pods::NotObserved, "uid-acme", &[], false);
    let before = status(&applied(compiled(&read, ready())), Some(verdict), Some(&BTreeSet::new()), NOW);
    let why = "operator.json was written by a newer operator";
    let left = |previous: &TenantStatus, hours: i64| {
        let now = NOW + jiff::SignedDuration::from_hours(hours);
        status::unreadable(read.subject.meta(), why, previous, now)
    };
    let after = left(&before, 1);
    let shown = |kind: ConditionType| {
        let condition = find(&after.conditions, kind).expect("it is there");
        format!("{} {}", condition.status, condition.reason)
    };
    assert_eq!(shown(ConditionType::Ready), "False ConfigurationUnreadable");
    assert_eq!(shown(ConditionType::Stalled), "True ConfigurationUnreadable");
    assert_eq!(shown(ConditionType::DatabaseReady), "True Migrated");
    let message = &find(&after.conditions, ConditionType::Ready).expect("it is there").message;
    assert!(message.starts_with(&format!("Secret docket-tenant-uid-acme: {why}; ")), "{message}");
    assert_eq!(left(&after, 2), after, "at rest it stays");
}

#[test]
fn what_a_newer_operator_remembers_survives_a_pass() {
    let read = fetched(examples::declared(), Vec::new());
    let (runtime, memory) = runtime_of(&read, ready()).unwrap();
    let name = Name::new("tenants", "acme");
    let mut secret = stored::secret("docket", &name, "uid-acme", &runtime, &memory);
    let entry = secret.data.as_mut().unwrap().get_mut("operator.json").unwrap();
    let mut json: Value = serde_json::from_slice(&entry.0).unwrap();
    json["later"] = json!({"step": 7});
    entry.0 = json.to_string().into_bytes();
    let mut read = fetched(examples::with(json!({"spec": {"subdomains": ["x"]}})), Vec::new());
    read.stored = Some(Stored::read(&secret, "docket", &name, "uid-acme"));
    let (runtime, memory) = runtime_of(&read, ready()).unwrap();
    let secret = stored::secret("docket", &name, "uid-acme", &runtime, &memory);
    let json: Value = serde_json::from_slice(&secret.data.unwrap()["operator.json"].0).unwrap();
    assert_eq!(json["later"], json!({"step": 7}));
}

#[test]
fn unresolved_webhook_and_failed_database_stay_as_they_last_were() {
    let signed = |secret: &str| webhook("w", "tenants", json!({"secretRef": {"name": secret}}));
    let first = || {
        let read = fetched(examples::declared(), vec![signed("there")]);
        read.with(ValueKind::Secret, Name::new("tenants", "there"), &[("secret", "s")])
    };
    let (runtime, memory) = runtime_of(&first(), ready()).unwrap();
    let then = fetched(examples::declared(), vec![signed("gone")]).with_stored(&runtime, &memory);
    let result = compiled(&then, ready());
    assert_eq!(result.runtime.as_ref().unwrap().0.config, runtime.config);
    let outcome = &result.webhooks[0];
    assert!(outcome.served);
    assert_eq!(outcome.reasons[0].code, ReasonCode::SecretNotFound);

    let without = fetched(examples::declared(), vec![signed("there")]).with_stored(&runtime, &memory);
    let result = runtime_of(&without, failed(None)).unwrap();
    assert_eq!(result.0.config.database, runtime.config.database);
}

#[test]
fn secret_and_authority_that_look_like_mistakes_are_used_and_named() {
    let unusable = include_str!("../../../crds/src/compile/authority/secp521r1.pem");
    let usable = include_str!("../../../crds/src/compile/authority/prime256v1.pem");
    let spec = json!({
        "secretRef": {"name": "values"}, "caBundleRef": {"kind": "Secret", "name": "values", "key": "ca"},
    });
    let outcome = |secret: &str, ca: &str| {
        let read = fetched(examples::declared(), vec![webhook("w", "tenants", spec.clone())]);
        let name = Name::new("tenants", "values");
        let read = read.with(ValueKind::Secret, name, &[("secret", secret), ("ca", ca)]);
        compiled(&read, ready()).webhooks.remove(0)
    };
    assert_eq!(outcome("s", usable).warning, None);
    let both = outcome("s\n", &format!("{usable}{unusable}"));
    assert!(both.served && both.reasons.is_empty());
    let warning = both.warning.unwrap();
    assert!(warning.starts_with("spec.secretRef: the secret ends in a newline; "), "{warning}");
    assert!(warning.contains("; spec.caBundleRef: certificate 2 of 2 can't be used"), "{warning}");
}

#[test]
fn new_password_counts_while_the_schema_fails_and_another_database_does_not() {
    let read = || fetched(examples::declared(), Vec::new());
    let (runtime, memory) = runtime_of(&read(), ready()).unwrap();
    let served_after = |url: &str, read: &Fetched| {
        runtime_of(read, failed(Some(url))).map(|(runtime, _)| runtime.config.database.clone().unwrap())
    };
    let before = read().with_stored(&runtime, &memory);
    assert_eq!(served_after("postgres://u:q@db/x", &before).unwrap().expose(), "postgres://u:q@db/x");
    assert_eq!(served_after("postgres://u:q@other/x", &before), runtime.config.database);
    assert_eq!(served_after("postgres://u:q@db/x", &read()), None, "it never had a schema");
}

#[test]
fn unreadable_webhook_stays_served_or_is_put_on_hold() {
    let good = fetched(examples::declared(), vec![webhook("w", "tenants", json!({}))]);
    let (runtime, memory) = runtime_of(&good, ready()).unwrap();
    let bad = || fetched(examples::declared(), vec![webhook("w", "tenants", json!({"events": "all"}))]);
    let mut served_before = bad().with_stored(&runtime, &memory);
    served_before.unreadable_webhooks = BTreeSet::from(["w".to_owned()]);
    let served = runtime_of(&served_before, ready()).unwrap().0;
    assert_eq!(served.config.webhooks, runtime.config.webhooks);
    let never = runtime_of(&bad(), ready()).unwrap().0;
    assert_eq!(never.held(), BTreeMap::from([("w".to_owned(), "tenants/w".to_owned())]));
    for runtime in [&served, &never] {
        let faults = runtime.faults["w"].join(", ");
        assert!(faults.starts_with("spec.events: "), "the portal shows it: {faults}");
    }
}

#[test]
fn unreadable_webhook_takes_one_of_the_places_that_the_tenant_has() {
    let limited = || examples::with(json!({"spec": {"limits": {"webhooks": 1}}}));
    let served = fetched(limited(), vec![webhook("w", "tenants", json!({}))]);
    let (runtime, memory) = runtime_of(&served, ready()).unwrap();
    let webhooks =
        vec![webhook("w", "tenants", json!({"events": "all"})), webhook("x", "tenants", json!({}))];
    let mut read = fetched(limited(), webhooks).with_stored(&runtime, &memory);
    read.unreadable_webhooks = BTreeSet::from(["w".to_owned()]);
    let result = compiled(&read, ready());
    assert_eq!(result.runtime.unwrap().0.config.webhooks, runtime.config.webhooks, "no more than one");
    assert_eq!(result.webhooks[0].reasons[0].code, ReasonCode::TooManyWebhooks);
}

#[test]
fn webhook_without_room_is_not_served_and_says_so() {
    let both = || vec![webhook("a", "tenants", json!({})), webhook("b", "tenants", json!({}))];
    let (runtime, memory) = runtime_of(&fetched(examples::declared(), both()), ready()).unwrap();
    let mut read = fetched(examples::declared(), both()).with_stored(&runtime, &memory);
    read.without_room = HashSet::from(["b".to_owned()]);
    let result = compiled(&read, ready());
    let (runtime, _) = result.runtime.unwrap();
    assert_eq!(runtime.config.webhooks.iter().map(|webhook| &webhook.uid).collect::<Vec<_>>(), ["a"]);
    let held = BTreeMap::from([("b".to_owned(), "tenants/b/C".to_owned())]);
    assert_eq!(runtime.held(), held, "what is queued for it waits");
    assert!(runtime.faults["b"][0].starts_with("spec.tenantRef: "), "{:?}", runtime.faults);
    let reason = &result.webhooks[1].reasons[0];
    assert_eq!(reason.code, ReasonCode::TooManyWebhooks);
    assert!(reason.message.contains("refer to more than 2000000 bytes"), "{reason}");
}

#[test]
fn nothing_is_read_for_webhooks_that_have_no_place() {
    let limits: PlatformLimits = "defaults: {webhooks: 2, foreignWebhooks: 1}".parse().unwrap();
    let bundle = |uid: &str, namespace: &str| {
        webhook(uid, namespace, json!({"caBundleRef": {"kind": "ConfigMap", "name": uid}}))
    };
    let allowing =
        |from: &str| examples::with(json!({"spec": {"webhooks": {"allowedNamespaces": {"from": from}}}}));
    let read_of = |from: &str, others: usize| {
        let others = (0..others).map(|other| bundle(&format!("x{other}"), "elsewhere"));
        let read = fetched(allowing(from), others.chain([bundle("own", "tenants")]).collect());
        let tenant = read.subject.tenant.document.as_ref().unwrap();
        let placed = room::placed(&read.subject, tenant, &[], &limits, &|_| BTreeMap::new());
        let wanted = room::wanted(tenant, &placed).into_iter();
        wanted.map(|((_, name), keys)| format!("{} {keys:?}", name.name)).collect::<Vec<_>>()
    };
    assert_eq!(read_of("Same", 300), [r#"own {"ca.crt"}"#]);
    assert_eq!(read_of("All", 300), [r#"own {"ca.crt"}"#, r#"x0 {"ca.crt"}"#]);
}

#[test]
fn forbidden_webhook_leaves_no_trace_in_the_tenants_secret() {
    let read = fetched(examples::declared(), vec![webhook("w", "elsewhere", json!({}))]);
    let result = compiled(&read, ready());
    let runtime = result.runtime.unwrap().0;
    assert!(runtime.held_webhooks.is_empty() && runtime.config.webhooks.is_empty());
    assert!(runtime.faults.is_empty(), "{:?}", runtime.faults);
    assert_eq!(result.webhooks[0].reasons[0].code, ReasonCode::RefNotPermitted);
}

/// The queued deliveries wait, although the new Webhook has another uid.
#[test]
fn forbidden_webhook_is_on_hold_if_one_of_its_name_was_served_or_on_hold() {
    let all = examples::with(json!({"spec": {"webhooks": {"allowedNamespaces": {"from": "All"}}}}));
    let there = fetched(all, vec![webhook("w", "elsewhere", json!({}))]);
    let (mut runtime, memory) = runtime_of(&there, ready()).unwrap();
    let recreated = || {
        let mut webhook = Arc::into_inner(webhook("w", "elsewhere", json!({}))).unwrap();
        webhook.meta.uid = "new".into();
        Arc::new(webhook)
    };
    for _ in ["served", "on hold"] {
        let read = fetched(examples::declared(), vec![recreated()]).with_stored(&runtime, &memory);
        runtime = runtime_of(&read, ready()).unwrap().0;
        let held = BTreeMap::from([("new".to_owned(), "elsewhere/w/C".to_owned())]);
        assert_eq!(runtime.held(), held);
        assert!(runtime.config.webhooks.is_empty());
    }
}

/// A pass sees that it is gone. Then it is created again, and its namespace has no label yet, or a younger one has its place.
#[test]
fn forbidden_webhook_is_on_hold_if_it_was_deleted_and_created_again() {
    let allowing = |most: u32| {
        let spec = json!({"webhooks": {"allowedNamespaces": {"from": "All"}}, "limits": {"webhooks": most}});
        examples::with(json!({"spec": spec}))
    };
    let at = |hours: i64| NOW + jiff::SignedDuration::from_hours(hours);
    let webhook = |name: &str| webhook(name, "elsewhere", json!({}));
    let there = fetched(allowing(1), vec![webhook("w")]);
    let (runtime, memory) = runtime_of(&there, ready()).unwrap();
    assert!(memory.missing_webhooks.is_empty());
    let gone = fetched(allowing(1), vec![webhook("x")]).with_stored(&runtime, &memory);
    let (runtime, memory) = compiled_at(at(1), &gone, ready()).runtime.unwrap();
    assert_eq!(memory.missing_webhooks, BTreeMap::from([("elsewhere/w".to_owned(), Some(at(1)))]));
    assert_eq!(runtime.config.webhooks[0].uid, "x");
    let again = fetched(allowing(1), vec![webhook("x")]).with_stored(&runtime, &memory);
    let at_rest = compiled_at(at(25), &again, ready()).runtime.unwrap();
    assert!(again.stored.as_ref().unwrap().is(&at_rest.0, &at_rest.1), "nothing is written");

    let late = compiled_at(at(26), &again, ready()).runtime.unwrap();
    assert!(late.1.missing_webhooks.is_empty(), "no delivery waits any more");
    let held = BTreeMap::from([("w".to_owned(), "elsewhere/w/C".to_owned())]);
    let without_a_place = fetched(allowing(0), vec![webhook("w")]);
    let without_a_permission = fetched(examples::declared(), vec![webhook("w")]);
    for recreated in [without_a_place, without_a_permission] {
        let recreated = recreated.with_stored(&runtime, &memory);
        let (runtime, memory) = compiled_at(at(25), &recreated, ready()).runtime.unwrap();
        assert_eq!(runtime.held(), held);
        assert_eq!(memory.missing_webhooks.keys().collect::<Vec<_>>(), ["elsewhere/x"]);
    }
    let stranger = fetched(examples::declared(), vec![webhook("y")]).with_stored(&runtime, &memory);
    assert!(runtime_of(&stranger, ready()).unwrap().0.held().is_empty());
}

#[test]
fn missing_webhooks_have_little_room_and_wait_while_their_tenant_is_suspended() {
    let many = (0..500).map(|number| webhook(&format!("w{number:0>200}"), "tenants", json!({})));
    let there = fetched(examples::declared(), many.collect());
    let (runtime, memory) = runtime_of(&there, ready()).unwrap();
    assert_eq!(runtime.config.webhooks.len(), 500);
    let gone = |tenant: Arc<Declared<Tenant>>| fetched(tenant, Vec::new()).with_stored(&runtime, &memory);
    let missing = runtime_of(&gone(examples::declared()), ready()).unwrap().1.missing_webhooks;
    assert!(missing.len() > 50 && missing.len() < 150, "{}", missing.len());
    let suspended = runtime_of(&gone(examples::with(json!({"spec": {"suspend": true}}))), ready()).unwrap().1;
    assert!(suspended.missing_webhooks.values().all(Option::is_none));
}

#[test]
fn conflict_makes_nothing_new_and_gives_the_lost_subdomain_up() {
    let mut cluster = ClusterState::default();
    let older = examples::with(json!({
        "metadata": {"name": "older", "uid": "0", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"clientCode": "OLD", "subdomains": ["x"], "database": {"managed": {"name": "old"}}}
    }));
    let later = examples::with(json!({"spec": {"subdomains": ["x", "y"]}}));
    cluster.tenant_applied(later.clone());
    let alone = Fetched::nothing_of(Subject::of(&cluster, later.clone()));
    let (runtime, memory) = runtime_of(&alone, ready()).unwrap();
    assert_eq!(runtime.config.subdomains, ["x", "y"]);
    cluster.tenant_applied(older);
    let beside = || Fetched::nothing_of(Subject::of(&cluster, later.clone()));
    assert_eq!(validate(&beside()).unwrap_err().lost_subdomains, ["x"]);
    let served_before = beside().with_stored(&runtime, &memory);
    let result = compiled(&served_before, ready());
    assert_eq!(result.runtime.unwrap().0.config.subdomains, ["y"]);
    assert_eq!(result.reasons[0].code, ReasonCode::SubdomainConflict);
    assert!(runtime_of(&beside(), ready()).is_none());
}

#[test]
fn unreadable_tenant_keeps_its_claims() {
    let mut cluster = ClusterState::default();
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
        let read = Fetched::nothing_of(Subject::of(&cluster, tenant));
        validate(&read).err().map(|refused| refused.reasons[0].to_string())
    };
    let reason = refused(later).expect("it is refused");
    assert!(reason.contains("\"old\" is already used by Tenant tenants/older"), "{reason}");
    assert_eq!(refused(before), None, "the first one is not refused because of a later one");
}

#[test]
fn status_keeps_what_is_known_of_a_database_that_fails_and_has_each_key_once() {
    let key = |name: &str, active: bool| json!({"name": name, "active": active, "generate": {}});
    let keys = json!([key("primary", true), key("primary", true), key("other", false)]);
    let mut read = fetched(examples::with(json!({"spec": {"apiKeys": keys}})), Vec::new());
    read.subject.previous.database = Some(DatabaseStatus {
        server: Some("eu".into()),
        schema_version: Some("20".into()),
        ..DatabaseStatus::default()
    });
    let reported = status(&applied(compiled(&read, failed(None))), None, Some(&BTreeSet::new()), NOW);
    let keys: Vec<_> = reported.api_keys.iter().map(|key| (key.name.as_str(), key.active)).collect();
    assert_eq!(keys, [("primary", true), ("other", false)]);
    assert_eq!(reported.api_keys[1].secret_name.as_deref(), Some("acme-apikey-other"));
    let database = reported.database.unwrap();
    assert_eq!(
        (database.name.as_deref(), database.role.as_deref()),
        (Some("tenant_acme"), Some("tenant_acme_app"))
    );
    assert_eq!((database.server.as_deref(), database.schema_version.as_deref()), (Some("eu"), Some("20")));
    assert_eq!(database.secret_name.as_deref(), Some("acme-database"));
}

#[test]
fn suspended_tenant_is_served_as_such_and_says_so_without_a_complaint() {
    let suspended = examples::with(json!({"spec": {"suspend": true}}));
    let read = fetched(suspended, vec![webhook("w", "tenants", json!({}))]);
    let result = compiled(&read, ready());
    let (runtime, _) = result.runtime.clone().unwrap();
    assert!(runtime.config.suspended && result.webhooks[0].tenant_suspended);
    let served = programmed(&Pods::NotObserved, "uid-acme", &[&runtime.revision], false);
    let reported = status(&applied(result), Some(served), Some(&BTreeSet::new()), NOW);
    let shown = find(&reported.conditions, ConditionType::Ready).unwrap();
    assert_eq!((shown.status.as_str(), shown.reason.as_str()), ("False", "Suspended"));
    assert!(!shown.message.contains("last good"), "{}", shown.message);
    for kind in [ConditionType::Reconciling, ConditionType::Stalled] {
        assert!(find(&reported.conditions, kind).is_none(), "{kind}");
    }
}

#[test]
fn ready_has_the_reason_of_the_first_condition_that_fails() {
    let read = fetched(examples::declared(), Vec::new());
    let pending = NewCondition::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, "late");
    let nothing = Compiled { runtime: None, reasons: Vec::new(), ..compiled(&read, failed(None)) };
    let reported = status(&applied(nothing), Some(Programmed::Known(pending)), Some(&BTreeSet::new()), NOW);
    let reason = |kind| find(&reported.conditions, kind).map(|condition| condition.reason.as_str());
    assert_eq!(reason(ConditionType::Ready), Some("Unreachable"));
    assert_eq!(reason(ConditionType::Reconciling), Some("Unreachable"));
    assert_eq!(reason(ConditionType::Stalled), None);
}
