//! The step before the POST: counts the attempts and leases their rows, in one transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::duration;
use docket_store::deliveries::{self, Lease, Started};
use docket_store::events::{self, ToSend};
use docket_store::{StoreError, Transaction, Writer};

use super::Worker;
use crate::tenancy::ServedTenant;

/// An attempt that is counted and whose row is leased.
pub(super) struct Attempt {
    pub(super) tenant: Arc<ServedTenant>,
    pub(super) started: Started,
    /// The lease on its row: only the holder may finish the attempt.
    pub(super) lease: Lease,
    /// What it sends. `None`: the event's id is invalid, or the event is gone, since the owner of a database may change both.
    pub(super) event: Option<ToSend>,
}

/// The result of one transaction.
pub(super) struct Begun {
    pub(super) attempts: HashMap<DeliveryId, Attempt>,
    /// How long until the other deliveries are due again; finished ones are missing.
    pub(super) due_again: HashMap<DeliveryId, Duration>,
}

impl Worker {
    /// Counts an attempt of each of these deliveries, except of those that are finished, leased by another worker or out of attempts.
    pub(super) async fn begin(
        &self,
        tenant: &Arc<ServedTenant>,
        writer: Writer,
        ids: &[DeliveryId],
        lease: &Lease,
    ) -> Result<Begun, StoreError> {
        let mut transaction = writer.begin(&self.clock).await?;
        let mut due_again = HashMap::new();
        let now_ms = transaction.now_ms();
        let started = deliveries::begin_attempts(&mut transaction, ids, lease, now_ms).await?;
        let is_refused = |id: &&DeliveryId| !started.iter().any(|started| started.id == **id);
        let refused: Vec<DeliveryId> = ids.iter().filter(is_refused).copied().collect();
        let (lost, dead) = self.end_lost(&mut transaction, &refused, &mut due_again).await?;
        let event_ids: Vec<String> = started.iter().map(|started| started.event_id.clone()).collect();
        let events = events::to_send(&mut transaction, &event_ids).await?;
        transaction.commit().await?;
        self.metrics.lost(lost);
        self.metrics.dead_lettered(dead);
        let attempt = |started: Started| {
            let event = events.get(&started.event_id).cloned();
            let (tenant, lease) = (Arc::clone(tenant), lease.clone());
            (started.id, Attempt { tenant, started, lease, event })
        };
        Ok(Begun { attempts: started.into_iter().map(attempt).collect(), due_again })
    }

    /// Ends the attempts of refused deliveries whose worker was lost. Returns the number of these attempts, and of the deliveries that
    /// are dead letters now.
    async fn end_lost(
        &self,
        transaction: &mut Transaction,
        refused: &[DeliveryId],
        due_again: &mut HashMap<DeliveryId, Duration>,
    ) -> Result<(u64, u64), StoreError> {
        if refused.is_empty() {
            return Ok((0, 0));
        }
        let now = transaction.now();
        let ended =
            deliveries::end_lost_attempts(transaction, refused, self.settings.backoff_base, now).await?;
        let now_ms = now.as_millisecond();
        let left = deliveries::due_again(transaction, refused).await?;
        due_again.extend(left.into_iter().map(|due| (due.id, duration(due.at_ms - now_ms))));
        Ok(ended)
    }
}
