//! The slots of a worker: how many attempts it makes at once.
//!
//! Attempts that are slow, since their webhook is not known to answer quickly or since they run for longer than a second,
//! use at most half of the slots. An attempt that becomes slow while they do leaves its slot to another, so that
//! quick webhooks always have the other half. Of the slow half, an eighth is for tenants that have no attempt at all.

use std::sync::Arc;
use std::time::Duration;

use docket_schedule::Room;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// An attempt that runs for longer is slow.
pub(super) const SLOW: Duration = Duration::from_secs(1);

/// The slots of a worker.
pub(super) struct Slots {
    total: usize,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Default)]
struct Used {
    quick: usize,
    slow: usize,
    /// No more are given.
    closed: bool,
}

/// Slots for claims that are being made.
pub(super) struct Reserved {
    slots: Arc<Slots>,
    left: Room,
}

/// The slot of one attempt, which is free again when this is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    quick: bool,
}

/// How many more fit, if at most half of all may be slow.
fn room(total: usize, quick: usize, slow: usize) -> Room {
    let half = total / 2;
    let slots = total.saturating_sub(quick + slow.min(half));
    Room { slots, slow: half.saturating_sub(slow).min(slots), newcomers: half / 8 }
}

/// At most so many of a room, of which those for newcomers are the last ones.
fn at_most(Room { slots, slow, newcomers }: Room, most: usize) -> Room {
    let (slots, for_all) = (slots.min(most), slow.saturating_sub(newcomers));
    let slow = slow.min(slots);
    Room { slots, slow, newcomers: slow.saturating_sub(for_all) }
}

/// For a claim: of its entries at most half may be of webhooks that are not known to be quick. Those are claimed first, so that what
/// is due for quick webhooks would else wait until hundreds of others have their slots.
pub(super) fn for_a_claim(Room { slots, slow, newcomers }: Room) -> Room {
    let (for_all, slow) = (slow.saturating_sub(newcomers), slow.min(slots.div_ceil(2)));
    Room { slots, slow, newcomers: slow.saturating_sub(for_all) }
}

impl Slots {
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, used: Mutex::default(), freed: Notify::new() })
    }

    /// At most so many of those that are free.
    pub(super) fn reserve(self: &Arc<Self>, most: usize) -> Reserved {
        let mut used = self.used.lock();
        let free = if used.closed { Room::default() } else { room(self.total, used.quick, used.slow) };
        let left = at_most(free, most);
        used.quick += left.slots - left.slow;
        used.slow += left.slow;
        Reserved { slots: Arc::clone(self), left }
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
        self.left.slots -= 1;
        if !from_quick {
            self.left.slow -= 1;
        }
        if from_quick != quick {
            self.slots.used.lock().change(from_quick, quick);
        }
        Some(Slot { slots: Arc::clone(&self.slots), quick })
    }
}

impl Used {
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
    }
}

impl Slot {
    /// The attempt runs for longer than [`SLOW`].
    pub(super) fn is_slow(&mut self) {
        if self.quick {
            self.quick = false;
            self.slots.used.lock().change(true, false);
            self.slots.freed.notify_one();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.slots.used.lock().of(self.quick) -= 1;
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
    }

    #[test]
    fn last_slow_slots_are_for_tenants_without_an_attempt() {
        let free = |slow, most| {
            let Room { slow, newcomers, .. } = at_most(room(160, 0, slow), most);
            (slow, newcomers)
        };
        assert_eq!(free(0, 25), (25, 0));
        assert_eq!(free(55, 25), (25, 10));
        assert_eq!(free(60, 25), (20, 10));
        assert_eq!(free(72, 25), (8, 8));
        assert_eq!(free(80, 25), (0, 0));
    }

    #[test]
    fn half_of_a_claim_is_for_quick_webhooks() {
        let of_claim = |slots, slow, newcomers| {
            let Room { slots, slow, newcomers } = for_a_claim(Room { slots, slow, newcomers });
            (slots, slow, newcomers)
        };
        assert_eq!(of_claim(25, 25, 0), (25, 13, 0));
        assert_eq!(of_claim(25, 25, 10), (25, 13, 0));
        assert_eq!(of_claim(25, 20, 18), (25, 13, 11), "two are for all");
        assert_eq!(of_claim(25, 8, 8), (25, 8, 8));
        assert_eq!(of_claim(1, 1, 0), (1, 1, 0));
    }

    #[test]
    fn slots_are_free_again_when_attempts_and_reservations_end() {
        let slots = Slots::new(4);
        let mut reserved = slots.reserve(3);
        assert_eq!((reserved.room().slots, reserved.room().slow), (3, 2));
        let (mut quick, slow) = (reserved.take(true), reserved.take(false));
        drop(reserved);
        let free = || {
            let reserved = slots.reserve(9);
            (reserved.room().slots, reserved.room().slow)
        };
        assert_eq!(free(), (2, 1));
        quick.iter_mut().for_each(Slot::is_slow);
        assert_eq!(free(), (2, 0), "two slow ones are half of the slots");
        drop((quick, slow));
        assert_eq!(free(), (4, 2));
        slots.close();
        assert_eq!(slots.reserve(9).room().slots, 0);
    }

    #[test]
    fn attempt_that_becomes_slow_leaves_its_slot_when_the_slow_half_is_full() {
        let slots = Slots::new(4);
        let mut reserved = slots.reserve(4);
        let mut taken: Vec<Slot> =
            [false, false, true, true].into_iter().flat_map(|quick| reserved.take(quick)).collect();
        drop(reserved);
        assert_eq!(slots.reserve(1).room().slots, 0);
        taken[3].is_slow();
        let room = slots.reserve(9).room();
        assert_eq!((room.slots, room.slow), (1, 0));
    }
}
