//! Ensures that one `docket dev` uses a data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The lock of a data folder. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "keeps the file locked")] File);

/// Locks the folder. Creates it if needed, readable for its owner only.
pub fn take(data_dir: &Path) -> Result<Lock> {
    let shown = data_dir.display();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir).with_context(|| {
        format!("the data folder {shown} can't be created; choose another with --data-dir")
    })?;
    let path = data_dir.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| {
            format!("{} can't be opened; choose another folder with --data-dir", path.display())
        })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            bail!(
                "another docket dev (process {}) uses the data folder {shown}; stop it, or choose another with --data-dir",
                owner.trim()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("{} can't be locked", path.display()));
        }
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Lock(file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use docket_rig::scratch::Folder;

    use super::*;

    #[test]
    fn second_dev_is_refused_and_names_the_first() {
        let scratch = Folder::new("lock");
        let folder = scratch.path().join("data");
        let first = take(&folder).expect("free");
        let message = take(&folder).expect_err("taken").to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        assert!(message.contains("--data-dir"), "{message}");
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let modes = (mode(&folder), mode(&folder.join("lock")));
        assert_eq!(modes, (0o700, 0o600), "no other user of the machine reads the databases");
        drop(first);
        take(&folder).expect("free again");
    }
}
