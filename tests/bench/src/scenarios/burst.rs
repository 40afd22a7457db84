//! Many saves, as fast as the connections have responses, beside the bare forwarder in the same run.

use std::time::Duration;

use super::Bench;
use crate::engine;
use crate::figures::Figure;
use crate::home::{CONNECTIONS, Fleet, WARM_UP, check};
use crate::load::{Load, Saves};
use crate::measure::{Delivered, percentile, save_times};
use crate::order;
use crate::process::cpu;
use crate::receiver::Behaviour;
use crate::sql;
use crate::stage::{Shape, Stage};

/// The time after the last arrival within which the ends of all attempts are stored.
const SETTLED: Duration = Duration::from_secs(1);

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let tenants = [vec![Behaviour::Prompt]];
    let stage = match bench.sizes.profile {
        false => Stage::new(&bench.docket, &tenants).await,
        true => Stage::with_statements(&bench.docket, &tenants).await,
    };
    let messages = bench.sizes.messages;
    let (before, bare_cpu) = bare(&stage, messages).await;
    stage.home.receiver.take_longer(Duration::from_millis(bench.sizes.receiver_takes));
    let burst = burst(&stage, shape, messages).await;
    stage.home.receiver.take_longer(Duration::ZERO);
    if bench.sizes.profile {
        eprintln!("{}", stage.profile((messages + WARM_UP) as f64).await);
    }
    let (after, _) = bare(&stage, messages).await;
    let bare = (before + after) / 2.0;

    let Burst { saves, delivered, .. } = &burst;
    let times = save_times(&saves.done);
    let mut figures = vec![
        Figure::new("deliveries per second", delivered.rate(), "/s").at_least(10_000.0),
        Figure::new("of the bare forwarder's", delivered.rate() / bare, "").at_least(0.35),
        Figure::new("bare forwarder: deliveries per second", bare, "/s"),
        Figure::new("bare forwarder: CPU per message", bare_cpu, "ms"),
        Figure::new("lost", delivered.lost as f64, "").at_most(0.0),
        Figure::new("duplicates", delivered.duplicates as f64, "").at_most(0.0),
        Figure::new("save p50", percentile(&times, 50.0), "ms"),
        Figure::new("save p99", percentile(&times, 99.0), "ms").at_most(20.0),
        Figure::new("end to end p50", percentile(&delivered.end_to_end, 50.0), "ms"),
        Figure::new("end to end p99", percentile(&delivered.end_to_end, 99.0), "ms").at_most(25.0),
    ];
    figures.extend(burst.costs);
    figures
}

/// The results and costs of a burst.
pub(super) struct Burst {
    pub(super) saves: Saves,
    pub(super) delivered: Delivered,
    /// The buffers that PostgreSQL read per message.
    pub(super) buffers: f64,
    /// The figures of all costs.
    pub(super) costs: Vec<Figure>,
}

/// Runs a burst against new processes of a shape. The stage's first tenant has one webhook.
pub(super) async fn burst(stage: &Stage, shape: Shape, messages: usize) -> Burst {
    let fleet = stage.serve(shape, &[]).await;
    burst_on(stage, fleet, messages).await
}

/// Like [`burst`], but against the processes of `fleet`, which are ended.
pub(super) async fn burst_on(stage: &Stage, fleet: Fleet, messages: usize) -> Burst {
    let sizes = sql::sizes(stage).await;
    let counted = stage.counted(0).await;
    let clients = vec![stage.home.clients(&fleet).await.swap_remove(0)];
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let peak_before = fleet.peak_memory();
    fleet.forget_peak_memory();
    let (used, wal) = (stage.used(&fleet.processes), stage.wal().await);
    let load = Load { apis: fleet.apis.clone(), clients, connections: CONNECTIONS, messages, pace: None };
    let saves = load.run().await;
    check(&saves);
    let arrivals = stage.home.received(messages).await;
    tokio::time::sleep(SETTLED + stage.home.receiver.takes()).await;
    let (used, wal) = (stage.used(&fleet.processes).since(&used), stage.wal().await - wal);
    let (memory, engine) = (fleet.peak_memory(), engine::figures(&fleet).await);
    fleet.terminate().await;
    let now = stage.counted(0).await;
    let grown = sql::sizes(stage).await;
    // PostgreSQL's own counts are complete only after the processes have ended. They include the warm-up.
    let all = (messages + WARM_UP) as f64;
    let buffers = (now.buffers - counted.buffers) / all;
    let delivered = Delivered::of(&saves.done, &arrivals, 1);
    let per = |total: f64| total / messages as f64;
    let all_cpu = per((used.server + used.postgres + used.redis) * 1_000.0);
    let mut costs = vec![Figure::new("CPU per message", all_cpu, "ms").at_most(0.13)];
    costs.extend(used.cpu_figures("CPU per message", messages));
    costs.extend([
        Figure::new("peak memory of the largest process", memory, "MB").at_most(40.0),
        Figure::new("its peak memory before, with a sign-in", peak_before, "MB"),
        Figure::new("PostgreSQL: buffers read per message", buffers, ""),
        Figure::new("PostgreSQL: commits per message", (now.commits - counted.commits) / all, ""),
        Figure::new("PostgreSQL: bytes of WAL per message", per(wal), "B"),
        Figure::new("PostgreSQL: bytes of tables per message", (grown.tables - sizes.tables) / all, "B"),
        Figure::new("PostgreSQL: bytes of indexes per message", (grown.indexes - sizes.indexes) / all, "B"),
        Figure::new("Redis: calls per message, those of scripts too", per(used.redis_calls), ""),
        Figure::new("Redis: bytes per message, in and out", per(used.redis_bytes), "B"),
    ]);
    costs.extend(engine);
    Burst { saves, delivered, buffers, costs }
}

/// Runs the same burst through the bare forwarder; returns deliveries per second and CPU milliseconds per message.
pub(super) async fn bare(stage: &Stage, messages: usize) -> (f64, f64) {
    let bare = stage.home.bare(&[]).await;
    let clients = vec![order::client(0, "none", "none")];
    stage.home.warm_up(&[bare.api], &clients, 1).await;
    let before = cpu(bare.id());
    let load = Load { apis: vec![bare.api], clients, connections: CONNECTIONS, messages, pace: None };
    let saves = load.run().await;
    check(&saves);
    let arrivals = stage.home.received(messages).await;
    let used = cpu(bare.id()) - before;
    let delivered = Delivered::of(&saves.done, &arrivals, 1);
    assert_eq!((delivered.lost, delivered.duplicates), (0, 0), "the bare forwarder loses nothing");
    (delivered.rate(), used * 1_000.0 / messages as f64)
}
