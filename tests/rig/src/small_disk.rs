//! A small file system in memory, for tests of a full disk.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable of the environment that allows a test to be skipped; `tests/run` sets it on a machine that mounts nothing.
const MAY_SKIP: &str = "DOCKET_TEST_WITHOUT_MOUNT";

/// A mounted file system. Dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of `mebibytes` MiB on a folder. Returns `None` if `mount` is refused and the environment allows that.
    /// Panics if the environment does not allow it.
    pub fn mount(folder: &Path, mebibytes: u32) -> Option<Self> {
        let size = format!("size={mebibytes}m");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder).output();
        let output = output.expect("mount is a program");
        if output.status.success() {
            return Some(Self(folder.to_owned()));
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        assert!(std::env::var_os(MAY_SKIP).is_some(), "can't mount: {why}; {MAY_SKIP}=1 skips this test");
        // Writes past the capture of a test's output, which hides the output of a test that passes.
        writeln!(std::io::stderr(), "SKIPPED: a full disk: can't mount: {why}").expect("stderr is open");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
