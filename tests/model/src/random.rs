//! Random histories. The same seed gives the same histories.

use crate::action::Action;
use crate::state::State;
use crate::world::World;

/// SplitMix64, a generator of a few lines whose numbers never change.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap_or_default() % limit
    }

    /// A history of up to `steps` actions. A quarter of them may be rare.
    pub fn history(&mut self, world: &World, steps: usize, allowed: impl Fn(Action) -> bool) -> Vec<Action> {
        let all: Vec<Action> = Action::all().into_iter().filter(|action| allowed(*action)).collect();
        let (mut state, mut history) = (State::default(), Vec::new());
        while history.len() < steps {
            let (rare, usual): (Vec<_>, Vec<_>) =
                world.actions(&state, &all).into_iter().partition(|(action, _)| action.is_rare());
            let choices =
                if usual.is_empty() || self.below(4) == 0 && !rare.is_empty() { rare } else { usual };
            if choices.is_empty() {
                break;
            }
            let (action, next) = choices[self.below(choices.len())];
            history.push(action);
            state = next;
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Faults;

    #[test]
    fn seed_decides_the_histories() {
        let world = World::with(Faults::ALL);
        let drawn = |seed| Random::new(seed).history(&world, 30, |_| true);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_eq!(drawn(1).len(), 30);
        let tame = Random::new(1).history(&world, 30, |action| !action.needs_redis());
        assert!(!tame.iter().any(|action| action.needs_redis()));
    }
}
