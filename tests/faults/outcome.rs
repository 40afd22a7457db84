//! How long a scenario lasts, how it ends, and what it found.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::checker::{Answer, History, check, lateness_ms};
use crate::load::Load;
use crate::world::World;

/// The time within which all deliveries must end after the last fault. All delays of the backoff take 1.5 s, and each attempt at most 3 s. But
/// a fifth attempt whose worker was killed, and has no successor with its pod name, counts as lost only 330 s after its lease.
const SETTLED: Duration = Duration::from_secs(400);
/// The time in which nothing may come after all deliveries have ended: more than a lease and a sweep take.
const QUIET: Duration = Duration::from_secs(5);

/// The number of trials of a scenario, and the time that it has for them.
#[derive(Debug)]
pub(crate) struct Budget {
    trials: u32,
    done: u32,
    until: Instant,
}

impl Budget {
    pub(crate) fn new(trials: u32, limit: Duration) -> Self {
        Self { trials, done: 0, until: Instant::now() + limit }
    }

    /// Whether there is a trial more to do.
    pub(crate) fn next(&mut self) -> bool {
        let more = self.done < self.trials && Instant::now() < self.until;
        self.done += u32::from(more);
        more
    }

    /// The number of trials so far.
    pub(crate) fn done(&self) -> u64 {
        self.done.into()
    }
}

/// What a scenario found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The number of independent trials. Each of them could have failed.
    pub(crate) trials: u64,
    pub(crate) figures: Vec<(String, String)>,
    /// The rules that were broken; empty: the scenario passed.
    pub(crate) violations: Vec<String>,
    /// What the checker has read.
    pub(crate) history: History,
}

impl Outcome {
    pub(crate) fn figure(&mut self, name: &str, value: impl ToString) {
        self.figures.push((name.to_owned(), value.to_string()));
    }

    /// Adds a violation unless `holds`.
    pub(crate) fn expect(&mut self, holds: bool, violation: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(violation());
        }
    }

    /// What the checker finds in a history, and its counts.
    fn of(trials: u64, history: &History) -> Self {
        let mut outcome = Self { trials, ..Self::default() };
        for violation in check(history) {
            let (rule, count, first) = (violation.rule, violation.count, violation.first);
            outcome.violations.push(format!("{rule}: broken {count} times, first by {first}"));
        }
        let saves = || history.tenants.iter().flat_map(|tenant| &tenant.saves);
        let acknowledged = saves().filter(|save| matches!(save.answer, Answer::Acknowledged(_))).count();
        let refused = saves().filter(|save| matches!(save.answer, Answer::Refused(_))).count();
        let attempts = || history.tenants.iter().flat_map(|tenant| &tenant.attempts);
        let lost = attempts().filter(|attempt| attempt.class.as_deref() == Some("WorkerLost")).count();
        let deliveries = || history.tenants.iter().flat_map(|tenant| &tenant.deliveries);
        let dead = deliveries().filter(|delivery| delivery.status == "DeadLetter").count();
        outcome.figure("saves acknowledged", acknowledged);
        outcome.figure("refused", refused);
        outcome.figure("without a clear response", saves().count() - acknowledged - refused);
        outcome.figure("deliveries", deliveries().count());
        outcome.figure("POSTs", history.posts.len());
        outcome.figure("attempts lost with their worker", lost);
        outcome.figure("dead letters", dead);
        let late = lateness_ms(history);
        if let Some(most) = late.last() {
            outcome.figure("latest retry in ms", most);
        }
        // Without these counts, some rules would hold because nothing happened.
        outcome.expect(acknowledged > 0, || "no save was acknowledged".to_owned());
        outcome.expect(!history.posts.is_empty(), || "nothing was sent".to_owned());
        outcome
    }
}

/// How often each kind of fault was injected, and how often it met what it was meant for.
#[derive(Debug)]
pub(crate) struct Met<T>(BTreeMap<T, (u32, u32)>);

impl<T> Default for Met<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Debug> Met<T> {
    pub(crate) fn note(&mut self, kind: T, met: bool) {
        let (hits, all) = self.0.entry(kind).or_default();
        *all += 1;
        *hits += u32::from(met);
    }

    /// Reports a figure for each kind of fault. A kind whose faults met nothing tests nothing: that is a violation after ten
    /// chances.
    pub(crate) fn report(&self, outcome: &mut Outcome) {
        for (kind, (hits, all)) in &self.0 {
            outcome.figure(&format!("{kind:?}"), format!("{hits} of {all}"));
            outcome.expect(*hits > 0 || *all < 10, || format!("{kind:?} met nothing in {all} trials"));
        }
    }
}

/// Ends a run: takes the faults back, ends the load, waits for all deliveries, and checks everything.
pub(crate) async fn conclude(world: &mut World, load: Load, trials: u64) -> Outcome {
    world.repair().await;
    let loaded = load.end().await;
    world.add(loaded);
    conclude_saved(world, trials).await
}

/// Like [`conclude`], without a load.
pub(crate) async fn conclude_saved(world: &mut World, trials: u64) -> Outcome {
    let begun = Instant::now();
    world.repair().await;
    let open = world.settled(SETTLED).await;
    let settled = begun.elapsed();
    tokio::time::sleep(QUIET).await;
    let history = world.history().await;
    let mut outcome = Outcome::of(trials, &history);
    outcome.figure("all ended after the last fault in s", settled.as_secs());
    outcome.figure("not ended", open);
    outcome.history = history;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_with_its_trials_or_its_time() {
        let mut budget = Budget::new(2, Duration::from_secs(60));
        assert_eq!([budget.next(), budget.next(), budget.next()], [true, true, false]);
        assert_eq!(budget.done(), 2);
        assert!(!Budget::new(2, Duration::ZERO).next());
    }

    #[test]
    fn a_run_without_saves_does_not_pass() {
        let outcome = Outcome::of(1, &History::default());
        assert_eq!(outcome.violations, ["no save was acknowledged", "nothing was sent"]);
    }

    #[test]
    fn a_fault_that_meets_nothing_does_not_pass() {
        let (mut met, mut outcome) = (Met::default(), Outcome::default());
        (0..10).for_each(|_| met.note("never", false));
        met.note("once", true);
        met.report(&mut outcome);
        assert_eq!(outcome.violations, ["\"never\" met nothing in 10 trials"]);
        assert_eq!(outcome.figures[1], ("\"once\"".to_owned(), "1 of 1".to_owned()));
    }
}
