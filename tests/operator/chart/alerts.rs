//! Each alert, raised by series as the programs publish them: by its first occurrence, and by nothing less. promtool runs the
//! chart's own rules.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use docket_rig::scratch::Folder;
use serde_json::{Value, json};

use super::helm::{cache, render_with, text};

/// What Prometheus has, one value a minute, and when an alert fires.
struct Case {
    alert: &'static str,
    series: &'static [(&'static str, &'static str)],
    /// Until this minute it does not fire.
    quiet: u32,
    /// From this minute on it does; `None`: never, in an hour.
    fires: Option<u32>,
}

const fn case(
    alert: &'static str,
    series: &'static [(&'static str, &'static str)],
    quiet: u32,
    fires: Option<u32>,
) -> Case {
    Case { alert, series, quiet, fires }
}

const UP: &str = "1x60";
const OPERATOR: &str = "up{job='docket-operator-management',pod='o'}";
const API: &str = "up{job='docket-api-management',pod='a'}";
const WORKER: &str = "up{job='docket-worker-management',pod='w'}";
const DETECTOR: &str = "up{job='docket-detector-management',pod='d'}";
const READY: &str = "docket_tenant_condition{exported_namespace='t',name='acme',type='Ready'";

/// In the order of docs/troubleshoot/alerts.md.
fn cases() -> Vec<Case> {
    vec![
        // One dead letter after ten minutes without any.
        case(
            "DocketDeadLetters",
            &[("docket_deliveries_total{status='DeadLetter'}", "0x10 1x50")],
            10,
            Some(11),
        ),
        case("DocketDeadLetters", &[("docket_deliveries_total{status='Succeeded'}", "0+9x60")], 60, None),
        // A Webhook was removed on purpose.
        case(
            "DocketDeadLetters",
            &[("docket_deliveries_total{status='WebhookGone'}", "0x10 9x50")],
            60,
            None,
        ),
        case(
            "DocketMostAttemptsFail",
            &[
                ("docket_delivery_attempts_total{class='Succeeded'}", "0+20x60"),
                ("docket_delivery_attempts_total{class='TlsUntrusted'}", "0x10 30+30x50"),
            ],
            18,
            Some(35),
        ),
        // One of two attempts in an hour.
        case(
            "DocketMostAttemptsFail",
            &[("docket_delivery_attempts_total{class='Connect'}", "0x10 1x50")],
            60,
            None,
        ),
        case(
            "DocketAttemptsCutOff",
            &[("docket_delivery_attempts_total{class='WorkerLost'}", "0x10 1x50")],
            10,
            Some(11),
        ),
        case(
            "DocketApiErrors",
            &[
                ("docket_http_requests_total{route='/Orders/Save',code='200'}", "0+60x60"),
                ("docket_http_requests_total{route='/Orders/Save',code='500'}", "0x10 20+20x50"),
            ],
            10,
            Some(20),
        ),
        // A third of few requests.
        case(
            "DocketApiErrors",
            &[
                ("docket_http_requests_total{route='/Orders/Save',code='200'}", "0+2x60"),
                ("docket_http_requests_total{route='/Orders/Save',code='503'}", "0+1x60"),
            ],
            60,
            None,
        ),
        case(
            "DocketApiSlow",
            &[
                ("docket_http_request_seconds_bucket{route='/Orders/Save',le='0.5'}", "0+60x10 600x50"),
                ("docket_http_request_seconds_bucket{route='/Orders/Save',le='2.5'}", "0+60x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Save',le='+Inf'}", "0+60x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='0.5'}", "0+1x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='2.5'}", "0+1x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='+Inf'}", "0+1x60"),
            ],
            18,
            Some(30),
        ),
        case(
            "DocketSignInGuessing",
            &[
                ("docket_sign_in_total{result='refused'}", "0x10 360+360x50"),
                ("docket_sign_in_total{result='ok'}", "0+600x60"),
            ],
            14,
            Some(22),
        ),
        case(
            "DocketAuditEntriesLost",
            &[("docket_audit_lost_total{what='line'}", "0x10 1x50")],
            10,
            Some(11),
        ),
        case("DocketAuditEntriesLost", &[("docket_audit_lost_total{what='row'}", "0x60")], 60, None),
        case(
            "DocketConnectionsRefused",
            &[("docket_connections_refused_total{reason='Peer'}", "0x10 120+120x50")],
            14,
            Some(22),
        ),
        case(
            "DocketConnectionsRefused",
            &[("docket_connections_refused_total{reason='Full'}", "0+9x60")],
            60,
            None,
        ),
        case(
            "DocketTenantAtLimit",
            &[
                ("docket_tenant_limited_total{limit='queuedDeliveries'}", "0x10 1+1x50"),
                ("docket_tenant_limited_total{limit='bodyBytes'}", "0x60"),
            ],
            25,
            Some(27),
        ),
        // A short burst.
        case(
            "DocketTenantAtLimit",
            &[("docket_tenant_limited_total{limit='requestsPerSecond'}", "0x10 500x50")],
            60,
            None,
        ),
        case(
            "DocketInvoiceScanFails",
            &[("docket_invoice_scan_failures_total", "0x10 1+1x50")],
            19,
            Some(22),
        ),
        // One that failed and went well again.
        case("DocketInvoiceScanFails", &[("docket_invoice_scan_failures_total", "0x10 1x50")], 60, None),
        case(
            "DocketTenantsDiffer",
            &[("docket_tenants{pod='a'}", "5x60"), ("docket_tenants{pod='b'}", "5x10 4x50")],
            19,
            Some(22),
        ),
        case(
            "DocketConfigurationUnreadable",
            &[("docket_config_problems{pod='a'}", "0x60"), ("docket_config_problems{pod='b'}", "0x10 1x50")],
            19,
            Some(22),
        ),
        // A rollout, until the last pod is of the operator's version.
        case(
            "DocketConfigurationUnreadable",
            &[("docket_config_problems{pod='a'}", "0x10 3x5 0x45")],
            60,
            None,
        ),
        case("DocketNoLeader", &[("docket_operator_leader{pod='a'}", "1x10 0x50")], 14, Some(17)),
        case(
            "DocketNoLeader",
            &[("docket_operator_leader{pod='a'}", UP), ("docket_operator_leader{pod='b'}", "0x60")],
            60,
            None,
        ),
        case(
            "DocketNoLeader",
            &[("docket_operator_leader{pod='a'}", UP), ("docket_operator_leader{pod='b'}", "0x10 1x50")],
            14,
            Some(17),
        ),
        case("DocketNoLeader", &[], 4, Some(6)),
        case(
            "DocketStoreDown",
            &[("docket_operator_store_up{store='redis',server='',pod='a'}", "1x10 0x50")],
            14,
            Some(17),
        ),
        // One of two replicas reaches it.
        case(
            "DocketStoreDown",
            &[
                ("docket_operator_store_up{store='redis',server='',pod='a'}", "0x60"),
                ("docket_operator_store_up{store='redis',server='',pod='b'}", UP),
            ],
            60,
            None,
        ),
        case("DocketTenantNotReady", &[("READY,status='False',reason='Unreachable'}", "1x60")], 9, Some(11)),
        case("DocketTenantNotReady", &[("READY,status='False',reason='Suspended'}", "1x60")], 60, None),
        case(
            "DocketReconcileErrors",
            &[
                ("docket_operator_reconcile_total{kind='Tenant',result='ok'}", "0+6x60"),
                ("docket_operator_reconcile_total{kind='Tenant',result='failed'}", "0x10 1+1x50"),
            ],
            24,
            Some(45),
        ),
        case(
            "DocketTargetDown",
            &[(OPERATOR, UP), (API, "1x10 0x50"), (WORKER, UP), (DETECTOR, UP)],
            14,
            Some(17),
        ),
        // Its last pod is gone, and its target with it.
        case(
            "DocketTargetDown",
            &[(OPERATOR, UP), (API, UP), (WORKER, "1x10"), (DETECTOR, UP)],
            14,
            Some(26),
        ),
        case("DocketTargetDown", &[(OPERATOR, UP), (API, UP), (WORKER, UP), (DETECTOR, UP)], 60, None),
    ]
}

fn promtool() -> PathBuf {
    Some(cache().join("promtool")).filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("promtool"))
}

/// `count(ALERTS{…})` at these minutes.
fn test_of(case: &Case) -> Value {
    let series = case.series.iter().map(|(name, values)| {
        let name = name.replace("READY", READY);
        // Each has the label that a scrape gives it.
        let name = match name.split_once('{') {
            Some((name, labels)) => format!("{name}{{namespace='docket-system',{labels}"),
            None => format!("{name}{{namespace='docket-system'}}"),
        };
        json!({"series": name, "values": values})
    });
    let at = |minute: u32, samples: Value| {
        let expr = format!("count(ALERTS{{alertname='{}',alertstate='firing'}})", case.alert);
        json!({"expr": expr, "eval_time": format!("{minute}m"), "exp_samples": samples})
    };
    let quiet = (0..=case.quiet).map(|minute| at(minute, json!([])));
    let firing = case.fires.map(|minute| at(minute, json!([{"labels": "{}", "value": 1}])));
    json!({
        "name": case.alert, "interval": "1m",
        "input_series": series.collect::<Vec<_>>(),
        "promql_expr_test": quiet.chain(firing).collect::<Vec<_>>(),
    })
}

#[test]
fn each_alert_is_raised_by_its_first_occurrence_and_by_nothing_less() {
    let chart = render_with("prometheusRule: {enabled: true}");
    let spec = &chart.one("PrometheusRule", "docket")["spec"];
    let rules = spec["groups"][0]["rules"].as_array().expect("a list");
    let there: BTreeSet<&str> = rules.iter().map(|rule| text(&rule["alert"])).collect();
    let cases = cases();
    let raised: BTreeSet<&str> =
        cases.iter().filter(|case| case.fires.is_some()).map(|case| case.alert).collect();
    assert_eq!(raised, there);

    let folder = Folder::new("alerts");
    let tests = json!({
        "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
        "tests": cases.iter().map(test_of).collect::<Vec<_>>(),
    });
    // JSON is YAML.
    std::fs::write(folder.path().join("rules.yaml"), spec.to_string()).expect("the folder is ours");
    std::fs::write(folder.path().join("tests.yaml"), tests.to_string()).expect("the folder is ours");
    for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "tests.yaml"]] {
        let ran = Command::new(promtool()).args(arguments).current_dir(folder.path()).output();
        let ran = ran.expect("promtool is there: tests/run takes it from Debian, or your own on the PATH");
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{arguments:?}: {said}");
    }
}
