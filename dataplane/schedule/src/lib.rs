//! The schedule says which deliveries are due: an index by time that can be thrown away and rebuilt.
//!
//! The tenant's database decides whether an attempt may be made. A schedule only says when to look and in which order,
//! so that no tenant and no webhook delays the others. A worker claims an entry by moving it into the future, never by
//! taking it out: if the worker dies, the entry falls due again.
//!
//! A webhook of which nothing is known has few places. It gets more while it answers quickly and needs them, and fewer
//! while it does not ([`shares`]). A worker also says how many of its places webhooks may use that are not known to be
//! quick, so that dead endpoints, however many, never fill it.
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

/// A process notifies the others of what falls due within this time. They look for the rest themselves, at least this often.
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
    /// Whether its webhook was known to answer quickly when it was claimed.
    pub quick: bool,
    /// For how long the entry had been due when it was claimed; zero for a [`hand_off`](Schedule::hand_off).
    pub overdue: Duration,
}

/// How many entries a worker has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// The most entries of all webhooks.
    pub slots: usize,
    /// The most entries of webhooks that are not known to answer quickly. Each also needs one of the `slots`.
    pub slow: usize,
    /// How many of the `slow` ones are only for tenants without a claim, so that such a tenant need not wait until the slow attempts of
    /// others end.
    pub without_claim: usize,
}

impl Room {
    /// What is left beside one more entry; `None`: there is no room for it. `is_new`: its tenant has no claim.
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

/// What came of a [`hand_off`](Schedule::hand_off).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandOffs {
    /// The claims.
    pub claims: Vec<Claim>,
    /// The tenants of which entries were left out, because they have as many as they may.
    pub full: Vec<Arc<str>>,
    /// The tenants of which entries wait, because they have as many claims as they may.
    pub busy: Vec<Arc<str>>,
    /// How many entries of quick webhooks were not claimed.
    pub quick_waiting: usize,
}

/// The end of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What ended.
    pub claim: Claim,
    /// When the entry is due again; `None`: never, it is removed.
    pub again: Option<Duration>,
    /// How long its attempt held the place; `None`: no attempt was made, which says nothing about the webhook.
    pub held: Option<Duration>,
}

/// The places for attempts of a tenant and of some of its webhooks, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The claims of the tenant.
    pub taken: usize,
    /// The most that it may have.
    pub all: usize,
    /// Those of each webhook, in the order of the question.
    pub webhooks: Vec<WebhookPlaces>,
}

/// The places for attempts of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookPlaces {
    /// Its claims.
    pub taken: usize,
    /// Its share.
    pub all: usize,
    /// Whether its share was reduced because its attempts were not quick, and they are not quick again.
    pub is_reduced: bool,
}

/// The entries that are due and not claimed, of some of the webhooks, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overdue {
    /// How many wait for a worker: of webhooks and tenants that have fewer claims than they may have.
    pub entries: usize,
    /// How many wait for a place of their webhook or tenant, which has all claims that it may have.
    pub held: usize,
    /// For how long the oldest entry that waits for a worker has been due; `None`: no entry waits.
    pub longest: Option<Duration>,
    /// Where the next call of [`Schedule::overdue`] continues; `None`: these were the last webhooks.
    pub next: Option<String>,
}

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
    /// The schedule did not respond for a while, in which hints may have been dropped.
    Hints,
}
