//! The clock that the retention goes by.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use docket::tenants::{HeldWebhooks, ServedTenant, Tenants};
use docket::worker::retention::Retention;
use docket_domain::delivery::Status;
use docket_egress::Trust;
use docket_program::clock::{Clock, ManualClock};
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase, delivery_id, tenant_config};
use docket_store::stores::Store;
use jiff::Timestamp;

async fn finish(rig: &TenantDatabase, number: u16, finished_at_ms: i64) {
    let id = delivery_id(number);
    rig.set_status(id, Status::Succeeded).await;
    let sql = format!("UPDATE delivery_history SET finished_at_ms = {finished_at_ms} WHERE id = '{id}'");
    rig.write(async |t| t.execute(&sql, Vec::new()).await).await;
}

/// The process's clock is far ahead, as of a machine that lost its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_goes_by_the_clock_of_the_database() {
    let rig = TenantDatabase::postgres().await;
    rig.queued(2, T0).await;
    let now_ms = rig.write(async |t| Ok(t.now_ms())).await;
    let day = Duration::from_secs(24 * 3600);
    finish(&rig, 0, now_ms - 1_000).await;
    finish(&rig, 1, now_ms - 2 * 24 * 3_600_000).await;
    let far_ahead = ManualClock::new(Timestamp::from_millisecond(now_ms).expect("in range") + 1_000 * day);
    let config = serde_json::from_value(tenant_config("uid", "ACME", CUSTOMER, 0)).expect("a configuration");
    let store = Arc::new(Store::new(rig.opened_again()));
    let held = HeldWebhooks::These(BTreeSet::new());
    let tenants = Arc::new(Tenants::default());
    tenants.replace(vec![Arc::new(ServedTenant::new(config, store, held, &Trust::none(), None))]);
    Retention::new(Clock::Manual(far_ahead), tenants, day).round().await;
    assert_eq!(rig.number("SELECT count(*) FROM delivery").await, 1, "only what is older than a day");
    assert_eq!(rig.delivery(delivery_id(0)).await.status, Status::Succeeded);
}
