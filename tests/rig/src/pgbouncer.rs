//! A throw-away PgBouncer in transaction mode, in front of a throw-away PostgreSQL.
//!
//! A guard process owns the pooler: it waits on a pipe that only this process holds open. So the pooler and its files are
//! removed however this process ends, also by SIGKILL.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::Config;

use crate::account::Account;
use crate::ports::free_port;
use crate::scratch::Folder;

/// The script that the guard runs: `$1` is the path of `pgbouncer`, `$2` the folder.
const GUARD: &str = r#"
"$1" "$2/pgbouncer.ini" >>"$2/log" 2>&1 &
pooler=$!
echo started
exec >&-
cat >/dev/null
kill -9 "$pooler" 2>/dev/null
rm -rf "$2"
"#;

/// The time within which the pooler must be ready, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

/// A pooler and its files. Dropping it ends the pooler and removes the files.
pub struct PgBouncer {
    port: u16,
    server_port: u16,
    folder: PathBuf,
    /// The guard, which ends when its pipe is closed: with this value or with the process.
    _guard: Child,
}

impl PgBouncer {
    /// Starts a pooler in front of the server of a database, whose URL has a superuser. The pooler lets in each role of the
    /// server, and opens at most `pool_size` sessions for each role and database.
    pub fn start(direct: &str, pool_size: u32) -> Self {
        let server: Config = direct.parse().expect("the URL of a database");
        let user = server.get_user().expect("the URL has a user");
        let password = String::from_utf8_lossy(server.get_password().expect("the URL has a password"));
        let server_port = server.get_ports()[0];
        let (folder, port) = (Folder::new("pgbouncer"), free_port());
        let path = folder.path().to_owned();
        let account = Account::beside(&path);
        account.own(&path);
        let users = format!("\"{user}\" \"{password}\"\n");
        let settings = format!(
            "[databases]\n* = host={host} port={server_port}\n\n[pgbouncer]\nlisten_addr = {host}\nlisten_port = {port}\n\
             unix_socket_dir =\npool_mode = transaction\ndefault_pool_size = {pool_size}\nmax_client_conn = 1000\n\
             server_idle_timeout = 2\nauth_type = scram-sha-256\nauth_file = {users}\nauth_user = {user}\n\
             auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename = $1\n",
            host = Ipv4Addr::LOCALHOST,
            users = path.join("users.txt").display(),
        );
        for (name, content) in [("users.txt", users), ("pgbouncer.ini", settings)] {
            let file = path.join(name);
            std::fs::write(&file, content).expect("the folder is new");
            account.own(&file);
        }
        let mut guard = account.command(Path::new("/bin/sh"), &path);
        guard.args(["-c", GUARD, "docket-pgbouncer-guard"]).arg(program()).arg(&path);
        // The guard has a process group of its own: Ctrl-C on the tests ends the guard by its pipe, so it still ends the
        // pooler.
        guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut guard = guard.spawn().expect("there is a shell");
        let stdout = guard.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the guard's pipe is readable");
        // The guard removes the folder.
        folder.hand_over();
        let pooler = Self { port, server_port, folder: path, _guard: guard };
        pooler.wait();
        pooler
    }

    fn wait(&self) {
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "PgBouncer does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The pooler's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The pooler's port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database of the server, through the pooler.
    pub fn url(&self, direct: &str) -> String {
        let (of_server, of_pooler) = (format!(":{}/", self.server_port), format!(":{}/", self.port));
        assert!(direct.contains(&of_server), "the database is on another server");
        let url = direct.replacen(&of_server, &of_pooler, 1);
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}pooler=transaction")
    }
}

/// Whether the suites reach their databases through a PgBouncer: `DOCKET_TESTS_ON` is `pooler`.
#[expect(clippy::disallowed_methods, reason = "a choice of the whole test run")]
pub fn is_wanted() -> bool {
    static IS: LazyLock<bool> =
        LazyLock::new(|| std::env::var("DOCKET_TESTS_ON").is_ok_and(|on| on == "pooler"));
    *IS
}

/// The URL through a PgBouncer in front of the database's server, if the suites run behind one; otherwise `direct`.
pub fn through(direct: &str) -> String {
    static POOLERS: Mutex<BTreeMap<u16, PgBouncer>> = Mutex::new(BTreeMap::new());
    if !is_wanted() || direct.contains("pooler=") {
        return direct.to_owned();
    }
    let server: Config = direct.parse().expect("the URL of a database");
    let mut poolers = POOLERS.lock().unwrap_or_else(PoisonError::into_inner);
    poolers.entry(server.get_ports()[0]).or_insert_with(|| PgBouncer::start(direct, 4)).url(direct)
}

/// The program, which Debian's package puts beside the system's programs.
fn program() -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&on_path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut programs = folders.map(|folder: PathBuf| folder.join("pgbouncer"));
    programs.find(|program| program.is_file()).expect("PgBouncer is not installed; `tests/run` installs it")
}
