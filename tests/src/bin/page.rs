//! `page <file> <kind>`: runs the blocks `sh <kind>` of a page in order in one shell, and compares what they print with the
//! blocks `text output` after them. The exit code is 1 if one fails or prints something else.

use std::process::{Command, ExitCode};

use docket_tests::pages::{blocks, differences, script};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, kind] = arguments.as_slice() else {
        eprintln!("page <file> <kind>");
        return ExitCode::from(2);
    };
    let page = match std::fs::read_to_string(file) {
        Ok(page) => page,
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::from(2);
        }
    };
    let blocks = blocks(&page, kind);
    if blocks.is_empty() {
        eprintln!("{file} has no block `sh {kind}`");
        return ExitCode::from(2);
    }
    let run = Command::new("bash").args(["-c", &script(&blocks)]).output().expect("bash runs");
    let output = String::from_utf8_lossy(&run.stdout);
    let differences = differences(&blocks, &output);
    if run.status.success() && differences.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("{file}: {}\n{output}", differences.join("\n"));
    ExitCode::FAILURE
}
