//! The time that the disk takes for a write while a scenario runs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::figures::Figure;
use crate::measure::percentile;

/// The number of bytes of a write: as many as PostgreSQL writes for a small commit.
const BYTES: usize = 8 << 10;
/// The length of the file, in writes.
const PLACES: u64 = 1_024;
const PAUSE: Duration = Duration::from_millis(20);

/// A thread that writes to a file of its own, and waits for the disk after each write.
pub(crate) struct Disk {
    is_ended: Arc<AtomicBool>,
    writer: JoinHandle<Vec<Duration>>,
}

impl Disk {
    pub(crate) fn watch(path: PathBuf) -> Self {
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let writer = std::thread::spawn(move || {
            let file = OpenOptions::new().create(true).write(true).truncate(true).open(path);
            let file = file.expect("the folder is ours");
            file.set_len(PLACES * BYTES as u64).expect("the disk has room");
            let mut took = Vec::new();
            for number in 0.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let begun = Instant::now();
                file.write_all_at(&[1; BYTES], number % PLACES * BYTES as u64).expect("the disk has room");
                file.sync_data().expect("the disk has room");
                took.push(begun.elapsed());
                std::thread::sleep(PAUSE);
            }
            took
        });
        Self { is_ended, writer }
    }

    pub(crate) fn end(self) -> [Figure; 2] {
        self.is_ended.store(true, Ordering::Relaxed);
        let mut took = self.writer.join().expect("it does not panic");
        took.sort_unstable();
        [("p99", 99.0), ("longest", 100.0)].map(|(name, percent)| {
            let name = format!("a write of 8 KiB by the benchmark itself to the same disk, {name}");
            Figure::new(name, percentile(&took, percent), "ms")
        })
    }
}
