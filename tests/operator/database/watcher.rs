//! The watcher of a server: it may log in, and nothing else.

use docket_crds::DatabaseUrl;
use docket_operator::database::watcher_role;
use docket_rig::postgres;
use docket_store::postgres::Watcher;
use docket_tests::operator::SOON;
use docket_tests::server::eventually;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::log::Log;
use super::{Rig, in_database, quoted, refusal, with_user};

const PASSWORD: &str = "secret-of-watcher";

/// Each test has its own installation, and so its own role.
async fn made(rig: &Rig, password: &str) -> Option<DatabaseUrl> {
    let password = SecretString::from(password.to_owned());
    rig.servers.watcher(None, &rig.name, async |_| Ok::<_, String>(password)).await
}

/// The operator after a restart: it knows nothing of the role.
fn restarted(rig: &Rig) -> Rig {
    let admin = std::fs::read_to_string(rig.folder.path().join("url")).expect("the rig wrote it");
    Rig::with_admin(rig.root.clone(), &Url::parse(admin.trim()).expect("a URL"), rig.name.clone())
}

async fn attributes(rig: &Rig) -> String {
    let sql = "SELECT concat_ws('|', rolcanlogin, rolinherit, rolsuper, rolcreatedb, rolcreaterole, rolreplication, \
                   rolbypassrls, rolconnlimit, shobj_description(oid, 'pg_authid'), \
                   (SELECT count(*) FROM pg_auth_members WHERE member = r.oid)) FROM pg_roles r WHERE rolname = $1";
    let row = rig.root().await.query_one(sql, &[&watcher_role(&rig.name)]).await.expect("the role is there");
    row.get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_may_log_in_and_has_no_right() {
    let rig = Rig::new().await;
    let tenant = rig.ensure().await;
    let url = made(&rig, PASSWORD).await.expect("it is made");
    let expected = format!("t|f|f|f|f|f|f|64|docket.dev/watcher installation={}|0", rig.name);
    assert_eq!(attributes(&rig).await, expected);
    let of_tenant = in_database(&Url::parse(url.expose()).unwrap(), &rig.name);
    assert_eq!(refusal(of_tenant.as_str()).await.as_deref(), Some("42501"), "a tenant's database");
    let client = postgres::client(url.expose()).await;
    for sql in [
        "CREATE ROLE other".to_owned(),
        "CREATE DATABASE other".to_owned(),
        "CREATE TABLE other (n INT)".to_owned(),
        "SELECT rolpassword FROM pg_authid".to_owned(),
        "SELECT pg_stat_reset()".to_owned(),
        format!("SET ROLE {}", quoted(&tenant.role)),
        format!("ALTER ROLE {} PASSWORD 'x'", quoted(&tenant.role)),
        format!("DROP DATABASE {}", quoted(&rig.name)),
    ] {
        let error = client.batch_execute(&sql).await.expect_err(&sql);
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{sql}: {error}");
    }
    // Without these rights, the watcher still learns what it needs.
    let watcher = Watcher::new(url.expose()).expect("a URL");
    watcher.look(std::time::Duration::from_secs(60)).await;
    assert!(watcher.counters(&rig.name).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrators_database_is_closed_to_tenants_where_it_is_the_administrators() {
    let rig = Rig::new().await;
    let tenant = rig.ensure().await;
    let there = with_user(&rig.root, &tenant.role, rig.password.expose_secret());
    let url = made(&rig, PASSWORD).await.expect("it is made");
    assert_eq!(refusal(there.as_str()).await, None, "the administrator may not close what is another's");
    let database = quoted(there.path().trim_start_matches('/'));
    let give = format!("ALTER DATABASE {database} OWNER TO {}", rig.admin());
    rig.root().await.batch_execute(&give).await.expect("a superuser may");
    // Meanwhile a tenant holds a lock of the operator, which does not keep the operator from closing the database to tenants.
    let role = watcher_role(&rig.name);
    let tenants = postgres::client(there.as_str()).await;
    let hold = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
    tenants.execute(hold, &[&role]).await.expect("it is open");
    let again = restarted(&rig);
    let (made_again, ()) = tokio::join!(made(&again, PASSWORD), async {
        eventually("it is closed", SOON, async || refusal(there.as_str()).await.as_deref() == Some("42501"))
            .await;
        drop(tenants);
    });
    assert_eq!(made_again, Some(url.clone()));
    postgres::client(url.expose()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_made_once_and_repaired() {
    let rig = Rig::new().await;
    let url = made(&rig, PASSWORD).await.expect("it is made");
    let before = attributes(&rig).await;
    let log = Log::begin(&rig).await;
    assert_eq!(made(&rig, "another").await, Some(url.clone()), "it is not looked at again at once");
    assert_eq!(made(&restarted(&rig), PASSWORD).await, Some(url.clone()));
    let statements = log.statements().join("\n");
    assert!(!statements.contains("ALTER") && !statements.contains("CREATE ROLE"), "{statements}");
    let role = quoted(&watcher_role(&rig.name));
    for change in [
        format!("ALTER ROLE {role} NOLOGIN INHERIT CONNECTION LIMIT 1 VALID UNTIL '2000-01-01'"),
        format!("ALTER ROLE {role} PASSWORD 'forgotten'"),
        format!("DROP ROLE {role}"),
    ] {
        rig.root().await.batch_execute(&change).await.expect("a superuser may");
        assert_eq!(made(&restarted(&rig), PASSWORD).await, Some(url.clone()), "{change}");
        assert_eq!(attributes(&rig).await, before);
        postgres::client(url.expose()).await;
    }
    let rotated = made(&restarted(&rig), "rotated").await.expect("it has a new password");
    postgres::client(rotated.expose()).await;
    assert_eq!(refusal(url.expose()).await.as_deref(), Some("28P01"));
    let statements = log.statements().join("\n");
    assert!(statements.contains("CREATE ROLE") && !statements.contains("rotated"), "{statements}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_of_another_or_with_rights_is_left_alone() {
    let rig = Rig::new().await;
    let role = quoted(&watcher_role(&rig.name));
    for (sql, undo) in [
        (format!("CREATE ROLE {role} LOGIN PASSWORD 'x'"), format!("DROP ROLE {role}")),
        (format!("ALTER ROLE {role} CREATEDB"), format!("ALTER ROLE {role} NOCREATEDB")),
        (format!("GRANT pg_read_all_data TO {role}"), format!("REVOKE pg_read_all_data FROM {role}")),
    ] {
        if !sql.starts_with("CREATE") {
            made(&restarted(&rig), PASSWORD).await.expect("it is made");
        }
        let root = rig.root().await;
        root.batch_execute(&sql).await.expect("a superuser may");
        let before = attributes(&rig).await;
        assert_eq!(made(&restarted(&rig), PASSWORD).await, None, "{sql}");
        assert_eq!(attributes(&rig).await, before, "{sql}");
        root.batch_execute(&undo).await.expect("a superuser may");
    }
}
