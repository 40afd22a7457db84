//! The stage of a scenario with `docket serve`: its files, PostgreSQL, Redis, and the processes under test.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use docket_rig::postgres::{self, PostgresServer};
use docket_rig::redis::RedisServer;
use tokio_postgres::Client as Sql;

use crate::figures::Figure;
use crate::home::{Fleet, Home, secret};
use crate::process::{self, Process};
use crate::receiver::Behaviour;

/// PostgreSQL's settings: a committed transaction is on the disk. Settings that are not named here have PostgreSQL's default.
const POSTGRES: &str = "fsync = on\nfull_page_writes = on\nsynchronous_commit = on\nshared_buffers = 512MB\n\
                        max_connections = 400\n";
/// Like [`POSTGRES`], with counts of what each statement costs.
const POSTGRES_WITH_STATEMENTS: &str = "fsync = on\nfull_page_writes = on\nsynchronous_commit = on\n\
                                        shared_buffers = 512MB\nmax_connections = 400\n\
                                        shared_preload_libraries = 'pg_stat_statements'\n";
const REDIS: [&str; 2] = ["appendonly yes", "appendfsync everysec"];

/// The processes that do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// One process with all roles.
    One,
    /// The default of the chart: two processes for api, two for worker and one for detector, with the chart's settings.
    Roles,
}

impl Shape {
    pub(crate) const ALL: [Self; 2] = [Self::One, Self::Roles];

    pub(crate) fn processes(self) -> &'static [Role] {
        match self {
            Self::One => &[Role { roles: "api,worker,detector", connections: 32, per_tenant: 8 }],
            Self::Roles => &[API, API, WORKER, WORKER, DETECTOR],
        }
    }

    /// The number of processes that make attempts.
    pub(crate) fn workers(self) -> usize {
        self.processes().iter().filter(|process| process.roles.contains("worker")).count()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "one process",
            Self::Roles => "as the chart has them",
        }
    }
}

/// The roles and connections of a process to start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role {
    pub(crate) roles: &'static str,
    /// The number of connections to PostgreSQL.
    pub(crate) connections: u16,
    /// The number of these connections that one tenant may use.
    pub(crate) per_tenant: u16,
}

/// The processes with the numbers of connections that the chart sets.
pub(crate) const API: Role = Role { roles: "api", connections: 30, per_tenant: 4 };
pub(crate) const WORKER: Role = Role { roles: "worker", connections: 30, per_tenant: 4 };
pub(crate) const DETECTOR: Role = Role { roles: "detector", connections: 10, per_tenant: 2 };

/// Everything but the processes under test. Dropping it ends the servers and removes the files.
pub(crate) struct Stage {
    pub(crate) home: Home,
    pub(crate) redis: RedisServer,
    postgres: PostgresServer,
    admin: Sql,
    redis_id: u32,
    postgres_id: u32,
}

impl Stage {
    /// Creates one tenant for each element of `tenants`, which lists the behaviours of its webhooks' endpoints.
    pub(crate) async fn new(docket: &Path, tenants: &[Vec<Behaviour>]) -> Self {
        Self::on(docket, tenants, PostgresServer::start_with(POSTGRES).await).await
    }

    /// Like [`new`](Self::new), on a PostgreSQL that counts what each statement costs.
    pub(crate) async fn with_statements(docket: &Path, tenants: &[Vec<Behaviour>]) -> Self {
        Self::on(docket, tenants, PostgresServer::start_with(POSTGRES_WITH_STATEMENTS).await).await
    }

    async fn on(docket: &Path, tenants: &[Vec<Behaviour>], postgres: PostgresServer) -> Self {
        let admin = postgres::client(&postgres.url("postgres")).await;
        let backend: i32 = admin.query_one("SELECT pg_backend_pid()", &[]).await.expect("a row").get(0);
        let postgres_id = process::parent(u32::try_from(backend).expect("an id"));
        let redis = RedisServer::start(&REDIS);
        let redis_id = field(&redis.cli(&["INFO", "server"]), "process_id").expect("Redis says") as u32;
        let home = Home::new(docket, tenants, |tenant| {
            let name = format!("t{tenant}-database");
            let place = format!("external: {{secretKeyRef: {{name: {name}, key: url}}}}");
            (place, secret(&name, "url", &postgres.url(&database(tenant))))
        });
        std::fs::write(home.file("redis-url"), redis.url()).expect("the folder is ours");
        // On a cluster the operator makes this role.
        std::fs::write(home.file("watcher-url"), postgres.watcher().await).expect("the folder is ours");
        let stage = Self { home, redis, postgres, admin, redis_id, postgres_id };
        stage.make_databases(tenants.len()).await;
        stage
    }

    /// Creates the tenants' databases. All further databases are copies of the first.
    async fn make_databases(&self, count: usize) {
        self.run(&format!("CREATE DATABASE {}", database(0))).await;
        self.home.add_people(0, &["--postgresql"]);
        if count == 1 {
            return;
        }
        self.relax().await;
        for tenant in 1..count {
            self.run(&format!("CREATE DATABASE {} TEMPLATE {}", database(tenant), database(0))).await;
        }
        self.harden().await;
    }

    /// Makes PostgreSQL not wait for the disk, for the time before a measurement.
    pub(crate) async fn relax(&self) {
        self.run("ALTER SYSTEM SET fsync = off").await;
        self.run("SELECT pg_reload_conf()").await;
    }

    /// Makes PostgreSQL wait for the disk again, and writes everything that it did not wait for.
    pub(crate) async fn harden(&self) {
        self.run("CHECKPOINT").await;
        let sync = tokio::task::spawn_blocking(|| Command::new("sync").status());
        sync.await.expect("it does not panic").expect("there is a sync");
        self.run("ALTER SYSTEM RESET fsync").await;
        self.run("SELECT pg_reload_conf()").await;
        let fsync = || self.admin.query_one("SHOW fsync", &[]);
        while fsync().await.expect("a row").get::<_, &str>(0) != "on" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn run(&self, statement: &str) {
        self.admin.batch_execute(statement).await.expect("the server is ours");
    }

    /// Starts the processes of a shape; returns when they are ready. `more`: further flags.
    pub(crate) async fn serve(&self, shape: Shape, more: &[&str]) -> Fleet {
        self.serve_roles(shape.processes(), more).await
    }

    /// Starts one process for each role; returns when they are ready. Processes that serve requests must come first.
    pub(crate) async fn serve_roles(&self, roles: &[Role], more: &[&str]) -> Fleet {
        let mut processes = Vec::new();
        for (number, role) in roles.iter().enumerate() {
            processes.push(self.start(*role, number, more));
        }
        let apis = roles.iter().filter(|role| role.roles.contains("api")).count();
        Fleet::ready(processes, apis).await
    }

    fn start(&self, role: Role, number: usize, more: &[&str]) -> Process {
        let Role { roles, connections, per_tenant } = role;
        let mut command = vec!["serve".to_owned(), format!("--roles={roles}")];
        command.push(format!("--redis-url-file={}", self.home.file("redis-url").display()));
        command.push(format!("--watcher-url-file={}", self.home.file("watcher-url").display()));
        command.push(format!("--database-connections={connections}"));
        command.push(format!("--database-connections-per-tenant={per_tenant}"));
        command.push(format!("--pod-name=pod-{number}"));
        command.push("--shutdown-delay=0s".to_owned());
        command.extend(more.iter().map(|flag| (*flag).to_owned()));
        self.home.start(command)
    }

    /// The CPU and Redis' counters that all processes and stores have used so far.
    pub(crate) fn used(&self, processes: &[Process]) -> Used {
        let info = self.redis.cli(&["INFO"]);
        let of = |name| field(&info, name).unwrap_or(0.0);
        Used {
            server: processes.iter().map(|process| process::cpu(process.id())).sum(),
            postgres: process::cpu_with_children(self.postgres_id),
            redis: process::cpu(self.redis_id),
            bench: process::cpu(std::process::id()),
            redis_calls: of("total_commands_processed"),
            redis_bytes: of("total_net_input_bytes") + of("total_net_output_bytes"),
        }
    }

    /// PostgreSQL's counters for the database of a tenant, which are complete once all connections to it are closed.
    pub(crate) async fn counted(&self, tenant: usize) -> Counted {
        let statement = "SELECT (blks_hit + blks_read)::double precision, xact_commit::double precision \
                         FROM pg_stat_database WHERE datname = $1";
        let row = self.admin.query_one(statement, &[&database(tenant)]).await.expect("a row");
        Counted { buffers: row.get(0), commits: row.get(1) }
    }

    /// The number of connections to all tenants' databases that were opened so far.
    pub(crate) async fn logins(&self) -> f64 {
        let statement =
            "SELECT sum(sessions)::double precision FROM pg_stat_database WHERE datname LIKE 'tenant_%'";
        self.admin.query_one(statement, &[]).await.expect("a row").get(0)
    }

    /// The number of bytes of WAL that PostgreSQL has written so far.
    pub(crate) async fn wal(&self) -> f64 {
        let statement = "SELECT (pg_current_wal_lsn() - '0/0')::double precision";
        self.admin.query_one(statement, &[]).await.expect("a row").get(0)
    }

    /// The cost of the first tenant's statements and of Redis' commands so far, and the size of the tenant's tables,
    /// as a text. Each number is divided by `messages`.
    pub(crate) async fn profile(&self, messages: f64) -> String {
        let statement = "SELECT calls / $1::double precision, mean_exec_time, total_exec_time / $1::double precision, \
                         (shared_blks_hit + shared_blks_read)::double precision / calls, query \
                         FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid WHERE d.datname = $2 \
                         ORDER BY total_exec_time DESC LIMIT 15";
        self.run("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await;
        let rows = self.admin.query(statement, &[&messages, &database(0)]).await.expect("it counts them");
        let mut text = "calls/message  ms/call  ms/message  buffers/call  statement\n".to_owned();
        for row in rows {
            let [calls, mean, total, buffers] = [0, 1, 2, 3].map(|at| row.get::<_, f64>(at));
            let query: String = row.get::<_, String>(4).split_whitespace().collect::<Vec<_>>().join(" ");
            let query: String = query.chars().take(160).collect();
            let _ = writeln!(text, "{calls:>13.3}  {mean:>7.3}  {total:>10.4}  {buffers:>12.1}  {query}");
        }
        let statement = "SELECT relname::text, pg_table_size(oid) / $1::double precision, \
                         pg_indexes_size(oid) / $1::double precision FROM pg_class WHERE relkind = 'r' \
                         AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 6";
        text += "\nbytes/message  of indexes  table\n";
        for row in self.sql(0).await.query(statement, &[&messages]).await.expect("sizes") {
            let [table, indexes] = [1, 2].map(|at| row.get::<_, f64>(at));
            let _ = writeln!(text, "{table:>13.0}  {indexes:>10.0}  {}", row.get::<_, &str>(0));
        }
        text += "\ncalls/message  µs/call  command\n";
        for line in self.redis.cli(&["INFO", "commandstats"]).lines() {
            let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            let of = |name| {
                let mut fields = rest.trim().split(',');
                fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok())
            };
            let (calls, each) = (of("calls").unwrap_or(0.0), of("usec_per_call").unwrap_or(0.0));
            let _ = writeln!(text, "{:>13.3}  {each:>7.1}  {name}", calls / messages);
        }
        text
    }

    /// A connection to a tenant's database, past the processes under test.
    pub(crate) async fn sql(&self, tenant: usize) -> Sql {
        postgres::client(&self.url(tenant)).await
    }

    /// The URL of a tenant's database.
    pub(crate) fn url(&self, tenant: usize) -> String {
        self.postgres.url(&database(tenant))
    }
}

/// The CPU seconds of the processes, and Redis' own counters, since their start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) server: f64,
    pub(crate) postgres: f64,
    pub(crate) redis: f64,
    /// The CPU seconds of this process, which has the load generator and the receiver.
    pub(crate) bench: f64,
    pub(crate) redis_calls: f64,
    pub(crate) redis_bytes: f64,
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            server: self.server - before.server,
            postgres: self.postgres - before.postgres,
            redis: self.redis - before.redis,
            bench: self.bench - before.bench,
            redis_calls: self.redis_calls - before.redis_calls,
            redis_bytes: self.redis_bytes - before.redis_bytes,
        }
    }

    /// The CPU of each part divided by `count`; `what` is the figure's name, such as "CPU per message".
    pub(crate) fn cpu_figures(&self, what: &str, count: usize) -> [Figure; 4] {
        let parts = [
            ("server", self.server),
            ("PostgreSQL", self.postgres),
            ("Redis", self.redis),
            ("load generator and receiver", self.bench),
        ];
        parts
            .map(|(of, seconds)| Figure::new(format!("{what}: {of}"), seconds * 1_000.0 / count as f64, "ms"))
    }
}

/// PostgreSQL's own counters of a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) buffers: f64,
    pub(crate) commits: f64,
}

fn database(tenant: usize) -> String {
    format!("tenant_{tenant}")
}

/// A number in the output of Redis' INFO.
fn field(info: &str, name: &str) -> Option<f64> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}
