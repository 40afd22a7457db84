//! The operator killed at every write: what it leaves behind is finished by the next one, and nothing is made twice.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml};
use docket_tests::server::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_it_ends_in_the_same_state() {
    let mut release = Release::new("killed");
    let admin = release.with_postgres().await;
    let gate = release.with_gate().await;
    // Two Secrets, their Events, the runtime Secret, the status and its Event.
    for count in 1..=7 {
        let name = format!("killed{count}");
        let operator = release.start().await;
        operator.leads().await;
        let mark = cluster().mark();
        gate.allow(count);
        release.apply(&tenant_yaml(&name));
        eventually("that many writes", SOON, async || gate.ended() == count).await;
        // All of a tenant's writes are seven, as `writes` proves.
        eventually("the next one is held up", SOON, async || count == 7 || gate.waiting() > 0).await;
        operator.kill();
        gate.allow_all();
        eventually("they are in the audit log", SOON, async || release.writes(mark).len() >= count).await;
        assert_eq!(release.writes(mark).len(), count, "{:?}", release.writes(mark));
        let key = release.secret(&format!("{name}-apikey-primary"), "api-key");
        let runtime = release.runtime(&name);

        let operator = release.start().await;
        release.wait("tenant", &name, "Ready", "True").await;
        let made = release.secret(&format!("{name}-apikey-primary"), "api-key");
        assert!(key.is_none() || key == made, "a second key after write {count}");
        assert!(
            runtime.is_none() || runtime == release.runtime(&name),
            "another configuration after write {count}"
        );
        operator.kill();
    }
    let client = docket_rig::postgres::client(&admin).await;
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'tenant\\_killed%'";
    let databases: i64 = client.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(databases, 7);
}
