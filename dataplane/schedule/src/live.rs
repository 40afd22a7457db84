//! The schedule that a program runs with: in memory for one process, in Redis for many.

use std::sync::Arc;
use std::time::Duration;

use super::memory::MemorySchedule;
use super::redis::RedisSchedule;
use super::{
    Claim, Ended, Entry, HandOffs, Hint, Loss, Overdue, Places, Room, Schedule, ScheduleError, ShareChanges,
    TenantShares,
};

/// The schedule that a program runs with.
pub enum LiveSchedule {
    /// Of this process alone.
    Memory(Box<MemorySchedule>),
    /// Of all processes with the same Redis.
    Redis(Box<RedisSchedule>),
}

macro_rules! of_either {
    ($self:ident, $schedule:ident => $call:expr) => {
        match $self {
            Self::Memory($schedule) => $call.await,
            Self::Redis($schedule) => $call.await,
        }
    };
}

impl Schedule for LiveSchedule {
    async fn limit(&self, tenants: Vec<(Arc<str>, TenantShares)>, only: bool) -> Result<(), ScheduleError> {
        of_either!(self, schedule => schedule.limit(tenants, only))
    }

    async fn put(&self, hints: Vec<Hint>) -> Result<Vec<Arc<str>>, ScheduleError> {
        of_either!(self, schedule => schedule.put(hints))
    }

    async fn claim(&self, room: Room, lease: Duration) -> Result<Vec<Claim>, ScheduleError> {
        of_either!(self, schedule => schedule.claim(room, lease))
    }

    async fn hand_off(
        &self,
        entries: Vec<Entry>,
        room: Room,
        lease: Duration,
    ) -> Result<HandOffs, ScheduleError> {
        of_either!(self, schedule => schedule.hand_off(entries, room, lease))
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<ShareChanges, ScheduleError> {
        of_either!(self, schedule => schedule.renew(claims, lease))
    }

    async fn settle(&self, ended: Vec<Ended>) -> Result<ShareChanges, ScheduleError> {
        of_either!(self, schedule => schedule.settle(ended))
    }

    async fn abandoned(&self) -> Result<Vec<Arc<str>>, ScheduleError> {
        of_either!(self, schedule => schedule.abandoned())
    }

    async fn release_abandoned(&self) -> Result<(), ScheduleError> {
        of_either!(self, schedule => schedule.release_abandoned())
    }

    async fn next_due(&self) -> Result<Option<Duration>, ScheduleError> {
        of_either!(self, schedule => schedule.next_due())
    }

    async fn places(&self, tenant: &str, webhooks: &[String]) -> Result<Places, ScheduleError> {
        of_either!(self, schedule => schedule.places(tenant, webhooks))
    }

    async fn overdue(&self, after: &str) -> Result<Overdue, ScheduleError> {
        of_either!(self, schedule => schedule.overdue(after))
    }

    async fn changed(&self) {
        of_either!(self, schedule => schedule.changed())
    }

    async fn lost(&self) -> Loss {
        of_either!(self, schedule => schedule.lost())
    }

    async fn rebuilt(&self) -> Result<(), ScheduleError> {
        of_either!(self, schedule => schedule.rebuilt())
    }

    async fn sweep_turn(&self, every: Duration) -> Result<bool, ScheduleError> {
        of_either!(self, schedule => schedule.sweep_turn(every))
    }
}
