//! Where a scenario plays: PostgreSQL, Redis, the receiver, tenants with people and webhooks, and the processes under
//! test.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use docket_rig::postgres::{self, PostgresServer};
use docket_rig::redis::RedisServer;
use docket_rig::scratch::Folder;
use tokio_postgres::Client as Sql;

use crate::http::{Connection, request};
use crate::load::{Client, Load, Saves};
use crate::order;
use crate::process::{self, Process};
use crate::receiver::{Arrival, Behaviour, Receiver};

/// What is committed is on the disk. All that is not named here has PostgreSQL's own default.
const POSTGRES: &str = "fsync = on\nfull_page_writes = on\nsynchronous_commit = on\nshared_buffers = 512MB\n\
                        max_connections = 400\nmax_locks_per_transaction = 128\n";
const REDIS: [&str; 2] = ["appendonly yes", "appendfsync everysec"];

/// The one customer of each tenant.
const CUSTOMER: &str = "C-1";
const CONTACT: &str = "ada@quillfeather.example";
const ADMINISTRATOR: &str = "alex.admin";
const PASSWORD: &str = "a-password-for-the-benchmark";

/// Connections of the load generator, unless a scenario says otherwise.
pub(crate) const CONNECTIONS: usize = 64;
/// Saves before a measurement, which are not counted.
pub(crate) const WARM_UP: usize = 200;
/// Without a further arrival for so long, what is missing is lost. Longer than a lease, and than a sweep takes.
const GIVE_UP: Duration = Duration::from_secs(100);

/// The processes that do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// One process with all roles.
    One,
    /// A process each for api, worker and detector, with the chart's settings.
    Roles,
}

impl Shape {
    pub(crate) const ALL: [Self; 2] = [Self::One, Self::Roles];

    /// Of each process: roles, connections to PostgreSQL, and how many of these to one tenant.
    fn processes(self) -> &'static [(&'static str, u16, u16)] {
        match self {
            Self::One => &[("api,worker,detector", 32, 8)],
            Self::Roles => &[("api", 40, 8), ("worker", 20, 8), ("detector", 10, 2)],
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "one process",
            Self::Roles => "api, worker, detector",
        }
    }
}

/// Everything but the processes under test. Dropped, all of it goes away.
pub(crate) struct Stage {
    pub(crate) receiver: Receiver,
    pub(crate) redis: RedisServer,
    pub(crate) postgres: PostgresServer,
    docket: PathBuf,
    folder: Folder,
    admin: Sql,
    redis_id: u32,
    postgres_id: u32,
    tenants: usize,
}

impl Stage {
    /// One tenant for each of `tenants`, which lists the behaviours of the endpoints of its webhooks.
    pub(crate) async fn new(docket: &Path, tenants: &[Vec<Behaviour>]) -> Self {
        let postgres = PostgresServer::start_with(POSTGRES).await;
        let admin = postgres::client(&postgres.url("postgres")).await;
        let backend: i32 = admin.query_one("SELECT pg_backend_pid()", &[]).await.expect("a row").get(0);
        let postgres_id = process::parent(u32::try_from(backend).expect("an id"));
        let redis = RedisServer::start(&REDIS);
        let redis_id = field(&redis.cli(&["INFO", "server"]), "process_id").expect("Redis says") as u32;
        let receiver = Receiver::start();
        let (docket, folder) = (docket.to_owned(), Folder::new("bench"));
        let tenants_count = tenants.len();
        let stage = Self {
            receiver,
            redis,
            postgres,
            docket,
            folder,
            admin,
            redis_id,
            postgres_id,
            tenants: tenants_count,
        };
        std::fs::write(stage.file("redis-url"), stage.redis.url()).expect("the folder is ours");
        std::fs::create_dir(stage.file("config")).expect("the folder is ours");
        stage.declare(tenants, |tenant| {
            let url = stage.postgres.url(&database(tenant));
            let secret = secret(&format!("t{tenant}-database"), "url", &url);
            (format!("external: {{secretKeyRef: {{name: t{tenant}-database, key: url}}}}"), secret)
        });
        let create = format!("CREATE DATABASE {}", database(0));
        stage.admin.batch_execute(&create).await.expect("the server makes databases");
        stage.people(&["--postgresql"]);
        for tenant in 1..tenants.len() {
            let statement = format!("CREATE DATABASE {} TEMPLATE {}", database(tenant), database(0));
            stage.admin.batch_execute(&statement).await.expect("nobody uses the first one yet");
        }
        stage
    }

    /// Writes the tenants' YAML. `database` says where the database of one is, and the Secret that this takes.
    fn declare(&self, tenants: &[Vec<Behaviour>], database: impl Fn(usize) -> (String, String)) {
        let ca: String = self.receiver.ca_pem.lines().map(|line| format!("    {line}\n")).collect();
        let mut yaml = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: receiver-ca}}\ndata:\n  ca.crt: |\n{ca}"
        );
        yaml += &secret("signing", "secret", "a-signing-secret-for-the-benchmark");
        for (tenant, webhooks) in tenants.iter().enumerate() {
            let (place, more) = database(tenant);
            let _ = write!(
                yaml,
                "---\napiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: t{tenant}}}\nspec:\n  \
                 clientCode: T{tenant}\n  subdomains: [t{tenant}]\n  apiKeys:\n  - name: primary\n    secretKeyRef: \
                 {{name: t{tenant}-key, key: key}}\n  database: {{{place}}}\n"
            );
            yaml += &secret(&format!("t{tenant}-key"), "key", &api_key(tenant));
            yaml += &more;
            for (webhook, behaviour) in webhooks.iter().enumerate() {
                let url = self.receiver.url(tenant, webhook, *behaviour);
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

    /// Gives the first tenant its database, with a contact and an administrator. `way`: as the server will use it.
    fn people(&self, way: &[&str]) {
        let tenant = ["--tenant", "T0"];
        let run = |words: &[&str], input: &str| self.command(&[words, &tenant, way].concat(), input);
        let contact = ["--email", CONTACT, "--name", "A contact"];
        run(&["customer", "add", "--code", CUSTOMER, "--name", "A customer"], "");
        run(&[&["contact", "add", "--customer", CUSTOMER], &contact[..]].concat(), PASSWORD);
        let employee =
            ["employee", "add", "--user", ADMINISTRATOR, "--name", "An administrator", "--administrator"];
        run(&employee, PASSWORD);
    }

    fn command(&self, words: &[&str], input: &str) {
        use std::io::Write as _;
        let mut command = Command::new(&self.docket);
        command
            .args(words)
            .arg("--config-dir")
            .arg(self.file("config"))
            .arg("--data-dir")
            .arg(self.file("data"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("docket starts");
        // A command that reads no input closes it.
        let _ = writeln!(child.stdin.take().expect("it is piped"), "{input}");
        let output = child.wait_with_output().expect("its output");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The processes of a shape, ready. `more`: further flags.
    pub(crate) async fn serve(&self, shape: Shape, more: &[&str]) -> Fleet {
        let mut processes = Vec::new();
        for (roles, connections, per_tenant) in shape.processes() {
            processes.push(self.start(roles, *connections, *per_tenant, more));
        }
        self.ready(processes).await
    }

    /// Waits until all are ready.
    pub(crate) async fn ready(&self, mut processes: Vec<Process>) -> Fleet {
        for process in &mut processes {
            process.ready().await;
        }
        Fleet { processes }
    }

    /// Starts a process. Does not wait.
    pub(crate) fn start(&self, roles: &str, connections: u16, per_tenant: u16, more: &[&str]) -> Process {
        let mut arguments = vec!["serve".to_owned(), format!("--roles={roles}")];
        for (flag, file) in [("config-dir", "config"), ("data-dir", "data"), ("redis-url-file", "redis-url")]
        {
            arguments.push(format!("--{flag}={}", self.file(file).display()));
        }
        arguments.push(format!("--database-connections={connections}"));
        arguments.push(format!("--database-connections-per-tenant={per_tenant}"));
        arguments.push(format!("--pod-name={}", roles.replace(',', "-")));
        // As the chart sets it.
        let fixed = ["--log=info", "--log-format=json", "--allow-egress=127.0.0.1/32", "--shutdown-delay=0s"];
        arguments.extend(fixed.iter().chain(more).map(|flag| (*flag).to_owned()));
        Process::start(&self.docket, arguments, self.file("log"))
    }

    /// The bare forwarder, ready.
    pub(crate) async fn bare(&self) -> Process {
        let program = std::env::current_exe().expect("a program has a path");
        std::fs::write(self.file("ca.pem"), &self.receiver.ca_pem).expect("the folder is ours");
        let mut arguments = vec!["bare".to_owned()];
        arguments.push(format!("--target={}", self.receiver.url(0, 0, Behaviour::Prompt)));
        arguments.push(format!("--ca-file={}", self.file("ca.pem").display()));
        let mut process = Process::start(&program, arguments, self.file("bare-log"));
        process.ready().await;
        process
    }

    /// The contact of each tenant, signed in.
    pub(crate) async fn clients(&self, fleet: &Fleet) -> Vec<Client> {
        let mut clients = Vec::new();
        for tenant in 0..self.tenants {
            let (key, token) = (api_key(tenant), self.sign_in(fleet, tenant, "/Auth/Token", CONTACT).await);
            let request = order::save(&key, &token).into();
            clients.push(Client { tenant: tenant as u32, request });
        }
        clients
    }

    /// The headers of an administrator of the tenant, signed in.
    pub(crate) async fn administrator(&self, fleet: &Fleet, tenant: usize) -> [(&'static str, String); 2] {
        let token = self.sign_in(fleet, tenant, "/Employee/SignIn", ADMINISTRATOR).await;
        [("x-api-key", api_key(tenant)), ("authorization", format!("Bearer {token}"))]
    }

    async fn sign_in(&self, fleet: &Fleet, tenant: usize, path: &str, user: &str) -> String {
        let mut connection = Connection::open(fleet.apis()[0]).await.expect("it listens");
        let response = connection.call(&sign_in(tenant, path, user)).await.expect("a response");
        assert_eq!(response.status, 200, "{}", response.text());
        let body: serde_json::Value = serde_json::from_slice(response.body).expect("JSON");
        body["token"].as_str().expect("a token").to_owned()
    }

    /// Waits until so many POSTs came, or until it is clear that they never will; returns those that came.
    pub(crate) async fn received(&self, count: usize) -> Vec<Arrival> {
        let (mut seen, mut since) = (0, Instant::now());
        while self.receiver.count() < count && since.elapsed() < GIVE_UP {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let now = self.receiver.count();
            if now > seen {
                (seen, since) = (now, Instant::now());
            }
        }
        self.receiver.take()
    }

    /// Saves and deliveries that are not counted: connections are open then, and plans are made.
    pub(crate) async fn warm_up(&self, apis: Vec<SocketAddr>, clients: &[Client], webhooks: usize) {
        let clients = clients.to_vec();
        let load = Load { apis, clients, connections: CONNECTIONS, messages: WARM_UP, pace: None };
        let saves = load.run().await;
        check(&saves);
        self.received(WARM_UP * webhooks).await;
    }

    /// What all processes and stores have used so far.
    pub(crate) fn used(&self, processes: &[Process]) -> Used {
        let info = self.redis.cli(&["INFO"]);
        let of = |name| field(&info, name).unwrap_or(0.0);
        Used {
            server: processes.iter().map(|process| process::cpu(process.id())).sum(),
            postgres: process::cpu_with_children(self.postgres_id),
            redis: process::cpu(self.redis_id),
            redis_calls: of("total_commands_processed"),
            redis_bytes: of("total_net_input_bytes") + of("total_net_output_bytes"),
        }
    }

    /// What PostgreSQL has counted for the database of a tenant: complete once the connections to it are closed.
    pub(crate) async fn counted(&self, tenant: usize) -> Counted {
        let statement = "SELECT (blks_hit + blks_read)::double precision, xact_commit::double precision, \
                         sessions::double precision FROM pg_stat_database WHERE datname = $1";
        let row = self.admin.query_one(statement, &[&database(tenant)]).await.expect("a row");
        Counted { buffers: row.get(0), commits: row.get(1), logins: row.get(2) }
    }

    /// How many bytes PostgreSQL has written to its log so far.
    pub(crate) async fn wal(&self) -> f64 {
        let statement = "SELECT (pg_current_wal_lsn() - '0/0')::double precision";
        self.admin.query_one(statement, &[]).await.expect("a row").get(0)
    }

    /// A connection to the database of a tenant, past the processes under test.
    pub(crate) async fn sql(&self, tenant: usize) -> Sql {
        postgres::client(&self.postgres.url(&database(tenant))).await
    }

    /// The connection to PostgreSQL's own database.
    pub(crate) fn admin(&self) -> &Sql {
        &self.admin
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Processes under test that are ready.
pub(crate) struct Fleet {
    pub(crate) processes: Vec<Process>,
}

impl Fleet {
    /// Where requests go. By the order in which processes are started, those with the role api come first.
    pub(crate) fn apis(&self) -> Vec<SocketAddr> {
        vec![self.processes[0].api]
    }

    /// The most memory that one of them has had, in MB.
    pub(crate) fn peak_memory(&self) -> f64 {
        self.processes.iter().map(|process| process::peak_memory(process.id())).fold(0.0, f64::max)
    }

    /// SIGTERM to all; returns when they have ended.
    pub(crate) async fn terminate(mut self) {
        for process in &mut self.processes {
            process.terminate().await;
        }
    }
}

/// CPU seconds, and Redis' own counters, since their processes started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) server: f64,
    pub(crate) postgres: f64,
    pub(crate) redis: f64,
    pub(crate) redis_calls: f64,
    pub(crate) redis_bytes: f64,
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            server: self.server - before.server,
            postgres: self.postgres - before.postgres,
            redis: self.redis - before.redis,
            redis_calls: self.redis_calls - before.redis_calls,
            redis_bytes: self.redis_bytes - before.redis_bytes,
        }
    }
}

/// PostgreSQL's own counters of a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) buffers: f64,
    pub(crate) commits: f64,
    pub(crate) logins: f64,
}

/// Stops a scenario that measures something else than it should.
pub(crate) fn check(saves: &Saves) {
    let Saves { done, refused, broken, refusal } = saves;
    let problem = refusal.as_deref().unwrap_or("the connection broke");
    assert!(*refused + *broken == 0, "{} saved, {refused} refused, {broken} broken: {problem}", done.len());
}

/// The request that signs somebody of a tenant in.
fn sign_in(tenant: usize, path: &str, user: &str) -> Vec<u8> {
    let body = serde_json::json!({"userId": user, "password": PASSWORD}).to_string();
    request("POST", path, &[("x-api-key", &api_key(tenant)), ("content-type", "application/json")], &body)
}

fn database(tenant: usize) -> String {
    format!("tenant_{tenant}")
}

fn api_key(tenant: usize) -> String {
    format!("{:064x}", tenant + 0xabc_def0)
}

fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{{key}: \"{value}\"}}\n"
    )
}

/// A number of Redis' INFO.
fn field(info: &str, name: &str) -> Option<f64> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}
