//! The operator killed at every write: what it leaves behind is finished by the next one, and nothing is made twice.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml};
use docket_tests::server::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_it_ends_in_the_same_state() {
    let mut release = Release::new("killed");
    let admin = release.with_postgres().await;
    let gate = release.with_gate().await;
    gate.allow_all();
    // The watcher of their server is made with the first tenant.
    let operator = release.start().await;
    release.apply(&tenant_yaml("unkilled"));
    release.wait("tenant", "unkilled", "Ready", "True").await;
    operator.kill();
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
        // Of both operators, Events aside: each once, and nothing before what it depends on.
        let uid = release.object("tenant", &name)["metadata"]["uid"].as_str().unwrap().to_owned();
        let expected = [
            format!("create secrets/{name}-apikey-primary"),
            format!("create secrets/{name}-database"),
            format!("patch secrets/docket-tenant-{uid}"),
            format!("patch tenants/status/{name}"),
        ];
        let writes = || -> Vec<String> {
            release.writes(mark).into_iter().filter(|write| !write.starts_with("create events/")).collect()
        };
        eventually("all is written", SOON, async || writes().len() >= expected.len()).await;
        assert_eq!(writes(), expected, "after write {count}");
        operator.kill();
    }
    let client = docket_rig::postgres::client(&admin).await;
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'tenant\\_killed%'";
    let databases: i64 = client.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(databases, 7);
}
