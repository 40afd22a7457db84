//! One tenant with ten webhooks, which all get each order.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Bench;
use crate::engine;
use crate::figures::Figure;
use crate::home::{CONNECTIONS, check};
use crate::load::Load;
use crate::measure::{Delivered, percentile};
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

const WEBHOOKS: usize = 10;
const MESSAGES: usize = 1_000;
/// The number of lone messages, and their pace: each has the machine to itself.
const LONE: usize = 100;
const LONE_RATE: f64 = 10.0;

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt; WEBHOOKS]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, WEBHOOKS).await;
    let warm = stage.home.receiver.handshakes();

    let load =
        Load { apis: fleet.apis.clone(), clients, connections: CONNECTIONS, messages: MESSAGES, pace: None };
    let used = stage.used(&fleet.processes);
    let saves = load.clone().run().await;
    check(&saves);
    let arrivals = stage.home.received(MESSAGES * WEBHOOKS).await;
    let handshakes = stage.home.receiver.handshakes();
    let burst = Delivered::of(&saves.done, &arrivals, WEBHOOKS as u32);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = stage.used(&fleet.processes).since(&used);

    let load = Load { connections: 1, messages: LONE, pace: Some(LONE_RATE), ..load };
    let saves = load.run().await;
    check(&saves);
    let arrivals = stage.home.received(LONE * WEBHOOKS).await;
    let lone = Delivered::of(&saves.done, &arrivals, WEBHOOKS as u32);
    let mut last: HashMap<u64, Instant> = HashMap::new();
    for arrival in &arrivals {
        let at = last.entry(arrival.order).or_insert(arrival.at);
        *at = arrival.at.max(*at);
    }
    let all_in = |save: &crate::load::Saved| Some(*last.get(&save.order)? - save.begun);
    let mut all_in: Vec<_> = saves.done.iter().filter_map(all_in).collect();
    all_in.sort_unstable();
    let mut figures = vec![
        Figure::new("burst of 1,000: deliveries per second", burst.rate(), "/s").at_least(15_000.0),
        Figure::new("burst of 1,000: end to end p99", percentile(&burst.end_to_end, 99.0), "ms"),
        Figure::new("burst of 1,000: new TLS connections", (handshakes - warm) as f64, ""),
        Figure::new("lone message, all ten in, p50", percentile(&all_in, 50.0), "ms").at_most(3.0),
        Figure::new("lone message, all ten in, p99", percentile(&all_in, 99.0), "ms"),
        Figure::new("lost", (burst.lost + lone.lost) as f64, "").at_most(0.0),
        Figure::new("duplicates", (burst.duplicates + lone.duplicates) as f64, "").at_most(0.0),
    ];
    figures.extend(used.cpu_figures("burst of 1,000: CPU per delivery", MESSAGES * WEBHOOKS));
    figures.extend(engine::figures(&fleet).await);
    figures
}
