//! Injects all faults of a server in turn while orders are saved. After each one, saves must work again.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::hook::Manner;
use crate::load::Load;
use crate::outcome::{Budget, Met, Outcome, conclude};
use crate::random::Random;
use crate::world::{World, within};

/// The time within which orders must be saved again after a fault.
const BACK: Duration = Duration::from_secs(30);
/// The number of acknowledged saves before the next fault.
const SAVES: usize = 20;

/// Injects the faults in turn, and ends the load. `happen` injects a fault, takes it back, and returns whether it met something.
pub(super) async fn each_in_turn<F: Copy + Debug + Ord>(
    world: &mut World,
    load: Load,
    faults: &[F],
    mut budget: Budget,
    mut random: Random,
    happen: impl AsyncFn(F, &mut World, &mut Random) -> bool,
) -> Outcome {
    let (mut met, mut slowest, mut stuck) = (Met::default(), Duration::ZERO, Vec::new());
    for fault in faults.iter().cycle() {
        if !budget.next() {
            break;
        }
        met.note(*fault, happen(*fault, world, &mut random).await);
        match saves_again(&load).await {
            Some(time) => slowest = slowest.max(time),
            None => stuck.push(*fault),
        }
        world.hook.receiver.forget();
    }
    world.hook.turn(Manner::default());
    let mut outcome = conclude(world, load, budget.done()).await;
    met.report(&mut outcome);
    outcome.figure("saves again after a fault, at the latest, in ms", slowest.as_millis());
    outcome.expect(stuck.is_empty(), || format!("no saves within {BACK:?} after {stuck:?}"));
    outcome
}

/// Waits until orders are saved again; returns how long that took.
async fn saves_again(load: &Load) -> Option<Duration> {
    let (begun, saves) = (Instant::now(), load.acknowledged());
    within(BACK, async || load.acknowledged() >= saves + SAVES).await.then(|| begun.elapsed())
}
