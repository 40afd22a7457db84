//! Begins attempts: counts them, leases them, and keeps or ends the leases.

use docket_domain::delivery::{DeliveryId, FailureClass, MAX_ATTEMPTS};

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{SLOTS, filled, params, slots};

/// An attempt that has been counted and may now be made.
#[derive(Debug, Clone)]
pub struct Started {
    /// The delivery.
    pub id: DeliveryId,
    /// Its event.
    pub event_id: String,
    /// Its webhook's uid.
    pub webhook: String,
    /// Which attempt this is, 1 to 5.
    pub attempt: u32,
}

/// Counts one attempt of each of these deliveries that is due and that no worker is attempting, and leases it to `token`
/// until `lease_until_ms`. A delivery that is missing from the result is finished, taken or not due: the schedule was
/// stale.
///
/// An earlier attempt without an end is recorded as [`FailureClass::WorkerLost`]; the second result is their number.
pub async fn begin_attempts(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    token: &str,
    now_ms: i64,
    lease_until_ms: i64,
) -> Result<(Vec<Started>, u64), StoreError> {
    let claim = format!(
        "UPDATE delivery SET attempt_count = attempt_count + 1, lease_token = $1, lease_until_ms = $2, \
         status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE 'Failed' END \
         WHERE status IN ('Pending', 'Failed') AND attempt_count < {MAX_ATTEMPTS} AND due_at_ms <= $3 \
         AND (lease_until_ms IS NULL OR lease_until_ms <= $3) AND id IN ({}) \
         RETURNING id, event_id, webhook, attempt_count",
        slots(4)
    );
    let mut started = Vec::new();
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![token, lease_until_ms, now_ms];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        for row in transaction.query(&claim, params).await? {
            let attempt = row.get::<i64>(3)?;
            started.push(Started {
                id: row.parsed(0)?,
                event_id: row.get(1)?,
                webhook: row.get(2)?,
                attempt: u32::try_from(attempt).map_err(|_| StoreError::Unexpected("attempt_count"))?,
            });
        }
    }
    let mut lost = 0;
    for Started { id, attempt, .. } in &started {
        if *attempt > 1 {
            lost += record_lost_attempt(transaction, *id, now_ms).await?;
        }
        let sql = "INSERT INTO attempt (delivery_id, attempt_no, started_at_ms) VALUES ($1, $2, $3)";
        transaction.execute(sql, params![id.to_string(), *attempt, now_ms]).await?;
    }
    Ok((started, lost))
}

/// Ends the attempt whose worker never reported its end. Returns how many there were: 0 or 1.
pub(super) async fn record_lost_attempt(
    transaction: &mut Transaction,
    id: DeliveryId,
    now_ms: i64,
) -> Result<u64, StoreError> {
    let sql = "UPDATE attempt SET finished_at_ms = $1, failure_class = $2 \
               WHERE delivery_id = $3 AND finished_at_ms IS NULL";
    let params = params![now_ms, FailureClass::WorkerLost.as_str(), id.to_string()];
    transaction.execute(sql, params).await
}

/// Extends the lease of the attempts that run under `token`.
pub async fn renew(
    transaction: &mut Transaction,
    ids: &[DeliveryId],
    token: &str,
    lease_until_ms: i64,
) -> Result<(), StoreError> {
    let sql =
        format!("UPDATE delivery SET lease_until_ms = $1 WHERE lease_token = $2 AND id IN ({})", slots(3));
    for chunk in ids.chunks(SLOTS) {
        let mut params = params![lease_until_ms, token];
        params.extend(filled(chunk.iter().map(|id| id.to_string().into())));
        transaction.execute(&sql, params).await?;
    }
    Ok(())
}

/// Ends the leases of a process that is known to be dead, so that its attempts are taken over at once. Only for a
/// database that no other process delivers from. Writes nothing if there is no lease.
pub async fn release_leases(transaction: &mut Transaction, now_ms: i64) -> Result<u64, StoreError> {
    let sql = "UPDATE delivery SET lease_until_ms = $1 WHERE status IN ('Pending', 'Failed') AND lease_until_ms > $1";
    transaction.execute(sql, params![now_ms]).await
}
