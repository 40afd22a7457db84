//! The files that the processes under test read: tenants, people and webhooks. The receiver of all webhooks is here too.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use docket_rig::scratch::Folder;
use tokio::task::JoinSet;

use crate::http::{Connection, request};
use crate::load::{Client, Load, Saved, Saves};
use crate::order;
use crate::process::{self, Process};
use crate::receiver::{Arrival, Behaviour, Receiver};

/// The one customer of each tenant.
const CUSTOMER: &str = "C-1";
const CONTACT: &str = "ada@quillfeather.example";
const ADMINISTRATOR: &str = "alex.admin";
const PASSWORD: &str = "a-password-for-the-benchmark";

/// The number of connections of the load generator, unless a scenario says otherwise.
pub(crate) const CONNECTIONS: usize = 64;
/// The number of saves before a measurement; the figures do not count them.
pub(crate) const WARM_UP: usize = 200;
/// The time without a further arrival after which missing deliveries count as lost. Longer than a lease and than a sweep takes.
const GIVE_UP: Duration = Duration::from_secs(100);
/// The number of sign-ins at the same time: one for each core.
const SIGN_INS: usize = 2;

/// The files, and the receiver. Dropping it removes the files and ends the receiver.
pub(crate) struct Home {
    pub(crate) receiver: Receiver,
    /// The number of tenants.
    pub(crate) tenants: usize,
    docket: PathBuf,
    folder: Folder,
    /// The target URLs of the webhooks, by tenant.
    targets: Vec<Vec<String>>,
}

impl Home {
    /// Creates one tenant for each element of `tenants`, which lists the behaviours of its webhooks' endpoints.
    /// `database` returns the `database` section of a tenant's specification, and the Secret that the section names.
    pub(crate) fn new(
        docket: &Path,
        tenants: &[Vec<Behaviour>],
        database: impl Fn(usize) -> (String, String),
    ) -> Self {
        let (receiver, folder) = (Receiver::start(), Folder::new("bench"));
        let target = |(tenant, webhooks): (usize, &Vec<Behaviour>)| {
            let webhooks = webhooks.iter().enumerate();
            webhooks.map(|(webhook, behaviour)| receiver.url(tenant, webhook, *behaviour)).collect()
        };
        let targets = tenants.iter().enumerate().map(target).collect();
        let home = Self { receiver, tenants: tenants.len(), docket: docket.to_owned(), folder, targets };
        std::fs::create_dir(home.file("config")).expect("the folder is ours");
        home.declare(database);
        home
    }

    /// The target URL of a webhook.
    pub(crate) fn target(&self, tenant: usize, webhook: usize) -> String {
        self.targets[tenant][webhook].clone()
    }

    fn declare(&self, database: impl Fn(usize) -> (String, String)) {
        let ca: String = self.receiver.ca_pem.lines().map(|line| format!("    {line}\n")).collect();
        let mut yaml = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: receiver-ca}}\ndata:\n  ca.crt: |\n{ca}"
        );
        yaml += &secret("signing", "secret", "a-signing-secret-for-the-benchmark");
        for (tenant, webhooks) in self.targets.iter().enumerate() {
            let (place, more) = database(tenant);
            let _ = write!(
                yaml,
                "---\napiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: t{tenant}}}\nspec:\n  \
                 clientCode: T{tenant}\n  subdomains: [t{tenant}]\n  apiKeys:\n  - name: primary\n    secretKeyRef: \
                 {{name: t{tenant}-key, key: key}}\n  database: {{{place}}}\n  \
                 limits: {{requestsPerSecond: 100000, requestBurst: 1000000, signInsPerMinute: 100000}}\n"
            );
            yaml += &secret(&format!("t{tenant}-key"), "key", &api_key(tenant));
            yaml += &more;
            for (webhook, url) in webhooks.iter().enumerate() {
                let _ = write!(
                    yaml,
                    "---\napiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {{name: t{tenant}-w{webhook}}}\n\
                     spec:\n  tenantRef: {{name: t{tenant}}}\n  customerCode: {CUSTOMER}\n  targetURL: {url}\n  \
                     secretRef: {{name: signing}}\n  caBundleRef: {{kind: ConfigMap, name: receiver-ca}}\n  \
                     events: [order.created]\n"
                );
            }
        }
        std::fs::write(self.file("config/all.yaml"), yaml).expect("the folder is ours");
    }

    /// Creates a tenant's database with a contact and an administrator. `way`: the arguments for the database that
    /// the server will use.
    pub(crate) fn add_people(&self, tenant: usize, way: &[&str]) {
        let code = format!("T{tenant}");
        let run =
            |words: &[&str], input: &str| self.command(&[words, &["--tenant", &code], way].concat(), input);
        let contact = ["--email", CONTACT, "--name", "A contact"];
        run(&["customer", "add", "--code", CUSTOMER, "--name", "A customer"], "");
        run(&[&["contact", "add", "--customer", CUSTOMER], &contact[..]].concat(), PASSWORD);
        let name = ["--name", "An administrator"];
        run(
            &[&["employee", "add", "--user", ADMINISTRATOR, "--administrator"], &name[..]].concat(),
            PASSWORD,
        );
    }

    fn command(&self, words: &[&str], input: &str) {
        use std::io::Write as _;
        let mut command = Command::new(&self.docket);
        command.args(words).args(self.folders());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("docket starts");
        // The write fails if the command reads no input.
        let _ = writeln!(child.stdin.take().expect("it is piped"), "{input}");
        let output = child.wait_with_output().expect("its output");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts a process with this command, which reads these files. Does not wait until the process is ready.
    pub(crate) fn start(&self, command: Vec<String>) -> Process {
        // The log has the level and the format that the chart sets.
        let fixed = ["--log=info", "--log-format=json", "--allow-egress=127.0.0.1/32"].map(str::to_owned);
        let arguments = command.into_iter().chain(self.folders()).chain(fixed).collect();
        Process::start(&self.docket, arguments, self.file("log"))
    }

    /// Starts the bare forwarder; returns when it is ready. `more`: further flags.
    pub(crate) async fn bare(&self, more: &[String]) -> Process {
        let program = std::env::current_exe().expect("a program has a path");
        std::fs::write(self.file("ca.pem"), &self.receiver.ca_pem).expect("the folder is ours");
        let mut arguments = vec!["bare".to_owned()];
        arguments.push(format!("--target={}", self.receiver.url(0, 0, Behaviour::Prompt)));
        arguments.push(format!("--ca-file={}", self.file("ca.pem").display()));
        arguments.extend(more.iter().cloned());
        let mut process = Process::start(&program, arguments, self.file("bare-log"));
        process.ready().await;
        process
    }

    fn folders(&self) -> [String; 2] {
        let flag = |flag, folder| format!("--{flag}={}", self.file(folder).display());
        [flag("config-dir", "config"), flag("data-dir", "data")]
    }

    /// Signs the contact of each tenant in; returns a client for each tenant, in the order of tenants.
    pub(crate) async fn clients(&self, fleet: &Fleet) -> Vec<Client> {
        let mut signing_in = JoinSet::new();
        for first in 0..SIGN_INS {
            let (api, tenants) = (fleet.apis[0], (first..self.tenants).step_by(SIGN_INS));
            signing_in.spawn(async move {
                let mut clients = Vec::new();
                for tenant in tenants {
                    let token = token(api, &sign_in(tenant, "/Auth/Token", CONTACT)).await;
                    clients.push(order::client(tenant as u32, &api_key(tenant), &token));
                }
                clients
            });
        }
        let mut clients: Vec<_> = signing_in.join_all().await.concat();
        clients.sort_unstable_by_key(|client| client.tenant);
        clients
    }

    /// Signs the administrator of the first tenant in.
    pub(crate) async fn administrator(&self, fleet: &Fleet) -> Reader {
        let token = token(fleet.apis[0], &sign_in(0, "/Employee/SignIn", ADMINISTRATOR)).await;
        Reader { api: fleet.apis[0], connection: None, bearer: format!("Bearer {token}") }
    }

    /// Signs the contact of the first tenant in.
    pub(crate) async fn contact(&self, fleet: &Fleet) -> Reader {
        let token = token(fleet.apis[0], &sign_in(0, "/Auth/Token", CONTACT)).await;
        Reader { api: fleet.apis[0], connection: None, bearer: format!("Bearer {token}") }
    }

    /// A client that signs the contact of the first tenant in with each request.
    pub(crate) fn sign_ins(&self) -> Client {
        let request = sign_in(0, "/Auth/Token", CONTACT).into();
        Client { tenant: 0, request, number: |_| Some(0) }
    }

    /// A client that guesses the password of a user whom the tenant does not have.
    pub(crate) fn guesses(&self, tenant: usize) -> Client {
        let request = sign_in(tenant, "/Auth/Token", "absent@example.com").into();
        Client { tenant: tenant as u32, request, number: |_| None }
    }

    /// Waits until `count` POSTs have come to prompt endpoints, or none has come for [`GIVE_UP`]; returns those POSTs.
    pub(crate) async fn received(&self, count: usize) -> Vec<Arrival> {
        let (mut seen, mut since) = (0, Instant::now());
        while self.receiver.answered() < count && since.elapsed() < GIVE_UP {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let now = self.receiver.answered();
            if now > seen {
                (seen, since) = (now, Instant::now());
            }
        }
        self.receiver.take()
    }

    /// Waits until `count` POSTs have come to prompt endpoints, or until `limit` has passed; returns those POSTs.
    pub(crate) async fn received_within(&self, count: usize, limit: Duration) -> Vec<Arrival> {
        let begun = Instant::now();
        while self.receiver.answered() < count && begun.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.receiver.take()
    }

    /// Waits for at most this time until the deliveries of these saves have come to prompt endpoints, one for each save. Returns the
    /// deliveries that came. Retries of earlier deliveries do not count.
    pub(crate) async fn received_of(&self, saves: &[Saved], limit: Duration) -> Vec<Arrival> {
        let begun = Instant::now();
        let orders: HashSet<_> = saves.iter().map(|save| (save.tenant, save.order)).collect();
        let is_meant = |arrival: &Arrival| orders.contains(&(arrival.tenant, arrival.order));
        while self.receiver.answered_of(is_meant) < saves.len() && begun.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.receiver.take().into_iter().filter(is_meant).collect()
    }

    /// Runs saves and deliveries that the figures do not count, so that connections are open and statements are
    /// planned. Each save has `deliveries` deliveries to prompt endpoints.
    pub(crate) async fn warm_up(&self, apis: &[SocketAddr], clients: &[Client], deliveries: usize) {
        let (apis, clients) = (apis.to_vec(), clients.to_vec());
        let load = Load { apis, clients, connections: CONNECTIONS, messages: WARM_UP, pace: None };
        check(&load.run().await);
        self.received(WARM_UP * deliveries).await;
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The processes under test, which are ready.
pub(crate) struct Fleet {
    pub(crate) processes: Vec<Process>,
    /// The addresses that serve requests.
    pub(crate) apis: Vec<SocketAddr>,
}

impl Fleet {
    /// Waits until all processes are ready. The first `apis` processes serve requests.
    pub(crate) async fn ready(mut processes: Vec<Process>, apis: usize) -> Self {
        for process in &mut processes {
            process.ready().await;
        }
        let apis = processes[..apis].iter().map(|process| process.api).collect();
        Self { processes, apis }
    }

    /// Sets the peak memory of each process to what the process has now.
    pub(crate) fn forget_peak_memory(&self) {
        self.processes.iter().for_each(|process| process::forget_peak_memory(process.id()));
    }

    /// The largest peak memory of a process, in MB.
    pub(crate) fn peak_memory(&self) -> f64 {
        self.processes.iter().map(|process| process::peak_memory(process.id())).fold(0.0, f64::max)
    }

    /// Kills all processes with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }

    /// Starts all processes again. Does not wait until they are ready.
    pub(crate) fn start_again(&mut self) {
        self.processes.iter_mut().for_each(Process::start_again);
    }

    /// Sends SIGTERM to all processes; returns when they have ended.
    pub(crate) async fn terminate(mut self) {
        for process in &mut self.processes {
            process.terminate().await;
        }
    }
}

/// A signed-in person who sends GET requests over one connection.
pub(crate) struct Reader {
    api: SocketAddr,
    connection: Option<Connection>,
    bearer: String,
}

impl Reader {
    /// The bytes of a GET request for `path`.
    pub(crate) fn request(&self, path: &str) -> Vec<u8> {
        request("GET", path, &[("x-api-key", &api_key(0)), ("authorization", &self.bearer)], "")
    }

    /// GETs a path; returns status and body. Repeats the request while no process listens, for up to [`GIVE_UP`].
    pub(crate) async fn get(&mut self, path: &str) -> (u16, Vec<u8>) {
        let (request, begun) = (self.request(path), Instant::now());
        loop {
            match self.try_get(&request).await {
                Ok(answer) => return answer,
                Err(error) => assert!(begun.elapsed() < GIVE_UP, "GET {path}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// GETs a page of the portal in the session of this person; returns status and body.
    pub(crate) async fn page(&mut self, path: &str) -> (u16, Vec<u8>) {
        let token = self.bearer.strip_prefix("Bearer ").unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: t0.localhost\r\ncookie: __Host-docket={token}\r\ncontent-length: 0\r\n\r\n"
        );
        self.try_get(request.as_bytes()).await.expect("the process serves")
    }

    async fn try_get(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.api).await?,
        };
        let response = connection.call(request).await?;
        let answer = (response.status, response.body.to_vec());
        self.connection = Some(connection);
        Ok(answer)
    }

    /// The number of deliveries that a search of the log finds, up to `most`, which is at most 100.
    pub(crate) async fn deliveries(&mut self, filter: &str, most: usize) -> usize {
        let path = format!("/WebhookLogs/Search?pageSize={most}&{filter}");
        let (mut answer, begun) = (self.get(&path).await, Instant::now());
        // A process that has just started may respond 503 until its database is open.
        while answer.0 == 503 && begun.elapsed() < GIVE_UP {
            tokio::time::sleep(Duration::from_millis(100)).await;
            answer = self.get(&path).await;
        }
        let (status, body) = answer;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let page: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        page["items"].as_array().expect("a list").len()
    }

    /// Waits until no delivery is pending or failed, or until `limit` has passed; returns whether no delivery is.
    pub(crate) async fn settled(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.deliveries("status=Pending", 1).await + self.deliveries("status=Failed", 1).await == 0 {
                return true;
            }
            if begun.elapsed() > limit {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Panics if a save failed, because the scenario would measure something else than it should.
pub(crate) fn check(saves: &Saves) {
    let Saves { done, refused, broken, unanswered, refusal } = saves;
    assert!(
        *refused + *broken + *unanswered == 0,
        "{} saved, {refused} refused, {broken} broken, {unanswered} not answered: {}",
        done.len(),
        refusal.as_deref().unwrap_or("no answer was refused")
    );
}

fn sign_in(tenant: usize, path: &str, user: &str) -> Vec<u8> {
    let body = serde_json::json!({"userId": user, "password": PASSWORD}).to_string();
    request("POST", path, &[("x-api-key", &api_key(tenant)), ("content-type", "application/json")], &body)
}

async fn token(api: SocketAddr, sign_in: &[u8]) -> String {
    let mut connection = Connection::open(api).await.expect("it listens");
    let response = connection.call(sign_in).await.expect("a response");
    assert_eq!(response.status, 200, "{}", response.text());
    let body: serde_json::Value = serde_json::from_slice(response.body).expect("JSON");
    body["token"].as_str().expect("a token").to_owned()
}

fn api_key(tenant: usize) -> String {
    format!("{:064x}", tenant + 0xabc_def0)
}

/// A Secret with one key.
pub(crate) fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{{key}: \"{value}\"}}\n"
    )
}
