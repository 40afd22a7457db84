//! Workers that stand still for longer than their leases in the middle of attempts (T-4), and processes that are stopped one after the
//! other in an orderly way (T-24).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::hook::Manner;
use crate::outcome::{Budget, Met, Outcome, conclude};
use crate::points::{Point, sum};
use crate::random::Random;
use crate::world::{Plan, World};

/// A lease takes 4 s; a pause takes up to twice as long.
const PAUSE_MS: (u64, u64) = (4_500, 3_500);
/// The time within which a process that gets SIGTERM ends: its attempts take at most 3 s.
const GRACE: Duration = Duration::from_secs(10);

/// Stops two of four workers with SIGSTOP at a point of an attempt, and lets them continue when others have their deliveries. A
/// trial is one pause of one worker.
pub(crate) async fn of_workers(mut budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { failing: 20, slow: 80, takes_ms: 1_500, ..Manner::default() };
    let plan =
        Plan { processes: &["api", "worker", "worker", "worker", "worker"], manner, ..Plan::default() };
    let mut world = World::start(plan, &mut random).await;
    let load = world.load(6, 20);
    let (workers, mut met) = (world.with_role("worker"), Met::default());
    let points = [Point::PostReceived, Point::Responded, Point::Logged, Point::Claimed, Point::Committed];
    while budget.next() {
        let first = random.one_of(&workers);
        let others: Vec<usize> = workers.iter().copied().filter(|worker| *worker != first).collect();
        let point = random.one_of(&points);
        met.note(point, point.reached(&world, first, &load, &mut random).await);
        let mut paused = vec![first];
        // The second pause is a trial of its own.
        if budget.next() {
            paused.push(random.one_of(&others));
        }
        paused.iter().for_each(|worker| world.processes[*worker].signal("STOP"));
        world.to_postgres.restore();
        tokio::time::sleep(Duration::from_millis(PAUSE_MS.0 + random.below(PAUSE_MS.1))).await;
        paused.iter().for_each(|worker| world.processes[*worker].signal("CONT"));
        world.hook.receiver.forget();
    }
    let mut stale = 0.0;
    for worker in workers {
        stale += sum(&world.processes[worker].metrics().await, "docket_delivery_stale_finishes_total");
    }
    world.hook.turn(Manner::default());
    let mut outcome = conclude(&mut world, load, budget.done()).await;
    met.report(&mut outcome);
    outcome.figure("late ends that were refused", stale);
    let pauses = budget.done();
    outcome.expect(stale > 0.0 || pauses < 10, || format!("no end was late in {pauses} pauses"));
    outcome
}

/// Sends SIGTERM to one process after the other while receivers are slow. Nothing may be lost with a worker or sent twice.
pub(crate) async fn of_restarts(mut budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { slow: 80, takes_ms: 2_000, ..Manner::default() };
    let plan = Plan { processes: &["api", "api,worker", "worker", "worker"], manner, ..Plan::default() };
    let mut world = World::start(plan, &mut random).await;
    let load = world.load(6, 20);
    let (mut slowest, mut failed) = (Duration::ZERO, Vec::new());
    let count = world.processes.len();
    for number in (0..count).cycle() {
        if !budget.next() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(random.below(500))).await;
        let begun = Instant::now();
        let status = world.processes[number].terminate().await;
        slowest = slowest.max(begun.elapsed());
        if !status.is_some_and(|status| status.success()) {
            failed.push(format!("{status:?}"));
        }
        world.processes[number].start(&world.home);
        world.processes[number].ready(&world.home).await;
        world.hook.receiver.forget();
    }
    let mut outcome = conclude(&mut world, load, budget.done()).await;
    let history = std::mem::take(&mut outcome.history);
    let attempts = || history.tenants.iter().flat_map(|tenant| &tenant.attempts);
    let lost = attempts().filter(|attempt| attempt.class.as_deref() == Some("WorkerLost")).count();
    let again = attempts().filter(|attempt| attempt.number > 1).count();
    let mut classes = BTreeMap::<&str, usize>::new();
    for class in attempts().filter_map(|attempt| attempt.class.as_deref()) {
        *classes.entry(class).or_default() += 1;
    }
    for (class, count) in classes {
        outcome.figure(class, count);
    }
    outcome.figure("slowest end after SIGTERM in ms", slowest.as_millis());
    outcome.expect(lost == 0, || format!("{lost} attempts were lost with a worker that ended in order"));
    // On a busy machine an answer may come too late; what follows is a retry, and no repetition by a process that ends.
    let timeouts = attempts()
        .filter(|attempt| attempt.class.as_deref().is_some_and(|it| it.starts_with("Timeout")))
        .count();
    outcome.expect(again <= timeouts, || format!("{again} attempts followed {timeouts} timeouts"));
    outcome.expect(slowest < GRACE, || format!("a process took {slowest:?} to end"));
    outcome.expect(failed.is_empty(), || format!("processes ended with {failed:?}"));
    outcome
}
