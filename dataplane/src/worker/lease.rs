//! Leases are short, so that a dead worker's deliveries are taken over within seconds; an attempt that takes longer
//! keeps its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_domain::delivery::DeliveryId;

use super::{LEASE, Worker};
use docket_program::clock::millis;
use docket_schedule::{Claim, Schedule};
use docket_store::stores::Store;
use docket_store::{StoreError, deliveries};

/// The attempts under way in this process.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<Key, Lease>>);

/// Tenant, delivery and token: the one that lost a lease and the one that has it now are two.
type Key = (Arc<str>, DeliveryId, Arc<str>);

struct Lease {
    claim: Claim,
    store: Arc<Store>,
    /// By [`Clock::elapsed`](docket_program::clock::Clock::elapsed).
    until: Duration,
}

/// Leases of one batch, to be renewed together.
struct Renewal {
    store: Arc<Store>,
    claims: Vec<Claim>,
}

/// An attempt whose lease is kept.
pub(super) struct Kept {
    running: Arc<Running>,
    key: Key,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}

impl Running {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the lease of an attempt for as long as the answer lives, and no longer: one that ends by a panic is not
    /// kept from being taken over.
    pub(super) fn keep(
        self: &Arc<Self>,
        claim: &Claim,
        token: &Arc<str>,
        store: &Arc<Store>,
        until: Duration,
    ) -> Kept {
        let key = (Arc::clone(&claim.entry.tenant), claim.entry.id, Arc::clone(token));
        let lease = Lease { claim: claim.clone(), store: Arc::clone(store), until };
        self.lock().insert(key.clone(), lease);
        Kept { running: Arc::clone(self), key }
    }

    /// The leases that end before `before`, which are taken to last until `until` from now on; by token.
    fn renewals(&self, before: Duration, until: Duration) -> HashMap<Arc<str>, Renewal> {
        let mut renewals = HashMap::new();
        for ((.., token), lease) in self.lock().iter_mut().filter(|(_, lease)| lease.until < before) {
            lease.until = until;
            let empty = || Renewal { store: Arc::clone(&lease.store), claims: Vec::new() };
            renewals.entry(Arc::clone(token)).or_insert_with(empty).claims.push(lease.claim.clone());
        }
        renewals
    }

    /// These were not renewed after all: the next look tries again.
    fn not_renewed(&self, claims: &[Claim], token: &Arc<str>) {
        let mut leases = self.lock();
        for Claim { entry, .. } in claims {
            if let Some(lease) = leases.get_mut(&(Arc::clone(&entry.tenant), entry.id, Arc::clone(token))) {
                lease.until = Duration::ZERO;
            }
        }
    }
}

impl<S: Schedule> Worker<S> {
    /// Renews what has less than two thirds of its lease left, for ever.
    pub(super) async fn keep_leases(self: Arc<Self>) {
        loop {
            self.clock.sleep(LEASE / 4).await;
            let now = self.clock.elapsed();
            for (token, renewal) in self.running.renewals(now + LEASE * 2 / 3, now + LEASE) {
                // One task each: a tenant whose database hangs must not cost the others their leases.
                tokio::spawn(Arc::clone(&self).renew(token, renewal));
            }
        }
    }

    async fn renew(self: Arc<Self>, token: Arc<str>, renewal: Renewal) {
        let Renewal { store, claims } = renewal;
        // As it is served now: its URL or its password may have been changed since.
        let served = claims.first().and_then(|claim| self.tenants.by_uid(&claim.entry.tenant));
        let store = served.map_or(store, |tenant| Arc::clone(&tenant.store));
        let ids: Vec<DeliveryId> = claims.iter().map(|claim| claim.entry.id).collect();
        let renewed = async {
            let mut transaction = store.begin(&self.clock).await?;
            let until_ms = transaction.now_ms() + millis(LEASE);
            deliveries::renew(&mut transaction, &ids, &token, until_ms).await?;
            transaction.commit().await
        };
        // At once: a Redis that hangs must not cost the rows their leases, which are what counts.
        let (row, claim) = tokio::join!(renewed, self.schedule.renew(&claims, LEASE));
        if let Err::<(), StoreError>(error) = &row {
            tracing::warn!(error = %error, "can't renew leases");
        }
        if let Err(error) = &claim {
            tracing::warn!(error = %error, "can't renew claims");
        }
        if row.is_err() || claim.is_err() {
            self.running.not_renewed(&claims, &token);
        }
    }
}
