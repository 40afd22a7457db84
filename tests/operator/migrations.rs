//! The order of migrations: what waits for what, and what the statuses and metrics say.

use docket_rig::postgres;
use docket_schema::{NEWEST, OLDEST};
use docket_tests::operator::{Release, SOON, tenant_yaml};
use docket_tests::server::eventually;

/// Takes the newest steps back, as if the previous release had made the database.
const AS_BEFORE: &str = "DROP TABLE ended_session; DROP TABLE subscription; DROP TABLE replaced_notice; DROP TABLE webhook_notice; \
                         DROP TABLE mail_link; DROP TABLE refused_address; DELETE FROM counter WHERE name = 'notice'; \
                         ALTER TABLE audit DROP COLUMN detail";

fn url(release: &Release, tenant: &str) -> String {
    let runtime = release.runtime(tenant).expect("it is handed over");
    runtime["config"]["database"].as_str().expect("a database").to_owned()
}

async fn run(release: &Release, tenant: &str, sql: &str) {
    postgres::client(&url(release, tenant)).await.batch_execute(sql).await.expect("statements");
}

async fn version(release: &Release, tenant: &str) -> i64 {
    let client = postgres::client(&url(release, tenant)).await;
    client.query_one("SELECT max(version) FROM schema_version", &[]).await.expect("a version").get(0)
}

#[tokio::test]
async fn databases_in_use_wait_for_the_pause_and_for_the_tenants_that_are_first() {
    let mut release = Release::new("migrations");
    release.with_postgres().await;
    release.flags.push("--pause-migrations".to_owned());
    let operator = release.start().await;
    for tenant in ["early", "late"] {
        release.apply(&tenant_yaml(tenant));
        // A new database is made and migrated even while migrations are paused.
        release.wait("tenant", tenant, "Ready", "True Ready").await;
        assert_eq!(version(&release, tenant).await, NEWEST);
        let before = format!("{AS_BEFORE}; DELETE FROM schema_version WHERE version > {OLDEST}");
        run(&release, tenant, &before).await;
    }
    release.kubectl(&["label", "tenant", "early", "docket.dev/migrate-first=true"]);
    for tenant in ["early", "late"] {
        release.kubectl(&["annotate", "tenant", tenant, "docket.dev/requestedAt=1"]);
        let message = release.wait("tenant", tenant, "DatabaseReady", "True MigrationPending").await;
        assert!(message.contains(&format!("has schema version {OLDEST}")), "{message}");
        assert!(message.contains("waits for --pause-migrations"), "{message}");
        release.wait("tenant", tenant, "Ready", "True Ready").await;
        assert_eq!(version(&release, tenant).await, OLDEST);
    }
    eventually("both are pending", SOON, async || {
        operator.metric("docket_operator_migrations{state=\"pending\"}").await == 2.0
    })
    .await;
    drop(operator);

    // The pause ends. The Tenant that is migrated first fails, and no other database is migrated.
    run(&release, "early", "CREATE TABLE ended_session ()").await;
    release.flags.pop();
    let operator = release.start().await;
    release.wait("tenant", "early", "DatabaseReady", "False MigrationFailed").await;
    eventually("it is shown why the other one waits", SOON, async || {
        release.condition("tenant", "late", "DatabaseReady").contains("whose migration failed")
    })
    .await;
    release.wait("tenant", "late", "Ready", "True Ready").await;
    assert_eq!((version(&release, "early").await, version(&release, "late").await), (OLDEST, OLDEST));
    eventually("one has failed", SOON, async || {
        operator.metric("docket_operator_migrations{state=\"failed\"}").await == 1.0
    })
    .await;

    // The failure is repaired: `early` is migrated first, then `late`.
    run(&release, "early", "DROP TABLE ended_session").await;
    release.kubectl(&["annotate", "tenant", "early", "--overwrite", "docket.dev/requestedAt=2"]);
    for tenant in ["early", "late"] {
        release.wait("tenant", tenant, "DatabaseReady", "True Migrated").await;
        assert_eq!(version(&release, tenant).await, NEWEST);
    }
}
