//! A release of the operator for a test: its namespaces, its account with just the rights it needs, and its processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use docket_rig::memory_group::MemoryGroup;
use docket_rig::ports::free_port;
use docket_rig::scratch::Folder;
use serde_json::{Value, json};

use crate::apiserver::{Cluster, Gate, KubectlOutput, Write, cluster};
use crate::server::{eventually, request, signal};

/// How long anything may take that takes well under a second on a quiet machine.
pub const SOON: Duration = Duration::from_secs(60);

/// The rights that the chart gives to the operator.
const RULES: &str = include_str!("../../operator/rbac.yaml");

/// The policy that says which Secrets the operator may write, from the chart.
const SECRETS_POLICY: &str = include_str!("../../operator/secrets-policy.yaml");

/// A release namespace, a namespace of tenants, and an account that sees nothing else.
#[derive(Debug)]
pub struct Release {
    /// Where runtime Secrets are.
    pub namespace: String,
    /// Where Tenants are.
    pub tenants: String,
    watched: Vec<String>,
    kubeconfig: PathBuf,
    files: Folder,
    cluster: &'static Cluster,
    /// `--database-server` and more.
    pub flags: Vec<String>,
    /// The group with the memory limit of the operators; `None`: they have no limit.
    pub group: Option<MemoryGroup>,
    /// `--lease-duration`: short, since most operators here are killed.
    pub lease_seconds: u32,
    /// `--log`.
    pub log: &'static str,
}

impl Release {
    /// New namespaces, whose names begin with `purpose`.
    pub fn new(purpose: &str) -> Self {
        Self::on(cluster(), purpose)
    }

    /// Like [`new`](Self::new), on this cluster.
    pub fn on(cluster: &'static Cluster, purpose: &str) -> Self {
        cluster.install_crds();
        let namespace = cluster.namespace(purpose);
        let tenants = cluster.namespace(purpose);
        let kubeconfig = cluster.service_account(&namespace, "docket-operator");
        let mut release = Self {
            tenants: tenants.clone(),
            watched: Vec::new(),
            kubeconfig,
            files: Folder::new("operator"),
            cluster,
            namespace: namespace.clone(),
            flags: Vec::new(),
            group: None,
            lease_seconds: 5,
            log: "info,docket_operator=debug",
        };
        release.bind_everywhere("kinds");
        release.bind(&namespace, "release");
        release.watch(&tenants);
        release.hold_to_its_secrets();
        release
    }

    fn hold_to_its_secrets(&self) {
        let name = format!("docket-operator-secrets-{}", self.namespace);
        let spec = SECRETS_POLICY.replace("$OPERATOR", &self.user()).replace("$RUNTIME", &self.namespace);
        let spec = serde_saphyr::from_str::<Value>(&spec).expect("operator/secrets-policy.yaml is YAML");
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name}, "spec": spec,
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        for object in [policy, binding] {
            self.cluster.kubectl(&["apply", "-f", "-"], &object.to_string()).expect("the policy is accepted");
        }
    }

    /// Runs kubectl in the namespace of tenants, with the operator's account.
    pub fn kubectl_as_operator(&self, arguments: &[&str], input: &str) -> KubectlOutput {
        let namespace = ["--namespace", &self.tenants];
        self.cluster.kubectl_as(&self.kubeconfig, &[&namespace[..], arguments].concat(), input)
    }

    /// A release whose operator watches all namespaces of its cluster. No other test may use the cluster.
    pub fn everywhere(cluster: &'static Cluster, purpose: &str) -> Self {
        let mut release = Self::on(cluster, purpose);
        release.watched.clear();
        for part in ["tenants", "namespaces"] {
            release.bind_everywhere(part);
        }
        release
    }

    fn bind_everywhere(&self, part: &str) {
        let name = format!("docket-operator-{part}-{}", self.namespace);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules(part),
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "docket-operator", "namespace": self.namespace}],
        });
        for object in [role, binding] {
            self.cluster
                .kubectl(&["apply", "-f", "-"], &object.to_string())
                .expect("the administrator binds roles");
        }
    }

    /// One more namespace to watch.
    pub fn watch(&mut self, namespace: &str) {
        self.bind(namespace, "tenants");
        self.watched.push(namespace.to_owned());
    }

    fn bind(&self, namespace: &str, part: &str) {
        let name = format!("docket-operator-{part}");
        let rules = rules(part);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": namespace}, "rules": rules,
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "docket-operator", "namespace": self.namespace}],
        });
        for object in [role, binding] {
            self.cluster
                .kubectl(&["apply", "-f", "-"], &object.to_string())
                .expect("the administrator binds roles");
        }
    }

    /// A file that only this test has.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, content).expect("the folder is ours");
        path
    }

    /// A PostgreSQL for managed databases, and the URL of its administrator.
    pub async fn with_postgres(&mut self) -> String {
        let url = docket_rig::postgres::database().await;
        let file = self.file("main.url", &url);
        self.flags.push(format!("--database-server=main={}", file.display()));
        url
    }

    /// A Redis that the operator reads what pods report from.
    pub fn with_redis(&mut self) -> docket_rig::redis::RedisServer {
        let server = docket_rig::redis::RedisServer::start(&[]);
        let file = self.file("redis.url", &server.url());
        self.flags.push(format!("--redis-url-file={}", file.display()));
        server
    }

    /// A gate that its operators pass from now on.
    pub async fn with_gate(&mut self) -> Gate {
        let (gate, kubeconfig) = Gate::new(self.cluster, &self.kubeconfig).await;
        self.kubeconfig = self.file("gate.kubeconfig", &kubeconfig.to_string());
        gate
    }

    /// Starts the operator and waits until it is ready.
    pub async fn start(&self) -> Operator {
        let mut operator = self.spawn("operator");
        operator.ready().await;
        operator
    }

    /// Starts the operator.
    pub fn spawn(&self, name: &str) -> Operator {
        let management = free_port();
        let log = self.files.path().join(format!("{name}-{management}.log"));
        let mut command =
            self.group.as_ref().map_or_else(|| Command::new(binary()), |group| group.command(binary()));
        command.env_clear().env("KUBECONFIG", &self.kubeconfig);
        command.args(["run", "--release-namespace", &self.namespace]);
        command.arg(format!("--lease-duration={}s", self.lease_seconds));
        command.args(["--lease-renewal=1s", "--log", self.log]);
        command.arg(format!("--identity={name}-{management}"));
        command.arg(format!("--listen=127.0.0.1:{management}"));
        command.args(self.watched.iter().map(|namespace| format!("--watch-namespace={namespace}")));
        command.args(&self.flags);
        let stderr = std::fs::File::create(&log).expect("the folder is ours");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let child = command.spawn().expect("the operator can be started");
        Operator { child, management, log }
    }

    /// Ends the lease of an operator that was killed, as if its time had passed: the next one leads at once.
    pub fn end_lease(&self) {
        let patch = r#"{"spec":{"holderIdentity":""}}"#;
        let arguments = [
            "--namespace",
            &self.namespace,
            "patch",
            "lease",
            "docket-operator",
            "--type=merge",
            "-p",
            patch,
        ];
        self.cluster.kubectl(&arguments, "").expect("the administrator may");
    }

    /// The operator's user in the audit log.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:docket-operator", self.namespace)
    }

    /// The writes of this release's operators since `mark`, renewals of the lease aside: `verb resource/name`.
    pub fn writes(&self, mark: u64) -> Vec<String> {
        let user = self.user();
        let ours = |write: &Write| write.user == user && write.resource != "leases";
        let text = |write: Write| format!("{} {}/{}", write.verb, write.resource, write.name);
        self.cluster.writes(mark).into_iter().filter(ours).map(text).collect()
    }

    /// Applies documents in the namespace of tenants.
    pub fn apply(&self, yaml: &str) {
        self.apply_in(&self.tenants, yaml);
    }

    /// Applies documents in a namespace.
    pub fn apply_in(&self, namespace: &str, yaml: &str) {
        let apply = ["--namespace", namespace, "apply", "-f", "-"];
        self.cluster.kubectl(&apply, yaml).expect("the API server takes the documents");
    }

    /// Runs kubectl in the namespace of tenants.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let arguments = [&["--namespace", self.tenants.as_str()], arguments].concat();
        self.cluster.kubectl(&arguments, "").expect("kubectl succeeds")
    }

    /// An object of the namespace of tenants; `Null` where there is none.
    pub fn object(&self, kind: &str, name: &str) -> Value {
        object(self.cluster, &self.tenants, kind, name)
    }

    /// A condition as `status reason: message`; empty where there is none.
    pub fn condition(&self, kind: &str, name: &str, condition: &str) -> String {
        let object = self.object(kind, name);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|found| found["type"] == condition);
        let text =
            |field: &str| found.map_or("", |found| found[field].as_str().unwrap_or_default()).to_owned();
        match found {
            Some(_) => format!("{} {}: {}", text("status"), text("reason"), text("message")),
            None => String::new(),
        }
    }

    /// Waits until a condition begins like that.
    pub async fn wait(&self, kind: &str, name: &str, condition: &str, beginning: &str) -> String {
        let mut now = String::new();
        let what = format!("{kind} {name}: {condition} {beginning}");
        let begun = Instant::now();
        while !now.starts_with(beginning) {
            assert!(begun.elapsed() < SOON, "not within {SOON:?}: {what}, but {now:?}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
            now = self.condition(kind, name, condition);
        }
        now
    }

    /// What the data plane would serve; `None` where there is no runtime Secret.
    pub fn runtime(&self, tenant: &str) -> Option<Value> {
        let uid = self.object("tenant", tenant)["metadata"]["uid"].as_str()?.to_owned();
        self.runtime_of(&uid)
    }

    /// Like [`Release::runtime`], by the tenant's uid.
    pub fn runtime_of(&self, uid: &str) -> Option<Value> {
        let secret = object(self.cluster, &self.namespace, "secret", &format!("docket-tenant-{uid}"));
        let json = decode(secret["data"]["runtime.json"].as_str()?);
        Some(serde_json::from_slice(&json).expect("the operator writes JSON"))
    }

    /// What the operator remembers of a tenant.
    pub fn memory(&self, tenant: &str) -> Value {
        let secret = object(self.cluster, &self.namespace, "secret", &self.runtime_secret(tenant));
        let memory = decode(secret["data"]["operator.json"].as_str().expect("the operator remembers"));
        serde_json::from_slice(&memory).expect("the operator writes JSON")
    }

    /// Replaces what the operator remembers of a tenant.
    pub fn set_memory(&self, tenant: &str, memory: &Value) {
        let name = self.runtime_secret(tenant);
        let patch = json!({"stringData": {"operator.json": memory.to_string()}}).to_string();
        let arguments =
            ["--namespace", &self.namespace, "patch", "secret", &name, "--type=merge", "-p", &patch];
        self.cluster.kubectl(&arguments, "").expect("the administrator may");
    }

    /// The name of a tenant's runtime Secret.
    fn runtime_secret(&self, tenant: &str) -> String {
        let uid = self.object("tenant", tenant)["metadata"]["uid"].as_str().expect("a uid").to_owned();
        format!("docket-tenant-{uid}")
    }

    /// Moves the times of a tenant's signing keys back by `minutes`.
    pub fn signing_keys_age(&self, tenant: &str, minutes: i64) {
        let mut memory = self.memory(tenant);
        for key in memory["signingKeys"].as_array_mut().expect("there are keys") {
            for field in ["madeAt", "signsSince"] {
                if let Some(time) = key[field].as_str() {
                    let time: jiff::Timestamp = time.parse().expect("a time");
                    key[field] = (time - jiff::SignedDuration::from_mins(minutes)).to_string().into();
                }
            }
        }
        self.set_memory(tenant, &memory);
    }

    /// A value of a Secret in the namespace of tenants.
    pub fn secret(&self, name: &str, key: &str) -> Option<String> {
        let secret = self.object("secret", name);
        Some(String::from_utf8(decode(secret["data"][key].as_str()?)).expect("it is text"))
    }

    /// The reasons of the Events about an object, in the order of names.
    pub fn events(&self, name: &str) -> Vec<String> {
        let selector = format!("--field-selector=involvedObject.name={name}");
        let list = self.kubectl(&["get", "events", &selector, "--output=json"]);
        let list: Value = serde_json::from_str(&list).expect("it is JSON");
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        items.sort_by_key(|event| event["metadata"]["creationTimestamp"].to_string());
        items.iter().map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The logs of all its processes, shortened.
    pub fn logs(&self) -> String {
        let files = std::fs::read_dir(self.files.path()).expect("the folder is ours").flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().ends_with(".log"));
        let text = logs.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default());
        let text: String = text.collect::<Vec<_>>().join("\n---\n");
        let from = text.len().saturating_sub(6000);
        text[text.ceil_char_boundary(from)..].to_owned()
    }
}

fn rules(part: &str) -> Value {
    let document = serde_saphyr::from_str::<Value>(RULES).expect("operator/rbac.yaml is YAML");
    document[part].clone()
}

/// An object; `Null` where there is none.
pub fn object(cluster: &Cluster, namespace: &str, kind: &str, name: &str) -> Value {
    let get = ["--namespace", namespace, "get", kind, name, "--ignore-not-found", "--output=json"];
    let said = cluster.kubectl(&get, "").expect("the administrator reads everything");
    if said.trim().is_empty() { Value::Null } else { serde_json::from_str(&said).expect("it is JSON") }
}

/// A value of a Secret, as the API server sends it.
pub fn decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(text).expect("the API server sends base64")
}

/// The operator's binary, built by `tests/run` beside the one of the data plane.
fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let path = own.parent().and_then(Path::parent).expect("below target").join("docket-operator");
    assert!(path.exists(), "{} is missing; run `cargo build -p docket-operator` first", path.display());
    path
}

/// A running operator; killed when dropped.
#[derive(Debug)]
pub struct Operator {
    child: Child,
    /// The port of health and metrics.
    pub management: u16,
    log: PathBuf,
}

impl Operator {
    /// Waits until it has listed everything.
    pub async fn ready(&mut self) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                panic!("it ended with {status}: {}", self.text());
            }
            if self.answers("/readyz").await {
                return;
            }
            assert!(begun.elapsed() < SOON, "not ready: {}", self.text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn answers(&self, path: &str) -> bool {
        let address = ([127, 0, 0, 1], self.management).into();
        request(address, "GET", path, &[], "").await.is_ok_and(|reply| reply.status == 200)
    }

    /// The value of a series.
    pub async fn metric(&self, series: &str) -> f64 {
        let [value] = self.metrics([series]).await;
        value
    }

    /// The values of several series at one moment; 0 for a series that is not there.
    pub async fn metrics<const N: usize>(&self, series: [&str; N]) -> [f64; N] {
        let address = ([127, 0, 0, 1], self.management).into();
        let reply = request(address, "GET", "/metrics", &[], "").await.expect("metrics are served");
        let value = |series: &str| -> Option<f64> {
            reply.text().lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
        };
        series.map(|series| value(series).unwrap_or(0.0))
    }

    /// Waits until it holds the lease.
    pub async fn leads(&self) {
        eventually("it holds the lease", SOON, async || self.metric("docket_operator_leader").await == 1.0)
            .await;
    }

    /// Its log.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Sends SIGTERM to the operator, and waits until it has ended.
    pub async fn terminate(mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status;
            }
            assert!(begun.elapsed() < SOON, "it does not stop: {}", self.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Tenant with one generated key, on its own managed database.
pub fn tenant_yaml(name: &str) -> String {
    let code = name.to_uppercase();
    let database = database_name(name);
    format!(
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec:\n  clientCode: {code}\n  \
         apiKeys: [{{name: primary, generate: {{}}}}]\n  database: {{managed: {{name: {database}}}}}\n---\n"
    )
}

/// The database of [`tenant_yaml`].
pub fn database_name(tenant: &str) -> String {
    format!("tenant_{}", tenant.replace('-', "_"))
}

/// An unsigned Webhook.
pub fn webhook_yaml(name: &str, tenant: &str, more: &str) -> String {
    format!(
        "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {{name: {name}}}\nspec:\n  tenantRef: {{name: {tenant}}}\n  \
         customerCode: C-1\n  targetURL: https://hooks.example/{name}\n  events: [order.created]\n{more}---\n"
    )
}
