//! The first step: claims due deliveries, as many as slots are free, and hands them to a batch for each tenant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{CLAIM_LIMIT, LEASE};
use docket_schedule::{LOOK_EVERY, Room, ScheduleError};
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::settle::Claimed;
use crate::delivery::admission;
use crate::delivery::upkeep::overdue;
use crate::telemetry::ScheduleCall;

/// How long to wait before the next claim when the schedule is unavailable.
const SCHEDULE_AWAY: Duration = Duration::from_secs(1);
/// How often to claim while slow attempts use all of their slots, or attempts use all slots: what is due may be for quick webhooks or for
/// slow ones.
const SLOW_FULL: Duration = Duration::from_millis(100);

impl Worker {
    /// Works until shutdown is requested, then waits for the running attempts.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let renewing = tokio::spawn(Arc::clone(&self.leases).run());
        let (clock, schedule) = (self.clock.clone(), Arc::clone(&self.outbox.schedule));
        let counting = tokio::spawn(overdue::count(clock, schedule, Arc::clone(&self.metrics)));
        while !shutdown.is_cancelled() {
            // Shutdown does not cut a claim off: without its task, the claim would have to expire first.
            let claimed = self.claim_once().await;
            tokio::select! {
                () = self.wait_after(claimed) => {}
                () = shutdown.cancelled() => break,
            }
        }
        self.admission.close();
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.settings.drain, self.tasks.wait()).await.is_err() {
            tracing::warn!("shut down with attempts running; they are taken over when their leases expire");
        }
        renewing.abort();
        counting.abort();
    }

    /// One poll: claims due deliveries, within the free slots and the contract's limit, and starts a task for each
    /// tenant's. Returns the number of claims, and the room that is left.
    async fn claim_once(self: &Arc<Self>) -> Result<(usize, Room), ScheduleError> {
        let mut reserved = self.admission.claim(CLAIM_LIMIT);
        // Taken before the claim, which needs time too: no lease may be assumed to last longer than it does.
        let until = self.clock.elapsed() + LEASE;
        let claims = self.outbox.schedule.claim(reserved.room(), LEASE).await;
        let claims = claims.inspect_err(|_| self.metrics.delivery.schedule_failed(ScheduleCall::Claim))?;
        if reserved.room().slots > 0 {
            self.metrics.delivery.claimed(&claims);
        }
        let count = claims.len();
        let mut by_tenant: BTreeMap<Arc<str>, Vec<Claimed>> = BTreeMap::new();
        for claim in claims {
            if let Some(slot) = reserved.take(claim.quick) {
                let tenant = Arc::clone(&claim.entry.tenant);
                by_tenant.entry(tenant).or_default().push(Claimed::new(claim, slot, None));
            }
        }
        for (tenant_uid, claimed) in by_tenant {
            self.tasks.spawn(Arc::clone(self).run_batch(tenant_uid, claimed, until));
        }
        Ok((count, reserved.room()))
    }

    /// Waits until the next claim makes sense.
    async fn wait_after(&self, claimed: Result<(usize, Room), ScheduleError>) {
        match claimed {
            Ok((count, left)) if may_have_left_some(count, left) => {}
            Ok(_) => self.wait_for_work().await,
            Err(error) => {
                tracing::warn!(error = %error, "claiming deliveries failed; retrying");
                self.clock.sleep(SCHEDULE_AWAY).await;
            }
        }
    }

    /// Waits until an entry may be due and there is room for its attempt.
    async fn wait_for_work(&self) {
        let poll = self.settings.poll_interval;
        // This begins to listen before it reads the room, so that no slot is freed unseen in between.
        let freed = self.admission.freed();
        let room = self.admission.room(CLAIM_LIMIT);
        let wait = match self.outbox.schedule.next_due().await {
            Ok(due) => pause(room, due, poll),
            Err(_) => poll.min(SCHEDULE_AWAY),
        };
        tokio::select! {
            () = self.outbox.schedule.changed() => {}
            () = self.clock.sleep(wait) => {}
            () = freed, if room.slow <= room.without_claim => {}
        }
    }
}

/// Whether another claim would find entries at once, after one of `claimed` entries that left this room.
fn may_have_left_some(claimed: usize, left: Room) -> bool {
    // With room for all, the claim took what was due. If entries are left, the schedule says that they are due now.
    claimed > 0 && left.slow <= left.without_claim
}

/// Returns how long to wait for the next claim, with this room and this time until something is due.
fn pause(room: Room, due: Option<Duration>, poll: Duration) -> Duration {
    let poll = poll.min(LOOK_EVERY);
    let due = due.unwrap_or(poll);
    match room {
        // What is due may be claimed at once.
        Room { slow, without_claim, .. } if slow > without_claim => due.min(poll),
        // What is due may wait until others have begun.
        Room { slots: 1.., slow: 0, .. } => due.clamp(admission::START, poll.max(admission::START)),
        // What is due may wait for a slow slot, or until an attempt becomes slow and leaves its slot.
        Room { .. } => due.clamp(SLOW_FULL, poll.max(SLOW_FULL)),
    }
}

#[cfg(test)]
mod tests;
