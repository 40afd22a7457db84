//! Counters, which give the numbers of orders and work orders.

use docket_program::clock::Clock;

use crate::connection::Transaction;
use crate::database::Writer;
use crate::error::StoreError;
use crate::sql::{Row, Statement, params};

/// The next number of a counter. The counter's row stays locked until the transaction ends, so no number is given twice.
pub async fn next_number(transaction: &mut Transaction, counter: &'static str) -> Result<i64, StoreError> {
    first_of(&transaction.all([next_numbers(counter, 1)]).await?, 1)
}

/// Begins a transaction and takes the next `count` numbers of a counter; returns the first of them. On PostgreSQL,
/// other transactions can take later numbers without waiting. So if this transaction fails, its numbers are never
/// used.
pub(crate) async fn begin_with_numbers(
    writer: Writer,
    clock: &Clock,
    counter: &'static str,
    count: usize,
) -> Result<(Transaction, i64), StoreError> {
    // This statement is not flushed on its own: the transaction that uses the numbers is flushed, and PostgreSQL
    // flushes in order.
    let on_postgres = "UPDATE counter SET value = value + $2 \
                       FROM (SELECT set_config('synchronous_commit', 'off', true)) AS this_statement \
                       WHERE name = $1 RETURNING value";
    let (transaction, rows) =
        writer.begin_after(clock, next_numbers(counter, count).on_postgres(on_postgres)).await?;
    Ok((transaction, first_of(&[rows], count)?))
}

/// The statement that takes the next `count` numbers; [`first_of`] reads its result.
fn next_numbers(counter: &'static str, count: usize) -> Statement {
    Statement::new(
        "UPDATE counter SET value = value + $2 WHERE name = $1 RETURNING value",
        params![counter, count as i64],
    )
}

/// The first of the `count` numbers that [`next_numbers`] has taken. `rows` are the results of statements that begin with it.
fn first_of(rows: &[Vec<Row>], count: usize) -> Result<i64, StoreError> {
    let row = rows.first().and_then(|rows| rows.first());
    let last: i64 = row.ok_or(StoreError::Unexpected("a counter is missing"))?.get(0)?;
    Ok(last - count as i64 + 1)
}
