//! The schedule says which deliveries are due: an index by time that can be thrown away and rebuilt.
//!
//! The tenant's database decides whether an attempt may be made. A schedule only says when to look and in which order,
//! so that no tenant and no webhook delays the others. A worker claims an entry by moving it into the future, never by
//! taking it out: if the worker dies, the entry falls due again.
//!
//! ```
//! use std::time::Duration;
//!
//! use docket_domain::delivery::DeliveryId;
//! use docket_program::clock::Clock;
//! use docket_schedule::memory::MemorySchedule;
//! use docket_schedule::{Entry, Hint, SHARES, Schedule};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), docket_schedule::ScheduleError> {
//! let schedule = MemorySchedule::new(Clock::System, SHARES);
//! let id = DeliveryId::new(Clock::System.now(), [7; 10]);
//! let entry = Entry { tenant: "tenant-uid".into(), webhook: "webhook-uid".into(), id };
//! schedule.put(vec![Hint { entry, wait: Duration::ZERO }]).await?;
//!
//! let lease = Duration::from_secs(15);
//! let claims = schedule.claim(25, lease).await?;
//! assert_eq!(claims[0].entry.id, id);
//! // The attempt failed: the delivery is due again in a minute.
//! schedule.settle(vec![(claims[0].clone(), Some(Duration::from_secs(60)))]).await?;
//! assert!(schedule.claim(25, lease).await?.is_empty());
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, Due};
use docket_program::clock::duration;
use jiff::Timestamp;

pub mod live;
pub mod memory;
pub mod notifier;
pub mod redis;

/// A delivery in the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tenant's uid.
    pub tenant: Arc<str>,
    /// The webhook's uid.
    pub webhook: Arc<str>,
    /// The delivery.
    pub id: DeliveryId,
}

/// When to look at a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The delivery.
    pub entry: Entry,
    /// How long from now; zero: at once.
    pub wait: Duration,
}

/// Returns the hints for deliveries of the tenant with this uid. `now` is the time of the tenant's database.
pub fn hints(tenant: &str, dues: impl IntoIterator<Item = Due>, now: Timestamp) -> Vec<Hint> {
    let tenant: Arc<str> = tenant.into();
    let hint = |due: Due| {
        let entry = Entry { tenant: Arc::clone(&tenant), webhook: due.webhook.as_str().into(), id: due.id };
        Hint { entry, wait: duration(due.at_ms - now.as_millisecond()) }
    };
    dues.into_iter().map(hint).collect()
}

/// An entry that one worker holds for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What was claimed.
    pub entry: Entry,
    /// Keeps a late worker out: only the claim that holds the entry may settle it.
    pub fence: u64,
}

/// How much of the work one tenant and one webhook may have at a time.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// Attempts to one webhook at once: a dead endpoint holds no more than these for a whole timeout.
    pub per_webhook: usize,
    /// Attempts of one tenant at once.
    pub per_tenant: usize,
}

/// Enough for a fast endpoint to be served at full speed, and a small part of a worker's slots.
pub const SHARES: Shares = Shares { per_webhook: 32, per_tenant: 256 };

/// The index could not be reached. Nothing is lost: the rows are the truth, and a sweep finds them.
#[derive(Debug, thiserror::Error)]
#[error("the schedule is not available: {0}")]
pub struct ScheduleError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What [`Schedule::lost`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Any entry may be gone.
    New,
    /// Nothing was lost since the last call, but no process has [rebuilt](Schedule::rebuilt) the index yet.
    Standing,
}

/// What is due, and which tenant and webhook are next. Every implementation passes the suite in `tests/schedule/contract.rs`.
///
/// A schedule has its own clock, so callers say how long to wait and never until when: the clocks of the database, the
/// schedule and the process need not agree.
pub trait Schedule: Send + Sync + 'static {
    /// Adds entries, or moves them to another time; an entry that is claimed stays as it is.
    fn put(&self, hints: Vec<Hint>) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Up to `limit` due entries, taken in turn from the tenants and from each tenant's webhooks, within their shares.
    /// They fall due again after `lease`.
    fn claim(
        &self,
        limit: usize,
        lease: Duration,
    ) -> impl Future<Output = Result<Vec<Claim>, ScheduleError>> + Send;

    /// Extends claims to `lease` from now. A claim that has expired stays expired.
    fn renew(
        &self,
        claims: &[Claim],
        lease: Duration,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Ends claims: each entry is removed (`None`) or is due again after this time. An expired claim changes nothing.
    fn settle(
        &self,
        ended: Vec<(Claim, Option<Duration>)>,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// How long until the next entry that a claim could get falls due; zero: it is due; `None`: there is none.
    fn next_due(&self) -> impl Future<Output = Result<Option<Duration>, ScheduleError>> + Send;

    /// Returns after entries were added or claims ended since the last call of this; may return early.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Returns when entries may have been lost, so that a sweep has to put them again.
    fn lost(&self) -> impl Future<Output = Loss> + Send;

    /// Marks the index complete: sweeps have put every unfinished delivery since [`lost`](Self::lost) returned
    /// [`Loss::New`].
    fn rebuilt(&self) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Whether this process may sweep now: of all that share a schedule, one in each interval.
    fn sweep_turn(&self, every: Duration) -> impl Future<Output = Result<bool, ScheduleError>> + Send;
}
