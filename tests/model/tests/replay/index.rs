//! The schedule of one history, in memory or on Redis.

use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_model::state::{Entry as ModelEntry, TaskId};
use docket_program::clock::{Clock, ManualClock};
use docket_redis::script::Script;
use docket_redis::{Keys, RedisConnection};
use docket_schedule::{Claim, Ended, Entry, Hint, Owner, Room, SHARES, Schedule};

use crate::{TICK, ticks};

const TENANT: &str = "tenant";
/// Moves all times; the suite of the schedule uses it too.
const ADVANCE: &str = include_str!("../../../../dataplane/schedule/tests/schedule/advance.lua");
/// Replaces the second half of the keys by copies of the first half.
const COPY: &str = r"
local half = #KEYS / 2
redis.call('DEL', unpack(KEYS, half + 1))
for i = 1, half do redis.call('COPY', KEYS[i], KEYS[half + i]) end
";
const DELETE: &str = "redis.call('DEL', unpack(KEYS))";
/// Returns of each entry its delivery, its fence (0: it waits), and the milliseconds until it is due or its claim expires.
const READ: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found, all = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
    local due = string.match(all[i + 1], '^w%z[^%z]*%z(%d+)')
    local fence = string.match(all[i + 1], '^c%z[^%z]*%z(%d+)')
    local at = due or redis.call('ZSCORE', KEYS[3], all[i])
    found[#found + 1] = { string.match(all[i], '%z(.*)$'), fence or '0', string.format('%.0f', at - now) }
end
return found
";

/// The schedule of one history.
pub(crate) struct Index {
    schedule: Schedule,
    backend: Backend,
    entries: [Entry; 2],
}

enum Backend {
    Memory(ManualClock),
    Redis {
        connection: RedisConnection,
        keys: Vec<String>,
        /// Where the schedule is saved.
        saved: Vec<String>,
        is_saved: bool,
    },
}

impl Index {
    /// An empty schedule in memory.
    pub(crate) fn in_memory(webhook: &str, ids: [DeliveryId; 2]) -> Self {
        let clock = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let schedule = Schedule::in_memory(Clock::Manual(clock.clone()), SHARES);
        Self { schedule, backend: Backend::Memory(clock), entries: entries(webhook, ids) }
    }

    /// An empty schedule on Redis, under keys that contain this number.
    pub(crate) fn on_redis(
        connection: RedisConnection,
        number: u16,
        webhook: &str,
        ids: [DeliveryId; 2],
    ) -> Self {
        let keys = Keys::new(Some(&format!("history-{number}"))).expect("a release");
        let schedule = Schedule::on_redis(connection.clone(), &keys, Owner::new("process"), SHARES);
        let keys = Vec::from(keys.schedule());
        let saved = keys.iter().map(|key| format!("{key}:saved")).collect();
        let backend = Backend::Redis { connection, keys, saved, is_saved: false };
        Self { schedule, backend, entries: entries(webhook, ids) }
    }

    /// Claims the first `count` deliveries, which are about to be saved.
    pub(crate) async fn hand_off(&self, count: usize) -> Vec<Claim> {
        let room = Room { slots: count, slow: count, without_claim: 0 };
        let entries = self.entries[..count].to_vec();
        let claims = self.schedule.hand_off(entries, room, TICK).await.expect("a response").claims;
        assert_eq!(claims.len(), count);
        claims
    }

    /// Announces deliveries that are about to be saved.
    pub(crate) async fn announce(&self, places: std::ops::Range<usize>) {
        let entries = self.entries[places].to_vec();
        let announced = self.schedule.hand_off(entries, Room::default(), TICK).await;
        assert_eq!(announced.expect("a response").claims, []);
    }

    pub(crate) async fn put(&self, place: usize, wait: Duration) {
        let hint = Hint { entry: self.entries[place].clone(), wait };
        let full = self.schedule.put(vec![hint]).await.expect("a response");
        assert!(full.is_empty());
    }

    /// Claims a delivery, which is due. Another one that the same call claims is put back.
    pub(crate) async fn claim(&self, place: usize) -> Claim {
        let room = Room { slots: 2, slow: 2, without_claim: 0 };
        let claims = self.schedule.claim(room, TICK).await.expect("a response");
        let is_wanted = |claim: &Claim| claim.entry == self.entries[place];
        let (mut wanted, others): (Vec<Claim>, Vec<Claim>) = claims.into_iter().partition(is_wanted);
        for claim in others {
            self.settle(claim, Some(Duration::ZERO)).await;
        }
        wanted.pop().expect("the delivery is due")
    }

    pub(crate) async fn settle(&self, claim: Claim, again: Option<Duration>) {
        self.schedule.settle(vec![Ended { claim, again, held: None }]).await.expect("a response");
    }

    pub(crate) async fn renew(&self, claim: &Claim) {
        self.schedule.renew(std::slice::from_ref(claim), TICK).await.expect("a response");
    }

    /// Moves the times, as if a tick had passed.
    pub(crate) async fn tick(&self) {
        match &self.backend {
            Backend::Memory(clock) => clock.advance(TICK),
            Backend::Redis { connection, keys, saved, is_saved } => {
                let by = [TICK.as_millis().to_string()];
                let script = Script::new(&[ADVANCE]);
                for keys in [Some(keys), Some(saved).filter(|_| *is_saved)].into_iter().flatten() {
                    let () = script.run(connection, keys, &by).await.expect("a response");
                }
            }
        }
    }

    /// Deletes everything.
    pub(crate) async fn lose(&self) {
        let Backend::Redis { connection, keys, .. } = &self.backend else { panic!("it is in memory") };
        run(connection, DELETE, keys.clone()).await;
    }

    /// Saves everything, as to a disk.
    pub(crate) async fn save(&mut self) {
        let Backend::Redis { connection, keys, saved, is_saved } = &mut self.backend else {
            panic!("it is in memory")
        };
        *is_saved = true;
        run(connection, COPY, [keys.clone(), saved.clone()].concat()).await;
    }

    /// Returns to the state that was saved last.
    pub(crate) async fn restore(&self) {
        let Backend::Redis { connection, keys, saved, .. } = &self.backend else { panic!("it is in memory") };
        run(connection, COPY, [saved.clone(), keys.clone()].concat()).await;
    }

    /// Compares the schedule with the model's. `fences`: the fence of each task.
    pub(crate) async fn check(&self, model: &[ModelEntry; 2], fences: &[Option<u64>], context: &str) {
        let webhook = self.entries[0].webhook.to_string();
        let places = self.schedule.places(TENANT, &[webhook]).await.expect("a response");
        let overdue = self.schedule.overdue("").await.expect("a response");
        let claimed = model.iter().filter(|entry| matches!(entry, ModelEntry::Claimed { .. })).count();
        let due = model.iter().filter(|entry| entry.is_due()).count();
        let real = (places.webhooks[0].taken, overdue.entries + overdue.held);
        assert_eq!(real, (claimed, due), "claims and due entries {context}");
        if let Backend::Redis { connection, keys, .. } = &self.backend {
            assert_eq!(&self.read(connection, keys, fences).await, model, "the schedule {context}");
        }
    }

    async fn read(
        &self,
        connection: &RedisConnection,
        keys: &[String],
        fences: &[Option<u64>],
    ) -> [ModelEntry; 2] {
        let found: Vec<(String, u64, i64)> =
            Script::new(&[READ]).run(connection, keys, &[String::new()]).await.expect("a response");
        let mut index = [ModelEntry::Absent; 2];
        for (id, fence, left_ms) in found {
            let place =
                self.entries.iter().position(|entry| entry.id.to_string() == id).expect("one of ours");
            let left = ticks(left_ms).max(0);
            let holder = fences.iter().position(|held| *held == Some(fence));
            index[place] = match fence {
                0 => ModelEntry::Waiting(left),
                _ => {
                    ModelEntry::Claimed { holder: holder.and_then(|task| TaskId::try_from(task).ok()), left }
                }
            };
        }
        index
    }
}

fn entries(webhook: &str, ids: [DeliveryId; 2]) -> [Entry; 2] {
    ids.map(|id| Entry { tenant: TENANT.into(), webhook: webhook.into(), id })
}

async fn run(connection: &RedisConnection, script: &str, keys: Vec<String>) {
    let () = Script::new(&[script]).run(connection, &keys, &[String::new()]).await.expect("a response");
}
