//! The marks of secrets that were shown.

use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::shown_secrets::mark;

on_both_databases!(a_secret_is_shown_once, of_two_at_once_one_shows_it, old_marks_are_deleted);

const DAY_MS: i64 = 24 * 3600 * 1000;

async fn is_first(rig: &TenantDatabase, digest: &'static str, at_ms: i64) -> bool {
    rig.write(async |t| mark(t, digest, at_ms).await).await
}

async fn a_secret_is_shown_once(rig: TenantDatabase) {
    assert!(is_first(&rig, "a", T0).await);
    assert!(!is_first(&rig, "a", T0 + 1).await);
    assert!(is_first(&rig, "b", T0).await, "another one");
}

async fn of_two_at_once_one_shows_it(rig: TenantDatabase) {
    let both = async { tokio::join!(is_first(&rig, "a", T0), is_first(&rig, "a", T0)) };
    let (one, two) = rig.meeting(2, "shown_secret", both).await;
    assert!(one != two);
}

async fn old_marks_are_deleted(rig: TenantDatabase) {
    is_first(&rig, "a", T0).await;
    is_first(&rig, "b", T0 + DAY_MS).await;
    assert_eq!(rig.number("SELECT count(*) FROM shown_secret").await, 2);
    is_first(&rig, "c", T0 + DAY_MS + 1).await;
    assert_eq!(rig.number("SELECT count(*) FROM shown_secret").await, 2);
}
