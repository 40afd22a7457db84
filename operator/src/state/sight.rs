//! When the API server was last heard on each watch. A process that hears nothing is blind, and must not lead.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The length of a watch in seconds. Then the API server ends it, and the operator opens it again.
pub const WATCH_SECONDS: u32 = 60;
/// A longer time without a sign of the API server is counted as a silence: the server should have ended the watch before.
pub const SILENT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 4);
/// The time limit for a response on a watch, and the time for which a silent watch may fail to open again.
pub const PATIENCE: Duration = Duration::from_secs(75);

/// All watches of this process.
#[derive(Debug, Default)]
pub struct Sight(Mutex<Vec<Arc<Heard>>>);

/// When the API server was last heard on one watch: a response, an event, a bookmark, or an error. Silence is what a connection
/// shows that a load balancer or NAT has forgotten.
#[derive(Debug)]
pub struct Heard {
    kind: &'static str,
    last: Mutex<Instant>,
}

impl Sight {
    /// Adds a watch over a kind that begins now.
    pub fn begin(&self, kind: &'static str, now: Instant) -> Arc<Heard> {
        let heard = Arc::new(Heard { kind, last: Mutex::new(now) });
        self.0.lock().push(heard.clone());
        heard
    }

    /// The time since the API server was last heard, by kind. A kind with a watch for each namespace has the longest time of these.
    pub fn ages(&self, now: Instant) -> BTreeMap<&'static str, Duration> {
        let mut ages = BTreeMap::new();
        for heard in self.0.lock().iter() {
            let age = ages.entry(heard.kind).or_default();
            *age = heard.age(now).max(*age);
        }
        ages
    }

    /// Whether a watch is silent and could not be opened again for [`PATIENCE`], although the API server has responded to other
    /// requests since `answers_since`; `None`: the last request failed. Then the network or the server is down for every
    /// replica, and another leader would see no more.
    pub fn is_blind(&self, answers_since: Option<Instant>, now: Instant) -> bool {
        let answers = answers_since.is_some_and(|since| now.saturating_duration_since(since) >= PATIENCE);
        answers && self.is_silent(now)
    }

    /// Whether a watch is silent and could not be opened again for [`PATIENCE`].
    pub fn is_silent(&self, now: Instant) -> bool {
        self.0.lock().iter().any(|heard| heard.age(now) >= PATIENCE + PATIENCE)
    }
}

impl Heard {
    /// Records a sign of the API server. Returns how long nothing was heard before, if this was longer than [`SILENT`].
    pub fn again(&self, now: Instant) -> Option<Duration> {
        let before = std::mem::replace(&mut *self.last.lock(), now);
        Some(now.saturating_duration_since(before)).filter(|silence| *silence > SILENT)
    }

    /// The kind of the watched objects.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.last.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_longer_than_a_watch() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let heard = Sight::default().begin("Tenant", start);
        assert_eq!(heard.again(at(60)), None, "the server ended the watch");
        assert_eq!(heard.again(at(125)), Some(Duration::from_secs(65)), "it did not end the next one");
        assert_eq!(heard.again(at(126)), None);
    }

    #[test]
    fn age_of_a_kind_is_that_of_its_most_silent_watch() {
        let (sight, start) = (Sight::default(), Instant::now());
        let _silent = sight.begin("Tenant", start);
        sight.begin("Tenant", start).again(start + Duration::from_secs(9));
        sight.begin("Webhook", start + Duration::from_secs(4));
        let ages = sight.ages(start + Duration::from_secs(10));
        let expected = [("Tenant", Duration::from_secs(10)), ("Webhook", Duration::from_secs(6))];
        assert_eq!(ages, BTreeMap::from(expected));
    }

    #[test]
    fn process_is_blind_only_while_the_api_server_answers_others() {
        let (sight, start) = (Sight::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (tenants, webhooks) = (sight.begin("Tenant", start), sight.begin("Webhook", start));
        tenants.again(at(140));
        assert!(!sight.is_blind(Some(start), at(149)), "it may be opened again");
        assert!(sight.is_blind(Some(start), at(150)));
        assert!(!sight.is_blind(None, at(1000)), "the API server is away");
        assert!(!sight.is_blind(Some(at(960)), at(1000)), "the API server came back 40 s ago");
        webhooks.again(at(151));
        assert!(!sight.is_blind(Some(start), at(152)), "it sees again");
    }
}
