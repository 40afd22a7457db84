//! The same burst with several processes of the roles api and worker.

use super::{Bench, burst};
use crate::figures::Figure;
use crate::receiver::Behaviour;
use crate::stage::{API, DETECTOR, Stage, WORKER};

pub(super) async fn run(bench: &Bench) -> Vec<Figure> {
    let (mut figures, mut lost, mut first) = (Vec::new(), 0, None);
    for (apis, workers) in [(1, 1), (2, 1), (2, 2), (2, 4)] {
        let roles = [vec![API; apis], vec![WORKER; workers], vec![DETECTOR]].concat();
        let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
        let fleet = stage.serve_roles(&roles, &[]).await;
        let burst = burst::burst_on(&stage, fleet, bench.sizes.messages).await;
        lost += burst.delivered.lost;
        let rate = burst.delivered.rate();
        let of = format!("{apis} api, {workers} worker");
        let goal = *first.get_or_insert(rate) * 0.9;
        let figure = Figure::new(format!("{of}: deliveries per second"), rate, "/s");
        figures.push(if apis + workers > 2 { figure.at_least(goal) } else { figure });
        // The goals for costs hold for one process, so these figures have none.
        figures.extend(
            burst
                .costs
                .into_iter()
                .map(|cost| Figure::new(format!("{of}: {}", cost.name), cost.value, cost.unit)),
        );
    }
    figures.push(Figure::new("lost", lost as f64, "").at_most(0.0));
    figures
}
