//! Queues deliveries: one row each, due at once or later.

use docket_domain::delivery::{DeliveryId, Status};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, SLOTS, params};

/// A delivery to be queued.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The event it carries.
    pub event_id: String,
    /// The webhook's uid.
    pub webhook: String,
    /// `namespace/name` of the webhook, for people.
    pub webhook_name: String,
    /// At most one delivery per webhook and key.
    pub idempotency_key: Option<String>,
    /// The delivery that this one resends.
    pub resend_of: Option<String>,
    /// Who requested the resend.
    pub requested_by: Option<String>,
    /// The bulk resend that this one is part of.
    pub resend_id: Option<String>,
    /// When its first attempt is due; `None`: at once.
    pub due_at_ms: Option<i64>,
}

/// Queues a delivery. `false`: the webhook has one with this idempotency key already.
pub async fn insert(
    transaction: &mut Transaction,
    new: &NewDelivery,
    now_ms: i64,
) -> Result<bool, StoreError> {
    Ok(!insert_many(transaction, std::slice::from_ref(new), now_ms).await?.is_empty())
}

/// Queues many deliveries. Returns the ids of those that it queued: all but those whose idempotency key the webhook has
/// already. Some thousand rows take a fraction of a second.
pub async fn insert_many(
    transaction: &mut Transaction,
    deliveries: &[NewDelivery],
    now_ms: i64,
) -> Result<Vec<DeliveryId>, StoreError> {
    let mut inserted = Vec::with_capacity(deliveries.len());
    for chunk in deliveries.chunks(SLOTS) {
        let params: Vec<Param> = chunk.iter().flat_map(|new| row_of(new, now_ms)).collect();
        let places: Vec<String> = (1..=params.len()).map(|number| format!("${number}")).collect();
        let rows: Vec<String> =
            places.chunks(COLUMNS).map(|places| format!("({})", places.join(", "))).collect();
        let sql = format!(
            "INSERT INTO delivery (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, \
             idempotency_key, resend_of, requested_by, resend_id, created_at_ms) \
             VALUES {} ON CONFLICT DO NOTHING RETURNING id",
            rows.join(", ")
        );
        for row in transaction.query(&sql, params).await? {
            inserted.push(row.parsed(0)?);
        }
    }
    Ok(inserted)
}

/// The number of columns of a row that [`row_of`] returns.
const COLUMNS: usize = 12;

fn row_of(new: &NewDelivery, now_ms: i64) -> [Param; COLUMNS] {
    [
        new.id.to_string().into(),
        (&new.event_id).into(),
        (&new.webhook).into(),
        (&new.webhook_name).into(),
        Status::Pending.as_str().into(),
        0_i64.into(),
        new.due_at_ms.unwrap_or(now_ms).into(),
        new.idempotency_key.as_ref().into(),
        new.resend_of.as_ref().into(),
        new.requested_by.as_ref().into(),
        new.resend_id.as_ref().into(),
        now_ms.into(),
    ]
}

/// Whether the webhook has an unfinished delivery of this event.
pub async fn is_under_way(
    connection: &mut Connection,
    event_id: &str,
    webhook: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM delivery WHERE event_id = $1 AND webhook = $2 AND status IN ('Pending', 'Failed') LIMIT 1";
    Ok(connection.query_opt(sql, params![event_id, webhook]).await?.is_some())
}
