//! SIGKILL of real processes at named points (T-1a, T-3), and saves that are repeated under one key over kills (T-10).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use docket_tests::server::Client;
use tokio::task::JoinSet;

use crate::checker::{Answer, Save};
use crate::hook::{Manner, millis};
use crate::load::{Load, Loaded, answer, order};
use crate::outcome::{Budget, Met, Outcome, conclude, conclude_saved};
use crate::points::Point;
use crate::random::Random;
use crate::world::{Plan, World};

const CLIENTS: usize = 8;
/// The longest pause of a client after a save.
const PAUSE_MS: u64 = 10;
/// The number of keys that are used between two kills, and of clients that use each key at once.
const KEYS: u64 = 10;
const CLIENTS_OF_A_KEY: usize = 4;

/// Kills processes that serve requests, at the points of a save.
pub(crate) async fn of_saves(mut budget: Budget, mut random: Random) -> Outcome {
    let plan = Plan { webhooks: 3, ..Plan::default() };
    kills(plan, "api", &Point::OF_SAVES, &mut budget, &mut random).await
}

/// Kills workers, at the points of an attempt. Receivers fail and are slow at times.
pub(crate) async fn of_attempts(mut budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { failing: 30, slow: 50, takes_ms: 300, ..Manner::default() };
    let plan = Plan { processes: &["api", "worker", "worker"], manner, ..Plan::default() };
    kills(plan, "worker", &Point::OF_ATTEMPTS, &mut budget, &mut random).await
}

async fn kills(
    plan: Plan,
    role: &str,
    points: &[Point],
    budget: &mut Budget,
    random: &mut Random,
) -> Outcome {
    let mut world = World::start(plan, random).await;
    let load = world.load(CLIENTS, PAUSE_MS);
    let (victims, mut met) = (world.with_role(role), Met::default());
    while budget.next() {
        let (point, victim) = (random.one_of(points), random.one_of(&victims));
        met.note(point, kill_at(&mut world, point, victim, &load, random).await);
    }
    world.hook.turn(Manner::default());
    let mut outcome = conclude(&mut world, load, budget.done()).await;
    met.report(&mut outcome);
    outcome
}

/// Kills a process at a point and starts it again; returns whether the point was reached.
pub(crate) async fn kill_at(
    world: &mut World,
    point: Point,
    victim: usize,
    load: &Load,
    random: &mut Random,
) -> bool {
    let reached = point.reached(world, victim, load, random).await;
    world.processes[victim].kill();
    for proxy in [&world.to_postgres, &world.to_redis, &world.to_receiver] {
        proxy.restore();
    }
    world.processes[victim].start(&world.home);
    // Sometimes the next kill comes before the process is ready.
    if random.below(4) > 0 {
        world.processes[victim].ready(&world.home).await;
    }
    world.hook.receiver.forget();
    reached
}

/// Clients repeat a save under one key, at once and after a kill: one order, and all acknowledgements name it.
pub(crate) async fn of_repeated_saves(mut budget: Budget, mut random: Random) -> Outcome {
    let mut world = World::start(Plan::default(), &mut random).await;
    let victims = world.with_role("api");
    let (mut keys, mut unknown) = (0, 0);
    while budget.next() {
        let mut running = JoinSet::new();
        for _ in 0..KEYS {
            keys += 1;
            let tenant = usize::try_from(random.below(world.tenants.len() as u64)).expect("few");
            let place = &world.tenants[tenant];
            let repeated = Repeated {
                tenant,
                client: place.client.clone(),
                apis: world.apis(),
                reference: format!("k{keys}"),
                body: order(&format!("k{keys}"), &place.canary).to_string(),
                begun: world.begun,
                random: random.child(),
            };
            running.spawn(repeated.run());
        }
        tokio::time::sleep(Duration::from_millis(random.below(100))).await;
        world.kill_and_start(random.one_of(&victims));
        let saves: Vec<(usize, Save)> = running.join_all().await.concat();
        unknown += usize::from(!saves.iter().any(|(_, save)| matches!(save.answer, Answer::Acknowledged(_))));
        world.add(Loaded { saves, outputs: Vec::new() });
    }
    let mut outcome = conclude_saved(&mut world, keys).await;
    outcome.expect(unknown == 0, || format!("in {unknown} rounds no save was ever acknowledged"));
    outcome
}

struct Repeated {
    tenant: usize,
    client: Client,
    apis: Vec<SocketAddr>,
    reference: String,
    body: String,
    begun: Instant,
    random: Random,
}

impl Repeated {
    /// Saves at once, then until a save is acknowledged, then once more.
    async fn run(mut self) -> Vec<(usize, Save)> {
        let mut first = JoinSet::new();
        for _ in 0..CLIENTS_OF_A_KEY {
            first.spawn(self.request());
        }
        let mut saves = first.join_all().await;
        let begun = Instant::now();
        let is_acknowledged = |save: &Save| matches!(save.answer, Answer::Acknowledged(_));
        while !saves.iter().any(is_acknowledged) && begun.elapsed() < Duration::from_secs(30) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            saves.push(self.request().await);
        }
        saves.push(self.request().await);
        saves.into_iter().map(|save| (self.tenant, save)).collect()
    }

    /// One more request under the key, to any process.
    fn request(&mut self) -> impl Future<Output = Save> + Send + use<> {
        let client = Client { api: self.random.one_of(&self.apis), ..self.client.clone() };
        let (reference, body, begun) = (self.reference.clone(), self.body.clone(), self.begun);
        async move {
            let sent = Instant::now();
            let key = [("idempotency-key", reference.as_str())];
            let reply = client.try_post("/Orders/Save", &body, &key).await;
            let answer = match answer(reply.ok().as_ref()) {
                acknowledged @ Answer::Acknowledged(_) => acknowledged,
                // Another request under the key may store the order.
                Answer::Refused(_) | Answer::Unclear => Answer::Unclear,
            };
            let (begun_ms, took_ms) = (millis(sent.duration_since(begun)), millis(sent.elapsed()));
            Save { reference, answer, begun_ms, took_ms }
        }
    }
}
