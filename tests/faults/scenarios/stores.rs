//! Faults of Redis and of the way to it while orders are saved (T-5), and a Redis that hangs and then is away (T-6).

use std::time::{Duration, Instant};

use docket_rig::proxy::Way;

use crate::checker::Answer;
use crate::hook::Manner;
use crate::outcome::{Budget, Outcome, conclude};
use crate::random::Random;
use crate::scenarios::under_saves::each_in_turn;
use crate::world::{Plan, World, within};

const CLIENTS: usize = 4;
const PAUSE_MS: u64 = 20;
/// The longest time of 99 of 100 saves while Redis hangs or is away.
const P99_MS: i64 = 1_000;
/// The time after which a delivery of a new save must come once Redis is back.
const BACK: Duration = Duration::from_secs(10);

/// A fault of Redis or of the network in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// FLUSHALL.
    Emptied,
    /// Redis is killed, and starts with the data on its disk: nothing, or an earlier dump.
    Killed,
    /// Redis is killed, and starts with an earlier dump.
    Older,
    /// Redis forgets all scripts.
    Scripts,
    /// Redis has no room for further keys.
    NoRoom,
    /// Redis follows another server, and refuses writes.
    ReadOnly,
    /// Redis does not respond, because of its own command.
    Paused,
    /// The process of Redis is stopped.
    Frozen,
    /// Connections are reset.
    Reset,
    /// No bytes reach Redis.
    Mute,
    /// No bytes come from Redis.
    Deaf,
    /// Commands arrive late.
    Slow,
}

impl Fault {
    pub(crate) const ALL: [Self; 12] = [
        Self::Emptied,
        Self::Killed,
        Self::Older,
        Self::Scripts,
        Self::NoRoom,
        Self::ReadOnly,
        Self::Paused,
        Self::Frozen,
        Self::Reset,
        Self::Mute,
        Self::Deaf,
        Self::Slow,
    ];

    /// Injects the fault and takes it back after `time`; returns whether Redis says that it happened.
    pub(crate) async fn happen(self, world: &mut World, time: Duration, random: &mut Random) -> bool {
        let redis = &mut world.redis;
        let ok = |answer: String| answer == "OK";
        match self {
            Self::Emptied => ok(redis.cli(&["FLUSHALL"])),
            Self::Killed => {
                redis.kill();
                tokio::time::sleep(time).await;
                tokio::task::block_in_place(|| redis.restart());
                redis.cli(&["DBSIZE"]).parse::<u32>().is_ok()
            }
            Self::Older => {
                redis.save();
                let dump = redis.dump();
                tokio::time::sleep(time).await;
                tokio::task::block_in_place(|| redis.restart_with(&dump));
                redis.cli(&["DBSIZE"]).parse::<u32>().is_ok()
            }
            Self::Scripts => ok(redis.cli(&["SCRIPT", "FLUSH"])),
            Self::NoRoom => {
                let set = |limit: &str| ok(redis.cli(&["CONFIG", "SET", "maxmemory", limit]));
                let full = set("1mb") && redis.cli(&["SET", "one", "more"]).contains("OOM");
                tokio::time::sleep(time).await;
                set("0") && full
            }
            Self::ReadOnly => {
                let is_replica = ok(redis.cli(&["REPLICAOF", "127.0.0.1", "1"]));
                let refuses = redis.cli(&["SET", "one", "more"]).contains("READONLY");
                tokio::time::sleep(time).await;
                ok(redis.cli(&["REPLICAOF", "NO", "ONE"])) && is_replica && refuses
            }
            Self::Paused => {
                let millis = time.as_millis().to_string();
                let paused = ok(redis.cli(&["CLIENT", "PAUSE", &millis, "ALL"]));
                tokio::time::sleep(time).await;
                paused
            }
            Self::Frozen => {
                redis.freeze();
                tokio::time::sleep(time).await;
                redis.thaw();
                true
            }
            Self::Reset => {
                world.to_redis.reset();
                tokio::time::sleep(time / 4).await;
                world.to_redis.restore()
            }
            Self::Mute | Self::Deaf => {
                let way = if self == Self::Mute { Way::ToServer } else { Way::ToClient };
                world.to_redis.stall(way);
                tokio::time::sleep(time).await;
                world.to_redis.restore();
                true
            }
            Self::Slow => {
                world.to_redis.delay(Duration::from_millis(20 + random.below(200)));
                tokio::time::sleep(time).await;
                world.to_redis.delay(Duration::ZERO);
                true
            }
        }
    }
}

/// Injects all faults in turn while orders are saved and retries wait.
pub(crate) async fn under_saves(budget: Budget, mut random: Random) -> Outcome {
    let manner = Manner { failing: 30, slow: 20, takes_ms: 300, ..Manner::default() };
    let plan = Plan { processes: &["api", "api,worker", "worker", "worker"], manner, ..Plan::default() };
    let mut world = World::start(plan, &mut random).await;
    let load = world.load(CLIENTS, PAUSE_MS);
    let happen = async |fault: Fault, world: &mut World, random: &mut Random| {
        let time = Duration::from_millis(500 + random.below(4_500));
        fault.happen(world, time, random).await
    };
    each_in_turn(&mut world, load, &Fault::ALL, budget, random, happen).await
}

/// Redis hangs for `hangs`, then is away for a tenth of that. Each save in that time is a trial.
pub(crate) async fn away(hangs: Duration, mut random: Random) -> Outcome {
    let mut world = World::start(Plan::default(), &mut random).await;
    let load = world.load(CLIENTS, PAUSE_MS);
    let warm = within(Duration::from_secs(30), async || load.acknowledged() >= 200).await;
    let begun_ms = world.now_ms();
    world.redis.freeze();
    let until = Instant::now() + hangs;
    let mut sockets = 0;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        sockets = sockets.max(world.processes.iter().map(|process| process.sockets()).max().unwrap_or(0));
        world.hook.receiver.forget();
    }
    world.redis.thaw();
    world.redis.kill();
    tokio::time::sleep(hangs / 10).await;
    let ended_ms = world.now_ms();
    tokio::task::block_in_place(|| world.redis.restart());
    let (back, posts) = (Instant::now(), world.hook.count());
    let comes = within(BACK, async || world.hook.count() > posts + 20).await;
    let back = back.elapsed();
    let mut outcome = conclude(&mut world, load, 0).await;
    let meanwhile = || {
        let all = world.saves().iter().map(|(_, save)| save);
        all.filter(move |save| (begun_ms..ended_ms).contains(&save.begun_ms))
    };
    let unclear = meanwhile().filter(|save| save.answer == Answer::Unclear).count();
    let mut times: Vec<i64> = meanwhile().map(|save| save.took_ms).collect();
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).copied();
    outcome.trials = times.len() as u64;
    outcome.figure("save p99 without Redis in ms", p99.unwrap_or(-1));
    outcome.figure("sockets of a process at the most", sockets);
    outcome.figure("POSTs again after in ms", back.as_millis());
    outcome.expect(warm, || "200 saves took more than 30 s before Redis hung".to_owned());
    outcome.expect(unclear == 0, || format!("{unclear} saves failed without Redis"));
    outcome.expect(p99.is_some_and(|p99| p99 <= P99_MS), || format!("the p99 of saves is {p99:?} ms"));
    outcome.expect(comes, || format!("no POSTs within {BACK:?} after Redis was back"));
    // The clients have 4 connections, the ways to the stores some dozens.
    outcome.expect(sockets < 300, || format!("a process has {sockets} sockets"));
    outcome
}
