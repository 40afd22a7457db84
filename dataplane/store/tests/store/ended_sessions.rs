//! The sessions that their users have ended.

use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::ended_sessions::{end, has_ended};

on_both_databases!(a_session_is_ended_once_and_alone, a_session_that_would_have_ended_is_forgotten);

async fn ended(rig: &TenantDatabase, digest: &str) -> bool {
    has_ended(&mut rig.reader().await, digest).await.expect("a statement")
}

async fn a_session_is_ended_once_and_alone(rig: TenantDatabase) {
    assert!(!ended(&rig, "a").await);
    let end_it = async || rig.write(async |t| end(t, "a", T0 + 9, T0).await).await;
    rig.meeting(2, "ended_session", async { tokio::join!(end_it(), end_it()) }).await;
    assert!(ended(&rig, "a").await && !ended(&rig, "b").await);
    assert_eq!(rig.number("SELECT count(*) FROM ended_session").await, 1);
}

async fn a_session_that_would_have_ended_is_forgotten(rig: TenantDatabase) {
    rig.write(async |t| end(t, "a", T0 + 9, T0).await).await;
    rig.write(async |t| end(t, "b", T0 + 10, T0 + 8).await).await;
    assert!(ended(&rig, "a").await);
    rig.write(async |t| end(t, "c", T0 + 20, T0 + 9).await).await;
    assert!(!ended(&rig, "a").await && ended(&rig, "b").await && ended(&rig, "c").await);
}
