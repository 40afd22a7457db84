//! Folders that are removed at the end of the test that made them.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder below the system's temporary one. Dropping it removes the folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder. `purpose` is part of its name, for a person who finds the folder after a crash.
    pub fn new(purpose: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // The system uses process ids again, so a crashed run may have left a folder of this name.
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("docket-{purpose}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            // Other accounts must not read the folder, because it has databases and passwords of tests.
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self { path },
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("can't make {}: {error}", path.display()),
            }
        }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder to another process, which removes it; returns the path.
    pub fn hand_over(mut self) -> PathBuf {
        std::mem::take(&mut self.path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // A folder that can't be removed stays in the temporary one, where it does no harm.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
