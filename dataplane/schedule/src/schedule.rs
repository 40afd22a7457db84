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

/// What is due, and which tenant and webhook are next. The schedule is in memory or on Redis. Both pass the suite in
/// `tests/schedule/contract.rs`.
///
/// A schedule has its own clock, so callers say how long to wait and never until when: the clocks of the database, the
/// schedule and the process need not agree.
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

    /// Joins the schedule on Redis of all processes with the same keys, as this owner. Must be called on a runtime, where it
    /// listens to the changes of the other processes.
    pub fn on_redis(connection: RedisConnection, keys: &Keys, owner: Owner, shares: Shares) -> Self {
        Self(ScheduleBackend::Redis(Box::new(RedisSchedule::new(connection, keys, owner, shares))))
    }

    /// Like [`places`](Self::places); `None`: the schedule did not respond within `time`.
    pub async fn places_within(&self, tenant: &str, webhooks: &[String], time: Duration) -> Option<Places> {
        tokio::time::timeout(time, self.places(tenant, webhooks)).await.ok()?.ok()
    }
}

/// Writes the methods of [`Schedule`]. Each calls the method of the same name of the schedule in memory or on Redis.
macro_rules! calls {
    ($($(#[$about:meta])* async fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl Schedule {$(
            $(#[$about])*
            pub async fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                match &self.0 {
                    ScheduleBackend::Memory(schedule) => schedule.$name($($argument),*).await,
                    // Boxed: else each future that calls the schedule contains the long chain of futures of a call to Redis.
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
    /// Gives these tenants limits of their own, in place of [`Shares::per_tenant`]. `only`: and no others.
    async fn limit(&self, tenants: Vec<(Arc<str>, TenantShares)>, only: bool) -> Result<(), ScheduleError>;

    /// Adds entries, or moves them to another time; an entry that is claimed stays as it is. Returns the tenants of which
    /// entries were left out, because they have as many as they may.
    async fn put(&self, hints: Vec<Hint>) -> Result<Vec<Arc<str>>, ScheduleError>;

    /// Due entries for which there is room, taken in turn from the tenants and from each tenant's webhooks, within their
    /// shares: first those of webhooks that are not known to be quick. They fall due again after `lease`.
    async fn claim(&self, room: Room, lease: Duration) -> Result<Vec<Claim>, ScheduleError>;

    /// Claims entries of deliveries that are about to be committed: those for which `room` and the shares of webhook and
    /// tenant have a place, and whose webhook has no [`BACKLOG`](crate::shares::BACKLOG). The others wait for one `lease`, so
    /// that a process that dies before it can [`put`](Self::put) them at once costs that time and not a sweep. An entry that
    /// is in the schedule already stays as it is.
    async fn hand_off(&self, entries: Vec<Entry>, room: Room, lease: Duration) -> Result<HandOffs, ScheduleError>;

    /// Extends claims to `lease` from now. A claim that has expired stays expired. A claim that needs to be renewed holds
    /// its place too long for its webhook to be quick. Returns how many shares changed.
    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<ShareChanges, ScheduleError>;

    /// Ends claims, and changes the shares of their webhooks. An expired claim changes nothing. Returns how many shares changed.
    async fn settle(&self, ended: Vec<Ended>) -> Result<ShareChanges, ScheduleError>;

    /// The tenants of claims that an earlier incarnation of this process holds, which is dead.
    async fn abandoned(&self) -> Result<Vec<Arc<str>>, ScheduleError>;

    /// Makes those claims due at once.
    async fn release_abandoned(&self) -> Result<(), ScheduleError>;

    /// How long until the next entry falls due that a claim with enough room could get; zero: it is due; `None`: there is
    /// none.
    async fn next_due(&self) -> Result<Option<Duration>, ScheduleError>;

    /// The places of a tenant and of these webhooks of it, which changes nothing.
    async fn places(&self, tenant: &str, webhooks: &[String]) -> Result<Places, ScheduleError>;

    /// Counts the entries that are due and not claimed, which changes nothing. A call looks at some of the webhooks that have entries, in
    /// the order of their names: at the first ones if `after` is empty, else at those after the [`Overdue::next`] of the call before.
    /// An entry whose claim has expired is due since that time. An entry that was put after its due time is due since it was put.
    async fn overdue(&self, after: &str) -> Result<Overdue, ScheduleError>;

    /// Returns after entries were added or claims ended since the last call of this; may return early. Of what another process
    /// has added, it returns only for what falls due within [`LOOK_EVERY`](crate::LOOK_EVERY).
    async fn changed(&self);

    /// Returns when entries may have been lost, so that a sweep has to put them again.
    async fn lost(&self) -> Loss;

    /// Marks the index complete: sweeps have put every unfinished delivery since [`lost`](Self::lost) returned
    /// [`Loss::New`].
    async fn rebuilt(&self) -> Result<(), ScheduleError>;

    /// Whether this process may sweep now: of all that share a schedule, one in each interval.
    async fn sweep_turn(&self, every: Duration) -> Result<bool, ScheduleError>;
}
