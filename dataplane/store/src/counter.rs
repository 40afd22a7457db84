//! Counters, from which the numbers of orders and work orders come.

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{Row, Statement, params};

/// The next number of a counter. Its row stays locked until the transaction ends, so numbers have no duplicates.
pub async fn next_number(transaction: &mut Transaction, counter: &'static str) -> Result<i64, StoreError> {
    first_of(&transaction.all([next_numbers(counter, 1)]).await?, 1)
}

/// The statement that takes the next `count` numbers; [`first_of`] reads its result.
pub(crate) fn next_numbers(counter: &'static str, count: usize) -> Statement {
    Statement::new(
        "UPDATE counter SET value = value + $2 WHERE name = $1 RETURNING value",
        params![counter, count as i64],
    )
}

/// The first of the `count` numbers that [`next_numbers`] has taken. It is the first of the statements whose rows these are.
pub(crate) fn first_of(rows: &[Vec<Row>], count: usize) -> Result<i64, StoreError> {
    let row = rows.first().and_then(|rows| rows.first());
    let last: i64 = row.ok_or(StoreError::Unexpected("a counter is missing"))?.get(0)?;
    Ok(last - count as i64 + 1)
}
