//! The keys on Redis agree after every sequence of transitions: each queue and each tenant is where it belongs.

use std::time::Duration;

use docket_redis::script::Script;
use docket_schedule::{Claim, Ended, Hint, Room, ShareLimits, Shares, TenantShares};

use crate::contract::Rig as _;
use crate::rig::{Rig, connection, hint, keys};

const SHARES: Shares =
    Shares { per_webhook: ShareLimits { start: 3, most: 8, least: 1 }, per_tenant: PER_TENANT, known: 6 };
const PER_TENANT: TenantShares = TenantShares { claims: 7, entries: 30 };

/// Returns what is wrong. `keys.rs` has the rules. A queue whose first entry fell due may still be in `heads`, until a
/// transition looks.
const CHECK: &str = r"
local ENTRIES, WAITING, CLAIMS, FLIGHT, SHARES, HEADS, READY, RING, READY_QUICK, RING_QUICK, TURNS, SIZES, LIMITS =
    unpack(KEYS)
local start, per_tenant, known = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local call, wrong = redis.call, {}
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function expect(fact, ...)
    if not fact then wrong[#wrong + 1] = (table.concat({ ... }, ' '):gsub('%z', '/')) end
end
local function limits_of(t)
    return tonumber(string.match(call('HGET', LIMITS, t) or '', '^%d+')) or per_tenant
end
local function scores(key)
    local found, members = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
    for i = 1, #found, 2 do members[found[i]] = tonumber(found[i + 1]) end
    return members
end
local function fields(key)
    local found, values = call('HGETALL', key), {}
    for i = 1, #found, 2 do values[found[i]] = found[i + 1] end
    return values
end
local entries, waiting, claims, flight = fields(ENTRIES), scores(WAITING), scores(CLAIMS), fields(FLIGHT)
local shares, heads, turns = fields(SHARES), scores(HEADS), fields(TURNS)
local classes = { ['0'] = { scores(READY), scores(RING), 'w' }, ['1'] = { scores(READY_QUICK), scores(RING_QUICK), 'q' } }
local in_flight, first, tenants, sizes = {}, {}, {}, {}
for key, value in pairs(entries) do
    local t, id = string.match(key, '^([^%z]*)%z(.*)$')
    local kind, w, rest = string.match(value, '^(%a)%z([^%z]*)%z(.*)$')
    local q = t .. '\0' .. w
    tenants[t] = true
    sizes[t] = (sizes[t] or 0) + 1
    if kind == 'w' then
        local member = q .. '\0' .. rest .. '\0' .. id
        expect(waiting[member], 'not waiting', member)
        waiting[member] = nil
        first[q] = math.min(first[q] or math.huge, tonumber(rest))
    else
        expect(claims[key], 'not claimed', key)
        claims[key] = nil
        in_flight[t] = (in_flight[t] or 0) + 1
        in_flight[q] = (in_flight[q] or 0) + 1
    end
end
local counted = fields(SIZES)
for t, size in pairs(sizes) do expect(counted[t] == tostring(size), 'size', t, size, counted[t]) end
for t in pairs(counted) do expect(sizes[t], 'counts no entry', t) end
for member in pairs(waiting) do expect(false, 'waits without an entry', member) end
for key in pairs(claims) do expect(false, 'claimed without an entry', key) end
for field, count in pairs(in_flight) do expect(flight[field] == tostring(count), 'flight', field, count) end
for field in pairs(flight) do expect(in_flight[field], 'too much in flight', field) end
local is_ready = {}
for q, due in pairs(first) do
    local share, quick = string.match(shares[q] or '', '^(%d+) (%d)')
    local class, other = classes[quick or '0'], classes[quick == '1' and '0' or '1']
    local t = string.match(q, '^[^%z]*')
    expect(not other[1][q], 'in the wrong class', q)
    if (in_flight[q] or 0) >= (tonumber(share) or start) then
        expect(not heads[q] and not class[1][q], 'should be nowhere', q)
    elseif class[1][q] then
        expect(due <= now and not heads[q], 'is not due, or also in heads', q)
        is_ready[class[3] .. t] = true
    else
        expect(heads[q] == due, 'not in heads', q, heads[q] or 'nothing', due)
    end
    heads[q], class[1][q] = nil, nil
end
for q in pairs(heads) do expect(false, 'in heads without an entry', q) end
for _, class in pairs(classes) do
    for q in pairs(class[1]) do expect(false, 'ready without an entry', q) end
    for t in pairs(tenants) do
        local belongs = is_ready[class[3] .. t] and (in_flight[t] or 0) < limits_of(t)
        expect((belongs or false) == (class[2][t] ~= nil), 'ring', class[3], t)
        class[2][t] = nil
    end
    for t in pairs(class[2]) do expect(false, 'in the ring without an entry', t) end
end
for field in pairs(turns) do expect(is_ready[field], 'turn of one that is not ready', field) end
expect(call('HLEN', SHARES) <= known, 'too many shares')
return wrong
";

/// Pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound)).expect("below")
    }

    fn hint(&mut self) -> Hint {
        let (tenant, webhook) = (format!("t{}", self.below(3)), format!("w{}", self.below(4)));
        // A delivery is always of the same webhook.
        let number = self.below(12) * 4 + u32::from(webhook.as_bytes()[1] - b'0');
        Hint { wait: Duration::from_millis(self.pick([0, 0, 500, 5_000])), ..hint(&tenant, &webhook, number) }
    }

    fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.below(u32::try_from(N).expect("few")) as usize]
    }

    fn room(&mut self) -> Room {
        Room { slots: self.below(12) as usize, slow: self.below(8) as usize, without_claim: 0 }
    }

    /// Some of the claims, which may have ended or expired before.
    fn some(&mut self, claims: &[Claim]) -> Vec<Claim> {
        claims.iter().filter(|_| self.below(3) == 0).cloned().collect()
    }

    fn ended(&mut self, claim: Claim) -> Ended {
        let held =
            self.pick([None, Some(Duration::ZERO), Some(Duration::ZERO), Some(Duration::from_secs(2))]);
        Ended { claim, again: self.pick([None, None, Some(0), Some(3)]).map(Duration::from_secs), held }
    }
}

async fn step(rig: &Rig, dice: &mut Dice, claims: &mut Vec<Claim>) -> &'static str {
    const LEASE: Duration = Duration::from_secs(4);
    let schedule = &rig.schedule;
    let count = dice.below(8);
    match dice.below(8) {
        0 | 1 => {
            schedule.put((0..count).map(|_| dice.hint()).collect()).await.expect("puts");
            "put"
        }
        2 => {
            claims.extend(schedule.claim(dice.room(), LEASE).await.expect("claims"));
            "claim"
        }
        3 => {
            let entries = (0..count).map(|_| dice.hint().entry).collect();
            claims.extend(schedule.hand_off(entries, dice.room(), LEASE).await.expect("hands off").claims);
            "hand_off"
        }
        4 => {
            let ended = dice.some(claims).into_iter().map(|claim| dice.ended(claim)).collect();
            schedule.settle(ended).await.expect("settles");
            "settle"
        }
        5 => {
            let claims = dice.pick([1, 3, 7, 12]);
            let tenant = dice.hint().entry.tenant;
            schedule
                .limit(vec![(tenant, TenantShares { claims, ..PER_TENANT })], false)
                .await
                .expect("limits");
            "limit"
        }
        6 => {
            let some = dice.some(claims);
            schedule.renew(&some, LEASE).await.expect("renews");
            "renew"
        }
        _ => {
            rig.advance(Duration::from_millis(dice.pick([300, 1_000, 4_000]))).await;
            let due = schedule.next_due().await.expect("answers");
            let claims =
                schedule.claim(Room { slots: 0, slow: 0, without_claim: 0 }, LEASE).await.expect("claims");
            assert!(claims.is_empty(), "{due:?}");
            "advance"
        }
    }
}

async fn check(rig: &Rig, when: &str) {
    let Shares { per_webhook, per_tenant, known, .. } = SHARES;
    let arguments = [per_webhook.start, per_tenant.claims, known];
    let script = Script::new(&[CHECK]);
    let wrong: Vec<String> =
        script.run(&connection(&rig.server.url()), &keys().schedule(), &arguments).await.expect("checks");
    assert!(wrong.is_empty(), "{when}: {wrong:#?}");
}

#[tokio::test]
async fn queues_and_tenants_are_where_they_belong() {
    let rig = Rig::with(SHARES);
    for seed in 0..6 {
        let (mut dice, mut claims, mut steps) = (Dice(seed), Vec::new(), Vec::new());
        for _ in 0..150 {
            steps.push(step(&rig, &mut dice, &mut claims).await);
            check(&rig, &format!("seed {seed}, after {} steps, the last {:?}", steps.len(), steps.last()))
                .await;
        }
        assert!(claims.len() > 20, "{} claims", claims.len());
        // All remaining entries become due, and can be claimed.
        let mut idle = 0;
        while idle < 3 {
            rig.advance(Duration::from_secs(6)).await;
            let room = Room { slots: 100, slow: 100, without_claim: 0 };
            let claims = rig.schedule.claim(room, Duration::from_secs(4)).await.expect("claims");
            idle = if claims.is_empty() { idle + 1 } else { 0 };
            let ended = claims.into_iter().map(|claim| Ended { claim, again: None, held: None });
            rig.schedule.settle(ended.collect()).await.expect("settles");
        }
        check(&rig, "at the end").await;
        assert_eq!(rig.server.cli(&["HLEN", "{docket}:3:entries"]), "0");
    }
}
