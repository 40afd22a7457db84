//! The schedule in memory, for one process: rebuilt from the databases when it starts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::{Clock, duration, millis};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::shares::{BACKLOG, ShareChanges, ShareLimits, Shares, TenantShares, WebhookShare};
use super::{Claim, Ended, Entry, HandOffs, Hint, Loss, Overdue, Places, Room, ScheduleError, WebhookPlaces};

/// The schedule in memory.
#[derive(Debug)]
pub(super) struct MemorySchedule {
    clock: Clock,
    state: Mutex<ScheduleState>,
    changed: Notify,
}

#[derive(Debug)]
struct ScheduleState {
    shares: Shares,
    /// The limits of tenants that have limits of their own.
    limits: HashMap<Arc<str>, TenantShares>,
    tenants: BTreeMap<Arc<str>, TenantQueue>,
    /// The entries by tenant and delivery.
    entries: HashMap<(Arc<str>, DeliveryId), ScheduleEntry>,
    /// The claims, by the time at which they expire.
    claims: BTreeSet<(i64, Arc<str>, DeliveryId)>,
    /// The tenant that was served last in each class of webhooks: not quick, quick.
    last_tenant: [Option<Arc<str>>; 2],
    /// What is known of webhooks without a queue, by tenant and webhook.
    known: BTreeMap<(Arc<str>, Arc<str>), WebhookShare>,
    fences: u64,
}

#[derive(Debug, Default)]
struct TenantQueue {
    webhooks: BTreeMap<Arc<str>, WebhookQueue>,
    in_flight: usize,
    /// The webhook that was served last in each class of webhooks.
    last_webhook: [Option<Arc<str>>; 2],
}

#[derive(Debug)]
struct WebhookQueue {
    waiting: BTreeSet<(i64, DeliveryId)>,
    in_flight: usize,
    pace: WebhookShare,
}

/// An entry that waits or is claimed.
#[derive(Debug)]
struct ScheduleEntry {
    webhook: Arc<str>,
    /// When the entry is due, or its claim expires.
    at_ms: i64,
    /// The fence of the claim; `None`: the entry waits.
    claimed: Option<u64>,
}

impl MemorySchedule {
    pub(super) fn new(clock: Clock, shares: Shares) -> Self {
        let (limits, tenants, entries, claims, last_tenant, known, fences) = Default::default();
        let state = ScheduleState { shares, limits, tenants, entries, claims, last_tenant, known, fences };
        Self { clock, state: Mutex::new(state), changed: Notify::new() }
    }
}

impl ScheduleState {
    /// The queue of a webhook. Creates it if there is none.
    fn queue(&mut self, tenant: &Arc<str>, webhook: &Arc<str>) -> &mut WebhookQueue {
        let Self { tenants, known, shares, .. } = self;
        let queues = tenants.entry(Arc::clone(tenant)).or_default();
        queues.webhooks.entry(Arc::clone(webhook)).or_insert_with(|| {
            let pace = known.remove(&(Arc::clone(tenant), Arc::clone(webhook)));
            let pace = pace.unwrap_or_else(|| WebhookShare::unknown(shares.per_webhook));
            WebhookQueue { waiting: BTreeSet::new(), in_flight: 0, pace }
        })
    }

    fn limits_of(&self, tenant: &str) -> TenantShares {
        self.limits.get(tenant).copied().unwrap_or(self.shares.per_tenant)
    }

    /// The number of a tenant's entries.
    fn size(&self, tenant: &Arc<str>) -> usize {
        let queues = self.tenants.get(tenant).into_iter().flat_map(|queues| queues.webhooks.values());
        queues.map(|queue| queue.waiting.len() + queue.in_flight).sum()
    }

    /// Adds or moves an entry. If the tenant has as many entries as it may, a new entry is left out, and the tenant is returned.
    fn put(&mut self, entry: Entry, mut at_ms: i64, now_ms: i64) -> Option<Arc<str>> {
        let Entry { tenant, webhook, id } = entry;
        let is_full = self.size(&tenant) >= self.limits_of(&tenant).entries;
        match self.entries.get_mut(&(Arc::clone(&tenant), id)) {
            Some(entry) if entry.claimed.is_some() => return None,
            Some(entry) => {
                if entry.webhook == webhook && entry.at_ms <= now_ms && at_ms <= now_ms {
                    // An entry that is due keeps its place before entries that came later.
                    at_ms = entry.at_ms;
                }
                let before_ms = std::mem::replace(&mut entry.at_ms, at_ms);
                let before = std::mem::replace(&mut entry.webhook, Arc::clone(&webhook));
                self.queue(&tenant, &before).waiting.remove(&(before_ms, id));
                if before != webhook {
                    self.remove_if_empty(&tenant, &before);
                }
            }
            None if is_full => return Some(tenant),
            None => {
                let entry = ScheduleEntry { webhook: Arc::clone(&webhook), at_ms, claimed: None };
                self.entries.insert((Arc::clone(&tenant), id), entry);
            }
        }
        self.queue(&tenant, &webhook).waiting.insert((at_ms, id));
        None
    }

    /// Claims the next entry in turn of a class of webhooks. `only_new`: only of tenants without a claim.
    fn claim_next(&mut self, quick: bool, only_new: bool, now_ms: i64, until_ms: i64) -> Option<Claim> {
        let (entry, at_ms) = self.next(quick, only_new, now_ms)?;
        Some(self.hold(entry, until_ms, duration(now_ms - at_ms)))
    }

    /// Takes the next entry in turn out of its queue. The turn is with the tenant after the last served tenant, and with its webhook after
    /// the webhook that it was served last. Returns the entry, and when it fell due.
    fn next(&mut self, quick: bool, only_new: bool, now_ms: i64) -> Option<(Entry, i64)> {
        let class = usize::from(quick);
        let is_next = |queue: &WebhookQueue| queue.pace.quick == quick && queue.is_due(now_ms);
        let tenant = in_turn(&self.tenants, self.last_tenant[class].as_ref(), |tenant, queue| {
            !self.is_busy(tenant)
                && (!only_new || self.is_new(tenant))
                && queue.webhooks.values().any(is_next)
        })?;
        let queue = self.tenants.get_mut(&tenant)?;
        let webhook =
            in_turn(&queue.webhooks, queue.last_webhook[class].as_ref(), |_, webhook| is_next(webhook))?;
        queue.last_webhook[class] = Some(Arc::clone(&webhook));
        let (at_ms, id) = queue.webhooks.get_mut(&webhook)?.waiting.pop_first()?;
        self.last_tenant[class] = Some(Arc::clone(&tenant));
        Some((Entry { tenant, webhook, id }, at_ms))
    }

    /// Whether a tenant has as many claims as it may.
    fn is_busy(&self, tenant: &str) -> bool {
        let most = self.limits_of(tenant).claims;
        self.tenants.get(tenant).is_some_and(|queue| queue.in_flight >= most)
    }

    /// Whether a tenant has no claim.
    fn is_new(&self, tenant: &str) -> bool {
        self.tenants.get(tenant).is_none_or(|queue| queue.in_flight == 0)
    }

    /// Returns whether the webhook of a new entry is quick, if the entry can be claimed at once and overtakes no [`BACKLOG`].
    fn has_place(&mut self, entry: &Entry, now_ms: i64) -> Option<bool> {
        let is_busy = self.is_busy(&entry.tenant);
        let queue = self.queue(&entry.tenant, &entry.webhook);
        let overtakes = queue.waiting.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms - millis(BACKLOG));
        let has_place = !is_busy && !overtakes && queue.in_flight < queue.pace.share;
        has_place.then_some(queue.pace.quick)
    }

    /// Claims the new entries for which there is a place. The others wait until `until_ms`. Skips entries that are scheduled already.
    fn hand_off(&mut self, entries: Vec<Entry>, mut room: Room, now_ms: i64, until_ms: i64) -> HandOffs {
        let (mut claims, mut quick_waiting) = (Vec::new(), 0);
        let (mut full, mut busy) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            if self.entries.contains_key(&(Arc::clone(&entry.tenant), entry.id)) {
                continue;
            }
            if let Some(claim) = self.claim_new(&entry, &mut room, now_ms, until_ms) {
                claims.push(claim);
                continue;
            }
            busy.extend(self.is_busy(&entry.tenant).then(|| Arc::clone(&entry.tenant)));
            quick_waiting += usize::from(self.queue(&entry.tenant, &entry.webhook).pace.quick);
            full.extend(self.put(entry, until_ms, now_ms));
        }
        let (full, busy) = (full.into_iter().collect(), busy.into_iter().collect());
        HandOffs { claims, full, busy, quick_waiting }
    }

    /// Claims a new entry if webhook, tenant and `room` have a place for it. Takes the place out of `room`.
    fn claim_new(&mut self, entry: &Entry, room: &mut Room, now_ms: i64, until_ms: i64) -> Option<Claim> {
        let quick = self.has_place(entry, now_ms)?;
        *room = room.beside(quick, self.is_new(&entry.tenant))?;
        Some(self.hold(entry.clone(), until_ms, Duration::ZERO))
    }

    /// Claims an entry that is in no queue. `overdue`: for how long it has been due.
    fn hold(&mut self, entry: Entry, until_ms: i64, overdue: Duration) -> Claim {
        let Entry { tenant, webhook, id } = &entry;
        let queue = self.queue(tenant, webhook);
        queue.in_flight += 1;
        queue.pace.claimed(queue.in_flight);
        let quick = queue.pace.quick;
        if let Some(queue) = self.tenants.get_mut(tenant) {
            queue.in_flight += 1;
        }
        self.fences += 1;
        let scheduled =
            ScheduleEntry { webhook: Arc::clone(webhook), at_ms: until_ms, claimed: Some(self.fences) };
        self.entries.insert((Arc::clone(tenant), *id), scheduled);
        self.claims.insert((until_ms, Arc::clone(tenant), *id));
        Claim { entry, fence: self.fences, quick, overdue }
    }

    /// Whether the claim holds its entry, which it does until it expires or ends.
    fn holds(&self, Claim { entry, fence, .. }: &Claim) -> bool {
        let scheduled = self.entries.get(&(Arc::clone(&entry.tenant), entry.id));
        scheduled.is_some_and(|scheduled| scheduled.claimed == Some(*fence))
    }

    /// Ends the claim of an entry. The entry waits until `next_ms`; with `None` it is removed. An entry that is not due now is also
    /// removed if the tenant has as many entries as it may. Removes queues that are empty then.
    fn end_claim(&mut self, tenant: &Arc<str>, id: DeliveryId, next_ms: Option<i64>, now_ms: i64) {
        let has_room = self.size(tenant) < self.limits_of(tenant).entries;
        let next_ms = next_ms.filter(|next_ms| *next_ms <= now_ms || has_room);
        let key = (Arc::clone(tenant), id);
        let Some(ScheduleEntry { webhook, at_ms: until_ms, .. }) = self.entries.remove(&key) else { return };
        self.claims.remove(&(until_ms, Arc::clone(tenant), id));
        let Some(queues) = self.tenants.get_mut(tenant) else { return };
        let Some(queue) = queues.webhooks.get_mut(&webhook) else { return };
        queues.in_flight -= 1;
        queue.in_flight -= 1;
        if let Some(at_ms) = next_ms {
            queue.waiting.insert((at_ms, id));
            self.entries.insert(key, ScheduleEntry { webhook, at_ms, claimed: None });
        } else {
            self.remove_if_empty(tenant, &webhook);
        }
    }

    /// Removes the queue of a webhook that has no entry.
    fn remove_if_empty(&mut self, tenant: &Arc<str>, webhook: &Arc<str>) {
        let Some(queues) = self.tenants.get_mut(tenant) else { return };
        let Some(queue) = queues.webhooks.get(webhook) else { return };
        if queue.in_flight > 0 || !queue.waiting.is_empty() {
            return;
        }
        let pace = queue.pace;
        queues.webhooks.remove(webhook);
        if queues.webhooks.is_empty() {
            self.tenants.remove(tenant);
        }
        self.remember(tenant, webhook, pace);
    }

    /// Keeps what is known of a webhook without a queue.
    fn remember(&mut self, tenant: &Arc<str>, webhook: &Arc<str>, pace: WebhookShare) {
        if pace != WebhookShare::unknown(self.shares.per_webhook) {
            self.known.insert((Arc::clone(tenant), Arc::clone(webhook)), pace);
        }
        if self.known.len() > self.shares.known {
            self.known.pop_first();
        }
    }

    /// Ends the claims that have expired; their entries are due since then.
    fn release_expired(&mut self, now_ms: i64) {
        while let Some((until_ms, tenant, id)) = self.claims.first().cloned()
            && until_ms <= now_ms
        {
            self.end_claim(&tenant, id, Some(until_ms), now_ms);
        }
    }

    /// Changes the shares of the webhooks whose claims end together: of each webhook, the longest claim counts. Returns how many shares
    /// changed.
    fn learn(&mut self, ended: &[Ended], now_ms: i64) -> ShareChanges {
        let mut longest: HashMap<(&Arc<str>, &Arc<str>), Duration> = HashMap::new();
        for Ended { claim, held, .. } in ended {
            if let Some(held) = held.filter(|_| self.holds(claim)) {
                let longest = longest.entry((&claim.entry.tenant, &claim.entry.webhook)).or_default();
                *longest = held.max(*longest);
            }
        }
        let mut changes = ShareChanges::default();
        for ((tenant, webhook), held) in longest {
            let ended = |pace: &mut WebhookShare, limits| pace.ended(held, now_ms, limits);
            self.change_share(tenant, webhook, &mut changes, ended);
        }
        changes
    }

    /// Changes what is known of a webhook. Counts the change of its share.
    fn change_share(
        &mut self,
        tenant: &Arc<str>,
        webhook: &Arc<str>,
        changes: &mut ShareChanges,
        change: impl FnOnce(&mut WebhookShare, ShareLimits),
    ) {
        let limits = self.shares.per_webhook;
        let pace = &mut self.queue(tenant, webhook).pace;
        let before = pace.share;
        change(pace, limits);
        changes.count(before, pace.share);
    }

    /// Extends a claim. Returns false if it has expired or ended.
    fn extend(&mut self, Claim { entry, fence, .. }: &Claim, until_ms: i64) -> bool {
        let key = (Arc::clone(&entry.tenant), entry.id);
        let scheduled = self.entries.get_mut(&key).filter(|scheduled| scheduled.claimed == Some(*fence));
        let Some(scheduled) = scheduled else { return false };
        let before_ms = std::mem::replace(&mut scheduled.at_ms, until_ms);
        let (tenant, id) = key;
        self.claims.remove(&(before_ms, Arc::clone(&tenant), id));
        self.claims.insert((until_ms, tenant, id));
        true
    }
}

impl WebhookQueue {
    fn is_due(&self, now_ms: i64) -> bool {
        self.in_flight < self.pace.share && self.waiting.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
    }
}

/// The first key after `last` that is `ready` with its value. After the last key follows the first.
fn in_turn<V>(
    map: &BTreeMap<Arc<str>, V>,
    last: Option<&Arc<str>>,
    ready: impl Fn(&str, &V) -> bool,
) -> Option<Arc<str>> {
    use std::ops::Bound::{Excluded, Unbounded};
    let after = last.map_or(Unbounded, |last| Excluded(Arc::clone(last)));
    let mut round = map.range((after, Unbounded)).chain(map);
    round.find(|(key, value)| ready(key, value)).map(|(key, _)| Arc::clone(key))
}

impl MemorySchedule {
    pub(super) async fn limit(
        &self,
        tenants: Vec<(Arc<str>, TenantShares)>,
        only: bool,
    ) -> Result<(), ScheduleError> {
        let mut state = self.state.lock();
        if only {
            state.limits.clear();
        }
        state.limits.extend(tenants);
        self.changed.notify_one();
        Ok(())
    }

    pub(super) async fn put(&self, hints: Vec<Hint>) -> Result<Vec<Arc<str>>, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        let put = |Hint { entry, wait }| state.put(entry, now_ms.saturating_add(millis(wait)), now_ms);
        let full: BTreeSet<Arc<str>> = hints.into_iter().filter_map(put).collect();
        self.changed.notify_one();
        Ok(full.into_iter().collect())
    }

    pub(super) async fn claim(&self, room: Room, lease: Duration) -> Result<Vec<Claim>, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let until_ms = now_ms + millis(lease);
        let mut state = self.state.lock();
        state.release_expired(now_ms);
        let mut claims = Vec::new();
        for (quick, most) in [(false, room.slots.min(room.slow)), (true, room.slots)] {
            while claims.len() < most {
                let only_new = !quick && most - claims.len() <= room.without_claim;
                let Some(claim) = state.claim_next(quick, only_new, now_ms, until_ms) else { break };
                claims.push(claim);
            }
        }
        Ok(claims)
    }

    pub(super) async fn hand_off(
        &self,
        entries: Vec<Entry>,
        room: Room,
        lease: Duration,
    ) -> Result<HandOffs, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let until_ms = now_ms + millis(lease);
        let count = entries.len();
        let handed_off = self.state.lock().hand_off(entries, room, now_ms, until_ms);
        if handed_off.claims.len() < count {
            self.changed.notify_one();
        }
        Ok(handed_off)
    }

    pub(super) async fn renew(
        &self,
        claims: &[Claim],
        lease: Duration,
    ) -> Result<ShareChanges, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let until_ms = now_ms + millis(lease);
        let mut state = self.state.lock();
        let mut changes = ShareChanges::default();
        for claim in claims {
            if state.extend(claim, until_ms) {
                let Entry { tenant, webhook, .. } = &claim.entry;
                let renewed = |pace: &mut WebhookShare, limits| pace.renewed(now_ms, limits);
                state.change_share(tenant, webhook, &mut changes, renewed);
            }
        }
        Ok(changes)
    }

    pub(super) async fn settle(&self, ended: Vec<Ended>) -> Result<ShareChanges, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        let changes = state.learn(&ended, now_ms);
        for Ended { claim, again, .. } in ended {
            if state.holds(&claim) {
                let next_ms = again.map(|wait| now_ms.saturating_add(millis(wait)));
                state.end_claim(&claim.entry.tenant, claim.entry.id, next_ms, now_ms);
            }
        }
        self.changed.notify_one();
        Ok(changes)
    }

    /// Always empty: the index ended with the earlier process.
    pub(super) async fn abandoned(&self) -> Result<Vec<Arc<str>>, ScheduleError> {
        Ok(Vec::new())
    }

    pub(super) async fn release_abandoned(&self) -> Result<(), ScheduleError> {
        Ok(())
    }

    pub(super) async fn next_due(&self) -> Result<Option<Duration>, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let waiting = state
            .tenants
            .iter()
            .filter(|(tenant, _)| !state.is_busy(tenant))
            .flat_map(|(_, queue)| queue.webhooks.values())
            .filter(|queue| queue.in_flight < queue.pace.share)
            .filter_map(|queue| queue.waiting.first())
            .map(|(at_ms, _)| *at_ms);
        let claimed = state.claims.first().map(|(until_ms, ..)| *until_ms);
        Ok(waiting.chain(claimed).min().map(|at_ms| duration(at_ms - now_ms)))
    }

    pub(super) async fn places(&self, tenant: &str, webhooks: &[String]) -> Result<Places, ScheduleError> {
        let state = self.state.lock();
        let queues = state.tenants.get(tenant);
        let of = |webhook: &String| {
            let queue = queues.and_then(|queues| queues.webhooks.get(webhook.as_str()));
            let known = || state.known.get(&(tenant.into(), webhook.as_str().into())).copied();
            let pace = queue.map(|queue| queue.pace).or_else(known);
            let pace = pace.unwrap_or_else(|| WebhookShare::unknown(state.shares.per_webhook));
            WebhookPlaces {
                taken: queue.map_or(0, |queue| queue.in_flight),
                all: pace.share,
                is_reduced: pace.is_reduced(),
            }
        };
        let webhooks = webhooks.iter().map(of).collect();
        let taken = queues.map_or(0, |queues| queues.in_flight);
        Ok(Places { taken, all: state.limits_of(tenant).claims, webhooks })
    }

    /// Counts the entries of all webhooks at once.
    pub(super) async fn overdue(&self, _after: &str) -> Result<Overdue, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let expired = state.claims.iter().take_while(|(until_ms, ..)| *until_ms <= now_ms).count();
        let mut overdue = Overdue { entries: expired, ..Overdue::default() };
        let mut first_ms = state.claims.first().map_or(i64::MAX, |(until_ms, ..)| *until_ms);
        for (tenant, queues) in &state.tenants {
            let is_busy = state.is_busy(tenant);
            for queue in queues.webhooks.values() {
                let due = queue.waiting.iter().take_while(|(at_ms, _)| *at_ms <= now_ms).count();
                if is_busy || queue.in_flight >= queue.pace.share {
                    overdue.held += due;
                } else {
                    overdue.entries += due;
                    // The time of an entry that is not due yet does not matter: it is later than the time of each due entry.
                    first_ms = queue.waiting.first().map_or(first_ms, |(at_ms, _)| first_ms.min(*at_ms));
                }
            }
        }
        overdue.longest = (overdue.entries > 0).then(|| duration(now_ms - first_ms));
        Ok(overdue)
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Never returns: the index is lost only with its process.
    pub(super) async fn lost(&self) -> Loss {
        std::future::pending().await
    }

    pub(super) async fn rebuilt(&self) -> Result<(), ScheduleError> {
        Ok(())
    }

    /// Always true: no other process shares the index.
    pub(super) async fn sweep_turn(&self, _every: Duration) -> Result<bool, ScheduleError> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settled_entry_leaves_nothing_behind() {
        let schedule = MemorySchedule::new(Clock::System, crate::SHARES);
        let id = DeliveryId::new(jiff::Timestamp::UNIX_EPOCH, [1; 10]);
        let entry = Entry { tenant: "a".into(), webhook: "w".into(), id };
        schedule.put(vec![Hint { entry, wait: Duration::ZERO }]).await.expect("puts");
        let claim = schedule
            .claim(Room { slots: 1, slow: 1, without_claim: 0 }, Duration::from_secs(1))
            .await
            .expect("claims");
        let ended = Ended { claim: claim[0].clone(), again: None, held: None };
        schedule.settle(vec![ended]).await.expect("settles");
        let state = schedule.state.lock();
        assert!(state.tenants.is_empty() && state.entries.is_empty() && state.claims.is_empty());
        assert!(state.known.is_empty());
    }
}
