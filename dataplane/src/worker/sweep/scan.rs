//! The sweep of one tenant: tidies its database, then schedules its unfinished deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_board::Board;
use docket_domain::delivery::FailureClass;
use docket_program::clock::{Clock, millis};
use docket_schedule::Schedule;
use docket_store::deliveries::{self, Due};
use docket_store::{Database, StoreError, idempotency};
use jiff::Timestamp;

use crate::telemetry::Metrics;
use crate::tenants::ServedTenant;

/// Rows per page.
const PAGE: i64 = 500;
/// The most pages per tenant and sweep; the next sweep continues where this one stopped.
const MAX_PAGES: usize = 40;
/// One of several processes schedules only what is due within this time; a later sweep schedules the rest. This keeps
/// deliveries that are due much later from filling Redis.
const SOON: Duration = Duration::from_secs(15 * 60);
/// How long the answer to an Idempotency-Key is kept at least.
const KEEP_ANSWERS: Duration = Duration::from_secs(48 * 3600);

/// Whether the workers that hold leases may be alive.
#[derive(Debug, Clone, Copy)]
pub(super) enum LeaseHolders {
    /// Each lease is valid until it expires.
    Alive,
    /// This process is alone and has just started, so all leases belong to a dead process.
    Dead,
}

/// How much of a tenant one sweep may schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// At most [`MAX_PAGES`] pages of deliveries.
    SomePages,
    /// Everything, to rebuild a lost schedule.
    All,
}

/// The dependencies of a sweep.
pub(super) struct Scan<S> {
    pub(super) clock: Clock,
    pub(super) schedule: Arc<S>,
    pub(super) metrics: Arc<Metrics>,
    /// Where processes that share the databases publish the health of webhooks; `None`: this process is alone.
    pub(super) board: Option<Arc<Board>>,
    /// Whether the schedule was unavailable last time.
    pub(super) schedule_away: Arc<AtomicBool>,
}

impl<S> Clone for Scan<S> {
    fn clone(&self) -> Self {
        let Self { clock, schedule, metrics, board, schedule_away } = self;
        let (clock, schedule, metrics) = (clock.clone(), Arc::clone(schedule), Arc::clone(metrics));
        Self { clock, schedule, metrics, board: board.clone(), schedule_away: Arc::clone(schedule_away) }
    }
}

impl<S: Schedule> Scan<S> {
    /// Schedules a tenant's unfinished deliveries that follow `after`. Returns the last one if there are more.
    pub(super) async fn run(
        &self,
        tenant: &ServedTenant,
        holders: LeaseHolders,
        mut after: Option<Due>,
        extent: Extent,
    ) -> Result<Option<Due>, StoreError> {
        let horizon = self.board.is_some().then_some(SOON);
        let database = tenant.store.ready(&self.clock).await?;
        let now = tidy(database, holders, &self.clock, &self.metrics).await?;
        if tenant.config.suspended {
            return Ok(None);
        }
        let mut reader = database.reader().await?;
        let mut pages = 0;
        while extent == Extent::All || pages < MAX_PAGES {
            pages += 1;
            let page = deliveries::unfinished(&mut reader, after.as_ref(), PAGE).await?;
            let Some(last) = page.last().cloned() else { return Ok(None) };
            let mut hints = tenant.hints(page, now);
            // Pages are in the order of due times, so all that follows is due later still.
            if let (Some(horizon), Some(first)) = (horizon, hints.first())
                && first.wait > horizon
            {
                return Ok(None);
            }
            // Deliveries of a webhook on hold are not due.
            hints.retain(|hint| !tenant.holds(&hint.entry.webhook));
            let put = self.schedule.put(hints).await;
            let was_away = self.schedule_away.swap(put.is_err(), Ordering::Relaxed);
            if let Err(error) = put {
                // Logged once and not for each tenant.
                if !was_away {
                    tracing::warn!(error = %error, "scheduling swept deliveries failed; retrying");
                }
                return Ok(Some(after.unwrap_or(Due { at_ms: i64::MIN, ..last })));
            }
            after = Some(last);
        }
        Ok(after)
    }
}

/// Ends deliveries that lost their worker in their fifth attempt, releases leases of a dead process and deletes old answers to
/// Idempotency-Keys. Returns the time by the database's clock.
async fn tidy(
    database: &Database,
    holders: LeaseHolders,
    clock: &Clock,
    metrics: &Metrics,
) -> Result<Timestamp, StoreError> {
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let now_ms = now.as_millisecond();
    let expired_ms = match holders {
        LeaseHolders::Alive => now_ms - deliveries::LATE_END_MS,
        LeaseHolders::Dead => {
            deliveries::release_leases(&mut transaction, now_ms).await?;
            now_ms
        }
    };
    let ended = deliveries::end_lost_fifths(&mut transaction, expired_ms, now_ms).await?;
    idempotency::forget(&mut transaction, now_ms - millis(KEEP_ANSWERS)).await?;
    transaction.commit().await?;
    metrics.dead_lettered(FailureClass::WorkerLost, ended);
    Ok(now)
}
