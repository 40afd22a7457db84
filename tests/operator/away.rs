//! A PostgreSQL server that is away: one signal, and no write about any of its databases.

use docket_rig::proxy::Proxy;
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml};
use docket_tests::server::eventually;

const SERVER_IS_UP: &str = "docket_operator_store_up{store=\"postgresql\",server=\"main\"}";
const FAILED: &str = "docket_operator_reconcile_total{kind=\"Tenant\",result=\"failed\"}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_server_that_is_away_costs_no_write() {
    let mut release = Release::new("away");
    let mut admin = url::Url::parse(&docket_rig::postgres::database().await).expect("a URL");
    let proxy = Proxy::to(([127, 0, 0, 1], admin.port().expect("it has one")).into());
    admin.set_port(Some(proxy.address.port())).expect("it has a host");
    let file = release.file("main.url", admin.as_str());
    // Each database is checked again and again, also while its server is away.
    release.flags.extend([format!("--database-server=main={}", file.display()), "--resync=5s".into()]);
    let tenants = ["away-one", "away-two", "away-three"];
    let operator = release.start().await;
    operator.leads().await;
    for tenant in tenants {
        release.apply(&tenant_yaml(tenant));
    }
    for tenant in tenants {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    assert_eq!(operator.metric(SERVER_IS_UP).await, 1.0);

    let mark = cluster().mark();
    let failed = operator.metric(FAILED).await;
    proxy.cut();
    eventually("each check failed", SOON, async || operator.metric(FAILED).await >= failed + 6.0).await;
    assert_eq!(operator.metric(SERVER_IS_UP).await, 0.0);
    operator.terminate().await;
    let operator = release.start().await;
    eventually("each check failed again", SOON, async || operator.metric(FAILED).await >= 6.0).await;
    assert_eq!(operator.metric(SERVER_IS_UP).await, 0.0);
    proxy.restore();
    eventually("it is back", SOON, async || operator.metric(SERVER_IS_UP).await == 1.0).await;
    for tenant in tenants {
        assert!(release.condition("tenant", tenant, "Ready").starts_with("True"), "{tenant}");
    }
    assert_eq!(release.writes(mark), Vec::<String>::new());
}
