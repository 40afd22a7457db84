//! Runs tests of the other suites.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::table::TARGETS;

/// The counts that tests print, by name: a test that prints `counted: 12 kills` adds 12 to the kills.
type Counts = BTreeMap<String, u64>;

/// The counts that are trials.
const TRIALS: [&str; 2] = ["kills", "random histories"];
/// How many states of each world of the model are searched in a second of its time, and how many fit into some gigabytes.
const STATES_A_SECOND: u64 = 8_000;
const MOST_STATES: u64 = 6_000_000;

/// Runs tests with their targets in front, once. Returns what they count, or an error that says what failed.
pub(crate) fn run_once(tests: &[&str], environment: &[(&str, String)]) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for (target, names) in by_target(tests) {
        add(&mut counts, run_target(target, &names, environment)?);
    }
    Ok(counts)
}

/// For each target that has some of these tests, how cargo is to run it, and the names of the tests.
fn by_target(tests: &[&str]) -> Vec<(&'static [&'static str], Vec<String>)> {
    let names = |target: &str| -> Vec<String> {
        let of_target = |test: &&str| Some(test.strip_prefix(target)?.strip_prefix("::")?.to_owned());
        tests.iter().filter_map(of_target).collect()
    };
    let all = TARGETS.into_iter().map(|(target, arguments, _)| (arguments, names(target)));
    all.filter(|(_, names)| !names.is_empty()).collect()
}

/// Runs a target of the whole workspace, because cargo would compile the dependencies of one package once more, with fewer features.
fn cargo_test(target: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["test", "--locked", "--workspace"]).args(target);
    command
}

fn compile(tests: &[&str]) -> Result<(), String> {
    for (target, _) in by_target(tests) {
        let output =
            cargo_test(target).arg("--no-run").output().map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("{target:?} does not compile ({})", last(&output.stderr)));
        }
    }
    Ok(())
}

fn run_target(target: &[&str], names: &[String], environment: &[(&str, String)]) -> Result<Counts, String> {
    let mut command = cargo_test(target);
    command.envs(environment.iter().cloned()).args(["--", "--show-output"]);
    // Cases that run on both databases have the database in their names, so names are matched by their last part.
    command.args(names.iter().filter_map(|name| name.rsplit("::").next()));
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    judge(&text, output.status.success(), names.len())
        .map_err(|problem| format!("{problem} ({})", last(&output.stderr)))?;
    Ok(counted(&text))
}

/// The last lines of an output, the last one first.
fn last(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().take(3).collect::<Vec<_>>().join("; ")
}

/// Whether the tests passed by what libtest printed. At least `expected` of them must have run.
fn judge(printed: &str, succeeded: bool, expected: usize) -> Result<(), String> {
    let lines = || printed.lines().filter(|line| line.starts_with("test "));
    let failed: Vec<&str> = lines().filter_map(|line| line.strip_suffix(" ... FAILED")).collect();
    let passed = lines().filter(|line| line.ends_with(" ... ok")).count();
    match (failed.as_slice(), succeeded) {
        ([], true) if passed >= expected => Ok(()),
        ([], true) => Err(format!("only {passed} of {expected} tests ran")),
        ([], false) => Err("cargo failed".to_owned()),
        (failed, _) => Err(format!("failed: {}", failed.join(", "))),
    }
}

fn counted(printed: &str) -> Counts {
    let count = |line: &str| {
        let (number, what) = line.strip_prefix("counted: ")?.split_once(' ')?;
        Some((what.to_owned(), number.parse::<u64>().ok()?))
    };
    let mut counts = Counts::new();
    add(&mut counts, printed.lines().filter_map(count));
    counts
}

fn add(counts: &mut Counts, more: impl IntoIterator<Item = (String, u64)>) {
    for (what, number) in more {
        *counts.entry(what).or_default() += number;
    }
}

/// What some suites are given for a round of a long form: other seeds, and more to do.
fn longer(seed: u64, limit: Duration) -> [(&'static str, String); 4] {
    let states = (limit.as_secs() * STATES_A_SECOND).min(MOST_STATES);
    [
        ("DOCKET_CALLS_SEED", seed.to_string()),
        ("DOCKET_MODEL_SEED", seed.to_string()),
        ("DOCKET_MODEL_HISTORIES", "20".to_owned()),
        ("DOCKET_MODEL_STATES", states.to_string()),
    ]
}

/// Compiles tests, and runs them until they have had `rounds` rounds, or until another round would not end within the limit. A trial
/// is a kill or a random history that the tests count; if the tests count none, a trial is a round.
pub(crate) fn repeat(tests: &[&str], rounds: u32, limit: Duration, seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.violations.extend(compile(tests).err());
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    let (mut done, mut counts) = (0_u32, Counts::new());
    while outcome.violations.is_empty() && done < rounds && (done == 0 || begun.elapsed() + longest <= limit)
    {
        let round = Instant::now();
        done += 1;
        match run_once(tests, &longer(seed.wrapping_add(done.into()), limit)) {
            Ok(more) => add(&mut counts, more),
            Err(problem) => outcome.violations.push(problem),
        }
        longest = longest.max(round.elapsed());
    }
    let trials: u64 = TRIALS.iter().filter_map(|what| counts.get(*what)).sum();
    outcome.trials = if trials > 0 { trials } else { done.into() };
    outcome.figure("rounds", done);
    outcome.figure("tests in each round", tests.len());
    for (what, number) in &counts {
        outcome.figure(what, number);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_did_not_run_have_not_passed() {
        assert_eq!(judge("test a ... ok\ntest b ... ok\n", true, 2), Ok(()));
        assert_eq!(judge("test a ... ok\n", true, 2), Err("only 1 of 2 tests ran".to_owned()));
        assert_eq!(judge("test a ... ok\ntest b ... FAILED\n", false, 2), Err("failed: test b".to_owned()));
        assert_eq!(judge("", false, 1), Err("cargo failed".to_owned()));
    }

    #[test]
    fn what_tests_count_is_added_by_name() {
        let printed = "test a ... ok\ncounted: 12 kills\n12 kills\ncounted: 3 random histories\ncounted: 8 kills\ncounted: x y\n";
        let expected = [("kills".to_owned(), 20), ("random histories".to_owned(), 3)];
        assert_eq!(counted(printed), Counts::from(expected));
        assert!(TRIALS.iter().all(|what| counted(printed).contains_key(*what)));
    }

    #[test]
    fn tests_are_run_by_their_targets() {
        let found = by_target(&["store::a::one", "docket::b::two", "docket::c::three"]);
        let names: Vec<_> = found.iter().map(|(target, names)| (target[1], names.join(" "))).collect();
        assert_eq!(names, [("docket", "b::two c::three".to_owned()), ("store", "a::one".to_owned())]);
    }
}
