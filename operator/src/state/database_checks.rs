//! When to check each tenant's database although nothing about it changed.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// When the next check of each database is due, by the Tenant's uid.
#[derive(Debug, Default)]
pub struct DatabaseChecks(HashMap<String, Instant>);

impl DatabaseChecks {
    /// Whether a check is due. A database that was not checked since this process started counts as well, so its
    /// first check is due after `interval`.
    pub fn is_due(&mut self, uid: &str, now: Instant, interval: Duration) -> bool {
        *self.0.entry(uid.to_owned()).or_insert_with(|| now + interval) <= now
    }

    /// Records that a check ended now. The next check is due after `next`.
    pub fn checked(&mut self, uid: &str, now: Instant, next: Duration) {
        self.0.insert(uid.to_owned(), now + next);
    }

    /// Removes a Tenant that does not exist any more.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_is_due_after_the_interval_and_at_once_after_a_failure() {
        let (mut checks, start, interval) =
            (DatabaseChecks::default(), Instant::now(), Duration::from_secs(60));
        assert!(!checks.is_due("u", start, interval), "after a start it is taken to be well");
        assert!(checks.is_due("u", start + interval, interval));
        checks.checked("u", start + interval, interval);
        assert!(!checks.is_due("u", start + interval, interval));
        checks.checked("u", start + interval, Duration::ZERO);
        assert!(checks.is_due("u", start + interval, interval));
    }
}
