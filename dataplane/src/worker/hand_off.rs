//! Hand-offs: deliveries that the process that saved them POSTs from memory, without reading them again.
//!
//! A hand-off takes a slot of the worker and places of its webhook and its tenant, as a claim does, before its row is
//! inserted with its first attempt counted and leased. Without a free place, or with a backlog, the delivery is queued and
//! claimed later. The POST begins after a confirmed COMMIT.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::Clock;
use docket_schedule::{Entry, HandOffs, Schedule};
use docket_store::deliveries::{Lease, Started};
use docket_store::events::{Event, ToSend};

use super::batch::Batches;
use super::begin::Attempt;
use super::lease::{LEASE, Leases};
use super::settle::{Claimed, Settle};
use super::slots::Slots;
use crate::telemetry::Metrics;
use crate::tenants::ServedTenant;

/// How long a save waits for the schedule.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Takes deliveries that are about to be committed.
pub struct HandOff<S> {
    pub(super) clock: Clock,
    pub(super) schedule: Arc<S>,
    pub(super) slots: Arc<Slots>,
    pub(super) leases: Arc<Leases<S>>,
    pub(super) batches: Arc<Batches<S>>,
    pub(super) settle: Arc<Settle<S>>,
    pub(super) metrics: Arc<Metrics>,
}

/// The deliveries of one transaction that are handed off.
pub struct HandedOff<S> {
    hand_off: Arc<HandOff<S>>,
    claimed: HashMap<DeliveryId, Claimed>,
    lease: Lease,
    /// When the claims end, by [`Clock::elapsed`].
    until: Duration,
}

impl<S: Schedule> HandOff<S> {
    /// Claims those of these entries that this process may attempt now. If the schedule does not respond, it claims none.
    pub async fn claim(self: &Arc<Self>, entries: Vec<Entry>) -> HandedOff<S> {
        let until = self.clock.elapsed() + LEASE;
        let mut reserved = self.slots.reserve(entries.len());
        let claims = self.schedule.hand_off(entries, reserved.room(), LEASE);
        let hand_offs = match tokio::time::timeout(TIMEOUT, claims).await {
            Ok(Ok(hand_offs)) => hand_offs,
            // The rows are scheduled after their commit, which logs it if the schedule is still unavailable.
            Ok(Err(_)) | Err(_) => HandOffs::default(),
        };
        self.metrics.limited_deliveries(&hand_offs);
        let claims = hand_offs.claims;
        let mut claimed = HashMap::with_capacity(claims.len());
        for claim in claims {
            if let Some(slot) = reserved.take(claim.quick) {
                let id = claim.entry.id;
                claimed.insert(id, Claimed { claim, slot: Some(slot), lease: None, held: None });
            }
        }
        HandedOff { hand_off: Arc::clone(self), claimed, lease: self.leases.new_lease(), until }
    }
}

impl<S: Schedule> HandedOff<S> {
    /// The lease to queue this delivery with; `None`: it is not handed off.
    pub fn lease_of(&self, id: DeliveryId) -> Option<&Lease> {
        self.claimed.contains_key(&id).then_some(&self.lease)
    }

    /// Begins the POSTs of these deliveries of a committed event, those that were handed off. `at_ms` is the time of the
    /// transaction. Returns the others.
    pub fn start<'a>(
        &mut self,
        tenant: &Arc<ServedTenant>,
        event: &Event,
        deliveries: impl IntoIterator<Item = (DeliveryId, &'a str)>,
        at_ms: i64,
    ) -> Vec<(DeliveryId, &'a str)> {
        let mut others = Vec::new();
        for (id, webhook) in deliveries {
            let Some(mut claimed) = self.claimed.remove(&id) else {
                others.push((id, webhook));
                continue;
            };
            let HandOff { leases, batches, .. } = &*self.hand_off;
            claimed.lease = Some(leases.keep(&claimed.claim, &self.lease, &tenant.store, self.until));
            let event_id = event.id.as_str().to_owned();
            let started = Started { id, event_id, webhook: webhook.to_owned(), attempt: 1, at_ms };
            let event = ToSend {
                code: event.code,
                customer_code: event.customer_code.clone(),
                body: Some(event.body.clone()),
                is_test: false,
            };
            let attempt = Attempt { tenant: Arc::clone(tenant), started, lease: self.lease.clone(), event };
            batches.make(attempt, claimed);
        }
        others
    }

    /// Forgets deliveries that were not stored for certain.
    pub async fn forget(&mut self, ids: impl IntoIterator<Item = DeliveryId>) {
        let forgotten =
            ids.into_iter().filter_map(|id| self.claimed.remove(&id)).map(|claimed| (claimed, None));
        let forgotten = forgotten.collect();
        self.hand_off.settle.settle(forgotten).await;
    }
}
