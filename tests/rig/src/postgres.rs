//! A throw-away PostgreSQL: one server for each test process and one database for each test. A test that crashes its
//! server has a dedicated one.
//!
//! A guard process owns the server: it waits on a pipe that only this process holds open. So the server and its files
//! are removed however this process ends, also by SIGKILL.

use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::account::Account;
use crate::ports::free_port;
use crate::scratch::Folder;

/// The script that the guard runs: `$1` is the path of `pg_ctl`, `$2` the folder.
///
/// `cat` ends when the test process ends. The data is of no use then, so the server is stopped without writing it out.
const GUARD: &str = r#"
"$1" start --silent --wait --pgdata "$2/data" --log "$2/log" >>"$2/log" 2>&1 && echo ready
exec >&-
cat >/dev/null
"$1" stop --silent --mode immediate --pgdata "$2/data" >>"$2/log" 2>&1
rm -rf "$2"
"#;

/// The number of attempts to start the server: another process may take the port after this process has checked it.
const STARTS: u32 = 5;

/// A server and its files. Dropping it ends the server and removes the files.
pub struct PostgresServer {
    port: u16,
    password: String,
    folder: PathBuf,
    account: Account,
    /// The guard, which ends when its pipe is closed: with this value or with the process.
    _guard: Child,
}

impl PostgresServer {
    /// Starts a dedicated server, which keeps acknowledged writes when its processes are killed.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Like [`start`](Self::start), with further lines of configuration, such as `fsync = on`. They override the
    /// lines of this crate.
    pub async fn start_with(settings: &'static str) -> Self {
        let start = || (1..=STARTS).find_map(|_| start(settings)).expect("a free port for PostgreSQL");
        tokio::task::spawn_blocking(start).await.expect("PostgreSQL starts, see above")
    }

    /// Creates an empty database; returns its URL.
    pub async fn database(&self) -> String {
        self.copy("template1").await
    }

    /// Copies the database `template`, to which no connection may be open meanwhile; returns the URL of the copy.
    async fn copy(&self, template: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("docket_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let client = client(&self.url("postgres")).await;
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        client.batch_execute(&create).await.expect("the server makes databases");
        self.url(&name)
    }

    /// Creates the role `watcher` with the password `secret-of-watcher`, which may log in and has no other right;
    /// returns its URL.
    pub async fn watcher(&self) -> String {
        let client = client(&self.url("postgres")).await;
        let sql = "CREATE ROLE watcher LOGIN NOINHERIT PASSWORD 'secret-of-watcher'";
        client.batch_execute(sql).await.expect("a new role");
        format!("postgres://watcher:secret-of-watcher@{}:{}/postgres", Ipv4Addr::LOCALHOST, self.port)
    }

    /// Ends the server as a crash would: nothing is written out, and clients get no message.
    pub fn crash(&self) {
        self.pg_ctl(&["stop", "--mode", "immediate"]);
    }

    /// Starts the server after [`crash`](Self::crash), on the same port; returns when it has recovered.
    pub fn start_again(&self) {
        self.pg_ctl(&["start", "--wait", "--log", "log"]);
    }

    fn pg_ctl(&self, arguments: &[&str]) {
        let mut command = self.account.command(&programs().join("pg_ctl"), &self.folder);
        command.args(arguments).args(["--silent", "--pgdata", "data"]);
        // The server would inherit a pipe of this process and keep it open for as long as it runs.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(command.status().expect("it is a program").success(), "{arguments:?}: {}", log());
    }

    /// The file of the server's log. With the setting `log_connections = on`, it has a line for each login.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The URL of the database with this name.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres:{}@{}:{}/{database}", self.password, Ipv4Addr::LOCALHOST, self.port)
    }
}

/// Creates an empty database; returns its URL. The first call of a process starts the server, which takes some seconds.
pub async fn database() -> String {
    tokio::task::spawn_blocking(server).await.expect("PostgreSQL starts, see above").database().await
}

/// Copies a [`database`] to which no connection is open; returns the URL of the copy.
pub async fn copy(url: &str) -> String {
    let (_, name) = url.rsplit_once('/').expect("the URL of a database");
    server().copy(name).await
}

/// The output of `pg_dump` for the database, without owners and rights, and without the table `without_table`.
pub fn dump(url: &str, without_table: &str) -> String {
    let mut command = Command::new(folder_of(&["pg_dump"]).join("pg_dump"));
    command.args(["--inserts", "--no-owner", "--no-privileges", "--no-comments", "--dbname", url]);
    command.arg(format!("--exclude-table={without_table}"));
    let output = command.output().expect("pg_dump is beside the server");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Connects to the server directly, past the code under test.
pub async fn client(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the test's PostgreSQL answers");
    tokio::spawn(connection);
    client
}

/// Returns when `count` sessions of the client's database wait for a lock. The client may not be in a transaction, which would see the
/// same sessions all the time.
pub async fn lock_waits(client: &Client, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let begun = Instant::now();
    while client.query_one(sql, &[]).await.expect("a statement").get::<_, i64>(0) < count {
        assert!(begun.elapsed() < Duration::from_secs(10), "fewer than {count} wait for a lock");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    // Only the death of the server's processes loses a commit that is not written out, and no test kills the
    // processes of this server.
    let settings = "synchronous_commit = off\n";
    SERVER.get_or_init(|| (1..=STARTS).find_map(|_| start(settings)).expect("a free port for PostgreSQL"))
}

/// Starts a server; `None`: another process took the port in the meantime.
fn start(settings: &str) -> Option<PostgresServer> {
    let programs = programs();
    let folder = Folder::new("postgres");
    let path = folder.path().to_owned();
    let account = Account::beside(&path);
    account.own(&path);

    let password = random_hex();
    initialise(&programs, &account, &path, &password);
    let port = free_port();
    configure(&path, port, settings);
    let mut guard = account.command(Path::new("/bin/sh"), &path);
    guard.args(["-c", GUARD, "docket-postgres-guard"]).arg(programs.join("pg_ctl")).arg(&path);
    // The guard has a process group of its own: Ctrl-C on the tests ends the guard by its pipe, so it still stops the server.
    guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut guard = guard.spawn().expect("there is a shell");
    let stdout = guard.stdout.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("the guard's pipe is readable");
    if line.trim() == "ready" {
        // The guard removes the folder.
        folder.hand_over();
        return Some(PostgresServer { port, password, folder: path, account, _guard: guard });
    }
    let log = std::fs::read_to_string(path.join("log")).unwrap_or_default();
    guard.wait().expect("the guard ends with its pipe");
    assert!(log.contains("Address already in use"), "PostgreSQL does not start:\n{log}");
    None
}

fn initialise(programs: &Path, account: &Account, folder: &Path, password: &str) {
    let password_file = folder.join("password");
    std::fs::write(&password_file, password).expect("the folder is new");
    account.own(&password_file);
    let mut initdb = account.command(&programs.join("initdb"), folder);
    initdb.args(["--username=postgres", "--auth=scram-sha-256"]);
    initdb.args(["--encoding=UTF8", "--locale=C", "--no-sync"]);
    initdb.arg("--pgdata").arg(folder.join("data")).arg("--pwfile").arg(&password_file);
    let output = initdb.output().expect("initdb is a program");
    assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
}

fn configure(folder: &Path, port: u16, settings: &str) {
    let path = folder.join("data/postgresql.conf");
    let defaults = std::fs::read_to_string(&path).expect("initdb has written it");
    // `fsync` is off: no test cuts the machine's power, and the guard removes these files anyway.
    let ours = format!(
        "\nlisten_addresses = '{}'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 300\n\
         fsync = off\nfull_page_writes = off\n{settings}",
        Ipv4Addr::LOCALHOST
    );
    std::fs::write(&path, defaults + &ours).expect("the file is ours");
}

/// The folder of the server's programs.
fn programs() -> PathBuf {
    folder_of(&["initdb", "pg_ctl", "postgres"])
}

/// The folder that has these programs of PostgreSQL: one on the PATH, otherwise of the newest version of Debian's packages.
fn folder_of(names: &[&str]) -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    debian.sort_by_key(|path| {
        path.iter().nth_back(1).and_then(|version| version.to_str()?.parse::<u32>().ok())
    });
    std::env::split_paths(&on_path)
        .chain(debian.into_iter().rev())
        .find(|folder| names.iter().all(|name| folder.join(name).is_file()))
        .expect("PostgreSQL's server is not installed; `tests/run` installs it")
}

/// 32 random hexadecimal digits.
pub fn random_hex() -> String {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .expect("it never ends");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
