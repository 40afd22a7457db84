//! A control group that limits the memory of a process, as a container's does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ports::free_port;

/// The environment variable by which `tests/run` says that a test can make no control group with a memory limit on
/// this machine.
const WITHOUT: &str = "DOCKET_TEST_WITHOUT_MEMORY_GROUPS";

/// A control group. It is removed when it is dropped; all its processes must have ended by then.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Makes a group with a limit of `bytes` bytes and without swap. `None`: no such group can be made on this
    /// machine, and `tests/run` has counted the test as skipped.
    pub fn new(bytes: u64) -> Option<Self> {
        let name = format!("docket-test-{}-{}", std::process::id(), free_port());
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes),
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max", 0),
        ];
        for (root, limit, swap_limit, swap) in versions {
            let folder = Path::new(root).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder };
            if std::fs::write(group.folder.join(limit), bytes.to_string()).is_ok() {
                // The file is absent where the kernel does not count swap.
                let _ = std::fs::write(group.folder.join(swap_limit), swap.to_string());
                return Some(group);
            }
        }
        assert!(
            std::env::var_os(WITHOUT).is_some(),
            "no control group of memory can be made here; see tests/run"
        );
        println!("SKIPPED: no control group of memory can be made here");
        None
    }

    /// A command that runs `program` in this group.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo $$ >"$0" && exec "$@""#])
            .arg(self.folder.join("cgroup.procs"))
            .arg(program);
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}
