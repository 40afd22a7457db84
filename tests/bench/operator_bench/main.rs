//! `tests/bench/operator`: the operator with thousands of Tenants and Webhooks on a real API server, PostgreSQL and Redis,
//! beside the bare writes of the same run.

mod changes;
mod databases;
mod declared;
mod half_open;
mod idle;
mod stage;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use changes::{CHANGED, Changes};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use docket_rig::figures::{Figure, Measured, document, load_average, percentile, table};
use docket_rig::memory::{memory, peak_memory};
use docket_tests::operator::Operator;
use half_open::{HalfOpen, SILENT};
use idle::idle;
use stage::{AT_A_TIME, Stage, answers};

/// The number of Tenants with managed databases that are declared at a time, at most.
const BATCH: usize = 300;
/// The number of bare writes, and of bare databases, before and after.
const BARE: (usize, usize) = (2_000, 100);
/// The number of changes at rest, and just after a failover.
const CHANGES: (usize, usize) = (100, 30);
/// The largest number of Webhooks of a Tenant, by default.
const WEBHOOKS_PER_TENANT: usize = 1_000;
/// How long an operator may need to list everything.
const LISTED: Duration = Duration::from_secs(600);

#[derive(Debug, Parser)]
#[command(
    name = "operator",
    about = "Measures the operator, the data plane beside it, and the bare writes of the same run",
    after_help = "The default sizes take some five minutes. The full run takes some two hours and 8 GB of disk:\n  \
                  tests/bench/operator --tenants 10000 --webhooks 50000 --managed 500 --rest 660"
)]
struct Arguments {
    /// Tenants. Tenants without a managed database share one real database, each with its own role and schema.
    #[arg(long, default_value_t = 500, value_name = "N")]
    tenants: usize,
    /// Webhooks, spread over the Tenants.
    #[arg(long, default_value_t = 2_500, value_name = "N")]
    webhooks: usize,
    /// Tenants with a managed database, which the operator creates and migrates.
    #[arg(long, default_value_t = 100, value_name = "N")]
    managed: usize,
    /// How long to measure at rest. The operator checks databases again after ten minutes or more, so a shorter time has few checks.
    #[arg(long, default_value_t = 90, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    rest: u64,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What is measured, for the JSON.
    #[arg(long, value_name = "TEXT")]
    revision: Option<String>,
}

impl Arguments {
    /// What is wrong with the sizes; `None`: nothing.
    fn problem(&self) -> Option<String> {
        let most = self.tenants.saturating_mul(WEBHOOKS_PER_TENANT);
        if !(1..=self.tenants).contains(&self.managed) {
            Some(format!("--managed: must be from 1 to the number of Tenants, {}", self.tenants))
        } else if !(CHANGED..=most).contains(&self.webhooks) {
            Some(format!(
                "--webhooks: must be from {CHANGED} to {most}, {WEBHOOKS_PER_TENANT} for each Tenant"
            ))
        } else {
            None
        }
    }
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    if let Some(problem) = arguments.problem() {
        Arguments::command().error(ErrorKind::ValueValidation, problem).exit();
    }
    let mut run = Run { begun: Instant::now(), stage: Stage::new().await, figures: Vec::new(), arguments };
    run.measure().await;
    let Arguments { tenants, webhooks, managed, json, revision, .. } = &run.arguments;
    let measured = [Measured {
        scenario: format!("operator: {tenants} Tenants, {managed} of them managed, {webhooks} Webhooks"),
        shape: "measured",
        figures: run.figures,
    }];
    println!("{}", table(&measured));
    println!(
        "Tenants that are not managed: one real database of the same server, with a role and a schema for each"
    );
    if let Some(file) = json {
        std::fs::write(file, document(revision.as_deref(), &measured)).expect("the file can be written");
    }
}

/// A run and its figures so far.
struct Run {
    begun: Instant,
    arguments: Arguments,
    stage: Stage,
    figures: Vec<Figure>,
}

impl Run {
    async fn measure(&mut self) {
        self.says("bare writes and databases, before");
        let writes = self.stage.bare_writes(BARE.0).await;
        let bare_databases = self.arguments.managed.min(BARE.1);
        let databases = self.stage.databases.bare(bare_databases).await;
        let roles = (self.arguments.managed..self.arguments.tenants).map(tenant_name);
        let roles: Vec<String> = roles.chain([SILENT.to_owned()]).collect();
        self.stage.databases.share(&roles).await;

        let operator = self.stage.operator("first").await;
        operator.leads().await;
        self.add(Figure::new("operator's memory without an object", memory(operator.id()), "MB"));
        let managed_rate = self.managed().await;
        self.says("bare databases, after");
        let databases = [databases, self.stage.databases.bare(bare_databases).await];
        self.beside(
            "databases created and migrated",
            managed_rate,
            "bare CREATE DATABASE",
            databases,
            Some(0.5),
        );

        let mut changes = self.changed_webhooks().await;
        let (rate, loaded) = self.load(&mut changes).await;
        self.says("bare writes, after");
        let writes = [writes, self.stage.bare_writes(BARE.0).await];
        self.beside("Tenants and Webhooks made Ready", rate, "bare writes", writes, None);

        self.says("waiting until the operator is idle");
        idle(&operator, self.arguments.tenants).await;
        self.memories(&operator);
        self.says("changes at rest");
        let idle_times = changes.times(CHANGES.0).await;
        self.change_figures("a change until Programmed by every pod, at rest", &idle_times, 500.0);
        self.change_figures("the same while the objects are made", &loaded, 1_000.0);
        self.rest().await;
        let operator = self.restart(operator).await;
        self.failover(operator, &mut changes).await;
    }

    fn says(&self, what: &str) {
        eprintln!("{:>4} s  {what}, load {}", self.begun.elapsed().as_secs(), load_average());
    }

    fn add(&mut self, figure: Figure) {
        eprintln!("        {}: {:.3} {}", figure.name, figure.value, figure.unit);
        self.figures.push(figure);
    }

    /// A rate, the bare rate before and after, and the ratio to their mean.
    fn beside(&mut self, what: &str, rate: f64, bare: &str, [before, after]: [f64; 2], goal: Option<f64>) {
        self.add(Figure::new(format!("{what} per second"), rate, "/s"));
        self.add(Figure::new(format!("{bare} per second, before"), before, "/s"));
        self.add(Figure::new(format!("{bare} per second, after"), after, "/s"));
        let ratio = Figure::new(format!("{what}: of {bare}"), rate * 2.0 / (before + after), "");
        self.add(match goal {
            Some(goal) => ratio.at_least(goal),
            None => ratio,
        });
    }

    fn change_figures(&mut self, what: &str, times: &[Duration], p99: f64) {
        let what = format!("{what} ({})", times.len());
        self.add(Figure::new(format!("{what}: p50"), percentile(times, 50.0), "ms"));
        self.add(Figure::new(format!("{what}: p99"), percentile(times, 99.0), "ms").at_most(p99));
    }

    /// Declares the Tenants with managed databases, a batch at a time; returns how many became Ready per second.
    async fn managed(&mut self) -> f64 {
        let managed = self.arguments.managed;
        self.says(&format!("{managed} managed databases"));
        let (path, mut whole) = (self.stage.path("tenants"), Duration::ZERO);
        for first in (0..managed).step_by(BATCH) {
            let batch = first..managed.min(first + BATCH);
            let (count, begun) = (batch.len(), Instant::now());
            let objects = batch.clone().map(|number| (path.clone(), declared::managed(&tenant_name(number))));
            self.stage.create(objects).await;
            self.stage.ready(batch.end, 0).await;
            whole += begun.elapsed();
            if first == 0 {
                let mut times: Vec<Duration> = {
                    let tenants = self.stage.tenants.borrow();
                    let ready = |number| tenants.object(&tenant_name(number)).and_then(|tenant| tenant.ready);
                    batch.filter_map(ready).map(|ready| ready.duration_since(begun)).collect()
                };
                times.sort_unstable();
                let [first, half, all] = [0, count / 2, count - 1].map(|at| times[at].as_secs_f64());
                let batch = format!("a batch of {count} managed Tenants");
                self.add(Figure::new(format!("{batch}: first Ready after"), first, "s").at_most(3.0));
                self.add(Figure::new(format!("{batch}: half Ready, of the time of all"), half / all, ""));
                self.add(Figure::new(format!("{batch}: all Ready after"), all, "s"));
            }
        }
        managed as f64 / whole.as_secs_f64()
    }

    /// Declares the Webhooks that are changed.
    async fn changed_webhooks(&mut self) -> Changes {
        let (path, managed) = (self.stage.path("webhooks"), self.arguments.managed);
        let webhook = |number| declared::webhook(&webhook_name(number), &tenant_name(number % managed));
        self.stage.create((0..CHANGED).map(|number| (path.clone(), webhook(number)))).await;
        self.stage.ready(managed, CHANGED).await;
        Changes::new(self.stage.client.clone(), path, self.stage.webhooks.clone())
    }

    /// Declares all other objects and waits until they are Ready, while Webhooks change. Returns how many became Ready per
    /// second, and the times of the changes.
    async fn load(&mut self, changes: &mut Changes) -> (f64, Vec<Duration>) {
        let &Arguments { tenants, webhooks, managed, .. } = &self.arguments;
        self.says(&format!("{} Tenants and {} Webhooks", tenants - managed, webhooks - CHANGED));
        let stage = &self.stage;
        let secrets = (managed..tenants).map(tenant_name);
        let secrets = secrets.map(|name| declared::secret(&name, &stage.databases.shared_url(&name)));
        stage.create(secrets.map(|secret| (stage.path("secrets"), secret))).await;

        let (tenants_path, webhooks_path) = (stage.path("tenants"), stage.path("webhooks"));
        let external =
            (managed..tenants).map(|number| (tenants_path.clone(), declared::external(&tenant_name(number))));
        let webhook = |number| declared::webhook(&webhook_name(number), &tenant_name(number % tenants));
        let objects =
            external.chain((CHANGED..webhooks).map(|number| (webhooks_path.clone(), webhook(number))));
        let is_done = AtomicBool::new(false);
        let load = async {
            let begun = Instant::now();
            stage.create(objects).await;
            let created = begun.elapsed();
            stage.ready(tenants, webhooks).await;
            is_done.store(true, Ordering::Relaxed);
            (created, begun.elapsed())
        };
        let ((created, whole), times) = tokio::join!(load, changes.until(&is_done));
        let objects = (tenants - managed + webhooks - CHANGED) as f64;
        let created = Figure::new(
            format!("all objects declared, {AT_A_TIME} at a time, after"),
            created.as_secs_f64(),
            "s",
        );
        self.add(created);
        self.add(Figure::new("all objects Ready after", whole.as_secs_f64(), "s"));
        (objects / whole.as_secs_f64(), times)
    }

    fn memories(&mut self, operator: &Operator) {
        let id = operator.id();
        self.add(Figure::new("operator's memory with all objects", memory(id), "MB"));
        self.add(Figure::new("operator's peak memory", peak_memory(id), "MB").at_most(400.0));
        let pods: Vec<_> = self.stage.pods.iter().map(|(role, pod)| (*role, memory(pod.id()))).collect();
        for (role, memory) in pods {
            self.add(Figure::new(format!("memory of docket serve --roles {role}"), memory, "MB"));
        }
        let info = self.stage.redis.cli(&["INFO", "memory"]);
        let used =
            info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse::<f64>().ok());
        self.add(Figure::new("memory of Redis", used.unwrap_or(f64::NAN) / 1_048_576.0, "MB"));
    }

    /// Counts what the operator does at rest. Meanwhile a second operator, which is not counted, has half-open watches.
    async fn rest(&mut self) {
        let stage = &self.stage;
        let mut silent = HalfOpen::start(stage.cluster, stage.client.clone(), &stage.databases).await;
        let rest = Duration::from_secs(self.arguments.rest);
        self.says(&format!("at rest for {rest:?}"));
        let (requests, logins) = (stage.cluster.mark(), stage.databases.mark());
        let begun = Instant::now();
        let counted = async {
            tokio::time::sleep(rest).await;
            let writes = stage.release.writes(requests).len();
            let reads = stage.cluster.reads(requests, &stage.release.user());
            (writes, reads, stage.databases.logins(logins, SILENT), begun.elapsed().as_secs_f64())
        };
        let ((writes, reads, logins, seconds), noticed) = tokio::join!(counted, silent.noticed());
        let at_rest = format!("at rest for {} s", rest.as_secs());
        let each_second = |count: usize| count as f64 / seconds;
        let noticed = noticed.map_or(f64::NAN, |noticed| noticed.as_secs_f64());
        self.add(Figure::new(format!("{at_rest}: writes to the API server"), writes as f64, "").at_most(0.0));
        let requests = Figure::new(
            format!("{at_rest}: requests to the API server per second"),
            each_second(writes + reads),
            "/s",
        );
        self.add(requests.at_most(1.0));
        let logins =
            Figure::new(format!("{at_rest}: logins to PostgreSQL per second"), each_second(logins), "/s");
        self.add(logins.at_most(1.0));
        self.add(Figure::new("a half-open watch: noticed after", noticed, "s").at_most(75.0));
    }

    /// Stops the operator and starts it again; returns the new one.
    async fn restart(&mut self, operator: Operator) -> Operator {
        self.says("restart");
        let mark = self.stage.cluster.mark();
        assert!(operator.terminate().await.success(), "the operator stops in order");
        let begun = Instant::now();
        let operator = self.stage.operator("restarted").await;
        let since = idle(&operator, self.arguments.tenants).await;
        let writes = self.stage.release.writes(mark);
        let took = since.map_or(f64::NAN, |since| since.duration_since(begun).as_secs_f64());
        self.add(Figure::new("restart: idle after", took, "s").at_most(60.0));
        self.add(Figure::new("restart: writes to the API server", writes.len() as f64, "").at_most(0.0));
        operator
    }

    /// Kills the leader while a second operator waits, and changes Webhooks as soon as the second one leads.
    async fn failover(&mut self, leader: Operator, changes: &mut Changes) {
        self.says("failover");
        let second = self.stage.operator("second").await;
        answers(&second, "/readyz", LISTED).await;
        let begun = Instant::now();
        leader.kill();
        second.leads().await;
        self.add(Figure::new("failover: another leader after", begun.elapsed().as_secs_f64(), "s"));
        let times = changes.times(CHANGES.1).await;
        self.change_figures("the same just after a failover", &times, 2_000.0);
        self.says("done");
    }
}

fn tenant_name(number: usize) -> String {
    format!("t{number}")
}

fn webhook_name(number: usize) -> String {
    format!("w{number}")
}
