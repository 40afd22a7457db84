//! The invoice detector: finds invoices that other programs inserted into the tenants' databases, and publishes each
//! once as invoice.created.
//!
//! `rounds` decides which tenant is next, `scan` is the visit of one tenant, and `detect_invoices` is one
//! transaction of a visit. A crash loses nothing: the database marks which invoices are new.

pub mod detect_invoices;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use tokio_util::sync::CancellationToken;

use crate::delivery::outbox::Outbox;
use crate::telemetry::{Metrics, Task};
use crate::tenancy::Tenants;
use crate::tenancy::rounds::{EndedVisit, Lane, Rounds};
use scan::{DetectorState, Scanned, Scanner};

/// Databases scanned at once. Each visit uses one connection.
pub const PLACES: usize = 4;

/// The detector. Several processes may each run a detector on the same databases.
pub struct Detector {
    scanner: Arc<Scanner>,
    rounds: Rounds<DetectorState, Option<Scanned>>,
    interval: Duration,
}

impl Detector {
    /// Creates a detector. [`run`](Self::run) scans each database at every interval. If `max_age` is not zero, older invoices are
    /// not published.
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        outbox: Arc<Outbox>,
        metrics: Arc<Metrics>,
        interval: Duration,
        max_age: Duration,
    ) -> Self {
        let rounds = Rounds::new(Task::Detector, clock.clone(), Arc::clone(&metrics), PLACES);
        Self { scanner: Arc::new(Scanner { clock, tenants, outbox, metrics, max_age }), rounds, interval }
    }

    /// Detects invoices until shutdown is requested, then waits for the batches under way.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let scanner = Arc::clone(&self.scanner);
        let visit = |uid, memory| Arc::clone(&scanner).visit(uid, memory, shutdown.clone());
        while let Some(ended) =
            shutdown.run_until_cancelled(self.rounds.next_of_all(&scanner.tenants, visit)).await
        {
            self.end(ended);
        }
        while let Some(ended) = self.rounds.join().await {
            self.end(ended);
        }
    }

    /// Plans the tenant's next visit: an interval after this visit began, or now if there are more invoices.
    fn end(&mut self, (visit, result): EndedVisit<Option<Scanned>>) {
        let Scanner { clock, tenants, metrics, .. } = &*self.scanner;
        let (memory, result) = match result {
            Ok(None) => return,
            Ok(Some((memory, result))) => (memory, result.map_err(|error| error.to_string())),
            Err(panic) => (DetectorState::default(), Err(format!("internal error: {panic}"))),
        };
        let later = visit.begun + self.interval;
        let (lane, due) = match result {
            Ok(true) => (Lane::Main, clock.elapsed()),
            Ok(false) => (Lane::Main, later),
            Err(error) => {
                metrics.scan_failed();
                if visit.lane == Lane::Main
                    && let Some(tenant) = tenants.by_uid(&visit.uid)
                {
                    let code = tenant.config.client_code.as_str();
                    tracing::warn!(tenant.code = code, error = %error, "scanning for invoices failed; retrying");
                }
                (Lane::Aside, later)
            }
        };
        self.rounds.timetable.plan(&visit.uid, lane, due, memory);
    }
}
