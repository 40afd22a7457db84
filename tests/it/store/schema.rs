//! Bringing a database to this version's schema.

use docket::store::StoreError;
use docket::store::sql::Param;

use super::{CUSTOMER, Place, Rig, T0, on_both_databases};
use docket_tests::{postgres, scratch};

on_both_databases!(a_second_migration_changes_nothing, a_newer_schema_is_refused);

async fn a_second_migration_changes_nothing(rig: Rig) {
    rig.database.migrate(T0 + 1).await.expect("the schema is there already");
    rig.opened_again().migrate(T0 + 2).await.expect("the schema is there already");
    assert_eq!(
        rig.number("SELECT count(*) FROM schema_version").await,
        docket_schema::MIGRATIONS.len() as i64
    );
    assert_eq!(rig.number("SELECT max(applied_at_ms) FROM schema_version").await, T0);
    assert_eq!(rig.number(&format!("SELECT count(*) FROM customer WHERE code = '{CUSTOMER}'")).await, 1);
}

async fn a_newer_schema_is_refused(rig: Rig) {
    let newer = docket_schema::MIGRATIONS.len() as i64 + 1;
    let params = vec![Param::from(newer), Param::from("from the future"), Param::from(T0)];
    rig.write(async |t| t.execute(docket_schema::RECORD_VERSION, params).await).await;
    let error = rig.opened_again().migrate(T0).await.expect_err("we can't know that schema");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("run a newer Docket"), "{error}");
    assert_eq!(rig.number("SELECT count(*) FROM schema_version").await, newer);
}

/// As eight processes that are started together would.
async fn eight_migrations_at_once(place: Place) {
    let databases: Vec<_> = (0..8).map(|_| place.open(1)).collect();
    let migrations: Vec<_> = databases
        .into_iter()
        .map(|database| tokio::spawn(async move { database.migrate(T0).await }))
        .collect();
    for migration in migrations {
        migration.await.expect("no panic").expect("whoever is first, all find the schema");
    }
    let mut reader = place.open(1).reader().await.expect("a connection");
    let row = reader.query_opt("SELECT count(*) FROM counter WHERE name = 'web_order'", Vec::new()).await;
    assert_eq!(row.expect("a statement").expect("a row").get::<i64>(0).expect("a number"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_migrations_at_once_of_a_new_file() {
    // The switch to a write-ahead log is the delicate part, and comes once per file.
    for _ in 0..5 {
        eight_migrations_at_once(Place::File(scratch::Folder::new("store"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_migrations_at_once_of_a_new_postgresql_database() {
    for _ in 0..5 {
        eight_migrations_at_once(Place::Url(postgres::database().await)).await;
    }
}
