//! The times at which API keys were last used.

use std::collections::HashMap;

use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::key_uses::{all, store};

on_both_databases!(the_latest_use_of_each_key_stays, uses_of_more_than_a_year_ago_are_deleted);

const YEAR_MS: i64 = 366 * 24 * 3600 * 1000;

fn uses<const N: usize>(uses: [(&str, i64); N]) -> HashMap<String, i64> {
    uses.into_iter().map(|(key, at_ms)| (key.to_owned(), at_ms)).collect()
}

async fn put<const N: usize>(
    rig: &TenantDatabase,
    given: [(&str, i64); N],
    now_ms: i64,
) -> HashMap<String, i64> {
    let given = uses(given);
    rig.write(async |t| store(t, &given, now_ms).await).await;
    all(&mut rig.reader().await).await.expect("a statement")
}

async fn the_latest_use_of_each_key_stays(rig: TenantDatabase) {
    assert_eq!(put(&rig, [("a", T0), ("b", T0 + 5)], T0).await, uses([("a", T0), ("b", T0 + 5)]));
    // Another process stores earlier uses.
    let stored = put(&rig, [("a", T0 + 9), ("b", T0)], T0).await;
    assert_eq!(stored, uses([("a", T0 + 9), ("b", T0 + 5)]));
}

async fn uses_of_more_than_a_year_ago_are_deleted(rig: TenantDatabase) {
    put(&rig, [("a", T0), ("b", T0 + 1)], T0).await;
    assert_eq!(put(&rig, [], T0 + YEAR_MS + 1).await, uses([("b", T0 + 1)]));
}
