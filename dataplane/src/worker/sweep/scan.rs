//! The sweep of one tenant: tidies its database, then schedules its unfinished deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_board::Board;
use docket_crds::{Limit, webhook_key};
use docket_domain::delivery::{DeliveryId, Due};
use docket_program::clock::{Clock, millis};
use docket_schedule::Schedule;
use docket_store::deliveries::{self, Dead, HandOffs, Missing};
use docket_store::{Database, StoreError, idempotency};
use jiff::Timestamp;

use crate::telemetry::Metrics;
use crate::tenants::{ServedTenant, Tenants};

/// Rows per page.
const PAGE: i64 = 500;
/// The most pages per tenant and part of a sweep; the next part continues where this one stopped.
const MAX_PAGES: usize = 10;
/// How long a part lasts at most. The owner of a database can make it one that never ends.
const TURN: Duration = Duration::from_secs(10);
/// One of several processes schedules only what is due within this time; a later sweep schedules the rest. This keeps
/// deliveries that are due much later from filling Redis.
const SOON: Duration = Duration::from_secs(15 * 60);
/// Finished deliveries per transaction that gives them the keys of their webhooks, and how long a sweep does that.
const REKEYED: i64 = 200;
const REKEY: Duration = Duration::from_secs(1);
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
    /// Says whether what is served is what is declared.
    pub(super) tenants: Arc<Tenants>,
    /// How long the deliveries of a missing webhook wait for it.
    pub(super) grace: Duration,
}

impl<S> Clone for Scan<S> {
    fn clone(&self) -> Self {
        Self {
            clock: self.clock.clone(),
            schedule: Arc::clone(&self.schedule),
            metrics: Arc::clone(&self.metrics),
            board: self.board.clone(),
            schedule_away: Arc::clone(&self.schedule_away),
            tenants: Arc::clone(&self.tenants),
            grace: self.grace,
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
        let (now, missing) = tidy(database, dead.as_ref(), &self.clock).await?;
        self.rekey_finished(database).await?;
        if tenant.config.suspended {
            return Ok(Found::Nothing);
        }
        let is_declared =
            |missing: &Missing| tenant.webhook(&missing.webhook).is_some() || tenant.holds(&missing.webhook);
        let (declared, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_declared);
        self.forget(database, &declared).await?;
        let mut gone = Gone { webhooks: BTreeMap::new(), was_missing: missing };
        let is_whole = after.is_none();
        let mut found = Found::Nothing;
        let (mut pages, end) = (0, self.clock.elapsed() + TURN);
        while (extent == Extent::All || pages < MAX_PAGES) && self.clock.elapsed() < end {
            pages += 1;
            let page = self.page(database, after).await?;
            let Some(last) = page.last().map(|due| due.id) else {
                if is_whole && self.tenants.is_current() {
                    self.forget(database, &gone.without_deliveries()).await?;
                }
                return Ok(found);
            };
            self.end_without_webhook(tenant, &page, &mut gone, now).await?;
            let first = page.first().map(|due| due.id);
            let mut hints = tenant.hints(page, now);
            // Deliveries of a webhook that is not served are not due.
            hints.retain(|hint| hint.wait <= horizon && tenant.webhook(&hint.entry.webhook).is_some());
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

/// What a sweep knows of the webhooks that are neither served nor on hold.
struct Gone {
    /// Those with queued deliveries, and since when each is missing, in milliseconds since 1970.
    webhooks: BTreeMap<String, i64>,
    /// As an earlier sweep stored them.
    was_missing: Vec<Missing>,
}

impl Gone {
    /// Those for which a sweep of the whole queue found nothing.
    fn without_deliveries(self) -> Vec<Missing> {
        let Self { webhooks, mut was_missing } = self;
        was_missing.retain(|missing| !webhooks.contains_key(&missing.webhook));
        was_missing
    }
}

impl<S: Schedule> Scan<S> {
    /// The next deliveries of the queue. Those with the uid of their webhook get its key first.
    async fn page(&self, database: &Database, after: Option<DeliveryId>) -> Result<Vec<Due>, StoreError> {
        let page = deliveries::unfinished(&mut database.reader().await?, after, PAGE).await?;
        let ids: Vec<DeliveryId> =
            page.iter().filter(|due| deliveries::has_uid(due)).map(|due| due.id).collect();
        if ids.is_empty() {
            return Ok(page);
        }
        let mut transaction = database.begin(&self.clock).await?;
        deliveries::rekey_queued(&mut transaction, &ids).await?;
        transaction.commit().await?;
        deliveries::unfinished(&mut database.reader().await?, after, PAGE).await
    }

    /// Gives finished deliveries with the uid of their webhook its key, for a while; the next sweep continues.
    async fn rekey_finished(&self, database: &Database) -> Result<(), StoreError> {
        let end = self.clock.elapsed() + REKEY;
        for uid in deliveries::uids(&mut database.reader().await?).await? {
            loop {
                if self.clock.elapsed() >= end {
                    return Ok(());
                }
                let mut transaction = database.begin(&self.clock).await?;
                let count = deliveries::rekey_finished(&mut transaction, &uid, REKEYED).await?;
                transaction.commit().await?;
                if count < REKEYED as u64 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Notes the webhooks of these deliveries that are missing, and ends those whose webhook is missing for longer than the grace. It does
    /// neither while the declarations can't be read.
    async fn end_without_webhook(
        &self,
        tenant: &ServedTenant,
        page: &[Due],
        gone: &mut Gone,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // As it is served now: the sweep may have waited with an older one.
        let Some(tenant) = self.tenants.by_uid(&tenant.uid) else { return Ok(()) };
        let is_gone = |due: &&Due| tenant.webhook(&due.webhook).is_none() && !tenant.holds(&due.webhook);
        let dues: Vec<&Due> = page.iter().filter(is_gone).collect();
        if dues.is_empty() || !self.tenants.is_current() {
            return Ok(());
        }
        let now_ms = now.as_millisecond();
        let since = |webhook: &str| {
            let missing = gone.was_missing.iter().find(|missing| missing.webhook == webhook);
            missing.map(|missing| missing.since_ms)
        };
        let new: Vec<&str> =
            dues.iter().map(|due| due.webhook.as_str()).filter(|webhook| since(webhook).is_none()).collect();
        let since: BTreeMap<String, i64> =
            dues.iter().map(|due| (due.webhook.clone(), since(&due.webhook).unwrap_or(now_ms))).collect();
        let before_ms = now_ms - millis(self.grace);
        let is_missed = |due: &&&Due| since.get(&due.webhook).is_some_and(|since_ms| *since_ms <= before_ms);
        let over: Vec<DeliveryId> = dues.iter().filter(is_missed).map(|due| due.id).collect();
        let mut transaction = tenant.store.ready(&self.clock).await?.begin(&self.clock).await?;
        deliveries::note_missing(&mut transaction, new, now_ms).await?;
        let mut begun = Vec::new();
        for webhook in
            since.iter().filter(|(_, since_ms)| **since_ms <= before_ms).map(|(webhook, _)| webhook)
        {
            let count = deliveries::begin_to_end(&mut transaction, webhook).await?;
            begun.extend(count.map(|count| (webhook, count)));
        }
        let now_ms = transaction.now_ms();
        let ended = deliveries::end_without_webhook(&mut transaction, &over, before_ms, now_ms).await?;
        transaction.commit().await?;
        self.metrics.webhook_gone(ended);
        for (webhook, count) in begun {
            // Without the customer's code.
            let name = webhook_key::full_name(webhook).unwrap_or(webhook);
            let (code, grace) = (tenant.config.client_code.as_str(), self.grace.as_secs());
            tracing::warn!(
                tenant.code = code,
                webhook.name = name,
                count,
                "the queued deliveries of the webhook end as WebhookGone: it has not been declared for {grace} s; declare it again and resend what is still wanted"
            );
        }
        gone.webhooks.extend(since);
        Ok(())
    }

    /// Forgets that these webhooks were missing.
    async fn forget(&self, database: &Database, missing: &[Missing]) -> Result<(), StoreError> {
        if missing.is_empty() {
            return Ok(());
        }
        let mut transaction = database.begin(&self.clock).await?;
        let webhooks = missing.iter().map(|missing| missing.webhook.as_str());
        deliveries::forget_missing(&mut transaction, webhooks).await?;
        transaction.commit().await
    }
}

/// Deletes old answers to Idempotency-Keys, moves hand-offs to the queue, which is what a sweep reads, and releases leases of dead
/// holders. Returns the time by the database's clock, and the webhooks that were missing before.
async fn tidy(
    database: &Database,
    dead: Option<&Dead>,
    clock: &Clock,
) -> Result<(Timestamp, Vec<Missing>), StoreError> {
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let missing = deliveries::missing(&mut transaction).await?;
    idempotency::forget(&mut transaction, now.as_millisecond() - millis(KEEP_ANSWERS)).await?;
    // Last, since outcomes of hand-offs wait for it.
    deliveries::queue_hand_offs(&mut transaction, HandOffs::All).await?;
    if let Some(dead) = dead {
        deliveries::release_leases(&mut transaction, dead).await?;
    }
    transaction.commit().await?;
    Ok((now, missing))
}
