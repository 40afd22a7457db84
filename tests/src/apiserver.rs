//! A throw-away Kubernetes API: one kube-apiserver with its etcd, which the tests of a process share, and more for tests
//! that change what a whole cluster shares. RBAC is on. An audit log has every write, and the reads of service accounts. There is no
//! node, so nothing runs in it.
//!
//! Its programs, and the first that is given wins:
//! 1. `KUBEBUILDER_ASSETS`: a folder with etcd, kube-apiserver and kubectl (and kube-controller-manager where asked for);
//! 2. `KUBECONFIG`: a whole cluster, in which these tests write! It has no audit log for [`Cluster::writes`], and tests
//!    with a dedicated cluster still need 1 or 3;
//! 3. what `tests/cluster/build` has built.
//!
//! As with PostgreSQL, guards that wait on a pipe of this process end the servers however it ends.

mod audit;
mod client;
mod gate;
mod launch;
mod objects;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

pub use audit::Write;
pub use client::Client;
use docket_rig::scratch::Folder;
pub use gate::{Gate, Watches};
use launch::ApiServer;
pub use objects::{Object, Objects};

use crate::server::signal;

/// A Kubernetes API to test against.
#[derive(Debug)]
pub struct Cluster {
    kubectl: PathBuf,
    admin: PathBuf,
    /// Kubeconfigs, and kubectl's cache. Removed with the server; beside a given cluster it stays.
    files: PathBuf,
    /// `None`: a cluster that was given.
    server: Option<ApiServer>,
    has_crds: OnceLock<()>,
    has_controllers: OnceLock<()>,
}

/// The result of kubectl.
#[derive(Debug)]
pub struct KubectlOutput {
    /// Whether the command succeeded.
    pub ok: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl KubectlOutput {
    /// The standard output of the command; panics if the command failed.
    #[track_caller]
    pub fn expect(self, why: &str) -> String {
        assert!(self.ok, "{why}: {}", self.err);
        self.out
    }
}

/// The cluster that the tests of this process share. The first call starts it, which takes some seconds.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let given =
            std::env::var_os("KUBECONFIG").filter(|_| std::env::var_os("KUBEBUILDER_ASSETS").is_none());
        given.map_or_else(Cluster::start, |kubeconfig| {
            let files = Folder::new("kubectl").hand_over();
            Cluster::new("kubectl".into(), kubeconfig.into(), files, None)
        })
    })
}

/// A paused API server, which responds to no request.
#[derive(Debug)]
pub struct Frozen(u32);

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

impl Cluster {
    /// A cluster for tests that change what all of a cluster shares, such as the definitions of both kinds. Never the
    /// one that `KUBECONFIG` gives.
    pub fn start() -> Self {
        let programs = launch::programs();
        let server = ApiServer::start(&programs);
        let (admin, files) = (server.admin(), server.folder().to_owned());
        let cluster = Self::new(programs.join("kubectl"), admin, files, Some(server));
        launch::wait_for("kube-apiserver", || cluster.get("/readyz").ok);
        cluster
    }

    fn new(kubectl: PathBuf, admin: PathBuf, files: PathBuf, server: Option<ApiServer>) -> Self {
        Self { kubectl, admin, files, server, has_crds: OnceLock::new(), has_controllers: OnceLock::new() }
    }

    /// A kubeconfig for the administrator.
    pub fn admin(&self) -> &Path {
        &self.admin
    }

    /// Runs kubectl as the administrator, with `input` as its standard input.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> KubectlOutput {
        self.kubectl_as(&self.admin, arguments, input)
    }

    /// Runs kubectl with a kubeconfig.
    pub fn kubectl_as(&self, kubeconfig: &Path, arguments: &[&str], input: &str) -> KubectlOutput {
        let mut command = self.command_as(kubeconfig);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl is a program, see `tests/cluster/build`");
        // kubectl may end without reading; its output then is the better error.
        let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("its output can be read");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        KubectlOutput { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// kubectl, which does not know the cluster yet.
    pub fn program(&self) -> Command {
        Command::new(&self.kubectl)
    }

    fn command_as(&self, kubeconfig: &Path) -> Command {
        let mut command = self.program();
        command.arg("--kubeconfig").arg(kubeconfig);
        command.env("KUBECACHEDIR", self.files.join("cache"));
        command
    }

    /// `GET` of a path of the API.
    pub fn get(&self, path: &str) -> KubectlOutput {
        self.kubectl(&["get", "--raw", path], "")
    }

    /// `POST` to a path of the API.
    pub fn post(&self, path: &str, body: &Value) -> KubectlOutput {
        self.kubectl(&["create", "--raw", path, "-f", "-"], &body.to_string())
    }

    /// `PUT` to a path of the API.
    pub fn put(&self, path: &str, body: &Value) -> KubectlOutput {
        self.kubectl(&["replace", "--raw", path, "-f", "-"], &body.to_string())
    }

    /// A new namespace, whose name begins with `purpose`.
    pub fn namespace(&self, purpose: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{purpose}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        self.kubectl(&["create", "namespace", &name], "").expect("the administrator makes namespaces");
        name
    }

    /// Applies the definitions of both kinds, once, and waits until they are served.
    pub fn install_crds(&self) {
        self.has_crds.get_or_init(|| {
            let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
            self.kubectl(&apply, &docket_crds::crd::yaml()).expect("the API server accepts the definitions");
            let both = ["crd/tenants.docket.dev", "crd/webhooks.docket.dev"];
            let wait = ["wait", "--for=condition=Established", "--timeout=60s", both[0], both[1]];
            self.kubectl(&wait, "").expect("the definitions are established");
            launch::wait_for("both kinds", || {
                ["tenants", "webhooks"]
                    .iter()
                    .all(|kind| self.get(&format!("/apis/docket.dev/v1alpha1/{kind}")).ok)
            });
        });
    }

    /// A kubeconfig for a service account, which is made if it does not exist. The account may do what its roles allow.
    pub fn service_account(&self, namespace: &str, name: &str) -> PathBuf {
        let _ = self.kubectl(&["--namespace", namespace, "create", "serviceaccount", name], "");
        let token = ["--namespace", namespace, "create", "token", name, "--duration=24h"];
        let token = self.kubectl(&token, "").expect("the API server makes tokens");
        self.login(&format!("{namespace}-{name}"), namespace, token.trim())
    }

    /// A kubeconfig with this token.
    fn login(&self, name: &str, namespace: &str, token: &str) -> PathBuf {
        let view = ["config", "view", "--minify", "--raw", "--flatten", "--output=json"];
        let view = self.kubectl(&view, "").expect("a kubeconfig can be shown");
        let view: Value = serde_json::from_str(&view).expect("it is JSON");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": view["clusters"][0]["cluster"]}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace}}]
        });
        let path = self.files.join(format!("{name}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string()).expect("the folder is ours");
        path
    }

    /// A token of a service account for this audience; empty: for the API server itself.
    pub fn token(&self, namespace: &str, name: &str, audience: &str) -> String {
        let audience = format!("--audience={audience}");
        let mut arguments = vec!["--namespace", namespace, "create", "token", name];
        arguments.extend((!audience.ends_with('=')).then_some(audience.as_str()));
        self.kubectl(&arguments, "").expect("the API server makes tokens").trim().to_owned()
    }

    /// Whether the API server knows who has this token.
    pub fn takes(&self, token: &str) -> bool {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("token-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.login(&name, "default", token);
        let known = self.kubectl_as(&path, &["auth", "whoami"], "");
        assert!(
            known.ok || known.err.contains("Unauthorized") || known.err.contains("must be logged in"),
            "{}",
            known.err
        );
        known.ok
    }

    /// Starts kube-controller-manager, where this has not been done: it deletes what has no owner any more, and empties
    /// namespaces. A cluster that was given has its own.
    pub fn start_controllers(&self) {
        if let Some(server) = &self.server {
            self.has_controllers.get_or_init(|| server.start_controllers());
        }
    }

    /// SIGSTOP for kube-apiserver: connections stay open without a response. Dropping the result resumes it.
    pub fn freeze(&self) -> Frozen {
        let server =
            self.server.as_ref().expect("only the rig's own API server can be frozen: unset KUBECONFIG");
        let process = server.process("kube-apiserver");
        signal(process, "STOP");
        Frozen(process)
    }

    /// Where the audit log ends now.
    pub fn mark(&self) -> u64 {
        audit::mark(&self.audit_log())
    }

    /// The writes since `mark`, without dry runs, in the order in which they finished.
    pub fn writes(&self, mark: u64) -> Vec<Write> {
        audit::writes(&self.audit_log(), mark)
    }

    /// The number of reads by a service account since `mark`, without reads of Leases. A watch counts when it ends.
    pub fn reads(&self, mark: u64, user: &str) -> usize {
        audit::reads(&self.audit_log(), mark, user)
    }

    fn audit_log(&self) -> PathBuf {
        let server = self.server.as_ref();
        server.expect("only the rig's own API server has an audit log: unset KUBECONFIG").audit_log()
    }
}

/// A command that is run as a guard's child.
fn command_line<'a>(program: &'a Path, arguments: &'a [String]) -> impl Iterator<Item = &'a OsStr> {
    std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsStr::new))
}
