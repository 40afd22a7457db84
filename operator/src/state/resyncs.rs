//! When a Tenant at rest is checked again. Changes of everything that is watched cause passes of their own. So a check looks only at
//! its database, and at objects without the label.
//!
//! All checks together read one object in [`READ_EVERY`] on average, and log in to one database in twice that time. So the cost at rest
//! has a bound for any number of Tenants; with many, the checks of a Tenant are further apart.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::state::references::Value;

/// The time between two reads, on average and over all Tenants.
pub const READ_EVERY: Duration = Duration::from_secs(3);
/// The reads for the check of a database: the runtime Secret, and the Secret with the password or the URL.
const OF_DATABASE: usize = 2;

/// An object without the label, and the version that was read last; `None`: it did not exist.
pub type Unwatched = (Value, Option<String>);

/// What a whole pass over a Tenant left when there was nothing more to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// A digest of the URLs of its database server and of this server's watcher. They are in no object.
    pub server: u64,
    /// When the Tenant needs a whole pass although nothing changed: to rotate its keys.
    pub until: Instant,
    /// The objects that must be read to see whether they changed.
    pub unwatched: Arc<[Unwatched]>,
}

/// What to do about a Tenant that no change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resync {
    /// A whole pass.
    Whole,
    /// Do nothing before this time.
    Later(Instant),
    /// Check the database and these objects.
    Check(Arc<[Unwatched]>),
}

/// The Tenants at rest, by uid.
#[derive(Debug, Default)]
pub struct Resyncs {
    tenants: HashMap<String, Rest>,
    /// When the next check of a Tenant may begin. A turn stays over a whole pass: it is for reads that no whole pass gives back.
    turns: HashMap<String, Instant>,
    /// When the reads of all checks with a turn have been made.
    free_at: Option<Instant>,
}

impl Resyncs {
    /// Decides what to do about a Tenant now. `server` is as in [`Rest`]. Turns are given in the order of these calls.
    pub fn next(&mut self, uid: &str, server: u64, now: Instant) -> Resync {
        let Some(rest) = self.tenants.get(uid) else { return Resync::Whole };
        if rest.server != server || rest.until <= now {
            return Resync::Whole;
        }
        let turn = self.turns.get(uid).copied();
        let at = turn.unwrap_or_else(|| {
            let at = self.free_at.map_or(now, |free| free.max(now));
            let reads = u32::try_from(OF_DATABASE + rest.unwatched.len()).unwrap_or(u32::MAX);
            self.free_at = Some(at + READ_EVERY * reads);
            self.turns.insert(uid.to_owned(), at);
            at
        });
        if at > now { Resync::Later(at.min(rest.until)) } else { Resync::Check(rest.unwatched.clone()) }
    }

    /// A check found no change. A check that ended otherwise keeps its turn.
    pub fn checked(&mut self, uid: &str) {
        self.turns.remove(uid);
    }

    /// A whole pass had nothing more to do.
    pub fn rests(&mut self, uid: &str, rest: Rest) {
        self.tenants.insert(uid.to_owned(), rest);
    }

    /// A whole pass begins.
    pub fn rests_no_more(&mut self, uid: &str) {
        self.tenants.remove(uid);
    }

    /// The Tenant does not exist any more.
    pub fn forget(&mut self, uid: &str) {
        self.rests_no_more(uid);
        self.turns.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use docket_crds::ValueKind;

    use super::*;
    use crate::state::name::Name;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn rest(now: Instant, unwatched: usize) -> Rest {
        let one = |number| ((ValueKind::Secret, Name::new("a", format!("s-{number}"))), None);
        Rest { server: 1, until: now + DAY * 90, unwatched: (0..unwatched).map(one).collect() }
    }

    #[test]
    fn ten_thousand_tenants_at_rest_cost_a_read_in_three_seconds() {
        let (mut resyncs, start) = (Resyncs::default(), Instant::now());
        let uids: Vec<String> = (0..10_000).map(|number| format!("u-{number}")).collect();
        uids.iter().for_each(|uid| resyncs.rests(uid, rest(start, 0)));
        let (mut reads, mut checks) = (0, 0);
        // Each is asked about every ten minutes, for twenty hours.
        for round in 0..120_u64 {
            for (uid, number) in uids.iter().zip(0..) {
                let now = start + Duration::from_secs(600 * round) + Duration::from_millis(60) * number;
                if let Resync::Check(_) = resyncs.next(uid, 1, now) {
                    resyncs.checked(uid);
                    (reads, checks) = (reads + OF_DATABASE, checks + 1);
                }
            }
        }
        let seconds = 120 * 600;
        assert!(reads <= seconds / 3 + OF_DATABASE, "{reads} reads");
        assert!(checks >= 11_000, "each is checked about every 17 hours: {checks}");
    }

    #[test]
    fn few_tenants_are_checked_whenever_they_are_asked_about() {
        let (mut resyncs, start) = (Resyncs::default(), Instant::now());
        for uid in ["a", "b"] {
            resyncs.rests(uid, rest(start, 1));
        }
        assert!(matches!(resyncs.next("a", 1, start), Resync::Check(unwatched) if unwatched.len() == 1));
        let nine = start + 3 * READ_EVERY;
        assert_eq!(resyncs.next("b", 1, start), Resync::Later(nine));
        assert_eq!(resyncs.next("b", 1, start), Resync::Later(nine), "it has its turn");
        assert!(matches!(resyncs.next("a", 1, nine), Resync::Check(_)), "its check has not ended");
        assert!(matches!(resyncs.next("b", 1, nine), Resync::Check(_)));
    }

    #[test]
    fn quiet_time_saves_no_turns_up() {
        let (mut resyncs, start) = (Resyncs::default(), Instant::now());
        for uid in ["a", "b", "c"] {
            resyncs.rests(uid, rest(start, 0));
        }
        assert!(matches!(resyncs.next("a", 1, start), Resync::Check(_)));
        let later = start + Duration::from_secs(3600);
        assert!(matches!(resyncs.next("b", 1, later), Resync::Check(_)));
        assert_eq!(resyncs.next("c", 1, later), Resync::Later(later + 2 * READ_EVERY));
    }

    #[test]
    fn whole_passes_do_not_put_the_checks_off() {
        let (mut resyncs, start) = (Resyncs::default(), Instant::now());
        for uid in ["a", "b"] {
            resyncs.rests(uid, rest(start, 0));
        }
        assert!(matches!(resyncs.next("a", 1, start), Resync::Check(_)));
        let second = start + 2 * READ_EVERY;
        for _ in 0..100 {
            assert_eq!(resyncs.next("b", 1, start), Resync::Later(second));
            resyncs.rests_no_more("b");
            resyncs.rests("b", rest(start, 0));
        }
    }

    #[test]
    fn whole_pass_follows_another_server_the_time_of_a_rotation_and_an_unfinished_pass() {
        let (mut resyncs, start) = (Resyncs::default(), Instant::now());
        assert_eq!(resyncs.next("a", 1, start), Resync::Whole, "none ended yet");
        resyncs.rests("a", rest(start, 0));
        assert_eq!(resyncs.next("a", 2, start), Resync::Whole);
        assert_eq!(resyncs.next("a", 1, start + DAY * 90), Resync::Whole);
        resyncs.rests("long", rest(start, 1000));
        assert!(matches!(resyncs.next("long", 1, start), Resync::Check(_)));
        let soon = start + READ_EVERY;
        resyncs.rests("rotates", Rest { until: soon, ..rest(start, 0) });
        assert_eq!(resyncs.next("rotates", 1, start), Resync::Later(soon), "before its turn");
        resyncs.forget("a");
        assert_eq!(resyncs.next("a", 1, start), Resync::Whole);
    }
}
