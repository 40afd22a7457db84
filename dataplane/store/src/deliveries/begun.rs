//! Finds deliveries with an attempt in progress.

use std::collections::HashSet;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::sql::{Param, SLOTS, filled, slots};

/// The deliveries among these that have an attempt in progress.
pub async fn begun(connection: &mut Connection, ids: &[String]) -> Result<HashSet<String>, StoreError> {
    let sql = format!(
        "SELECT id FROM delivery_unfinished WHERE started_at_ms IS NOT NULL AND id IN ({})",
        slots(1)
    );
    let mut begun = HashSet::new();
    for chunk in ids.chunks(SLOTS) {
        for row in connection.query(&sql, filled(chunk.iter().map(Param::from))).await? {
            begun.insert(row.get(0)?);
        }
    }
    Ok(begun)
}
