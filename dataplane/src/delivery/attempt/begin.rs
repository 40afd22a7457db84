//! The first step: counts the attempts and leases their rows, in one transaction and before any POST.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::{Clock, duration};
use docket_store::deliveries::{self, Lease, Started};
use docket_store::events::{self, ToSend};
use docket_store::{StoreError, Transaction, Writer};

use crate::telemetry::Metrics;
use crate::tenancy::ServedTenant;

/// Begins attempts.
pub(super) struct Begin {
    pub(super) clock: Clock,
    pub(super) backoff_base: Duration,
    pub(super) metrics: Arc<Metrics>,
}

/// An attempt that is counted and whose row is leased.
pub(super) struct Attempt {
    pub(super) tenant: Arc<ServedTenant>,
    pub(super) started: Started,
    /// Only its holder may finish the attempt.
    pub(super) lease: Lease,
    /// `None`: its id is invalid, or it is gone, since the owner of a database may change what the row refers to.
    pub(super) event: Option<ToSend>,
}

/// The result of one transaction.
pub(super) struct Begun {
    /// The attempts to make.
    pub(super) attempts: HashMap<DeliveryId, Attempt>,
    /// How long until the other deliveries are due again; finished ones are missing.
    pub(super) due_again: HashMap<DeliveryId, Duration>,
}

impl Begin {
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

    /// Ends those attempts of the refused deliveries whose worker was lost. Returns how many they were, and how many of
    /// their deliveries are dead letters now.
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
        let ended = deliveries::end_lost_attempts(transaction, refused, self.backoff_base, now).await?;
        let now_ms = now.as_millisecond();
        let left = deliveries::due_again(transaction, refused).await?;
        due_again.extend(left.into_iter().map(|due| (due.id, duration(due.at_ms - now_ms))));
        Ok(ended)
    }
}
