//! `tests/bench/schedule`: what the schedule on Redis costs.

use std::time::{Duration, Instant};

use docket_domain::delivery::DeliveryId;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::redis::RedisServer;
use docket_schedule::redis::RedisSchedule;
use docket_schedule::{Entry, Hint, SHARES, Schedule};
use jiff::Timestamp;

const TENANTS: u32 = 1_000;
const BATCH: usize = 25;
const ROUNDS: usize = 1_000;

/// As long as they are on a cluster.
fn uid(kind: u32, number: u32) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

fn memory(server: &RedisServer) -> u64 {
    let info = server.cli(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    used.expect("it counts").trim().parse().expect("a number")
}

#[tokio::main]
async fn main() {
    let entries: u32 = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    let server = RedisServer::start(&[]);
    let connection =
        RedisConnection::new(RedisUrl::parse(&server.url()).expect("a URL"), None).expect("no TLS");
    let schedule = RedisSchedule::new(connection, &Keys::new(None).expect("one"), SHARES);
    let empty = memory(&server);
    let begun = Instant::now();
    let hint = |number: u32| {
        let mut random = [0; 10];
        random[6..].copy_from_slice(&number.to_be_bytes());
        let (tenant, webhook) = (uid(1, number % TENANTS).into(), uid(2, number % (TENANTS * 5)).into());
        let id = DeliveryId::new(Timestamp::UNIX_EPOCH, random);
        Hint { entry: Entry { tenant, webhook, id }, wait: Duration::ZERO }
    };
    schedule.put((0..entries).map(hint).collect()).await.expect("puts");
    let time = begun.elapsed();
    println!("put: {entries} entries in {time:?}, {:.0} entries/s", f64::from(entries) / time.as_secs_f64());
    println!("memory: {} bytes per entry", (memory(&server) - empty) / u64::from(entries));
    let (mut claiming, mut settling, mut count) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..ROUNDS.min(entries as usize / BATCH) {
        let begun = Instant::now();
        let claims = schedule.claim(BATCH, Duration::from_secs(4)).await.expect("claims");
        claiming += begun.elapsed();
        count += claims.len();
        let begun = Instant::now();
        schedule.settle(claims.into_iter().map(|claim| (claim, None)).collect()).await.expect("settles");
        settling += begun.elapsed();
    }
    let rate = |time: Duration| count as f64 / time.as_secs_f64();
    println!(
        "claim of {BATCH}: {:.0} entries/s; settle of {BATCH}: {:.0} entries/s",
        rate(claiming),
        rate(settling)
    );
}
