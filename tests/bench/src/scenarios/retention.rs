//! Retention deletes a long history while orders are saved.

use std::time::Duration;

use super::Bench;
use crate::figures::Figure;
use crate::load::Load;
use crate::measure::{Delivered, percentile, save_times};
use crate::receiver::Behaviour;
use crate::sql;
use crate::stage::{Shape, Stage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The time after its start at which a process begins to delete.
const FIRST: Duration = Duration::from_secs(60);
/// The length of the measurement while a process deletes.
const WATCHED: Duration = Duration::from_secs(60);

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    fleet.terminate().await;
    sql::add_history(&stage, bench.sizes.history.unwrap_or(1_000_000) as i64, 28 * DAY, 2 * DAY).await;
    let fleet = stage.serve(shape, &["--delivery-retention=1d"]).await;
    let old = sql::ended_before(&stage, DAY).await;
    let rate = bench.sizes.rate;
    let load = |seconds: Duration| {
        let messages = (seconds.as_secs_f64() * rate) as usize;
        let (apis, clients) = (fleet.apis.clone(), clients.clone());
        Load { apis, clients, connections: 64, messages, pace: Some(rate) }
    };
    let before = load(FIRST - Duration::from_secs(10)).run().await;
    stage.home.received(before.done.len()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let during = load(WATCHED).run().await;
    let left = sql::ended_before(&stage, DAY).await;
    let arrivals = stage.home.received(during.done.len()).await;
    let delivered = Delivered::of(&during.done, &arrivals, 1);
    let (quiet, busy) = (save_times(&before.done), save_times(&during.done));
    let errors = before.refused + before.broken + during.refused + during.broken;
    let quiet_p99 = percentile(&quiet, 99.0);
    vec![
        Figure::new("saves per second", during.done.len() as f64 / WATCHED.as_secs_f64(), "/s"),
        Figure::new("deleted per second, at least", (old - left) as f64 / WATCHED.as_secs_f64(), "/s")
            .at_least(rate),
        Figure::new("still to be deleted", left as f64, ""),
        Figure::new("save p99 before", quiet_p99, "ms"),
        Figure::new("save p99 meanwhile", percentile(&busy, 99.0), "ms").at_most(quiet_p99 * 1.5),
        Figure::new("end to end p99 meanwhile", percentile(&delivered.end_to_end, 99.0), "ms"),
        Figure::new("saves that failed", errors as f64, "").at_most(0.0),
        Figure::new("lost", delivered.lost as f64, "").at_most(0.0),
    ]
}
