//! Which Tenants get the free places of migrations. A Tenant to which a place was offered takes it in its next pass, which begins
//! now, or after its backoff if the last pass failed.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::state::migrations::{MigrationCounts, Waiting};
use crate::state::name::Name;

/// The time after which a place is offered again to a Tenant that did not take it, or has not ended yet.
const AGAIN: Duration = Duration::from_secs(60);

/// What was offered, and how many databases were pending before.
#[derive(Debug, Default)]
pub(super) struct Offers {
    offered: HashMap<Name, Instant>,
    /// What Tenants waited for at the last call of [`changed`](Self::changed); emptied when none waits.
    waiting: HashMap<Name, Waiting>,
    before: MigrationCounts,
}

impl Offers {
    /// Returns the Tenants to offer the `free` places to now: first Tenants without an offer, then the Tenants with the oldest offers.
    /// So a Tenant that takes no place does not block others. `due`: the Tenants whose migration may begin, in their order.
    pub(super) fn next(&mut self, due: &[&Name], free: usize, now: Instant) -> Vec<Name> {
        let is_due: HashSet<&Name> = due.iter().copied().collect();
        self.offered.retain(|name, _| is_due.contains(name));
        let again = |at: &Instant| now.saturating_duration_since(*at) >= AGAIN;
        let offers = due.iter().map(|name| (self.offered.get(*name).copied(), *name));
        let mut ready: Vec<(Option<Instant>, &Name)> =
            offers.filter(|(at, _)| at.as_ref().is_none_or(again)).collect();
        ready.sort_by_key(|(at, _)| *at);
        let next: Vec<Name> = ready.into_iter().take(free).map(|(_, name)| name.clone()).collect();
        self.offered.extend(next.iter().map(|name| (name.clone(), now)));
        next
    }

    /// The Tenants that wait for something else than at the last call. Their statuses have to say so.
    pub(super) fn changed(&mut self, waiting: &[(&Name, Waiting)]) -> Vec<Name> {
        if waiting.is_empty() {
            self.waiting.clear();
        }
        let mut changed = Vec::new();
        for (name, what) in waiting {
            match self.waiting.get_mut(*name) {
                Some(before) if before == what => {}
                Some(before) => {
                    *before = *what;
                    changed.push((*name).clone());
                }
                None => drop(self.waiting.insert((*name).clone(), *what)),
            }
        }
        changed
    }

    /// Whether migrations progress since the last call.
    pub(super) fn progress(&mut self, counts: MigrationCounts) -> bool {
        counts.progress(std::mem::replace(&mut self.before, counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_places_are_offered_in_order_and_again_after_a_minute() {
        let names: Vec<Name> = (0..5).map(|number| Name::new("a", format!("t{number}"))).collect();
        let due: Vec<&Name> = names.iter().collect();
        let (mut offers, now) = (Offers::default(), Instant::now());
        assert_eq!(offers.next(&due, 2, now), names[..2]);
        assert!(offers.next(&due, 0, now).is_empty());
        assert_eq!(offers.next(&due, 2, now), names[2..4]);
        assert_eq!(offers.next(&due, 2, now), names[4..]);
        assert_eq!(offers.next(&due, 2, now + AGAIN), names[..2]);
    }

    #[test]
    fn tenants_that_take_no_place_keep_none_from_others() {
        let names: Vec<Name> = (0..300).map(|number| Name::new("a", format!("t{number:03}"))).collect();
        let due: Vec<&Name> = names.iter().collect();
        let (mut offers, start) = (Offers::default(), Instant::now());
        let mut offered = HashSet::new();
        for second in 0..75 {
            offered.extend(offers.next(&due, 4, start + Duration::from_secs(second)));
        }
        assert_eq!(offered.len(), names.len());
    }

    #[test]
    fn tenant_that_waits_for_something_else_is_named_once() {
        let name = Name::new("a", "acme");
        let mut offers = Offers::default();
        assert!(offers.changed(&[(&name, Waiting::First)]).is_empty(), "its own pass reports it");
        assert_eq!(offers.changed(&[(&name, Waiting::FirstFailed)]), std::slice::from_ref(&name));
        assert!(offers.changed(&[(&name, Waiting::FirstFailed)]).is_empty());
        assert!(offers.changed(&[]).is_empty());
        assert!(offers.changed(&[(&name, Waiting::First)]).is_empty());
    }

    #[test]
    fn progress_is_a_pending_database_less() {
        let counts = |pending| MigrationCounts { done: 1, pending, failed: 0, expected: pending };
        let mut offers = Offers::default();
        assert_eq!(
            [5, 5, 4, 4, 0, 0].map(|pending| offers.progress(counts(pending))),
            [false, false, true, false, true, true]
        );
    }
}
