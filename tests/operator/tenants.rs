//! A Tenant on its way to being served, and what stands in its way.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, object, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;
use serde_json::json;

#[tokio::test]
async fn a_tenant_gets_its_secrets_its_database_and_is_ready() {
    let mut release = Release::new("tenant");
    let admin = release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("first"));
    release.wait("tenant", "first", "Ready", "True Ready").await;

    let key = release.secret("first-apikey-primary", "api-key").expect("the key is made");
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{} characters", key.len());
    let tenant = release.object("tenant", "first");
    let uid = &tenant["metadata"]["uid"];
    let owner = &release.object("secret", "first-apikey-primary")["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["kind"]), (uid, &json!("Tenant")));

    let runtime = release.runtime("first").expect("it is handed over");
    assert_eq!(runtime["generation"], 1);
    assert_eq!(runtime["config"]["clientCode"], "FIRST");
    let url = runtime["config"]["database"].as_str().expect("a database");
    let client = docket_rig::postgres::client(url).await;
    let version: i64 = client.query_one("SELECT max(version) FROM schema_version", &[]).await.unwrap().get(0);
    let watcher = runtime["config"]["watcher"].as_str().expect("the server has a watcher");
    let elsewhere = watcher.replace(watcher.rsplit('/').next().expect("a path"), "tenant_first");
    docket_rig::postgres::client(watcher).await;
    assert!(tokio_postgres::connect(&elsewhere, tokio_postgres::NoTls).await.is_err(), "a tenant's database");
    let status = &tenant["status"];
    assert_eq!(status["database"]["schemaVersion"], version.to_string());
    assert_eq!(status["database"]["role"], "tenant_first_app");
    assert_eq!(status["observedGeneration"], 1);
    let fingerprint = status["apiKeys"][0]["fingerprint"].as_str().expect("a fingerprint");
    assert!(fingerprint.starts_with("sha256:") && fingerprint.len() == 19, "{fingerprint}");

    let types: Vec<_> =
        status["conditions"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(types, ["Ready", "Accepted", "ResolvedRefs", "DatabaseReady", "Programmed", "WithinLimits"]);
    let everything = release.kubectl(&["get", "tenants,events", "--output=yaml"]) + &release.logs();
    let password = release.secret("first-database", "password").expect("a password");
    let of_watcher = watcher.split(['@', ':']).nth(2).expect("a password");
    for secret in [key.as_str(), &password, admin.split(['@', ':']).nth(2).unwrap(), url, of_watcher] {
        assert!(!everything.contains(secret), "a secret is shown");
    }
}

#[tokio::test]
async fn a_second_tenant_with_a_client_code_is_refused() {
    let mut release = Release::new("conflict");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("older"));
    release.wait("tenant", "older", "Ready", "True").await;
    let later = tenant_yaml("later").replace("LATER", "older");
    release.apply(&later);
    let message = release.wait("tenant", "later", "Ready", "False ClientCodeConflict").await;
    assert!(message.contains("already used by Tenant") && message.contains("/older"), "{message}");
    assert!(release.condition("tenant", "later", "Stalled").starts_with("True ClientCodeConflict"));
    assert!(release.runtime("later").is_none());
    assert!(release.object("secret", "later-apikey-primary").is_null());
    assert!(release.condition("tenant", "older", "Ready").starts_with("True"));

    release.kubectl(&["delete", "tenant", "older"]);
    release.wait("tenant", "later", "Ready", "True").await;
}

#[tokio::test]
async fn a_suspended_tenant_says_so_and_a_paused_one_is_left_alone() {
    let mut release = Release::new("suspend");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("held"));
    release.wait("tenant", "held", "Ready", "True").await;
    release.kubectl(&["patch", "tenant", "held", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]);
    release.wait("tenant", "held", "Ready", "False Suspended").await;
    assert_eq!(release.runtime("held").unwrap()["config"]["suspended"], true);

    release.kubectl(&["annotate", "tenant", "held", "docket.dev/reconcile=disabled"]);
    release.wait("tenant", "held", "Ready", "Unknown Paused").await;
    release.kubectl(&["patch", "tenant", "held", "--type=merge", "-p", r#"{"spec":{"suspend":false}}"#]);
    // The operator comes to this Tenant after `held`, so once this Tenant is Ready, `held` was left out.
    release.apply(&tenant_yaml("held-not"));
    release.wait("tenant", "held-not", "Ready", "True").await;
    assert_eq!(release.runtime("held").unwrap()["config"]["suspended"], true);
    let held = release.object("tenant", "held");
    assert_eq!(held["status"]["observedGeneration"], held["metadata"]["generation"], "it waits for nothing");
    release.kubectl(&["annotate", "tenant", "held", "docket.dev/reconcile-"]);
    release.wait("tenant", "held", "Ready", "True").await;
    assert_eq!(release.runtime("held").unwrap()["config"]["suspended"], false);
}

#[tokio::test]
async fn an_external_database_comes_from_a_secret_and_is_migrated() {
    let release = Release::new("external");
    let _operator = release.start().await;
    let url = docket_rig::postgres::database().await;
    release.apply(
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {name: external}\nspec:\n  clientCode: EXTERNAL\n  \
         database: {external: {secretKeyRef: {name: db, key: url}}}\n",
    );
    let message = release.wait("tenant", "external", "Ready", "False SecretNotFound").await;
    assert!(message.contains("spec.database.external.secretKeyRef"), "{message}");
    release.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: db, labels: {{docket.dev/watch: 'true'}}}}\n\
         stringData: {{url: '{url}'}}\n"
    ));
    release.wait("tenant", "external", "Ready", "True").await;
    assert_eq!(release.runtime("external").unwrap()["config"]["database"], url);

    let secret = |url: &str| {
        let secret = json!({"stringData": {"url": url}}).to_string();
        release.kubectl(&["patch", "secret", "db", "--type=merge", "-p", &secret]);
    };
    secret("postgres://stranger:x@127.0.0.1:1/postgres");
    release.wait("tenant", "external", "DatabaseReady", "False Unreachable").await;
    release.apply(&webhook_yaml("meanwhile", "external", ""));
    release.wait("webhook", "meanwhile", "Programmed", "True").await;
    assert_eq!(release.runtime("external").unwrap()["config"]["database"], url, "the good one stays");
    let message = release.condition("tenant", "external", "Ready");
    assert!(message.contains("stays served"), "{message}");
    secret(&url);
    release.wait("tenant", "external", "Ready", "True").await;
}

#[tokio::test]
async fn a_database_that_was_never_reached_is_not_served() {
    let release = Release::new("unreached");
    let _operator = release.start().await;
    release.apply(
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {name: unreached}\nspec:\n  \
         clientCode: UNREACHED\n  database: {external: {secretKeyRef: {name: db, key: url}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {name: db, labels: {docket.dev/watch: 'true'}}\n\
         stringData: {url: 'postgres://stranger:x@127.0.0.1:1/postgres'}\n",
    );
    release.wait("tenant", "unreached", "Ready", "False Unreachable").await;
    assert!(release.runtime("unreached").is_none());
}

#[tokio::test]
async fn a_second_tenant_on_an_external_database_is_refused() {
    let release = Release::new("shared");
    let _operator = release.start().await;
    let url = docket_rig::postgres::database().await;
    let external = |name: &str| {
        let code = name.to_uppercase();
        format!(
            "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec:\n  clientCode: {code}\n  \
             database: {{external: {{secretKeyRef: {{name: db, key: url}}}}}}\n---\n"
        )
    };
    release.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: db}}\nstringData: {{url: '{url}'}}\n"
    ));
    release.apply(&external("one"));
    release.wait("tenant", "one", "Ready", "True").await;
    release.apply(&external("two"));
    let message = release.wait("tenant", "two", "Ready", "False NotOwned").await;
    assert!(message.contains("two Tenants can't share one"), "{message}");
    assert!(release.runtime("two").is_none());
    release.kubectl(&["delete", "tenant", "one"]);
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let adopt = format!("docket.dev/adopt-database={name}");
    release.kubectl(&["annotate", "tenant", "two", &adopt]);
    release.wait("tenant", "two", "Ready", "True").await;

    // The annotation stays, and takes the database only once.
    release.apply(&external("three"));
    release.wait("tenant", "three", "Ready", "False NotOwned").await;
    release.kubectl(&["annotate", "tenant", "three", &adopt]);
    release.wait("tenant", "three", "Ready", "True").await;
    release.kubectl(&["annotate", "tenant", "two", "docket.dev/requestedAt=now"]);
    release.wait("tenant", "two", "Ready", "False NotOwned").await;
}

#[tokio::test]
async fn a_new_password_is_handed_over_although_the_schema_fails() {
    let mut release = Release::new("password");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("password"));
    release.wait("tenant", "password", "Ready", "True").await;
    let url = || release.runtime("password").unwrap()["config"]["database"].as_str().unwrap().to_owned();
    let before = url();
    let client = docket_rig::postgres::client(&before).await;
    client.batch_execute("DELETE FROM schema_version").await.expect("it is the tenant's");
    let rotate = r#"{"spec":{"database":{"managed":{"passwordRotationGeneration":1}}}}"#;
    release.kubectl(&["patch", "tenant", "password", "--type=merge", "-p", rotate]);
    release.wait("tenant", "password", "DatabaseReady", "False MigrationFailed").await;
    assert_ne!(url(), before);
    docket_rig::postgres::client(&url()).await.batch_execute("TABLE counter").await.expect("it works");
}

#[tokio::test]
async fn database_of_another_tenant_is_untouched_until_it_is_adopted() {
    let mut release = Release::new("adopt");
    let admin = release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&tenant_yaml("adopted"));
    release.wait("tenant", "adopted", "Ready", "True").await;
    release.kubectl(&["delete", "tenant", "adopted"]);
    // Only with a controller manager, which other cases may have started, does another program remove the objects it owned.
    release.kubectl(&[
        "delete",
        "secret",
        "--ignore-not-found",
        "adopted-apikey-primary",
        "adopted-database",
    ]);
    release.apply(&tenant_yaml("adopted"));
    let message = release.wait("tenant", "adopted", "Ready", "False NotOwned").await;
    assert!(message.contains("docket.dev/adopt-database"), "{message}");
    release.kubectl(&["annotate", "tenant", "adopted", "docket.dev/adopt-database=tenant_adopted"]);
    release.wait("tenant", "adopted", "Ready", "True").await;

    let elsewhere = cluster().namespace("adopt-elsewhere");
    release.watch(&elsewhere);
    operator.terminate().await;
    let _operator = release.start().await;
    release.kubectl(&["delete", "tenant", "adopted"]);
    let annotated = "metadata: {name: adopted, annotations: {docket.dev/adopt-database: tenant_adopted}}";
    release.apply_in(&elsewhere, &tenant_yaml("adopted").replace("metadata: {name: adopted}", annotated));
    let reported = async || {
        let thief = object(cluster(), &elsewhere, "tenant", "adopted");
        let conditions = thief["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let message = conditions.into_iter().find(|condition| condition["type"] == "DatabaseReady");
        message.map(|message| format!("{} {}", message["reason"], message["message"])).unwrap_or_default()
    };
    let refused = async || reported().await.starts_with("\"NotOwned\"");
    eventually("who may only annotate gets nothing", SOON, refused).await;
    assert!(reported().await.contains("COMMENT ON DATABASE"), "{}", reported().await);

    let client = docket_rig::postgres::client(&admin).await;
    client.batch_execute("CREATE DATABASE tenant_someones").await.unwrap();
    release.apply(&tenant_yaml("someones"));
    let message = release.wait("tenant", "someones", "Ready", "False NotOwned").await;
    assert!(message.contains("choose another database name"), "{message}");
}

#[tokio::test]
async fn an_unknown_database_server_is_named() {
    let mut release = Release::new("server");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("elsewhere").replace("{managed: {", "{managed: {server: eu, "));
    let message = release.wait("tenant", "elsewhere", "Ready", "False ServerNotFound").await;
    assert!(message.contains("\"eu\"") && message.contains("main"), "{message}");
}

/// The database of a Tenant that was Ready is gone, as after a server was set up again.
#[tokio::test]
async fn another_server_of_the_same_name_gets_the_database() {
    let mut release = Release::new("moved");
    let admin = release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("moved"));
    release.wait("tenant", "moved", "Ready", "True Ready").await;
    let client = docket_rig::postgres::client(&admin).await;
    client.batch_execute("DROP DATABASE tenant_moved WITH (FORCE)").await.expect("the administrator may");

    release.file("main.url", &format!("{admin}?application_name=another"));
    let renamed = tenant_yaml("moved").replace("  clientCode:", "  displayName: Moved\n  clientCode:");
    release.apply(&renamed);
    let found = "SELECT count(*) FROM pg_database WHERE datname = 'tenant_moved'";
    eventually("the database is made there", SOON, async || {
        client.query_one(found, &[]).await.expect("a statement").get::<_, i64>(0) == 1
    })
    .await;
}

#[tokio::test]
async fn a_tenant_that_names_no_server_stays_where_its_database_was_made() {
    let mut release = Release::new("stays");
    let admin = release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&tenant_yaml("stays"));
    release.wait("tenant", "stays", "Ready", "True Ready").await;
    operator.terminate().await;

    // From now on, a server that can't be reached comes before the first server.
    let nowhere = release.file("nowhere.url", "postgres://stranger:x@127.0.0.1:1/postgres");
    release.flags.insert(0, format!("--database-server=nowhere={}", nowhere.display()));
    release.file("main.url", &format!("{admin}?application_name=another"));
    let _operator = release.start().await;
    release.apply(&tenant_yaml("stays").replace("  clientCode:", "  displayName: Stays\n  clientCode:"));
    eventually("the change is served", SOON, async || release.runtime("stays").unwrap()["generation"] == 2)
        .await;
    let tenant = release.object("tenant", "stays");
    assert_eq!(tenant["status"]["database"]["server"], "main");
    release.wait("tenant", "stays", "Ready", "True Ready").await;
}
