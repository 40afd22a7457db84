//! The processes are killed with SIGKILL under load.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use docket_rig::proxy::Proxy;

use super::Bench;
use crate::figures::Figure;
use crate::home::{CONNECTIONS, Fleet, Home};
use crate::load::{Client, Load};
use crate::measure::Delivered;
use crate::receiver::{Arrival, Behaviour};
use crate::sql;
use crate::stage::{Shape, Stage};

const MESSAGES: usize = 5_000;
/// The number of kills between a commit and its hint.
const HINTS: usize = 20;
/// The number of kills in a crash loop, and the time between two kills.
const KILLS: u32 = 20;
const BETWEEN: Duration = Duration::from_secs(1);
/// The time within which a delivery is made that waits for all retry delays of the contract.
const SETTLED: Duration = Duration::from_secs(300);

/// Kills all processes once, in the middle of a burst.
pub(super) async fn middle(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let mut fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    let mut reader = stage.home.administrator(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let orders = sql::orders(&stage).await;
    let running = load(&fleet, &clients, MESSAGES).start();
    while running.answered() < MESSAGES / 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fleet.kill();
    let killed = Instant::now();
    let in_flight = sql::in_flight(&stage).await;
    let restarted = Instant::now();
    fleet.start_again();
    let saves = running.end().await;
    let settled = reader.settled(SETTLED).await;
    let arrivals = stage.home.receiver.take();
    let delivered = Delivered::of(&saves.done, &arrivals, 1);
    let before: Vec<_> = saves.done.iter().filter(|save| save.begun < killed).copied().collect();
    let last = |saves: &[_]| {
        let delivered = Delivered::of(saves, &arrivals, 1);
        let begun = saves.iter().map(|save| save.begun).min().expect("there are some");
        (begun + delivered.whole).saturating_duration_since(restarted).as_secs_f64()
    };
    let missing = sql::orders(&stage).await - orders - distinct(&arrivals) as i64;
    vec![
        Figure::new("lost", delivered.lost as f64, "").at_most(0.0),
        Figure::new("committed without an answer and lost", missing as f64, "").at_most(0.0),
        Figure::new("all delivered after the restart", last(&saves.done), "s").at_most(3.0),
        Figure::new("what was saved before the kill delivered after the restart", last(&before), "s"),
        Figure::new("in flight at the kill", in_flight as f64, ""),
        Figure::new("duplicates", delivered.duplicates as f64, "").at_most(in_flight as f64),
        Figure::new("saves that were not answered", saves.broken as f64, ""),
        Figure::new("of these, delivered all the same", delivered.unacknowledged as f64, ""),
        Figure::new("deliveries that never end", f64::from(u8::from(!settled)), "").at_most(0.0),
    ]
}

/// Kills all processes between a commit and its hint in Redis. The connection to Redis is cut first, so that no hint arrives.
pub(super) async fn hint(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let wire = Proxy::to(([127, 0, 0, 1], stage.redis.port).into());
    let url = format!("redis://{}", wire.address);
    std::fs::write(stage.home.file("redis-url"), url).expect("the folder is ours");
    let mut fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    let mut reader = stage.home.administrator(&fleet).await;
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let (mut times, mut missing, mut unhinted) = (Vec::new(), 0, 0);
    for _ in 0..HINTS {
        let orders = sql::orders(&stage).await;
        let running = load(&fleet, &clients, usize::MAX).start();
        while running.answered() < 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        wire.cut();
        tokio::time::sleep(Duration::from_millis(100)).await;
        running.halt();
        fleet.kill();
        wire.restore();
        let came = stage.home.receiver.answered();
        let committed = sql::orders(&stage).await - orders;
        unhinted += committed - came as i64;
        let restarted = Instant::now();
        fleet.start_again();
        running.end().await;
        reader.settled(SETTLED).await;
        let arrivals = stage.home.receiver.take();
        missing += sql::orders(&stage).await - orders - distinct(&arrivals) as i64;
        let last = arrivals.iter().map(|arrival| arrival.at).max().unwrap_or(restarted);
        times.push(last.saturating_duration_since(restarted).as_secs_f64());
    }
    vec![
        Figure::new("kills", HINTS as f64, ""),
        Figure::new("committed and not delivered at the kill, in all", unhinted as f64, ""),
        Figure::new(
            "all delivered after the restart, at the worst",
            times.iter().copied().fold(0.0, f64::max),
            "s",
        )
        .at_most(5.0),
        Figure::new("lost", missing as f64, "").at_most(0.0),
    ]
}

/// Kills all processes twenty times in twenty seconds while saves run.
pub(super) async fn often(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve(shape, &[]).await;
    crash_loop(&stage.home, fleet).await
}

/// Does the same with the processes of `fleet`, such as `docket dev`.
pub(super) async fn crash_loop(home: &Home, mut fleet: Fleet) -> Vec<Figure> {
    let clients = home.clients(&fleet).await;
    let mut reader = home.administrator(&fleet).await;
    home.warm_up(&fleet.apis, &clients, 1).await;
    let running = load(&fleet, &clients, usize::MAX).start();
    let begun = Instant::now();
    for kill in 1..=KILLS {
        tokio::time::sleep((BETWEEN * kill).saturating_sub(begun.elapsed())).await;
        fleet.kill();
        fleet.start_again();
    }
    let restarted = Instant::now();
    running.halt();
    let saves = running.end().await;
    let settled = reader.settled(SETTLED).await;
    let arrivals = home.receiver.take();
    let delivered = Delivered::of(&saves.done, &arrivals, 1);
    let last = arrivals.iter().map(|arrival| arrival.at).max().unwrap_or(restarted);
    let worker_lost = reader.deliveries("status=DeadLetter&failureClass=WorkerLost", 100).await;
    vec![
        Figure::new("kills", f64::from(KILLS), ""),
        Figure::new("acknowledged saves", saves.done.len() as f64, ""),
        Figure::new("dead letters of class WorkerLost, at most 100 counted", worker_lost as f64, "")
            .at_most(0.0),
        Figure::new("acknowledged and never POSTed", delivered.lost as f64, "").at_most(0.0),
        Figure::new("duplicates", delivered.duplicates as f64, ""),
        Figure::new("all delivered after the last restart", (last - restarted).as_secs_f64(), "s"),
        Figure::new("deliveries that never end", f64::from(u8::from(!settled)), "").at_most(0.0),
    ]
}

fn load(fleet: &Fleet, clients: &[Client], messages: usize) -> Load {
    let (apis, clients) = (fleet.apis.clone(), clients.to_vec());
    Load { apis, clients, connections: CONNECTIONS, messages, pace: None }
}

fn distinct(arrivals: &[Arrival]) -> usize {
    arrivals.iter().map(|arrival| (arrival.tenant, arrival.order)).collect::<HashSet<_>>().len()
}
