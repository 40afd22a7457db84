//! The table of results, `tests/faults/RESULTS.md`: a run replaces the rows of the tests that it ran.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::outcome::Outcome;
use crate::table::{TESTS, Test};

const HEAD: &str = "# Results of the fault tests

`tests/faults/run` writes this page. A run replaces the rows of the tests that it ran. [What each test does](README.md).

The last column is the rule of three: if N independent trials had no failure, the rate of failures is below 3/N with a confidence of 95 %.
The bound holds for such faults as the test injects, on such a machine.

| Test | Result | Date | Commit | Seed | Machine | Took | Trials | Aim | No failure in N bounds | Figures |
|---|---|---|---|---|---|---|---|---|---|---|
";

/// Where and when a test ran.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) seed: u64,
    pub(crate) machine: String,
}

/// The upper bound of the failure rate after `trials` trials without a failure, as a text.
pub(crate) fn bound(trials: u64) -> String {
    match trials {
        0..10 => "nothing: too few trials".to_owned(),
        _ => {
            let percent = 300.0 / trials as f64;
            let places = if percent >= 1.0 { 1 } else { 4 };
            format!("below {percent:.places$} %")
        }
    }
}

/// The row of a test that ran.
pub(crate) fn row(test: &Test, of: &Circumstances, seconds: u64, outcome: &Outcome) -> String {
    let passed = outcome.violations.is_empty();
    let result =
        if passed { "passed".to_owned() } else { format!("FAILED: {}", outcome.violations.join("; ")) };
    let mut figures = String::new();
    for (name, value) in &outcome.figures {
        let separator = if figures.is_empty() { "" } else { "; " };
        let _ = write!(figures, "{separator}{name}: {value}");
    }
    let bound = if passed { bound(outcome.trials) } else { "nothing: it failed".to_owned() };
    let Circumstances { date, commit, seed, machine } = of;
    let (seed, seconds, trials) = (seed.to_string(), format!("{seconds} s"), outcome.trials.to_string());
    let cells =
        [test.name, &result, date, commit, &seed, machine, &seconds, &trials, test.aim, &bound, &figures];
    format!("| {} |", cells.map(cell).join(" | "))
}

/// A text in one cell of a table.
fn cell(text: &str) -> String {
    const MOST: usize = 2_000;
    let text: String = text.chars().take(MOST).collect();
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// The page with these new rows.
pub(crate) fn page(before: &str, rows: &[String]) -> String {
    let name = |row: &str| row.strip_prefix("| ")?.split(" |").next().map(str::to_owned);
    let known = |name: &String| TESTS.iter().any(|test| test.name == name);
    let all = before.lines().chain(rows.iter().map(String::as_str));
    // Later rows replace earlier ones.
    let all: BTreeMap<String, &str> = all.filter_map(|row| Some((name(row).filter(known)?, row))).collect();
    let rows = TESTS.iter().filter_map(|test| all.get(test.name));
    rows.fold(HEAD.to_owned(), |page, row| page + *row + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hundred_trials_bound_one_percent() {
        assert_eq!(bound(300), "below 1.0 %");
        assert_eq!(bound(3_000), "below 0.1000 %");
        assert_eq!(bound(9), "nothing: too few trials");
    }

    fn circumstances() -> Circumstances {
        let text = str::to_owned;
        Circumstances { date: text("today"), commit: text("c0ffee"), seed: 7, machine: text("2 cores") }
    }

    #[test]
    fn a_run_replaces_its_own_rows() {
        let outcome = Outcome { trials: 300, ..Outcome::default() };
        let of = |number: usize| row(&TESTS[number], &circumstances(), 5, &outcome);
        let first = page("", &[of(1), of(0)]);
        assert!(first.starts_with("# Results"));
        let names = |page: &str| page.lines().filter(|line| line.starts_with("| T-")).count();
        assert_eq!(names(&first), 2);
        assert!(first.find(&of(0)).is_some_and(|at| at < first.find(&of(1)).unwrap_or(0)), "{first}");
        let failed = Outcome { violations: vec!["a | b\nc".to_owned()], ..Outcome::default() };
        let failed = row(&TESTS[1], &circumstances(), 5, &failed);
        let second = page(&first, std::slice::from_ref(&failed));
        assert_eq!(names(&second), 2);
        assert!(second.contains(&of(0)) && !second.contains(&of(1)), "{second}");
        assert!(failed.contains(r"FAILED: a \| b c") && failed.contains("nothing: it failed"), "{failed}");
    }
}
