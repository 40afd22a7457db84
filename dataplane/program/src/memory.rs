//! The memory that this process may have. Other limits are derived from it.

use std::path::{Path, PathBuf};

/// The number of bytes that this process may have: the lowest of the limits of its control groups (version 1 and 2)
/// and the machine's memory.
pub fn limit() -> u64 {
    lowest(|path| std::fs::read_to_string(path).ok())
}

/// The limit, in a system whose files `read` reads.
fn lowest(read: impl Fn(&Path) -> Option<String>) -> u64 {
    let limits = control_groups(&read(Path::new("/proc/self/cgroup")).unwrap_or_default());
    let limits = limits.iter().filter_map(|file| read(file)?.trim().parse().ok());
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| machine(&text));
    limits.chain(machine).min().unwrap_or(u64::MAX)
}

/// The files with the limits of the control groups in `/proc/self/cgroup`, and of the groups above them. A container
/// sees its own group at the root, whatever the group's name is outside.
fn control_groups(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = path.trim_start_matches('/');
        files.extend(Path::new(group).ancestors().map(|group| Path::new(root).join(group).join(file)));
    }
    files
}

fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Vec<String> {
        control_groups(text).iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn all_groups_above_count() {
        assert_eq!(
            files("0::/kubepods/pod1/c\n"),
            [
                "/sys/fs/cgroup/kubepods/pod1/c/memory.max",
                "/sys/fs/cgroup/kubepods/pod1/memory.max",
                "/sys/fs/cgroup/kubepods/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
    }

    #[test]
    fn version_1_has_a_group_for_memory() {
        assert_eq!(
            files("5:cpu,cpuacct:/a\n4:memory:/b\n1:name=systemd:/c\n"),
            ["/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
        assert!(files("nonsense\n\n").is_empty());
    }

    #[test]
    fn memory_of_the_machine_is_read_in_bytes() {
        assert_eq!(machine("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 * 1024));
        assert_eq!(machine("MemFree: 1 kB\n"), None);
        assert!(limit() > 1024 * 1024, "this process has some memory");
    }

    #[test]
    fn lowest_of_all_limits_counts() {
        let of = |own: &str, above: &str| {
            lowest(|path| {
                let text = match path.to_str()? {
                    "/proc/self/cgroup" => "0::/pod/c\n",
                    "/proc/meminfo" => "MemTotal: 8 kB\n",
                    "/sys/fs/cgroup/pod/c/memory.max" => own,
                    "/sys/fs/cgroup/pod/memory.max" => above,
                    _ => return None,
                };
                Some(text.to_owned())
            })
        };
        assert_eq!(of("4096\n", "6144\n"), 4_096);
        assert_eq!(of("max\n", "6144\n"), 6_144);
        assert_eq!(of("16384\n", "max\n"), 8_192, "the machine has no more");
        assert_eq!(lowest(|_| None), u64::MAX);
    }
}
