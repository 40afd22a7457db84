//! `tests/bench/schedule`: the CPU, commands and memory that the schedule costs Redis.

use std::time::{Duration, Instant};

use docket_domain::delivery::DeliveryId;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::redis::RedisServer;
use docket_schedule::{Claim, Ended, Entry, Hint, Owner, Room, SHARES, Schedule, ShareLimits, Shares};
use jiff::Timestamp;

const TENANTS: u32 = 1_000;
const ROUNDS: u32 = 500;
const LEASE: Duration = Duration::from_secs(600);

/// A uid that is as long as one on a cluster.
fn uid(kind: u32, number: u32) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

fn entry(tenant: u32, webhook: u32, number: u32) -> Entry {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    let id = DeliveryId::new(Timestamp::UNIX_EPOCH, random);
    Entry { tenant: uid(1, tenant).into(), webhook: uid(2, webhook).into(), id }
}

fn memory(server: &RedisServer) -> u64 {
    let info = server.cli(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    used.expect("it counts").trim().parse().expect("a number")
}

/// The CPU seconds and the number of commands that Redis has used.
fn used(server: &RedisServer) -> (f64, u64) {
    let info = server.cli(&["INFO", "everything"]);
    let seconds = |name| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    let calls = |line: &str| {
        line.strip_prefix("cmdstat_")?.split_once("calls=")?.1.split_once(',')?.0.parse::<u64>().ok()
    };
    let cpu = [seconds("used_cpu_user:"), seconds("used_cpu_sys:")].into_iter().flatten().sum();
    (cpu, info.lines().filter_map(calls).sum())
}

/// Runs `work`, which returns the number of its entries, and prints the time, CPU and commands of each entry.
async fn measure<T>(server: &RedisServer, what: &str, work: impl Future<Output = (usize, T)>) -> T {
    let (cpu, commands) = used(server);
    let begun = Instant::now();
    let (count, result) = work.await;
    let time = begun.elapsed().as_secs_f64();
    let (cpu_after, commands_after) = used(server);
    let each = |sum: f64| sum / count as f64;
    println!(
        "{what}: {:.0} entries/s; each {:.1} us of Redis' CPU and {:.1} commands",
        1.0 / each(time),
        each((cpu_after - cpu) * 1e6),
        each((commands_after - commands) as f64)
    );
    result
}

async fn settle(server: &RedisServer, schedule: &Schedule, what: &str, rounds: Vec<Vec<Claim>>) {
    let held = Some(Duration::from_millis(5));
    let ended =
        |claims: Vec<Claim>| claims.into_iter().map(|claim| Ended { claim, again: None, held }).collect();
    let work = async {
        let mut count = 0;
        for claims in rounds {
            count += claims.len();
            schedule.settle(ended(claims)).await.expect("settles");
        }
        (count, ())
    };
    measure(server, &format!("settle of {what}"), work).await;
}

/// Claims due deliveries, up to `slots` at a time, and settles them.
async fn work_off(server: &RedisServer, schedule: &Schedule, slots: usize) {
    let work = async {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(
                schedule.claim(Room { slots, slow: slots, without_claim: 0 }, LEASE).await.expect("claims"),
            );
        }
        (rounds.iter().map(Vec::len).sum(), rounds)
    };
    let rounds = measure(server, &format!("claim of {slots}"), work).await;
    settle(server, schedule, &slots.to_string(), rounds).await;
}

/// Hands off `count` deliveries of one tenant at a time, and settles them.
async fn hand_off(server: &RedisServer, schedule: &Schedule, count: u32, webhooks: u32) {
    let slots = count as usize;
    let of_round = |round| {
        let of_number = move |n| entry(2_000_000 + round, 2_000_000 + n % webhooks, n);
        (0..count).map(of_number).collect::<Vec<_>>()
    };
    let work = async {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let room = Room { slots, slow: slots, without_claim: 0 };
            rounds.push(schedule.hand_off(of_round(round), room, LEASE).await.expect("hands off").claims);
        }
        (rounds.iter().map(Vec::len).sum(), rounds)
    };
    let what = format!("{count} of {webhooks} webhook{}", if webhooks == 1 { "" } else { "s" });
    let rounds = measure(server, &format!("hand-off of {what}"), work).await;
    settle(server, schedule, &what, rounds).await;
}

#[tokio::main]
async fn main() {
    let entries: u32 = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    let server = RedisServer::start(&[]);
    let connection =
        RedisConnection::new(RedisUrl::parse(&server.url()).expect("a URL"), None).expect("no TLS");
    // Webhooks begin with shares that are large enough, so none is full at first.
    let shares = Shares { per_webhook: ShareLimits { start: 64, ..SHARES.per_webhook }, ..SHARES };
    let schedule =
        Schedule::on_redis(connection, &Keys::new(None).expect("one"), Owner::new("docket-worker-0"), shares);
    let empty = memory(&server);
    let due = |number| Hint {
        entry: entry(number % TENANTS, number % (TENANTS * 5), number),
        wait: Duration::ZERO,
    };
    let work = async {
        schedule.put((0..entries).map(due).collect()).await.expect("puts");
        (entries as usize, ())
    };
    measure(&server, "put of 250", work).await;
    println!("memory: {} bytes per entry", (memory(&server) - empty) / u64::from(entries));
    work_off(&server, &schedule, 25).await;
    work_off(&server, &schedule, 64).await;
    for (count, webhooks) in [(1, 1), (8, 1), (64, 1), (64, 10)] {
        hand_off(&server, &schedule, count, webhooks).await;
    }
}
