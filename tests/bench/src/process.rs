//! A child process of the benchmark, and the CPU time of processes, as Linux counts it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use docket_rig::memory::{forget_peak_memory, memory, peak_memory};
use docket_rig::ports::free_port;

use crate::http::{Connection, request};

/// The time within which a process must be ready, also with a thousand tenants.
const PATIENCE: Duration = Duration::from_secs(120);
/// Linux counts CPU time for programs in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A program that can be killed and started again on the same ports. Dropping it kills it.
pub(crate) struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
    /// The address on which the program serves requests.
    pub(crate) api: SocketAddr,
    management: SocketAddr,
}

impl Process {
    /// Starts the program with these arguments and the addresses to listen on; its output is appended to `log`. Does
    /// not wait until it is ready.
    pub(crate) fn start(program: &Path, arguments: Vec<String>, log: PathBuf) -> Self {
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (api, management) = (local(), local());
        let program = program.to_owned();
        let mut process = Self { program, arguments, log, child: None, api, management };
        process.start_again();
        process
    }

    /// Starts the program again, after [`kill`](Self::kill) or [`terminate`](Self::terminate). Does not wait until it is ready.
    pub(crate) fn start_again(&mut self) {
        let append = || {
            let log = fs::OpenOptions::new().create(true).append(true).open(&self.log);
            Stdio::from(log.expect("the folder is ours"))
        };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command.args(["--listen", &self.api.to_string(), "--management", &self.management.to_string()]);
        command.stdin(Stdio::null()).stdout(append()).stderr(append());
        self.child = Some(command.spawn().expect("the program starts"));
    }

    /// Waits until the program is ready.
    pub(crate) async fn ready(&mut self) {
        let begun = Instant::now();
        let readiness = request("GET", "/readyz", &[("connection", "close")], "");
        loop {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().expect("its state")) {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                panic!("{} ended with {status}: {log}", self.program.display());
            }
            if let Ok(mut connection) = Connection::open(self.management).await
                && let Ok(response) = connection.call(&readiness).await
                && response.status == 200
            {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{} is not ready", self.program.display());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The text of its metrics.
    pub(crate) async fn metrics(&self) -> String {
        let mut connection = Connection::open(self.management).await.expect("it runs");
        connection.call(&request("GET", "/metrics", &[], "")).await.expect("a response").text()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Kills the program with SIGKILL; returns when it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
        }
    }

    /// Sends SIGTERM; returns when the program has ended, and kills it after [`PATIENCE`].
    pub(crate) async fn terminate(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let id = child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status().expect("there is a kill");
        assert!(status.success(), "kill -TERM {id}");
        let begun = Instant::now();
        while child.try_wait().expect("it is our child").is_none() {
            if begun.elapsed() > PATIENCE {
                child.kill().expect("it is our child");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The CPU seconds of a process so far.
pub(crate) fn cpu(id: u32) -> f64 {
    stat(id).map_or(0.0, |stat| stat.own)
}

/// The CPU seconds so far of a process, its running children, and its children that have ended.
pub(crate) fn cpu_with_children(id: u32) -> f64 {
    let ids = fs::read_dir("/proc")
        .expect("there is a /proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let children: f64 = ids.filter_map(stat).filter(|stat| stat.parent == id).map(|stat| stat.own).sum();
    children + stat(id).map_or(0.0, |stat| stat.own + stat.ended_children)
}

/// The process id of a process' parent.
pub(crate) fn parent(id: u32) -> u32 {
    stat(id).expect("it runs").parent
}

struct Stat {
    parent: u32,
    own: f64,
    ended_children: f64,
}

/// The parent and CPU times of a process; `None`: the process has ended.
fn stat(id: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may contain anything; the state follows its last parenthesis.
    let fields: Vec<&str> = text[text.rfind(')')? + 2..].split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        ended_children: (ticks(13)? + ticks(14)?) / TICKS_PER_SECOND,
    })
}
