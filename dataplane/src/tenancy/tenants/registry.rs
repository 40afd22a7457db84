//! The list of tenants, replaced as a whole.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{ApiKey, ApiKeyDigest, KeyVersion};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::at_limit::AtLimit;
use super::tenant::ServedTenant;
use crate::telemetry::Metrics;

/// The longest time by which a process may learn of a tenant later than another process although no failure is known: a watch that receives
/// nothing is closed after 75 s.
pub const SOURCE_LAG: Duration = Duration::from_secs(120);

/// The revision of each served tenant, by uid.
pub type Revisions = HashMap<String, String>;

/// The tenants that are served.
#[derive(Default)]
pub struct Tenants {
    current: RwLock<Arc<TenantIndex>>,
    /// The revisions of the tenants. A change is sent after the tenants were replaced.
    pub(super) revisions: watch::Sender<Revisions>,
    /// The uids of tenants that are new or have changed since the last call of `changed`.
    changed: Mutex<BTreeSet<Arc<str>>>,
    has_changed: Notify,
    /// The last time that the source of tenants could not be read.
    doubted: Mutex<Option<Instant>>,
    /// The tenants that were at a limit.
    pub at_limit: AtLimit,
}

/// The time after a failure of the source in which the served tenants may differ from the declared ones. It is longer than the time between
/// two failures in a row: a watch is closed after 75 s of silence, retries after 5 s, and connects within 5 s.
const DOUBT: Duration = Duration::from_secs(90);

#[derive(Default)]
struct TenantIndex {
    by_uid: HashMap<Arc<str>, Arc<ServedTenant>>,
    by_key: HashMap<ApiKeyDigest, Arc<ServedTenant>>,
    by_subdomain: HashMap<String, Arc<ServedTenant>>,
    by_client_code: HashMap<String, Arc<ServedTenant>>,
}

impl TenantIndex {
    /// Creates the index of these tenants, which replaces `before`.
    fn of(tenants: Vec<Arc<ServedTenant>>, before: &Self) -> Self {
        let mut index = Self::default();
        // A folder does not check keys across tenants. A tenant keeps its key, whichever file comes first: another
        // tenant must not take over its requests.
        for tenant in &tenants {
            let keeps = |digest| before.by_key.get(digest).is_some_and(|was| was.uid == tenant.uid);
            let kept = working_keys(tenant).filter(|key| keeps(&key.digest));
            index.by_key.extend(kept.map(|key| (key.digest, Arc::clone(tenant))));
        }
        for tenant in tenants {
            index.add(tenant);
        }
        index
    }

    fn add(&mut self, tenant: Arc<ServedTenant>) {
        let config = &tenant.config;
        for key in working_keys(&tenant) {
            let holder = self.by_key.entry(key.digest).or_insert_with(|| Arc::clone(&tenant));
            if holder.uid != tenant.uid {
                let (code, other) = (config.client_code.as_str(), holder.config.client_code.as_str());
                let name = &key.name;
                tracing::warn!(
                    tenant.code = code,
                    "API key {name} belongs to tenant {other} already; generate another"
                );
            }
        }
        if !config.suspended {
            for subdomain in &config.subdomains {
                self.by_subdomain.insert(subdomain.to_ascii_lowercase(), Arc::clone(&tenant));
            }
        }
        self.by_client_code.insert(config.client_code.as_str().to_ascii_lowercase(), Arc::clone(&tenant));
        self.by_uid.insert(Arc::clone(&tenant.uid), Arc::clone(&tenant));
    }
}

/// Returns the keys that name a tenant. Keys of a suspended tenant are refused, and still belong to it.
fn working_keys(tenant: &ServedTenant) -> impl Iterator<Item = &ApiKey> {
    tenant.config.api_keys.iter().filter(|key| key.active && key.version == KeyVersion::V2)
}

impl Tenants {
    /// Sets the metrics that count tenants at a limit.
    #[must_use]
    pub fn counted(self, metrics: Arc<Metrics>) -> Self {
        Self { at_limit: AtLimit::new(metrics), ..self }
    }

    /// Serves these tenants and no others from now on.
    pub fn replace(&self, tenants: Vec<Arc<ServedTenant>>) {
        // One task replaces the tenants, so nothing changes between these lines. Requests wait only for the assignment.
        let before = self.current();
        let index = Arc::new(TenantIndex::of(tenants, &before));
        *self.current.write() = Arc::clone(&index);
        let mut changed = self.changed.lock();
        changed.retain(|uid| index.by_uid.contains_key(uid));
        let new_or_changed = index.by_uid.iter().filter(|(uid, tenant)| {
            before.by_uid.get(*uid).is_none_or(|before| !Arc::ptr_eq(before, tenant))
        });
        changed.extend(new_or_changed.map(|(uid, _)| Arc::clone(uid)));
        self.has_changed.notify_one();
    }

    /// Returns the revisions that are served, and each change of them.
    pub fn revisions(&self) -> watch::Receiver<Revisions> {
        self.revisions.subscribe()
    }

    /// Records that the source of tenants can't be read now.
    pub fn doubt(&self) {
        *self.doubted.lock() = Some(Instant::now());
    }

    /// Whether a tenant or webhook that is not served here was removed, or was declared at most [`SOURCE_LAG`] ago.
    pub fn is_current(&self) -> bool {
        let doubted = *self.doubted.lock();
        doubted.is_none_or(|doubted| doubted.elapsed() > DOUBT)
    }

    /// Returns the uids of tenants that are new or have changed since the last call. Waits until there are some. For one
    /// caller.
    pub async fn changed(&self) -> BTreeSet<Arc<str>> {
        loop {
            let changed = self.take_changed();
            if !changed.is_empty() {
                return changed;
            }
            self.has_changed.notified().await;
        }
    }

    /// Like [`changed`](Self::changed), without waiting.
    pub fn take_changed(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *self.changed.lock())
    }

    fn current(&self) -> Arc<TenantIndex> {
        Arc::clone(&self.current.read())
    }

    /// Returns the tenant of this API key, and the key's digest. `None`: the key is unknown, inactive or of the older API, or its tenant
    /// is suspended.
    pub fn by_key(&self, key: &str) -> Option<(Arc<ServedTenant>, ApiKeyDigest)> {
        let digest = ApiKeyDigest::of(key).ok()?;
        let tenant = self.current().by_key.get(&digest).cloned();
        tenant.filter(|tenant| !tenant.config.suspended).map(|tenant| (tenant, digest))
    }

    /// Returns the tenant of this subdomain, in lower case.
    pub fn by_subdomain(&self, label: &str) -> Option<Arc<ServedTenant>> {
        self.current().by_subdomain.get(label).cloned()
    }

    /// Returns the tenant with this client code, in any case; a suspended tenant is not served.
    pub fn by_client_code(&self, code: &str) -> Option<Arc<ServedTenant>> {
        let tenant = self.current().by_client_code.get(&code.to_ascii_lowercase()).cloned();
        tenant.filter(|tenant| !tenant.config.suspended)
    }

    /// Returns the tenant with this uid, suspended or not.
    pub fn by_uid(&self, uid: &str) -> Option<Arc<ServedTenant>> {
        self.current().by_uid.get(uid).cloned()
    }

    /// Returns all tenants, in no particular order.
    pub fn all(&self) -> Vec<Arc<ServedTenant>> {
        self.current().by_uid.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tenants_are_in_doubt_for_a_minute_and_a_half_after_each_failure_of_their_source() {
        let tenants = Tenants::default();
        assert!(tenants.is_current(), "nothing has failed");
        for _ in 0..2 {
            tenants.doubt();
            tokio::time::advance(Duration::from_secs(89)).await;
            assert!(!tenants.is_current());
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(tenants.is_current());
    }
}
