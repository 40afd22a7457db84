//! Runs tests of the other suites, which `tests/faults/run` has built.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::outcome::{Budget, Outcome};
use crate::table::TARGETS;

/// Runs tests with their targets in front, once. Returns an error that says what failed.
pub(crate) fn run_once(tests: &[&str]) -> Result<(), String> {
    for (target, arguments, _) in TARGETS {
        let of_target = |test: &&str| Some(test.strip_prefix(target)?.strip_prefix("::")?.to_owned());
        let names: Vec<String> = tests.iter().filter_map(of_target).collect();
        if !names.is_empty() {
            run_target(arguments, &names)?;
        }
    }
    Ok(())
}

fn run_target(arguments: &[&str], names: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["test", "--locked"]).args(arguments).arg("--");
    // Cases that run on both databases have the database in their names, so names are matched by their last part.
    command.args(names.iter().filter_map(|name| name.rsplit("::").next()));
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    judge(&text, output.status.success(), names.len()).map_err(|problem| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(3).collect();
        format!("{problem} ({})", last.join("; "))
    })
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

/// Runs tests until they have had so many rounds or so much time. A trial is a round.
pub(crate) fn repeat(tests: &[&str], rounds: u32, limit: Duration) -> Outcome {
    // The first round may compile, so it has no limit.
    let mut outcome = Outcome { trials: 1, ..Outcome::default() };
    outcome.violations.extend(run_once(tests).err());
    let mut budget = Budget::new(rounds.saturating_sub(1), limit);
    while outcome.violations.is_empty() && budget.next() {
        outcome.trials += 1;
        outcome.violations.extend(run_once(tests).err());
    }
    outcome.figure("tests in each round", tests.len());
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
}
