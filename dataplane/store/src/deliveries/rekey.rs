//! Gives rows the key of their webhook that were written before webhooks had keys: they have the uid of the object of then.
//!
//! A row tells its key: it has the webhook's name, and its event the customer.

use docket_crds::webhook_key;
use docket_domain::delivery::{DeliveryId, Due, FailureClass};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{SLOTS, filled, params, slots};

/// The key of the webhook of a row of this table; an SQL expression.
fn key_of(table: &str) -> String {
    format!(
        "({table}.webhook_name || '/' || coalesce((SELECT e.customer_code FROM event e WHERE e.id = {table}.event_id), ''))"
    )
}

/// Whether a delivery has the uid of its webhook, as before keys.
pub fn has_uid(due: &Due) -> bool {
    webhook_key::full_name(&due.webhook).is_none()
}

/// Gives these queued deliveries the keys of their webhooks. An idempotency key that the webhook has already is dropped, for
/// the row is a delivery all the same.
pub async fn rekey_queued(transaction: &mut Transaction, ids: &[DeliveryId]) -> Result<(), StoreError> {
    let key = key_of("delivery_queue");
    let sql = format!(
        "UPDATE delivery_queue SET webhook = {key}, idempotency_key = CASE WHEN EXISTS (SELECT 1 FROM delivery_queue o \
         WHERE o.webhook = {key} AND o.idempotency_key = delivery_queue.idempotency_key) THEN NULL ELSE idempotency_key END \
         WHERE id = $1 AND webhook NOT LIKE '%/%/%' AND webhook_name LIKE '%/%'"
    );
    let lock = format!("SELECT id FROM delivery_queue WHERE id IN ({}) ORDER BY id FOR UPDATE", slots(1));
    for chunk in ids.chunks(SLOTS) {
        transaction.lock(&lock, filled(chunk.iter().map(|id| id.to_string().into()))).await?;
        // One by one: two uids may become one key.
        for id in chunk {
            transaction.execute(&sql, params![id.to_string()]).await?;
        }
    }
    Ok(())
}

/// The uids that the history has in place of keys, found from one to the next of the index that begins with them. Keys of the
/// 20,000 first webhooks are passed.
pub async fn uids(connection: &mut Connection) -> Result<Vec<String>, StoreError> {
    let sql = "WITH RECURSIVE hook (webhook) AS (SELECT min(webhook) FROM delivery_history UNION ALL \
        SELECT (SELECT min(h.webhook) FROM delivery_history h WHERE h.webhook > hook.webhook) \
        FROM hook WHERE hook.webhook IS NOT NULL) \
        SELECT webhook FROM (SELECT webhook FROM hook LIMIT 20000) AS found WHERE webhook NOT LIKE '%/%/%'";
    connection.query(sql, Vec::new()).await?.iter().map(|row| row.id(0)).collect()
}

/// Gives so many finished deliveries, which have this uid, the keys of their webhooks; with them their test events, and the bulk
/// resends that they are part of. Returns how many.
pub async fn rekey_finished(transaction: &mut Transaction, uid: &str, most: i64) -> Result<u64, StoreError> {
    let key = key_of("delivery_history");
    let gone = FailureClass::WebhookGone;
    let sql = format!(
        "UPDATE delivery_history SET webhook = {key}, idempotency_key = CASE WHEN EXISTS (SELECT 1 FROM delivery_history o \
         WHERE o.webhook = {key} AND o.idempotency_key = delivery_history.idempotency_key) THEN NULL ELSE idempotency_key END, \
         webhook_missing_since_ms = CASE WHEN failure_class = '{gone}' THEN coalesce(webhook_missing_since_ms, finished_at_ms) END \
         WHERE id IN (SELECT id FROM delivery_history WHERE webhook = $1 AND webhook_name LIKE '%/%' LIMIT $2) RETURNING event_id, webhook, resend_id"
    );
    let rows = transaction.query(&sql, params![uid, most]).await?;
    for row in &rows {
        let (event_id, key): (String, String) = (row.get(0)?, row.get(1)?);
        transaction
            .execute("UPDATE test_event SET webhook = $1 WHERE id = $2", params![&key, event_id])
            .await?;
        if let Some(resend_id) = row.get::<Option<String>>(2)? {
            let sql = "UPDATE resend SET webhook = $1 WHERE id = $2 AND webhook = $3";
            transaction.execute(sql, params![&key, resend_id, uid]).await?;
        }
    }
    Ok(rows.len() as u64)
}
