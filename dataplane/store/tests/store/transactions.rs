//! What a transaction guarantees, whatever its statements are.

use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase};
use docket_store::{StoreError, contacts};

use super::cancellation::polled;

on_both_databases!(
    a_commit_is_there_for_others_and_after_a_restart,
    a_dropped_transaction_leaves_nothing,
    a_rolled_back_transaction_leaves_nothing,
    an_open_transaction_is_invisible_to_readers,
    a_transaction_that_failed_does_not_commit_in_part,
    a_transaction_with_a_statement_given_up_does_not_commit,
    the_single_connection_survives_fifty_dropped_transactions,
    a_statement_that_does_not_fit_is_an_internal_error,
);

async fn customers(rig: &TenantDatabase) -> i64 {
    rig.number("SELECT count(*) FROM customer").await
}

async fn a_commit_is_there_for_others_and_after_a_restart(rig: TenantDatabase) {
    rig.write(async |t| contacts::insert_customer(t, "NEW", "New", T0).await).await;
    assert!(contacts::customer_exists(&mut rig.reader().await, "NEW").await.expect("a statement"));
    let mut reader = rig.opened_again().reader().await.expect("a connection");
    assert!(contacts::customer_exists(&mut reader, "NEW").await.expect("a statement"));
}

async fn a_dropped_transaction_leaves_nothing(rig: TenantDatabase) {
    let mut transaction = rig.database.begin(&Clock::System).await.expect("a turn");
    contacts::insert_customer(&mut transaction, "NEW", "New", T0).await.expect("a statement");
    assert!(contacts::customer_exists(&mut transaction, "NEW").await.expect("it sees its own writes"));
    drop(transaction);
    assert_eq!(customers(&rig).await, 1);
    rig.write(async |t| contacts::insert_customer(t, "NEW", "New", T0).await).await;
    assert_eq!(customers(&rig).await, 2);
}

async fn a_rolled_back_transaction_leaves_nothing(rig: TenantDatabase) {
    for _ in 0..3 {
        let mut transaction = rig.database.begin(&Clock::System).await.expect("a turn");
        contacts::insert_customer(&mut transaction, "NEW", "New", T0).await.expect("a statement");
        transaction.rollback().await.expect("a rollback");
        assert_eq!(customers(&rig).await, 1);
    }
}

async fn an_open_transaction_is_invisible_to_readers(rig: TenantDatabase) {
    let mut transaction = rig.database.begin(&Clock::System).await.expect("a turn");
    contacts::insert_customer(&mut transaction, "NEW", "New", T0).await.expect("a statement");
    assert!(!contacts::customer_exists(&mut rig.reader().await, "NEW").await.expect("readers do not wait"));
    transaction.commit().await.expect("a commit");
    assert!(contacts::customer_exists(&mut rig.reader().await, "NEW").await.expect("a statement"));
}

/// If the caller continues after an error, the commit fails too: either everything is stored, or nothing, without an
/// acknowledgement.
async fn a_transaction_that_failed_does_not_commit_in_part(rig: TenantDatabase) {
    let mut transaction = rig.database.begin(&Clock::System).await.expect("a turn");
    contacts::insert_customer(&mut transaction, "NEW", "New", T0).await.expect("a statement");
    let taken = contacts::insert_customer(&mut transaction, CUSTOMER, "Other", T0).await;
    assert!(matches!(taken, Err(StoreError::Conflict)), "{taken:?}");
    let committed = transaction.commit().await;
    assert!(committed.is_err(), "a commit after a failed statement was acknowledged");
    assert_eq!(customers(&rig).await, 1);
    rig.write(async |t| contacts::insert_customer(t, "NEW", "New", T0).await).await;
}

/// A transaction does not commit after an abandoned statement, whose result is unknown.
async fn a_transaction_with_a_statement_given_up_does_not_commit(rig: TenantDatabase) {
    let mut given_up = 0;
    while given_up < 10 {
        let mut transaction = rig.database.begin(&Clock::System).await.expect("a turn");
        contacts::insert_customer(&mut transaction, "NEW", "New", T0).await.expect("a statement");
        let taken = contacts::insert_customer(&mut transaction, CUSTOMER, "Other", T0);
        if polled(taken, 1, true).await.is_none() {
            given_up += 1;
            assert!(transaction.commit().await.is_err(), "its commit was acknowledged");
        }
    }
    assert_eq!(customers(&rig).await, 1);
}

async fn the_single_connection_survives_fifty_dropped_transactions(rig: TenantDatabase) {
    let database = rig.opened_with(1);
    for number in 0..50 {
        let mut transaction = database.begin(&Clock::System).await.expect("the connection is free again");
        let code = format!("NEW{number}");
        contacts::insert_customer(&mut transaction, &code, "New", T0).await.expect("a statement");
    }
    assert_eq!(customers(&rig).await, 1);
}

async fn a_statement_that_does_not_fit_is_an_internal_error(rig: TenantDatabase) {
    let result = rig.reader().await.query("SELECT nothing FROM nowhere", Vec::new()).await;
    assert!(matches!(result, Err(StoreError::Refused(_))));
    let mut reader = rig.reader().await;
    assert!(contacts::customer_exists(&mut reader, CUSTOMER).await.expect("the connection is sound"));
}

/// On SQLite, a transaction takes the write lock at its beginning. Otherwise it could not write after another one has
/// written what it read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_read_before_they_write_take_turns_on_a_file() {
    let rig = TenantDatabase::sqlite().await;
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let database = rig.opened_again();
            tokio::spawn(async move {
                let code = format!("NEW{number}");
                let mut transaction = database.begin(&Clock::System).await?;
                assert!(!contacts::customer_exists(&mut transaction, &code).await?);
                tokio::task::yield_now().await;
                contacts::insert_customer(&mut transaction, &code, "New", T0).await?;
                transaction.commit().await
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic").expect("each has its turn");
    }
    assert_eq!(customers(&rig).await, 5);
}
