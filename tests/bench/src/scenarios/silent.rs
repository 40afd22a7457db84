//! Endpoints that accept connections and never respond, from a cold start. The figures are about three others beside them: a
//! healthy tenant, a healthy webhook of the same tenant, and a slow endpoint.

use std::time::{Duration, Instant};

use super::Bench;
use crate::disk::Disk;
use crate::engine;
use crate::figures::Figure;
use crate::home::{CONNECTIONS, check};
use crate::load::{Client, Load, Saved};
use crate::measure::{Delivered, percentile};
use crate::receiver::{Arrival, Behaviour};
use crate::stage::{API, Shape, Stage};

/// The number of tenants with silent endpoints, of webhooks per tenant, and of queued deliveries per tenant and webhook.
const TENANTS: usize = 20;
const WEBHOOKS: usize = 50;
const QUEUED: usize = 4;
/// The number of deliveries that are queued for the slow endpoint: more than are sent while the scenario runs.
const QUEUED_SLOW: usize = 40;
/// A healthy tenant's saves per second, and their number. They take a minute, in which attempts at silent endpoints
/// time out and others follow.
const RATE: f64 = 100.0;
const MESSAGES: usize = 6_000;
/// Half of a worker's slots, which is the largest number of attempts that may be slow. `SLOTS` in
/// `dataplane/src/app.rs` is the number of all slots.
const SLOW_SLOTS: usize = 512;
/// The deliveries in a minute by two places at an endpoint that takes 20 s, without the delivery that has just begun.
const SLOW_IN_A_MINUTE: usize = 5;
/// The time after the last save within which a delivery must come.
const LATE: Duration = Duration::from_secs(5);
/// The saves of the tenant whose endpoint hangs. Those before come as fast as responses do, so that the endpoint has
/// many places; those after come at [`RATE`].
const BEFORE: usize = 2_000;
const AFTER: usize = 800;

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let mut figures = beside(bench, shape).await;
    let goal =
        own(bench, shape, true, "end to end p99 of a webhook whose tenant's other endpoint hangs suddenly")
            .await;
    figures.push(goal.at_most(100.0));
    figures.push(own(bench, shape, false, "the same, if that endpoint still responds").await);
    figures
}

/// Measures two healthy tenants beside a third tenant with the slow endpoint and others with silent ones. The
/// schedule knows that the first tenant's webhook is quick, and knows nothing about the second tenant's.
async fn beside(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let mut tenants = vec![vec![Behaviour::Prompt], vec![Behaviour::Prompt], vec![Behaviour::Slow]];
    tenants.extend(vec![vec![Behaviour::Silent; WEBHOOKS]; TENANTS]);
    let stage = Stage::new(&bench.docket, &tenants).await;
    let clients = queue(&stage, shape).await;
    let fleet = stage.serve(shape, &[]).await;
    let (apis, memory) = (fleet.apis.clone(), fleet.peak_memory());
    let disk = Disk::watch(stage.home.file("disk"));
    let saves =
        Load { apis, clients, connections: 8, messages: 2 * MESSAGES, pace: Some(2.0 * RATE) }.run().await;
    check(&saves);
    let disk = disk.end();
    let receiver = &stage.home.receiver;
    let (late, waiting) = (receiver.late(), receiver.most_waiting());
    let arrivals = stage.home.received_within(2 * MESSAGES, LATE).await;
    assert!(receiver.stuck() >= SLOW_SLOTS / 2, "few silent endpoints had a POST");
    let mut figures = Vec::new();
    for (tenant, name) in [(0, "a quick webhook"), (1, "a quick webhook of which nothing is known")] {
        let saves: Vec<Saved> = saves.done.iter().filter(|save| save.tenant == tenant).copied().collect();
        let arrivals: Vec<Arrival> = arrivals.iter().filter(|came| came.tenant == tenant).copied().collect();
        let delivered = Delivered::of(&saves, &arrivals, 1);
        let end_to_end = |percent| {
            let name = format!("{name} beside 1,000 silent ones: end to end p{percent}");
            Figure::new(name, percentile(&delivered.end_to_end, percent), "ms")
        };
        figures.extend([
            end_to_end(50.0),
            end_to_end(99.0).at_most(100.0),
            Figure::new("not delivered 5 s after the last save", delivered.lost as f64, "").at_most(0.0),
            Figure::new("duplicates", delivered.duplicates as f64, "").at_most(0.0),
        ]);
    }
    figures.extend([
        Figure::new("attempts at silent and slow endpoints at once, at most", waiting as f64, "")
            .at_most((SLOW_SLOTS * shape.workers()) as f64),
        Figure::new("deliveries in a minute to an endpoint that takes 20 s", late as f64, "")
            .at_least(SLOW_IN_A_MINUTE as f64),
        Figure::new("growth of the peak memory since the start", fleet.peak_memory() - memory, "MB"),
    ]);
    figures.extend(disk);
    figures.extend(engine::figures(&fleet).await);
    figures
}

/// Lets the schedule learn the first tenant's webhook, then queues deliveries while no worker runs. Returns the
/// clients of the healthy tenants.
async fn queue(stage: &Stage, shape: Shape) -> Vec<Client> {
    let fleet = stage.serve(shape, &[]).await;
    let mut clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients[..1], 1).await;
    fleet.terminate().await;
    let fleet = stage.serve_roles(&[API], &[]).await;
    let silent = clients.split_off(3);
    let slow = clients.split_off(2);
    for (clients, messages) in [(silent, TENANTS * QUEUED), (slow, QUEUED_SLOW)] {
        let apis = fleet.apis.clone();
        check(&Load { apis, clients, connections: 8, messages, pace: None }.run().await);
    }
    fleet.terminate().await;
    assert_eq!(stage.home.receiver.stuck(), 0, "no worker runs");
    clients
}

/// Measures the first webhook of a tenant whose second webhook may hang while it has many places.
async fn own(bench: &Bench, shape: Shape, hangs: bool, name: &str) -> Figure {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt, Behaviour::Hanging]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let load = |connections, messages, pace| Load {
        apis: fleet.apis.clone(),
        clients: clients.clone(),
        connections,
        messages,
        pace,
    };
    let burst = load(CONNECTIONS, BEFORE, None).start();
    while burst.answered() < BEFORE / 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if hangs {
        stage.home.receiver.hang();
    }
    let hung = Instant::now();
    let mut saves = burst.end().await;
    check(&saves);
    let later = load(8, AFTER, Some(RATE)).run().await;
    check(&later);
    saves.done.extend(later.done);
    let after: Vec<Saved> = saves.done.iter().filter(|save| save.begun > hung).copied().collect();
    let arrivals = stage.home.received_within(BEFORE + AFTER, LATE).await;
    assert_eq!(stage.home.receiver.most_waiting() > 0, hangs);
    end_to_end(name, &Delivered::of(&after, &arrivals, 1), 99.0)
}

/// A percentile of the times from save to delivery; NaN if a delivery was lost.
fn end_to_end(name: &str, delivered: &Delivered, percent: f64) -> Figure {
    let time = if delivered.lost == 0 { percentile(&delivered.end_to_end, percent) } else { f64::NAN };
    Figure::new(name, time, "ms")
}
