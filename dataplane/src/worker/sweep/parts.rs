//! The parts of a sweep that has more deliveries than it may schedule at once.

use std::time::Duration;

use docket_domain::delivery::DeliveryId;

/// The pause between two parts of a tenant's sweep, so that 5,000 deliveries a second are scheduled. While the tenant has as many in the
/// schedule as it may, it doubles up to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

/// When a sweep starts.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// After this time.
    After(Duration),
    /// After this pause as a further part, of which one of a second is done in a process: each entry costs Redis some 20 µs.
    Part(Duration),
}

impl Start {
    pub(super) const NOW: Self = Self::After(Duration::ZERO);

    /// How long it waits, and how long then as the next part in turn.
    pub(super) fn waits(self) -> (Duration, Option<Duration>) {
        match self {
            Self::After(wait) => (wait, None),
            Self::Part(pause) => (pause.saturating_sub(PAUSES.0), Some(PAUSES.0)),
        }
    }
}

/// Where a sweep stopped.
#[derive(Clone, Copy)]
pub(super) struct Stopped {
    /// The last delivery that it scheduled.
    pub(super) at: DeliveryId,
    /// The first one that had no room.
    refused: Option<DeliveryId>,
    /// How long the next part waits.
    pub(super) pause: Duration,
}

impl Stopped {
    /// Where the part after `before` stopped. `None`: the schedule has had no room for a while, so that the next sweep begins with the
    /// first delivery.
    pub(super) fn next(before: Option<Self>, at: DeliveryId, refused: Option<DeliveryId>) -> Option<Self> {
        let (least, most) = PAUSES;
        let pause = match before.filter(|before| refused.is_some() && before.refused == refused) {
            Some(before) if before.pause == most => return None,
            Some(before) => (before.pause * 2).min(most),
            None => least,
        };
        Some(Self { at, refused, pause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_ever_later_while_there_is_no_room_and_then_a_sweep_starts_over() {
        let id = |number| DeliveryId::new(jiff::Timestamp::UNIX_EPOCH, [number; 10]);
        let mut stopped = None;
        let mut next = |refused: Option<u8>| {
            stopped = Stopped::next(stopped, DeliveryId::default(), refused.map(id));
            stopped.map(|stopped| stopped.pause.as_secs())
        };
        assert_eq!([None, None, Some(1), Some(1), Some(1)].map(&mut next), [1, 1, 1, 2, 4].map(Some));
        let refused = [Some(2); 5].map(&mut next);
        assert_eq!(refused, [1, 2, 4, 8, 16].map(Some), "the one before had room since");
        assert_eq!([Some(2), Some(2)].map(&mut next), [None, Some(1)]);
    }
}
