//! The step after the POST: asks the domain for the transition and stores the outcomes of attempts, those of a tenant in
//! groups.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docket_domain::delivery::{self, FailureClass, Next, Outcome};
use docket_domain::failure::Cause;
use docket_program::clock::Clock;
use docket_store::deliveries::{self, End, Stored};
use docket_store::{StoreError, Writer};
use jiff::Timestamp;
use tokio_util::task::TaskTracker;

use super::begin::Attempt;
use super::lease::LEASE;
use super::report::Active;
use super::settle::{Claimed, Settle, ToSettle};
use crate::groups::{Groups, Turn};
use crate::telemetry::{Jobs, Metrics};
use crate::tenants::{ServedTenant, Tenants};

/// How long to retry while the database is unavailable; then the outcome is lost.
const DATABASE_LOST: Duration = Duration::from_secs(5 * 60);
/// The delay before the first retry; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// The most outcomes in one transaction.
pub(super) const GROUP: usize = 128;

/// Finishes attempts.
pub(super) struct Finish {
    pub(super) clock: Clock,
    pub(super) tenants: Arc<Tenants>,
    pub(super) backoff_base: Duration,
    pub(super) metrics: Arc<Metrics>,
    pub(super) active: Arc<Active>,
    pub(super) settle: Arc<Settle>,
    pub(super) tasks: TaskTracker,
    /// What waits is bounded by the shares of the tenants.
    pub(super) groups: Arc<Groups<Ended>>,
}

/// An attempt that has ended.
pub(super) struct Ended {
    attempt: Attempt,
    outcome: Outcome,
    at: EndTime,
    claimed: Claimed,
}

/// When an attempt ended, by the wall clock and by the steady one.
#[derive(Clone, Copy)]
struct EndTime {
    at: Timestamp,
    elapsed: Duration,
}

impl Finish {
    /// Stores the outcome of an attempt with others of its tenant, and settles its claim.
    ///
    /// Retries while the database is unavailable: the outcome is known and must not be lost, and the lease keeps other
    /// workers off. If the database stays unavailable or the lease is lost, the outcome does not count, and the attempt
    /// becomes one whose worker was lost.
    pub(super) fn finish(self: &Arc<Self>, attempt: Attempt, outcome: Outcome, claimed: Claimed) {
        let tenant_uid = Arc::clone(&claimed.claim.entry.tenant);
        let at = EndTime { at: self.clock.now(), elapsed: self.clock.elapsed() };
        if let Some(turn) = self.groups.add(&tenant_uid, Ended { attempt, outcome, at, claimed }) {
            self.tasks.spawn(Arc::clone(self).run(turn));
        }
    }

    async fn run(self: Arc<Self>, mut turn: Turn<Ended>) {
        while let Some(newest) = turn.look(|newest| Arc::clone(&newest.attempt.tenant)) {
            let writer = self.writer(&newest).await;
            if writer.is_ok() {
                turn.gather().await;
            }
            let group = turn.take_jobs();
            if writer.is_ok() {
                self.metrics.delivery.grouped(Jobs::Finish, group.len());
            }
            let settled = self.store(group, writer, false).await;
            self.settle.settle(settled).await;
        }
    }

    /// To the database of the tenant as it is served now: its URL or its password may have changed since the attempt began.
    async fn writer(&self, tenant: &Arc<ServedTenant>) -> Result<Writer, StoreError> {
        let served = self.tenants.by_uid(&tenant.config.uid);
        served.as_ref().unwrap_or(tenant).store.writer(&self.clock).await
    }

    /// Stores a group, at first with this writer; `again`: an earlier commit without a response may have stored some of it.
    /// Returns its claims, each with the time until its delivery is due again.
    async fn store(
        &self,
        group: Vec<Ended>,
        mut writer: Result<Writer, StoreError>,
        mut again: bool,
    ) -> Vec<ToSettle> {
        let Some(tenant) = group.last().map(|newest| Arc::clone(&newest.attempt.tenant)) else {
            return Vec::new();
        };
        let mut pause = FIRST_PAUSE;
        let ends: Vec<End> = group.iter().map(Ended::end).collect();
        let oldest = group.iter().map(|ended| ended.at.elapsed).min().unwrap_or_default();
        loop {
            let stored = match writer {
                Ok(writer) => {
                    let stored = self.try_store(writer, &group, &ends, again).await;
                    again |= matches!(stored, Err(StoreError::Unavailable(_)));
                    stored
                }
                Err(error) => Err(error),
            };
            match stored {
                Ok(stored) => return self.settled(group, &stored),
                Err(StoreError::Unavailable(error)) if self.clock.elapsed() < oldest + DATABASE_LOST => {
                    let count = group.len();
                    tracing::warn!(count, error = %error, "storing the outcomes of attempts failed; retrying");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) if group.len() == 1 => return lost(group, &error),
                // One of them failed: store them one by one.
                Err(_) => {
                    let mut settled = Vec::with_capacity(group.len());
                    for ended in group {
                        let writer = self.writer(&tenant).await;
                        settled.extend(Box::pin(self.store(vec![ended], writer, again)).await);
                    }
                    return settled;
                }
            }
            writer = self.writer(&tenant).await;
        }
    }

    async fn try_store(
        &self,
        writer: Writer,
        group: &[Ended],
        ends: &[End],
        again: bool,
    ) -> Result<Vec<Stored>, StoreError> {
        let is_a_server = writer.is_to_a_server();
        let next = |place: usize, now: Timestamp| {
            let Ended { attempt, outcome, at, .. } = &group[place];
            // By the database's clock: a file uses the machine's, a server has its own.
            let ended_at = match is_a_server {
                false => at.at,
                true => now - self.clock.elapsed().saturating_sub(at.elapsed),
            };
            let started = &attempt.started;
            delivery::after_attempt(started.id, outcome, started.attempt, ended_at, self.backoff_base)
        };
        deliveries::finish_attempts(writer, &self.clock, ends, &complete(group), again, next).await
    }

    fn settled(&self, group: Vec<Ended>, stored: &[Stored]) -> Vec<ToSettle> {
        for left in group.iter().filter_map(|ended| ended.attempt.hand_offs_left.as_ref()) {
            left.fetch_sub(1, Ordering::Relaxed);
        }
        let settle = |(ended, stored): (Ended, &Stored)| match stored {
            Stored::Next(next, wait) => {
                // Only now: an outcome that does not count must not be counted.
                self.publish(&ended, *next);
                (ended.claimed, *wait)
            }
            Stored::LeaseLost => {
                let started = &ended.attempt.started;
                self.metrics.stale_finish();
                tracing::warn!(delivery.id = %started.id, attempt = started.attempt, "the lease of the attempt was lost; its outcome does not count");
                (ended.claimed, Some(LEASE))
            }
        };
        group.into_iter().zip(stored).map(settle).collect()
    }

    /// Counts the attempt, unless it is of a test event, logs it, and marks its tenant for the health report.
    fn publish(&self, ended: &Ended, next: Next) {
        let Ended { attempt: Attempt { tenant, started, event, .. }, outcome, .. } = ended;
        let is_test = event.as_ref().is_some_and(|event| event.is_test);
        if !is_test {
            self.metrics.attempted(outcome, next);
        }
        self.active.note(&tenant.config.uid);
        let class = outcome.failure().map_or("Succeeded", FailureClass::as_str);
        let report = outcome.report();
        let name = tenant.webhook(&started.webhook).map_or("", |webhook| webhook.name.as_str());
        tracing::info!(
            tenant.code = tenant.config.client_code.as_str(),
            webhook.name = name,
            event.code = event.as_ref().map(|event| event.code.as_str()),
            delivery.id = %started.id,
            attempt = started.attempt,
            outcome = class,
            failure.cause = outcome.failed().and_then(|failure| failure.known_cause()).map(Cause::as_str),
            delivery.status = next.status().as_str(),
            http.status = report.http_status,
            is_test,
            duration_ms = u64::try_from(report.times.total.as_millis()).unwrap_or(u64::MAX),
            "attempt"
        );
    }
}

/// The batches of hand-offs of which nothing is left once this group is stored. No other group of the tenant is stored meanwhile.
fn complete(group: &[Ended]) -> Vec<Arc<str>> {
    let mut batches: HashMap<&Arc<str>, (usize, &AtomicUsize)> = HashMap::new();
    for Attempt { lease, hand_offs_left, .. } in group.iter().map(|ended| &ended.attempt) {
        if let (Some(batch), Some(left)) = (lease.hand_offs(), hand_offs_left) {
            batches.entry(batch).or_insert((0, left)).0 += 1;
        }
    }
    batches.retain(|_, (ended, left)| *ended == left.load(Ordering::Relaxed));
    batches.into_keys().cloned().collect()
}

fn lost(group: Vec<Ended>, error: &StoreError) -> Vec<ToSettle> {
    let settle = |ended: Ended| {
        let id = ended.attempt.started.id;
        tracing::error!(delivery.id = %id, error = %error, "storing the outcome of an attempt failed; the attempt counts as WorkerLost");
        (ended.claimed, Some(LEASE))
    };
    group.into_iter().map(settle).collect()
}

impl Ended {
    fn end(&self) -> End {
        let Self { attempt: Attempt { started, lease, .. }, outcome, .. } = self;
        End {
            started: started.clone(),
            token: lease.token_of(started.id),
            batch: lease.hand_offs().cloned(),
            outcome: outcome.clone(),
        }
    }
}
