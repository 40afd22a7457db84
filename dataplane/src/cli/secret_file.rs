//! A file with the secret of a webhook.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Largest secret, in bytes: a Kubernetes Secret holds no more.
const MAX_BYTES: u64 = 1024 * 1024;

/// The bytes of the file, without any change.
///
/// # Errors
///
/// The file cannot be read, or is empty or over 1 MiB.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{} can't be read", path.display()))?;
    match bytes.len() as u64 {
        0 => bail!("{} is empty; a secret has at least one byte", path.display()),
        1..=MAX_BYTES => Ok(bytes),
        _ => bail!("{} is over 1 MiB; name the file with the secret and nothing else", path.display()),
    }
}
