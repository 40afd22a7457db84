//! Counters, which give the numbers of orders and work orders.

use docket_program::clock::Clock;

use crate::connection::Transaction;
use crate::database::Writer;
use crate::error::StoreError;
use crate::sql::{Row, Statement, params};

const NEXT: &str = "UPDATE counter SET value = value + $2 WHERE name = $1 RETURNING value";

/// The next number of a counter. The counter's row stays locked until the transaction ends, so no number is given twice.
pub async fn next_number(transaction: &mut Transaction, counter: &str) -> Result<i64, StoreError> {
    first_of(&transaction.query(NEXT, params![counter, 1_i64]).await?, 1)
}

/// Begins a transaction and takes the next `count` numbers of a counter; returns the first of them. On PostgreSQL,
/// other transactions can take later numbers without waiting. So if this transaction fails, its numbers are never
/// used.
pub(crate) async fn begin_with_numbers(
    writer: Writer,
    clock: &Clock,
    counter: &str,
    count: usize,
) -> Result<(Transaction, i64), StoreError> {
    let sql = match writer.is_to_a_server() {
        false => NEXT,
        // This statement is not flushed on its own: the transaction that uses the numbers is flushed, and PostgreSQL
        // flushes in order.
        true => {
            "UPDATE counter SET value = value + $2 \
             FROM (SELECT set_config('synchronous_commit', 'off', true)) AS this_statement \
             WHERE name = $1 RETURNING value"
        }
    };
    let next = Statement::new(sql, params![counter, count as i64]);
    let (transaction, rows) = writer.begin_after(clock, next).await?;
    Ok((transaction, first_of(&rows, count)?))
}

/// The first of the `count` numbers that were taken; `rows` is the result of the statement.
fn first_of(rows: &[Row], count: usize) -> Result<i64, StoreError> {
    let last: i64 = rows.first().ok_or(StoreError::Unexpected("a counter is missing"))?.get(0)?;
    Ok(last - count as i64 + 1)
}
