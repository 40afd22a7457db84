//! An attempt: its lease, its start and its end.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, Outcome, Report};
use docket_program::owner::Owner;

use crate::sql::Param;

/// The lease of the attempts of one batch.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Identifies the batch among all batches of all processes.
    batch: Arc<str>,
    time: Duration,
    /// How many hand-offs of the batch have no stored end. `None`: the attempts of the batch were begun in the queue.
    pub(super) unstored: Option<Arc<AtomicUsize>>,
}

impl Lease {
    /// A lease of this owner, which lasts for `time` unless it is renewed. `batch` must differ between two leases of one owner.
    pub fn new(owner: &Owner, batch: u64, time: Duration) -> Self {
        let Owner { process, incarnation } = owner;
        Self { batch: format!("{process}.{incarnation}.{batch}.").into(), time, unstored: None }
    }

    /// The same lease, for the `count` [hand-offs](super::NewHandOff) of one transaction.
    #[must_use]
    pub fn of_first_attempts(self, count: usize) -> Self {
        Self { unstored: Some(Arc::new(AtomicUsize::new(count))), ..self }
    }

    /// A text that distinguishes the batch from all other batches of all processes.
    pub fn id(&self) -> Arc<str> {
        Arc::clone(&self.batch)
    }

    /// The token of one delivery's attempt. No other attempt ever has the same.
    pub(super) fn token_of(&self, id: DeliveryId) -> String {
        format!("{}{id}", self.batch)
    }

    /// The end of an attempt that has this lease.
    pub fn end(&self, started: Started, outcome: Outcome) -> End {
        End { token: self.token_of(started.id), lease: Some(self.clone()), started, outcome }
    }

    pub(super) fn batch(&self) -> &str {
        &self.batch
    }

    /// When a lease ends that begins at `now_ms`.
    pub(super) fn until_ms(&self, now_ms: i64) -> i64 {
        now_ms + i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX)
    }
}

/// An attempt in progress.
#[derive(Debug, Clone)]
pub struct Held<'a> {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The key of the webhook.
    pub webhook: &'a str,
    /// The lease of the attempt's batch.
    pub lease: &'a Lease,
}

/// An attempt that has been counted and may now be made.
#[derive(Debug, Clone)]
pub struct Started {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The id of the event.
    pub event_id: String,
    /// The key of the webhook.
    pub webhook: String,
    /// The number of the attempt, 1 to 5.
    pub attempt: u32,
    /// When the attempt began, in milliseconds since 1970, by the database's clock.
    pub at_ms: i64,
}

/// How an attempt ended; see [`Lease::end`].
#[derive(Debug, Clone)]
pub struct End {
    /// The attempt.
    pub started: Started,
    /// The token of the attempt's lease.
    pub token: String,
    /// `None`: the worker that had it is lost.
    pub(super) lease: Option<Lease>,
    /// The result of the POST.
    pub outcome: Outcome,
}

/// The receiver's address, and the times of DNS, connect, TLS, first byte and in total, in microseconds.
pub(super) fn measured(report: &Report) -> [Param; 6] {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let times = &report.times;
    [
        report.remote.map(|remote| remote.to_string()).into(),
        times.dns.map(micros).into(),
        times.connect.map(micros).into(),
        times.tls.map(micros).into(),
        times.first_byte.map(micros).into(),
        micros(times.total).into(),
    ]
}
