//! Each alert, raised by series as the programs publish them: by its first occurrence, and by nothing less. promtool runs the
//! chart's own rules.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use docket_rig::scratch::Folder;
use serde_json::{Value, json};

use super::helm::{cache, render_with};
use super::monitoring::{DASHBOARDS, queries};

/// What Prometheus has, one value a minute, and when an alert fires.
struct Case {
    alert: &'static str,
    series: &'static [(&'static str, &'static str)],
    /// The alert does not fire until this minute.
    quiet: u32,
    /// The alert fires from this minute on; `None`: it never fires within an hour.
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

/// The cases in the order of docs/troubleshoot/alerts.md.
fn cases() -> Vec<Case> {
    vec![
        case(
            "DocketDeliveriesLate",
            &[("docket_oldest_due_seconds{pod='w'}", "0x10 31+60x50")],
            12,
            Some(14),
        ),
        // A delivery that waits for half a minute is not late.
        case("DocketDeliveriesLate", &[("docket_oldest_due_seconds{pod='w'}", "30x60")], 60, None),
        // Three minutes of an hour are within the budget.
        case("DocketDeliveriesLate", &[("docket_oldest_due_seconds{pod='w'}", "0x40 90x2 0x20")], 60, None),
        case(
            "DocketDeliveriesOftenLate",
            &[("docket_oldest_due_seconds{pod='w'}", "0x10 45x1 0x50")],
            25,
            Some(26),
        ),
        case("DocketDeliveriesOftenLate", &[("docket_oldest_due_seconds{pod='w'}", "0x60")], 60, None),
        case(
            "DocketWorkerStuck",
            &[
                ("docket_deliveries_claimed_total{pod='w',way='queue'}", "0+5x10 50x50"),
                ("docket_deliveries_claimed_total{pod='v',way='queue'}", "0+5x60"),
                ("docket_deliveries_claimed_total{pod='a',way='queue'}", "0x60"),
                ("docket_worker_slots{pod='w'}", "1024x60"),
                ("docket_worker_slots{pod='v'}", "1024x60"),
                ("docket_worker_slots{pod='a'}", "0x60"),
                ("docket_oldest_due_seconds{pod='v'}", "0x10 60+60x50"),
            ],
            23,
            Some(27),
        ),
        // Nothing is due.
        case(
            "DocketWorkerStuck",
            &[
                ("docket_deliveries_claimed_total{pod='w',way='queue'}", "0x60"),
                ("docket_worker_slots{pod='w'}", "1024x60"),
                ("docket_oldest_due_seconds{pod='w'}", "0x60"),
            ],
            60,
            None,
        ),
        // A process of the API alone claims nothing from the schedule.
        case(
            "DocketWorkerStuck",
            &[
                ("docket_deliveries_claimed_total{pod='a',way='queue'}", "0x60"),
                ("docket_worker_slots{pod='a'}", "0x60"),
                ("docket_oldest_due_seconds{pod='w'}", "100x60"),
            ],
            60,
            None,
        ),
        case(
            "DocketWorkerStoreDown",
            &[
                ("docket_store_up{pod='w',store='redis',server=''}", "1x10 0x50"),
                ("docket_store_up{pod='v',store='redis',server=''}", "1x60"),
                ("docket_worker_slots{pod='w'}", "1024x60"),
                ("docket_worker_slots{pod='v'}", "1024x60"),
            ],
            14,
            Some(17),
        ),
        // A database that an owner of a tenant chose is away, and a process of the API reaches nothing.
        case(
            "DocketWorkerStoreDown",
            &[
                ("docket_store_up{pod='w',store='postgresql',server='external'}", "0x60"),
                ("docket_store_up{pod='a',store='redis',server=''}", "0x60"),
                ("docket_worker_slots{pod='w'}", "1024x60"),
                ("docket_worker_slots{pod='a'}", "0x60"),
            ],
            60,
            None,
        ),
        // Redis responds to a worker, and refuses all of its calls.
        case(
            "DocketScheduleFails",
            &[
                ("docket_store_up{pod='w',store='redis',server=''}", "1x60"),
                ("docket_worker_slots{pod='w'}", "1024x60"),
                ("docket_schedule_failures_total{pod='w',call='claim'}", "0x10 20+20x50"),
                ("docket_schedule_failures_total{pod='w',call='settle'}", "0x60"),
            ],
            19,
            Some(22),
        ),
        // Now and then a call takes too long.
        case(
            "DocketScheduleFails",
            &[("docket_schedule_failures_total{pod='w',call='claim'}", "0x10 1+1x50")],
            60,
            None,
        ),
        // A failover of Redis took half a minute.
        case(
            "DocketScheduleFails",
            &[("docket_schedule_failures_total{pod='w',call='claim'}", "0x10 9x50")],
            60,
            None,
        ),
        // Five receivers of one tenant, and a tenth of all deliveries.
        case(
            "DocketDeadLetters",
            &[
                ("docket_deliveries_total{status='DeadLetter'}", "0x10 2x50"),
                ("docket_deliveries_total{status='Succeeded'}", "0x10 20x50"),
                ("docket_failing{of='webhooks'}", "0x10 5x50"),
                ("docket_failing{of='tenants'}", "0x10 1x50"),
            ],
            10,
            Some(11),
        ),
        // Three receivers of three tenants.
        case(
            "DocketDeadLetters",
            &[
                ("docket_deliveries_total{status='DeadLetter'}", "0x10 3x50"),
                ("docket_deliveries_total{status='Succeeded'}", "0x60"),
                ("docket_failing{of='webhooks'}", "0x10 3x50"),
                ("docket_failing{of='tenants'}", "0x10 3x50"),
            ],
            10,
            Some(11),
        ),
        // One receiver with very many deliveries.
        case(
            "DocketDeadLetters",
            &[
                ("docket_deliveries_total{status='DeadLetter'}", "0x10 120x50"),
                ("docket_deliveries_total{status='Succeeded'}", "0x60"),
            ],
            10,
            Some(11),
        ),
        // One receiver of one tenant.
        case(
            "DocketDeadLetters",
            &[
                ("docket_deliveries_total{status='DeadLetter'}", "0x10 90x50"),
                ("docket_deliveries_total{status='Succeeded'}", "0x60"),
                ("docket_failing{of='webhooks'}", "0x10 1x50"),
                ("docket_failing{of='tenants'}", "0x10 1x50"),
            ],
            60,
            None,
        ),
        // Many receivers, and 3 % of all deliveries.
        case(
            "DocketDeadLetters",
            &[
                ("docket_deliveries_total{status='DeadLetter'}", "0+10x60"),
                ("docket_deliveries_total{status='Succeeded'}", "0+300x60"),
                ("docket_failing{of='webhooks'}", "50x60"),
                ("docket_failing{of='tenants'}", "50x60"),
            ],
            60,
            None,
        ),
        // A Webhook was removed on purpose.
        case(
            "DocketDeadLetters",
            &[
                ("docket_deliveries_total{status='WebhookGone'}", "0x10 900x50"),
                ("docket_deliveries_total{status='DeadLetter'}", "0x60"),
                ("docket_deliveries_total{status='Succeeded'}", "0+1x60"),
                ("docket_failing{of='webhooks'}", "9x60"),
            ],
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
                ("docket_http_request_seconds_bucket{route='/Orders/Save',le='1.0'}", "0+60x10 600x50"),
                ("docket_http_request_seconds_bucket{route='/Orders/Save',le='2.5'}", "0+60x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Save',le='+Inf'}", "0+60x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='0.5'}", "0+1x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='1.0'}", "0+1x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='2.5'}", "0+1x60"),
                ("docket_http_request_seconds_bucket{route='/Orders/Get',le='+Inf'}", "0+1x60"),
            ],
            18,
            Some(30),
        ),
        // A quiet night with a slow request every five minutes.
        case(
            "DocketApiSlow",
            &[
                ("docket_http_request_seconds_bucket{route='/portal',le='0.5'}", "0x60"),
                ("docket_http_request_seconds_bucket{route='/portal',le='1.0'}", "0x60"),
                ("docket_http_request_seconds_bucket{route='/portal',le='2.5'}", "0x10 1x4 2x4 3x4 4x4 5x28"),
                (
                    "docket_http_request_seconds_bucket{route='/portal',le='+Inf'}",
                    "0x10 1x4 2x4 3x4 4x4 5x28",
                ),
            ],
            60,
            None,
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
        // A short burst does not fire the alert.
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
            "DocketMailWaits",
            &[("docket_mails_waiting", "0x10 1x50"), ("docket_mails_total{result='sent'}", "0x60")],
            39,
            Some(42),
        ),
        // Other messages are sent.
        case(
            "DocketMailWaits",
            &[("docket_mails_waiting", "2x60"), ("docket_mails_total{result='sent'}", "0+1x60")],
            60,
            None,
        ),
        case(
            "DocketUpkeepStopped",
            &[
                ("docket_upkeep_round_seconds_count{task='sweep',pod='w'}", "0+1x10 10x50"),
                ("docket_upkeep_round_seconds_count{task='retention',pod='w'}", "0x2 1x58"),
                ("docket_upkeep_round_seconds_count{task='detector',pod='d'}", "0+6x60"),
                ("docket_tenants{pod='w'}", "1x60"),
            ],
            53,
            Some(57),
        ),
        // Retention never completed a round.
        case(
            "DocketUpkeepStopped",
            &[
                ("docket_upkeep_round_seconds_count{task='retention',pod='w'}", "0x270"),
                ("docket_tenants{pod='w'}", "1x270"),
            ],
            253,
            Some(258),
        ),
        // Prometheus is new, or has lost what it knew: the last round was before its first sample, and the next one is due.
        case(
            "DocketUpkeepStopped",
            &[
                ("docket_upkeep_round_seconds_count{task='retention',pod='w'}", "7x60"),
                ("docket_upkeep_round_seconds_count{task='sweep',pod='w'}", "400x20 401+1x40"),
                ("docket_tenants{pod='w'}", "1x60"),
            ],
            60,
            None,
        ),
        // The last tenant was deleted in minute 40. Sweeps had 20 minutes between them.
        case(
            "DocketUpkeepStopped",
            &[
                ("docket_upkeep_round_seconds_count{task='sweep',pod='w'}", "0x1 1x18 2x70"),
                ("docket_tenants{pod='w'}", "1x39 0x50"),
            ],
            75,
            None,
        ),
        // There is no tenant to visit.
        case(
            "DocketUpkeepStopped",
            &[
                ("docket_upkeep_round_seconds_count{task='detector',pod='d'}", "0x60"),
                ("docket_tenants{pod='w'}", "0x60"),
            ],
            60,
            None,
        ),
        case(
            "DocketConnectionsNearLimit",
            &[(
                "docket_server_connections_used_ratio{pod='w',server='db:5432',of='server'}",
                "0.5x10 0.9x50",
            )],
            19,
            Some(22),
        ),
        case(
            "DocketConnectionsNearLimit",
            &[("docket_server_connections_used_ratio{pod='w',server='db:5432',of='role'}", "0.8x60")],
            60,
            None,
        ),
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
            "DocketOperatorBlind",
            &[
                ("docket_operator_watch_age_seconds{pod='a',kind='Tenant'}", "30x10 60+60x50"),
                ("docket_operator_watch_age_seconds{pod='b',kind='Tenant'}", "30x60"),
            ],
            14,
            Some(16),
        ),
        // A watch hears something at least once a minute.
        case(
            "DocketOperatorBlind",
            &[("docket_operator_watch_age_seconds{pod='a',kind='Tenant'}", "5 64 2 60 1 62 8x54")],
            60,
            None,
        ),
        case(
            "DocketStoreDown",
            &[("docket_operator_store_up{store='redis',server='',pod='a'}", "1x10 0x50")],
            14,
            Some(17),
        ),
        // Only one of two replicas reaches Redis.
        case(
            "DocketStoreDown",
            &[
                ("docket_operator_store_up{store='redis',server='',pod='a'}", "0x60"),
                ("docket_operator_store_up{store='redis',server='',pod='b'}", UP),
            ],
            60,
            None,
        ),
        // One pod of several keeps its URL, of the data plane and of the operator.
        case(
            "DocketRedisUrlStale",
            &[
                ("docket_redis_url_stale{pod='a'}", "0x60"),
                ("docket_redis_url_stale{pod='w'}", "0x10 1x50"),
                ("docket_operator_redis_url_stale{pod='o'}", "0x60"),
            ],
            19,
            Some(22),
        ),
        case(
            "DocketRedisUrlStale",
            &[
                ("docket_redis_url_stale{pod='a'}", "0x60"),
                ("docket_operator_redis_url_stale{pod='o'}", "0x10 1x50"),
            ],
            19,
            Some(22),
        ),
        // Redis got the new password some minutes after the Secret.
        case(
            "DocketRedisUrlStale",
            &[
                ("docket_redis_url_stale{pod='a'}", "0x10 1x8 0x41"),
                ("docket_operator_redis_url_stale{pod='o'}", "0x10 1x8 0x41"),
            ],
            60,
            None,
        ),
        case("DocketTenantNotReady", &[("READY,status='False',reason='Unreachable'}", "1x60")], 9, Some(11)),
        case("DocketTenantNotReady", &[("READY,status='False',reason='Suspended'}", "1x60")], 60, None),
        // Nothing has ended since minute 10.
        case(
            "DocketMigrationsStandStill",
            &[
                ("docket_operator_migrations{state='pending'}", "9x10 7x50"),
                ("docket_operator_migration_progress_timestamp_seconds", "0+60x10 600x50"),
            ],
            44,
            Some(50),
        ),
        // Paused, and all done.
        case(
            "DocketMigrationsStandStill",
            &[
                ("docket_operator_migrations{state='pending'}", "7x60"),
                ("docket_operator_migration_progress_timestamp_seconds", "0+60x60"),
            ],
            60,
            None,
        ),
        case(
            "DocketMigrationsStandStill",
            &[
                ("docket_operator_migrations{state='pending'}", "0x60"),
                ("docket_operator_migration_progress_timestamp_seconds", "0x60"),
            ],
            60,
            None,
        ),
        case(
            "DocketWebhooksNotReady",
            &[("docket_managed_not_ready{pod='a',kind='Webhook',reason='SecretNotFound'}", "0x10 1x50")],
            39,
            Some(42),
        ),
        // Their Tenants are suspended, the reason ended meanwhile, or it is a Tenant.
        case(
            "DocketWebhooksNotReady",
            &[
                ("docket_managed_not_ready{pod='a',kind='Webhook',reason='TenantSuspended'}", "9x60"),
                ("docket_managed_not_ready{pod='a',kind='Tenant',reason='Unreachable'}", "9x60"),
                ("docket_managed_not_ready{pod='a',kind='Webhook',reason='Pending'}", "1x20 0x2 1x20 0x20"),
            ],
            60,
            None,
        ),
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
        // The last pod of the component is gone, and the target of Prometheus with it.
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
        // Each series has the label that a scrape gives it.
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

/// Runs promtool in this folder.
fn promtool_says(folder: &Folder, arguments: [&str; 3]) {
    let ran = Command::new(promtool()).args(arguments).current_dir(folder.path()).output();
    let ran = ran.expect("promtool is there: tests/run takes it from Debian, or your own on the PATH");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}");
}

/// Writes JSON, which is YAML.
fn write(folder: &Folder, name: &str, content: &Value) {
    std::fs::write(folder.path().join(name), content.to_string()).expect("the folder is ours");
}

#[test]
fn each_alert_is_raised_by_its_first_occurrence_and_by_nothing_less() {
    let chart = render_with("prometheusRule: {enabled: true}");
    let spec = &chart.one("PrometheusRule", "docket")["spec"];
    let rules = spec["groups"][0]["rules"].as_array().expect("a list");
    let there: BTreeSet<&str> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    let cases = cases();
    let raised: BTreeSet<&str> =
        cases.iter().filter(|case| case.fires.is_some()).map(|case| case.alert).collect();
    assert_eq!(raised, there);

    let folder = Folder::new("alerts");
    let tests = json!({
        "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
        "tests": cases.iter().map(test_of).collect::<Vec<_>>(),
    });
    write(&folder, "rules.yaml", spec);
    write(&folder, "tests.yaml", &tests);
    promtool_says(&folder, ["check", "rules", "rules.yaml"]);
    promtool_says(&folder, ["test", "rules", "tests.yaml"]);
}

#[test]
fn each_query_of_a_dashboard_is_promql() {
    let queries = DASHBOARDS.iter().flat_map(|name| queries(name));
    let rules: Vec<Value> = queries
        .enumerate()
        .map(|(at, query)| {
            let expr = query.replace("$namespace", "docket").replace("$job", "docket-.+");
            json!({"record": format!("query:{at}"), "expr": expr})
        })
        .collect();
    let folder = Folder::new("dashboards");
    write(&folder, "rules.yaml", &json!({"groups": [{"name": "dashboards", "rules": rules}]}));
    promtool_says(&folder, ["check", "rules", "rules.yaml"]);
}
