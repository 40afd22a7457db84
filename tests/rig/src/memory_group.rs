//! A control group with a limit of memory, as a container has one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ports::free_port;

/// Set where `tests/run` has found and counted that this machine has no control groups of memory that a test can make.
const WITHOUT: &str = "DOCKET_TEST_WITHOUT_MEMORY_GROUPS";

/// A control group, removed when it is dropped; by then its processes must have ended.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// With a limit of this many bytes, without swap. `None` where the machine has none; `tests/run` counts that.
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
                // Where the kernel does not count swap, there is no such file.
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
