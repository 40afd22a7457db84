//! The memory of processes, as Linux counts it.

use std::fs;

/// The peak memory of a process since [`forget_peak_memory`], otherwise since its start, in MB of 1,048,576 bytes.
pub fn peak_memory(id: u32) -> f64 {
    status(id, "VmHWM:") / 1_024.0
}

/// Sets the peak memory of a process to what the process has now.
pub fn forget_peak_memory(id: u32) {
    // The value 5 resets the peak, see proc(5).
    fs::write(format!("/proc/{id}/clear_refs"), "5").expect("it runs, as this user");
}

/// The memory that a process has now, in MB of 1,048,576 bytes.
pub fn memory(id: u32) -> f64 {
    status(id, "VmRSS:") / 1_024.0
}

fn status(id: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux says");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
