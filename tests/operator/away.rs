//! A PostgreSQL server that is away: one signal, and no write about any of its databases.

use std::time::Duration;

use docket_rig::proxy::Proxy;
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;

use crate::board::{Pod, REDIS_IS_UP};

const SERVER_IS_UP: &str = "docket_operator_store_up{store=\"postgresql\",server=\"main\"}";
const FAILED: &str = "docket_operator_reconcile_total{kind=\"Tenant\",result=\"failed\"}";

/// A wire to the PostgreSQL server of a release. Each database is checked again and again, also while its server is away.
async fn with_wire(release: &mut Release) -> Proxy {
    let mut admin = url::Url::parse(&docket_rig::postgres::database().await).expect("a URL");
    let proxy = Proxy::to(([127, 0, 0, 1], admin.port().expect("it has one")).into());
    admin.set_port(Some(proxy.address.port())).expect("it has a host");
    let file = release.file("main.url", admin.as_str());
    release.flags.extend([format!("--database-server=main={}", file.display()), "--resync=5s".into()]);
    proxy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_server_that_is_away_costs_no_write() {
    let mut release = Release::new("away");
    let proxy = with_wire(&mut release).await;
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

/// The clock of an operator can't be moved from outside. So this takes as long as it says, and runs on request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten minutes; docs/project/verify.md has the command"]
async fn stores_that_are_away_for_ten_minutes_cost_no_write() {
    const HALF: Duration = Duration::from_secs(300);
    let mut release = Release::new("long");
    let (proxy, redis) = (with_wire(&mut release).await, release.with_redis());
    let pod = Pod::start(&redis, "pod");
    let mut operator = release.start().await;
    operator.leads().await;
    release.apply(&(tenant_yaml("long") + &webhook_yaml("webhook", "long", "")));
    release.wait("webhook", "webhook", "Programmed", "False Pending: not served yet by pod").await;
    pod.serves(&release, &["long"]);
    release.wait("tenant", "long", "Ready", "True").await;
    release.wait("webhook", "webhook", "Ready", "True").await;

    let mark = cluster().mark();
    proxy.cut();
    redis.freeze();
    for half in ["first", "second"] {
        for store in [SERVER_IS_UP, REDIS_IS_UP] {
            eventually("it is away", SOON, async || operator.metric(store).await == 0.0).await;
        }
        tokio::time::sleep(HALF).await;
        assert_eq!(release.writes(mark), Vec::<String>::new(), "in the {half} half");
        operator.terminate().await;
        operator = release.start().await;
        operator.leads().await;
    }
    proxy.restore();
    redis.thaw();
    for store in [SERVER_IS_UP, REDIS_IS_UP] {
        eventually("it is back", SOON, async || operator.metric(store).await == 1.0).await;
    }
    for (kind, name) in [("tenant", "long"), ("webhook", "webhook")] {
        assert!(release.condition(kind, name, "Ready").starts_with("True"), "{kind}");
    }
    assert_eq!(release.writes(mark), Vec::<String>::new(), "when they are back");
}
