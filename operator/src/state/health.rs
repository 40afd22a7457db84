//! How deliveries to each Webhook go, and which of them need a new status.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How often counts are written while they move and nothing else does.
pub const COUNTS_EVERY: Duration = Duration::from_secs(60);

/// What the data plane counts of a Webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Deliveries that wait for an attempt.
    pub pending: i64,
    /// Of these, those that wait for another attempt after a failure.
    pub retrying: i64,
    /// Deliveries that were given up.
    pub dead_letter: i64,
    /// Deliveries were given up since the receiver last accepted one.
    pub failing: bool,
    /// When the receiver last accepted a delivery, in milliseconds since 1970.
    pub last_success_at_ms: Option<i64>,
    /// The counts may be written now: the last time is long enough ago.
    pub counts_are_due: bool,
}

impl Health {
    const fn counts(&self) -> (i64, i64, Option<i64>) {
        (self.pending, self.dead_letter, self.last_success_at_ms)
    }

    /// A change of this is written at once.
    const fn state(&self) -> (bool, bool, bool) {
        (self.retrying > 0, self.failing, self.last_success_at_ms.is_some())
    }
}

/// The health of all Webhooks by uid, each with the time when its counts last became due.
#[derive(Debug, Default)]
pub struct Healths(HashMap<String, (Health, Instant)>);

impl Healths {
    /// The health of a Webhook; `None`: the data plane has not reported any.
    pub fn get(&self, webhook_uid: &str) -> Option<Health> {
        self.0.get(webhook_uid).map(|(health, _)| *health)
    }

    /// Takes what was reported in place of what was known. Returns the Webhooks with news: another state, or counts that
    /// moved while the last ones are at least `counts_every` old.
    pub fn replace(
        &mut self,
        reported: HashMap<String, Health>,
        now: Instant,
        counts_every: Duration,
    ) -> Vec<String> {
        let before = std::mem::take(&mut self.0);
        let mut news = Vec::new();
        for (uid, health) in reported {
            let (health, since, is_news) = match before.get(&uid) {
                None => (Health { counts_are_due: true, ..health }, now, true),
                Some((last, since)) => next(last, *since, health, now, counts_every),
            };
            if is_news {
                news.push(uid.clone());
            }
            self.0.insert(uid, (health, since));
        }
        news
    }
}

fn next(
    last: &Health,
    since: Instant,
    health: Health,
    now: Instant,
    counts_every: Duration,
) -> (Health, Instant, bool) {
    let moved = last.counts() != health.counts();
    let due = now.duration_since(since) >= counts_every && (moved || !last.counts_are_due);
    // Counts that moved and were not written yet stay due for the next time.
    let counts_are_due = due || (!moved && last.counts_are_due);
    let is_news = last.state() != health.state() || due;
    (Health { counts_are_due, ..health }, if due { now } else { since }, is_news)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn one(pending: i64, retrying: i64) -> HashMap<String, Health> {
        HashMap::from([("w".to_owned(), Health { pending, retrying, ..Health::default() })])
    }

    #[test]
    fn counts_are_due_once_a_minute_and_states_at_once() {
        let start = Instant::now();
        let mut healths = Healths::default();
        let mut step = |reported, seconds| {
            let news = healths.replace(reported, start + Duration::from_secs(seconds), MINUTE);
            (!news.is_empty(), healths.get("w").is_some_and(|health| health.counts_are_due))
        };
        assert_eq!(step(one(1, 0), 0), (true, true));
        assert_eq!(step(one(1, 0), 15), (false, true), "nothing moved");
        assert_eq!(step(one(2, 0), 30), (false, false), "too soon");
        assert_eq!(step(one(3, 3), 45), (true, false), "a transition, with the old counts");
        assert_eq!(step(one(3, 3), 60), (true, true), "the counts catch up");
        assert_eq!(step(one(3, 3), 200), (false, true), "and rest");
    }
}
