//! A healthy tenant beside deliveries that are stuck at slow endpoints.

use std::time::Duration;

use super::Bench;
use crate::figures::Figure;
use crate::home::{CONNECTIONS, check};
use crate::load::Load;
use crate::measure::{Delivered, percentile};
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

/// The number of saves of the healthy tenant, in one burst.
const MESSAGES: usize = 1_000;
/// The saves per second of a tenant with ten endpoints; the machine can do more.
const PACE: f64 = 50.0;
/// The time after which the slow endpoints have all the attempts that they get at the same time.
const STUCK: Duration = Duration::from_secs(3);

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let goal = |figure: Figure| figure.at_most(100.0);
    let mut figures = vec![beside(bench, shape, 0, 0, "end to end p99 with nothing beside").await];
    figures.push(goal(beside(bench, shape, 1, 1_000, "end to end p99 beside 1,000 stuck").await));
    figures.push(goal(beside(bench, shape, 1, 10_000, "end to end p99 beside 10,000 stuck").await));
    let name = "end to end p99 beside ten tenants with 1,000 stuck each";
    figures.push(goal(beside(bench, shape, 10, 10_000, name).await));
    for (pace, said) in [(None, "in a burst"), (Some(PACE), "at 50 saves a second")] {
        let name = format!("end to end p99 of nine of ten endpoints, {said}");
        figures.push(own(bench, shape, Behaviour::Prompt, pace, &name).await);
        let name = format!("the same beside a dead one, {said}");
        figures.push(goal(own(bench, shape, Behaviour::Silent, pace, &name).await));
    }
    figures
}

/// Measures a healthy tenant beside `tenants` tenants with one slow endpoint each, to which `stuck` deliveries are
/// queued in all.
async fn beside(bench: &Bench, shape: Shape, tenants: usize, stuck: usize, name: &str) -> Figure {
    let mut all = vec![vec![Behaviour::Prompt]];
    all.extend(vec![vec![Behaviour::Slow]; tenants]);
    let stage = Stage::new(&bench.docket, &all).await;
    let fleet = stage.serve(shape, &[]).await;
    let mut clients = stage.home.clients(&fleet).await;
    let slow = clients.split_off(1);
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let load = |clients, messages| Load {
        apis: fleet.apis.clone(),
        clients,
        connections: CONNECTIONS,
        messages,
        pace: None,
    };
    if stuck > 0 {
        check(&load(slow, stuck).run().await);
        tokio::time::sleep(STUCK).await;
        assert!(stage.home.receiver.stuck() > 0, "nothing is stuck");
    }
    let saves = load(clients, MESSAGES).run().await;
    check(&saves);
    let delivered = Delivered::of(&saves.done, &stage.home.received(MESSAGES).await, 1);
    figure(name, &delivered)
}

/// Measures nine prompt endpoints of a tenant whose tenth endpoint behaves as `last`.
async fn own(bench: &Bench, shape: Shape, last: Behaviour, pace: Option<f64>, name: &str) -> Figure {
    let mut webhooks = vec![Behaviour::Prompt; 9];
    webhooks.push(last);
    let prompt = webhooks.iter().filter(|behaviour| **behaviour == Behaviour::Prompt).count();
    let stage = Stage::new(&bench.docket, &[webhooks]).await;
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, prompt).await;
    let apis = fleet.apis.clone();
    let load = Load { apis, clients, connections: CONNECTIONS, messages: MESSAGES, pace };
    let saves = load.run().await;
    check(&saves);
    let delivered = Delivered::of(&saves.done, &stage.home.received(MESSAGES * prompt).await, 9);
    figure(name, &delivered)
}

/// The p99 from save to delivery; NaN if a delivery was lost.
fn figure(name: &str, delivered: &Delivered) -> Figure {
    let p99 = if delivered.lost == 0 { percentile(&delivered.end_to_end, 99.0) } else { f64::NAN };
    Figure::new(name, p99, "ms")
}
