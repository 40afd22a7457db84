//! A server with a PgBouncer in transaction mode in front of it: the administrator goes to the server itself, tenants go
//! through the pooler.

use std::sync::Arc;

use docket_crds::DatabaseUrl;
use docket_operator::database::{DatabaseError, Servers, WantedExternalDatabase};
use docket_program::clock::Clock;
use docket_rig::pgbouncer::PgBouncer;
use docket_rig::postgres;
use docket_schema::postgres::ExternalDatabases;
use docket_store::Database;
use docket_store::postgres::Postgres;
use secrecy::SecretString;
use url::Url;

use super::{NEWEST, OWNER, Rig, migrated_twice, now};

/// The rig's server with a Secret of keys, and with a pooler.
async fn pooled() -> (Rig, PgBouncer) {
    let rig = Rig::new().await;
    let url = rig.root.to_string();
    let pooler = tokio::task::spawn_blocking(move || PgBouncer::start(&url, 2)).await;
    let pooler = pooler.expect("PgBouncer starts, see above");
    let folder = rig.folder.path().join("keys");
    std::fs::create_dir(&folder).expect("the folder is new");
    let port = rig.root.port().expect("a port").to_string();
    let dbname = rig.root.path().trim_start_matches('/');
    let admin = rig.admin();
    for (key, value) in [
        ("host", "127.0.0.1"),
        ("port", port.as_str()),
        ("username", admin.as_str()),
        ("password", "secret-of-admin"),
        ("dbname", dbname),
    ] {
        std::fs::write(folder.join(key), value).expect("the folder is new");
    }
    let flag = format!("main={};sslmode=disable;pooler=127.0.0.1:{}", folder.display(), pooler.port());
    let servers = Servers::read(&[flag]).expect("a good flag");
    (Rig { servers, ..rig }, pooler)
}

async fn works(url: &DatabaseUrl) {
    let database = Database::Postgres(Postgres::new(url.expose(), 2).expect("a URL"));
    let transaction = database.begin(&Clock::System).await.expect("a transaction");
    transaction.commit().await.expect("a commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_go_through_the_pooler_and_migrations_past_it() {
    let (rig, pooler) = pooled().await;
    let made = rig.ensure().await;
    let url = Url::parse(made.url.expose()).expect("a URL");
    assert_eq!(url.port(), Some(pooler.port()));
    let server = format!("127.0.0.1:{}", rig.root.port().expect("a port"));
    assert_eq!(made.url.server(), server);
    assert!(url.query().is_some_and(|query| query.contains("pooler=transaction")), "{url}");
    works(&made.url).await;
    // The second pass finds nothing to do, and a new password works at once.
    assert_eq!(rig.ensure().await, made);
    let rotated = Rig { password: SecretString::from("another / pass#word"), ..rig };
    works(&rotated.ensure().await.url).await;

    let password = SecretString::from("secret-of-watcher");
    let watcher = rotated.servers.watcher(None, &rotated.name, async |_| Ok::<_, String>(password)).await;
    let watcher = watcher.expect("it is made");
    assert!(watcher.is_same_server(&made.url), "it watches the server behind the pooler");
    assert_eq!(Url::parse(watcher.expose()).expect("a URL").port(), rotated.root.port());
}

#[tokio::test(flavor = "multi_thread")]
async fn pooler_that_is_away_says_nothing_about_a_database() {
    let (rig, pooler) = pooled().await;
    rig.ensure().await;
    let port = pooler.port();
    drop(pooler);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {}
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err();
    let is_about_pooler = |reason: &String| reason.starts_with("the pooler: ");
    assert!(matches!(&error, DatabaseError::ServerAway { reason } if is_about_pooler(reason)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn external_database_is_migrated_through_a_pooler() {
    let direct = postgres::database().await;
    let url = direct.clone();
    let pooler = tokio::task::spawn_blocking(move || PgBouncer::start(&url, 2)).await;
    let pooler = pooler.expect("PgBouncer starts, see above");
    let url = DatabaseUrl::parse(&pooler.url(&direct)).expect("a URL");
    let local = "127.0.0.0/8".parse().expect("a network");
    let allowed = Arc::new(ExternalDatabases::new(vec![local], None));
    let wanted = WantedExternalDatabase {
        url: url.clone(),
        allowed: &allowed,
        owner_uid: OWNER,
        adopt: false,
        migration: now(),
    };
    assert_eq!(migrated_twice(&direct, &wanted).await, [Ok(NEWEST), Ok(NEWEST)]);
    works(&url).await;
}
