//! One tenant's turn: a batch of new invoices of each family.

use std::sync::Arc;
use std::time::Duration;

use docket_domain::invoice::InvoiceFamily;
use docket_program::clock::Clock;
use docket_schedule::Schedule;
use docket_schedule::notifier::Notifier;
use docket_store::sqlite::FileState;
use docket_store::{Database, StoreError};
use tokio_util::sync::CancellationToken;

use crate::actions::detect_invoices::{Detected, count_waiting, detect_invoices};
use crate::telemetry::Metrics;
use crate::tenants::ServedTenant;

/// The dependencies of a turn.
pub(super) struct Scanner<S> {
    pub(super) clock: Clock,
    pub(super) notifier: Notifier<S>,
    pub(super) metrics: Arc<Metrics>,
}

/// What the detector remembers of a tenant between turns.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The state of its files when they were last read to the end, and whether two reads in a row saw that state.
    seen: Option<(FileState, bool)>,
    /// The detector opened its connections and has to close them.
    opened: bool,
    /// The number of new invoices without their work order that was logged last.
    waiting: i64,
}

impl Memory {
    /// Whether nothing was written since. File times are coarse: a second write in the same tick does not change them.
    /// So files that look unchanged are read once more before they count as settled.
    fn is_settled(&self, files: Option<&FileState>) -> bool {
        files.is_some_and(|now| self.seen.as_ref().is_some_and(|(seen, twice)| *twice && seen == now))
    }

    fn has_read(&mut self, files: Option<FileState>) {
        let before = self.seen.take();
        self.seen = files.map(|now| {
            let twice = before.is_some_and(|(seen, _)| seen == now);
            (now, twice)
        });
    }
}

impl<S: Schedule> Scanner<S> {
    /// Publishes a batch of new invoices of each family. Returns whether there may be more.
    pub(super) async fn scan(
        &self,
        tenant: &ServedTenant,
        memory: &mut Memory,
        shutdown: &CancellationToken,
    ) -> Result<bool, StoreError> {
        let database = tenant.store.database();
        let files = database.file_state();
        let does_not_exist = files.as_ref().is_some_and(FileState::does_not_exist);
        if does_not_exist || memory.is_settled(files.as_ref()) {
            return Ok(false);
        }
        memory.opened |= !database.is_open();
        let result = self.read(tenant, memory, shutdown).await;
        match result {
            Ok(false) => memory.has_read(files),
            _ => memory.seen = None,
        }
        let continues = matches!(result, Ok(true)) && !shutdown.is_cancelled();
        if !continues && std::mem::take(&mut memory.opened) {
            // A thousand open databases would cost hundreds of megabytes, or a thousand connections.
            database.close_idle(Duration::ZERO).await;
        }
        result
    }

    async fn read(
        &self,
        tenant: &ServedTenant,
        memory: &mut Memory,
        shutdown: &CancellationToken,
    ) -> Result<bool, StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        let (mut more, mut failed) = (false, None);
        for family in InvoiceFamily::ALL {
            match detect_invoices(database, tenant, family, &self.clock).await {
                Ok(mut detected) => {
                    more |= detected.full;
                    failed = detected.failed.take().or(failed);
                    self.record(tenant, family, detected).await;
                }
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                // A problem with one table must not keep the other families from being published.
                Err(error) => failed = Some(error),
            }
            if shutdown.is_cancelled() {
                return Ok(true);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if !more {
            warn_of_waiting(database, tenant, memory).await?;
        }
        Ok(more)
    }

    /// Counts, logs and schedules what a committed transaction detected.
    async fn record(&self, tenant: &ServedTenant, family: InvoiceFamily, detected: Detected) {
        let Detected { count, hints, full: _, failed: _ } = detected;
        if count == 0 {
            return;
        }
        self.metrics.detected(count);
        tracing::info!(
            tenant.code = tenant.config.client_code.as_str(),
            order_type = family.as_str(),
            invoices = count,
            deliveries = hints.len(),
            "invoices detected"
        );
        self.notifier.notify(hints).await;
    }
}

/// Logs how many new invoices refer to a work order that does not exist, whenever that number changes.
async fn warn_of_waiting(
    database: &Database,
    tenant: &ServedTenant,
    memory: &mut Memory,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_settled_once_two_reads_saw_the_same_state() {
        let (one, other) = (FileState::default(), FileState::of_length(1));
        let mut memory = Memory::default();
        for (files, settled) in [(&one, false), (&one, true), (&other, false), (&one, false), (&one, true)] {
            assert!(!memory.is_settled(Some(files)));
            memory.has_read(Some(files.clone()));
            assert_eq!(memory.is_settled(Some(files)), settled);
        }
        assert!(!memory.is_settled(None));
        memory.has_read(None);
        assert!(!memory.is_settled(Some(&one)));
    }
}
