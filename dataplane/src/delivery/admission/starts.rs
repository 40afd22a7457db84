//! The starts of a worker: how many attempts may start at a time whose webhook is not known to answer quickly. Each attempt opens a
//! connection, and hundreds of openings at once would take the cores from quick attempts.

use std::collections::BTreeMap;
use std::time::Duration;

/// The most attempts that start at a time: 120 a second if all take [`START`]. With twice as many, 1,000 endpoints that do not respond
/// keep two cores busy for two seconds whenever their attempts end together.
pub(super) const STARTS: usize = 6;
/// How long an attempt counts as starting, from its claim. Not longer: a database that does not respond must not keep other attempts from
/// starting.
pub(in crate::delivery) const START: Duration = Duration::from_millis(50);

/// When the start of each attempt ends, by the number of the attempt.
#[derive(Default)]
pub(super) struct Starts(BTreeMap<u64, Duration>);

impl Starts {
    pub(super) fn add(&mut self, number: u64, claimed: Duration) {
        self.0.insert(number, claimed + START);
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// Returns how many attempts start now.
    pub(super) fn count(&mut self, now: Duration) -> usize {
        self.0.retain(|_, until| now < *until);
        self.0.len()
    }
}
