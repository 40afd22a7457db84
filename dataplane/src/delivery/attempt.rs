//! The attempts of deliveries: the [`Worker`] of a process takes each through these files, in this order:
//!
//! 1. `claim` claims due deliveries from the schedule, as many as slots are free.
//! 2. `batch` takes the claims of one tenant through the steps below.
//! 3. `begin` counts the attempts and leases the rows, in one transaction of the tenant's database.
//! 4. [`send`] makes the POST.
//! 5. `finish` asks the domain for the transition and stores the outcome.
//! 6. `settle` ends the claim in the schedule.
//!
//! The row decides: a claim whose row is leased by another worker or finished is settled without an attempt. A delivery that this process
//! has saved itself may skip the first and the third step: see `hand_off`. `lease` renews the leases of long attempts.

mod batch;
mod begin;
mod claim;
mod finish;
mod hand_off;
mod lease;
pub mod send;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use docket_egress::Sender;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::Admission;
use super::outbox::Outbox;
use super::upkeep::report::Active;
use crate::telemetry::{Jobs, Metrics, Running};
use crate::tenancy::Tenants;
use crate::tenancy::groups::Groups;
use batch::ToBegin;
use finish::EndedAttempt;
pub use hand_off::HandedOff;
use lease::Leases;

/// The settings of the worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerSettings {
    /// How often to claim when nothing wakes the worker; at least every [`LOOK_EVERY`](docket_schedule::LOOK_EVERY).
    pub poll_interval: Duration,
    /// The delay after failed attempt `n` is `2^n` times this.
    pub backoff_base: Duration,
    /// The most attempts at once, over all tenants.
    pub slots: usize,
    /// How long shutdown waits for running attempts: the longest attempt, and the time to store its outcome.
    pub drain: Duration,
}

/// Makes attempts; one per process. Each step is in its own file.
pub struct Worker {
    clock: Clock,
    tenants: Arc<Tenants>,
    outbox: Arc<Outbox>,
    sender: Sender,
    settings: WorkerSettings,
    metrics: Arc<Metrics>,
    admission: Arc<Admission>,
    leases: Arc<Leases>,
    /// Claims whose attempts are to be begun, bounded by the slots.
    to_begin: Arc<Groups<ToBegin>>,
    /// Attempts whose outcomes are to be stored, bounded by the shares of the tenants.
    to_finish: Arc<Groups<EndedAttempt>>,
    /// The tenants that had attempts, for [`report`](crate::delivery::upkeep::report).
    pub active: Arc<Active>,
    /// Batches, and attempts until their outcomes are stored. Shutdown waits for them.
    tasks: TaskTracker,
    /// Cancelled at shutdown: no POST begins any more.
    stopping: CancellationToken,
}

impl Worker {
    /// Creates a worker for the schedule and the tenants of the outbox. It claims nothing until [`run`](Self::run), but makes the attempts
    /// that are handed off to it.
    pub fn new(
        clock: Clock,
        outbox: Arc<Outbox>,
        sender: Sender,
        settings: WorkerSettings,
        owner: Owner,
    ) -> Arc<Self> {
        let (tenants, metrics) = (Arc::clone(&outbox.tenants), Arc::clone(&outbox.metrics));
        let admission = Admission::new(clock.clone(), settings.slots);
        let (schedule, renewing) = (Arc::clone(&outbox.schedule), Arc::clone(&metrics));
        let leases = Leases::new(clock.clone(), Arc::clone(&tenants), schedule, owner, renewing);
        // The closure leaves out the worker itself, which has the metrics: two values that own each other would never be freed.
        let (admitted, kept, sending) = (Arc::clone(&admission), leases.kept(), sender.clone());
        metrics.delivery.watch(move || Running {
            leases: kept.count(),
            connections: sending.connections(),
            ..admitted.running()
        });
        Arc::new(Self {
            to_begin: Groups::new(Jobs::Begin, batch::GROUP, batch::TURNS, &tenants, &metrics),
            to_finish: Groups::new(Jobs::Finish, finish::GROUP, 1, &tenants, &metrics),
            clock,
            tenants,
            outbox,
            sender,
            settings,
            metrics,
            admission,
            leases: Arc::new(leases),
            active: Arc::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        })
    }
}
