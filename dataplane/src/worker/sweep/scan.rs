//! The sweep of one tenant: tidies its database, then schedules its unfinished deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_board::Board;
use docket_crds::Limit;
use docket_domain::delivery::DeliveryId;
use docket_program::clock::{Clock, millis};
use docket_schedule::Schedule;
use docket_store::deliveries::{self, Dead, HandOffs};
use docket_store::{Database, StoreError, idempotency};
use jiff::Timestamp;

use crate::telemetry::Metrics;
use crate::tenants::ServedTenant;

/// Rows per page.
const PAGE: i64 = 500;
/// The most pages per tenant and part of a sweep; the next part continues where this one stopped.
const MAX_PAGES: usize = 10;
/// How long a part lasts at most. The owner of a database can make it one that never ends.
const TURN: Duration = Duration::from_secs(10);
/// One of several processes schedules only what is due within this time; a later sweep schedules the rest. This keeps
/// deliveries that are due much later from filling Redis.
const SOON: Duration = Duration::from_secs(15 * 60);
/// How long the answer to an Idempotency-Key is kept at least.
const KEEP_ANSWERS: Duration = Duration::from_secs(48 * 3600);

/// How much of a tenant one sweep may schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// At most [`MAX_PAGES`] pages of deliveries.
    SomePages,
    /// Everything, to rebuild a lost schedule.
    All,
}

/// What a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// No unfinished delivery.
    Nothing,
    /// Unfinished deliveries, all of which were read.
    Some,
    /// More than this part of a sweep could schedule; the last one that it did, and the first one of a page for which there was no room.
    UpTo(DeliveryId, Option<DeliveryId>),
    /// The schedule was unavailable; the last one before that.
    Cut(DeliveryId),
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
        Self {
            clock: self.clock.clone(),
            schedule: Arc::clone(&self.schedule),
            metrics: Arc::clone(&self.metrics),
            board: self.board.clone(),
            schedule_away: Arc::clone(&self.schedule_away),
        }
    }
}

impl<S: Schedule> Scan<S> {
    /// Schedules a tenant's unfinished deliveries that follow `after`. Leases of `dead` holders end.
    pub(super) async fn run(
        &self,
        tenant: &ServedTenant,
        dead: Option<Dead>,
        mut after: Option<DeliveryId>,
        extent: Extent,
    ) -> Result<Found, StoreError> {
        let horizon = if self.board.is_some() { SOON } else { Duration::MAX };
        let database = tenant.store.ready(&self.clock).await?;
        let now = tidy(database, dead.as_ref(), &self.clock).await?;
        if tenant.config.suspended {
            return Ok(Found::Nothing);
        }
        let (mut reader, mut found) = (database.reader().await?, Found::Nothing);
        let (mut pages, end) = (0, self.clock.elapsed() + TURN);
        while (extent == Extent::All || pages < MAX_PAGES) && self.clock.elapsed() < end {
            pages += 1;
            let page = deliveries::unfinished(&mut reader, after, PAGE).await?;
            let Some(last) = page.last().map(|due| due.id) else { return Ok(found) };
            let first = page.first().map(|due| due.id);
            let mut hints = tenant.hints(page, now);
            // Deliveries of a webhook on hold are not due.
            hints.retain(|hint| hint.wait <= horizon && !tenant.holds(&hint.entry.webhook));
            let put = self.schedule.put(hints).await;
            let was_away = self.schedule_away.swap(put.is_err(), Ordering::Relaxed);
            match put {
                Ok(full) => {
                    full.iter().for_each(|full| self.metrics.limited(full, Limit::QueuedDeliveries));
                    // What has no room follows when there is some.
                    if !full.is_empty() {
                        return Ok(Found::UpTo(after.unwrap_or_default(), first));
                    }
                }
                Err(error) => {
                    // Logged once and not for each tenant.
                    if !was_away {
                        tracing::warn!(error = %error, "scheduling swept deliveries failed; retrying");
                    }
                    return Ok(Found::Cut(after.unwrap_or_default()));
                }
            }
            (after, found) = (Some(last), Found::Some);
        }
        Ok(after.map_or(found, |last| Found::UpTo(last, None)))
    }
}

/// Deletes old answers to Idempotency-Keys, moves hand-offs to the queue, which is what a sweep reads, and releases leases of dead
/// holders. Returns the time by the database's clock.
async fn tidy(database: &Database, dead: Option<&Dead>, clock: &Clock) -> Result<Timestamp, StoreError> {
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    idempotency::forget(&mut transaction, now.as_millisecond() - millis(KEEP_ANSWERS)).await?;
    // Last, since outcomes of hand-offs wait for it.
    deliveries::queue_hand_offs(&mut transaction, HandOffs::All).await?;
    if let Some(dead) = dead {
        deliveries::release_leases(&mut transaction, dead).await?;
    }
    transaction.commit().await?;
    Ok(now)
}
