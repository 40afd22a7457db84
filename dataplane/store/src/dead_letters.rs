//! Sets dead letters aside (one, or all that match a filter), and undoes this. `marks` decides which dead letters count.

use docket_domain::delivery::DeliveryId;

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::marks::{OPEN, SET_ASIDE};
use crate::resends::{DeadFilter, dead, names};
use crate::sql::params;

/// Locks the marks of a webhook's dead letters, by its key, until the transaction ends. A transaction that changes
/// marks takes this lock before it reads which dead letters count.
pub async fn lock(transaction: &mut Transaction, webhook: &str) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtext('dead letters'), hashtext($1))";
    transaction.lock(sql, params![webhook]).await
}

/// Sets a dead letter aside. `false`: the dead letter did not count.
pub async fn set_aside_one(
    transaction: &mut Transaction,
    id: DeliveryId,
    by: &str,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE delivery_history SET set_aside_by = $1, set_aside_at_ms = $2 WHERE id = $3 AND {OPEN}"
    );
    Ok(transaction.execute(&sql, params![by, now_ms, id.to_string()]).await? > 0)
}

/// Undoes setting a dead letter aside. `false`: the dead letter is not set aside.
pub async fn undo_one(transaction: &mut Transaction, id: DeliveryId) -> Result<bool, StoreError> {
    let sql = format!("UPDATE delivery_history SET {NEITHER} WHERE id = $1 AND {SET_ASIDE}");
    Ok(transaction.execute(&sql, params![id.to_string()]).await? > 0)
}

const NEITHER: &str = "set_aside_by = NULL, set_aside_at_ms = NULL";

/// Sets aside the dead letters that match the filter. Returns how many.
pub async fn set_aside(
    transaction: &mut Transaction,
    filter: &DeadFilter,
    by: &str,
    now_ms: i64,
) -> Result<u64, StoreError> {
    lock(transaction, &filter.webhook).await?;
    let webhooks = names(transaction, &filter.webhook).await?;
    let (chosen, mut params) = dead("SELECT d.id", filter, &webhooks, transaction.is_postgres());
    params.extend(params![by, now_ms]);
    let (by, at) = (params.len() - 1, params.len());
    // The condition is repeated, because a dead letter may have been resent while this statement waited for its row.
    let sql = format!(
        "UPDATE delivery_history SET set_aside_by = ${by}, set_aside_at_ms = ${at} WHERE {OPEN} AND id IN ({chosen})"
    );
    transaction.execute(&sql, params).await
}

/// Undoes setting aside the dead letters that match the filter. Returns how many.
pub async fn undo(transaction: &mut Transaction, filter: &DeadFilter) -> Result<u64, StoreError> {
    lock(transaction, &filter.webhook).await?;
    let webhooks = names(transaction, &filter.webhook).await?;
    let (chosen, params) = dead("SELECT d.id", filter, &webhooks, transaction.is_postgres());
    let sql = format!("UPDATE delivery_history SET {NEITHER} WHERE {SET_ASIDE} AND id IN ({chosen})");
    transaction.execute(&sql, params).await
}
