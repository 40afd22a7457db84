//! Throw-away Redis: a single server, a primary that Sentinels watch, or a Cluster. Each server has its own guard.
//!
//! A guard process owns each server: it waits on a pipe that only this process holds open. So the server and its
//! files are removed however this process ends, also by SIGKILL.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ports::free_port;
use crate::scratch::Folder;

/// The script that the guard runs: `$1` is the folder. `$1/pid` has the server's process id and is rewritten at each start.
///
/// `cat` ends when the test process ends or drops the server.
const GUARD: &str = r#"
cat >/dev/null
kill -9 "$(cat "$1/pid")" 2>/dev/null
rm -rf "$1"
"#;

/// The time within which a server must be ready, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of attempts to start the server: another process may take the port after this process has checked it.
const STARTS: u32 = 5;

/// A server process and its files. Dropping it ends the process and removes the files.
#[derive(Debug)]
pub struct RedisServer {
    /// The port of the loopback address on which the server listens.
    pub port: u16,
    folder: PathBuf,
    password: Option<String>,
    mode: Mode,
    settings: Vec<String>,
    guard: Child,
    process: Option<Child>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Data,
    Sentinel,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk unless its settings say so. `settings`: lines of its configuration.
    pub fn start(settings: &[&str]) -> Self {
        Self::launch(Mode::Data, None, settings)
    }

    /// Like [`start`](Self::start), with a password.
    pub fn start_with_password(password: &str, settings: &[&str]) -> Self {
        Self::launch(Mode::Data, Some(password), settings)
    }

    fn launch(mode: Mode, password: Option<&str>, settings: &[&str]) -> Self {
        for _ in 0..STARTS {
            let folder = Folder::new("redis");
            let path = folder.path().to_owned();
            let mut guard = Command::new("/bin/sh");
            guard.args(["-c", GUARD, "docket-redis-guard"]).arg(&path);
            // The guard has a process group of its own: Ctrl-C on the tests ends the guard by its pipe, so it still
            // kills the server.
            guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            let guard = guard.spawn().expect("there is a shell");
            // The guard removes the folder.
            folder.hand_over();
            let settings = settings.iter().map(|line| (*line).to_owned()).collect();
            let password = password.map(str::to_owned);
            let mut server =
                Self { port: free_port(), folder: path, password, mode, settings, guard, process: None };
            server.configure();
            if server.run() {
                return server;
            }
        }
        panic!("Redis does not start; `tests/run` installs it")
    }

    fn configure(&self) {
        let mut lines = vec![
            format!("port {}", self.port),
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", self.folder.display()),
        ];
        if let Some(password) = &self.password {
            lines.push(format!("requirepass {password}"));
        }
        if self.mode == Mode::Data {
            lines.extend(["save \"\"".to_owned(), "appendonly no".to_owned()]);
            lines.extend(self.password.iter().map(|password| format!("masterauth {password}")));
        }
        lines.extend(self.settings.iter().cloned());
        fs::write(self.folder.join("redis.conf"), lines.join("\n") + "\n").expect("the folder is new");
    }

    /// Starts the process; returns `false` if it ended before it responded.
    fn run(&mut self) -> bool {
        let log = fs::File::create(self.folder.join("log")).expect("the folder is ours");
        let mut command = Command::new("redis-server");
        command.arg(self.folder.join("redis.conf"));
        if self.mode == Mode::Sentinel {
            command.arg("--sentinel");
        }
        command.stdout(log).stderr(Stdio::null()).stdin(Stdio::null()).process_group(0);
        let mut process = command.spawn().expect("redis-server is not installed; `tests/run` installs it");
        fs::write(self.folder.join("pid"), process.id().to_string()).expect("the folder is ours");
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if process.try_wait().expect("it is our child").is_some() {
                return false;
            }
            // An open port is not enough: another program, or the check in `free_port`, may have the port open for a moment.
            if self.cli(&["INFO", "server"]).contains(&format!("process_id:{}\r", process.id())) {
                self.process = Some(process);
                wait_for("Redis to load what it has", || !self.cli(&["PING"]).contains("LOADING"));
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // The process may still run; the panic must not leave it behind.
        let _ = process.kill();
        let _ = process.wait();
        panic!("Redis does not listen:\n{}", fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    /// The URL of this server alone.
    pub fn url(&self) -> String {
        let password = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{password}127.0.0.1:{}", self.port)
    }

    /// Runs a command by `redis-cli`, past the code under test; returns what it prints.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(arguments);
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.output().expect("redis-cli comes with the server");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Kills the process, as the loss of its machine would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it is our child");
            process.wait().expect("it is our child");
        }
    }

    /// Starts the process after [`kill`](Self::kill), on the same port and with the content of its disk.
    pub fn restart(&mut self) {
        self.kill();
        // The system may free the port a moment later.
        wait_for("Redis to start again", || self.run());
    }

    /// Writes all data to the server's disk; returns when it is written.
    pub fn save(&self) {
        assert_eq!(self.cli(&["SAVE"]), "OK");
    }

    /// The content of the snapshot on the server's disk.
    pub fn dump(&self) -> Vec<u8> {
        fs::read(self.folder.join("dump.rdb")).expect("it was saved")
    }

    /// Kills the process and starts it with the snapshot `dump`, as after the loss of its disk.
    pub fn restart_with(&mut self, dump: &[u8]) {
        self.kill();
        fs::write(self.folder.join("dump.rdb"), dump).expect("the folder is ours");
        self.restart();
    }

    /// Pauses the process: connections stay open, and no command gets a response.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Resumes a process that was paused by [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it runs");
        let status = Command::new("kill").args([signal, &process.id().to_string()]).status();
        assert!(status.expect("there is a kill").success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        drop(self.guard.stdin.take());
        // The guard removes the folder; a folder that stays does no harm.
        let _ = self.guard.wait();
    }
}

/// A primary, its replica, and the Sentinels that watch both.
#[derive(Debug)]
pub struct Sentinels {
    /// The primary and the replica, in this order at the start.
    pub servers: [RedisServer; 2],
    /// The Sentinels.
    pub sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts a primary, a replica and three Sentinels. Two Sentinels must agree that the primary is down, which
    /// takes three seconds.
    pub fn start(password: &str) -> Self {
        Self::start_guarded(password, None)
    }

    /// Like [`start`](Self::start), with a password that the Sentinels require.
    pub fn start_guarded(password: &str, of_sentinels: Option<&str>) -> Self {
        let primary = RedisServer::start_with_password(password, &[]);
        let follow = format!("replicaof 127.0.0.1 {}", primary.port);
        let replica = RedisServer::start_with_password(password, &[&follow]);
        wait_for("the replica to follow", || {
            replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        });
        let watch = format!("sentinel monitor main 127.0.0.1 {} 2", primary.port);
        let auth = format!("sentinel auth-pass main {password}");
        let settings = [
            watch.as_str(),
            auth.as_str(),
            "sentinel down-after-milliseconds main 3000",
            "sentinel failover-timeout main 5000",
        ];
        let sentinels: Vec<RedisServer> =
            (0..3).map(|_| RedisServer::launch(Mode::Sentinel, of_sentinels, &settings)).collect();
        wait_for("the Sentinels to know each other and the replica", || {
            sentinels.iter().all(|sentinel| {
                let known = sentinel.cli(&["SENTINEL", "MASTER", "main"]);
                let lines: Vec<&str> = known.lines().collect();
                let value = |name: &str| lines.iter().position(|line| *line == name).map(|at| lines[at + 1]);
                value("num-other-sentinels") == Some("2") && value("num-slaves") == Some("1")
            })
        });
        Self { servers: [primary, replica], sentinels }
    }

    /// The URL of the watched primary by its Sentinels.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        let password = self.servers[0].password.as_deref().unwrap_or_default();
        let own = self.sentinels[0].password.as_deref().map(|own| format!("?sentinel_password={own}"));
        format!("redis+sentinel://:{password}@{}/main{}", hosts.join(","), own.unwrap_or_default())
    }
}

/// A Redis Cluster of three primaries without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    /// The three primaries.
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the Cluster; returns when all slots are served.
    pub fn start() -> Self {
        let settings = ["cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000"];
        // Each bus port is a further free port: the default one, 10,000 above the port, may be taken or be above 65,535.
        let nodes: Vec<RedisServer> = (0..3)
            .map(|_| {
                let bus = format!("cluster-port {}", free_port());
                RedisServer::start(&[settings[0], settings[1], settings[2], &bus])
            })
            .collect();
        let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let mut create: Vec<&str> = vec!["--cluster", "create"];
        create.extend(addresses.iter().map(String::as_str));
        create.extend(["--cluster-replicas", "0", "--cluster-yes"]);
        let printed = nodes[0].cli(&create);
        wait_for("the Cluster to be whole", || {
            nodes.iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
        });
        assert!(printed.contains("All 16384 slots covered"), "{printed}");
        Self { nodes }
    }

    /// The URL of the Cluster by all its nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }
}

/// Waits until `done` returns true; panics after 30 seconds.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
