//! The schedule on Redis, which all processes share. Each transition is one Lua script, and uses Redis' clock only.
//!
//! The time for a claim grows with the logarithm of the number of waiting entries. Queues that are idle, not due or at their full share
//! cost nothing, because they are in none of the keys that a claim reads (`docket_redis::keys`). If Redis loses everything,
//! [`lost`](RedisSchedule::lost) returns, and a sweep puts every entry again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::duration;
use docket_redis::script::Script;
use docket_redis::{FromRedisValue, Keys, RedisConnection, RedisWrite, ToRedisArgs, cmd};
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::shares::{BACKLOG, DECREASE_EVERY, LONG, QUICK, ShareChanges, ShareLimits, Shares, TenantShares};
use super::{
    Claim, Ended, Entry, HandOffs, Hint, LOOK_EVERY, Loss, Overdue, Owner, Places, Room, ScheduleError,
    WebhookPlaces,
};

macro_rules! scripts {
    ($($name:ident),*) => {
        /// The transitions of the queues. The text of each is the constants, `queues.lua` and its own file.
        #[derive(Debug)]
        struct Scripts { $($name: Script),* }

        impl Scripts {
            fn new(shares: Shares) -> Self {
                let queues = constants(shares) + QUEUES;
                Self { $(
                    $name: Script::new(&[&queues, include_str!(concat!("redis/", stringify!($name), ".lua"))])
                ),* }
            }
        }
    };
}

scripts!(limit, put, claim, hand_off, renew, settle, abandoned, next_due, places, overdue);

const QUEUES: &str = include_str!("redis/queues.lua");
const HISTORY: &str = include_str!("redis/history.lua");
static LOST: LazyLock<Script> = LazyLock::new(|| Script::new(&[HISTORY, include_str!("redis/lost.lua")]));
static REBUILT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[HISTORY, include_str!("redis/rebuilt.lua")]));
static SWEEP_TURN: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("redis/sweep_turn.lua")]));

/// The largest number of entries or webhooks of one call: each takes 10 to 30 µs, during which Redis serves no other client.
const CHUNK: usize = 250;
/// The pause between two checks that Redis has lost nothing.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The schedule on Redis.
#[derive(Debug)]
pub(super) struct RedisSchedule {
    connection: RedisConnection,
    keys: [String; 15],
    /// The channel on which processes announce changes.
    channel: String,
    scripts: Scripts,
    /// The limits of a tenant without limits of its own.
    per_tenant: TenantShares,
    owner: Owner,
    changed: Arc<Notify>,
    checks: Mutex<Checks>,
    /// The number of the loss that this process learned of last.
    loss: AtomicU64,
    listener: AbortHandle,
}

/// The checks that Redis has lost nothing.
#[derive(Debug)]
struct Checks {
    /// When the next check is due.
    next: Instant,
    /// The number of checks so far. A loss has the number of the check that finds it.
    count: u64,
    /// Whether a check has failed since [`RedisSchedule::lost`] last returned [`Loss::New`] or [`Loss::Hints`].
    failed: bool,
}

impl RedisSchedule {
    /// Joins the processes with the same keys, as this owner. Must be called on a runtime, where it listens to their
    /// changes.
    pub(super) fn new(connection: RedisConnection, keys: &Keys, owner: Owner, shares: Shares) -> Self {
        let changed = Arc::new(Notify::new());
        let heard = Arc::clone(&changed);
        let listening =
            connection.clone().listen(keys.changed(), owner.incarnation.clone(), move || heard.notify_one());
        let listener = tokio::spawn(listening).abort_handle();
        Self {
            connection,
            keys: keys.schedule(),
            channel: keys.changed(),
            scripts: Scripts::new(shares),
            per_tenant: shares.per_tenant,
            owner,
            changed,
            checks: Mutex::new(Checks { next: Instant::now(), count: 0, failed: false }),
            loss: AtomicU64::new(0),
            listener,
        }
    }

    /// The arguments of a transition: the arguments that all transitions have, and its own.
    fn arguments<'a>(&'a self, own: impl IntoIterator<Item = Argument<'a>>) -> Vec<Argument<'a>> {
        let Owner { process, incarnation } = &self.owner;
        let common: [&str; 3] = [process, incarnation, &self.channel];
        common.map(Argument::Text).into_iter().chain(own).collect()
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        arguments: Vec<Argument<'_>>,
    ) -> Result<T, ScheduleError> {
        script.run(&self.connection, &self.keys, &arguments).await.map_err(failed)
    }

    /// The keys of the scripts about losses: the schedule's state, and the processes that rebuild.
    fn loss_keys(&self) -> &[String] {
        &self.keys[self.keys.len() - 2..]
    }

    /// The tenants of abandoned claims. `release`: makes the claims due.
    async fn look_for_abandoned(&self, release: bool) -> Result<HashSet<Arc<str>>, ScheduleError> {
        let (mut tenants, mut cursor) = (HashSet::new(), "0".to_owned());
        loop {
            let arguments = [Argument::Text(&cursor), Argument::Number(u64::from(release))];
            let (next, found): (String, Vec<String>) =
                self.run(&self.scripts.abandoned, self.arguments(arguments)).await?;
            tenants.extend(self::tenants(found));
            if next == "0" {
                return Ok(tenants);
            }
            cursor = next;
        }
    }
}

/// Lua that defines the numbers that `queues.lua` names. They are the same in all processes of a version. Values that differ between
/// processes are arguments instead, because Redis keeps every text that it gets.
fn constants(shares: Shares) -> String {
    let Shares { per_webhook: ShareLimits { start, most, least }, per_tenant, known } = shares;
    let TenantShares { claims, entries } = per_tenant;
    let [quick, long, pause, backlog, look] =
        [QUICK, LONG, DECREASE_EVERY, BACKLOG, LOOK_EVERY].map(whole_millis);
    format!(
        "local start, most, least = {start}, {most}, {least}\n\
         local per_tenant, most_entries, most_known = {claims}, {entries}, {known}\n\
         local quick_ms, long_ms, pause_ms = {quick}, {long}, {pause}\n\
         local backlog_ms, look_ms = {backlog}, {look}\n"
    )
}

enum Argument<'a> {
    Text(&'a str),
    Id(DeliveryId),
    Number(u64),
    /// The empty text.
    Absent,
}

impl ToRedisArgs for Argument<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Text(text) => out.write_arg(text.as_bytes()),
            Self::Id(id) => out.write_arg_fmt(id),
            Self::Number(number) => out.write_arg_fmt(number),
            Self::Absent => out.write_arg(b""),
        }
    }
}

impl<'a> Argument<'a> {
    fn millis(duration: Duration) -> Self {
        Self::Number(whole_millis(duration))
    }

    fn claim(Claim { entry: Entry { tenant, id, .. }, fence, .. }: &'a Claim) -> [Self; 3] {
        [Self::Text(tenant), Self::Id(*id), Self::Number(*fence)]
    }

    fn entry(Entry { tenant, webhook, id }: &'a Entry) -> [Self; 3] {
        [Self::Text(tenant), Self::Text(webhook), Self::Id(*id)]
    }

    fn count(count: usize) -> Self {
        Self::Number(u64::try_from(count).unwrap_or(u64::MAX))
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

fn whole_millis(duration: Duration) -> u64 {
    // The numbers of Lua are exact up to here, and a due time has 15 digits. A longer wait never ends.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(100_000_000_000_000)
}

fn tenants(names: Vec<String>) -> impl Iterator<Item = Arc<str>> {
    names.into_iter().map(Arc::from)
}

/// The part of `claim.lua`'s reply about one claim: tenant, webhook, delivery, fence, whether the webhook is quick, and for how many
/// milliseconds the entry had been due.
type ClaimReply = (String, String, String, u64, bool, i64);

/// `hand_off.lua`'s reply: of each claim the index of its entry, its fence and whether its webhook is quick; the tenants of entries that
/// were left out; the tenants at their limit of claims; and how many entries of quick webhooks wait.
type HandOffReply = (Vec<(usize, u64, bool)>, Vec<String>, Vec<String>, usize);

fn claim((tenant, webhook, id, fence, quick, overdue_ms): ClaimReply) -> Option<Claim> {
    // `put` wrote the id, so it can be parsed.
    let entry = Entry { tenant: tenant.into(), webhook: webhook.into(), id: id.parse().ok()? };
    Some(Claim { entry, fence, quick, overdue: duration(overdue_ms) })
}

impl RedisSchedule {
    pub(super) async fn limit(
        &self,
        mut tenants: Vec<(Arc<str>, TenantShares)>,
        only: bool,
    ) -> Result<(), ScheduleError> {
        if only {
            let [.., limits, _, _] = &self.keys;
            let known: Vec<String> = self.connection.query(cmd("HKEYS").arg(limits)).await.map_err(failed)?;
            let named: HashSet<&str> = tenants.iter().map(|(tenant, _)| &**tenant).collect();
            let gone: Vec<_> = known.into_iter().filter(|tenant| !named.contains(tenant.as_str())).collect();
            tenants.extend(gone.into_iter().map(|tenant| (Arc::from(tenant), self.per_tenant)));
        }
        for chunk in tenants.chunks(CHUNK) {
            let arguments = chunk.iter().flat_map(|(tenant, TenantShares { claims, entries })| {
                [Argument::Text(tenant), Argument::count(*claims), Argument::count(*entries)]
            });
            let arguments = self.arguments(arguments);
            let wakes: bool = self.run(&self.scripts.limit, arguments).await?;
            if wakes {
                self.changed.notify_one();
            }
        }
        Ok(())
    }

    pub(super) async fn put(&self, hints: Vec<Hint>) -> Result<Vec<Arc<str>>, ScheduleError> {
        let mut full = Vec::new();
        for chunk in hints.chunks(CHUNK) {
            let arguments = chunk.iter().flat_map(|Hint { entry, wait }| {
                Argument::entry(entry).into_iter().chain([Argument::millis(*wait)])
            });
            let arguments = self.arguments(arguments);
            full.extend(tenants(self.run(&self.scripts.put, arguments).await?));
            self.changed.notify_one();
        }
        Ok(full)
    }

    pub(super) async fn claim(&self, room: Room, lease: Duration) -> Result<Vec<Claim>, ScheduleError> {
        if room.slots == 0 {
            return Ok(Vec::new());
        }
        let counts = [room.slots, room.slow, room.without_claim];
        let [slots, slow, without_claim] = counts.map(|count| Argument::count(count.min(CHUNK)));
        let arguments = [slots, slow, without_claim, Argument::millis(lease)];
        let claimed: Vec<ClaimReply> = self.run(&self.scripts.claim, self.arguments(arguments)).await?;
        Ok(claimed.into_iter().filter_map(claim).collect())
    }

    pub(super) async fn hand_off(
        &self,
        entries: Vec<Entry>,
        mut room: Room,
        lease: Duration,
    ) -> Result<HandOffs, ScheduleError> {
        let mut all = HandOffs::default();
        for chunk in entries.chunks(CHUNK) {
            let part = match self.hand_off_chunk(chunk, room, lease).await {
                Ok(part) => part,
                Err(error) if all.claims.is_empty() => return Err(error),
                // The claims of the earlier calls are made.
                Err(_) => break,
            };
            for claim in &part.claims {
                room = room.beside(claim.quick, true).unwrap_or_default();
            }
            all.claims.extend(part.claims);
            all.full.extend(part.full);
            all.busy.extend(part.busy);
            all.quick_waiting += part.quick_waiting;
        }
        Ok(all)
    }

    /// Hands off the entries of one call.
    async fn hand_off_chunk(
        &self,
        entries: &[Entry],
        room: Room,
        lease: Duration,
    ) -> Result<HandOffs, ScheduleError> {
        let counts = [room.slots, room.slow, room.without_claim].map(Argument::count);
        let arguments = counts.into_iter().chain([Argument::millis(lease)]);
        let arguments = self.arguments(arguments.chain(entries.iter().flat_map(Argument::entry)));
        let reply: HandOffReply = self.run(&self.scripts.hand_off, arguments).await?;
        let (claimed, full, busy, quick_waiting) = reply;
        if claimed.len() < entries.len() {
            self.changed.notify_one();
        }
        let claim = |(index, fence, quick): (usize, u64, bool)| {
            let entry = entries.get(index)?.clone();
            Some(Claim { entry, fence, quick, overdue: Duration::ZERO })
        };
        let claims = claimed.into_iter().filter_map(claim).collect();
        Ok(HandOffs { claims, full: tenants(full).collect(), busy: tenants(busy).collect(), quick_waiting })
    }

    pub(super) async fn renew(
        &self,
        claims: &[Claim],
        lease: Duration,
    ) -> Result<ShareChanges, ScheduleError> {
        let mut changes = ShareChanges::default();
        for chunk in claims.chunks(CHUNK) {
            let arguments = chunk.iter().flat_map(Argument::claim);
            let arguments = self.arguments([Argument::millis(lease)].into_iter().chain(arguments));
            changes.shrunk += self.run::<u64>(&self.scripts.renew, arguments).await?;
        }
        Ok(changes)
    }

    pub(super) async fn settle(&self, ended: Vec<Ended>) -> Result<ShareChanges, ScheduleError> {
        let mut changes = ShareChanges::default();
        let millis = |time: Option<Duration>| time.map_or(Argument::Absent, Argument::millis);
        for chunk in ended.chunks(CHUNK) {
            let arguments = chunk.iter().flat_map(|Ended { claim, again, held }| {
                Argument::claim(claim).into_iter().chain([millis(*again), millis(*held)])
            });
            let arguments = self.arguments(arguments);
            let (wakes, grown, shrunk): (bool, u64, u64) = self.run(&self.scripts.settle, arguments).await?;
            changes.grown += grown;
            changes.shrunk += shrunk;
            if wakes {
                self.changed.notify_one();
            }
        }
        Ok(changes)
    }

    pub(super) async fn abandoned(&self) -> Result<Vec<Arc<str>>, ScheduleError> {
        Ok(self.look_for_abandoned(false).await?.into_iter().collect())
    }

    pub(super) async fn release_abandoned(&self) -> Result<(), ScheduleError> {
        let released = self.look_for_abandoned(true).await?;
        if !released.is_empty() {
            self.changed.notify_one();
        }
        Ok(())
    }

    pub(super) async fn next_due(&self) -> Result<Option<Duration>, ScheduleError> {
        let wait_ms: i64 = self.run(&self.scripts.next_due, self.arguments([])).await?;
        Ok(u64::try_from(wait_ms).ok().map(Duration::from_millis))
    }

    pub(super) async fn places(&self, tenant: &str, webhooks: &[String]) -> Result<Places, ScheduleError> {
        let mut places = Places::default();
        for chunk in webhooks.chunks(CHUNK) {
            let arguments = [tenant].into_iter().chain(chunk.iter().map(String::as_str)).map(Argument::Text);
            let (taken, all, webhooks): (usize, usize, Vec<(usize, usize, bool)>) =
                self.run(&self.scripts.places, self.arguments(arguments)).await?;
            (places.taken, places.all) = (taken, all);
            let of = |(taken, all, is_reduced)| WebhookPlaces { taken, all, is_reduced };
            places.webhooks.extend(webhooks.into_iter().map(of));
        }
        Ok(places)
    }

    pub(super) async fn overdue(&self, after: &str) -> Result<Overdue, ScheduleError> {
        let arguments = self.arguments([Argument::Text(after), Argument::count(CHUNK)]);
        let counted = self.run(&self.scripts.overdue, arguments).await?;
        let (entries, longest_ms, held, next): (usize, i64, usize, String) = counted;
        let longest = u64::try_from(longest_ms).ok().map(Duration::from_millis);
        Ok(Overdue { entries, held, longest, next: (!next.is_empty()).then_some(next) })
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns when Redis does not mark the index as complete: Redis is new, was emptied or restored, or another server, which may lack
    /// entries, took over. Until a process has [rebuilt](Self::rebuilt) the index, this returns once a second. Also returns when Redis
    /// responds again after it did not.
    pub(super) async fn lost(&self) -> Loss {
        let mut checks = self.checks.lock().await;
        loop {
            tokio::time::sleep_until(checks.next).await;
            checks.next = Instant::now() + CHECK_EVERY;
            checks.count += 1;
            // A response that does not arrive may have reported a loss. Then Redis has another number for the loss than this process, so
            // the next response reports it again. A call that Redis never received changes nothing.
            let known = self.loss.load(Ordering::Relaxed);
            let arguments = [self.owner.incarnation.clone(), known.to_string(), checks.count.to_string()];
            let loss = LOST.run::<u8>(&self.connection, self.loss_keys(), &arguments).await;
            checks.failed |= loss.is_err();
            match loss {
                Ok(1) => {
                    self.loss.store(checks.count, Ordering::Relaxed);
                    checks.failed = false;
                    return Loss::New;
                }
                Ok(2) => return Loss::Standing,
                Ok(_) if checks.failed => {
                    checks.failed = false;
                    return Loss::Hints;
                }
                // Callers that need Redis report that it is unavailable.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Marks the index complete, if [`lost`](Self::lost) returned in this process before the sweep and nothing was lost during the sweep.
    pub(super) async fn rebuilt(&self) -> Result<(), ScheduleError> {
        let arguments = [self.owner.incarnation.clone(), self.loss.load(Ordering::Relaxed).to_string()];
        REBUILT.run(&self.connection, self.loss_keys(), &arguments).await.map_err(failed)
    }

    pub(super) async fn sweep_turn(&self, every: Duration) -> Result<bool, ScheduleError> {
        let turn: u8 = SWEEP_TURN
            .run(&self.connection, &self.loss_keys()[..1], &[Argument::millis(every)])
            .await
            .map_err(failed)?;
        Ok(turn == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHARES;

    /// The names that a Lua text gives to this value.
    fn names_of<'a>(text: &'a str, value: &str) -> Vec<&'a str> {
        let (before, _) = text.split_once(value).expect("the value");
        let (_, names) = before.rsplit_once("local ").expect("a definition");
        names.trim_end_matches(['=', ' ', '\n']).split(',').map(str::trim).collect()
    }

    #[test]
    fn lua_names_the_keys_and_the_common_arguments_in_their_order() {
        let keys = Keys::new(Some("blue")).expect("a release").schedule();
        let name = |key: &String| key.rsplit(':').next().map(|name| name.to_uppercase().replace('-', "_"));
        let names: Vec<String> = keys.iter().filter_map(name).collect();
        assert_eq!(names_of(QUEUES, "unpack(KEYS)"), names);
        assert_eq!(names_of(QUEUES, "unpack(ARGV)"), ["process", "incarnation", "channel"]);
        assert_eq!(names_of(QUEUES, "{ unpack(ARGV, 4) }"), ["own"]);
    }

    #[test]
    fn constants_are_numbers_that_lua_uses() {
        let is_code = |line: &&str| !line.trim_start().starts_with("--");
        let code = QUEUES.lines().chain(include_str!("redis/hand_off.lua").lines()).filter(is_code);
        let words: HashSet<&str> =
            code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect();
        let constants = constants(SHARES);
        for line in constants.lines() {
            let (_, values) = line.split_once(" = ").expect("a definition");
            let names = names_of(line, values);
            let values: Vec<&str> = values.split(", ").collect();
            assert!(values.iter().all(|value| value.parse::<u64>().is_ok()), "{line}");
            assert_eq!(names.len(), values.len(), "{line}");
            assert!(names.iter().all(|name| words.contains(name)), "{line}");
        }
    }
}
