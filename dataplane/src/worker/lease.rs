//! Leases are short, so that a dead worker's deliveries are taken over within seconds; an attempt that takes longer
//! keeps its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use docket_domain::delivery::DeliveryId;

use super::{LEASE, Worker, millis};
use crate::schedule::{Claim, Schedule};
use crate::store::{StoreError, deliveries};

/// The attempts under way in this process.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<HashMap<(Arc<str>, DeliveryId), Lease>>);

#[derive(Debug, Clone)]
struct Lease {
    claim: Claim,
    token: String,
    until_ms: i64,
}

/// An attempt whose lease is kept.
#[derive(Debug)]
pub(super) struct Kept {
    running: Arc<Running>,
    key: (Arc<str>, DeliveryId),
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}

impl Running {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Arc<str>, DeliveryId), Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the lease of an attempt for as long as the answer lives, and no longer: one that ends by a panic is not
    /// kept from being taken over.
    pub(super) fn keep(self: &Arc<Self>, claim: &Claim, token: &str, until_ms: i64) -> Kept {
        let key = (Arc::clone(&claim.hint.tenant), claim.hint.id);
        let lease = Lease { claim: claim.clone(), token: token.to_owned(), until_ms };
        self.lock().insert(key.clone(), lease);
        Kept { running: Arc::clone(self), key }
    }

    /// The leases that end before `before_ms`, which are taken to last until `until_ms` from now on; by tenant and token.
    fn renewals(&self, before_ms: i64, until_ms: i64) -> BTreeMap<(Arc<str>, String), Vec<Claim>> {
        let mut renewals: BTreeMap<_, Vec<Claim>> = BTreeMap::new();
        for lease in self.lock().values_mut().filter(|lease| lease.until_ms < before_ms) {
            lease.until_ms = until_ms;
            let key = (Arc::clone(&lease.claim.hint.tenant), lease.token.clone());
            renewals.entry(key).or_default().push(lease.claim.clone());
        }
        renewals
    }
}

impl<S: Schedule> Worker<S> {
    /// Renews what has less than two thirds of its lease left, for ever.
    pub(super) async fn keep_leases(self: Arc<Self>) {
        loop {
            self.clock.sleep_until_ms(self.clock.now_ms() + millis(LEASE) / 4).await;
            let now_ms = self.clock.now_ms();
            let until_ms = now_ms + millis(LEASE);
            for ((uid, token), claims) in self.running.renewals(now_ms + millis(LEASE) * 2 / 3, until_ms) {
                // One task each: a tenant whose database hangs must not cost the others their leases.
                tokio::spawn(Arc::clone(&self).renew(uid, token, claims, until_ms));
            }
        }
    }

    async fn renew(self: Arc<Self>, uid: Arc<str>, token: String, claims: Vec<Claim>, until_ms: i64) {
        if let Err(error) = self.schedule.renew(&claims, until_ms).await {
            tracing::warn!(error = %error, "can't renew claims");
        }
        let Some(tenant) = self.tenants.by_uid(&uid) else { return };
        let ids: Vec<DeliveryId> = claims.iter().map(|claim| claim.hint.id).collect();
        let renewed = async {
            let mut transaction = tenant.store.ready(&self.clock).await?.begin().await?;
            deliveries::renew(&mut transaction, &ids, &token, until_ms).await?;
            transaction.commit().await
        };
        if let Err::<(), StoreError>(error) = renewed.await {
            tracing::warn!(tenant.code = tenant.config.client_code.as_str(), error = %error, "can't renew leases");
        }
    }
}
