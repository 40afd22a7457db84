//! Workers whose wall clock is wrong and jumps (T-7): due times and leases go by PostgreSQL's clock.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use docket_rig::scratch::Folder;

use crate::checker::lateness_ms;
use crate::hook::Manner;
use crate::outcome::{Budget, Outcome, conclude};
use crate::random::Random;
use crate::world::{Plan, World};

/// The largest error of a clock in seconds, in both directions.
const MOST_SECONDS: u64 = 600;
/// How often clocks jump.
const JUMP_EVERY: Duration = Duration::from_secs(1);
/// The number of clients, and the longest pause of each after a save.
const LOAD: (usize, u64) = (2, 60);
/// The latest time at which 99 of 100 retries begin after they are due: a poll of 0.2 s, and a busy machine.
const P99_LATE_MS: i64 = 5_000;

/// A clock of a process, in a file that the process has mapped.
struct SteppedClock {
    folder: Folder,
    file: File,
}

impl SteppedClock {
    fn new() -> Self {
        let folder = Folder::new("stepped-clock");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults/stepped_clock.c");
        let library = folder.path().join("stepped_clock.so");
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .status();
        assert!(compiler.expect("cc runs").success());
        let options =
            File::options().create(true).write(true).truncate(true).open(folder.path().join("step"));
        let clock = Self { file: options.expect("writable"), folder };
        clock.step(0);
        clock
    }

    /// Moves the clock by this number of seconds.
    fn step(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).expect("writable");
    }

    fn environment(&self) -> Vec<(String, String)> {
        let path = |name| self.folder.path().join(name).display().to_string();
        [("LD_PRELOAD", path("stepped_clock.so")), ("STEPPED_CLOCK", path("step"))]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }
}

/// Each process that delivers has a clock of its own, which jumps. A trial is a retry.
pub(crate) async fn jump(mut budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { failing: 60, slow: 20, takes_ms: 100, ..Manner::default() };
    // The process that issues and checks tokens has the right time.
    let plan = Plan { processes: &["api", "worker", "worker"], manner, ..Plan::default() };
    let clocks = [SteppedClock::new(), SteppedClock::new()];
    let environment =
        |number: usize| number.checked_sub(1).map_or_else(Vec::new, |clock| clocks[clock].environment());
    let mut world = World::start_with(plan, &mut random, environment, async |_| None).await;
    let load = world.load(LOAD.0, LOAD.1);
    while budget.next() {
        for clock in &clocks {
            let seconds = random.below(2 * MOST_SECONDS + 1).cast_signed();
            clock.step(seconds - MOST_SECONDS.cast_signed());
        }
        tokio::time::sleep(JUMP_EVERY).await;
        world.hook.receiver.forget();
    }
    clocks.iter().for_each(|clock| clock.step(0));
    let mut outcome = conclude(&mut world, load, 0).await;
    let late = lateness_ms(&outcome.history);
    outcome.trials = late.len() as u64;
    let p99 = late.get(late.len() * 99 / 100).copied().unwrap_or(0);
    outcome.figure("jumps of each clock", budget.done());
    outcome.figure("retries", late.len());
    outcome.figure("retry after its due time, p99 in ms", p99);
    outcome.expect(!late.is_empty(), || "nothing was retried".to_owned());
    outcome.expect(p99 <= P99_LATE_MS, || format!("the p99 of the lateness of retries is {p99} ms"));
    outcome
}
