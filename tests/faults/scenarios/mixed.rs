//! All faults mixed at random while receivers fail, hang and close connections (T-2), and secrets that rotate under faults (T-13).

use std::time::Duration;

use crate::checker::{Post, is_signed};
use crate::hook::Manner;
use crate::outcome::{Budget, Met, Outcome, conclude};
use crate::points::Point;
use crate::random::Random;
use crate::scenarios::kills::kill_at;
use crate::scenarios::{databases, stores};
use crate::world::{Plan, World, within};

/// What happens in a trial.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Kill(Point),
    Pause,
    Database(databases::Fault),
    Store(stores::Fault),
    /// The connections of receivers are reset.
    Receivers,
}

fn trouble(random: &mut Random) -> Trouble {
    match random.below(10) {
        0..4 => Trouble::Kill(random.one_of(&Point::OF_ATTEMPTS)),
        4 => Trouble::Pause,
        5..7 => Trouble::Database(random.one_of(&databases::Fault::ALL)),
        7..9 => Trouble::Store(random.one_of(&stores::Fault::ALL)),
        _ => Trouble::Receivers,
    }
}

/// Four of ten POSTs fail, one of ten hangs, one of ten is closed. A trial is a fault.
pub(crate) async fn faults(mut budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { failing: 40, hanging: 10, closing: 10, slow: 30, takes_ms: 500 };
    let plan = Plan {
        tenants: 3,
        processes: &["api", "api,worker", "worker", "worker"],
        settings: "max_connections = 150\n",
        manner,
        ..Plan::default()
    };
    let mut world = World::start(plan, &mut random).await;
    let load = world.load(4, 40);
    let mut met = Met::default();
    while budget.next() {
        let victim = usize::try_from(random.below(world.processes.len() as u64)).expect("few");
        let time = Duration::from_millis(500 + random.below(2_500));
        match trouble(&mut random) {
            Trouble::Kill(point) => {
                met.note("kill", kill_at(&mut world, point, victim, &load, &mut random).await);
            }
            Trouble::Pause => {
                world.processes[victim].signal("STOP");
                tokio::time::sleep(2 * time).await;
                world.processes[victim].signal("CONT");
                met.note("pause", true);
            }
            Trouble::Database(fault) => {
                met.note("PostgreSQL", fault.happen(&world, time, None, &mut random).await);
            }
            Trouble::Store(fault) => {
                met.note("Redis", fault.happen(&mut world, time, &mut random).await);
            }
            Trouble::Receivers => {
                world.to_receiver.reset();
                tokio::time::sleep(time / 4).await;
                met.note("receivers", world.to_receiver.restore());
            }
        }
        world.hook.receiver.forget();
    }
    let mut outcome = conclude(&mut world, load, budget.done()).await;
    met.report(&mut outcome);
    outcome
}

/// The secret of all webhooks changes while deliveries fail and workers are killed. A trial is a POST.
pub(crate) async fn rotations(mut budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { failing: 40, slow: 20, takes_ms: 200, ..Manner::default() };
    let mut world = World::start(Plan { manner, ..Plan::default() }, &mut random).await;
    let load = world.load(4, 10);
    let (workers, mut unused) = (world.with_role("worker"), 0);
    while budget.next() {
        world.rotate_secret();
        let secret = world.secret().to_owned();
        let from = world.hook.count();
        let hook = world.hook.clone();
        let is_signed = |post: &Post| is_signed(&post.body, &secret, &post.signature);
        let is_used = async || hook.any_since(from, is_signed);
        unused += u32::from(!within(Duration::from_secs(20), is_used).await);
        let victim = random.one_of(&workers);
        kill_at(&mut world, Point::PostReceived, victim, &load, &mut random).await;
    }
    let mut outcome = conclude(&mut world, load, 0).await;
    outcome.trials = world.hook.count() as u64;
    outcome.figure("rotations", budget.done());
    outcome.expect(unused == 0, || format!("{unused} secrets signed nothing within 20 s"));
    outcome
}
