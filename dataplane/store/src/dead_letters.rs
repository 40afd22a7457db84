//! Which dead letters count. A dead letter counts until its event is sent to the webhook again, or until it is set aside.
//!
//! Both are marks on its row, so that those that count have an index of their own: counting them does not look at what was sent
//! since.

use docket_domain::delivery::{DeadLetter, DeliveryId};

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::resends::{DeadFilter, dead, names};
use crate::sql::{Param, Rows, params};

/// The condition of a dead letter that counts, in a statement about `delivery_history` without another table that has its columns.
pub(crate) const OPEN: &str = "status = 'DeadLetter' AND resent IS NULL AND set_aside_at_ms IS NULL";
/// The condition of one that is set aside.
pub(crate) const SET_ASIDE: &str = "status = 'DeadLetter' AND set_aside_at_ms IS NOT NULL";

/// The condition of one that was resent.
const RESENT: &str = "status = 'DeadLetter' AND resent IS NOT NULL";

/// The condition of those of which this became.
pub(crate) const fn condition(of: DeadLetter) -> &'static str {
    match of {
        DeadLetter::Open => OPEN,
        DeadLetter::Resent => RESENT,
        DeadLetter::SetAside => SET_ASIDE,
    }
}

// By the webhook's name, as in `dead`: a dead letter of before keys has a uid.
static MARK_RESENT: Rows = Rows::new(
    "UPDATE delivery_history SET resent = TRUE, set_aside_by = NULL, set_aside_at_ms = NULL \
     WHERE event_id {$1 text} AND webhook_name {$2 text} AND status = 'DeadLetter' AND resent IS NULL",
);
static UNMARK: Rows = Rows::new("UPDATE delivery_history SET resent = NULL WHERE id {$1 text}");

/// Marks the dead letters of these events, each to the webhook of this name: a new delivery counts instead. An event has one customer, so
/// that the name is enough.
pub(crate) async fn mark_resent(
    transaction: &mut Transaction,
    events_and_names: impl Iterator<Item = [Param; 2]>,
) -> Result<(), StoreError> {
    transaction.all(MARK_RESENT.statement(events_and_names)).await.map(drop)
}

/// These count again: their resend was withdrawn.
pub(crate) async fn unmark(transaction: &mut Transaction, ids: &[String]) -> Result<(), StoreError> {
    transaction.all(UNMARK.statement(ids.iter().map(|id| [Param::from(id)]))).await.map(drop)
}

/// Locks the marks of a webhook's dead letters, by its key, until the transaction ends. A transaction that changes marks takes it
/// before it reads which dead letters count.
pub async fn lock(transaction: &mut Transaction, webhook: &str) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtext('dead letters'), hashtext($1))";
    transaction.lock(sql, params![webhook]).await
}

/// Sets a dead letter aside. `false`: it does not count anyway.
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

/// Ends the setting aside of a dead letter. `false`: it is not set aside.
pub async fn undo_one(transaction: &mut Transaction, id: DeliveryId) -> Result<bool, StoreError> {
    let sql = format!("UPDATE delivery_history SET {NEITHER} WHERE id = $1 AND {SET_ASIDE}");
    Ok(transaction.execute(&sql, params![id.to_string()]).await? > 0)
}

const NEITHER: &str = "set_aside_by = NULL, set_aside_at_ms = NULL";

/// Sets aside the dead letters that the filter means. Returns how many.
pub async fn set_aside(
    transaction: &mut Transaction,
    filter: &DeadFilter,
    by: &str,
    now_ms: i64,
) -> Result<u64, StoreError> {
    lock(transaction, &filter.webhook).await?;
    let webhooks = names(transaction, &filter.webhook).await?;
    let (chosen, mut params) = dead("SELECT d.id", filter, &webhooks);
    params.extend(params![by, now_ms]);
    let (by, at) = (params.len() - 1, params.len());
    // The condition again, for one that was resent while this waited for it.
    let sql = format!(
        "UPDATE delivery_history SET set_aside_by = ${by}, set_aside_at_ms = ${at} WHERE {OPEN} AND id IN ({chosen})"
    );
    transaction.execute(&sql, params).await
}

/// Ends the setting aside of the dead letters that the filter means. Returns how many.
pub async fn undo(transaction: &mut Transaction, filter: &DeadFilter) -> Result<u64, StoreError> {
    lock(transaction, &filter.webhook).await?;
    let webhooks = names(transaction, &filter.webhook).await?;
    let (chosen, params) = dead("SELECT d.id", filter, &webhooks);
    let sql = format!("UPDATE delivery_history SET {NEITHER} WHERE {SET_ASIDE} AND id IN ({chosen})");
    transaction.execute(&sql, params).await
}
