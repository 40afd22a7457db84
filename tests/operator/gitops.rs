//! The health of Tenants and Webhooks in Argo CD and Flux, by the files of the chart, in the languages of these programs: Lua 5.1, and
//! the Common Expression Language.

use cel::{Context, Program};
use docket_crds::{ConditionType, ReasonCode, Remedy};
use docket_operator::state::conditions::{self, NewCondition, Summary, Truth};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use mlua::{Lua, LuaSerdeExt as _, Table};
use serde_json::{Value, json};

const ARGO_CD: &str = include_str!("../../charts/docket/gitops/argocd/health.lua");
const FLUX: &str = include_str!("../../charts/docket/gitops/flux/health-checks.yaml");

const KINDS: [&str; 2] = ["Tenant", "Webhook"];
const GENERATION: i64 = 3;

/// The health in Argo CD.
fn argo_cd(object: &Value) -> String {
    let lua = Lua::new();
    let value = lua.to_value(object).expect("it is JSON");
    lua.globals().set("obj", value).expect("a global");
    let health: Table = lua.load(ARGO_CD).eval().unwrap_or_else(|error| panic!("{object}: {error}"));
    assert!(!health.get::<String>("message").expect("a message").is_empty(), "{object}");
    health.get("status").expect("a status")
}

/// The result in Flux, which tries `inProgress`, `failed` and `current` in this order. An object for which none is true is in progress.
fn flux(object: &Value) -> &'static str {
    let document: Value = serde_saphyr::from_str(FLUX).expect("it is YAML");
    let checks = document["spec"]["healthCheckExprs"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["kind"] == object["kind"]).expect("one for each kind");
    assert_eq!(check["apiVersion"], docket_crds::API_VERSION);
    let mut context = Context::default();
    for field in ["metadata", "spec", "status"] {
        context.add_variable(field, object[field].clone()).expect("it is JSON");
    }
    let is_true = |name: &str| {
        let expression = check[name].as_str().expect("an expression");
        let program = Program::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let value = program.execute(&context).unwrap_or_else(|error| panic!("{expression}: {error}"));
        match value {
            cel::Value::Bool(value) => value,
            other => panic!("{expression}: {other:?}"),
        }
    };
    let results = [("inProgress", "in progress"), ("failed", "failed"), ("current", "current")];
    results.into_iter().find(|(name, _)| is_true(name)).map_or("in progress", |(_, result)| result)
}

fn object(kind: &str, conditions: &[Condition]) -> Value {
    json!({
        "apiVersion": docket_crds::API_VERSION, "kind": kind,
        "metadata": {"name": "n", "namespace": "a", "uid": "u", "generation": GENERATION},
        "spec": {},
        "status": {"observedGeneration": GENERATION, "conditions": conditions},
    })
}

/// The conditions of an object with this verdict, as the operator writes them. `on_its_way`: what is missing may still arrive.
fn with(truth: Truth, reason: ReasonCode, on_its_way: bool) -> Vec<Condition> {
    let verdict = NewCondition::new(reason.condition(), truth, reason, "why");
    let verdict = match verdict.kind {
        // `Ready` repeats another condition, and is never the first cause.
        ConditionType::Ready => NewCondition { kind: ConditionType::Accepted, ..verdict },
        _ => verdict,
    };
    Summary::of(vec![verdict], "well", None, |_| on_its_way).conditions(
        &[],
        GENERATION,
        Timestamp::UNIX_EPOCH,
    )
}

fn check(object: &Value, in_argo_cd: &str, in_flux: &str) {
    assert_eq!((argo_cd(object).as_str(), flux(object)), (in_argo_cd, in_flux), "{object:#}");
}

#[test]
fn health_follows_who_has_to_act() {
    for kind in KINDS {
        for reason in ReasonCode::ALL {
            let ignored = [ConditionType::DeliveryHealthy, ConditionType::WithinLimits];
            let is_served = ignored.contains(&reason.condition()) || reason.remedy() == Remedy::Nothing;
            let truth = if reason.remedy() == Remedy::Nothing { Truth::True } else { Truth::False };
            let missing = object(kind, &with(truth, reason, true));
            let absent = object(kind, &with(truth, reason, false));
            match reason.remedy() {
                _ if is_served => check(&absent, "Healthy", "current"),
                Remedy::Retry => check(&absent, "Progressing", "in progress"),
                Remedy::Change => check(&absent, "Degraded", "failed"),
                Remedy::Arrival => {
                    check(&missing, "Progressing", "in progress");
                    check(&absent, "Degraded", "failed");
                }
                // Each of these has its own test below.
                Remedy::Chosen | Remedy::Nothing => {}
            }
        }
    }
}

#[test]
fn paused_object_is_current_whatever_it_was() {
    for kind in KINDS {
        for reason in [ReasonCode::Accepted, ReasonCode::Pending, ReasonCode::InvalidSpec] {
            let truth = if reason == ReasonCode::Accepted { Truth::True } else { Truth::False };
            let before = with(truth, reason, false);
            let paused = conditions::paused(&before, GENERATION, Timestamp::UNIX_EPOCH);
            check(&object(kind, &paused), "Suspended", "current");
        }
    }
}

#[test]
fn suspended_tenant_and_its_webhooks_are_current() {
    let suspended = NewCondition::new(ConditionType::Ready, Truth::False, ReasonCode::Suspended, "why");
    let well = NewCondition::new(ConditionType::Accepted, Truth::True, ReasonCode::Accepted, "valid");
    let summary = Summary::of(vec![well], "", Some(suspended), |_| false);
    let mut tenant = object("Tenant", &summary.conditions(&[], GENERATION, Timestamp::UNIX_EPOCH));
    tenant["spec"]["suspend"] = true.into();
    check(&tenant, "Suspended", "current");
    let webhook = object("Webhook", &with(Truth::False, ReasonCode::TenantSuspended, false));
    check(&webhook, "Suspended", "current");
}

#[test]
fn object_that_the_operator_has_not_seen_yet_is_in_progress() {
    for kind in KINDS {
        let mut new = object(kind, &[]);
        new["status"] = json!({});
        check(&new, "Progressing", "in progress");
        for (truth, reason) in [(Truth::True, ReasonCode::Accepted), (Truth::False, ReasonCode::InvalidSpec)]
        {
            let mut stale = object(kind, &with(truth, reason, false));
            stale["status"]["observedGeneration"] = (GENERATION - 1).into();
            check(&stale, "Progressing", "in progress");
        }
    }
}

/// Flux asks kstatus first, for which an object that is being deleted is terminating. So only Argo CD's file has to know it.
#[test]
fn object_that_is_being_deleted_is_progressing() {
    for kind in KINDS {
        let mut deleted = object(kind, &with(Truth::True, ReasonCode::Accepted, false));
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        deleted["spec"]["suspend"] = true.into();
        assert_eq!(argo_cd(&deleted), "Progressing");
    }
}
