//! An attempt: what it is leased with, how it began and how it ended.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, Outcome, Report};
use docket_program::owner::Owner;

use crate::sql::Param;

/// What the attempts of one batch are leased with.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Distinguishes this batch from all others of all processes.
    batch: Arc<str>,
    time: Duration,
    /// How many hand-offs of the batch have no stored end. `None`: the attempts of the batch were begun in the queue.
    pub(super) unstored: Option<Arc<AtomicUsize>>,
}

impl Lease {
    /// A lease of this owner that lasts for `time` unless it is renewed. `batch` is another one for each lease of the
    /// owner.
    pub fn new(owner: &Owner, batch: u64, time: Duration) -> Self {
        let Owner { process, incarnation } = owner;
        Self { batch: format!("{process}.{incarnation}.{batch}.").into(), time, unstored: None }
    }

    /// The same lease, for the `count` [hand-offs](super::NewHandOff) of one transaction.
    #[must_use]
    pub fn of_first_attempts(self, count: usize) -> Self {
        Self { unstored: Some(Arc::new(AtomicUsize::new(count))), ..self }
    }

    /// What distinguishes its batch from all others of all processes.
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

    /// When it ends that begins at `now_ms`.
    pub(super) fn until_ms(&self, now_ms: i64) -> i64 {
        now_ms + i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX)
    }
}

/// An attempt that is under way.
#[derive(Debug, Clone)]
pub struct Held<'a> {
    /// Its delivery.
    pub id: DeliveryId,
    /// Its webhook's key.
    pub webhook: &'a str,
    /// Who makes it.
    pub lease: &'a Lease,
}

/// An attempt that has been counted and may now be made.
#[derive(Debug, Clone)]
pub struct Started {
    /// The delivery.
    pub id: DeliveryId,
    /// Its event.
    pub event_id: String,
    /// Its webhook's key.
    pub webhook: String,
    /// Which attempt this is, 1 to 5.
    pub attempt: u32,
    /// When it began, in milliseconds since 1970, by the database's clock.
    pub at_ms: i64,
}

/// How an attempt ended; see [`Lease::end`].
#[derive(Debug, Clone)]
pub struct End {
    /// The attempt.
    pub started: Started,
    /// Of its lease.
    pub token: String,
    /// `None`: the worker that had it is lost.
    pub(super) lease: Option<Lease>,
    /// The result of the POST.
    pub outcome: Outcome,
}

/// The receiver's address, and the times in microseconds: DNS, connect, TLS, first byte, total.
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
