//! A burst ten times as long: neither the rate nor the cost may depend on the rows that are stored.

use super::{Bench, burst};
use crate::figures::Figure;
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let messages = bench.sizes.messages;
    let mut bursts = Vec::new();
    for messages in [messages, messages * 10] {
        let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
        bursts.push(burst::burst(&stage, shape, messages).await);
    }
    let [short, long] = &bursts[..] else { unreachable!("two bursts") };
    let lost = long.delivered.lost + short.delivered.lost;
    vec![
        Figure::new("rate, of the short burst's", long.delivered.rate() / short.delivered.rate(), "")
            .at_least(0.95),
        Figure::new("rate of the short burst", short.delivered.rate(), "/s"),
        Figure::new("rate of the long burst", long.delivered.rate(), "/s"),
        Figure::new("buffers read per message in the short burst", short.buffers, ""),
        // The goal allows 15 % more, because a larger index may have a further level.
        Figure::new("buffers read per message in the long burst", long.buffers, "")
            .at_most(short.buffers * 1.15),
        Figure::new("lost", lost as f64, "").at_most(0.0),
    ]
}
