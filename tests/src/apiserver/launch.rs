//! Starts etcd, kube-apiserver and kube-controller-manager.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use docket_rig::ports::free_port;
use docket_rig::postgres::random_hex;
use docket_rig::scratch::Folder;
use serde_json::json;

use super::{audit, command_line};

/// What a guard runs: `$1` the folder, `$2` the log, then the program and its arguments.
///
/// `cat` ends when the test process does. Each guard removes the folder after its own program has ended, so the last
/// one finds no process that still writes there.
const GUARD: &str = r#"
folder=$1 log=$2
shift 2
"$@" </dev/null >>"$log" 2>&1 &
cat >/dev/null
kill -KILL $!
wait
rm -rf "$folder"
"#;

/// How long a server may take on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(120);
/// Another process may take a port between our check and the server's start.
const STARTS: u32 = 5;

/// kube-apiserver and etcd, with their files.
#[derive(Debug)]
pub(super) struct ApiServer {
    folder: PathBuf,
    programs: PathBuf,
    /// Hold the pipes' ends; dropped with the process.
    guards: Mutex<Vec<Child>>,
}

/// Where the programs are.
pub(super) fn programs() -> PathBuf {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let folder = given.unwrap_or_else(|| {
        let cache = std::env::var_os("DOCKET_TEST_CACHE").map_or_else(
            || std::env::home_dir().expect("there is a home folder").join(".cache/docket-tests"),
            PathBuf::from,
        );
        cache.join(format!("kubernetes-{}", version()))
    });
    for program in ["etcd", "kube-apiserver", "kubectl"] {
        assert!(
            folder.join(program).is_file(),
            "there is no {program} in {}; `tests/cluster/build` builds it, or set KUBEBUILDER_ASSETS or KUBECONFIG",
            folder.display()
        );
    }
    folder
}

/// The version that `tests/cluster/build` builds.
fn version() -> &'static str {
    let pinned = include_str!("../../cluster/go/kubernetes/go.mod");
    let (_, rest) = pinned.split_once("k8s.io/kubernetes v").expect("go.mod requires Kubernetes");
    rest.split_whitespace().next().expect("a version is behind it")
}

/// Waits until `ready`, or panics.
#[track_caller]
pub(super) fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "{what} is not ready after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl ApiServer {
    pub(super) fn start(programs: &Path) -> Self {
        (1..=STARTS).find_map(|_| Self::try_start(programs)).expect("free ports for etcd and kube-apiserver")
    }

    /// `None`: a port was taken in the meantime.
    fn try_start(programs: &Path) -> Option<Self> {
        let [client, peer, port] = [(); 3].map(|()| free_port());
        // The guards remove it.
        let folder = Folder::new("apiserver").hand_over();
        let token = random_hex();
        write_files(&folder, &token, port);
        let server = Self { folder, programs: programs.to_owned(), guards: Mutex::default() };
        server.guard("etcd", &etcd(&server.folder, client, peer));
        server.guard("kube-apiserver", &kube_apiserver(&server.folder, client, port));
        let begun = Instant::now();
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let logs = ["etcd", "kube-apiserver"].map(|program| server.log(program));
            if logs.iter().any(|log| log.contains("address already in use")) {
                return None;
            }
            let ended =
                logs.iter().any(|log| log.contains("command failed") || log.contains(r#""level":"fatal""#));
            assert!(
                !ended && begun.elapsed() < PATIENCE,
                "kube-apiserver does not start:\n{}",
                logs.concat()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    pub(super) fn start_controllers(&self) {
        self.guard("kube-controller-manager", &kube_controller_manager(&self.folder));
    }

    /// A kubeconfig of the administrator.
    pub(super) fn admin(&self) -> PathBuf {
        admin(&self.folder)
    }

    /// The folder of the cluster's files, which is removed with the cluster.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// The process id of a program of the cluster. The program is the child of a guard.
    pub(super) fn process(&self, program: &str) -> u32 {
        let guards: Vec<u32> =
            self.guards.lock().expect("no thread panics with it").iter().map(Child::id).collect();
        let children = |guard: u32| {
            std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap_or_default()
        };
        let is_it = |id: &u32| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
            Path::new(&*String::from_utf8_lossy(first)).file_name().is_some_and(|name| name == program)
        };
        let mut ids = guards.into_iter().flat_map(|guard| {
            children(guard).split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<_>>()
        });
        ids.find(is_it).unwrap_or_else(|| panic!("{program} runs"))
    }

    fn log(&self, program: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{program}.log"))).unwrap_or_default()
    }

    fn guard(&self, program: &str, arguments: &[String]) {
        let mut guard = Command::new("/bin/sh");
        guard.args(["-c", GUARD, "docket-apiserver-guard"]).arg(&self.folder);
        guard.arg(self.folder.join(format!("{program}.log")));
        guard.args(command_line(&self.programs.join(program), arguments)).current_dir(&self.folder);
        // Its own group: Ctrl-C on the tests ends the guard through the pipe, in order.
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let guard = guard.spawn().expect("there is a shell");
        self.guards.lock().expect("no thread panics with it").push(guard);
    }
}

fn admin(folder: &Path) -> PathBuf {
    folder.join("admin.kubeconfig")
}

fn write_files(folder: &Path, token: &str, port: u16) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("the folder is new");
    write("tokens.csv", &format!("{token},admin,admin,system:masters\n"));
    write("audit-policy.json", audit::POLICY);
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {
            "server": format!("https://{}:{port}", Ipv4Addr::LOCALHOST),
            "certificate-authority": folder.join("certificates/apiserver.crt"),
        }}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}]
    });
    write("admin.kubeconfig", &kubeconfig.to_string());
    // The key is in the form SEC 1, because kube-apiserver reads no other.
    let mut openssl = Command::new("openssl");
    openssl.args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"]);
    let output = openssl.arg(folder.join("service-accounts.key")).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
}

fn etcd(folder: &Path, client: u16, peer: u16) -> Vec<String> {
    let [client, peer] = [client, peer].map(|port| format!("http://{}:{port}", Ipv4Addr::LOCALHOST));
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // A test never pulls the machine's plug, and these files are removed anyway.
        "--unsafe-no-fsync".into(),
        // 8 GiB: the benchmark of the operator has 60,000 objects, each with several revisions.
        "--quota-backend-bytes=8589934592".into(),
    ]
}

fn kube_apiserver(folder: &Path, etcd: u16, port: u16) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    vec![
        format!("--etcd-servers=http://{}:{etcd}", Ipv4Addr::LOCALHOST),
        format!("--secure-port={port}"),
        format!("--bind-address={}", Ipv4Addr::LOCALHOST),
        format!("--advertise-address={}", Ipv4Addr::LOCALHOST),
        // No endpoints for the Service `kubernetes`: they may not be loopback addresses.
        "--endpoint-reconciler-type=none".into(),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        "--authorization-mode=RBAC".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        file("service-account-key-file", "service-accounts.key"),
        file("service-account-signing-key-file", "service-accounts.key"),
        file("token-auth-file", "tokens.csv"),
        file("cert-dir", "certificates"),
        file("audit-policy-file", "audit-policy.json"),
        file("audit-log-path", "audit.log"),
        "--audit-log-mode=blocking".into(),
    ]
}

fn kube_controller_manager(folder: &Path) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    vec![
        format!("--kubeconfig={}", admin(folder).display()),
        file("service-account-private-key-file", "service-accounts.key"),
        file("root-ca-file", "certificates/apiserver.crt"),
        // The last one fills the roles view, edit and admin.
        "--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller,\
         clusterrole-aggregation-controller"
            .into(),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
    ]
}
