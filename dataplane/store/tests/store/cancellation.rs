//! Requests may be cancelled at any point: acknowledged writes are stored, other writes are stored whole or not at
//! all, and no connection stays inside a transaction.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use docket_program::clock::Clock;
use docket_rig::tenant_database::{Place, T0, TenantDatabase};
use docket_rig::{on_both_databases, postgres};
use docket_store::contacts::{self, Contact};
use docket_store::{Database, StoreError};

on_both_databases!(cancelled_by_time, cancelled_at_each_step, cancelled_at_each_step_while_under_way);

const CANCELS: u32 = 200;

/// Stores two rows in one transaction.
async fn save(database: &Database, number: u32) -> Result<(), StoreError> {
    let code = format!("C{number}");
    let mut transaction = database.begin(&Clock::System).await?;
    contacts::insert_customer(&mut transaction, &code, "New", T0).await?;
    let contact = Contact {
        code: code.clone(),
        customer_code: code.clone(),
        name: code.clone(),
        password_hash: None,
        active: true,
        sign_outs: 0,
        manages_webhooks: false,
    };
    contacts::insert_contact(&mut transaction, &contact, &code, T0).await?;
    transaction.commit().await
}

/// Polls `future` this many times, then drops it: with `under_way` at once, while its last step is running; otherwise
/// when that step is done and only its result has not been taken.
pub(super) async fn polled<F: Future>(future: F, times: u32, under_way: bool) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if under_way && polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn cancelled_by_time(rig: TenantDatabase) {
    let database = rig.opened_with(2);
    let mut acknowledged = Vec::new();
    for number in 0..CANCELS {
        let limit = Duration::from_micros(u64::from(number % 30) * 100);
        if let Ok(saved) = tokio::time::timeout(limit, save(&database, number)).await {
            saved.expect("a save that is not cancelled succeeds");
            acknowledged.push(number);
        }
    }
    a_panic_poisons_nothing(&rig, &database, acknowledged).await;
}

async fn cancelled_at_each_step(rig: TenantDatabase) {
    cancelled_after_polls(rig, false).await;
}

async fn cancelled_at_each_step_while_under_way(rig: TenantDatabase) {
    cancelled_after_polls(rig, true).await;
}

async fn cancelled_after_polls(rig: TenantDatabase, under_way: bool) {
    let database = rig.opened_with(2);
    let mut acknowledged = Vec::new();
    for number in 0..CANCELS {
        if let Some(saved) = polled(save(&database, number), number % 20, under_way).await {
            saved.expect("a save that is not cancelled succeeds");
            acknowledged.push(number);
        }
    }
    a_panic_poisons_nothing(&rig, &database, acknowledged).await;
}

async fn a_panic_poisons_nothing(rig: &TenantDatabase, database: &Database, mut acknowledged: Vec<u32>) {
    assert!((acknowledged.len() as u32) < CANCELS, "nothing was cancelled");
    for number in CANCELS..CANCELS + 20 {
        save(database, number).await.expect("the connections are sound");
        acknowledged.push(number);
    }
    let whole = "SELECT count(*) FROM customer c JOIN contact p ON p.code = c.code AND c.code = ";
    for number in &acknowledged {
        assert_eq!(rig.number(&format!("{whole}'C{number}'")).await, 1, "save {number} was acknowledged");
    }
    let halves = "SELECT count(*) FROM customer c WHERE c.code <> 'SMITH' \
                  AND NOT EXISTS (SELECT 1 FROM contact p WHERE p.code = c.code)";
    assert_eq!(rig.number(halves).await, 0);
    if let Place::Url(url) = &rig.place {
        no_session_is_left_in_a_transaction(url).await;
    }
}

/// Waits for at most a second: the server notices a closed connection only when it next checks.
async fn no_session_is_left_in_a_transaction(url: &str) {
    let client = postgres::client(url).await;
    let sql = "SELECT count(*) FILTER (WHERE state LIKE 'idle in transaction%'), count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let begun = Instant::now();
    loop {
        let row = client.query_one(sql, &[]).await.expect("a statement");
        let (in_transaction, sessions): (i64, i64) = (row.get(0), row.get(1));
        // Two sessions belong to the pool under test, and one to the rig.
        if in_transaction == 0 && sessions <= 3 {
            return;
        }
        let left = format!("{in_transaction} of {sessions} sessions in a transaction");
        assert!(begun.elapsed() < Duration::from_secs(1), "{left}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
