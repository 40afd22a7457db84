//! Clients that leave in the middle of a save, while PostgreSQL is slow and a process has two connections (T-1c).

use std::time::{Duration, Instant};

use docket_tests::server::Client;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::checker::{Answer, Save};
use crate::hook::millis;
use crate::load::{Loaded, order};
use crate::outcome::{Budget, Outcome, conclude};
use crate::random::Random;
use crate::world::{Plan, World, within};

/// The number of clients that leave at the same time.
const AT_ONCE: u64 = 64;
/// The longest time after which a client leaves.
const LEAVES_MS: u64 = 20;
/// What each question to PostgreSQL takes longer.
const LATENCY: Duration = Duration::from_millis(50);
/// The number of acknowledged saves after the last client has left.
const AFTER: usize = 200;

/// A trial is a client that leaves.
pub(crate) async fn leave(mut budget: Budget, mut random: Random) -> Outcome {
    let plan = Plan {
        processes: &["api,worker", "worker"],
        flags: "--database-connections 2 --database-connections-per-tenant 2",
        ..Plan::default()
    };
    let mut world = World::start(plan, &mut random).await;
    let load = world.load(4, 20);
    world.to_postgres.delay(LATENCY);
    let (mut number, mut more) = (0, true);
    while more {
        let mut leaving = JoinSet::new();
        for _ in 0..AT_ONCE {
            more = budget.next();
            if !more {
                break;
            }
            number += 1;
            let tenant = usize::try_from(random.below(world.tenants.len() as u64)).expect("few");
            let place = &world.tenants[tenant];
            let client = Client { api: random.one_of(&world.apis()), ..place.client.clone() };
            let (reference, after) = (format!("x{number}"), random.below(LEAVES_MS + 1));
            let body = order(&reference, &place.canary).to_string();
            let begun = world.begun;
            leaving.spawn(async move {
                let sent = Instant::now();
                save_and_leave(&client, &body, Duration::from_millis(after)).await;
                let (begun_ms, took_ms) = (millis(sent.duration_since(begun)), millis(sent.elapsed()));
                (tenant, Save { reference, answer: Answer::Unclear, begun_ms, took_ms })
            });
        }
        world.add(Loaded { saves: leaving.join_all().await, outputs: Vec::new() });
        world.hook.receiver.forget();
    }
    world.to_postgres.delay(Duration::ZERO);
    let saves = load.acknowledged();
    let saved = within(Duration::from_secs(60), async || load.acknowledged() >= saves + AFTER).await;
    let idle = within(Duration::from_secs(10), async || idle_in_transaction(&world).await == 0).await;
    let is_failed = world.is_logged("25P02", 0);
    let mut outcome = conclude(&mut world, load, budget.done()).await;
    outcome.expect(saved, || format!("fewer than {AFTER} saves in the minute after the last client left"));
    outcome.expect(idle, || "a session stays in a transaction".to_owned());
    outcome.expect(!is_failed, || "a request got a connection with a failed transaction (25P02)".to_owned());
    outcome
}

/// Sends a whole request and leaves without reading the response.
#[expect(clippy::disallowed_methods, reason = "to a process of this run, on loopback")]
async fn save_and_leave(client: &Client, body: &str, after: Duration) {
    let Client { api, key, token } = client;
    let length = body.len();
    let request = format!(
        "POST /Orders/Save HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let Ok(mut stream) = TcpStream::connect(api).await else { return };
    // This may fail, because the process may close the connection first.
    let _ = stream.write_all(request.as_bytes()).await;
    tokio::time::sleep(after).await;
}

/// The number of sessions that have been in a transaction without a statement for a second.
async fn idle_in_transaction(world: &World) -> i64 {
    const IDLE: &str = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' \
                        AND state_change < now() - interval '1 second'";
    world.admin().await.query_one(IDLE, &[]).await.expect("a statement").get(0)
}
