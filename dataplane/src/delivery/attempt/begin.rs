//! The step before the POST: counts the attempts and leases their rows, in one transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::duration;
use docket_store::deliveries::{self, Due, Lease, Started};
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

/// What follows for deliveries whose attempt the database refused to begin.
#[derive(Default)]
struct Refused {
    /// The number of attempts whose worker was lost.
    lost: u64,
    /// The number of deliveries that are dead letters now.
    dead: u64,
    /// How long until the deliveries are due again; finished ones are missing.
    due_again: HashMap<DeliveryId, Duration>,
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
        let now_ms = transaction.now_ms();
        let started = deliveries::begin_attempts(&mut transaction, ids, lease, now_ms).await?;
        let is_refused = |id: &&DeliveryId| !started.iter().any(|started| started.id == **id);
        let refused: Vec<DeliveryId> = ids.iter().filter(is_refused).copied().collect();
        let Refused { lost, dead, due_again } = self.refused(&mut transaction, &refused).await?;
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

    /// Ends the attempts of refused deliveries whose worker was lost, and finds out when the deliveries are due again.
    async fn refused(
        &self,
        transaction: &mut Transaction,
        ids: &[DeliveryId],
    ) -> Result<Refused, StoreError> {
        if ids.is_empty() {
            return Ok(Refused::default());
        }
        let (now, backoff_base) = (transaction.now(), self.settings.backoff_base);
        let (lost, dead) = deliveries::end_lost_attempts(transaction, ids, backoff_base, now).await?;
        let left = deliveries::due_again(transaction, ids).await?;
        let wait = |due: Due| (due.id, duration(due.at_ms - now.as_millisecond()));
        Ok(Refused { lost, dead, due_again: left.into_iter().map(wait).collect() })
    }
}
