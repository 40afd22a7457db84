//! The first step, and the worker, which takes it: claims due deliveries, as many as slots are free, and hands them to a batch for each
//! tenant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{CLAIM_LIMIT, LEASE};
use docket_egress::Sender;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_schedule::{LOOK_EVERY, Room, ScheduleError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::batch::{self, Batches};
use super::begin::Begin;
use super::finish::{self, Finish};
use super::hand_off::HandOff;
use super::lease::{Leases, RenewedLeases};
use super::settle::{Claimed, Settle};
use crate::delivery::admission::{self, Admission};
use crate::delivery::outbox::Outbox;
use crate::delivery::upkeep::overdue;
use crate::delivery::upkeep::report::Active;
use crate::telemetry::{Jobs, Metrics, Running, ScheduleCall};
use crate::tenancy::Tenants;
use crate::tenancy::groups::Groups;

/// How long to wait before the next claim when the schedule is unavailable.
const SCHEDULE_AWAY: Duration = Duration::from_secs(1);
/// How often to claim while slow attempts use all of their slots, or attempts use all slots: what is due may be for quick webhooks or for
/// slow ones.
const SLOW_FULL: Duration = Duration::from_millis(100);

/// The settings of the worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerSettings {
    /// How often to claim when nothing wakes the worker; at least every [`LOOK_EVERY`].
    pub poll_interval: Duration,
    /// The delay after failed attempt `n` is `2^n` times this.
    pub backoff_base: Duration,
    /// The most attempts at once, over all tenants.
    pub slots: usize,
    /// How long shutdown waits for running attempts: the longest attempt, and the time to store its outcome.
    pub drain: Duration,
}

/// The worker; one per process.
pub struct Worker {
    clock: Clock,
    outbox: Arc<Outbox>,
    settings: WorkerSettings,
    admission: Arc<Admission>,
    /// Batches, and attempts until their outcomes are stored.
    tasks: TaskTracker,
    leases: Arc<Leases>,
    batches: Arc<Batches>,
    active: Arc<Active>,
    metrics: Arc<Metrics>,
}

impl Worker {
    /// Creates a worker of the outbox's schedule, which does nothing until [`run`](Self::run).
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        outbox: Arc<Outbox>,
        sender: Sender,
        settings: WorkerSettings,
        owner: Owner,
        metrics: Arc<Metrics>,
    ) -> Self {
        let WorkerSettings { backoff_base, slots, .. } = settings;
        let (tasks, active) = (TaskTracker::new(), Arc::<Active>::default());
        let admission = Admission::new(clock.clone(), slots);
        let leases = Arc::new(Leases::new(
            clock.clone(),
            Arc::clone(&tenants),
            Arc::clone(&outbox.schedule),
            owner,
            Arc::clone(&metrics),
        ));
        metrics.delivery.watch(running(Arc::clone(&admission), leases.kept(), sender.clone()));
        let settle = Arc::new(Settle {
            tenants: Arc::clone(&tenants),
            outbox: Arc::clone(&outbox),
            metrics: Arc::clone(&metrics),
        });
        let finish = Arc::new(Finish {
            clock: clock.clone(),
            backoff_base,
            metrics: Arc::clone(&metrics),
            active: Arc::clone(&active),
            settle: Arc::clone(&settle),
            tasks: tasks.clone(),
            groups: Groups::new(Jobs::Finish, finish::GROUP, 1, &tenants, &metrics),
        });
        let begin = Begin { clock: clock.clone(), backoff_base, metrics: Arc::clone(&metrics) };
        let to_begin = Groups::new(Jobs::Begin, batch::GROUP, batch::TURNS, &tenants, &metrics);
        let batches = Arc::new(Batches {
            clock: clock.clone(),
            tenants,
            leases: Arc::clone(&leases),
            begin,
            to_begin,
            sender,
            finish,
            settle,
            tasks: tasks.clone(),
            stopping: CancellationToken::new(),
        });
        Self { clock, outbox, settings, admission, tasks, leases, batches, active, metrics }
    }

    /// The tenants that had attempts, for [`report`](crate::delivery::upkeep::report).
    pub fn active(&self) -> Arc<Active> {
        Arc::clone(&self.active)
    }

    /// What takes the deliveries that this process saves.
    pub fn hand_off(&self) -> Arc<HandOff> {
        Arc::new(HandOff {
            clock: self.clock.clone(),
            outbox: Arc::clone(&self.outbox),
            admission: Arc::clone(&self.admission),
            leases: Arc::clone(&self.leases),
            batches: Arc::clone(&self.batches),
            settle: Arc::clone(&self.batches.settle),
            metrics: Arc::clone(&self.metrics),
        })
    }

    /// Works until shutdown is requested, then waits for the running attempts.
    pub async fn run(self, shutdown: CancellationToken) {
        let renewing = tokio::spawn(Arc::clone(&self.leases).run());
        let (clock, schedule) = (self.clock.clone(), Arc::clone(&self.outbox.schedule));
        let counting = tokio::spawn(overdue::count(clock, schedule, Arc::clone(&self.metrics)));
        while !shutdown.is_cancelled() {
            // Not cut off by shutdown: a claim without its task would have to expire first.
            let claimed = self.claim_once().await;
            tokio::select! {
                () = self.wait_after(claimed) => {}
                () = shutdown.cancelled() => break,
            }
        }
        self.admission.close();
        self.batches.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.settings.drain, self.tasks.wait()).await.is_err() {
            tracing::warn!("shut down with attempts running; they are taken over when their leases expire");
        }
        renewing.abort();
        counting.abort();
    }

    /// One poll: claims due deliveries, within the free slots and the contract's limit, and starts a task for each
    /// tenant's. Returns the number of claims, and the room that is left.
    async fn claim_once(&self) -> Result<(usize, Room), ScheduleError> {
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
                let claimed = Claimed { claim, permit: None, slot: Some(slot), lease: None, held: None };
                by_tenant.entry(tenant).or_default().push(claimed);
            }
        }
        for (tenant_uid, claimed) in by_tenant {
            self.tasks.spawn(Arc::clone(&self.batches).run(tenant_uid, claimed, until));
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

    async fn wait_for_work(&self) {
        let poll = self.settings.poll_interval;
        // Before the look at the room, so that no slot is freed unseen in between.
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

/// Returns what reads for the metrics what a worker does.
fn running(
    admission: Arc<Admission>,
    leases: Arc<RenewedLeases>,
    sender: Sender,
) -> impl Fn() -> Running + Send + Sync + 'static {
    move || Running { leases: leases.count(), connections: sender.connections(), ..admission.running() }
}

/// Whether a claim of so many that left this room may have left entries that another one would find at once.
fn may_have_left_some(claimed: usize, left: Room) -> bool {
    // With room for all, it took what was due. Should any be left, the schedule says that it is due now.
    claimed > 0 && left.slow <= left.without_claim
}

/// How long to wait for the next claim after one that left nothing, with this room and the time until something is due.
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
