//! A breadth-first search of all states that can be reached.

use std::collections::HashSet;
use std::hash::Hash;

/// What a search found.
#[derive(Debug)]
pub struct Search<A> {
    /// The number of different states.
    pub states: usize,
    /// The number of steps to the state that was reached last.
    pub depth: usize,
    /// Whether there are no other states.
    pub is_complete: bool,
    /// The shortest history to a state that is `bad`; the first one, if there are several.
    pub history: Option<Vec<A>>,
}

/// A state, and the state and the action that led to it.
struct Reached<S, A> {
    state: S,
    by: Option<(usize, A)>,
    depth: usize,
}

/// Searches from `first` until a state is `bad` or some `most` states are reached.
pub fn search<S: Copy + Eq + Hash, A: Copy>(
    first: S,
    most: usize,
    next: impl Fn(&S) -> Vec<(A, S)>,
    mut bad: impl FnMut(&S) -> bool,
) -> Search<A> {
    let mut seen = HashSet::from([first]);
    let mut reached = vec![Reached { state: first, by: None, depth: 0 }];
    let (mut at, mut depth) = (0, 0);
    while at < reached.len() && reached.len() < most {
        depth = reached[at].depth + 1;
        for (action, state) in next(&reached[at].state) {
            if !seen.insert(state) {
                continue;
            }
            reached.push(Reached { state, by: Some((at, action)), depth });
            if bad(&state) {
                let history = Some(history(&reached));
                return Search { states: reached.len(), depth, is_complete: false, history };
            }
        }
        at += 1;
    }
    let is_complete = at == reached.len();
    Search { states: reached.len(), depth, is_complete, history: None }
}

/// The actions that led to the last state.
fn history<S, A: Copy>(reached: &[Reached<S, A>]) -> Vec<A> {
    let mut actions = Vec::new();
    let mut by = reached.last().and_then(|last| last.by);
    while let Some((before, action)) = by {
        actions.push(action);
        by = reached[before].by;
    }
    actions.reverse();
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(most: u32) -> impl Fn(&u32) -> Vec<(u32, u32)> {
        move |state| [1, 3].map(|by| (by, (state + by).min(most))).to_vec()
    }

    #[test]
    fn shortest_history_is_found() {
        let found = search(0, 100, up_to(20), |state| *state == 7);
        assert_eq!((found.history, found.depth), (Some(vec![1, 3, 3]), 3));
    }

    #[test]
    fn search_without_a_bad_state_is_complete_or_ends_at_its_limit() {
        let found = search(0, 100, up_to(20), |_| false);
        assert_eq!((found.states, found.is_complete, found.history), (21, true, None));
        let found = search(0, 10, up_to(20), |_| false);
        assert!((10..12).contains(&found.states) && !found.is_complete);
    }
}
