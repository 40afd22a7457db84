//! The commands on a tenant of `docket serve`.

use docket_domain::delivery::Status;
use docket_rig::postgres;
use docket_rig::tenant_database::ended_sql;
use docket_tests::server::eventually;

use crate::serve::stage::{SOON, Stage, USER, save, sign_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_work_on_postgresql_and_a_resend_is_sent_at_once() {
    let stage = Stage::new().await;
    let again = stage.command(&["customer", "add", "--code", "C-1", "--name", "Again"], "");
    assert!(again.expect_err("it is there").contains("already"));
    let (api, worker) =
        tokio::join!(stage.serve("api"), stage.spawn("worker", "--sweep-interval 1h").ready(&stage.home));
    save(&sign_in(&api).await).await;
    stage.received(1).await;
    let client = postgres::client(&stage.database).await;
    let sql = "SELECT id FROM delivery WHERE status = 'Succeeded'";
    let id: String = loop {
        if let Some(row) = client.query_opt(sql, &[]).await.expect("a statement") {
            break row.get(0);
        }
    };
    let listed = stage.command(&["deliveries", "list"], "").expect("a list");
    assert!(listed.contains(&id), "{listed}");
    // Without Redis, only the next sweep would find the resend.
    let url = stage.home.log("redis-url").display().to_string();
    let flags = ["--postgresql", "--redis-url-file", &url];
    let resent = stage.command_with(&["deliveries", "resend", &id], &flags, "").expect("a resend");
    assert!(resent.contains("a running `docket serve` sends it now"), "{resent}");
    stage.received(2).await;
    let later = stage.command(&["deliveries", "resend", &id], "").expect("a resend");
    assert!(later.contains("the next sweep"), "{later}");
    drop(worker);
    let _worker = stage.serve("worker").await;
    stage.received(3).await;
}

/// No process would read a wake file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_on_postgresql_gets_no_file() {
    let stage = Stage::new().await;
    let customer = ["customer", "add", "--code", "C-9", "--name", "Nine"];
    let refused = stage.command_with(&customer, &[], "").expect_err("it has a database");
    assert!(refused.contains("add --postgresql"), "{refused}");
    assert!(!stage.home.database("ACME").exists());
    stage.command(&customer, "").expect("where it belongs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resend_that_cannot_be_scheduled_is_not_made() {
    let stage = Stage::new().await;
    let api = stage.serve("api").await;
    save(&sign_in(&api).await).await;
    let database = postgres::client(&stage.database).await;
    database.batch_execute(&ended_sql(Status::DeadLetter, "1", "TRUE")).await.expect("a statement");
    let id: String = database.query_one("SELECT id FROM delivery", &[]).await.expect("a statement").get(0);
    let flags = ["--postgresql", "--redis-url-file", "/nowhere/url"];
    let refused = stage.command_with(&["deliveries", "resend", &id], &flags, "").expect_err("no such file");
    assert!(refused.contains("--redis-url-file"), "{refused}");
    let count = database.query_one("SELECT count(*) FROM delivery", &[]).await.expect("a statement");
    assert_eq!(count.get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_hold_external_databases_to_the_rules_of_the_platform() {
    let stage = Stage::new().await;
    let list = ["deliveries", "list"];
    let elsewhere = ["--postgresql", "--allow-external-database", "10.9.0.0/16"];
    let refused = stage.command_with(&list, &elsewhere, "").expect_err("another network");
    assert!(refused.contains("is not allowed for external databases"), "{refused}");
    let folder = stage.home.config().display().to_string();
    let flags = ["--postgresql", "--allow-external-database", "127.0.0.1/32", "--ca-folder", &folder];
    stage.command_with(&list, &flags, "").expect("it is in the network");
    for (query, expected) in [
        ("?options=-csearch_path%3Devil", "the parameter \"options\" is not allowed"),
        ("?sslmode=verify-full&sslrootcert=/dev/zero", "sslrootcert must be"),
    ] {
        let url = format!("{}{query}", stage.database);
        stage.home.write("all.yaml", &crate::serve::stage::external("acme", 'a', &url));
        let refused = stage.command_with(&list, &flags, "").expect_err("not in such a URL");
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_tenant_is_refused_and_the_known_ones_are_named() {
    let stage = Stage::new().await;
    let words = ["deliveries", "list", "--tenant", "UNKNOWN", "--postgresql"];
    let (done, text) = stage.home.command(&words, "");
    assert!(!done && text.contains("UNKNOWN") && text.contains("ACME"), "{text}");
    // A password never shows.
    stage.home.write(
        "all.yaml",
        &crate::serve::stage::external("acme", 'a', "postgres://u:hunter2@127.0.0.1:1/none"),
    );
    let refused = stage.command(&["deliveries", "list"], "").expect_err("no database is there");
    assert!(refused.contains("the database of tenant ACME can't be opened"), "{refused}");
    assert!(!refused.contains("hunter2"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_signed_out_everywhere_has_no_token_and_may_sign_in_again() {
    let stage = Stage::new().await;
    let (one, other) = tokio::join!(stage.serve("api"), stage.serve("api"));
    let clients = [sign_in(&one).await, sign_in(&other).await];
    for client in &clients {
        assert_eq!(client.get("/Orders/Search").await.status, 200);
    }
    let done = stage.command(&["contact", "sign-out", "--email", USER], "").expect("signed out");
    assert!(done.ends_with("of tenant ACME is signed out: its tokens end within 5 s.\n"), "{done}");
    for client in &clients {
        eventually("its token ends", SOON, async || client.get("/Orders/Search").await.status == 401).await;
    }
    for api in [&one, &other] {
        let again = sign_in(api).await;
        assert_eq!(again.get("/Orders/Search").await.status, 200);
    }
    assert_eq!(clients[0].get("/Orders/Search").await.status, 401, "it stays ended");
}
