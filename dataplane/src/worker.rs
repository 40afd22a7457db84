//! The delivery worker: claims what is due, makes the attempts, stores how they ended.
//!
//! claim (schedule) -> count the attempt and lease the row (database) -> POST (`send`) -> transition (domain) ->
//! finish the row -> settle the claim. The row decides; a stale claim finds its row taken or done and is settled.
//! [`sweep`] finds what the schedule does not know; [`lease`] keeps long attempts; [`retention`] deletes what is
//! old; [`report`] tells the operator.

pub mod lease;
pub mod report;
pub mod retention;
pub mod send;
pub mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{self, CLAIM_LIMIT, DeliveryId, FailureClass, Next, Outcome};
use docket_egress::Sender;
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::telemetry::Metrics;
use crate::tenants::{Tenant, Tenants};
use docket_program::clock::{Clock, duration, millis};
use docket_program::random;
use docket_schedule::{Claim, Entry, Hint, Schedule, ScheduleError};
use docket_store::deliveries::{self, Started};
use docket_store::events::{self, ToSend};
use docket_store::{Database, StoreError};
use lease::{Kept, Running};
use report::Active;

/// How long a row or a claim stays a dead worker's: after this the next one takes over.
pub const LEASE: Duration = Duration::from_secs(4);
/// When a database is away, its tenant's deliveries are looked at again after this.
const DATABASE_AWAY: Duration = Duration::from_secs(2);
/// When the schedule is away, it is asked again after this.
const SCHEDULE_AWAY: Duration = Duration::from_secs(1);
/// A database that is away for longer than this loses the ends of the attempts that wait for it.
const DATABASE_LOST: Duration = Duration::from_secs(5 * 60);

/// What this process can't know yet is looked at again after this.
const NOT_KNOWN: Duration = Duration::from_secs(30);

/// Attempts at once of which the end is not stored yet; more than there could be, each tenant having its share.
const ENDINGS: u32 = 1 << 24;

/// What an operator may set.
#[derive(Debug, Clone, Copy)]
pub struct WorkerSettings {
    /// How often to look when nothing wakes the worker.
    pub poll_interval: Duration,
    /// The delay after failed attempt `n` is `2^n` times this.
    pub backoff_base: Duration,
    /// Attempts at once, over all tenants.
    pub slots: usize,
    /// How old a delivery is before an unknown webhook counts as deleted: whoever published it may know what is declared
    /// sooner than this process does.
    pub source_lag: Duration,
    /// At shutdown attempts under way may take this long: the longest attempt, and storing how it ended.
    pub drain: Duration,
}

/// The worker; one per process.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Worker<S> {
    clock: Clock,
    tenants: Arc<Tenants>,
    schedule: Arc<S>,
    sender: Sender,
    settings: WorkerSettings,
    metrics: Arc<Metrics>,
    slots: Arc<Semaphore>,
    /// One of each attempt until its end is stored.
    endings: Arc<Semaphore>,
    running: Arc<Running>,
    active: Arc<Active>,
}

impl<S: Schedule> Worker<S> {
    /// Does nothing until it is [run](Self::run).
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        schedule: Arc<S>,
        sender: Sender,
        settings: WorkerSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(settings.slots));
        let endings = Arc::new(Semaphore::new(ENDINGS as usize));
        let (running, active) = (Arc::default(), Arc::default());
        Self { clock, tenants, schedule, sender, settings, metrics, slots, endings, running, active }
    }

    /// Which tenants have had attempts, for [`report`].
    pub fn active(&self) -> Arc<Active> {
        Arc::clone(&self.active)
    }

    /// Works until shutdown is requested, then waits for the attempts under way.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let keeper = tokio::spawn(Arc::clone(&self).keep_leases());
        while !shutdown.is_cancelled() {
            let claimed = self.claim_once().await;
            let wait = async {
                match claimed {
                    Ok(0) => self.wait_for_work().await,
                    Ok(_) => {}
                    // Whatever it says of what is due: asked at once it would only fail once more.
                    Err(error) => {
                        tracing::warn!(error = %error, "can't claim deliveries");
                        self.clock.sleep(SCHEDULE_AWAY).await;
                    }
                }
            };
            tokio::select! {
                () = wait => {}
                () = shutdown.cancelled() => break,
            }
        }
        // All slots free, and all ends stored: no attempt is under way, so none is cut off by our own shutdown.
        let all = u32::try_from(self.settings.slots).unwrap_or(u32::MAX);
        let ended = async {
            let _slots = self.slots.acquire_many(all).await;
            let _endings = self.endings.acquire_many(ENDINGS).await;
        };
        if tokio::time::timeout(self.settings.drain, ended).await.is_err() {
            tracing::warn!(
                "some attempts could not be ended; they are taken over when their leases have run out"
            );
        }
        keeper.abort();
    }

    async fn wait_for_work(&self) {
        let poll = self.settings.poll_interval;
        let wait = match self.schedule.next_due().await {
            Ok(due) if self.slots.available_permits() > 0 => due.unwrap_or(poll).min(poll),
            // No free slot: the next thing to happen is that one is.
            Ok(_) => poll,
            Err(_) => poll.min(SCHEDULE_AWAY),
        };
        let is_full = self.slots.available_permits() == 0;
        tokio::select! {
            () = self.schedule.changed() => {}
            () = self.clock.sleep(wait) => {}
            _ = self.slots.acquire(), if is_full => {}
        }
        self.sender.drop_idle();
    }

    /// One poll: claims what is due within the free slots and the contract's limit, and starts on it. Answers how much.
    async fn claim_once(self: &Arc<Self>) -> Result<usize, ScheduleError> {
        let free = self.slots.available_permits().min(CLAIM_LIMIT);
        // Before the claim, which takes its time too: no lease is taken to last longer than it does.
        let until = self.clock.elapsed() + LEASE;
        let claims = self.schedule.claim(free, LEASE).await?;
        let count = claims.len();
        let mut by_tenant: BTreeMap<Arc<str>, Vec<(Claim, OwnedSemaphorePermit)>> = BTreeMap::new();
        for claim in claims {
            // Only this loop takes slots, and it has claimed no more than are free.
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                by_tenant.entry(Arc::clone(&claim.entry.tenant)).or_default().push((claim, slot));
            }
        }
        for (uid, claims) in by_tenant {
            let worker = Arc::clone(self);
            match self.tenants.by_uid(&uid).filter(|tenant| !tenant.config.suspended) {
                Some(tenant) => tokio::spawn(worker.attempt_batch(tenant, claims, until)),
                // Not served, or not now.
                None => tokio::spawn(async move { worker.put_off(claims).await }),
            };
        }
        Ok(count)
    }

    /// Rows that wait for their tenant or their webhook to come back are nothing that is due: the sweep tells them again
    /// then, since a tenant that is declared anew is swept.
    async fn put_off(&self, claims: Vec<(Claim, OwnedSemaphorePermit)>) {
        let entries: Vec<Entry> = claims.iter().map(|(claim, _)| claim.entry.clone()).collect();
        // Others may know better.
        let again = (!self.tenants.is_current()).then_some(NOT_KNOWN);
        self.settle(claims.into_iter().map(|(claim, slot)| (claim, Some(slot), again)).collect()).await;
        // Back already: the sweep that followed may have found them claimed.
        let is_back = |entry: &Entry| {
            let tenant = self.tenants.by_uid(&entry.tenant);
            tenant.is_some_and(|tenant| !tenant.config.suspended && !tenant.holds(&entry.webhook))
        };
        let hint = |entry| Hint { entry, wait: Duration::ZERO };
        let back: Vec<Hint> = entries.into_iter().filter(is_back).map(hint).collect();
        if !back.is_empty()
            && let Err(error) = self.schedule.put(back).await
        {
            tracing::warn!(error = %error, "can't tell the schedule; a sweep will");
        }
    }

    /// One tenant's part of a poll. The claims are kept from now on: a database may let us wait for longer than a
    /// lease lasts.
    async fn attempt_batch(
        self: Arc<Self>,
        tenant: Arc<Tenant>,
        claims: Vec<(Claim, OwnedSemaphorePermit)>,
        until: Duration,
    ) {
        let token: Arc<str> = hex::encode(random::bytes::<16>()).into();
        let (held, claims): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|(claim, _)| tenant.holds(&claim.entry.webhook));
        if !held.is_empty() {
            let worker = Arc::clone(&self);
            tokio::spawn(async move { worker.put_off(held).await });
        }
        if claims.is_empty() {
            return;
        }
        let taken = claims.into_iter().map(|(claim, slot)| {
            let kept = self.running.keep(&claim, &token, &tenant.store, until);
            Taken { claim, slot: Some(slot), kept }
        });
        let (taken, gone): (Vec<_>, Vec<_>) =
            taken.partition(|taken| tenant.webhook(&taken.claim.entry.webhook).is_some());
        let ended = match self.begin(&tenant, &taken, &gone, &token).await {
            Ok(batch) => {
                let again = |gone: Taken| {
                    let again = batch.due_again.get(&gone.claim.entry.id).copied();
                    (gone, again)
                };
                let mut ended: Vec<_> = gone.into_iter().map(again).collect();
                ended.extend(self.start(&tenant, taken, batch, &token));
                ended
            }
            Err(error) => {
                tracing::warn!(tenant.code = tenant.config.client_code.as_str(), error = %error, "can't begin attempts");
                taken.into_iter().chain(gone).map(|taken| (taken, Some(DATABASE_AWAY))).collect()
            }
        };
        self.end(ended).await;
    }

    /// In one transaction: counts the attempts, ends what has no webhook or no attempt left, and asks when to look
    /// again at what could not be had.
    async fn begin(
        &self,
        tenant: &Tenant,
        taken: &[Taken],
        gone: &[Taken],
        token: &str,
    ) -> Result<Batch, StoreError> {
        let ids = |taken: &[Taken]| taken.iter().map(|taken| taken.claim.entry.id).collect::<Vec<_>>();
        let mut transaction = tenant.store.begin(&self.clock).await?;
        let now_ms = transaction.now_ms();
        let (mut without_webhook, mut due_again) = (0, HashMap::new());
        if !gone.is_empty() {
            if self.tenants.is_current() {
                let made_ms = now_ms - millis(self.settings.source_lag);
                without_webhook =
                    deliveries::end_without_webhook(&mut transaction, &ids(gone), made_ms, now_ms).await?;
            }
            let left = deliveries::due_again(&mut transaction, &ids(gone)).await?;
            due_again.extend(left.into_iter().map(|due| (due.id, NOT_KNOWN)));
        }
        let until_ms = now_ms + millis(LEASE);
        let (started, lost_before) =
            deliveries::begin_attempts(&mut transaction, &ids(taken), token, now_ms, until_ms).await?;
        let refused: Vec<DeliveryId> =
            ids(taken).into_iter().filter(|id| !started.iter().any(|started| started.id == *id)).collect();
        let mut lost = 0;
        if !refused.is_empty() {
            let over_ms = now_ms - deliveries::LATE_END_MS;
            lost = deliveries::end_lost_fifths_of(&mut transaction, &refused, over_ms, now_ms).await?;
            let again = deliveries::due_again(&mut transaction, &refused).await?;
            due_again.extend(again.iter().map(|due| (due.id, duration(due.at_ms - now_ms))));
        }
        let event_ids: Vec<String> = started.iter().map(|started| started.event_id.clone()).collect();
        let events = events::to_send(&mut transaction, &event_ids).await?;
        transaction.commit().await?;
        // A second attempt of a delivery that was still leased tells of a worker that was lost.
        self.metrics.lost(lost_before);
        self.metrics.dead_lettered(FailureClass::WebhookGone, without_webhook);
        self.metrics.dead_lettered(FailureClass::WorkerLost, lost);
        Ok(Batch { started, events, due_again })
    }

    /// Starts the attempts that were counted, before anything else is done; answers the other claims, which were stale,
    /// and when to look at them again.
    fn start(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        taken: Vec<Taken>,
        batch: Batch,
        token: &Arc<str>,
    ) -> Vec<(Taken, Option<Duration>)> {
        let Batch { mut started, events, due_again } = batch;
        let mut stale = Vec::new();
        for taken in taken {
            let id = taken.claim.entry.id;
            let Some(index) = started.iter().position(|started| started.id == id) else {
                stale.push((taken, due_again.get(&id).copied()));
                continue;
            };
            let started = started.swap_remove(index);
            // The foreign key of the row says that the event is there.
            let Some(event) = events.get(&started.event_id).cloned() else { continue };
            let attempt = Attempt { tenant: Arc::clone(tenant), started, token: Arc::clone(token), event };
            tokio::spawn(Arc::clone(self).attempt(attempt, taken));
        }
        stale
    }

    /// One attempt, from the POST to its stored end.
    async fn attempt(self: Arc<Self>, attempt: Attempt, mut taken: Taken) {
        // Semaphores are never closed here.
        let _ending = Arc::clone(&self.endings).acquire_owned().await;
        let Attempt { tenant, started, event, .. } = &attempt;
        // A webhook of the same name that was made for another customer is another webhook.
        let webhook = tenant.webhook(&started.webhook);
        let webhook = webhook.filter(|webhook| webhook.customer_code.as_str() == event.customer_code);
        let outcome = match webhook {
            Some(webhook) => {
                let message = send::Message {
                    webhook,
                    trust: tenant.trust(webhook),
                    delivery: started.id,
                    event_id: &started.event_id,
                    code: event.code,
                    body: event.body.clone(),
                    attempt: started.attempt,
                };
                send::send(&self.sender, message, self.clock.now()).await
            }
            None => Outcome::Failed(FailureClass::WebhookGone, delivery::Report::default()),
        };
        // What is left is the database's: one that is away keeps nobody else from being attempted. Its own tenant's share
        // goes on being used.
        taken.slot = None;
        let next = self.finish(&attempt, &outcome).await;
        self.end(vec![(taken, next)]).await;
    }

    /// Stores the end of an attempt, and answers when to look again. A database that is away is waited for: the outcome
    /// is known, and must not be lost while the lease keeps others off. If it stays away, or the lease is lost, this end
    /// does not count, and the attempt is one whose worker was lost.
    async fn finish(&self, attempt: &Attempt, outcome: &Outcome) -> Option<Duration> {
        let started = &attempt.started;
        let ended = Ended { at: self.clock.now(), elapsed: self.clock.elapsed() };
        let mut pause = Duration::from_millis(100);
        loop {
            match self.store_end(attempt, outcome, ended).await {
                Ok(Some((next, wait))) => {
                    // Not before: an end that does not count must not be counted.
                    self.tell(attempt, outcome, next);
                    return wait;
                }
                Ok(None) => {
                    self.metrics.stale_finish();
                    tracing::warn!(delivery.id = %started.id, attempt = started.attempt, "the lease was lost; this end does not count");
                    return Some(LEASE);
                }
                Err(StoreError::Unavailable(error))
                    if self.clock.elapsed() < ended.elapsed + DATABASE_LOST =>
                {
                    tracing::warn!(delivery.id = %started.id, error = %error, "can't store the end of an attempt yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(3));
                }
                Err(error) => {
                    tracing::error!(delivery.id = %started.id, error = %error, "the end of an attempt can't be stored");
                    return Some(LEASE);
                }
            }
        }
    }

    /// What the delivery is now, and how long until its next attempt. `None`: the lease was lost.
    async fn store_end(
        &self,
        attempt: &Attempt,
        outcome: &Outcome,
        ended: Ended,
    ) -> Result<Option<(Next, Option<Duration>)>, StoreError> {
        let Attempt { tenant, started, token, .. } = attempt;
        // As it is served now: its URL or its password may have been changed since.
        let served = self.tenants.by_uid(&tenant.config.uid);
        let store = &served.as_ref().unwrap_or(tenant).store;
        let mut transaction = store.begin(&self.clock).await?;
        let now = transaction.now();
        // By the database's clock: a file has ours, a server has its own.
        let ended = match store.database() {
            Database::Sqlite(_) => ended.at,
            Database::Postgres(_) => now - self.clock.elapsed().saturating_sub(ended.elapsed),
        };
        let next = delivery::after_attempt(outcome, started.attempt, ended, self.settings.backoff_base);
        let now_ms = now.as_millisecond();
        let ours =
            deliveries::finish_attempt(&mut transaction, started, token, outcome, next, now_ms).await?;
        transaction.commit().await?;
        let wait = match next {
            Next::RetryAt(at) => Some(duration(at.as_millisecond() - now_ms)),
            Next::Succeeded | Next::DeadLetter => None,
        };
        Ok(ours.then_some((next, wait)))
    }

    fn tell(&self, attempt: &Attempt, outcome: &Outcome, next: Next) {
        let Attempt { tenant, started, event, .. } = attempt;
        self.metrics.attempted(outcome, next);
        self.active.note(&tenant.config.uid);
        let class = outcome.failure().map_or("Succeeded", FailureClass::as_str);
        let report = outcome.report();
        let name = tenant.webhook(&started.webhook).map_or("", |webhook| webhook.name.as_str());
        tracing::info!(
            tenant.code = tenant.config.client_code.as_str(),
            webhook.name = name,
            event.code = event.code.as_str(),
            delivery.id = %started.id,
            attempt = started.attempt,
            outcome = class,
            delivery.status = next.status().as_str(),
            http.status = report.http_status,
            duration_ms = u64::try_from(report.times.total.as_millis()).unwrap_or(u64::MAX),
            "attempt"
        );
    }

    /// Ends claims. Their slots are free before the schedule tells that something changed, so that who is woken by it
    /// finds them.
    async fn settle(&self, ended: Vec<(Claim, Option<OwnedSemaphorePermit>, Option<Duration>)>) {
        let ended: Vec<_> = ended.into_iter().map(|(claim, _slot, next)| (claim, next)).collect();
        if !ended.is_empty()
            && let Err(error) = self.schedule.settle(ended).await
        {
            tracing::warn!(error = %error, "can't settle claims; they run out, and the rows decide");
        }
    }

    /// Ends claims that were kept: first the keeping, so that nothing renews one that is over.
    async fn end(&self, ended: Vec<(Taken, Option<Duration>)>) {
        let ended = ended.into_iter().map(|(Taken { claim, slot, kept }, next)| {
            drop(kept);
            (claim, slot, next)
        });
        self.settle(ended.collect()).await;
    }
}

/// A claim with the slot it uses while its attempt is made, kept until it is settled.
struct Taken {
    claim: Claim,
    slot: Option<OwnedSemaphorePermit>,
    kept: Kept,
}

/// What one transaction has begun.
struct Batch {
    started: Vec<Started>,
    events: HashMap<String, ToSend>,
    /// How long until the others are to be looked at again; those that are done are missing.
    due_again: HashMap<DeliveryId, Duration>,
}

/// When an attempt ended, by both of our clocks.
#[derive(Clone, Copy)]
struct Ended {
    at: Timestamp,
    elapsed: Duration,
}

struct Attempt {
    tenant: Arc<Tenant>,
    started: Started,
    token: Arc<str>,
    event: ToSend,
}

#[cfg(test)]
mod tests;
