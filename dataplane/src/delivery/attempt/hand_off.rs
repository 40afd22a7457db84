//! Hand-offs: deliveries that the process that saved them POSTs from memory, without reading them again.
//!
//! A hand-off takes a slot of the worker and places of its webhook and its tenant in the schedule, as a claim does, before it is
//! stored with its first attempt counted and leased. Without a free place, or with a backlog, the delivery is queued and
//! claimed later. The POST begins after a confirmed COMMIT.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, LEASE};
use docket_schedule::Hint;
use docket_store::deliveries::{Lease, NewHandOff, Started};
use docket_store::events::{Event, ToSend};
use docket_store::saves::Save;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Worker;
use super::begin::Attempt;
use super::settle::Claimed;
use crate::delivery::admission::SavePermits;
use crate::delivery::outbox::Ticket;
use crate::delivery::upkeep::sweep;
use crate::tenancy::ServedTenant;

/// The number of slots that a group reserves if it has fewer save permits. It reserves them before the schedule says how many deliveries
/// are claimed, and must not keep them from other tenants. Claims beyond the permits count against none: their group has waited for 0.25 s
/// already, and the places of the tenant in the schedule limit them.
const WITHOUT_PERMITS: usize = 64;

/// The deliveries of one transaction that are handed off.
pub struct HandedOff {
    worker: Arc<Worker>,
    claimed: HashMap<DeliveryId, Claimed>,
    lease: Lease,
    /// When the claims end, by [`Clock::elapsed`](docket_program::clock::Clock::elapsed).
    until: Duration,
    /// Makes a worker that stops wait until these deliveries begin, or are given back.
    _running: TaskTrackerToken,
}

impl Worker {
    /// Waits for save permits for the deliveries of a group, or for half of the tenant's permits. `None`: they were not free until 0.25 s
    /// after `since`, by [`Clock::elapsed`](docket_program::clock::Clock::elapsed).
    pub async fn permits(
        &self,
        tenant: &ServedTenant,
        since: Duration,
        deliveries: usize,
    ) -> Option<SavePermits> {
        let (begun, most) = (self.clock.elapsed(), sweep::shares(tenant).claims);
        let permits = self.admission.save(&tenant.uid, most, since, deliveries).await;
        let waited = self.clock.elapsed().saturating_sub(begun);
        self.metrics.delivery.save_waited(waited, permits.is_some());
        permits
    }

    /// Announces the deliveries of a group, and claims the deliveries that this process may attempt now. If there are more claims than
    /// permits, the others have none. If the schedule does not respond, there are no claims. The ticket is for the deliveries without a
    /// claim.
    pub async fn hand_off(
        self: &Arc<Self>,
        hints: Vec<Hint>,
        permits: Option<SavePermits>,
    ) -> (Ticket, HandedOff) {
        let running = self.tasks.token();
        let until = self.clock.elapsed() + LEASE;
        let permitted = permits.as_ref().map_or(0, SavePermits::count);
        let mut reserved = self.admission.claim(slots(hints.len(), permitted));
        let (ticket, hand_offs) = self.outbox.hand_off(hints, reserved.room()).await;
        let (claims, queued) = (hand_offs.claims, hand_offs.quick_waiting);
        let permits = permits.map(|permits| permits.assign(&self.clock, claims.len(), queued));
        let mut permits = permits.into_iter().flatten();
        let mut claimed = HashMap::with_capacity(claims.len());
        for claim in claims {
            if let Some(slot) = reserved.take(claim.quick) {
                claimed.insert(claim.entry.id, Claimed::new(claim, slot, permits.next()));
            }
        }
        let lease = self.leases.new_lease().of_first_attempts(claimed.len());
        (ticket, HandedOff { worker: Arc::clone(self), claimed, lease, until, _running: running })
    }
}

impl HandedOff {
    /// Returns the lease of this delivery; `None`: it is not handed off.
    pub fn lease_of(&self, id: DeliveryId) -> Option<&Lease> {
        self.claimed.contains_key(&id).then_some(&self.lease)
    }

    /// Begins the POSTs of all hand-offs of committed saves. Each save has its tenant as it was when the request came. `at_ms` is the time
    /// of the transaction. If the commit took longer than the lease, another worker may have the deliveries already: they are given back.
    pub fn start<'a>(
        mut self,
        saves: impl Iterator<Item = (&'a Arc<ServedTenant>, &'a Save)> + Clone,
        at_ms: i64,
    ) {
        let worker = &self.worker;
        let has_expired = worker.clock.elapsed() >= self.until;
        if !has_expired {
            worker.metrics.delivery.handed_off(saves.clone().map(|(_, save)| save.hand_offs.len()).sum());
        }
        for (tenant, save) in saves {
            for (event, hand_off) in save.handed_off() {
                let Some(mut claimed) = self.claimed.remove(&hand_off.id) else { continue };
                let kept = worker.leases.keep(&claimed.claim, &self.lease, &tenant.store, self.until);
                claimed.lease = Some(kept);
                let attempt = first_attempt(tenant, event, hand_off, at_ms);
                match has_expired {
                    true => worker.decline(attempt, claimed),
                    false => worker.make(attempt, claimed),
                }
            }
        }
    }

    /// Ends the claims: the deliveries were certainly not stored.
    pub async fn rolled_back(self) {
        let ended = self.claimed.into_values().map(|claimed| (claimed, None)).collect();
        self.worker.settle(ended).await;
    }
}

/// Returns how many slots a group of this many deliveries reserves, with this number of save permits.
fn slots(deliveries: usize, permits: usize) -> usize {
    deliveries.min(permits.max(WITHOUT_PERMITS))
}

/// Returns the attempt of a hand-off that was committed with the attempt begun at `at_ms`.
fn first_attempt(tenant: &Arc<ServedTenant>, event: &Event, hand_off: &NewHandOff, at_ms: i64) -> Attempt {
    let NewHandOff { id, webhook, lease, .. } = hand_off;
    let (event_id, webhook) = (event.id.as_str().to_owned(), webhook.clone());
    let to_send = ToSend {
        code: event.code.as_str().into(),
        customer_code: event.customer_code.clone(),
        body: Some(event.body.clone()),
        is_test: false,
    };
    Attempt {
        tenant: Arc::clone(tenant),
        started: Started { id: *id, event_id, webhook, attempt: 1, at_ms },
        lease: lease.clone(),
        event: Some(to_send),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_reserves_a_slot_for_each_permit_and_64_in_any_case() {
        assert_eq!([slots(500, 0), slots(500, 63), slots(500, 65)], [64, 64, 65]);
        assert_eq!([slots(9, 0), slots(9, 65)], [9, 9], "it has no more deliveries");
    }
}
