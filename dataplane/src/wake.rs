//! The wake file of a data folder. A command writes it after it has queued deliveries; a running `docket dev` sees that and sweeps
//! at once.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};
use docket_program::random;

const FILE: &str = "wake";

/// Wakes the `docket dev` that runs on this data folder, if there is one.
///
/// # Errors
///
/// The file can't be written.
pub fn wake(data_dir: &Path) -> Result<()> {
    let path = data_dir.join(FILE);
    std::fs::write(&path, random::bytes::<8>())
        .with_context(|| format!("{} can't be written", path.display()))
}

/// Returns when the file was last written; `None` if it does not exist.
pub fn last_wake(data_dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(data_dir.join(FILE)).and_then(|metadata| metadata.modified()).ok()
}
