//! A `docket dev` or `docket serve` for one test: its configuration, its data folder, its ports, and an HTTP client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use docket_egress::Trust;
use docket_rig::memory_group::MemoryGroup;
use docket_rig::ports::free_port;
use docket_rig::scratch::Folder;
use http::Method;
use reqwest::redirect::Policy;
use reqwest::retry;
use serde_json::{Value, json};

use crate::stores::{self, Database, Servers};

/// The binary under test: built by `tests/run`, or named by DOCKET_BINARY.
#[expect(clippy::disallowed_methods, reason = "the program of the whole test run")]
pub fn binary() -> PathBuf {
    if let Ok(path) = std::env::var("DOCKET_BINARY") {
        return path.into();
    }
    // target/debug/deps/it-… -> target/debug/docket
    let own = std::env::current_exe().expect("a test has a path");
    let path = own.parent().and_then(Path::parent).expect("below target").join("docket");
    assert!(
        path.exists(),
        "{} is missing; run `cargo build -p docket` first, as tests/run does",
        path.display()
    );
    path
}

/// The API key of every tenant made by [`tenant_yaml`]: 64 times the digit given there.
pub fn api_key(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// The secret that webhooks made by [`webhook_yaml`] sign with.
pub const SECRET: &str = "a-signing-secret-for-tests";

/// A Tenant with one API key, and the Secrets it needs.
pub fn tenant_yaml(name: &str, digit: char) -> String {
    let key = api_key(digit);
    let code = name.to_uppercase();
    format!(
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec:\n  clientCode: {code}\n  \
         subdomains: [{name}]\n  apiKeys:\n  - name: primary\n    secretKeyRef: {{name: {name}-key, key: key}}\n  \
         database: {{managed: {{name: tenant_{name}}}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}-key}}\n\
         stringData: {{key: \"{key}\"}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}-signing}}\n\
         stringData: {{secret: {SECRET}}}\n"
    )
}

/// Like [`tenant_yaml`], with an external database at `url`.
pub fn external_tenant_yaml(name: &str, digit: char, url: &str) -> String {
    let managed = format!("managed: {{name: tenant_{name}}}");
    let external = format!("external: {{secretKeyRef: {{name: {name}-database, key: url}}}}");
    let yaml = tenant_yaml(name, digit);
    assert!(yaml.contains(&managed), "{yaml}");
    format!(
        "{}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}-database}}\nstringData: {{url: \"{url}\"}}\n",
        yaml.replace(&managed, &external)
    )
}

/// A Webhook of `tenant` for all order events of `customer`.
pub fn webhook_yaml(tenant: &str, name: &str, customer: &str, url: &str) -> String {
    format!(
        "---\napiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {{name: {name}}}\nspec:\n  \
         tenantRef: {{name: {tenant}}}\n  customerCode: {customer}\n  targetURL: {url}\n  \
         secretRef: {{name: {tenant}-signing}}\n  events: [order.created, order.updated, order.exported]\n"
    )
}

/// How a `docket dev` is to be started.
#[derive(Debug, Default)]
pub struct Options {
    /// More flags, such as `--backoff-base 100ms`.
    pub flags: Vec<String>,
    /// Keep the built-in receiver on this port; `None`: `--no-receiver`.
    pub receiver: Option<u16>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
}

impl Options {
    /// Options with these flags, split at blanks.
    pub fn flags(flags: &str) -> Self {
        Self { flags: flags.split_whitespace().map(str::to_owned).collect(), ..Self::default() }
    }
}

/// The files of a `docket dev`. They outlive the process, so that a test can kill it and start it again with them.
#[derive(Debug)]
pub struct Home {
    scratch: Folder,
    servers: Option<Servers>,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Empty.
    pub fn new() -> Self {
        let servers = stores::are_servers().then(Servers::default);
        let home = Self { scratch: Folder::new("dev"), servers };
        std::fs::create_dir_all(home.config()).expect("a folder");
        home
    }

    /// A home with these YAML documents, in one file `all.yaml`.
    pub fn with(yaml: &str) -> Self {
        let home = Self::new();
        home.write("all.yaml", yaml);
        home
    }

    /// The folder of the YAML.
    pub fn config(&self) -> PathBuf {
        self.scratch.path().join("config")
    }

    /// The folder of the data.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Where output goes: `out` and `err`, appended over restarts.
    pub fn log(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The file of a tenant's database.
    pub fn database(&self, client_code: &str) -> PathBuf {
        assert!(self.servers.is_none(), "this test needs databases in files");
        self.data().join("tenants").join(client_code).join("tenant.db")
    }

    /// The database of a tenant, as another program opens it.
    pub fn open(&self, client_code: &str) -> Database {
        match &self.servers {
            Some(servers) => servers.open(client_code),
            None => Database::file(&self.database(client_code)),
        }
    }

    /// Writes a file of the configuration, whole at once.
    pub fn write(&self, name: &str, text: &str) {
        let text = self.servers.as_ref().map_or_else(|| text.to_owned(), |servers| servers.place(text));
        let hidden = self.config().join(format!(".{name}.new"));
        std::fs::write(&hidden, text).expect("writable");
        std::fs::rename(hidden, self.config().join(name)).expect("renamable");
    }

    /// Runs another command of the binary on this home, with this text on its standard input; returns whether it
    /// succeeded, and all that it printed.
    pub fn command(&self, arguments: &[&str], input: &str) -> (bool, String) {
        self.command_in(arguments, input, &[])
    }

    /// Like [`command`](Self::command), with more variables in its environment.
    pub fn command_in(&self, arguments: &[&str], input: &str, more: &[(&str, &str)]) -> (bool, String) {
        let (config, data) = (self.config(), self.data());
        let mut command = Command::new(binary());
        command.args(arguments).env("DOCKET_CONFIG_DIR", config).env("DOCKET_DATA_DIR", data);
        if let Some(servers) = &self.servers {
            let redis = servers.redis_url_file(self.scratch.path());
            command.env("DOCKET_POSTGRESQL", "true").env("DOCKET_REDIS_URL_FILE", redis);
        }
        run(command.envs(more.iter().copied()), input)
    }

    /// Runs the binary with nothing but these arguments.
    pub fn command_alone(&self, arguments: &[&str]) -> (bool, String) {
        run(Command::new(binary()).args(arguments), "")
    }

    /// Adds a customer and its contact `email` with the password [`PASSWORD`].
    pub fn add_contact(&self, tenant: &str, customer: &str, email: &str) {
        let (done, text) = self.command(
            &["customer", "add", "--tenant", tenant, "--code", customer, "--name", "A customer"],
            "",
        );
        assert!(done || text.contains("already"), "{text}");
        let arguments = [
            "contact",
            "add",
            "--tenant",
            tenant,
            "--customer",
            customer,
            "--email",
            email,
            "--name",
            "A contact",
        ];
        let (done, text) = self.command(&arguments, &format!("{PASSWORD}\n"));
        assert!(done, "{text}");
    }

    /// Adds an employee with the password [`PASSWORD`].
    pub fn add_employee(&self, tenant: &str, user: &str, administrator: bool) {
        let mut arguments =
            vec!["employee", "add", "--tenant", tenant, "--user", user, "--name", "An employee"];
        arguments.extend(administrator.then_some("--administrator"));
        let (done, text) = self.command(&arguments, &format!("{PASSWORD}\n"));
        assert!(done, "{text}");
    }
}

fn run(command: &mut Command, input: &str) -> (bool, String) {
    use std::io::Write;
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    // A command that does not read its input closes it.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The password of people added by [`Home`].
pub const PASSWORD: &str = "a-password-for-tests";

/// A running `docket dev` or `docket serve`; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where the API is.
    pub api: SocketAddr,
    /// Where /metrics is.
    pub management: SocketAddr,
}

impl Server {
    /// Starts one on these files and waits until it is ready.
    pub async fn start(home: &Home, options: Options) -> Self {
        Self::spawn(home, &options).ready(home).await
    }

    /// Waits until it is ready.
    pub async fn ready(mut self, home: &Home) -> Self {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                let text = std::fs::read_to_string(home.log("err")).unwrap_or_default();
                panic!("docket ended with {status}: {text}");
            }
            if let Ok(reply) = request(self.management, "GET", "/readyz", &[], "").await
                && reply.status == 200
            {
                return self;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "docket is not ready after 30 s");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts one and does not wait.
    pub fn spawn(home: &Home, options: &Options) -> Self {
        let mut arguments = match &home.servers {
            None => vec!["dev".to_owned()],
            Some(servers) => {
                let redis = servers.redis_url_file(home.scratch.path()).display().to_string();
                vec!["serve".to_owned(), "--redis-url-file".to_owned(), redis]
            }
        };
        for (flag, folder) in [("--config-dir", home.config()), ("--data-dir", home.data())] {
            arguments.extend([flag.to_owned(), folder.display().to_string()]);
        }
        // With servers: all roles of `docket serve`, and short intervals for what it does rarely. It has no built-in receiver,
        // unlike `docket dev`.
        let of_mode = match (&home.servers, options.receiver) {
            (None, Some(port)) => format!("--receiver 127.0.0.1:{port}"),
            (None, None) => "--no-receiver".to_owned(),
            (Some(_), None) => {
                let all = "--roles api,worker,detector,portal";
                format!("{all} --sweep-interval 1s --invoice-scan-interval 1s --shutdown-delay 0s")
            }
            (Some(_), Some(_)) => panic!("this test needs the receiver of `docket dev`"),
        };
        let of_mode: Vec<&str> = of_mode.split(' ').collect();
        let is_given = |flag: &str| options.flags.iter().any(|given| given == flag);
        let of_mode = of_mode.chunks(2).filter(|flag| !is_given(flag[0])).flatten();
        arguments.extend(of_mode.map(|word| (*word).to_owned()));
        arguments.extend(options.flags.iter().cloned());
        // A test of `docket dev` whose worker polls often also reads rows of other programs as often.
        let polls = options.flags.iter().skip_while(|flag| *flag != "--poll-interval").nth(1);
        if let (None, Some(interval), false) = (&home.servers, polls, is_given("--sweep-interval")) {
            arguments.extend(["--sweep-interval".to_owned(), interval.clone()]);
        }
        Self::spawn_server(home, &arguments, &options.environment)
    }

    /// Starts `docket` with these arguments, and where to listen; its output goes to `home`. Does not wait.
    pub fn spawn_server(home: &Home, arguments: &[String], environment: &[(String, String)]) -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self::spawn_at(home, arguments, environment, [local(free_port()), local(free_port())])
    }

    /// Like [`spawn_server`](Self::spawn_server), listening where a process before it did: the API and the management.
    pub fn spawn_at(
        home: &Home,
        arguments: &[String],
        environment: &[(String, String)],
        [api, management]: [SocketAddr; 2],
    ) -> Self {
        Self::run(home, Command::new(binary()), arguments, environment, [api, management])
    }

    /// Like [`spawn_server`](Self::spawn_server), in a control group.
    pub fn spawn_in(
        home: &Home,
        group: &MemoryGroup,
        arguments: &[String],
        environment: &[(String, String)],
    ) -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self::run(
            home,
            group.command(binary()),
            arguments,
            environment,
            [local(free_port()), local(free_port())],
        )
    }

    fn run(
        home: &Home,
        mut command: Command,
        arguments: &[String],
        environment: &[(String, String)],
        [api, management]: [SocketAddr; 2],
    ) -> Self {
        let append = |name| {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(home.log(name));
            Stdio::from(file.expect("writable"))
        };
        command
            .args(arguments)
            .args(["--listen", &api.to_string(), "--management", &management.to_string()])
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(append("out"))
            .stderr(append("err"));
        Self { child: command.spawn().expect("the binary starts"), api, management }
    }

    /// The processor time that the program has used so far, in ticks of the kernel (10 ms each). It counts threads that have
    /// ended, and does not grow because the machine is busy.
    pub fn processor_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it runs");
        // The second field is the program's name in parentheses, which may have blanks.
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("utime and stime")).sum()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, at once.
    pub fn kill(mut self) {
        self.child.kill().expect("killable");
        self.child.wait().expect("its end");
    }

    /// SIGTERM; returns its exit status once it has drained.
    pub async fn terminate(mut self) -> std::process::ExitStatus {
        signal(self.id(), "TERM");
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "still running 60 s after SIGTERM");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs `requests`. The process is stopped until the API has received `count` of them.
    pub async fn meeting<T>(&self, count: usize, requests: impl Future<Output = T>) -> T {
        const LONG: Duration = Duration::from_secs(10);
        signal(self.id(), "STOP");
        // The signal stops one thread, which then stops the others. Until then, one of them may read a request.
        eventually("it is stopped", LONG, async || self.is_stopped()).await;
        let resume = async {
            eventually("all have come", LONG, async || self.unread() >= count).await;
            signal(self.id(), "CONT");
        };
        tokio::join!(requests, resume).0
    }

    /// Whether each thread of the process is stopped.
    fn is_stopped(&self) -> bool {
        let threads =
            std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("the threads of the process");
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in brackets.
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    /// The number of connections to the API with bytes that the process has not read.
    pub fn unread(&self) -> usize {
        let port = format!(":{:04X}", self.api.port());
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
        let is_unread = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // Its own address, its state (1: established), and the bytes to send and to read.
            fields[1].ends_with(&port) && fields[3] == "01" && !fields[4].ends_with(":00000000")
        };
        table.lines().skip(1).filter(is_unread).count()
    }

    /// Sends a request to the API.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        request(self.api, method, path, headers, body).await.expect("an answer")
    }

    /// Signs a contact in; returns a client with both credentials.
    pub async fn sign_in(&self, key: &str, user: &str) -> Client {
        self.sign_in_at("/Auth/Token", key, user).await
    }

    /// Signs an employee in.
    pub async fn sign_in_employee(&self, key: &str, user: &str) -> Client {
        self.sign_in_at("/Employee/SignIn", key, user).await
    }

    async fn sign_in_at(&self, path: &str, key: &str, user: &str) -> Client {
        let body = json!({"userId": user, "password": PASSWORD}).to_string();
        let reply = self.send("POST", path, &[("x-api-key", key), JSON], &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let token = reply.json()["token"].as_str().expect("a token").to_owned();
        Client { api: self.api, key: key.to_owned(), token }
    }

    /// The number behind a series of /metrics, such as `docket_deliveries_total{status="DeadLetter"}`; 0 if absent.
    pub async fn metric(&self, series: &str) -> f64 {
        let reply = request(self.management, "GET", "/metrics", &[], "").await.expect("metrics");
        let line = reply.text().lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        line.unwrap_or(0.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already, if a test ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal by name, such as `STOP`.
pub fn signal(id: u32, name: &str) {
    let status =
        Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().expect("kill runs");
    assert!(status.success(), "kill -{name} {id}");
}

/// `Content-Type: application/json`.
pub const JSON: (&str, &str) = ("content-type", "application/json");

/// A client with both credentials.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where the API is; another after a restart.
    pub api: SocketAddr,
    /// `X-Api-Key`.
    pub key: String,
    /// The Bearer token.
    pub token: String,
}

impl Client {
    /// POSTs JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.try_post(path, &body.to_string(), &[]).await.expect("an answer")
    }

    /// POSTs text with more headers; an error if there is no response.
    pub async fn try_post(&self, path: &str, body: &str, more: &[(&str, &str)]) -> Result<Reply, String> {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![("x-api-key", self.key.as_str()), ("authorization", bearer.as_str()), JSON];
        headers.extend(more);
        request(self.api, "POST", path, &headers, body).await
    }

    /// GETs.
    pub async fn get(&self, path: &str) -> Reply {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("x-api-key", self.key.as_str()), ("authorization", bearer.as_str())];
        request(self.api, "GET", path, &headers, "").await.expect("an answer")
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, in lower case.
    pub headers: HashMap<String, String>,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The `detail` of a problem.
    pub fn detail(&self) -> String {
        assert_eq!(
            self.headers.get("content-type").map(String::as_str),
            Some("application/problem+json"),
            "{self:?}"
        );
        self.json()["detail"].as_str().expect("a detail").to_owned()
    }
}

/// One request on its own connection, within 30 s.
pub async fn request(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Reply, String> {
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    let mut request = CLIENT.request(method, format!("http://{to}{path}")).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.map_err(|error| format!("{error:?}"))?;
    let status = response.status().as_u16();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = response.bytes().await.map_err(|error| format!("{error:?}"))?;
    Ok(Reply { status, headers, body })
}

static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
    reqwest::Client::builder()
        .tls_backend_preconfigured(Trust::public().tls())
        .redirect(Policy::none())
        .retry(retry::never())
        .http1_only()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_secs(30))
        .build()
        .expect("a client")
});

/// Waits until `condition` holds, checking often; panics with `what` after `limit`.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
