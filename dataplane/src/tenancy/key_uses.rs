//! The last uses of API keys: noted with each request, in memory, and stored in the tenants' databases every five minutes. Uses that are
//! not stored yet are lost if the process is killed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_crds::ApiKeyDigest;
use docket_program::clock::Clock;
use docket_store::{StoreError, key_uses};
use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{Metrics, Task};
use crate::tenancy::{ServedTenant, Tenants};

/// How often the uses are stored. An idle tenant has none, and costs no connection.
const EVERY: Duration = Duration::from_secs(300);
/// The longest time to store the uses of a tenant, and to store all uses when the process ends.
const STORE_TIME: Duration = Duration::from_secs(5);
/// The tenants whose uses are stored at once: a slow database does not delay the others.
const AT_ONCE: usize = 4;

/// The use of a key: the uid of its tenant, and the time in milliseconds since 1970.
type KeyUse = (Arc<str>, i64);

/// The uses that this process has seen and not stored yet, at most one of each key that is served.
#[derive(Debug)]
pub struct KeyUses {
    clock: Clock,
    noted: Mutex<HashMap<ApiKeyDigest, KeyUse>>,
}

impl KeyUses {
    /// Creates an empty list of uses.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, noted: Mutex::default() })
    }

    /// Notes that a request with this key was accepted.
    pub fn note(&self, key: ApiKeyDigest, tenant: &ServedTenant) {
        let now_ms = self.clock.now().as_millisecond();
        self.noted.lock().insert(key, (Arc::clone(&tenant.uid), now_ms));
    }

    /// Returns the last use of a key that is not stored yet, in milliseconds since 1970.
    pub fn noted(&self, key: &ApiKeyDigest) -> Option<i64> {
        self.noted.lock().get(key).map(|(_, at_ms)| *at_ms)
    }

    /// Stores the uses every five minutes, and once more at the end.
    pub async fn run(
        self: Arc<Self>,
        tenants: Arc<Tenants>,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
    ) {
        while shutdown.run_until_cancelled(self.clock.sleep(EVERY)).await.is_some() {
            let begun = self.clock.elapsed();
            self.store(&tenants, &metrics).await;
            metrics.upkeep.round(
                Task::KeyUses,
                self.clock.now_ms(),
                self.clock.elapsed().saturating_sub(begun),
            );
        }
        // Uses that are not stored by then are lost.
        let _ = tokio::time::timeout(STORE_TIME, self.store(&tenants, &metrics)).await;
    }

    /// Stores the uses of each tenant. Uses that can't be stored are noted again.
    async fn store(&self, tenants: &Tenants, metrics: &Metrics) {
        let mut by_tenant: HashMap<Arc<str>, Vec<(ApiKeyDigest, i64)>> = HashMap::new();
        for (key, (tenant, at_ms)) in std::mem::take(&mut *self.noted.lock()) {
            by_tenant.entry(tenant).or_default().push((key, at_ms));
        }
        let store = async |(uid, uses): (Arc<str>, Vec<(ApiKeyDigest, i64)>)| {
            let Some(tenant) = tenants.by_uid(&uid) else { return };
            let stored = tokio::time::timeout(STORE_TIME, self.store_of(&tenant, &uses)).await;
            let is_stored = matches!(stored, Ok(Ok(())));
            metrics.upkeep.visited(Task::KeyUses, is_stored);
            if !is_stored {
                let mut noted = self.noted.lock();
                for (key, at_ms) in uses {
                    noted.entry(key).or_insert_with(|| (Arc::clone(&uid), at_ms));
                }
            }
        };
        stream::iter(by_tenant).for_each_concurrent(AT_ONCE, store).await;
    }

    async fn store_of(&self, tenant: &ServedTenant, uses: &[(ApiKeyDigest, i64)]) -> Result<(), StoreError> {
        let uses = uses.iter().map(|(key, at_ms)| (key.fingerprint(), *at_ms)).collect();
        let mut transaction = tenant.store.begin(&self.clock).await?;
        let now_ms = transaction.now_ms();
        key_uses::store(&mut transaction, &uses, now_ms).await?;
        transaction.commit().await
    }
}

#[cfg(test)]
mod tests {
    use docket_rig::scratch::Folder;
    use docket_store::sqlite::Sqlite;

    use super::*;
    use crate::tenancy::testing;

    #[tokio::test]
    async fn uses_that_cannot_be_stored_are_noted_again_and_others_are_not() {
        let folder = Folder::new("key-uses-again");
        let clock = Clock::System;
        let served = [("AWAY", "no/such/folder"), ("THERE", "file")];
        let served = served.map(|(uid, path)| testing::tenant(uid, Sqlite::new(folder.path().join(path))));
        let tenants = Tenants::default();
        tenants.replace(served.to_vec());
        let uses = KeyUses::new(clock.clone());
        let keys = ["0", "1"].map(|digit| ApiKeyDigest::of(&digit.repeat(64)).expect("a key"));
        for (key, tenant) in keys.iter().zip(&served) {
            uses.note(*key, tenant);
        }
        let before = keys.each_ref().map(|key| uses.noted(key));
        assert!(before.iter().all(Option::is_some));
        uses.store(&tenants, &Metrics::default()).await;
        assert_eq!(keys.each_ref().map(|key| uses.noted(key)), [before[0], None]);
        let mut reader = served[1].store.reader(&clock).await.expect("a file");
        let stored = key_uses::all(&mut reader).await.expect("a statement");
        assert_eq!(stored.get(&keys[1].fingerprint()).copied(), before[1]);
    }

    #[tokio::test]
    async fn databases_that_hang_delay_the_end_of_a_process_once_and_not_each() {
        let folder = Folder::new("key-uses");
        let (clock, tenants) = (Clock::System, Arc::new(Tenants::default()));
        let served =
            ["ONE", "TWO", "THREE"].map(|uid| testing::tenant(uid, Sqlite::new(folder.path().join(uid))));
        tenants.replace(served.to_vec());
        let (uses, mut held) = (KeyUses::new(clock.clone()), Vec::new());
        for (number, tenant) in served.iter().enumerate() {
            // Nothing else writes to its file until this ends.
            held.push(tenant.store.begin(&clock).await.expect("begins"));
            let key = ApiKeyDigest::of(&format!("{number}").repeat(64)).expect("a key");
            uses.note(key, tenant);
        }
        tokio::time::pause();
        let (begun, shutdown) = (tokio::time::Instant::now(), CancellationToken::new());
        shutdown.cancel();
        Arc::clone(&uses).run(tenants, Arc::default(), shutdown).await;
        assert!(begun.elapsed() <= STORE_TIME, "{:?}", begun.elapsed());
        drop(held);
    }
}
