//! Inputs from outside that are wrong in every way. The commands that make them run as programs of their own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::random::Random;

/// How long one case for each operation of the API takes.
const CASES_TAKE_S: u64 = 6;

/// Fuzzes all readers of input one after the other, and beside this sends requests that follow from the description of the API. Each
/// input and each request is a trial.
pub(crate) fn from_outside(limit: Duration, mut random: Random) -> Outcome {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readers = std::fs::read_dir(tests.join("fuzz/corpus")).expect("a folder").count() as u64;
    let mut seed = || (1 + random.below(1_000_000_000)).to_string();
    let seconds = (limit.as_secs() / readers).max(1).to_string();
    let mut fuzzer = Command::new(tests.join("fuzz/run"));
    fuzzer.args(["--seconds", &seconds, "--seed", &seed()]);
    let mut requests = Command::new(tests.join("schemathesis/run"));
    let cases = (limit.as_secs() / CASES_TAKE_S).max(1).to_string();
    // Schemathesis leaves its notes in its folder, where Git ignores them.
    requests.args(["--seed", &seed()]).env("DOCKET_TEST_EXAMPLES", cases).current_dir(tests.join(".."));

    let fuzzing = std::thread::spawn(move || run(fuzzer));
    let requested = run(requests);
    let fuzzed = fuzzing.join().expect("it does not panic");
    let mut outcome = Outcome::default();
    let of_both =
        [("inputs of the fuzzer", inputs(&fuzzed.0), fuzzed), ("requests", passed(&requested.0), requested)];
    for (what, count, (text, succeeded)) in of_both {
        outcome.trials += count;
        outcome.figure(what, count);
        outcome.expect(succeeded && count > 0, || format!("{what}: {}", end(&text)));
    }
    outcome
}

/// What a command prints, and whether it succeeded.
fn run(mut command: Command) -> (String, bool) {
    match command.output() {
        Ok(output) => {
            let text = [output.stderr, output.stdout].concat();
            (String::from_utf8_lossy(&text).into_owned(), output.status.success())
        }
        Err(error) => (format!("{command:?}: {error}"), false),
    }
}

/// The number of inputs in the table that `tests/fuzz/run` prints: a row has target, kept inputs, executions, coverage, new inputs, and
/// whether there is a finding.
fn inputs(printed: &str) -> u64 {
    let executions = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, _, executions, _, _, "no" | "YES"] => executions.parse::<u64>().ok(),
        _ => None,
    };
    printed.lines().filter_map(executions).sum()
}

/// The number in the last line that `tests/schemathesis/run` prints.
fn passed(printed: &str) -> u64 {
    let last = printed
        .lines()
        .next_back()
        .and_then(|line| line.strip_prefix("schemathesis: ")?.split_once(" passed"));
    last.and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}

/// The last lines of a text.
fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_requests_are_counted() {
        let table = "target           kept   executions   coverage   new inputs   finding\n\
                     answer             12        34567        890            1   no\n\
                     body                3           90          -            0   YES\n    a message of six words 7 no";
        assert_eq!(inputs(table), 34_657);
        assert_eq!(inputs("error: it does not compile"), 0);
        assert_eq!(passed("a report\nschemathesis: 1234 passed, 0 failed\n"), 1_234);
        assert_eq!(passed("schemathesis is not installed"), 0);
    }
}
