//! Retention decides by the database's clock, not by its process's.

use std::sync::Arc;
use std::time::Duration;

use docket::delivery::upkeep::retention::{KEEP_AUDIT, Retention};
use docket::tenancy::Tenants;
use docket_domain::delivery::Status;
use docket_program::clock::{Clock, ManualClock};
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase, delivery_id, tenant_config};
use jiff::Timestamp;

use super::tenant_of;

async fn finish(rig: &TenantDatabase, number: u16, finished_at_ms: i64) {
    let id = delivery_id(number);
    rig.set_status(id, Status::Succeeded).await;
    let sql = format!("UPDATE delivery_history SET finished_at_ms = {finished_at_ms} WHERE id = '{id}'");
    rig.write(async |t| t.execute(&sql, Vec::new()).await).await;
}

/// The retention of a tenant with this database.
fn retention(rig: &TenantDatabase, clock: Clock, keep: Duration) -> Retention {
    let tenant = tenant_of(tenant_config("uid", "ACME", CUSTOMER, 0), rig.opened_again());
    let tenants = Arc::new(Tenants::default());
    tenants.replace(vec![Arc::new(tenant)]);
    Retention::new(clock, tenants, (keep, KEEP_AUDIT), None, Arc::default())
}

/// The state after an upgrade of a database with rows. No request waits for the indexes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_builds_the_indexes_that_a_migration_left() {
    let rig = TenantDatabase::postgres().await;
    rig.run("DROP INDEX event_by_code; DROP INDEX web_order_by_status").await;
    let there = "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid \
                 WHERE indisvalid AND relname IN ('event_by_code', 'web_order_by_status')";
    let retention = retention(&rig, Clock::System, Duration::from_secs(24 * 3600));
    assert_eq!(rig.number(there).await, 0);
    retention.round().await;
    assert_eq!(rig.number(there).await, 2);
}

/// The process's clock is far ahead, as on a machine that has lost its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_goes_by_the_clock_of_the_database() {
    let rig = TenantDatabase::postgres().await;
    rig.queued(2, T0).await;
    let now_ms = rig.write(async |t| Ok(t.now_ms())).await;
    let day = Duration::from_secs(24 * 3600);
    finish(&rig, 0, now_ms - 1_000).await;
    finish(&rig, 1, now_ms - 2 * 24 * 3_600_000).await;
    let far_ahead = ManualClock::new(Timestamp::from_millisecond(now_ms).expect("in range") + 1_000 * day);
    retention(&rig, Clock::Manual(far_ahead), day).round().await;
    assert_eq!(rig.number("SELECT count(*) FROM delivery").await, 1, "only what is older than a day");
    assert_eq!(rig.delivery(delivery_id(0)).await.status, Status::Succeeded);
}
