//! The first step: counts the attempts and leases their rows, in one transaction and before any POST.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, FailureClass};
use docket_program::clock::{Clock, duration, millis};
use docket_store::deliveries::{self, Started};
use docket_store::events::{self, ToSend};
use docket_store::{StoreError, Transaction};

use super::lease::LEASE;
use super::settle::UNKNOWN_AGAIN;
use crate::telemetry::Metrics;
use crate::tenants::{ServedTenant, Tenants};

/// Begins attempts.
pub(super) struct Begin {
    pub(super) clock: Clock,
    pub(super) tenants: Arc<Tenants>,
    /// See [`WorkerSettings::source_lag`](super::WorkerSettings::source_lag).
    pub(super) source_lag: Duration,
    pub(super) metrics: Arc<Metrics>,
}

/// An attempt that is counted and whose row is leased.
pub(super) struct Attempt {
    pub(super) tenant: Arc<ServedTenant>,
    pub(super) started: Started,
    /// Only its holder may finish the attempt.
    pub(super) token: Arc<str>,
    pub(super) event: ToSend,
}

/// The result of one transaction.
pub(super) struct Begun {
    /// The attempts to make.
    pub(super) attempts: HashMap<DeliveryId, Attempt>,
    /// How long until the other deliveries are due again; finished ones are missing.
    pub(super) due_again: HashMap<DeliveryId, Duration>,
}

impl Begin {
    /// Counts an attempt of each delivery in `known`, except of those that are finished, leased by another worker or
    /// out of attempts. Ends the deliveries in `unknown`, whose webhooks are not served, once they are old enough.
    pub(super) async fn begin(
        &self,
        tenant: &Arc<ServedTenant>,
        known: &[DeliveryId],
        unknown: &[DeliveryId],
        token: &Arc<str>,
    ) -> Result<Begun, StoreError> {
        let mut transaction = tenant.store.begin(&self.clock).await?;
        let mut due_again = HashMap::new();
        let gone = self.end_without_webhook(&mut transaction, unknown, &mut due_again).await?;
        let now_ms = transaction.now_ms();
        let until_ms = now_ms + millis(LEASE);
        let (started, lost) =
            deliveries::begin_attempts(&mut transaction, known, token, now_ms, until_ms).await?;
        let is_refused = |id: &&DeliveryId| !started.iter().any(|started| started.id == **id);
        let refused: Vec<DeliveryId> = known.iter().filter(is_refused).copied().collect();
        let lost_fifths = end_lost_fifths(&mut transaction, &refused, &mut due_again).await?;
        let event_ids: Vec<String> = started.iter().map(|started| started.event_id.clone()).collect();
        let events = events::to_send(&mut transaction, &event_ids).await?;
        transaction.commit().await?;
        // A row that was still leased belonged to a worker that was lost.
        self.metrics.lost(lost);
        self.metrics.dead_lettered(FailureClass::WebhookGone, gone);
        self.metrics.dead_lettered(FailureClass::WorkerLost, lost_fifths);
        let attempt = |started: Started| {
            // Always found: the row refers to its event by a foreign key.
            let event = events.get(&started.event_id)?.clone();
            let (tenant, token) = (Arc::clone(tenant), Arc::clone(token));
            Some((started.id, Attempt { tenant, started, token, event }))
        };
        Ok(Begun { attempts: started.into_iter().filter_map(attempt).collect(), due_again })
    }

    /// Ends deliveries without a webhook, unless this process may not know the webhook yet. Returns how many.
    async fn end_without_webhook(
        &self,
        transaction: &mut Transaction,
        unknown: &[DeliveryId],
        due_again: &mut HashMap<DeliveryId, Duration>,
    ) -> Result<u64, StoreError> {
        if unknown.is_empty() {
            return Ok(0);
        }
        let now_ms = transaction.now_ms();
        let mut ended = 0;
        if self.tenants.is_current() {
            let made_ms = now_ms - millis(self.source_lag);
            ended = deliveries::end_without_webhook(transaction, unknown, made_ms, now_ms).await?;
        }
        let left = deliveries::due_again(transaction, unknown).await?;
        due_again.extend(left.into_iter().map(|due| (due.id, UNKNOWN_AGAIN)));
        Ok(ended)
    }
}

/// Ends those of the refused deliveries whose worker was lost in their fifth attempt. Returns how many.
async fn end_lost_fifths(
    transaction: &mut Transaction,
    refused: &[DeliveryId],
    due_again: &mut HashMap<DeliveryId, Duration>,
) -> Result<u64, StoreError> {
    if refused.is_empty() {
        return Ok(0);
    }
    let now_ms = transaction.now_ms();
    let expired_ms = now_ms - deliveries::LATE_END_MS;
    let ended = deliveries::end_lost_fifths_of(transaction, refused, expired_ms, now_ms).await?;
    let left = deliveries::due_again(transaction, refused).await?;
    due_again.extend(left.into_iter().map(|due| (due.id, duration(due.at_ms - now_ms))));
    Ok(ended)
}
