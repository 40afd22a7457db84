//! `docket completion`: what a shell completes.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap_complete::{Shell, generate};

use crate::args;

/// Prints the completions of this shell.
///
/// # Errors
///
/// Standard output can't be written to.
pub fn run(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    generate(shell, &mut args::command(), "docket", &mut text);
    io::stdout().write_all(&text).context("the completions can't be printed")
}
