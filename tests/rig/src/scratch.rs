//! Folders that go away with the test that made them.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder below the system's temporary one, removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes one. `purpose` is part of its name, for a person who finds it after a crash.
    pub fn new(purpose: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Process ids come round again, so a folder of a crashed run may be in the way.
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("docket-{purpose}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            // Other accounts must not read it: databases and passwords of tests are in there.
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self { path },
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("can't make {}: {error}", path.display()),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder to another process, which removes it.
    pub fn hand_over(mut self) -> PathBuf {
        std::mem::take(&mut self.path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // Files that can't be removed stay in a temporary folder, where they do no harm.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
