//! When API keys were last used: noted with each request, in memory, and stored in the tenants' databases every five minutes. What
//! a process noted since is lost if it is killed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_crds::ApiKeyDigest;
use docket_program::clock::Clock;
use docket_store::{StoreError, key_uses};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::tenants::{ServedTenant, Tenants};

/// How often the uses are stored. An idle tenant has none, and costs no connection.
const EVERY: Duration = Duration::from_secs(300);
/// How long storing those of a tenant may take.
const STORE_TIME: Duration = Duration::from_secs(5);

/// Of a key: the uid of its tenant, and when it was used, in milliseconds since 1970.
type Used = (Arc<str>, i64);

/// The uses that this process has seen and not stored yet, at most one of each key that is served.
#[derive(Debug)]
pub struct KeyUses {
    clock: Clock,
    noted: Mutex<HashMap<ApiKeyDigest, Used>>,
}

impl KeyUses {
    /// None yet.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, noted: Mutex::default() })
    }

    /// Notes that a request with this key was accepted.
    pub fn note(&self, key: ApiKeyDigest, tenant: &ServedTenant) {
        let now_ms = self.clock.now().as_millisecond();
        self.noted.lock().insert(key, (Arc::clone(&tenant.uid), now_ms));
    }

    /// The last use of a key that is not stored yet, in milliseconds since 1970.
    pub fn noted(&self, key: &ApiKeyDigest) -> Option<i64> {
        self.noted.lock().get(key).map(|(_, at_ms)| *at_ms)
    }

    /// Stores them every five minutes, and once more at the end.
    pub async fn run(self: Arc<Self>, tenants: Arc<Tenants>, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(self.clock.sleep(EVERY)).await.is_some() {
            self.store(&tenants).await;
        }
        self.store(&tenants).await;
    }

    /// Stores those of one tenant after the other. What can't be stored is noted again.
    async fn store(&self, tenants: &Tenants) {
        let mut by_tenant: HashMap<Arc<str>, Vec<(ApiKeyDigest, i64)>> = HashMap::new();
        for (key, (tenant, at_ms)) in std::mem::take(&mut *self.noted.lock()) {
            by_tenant.entry(tenant).or_default().push((key, at_ms));
        }
        for (uid, uses) in by_tenant {
            let Some(tenant) = tenants.by_uid(&uid) else { continue };
            let stored = tokio::time::timeout(STORE_TIME, self.store_of(&tenant, &uses)).await;
            if !matches!(stored, Ok(Ok(()))) {
                let mut noted = self.noted.lock();
                for (key, at_ms) in uses {
                    noted.entry(key).or_insert_with(|| (Arc::clone(&uid), at_ms));
                }
            }
        }
    }

    async fn store_of(&self, tenant: &ServedTenant, uses: &[(ApiKeyDigest, i64)]) -> Result<(), StoreError> {
        let uses = uses.iter().map(|(key, at_ms)| (key.fingerprint(), *at_ms)).collect();
        let mut transaction = tenant.store.begin(&self.clock).await?;
        let now_ms = transaction.now_ms();
        key_uses::store(&mut transaction, &uses, now_ms).await?;
        transaction.commit().await
    }
}
