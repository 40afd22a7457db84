//! The last step: ends claims in the schedule.

use std::time::Duration;

use docket_schedule::{Claim, Ended, Entry, Hint};

use super::Worker;
use super::lease::KeptLease;
use crate::delivery::admission::{SavePermit, Slot};
use crate::telemetry::ScheduleCall;

/// The wait until a delivery is due again whose webhook or tenant this process may not know yet.
pub(super) const UNKNOWN_AGAIN: Duration = Duration::from_secs(30);

/// A claim, and what it uses until it is settled.
pub(super) struct Claimed {
    pub(super) claim: Claim,
    /// The save permit of a hand-off; `None` if its group had too few.
    pub(super) permit: Option<SavePermit>,
    /// `None` once the POST has ended.
    pub(super) slot: Option<Slot>,
    /// `None` until the batch of its tenant begins.
    pub(super) lease: Option<KeptLease>,
    /// How long the attempt took; `None`: there was none.
    pub(super) held: Option<Duration>,
}

/// A claim to settle, and how long until its entry is due again; `None`: never, the entry is removed.
pub(super) type ToSettle = (Claimed, Option<Duration>);

impl Claimed {
    pub(super) fn new(claim: Claim, slot: Slot, permit: Option<SavePermit>) -> Self {
        Self { claim, permit, slot: Some(slot), lease: None, held: None }
    }
}

impl Worker {
    /// Ends claims. Before it calls the schedule it drops their leases, so that no settled claim is renewed, and frees
    /// their slots, so that the worker that the schedule wakes finds them free. Their permits are free when the schedule has responded,
    /// so that it has places for the deliveries of the saves that wait for these permits.
    pub(super) async fn settle(&self, ended: Vec<ToSettle>) {
        let end =
            |(Claimed { claim, permit, held, .. }, again): ToSettle| (Ended { claim, again, held }, permit);
        let (ended, _permits): (Vec<Ended>, Vec<Option<SavePermit>>) = ended.into_iter().map(end).unzip();
        if ended.is_empty() {
            return;
        }
        match self.outbox.schedule.settle(ended).await {
            Ok(changes) => self.metrics.delivery.shares_changed(changes),
            Err(error) => {
                self.metrics.delivery.schedule_failed(ScheduleCall::Settle);
                tracing::warn!(error = %error, "settling claims failed; the claims expire by themselves");
            }
        }
    }

    /// Ends claims whose tenant or webhook is not served. Their rows leave the schedule; a sweep indexes them again, because every tenant
    /// whose configuration changes is swept.
    pub(super) async fn put_on_hold(&self, claimed: Vec<Claimed>) {
        let entries: Vec<Entry> = claimed.iter().map(|claimed| claimed.claim.entry.clone()).collect();
        // With outdated configuration this process cannot decide that the tenant is gone.
        let again = (!self.tenants.is_current()).then_some(UNKNOWN_AGAIN);
        self.settle(claimed.into_iter().map(|claimed| (claimed, again)).collect()).await;
        // The sweep may have skipped entries as claimed whose tenant and webhook came back meanwhile.
        let is_back = |entry: &Entry| {
            let tenant = self.tenants.by_uid(&entry.tenant);
            tenant.is_some_and(|tenant| !tenant.config.suspended && tenant.webhook(&entry.webhook).is_some())
        };
        let hint = |entry| Hint { entry, wait: Duration::ZERO };
        self.outbox.committed(entries.into_iter().filter(is_back).map(hint).collect()).await;
    }
}
