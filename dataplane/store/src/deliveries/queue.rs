//! Queues deliveries: one row each, due now or later.

use std::collections::HashSet;

use docket_domain::delivery::{DeliveryId, Status};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::marks;
use crate::sql::{Param, Rows, Statement, params};

/// A delivery to be queued.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The event it carries.
    pub event_id: String,
    /// The webhook's key.
    pub webhook: String,
    /// `namespace/name` of the webhook, for people.
    pub webhook_name: String,
    /// A key that at most one delivery to the webhook can have.
    pub idempotency_key: Option<String>,
    /// The delivery that this delivery resends.
    pub resend_of: Option<String>,
    /// Who requested the resend.
    pub requested_by: Option<String>,
    /// The bulk resend to which this delivery belongs.
    pub resend_id: Option<String>,
    /// When the delivery's first attempt is due; `None`: now.
    pub due_at_ms: Option<i64>,
}

/// Queues a delivery. `false`: the webhook already has a delivery with this idempotency key.
pub async fn insert(
    transaction: &mut Transaction,
    new: &NewDelivery,
    now_ms: i64,
) -> Result<bool, StoreError> {
    Ok(!insert_many(transaction, std::slice::from_ref(new), now_ms).await?.is_empty())
}

/// Queues many deliveries. Returns the ids of the queued ones: all except deliveries whose idempotency key the webhook
/// already has. The dead letters that they resend do not count any more. Some thousand rows take a fraction of a
/// second.
pub async fn insert_many(
    transaction: &mut Transaction,
    deliveries: &[NewDelivery],
    now_ms: i64,
) -> Result<Vec<DeliveryId>, StoreError> {
    let rows = transaction.all(inserts(deliveries, now_ms)).await?;
    let mut inserted: Vec<DeliveryId> =
        rows.iter().flatten().map(|row| row.parsed(0)).collect::<Result<_, _>>()?;
    if deliveries.iter().any(|new| new.idempotency_key.is_some()) {
        // The check comes after the insert: a delivery that has ended meanwhile is in the history now.
        let repeats = take_back_repeats(transaction, &inserted).await?;
        inserted.retain(|id| !repeats.contains(id));
    }
    let queued: HashSet<&DeliveryId> = inserted.iter().collect();
    let resends = deliveries.iter().filter(|new| new.resend_of.is_some() && queued.contains(&new.id));
    let sent = resends.map(|new| [Param::from(&new.event_id), Param::from(&new.webhook_name)]);
    marks::mark_resent(transaction, sent).await?;
    Ok(inserted)
}

/// Deletes the rows just queued that repeat another delivery. An idempotency key says so, and for an invoice also its number, because
/// older rows have the webhook's uid in place of its key. Returns the ids of the deleted rows.
async fn take_back_repeats(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
) -> Result<Vec<DeliveryId>, StoreError> {
    let repeats_key = "EXISTS (SELECT 1 FROM delivery_history h \
                       WHERE h.webhook = delivery_queue.webhook AND h.idempotency_key = delivery_queue.idempotency_key)";
    let [finished, queued] = ["delivery_history", "delivery_queue"].map(repeats_invoice_of);
    let sql = format!(
        "DELETE FROM delivery_queue WHERE ({repeats_key} OR {finished} OR {queued}) AND id IN ({{values}}) RETURNING id"
    );
    transaction.query_in(&sql, Vec::new(), ids).await?.iter().map(|row| row.parsed(0)).collect()
}

/// The condition of a row of the queue whose webhook, by its name, has another delivery of the same invoice in this table.
fn repeats_invoice_of(table: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM event n JOIN event e ON e.invoice_number = n.invoice_number \
         JOIN {table} h ON h.event_id = e.id WHERE n.id = delivery_queue.event_id \
         AND n.customer_code = e.customer_code AND h.webhook_name = delivery_queue.webhook_name \
         AND h.idempotency_key = delivery_queue.idempotency_key AND h.id <> delivery_queue.id)"
    )
}

static INSERT: Rows = Rows::new(
    "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, idempotency_key, resend_of, requested_by, resend_id, created_at_ms) \
     {text, text, text, text, text, bigint, bigint, text, text, text, text, bigint} ON CONFLICT DO NOTHING RETURNING id",
);

/// The statement that queues deliveries. It returns the ids of the queued ones.
pub(crate) fn inserts<'a>(
    deliveries: impl IntoIterator<Item = &'a NewDelivery>,
    now_ms: i64,
) -> Option<Statement> {
    INSERT.statement(deliveries.into_iter().map(|new| {
        [
            Param::from(new.id.to_string()),
            (&new.event_id).into(),
            (&new.webhook).into(),
            (&new.webhook_name).into(),
            Param::Word(Status::Pending.as_str()),
            Param::Int(0),
            new.due_at_ms.unwrap_or(now_ms).into(),
            new.idempotency_key.as_ref().into(),
            new.resend_of.as_ref().into(),
            new.requested_by.as_ref().into(),
            new.resend_id.as_ref().into(),
            now_ms.into(),
        ]
    }))
}

/// Whether the webhook with this `namespace/name` has an unfinished delivery of this event. The name is enough,
/// because an event belongs to one customer.
pub async fn is_under_way(
    connection: &mut Connection,
    event_id: &str,
    webhook_name: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM delivery_queue WHERE event_id = $1 AND webhook_name = $2 LIMIT 1";
    Ok(connection.query_opt(sql, params![event_id, webhook_name]).await?.is_some())
}

/// The deliveries among these that have an attempt in progress.
pub async fn begun(connection: &mut Connection, ids: &[String]) -> Result<HashSet<String>, StoreError> {
    let sql = "SELECT id FROM delivery_unfinished WHERE started_at_ms IS NOT NULL AND id IN ({values})";
    connection.query_in(sql, Vec::new(), ids).await?.iter().map(|row| row.get(0)).collect()
}
