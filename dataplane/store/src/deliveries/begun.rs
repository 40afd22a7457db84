//! Finds deliveries with an attempt in progress.

use std::collections::HashSet;

use crate::connection::Connection;
use crate::error::StoreError;

/// The deliveries among these that have an attempt in progress.
pub async fn begun(connection: &mut Connection, ids: &[String]) -> Result<HashSet<String>, StoreError> {
    let sql = "SELECT id FROM delivery_unfinished WHERE started_at_ms IS NOT NULL AND id IN ({values})";
    connection.query_in(sql, Vec::new(), ids).await?.iter().map(|row| row.get(0)).collect()
}
