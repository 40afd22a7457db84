//! Responses that are kept for repeated requests.

use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::StoreError;
use docket_store::idempotency::{self, KeptAnswer, ToKeep};

on_both_databases!(
    an_answer_is_kept_per_caller_and_key,
    the_second_of_two_equal_keys_conflicts,
    of_two_requests_at_once_one_conflicts,
    answers_are_forgotten_by_age,
);

fn kept(body: &str) -> KeptAnswer {
    KeptAnswer { route: "/Orders/Save".into(), request_digest: "00ff".into(), status: 200, body: body.into() }
}

fn to_keep(caller: &str, key: &str, body: &str) -> ToKeep {
    ToKeep { caller: caller.into(), key: key.into(), kept: kept(body) }
}

async fn keep(
    rig: &TenantDatabase,
    caller: &str,
    key: &str,
    body: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    rig.try_write(async |t| idempotency::keep(t, &to_keep(caller, key, body), now_ms).await).await
}

async fn find(rig: &TenantDatabase, caller: &str, key: &str) -> Option<KeptAnswer> {
    idempotency::find(&mut rig.reader().await, caller, key).await.expect("a statement")
}

async fn an_answer_is_kept_per_caller_and_key(rig: TenantDatabase) {
    keep(&rig, "contact C1", "k", "{\"caption\":\"🦊\"}", T0).await.expect("a new key");
    keep(&rig, "contact C2", "k", "two", T0).await.expect("another caller's key");
    keep(&rig, "contact C1", "K", "three", T0).await.expect("keys differ in case");
    assert!(find(&rig, "contact C1", "k").await == Some(kept("{\"caption\":\"🦊\"}")));
    assert!(find(&rig, "contact C2", "k").await == Some(kept("two")));
    assert!(find(&rig, "contact C1", "K").await == Some(kept("three")));
    assert!(find(&rig, "contact C2", "K").await.is_none());
}

async fn the_second_of_two_equal_keys_conflicts(rig: TenantDatabase) {
    keep(&rig, "contact C1", "k", "first", T0).await.expect("a new key");
    let second = keep(&rig, "contact C1", "k", "second", T0 + 1).await;
    assert!(matches!(second, Err(StoreError::Conflict)), "{second:?}");
    assert!(find(&rig, "contact C1", "k").await == Some(kept("first")));
}

/// The later request waits for the end of the first request, and then conflicts.
async fn of_two_requests_at_once_one_conflicts(rig: TenantDatabase) {
    let request = async |at_ms| {
        let database = rig.opened_again();
        let mut transaction = database.begin(&Clock::System).await?;
        idempotency::keep(&mut transaction, &to_keep("contact C1", "k", "answer"), at_ms).await?;
        transaction.commit().await
    };
    let both = async { tokio::join!(request(T0), request(T0 + 1)) };
    let both = rig.meeting(2, "idempotency", both).await;
    assert!(
        matches!(both, (Ok(()), Err(StoreError::Conflict)) | (Err(StoreError::Conflict), Ok(()))),
        "{both:?}"
    );
}

async fn answers_are_forgotten_by_age(rig: TenantDatabase) {
    for (key, at) in [("old", T0 - 1), ("edge", T0), ("new", T0 + 1)] {
        keep(&rig, "contact C1", key, "answer", at).await.expect("a new key");
    }
    assert_eq!(rig.write(async |t| idempotency::forget(t, T0).await).await, 1);
    assert!(find(&rig, "contact C1", "old").await.is_none());
    assert!(find(&rig, "contact C1", "edge").await.is_some());
    keep(&rig, "contact C1", "old", "again", T0).await.expect("a forgotten key is free");
}
