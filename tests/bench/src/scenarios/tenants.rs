//! Many tenants, each with a database: busy ones, and idle ones.

use std::time::{Duration, Instant};

use super::Bench;
use crate::engine;
use crate::figures::Figure;
use crate::load::Load;
use crate::measure::{Delivered, percentile, save_times};
use crate::process::memory;
use crate::receiver::Behaviour;
use crate::stage::{Role, Shape, Stage};

/// Busy tenants.
const BUSY: Busy = Busy { tenants: 500, connections: 100, save_p99_ms: 60.0 };
/// Tenants with a connection each, and the same tenants with one for five of them.
const CROWDED: [Busy; 2] = [
    Busy { tenants: 200, connections: 260, save_p99_ms: 250.0 },
    Busy { tenants: 200, connections: 40, save_p99_ms: 250.0 },
];
/// How long the saves come.
const SECONDS: usize = 30;
/// Idle tenants. What they cost is measured for so long, and then what PostgreSQL itself does with so many databases, which is
/// autovacuum.
const IDLE: usize = 1_000;
const IDLE_FOR: Duration = Duration::from_secs(120);
const ALONE_FOR: Duration = Duration::from_secs(60);
/// Tenants are at rest when at most this number of connections to their databases was opened within this time. A
/// minute or two after the databases were made, autovacuum analyzes each once, and the server notices that and opens
/// connections.
const REST: (f64, Duration) = (IDLE as f64 / 100.0, Duration::from_secs(150));
/// The longest time until tenants are at rest.
const LONGEST_REST: Duration = Duration::from_secs(900);

/// Tenants that each save an order per second.
#[derive(Clone, Copy)]
struct Busy {
    tenants: usize,
    /// The connections of all processes together to PostgreSQL, in the chart's proportions.
    connections: u16,
    /// What 99 % of the saves must reach.
    save_p99_ms: f64,
}

pub(super) async fn busy(bench: &Bench, shape: Shape) -> Vec<Figure> {
    BUSY.run(bench, shape).await
}

pub(super) async fn crowded(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let mut figures = Vec::new();
    for busy in CROWDED {
        let named = |figure: Figure| Figure {
            name: format!("{} connections: {}", busy.connections, figure.name),
            ..figure
        };
        figures.extend(busy.run(bench, shape).await.into_iter().map(named));
    }
    figures
}

impl Busy {
    async fn run(self, bench: &Bench, shape: Shape) -> Vec<Figure> {
        let Self { tenants, connections, save_p99_ms } = self;
        let stage = Stage::new(&bench.docket, &vec![vec![Behaviour::Prompt]; tenants]).await;
        let roles = shape.processes();
        let all: u16 = roles.iter().map(|role| role.connections).sum();
        let share = |role: &Role| Role { connections: role.connections * connections / all, ..*role };
        let fleet = stage.serve_roles(&roles.iter().map(share).collect::<Vec<_>>(), &[]).await;
        let clients = stage.home.clients(&fleet).await;
        let load = |clients, messages| {
            let apis = fleet.apis.clone();
            Load { apis, clients, connections: 64, messages, pace: Some(tenants as f64) }
        };
        // Each of them once, which opens its database.
        let warm = load(clients.clone(), tenants).run().await;
        stage.home.received(warm.done.len()).await;
        let (begun, used, logins) = (Instant::now(), stage.used(&fleet.processes), stage.logins().await);
        let messages = tenants * SECONDS;
        let saves = load(clients, messages).run().await;
        let seconds = begun.elapsed().as_secs_f64();
        let (used, logins) = (stage.used(&fleet.processes).since(&used), stage.logins().await - logins);
        // A save whose answer came too late may be delivered too, so more may come than were acknowledged.
        let arrivals = stage.home.received(messages).await;
        let delivered = Delivered::of(&saves.done, &arrivals, 1);
        if let Some(refusal) = &saves.refusal {
            eprintln!("the first refusal: {refusal}");
        }
        let times = save_times(&saves.done);
        let mut figures = vec![
            Figure::new("save p50", percentile(&times, 50.0), "ms"),
            Figure::new("save p99", percentile(&times, 99.0), "ms").at_most(save_p99_ms),
            Figure::new("end to end p99", percentile(&delivered.end_to_end, 99.0), "ms"),
            Figure::new("errors", (saves.refused + saves.broken) as f64, "").at_most(0.0),
            Figure::new("lost", delivered.lost as f64, "").at_most(0.0),
            Figure::new("cores of PostgreSQL", used.postgres / seconds, "").at_most(0.8),
            Figure::new("cores of the server", used.server / seconds, ""),
            Figure::new("cores of Redis", used.redis / seconds, ""),
            Figure::new("logins to PostgreSQL per second", logins / seconds, "/s"),
        ];
        figures.extend(engine::figures(&fleet).await);
        figures
    }
}

pub(super) async fn idle(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let few = resident(bench, shape).await;
    let stage = Stage::new(&bench.docket, &vec![vec![Behaviour::Prompt]; IDLE]).await;
    let fleet = stage.serve(shape, &[]).await;
    rest(&stage).await;
    let (begun, used, logins) = (Instant::now(), stage.used(&fleet.processes), stage.logins().await);
    tokio::time::sleep(IDLE_FOR).await;
    let seconds = begun.elapsed().as_secs_f64();
    let (used, logins) = (stage.used(&fleet.processes).since(&used), stage.logins().await - logins);
    let resident: f64 = fleet.processes.iter().map(|process| memory(process.id())).sum();
    fleet.terminate().await;
    let (ended, alone) = (Instant::now(), stage.used(&[]));
    tokio::time::sleep(ALONE_FOR).await;
    let alone = stage.used(&[]).since(&alone).postgres / ended.elapsed().as_secs_f64();
    vec![
        Figure::new("logins to PostgreSQL per second", logins / seconds, "/s").at_most(5.0),
        Figure::new("cores of PostgreSQL", used.postgres / seconds, ""),
        Figure::new("cores of PostgreSQL without the server", alone, ""),
        Figure::new("cores of PostgreSQL for the server", used.postgres / seconds - alone, "").at_most(0.02),
        Figure::new("cores of the server", used.server / seconds, ""),
        Figure::new("resident memory of the server", resident, "MB"),
        Figure::new("resident memory per tenant", (resident - few) * 1_024.0 / (IDLE - 1) as f64, "KB")
            .at_most(5.0),
    ]
}

async fn rest(stage: &Stage) {
    let ((few, time), begun, mut before) = (REST, Instant::now(), 0.0);
    loop {
        tokio::time::sleep(time).await;
        let now = stage.logins().await;
        if now - before <= few {
            return;
        }
        assert!(begun.elapsed() < LONGEST_REST, "{} logins in {time:?}", now - before);
        before = now;
    }
}

/// The memory of the same processes with one tenant, in MB.
async fn resident(bench: &Bench, shape: Shape) -> f64 {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    fleet.processes.iter().map(|process| memory(process.id())).sum()
}
