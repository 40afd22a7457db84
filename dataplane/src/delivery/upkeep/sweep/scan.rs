//! The sweep of one tenant: tidies its database, then schedules its unfinished deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_board::Board;
use docket_crds::{Limit, webhook_key};
use docket_domain::delivery::{DeliveryId, Due};
use docket_program::clock::{Clock, millis};
use docket_schedule::Schedule;
use docket_store::deliveries::{self, EndedLeases, MOST_COUNTED, MissingWebhook};
use docket_store::{Database, DatabaseState, StoreError, idempotency, unfolded};
use jiff::Timestamp;

use crate::delivery::upkeep::report;
use crate::telemetry::Metrics;
use crate::tenancy::{SOURCE_LAG, ServedTenant, Tenants};

/// Rows per page.
const PAGE: i64 = 500;
/// The most pages per tenant and part of a sweep; the next part continues where this one stopped.
const MAX_PAGES: usize = 10;
/// How long a part lasts at most. The owner of a database can make it one that never ends.
const TURN: Duration = Duration::from_secs(10);
/// One of several processes schedules only what is due within this time; a later sweep schedules the rest. This keeps
/// deliveries that are due much later from filling Redis.
const SOON: Duration = Duration::from_secs(15 * 60);
/// Rows of before per transaction that are brought to the present form, and how long a sweep does that.
const REKEYED: i64 = 200;
const REKEY: Duration = Duration::from_secs(1);
/// How long the answer to an Idempotency-Key is kept at least.
const KEEP_ANSWERS: Duration = Duration::from_secs(48 * 3600);

/// The grace of a missing webhook begins again when no sweep has seen it missing for so long: no worker ran, the tenant was suspended or
/// its Tenant deleted, or the database is an old one. More than several intervals of the sweep.
pub(super) const UNSEEN: Duration = Duration::from_secs(10 * 60);
/// How often sweeps record that they see it missing.
const SEE: Duration = Duration::from_secs(60);

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
pub(super) enum SweepResult {
    /// No unfinished delivery.
    Nothing,
    /// Unfinished deliveries, all of which were read.
    Some,
    /// More than this part of a sweep could schedule; the last one that it did, and the first one of a page for which there was no room.
    UpTo(DeliveryId, Option<DeliveryId>),
    /// The schedule was unavailable; the last one before that.
    Cut(DeliveryId),
}

/// A sweep that waits: its tenant, whose leases end, the delivery after which it begins, and how much it may schedule.
pub(super) type Sweep = (Arc<ServedTenant>, Option<EndedLeases>, Option<DeliveryId>, Extent);

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
    /// How long the deliveries of a missing webhook wait for it.
    pub(super) grace: Duration,
    /// The grace begins again after so long without a sweep: [`UNSEEN`], or longer if sweeps are rare.
    pub(super) unseen: Duration,
}

impl Scan {
    /// Sweeps a tenant, and publishes the health of its webhooks.
    pub(super) async fn sweep(self, (tenant, dead, after, extent): Sweep) -> Swept {
        let state = tenant.store.database().state();
        let visit = tenant.store.visit();
        let result = self.run(&tenant, dead, after, extent).await;
        // After a loss each process sweeps everything; one report of the health is enough, by the next sweep.
        let mut is_reported = result.is_ok() && extent == Extent::SomePages && after.is_none();
        match &self.board {
            Some(board) if is_reported => is_reported = report::publish(&tenant, board).await,
            None if is_reported => report::warn(&tenant).await,
            _ => {}
        }
        visit.end().await;
        Swept { state: state.filter(|_| is_reported), result }
    }

    /// Schedules a tenant's unfinished deliveries that follow `after`. Leases of `dead` holders end. Other work on rows of before comes
    /// after that, and delays nothing.
    async fn run(
        &self,
        tenant: &ServedTenant,
        dead: Option<EndedLeases>,
        after: Option<DeliveryId>,
        extent: Extent,
    ) -> Result<SweepResult, StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        let found = self.schedule(tenant, database, dead, after, extent).await?;
        if after.is_none() && extent == Extent::SomePages {
            let code = tenant.config.client_code.as_str();
            if let Err(error) = self.rekey_finished(database).await {
                tracing::warn!(tenant.code = code, error = %error, "giving finished deliveries the keys of their webhooks failed; the next sweep continues");
            }
            if let Err(error) = self.fold_searches(database).await {
                tracing::warn!(tenant.code = code, error = %error, "folding searched texts failed; the next sweep continues");
            }
        }
        Ok(found)
    }

    async fn schedule(
        &self,
        tenant: &ServedTenant,
        database: &Database,
        dead: Option<EndedLeases>,
        mut after: Option<DeliveryId>,
        extent: Extent,
    ) -> Result<SweepResult, StoreError> {
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
        let mut gone = Gone { missing: self.see(database, missing, now).await?, queued: BTreeSet::new() };
        let is_whole = after.is_none();
        let mut found = SweepResult::Nothing;
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
            let count = hints.len();
            let put = self.schedule.put(hints).await;
            let was_away = self.schedule_away.swap(put.is_err(), Ordering::Relaxed);
            match put {
                Ok(full) => {
                    let at_limit = &self.tenants.at_limit;
                    full.iter().for_each(|full| at_limit.reached(full, Limit::QueuedDeliveries));
                    // What has no room follows when there is some.
                    if !full.is_empty() {
                        return Ok(SweepResult::UpTo(after.unwrap_or_default(), first));
                    }
                    self.metrics.upkeep.swept(count);
                }
                Err(error) => {
                    // Logged once and not for each tenant.
                    if !was_away {
                        tracing::warn!(error = %error, "scheduling swept deliveries failed; retrying");
                    }
                    return Ok(SweepResult::Cut(after.unwrap_or_default()));
                }
            }
            (after, found) = (Some(last), SweepResult::Some);
        }
        Ok(after.map_or(found, |last| SweepResult::UpTo(last, None)))
    }
}

/// What a sweep knows of the webhooks that are neither served nor on hold.
struct Gone {
    /// Those that it has seen missing, by key.
    missing: BTreeMap<String, MissingWebhook>,
    /// Those with queued deliveries.
    queued: BTreeSet<String>,
}

impl Gone {
    /// Those for which a sweep of the whole queue found nothing.
    fn without_deliveries(self) -> Vec<MissingWebhook> {
        let Self { missing, queued } = self;
        missing.into_values().filter(|missing| !queued.contains(&missing.webhook)).collect()
    }
}

impl Scan {
    /// The next deliveries of the queue. Those with the uid of their webhook get its key first.
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

    /// Gives finished deliveries with the uid of their webhook its key, for a while; the next sweep continues.
    async fn rekey_finished(&self, database: &Database) -> Result<(), StoreError> {
        let end = self.clock.elapsed() + REKEY;
        for uid in deliveries::uids(&mut database.reader().await?).await? {
            self.rekey_resends(database, [uid.as_str()].into()).await?;
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

    /// Folds searched texts of before, for a while; the next sweep continues.
    async fn fold_searches(&self, database: &Database) -> Result<(), StoreError> {
        let end = self.clock.elapsed() + REKEY;
        if !unfolded::are_left(&mut database.reader().await?).await? {
            return Ok(());
        }
        while self.clock.elapsed() < end {
            let mut transaction = database.begin(&self.clock).await?;
            let is_more = unfolded::fold(&mut transaction, REKEYED).await?;
            transaction.commit().await?;
            if !is_more {
                break;
            }
        }
        Ok(())
    }

    /// Gives the bulk resends to webhooks with these uids their keys.
    async fn rekey_resends(&self, database: &Database, uids: BTreeSet<&str>) -> Result<(), StoreError> {
        let mut transaction = database.begin(&self.clock).await?;
        deliveries::rekey_resends(&mut transaction, uids).await?;
        transaction.commit().await
    }

    /// Records that these webhooks are still missing, if that was not recorded a moment ago. Returns none while the declarations can't
    /// be read.
    async fn see(
        &self,
        database: &Database,
        missing: Vec<MissingWebhook>,
        now: Timestamp,
    ) -> Result<BTreeMap<String, MissingWebhook>, StoreError> {
        if !self.tenants.is_current() {
            return Ok(BTreeMap::new());
        }
        let recent_ms = now.as_millisecond() - millis(SEE);
        let (recent, others): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|missing| missing.seen_ms > recent_ms);
        let others = others.iter().map(|missing| missing.webhook.as_str()).collect();
        let mut seen = self.note(database, others, now).await?;
        seen.extend(recent.into_iter().map(|missing| (missing.webhook.clone(), missing)));
        Ok(seen)
    }

    /// Records that these webhooks are missing.
    async fn note(
        &self,
        database: &Database,
        webhooks: BTreeSet<&str>,
        now: Timestamp,
    ) -> Result<BTreeMap<String, MissingWebhook>, StoreError> {
        if webhooks.is_empty() {
            return Ok(BTreeMap::new());
        }
        let now_ms = now.as_millisecond();
        let mut transaction = database.begin(&self.clock).await?;
        let noted =
            deliveries::note_missing(&mut transaction, webhooks, now_ms, now_ms - millis(self.unseen))
                .await?;
        transaction.commit().await?;
        Ok(noted.into_iter().map(|missing| (missing.webhook.clone(), missing)).collect())
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
        let database = tenant.store.ready(&self.clock).await?;
        let webhooks: BTreeSet<&str> = dues.iter().map(|due| due.webhook.as_str()).collect();
        let new = webhooks.iter().copied().filter(|webhook| !gone.missing.contains_key(*webhook));
        let new = self.note(database, new.collect(), now).await?;
        gone.missing.extend(new);
        gone.queued.extend(webhooks.iter().map(|webhook| (*webhook).to_owned()));
        let now_ms = now.as_millisecond();
        let before_ms = now_ms - millis(self.grace);
        let over: BTreeMap<&str, &MissingWebhook> = gone
            .missing
            .values()
            .filter(|missing| webhooks.contains(missing.webhook.as_str()) && missing.since_ms <= before_ms)
            .map(|missing| (missing.webhook.as_str(), missing))
            .collect();
        if over.is_empty() {
            return Ok(());
        }
        let new: Vec<&str> = over.values().filter(|of| !of.is_ending).map(|of| of.webhook.as_str()).collect();
        let counts = deliveries::count_queued(&mut database.reader().await?, new.clone()).await?;
        let ids: Vec<DeliveryId> =
            dues.iter().filter(|due| over.contains_key(due.webhook.as_str())).map(|due| due.id).collect();
        // A process that is behind may not know a webhook that is declared again, and what is new was published for it.
        let created_ms = now_ms - millis(self.grace.min(SOURCE_LAG));
        let mut transaction = database.begin(&self.clock).await?;
        let begun = deliveries::begin_to_end(&mut transaction, new).await?;
        let end_ms = transaction.now_ms();
        let ended =
            deliveries::end_without_webhook(&mut transaction, &ids, before_ms, created_ms, end_ms).await?;
        transaction.commit().await?;
        self.metrics.webhook_gone(ended);
        for webhook in begun {
            // Without the customer's code.
            let name = webhook_key::full_name(&webhook).unwrap_or(&webhook);
            let (code, grace) = (tenant.config.client_code.as_str(), self.grace.as_secs());
            let count = match &counts {
                Some(counts) => counts.get(&webhook).copied().unwrap_or_default().to_string(),
                None => format!("more than {MOST_COUNTED} in all"),
            };
            tracing::warn!(
                tenant.code = code,
                webhook.name = name,
                count,
                "the queued deliveries of the webhook end as WebhookGone: it has not been declared for {grace} s; declare it again and resend what is still wanted"
            );
            if let Some(missing) = gone.missing.get_mut(&webhook) {
                missing.is_ending = true;
            }
        }
        Ok(())
    }

    /// Forgets that these webhooks were missing.
    async fn forget(&self, database: &Database, missing: &[MissingWebhook]) -> Result<(), StoreError> {
        if missing.is_empty() {
            return Ok(());
        }
        let mut transaction = database.begin(&self.clock).await?;
        let webhooks = missing.iter().map(|missing| missing.webhook.as_str());
        deliveries::forget_missing(&mut transaction, webhooks).await?;
        transaction.commit().await
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
    // Last, since outcomes of attempts wait for it.
    deliveries::queue_unfinished(&mut transaction, dead).await?;
    transaction.commit().await?;
    Ok((now, missing))
}
