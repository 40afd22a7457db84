//! A steady load of few saves: the time that one order takes when nothing waits.

use super::Bench;
use crate::engine;
use crate::figures::Figure;
use crate::home::check;
use crate::load::Load;
use crate::measure::{Delivered, percentile, save_times};
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

const RATE: f64 = 100.0;
const MESSAGES: usize = 2_000;

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let used = stage.used(&fleet.processes);
    let load =
        Load { apis: fleet.apis.clone(), clients, connections: 8, messages: MESSAGES, pace: Some(RATE) };
    let saves = load.run().await;
    check(&saves);
    let arrivals = stage.home.received(MESSAGES).await;
    let used = stage.used(&fleet.processes).since(&used);
    let delivered = Delivered::of(&saves.done, &arrivals, 1);
    let times = save_times(&saves.done);
    let mut figures = vec![
        Figure::new("end to end p50", percentile(&delivered.end_to_end, 50.0), "ms").at_most(1.0),
        Figure::new("end to end p99", percentile(&delivered.end_to_end, 99.0), "ms").at_most(2.5),
        Figure::new("end to end max", percentile(&delivered.end_to_end, 100.0), "ms"),
        Figure::new("save p50", percentile(&times, 50.0), "ms"),
        Figure::new("save p99", percentile(&times, 99.0), "ms"),
        Figure::new("lost", delivered.lost as f64, "").at_most(0.0),
        Figure::new("duplicates", delivered.duplicates as f64, "").at_most(0.0),
        Figure::new("Redis: calls per message, those of scripts too", used.redis_calls / MESSAGES as f64, ""),
    ];
    figures.extend(used.cpu_figures("CPU per message", MESSAGES));
    figures.extend(engine::figures(&fleet).await);
    figures
}
