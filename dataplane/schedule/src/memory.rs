//! The schedule in memory, for one process: rebuilt from the databases when it starts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::{Clock, duration, millis};
use tokio::sync::Notify;

use super::{Claim, Entry, Hint, Loss, Schedule, ScheduleError, Shares};

/// The schedule in memory.
#[derive(Debug)]
pub struct MemorySchedule {
    clock: Clock,
    shares: Shares,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    tenants: BTreeMap<Arc<str>, TenantQueue>,
    /// Where each entry is.
    entries: HashMap<(Arc<str>, DeliveryId), Place>,
    /// Claims by the time they expire.
    claims: BTreeSet<(i64, Arc<str>, DeliveryId)>,
    /// The tenant that was served last.
    last_tenant: Option<Arc<str>>,
    fences: u64,
}

#[derive(Debug, Default)]
struct TenantQueue {
    webhooks: BTreeMap<Arc<str>, WebhookQueue>,
    in_flight: usize,
    last_webhook: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct WebhookQueue {
    waiting: BTreeSet<(i64, DeliveryId)>,
    in_flight: usize,
}

/// Where an entry is.
#[derive(Debug)]
struct Place {
    webhook: Arc<str>,
    at_ms: i64,
    /// The fence of the claim that holds it.
    claimed: Option<u64>,
}

impl MemorySchedule {
    /// Empty.
    pub fn new(clock: Clock, shares: Shares) -> Self {
        Self { clock, shares, state: Mutex::default(), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn queue(&mut self, tenant: &Arc<str>, webhook: &Arc<str>) -> &mut WebhookQueue {
        let tenant = self.tenants.entry(Arc::clone(tenant)).or_default();
        tenant.webhooks.entry(Arc::clone(webhook)).or_default()
    }

    fn put(&mut self, entry: Entry, at_ms: i64) {
        let Entry { tenant, webhook, id } = entry;
        match self.entries.get_mut(&(Arc::clone(&tenant), id)) {
            Some(entry) if entry.claimed.is_some() => return,
            Some(entry) => {
                let before = std::mem::replace(&mut entry.at_ms, at_ms);
                self.queue(&tenant, &webhook).waiting.remove(&(before, id));
            }
            None => {
                let entry = Place { webhook: Arc::clone(&webhook), at_ms, claimed: None };
                self.entries.insert((Arc::clone(&tenant), id), entry);
            }
        }
        self.queue(&tenant, &webhook).waiting.insert((at_ms, id));
    }

    /// Puts the entry of a claim back among the waiting, or removes it; then removes empty queues.
    fn end_claim(&mut self, tenant: &Arc<str>, id: DeliveryId, next_ms: Option<i64>) {
        let Some(entry) = self.entries.get_mut(&(Arc::clone(tenant), id)) else { return };
        self.claims.remove(&(entry.at_ms, Arc::clone(tenant), id));
        let webhook = Arc::clone(&entry.webhook);
        match next_ms {
            Some(at_ms) => {
                entry.at_ms = at_ms;
                entry.claimed = None;
            }
            None => {
                self.entries.remove(&(Arc::clone(tenant), id));
            }
        }
        let Some(tenant_queue) = self.tenants.get_mut(tenant) else { return };
        tenant_queue.in_flight -= 1;
        if let Some(queue) = tenant_queue.webhooks.get_mut(&webhook) {
            queue.in_flight -= 1;
            queue.waiting.extend(next_ms.map(|at_ms| (at_ms, id)));
            if queue.in_flight == 0 && queue.waiting.is_empty() {
                tenant_queue.webhooks.remove(&webhook);
            }
        }
        if tenant_queue.webhooks.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    fn release_expired(&mut self, now_ms: i64) {
        while let Some((until_ms, tenant, id)) = self.claims.first().cloned()
            && until_ms <= now_ms
        {
            self.end_claim(&tenant, id, Some(until_ms));
        }
    }

    /// The next entry in turn: the tenant after the last one served, the webhook after its last one served.
    fn next(&mut self, now_ms: i64, shares: Shares) -> Option<(Arc<str>, Arc<str>, DeliveryId)> {
        let tenant = in_turn(&self.tenants, self.last_tenant.as_ref(), |queue| {
            queue.in_flight < shares.per_tenant
                && queue.webhooks.values().any(|queue| queue.is_due(now_ms, shares))
        })?;
        let queue = self.tenants.get_mut(&tenant)?;
        let webhook =
            in_turn(&queue.webhooks, queue.last_webhook.as_ref(), |queue| queue.is_due(now_ms, shares))?;
        queue.last_webhook = Some(Arc::clone(&webhook));
        queue.in_flight += 1;
        let webhook_queue = queue.webhooks.get_mut(&webhook)?;
        webhook_queue.in_flight += 1;
        let (_, id) = webhook_queue.waiting.pop_first()?;
        self.last_tenant = Some(Arc::clone(&tenant));
        Some((tenant, webhook, id))
    }
}

impl WebhookQueue {
    fn is_due(&self, now_ms: i64, shares: Shares) -> bool {
        self.in_flight < shares.per_webhook && self.waiting.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
    }
}

/// The first key after `last`, going round, whose value is `ready`.
fn in_turn<V>(
    map: &BTreeMap<Arc<str>, V>,
    last: Option<&Arc<str>>,
    ready: impl Fn(&V) -> bool,
) -> Option<Arc<str>> {
    use std::ops::Bound::{Excluded, Unbounded};
    let after = last.map_or(Unbounded, |last| Excluded(Arc::clone(last)));
    let round = map.range((after, Unbounded)).chain(map.iter());
    round.into_iter().find(|(_, value)| ready(value)).map(|(key, _)| Arc::clone(key))
}

impl Schedule for MemorySchedule {
    async fn put(&self, hints: Vec<Hint>) -> Result<(), ScheduleError> {
        let now_ms = self.clock.now_ms();
        {
            let mut state = self.state();
            hints
                .into_iter()
                .for_each(|Hint { entry, wait }| state.put(entry, now_ms.saturating_add(millis(wait))));
        }
        self.changed.notify_one();
        Ok(())
    }

    async fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Claim>, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let until_ms = now_ms + millis(lease);
        let mut state = self.state();
        state.release_expired(now_ms);
        let mut claims = Vec::new();
        while claims.len() < limit
            && let Some((tenant, webhook, id)) = state.next(now_ms, self.shares)
        {
            state.fences += 1;
            let fence = state.fences;
            state.claims.insert((until_ms, Arc::clone(&tenant), id));
            if let Some(entry) = state.entries.get_mut(&(Arc::clone(&tenant), id)) {
                entry.claimed = Some(fence);
                entry.at_ms = until_ms;
            }
            claims.push(Claim { entry: Entry { tenant, webhook, id }, fence });
        }
        Ok(claims)
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<(), ScheduleError> {
        let until_ms = self.clock.now_ms() + millis(lease);
        let mut state = self.state();
        let State { entries, claims: by_time, .. } = &mut *state;
        for Claim { entry: Entry { tenant, id, .. }, fence } in claims {
            if let Some(entry) =
                entries.get_mut(&(Arc::clone(tenant), *id)).filter(|e| e.claimed == Some(*fence))
            {
                by_time.remove(&(entry.at_ms, Arc::clone(tenant), *id));
                by_time.insert((until_ms, Arc::clone(tenant), *id));
                entry.at_ms = until_ms;
            }
        }
        Ok(())
    }

    async fn settle(&self, ended: Vec<(Claim, Option<Duration>)>) -> Result<(), ScheduleError> {
        let now_ms = self.clock.now_ms();
        {
            let mut state = self.state();
            for (Claim { entry: Entry { tenant, id, .. }, fence }, next) in ended {
                let place = state.entries.get(&(Arc::clone(&tenant), id));
                if place.is_some_and(|place| place.claimed == Some(fence)) {
                    state.end_claim(&tenant, id, next.map(|wait| now_ms.saturating_add(millis(wait))));
                }
            }
        }
        self.changed.notify_one();
        Ok(())
    }

    async fn next_due(&self) -> Result<Option<Duration>, ScheduleError> {
        let now_ms = self.clock.now_ms();
        let state = self.state();
        let waiting = state
            .tenants
            .values()
            .filter(|queue| queue.in_flight < self.shares.per_tenant)
            .flat_map(|queue| queue.webhooks.values())
            .filter(|queue| queue.in_flight < self.shares.per_webhook)
            .filter_map(|queue| queue.waiting.first())
            .map(|(at_ms, _)| *at_ms);
        let claimed = state.claims.first().map(|(until_ms, ..)| *until_ms);
        Ok(waiting.chain(claimed).min().map(|at_ms| duration(at_ms - now_ms)))
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Never returns: the index is lost only with its process.
    async fn lost(&self) -> Loss {
        std::future::pending().await
    }

    async fn rebuilt(&self) -> Result<(), ScheduleError> {
        Ok(())
    }

    /// Always true: no other process shares the index.
    async fn sweep_turn(&self, _every: Duration) -> Result<bool, ScheduleError> {
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
        let claims = schedule.claim(1, Duration::from_secs(1)).await.expect("claims");
        schedule.settle(vec![(claims[0].clone(), None)]).await.expect("settles");
        let state = schedule.state();
        assert!(state.tenants.is_empty() && state.entries.is_empty() && state.claims.is_empty());
    }
}
