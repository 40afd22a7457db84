//! When to read again the Secrets and ConfigMaps that are named and do not exist yet. In a deployment from Git, another program
//! often creates them some seconds later.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use docket_crds::ReasonCode;
use tokio::time::Instant;

use crate::state::conditions::ARRIVAL;

/// The shortest and the longest time until they are read again. It doubles each time.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

/// What a generation of an object, by uid, lacks.
pub type Lacking = (String, i64, ReasonCode);

/// Since when something is lacking, by the Tenant's uid. It has an entry only for Tenants that lack something, or whose Webhooks do.
#[derive(Debug, Default)]
pub struct Arrivals(HashMap<String, HashMap<Lacking, Instant>>);

impl Arrivals {
    /// Records what a Tenant and its Webhooks lack. Returns after which time to read it again; `None`: nothing is lacking, or
    /// it has been lacking for [`ARRIVAL`], so that it no longer counts as on its way.
    pub fn read_again(
        &mut self,
        tenant_uid: &str,
        lacking: HashSet<Lacking>,
        now: Instant,
    ) -> Option<Duration> {
        let before = self.0.remove(tenant_uid).unwrap_or_default();
        if lacking.is_empty() {
            return None;
        }
        let since = |one: Lacking| {
            let since = before.get(&one).copied().unwrap_or(now);
            (one, since)
        };
        let since: HashMap<Lacking, Instant> = lacking.into_iter().map(since).collect();
        let next = since.values().filter_map(|since| pause(now.saturating_duration_since(*since))).min();
        self.0.insert(tenant_uid.to_owned(), since);
        next
    }

    /// Removes a Tenant that does not exist any more.
    pub fn forget(&mut self, tenant_uid: &str) {
        self.0.remove(tenant_uid);
    }
}

/// The time until the next read of what has been lacking for this time.
fn pause(lacking_for: Duration) -> Option<Duration> {
    let left = ARRIVAL.saturating_sub(lacking_for);
    (!left.is_zero()).then(|| lacking_for.clamp(PAUSES.0, PAUSES.1).min(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_of(uid: &str) -> Lacking {
        (uid.to_owned(), 1, ReasonCode::SecretNotFound)
    }

    #[test]
    fn pauses_double_to_thirty_seconds_and_end_after_five_minutes() {
        let (mut arrivals, start) = (Arrivals::default(), Instant::now());
        let (mut now, mut pauses) = (start, Vec::new());
        while let Some(pause) = arrivals.read_again("t", [secret_of("w")].into(), now) {
            assert!(pauses.len() < 100, "it has no end: {pauses:?}");
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses[..6], [2, 2, 4, 8, 16, 30]);
        assert!(pauses.iter().all(|pause| *pause <= 30));
        assert_eq!(now - start, ARRIVAL);
    }

    #[test]
    fn newest_lack_sets_the_pace_and_what_arrived_is_forgotten() {
        let (mut arrivals, start) = (Arrivals::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let two = Some(Duration::from_secs(2));
        assert_eq!(arrivals.read_again("t", [secret_of("a")].into(), at(0)), two);
        assert_eq!(arrivals.read_again("t", [secret_of("a"), secret_of("b")].into(), at(400)), two);
        assert_eq!(arrivals.read_again("t", [secret_of("a")].into(), at(400)), None, "it is too late");
        assert_eq!(arrivals.read_again("t", HashSet::new(), at(401)), None);
        assert_eq!(arrivals.read_again("t", [secret_of("a")].into(), at(402)), two, "it was there meanwhile");
        arrivals.forget("t");
        assert!(arrivals.0.is_empty());
    }
}
