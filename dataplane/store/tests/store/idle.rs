//! Unused connections are closed, so that a thousand idle tenants hold none.

use std::time::Duration;

use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::TenantDatabase;

on_both_databases!(idle_connections_are_closed_and_those_in_use_are_kept, closed_ones_are_opened_again);

async fn idle_connections_are_closed_and_those_in_use_are_kept(rig: TenantDatabase) {
    let database = rig.opened_with(4);
    assert!(!database.is_open(), "nothing is opened before its first use");
    let transaction = database.begin(&Clock::System).await.expect("begins");
    drop(database.reader().await.expect("a connection"));
    database.close_idle(Duration::from_secs(3600)).await;
    assert!(database.is_open());
    database.close_idle(Duration::ZERO).await;
    assert!(database.is_open(), "one is in use");
    transaction.rollback().await.expect("it was left alone");
    assert!(database.is_open(), "it went back");
    database.close_idle(Duration::ZERO).await;
    assert!(!database.is_open());
}

async fn closed_ones_are_opened_again(rig: TenantDatabase) {
    let database = rig.opened_with(1);
    for _ in 0..3 {
        drop(database.reader().await.expect("a connection"));
        database.begin(&Clock::System).await.expect("begins").rollback().await.expect("ends");
        database.close_idle(Duration::ZERO).await;
        assert!(!database.is_open());
    }
}
