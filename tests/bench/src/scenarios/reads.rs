//! Reads of orders beside a bare handler with the same query, and token requests beside Argon2id alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Block, Params, Version};

use super::Bench;
use crate::figures::Figure;
use crate::home::CONNECTIONS;
use crate::load::{Client, Load, Saves};
use crate::measure::{percentile, save_times};
use crate::order;
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

/// The length of each measurement.
const MEASURED: Duration = Duration::from_secs(5);
/// The saves per second while tokens are requested.
const SAVES: f64 = 100.0;
/// The Argon2id parameters of Docket's passwords: memory in KiB, passes, lanes.
const ARGON2: (u32, u32, u32) = (19_456, 2, 1);

/// Measures authorized `GET /Orders/Get`.
pub(super) async fn get(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    // These saves create the orders that are read.
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let reader = stage.home.contact(&fleet).await;
    let client = |order: usize| {
        let request = reader.request(&format!("/Orders/Get?webOrderId=W{order:08}")).into();
        Client { tenant: 0, request, number: order::number }
    };
    let clients: Vec<_> = (1..=100).map(client).collect();
    let bare = stage.home.bare(&[format!("--database={}", stage.url(0))]).await;
    let load = |apis| Load {
        apis,
        clients: clients.clone(),
        connections: CONNECTIONS,
        messages: usize::MAX,
        pace: None,
    };
    let (first, _) = measured(load(vec![bare.api])).await;
    let before = stage.used(&fleet.processes);
    let (docket, saves) = measured(load(fleet.apis.clone())).await;
    let docket_used = stage.used(&fleet.processes).since(&before);
    let bare_process = std::slice::from_ref(&bare);
    let before = stage.used(bare_process);
    let (second, bare_saves) = measured(load(vec![bare.api])).await;
    let bare_used = stage.used(bare_process).since(&before);
    let bare = (first + second) / 2.0;
    let mut figures = vec![
        Figure::new("GET /Orders/Get per second", docket, "/s"),
        Figure::new("of the bare handler's", docket / bare, "").at_least(0.85),
        Figure::new("bare handler: GET per second", bare, "/s"),
        Figure::new("p99", percentile(&save_times(&saves.done), 99.0), "ms"),
        Figure::new("errors", (saves.refused + saves.broken) as f64, "").at_most(0.0),
    ];
    let [docket, bare] = [(docket_used, saves), (bare_used, bare_saves)].map(|(used, saves)| {
        [used.server, used.postgres, used.bench].map(|seconds| seconds * 1_000.0 / saves.done.len() as f64)
    });
    figures.extend([
        Figure::new("CPU per GET: server", docket[0], "ms"),
        Figure::new("CPU per GET: PostgreSQL", docket[1], "ms"),
        Figure::new("CPU per GET: load generator", docket[2], "ms"),
        Figure::new("bare handler: CPU per GET: handler", bare[0], "ms"),
        Figure::new("bare handler: CPU per GET: PostgreSQL", bare[1], "ms"),
        Figure::new("bare handler: CPU per GET: load generator", bare[2], "ms"),
    ]);
    figures
}

/// Measures `POST /Auth/Token`.
pub(super) async fn tokens(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let apis = fleet.apis.clone();
    let sign_ins = || Load {
        apis: apis.clone(),
        clients: vec![stage.home.sign_ins()],
        connections: 8,
        messages: usize::MAX,
        pace: None,
    };
    let first = argon2id();
    let before = stage.used(&fleet.processes);
    let (alone, refused) = measured(sign_ins()).await;
    let used = stage.used(&fleet.processes).since(&before);
    let per_token = |seconds: f64| seconds * 1_000.0 / refused.done.len() as f64;
    let raw = (first + argon2id()) / 2.0;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let messages = (SAVES * MEASURED.as_secs_f64()) as usize;
    let saves = Load { apis: apis.clone(), clients, connections: 8, messages, pace: Some(SAVES) }.start();
    let (beside, _) = measured(sign_ins()).await;
    let saves = saves.end().await;
    vec![
        Figure::new("tokens per second", alone, "/s"),
        Figure::new("of Argon2id alone, on all cores", alone / raw, "").at_least(0.9),
        Figure::new("Argon2id alone, on all cores", raw, "/s"),
        Figure::new("Argon2id alone: CPU per hash", cores * 1_000.0 / raw, "ms"),
        Figure::new("CPU per token: server", per_token(used.server), "ms"),
        Figure::new("CPU per token: PostgreSQL and Redis", per_token(used.postgres + used.redis), "ms"),
        Figure::new("CPU per token: load generator", per_token(used.bench), "ms"),
        Figure::new("tokens per second beside 100 saves per second", beside, "/s"),
        Figure::new("these saves, p99", percentile(&save_times(&saves.done), 99.0), "ms").at_most(100.0),
        Figure::new("refused sign-ins", refused.refused as f64, "").at_most(0.0),
        Figure::new("failed saves", (saves.refused + saves.broken) as f64, "").at_most(0.0),
    ]
}

/// Runs a load for [`MEASURED`]; returns successful responses per second, and the result.
async fn measured(load: Load) -> (f64, Saves) {
    let (begun, running) = (Instant::now(), load.start());
    tokio::time::sleep(MEASURED).await;
    running.halt();
    let saves = running.end().await;
    (saves.done.len() as f64 / begun.elapsed().as_secs_f64(), saves)
}

/// Measures Argon2id on all cores, with nothing else to do; returns hashes per second.
fn argon2id() -> f64 {
    let (memory, passes, lanes) = ARGON2;
    let params = Params::new(memory, passes, lanes, None).expect("they are in range");
    let (done, begun) = (AtomicUsize::new(0), Instant::now());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
                let mut blocks = vec![Block::default(); params.block_count()];
                while begun.elapsed() < MEASURED {
                    let mut out = [0; 32];
                    let hashed = argon2.hash_password_into_with_memory(
                        b"a-password-for-the-benchmark",
                        b"sixteen bytes ok",
                        &mut out,
                        &mut blocks,
                    );
                    hashed.expect("the blocks are enough");
                    std::hint::black_box(&out);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}
