//! How the last sweep of a tenant ended, and where the next one begins.

use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_store::{DatabaseState, StoreError};

use super::scan::SweepResult;
use crate::tenancy::rounds::Lane;
use crate::tenancy::seen::Seen;

/// The pause between two parts of a tenant's sweep, so that 5,000 deliveries a second are scheduled. While the tenant has as many in the
/// schedule as it may, it doubles up to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

/// Where a sweep stopped.
#[derive(Clone, Copy)]
pub(super) struct Stopped {
    /// The last delivery that it scheduled.
    pub(super) at: DeliveryId,
    /// The first delivery for which the schedule had no room.
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

/// How the last sweep of a tenant ended.
pub(super) enum TenantSweep {
    /// All unfinished deliveries were read. If the database had none, this has the state of the database.
    Idle(Seen),
    /// There were more deliveries than a sweep may schedule at once. A further part follows, one at a time in a process: each entry costs
    /// Redis some 20 µs.
    Stopped(Stopped),
    /// The schedule was unavailable after this delivery.
    Cut(DeliveryId),
    /// The database was unavailable.
    Away,
}

impl Default for TenantSweep {
    fn default() -> Self {
        Self::Idle(Seen::default())
    }
}

impl TenantSweep {
    /// Makes the next sweep read everything.
    pub(super) fn start_over(&mut self) {
        if !matches!(self, Self::Away) {
            *self = Self::default();
        }
    }

    /// Whether nothing was written since a sweep that found nothing.
    pub(super) fn is_current(&self, state: Option<&DatabaseState>, now: Duration) -> bool {
        matches!(self, Self::Idle(seen) if seen.is_current(state, now))
    }

    /// Where the next sweep waits, and the delivery after which it begins.
    pub(super) fn next(&self) -> (Lane, Option<DeliveryId>) {
        match self {
            Self::Idle(_) => (Lane::Main, None),
            Self::Stopped(stopped) => (Lane::Part, Some(stopped.at)),
            Self::Cut(at) => (Lane::Main, Some(*at)),
            Self::Away => (Lane::Aside, None),
        }
    }

    /// Returns how the next sweep ended, with this result. `state` is what the database looked like before that sweep; `None`: the database
    /// has to be read again, even if it looks the same.
    pub(super) fn then(
        self,
        result: &Result<SweepResult, StoreError>,
        state: Option<DatabaseState>,
        now: Duration,
        tenant_uid: &str,
    ) -> Self {
        match (result, self) {
            (Ok(SweepResult::Nothing), before) => {
                let mut seen = if let Self::Idle(seen) = before { seen } else { Seen::default() };
                seen.has_read(state, now, tenant_uid);
                Self::Idle(seen)
            }
            // An unfinished delivery is read again: its entry in the schedule may be lost without a trace.
            (Ok(SweepResult::Some), _) => Self::default(),
            (Ok(SweepResult::UpTo(at, refused)), before) => {
                let before = if let Self::Stopped(stopped) = before { Some(stopped) } else { None };
                Stopped::next(before, *at, *refused).map_or_else(Self::default, Self::Stopped)
            }
            (Ok(SweepResult::Cut(at)), _) => Self::Cut(*at),
            (Err(_), _) => Self::Away,
        }
    }
}

#[cfg(test)]
mod tests {
    use docket_store::sqlite::FileState;

    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn after(results: impl IntoIterator<Item = Result<SweepResult, StoreError>>) -> TenantSweep {
        let state = Some(DatabaseState::Files(FileState::of_length(1)));
        let then = |sweep: TenantSweep, result| sweep.then(&result, state.clone(), NOW, "uid");
        results.into_iter().fold(TenantSweep::default(), then)
    }

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

    #[test]
    fn next_sweep_begins_where_the_last_one_ended() {
        let id = |number| DeliveryId::new(jiff::Timestamp::UNIX_EPOCH, [number; 10]);
        let away = || Err(StoreError::Unexpected("away"));
        assert_eq!(after([]).next(), (Lane::Main, None));
        assert_eq!(after([Ok(SweepResult::UpTo(id(1), None))]).next(), (Lane::Part, Some(id(1))));
        assert_eq!(
            after([Ok(SweepResult::UpTo(id(1), None)), Ok(SweepResult::Some)]).next(),
            (Lane::Main, None)
        );
        assert_eq!(after([Ok(SweepResult::Cut(id(1)))]).next(), (Lane::Main, Some(id(1))));
        assert_eq!(after([Ok(SweepResult::UpTo(id(1), None)), away()]).next(), (Lane::Aside, None));
        let refused = (0..6).map(|_| Ok(SweepResult::UpTo(id(1), Some(id(2)))));
        assert_eq!(after(refused).next(), (Lane::Main, None), "it has had no room for a while");
    }

    #[test]
    fn database_is_current_while_sweeps_find_nothing_in_it() {
        let state = DatabaseState::Files(FileState::of_length(1));
        let is_current = |results: &[SweepResult]| {
            after(results.iter().map(|found| Ok(*found))).is_current(Some(&state), NOW)
        };
        // Files have to look the same twice.
        assert!(!is_current(&[SweepResult::Nothing]));
        assert!(is_current(&[SweepResult::Nothing, SweepResult::Nothing]));
        assert!(!is_current(&[SweepResult::Nothing, SweepResult::Nothing, SweepResult::Some]));
        assert!(!is_current(&[SweepResult::Nothing, SweepResult::Some, SweepResult::Nothing]));
    }
}
