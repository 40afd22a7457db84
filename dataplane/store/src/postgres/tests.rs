//! Statements that are sent together.

use docket_rig::postgres as rig;

use super::*;
use crate::connection::{Connection, Transaction};
use crate::database::Database;
use crate::sql::{Param, Rows, Statement, params};

const STATEMENTS: i64 = 200;

static SEVERAL: Rows = Rows::new("INSERT INTO t (n) {bigint}");

fn insert(n: i64) -> Statement {
    Statement::new("INSERT INTO t (n) VALUES ($1) RETURNING n, place", params![n])
}

/// A database with a table that numbers its rows in order of arrival. `more` is a part of its column's definition.
async fn database(more: &str) -> (Postgres, String) {
    let url = rig::database().await;
    let sql = format!("CREATE TABLE t (n BIGINT UNIQUE {more}, place BIGSERIAL)");
    rig::client(&url).await.batch_execute(&sql).await.expect("a table");
    (Postgres::new(&url, 1).expect("a URL"), url)
}

async fn begin(postgres: &Postgres) -> Transaction {
    let (connection, now) = postgres.begin().await.expect("a connection");
    Transaction::new(Connection::Postgres(connection), now)
}

async fn stored(url: &str) -> Vec<i64> {
    let rows =
        rig::client(url).await.query("SELECT n FROM t ORDER BY place", &[]).await.expect("a statement");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The statements in descending order of their values, so that no order by value can be mistaken for the order of the
/// statements.
fn statements() -> Vec<Statement> {
    (0..STATEMENTS).rev().map(insert).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_statements_run_in_their_order_and_each_returns_its_rows() {
    let (postgres, url) = database("").await;
    let rows = begin(&postgres).await.commit_after(statements()).await.expect("all fit");
    let returned: Vec<(i64, i64)> = rows
        .iter()
        .map(|rows| (rows[0].get(0).expect("a number"), rows[0].get(1).expect("a place")))
        .collect();
    let expected: Vec<(i64, i64)> = (0..STATEMENTS).rev().zip(1..).collect();
    assert_eq!(returned, expected);
    assert_eq!(stored(&url).await, (0..STATEMENTS).rev().collect::<Vec<_>>());

    let several = SEVERAL.statement((1_000..1_300).map(|n: i64| [Param::from(n)])).expect("rows");
    let mut transaction = begin(&postgres).await;
    let rows = transaction.all([insert(900), several, insert(901)]).await.expect("all fit");
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1]);
    transaction.commit().await.expect("a commit");
    assert_eq!(stored(&url).await.len() as i64, STATEMENTS + 302);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_with_one_failing_statement_among_many_is_not_committed() {
    let (postgres, url) = database("").await;
    for place in [0, 1, 100, 199, 200] {
        let mut failing = statements();
        // The first value of the list is inserted a second time.
        failing.insert(place.max(1), insert(STATEMENTS - 1));
        let committed = begin(&postgres).await.commit_after(failing).await;
        assert!(matches!(committed, Err(StoreError::Conflict)), "{place}: {:?}", committed.err());
        assert!(stored(&url).await.is_empty(), "{place}");
    }
    let mut transaction = begin(&postgres).await;
    let failed = transaction.all([insert(1), insert(1), insert(2)]).await;
    assert!(matches!(failed, Err(StoreError::Conflict)), "{:?}", failed.err());
    assert!(transaction.commit().await.is_err(), "its commit was acknowledged");
    let mut connection = postgres.connection().await.expect("a connection");
    assert!(connection.begin_around(Vec::new(), vec![insert(1), insert(1)]).await.is_err());
    drop(connection);
    assert!(stored(&url).await.is_empty());
    // The next request can use the only connection.
    begin(&postgres).await.commit_after(statements()).await.expect("all fit");
    assert_eq!(stored(&url).await.len() as i64, STATEMENTS);
}

/// The statements succeed, but the COMMIT itself fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_that_fails_is_not_acknowledged() {
    let (postgres, url) = database("DEFERRABLE INITIALLY DEFERRED").await;
    let mut twice = statements();
    twice.push(insert(7));
    let committed = begin(&postgres).await.commit_after(twice).await;
    assert!(matches!(committed, Err(StoreError::Conflict)), "{:?}", committed.err());
    assert!(stored(&url).await.is_empty());
    let database = Database::Postgres(postgres);
    let writer = database.writer().await.expect("a connection");
    let begun = writer.begin_with(&docket_program::clock::Clock::System, [insert(1)]).await;
    let (transaction, rows) = begun.expect("begun");
    assert_eq!(rows[0].len(), 1);
    transaction.commit().await.expect("a commit");
    assert_eq!(stored(&url).await, [1]);
}
