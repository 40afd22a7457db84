//! Leases of running attempts. They are short, so that a lost worker's deliveries are taken over within seconds, and
//! are renewed while an attempt runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::{Clock, millis};
use docket_schedule::{Claim, Schedule};
use docket_store::stores::Store;
use docket_store::{StoreError, deliveries};

use crate::tenants::Tenants;

/// How long a row or a claim stays with a worker that does not renew it; then another worker takes it over.
pub(super) const LEASE: Duration = Duration::from_secs(4);

/// Renews the leases of the attempts that run in this process.
pub(super) struct Leases<S> {
    clock: Clock,
    tenants: Arc<Tenants>,
    schedule: Arc<S>,
    kept: Arc<Kept>,
}

/// A lease that is renewed until this is dropped, also by a panic: a crashed attempt can be taken over.
pub(super) struct KeptLease {
    kept: Arc<Kept>,
    key: Key,
}

#[derive(Default)]
struct Kept(Mutex<HashMap<Key, Lease>>);

/// Tenant, delivery and token. The token distinguishes an attempt that lost its lease from the one that has it now.
type Key = (Arc<str>, DeliveryId, Arc<str>);

struct Lease {
    claim: Claim,
    store: Arc<Store>,
    /// When the lease expires, by [`Clock::elapsed`].
    until: Duration,
}

/// Leases of one batch, which are renewed together.
struct Renewal {
    store: Arc<Store>,
    claims: Vec<Claim>,
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.kept.lock().remove(&self.key);
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the leases that end before `before`, by token, and marks them as renewed until `until`.
    fn take_ending(&self, before: Duration, until: Duration) -> HashMap<Arc<str>, Renewal> {
        let mut renewals = HashMap::new();
        for ((.., token), lease) in self.lock().iter_mut().filter(|(_, lease)| lease.until < before) {
            lease.until = until;
            let empty = || Renewal { store: Arc::clone(&lease.store), claims: Vec::new() };
            renewals.entry(Arc::clone(token)).or_insert_with(empty).claims.push(lease.claim.clone());
        }
        renewals
    }

    /// Marks leases as not renewed, so that the next round tries again.
    fn mark_ending(&self, claims: &[Claim], token: &Arc<str>) {
        let mut leases = self.lock();
        for Claim { entry, .. } in claims {
            if let Some(lease) = leases.get_mut(&(Arc::clone(&entry.tenant), entry.id, Arc::clone(token))) {
                lease.until = Duration::ZERO;
            }
        }
    }
}

impl<S: Schedule> Leases<S> {
    pub(super) fn new(clock: Clock, tenants: Arc<Tenants>, schedule: Arc<S>) -> Self {
        Self { clock, tenants, schedule, kept: Arc::default() }
    }

    /// Keeps a lease, which lasts until `until`, until the returned value is dropped.
    pub(super) fn keep(
        &self,
        claim: &Claim,
        token: &Arc<str>,
        store: &Arc<Store>,
        until: Duration,
    ) -> KeptLease {
        let key = (Arc::clone(&claim.entry.tenant), claim.entry.id, Arc::clone(token));
        let lease = Lease { claim: claim.clone(), store: Arc::clone(store), until };
        self.kept.lock().insert(key.clone(), lease);
        KeptLease { kept: Arc::clone(&self.kept), key }
    }

    /// Renews each lease that has less than two thirds of its time left. Never returns.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            self.clock.sleep(LEASE / 4).await;
            let now = self.clock.elapsed();
            for (token, renewal) in self.kept.take_ending(now + LEASE * 2 / 3, now + LEASE) {
                // A task for each batch: a tenant whose database hangs must not cost the others their leases.
                tokio::spawn(Arc::clone(&self).renew(token, renewal));
            }
        }
    }

    async fn renew(self: Arc<Self>, token: Arc<str>, renewal: Renewal) {
        let Renewal { store, claims } = renewal;
        // The tenant as it is served now: its URL or its password may have changed since the attempt began.
        let served = claims.first().and_then(|claim| self.tenants.by_uid(&claim.entry.tenant));
        let store = served.map_or(store, |tenant| Arc::clone(&tenant.store));
        let ids: Vec<DeliveryId> = claims.iter().map(|claim| claim.entry.id).collect();
        let rows = async {
            let mut transaction = store.begin(&self.clock).await?;
            let until_ms = transaction.now_ms() + millis(LEASE);
            deliveries::renew(&mut transaction, &ids, &token, until_ms).await?;
            transaction.commit().await
        };
        // Concurrently: a Redis that hangs must not cost the rows their leases, which are what counts.
        let (rows, claimed) = tokio::join!(rows, self.schedule.renew(&claims, LEASE));
        if let Err::<(), StoreError>(error) = &rows {
            tracing::warn!(error = %error, "renewing leases of attempts failed; retrying");
        }
        if let Err(error) = &claimed {
            tracing::warn!(error = %error, "renewing claims failed; retrying");
        }
        if rows.is_err() || claimed.is_err() {
            self.kept.mark_ending(&claims, &token);
        }
    }
}
