//! Counters, from which the numbers of orders and work orders come.

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::params;

/// The next number of a counter. Its row stays locked until the transaction ends, so numbers have no duplicates.
pub async fn next_number(transaction: &mut Transaction, counter: &'static str) -> Result<i64, StoreError> {
    transaction
        .query_opt("UPDATE counter SET value = value + 1 WHERE name = $1 RETURNING value", params![counter])
        .await?
        .ok_or(StoreError::Unexpected("a counter is missing"))?
        .get(0)
}
