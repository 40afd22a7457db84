//! A database dropped with all that belongs to it.

use docket_operator::database::{DatabaseError, Dropped};
use docket_rig::postgres;

use super::{OTHER, OWNER, Rig, in_database, refusal};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_goes_with_its_sessions_and_its_role() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let busy = postgres::client(made.url.expose()).await;
    busy.batch_execute("BEGIN; LOCK TABLE counter").await.unwrap();
    rig.servers.drop_database(None, &rig.name, OWNER).await.unwrap();
    assert!(rig.state().await.is_empty());
    assert!(busy.batch_execute("COMMIT").await.is_err());
    assert_eq!(refusal(made.url.expose()).await.as_deref(), Some("28P01"));
    rig.servers.drop_database(None, &rig.name, OWNER).await.expect("it is gone already");
    rig.ensure().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_database_stays() {
    let rig = Rig::new().await;
    rig.ensure().await;
    let before = rig.state().await;
    let error = rig.servers.drop_database(None, &rig.name, OTHER).await.unwrap_err();
    assert!(matches!(error, DatabaseError::NotOwned { .. }), "{error}");
    assert_eq!(rig.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_changes_the_comment_of_its_database_does_not_keep_it() {
    let rig = Rig::new().await;
    for comment in ["'ours'", "NULL", "'docket.dev/tenant-uid=0d7c1c0e-0000-4000-8000-000000000002'"] {
        let made = rig.ensure().await;
        // The tenant's own role owns the database, so it may change the comment.
        let tenant = postgres::client(made.url.expose()).await;
        let statement = format!("COMMENT ON DATABASE {} IS {comment}", super::quoted(&rig.name));
        tenant.batch_execute(&statement).await.expect("an owner may");
        assert_eq!(rig.servers.drop_database(None, &rig.name, OWNER).await, Ok(Dropped::Wholly), "{comment}");
        assert!(rig.state().await.is_empty(), "{comment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_given_to_another_role_stays_and_the_tenants_cannot_log_in() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    rig.by_hand("ALTER DATABASE {db} OWNER TO CURRENT_USER").await;
    let dropped = rig.servers.drop_database(None, &rig.name, OWNER).await.unwrap();
    assert!(
        matches!(&dropped, Dropped::NotTheDatabase { why, is_locked_out: true } if why.contains("another role owns it")),
        "{dropped:?}"
    );
    assert_eq!(rig.state().await.len(), 2, "both are there");
    assert_eq!(refusal(made.url.expose()).await.as_deref(), Some("28000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_owns_other_objects_stays_but_cannot_log_in() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    rig.by_hand("CREATE DATABASE {role} OWNER {role}").await;
    let dropped = rig.servers.drop_database(None, &rig.name, OWNER).await.unwrap();
    assert!(
        matches!(&dropped, Dropped::ButTheRole { why, is_locked_out: true } if why.contains("depend on it")),
        "{dropped:?}"
    );
    assert!(rig.state().await[0].starts_with("role f|"), "{:?}", rig.state().await);
    let elsewhere = in_database(&url::Url::parse(made.url.expose()).unwrap(), &made.role);
    assert_eq!(refusal(elsewhere.as_str()).await.as_deref(), Some("28000"));
    rig.by_hand("DROP DATABASE {role}").await;
    assert_eq!(rig.servers.drop_database(None, &rig.name, OWNER).await, Ok(Dropped::Wholly));
    assert!(rig.state().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_workers_are_no_obstacle() {
    let rig = Rig::new().await;
    // Autovacuum is in each database all the time, as far as it can be.
    rig.by_hand("ALTER SYSTEM SET autovacuum_naptime = '1s'; SELECT pg_reload_conf()").await;
    for _ in 0..20 {
        rig.ensure().await;
        rig.servers.drop_database(None, &rig.name, OWNER).await.unwrap();
    }
}
