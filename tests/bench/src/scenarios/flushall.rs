//! Redis loses everything under load.

use std::time::{Duration, Instant};

use super::Bench;
use crate::figures::Figure;
use crate::load::Load;
use crate::measure::{Delivered, percentile};
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

const RATE: f64 = 200.0;
const MESSAGES: usize = 3_000;
/// The time after the start of the load at which Redis is emptied.
const AFTER: Duration = Duration::from_secs(4);
/// The longest time of a save and of a delivery that counts as normal.
const NORMAL: Duration = Duration::from_millis(100);

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let apis = fleet.apis.clone();
    let load = Load { apis, clients, connections: 8, messages: MESSAGES, pace: Some(RATE) };
    let running = load.start();
    tokio::time::sleep(AFTER).await;
    let emptied = Instant::now();
    stage.redis.cli(&["FLUSHALL"]);
    let saves = running.end().await;
    let arrivals = stage.home.received(saves.done.len()).await;
    let delivered = Delivered::of(&saves.done, &arrivals, 1);
    let late = |at: Instant, order: u64| {
        let save = saves.done.iter().find(|save| save.order == order);
        save.is_some_and(|save| save.took > NORMAL || at - save.begun > NORMAL)
    };
    // Delays before Redis was emptied are not its fault.
    let after = arrivals.iter().filter(|arrival| arrival.at > emptied);
    let last = after.filter(|arrival| late(arrival.at, arrival.order)).map(|arrival| arrival.at).max();
    let normal = last.map_or(Duration::ZERO, |last| last - emptied);
    vec![
        Figure::new("lost", delivered.lost as f64, "").at_most(0.0),
        Figure::new("duplicates", delivered.duplicates as f64, ""),
        Figure::new("saves that failed", (saves.refused + saves.broken) as f64, "").at_most(0.0),
        Figure::new("normal again, below 100 ms end to end, after", normal.as_secs_f64(), "s").at_most(2.0),
        Figure::new("end to end max", percentile(&delivered.end_to_end, 100.0), "ms"),
    ]
}
