//! The schedule on Redis, which all processes share. Each transition is one Lua script; only Redis' clock counts.
//!
//! A claim costs the logarithm of what waits, however many queues are idle, not due or at their full share: those are
//! in none of the structures that a claim reads (`docket_redis::keys`). Redis may lose everything: then
//! [`lost`](Schedule::lost) returns and a sweep puts every entry again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use docket_program::clock::millis;
use docket_program::random;
use docket_redis::script::Script;
use docket_redis::{Keys, RedisConnection};
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Claim, Entry, Hint, Loss, Schedule, ScheduleError, Shares};

macro_rules! script {
    ($($file:literal),*) => {
        LazyLock::new(|| Script::new(&[$(include_str!(concat!("redis/", $file, ".lua"))),*]))
    };
}

static PUT: LazyLock<Script> = script!("queues", "put");
static CLAIM: LazyLock<Script> = script!("queues", "claim");
static RENEW: LazyLock<Script> = script!("queues", "renew");
static SETTLE: LazyLock<Script> = script!("queues", "settle");
static NEXT_DUE: LazyLock<Script> = script!("queues", "next_due");
static LOST: LazyLock<Script> = script!("history", "lost");
static REBUILT: LazyLock<Script> = script!("history", "rebuilt");
static SWEEP_TURN: LazyLock<Script> = script!("sweep_turn");

/// Entries per script: each takes some 20 µs, during which Redis serves no other client.
const CHUNK: usize = 250;
/// How often to check that Redis has lost nothing.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The schedule on Redis.
#[derive(Debug)]
pub struct RedisSchedule {
    connection: RedisConnection,
    keys: [String; 10],
    rebuilding: [String; 2],
    /// What each transition's arguments begin with: the shares and the channel.
    common: [String; 3],
    /// Distinguishes this process from the others that rebuild.
    process: String,
    changed: Arc<Notify>,
    checks: Mutex<Checks>,
    /// The number of the loss that this process learned of last.
    loss: AtomicU64,
    listener: AbortHandle,
}

/// When to check again that Redis has lost nothing.
#[derive(Debug)]
struct Checks {
    next: Instant,
    /// How many checks there were: the number of a loss that the next one finds.
    count: u64,
}

impl RedisSchedule {
    /// Joins the processes with the same keys. Must be called on a runtime, where it listens to their changes.
    pub fn new(connection: RedisConnection, keys: &Keys, shares: Shares) -> Self {
        let changed = Arc::new(Notify::new());
        let heard = Arc::clone(&changed);
        let listening = connection.clone().listen(keys.changed(), move || heard.notify_one());
        let listener = tokio::spawn(listening).abort_handle();
        Self {
            connection,
            keys: keys.schedule(),
            rebuilding: keys.rebuilding(),
            common: [shares.per_webhook.to_string(), shares.per_tenant.to_string(), keys.changed()],
            process: hex::encode(random::bytes::<8>()),
            changed,
            checks: Mutex::new(Checks { next: Instant::now(), count: 0 }),
            loss: AtomicU64::new(0),
            listener,
        }
    }

    async fn run<T: docket_redis::FromRedisValue>(
        &self,
        script: &Script,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<T, ScheduleError> {
        let arguments: Vec<String> = self.common.iter().cloned().chain(arguments).collect();
        script.run(&self.connection, &self.keys, &arguments).await.map_err(failed)
    }
}

impl Drop for RedisSchedule {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn failed(error: docket_redis::Error) -> ScheduleError {
    ScheduleError(Box::new(error))
}

fn text(duration: Duration) -> String {
    // Lua counts no further exactly, and the due time has 15 digits: a longer wait is for ever.
    millis(duration).min(100_000_000_000_000).to_string()
}

fn claim([tenant, webhook, id, fence]: [String; 4]) -> Option<Claim> {
    // `put` and `claim` wrote all of it.
    let entry = Entry { tenant: tenant.into(), webhook: webhook.into(), id: id.parse().ok()? };
    Some(Claim { entry, fence: fence.parse().ok()? })
}

fn named(Claim { entry: Entry { tenant, id, .. }, fence }: &Claim) -> [String; 3] {
    [tenant.to_string(), id.to_string(), fence.to_string()]
}

impl Schedule for RedisSchedule {
    async fn put(&self, hints: Vec<Hint>) -> Result<(), ScheduleError> {
        for chunk in hints.chunks(CHUNK) {
            let arguments = chunk.iter().flat_map(|Hint { entry: Entry { tenant, webhook, id }, wait }| {
                [tenant.to_string(), webhook.to_string(), id.to_string(), text(*wait)]
            });
            let () = self.run(&PUT, arguments).await?;
            self.changed.notify_one();
        }
        Ok(())
    }

    async fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Claim>, ScheduleError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let arguments = [limit.min(CHUNK).to_string(), text(lease)];
        let claimed: Vec<[String; 4]> = self.run(&CLAIM, arguments).await?;
        Ok(claimed.into_iter().filter_map(claim).collect())
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<(), ScheduleError> {
        for chunk in claims.chunks(CHUNK) {
            let () = self.run(&RENEW, [text(lease)].into_iter().chain(chunk.iter().flat_map(named))).await?;
        }
        Ok(())
    }

    async fn settle(&self, ended: Vec<(Claim, Option<Duration>)>) -> Result<(), ScheduleError> {
        for chunk in ended.chunks(CHUNK) {
            let arguments = chunk.iter().flat_map(|(claim, wait)| {
                named(claim).into_iter().chain([wait.map(text).unwrap_or_default()])
            });
            let () = self.run(&SETTLE, arguments).await?;
            self.changed.notify_one();
        }
        Ok(())
    }

    async fn next_due(&self) -> Result<Option<Duration>, ScheduleError> {
        let wait_ms: i64 = self.run(&NEXT_DUE, []).await?;
        Ok(u64::try_from(wait_ms).ok().map(Duration::from_millis))
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns when Redis does not mark the index as complete: Redis is new, was emptied or restored, or another server
    /// took over, which may lack entries. Until a process has [rebuilt](Schedule::rebuilt) it, this returns once a second.
    async fn lost(&self) -> Loss {
        let mut checks = self.checks.lock().await;
        loop {
            tokio::time::sleep_until(checks.next).await;
            checks.next = Instant::now() + CHECK_EVERY;
            checks.count += 1;
            // A response that does not arrive may have reported a loss: its number is not the one that we know, so the next
            // response reports it again. A call that Redis never received changes nothing.
            let known = self.loss.load(Ordering::Relaxed);
            let arguments = [self.process.clone(), known.to_string(), checks.count.to_string()];
            let loss = LOST.run::<u8>(&self.connection, &self.rebuilding, &arguments).await;
            match loss {
                Ok(1) => {
                    self.loss.store(checks.count, Ordering::Relaxed);
                    return Loss::New;
                }
                Ok(2) => return Loss::Standing,
                // Callers that need Redis report that it is unavailable.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Counts only if [`lost`](Schedule::lost) returned in this process before the sweep, and nothing was lost during it.
    async fn rebuilt(&self) -> Result<(), ScheduleError> {
        let arguments = [self.process.clone(), self.loss.load(Ordering::Relaxed).to_string()];
        REBUILT.run(&self.connection, &self.rebuilding, &arguments).await.map_err(failed)
    }

    async fn sweep_turn(&self, every: Duration) -> Result<bool, ScheduleError> {
        let turn: u8 =
            SWEEP_TURN.run(&self.connection, &self.rebuilding[..1], &[text(every)]).await.map_err(failed)?;
        Ok(turn == 1)
    }
}
