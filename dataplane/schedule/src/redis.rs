//! The schedule on Redis, shared by all processes. Each transition is one Lua script; Redis' clock is the only one.
//!
//! A claim costs the logarithm of what waits, however many queues are idle, not due or at their full share: those are
//! in none of the structures that a claim looks at (`docket_redis::keys`). Redis may lose everything: then
//! [`lost`](Schedule::lost) returns and a sweep tells it again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use docket_redis::script::Script;
use docket_redis::{Connection, Keys};
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Claim, Entry, Hint, Loss, Schedule, ScheduleError, Shares};
use docket_program::clock::millis;
use docket_program::random;

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

/// Entries per script: each takes some 20 µs, while everybody else waits.
const CHUNK: usize = 250;
/// How often Redis is asked whether it still has everything.
const LOOK: Duration = Duration::from_secs(1);

/// The schedule on Redis.
#[derive(Debug)]
pub struct RedisSchedule {
    connection: Connection,
    keys: [String; 10],
    rebuilding: [String; 2],
    /// What each transition's arguments begin with: the shares and the channel.
    common: [String; 3],
    /// Tells this process from the others that rebuild.
    process: String,
    changed: Arc<Notify>,
    looks: Mutex<Looks>,
    /// The number of the loss that was heard of last.
    loss: AtomicU64,
    listener: AbortHandle,
}

/// How Redis is asked whether it still has everything.
#[derive(Debug)]
struct Looks {
    next: Instant,
    /// How often it was asked: the number of a loss that is heard of then.
    asked: u64,
}

impl RedisSchedule {
    /// Joins the others with the same keys. Must be called on a runtime, where it listens to what they change.
    pub fn new(connection: Connection, keys: &Keys, shares: Shares) -> Self {
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
            looks: Mutex::new(Looks { next: Instant::now(), asked: 0 }),
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
    // More than Lua can count exactly is for ever, and the due time has 15 digits.
    millis(duration).min(100_000_000_000_000).to_string()
}

fn claim([tenant, webhook, id, fence]: [String; 4]) -> Option<Claim> {
    // All of it was written by `put` and `claim`.
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

    /// When Redis does not say that it has all there is: it is new, was emptied, was set back, or another server took over,
    /// which may not have got everything. Until somebody has [rebuilt](Schedule::rebuilt) it, this returns once a second.
    async fn lost(&self) -> Loss {
        let mut looks = self.looks.lock().await;
        loop {
            tokio::time::sleep_until(looks.next).await;
            looks.next = Instant::now() + LOOK;
            looks.asked += 1;
            // An answer that does not come may have told of a loss: its number is not the one we have heard of, so it is told
            // again. A call that Redis never got changes nothing.
            let heard = self.loss.load(Ordering::Relaxed);
            let arguments = [self.process.clone(), heard.to_string(), looks.asked.to_string()];
            let answer = LOST.run::<u8>(&self.connection, &self.rebuilding, &arguments).await;
            match answer {
                Ok(1) => {
                    self.loss.store(looks.asked, Ordering::Relaxed);
                    return Loss::New;
                }
                Ok(2) => return Loss::Standing,
                // A Redis that is away is for those to tell who need it.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Counts only if [`lost`](Schedule::lost) had returned here before the sweep, and nothing was lost during it.
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
