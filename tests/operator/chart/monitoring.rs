//! ServiceMonitor, PodMonitor, rules and dashboards: they ask for what the programs have, and each alert is explained.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Parser;
use docket::telemetry::Task;
use docket_crds::{Tenant, Webhook};
use docket_domain::delivery::{Next, Outcome, Report};
use docket_operator::metrics::{Failing, Store};
use docket_operator::state::migrations::MigrationCounts;
use docket_operator::state::name::Name;
use docket_schedule::Overdue;
use docket_store::postgres::{Budget, ConnectionLimits, UsedConnections};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use regex::Regex;
use serde_json::{Value, json};

use super::helm::{
    MINIMAL, blocks_of, documents, file, render, render_with, repository, text, texts, try_render,
};

const KINDS: [&str; 3] = ["ServiceMonitor", "PodMonitor", "PrometheusRule"];

/// The dashboards, by the names that alerts have in their annotation `dashboard`.
pub(super) const DASHBOARDS: [&str; 3] = ["deliveries", "operator", "stores"];

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
    assert_eq!(spec["endpoints"][0]["path"], "/metrics");
    assert_eq!(spec["podTargetLabels"], json!(["app.kubernetes.io/component"]));
    assert_eq!(
        (spec["endpoints"][0]["interval"].clone(), spec["endpoints"][0]["scrapeTimeout"].clone()),
        (json!("30s"), json!("10s"))
    );
}

#[test]
fn targets_of_both_monitors_have_the_same_jobs() {
    let objects = render_with("podMonitor: {enabled: true, relabelings: [{action: labeldrop, regex: node}]}");
    assert!(objects.all("ServiceMonitor").is_empty());
    let spec = &objects.one("PodMonitor", "docket")["spec"];
    let endpoint = &spec["podMetricsEndpoints"][0];
    assert_eq!(endpoint["relabelings"].as_array().map(Vec::len), Some(2), "the chart's own and the user's");
    assert_eq!(
        (text(&endpoint["path"]), text(&endpoint["relabelings"][0]["targetLabel"])),
        ("/metrics", "job")
    );
    assert_eq!(spec["namespaceSelector"]["matchNames"], json!(["docket-system"]));
    let job = &endpoint["relabelings"][0];
    assert_eq!(job["sourceLabels"], json!(["__meta_kubernetes_pod_label_app_kubernetes_io_component"]));
    let components = texts(&spec["selector"]["matchExpressions"][0]["values"]);
    assert_eq!(components.len(), 4, "{components:?}");
    for component in components {
        let deployment = format!("docket-{component}");
        let labels = &objects.one("Deployment", &deployment)["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/component"], component);
        for (label, value) in spec["selector"]["matchLabels"].as_object().expect("labels") {
            assert_eq!(labels[label], *value);
        }
        let ports = objects.container(&deployment)["ports"].as_array().expect("a list");
        assert!(ports.iter().any(|port| port["name"] == endpoint["port"]), "{component}");
        // A ServiceMonitor's job is the name of the Service.
        let service = text(&job["replacement"]).replace("${1}", component);
        objects.one("Service", &service);
    }
}

fn alerts() -> Vec<Value> {
    rules_of("rules")
}

fn rules_of(list: &str) -> Vec<Value> {
    let files = documents(&file("alerts.yaml"));
    files[0][list].as_array().expect("a list").clone()
}

/// What the panels of a dashboard ask for.
pub(super) fn queries(dashboard: &str) -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&file(&format!("dashboards/{dashboard}.json"))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("a list"));
    targets.map(|target| text(&target["expr"]).to_owned()).collect()
}

#[test]
fn rules_are_about_this_release_and_lead_to_their_explanation() {
    let objects = render(&file("ci/full-values.yaml"));
    let rules =
        objects.one("PrometheusRule", "docket")["spec"]["groups"][0]["rules"].as_array().expect("a list");
    // The rules that record series come first, because alerts use their series.
    let (records, rules) = rules.split_at(rules_of("records").len());
    for record in records {
        assert!(record["record"].is_string(), "{record}");
        assert!(text(&record["expr"]).contains("namespace=\"docket-system\""), "{record}");
    }
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
        let dashboard = text(&annotations["dashboard"]);
        assert!(DASHBOARDS.contains(&dashboard), "{name}");
        let url = format!("https://grafana.example.com/d/docket-{dashboard}");
        assert_eq!(annotations["dashboard_url"], url.as_str());
        assert!(annotations["summary"].is_string() && annotations["description"].is_string(), "{name}");
        assert!(["critical", "warning", "info"].contains(&text(&rule["labels"]["severity"])), "{name}");
    }
    let down = rules.iter().find(|rule| rule["alert"] == "DocketTargetDown").expect("there is one");
    assert!(text(&down["expr"]).contains("job=~\"docket-(operator|api|worker|detector)-management\""));
    let plain = render_with("prometheusRule: {enabled: true}");
    let rules = plain.one("PrometheusRule", "docket")["spec"]["groups"][0]["rules"].as_array();
    let last = &rules.and_then(|rules| rules.last()).expect("an alert")["annotations"];
    assert!(last.get("runbook_url").is_none(), "there is no page that everybody can read");
    assert!(last.get("dashboard_url").is_none() && last.get("dashboard").is_some());
    let refused =
        try_render(&format!("{MINIMAL}\nprometheusRule: {{runbookURL: docs/troubleshoot/alerts.md}}"))
            .unwrap_err();
    assert!(refused.contains("runbookURL"), "{refused}");
}

/// The components that the alert about targets misses when Prometheus finds no pod of them.
fn missed(values: &str) -> Vec<&'static str> {
    let objects = render_with(&format!("prometheusRule: {{enabled: true}}\n{values}"));
    let rules = objects.one("PrometheusRule", "docket")["spec"]["groups"][0]["rules"].as_array();
    let down = rules.and_then(|rules| rules.iter().find(|rule| rule["alert"] == "DocketTargetDown"));
    let expression = text(&down.expect("there is one")["expr"]);
    let absent = |component: &&str| {
        let target = format!("namespace=\"docket-system\",job=\"docket-{component}-management\"");
        expression.contains(&format!("absent(up{{{target}}})"))
    };
    ["operator", "api", "worker", "detector"].into_iter().filter(absent).collect()
}

#[test]
fn alert_about_targets_misses_the_operator_and_each_component_that_has_pods() {
    assert_eq!(missed(""), ["operator", "api", "worker", "detector"]);
    assert_eq!(missed("api: {deliver: true}\nworker: {replicas: 0}"), ["operator", "api", "detector"]);
    let scaled = "operator: {replicas: 0}\nworker: {replicas: 0, autoscaling: {external: true}}";
    assert_eq!(missed(scaled), ["operator", "api", "worker", "detector"]);
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

#[test]
fn each_alert_is_in_the_table_of_the_page_monitor_with_its_severity_and_dashboard() {
    let page = std::fs::read_to_string(repository().join("docs/kubernetes/monitor.md"))
        .expect("docs/kubernetes/monitor.md is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| [`Docket"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let alerts = alerts();
    assert_eq!(rows.len(), alerts.len());
    for (row, alert) in rows.iter().zip(&alerts) {
        let name = text(&alert["alert"]);
        let link = format!("[`{name}`](../troubleshoot/alerts.md#{})", name.to_lowercase());
        let annotations = &alert["annotations"];
        let expected = [link.as_str(), text(&alert["labels"]["severity"]), text(&annotations["dashboard"])];
        assert_eq!(row[..3], expected);
    }
}

/// The commands and queries that a section shows.
fn commands(section: &str) -> Vec<String> {
    // Every second part is code.
    let code = section.split('`').skip(1).step_by(2);
    let code = code.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" "));
    code.filter(|code| {
        code.contains("docket_") || code.starts_with("kubectl ") || code.starts_with("docket ")
    })
    .collect()
}

#[test]
fn commands_of_the_runbooks_are_accepted_and_name_what_there_is() {
    let page = std::fs::read_to_string(repository().join("docs/troubleshoot/alerts.md"))
        .expect("docs/troubleshoot/alerts.md is there");
    let (objects, published) = (render_with(""), published());
    let metric = Regex::new(r"docket_[a-z_]+").expect("a pattern");
    for section in page.split("\n## ").skip(1) {
        let (alert, section) = section.split_once('\n').expect("a title");
        let commands = commands(section);
        assert!(!commands.is_empty(), "{alert}: no command");
        for command in commands {
            for name in metric.find_iter(&command).map(|found| found.as_str()) {
                // A histogram has only series whose names are longer.
                let is_there = published.keys().any(|known| known.starts_with(name));
                assert!(is_there, "{alert}: {name}");
            }
            let own = command.split_once(" -- ").map_or(command.as_str(), |(_, own)| own);
            if own.starts_with("docket ") {
                let own = own
                    .replace("<namespace>/<name>", "tenants/orders")
                    .replace("<clientCode>", "ACME")
                    .replace("<id>", "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f");
                let parsed = docket::args::Arguments::try_parse_from(own.split(' '));
                assert!(parsed.is_ok(), "{alert}: {own}: {:?}", parsed.err());
            }
            for word in command.split([' ', ',']) {
                let component = word.strip_prefix("app.kubernetes.io/component=");
                let component = component.map(|component| format!("docket-{component}"));
                let deployment = word.strip_prefix("deployment/").map(str::to_owned);
                for name in component.into_iter().chain(deployment) {
                    objects.one("Deployment", &name);
                }
            }
        }
    }
}

/// The series that the programs publish, by name: the values of each label.
type Published = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn published() -> Published {
    let text = data_plane() + &operators();
    let label = Regex::new(r#"([a-z_]+)="([^"]*)""#).expect("a pattern");
    let mut published = Published::new();
    for series in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = series.split_once(['{', ' ']).expect("a name");
        let of_name = published.entry(name.to_owned()).or_default();
        for found in label.captures_iter(labels) {
            // Prometheus gives each target a label namespace of its own, and renames the program's.
            let name = if &found[1] == "namespace" { "exported_namespace" } else { &found[1] };
            of_name.entry(name.to_owned()).or_default().insert(found[2].to_owned());
        }
    }
    published.entry("up".to_owned()).or_default();
    published
}

/// What the data plane publishes once each of its series has a value.
fn data_plane() -> String {
    let metrics = docket::telemetry::Metrics::default();
    metrics.requested("/Orders/Save", 200, 0.1);
    metrics.signed_in("ok");
    metrics.attempted(&Outcome::Succeeded(Report::default()), Next::Succeeded);
    metrics.delivery.due(Some(&Overdue::default()));
    for task in Task::ALL {
        metrics.upkeep.runs(task);
        if task.has_rounds() {
            metrics.upkeep.round(task, 0, Duration::ZERO);
        }
    }
    let budget = Budget::new(ConnectionLimits { total: 1, per_tenant: 1 });
    let counts = budget.counts();
    let (own, external) =
        (counts.add_server("db:5432".into(), false), counts.add_server("x:5432".into(), true));
    own.responded(true);
    own.uses(Some(UsedConnections::default()));
    external.responded(true);
    metrics.stores.postgres(budget);
    metrics.stores.redis(|| Some(true), || false);
    metrics.text()
}

/// What the operator publishes once each of its series has a value.
fn operators() -> String {
    let metrics = docket_operator::metrics::Metrics::default();
    metrics.taken::<Tenant>(Duration::ZERO);
    metrics.reconciled::<Tenant>("ok", Duration::ZERO);
    let ready = |reason: &str| -> Condition {
        let ready = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-11-21T00:00:00Z",
        });
        serde_json::from_value(ready).expect("a condition")
    };
    metrics.store(Store::Redis, true);
    metrics.dead_letters(Some(1));
    metrics.failing(Some(Failing::default()));
    metrics.migrations(MigrationCounts::default(), true, 0);
    metrics.conditions::<Tenant>(&Name::new("tenants", "acme"), &[ready("Suspended")]);
    metrics.conditions::<Webhook>(&Name::new("tenants", "one"), &[ready("Suspended")]);
    metrics.conditions::<Webhook>(&Name::new("tenants", "two"), &[ready("TenantSuspended")]);
    metrics.text()
}

/// What is wrong with the selectors of a query.
fn wrong(query: &str, published: &Published, recorded: &BTreeSet<String>) -> Vec<String> {
    let selector = Regex::new(r"([a-z_]+(?::[a-z_]+)*)\{([^}]*)\}").expect("a pattern");
    let matcher = Regex::new(r#"([a-z_]+)(=~|!~|!=|=)"([^"]*)""#).expect("a pattern");
    let mut wrong = Vec::new();
    let mut names = 0;
    for found in selector.captures_iter(query) {
        names += 1;
        let (name, matchers) = (&found[1], &found[2]);
        if recorded.contains(name) {
            continue;
        }
        let Some(labels) = published.get(name) else {
            wrong.push(format!("no metric {name}"));
            continue;
        };
        for matcher in matcher.captures_iter(matchers) {
            let (label, value) = (&matcher[1], &matcher[3]);
            if ["namespace", "job", "pod"].contains(&label) {
                continue;
            }
            let Some(values) = labels.get(label) else {
                wrong.push(format!("{name} has no label {label}"));
                continue;
            };
            // A pattern such as 5.. is left alone.
            for one in value.split('|').filter(|one| !one.contains(['.', '*', '+'])) {
                if !values.contains(one) {
                    wrong.push(format!("{name} has no {label} {one}, but {values:?}"));
                }
            }
        }
    }
    if names == 0 {
        wrong.push("no selector".to_owned());
    }
    wrong
}

/// The names of the recorded series.
fn recorded() -> BTreeSet<String> {
    rules_of("records").iter().map(|rule| text(&rule["record"]).to_owned()).collect()
}

#[test]
fn rules_and_dashboards_ask_for_series_that_there_are() {
    let (published, recorded) = (published(), recorded());
    let rules = rules_of("records").into_iter().chain(alerts());
    let mut all: Vec<String> = rules.map(|rule| text(&rule["expr"]).to_owned()).collect();
    for dashboard in DASHBOARDS {
        let queries = queries(dashboard);
        assert!(queries.len() > 10, "{dashboard}");
        all.extend(queries);
    }
    for query in all {
        assert_eq!(wrong(&query, &published, &recorded), [""; 0], "{query}");
    }
}

#[test]
fn each_metric_is_in_the_reference() {
    let page = std::fs::read_to_string(repository().join("docs/reference/metrics.md"))
        .expect("docs/reference/metrics.md is there");
    let described: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for name in published().keys().filter(|name| *name != "up") {
        // A histogram has three kinds of series.
        let metric = ["_bucket", "_sum", "_count"].into_iter().find_map(|ending| name.strip_suffix(ending));
        let names = [Some(name.as_str()), metric];
        assert!(names.into_iter().flatten().any(|name| described.contains(name)), "{name}");
    }
}

#[test]
fn query_for_a_metric_label_or_value_that_is_not_there_is_found() {
    let (published, recorded) = (published(), recorded());
    for query in [
        "sum(docket_nothing{namespace=\"a\"})",
        "docket_deliveries_total{state=\"Succeeded\"}",
        "docket_deliveries_total{status=~\"DeadLetter|Lost\"}",
        "vector(1)",
    ] {
        assert_eq!(wrong(query, &published, &recorded).len(), 1, "{query}");
    }
}

#[test]
fn autoscalers_of_the_page_scale_are_for_the_workers_and_ask_for_series_that_there_are() {
    let blocks = blocks_of("docs/kubernetes/scale.md");
    let (published, recorded) = (published(), recorded());
    let keda = blocks.iter().find(|block| block["kind"] == "ScaledObject").expect("a ScaledObject");
    let objects = render_with("worker: {autoscaling: {external: true}}");
    let target = objects.one("Deployment", text(&keda["spec"]["scaleTargetRef"]["name"]));
    assert!(target["spec"].get("replicas").is_none(), "the number is the ScaledObject's");
    // Workers publish what wakes them.
    assert!(keda["spec"]["minReplicaCount"].as_u64() >= Some(1));
    for trigger in keda["spec"]["triggers"].as_array().expect("a list") {
        let query = text(&trigger["metadata"]["query"]);
        assert_eq!(wrong(query, &published, &recorded), [""; 0], "{query}");
        assert!(
            text(&trigger["metadata"]["threshold"]).parse::<f64>().is_ok_and(|threshold| threshold > 0.0)
        );
    }
    let adapter = blocks.iter().find_map(|block| block["rules"]["external"].get(0)).expect("a rule");
    assert_eq!(wrong(text(&adapter["seriesQuery"]), &published, &recorded), [""; 0]);
    let values = blocks.iter().find(|block| block["worker"].is_object()).expect("values");
    let objects = render_with(&format!("worker: {}", values["worker"]));
    let scaler = &objects.one("HorizontalPodAutoscaler", "docket-worker")["spec"];
    assert_eq!(scaler["metrics"][1]["external"]["metric"]["name"], adapter["name"]["as"]);
}

/// Someone who follows an alert's link finds the metric that raised the alert.
#[test]
fn each_alert_has_a_panel_on_its_dashboard() {
    let name = Regex::new(r"[a-z_]+(?::[a-z_]+)*\{").expect("a pattern");
    let names = |query: &str| -> BTreeSet<String> {
        name.find_iter(query).map(|found| found.as_str().trim_end_matches('{').to_owned()).collect()
    };
    for alert in alerts() {
        let dashboard = text(&alert["annotations"]["dashboard"]);
        let shown: BTreeSet<String> = queries(dashboard).iter().flat_map(|query| names(query)).collect();
        let asked = text(&alert["expr"]);
        assert!(!names(asked).is_disjoint(&shown), "{} on {dashboard}", alert["alert"]);
    }
}

#[test]
fn the_dashboards_are_for_grafanas_sidecar() {
    let objects = render(&file("ci/full-values.yaml"));
    let map = objects.one("ConfigMap", "docket-dashboards");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(map["metadata"]["annotations"]["grafana_folder"], "Docket");
    let files = map["data"].as_object().expect("files");
    assert_eq!(files.len(), DASHBOARDS.len());
    let open = Regex::new(r"by \([^)]*\b(pod|route|name|reason|server)\b").expect("a pattern");
    for name in DASHBOARDS {
        let dashboard: Value =
            serde_json::from_str(text(&files[&format!("docket-{name}.json")])).expect("JSON");
        assert_eq!(dashboard["uid"], format!("docket-{name}"));
        let variables = dashboard["templating"]["list"].as_array().expect("a list");
        let variables: Vec<&str> = variables.iter().map(|variable| text(&variable["name"])).collect();
        assert_eq!(variables, ["datasource", "namespace", "job"], "{name}");
        let panels = dashboard["panels"].as_array().expect("a list");
        let ids: BTreeSet<String> = panels.iter().map(|panel| panel["id"].to_string()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}");
        // A panel has few series, however many pods, servers and routes there are.
        for query in queries(name).iter().filter(|query| open.is_match(query)) {
            let is_bounded = ["topk(", "bottomk("].iter().any(|bound| query.starts_with(bound));
            let is_enum = query.contains("_refused_") || query.contains("docket_database_");
            assert!(is_bounded || is_enum, "{name}: {query}");
        }
    }
}
