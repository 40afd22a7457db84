//! The health of deliveries to each Webhook, and which part of it a status reports.
//!
//! A report is always one reading as a whole, so its counts never contradict the condition beside them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two reports in which only counts differ. Also how long a receiver that fails again and
/// again must be better before this is reported.
pub const REPORTED_EVERY: Duration = Duration::from_secs(600);

/// The data plane's counts for a Webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The number of deliveries that wait for an attempt.
    pub pending: i64,
    /// The number of pending deliveries that wait for another attempt after a failure.
    pub retrying: i64,
    /// The number of open dead letters.
    pub dead_letter: i64,
    /// Whether deliveries became dead letters since the receiver last accepted one.
    pub failing: bool,
    /// When the receiver last accepted a delivery, in milliseconds since 1970.
    pub last_success_at_ms: Option<i64>,
    /// Whether the tenant lacks the Webhook's customer.
    pub lacks_customer: bool,
}

impl Health {
    /// The facts behind the condition: how bad the health is (0 is good), whether a delivery ever succeeded, and
    /// whether the customer is unknown.
    const fn state(&self) -> (u8, bool, bool) {
        let bad = if self.retrying > 0 {
            1
        } else if self.failing {
            2
        } else {
            0
        };
        (bad, self.last_success_at_ms.is_some(), self.lacks_customer)
    }
}

/// The health of a Webhook that its status reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The reading that is reported.
    pub health: Health,
    /// Whether this is the first reading of this process. If so, and if the status has the same condition already,
    /// the status keeps its counts.
    pub is_first: bool,
}

/// The reported health of all Webhooks, by uid.
#[derive(Debug, Default)]
pub struct Healths(HashMap<String, HealthEntry>);

#[derive(Clone, Copy, Debug)]
struct HealthEntry {
    reported: Reported,
    /// When the reading was reported.
    since: Instant,
    /// When the reported health last became better.
    recovered: Option<Instant>,
    /// Whether the reported health became worse again soon after that.
    has_relapsed: bool,
    /// The time since when readings are better than the reported reading.
    better_since: Option<Instant>,
}

impl Healths {
    /// The health of a Webhook that its status reports; `None`: the data plane has not reported any.
    pub fn get(&self, webhook_uid: &str) -> Option<Reported> {
        self.0.get(webhook_uid).map(|entry| entry.reported)
    }

    /// Replaces the readings. Returns the Webhooks whose report changes.
    ///
    /// A reading that is worse or better is reported without delay. But if the receiver became worse within `every`
    /// after it had become better, it must be better for `every` before this is reported. A reading in which only
    /// counts differ is reported at most once in `every`.
    pub fn replace(&mut self, read: HashMap<String, Health>, now: Instant, every: Duration) -> Vec<String> {
        self.0.retain(|uid, _| read.contains_key(uid));
        let mut news = Vec::new();
        for (uid, health) in read {
            match self.0.entry(uid) {
                Entry::Occupied(mut known) => {
                    if known.get_mut().read(health, now, every) {
                        news.push(known.key().clone());
                    }
                }
                Entry::Vacant(new) => {
                    news.push(new.key().clone());
                    let first = HealthEntry::first(new.key(), health, now, every);
                    new.insert(first);
                }
            }
        }
        news
    }
}

impl HealthEntry {
    /// After a start the counts of many are due; each at a time of its own, one to two intervals later.
    fn first(uid: &str, health: Health, now: Instant, every: Duration) -> Self {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        let share = u32::try_from(hasher.finish() % 1000).unwrap_or(0);
        let reported = Reported { health, is_first: true };
        Self {
            reported,
            since: now + every * share / 1000,
            recovered: None,
            has_relapsed: false,
            better_since: None,
        }
    }

    /// Whether this reading must be reported.
    fn read(&mut self, health: Health, now: Instant, every: Duration) -> bool {
        let (before, after) = (self.reported.health.state(), health.state());
        let is_old = |since: Instant| now.saturating_duration_since(since) >= every;
        if after.0 >= before.0 {
            self.better_since = None;
        }
        let is_news = if after.0 < before.0 {
            let better_since = *self.better_since.get_or_insert(now);
            !self.has_relapsed || is_old(better_since)
        } else if after == before {
            is_old(self.since) && (self.reported.is_first || health != self.reported.health)
        } else {
            true
        };
        if is_news {
            if after.0 < before.0 {
                (self.recovered, self.better_since) = (Some(now), None);
            } else if after.0 > before.0 {
                self.has_relapsed = self.recovered.is_some_and(|since| !is_old(since));
            }
            self.reported = Reported { health, is_first: false };
            self.since = now;
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = REPORTED_EVERY;

    struct Watched {
        healths: Healths,
        start: Instant,
        second: u64,
    }

    impl Watched {
        fn new() -> Self {
            Self { healths: Healths::default(), start: Instant::now(), second: 0 }
        }

        /// Takes a reading this many seconds later. Returns whether it must be reported.
        fn reads(&mut self, seconds: u64, health: Health) -> bool {
            self.second += seconds;
            let now = self.start + Duration::from_secs(self.second);
            !self.healths.replace(HashMap::from([("w".to_owned(), health)]), now, EVERY).is_empty()
        }

        fn reported(&self) -> Health {
            self.healths.get("w").expect("it was read").health
        }
    }

    fn well(pending: i64, second: i64) -> Health {
        Health { pending, last_success_at_ms: Some(second * 1000), ..Health::default() }
    }

    fn retrying(pending: i64) -> Health {
        Health { pending, retrying: pending, last_success_at_ms: Some(0), ..Health::default() }
    }

    #[test]
    fn busy_webhook_is_reported_once_in_ten_minutes() {
        let mut watched = Watched::new();
        let mut reports = 0;
        for poll in 0..4 * 60 * 24 {
            reports += usize::from(watched.reads(15, well(poll % 7, poll)));
        }
        // The first reading, whose counts are not written, and then one report in ten minutes.
        assert!((140..=145).contains(&reports), "{reports} in a day");
        let mut still = Watched::new();
        let reports: usize = (0..4 * 60 * 24).map(|_| usize::from(still.reads(15, well(1, 1)))).sum();
        assert_eq!(reports, 2, "the status of before may have had other counts");
    }

    #[test]
    fn transition_is_reported_at_once_with_its_counts() {
        let mut watched = Watched::new();
        assert!(watched.reads(0, Health::default()));
        assert!(watched.reads(15, well(0, 1)), "the first success");
        assert!(watched.reads(15, retrying(3)));
        assert_eq!(watched.reported(), retrying(3));
        assert!(!watched.reads(15, retrying(5)));
        let dead = Health { dead_letter: 5, failing: true, last_success_at_ms: Some(0), ..Health::default() };
        assert!(watched.reads(15, dead));
        assert_eq!(watched.reported(), dead);
        assert!(watched.reads(15, well(0, 90)), "the first recovery");
        assert_eq!(watched.reported(), well(0, 90));
    }

    #[test]
    fn receiver_that_fails_again_and_again_is_reported_as_failing() {
        let mut watched = Watched::new();
        watched.reads(0, well(0, 0));
        let mut reports = Vec::new();
        for poll in 0..4 * 60 {
            let health = if poll % 2 == 0 { retrying(1) } else { well(0, poll) };
            if watched.reads(15, health) {
                reports.push(poll);
            }
            assert!(watched.reported() == retrying(1) || poll == 1, "{poll}");
        }
        // The health becomes worse, better, worse. Its counts do not change.
        assert_eq!(reports, [0, 1, 2]);
        assert!(!watched.reads(15, well(0, 5000)) && !watched.reads(570, well(0, 5001)));
        assert!(watched.reads(15, well(0, 5002)), "well for ten minutes");
        assert_eq!(watched.reported(), well(0, 5002));
        // The webhook has been well for longer than ten minutes, so this is no relapse.
        assert!(watched.reads(601, retrying(1)));
        assert!(watched.reads(15, well(0, 5003)), "reported at once");
    }

    #[test]
    fn lost_customer_is_reported_at_once() {
        let mut watched = Watched::new();
        watched.reads(0, well(0, 1));
        let lacking = Health { lacks_customer: true, ..well(0, 1) };
        assert!(watched.reads(15, lacking));
        assert_eq!(watched.reported(), lacking);
        assert!(watched.reads(15, well(0, 1)), "it is there again");
    }

    #[test]
    fn counts_of_many_are_not_due_in_one_moment_after_a_start() {
        let (mut healths, start) = (Healths::default(), Instant::now());
        let read = |pending| (0..100).map(|number| (format!("w-{number}"), well(pending, 1))).collect();
        assert_eq!(healths.replace(read(1), start, EVERY).len(), 100);
        let half = healths.replace(read(2), start + EVERY + EVERY / 2, EVERY).len();
        assert!((20..80).contains(&half), "{half} of 100 in the first half");
        let rest = healths.replace(read(2), start + EVERY * 2, EVERY).len();
        assert_eq!(half + rest, 100);
    }
}
