//! The comparison in README.md quotes the whole table of tests/bench/README.md, so a new measurement changes both.

use regex::Regex;

use super::example::repository;

/// The figures in the first column of the row that begins with `label`.
fn figures(document: &str, label: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(document)).expect("readable");
    let begin = format!("| {label} | ");
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(&begin));
    let row = rows.next().unwrap_or_else(|| panic!("{document} has no row `{label}`"));
    assert!(rows.next().is_none(), "{document} has two rows `{label}`");
    let cell = row.split(" | ").next().expect("split returns at least one part");
    // A digit after a letter, as in `p99`, begins no figure.
    let number = Regex::new(r"\b[0-9][0-9,]*(\.[0-9]+)?").expect("an expression");
    number.find_iter(cell).map(|found| found.as_str().to_owned()).collect()
}

#[test]
fn comparison_of_the_readme_quotes_the_whole_table_of_figures() {
    let burst = "burst of 10,000: deliveries per second; of the bare forwarder's";
    let stuck = "end to end p99 beside 1,000 stuck; 10,000 stuck; ten such tenants; nothing";
    let killed = "kill -9 in the middle: lost; delivered after the restart; duplicates of those in flight";
    for (quoted, measured, places) in [
        ("burst of 10,000: deliveries per second", burst, 0..1),
        ("the same, divided by what a bare forwarder sends", burst, 1..2),
        ("100 a second: end to end p50, p99", "steady 100/s: end to end p50; p99", 0..2),
        ("end to end, beside 1,000 deliveries to a receiver that hangs", stuck, 0..1),
        ("after `kill -9`: all delivered within", killed, 1..2),
    ] {
        let measured = figures("tests/bench/README.md", measured);
        assert_eq!(figures("README.md", quoted), measured[places], "README.md: {quoted}");
    }
}
