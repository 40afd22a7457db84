//! Deletes old rows: finished deliveries with their attempts, and rows that only they needed.

use crate::connection::Transaction;
use crate::deliveries::{self, HandOffSelection};
use crate::error::StoreError;
use crate::events;
use crate::sql::{Param, Rows, params};

/// Deletes the oldest deliveries that were finished before `before_ms`, at most `limit`, with their attempts, and
/// with their events if no other delivery needs these. Keeps unfinished deliveries. Returns how many deliveries it
/// deleted.
pub async fn delete_finished(
    transaction: &mut Transaction,
    before_ms: i64,
    limit: i64,
) -> Result<u64, StoreError> {
    // What their rows say is finished must be known before it is deleted.
    deliveries::queue_first_attempts(transaction, HandOffSelection::Expired).await?;
    // A delivery that is being resent stays until the resend has ended: a stopped resend leaves its dead letter.
    let sql = "SELECT d.id, d.event_id FROM delivery_history d WHERE d.finished_at_ms < $1 \
               AND NOT EXISTS (SELECT 1 FROM delivery_queue r \
               WHERE r.event_id = d.event_id AND r.resend_of = d.id) ORDER BY d.finished_at_ms LIMIT $2";
    let rows = transaction.query(sql, params![before_ms, limit]).await?;
    let ids = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()?;
    let event_ids = rows.iter().map(|row| row.get(1)).collect::<Result<Vec<String>, _>>()?;
    // Locks the events before their deliveries, in the same order as a resend, so that neither waits for the other.
    events::lock_many(transaction, &event_ids).await?;
    let attempts = ATTEMPTS.statement(ids.iter().map(|id| [Param::from(id)]));
    let deliveries = DELIVERIES.statement(ids.iter().map(|id| [Param::from(id)]));
    let deleted = transaction.all(attempts.into_iter().chain(deliveries)).await?;
    deliveries::delete_undelivered_events(transaction, &event_ids).await?;
    Ok(deleted.last().map_or(0, Vec::len) as u64)
}

static ATTEMPTS: Rows = Rows::new("DELETE FROM attempt_history WHERE delivery_id {$1 text}");
static DELIVERIES: Rows = Rows::new("DELETE FROM delivery_history WHERE id {$1 text} RETURNING id");

/// When the oldest row was finished, requested, recorded or sent that [`delete_finished`], [`delete_resends`],
/// [`audit::delete_before`](crate::audit::delete_before) and
/// [`subscriptions::delete_old_links`](crate::subscriptions::delete_old_links) may delete one day. Each is in milliseconds since 1970;
/// `None`: there is no such row.
pub async fn oldest(transaction: &mut Transaction) -> Result<[Option<i64>; 4], StoreError> {
    let links = match transaction.has_step(docket_schema::SUBSCRIPTIONS) {
        true => "(SELECT min(sent_at_ms) FROM mail_link)",
        false => "CAST(NULL AS BIGINT)",
    };
    let sql = format!(
        "SELECT (SELECT min(finished_at_ms) FROM delivery_history WHERE finished_at_ms IS NOT NULL), \
         (SELECT min(created_at_ms) FROM resend), (SELECT min(at_ms) FROM audit), {links}"
    );
    let row = transaction.query_opt(&sql, Vec::new()).await?;
    let row = row.ok_or(StoreError::Unexpected("no row"))?;
    Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
}

/// Deletes bulk resends that were requested before `before_ms` and have no deliveries left.
pub async fn delete_resends(transaction: &mut Transaction, before_ms: i64) -> Result<u64, StoreError> {
    let sql = "DELETE FROM resend WHERE created_at_ms < $1 \
               AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.resend_id = resend.id)";
    transaction.execute(sql, params![before_ms]).await
}
