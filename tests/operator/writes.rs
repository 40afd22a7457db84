//! The operator writes exactly what is needed, and nothing at rest. From the API server's own audit log.

use std::time::{Duration, Instant};

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Operator, Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;

const PASSES: &str = "docket_operator_reconcile_total{kind=\"Tenant\",result=\"ok\"}";

/// Waits until `count` more passes over Tenants have ended. A Tenant at rest has one pass at each resync, which such cases
/// shorten to five seconds.
pub(super) async fn passes(operator: &Operator, count: f64) {
    let before = operator.metric(PASSES).await;
    eventually("Tenants are reconciled", SOON, async || operator.metric(PASSES).await >= before + count)
        .await;
}

#[tokio::test]
async fn a_tenant_costs_seven_writes_and_then_none_also_over_a_restart() {
    let mut release = Release::new("writes");
    release.with_postgres().await;
    release.flags.push("--resync=5s".into());
    let operator = release.start().await;
    operator.leads().await;
    let mark = cluster().mark();
    release.apply(&tenant_yaml("quiet"));
    release.wait("tenant", "quiet", "Ready", "True").await;
    let uid = release.object("tenant", "quiet")["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut writes = release.writes(mark);
    let events = writes.iter().filter(|write| write.starts_with("create events/")).count();
    assert_eq!(events, 3, "two Secrets and Ready: {writes:?}");
    writes.retain(|write| !write.starts_with("create events/"));
    // The watcher is made once for the server, with the first of its tenants.
    let watcher = writes.iter().position(|write| write == "create secrets/docket-watcher-main");
    writes.remove(watcher.expect("the server's watcher has a password"));
    assert_eq!(
        writes,
        [
            "create secrets/quiet-apikey-primary".to_owned(),
            "create secrets/quiet-database".to_owned(),
            format!("create secrets/docket-tenant-{uid}"),
            "patch tenants/status/quiet".to_owned(),
        ]
    );

    let mark = cluster().mark();
    passes(&operator, 5.0).await;
    assert_eq!(release.writes(mark), Vec::<String>::new(), "at rest");
    assert!(operator.terminate().await.success());
    let operator = release.start().await;
    operator.leads().await;
    passes(&operator, 4.0).await;
    assert_eq!(release.writes(mark), Vec::<String>::new(), "over a restart");
}

/// The sessions that the databases of all tenants have had.
async fn sessions(admin: &str) -> i64 {
    let client = docket_rig::postgres::client(admin).await;
    let statement =
        "SELECT sum(sessions)::bigint FROM pg_stat_database WHERE datname LIKE 'tenant\\_resting%'";
    client.query_one(statement, &[]).await.expect("a statement").get(0)
}

/// Each of them is looked at once a second, and one of them is checked every six seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_at_rest_cost_a_read_in_three_seconds_and_few_logins() {
    let mut release = Release::new("resting");
    let admin = release.with_postgres().await;
    release.flags.push("--resync=1s".into());
    let gate = release.with_gate().await;
    gate.allow_all();
    let operator = release.start().await;
    operator.leads().await;
    let tenants: Vec<String> = (0..5).map(|number| format!("resting{number}")).collect();
    release.apply(&tenants.iter().map(|tenant| tenant_yaml(tenant)).collect::<String>());
    for tenant in &tenants {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    passes(&operator, 10.0).await;
    let (begun, reads, logins) = (Instant::now(), gate.reads(), sessions(&admin).await);
    passes(&operator, 100.0).await;
    let (reads, logins) = (gate.reads() - reads, sessions(&admin).await - logins);
    let seconds = begun.elapsed().as_secs_f64();
    assert!(reads >= 2, "none was checked in {seconds} s");
    // The turn of a check that began before, and one whose end was not counted.
    assert!(reads as f64 <= seconds / 3.0 + 4.0, "{reads} reads in {seconds} s");
    assert!(logins as f64 <= seconds / 6.0 + 2.0, "{logins} logins in {seconds} s");
}

#[tokio::test]
async fn a_webhook_touches_only_its_own_tenant() {
    let mut release = Release::new("touch");
    release.with_postgres().await;
    let operator = release.start().await;
    operator.leads().await;
    release.apply(&(tenant_yaml("touched") + &tenant_yaml("untouched")));
    for tenant in ["touched", "untouched"] {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    let uid = release.object("tenant", "touched")["metadata"]["uid"].as_str().unwrap().to_owned();
    let mark = cluster().mark();
    let passes = operator.metric(PASSES).await;
    release.apply(&webhook_yaml("one", "touched", ""));
    release.wait("webhook", "one", "Ready", "True").await;
    release.apply(&webhook_yaml("one", "touched", "  active: false\n"));
    eventually("the change is handed over", Duration::from_secs(30), async || {
        release.runtime("touched").unwrap()["config"]["webhooks"][0]["active"] == false
    })
    .await;
    eventually("the change is reported", Duration::from_secs(30), async || {
        release.object("webhook", "one")["status"]["observedGeneration"] == 2
    })
    .await;
    let mut writes = release.writes(mark);
    writes.sort();
    let secret = format!("patch secrets/docket-tenant-{uid}");
    let expected = [
        &secret,
        &secret,
        "patch tenants/status/touched",
        "patch webhooks/status/one",
        "patch webhooks/status/one",
    ];
    assert_eq!(writes, expected);
    let after = operator.metric(PASSES).await;
    assert!(after - passes <= 5.0, "{} passes over Tenants", after - passes);
}
