//! The slots of a worker: how many attempts it makes at once.
//!
//! Attempts that are slow, since their webhook is not known to answer quickly or since they have their slot for longer than a second,
//! use at most half of the slots. An attempt that becomes slow while they do leaves its slot to another, so that
//! quick webhooks always have the other half. Of the slow half, an eighth is for tenants that have no attempt at all. There are never more
//! attempts than twice the slots.
//!
//! Attempts of webhooks that are not known to be quick begin only a few at a time: each opens a connection, and hundreds at once
//! would take the cores from quick ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docket_schedule::Room;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// An attempt that has its slot for so long is slow, whether it waits for its database or for its receiver.
const SLOW: Duration = Duration::from_secs(1);

/// The most attempts of webhooks that are not known to be quick that begin at a time: 120 a second if all take [`START`]. With twice
/// as many, 1,000 endpoints that do not respond keep two cores busy for two seconds whenever their attempts end together.
const STARTS: usize = 6;
/// For so long after its claim such an attempt counts as one that begins: a database that does not respond must not keep the
/// others from beginning.
pub(super) const START: Duration = Duration::from_millis(50);

/// For each slot, the most attempts, with those that have left their slots. Each takes some 100 KB.
const MOST_ATTEMPTS: usize = 2;

/// The slots of a worker.
pub(super) struct Slots {
    total: usize,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Default)]
struct Used {
    quick: usize,
    /// Since when those of the quick ones that are not only reserved have their slots, by the number of the slot.
    since: BTreeMap<u64, Duration>,
    slow: usize,
    /// Of the slow ones, so many are reserved.
    reserved: usize,
    /// Until when attempts count as beginning, by the number of the slot.
    starting: BTreeMap<u64, Duration>,
    last_number: u64,
    /// No more are given.
    closed: bool,
}

/// How many attempts have or had a slot, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlight {
    /// Quick attempts.
    pub(super) quick: usize,
    /// Slow attempts, also attempts that have left their slots.
    pub(super) slow: usize,
    /// Slow attempts that count as beginning.
    pub(super) starting: usize,
}

/// Slots for claims that are being made.
pub(super) struct Reserved {
    slots: Arc<Slots>,
    left: Room,
    /// When it was made.
    at: Duration,
}

/// The slot of one attempt, which is free again when this is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
}

/// How many more fit, if at most half of all may be slow.
fn room(total: usize, quick: usize, slow: usize) -> Room {
    let half = total / 2;
    let slots = total
        .saturating_sub(quick + slow.min(half))
        .min((MOST_ATTEMPTS * total).saturating_sub(quick + slow));
    Room { slots, slow: half.saturating_sub(slow).min(slots), without_claim: half / 8 }
}

/// At most so many of a room, and so many slow ones, of which those for without_claim are the last ones.
fn at_most(Room { slots, slow, without_claim }: Room, most: usize, most_slow: usize) -> Room {
    let (slots, for_all) = (slots.min(most), slow.saturating_sub(without_claim));
    let slow = slow.min(slots).min(most_slow);
    Room { slots, slow, without_claim: slow.saturating_sub(for_all) }
}

impl Slots {
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, used: Mutex::default(), freed: Notify::new() })
    }

    /// At most so many of those that are free now, by the clock's elapsed time.
    pub(super) fn reserve(self: &Arc<Self>, most: usize, now: Duration) -> Reserved {
        let mut used = self.used.lock();
        used.look(now);
        let free = if used.closed { Room::default() } else { room(self.total, used.quick, used.slow) };
        used.starting.retain(|_, until| now < *until);
        let left = at_most(free, most, STARTS.saturating_sub(used.starting.len() + used.reserved));
        used.quick += left.slots - left.slow;
        used.slow += left.slow;
        used.reserved += left.slow;
        Reserved { slots: Arc::clone(self), left, at: now }
    }

    /// How many attempts there are, by the clock's elapsed time. Reserved slots are of no attempt yet.
    pub(super) fn in_flight(&self, now: Duration) -> InFlight {
        let mut used = self.used.lock();
        used.look(now);
        let starting = used.starting.values().filter(|until| now < **until).count();
        InFlight { quick: used.since.len(), slow: used.slow - used.reserved, starting }
    }

    /// How many slots there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Gives no more slots.
    pub(super) fn close(&self) {
        self.used.lock().closed = true;
    }

    /// Returns after a slot was freed since the last call of this; may return early.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Reserved {
    /// What is left of it.
    pub(super) fn room(&self) -> Room {
        self.left
    }

    /// Takes one; `None`: none is left.
    pub(super) fn take(&mut self, quick: bool) -> Option<Slot> {
        let quick_left = self.left.slots - self.left.slow;
        let from_quick = match quick {
            true => quick_left > 0,
            false => self.left.slow == 0,
        };
        if self.left.slots == 0 {
            return None;
        }
        let mut used = self.slots.used.lock();
        self.left.slots -= 1;
        if !from_quick {
            self.left.slow -= 1;
            used.reserved -= 1;
        }
        if from_quick != quick {
            used.change(from_quick, quick);
        }
        used.last_number += 1;
        let number = used.last_number;
        match quick {
            true => used.since.insert(number, self.at),
            false => used.starting.insert(number, self.at + START),
        };
        Some(Slot { slots: Arc::clone(&self.slots), number })
    }

    /// Gives back what is left of it, and notifies those that wait for a slot.
    pub(super) fn give_back(self) {
        let (slots, left) = (Arc::clone(&self.slots), self.left.slots);
        drop(self);
        if left > 0 {
            slots.freed.notify_one();
        }
    }
}

impl Used {
    /// Counts those quick attempts as slow that have their slots for too long.
    fn look(&mut self, now: Duration) {
        while let Some(oldest) = self.since.first_entry()
            && now >= *oldest.get() + SLOW
        {
            oldest.remove();
            self.change(true, false);
        }
    }

    fn of(&mut self, quick: bool) -> &mut usize {
        if quick { &mut self.quick } else { &mut self.slow }
    }

    fn change(&mut self, from_quick: bool, to_quick: bool) {
        *self.of(from_quick) -= 1;
        *self.of(to_quick) += 1;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut used = self.slots.used.lock();
        used.quick -= self.left.slots - self.left.slow;
        used.slow -= self.left.slow;
        used.reserved -= self.left.slow;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut used = self.slots.used.lock();
        let quick = used.since.remove(&self.number).is_some();
        *used.of(quick) -= 1;
        used.starting.remove(&self.number);
        drop(used);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn last_slow_slots_are_for_tenants_without_an_attempt() {
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
        let slots = Slots::new(100);
        let room = |at: Duration| slots.reserve(25, at).room();
        let now = Duration::from_secs(9);
        let mut reserved = slots.reserve(25, now);
        assert_eq!((reserved.room().slots, reserved.room().slow), (25, STARTS));
        assert_eq!((room(now).slots, room(now).slow), (25, 0), "they are reserved");
        let mut begun: Vec<Slot> = (0..STARTS - 1).flat_map(|_| reserved.take(false)).collect();
        let quick: Vec<Slot> = (0..10).flat_map(|_| reserved.take(true)).collect();
        drop(reserved);
        assert_eq!((room(now).slots, room(now).slow), (25, 1));
        begun.truncate(STARTS - 3);
        assert_eq!(room(now).slow, 3, "two have ended");
        assert_eq!(room(now + START - Duration::from_millis(1)).slow, 3);
        assert_eq!(room(now + START).slow, STARTS, "they have begun");
        drop(quick);
    }

    #[test]
    fn attempts_are_counted_by_class_and_reservations_are_not() {
        let slots = Slots::new(100);
        let count = |at| {
            let InFlight { quick, slow, starting } = slots.in_flight(at);
            (quick, slow, starting)
        };
        let mut reserved = slots.reserve(25, Duration::ZERO);
        assert_eq!(count(Duration::ZERO), (0, 0, 0));
        let taken: Vec<Slot> =
            [true, true, false].into_iter().flat_map(|quick| reserved.take(quick)).collect();
        assert_eq!(count(Duration::ZERO), (2, 1, 1));
        drop(reserved);
        assert_eq!(count(START), (2, 1, 0), "it has started");
        assert_eq!(count(SLOW), (0, 3, 0), "the quick ones are slow");
        drop(taken);
        assert_eq!(count(SLOW), (0, 0, 0));
    }

    #[test]
    fn slots_are_free_again_when_attempts_and_reservations_end() {
        let slots = Slots::new(4);
        let mut reserved = slots.reserve(3, Duration::ZERO);
        assert_eq!((reserved.room().slots, reserved.room().slow), (3, 2));
        let (quick, slow) = (reserved.take(true), reserved.take(false));
        drop(reserved);
        let free = |at| {
            let reserved = slots.reserve(9, at);
            (reserved.room().slots, reserved.room().slow)
        };
        assert_eq!(free(SLOW - Duration::from_millis(1)), (2, 1));
        assert_eq!(free(SLOW), (2, 0), "two slow ones are half of the slots");
        drop((quick, slow));
        assert_eq!(free(SLOW), (4, 2));
        drop(slots.reserve(1, SLOW).take(true));
        assert_eq!(free(SLOW), (4, 2), "a quick one is free again");
        slots.close();
        assert_eq!(slots.reserve(9, Duration::ZERO).room().slots, 0);
    }

    #[test]
    fn attempt_that_becomes_slow_leaves_its_slot_when_the_slow_half_is_full() {
        let slots = Slots::new(4);
        let mut reserved = slots.reserve(4, Duration::ZERO);
        let taken: Vec<Slot> =
            [false, false, true, true].into_iter().flat_map(|quick| reserved.take(quick)).collect();
        drop(reserved);
        assert_eq!(slots.reserve(1, Duration::ZERO).room().slots, 0);
        let room = slots.reserve(9, SLOW).room();
        assert_eq!((room.slots, room.slow), (2, 0));
        drop(taken);
    }
}
