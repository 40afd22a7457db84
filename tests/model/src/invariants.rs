//! Checks the invariants in a state.

use std::collections::HashSet;

use crate::action::Action;
use crate::invariant::Invariant;
use crate::state::{DELIVERIES, Entry, MAX_ATTEMPTS, State, TASKS};
use crate::world::World;

/// The largest number of rounds in which every delivery becomes final when no more faults happen.
pub const ROUNDS: usize = 80;

/// Checks states of one world.
pub struct Checks {
    world: World,
    /// States from which every delivery becomes final.
    good: HashSet<State>,
    /// A [`quiet_round`] with a receiver that fails.
    quiet: Vec<Action>,
}

impl Checks {
    /// Checks states of this world.
    pub fn new(world: World) -> Self {
        Self { world, good: HashSet::new(), quiet: quiet_round(false) }
    }

    /// The invariants that do not hold in this state.
    pub fn broken(&mut self, state: &State) -> Vec<Invariant> {
        let mut broken: Vec<Invariant> = state.broken.into_iter().collect();
        let mut check = |holds: bool, invariant| broken.extend((!holds).then_some(invariant));
        let World { deliveries, is_keyed, faults, .. } = self.world;
        let is_stored = |place: usize| state.rows[place].place.is_stored();
        let are_stored = match is_keyed {
            true => (0..deliveries).any(is_stored),
            false => (0..deliveries).all(is_stored),
        };
        check(!state.is_acknowledged || are_stored, Invariant::AcknowledgedIsStored);
        let is_saved = self.world.saved(state).any(is_stored);
        check(!(state.is_refused && is_saved), Invariant::RefusedStoresNothing);
        check(!(is_keyed && (0..deliveries).all(is_stored)), Invariant::OneDeliveryPerKey);
        let keeps_entries = !faults.schedule && !faults.slow_commits && !faults.webhook;
        for (place, (row, received)) in state.rows.iter().zip(state.received).enumerate() {
            check(received.posts <= MAX_ATTEMPTS, Invariant::AtMostFivePosts);
            check(received.posts <= row.attempts, Invariant::CountedBeforePost);
            let is_scheduled = state.index[place] != Entry::Absent || state.puts[place].is_some();
            let is_skipped = keeps_entries && row.place.is_unfinished() && !is_scheduled;
            check(!is_skipped, Invariant::NothingIsSkipped);
        }
        check(self.ends(*state), Invariant::NothingIsLost);
        broken
    }

    /// Whether the steps of the protocol alone, with a receiver that fails, make each stored delivery final.
    fn ends(&mut self, mut state: State) -> bool {
        let mut passed = Vec::new();
        for _ in 0..ROUNDS {
            if is_final(&state) || self.good.contains(&state) {
                self.good.extend(passed);
                return true;
            }
            passed.push(state);
            for action in &self.quiet {
                state = self.world.next(&state, *action).unwrap_or(state);
            }
        }
        false
    }
}

/// Whether no stored delivery is unfinished.
pub fn is_final(state: &State) -> bool {
    !state.rows.iter().any(|row| row.place.is_unfinished())
}

/// A round of the protocol without faults, in which each task and each store makes the step that it can make. The transaction of a save
/// that has not committed ends with its process. `succeeds`: what the receiver answers.
pub fn quiet_round(succeeds: bool) -> Vec<Action> {
    let mut round = vec![Action::Refuse];
    round.extend((0..).take(DELIVERIES).map(Action::Put));
    for task in (0..).take(TASKS) {
        let post = Action::Post(task, succeeds);
        round.extend([Action::Begin(task), post, Action::GiveBack(task)]);
        round.extend([Action::Finish(task), Action::Settle(task)]);
    }
    for task in (0..).take(TASKS).skip(DELIVERIES) {
        round.extend((0..).take(DELIVERIES).map(|delivery| Action::Claim(task, delivery)));
    }
    round.extend([Action::Sweep, Action::TickDatabase, Action::TickSchedule]);
    round
}
