//! The world of a run: PostgreSQL, Redis and the receiver, each behind a proxy, tenants with webhooks, and real processes of `docket serve`.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use docket_rig::ports::free_port;
use docket_rig::postgres::{self, PostgresServer};
use docket_rig::proxy::Proxy;
use docket_rig::redis::RedisServer;
use docket_tests::receiver::ca_yaml;
use docket_tests::server::{
    Client, Home, PASSWORD, SECRET, Server, api_key, external_tenant_yaml, request, signal, webhook_yaml,
};
use docket_tests::stores::write_secret;
use tokio_postgres::Client as Database;

use crate::checker::{Attempt, Delivery, Event, History, Order, Output, Save, Tenant};
use crate::hook::{Hook, Manner, millis};
use crate::load::{Load, Loaded};
use crate::place::{Place, found};
use crate::random::Random;

/// Scaled time: delays of 100, 200, 400 and 800 ms. A lease takes 4 s, as always.
const BACKOFF_BASE_MS: i64 = 50;
const FLAGS: &str = "--poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32 --sweep-interval 1s \
                     --invoice-scan-interval 1s --shutdown-delay 0s --log-format json";
/// The only contact of each tenant.
const USER: &str = "ada@quillfeather.example";
/// The digits of the tenants' API keys.
const DIGITS: [char; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

/// What a world is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) tenants: usize,
    /// Webhooks of each tenant.
    pub(crate) webhooks: usize,
    /// The roles of each process.
    pub(crate) processes: &'static [&'static str],
    /// Further flags of each process.
    pub(crate) flags: &'static str,
    /// Further lines of PostgreSQL's configuration.
    pub(crate) settings: &'static str,
    pub(crate) manner: Manner,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            tenants: 2,
            webhooks: 2,
            processes: &["api", "api,worker", "worker"],
            flags: "",
            settings: "",
            manner: Manner::default(),
        }
    }
}

/// A process that can be killed and started again on the same ports.
pub(crate) struct Process {
    pub(crate) roles: &'static str,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    addresses: [SocketAddr; 2],
    server: Option<Server>,
}

impl Process {
    /// Sends SIGKILL to the process, if it runs.
    pub(crate) fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Starts it if it does not run, and does not wait until it is ready.
    pub(crate) fn start(&mut self, home: &Home) {
        if self.server.is_none() {
            let Self { arguments, environment, addresses, .. } = self;
            self.server = Some(Server::spawn_at(home, arguments, environment, *addresses));
        }
    }

    /// Waits until it is ready; panics after 30 s.
    pub(crate) async fn ready(&mut self, home: &Home) {
        if let Some(server) = self.server.take() {
            self.server = Some(server.ready(home).await);
        }
    }

    /// SIGTERM; waits for its end. `None`: it does not run.
    pub(crate) async fn terminate(&mut self) -> Option<ExitStatus> {
        Some(self.server.take()?.terminate().await)
    }

    /// Sends a signal by name, such as `STOP`, if it runs.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(server) = &self.server {
            signal(server.id(), name);
        }
    }

    /// The number of its open sockets; 0 if it does not run.
    pub(crate) fn sockets(&self) -> usize {
        let Some(server) = &self.server else { return 0 };
        let files = std::fs::read_dir(format!("/proc/{}/fd", server.id()));
        let links = files.into_iter().flatten().filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// The text of its metrics; empty if it does not respond.
    pub(crate) async fn metrics(&self) -> String {
        let [_, management] = self.addresses;
        let reply = request(management, "GET", "/metrics", &[], "").await;
        reply.map_or_else(|_| String::new(), |reply| reply.text().to_owned())
    }
}

/// Everything of a run. Dropping it ends its processes and servers and removes the files.
pub(crate) struct World {
    pub(crate) processes: Vec<Process>,
    pub(crate) home: Home,
    pub(crate) postgres: PostgresServer,
    pub(crate) redis: RedisServer,
    pub(crate) to_postgres: Proxy,
    pub(crate) to_redis: Proxy,
    pub(crate) to_receiver: Proxy,
    pub(crate) hook: Hook,
    pub(crate) tenants: Vec<Place>,
    pub(crate) random: Random,
    /// The beginning of the run, from which clients measure.
    pub(crate) begun: Instant,
    /// All secrets that webhooks sign with, the newest last.
    secrets: Vec<String>,
    yaml: String,
    loaded: Loaded,
    /// The number of loads so far.
    loads: usize,
}

impl World {
    /// Makes a world; returns when its processes are ready.
    pub(crate) async fn start(plan: Plan, random: &mut Random) -> Self {
        Self::start_with(plan, random, |_| Vec::new(), async |_| None).await
    }

    /// Like [`start`](Self::start). `environment`: of the process with this number. `tablespace`: makes a tablespace of the server for
    /// all databases, and returns its name.
    pub(crate) async fn start_with(
        plan: Plan,
        random: &mut Random,
        environment: impl Fn(usize) -> Vec<(String, String)>,
        tablespace: impl AsyncFnOnce(&PostgresServer) -> Option<&'static str>,
    ) -> Self {
        let hook = Hook::start(plan.manner, random.child()).await;
        let to_receiver = Proxy::to(local(hook.receiver.port()));
        let redis = tokio::task::block_in_place(|| RedisServer::start(&[]));
        let to_redis = Proxy::to(local(redis.port));
        let postgres = PostgresServer::start_with(plan.settings).await;
        let port = url::Url::parse(&postgres.url("postgres")).expect("a URL").port().expect("it has one");
        let to_postgres = Proxy::to_postgres(local(port));
        let tablespace = tablespace(&postgres).await;

        let (mut yaml, mut places) = (ca_yaml(), Vec::new());
        for (number, digit) in DIGITS.into_iter().enumerate().take(plan.tenants) {
            let name = format!("t{number}");
            let url = create_database(&postgres, &name, tablespace).await;
            let proxied = url.replace(&format!(":{port}/"), &format!(":{}/", to_postgres.address.port()));
            yaml += &format!("---\n{}", external_tenant_yaml(&name, digit, &(proxied + "?sslmode=disable")));
            let webhooks: Vec<String> =
                (0..plan.webhooks).map(|webhook| format!("{name}-w{webhook}")).collect();
            for webhook in &webhooks {
                let target = format!("https://{}/{webhook}", to_receiver.address);
                yaml += &webhook_yaml(&name, webhook, "C-1", &target);
                yaml += "  caBundleRef: {kind: ConfigMap, name: receiver-ca}\n";
            }
            let canary = format!("canary-{name}-{:012x}", random.below(1 << 48));
            // The API's address and the token come when the processes are ready.
            let client = Client { api: to_redis.address, key: api_key(digit), token: String::new() };
            places.push(Place { url, canary, client, webhooks });
        }
        let home = Home::with(&yaml);
        write_secret(&home.log("redis-url"), &format!("redis://{}", to_redis.address));
        let mut world = Self {
            processes: Vec::new(),
            home,
            postgres,
            redis,
            to_postgres,
            to_redis,
            to_receiver,
            hook,
            tenants: places,
            random: random.child(),
            begun: Instant::now(),
            secrets: vec![SECRET.to_owned()],
            yaml,
            loaded: Loaded::default(),
            loads: 0,
        };
        world.add_people();
        for (number, roles) in plan.processes.iter().enumerate() {
            world.add_process(number, roles, plan.flags, environment(number));
        }
        world.all_ready().await;
        world.sign_in().await;
        world
    }

    fn add_people(&self) {
        for number in 0..self.tenants.len() {
            let tenant = format!("T{number}");
            let run = |words: &[&str], input: &str| {
                let words = [words, &["--tenant", &tenant, "--postgresql"]].concat();
                let (done, text) = self.home.command(&words, input);
                assert!(done, "{words:?}: {text}");
            };
            run(&["customer", "add", "--code", "C-1", "--name", "A customer"], "");
            let contact = ["contact", "add", "--customer", "C-1", "--email", USER, "--name", "A contact"];
            run(&contact, &format!("{PASSWORD}\n"));
        }
    }

    fn add_process(
        &mut self,
        number: usize,
        roles: &'static str,
        flags: &str,
        environment: Vec<(String, String)>,
    ) {
        let mut arguments = vec!["serve".to_owned(), "--roles".to_owned(), roles.to_owned()];
        let folders = [
            ("--config-dir", self.home.config()),
            ("--data-dir", self.home.data()),
            ("--redis-url-file", self.home.log("redis-url")),
        ];
        for (flag, path) in folders {
            arguments.extend([flag.to_owned(), path.display().to_string()]);
        }
        let backoff = format!("--backoff-base {BACKOFF_BASE_MS}ms");
        let words = [FLAGS, &backoff, flags].join(" ");
        arguments.extend(words.split_whitespace().map(str::to_owned));
        // A process with the pod and the address of an earlier one ends what that one had. The others wait for leases.
        if number.is_multiple_of(2) {
            arguments.extend(["--pod-name".to_owned(), format!("pod-{number}")]);
        }
        let addresses = [local(free_port()), local(free_port())];
        let mut process = Process { roles, environment, arguments, addresses, server: None };
        process.start(&self.home);
        self.processes.push(process);
    }

    /// Starts the processes that do not run; returns when all are ready.
    pub(crate) async fn all_ready(&mut self) {
        for process in &mut self.processes {
            process.signal("CONT");
            process.start(&self.home);
        }
        for process in &mut self.processes {
            process.ready(&self.home).await;
        }
    }

    async fn sign_in(&mut self) {
        let (api, process) = (self.apis()[0], self.with_role("api")[0]);
        let server = self.processes[process].server.as_ref().expect("it is ready");
        for tenant in &mut self.tenants {
            tenant.client = server.sign_in(&tenant.client.key, USER).await;
            tenant.client.api = api;
        }
    }

    /// The numbers of the processes with this role.
    pub(crate) fn with_role(&self, role: &str) -> Vec<usize> {
        let has = |number: &usize| self.processes[*number].roles.split(',').any(|has| has == role);
        (0..self.processes.len()).filter(has).collect()
    }

    /// The addresses that serve requests.
    pub(crate) fn apis(&self) -> Vec<SocketAddr> {
        self.with_role("api").into_iter().map(|number| self.processes[number].addresses[0]).collect()
    }

    /// Kills a process, and starts it again at once without waiting until it is ready.
    pub(crate) fn kill_and_start(&mut self, number: usize) {
        self.processes[number].kill();
        self.processes[number].start(&self.home);
    }

    /// Starts clients that save until the load is ended. Each pauses up to `pause_ms` after a save.
    pub(crate) fn load(&mut self, clients: usize, pause_ms: u64) -> Load {
        self.loads += 1;
        let random = self.random.child();
        let (tenants, apis) = (self.tenants.clone(), self.apis());
        Load::start(&tenants, &apis, clients, pause_ms, self.loads, self.begun, random)
    }

    /// Adds what clients saved.
    pub(crate) fn add(&mut self, loaded: Loaded) {
        self.loaded.saves.extend(loaded.saves);
        self.loaded.outputs.extend(loaded.outputs);
    }

    /// The saves so far, each with its tenant.
    pub(crate) fn saves(&self) -> &[(usize, Save)] {
        &self.loaded.saves
    }

    /// Gives all webhooks another secret to sign with.
    pub(crate) fn rotate_secret(&mut self) {
        let secret = format!("a-signing-secret-{:016x}", self.random.below(1 << 60));
        self.home.write("all.yaml", &self.yaml.replace(SECRET, &secret));
        self.secrets.push(secret);
    }

    /// The secret that webhooks sign with now.
    pub(crate) fn secret(&self) -> &str {
        self.secrets.last().map_or(SECRET, String::as_str)
    }

    /// A connection to a tenant's database, past the proxy.
    pub(crate) async fn sql(&self, tenant: usize) -> Database {
        postgres::client(&self.tenants[tenant].url).await
    }

    /// A connection to the server's own database.
    pub(crate) async fn admin(&self) -> Database {
        postgres::client(&self.postgres.url("postgres")).await
    }

    /// Ends the client's connections of all other sessions; returns how many.
    pub(crate) async fn kill_sessions(&self) -> i64 {
        const KILL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        self.admin().await.query_one(KILL, &[]).await.expect("a statement").get(0)
    }

    /// Takes all faults of the servers and of the ways to them back, and starts what does not run.
    pub(crate) async fn repair(&mut self) {
        for proxy in [&self.to_postgres, &self.to_redis, &self.to_receiver] {
            proxy.delay(Duration::ZERO);
            proxy.restore();
        }
        self.all_ready().await;
    }

    /// Waits until no delivery is to be made any more; returns how many are left after `limit`.
    pub(crate) async fn settled(&self, limit: Duration) -> i64 {
        const OPEN: &str = "SELECT count(*) FROM delivery WHERE status IN ('Pending', 'Failed')";
        let begun = Instant::now();
        loop {
            let mut open = 0;
            for tenant in 0..self.tenants.len() {
                let row = self.sql(tenant).await.query_one(OPEN, &[]).await;
                open += row.expect("a statement").get::<_, i64>(0);
            }
            self.hook.receiver.forget();
            if open == 0 || begun.elapsed() > limit {
                return open;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What clients, receivers, tables and outputs say after the run.
    pub(crate) async fn history(&mut self) -> History {
        let mut outputs = std::mem::take(&mut self.loaded.outputs);
        for process in &self.processes {
            outputs.push(self.output("metrics", &process.metrics().await));
        }
        for name in ["out", "err"] {
            let log = std::fs::read(self.home.log(name)).unwrap_or_default();
            outputs.push(self.output(name, &String::from_utf8_lossy(&log)));
        }
        let mut tenants = Vec::new();
        for (number, place) in self.tenants.iter().enumerate() {
            let saves = self.loaded.saves.iter().filter(|(tenant, _)| *tenant == number);
            let saves = saves.map(|(_, save)| save.clone()).collect();
            tenants.push(read_tenant(&self.sql(number).await, place.webhooks.clone(), saves).await);
        }
        let (secrets, posts) = (self.secrets.clone(), self.hook.posts());
        History { backoff_base_ms: BACKOFF_BASE_MS, secrets, tenants, posts, outputs }
    }

    /// A text that the people who run the service see.
    fn output(&self, what: &str, text: &str) -> Output {
        let keys = self.tenants.iter().flat_map(|tenant| [&tenant.client.key, &tenant.client.token]);
        let password = PASSWORD.to_owned();
        let mut secrets = keys.chain(&self.secrets).chain([&password]);
        let canaries = self.tenants.iter().map(|tenant| tenant.canary.as_str());
        Output {
            what: what.to_owned(),
            reader: None,
            canaries: found(canaries, text),
            has_secret: secrets.any(|secret| text.contains(secret.as_str())),
            has_panic: text.contains("panicked at"),
        }
    }

    /// The place in the log at which what is logged from now on begins.
    pub(crate) fn log_end(&self) -> u64 {
        std::fs::metadata(self.home.log("err")).map_or(0, |file| file.len())
    }

    /// Whether a text is in the log behind this place.
    pub(crate) fn is_logged(&self, text: &str, from: u64) -> bool {
        let mut bytes = Vec::new();
        let read = File::open(self.home.log("err")).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(&mut bytes)
        });
        read.is_ok() && String::from_utf8_lossy(&bytes).contains(text)
    }

    /// Milliseconds since the beginning of the run.
    pub(crate) fn now_ms(&self) -> i64 {
        millis(self.begun.elapsed())
    }
}

/// Waits until `reached` is true; returns whether it was within `limit`.
pub(crate) async fn within(limit: Duration, mut reached: impl AsyncFnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if reached().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    false
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

async fn create_database(server: &PostgresServer, name: &str, tablespace: Option<&str>) -> String {
    let place = tablespace.map(|tablespace| format!(" TABLESPACE {tablespace}")).unwrap_or_default();
    let admin = postgres::client(&server.url("postgres")).await;
    admin.batch_execute(&format!("CREATE DATABASE {name}{place}")).await.expect("a new database");
    server.url(name)
}

/// The rows of a tenant, by the documented columns of its tables.
async fn read_tenant(database: &Database, webhooks: Vec<String>, saves: Vec<Save>) -> Tenant {
    let rows = async |sql: &str| database.query(sql, &[]).await.expect("the tables are as documented");
    let orders = rows("SELECT id, coalesce(client_matter_number, '') FROM web_order").await;
    let events = rows("SELECT id, code, coalesce(web_order_id, ''), body FROM event").await;
    let deliveries = rows(
        "SELECT id, event_id, webhook_name, status, attempt_count, lease_token IS NOT NULL FROM delivery",
    )
    .await;
    let attempts = rows(
        "SELECT delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, total_us FROM attempt",
    )
    .await;
    let name = |name: String| name.rsplit('/').next().unwrap_or_default().to_owned();
    Tenant {
        webhooks,
        saves,
        orders: orders.iter().map(|row| Order { id: row.get(0), reference: row.get(1) }).collect(),
        events: events
            .iter()
            .map(|row| Event { id: row.get(0), code: row.get(1), order: row.get(2), body: row.get(3) })
            .collect(),
        deliveries: deliveries
            .iter()
            .map(|row| Delivery {
                id: row.get(0),
                event: row.get(1),
                webhook: name(row.get(2)),
                status: row.get(3),
                attempts: row.get(4),
                is_leased: row.get(5),
            })
            .collect(),
        attempts: attempts
            .iter()
            .map(|row| Attempt {
                delivery: row.get(0),
                number: row.get(1),
                started_at_ms: row.get(2),
                finished_at_ms: row.get(3),
                class: row.get(4),
                http_status: row.get(5),
                total_us: row.get(6),
            })
            .collect(),
    }
}
