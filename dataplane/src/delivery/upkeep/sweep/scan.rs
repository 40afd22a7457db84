//! The sweep of one tenant: tidies its database, then schedules its unfinished deliveries. `gone` ends the deliveries of webhooks that are
//! not declared any more, and `older_rows` brings rows of older versions to the present form.

mod gone;
mod older_rows;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_board::Board;
use docket_crds::Limit;
use docket_domain::delivery::{DeliveryId, Due};
use docket_program::clock::{Clock, millis};
use docket_schedule::{Hint, Schedule};
use docket_store::deliveries::{self, EndedLeases, MissingWebhook};
use docket_store::{Database, DatabaseState, StoreError, idempotency};
use jiff::Timestamp;

use crate::delivery::upkeep::report;
use crate::telemetry::Metrics;
use crate::tenancy::{ServedTenant, Tenants};
pub(super) use gone::UNSEEN;

/// Rows per page.
const PAGE: i64 = 500;
/// The most pages of a part of a sweep; the next part continues where the part before has stopped.
const MAX_PAGES: usize = 10;
/// The longest part. The owner of a database can write deliveries faster than a sweep reads them.
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

/// What a sweep found, and where it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepResult {
    /// The sweep found no unfinished delivery.
    Nothing,
    /// The sweep found unfinished deliveries, and read all of them.
    Some,
    /// More deliveries than this part of a sweep could schedule: the last delivery that it scheduled; if the schedule had no room for a page,
    /// the first delivery of that page.
    UpTo(DeliveryId, Option<DeliveryId>),
    /// The schedule was unavailable after this delivery was scheduled.
    Cut(DeliveryId),
}

/// A sweep that waits.
pub(super) struct Sweep {
    pub(super) tenant: Arc<ServedTenant>,
    /// Whose leases end; `None`: no leases.
    pub(super) dead: Option<EndedLeases>,
    /// The delivery after which the sweep begins; `None`: it begins with the first.
    pub(super) after: Option<DeliveryId>,
    pub(super) extent: Extent,
}

impl Sweep {
    /// Whether the sweep begins with the first delivery, in the tenant's turn.
    fn is_usual(&self) -> bool {
        self.after.is_none() && self.extent == Extent::SomePages
    }
}

/// A sweep that has ended.
pub(super) struct Swept {
    /// What the database looked like before, if it was read from the start and the health of webhooks was published.
    pub(super) state: Option<DatabaseState>,
    pub(super) result: Result<SweepResult, StoreError>,
}

/// The dependencies of a sweep.
#[derive(Clone)]
pub(super) struct Scan {
    pub(super) clock: Clock,
    pub(super) schedule: Arc<Schedule>,
    pub(super) metrics: Arc<Metrics>,
    /// Where processes that share the databases publish the health of webhooks; `None`: this process is alone.
    pub(super) board: Option<Arc<Board>>,
    /// Whether the schedule was unavailable last time.
    pub(super) schedule_away: Arc<AtomicBool>,
    /// Says whether what is served is what is declared.
    pub(super) tenants: Arc<Tenants>,
    /// How long the deliveries of a missing webhook wait until the webhook is declared again.
    pub(super) grace: Duration,
    /// The grace begins again after this time without a sweep: [`UNSEEN`], or longer if sweeps are rare.
    pub(super) unseen: Duration,
}

impl Scan {
    /// Sweeps a tenant, and publishes the health of its webhooks.
    pub(super) async fn sweep(self, sweep: Sweep) -> Swept {
        let tenant = &sweep.tenant;
        let state = tenant.store.database().state();
        let visit = tenant.store.visit();
        let result = self.run(&sweep).await;
        // After a loss each process sweeps everything; one report of the health is enough, by the next sweep.
        let mut is_reported = result.is_ok() && sweep.is_usual();
        match &self.board {
            Some(board) if is_reported => is_reported = report::publish(tenant, board).await,
            None if is_reported => report::warn(tenant).await,
            _ => {}
        }
        visit.end().await;
        Swept { state: state.filter(|_| is_reported), result }
    }

    /// Schedules a tenant's unfinished deliveries. Then it brings rows of older versions to the present form, which delays no delivery.
    async fn run(&self, sweep: &Sweep) -> Result<SweepResult, StoreError> {
        let database = sweep.tenant.store.ready(&self.clock).await?;
        let found = self.schedule(database, sweep).await?;
        if sweep.is_usual() {
            let code = sweep.tenant.config.client_code.as_str();
            if let Err(error) = self.rekey_finished(database).await {
                tracing::warn!(tenant.code = code, error = %error, "storing the keys of webhooks in finished deliveries failed; the next sweep continues");
            }
            if let Err(error) = self.fold_searches(database).await {
                tracing::warn!(tenant.code = code, error = %error, "folding searched texts failed; the next sweep continues");
            }
        }
        Ok(found)
    }

    async fn schedule(&self, database: &Database, sweep: &Sweep) -> Result<SweepResult, StoreError> {
        let Sweep { tenant, dead, after: begin, extent } = sweep;
        let horizon = if self.board.is_some() { SOON } else { Duration::MAX };
        let (now, missing) = tidy(database, dead.as_ref(), &self.clock).await?;
        if tenant.config.suspended {
            return Ok(SweepResult::Nothing);
        }
        let is_declared = |missing: &MissingWebhook| {
            tenant.webhook(&missing.webhook).is_some() || tenant.holds(&missing.webhook)
        };
        let (declared, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_declared);
        self.forget(database, &declared).await?;
        let mut gone = self.see(database, missing, now).await?;
        let (mut after, mut found) = (*begin, SweepResult::Nothing);
        let (mut pages, end) = (0, self.clock.elapsed() + TURN);
        while (*extent == Extent::All || pages < MAX_PAGES) && self.clock.elapsed() < end {
            pages += 1;
            let page = self.page(database, after).await?;
            let Some(last) = page.last().map(|due| due.id) else {
                // Only a sweep that began with the first delivery has seen all webhooks that have deliveries.
                if begin.is_none() && self.tenants.is_current() {
                    self.forget(database, &gone.without_deliveries()).await?;
                }
                return Ok(found);
            };
            self.end_without_webhook(tenant, &page, &mut gone, now).await?;
            let first = page.first().map(|due| due.id);
            let mut hints = tenant.hints(page, now);
            // Deliveries of a webhook that is not served are not due.
            hints.retain(|hint| hint.wait <= horizon && tenant.webhook(&hint.entry.webhook).is_some());
            if let Some(stopped) = self.put(hints, after.unwrap_or_default(), first).await {
                return Ok(stopped);
            }
            (after, found) = (Some(last), SweepResult::Some);
        }
        Ok(after.map_or(found, |last| SweepResult::UpTo(last, None)))
    }

    /// Returns the next deliveries of the queue. Rows of older versions have the uid of their webhook, and get its key first.
    async fn page(&self, database: &Database, after: Option<DeliveryId>) -> Result<Vec<Due>, StoreError> {
        let page = deliveries::unfinished(&mut database.reader().await?, after, PAGE).await?;
        let uids: BTreeSet<&str> =
            page.iter().filter(|due| deliveries::has_uid(due)).map(|due| due.webhook.as_str()).collect();
        if uids.is_empty() {
            return Ok(page);
        }
        self.rekey_resends(database, uids).await?;
        let mut transaction = database.begin(&self.clock).await?;
        deliveries::rekey_queued(&mut transaction, &page).await?;
        transaction.commit().await?;
        deliveries::unfinished(&mut database.reader().await?, after, PAGE).await
    }

    /// Gives the hints of a page, which begins with the delivery `first`, to the schedule. If the schedule has no room or is unavailable,
    /// returns that the sweep stops after the delivery `after`.
    async fn put(
        &self,
        hints: Vec<Hint>,
        after: DeliveryId,
        first: Option<DeliveryId>,
    ) -> Option<SweepResult> {
        let count = hints.len();
        let put = self.schedule.put(hints).await;
        let was_away = self.schedule_away.swap(put.is_err(), Ordering::Relaxed);
        match put {
            Ok(full) if full.is_empty() => {
                self.metrics.upkeep.swept(count);
                None
            }
            // The next part schedules what has no room now.
            Ok(full) => {
                let at_limit = &self.tenants.at_limit;
                full.iter().for_each(|tenant| at_limit.reached(tenant, Limit::QueuedDeliveries));
                Some(SweepResult::UpTo(after, first))
            }
            Err(error) => {
                // Logged once and not for each tenant.
                if !was_away {
                    tracing::warn!(error = %error, "scheduling swept deliveries failed; retrying");
                }
                Some(SweepResult::Cut(after))
            }
        }
    }
}

/// Deletes old answers to Idempotency-Keys, moves all that is unfinished to the queue, which is what a sweep reads, and releases
/// leases of dead holders. Returns the time by the database's clock, and the webhooks that were missing before.
async fn tidy(
    database: &Database,
    dead: Option<&EndedLeases>,
    clock: &Clock,
) -> Result<(Timestamp, Vec<MissingWebhook>), StoreError> {
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let missing = deliveries::missing(&mut transaction).await?;
    idempotency::forget(&mut transaction, now.as_millisecond() - millis(KEEP_ANSWERS)).await?;
    // This comes last, because outcomes of attempts wait for it.
    deliveries::queue_unfinished(&mut transaction, dead).await?;
    transaction.commit().await?;
    Ok((now, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other tests use these by name, so a wrong unit or a missing digit would change the tests as well.
    #[test]
    fn numbers_are_the_documented_ones() {
        assert_eq!((PAGE, MAX_PAGES), (500, 10));
        assert_eq!([TURN, SOON, KEEP_ANSWERS].map(|time| time.as_secs()), [10, 900, 172_800]);
    }
}
