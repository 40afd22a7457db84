//! A file with the certificates that a command trusts.

use std::path::Path;

use anyhow::{Context, Result};
use docket_egress::Trust;

/// The authorities in the file; without one, the public authorities.
///
/// # Errors
///
/// The file can't be read, has no certificate in PEM form, or has a broken one.
pub(super) fn read(path: Option<&Path>) -> Result<Trust> {
    let Some(path) = path else { return Ok(Trust::public()) };
    let bundle = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    Trust::with_bundle(bundle).with_context(|| format!("{} can't be used", path.display()))
}
