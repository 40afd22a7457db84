//! Leases of running attempts. They are short, so that a lost worker's deliveries are taken over within seconds, and
//! are renewed while an attempt runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_schedule::{Claim, Schedule};
use docket_store::StoreError;
use docket_store::deliveries::{self, Lease};
use docket_store::stores::Store;

use crate::tenants::Tenants;

/// How long a row or a claim stays with a worker that does not renew it; then another worker takes it over.
pub const LEASE: Duration = Duration::from_secs(4);

/// Renews the leases of the attempts that run in this process.
pub(super) struct Leases<S> {
    clock: Clock,
    tenants: Arc<Tenants>,
    schedule: Arc<S>,
    /// This process.
    owner: Owner,
    /// How many batches have got a lease.
    batches: AtomicU64,
    kept: Arc<Kept>,
}

/// A lease that is renewed until this is dropped, also by a panic: a crashed attempt can be taken over.
pub(super) struct KeptLease {
    kept: Arc<Kept>,
    key: Key,
}

#[derive(Default)]
struct Kept(Mutex<HashMap<Key, Attempt>>);

/// Tenant, delivery and lease, which distinguishes an attempt that lost its lease from the one that has it now.
type Key = (Arc<str>, DeliveryId, Lease);

/// An attempt that is under way.
struct Attempt {
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
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the leases that end before `before`, with their attempts, and marks them as renewed until `until`.
    fn take_ending(&self, before: Duration, until: Duration) -> HashMap<Lease, Renewal> {
        let mut renewals = HashMap::new();
        for ((.., lease), attempt) in self.lock().iter_mut().filter(|(_, attempt)| attempt.until < before) {
            attempt.until = until;
            let empty = || Renewal { store: Arc::clone(&attempt.store), claims: Vec::new() };
            renewals.entry(lease.clone()).or_insert_with(empty).claims.push(attempt.claim.clone());
        }
        renewals
    }

    /// Marks leases as not renewed, so that the next round tries again.
    fn mark_ending(&self, claims: &[Claim], lease: &Lease) {
        let mut attempts = self.lock();
        for Claim { entry, .. } in claims {
            if let Some(attempt) = attempts.get_mut(&(Arc::clone(&entry.tenant), entry.id, lease.clone())) {
                attempt.until = Duration::ZERO;
            }
        }
    }
}

impl<S: Schedule> Leases<S> {
    pub(super) fn new(clock: Clock, tenants: Arc<Tenants>, schedule: Arc<S>, owner: Owner) -> Self {
        Self { clock, tenants, schedule, owner, batches: AtomicU64::new(0), kept: Arc::default() }
    }

    /// A lease for the attempts of one batch, which no batch of any process had before.
    pub(super) fn new_lease(&self) -> Lease {
        Lease::new(&self.owner, self.batches.fetch_add(1, Ordering::Relaxed), LEASE)
    }

    /// Keeps a lease, which lasts until `until`, until the returned value is dropped.
    pub(super) fn keep(
        &self,
        claim: &Claim,
        lease: &Lease,
        store: &Arc<Store>,
        until: Duration,
    ) -> KeptLease {
        let key = (Arc::clone(&claim.entry.tenant), claim.entry.id, lease.clone());
        let attempt = Attempt { claim: claim.clone(), store: Arc::clone(store), until };
        self.kept.lock().insert(key.clone(), attempt);
        KeptLease { kept: Arc::clone(&self.kept), key }
    }

    /// Renews each lease that has less than two thirds of its time left. Never returns.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            self.clock.sleep(LEASE / 4).await;
            let now = self.clock.elapsed();
            for (lease, renewal) in self.kept.take_ending(now + LEASE * 2 / 3, now + LEASE) {
                // A task for each batch: a tenant whose database hangs must not cost the others their leases.
                tokio::spawn(Arc::clone(&self).renew(lease, renewal));
            }
        }
    }

    async fn renew(self: Arc<Self>, lease: Lease, renewal: Renewal) {
        let Renewal { store, claims } = renewal;
        // The tenant as it is served now: its URL or its password may have changed since the attempt began.
        let served = claims.first().and_then(|claim| self.tenants.by_uid(&claim.entry.tenant));
        let store = served.map_or(store, |tenant| Arc::clone(&tenant.store));
        let ids: Vec<DeliveryId> = claims.iter().map(|claim| claim.entry.id).collect();
        let rows = async {
            let mut transaction = store.begin(&self.clock).await?;
            let now_ms = transaction.now_ms();
            deliveries::renew(&mut transaction, &ids, &lease, now_ms).await?;
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
            self.kept.mark_ending(&claims, &lease);
        }
    }
}
