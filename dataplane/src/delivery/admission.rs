//! Admission: which attempts of a worker may begin, and which saves have to wait.
//!
//! An attempt needs a slot. It is slow if its webhook is not known to answer quickly, or if it has had its slot for longer than a second.
//! Slow attempts use at most half of the slots, so that quick webhooks always have the other half. An attempt that becomes slow while slow
//! attempts use all of their half leaves its slot to another attempt. An eighth of the slow half is for tenants without a claim. A worker
//! never makes more attempts than twice its slots. [`starts`] limits how many attempts start at a time, and [`permits`] how many
//! deliveries the saves of a tenant make at a time.

mod permits;
mod starts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use docket_schedule::Room;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::telemetry::Running;
use permits::Permits;
pub(super) use permits::SavePermit;
pub use permits::SavePermits;
pub(super) use starts::START;
use starts::{STARTS, Starts};

/// A quick attempt that has had its slot for this time is slow, whether it waits for its database or for its receiver.
const SLOW: Duration = Duration::from_secs(1);

/// The limit of attempts per slot, which also counts attempts that have left their slots. Each attempt takes some 100 KB.
const MOST_ATTEMPTS: usize = 2;

/// Admits the attempts and the saves of one process.
pub(super) struct Admission {
    clock: Clock,
    slots: usize,
    used: Mutex<Used>,
    freed: Notify,
    permits: Permits,
}

/// What the slots are used for.
#[derive(Default)]
struct Used {
    /// Start time of each quick attempt, by the number of the attempt.
    quick: BTreeMap<u64, Duration>,
    /// The number of slow attempts.
    slow: usize,
    reserved: usize,
    reserved_slow: usize,
    starts: Starts,
    last_number: u64,
    is_closed: bool,
}

/// Room for claims that are being made: the schedule decides how many there are. Room that is left is free again when this is dropped.
pub(super) struct Reservation {
    admission: Arc<Admission>,
    left: Room,
    /// When the reservation was made, by [`Clock::elapsed`].
    at: Duration,
}

/// The slot of one attempt, which is free again when this is dropped.
pub(super) struct Slot {
    admission: Arc<Admission>,
    number: u64,
}

impl Admission {
    pub(super) fn new(clock: Clock, slots: usize) -> Arc<Self> {
        let (used, freed, permits) = (Mutex::default(), Notify::new(), Permits::default());
        Arc::new(Self { clock, slots, used, freed, permits })
    }

    /// Returns the room that there is now for at most `most` claims.
    pub(super) fn room(&self, most: usize) -> Room {
        self.used.lock().room(self.slots, most, self.clock.elapsed())
    }

    /// Reserves the room that there is now for at most `most` claims.
    pub(super) fn claim(self: &Arc<Self>, most: usize) -> Reservation {
        let at = self.clock.elapsed();
        let mut used = self.used.lock();
        let left = used.room(self.slots, most, at);
        used.reserved += left.slots;
        used.reserved_slow += left.slow;
        Reservation { admission: Arc::clone(self), left, at }
    }

    /// Waits until there is more room than at the time of this call; may return early.
    pub(super) fn freed(&self) -> impl Future<Output = ()> {
        self.freed.notified()
    }

    /// Reports the attempts and the slots. Reserved slots have no attempt yet.
    pub(super) fn running(&self) -> Running {
        let now = self.clock.elapsed();
        let mut used = self.used.lock();
        used.slow_down(now);
        let (quick, starting) = (used.quick.len(), used.starts.count(now));
        Running { quick, slow: used.slow, starting, slots: self.slots, ..Running::default() }
    }

    /// Ends the admission: from now on there is no room.
    pub(super) fn close(&self) {
        self.used.lock().is_closed = true;
    }
}

impl Reservation {
    pub(super) fn room(&self) -> Room {
        self.left
    }

    /// Takes a slot for a claim; `None`: no room is left.
    pub(super) fn take(&mut self, is_quick: bool) -> Option<Slot> {
        let others = self.left.slots.checked_sub(1)?;
        // A quick attempt takes a slow slot if no other one is left, and a slow attempt takes another slot if no slow one is left.
        let slow = usize::from(if is_quick { self.left.slow > others } else { self.left.slow > 0 });
        (self.left.slots, self.left.slow) = (others, self.left.slow - slow);
        let mut used = self.admission.used.lock();
        used.reserved -= 1;
        used.reserved_slow -= slow;
        used.last_number += 1;
        let number = used.last_number;
        if is_quick {
            used.quick.insert(number, self.at);
        } else {
            used.slow += 1;
            used.starts.add(number, self.at);
        }
        Some(Slot { admission: Arc::clone(&self.admission), number })
    }
}

impl Used {
    /// Returns the room for at most `most` claims in this number of slots.
    fn room(&mut self, slots: usize, most: usize, now: Duration) -> Room {
        self.slow_down(now);
        if self.is_closed {
            return Room::default();
        }
        let quick = self.quick.len() + self.reserved - self.reserved_slow;
        let starts = STARTS.saturating_sub(self.starts.count(now) + self.reserved_slow);
        at_most(room(slots, quick, self.slow + self.reserved_slow), most, starts)
    }

    /// Counts the quick attempts as slow that have had their slots for too long.
    fn slow_down(&mut self, now: Duration) {
        while let Some(oldest) = self.quick.first_entry()
            && now >= *oldest.get() + SLOW
        {
            oldest.remove();
            self.slow += 1;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut used = self.admission.used.lock();
        used.reserved -= self.left.slots;
        used.reserved_slow -= self.left.slow;
        drop(used);
        if self.left.slots > 0 {
            self.admission.freed.notify_waiters();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut used = self.admission.used.lock();
        if used.quick.remove(&self.number).is_none() {
            used.slow -= 1;
        }
        used.starts.remove(self.number);
        drop(used);
        self.admission.freed.notify_waiters();
    }
}

/// Returns the room beside these numbers of attempts if at most half of the slots may be slow.
fn room(slots: usize, quick: usize, slow: usize) -> Room {
    let half = slots / 2;
    let free = slots
        .saturating_sub(quick + slow.min(half))
        .min((MOST_ATTEMPTS * slots).saturating_sub(quick + slow));
    Room { slots: free, slow: half.saturating_sub(slow).min(free), without_claim: half / 8 }
}

/// Returns the part of a room with at most `most` slots; at most `most_slow` of them are slow. The last slow slots are for tenants without
/// a claim.
fn at_most(Room { slots, slow, without_claim }: Room, most: usize, most_slow: usize) -> Room {
    let (slots, for_all) = (slots.min(most), slow.saturating_sub(without_claim));
    let slow = slow.min(slots).min(most_slow);
    Room { slots, slow, without_claim: slow.saturating_sub(for_all) }
}

#[cfg(test)]
mod tests {
    use docket_program::clock::ManualClock;
    use futures_util::FutureExt;
    use jiff::Timestamp;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn admission(slots: usize) -> (Arc<Admission>, ManualClock) {
        let time = ManualClock::new(Timestamp::UNIX_EPOCH);
        (Admission::new(Clock::Manual(time.clone()), slots), time)
    }

    /// The other tests use these by name, so a wrong unit or a missing digit would change the tests as well.
    #[test]
    fn numbers_are_the_documented_ones() {
        assert_eq!([SLOW, START].map(|time| time.as_millis()), [1_000, 50]);
        assert_eq!((STARTS, MOST_ATTEMPTS), (6, 2));
    }

    #[test]
    fn slow_attempts_leave_half_of_the_slots_to_quick_ones() {
        let free = |quick, slow| {
            let Room { slots, slow, .. } = room(8, quick, slow);
            (slots, slow)
        };
        assert_eq!(free(0, 0), (8, 4));
        assert_eq!(free(5, 0), (3, 3));
        assert_eq!(free(0, 4), (4, 0));
        assert_eq!(free(4, 4), (0, 0));
        assert_eq!(free(2, 6), (2, 0), "two of the slow ones have left their slots");
        assert_eq!(free(8, 3), (0, 0));
        assert_eq!(free(0, 11), (4, 0));
        assert_eq!(free(2, 13), (1, 0), "more than sixteen attempts are too many");
        assert_eq!(free(0, 16), (0, 0));
    }

    #[test]
    fn last_slow_slots_are_for_tenants_without_a_claim() {
        let free = |slow, most, most_slow| {
            let Room { slow, without_claim, .. } = at_most(room(160, 0, slow), most, most_slow);
            (slow, without_claim)
        };
        assert_eq!(free(0, 25, 25), (25, 0));
        assert_eq!(free(55, 25, 25), (25, 10));
        assert_eq!(free(60, 25, 25), (20, 10));
        assert_eq!(free(72, 25, 25), (8, 8));
        assert_eq!(free(80, 25, 25), (0, 0));
        assert_eq!(free(60, 25, 13), (13, 3), "ten are for all");
        assert_eq!(free(60, 8, 13), (8, 0));
    }

    #[test]
    fn few_attempts_that_may_be_slow_begin_at_a_time() {
        let (admission, time) = admission(100);
        let room = || admission.room(25);
        let mut reserved = admission.claim(25);
        assert_eq!((reserved.room().slots, reserved.room().slow), (25, STARTS));
        assert_eq!((room().slots, room().slow), (25, 0), "they are reserved");
        let mut begun: Vec<Slot> = (0..STARTS - 1).flat_map(|_| reserved.take(false)).collect();
        let quick: Vec<Slot> = (0..10).flat_map(|_| reserved.take(true)).collect();
        drop(reserved);
        assert_eq!((room().slots, room().slow), (25, 1));
        begun.truncate(STARTS - 3);
        assert_eq!(room().slow, 3, "two have ended");
        time.advance(START - MS);
        assert_eq!(room().slow, 3);
        time.advance(MS);
        assert_eq!(room().slow, STARTS, "they have begun");
        drop(quick);
    }

    #[test]
    fn attempts_are_counted_by_class_and_reservations_are_not() {
        let (admission, time) = admission(100);
        let count = || {
            let Running { quick, slow, starting, .. } = admission.running();
            (quick, slow, starting)
        };
        let mut reserved = admission.claim(25);
        assert_eq!(count(), (0, 0, 0));
        let taken: Vec<Slot> =
            [true, true, false].into_iter().flat_map(|quick| reserved.take(quick)).collect();
        assert_eq!(count(), (2, 1, 1));
        drop(reserved);
        time.advance(START);
        assert_eq!(count(), (2, 1, 0), "it has started");
        time.advance(SLOW - START);
        assert_eq!(count(), (0, 3, 0), "the quick ones are slow");
        drop(taken);
        assert_eq!(count(), (0, 0, 0));
    }

    #[test]
    fn slots_are_free_again_when_attempts_and_reservations_end() {
        let (admission, time) = admission(4);
        let mut reserved = admission.claim(3);
        assert_eq!((reserved.room().slots, reserved.room().slow), (3, 2));
        let (quick, slow) = (reserved.take(true), reserved.take(false));
        drop(reserved);
        let free = || (admission.room(9).slots, admission.room(9).slow);
        time.advance(SLOW - MS);
        assert_eq!(free(), (2, 1));
        time.advance(MS);
        assert_eq!(free(), (2, 0), "two slow ones are half of the slots");
        drop((quick, slow));
        assert_eq!(free(), (4, 2));
        drop(admission.claim(1).take(true));
        assert_eq!(free(), (4, 2), "a quick one is free again");
        admission.close();
        assert_eq!((admission.room(9).slots, admission.claim(9).room().slots), (0, 0));
    }

    #[test]
    fn attempt_without_a_slot_of_its_class_takes_one_of_the_other() {
        let (admission, _) = admission(4);
        let mut reserved = admission.claim(4);
        let mut left = vec![(reserved.room().slots, reserved.room().slow)];
        let mut taken = Vec::new();
        for is_quick in [true, true, true, false, false] {
            taken.push(reserved.take(is_quick));
            left.push((reserved.room().slots, reserved.room().slow));
        }
        assert_eq!(left, [(4, 2), (3, 2), (2, 2), (1, 1), (0, 0), (0, 0)]);
        assert!(taken.pop().is_some_and(|last| last.is_none()), "no room is left");
        let Running { quick, slow, .. } = admission.running();
        assert_eq!((quick, slow), (3, 1));
        drop((taken, reserved));
        assert_eq!(admission.room(9).slots, 4);
    }

    #[test]
    fn attempt_that_becomes_slow_leaves_its_slot_when_the_slow_half_is_full() {
        let (admission, time) = admission(4);
        let mut reserved = admission.claim(4);
        let taken: Vec<Slot> =
            [false, false, true, true].into_iter().flat_map(|quick| reserved.take(quick)).collect();
        drop(reserved);
        assert_eq!(admission.room(1).slots, 0);
        time.advance(SLOW);
        let room = admission.room(9);
        assert_eq!((room.slots, room.slow), (2, 0));
        drop(taken);
    }

    #[test]
    fn slot_that_is_freed_after_the_look_at_the_room_ends_the_wait() {
        let (admission, _) = admission(4);
        let mut reserved = admission.claim(1);
        let taken = reserved.take(true);
        let before = admission.freed();
        drop(reserved);
        assert!(before.now_or_never().is_none(), "nothing was left of the reservation");
        let before = admission.freed();
        drop(taken);
        assert!(before.now_or_never().is_some());
        let (reserved, before) = (admission.claim(1), admission.freed());
        drop(reserved);
        assert!(before.now_or_never().is_some());
        assert!(
            admission.freed().now_or_never().is_none(),
            "the room that is seen now has all of these slots"
        );
    }
}
