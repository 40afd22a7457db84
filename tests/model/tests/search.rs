//! Searches the model: with all guards no invariant breaks, and without each guard its invariant breaks.
//!
//! `DOCKET_MODEL_STATES` sets the number of states of each world. `UPDATE_HISTORIES=1` writes `histories/` again.

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use docket_model::action::Action;
use docket_model::invariants::Checks;
use docket_model::locks::Locks;
use docket_model::search::{Search, search};
use docket_model::state::State;
use docket_model::{Faults, Guard, World, history};

/// The number of states of each world, so that all worlds together take seconds.
const STATES: usize = 60_000;
/// The number of states for the test that is left out of `tests/run`: some gigabytes of memory.
const MANY_STATES: usize = 6_000_000;

fn states(usual: usize) -> usize {
    let given = std::env::var_os("DOCKET_MODEL_STATES");
    given.map_or(usual, |text| text.to_str().and_then(|text| text.parse().ok()).expect("a number of states"))
}

/// The worlds with all guards, each with the faults of one kind or of several kinds.
fn worlds() -> Vec<(&'static str, World)> {
    let none = Faults::default();
    let ended = Faults { crashes: true, unanswered: true, ..none };
    let schedule = Faults { crashes: true, schedule: true, slow_commits: true, ..none };
    let long = Faults { long_attempts: true, slow_commits: true, clock: true, ..none };
    vec![
        ("no fault", World::default()),
        ("processes end", World::with(ended)),
        ("the schedule loses entries", World::with(schedule)),
        ("long attempts and a clock that is set back", World::with(long)),
        ("the webhook is recreated", World::with(Faults { webhook: true, crashes: true, ..none })),
        ("all faults", World::with(Faults::ALL)),
        ("two deliveries, processes end", World::with(ended).of_two()),
        ("two deliveries, all faults", World::with(Faults::ALL).of_two()),
        ("a repeated publication, processes end", World::with(ended).keyed()),
        ("a repeated publication, the schedule loses entries", World::with(schedule).keyed()),
    ]
}

fn searched(world: World, most: usize, bad: impl FnMut(&State) -> bool) -> Search<Action> {
    let all = Action::all();
    search(State::default(), most, |state| world.actions(state, &all), bad)
}

/// Searches a world with all guards, and prints how far the search went.
fn holds(name: &str, world: World, most: usize) {
    let (begun, mut checks) = (Instant::now(), Checks::new(world));
    let mut broken = Vec::new();
    let found = searched(world, most, |state| {
        broken = checks.broken(state);
        !broken.is_empty()
    });
    let Search { states, depth, is_complete, history } = found;
    let extent = if is_complete { "all states" } else { "the first states" };
    println!("{name}: {extent}, {states}, up to {depth} steps, {:.1} s", begun.elapsed().as_secs_f32());
    println!("counted: {states} states");
    // Some histories of the depth that was reached last are not searched.
    println!("counted: 1 worlds with all histories of up to {} steps", depth - usize::from(!is_complete));
    let steps = history.map(|history| history::text(&[], &history));
    assert!(steps.is_none(), "{name}: {broken:?} after\n{}", steps.unwrap_or_default());
}

#[test]
fn invariants_hold_with_all_guards() {
    for (name, world) in worlds() {
        holds(name, world, states(STATES));
    }
}

#[test]
#[ignore = "takes minutes and gigabytes; run it before a release"]
fn invariants_hold_in_many_states() {
    for (name, world) in worlds() {
        holds(name, world, states(MANY_STATES));
    }
}

/// Compares a history with the kept one, or keeps it.
fn keep(name: &str, text: &str) {
    println!("{name}:\n{text}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("histories").join(name).with_extension("txt");
    if std::env::var_os("UPDATE_HISTORIES").is_some() {
        std::fs::write(&path, text).expect("the folder of histories");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, text, "{name}: the shortest history has changed; UPDATE_HISTORIES=1 writes it again");
}

#[test]
fn without_each_guard_an_invariant_breaks() {
    for guard in Guard::ALL {
        let world = World::without(guard);
        let mut checks = Checks::new(world);
        let found = searched(world, 1_000_000, |state| checks.broken(state).contains(&guard.keeps()));
        let history = found.history.unwrap_or_else(|| panic!("{guard:?}: {} states are good", found.states));
        let about = format!("Without the guard {guard:?}, these steps break {:?}.", guard.keeps());
        keep(guard.file(), &history::text(&[about], &history));
        // The guard, and nothing else, makes the difference.
        holds(guard.file(), world.guarded(), states(STATES) / 4);
    }
}

fn lines(steps: &[impl Display]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

#[test]
fn locks_in_one_order_do_not_deadlock_and_in_two_orders_they_do() {
    let locked = |in_order: bool| {
        search(Locks::default(), 1_000, |locks| locks.next(in_order), |locks| locks.is_deadlock(in_order))
    };
    let found = locked(true);
    assert!(found.is_complete && found.history.is_none(), "{found:?}");
    let steps = locked(false).history.expect("a deadlock");
    let about = "# If the two transactions lock the rows in different orders, after these steps each waits for the other.\n";
    keep("lock-order", &format!("{about}{}", lines(&steps)));
}
