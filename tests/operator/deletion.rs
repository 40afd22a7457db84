//! The end of a Tenant.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml};
use docket_tests::server::eventually;
use serde_json::json;

use crate::board::Pod;
use crate::writes::passes;

fn with_delete(name: &str) -> String {
    tenant_yaml(name).replace(
        &format!("{{name: tenant_{name}}}"),
        &format!("{{name: tenant_{name}, deletionPolicy: Delete}}"),
    )
}

async fn databases(admin: &str, name: &str) -> i64 {
    let client = docket_rig::postgres::client(admin).await;
    let statement = "SELECT count(*) FROM pg_database WHERE datname = $1";
    client.query_one(statement, &[&name]).await.expect("a statement").get(0)
}

#[tokio::test]
async fn by_default_the_database_stays_and_the_tenant_is_not_served() {
    let mut release = Release::new("retain");
    let admin = release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&tenant_yaml("retained"));
    release.wait("tenant", "retained", "Ready", "True").await;
    let tenant = release.object("tenant", "retained");
    assert!(tenant["metadata"]["finalizers"].is_null());
    let uid = tenant["metadata"]["uid"].as_str().unwrap().to_owned();
    release.kubectl(&["delete", "tenant", "retained"]);
    eventually("it is no longer served", SOON, async || release.runtime_of(&uid).is_none()).await;
    assert_eq!(databases(&admin, "tenant_retained").await, 1);
    drop(operator);
}

#[tokio::test]
async fn what_was_deleted_while_no_operator_ran_is_cleaned_up_at_start() {
    let mut release = Release::new("orphan");
    release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&tenant_yaml("orphaned"));
    release.wait("tenant", "orphaned", "Ready", "True").await;
    let uid = release.object("tenant", "orphaned")["metadata"]["uid"].as_str().unwrap().to_owned();
    operator.kill();
    release.kubectl(&["delete", "tenant", "orphaned"]);
    assert!(release.runtime_of(&uid).is_some());
    let _operator = release.start().await;
    eventually("the orphan is removed", SOON, async || release.runtime_of(&uid).is_none()).await;
}

#[tokio::test]
async fn with_the_policy_delete_the_database_goes_with_the_tenant() {
    let mut release = Release::new("delete");
    let admin = release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&with_delete("dropped"));
    release.wait("tenant", "dropped", "Ready", "True").await;
    assert_eq!(databases(&admin, "tenant_dropped").await, 1);
    // Waits for the finalizer.
    release.kubectl(&["delete", "tenant", "dropped", "--timeout=60s"]);
    assert_eq!(databases(&admin, "tenant_dropped").await, 0);
}

// The reports of the pod run beside calls of kubectl, which block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_stays_while_a_pod_serves_its_tenant() {
    let mut release = Release::new("lingering");
    let admin = release.with_postgres().await;
    let redis = release.with_redis();
    let pod = Pod::start(&redis, "pod");
    let operator = release.start().await;
    release.apply(&with_delete("lingering"));
    release.wait("tenant", "lingering", "Programmed", "False Pending: not served yet by pod").await;
    pod.serves(&release, &["lingering"]);
    release.wait("tenant", "lingering", "Ready", "True").await;
    let uid = release.object("tenant", "lingering")["metadata"]["uid"].as_str().unwrap().to_owned();
    release.kubectl(&["delete", "tenant", "lingering", "--wait=false"]);
    eventually("it is not handed over any more", SOON, async || release.runtime_of(&uid).is_none()).await;
    passes(&operator, 2.0).await;
    assert_eq!(databases(&admin, "tenant_lingering").await, 1);
    pod.serves(&release, &[]);
    eventually("it is gone", SOON, async || release.object("tenant", "lingering").is_null()).await;
    assert_eq!(databases(&admin, "tenant_lingering").await, 0);
}

#[tokio::test]
async fn the_finalizer_of_another_program_stays() {
    let mut release = Release::new("finalizers");
    let admin = release.with_postgres().await;
    let _operator = release.start().await;
    let with_other = "metadata: {name: guarded, finalizers: [example.com/other]}";
    release.apply(&with_delete("guarded").replace("metadata: {name: guarded}", with_other));
    release.wait("tenant", "guarded", "Ready", "True").await;
    let finalizers = || release.object("tenant", "guarded")["metadata"]["finalizers"].clone();
    assert_eq!(finalizers(), json!(["example.com/other", "docket.dev/tenant-cleanup"]));
    release.kubectl(&["delete", "tenant", "guarded", "--wait=false"]);
    let other = json!(["example.com/other"]);
    eventually("the operator's own is removed", SOON, async || finalizers() == other).await;
    assert_eq!(databases(&admin, "tenant_guarded").await, 0);
    let none = r#"{"metadata":{"finalizers":null}}"#;
    release.kubectl(&["patch", "tenant", "guarded", "--type=merge", "-p", none]);
    eventually("it is gone", SOON, async || release.object("tenant", "guarded").is_null()).await;
}

#[tokio::test]
async fn a_database_that_is_not_dropped_is_reported() {
    let mut release = Release::new("kept");
    let admin = release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&(with_delete("commented") + &with_delete("given")));
    for tenant in ["commented", "given"] {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    let client = docket_rig::postgres::client(&admin).await;
    client.batch_execute("COMMENT ON DATABASE tenant_commented IS 'mine'").await.expect("a statement");
    client.batch_execute("ALTER DATABASE tenant_given OWNER TO CURRENT_USER").await.expect("a statement");
    release.kubectl(&["delete", "tenant", "commented", "given", "--timeout=60s"]);
    assert_eq!(databases(&admin, "tenant_commented").await, 0);
    assert_eq!(databases(&admin, "tenant_given").await, 1);
    let reported = async || release.events("given").contains(&"DatabaseRetained".to_owned());
    eventually("an Event says so", SOON, reported).await;
    assert!(!release.events("commented").contains(&"DatabaseRetained".to_owned()));
}

#[tokio::test]
async fn with_the_server_away_it_says_so_and_can_be_given_up() {
    let mut release = Release::new("away");
    let admin = release.with_postgres().await;
    cluster().start_controllers();
    let _operator = release.start().await;
    release.apply(&(with_delete("gaveup") + &with_delete("retried")));
    for tenant in ["gaveup", "retried"] {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    let uid = release.object("tenant", "gaveup")["metadata"]["uid"].as_str().unwrap().to_owned();
    // No server listens at this address. The operator reads the file again when it changes.
    release.file("main.url", "postgres://postgres:x@127.0.0.1:1/postgres");
    let mark = cluster().mark();
    release.kubectl(&["delete", "tenant", "gaveup", "--wait=false"]);
    release.kubectl(&["delete", "tenant", "retried", "--cascade=foreground", "--wait=false"]);
    for tenant in ["gaveup", "retried"] {
        let message = release.wait("tenant", tenant, "Ready", "False Unreachable").await;
        assert!(message.contains("spec.database.managed.deletionPolicy"), "{message}");
    }
    assert!(release.runtime_of(&uid).is_none(), "it is unserved all the same");
    let retain = r#"{"spec":{"database":{"managed":{"deletionPolicy":"Retain"}}}}"#;
    release.kubectl(&["patch", "tenant", "gaveup", "--type=merge", "-p", retain]);
    eventually("it is gone", SOON, async || release.object("tenant", "gaveup").is_null()).await;
    release.file("main.url", &admin);
    // Kubernetes takes up to half a minute to know a new kind.
    eventually("the other one, too", 2 * SOON, async || release.object("tenant", "retried").is_null()).await;
    let made: Vec<_> =
        release.writes(mark).into_iter().filter(|write| write.starts_with("create secrets/")).collect();
    assert_eq!(made, Vec::<String>::new(), "nothing is made again meanwhile");
    assert_eq!(databases(&admin, "tenant_gaveup").await, 1);
    assert_eq!(databases(&admin, "tenant_retried").await, 0);
}

/// Kubernetes then deletes the Secrets of the Tenant first, and the Tenant last.
#[tokio::test]
async fn nothing_is_made_again_while_a_tenant_is_deleted_in_the_foreground() {
    let mut release = Release::new("foreground");
    release.with_postgres().await;
    cluster().start_controllers();
    let _operator = release.start().await;
    release.apply(&with_delete("frontmost"));
    release.wait("tenant", "frontmost", "Ready", "True").await;
    let uid = release.object("tenant", "frontmost")["metadata"]["uid"].as_str().unwrap().to_owned();
    let mark = cluster().mark();
    release.kubectl(&["delete", "tenant", "frontmost", "--cascade=foreground", "--timeout=60s"]);
    for secret in ["frontmost-apikey-primary", "frontmost-database"] {
        eventually("its Secrets are gone", SOON, async || release.object("secret", secret).is_null()).await;
    }
    assert!(release.runtime_of(&uid).is_none());
    let made: Vec<_> =
        release.writes(mark).into_iter().filter(|write| write.starts_with("create secrets/")).collect();
    assert_eq!(made, Vec::<String>::new());
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_never_waits_for_a_server() {
    let mut release = Release::new("terminating");
    release.with_postgres().await;
    cluster().start_controllers();
    let _operator = release.start().await;
    release.apply(&with_delete("terminated"));
    release.wait("tenant", "terminated", "Ready", "True").await;
    release.file("main.url", "postgres://postgres:x@127.0.0.1:1/postgres");
    // The namespace's own Role goes with all else in it, in any order: here it is the first.
    release.kubectl(&["delete", "rolebindings", "--all"]);
    let delete = ["delete", "namespace", &release.tenants, "--timeout=150s"];
    cluster().kubectl(&delete, "").expect("the namespace goes");
}

#[tokio::test]
async fn a_watched_namespace_without_its_role_stops_no_other() {
    let mut release = Release::new("roleless");
    release.with_postgres().await;
    let other = cluster().namespace("roleless");
    release.watch(&other);
    cluster().kubectl(&["--namespace", &other, "delete", "rolebindings", "--all"], "").expect("they go");
    let _operator = release.start().await;
    release.apply(&tenant_yaml("neighbour"));
    release.wait("tenant", "neighbour", "Ready", "True").await;
}
