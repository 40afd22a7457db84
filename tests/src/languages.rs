//! Programs in other languages, which judge our signatures.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `tests/run` keeps programs and libraries.
#[expect(clippy::disallowed_methods, reason = "the folder is that of tests/run")]
pub fn cache() -> PathBuf {
    std::env::var("DOCKET_TEST_CACHE").map_or_else(
        |_| std::env::home_dir().expect("there is a home folder").join(".cache/docket-tests"),
        PathBuf::from,
    )
}

/// Whether tests that need this program may be skipped: the step of tests/run has counted the program as missing.
#[expect(clippy::disallowed_methods, reason = "consent of tests/run, as for a file system")]
pub fn without(program: &str) -> bool {
    let skipped = std::env::var("DOCKET_TEST_WITHOUT").unwrap_or_default();
    let skipped = skipped.split_whitespace().any(|word| word == program);
    if skipped {
        println!("SKIPPED: this machine has no {program}");
    }
    skipped
}

/// Runs a line of `sh` in a folder, with `input` on its standard input; returns what it prints. Panics if it fails.
pub fn run(command: &str, folder: &Path, input: &str) -> String {
    let mut child = Command::new("sh")
        .args(["-euc", command])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh");
    // What does not start does not read.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command}: {errors}\nIf the language is missing, install it as tests/run does, or name its program in DOCKET_TEST_WITHOUT."
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}
