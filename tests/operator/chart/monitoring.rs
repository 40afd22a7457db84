//! ServiceMonitor, alerts and dashboard: they ask for what the programs have, and each alert is explained.

use std::collections::BTreeSet;
use std::time::Duration;

use docket_crds::Tenant;
use docket_domain::delivery::{Next, Outcome, Report};
use docket_operator::metrics::Store;
use docket_operator::state::name::Name;
use regex::Regex;
use serde_json::{Value, json};

use super::helm::{MINIMAL, documents, file, render, render_with, repository, text, try_render};

const KINDS: [&str; 2] = ["ServiceMonitor", "PrometheusRule"];

#[test]
fn monitoring_is_off_by_default() {
    let objects = render_with("");
    for kind in KINDS {
        assert!(objects.all(kind).is_empty());
    }
    let names: Vec<&str> =
        objects.all("ConfigMap").into_iter().map(|map| text(&map["metadata"]["name"])).collect();
    assert_eq!(names, ["docket-limits"], "no dashboard");
}

#[test]
fn a_monitor_finds_the_management_services() {
    let objects = render(&file("ci/full-values.yaml"));
    let monitor = objects.one("ServiceMonitor", "docket");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let spec = &monitor["spec"];
    let wanted = spec["selector"]["matchLabels"].as_object().expect("labels");
    let found: Vec<&str> = (objects.all("Service").into_iter())
        .filter(|service| wanted.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value))
        .map(|service| {
            assert_eq!(service["spec"]["ports"][0]["name"], spec["endpoints"][0]["port"]);
            text(&service["metadata"]["name"])
        })
        .collect();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|name| name.ends_with("-management")), "{found:?}");
    assert_eq!(spec["namespaceSelector"]["matchNames"], json!(["docket-system"]));
    assert_eq!(
        (spec["endpoints"][0]["interval"].clone(), spec["endpoints"][0]["scrapeTimeout"].clone()),
        (json!("30s"), json!("10s"))
    );
}

fn alerts() -> Vec<Value> {
    let files = documents(&file("alerts.yaml"));
    files[0]["rules"].as_array().expect("a list").clone()
}

#[test]
fn rules_are_about_this_release_and_lead_to_their_explanation() {
    let objects = render(&file("ci/full-values.yaml"));
    let rules =
        objects.one("PrometheusRule", "docket")["spec"]["groups"][0]["rules"].as_array().expect("a list");
    assert_eq!(rules.len(), alerts().len() - 1);
    for rule in rules {
        let name = text(&rule["alert"]);
        assert_ne!(name, "DocketSignInGuessing", "it is excluded");
        let expression = text(&rule["expr"]);
        assert!(
            expression.contains("namespace=\"docket-system\"") && !expression.contains('$'),
            "{expression}"
        );
        let annotations = &rule["annotations"];
        let page = format!("https://runbooks.example.com/docket#{}", name.to_lowercase());
        assert_eq!(annotations["runbook_url"], page.as_str());
        assert_eq!(annotations["dashboard_url"], "https://grafana.example.com/d/docket");
        assert!(annotations["summary"].is_string() && annotations["description"].is_string(), "{name}");
        assert!(["critical", "warning", "info"].contains(&text(&rule["labels"]["severity"])), "{name}");
    }
    let down = rules.iter().find(|rule| rule["alert"] == "DocketTargetDown").expect("there is one");
    assert!(text(&down["expr"]).contains("job=~\"docket-(operator|api|worker|detector)-management\""));
    let plain = render_with("prometheusRule: {enabled: true}");
    let first = &plain.one("PrometheusRule", "docket")["spec"]["groups"][0]["rules"][0]["annotations"];
    assert!(first.get("runbook_url").is_none(), "there is no page that everybody can read");
    assert!(first.get("dashboard_url").is_none());
    let refused =
        try_render(&format!("{MINIMAL}\nprometheusRule: {{runbookURL: docs/troubleshoot/alerts.md}}"))
            .unwrap_err();
    assert!(refused.contains("runbookURL"), "{refused}");
}

#[test]
fn each_alert_is_explained() {
    let page = std::fs::read_to_string(repository().join("docs/troubleshoot/alerts.md"))
        .expect("docs/troubleshoot/alerts.md is there");
    let explained: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = alerts();
    let there: Vec<&str> = alerts.iter().map(|alert| text(&alert["alert"])).collect();
    assert_eq!(explained, there);
}

/// The names of the series that the programs publish, as they write them.
fn metrics() -> BTreeSet<String> {
    let published = data_plane() + &operators();
    let series = published.lines().filter(|line| !line.starts_with('#'));
    let names = series.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned);
    names.chain(["up".to_owned()]).collect()
}

/// What the data plane publishes once each of its series has a value.
fn data_plane() -> String {
    let metrics = docket::telemetry::Metrics::default();
    metrics.requested("/Orders/Save", 200, 0.1);
    metrics.signed_in("ok");
    metrics.attempted(&Outcome::Succeeded(Report::default()), Next::Succeeded);
    metrics.text()
}

/// What the operator publishes once each of its series has a value.
fn operators() -> String {
    let metrics = docket_operator::metrics::Metrics::default();
    metrics.taken::<Tenant>(Duration::ZERO);
    metrics.reconciled::<Tenant>("ok", Duration::ZERO);
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-21T00:00:00Z",
    });
    let conditions = [serde_json::from_value(ready).expect("a condition")];
    metrics.store(Store::Redis, true);
    metrics.dead_letters(Some(1));
    metrics.conditions::<Tenant>(&Name::new("tenants", "acme"), &conditions);
    metrics.text()
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let metrics = metrics();
    let asked = Regex::new(r"(docket_[a-z_]+|\bup)\{").expect("a pattern");
    let dashboard: Value = serde_json::from_str(&file("dashboards/docket.json")).expect("JSON");
    let mut expressions: Vec<String> = alerts().iter().map(|alert| text(&alert["expr"]).to_owned()).collect();
    for panel in dashboard["panels"].as_array().expect("a list") {
        for target in panel["targets"].as_array().expect("a list") {
            expressions.push(text(&target["expr"]).to_owned());
        }
    }
    assert!(expressions.len() > 20);
    for expression in expressions {
        let mut some = false;
        for name in asked.captures_iter(&expression).map(|found| found[1].to_owned()) {
            some = true;
            assert!(metrics.contains(&name), "{name} of {expression}");
        }
        assert!(some, "{expression}");
    }
}

#[test]
fn the_dashboard_is_for_grafanas_sidecar() {
    let objects = render(&file("ci/full-values.yaml"));
    let map = objects.one("ConfigMap", "docket-dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(map["metadata"]["annotations"]["grafana_folder"], "Docket");
    let dashboard: Value = serde_json::from_str(text(&map["data"]["docket.json"])).expect("JSON");
    assert_eq!(dashboard["title"], "Docket");
    let mut ids: Vec<&Value> =
        dashboard["panels"].as_array().expect("a list").iter().map(|panel| &panel["id"]).collect();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
