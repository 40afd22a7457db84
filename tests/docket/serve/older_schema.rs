//! A data plane that is newer than a tenant's schema, as in an upgrade before the operator has migrated the tenant; and
//! `docket migrate`.

use docket_orders::OrderType;
use docket_program::clock::Clock;
use docket_rig::postgres;
use docket_schema::{MIGRATIONS, NEWEST, OLDEST};
use docket_store::Database;
use docket_store::postgres::Postgres;
use docket_tests::receiver::ca_yaml;
use docket_tests::server::{PASSWORD, SECRET, api_key};
use serde_json::{Value, json};

use crate::serve::cluster::{Place, config};
use crate::serve::stage::{Stage, USER};

/// The URL of a database with the schema of the previous release.
async fn previous_release() -> String {
    let url = postgres::database().await;
    let steps = &MIGRATIONS[..usize::try_from(OLDEST).expect("a number")];
    let database = Database::Postgres(Postgres::new(&url, 2).expect("a URL"));
    database.migrate_to(&Clock::System, steps).await.expect("an empty database takes the steps");
    url
}

async fn version(url: &str) -> i64 {
    let client = postgres::client(url).await;
    client.query_one("SELECT max(version) FROM schema_version", &[]).await.expect("a version").get(0)
}

/// The core of the service works before the operator has migrated the database, and the data plane migrates nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_of_the_service_works_with_the_schema_of_the_previous_release() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    let older = previous_release().await;
    let mut tenant = serde_json::to_value(config("uid-o", "OLDER", 'e', &older)).expect("JSON");
    let ca: String = ca_yaml()
        .lines()
        .skip_while(|line| !line.contains("BEGIN"))
        .fold(String::new(), |all, line| all + line.trim() + "\n");
    tenant["activeEvents"] = json!(["order.created"]);
    tenant["webhooks"] = json!([{"uid": "w1", "namespace": "default", "name": "orders", "displayName": null,
        "customerCode": "C-1", "targetUrl": stage.receiver.url("/orders"), "secret": hex::encode(SECRET),
        "caBundle": ca, "events": ["order.created"], "active": true}]);
    place.serve(serde_json::from_value(tenant).expect("a configuration"));
    let environment = [("KUBECONFIG", place.kubeconfig.as_str())];
    let at = ["--tenant", "OLDER", "--config-namespace", place.namespace.as_str()];
    let password = format!("{PASSWORD}\n");
    for (words, input) in [
        (&["customer", "add", "--code", "C-1", "--name", "One"][..], ""),
        (&["contact", "add", "--customer", "C-1", "--email", USER, "--name", "Ada"], password.as_str()),
        (&["employee", "add", "--user", "eve", "--name", "Eve", "--administrator"], password.as_str()),
    ] {
        let (done, text) = stage.home.command_in(&[words, &at].concat(), input, &environment);
        assert!(done, "{words:?}: {text}");
    }
    let server = stage.spawn_in_cluster("api,worker,detector", &place.namespace, &place.kubeconfig);
    let server = server.ready(&stage.home).await;

    let contact = server.sign_in(&api_key('e'), USER).await;
    let (_, court) =
        docket_orders::examples().into_iter().find(|(kind, _)| *kind == OrderType::Court).expect("seven");
    let court: Value = serde_json::from_str(court).expect("JSON");
    let saved = contact.post("/Orders/Save", &court).await;
    assert_eq!(saved.status, 200, "{saved:?}");
    let id = saved.json()["webOrderId"].as_str().expect("an id").to_owned();
    stage.received(1).await;
    let employee = server.sign_in_employee(&api_key('e'), "eve").await;
    let logs = employee.get(&format!("/WebhookLogs/Search?webOrderId={id}")).await;
    assert_eq!((logs.status, logs.json()["items"].as_array().map(Vec::len)), (200, Some(1)), "{logs:?}");
    let exported = contact.post("/Orders/Export", &json!({"webOrderId": id})).await;
    assert_eq!(exported.status, 200, "{exported:?}");
    let found = contact.get("/Orders/Search").await;
    assert_eq!(found.status, 200, "{found:?}");
    assert_eq!(version(&older).await, OLDEST, "a process of a cluster migrates nothing");
    assert!(!stage.log().contains(" ERROR "), "{}", stage.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_that_is_too_old_is_not_served_and_the_log_says_who_migrates_it() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    let empty = postgres::database().await;
    place.serve(config("uid-e", "EMPTY", 'e', &empty));
    let server = stage.spawn_in_cluster("api", &place.namespace, &place.kubeconfig);
    let server = server.ready(&stage.home).await;
    let key = api_key('e');
    let body = json!({"userId": USER, "password": PASSWORD}).to_string();
    let headers = [("x-api-key", key.as_str()), ("content-type", "application/json")];
    let reply = server.send("POST", "/Auth/Token", &headers, &body).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    stage.logs("the database has schema version 0").await;
    stage.logs("the operator migrates it").await;
    let at = ["--tenant", "EMPTY", "--config-namespace", place.namespace.as_str()];
    let add = [&["customer", "add", "--code", "C-1", "--name", "One"][..], &at].concat();
    let (done, text) = stage.home.command_in(&add, "", &[("KUBECONFIG", place.kubeconfig.as_str())]);
    assert!(!done && text.contains("the operator migrates it"), "{text}");
    let client = postgres::client(&empty).await;
    let sql = "SELECT to_regclass('schema_version') IS NULL";
    assert!(client.query_one(sql, &[]).await.expect("a row").get::<_, bool>(0), "nothing was created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate_command_says_what_it_would_do_and_then_does_it() {
    let stage = Stage::new().await;
    let older = previous_release().await;
    let file = stage.home.log("database-url");
    docket_tests::stores::write_secret(&file, &older);
    let file = file.display().to_string();
    let migrate = ["migrate", "--database-url-file", &file];
    let run = |more: &[&str]| {
        let (done, text) = stage.home.command_alone(&[&migrate[..], more].concat());
        assert!(done, "{text}");
        text
    };
    let plan = run(&["--dry-run"]);
    for part in ["pending", "21 subscriptions to changes of webhooks: creates tables", "23 ended sessions"] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    let plan: Value = serde_json::from_str(&run(&["--dry-run", "-o", "json"])).expect("JSON");
    let database = &plan["databases"][0];
    assert_eq!((&database["schemaVersion"], &database["newest"]), (&json!(OLDEST), &json!(NEWEST)));
    assert_eq!(database["steps"].as_array().map(Vec::len), usize::try_from(NEWEST - OLDEST).ok());
    assert_eq!(version(&older).await, OLDEST, "nothing was changed");
    assert!(run(&[]).contains("migrated by"));
    assert_eq!(version(&older).await, NEWEST);
    assert!(run(&[]).contains("up to date"));
    let (done, text) = stage.home.command(&["migrate", "--postgresql"], "");
    assert!(done && text.contains("ACME") && text.contains("up to date"), "{text}");
}
