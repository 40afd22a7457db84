//! `tests/faults/run`: the fault tests T-1 to T-28 on real processes and servers, and what they found.

mod checker;
mod hook;
mod load;
mod outcome;
mod place;
mod points;
mod random;
mod results;
mod scenarios;
mod suites;
mod table;
mod world;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use random::Random;
use results::{Circumstances, page, row};
use table::{Long, Test, chosen};

/// The page with the results, from the folder of this package.
const RESULTS: &str = "faults/RESULTS.md";

#[derive(Debug, Parser)]
#[command(name = "tests/faults/run", about = "Runs the fault tests T-1 to T-28")]
struct Arguments {
    /// The tests to run, such as T-5 or T-1b [default: all].
    tests: Vec<String>,
    /// Run the long forms, and write what they found to tests/faults/RESULTS.md.
    #[arg(long)]
    long: bool,
    /// Begin each scenario with this seed [default: another one each time].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long all long forms together may take. Chosen tests have their parts of it.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    minutes: u32,
    /// What is tested, for the page.
    #[arg(long, value_name = "TEXT", default_value = "unknown")]
    revision: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let tests = match chosen(&arguments.tests) {
        Ok(tests) => tests,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let passed = if arguments.long { run_long(&arguments, &tests) } else { run_short(&tests) };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the short forms; returns whether all passed.
fn run_short(tests: &[&Test]) -> bool {
    let mut passed = true;
    for test in tests {
        let (found, seconds) = timed(|| suites::run_once(test.short, &[]));
        let problem = found.err();
        passed &= problem.is_none();
        println!("{:<5} {seconds:>4} s  {}", test.name, problem.as_deref().unwrap_or("passed"));
    }
    passed
}

/// Runs the long forms and writes their rows; returns whether all passed.
fn run_long(arguments: &Arguments, tests: &[&Test]) -> bool {
    let seed = arguments.seed.unwrap_or_else(Random::seed);
    println!("the seed is {seed}");
    let circumstances =
        Circumstances { date: today(), commit: arguments.revision.clone(), seed, machine: machine() };
    let mut passed = true;
    for test in tests {
        let limit = |minutes: u32| Duration::from_secs(u64::from(minutes) * u64::from(arguments.minutes));
        let run = || match test.long {
            Long::Scenario(scenario, trials, minutes) => scenario.run(trials, limit(minutes), seed),
            Long::Repeated(rounds, minutes) => suites::repeat(test.short, rounds, limit(minutes), seed),
        };
        println!("{:<5} {}", test.name, test.invariant);
        let (outcome, seconds) = timed(run);
        passed &= outcome.violations.is_empty();
        println!("{:<5} {seconds:>4} s  {} trials", test.name, outcome.trials);
        outcome.figures.iter().for_each(|(name, value)| println!("        {name}: {value}"));
        outcome.violations.iter().for_each(|violation| println!("        FAILED: {violation}"));
        // The page is written after each test, so that rows stay when the run is ended.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RESULTS);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let row = row(test, &circumstances, seconds, &outcome);
        std::fs::write(&path, page(&before, &[row])).expect("the page can be written");
    }
    passed
}

/// Runs something; returns how many seconds it took.
fn timed<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let begun = Instant::now();
    let result = run();
    (result, begun.elapsed().as_secs())
}

#[expect(clippy::disallowed_methods, reason = "the date of the results")]
fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// The cores, the memory and the kernel of this machine.
fn machine() -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo");
    let memory = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cores} cores, {} GB, Linux {}", memory.unwrap_or(0) / 1_000_000, kernel.trim())
}

/// The short forms that no other suite has.
#[cfg(test)]
mod short {
    use std::time::Duration;

    use super::random::Random;
    use super::scenarios::Scenario;

    fn passes(scenario: Scenario, trials: u32) {
        let seed = Random::seed();
        println!("the seed is {seed}");
        let outcome = scenario.run(trials, Duration::from_secs(30), seed);
        println!("{:?}", outcome.figures);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
    }

    #[test]
    fn mixed_faults_break_no_rule() {
        passes(Scenario::Mixed, 6);
    }

    #[test]
    fn clients_that_leave_poison_no_connection() {
        passes(Scenario::Cancels, 128);
    }

    #[test]
    fn clocks_that_jump_make_no_attempt_early() {
        passes(Scenario::Clocks, 4);
    }
}
