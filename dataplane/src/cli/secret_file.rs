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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_every_byte_of_its_file_up_to_1_mib() {
        let file = std::env::temp_dir().join(format!("docket-secret-{}", std::process::id()));
        let read_of = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("writable");
            read(&file).map_err(|error| error.to_string())
        };
        assert_eq!(read_of(b" s\xff\n").as_deref(), Ok(&b" s\xff\n"[..]));
        assert!(read_of(b"").is_err_and(|text| text.contains("is empty")));
        let whole = vec![b'x'; 1 << 20];
        assert_eq!(read_of(&whole).map(|bytes| bytes.len()), Ok(1 << 20));
        assert!(read_of(&[&whole[..], b"x"].concat()).is_err_and(|text| text.contains("over 1 MiB")));
        std::fs::remove_file(&file).expect("it is there");
        assert!(read(&file).is_err_and(|error| error.to_string().contains("can't be read")));
    }
}
