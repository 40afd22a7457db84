//! What a database looked like when it was last read, so that it is not read again while it looks the same. No I/O, no
//! clock: times are arguments.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use docket_store::DatabaseState;

/// The least and the most time until a database is read again although nothing seems to have changed. The uid of the tenant decides when
/// between the two, so that databases that were read together are not read together again.
const FULL_ROUND: (Duration, Duration) = (Duration::from_secs(30 * 60), Duration::from_secs(60 * 60));

/// What a database looked like when it was last read to the end, by one reader.
#[derive(Debug, Default)]
pub struct Seen(Option<LastRead>);

#[derive(Debug)]
struct LastRead {
    state: DatabaseState,
    /// Whether the same state means that nothing was written since.
    is_certain: bool,
    until: Duration,
}

impl Seen {
    /// Whether nothing was written since the last read, so that there is nothing to find. `state` is what the database looks like now;
    /// `None`: unknown. `now` is the time by a monotonic clock.
    pub fn is_current(&self, state: Option<&DatabaseState>, now: Duration) -> bool {
        self.0.as_ref().is_some_and(|last| last.is_certain && state == Some(&last.state) && now < last.until)
    }

    /// Records that the database was read to the end, and that there is nothing to do until the next write. `state` is what the database
    /// looked like before that.
    pub fn has_read(&mut self, state: Option<DatabaseState>, now: Duration, tenant_uid: &str) {
        let before = self.0.take();
        self.0 = state.map(|state| {
            // A write may leave a coarse state as it is. It is certain only when two reads saw the same state.
            let is_certain = !state.is_coarse() || before.is_some_and(|before| before.state == state);
            LastRead { state, is_certain, until: now + lasts(tenant_uid) }
        });
    }

    /// Records that there is more to do in the database, or that it could not be read.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

/// Returns for how long a read of this tenant's database lasts.
fn lasts(tenant_uid: &str) -> Duration {
    let (least, most) = FULL_ROUND;
    let mut hasher = DefaultHasher::new();
    tenant_uid.hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 1_000).unwrap_or(0);
    least + (most - least) * share / 1_000
}

#[cfg(test)]
mod tests {
    use docket_store::postgres::Counters;
    use docket_store::sqlite::FileState;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn counted(written: i64) -> DatabaseState {
        DatabaseState::Counters(Counters { written, ..Counters::default() })
    }

    fn read(state: &DatabaseState) -> Seen {
        let mut seen = Seen::default();
        seen.has_read(Some(state.clone()), NOW, "uid");
        seen
    }

    #[test]
    fn database_is_current_while_the_same_is_counted() {
        assert!(!Seen::default().is_current(Some(&counted(5)), NOW), "it was never read");
        assert!(read(&counted(5)).is_current(Some(&counted(5)), NOW));
        assert!(!read(&counted(5)).is_current(Some(&counted(6)), NOW));
        assert!(!read(&counted(5)).is_current(Some(&counted(4)), NOW), "a count that fell");
        assert!(!read(&counted(5)).is_current(None, NOW), "a count that is missing");
    }

    #[test]
    fn database_that_was_made_or_reset_since_is_not_current() {
        let before = Counters { oid: 1, resets: [2, 3], written: 5 };
        for now in [
            Counters { oid: 9, ..before },
            Counters { resets: [9, 3], ..before },
            Counters { resets: [2, 9], ..before },
        ] {
            let (before, now) = (DatabaseState::Counters(before), DatabaseState::Counters(now));
            assert!(!read(&before).is_current(Some(&now), NOW), "{now:?}");
        }
    }

    #[test]
    fn unknown_state_is_never_current() {
        let mut seen = read(&counted(5));
        seen.has_read(None, NOW, "uid");
        assert!(!seen.is_current(None, NOW) && !seen.is_current(Some(&counted(5)), NOW));
        let mut seen = read(&counted(5));
        seen.forget();
        assert!(!seen.is_current(Some(&counted(5)), NOW));
    }

    #[test]
    fn files_are_current_once_two_reads_saw_the_same() {
        let [one, other] = [1, 2].map(|length| DatabaseState::Files(FileState::of_length(length)));
        let mut seen = Seen::default();
        for (files, current) in [(&one, false), (&one, true), (&other, false), (&one, false), (&one, true)] {
            seen.has_read(Some(files.clone()), NOW, "uid");
            assert_eq!(seen.is_current(Some(files), NOW), current);
        }
    }

    #[test]
    fn full_round_is_within_the_hour_and_spread() {
        let ends: Vec<u64> = (0..1_000).map(|number| lasts(&format!("uid-{number}")).as_secs()).collect();
        assert!(ends.iter().all(|end| (1_800..3_600).contains(end)));
        for minute in 30..60 {
            let due = ends.iter().filter(|end| **end / 60 == minute).count();
            assert!((15..60).contains(&due), "{due} of 1,000 in minute {minute}");
        }
        let seen = read(&counted(5));
        let end = NOW + lasts("uid");
        assert!(seen.is_current(Some(&counted(5)), end - Duration::from_millis(1)));
        assert!(!seen.is_current(Some(&counted(5)), end));
    }
}
