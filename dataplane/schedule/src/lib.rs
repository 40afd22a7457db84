//! The schedule says which deliveries are due. It is an index by time that Docket can rebuild from the databases.
//!
//! The tenant's database decides whether an attempt may be made. The schedule only says when to read the delivery's row and in which
//! order, so that no tenant and no webhook delays the others. A claim moves an entry into the future and never takes it out. So if the
//! worker dies, the entry is due again.
//!
//! A new webhook has few places. It gets more while it responds quickly and uses all of them, and fewer while it responds slowly
//! ([`shares`]). A worker also limits how many of its slots webhooks may use that are not known to be quick. So slow endpoints never
//! fill a worker, however many there are.
//!
//! ```
//! use std::time::Duration;
//!
//! use docket_domain::delivery::DeliveryId;
//! use docket_program::clock::Clock;
//! use docket_schedule::{Ended, Entry, Hint, Room, SHARES, Schedule};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), docket_schedule::ScheduleError> {
//! let schedule = Schedule::in_memory(Clock::System, SHARES);
//! let id = DeliveryId::new(Clock::System.now(), [7; 10]);
//! let entry = Entry { tenant: "tenant-uid".into(), webhook: "default/orders/C-1".into(), id };
//! schedule.put(vec![Hint { entry, wait: Duration::ZERO }]).await?;
//!
//! let (room, lease) = (Room { slots: 25, slow: 10, without_claim: 0 }, Duration::from_secs(15));
//! let claim = schedule.claim(room, lease).await?.remove(0);
//! assert_eq!(claim.entry.id, id);
//! // The attempt failed after 90 ms: the delivery is due again in a minute.
//! let (again, held) = (Some(Duration::from_secs(60)), Some(Duration::from_millis(90)));
//! schedule.settle(vec![Ended { claim, again, held }]).await?;
//! assert!(schedule.claim(room, lease).await?.is_empty());
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, Due};
use docket_program::clock::duration;
use jiff::Timestamp;

mod memory;
mod redis;
mod schedule;
pub mod shares;

pub use docket_program::owner::Owner;
pub use schedule::Schedule;
pub use shares::{SHARES, ShareChanges, ShareLimits, Shares, TenantShares};

/// How often a process looks for due entries, at least. So a process notifies the others only of entries that are due sooner.
pub const LOOK_EVERY: Duration = Duration::from_secs(4);

/// A delivery in the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tenant's uid.
    pub tenant: Arc<str>,
    /// The webhook's key.
    pub webhook: Arc<str>,
    /// The delivery.
    pub id: DeliveryId,
}

/// An entry, and when it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The entry.
    pub entry: Entry,
    /// The time from now until the entry is due; zero: it is due at once.
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

/// The right of one worker to attempt a delivery, for a limited time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The entry that was claimed.
    pub entry: Entry,
    /// The number of the claim. A worker whose claim has expired can't settle the entry, because a later claim has a higher number.
    pub fence: u64,
    /// Whether the webhook was known to be quick when the entry was claimed.
    pub quick: bool,
    /// How long the entry had been due when it was claimed; zero for a [`hand_off`](Schedule::hand_off).
    pub overdue: Duration,
}

/// How many entries a worker has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// The largest number of entries.
    pub slots: usize,
    /// The largest number of entries whose webhooks are not known to be quick. They count among the `slots` too.
    pub slow: usize,
    /// The part of `slow` that is only for tenants without a claim. So such a tenant need not wait until slow attempts of other tenants
    /// end.
    pub without_claim: usize,
}

impl Room {
    /// The room that is left after one more entry; `None`: there is no room for it. `is_new`: the entry's tenant has no claim.
    fn beside(self, quick: bool, is_new: bool) -> Option<Self> {
        let kept = if is_new { 0 } else { self.without_claim };
        let slow = match quick {
            true => self.slow,
            false if self.slow > kept => self.slow - 1,
            false => return None,
        };
        Some(Self { slots: self.slots.checked_sub(1)?, slow, ..self })
    }
}

/// The result of a [`hand_off`](Schedule::hand_off).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandOffs {
    /// The claims.
    pub claims: Vec<Claim>,
    /// The tenants that have as many entries as they may, so that some of their entries were left out.
    pub full: Vec<Arc<str>>,
    /// The tenants that have as many claims as they may, so that some of their entries wait.
    pub busy: Vec<Arc<str>>,
    /// The number of entries of quick webhooks that were not claimed.
    pub quick_waiting: usize,
}

/// The end of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The claim.
    pub claim: Claim,
    /// The time from now until the entry is due again; `None`: the entry is removed.
    pub again: Option<Duration>,
    /// How long the attempt took; `None`: no attempt was made, so nothing is learned about the webhook.
    pub held: Option<Duration>,
}

/// The places of a tenant and of some of its webhooks, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The number of the tenant's claims.
    pub taken: usize,
    /// The largest number of claims that the tenant may have.
    pub all: usize,
    /// The places of each webhook, in the order of the arguments.
    pub webhooks: Vec<WebhookPlaces>,
}

/// The places of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookPlaces {
    /// The number of the webhook's claims.
    pub taken: usize,
    /// The webhook's share.
    pub all: usize,
    /// Whether the share was reduced because attempts were not quick, and no attempt has been quick since.
    pub is_reduced: bool,
}

/// The entries of some webhooks that are due and not claimed, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overdue {
    /// The number of entries that wait for a worker, because webhook and tenant have a free place.
    pub entries: usize,
    /// The number of entries that wait for a place of their webhook or tenant.
    pub held: usize,
    /// How long the oldest entry that waits for a worker has been due; `None`: no entry waits for a worker.
    pub longest: Option<Duration>,
    /// Where the next call of [`Schedule::overdue`] continues; `None`: there are no more webhooks.
    pub next: Option<String>,
}

/// The schedule did not respond. Nothing is lost, because a sweep finds the rows of all deliveries.
#[derive(Debug, thiserror::Error)]
#[error("the schedule is not available: {0}")]
pub struct ScheduleError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What [`Schedule::lost`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Any entry may be lost.
    New,
    /// Nothing was lost since the last call, but no process has [rebuilt](Schedule::rebuilt) the index yet.
    Standing,
    /// The schedule did not respond for a while. Hints may have been dropped meanwhile.
    Hints,
}
