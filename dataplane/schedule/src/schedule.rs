//! The schedule that a program runs with: in memory or on Redis.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use docket_redis::{Keys, RedisConnection};

use super::memory::MemorySchedule;
use super::redis::RedisSchedule;
use super::{
    Claim, Ended, Entry, HandOffs, Hint, Loss, Overdue, Owner, Places, Room, ScheduleError, ShareChanges,
    Shares, TenantShares,
};

/// The schedule: which entries are due, and which tenant and webhook are next. It is in memory or on Redis. Both pass the suite in
/// `tests/schedule/contract.rs`.
///
/// All times are relative, because the schedule, the database and the process have clocks of their own, which may differ.
#[derive(Debug)]
pub struct Schedule(ScheduleBackend);

#[derive(Debug)]
enum ScheduleBackend {
    Memory(Box<MemorySchedule>),
    Redis(Box<RedisSchedule>),
}

impl Schedule {
    /// Creates an empty schedule in memory, for one process.
    pub fn in_memory(clock: Clock, shares: Shares) -> Self {
        Self(ScheduleBackend::Memory(Box::new(MemorySchedule::new(clock, shares))))
    }

    /// Joins the schedule on Redis that all processes with the same keys share. Must be called on a runtime, where a task listens to the
    /// changes of the other processes.
    pub fn on_redis(connection: RedisConnection, keys: &Keys, owner: Owner, shares: Shares) -> Self {
        Self(ScheduleBackend::Redis(Box::new(RedisSchedule::new(connection, keys, owner, shares))))
    }

    /// Like [`places`](Self::places); `None`: the schedule did not respond within `time`.
    pub async fn places_within(&self, tenant: &str, webhooks: &[String], time: Duration) -> Option<Places> {
        tokio::time::timeout(time, self.places(tenant, webhooks)).await.ok()?.ok()
    }
}

/// Defines the methods of [`Schedule`]. Each calls the method of the same name of the schedule in memory or on Redis.
macro_rules! calls {
    ($($(#[$about:meta])* async fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl Schedule {$(
            $(#[$about])*
            pub async fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                match &self.0 {
                    ScheduleBackend::Memory(schedule) => schedule.$name($($argument),*).await,
                    // Boxed, because otherwise each future that calls the schedule contains all futures of a call to Redis.
                    ScheduleBackend::Redis(schedule) => {
                        let call: Pin<Box<dyn Future<Output = _> + Send + '_>> =
                            Box::pin(schedule.$name($($argument),*));
                        call.await
                    }
                }
            }
        )*}
    };
}

calls! {
    /// Gives these tenants limits of their own, in place of [`Shares::per_tenant`]. `only`: removes the limits of all other tenants.
    async fn limit(&self, tenants: Vec<(Arc<str>, TenantShares)>, only: bool) -> Result<(), ScheduleError>;

    /// Adds entries, or moves them to another time. An entry that is claimed stays as it is. Returns the tenants that have as many entries
    /// as they may, so that some of their entries were left out.
    async fn put(&self, hints: Vec<Hint>) -> Result<Vec<Arc<str>>, ScheduleError>;

    /// Claims due entries for which there is room. Takes them in turn from the tenants and from each tenant's webhooks, within their
    /// shares, and first from webhooks that are not known to be quick. Each claim expires after `lease`; then its entry is due again.
    async fn claim(&self, room: Room, lease: Duration) -> Result<Vec<Claim>, ScheduleError>;

    /// Claims entries of deliveries that are about to be committed, if `room`, webhook and tenant have a place for them and the webhook has
    /// no [`BACKLOG`](crate::shares::BACKLOG). The other entries are due after one `lease`: if the process dies before it can
    /// [`put`](Self::put) them at once, this delays them less than a sweep. An entry that is in the schedule already stays as it is.
    async fn hand_off(&self, entries: Vec<Entry>, room: Room, lease: Duration) -> Result<HandOffs, ScheduleError>;

    /// Extends claims to `lease` from now. A claim that has expired stays expired. An attempt that needs a renewal takes so long that its
    /// webhook is not quick. Returns how many shares changed.
    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<ShareChanges, ScheduleError>;

    /// Ends claims, and changes the shares of their webhooks. An expired claim changes nothing. Returns how many shares changed.
    async fn settle(&self, ended: Vec<Ended>) -> Result<ShareChanges, ScheduleError>;

    /// The tenants with claims of earlier incarnations of this process, which have ended.
    async fn abandoned(&self) -> Result<Vec<Arc<str>>, ScheduleError>;

    /// Ends the claims of earlier incarnations of this process. Their entries are due at once.
    async fn release_abandoned(&self) -> Result<(), ScheduleError>;

    /// The time until a claim with enough room can get an entry; zero: it can get one now; `None`: there is no entry to wait for.
    async fn next_due(&self) -> Result<Option<Duration>, ScheduleError>;

    /// The places of a tenant and of these webhooks of the tenant. Changes nothing.
    async fn places(&self, tenant: &str, webhooks: &[String]) -> Result<Places, ScheduleError>;

    /// Counts the entries that are due and not claimed. Changes nothing. A call counts the entries of some webhooks, in the order of their
    /// names. The first call has an empty `after`, each further call the [`Overdue::next`] of the call before. An entry whose claim has
    /// expired is due since then. An entry that was put after its due time is due since it was put.
    async fn overdue(&self, after: &str) -> Result<Overdue, ScheduleError>;

    /// Returns when entries were added or claims have ended since the last call; may return without such a change. If another process
    /// added entries, it returns only for entries that are due within [`LOOK_EVERY`](crate::LOOK_EVERY).
    async fn changed(&self);

    /// Returns when entries may have been lost, so that a sweep has to put them again.
    async fn lost(&self) -> Loss;

    /// Marks the index complete. The caller has put every unfinished delivery since [`lost`](Self::lost) returned [`Loss::New`].
    async fn rebuilt(&self) -> Result<(), ScheduleError>;

    /// Whether this process may sweep now. In each interval, one of the processes that share the schedule may.
    async fn sweep_turn(&self, every: Duration) -> Result<bool, ScheduleError>;
}
