//! A visit of one tenant: a batch of new invoices of each family.

use std::sync::Arc;
use std::time::Duration;

use docket_domain::invoice::InvoiceFamily;
use docket_program::clock::Clock;
use docket_store::{Database, DatabaseState, StoreError};
use tokio_util::sync::CancellationToken;

use super::detect_invoices::{Detected, count_waiting, detect_invoices};
use crate::delivery::outbox::Outbox;
use crate::telemetry::{Metrics, Reader, Task};
use crate::tenancy::seen::Seen;
use crate::tenancy::{ServedTenant, Tenants};

/// The dependencies of a visit.
pub(super) struct Scanner {
    pub(super) clock: Clock,
    pub(super) tenants: Arc<Tenants>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) metrics: Arc<Metrics>,
    /// Older invoices are not published; zero: all invoices are.
    pub(super) max_age: Duration,
}

/// What the detector remembers of a tenant between visits.
#[derive(Debug, Default)]
pub(super) struct DetectorState {
    /// The state of the database when it was last read to the end.
    seen: Seen,
    /// The last logged number of new invoices without a work order.
    waiting: i64,
}

/// What a visit returns: what to remember, and whether there may be more invoices.
pub(super) type Scanned = (DetectorState, Result<bool, StoreError>);

/// What a visit left in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nothing. The next write changes the database's state.
    Nothing,
    /// Invoices that another session has locked, and may give back without a write.
    Taken,
    /// There may be more new invoices.
    More,
}

impl Scanner {
    /// Scans a tenant as it is served now. The invoices of a suspended tenant wait. Returns `None` if the tenant is no longer served.
    pub(super) async fn visit(
        self: Arc<Self>,
        uid: Arc<str>,
        mut memory: DetectorState,
        shutdown: CancellationToken,
    ) -> Option<Scanned> {
        let tenant = self.tenants.by_uid(&uid)?;
        let result = match tenant.config.suspended {
            true => Ok(false),
            false => self.scan(&tenant, &mut memory, &shutdown).await,
        };
        Some((memory, result))
    }

    /// Publishes a batch of new invoices of each family. Returns whether there may be more.
    async fn scan(
        &self,
        tenant: &ServedTenant,
        memory: &mut DetectorState,
        shutdown: &CancellationToken,
    ) -> Result<bool, StoreError> {
        let database = tenant.store.database();
        // Read before the database itself, so that a write during the scan counts as a change.
        let (state, now) = (database.state(), self.clock.elapsed());
        if memory.seen.is_current(state.as_ref(), now) {
            self.metrics.unchanged(Reader::Detector);
            return Ok(false);
        }
        if state.as_ref().is_some_and(DatabaseState::does_not_exist) {
            return Ok(false);
        }
        let visit = tenant.store.visit();
        let result = self.read(tenant, memory, shutdown).await;
        self.metrics.upkeep.visited(Task::Detector, result.is_ok());
        match result {
            Ok(Rest::Nothing) => memory.seen.has_read(state, now, &tenant.uid),
            _ => memory.seen.forget(),
        }
        let continues = matches!(result, Ok(Rest::More)) && !shutdown.is_cancelled();
        if !continues {
            visit.end().await;
        }
        result.map(|rest| rest == Rest::More)
    }

    async fn read(
        &self,
        tenant: &ServedTenant,
        memory: &mut DetectorState,
        shutdown: &CancellationToken,
    ) -> Result<Rest, StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        let (mut more, mut left, mut failed) = (false, false, None);
        for family in InvoiceFamily::ALL {
            match detect_invoices(database, tenant, &self.outbox, family, self.max_age, &self.clock).await {
                Ok(mut detected) => {
                    more |= detected.full;
                    left |= detected.left;
                    failed = detected.failed.take().or(failed);
                    self.record(tenant, family, detected);
                }
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                // A problem with one table must not keep the other families from being published.
                Err(error) => failed = Some(error),
            }
            if shutdown.is_cancelled() {
                return Ok(Rest::More);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if more {
            return Ok(Rest::More);
        }
        warn_of_waiting(database, tenant, memory).await?;
        Ok(if left { Rest::Taken } else { Rest::Nothing })
    }

    /// Counts and logs what a committed transaction detected.
    fn record(&self, tenant: &ServedTenant, family: InvoiceFamily, detected: Detected) {
        let Detected { count, old, hints, full: _, left: _, failed: _ } = detected;
        if count == 0 {
            return;
        }
        self.metrics.detected(count - old);
        tracing::info!(
            tenant.code = tenant.config.client_code.as_str(),
            order_type = family.as_str(),
            invoices = count - old,
            older_than_max_age = old,
            deliveries = hints.len(),
            "invoices detected"
        );
    }
}

/// Logs how many new invoices refer to a work order that does not exist, whenever that number changes.
async fn warn_of_waiting(
    database: &Database,
    tenant: &ServedTenant,
    memory: &mut DetectorState,
) -> Result<(), StoreError> {
    let waiting = count_waiting(database).await?;
    if std::mem::replace(&mut memory.waiting, waiting) != waiting && waiting > 0 {
        let code = tenant.config.client_code.as_str();
        tracing::warn!(
            tenant.code = code,
            invoices = waiting,
            "new invoices refer to a work order that does not exist; they are published once it does"
        );
    }
    Ok(())
}
