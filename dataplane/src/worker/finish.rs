//! The step after the POST: asks the domain for the transition and stores the outcome of an attempt.

use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{self, FailureClass, Next, Outcome};
use docket_program::clock::{Clock, duration};
use docket_store::{Database, StoreError, deliveries};
use jiff::Timestamp;

use super::begin::Attempt;
use super::lease::LEASE;
use super::report::Active;
use crate::telemetry::Metrics;
use crate::tenants::Tenants;

/// How long to retry while the database is unavailable; then the outcome is lost.
const DATABASE_LOST: Duration = Duration::from_secs(5 * 60);
/// The delay before the first retry; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Finishes attempts.
pub(super) struct Finish {
    pub(super) clock: Clock,
    pub(super) tenants: Arc<Tenants>,
    pub(super) backoff_base: Duration,
    pub(super) metrics: Arc<Metrics>,
    pub(super) active: Arc<Active>,
}

/// When an attempt ended, by the wall clock and by the steady one.
#[derive(Clone, Copy)]
struct EndTime {
    at: Timestamp,
    elapsed: Duration,
}

impl Finish {
    /// Stores the outcome of an attempt and returns how long until its delivery is due again.
    ///
    /// Retries while the database is unavailable: the outcome is known and must not be lost, and the lease keeps other
    /// workers off. If the database stays unavailable or the lease is lost, the outcome does not count, and the attempt
    /// becomes one whose worker was lost.
    pub(super) async fn finish(&self, attempt: &Attempt, outcome: &Outcome) -> Option<Duration> {
        let started = &attempt.started;
        let ended = EndTime { at: self.clock.now(), elapsed: self.clock.elapsed() };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.store(attempt, outcome, ended).await {
                Ok(Some((next, wait))) => {
                    // Only now: an outcome that does not count must not be counted.
                    self.publish(attempt, outcome, next);
                    return wait;
                }
                Ok(None) => {
                    self.metrics.stale_finish();
                    tracing::warn!(delivery.id = %started.id, attempt = started.attempt, "the lease of the attempt was lost; its outcome does not count");
                    return Some(LEASE);
                }
                Err(StoreError::Unavailable(error))
                    if self.clock.elapsed() < ended.elapsed + DATABASE_LOST =>
                {
                    tracing::warn!(delivery.id = %started.id, error = %error, "storing the outcome of an attempt failed; retrying");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    tracing::error!(delivery.id = %started.id, error = %error, "storing the outcome of an attempt failed; the attempt counts as WorkerLost");
                    return Some(LEASE);
                }
            }
        }
    }

    /// Stores the outcome. Returns the state of the delivery and how long until its next attempt; `None`: the lease was
    /// lost.
    async fn store(
        &self,
        attempt: &Attempt,
        outcome: &Outcome,
        ended: EndTime,
    ) -> Result<Option<(Next, Option<Duration>)>, StoreError> {
        let Attempt { tenant, started, token, .. } = attempt;
        // The tenant as it is served now: its URL or its password may have changed since the attempt began.
        let served = self.tenants.by_uid(&tenant.config.uid);
        let store = &served.as_ref().unwrap_or(tenant).store;
        let mut transaction = store.begin(&self.clock).await?;
        let now = transaction.now();
        // By the database's clock: a file uses the machine's, a server has its own.
        let ended_at = match store.database() {
            Database::Sqlite(_) => ended.at,
            Database::Postgres(_) => now - self.clock.elapsed().saturating_sub(ended.elapsed),
        };
        let next = delivery::after_attempt(outcome, started.attempt, ended_at, self.backoff_base);
        let now_ms = now.as_millisecond();
        let is_ours =
            deliveries::finish_attempt(&mut transaction, started, token, outcome, next, now_ms).await?;
        transaction.commit().await?;
        let wait = match next {
            Next::RetryAt(at) => Some(duration(at.as_millisecond() - now_ms)),
            Next::Succeeded | Next::DeadLetter => None,
        };
        Ok(is_ours.then_some((next, wait)))
    }

    /// Counts the attempt, logs it, and marks its tenant for the health report.
    fn publish(&self, attempt: &Attempt, outcome: &Outcome, next: Next) {
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
}
