//! The step after the POST: asks the domain for the transition and stores the outcomes of attempts, in groups of one tenant.

use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{self, FailureClass, LEASE, Next, Outcome};
use docket_domain::failure::Cause;
use docket_store::deliveries::{self, End, EndResult};
use docket_store::{StoreError, Writer};
use jiff::Timestamp;

use super::Worker;
use super::begin::Attempt;
use super::settle::{Claimed, ToSettle};
use crate::tenancy::groups::{self, Turn, Work};

/// How long to retry while the database is unavailable; then the outcome is lost.
const DATABASE_LOST: Duration = Duration::from_secs(5 * 60);
/// The delay before the first retry; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// The most outcomes in one transaction.
pub(super) const GROUP: usize = 128;

pub(super) struct EndedAttempt {
    attempt: Attempt,
    outcome: Outcome,
    /// When the attempt ended, by the process's clock.
    at: Timestamp,
    /// When the attempt ended, by [`Clock::elapsed`](docket_program::clock::Clock::elapsed).
    elapsed: Duration,
    claimed: Claimed,
    /// Whether an earlier commit without a response may have stored the outcome.
    may_be_stored: bool,
}

impl Worker {
    /// Stores the outcome of an attempt with others of its tenant, and settles its claim.
    ///
    /// Retries for five minutes while the database is unavailable: the outcome is known and must not be lost, and the lease keeps other
    /// workers off. If the database stays unavailable or the lease is lost, the outcome does not count, and the attempt fails as
    /// `WorkerLost`.
    pub(super) fn finish(self: &Arc<Self>, attempt: Attempt, outcome: Outcome, claimed: Claimed) {
        let tenant = Arc::clone(&attempt.tenant);
        let (at, elapsed) = (self.clock.now(), self.clock.elapsed());
        let ended = EndedAttempt { attempt, outcome, at, elapsed, claimed, may_be_stored: false };
        if let Some(turn) = self.to_finish.add(&tenant, ended) {
            self.tasks.spawn(groups::drive(turn, Arc::clone(self)));
        }
    }

    /// Stores how attempts ended, in one transaction.
    async fn store_outcomes(
        &self,
        writer: Writer,
        group: &[EndedAttempt],
    ) -> Result<Vec<EndResult>, StoreError> {
        let end = |EndedAttempt { attempt, outcome, .. }: &EndedAttempt| {
            attempt.lease.end(attempt.started.clone(), outcome.clone())
        };
        let ends: Vec<End> = group.iter().map(end).collect();
        let again = group.iter().any(|ended| ended.may_be_stored);
        let is_a_server = writer.is_to_a_server();
        // Measured before the transaction begins: the time until the server's response must not make a retry early.
        let asked = self.clock.elapsed();
        let next = |place: usize, now: Timestamp| {
            let EndedAttempt { attempt, outcome, at, elapsed, .. } = &group[place];
            // By the database's clock: a file uses the machine's, a server has its own.
            let ended_at = if is_a_server { by_servers_clock(now, asked, *elapsed) } else { *at };
            let started = &attempt.started;
            let base = self.settings.backoff_base;
            delivery::after_attempt(started.id, outcome, started.attempt, ended_at, base)
        };
        deliveries::finish_attempts(writer, &self.clock, &ends, again, next).await
    }

    /// Publishes the outcomes that are stored. Returns the claims to settle.
    fn settled(&self, group: Vec<EndedAttempt>, stored: &[EndResult]) -> Vec<ToSettle> {
        let settle = |(ended, stored): (EndedAttempt, &EndResult)| match stored {
            EndResult::Next(next, wait) => {
                // Only now: an outcome that does not count must not be counted.
                self.publish(&ended, *next);
                (ended.claimed, *wait)
            }
            EndResult::LeaseLost => {
                let started = &ended.attempt.started;
                self.metrics.stale_finish();
                tracing::warn!(delivery.id = %started.id, attempt = started.attempt, "the lease of the attempt was lost; its outcome does not count");
                (ended.claimed, Some(LEASE))
            }
        };
        group.into_iter().zip(stored).map(settle).collect()
    }

    /// Counts the attempt, unless it is of a test event, logs it, and marks its tenant for the health report.
    fn publish(&self, ended: &EndedAttempt, next: Next) {
        let EndedAttempt { attempt: Attempt { tenant, started, event, .. }, outcome, .. } = ended;
        let is_test = event.as_ref().is_some_and(|event| event.is_test);
        if !is_test {
            self.metrics.attempted(outcome, next);
        }
        self.active.note(&tenant.uid);
        let class = outcome.failure().map_or("Succeeded", FailureClass::as_str);
        let report = outcome.report();
        let name = tenant.webhook(&started.webhook).map_or("", |webhook| webhook.name.as_str());
        tracing::info!(
            tenant.code = tenant.config.client_code.as_str(),
            webhook.name = name,
            event.code = event.as_ref().map(|event| &*event.code),
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

impl Work<EndedAttempt> for Arc<Worker> {
    type Connection = Writer;

    async fn connect(&self, turn: &Turn<EndedAttempt>) -> Result<Writer, StoreError> {
        // The outcomes are known. So after every error of the connection, they are tried again.
        turn.tenant.store.writer(&self.clock).await.map_err(|error| match error {
            StoreError::Unavailable(_) => error,
            other => StoreError::Unavailable(other.into()),
        })
    }

    async fn perform(&self, turn: &mut Turn<EndedAttempt>, writer: Writer) -> Result<(), StoreError> {
        let stored = self.store_outcomes(writer, &turn.group).await;
        if matches!(stored, Err(StoreError::Unavailable(_))) {
            turn.group.iter_mut().for_each(|ended| ended.may_be_stored = true);
        }
        let stored = stored?;
        let settled = self.settled(std::mem::take(&mut turn.group), &stored);
        self.settle(settled).await;
        Ok(())
    }

    async fn refuse(&self, turn: &mut Turn<EndedAttempt>, error: StoreError) {
        let now = self.clock.elapsed();
        let (again, given_up): (Vec<_>, Vec<_>) =
            turn.group.drain(..).partition(|ended| is_tried_again(&error, now.saturating_sub(ended.elapsed)));
        self.settle(lost(given_up, &error)).await;
        if !again.is_empty() {
            tracing::warn!(count = again.len(), error = %error, "storing the outcomes of attempts failed; retrying");
            turn.put_back(again);
            tokio::time::sleep(turn.pause(FIRST_PAUSE, LONGEST_PAUSE)).await;
        }
    }
}

/// Returns when an attempt ended by the clock of a server that has the time `now`. It was `asked` for its time after the attempt had `ended`,
/// both by [`Clock::elapsed`](docket_program::clock::Clock::elapsed).
fn by_servers_clock(now: Timestamp, asked: Duration, ended: Duration) -> Timestamp {
    now - asked.saturating_sub(ended)
}

/// Whether to try again to store an outcome after this error. `age` is the time since the attempt ended.
fn is_tried_again(error: &StoreError, age: Duration) -> bool {
    matches!(error, StoreError::Unavailable(_)) && age < DATABASE_LOST
}

/// Logs attempts whose outcomes can't be stored. Returns the claims to settle.
fn lost(group: Vec<EndedAttempt>, error: &StoreError) -> Vec<ToSettle> {
    let settle = |ended: EndedAttempt| {
        let id = ended.attempt.started.id;
        tracing::error!(delivery.id = %id, error = %error, "storing the outcome of an attempt failed; the attempt counts as WorkerLost");
        (ended.claimed, Some(LEASE))
    };
    group.into_iter().map(settle).collect()
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::{ATTEMPT_TIMEOUT, BACKOFF_BASE, DeliveryId, Report};
    use docket_egress::{EgressPolicy, FixedDns, Sender};
    use docket_program::clock::Clock;
    use docket_program::owner::Owner;
    use docket_rig::scratch::Folder;
    use docket_schedule::{Claim, Entry, SHARES, Schedule};
    use docket_store::deliveries::{Lease, Started};
    use docket_store::sqlite::Sqlite;

    use super::*;
    use crate::delivery::attempt::WorkerSettings;
    use crate::delivery::outbox::Outbox;
    use crate::tenancy::testing;

    /// A fifth attempt must not become a dead letter as `WorkerLost` while its worker may still store that it succeeded.
    #[test]
    fn outcome_of_a_fifth_attempt_is_waited_for_as_long_as_its_worker_retries() {
        assert_eq!(DATABASE_LOST, Duration::from_secs(300));
        let late = Duration::from_millis(deliveries::LATE_END_MS.unsigned_abs());
        assert!(late >= DATABASE_LOST + ATTEMPT_TIMEOUT, "{late:?}");
    }

    #[test]
    fn pauses_and_groups_are_the_documented_ones() {
        assert_eq!([FIRST_PAUSE, LONGEST_PAUSE].map(|pause| pause.as_millis()), [100, 3_000]);
        assert_eq!(GROUP, 128);
    }

    #[test]
    fn outcome_is_tried_again_for_five_minutes_while_the_database_is_away() {
        let away = StoreError::Unavailable("away".into());
        let limit = Duration::from_secs(300);
        assert!(is_tried_again(&away, Duration::ZERO));
        assert!(is_tried_again(&away, limit - Duration::from_millis(1)));
        assert!(!is_tried_again(&away, limit));
        assert!(!is_tried_again(&StoreError::Unexpected("a mistake"), Duration::ZERO));
    }

    /// The commit may have happened. If it did, the outcome that is stored must not conflict with the next try.
    #[tokio::test]
    async fn outcome_may_be_stored_once_a_commit_has_failed() {
        let (folder, clock, owner) = (Folder::new("may-be-stored"), Clock::System, Owner::new(b"worker"));
        let file = folder.path().join("tenant.db");
        let tenant = testing::tenant("uid-1", Sqlite::new(file.clone()));
        let schedule = Arc::new(Schedule::in_memory(clock.clone(), SHARES));
        let outbox = Outbox::new(schedule, Arc::default(), Arc::default());
        let sender = Sender::new(EgressPolicy::default(), FixedDns::new(), Duration::from_secs(1));
        let (poll_interval, drain) = (Duration::from_secs(1), Duration::from_secs(1));
        let settings = WorkerSettings { poll_interval, backoff_base: BACKOFF_BASE, slots: 1, drain };
        let worker = Worker::new(clock.clone(), outbox, sender, settings, owner.clone());

        let (id, lease) = (DeliveryId::new(clock.now(), [1; 10]), Lease::new(&owner, 1, LEASE));
        let entry = Entry { tenant: Arc::clone(&tenant.uid), webhook: "hook".into(), id };
        let claim = Claim { entry, fence: 1, quick: false, overdue: Duration::ZERO };
        let claimed = Claimed { claim, permit: None, slot: None, lease: None, held: None };
        let started =
            Started { id, event_id: "e".to_owned(), webhook: "hook".to_owned(), attempt: 1, at_ms: 0 };
        let attempt = Attempt { tenant: Arc::clone(&tenant), started, lease, event: None };
        let outcome = Outcome::Succeeded(Report::default());
        let (at, elapsed) = (clock.now(), clock.elapsed());
        let ended = EndedAttempt { attempt, outcome, at, elapsed, claimed, may_be_stored: false };
        let mut turn = worker.to_finish.add(&tenant, ended).expect("no other turn");
        turn.group = turn.take_jobs();

        let writer = tenant.store.writer(&clock).await.expect("a connection");
        std::fs::remove_file(&file).expect("the file of the database");
        let stored = Work::<EndedAttempt>::perform(&worker, &mut turn, writer).await;
        assert!(matches!(stored, Err(StoreError::Unavailable(_))));
        assert!(turn.group[0].may_be_stored);
    }

    /// The backoff counts from the end of the attempt, even if the outcome waits long for the database.
    #[test]
    fn attempt_ended_before_the_server_was_asked_for_its_time() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().expect("a time");
        let ended: Timestamp = "2026-11-21T00:00:48Z".parse().expect("a time");
        let seconds = Duration::from_secs;
        assert_eq!(by_servers_clock(now, seconds(112), seconds(100)), ended);
        assert_eq!(by_servers_clock(now, seconds(99), seconds(100)), now);
    }
}
