//! `docket docs`.

use std::path::PathBuf;

use clap::Args;

/// Where the documentation is written.
#[derive(Debug, Args)]
pub struct DocsArguments {
    /// The folder, which must be empty or not exist yet.
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}
