//! Leases of running attempts. They are short, so that a lost worker's deliveries are taken over within seconds, and
//! are renewed while an attempt runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docket_domain::delivery::{DeliveryId, LEASE};
use docket_program::clock::{Clock, millis};
use docket_program::owner::Owner;
use docket_schedule::{Claim, LOOK_EVERY, Schedule};
use docket_store::StoreError;
use docket_store::deliveries::{self, Held, Lease};
use docket_store::stores::Store;
use parking_lot::Mutex;

use crate::telemetry::{LeasePart, Metrics};
use crate::tenancy::Tenants;

// A claim sends no message, so other workers have to look before it expires.
const _: () = assert!(LEASE.as_millis() >= LOOK_EVERY.as_millis());

/// Renews the leases of the attempts that run in this process.
pub(super) struct Leases {
    clock: Clock,
    tenants: Arc<Tenants>,
    schedule: Arc<Schedule>,
    owner: Owner,
    /// The number of batches that have got a lease.
    batches: AtomicU64,
    kept: Arc<RenewedLeases>,
    metrics: Arc<Metrics>,
}

/// A lease that is renewed until this is dropped, also by a panic: a crashed attempt can be taken over.
pub(super) struct KeptLease {
    kept: Arc<RenewedLeases>,
    key: LeaseKey,
}

/// The leases that are renewed.
#[derive(Default)]
pub(super) struct RenewedLeases(Mutex<HashMap<LeaseKey, RenewedAttempt>>);

/// Tenant, delivery and [`Lease::id`], which distinguishes an attempt that lost its lease from the attempt that has it now.
type LeaseKey = (Arc<str>, DeliveryId, Arc<str>);

/// An attempt that is under way.
struct RenewedAttempt {
    claim: Claim,
    lease: Lease,
    store: Arc<Store>,
    /// When the lease expires, by [`Clock::elapsed`].
    until: Duration,
}

/// The leases of one tenant that are renewed together.
struct Renewal {
    store: Arc<Store>,
    claims: Vec<Claim>,
    /// The lease of each claim.
    leases: Vec<Lease>,
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.kept.0.lock().remove(&self.key);
    }
}

impl RenewedLeases {
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Takes the leases that end before `before`, with their attempts, and marks them as renewed until `until`.
    fn take_ending(&self, before: Duration, until: Duration) -> HashMap<Arc<str>, Renewal> {
        let mut renewals = HashMap::new();
        let mut attempts = self.0.lock();
        for ((tenant, ..), attempt) in attempts.iter_mut().filter(|(_, attempt)| attempt.until < before) {
            attempt.until = until;
            let store = &attempt.store;
            let empty = || Renewal { store: Arc::clone(store), claims: Vec::new(), leases: Vec::new() };
            let renewal: &mut Renewal = renewals.entry(Arc::clone(tenant)).or_insert_with(empty);
            renewal.claims.push(attempt.claim.clone());
            renewal.leases.push(attempt.lease.clone());
        }
        renewals
    }

    /// Marks leases as not renewed, so that the next round renews them.
    fn mark_ending(&self, claims: Vec<Claim>, leases: Vec<Lease>) {
        let mut attempts = self.0.lock();
        for (Claim { entry, .. }, lease) in claims.into_iter().zip(leases) {
            if let Some(attempt) = attempts.get_mut(&(entry.tenant, entry.id, lease.id())) {
                attempt.until = Duration::ZERO;
            }
        }
    }
}

impl Leases {
    pub(super) fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        schedule: Arc<Schedule>,
        owner: Owner,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { clock, tenants, schedule, owner, batches: AtomicU64::new(0), kept: Arc::default(), metrics }
    }

    pub(super) fn kept(&self) -> Arc<RenewedLeases> {
        Arc::clone(&self.kept)
    }

    /// Returns a lease for the attempts of one batch, which no batch of any process had before.
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
        let key = (Arc::clone(&claim.entry.tenant), claim.entry.id, lease.id());
        let (claim, lease) = (claim.clone(), lease.clone());
        let attempt = RenewedAttempt { claim, lease, store: Arc::clone(store), until };
        self.kept.0.lock().insert(key.clone(), attempt);
        KeptLease { kept: Arc::clone(&self.kept), key }
    }

    /// Renews each lease that has less than two thirds of its time left. Never returns.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            self.clock.sleep(LEASE / 4).await;
            let now = self.clock.elapsed();
            for (tenant_uid, renewal) in self.kept.take_ending(now + LEASE * 2 / 3, now + LEASE) {
                // A task for each tenant: a database that hangs must not cost other tenants their leases.
                tokio::spawn(Arc::clone(&self).renew(tenant_uid, renewal));
            }
        }
    }

    /// Renews leases of a tenant: their rows in one transaction, and their claims in the schedule.
    async fn renew(self: Arc<Self>, tenant_uid: Arc<str>, renewal: Renewal) {
        let Renewal { store, claims, leases } = renewal;
        // The tenant as it is served now: its URL or its password may have changed since the attempt began.
        let served = self.tenants.by_uid(&tenant_uid);
        let store = served.map_or(store, |tenant| Arc::clone(&tenant.store));
        let held: Vec<Held<'_>> = claims
            .iter()
            .zip(&leases)
            .map(|(Claim { entry, .. }, lease)| Held { id: entry.id, webhook: &entry.webhook, lease })
            .collect();
        let rows = async {
            let mut transaction = store.begin(&self.clock).await?;
            let until_ms = transaction.now_ms() + millis(LEASE);
            deliveries::renew(&mut transaction, &held, until_ms).await?;
            transaction.commit().await
        };
        // Concurrently: while Redis hangs, the rows must not lose their leases, which decide.
        let (rows, claimed) = tokio::join!(rows, self.schedule.renew(&claims, LEASE));
        if let Err::<(), StoreError>(error) = &rows {
            self.metrics.delivery.renewals_failed(LeasePart::Row, claims.len());
            tracing::warn!(error = %error, "renewing leases of attempts failed; retrying");
        }
        match &claimed {
            Ok(changes) => self.metrics.delivery.shares_changed(*changes),
            Err(error) => {
                self.metrics.delivery.renewals_failed(LeasePart::Claim, claims.len());
                tracing::warn!(error = %error, "renewing claims failed; retrying");
            }
        }
        if rows.is_err() || claimed.is_err() {
            self.kept.mark_ending(claims, leases);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use docket_rig::scratch::Folder;
    use docket_schedule::{Entry, Room, SHARES};
    use docket_store::Database;
    use docket_store::sqlite::Sqlite;

    use super::*;
    use crate::tenancy::testing;

    #[tokio::test]
    async fn leases_of_a_tenant_are_renewed_together_whatever_batches_they_are_of() {
        let clock = Clock::System;
        let schedule = Arc::new(Schedule::in_memory(clock.clone(), SHARES));
        let (owner, metrics) = (Owner::new(b"worker"), Arc::default());
        let leases = Leases::new(clock.clone(), Arc::default(), Arc::clone(&schedule), owner, metrics);
        let store = Arc::new(Store::new(Database::Sqlite(Sqlite::new("/never/opened".into()))));
        let mut kept = Vec::new();
        for (number, tenant) in (0..).zip(["a", "a", "b", "a"]) {
            let id = DeliveryId::new(clock.now(), [number; 10]);
            let entry = Entry { tenant: tenant.into(), webhook: "hook".into(), id };
            let room = Room { slots: 1, slow: 1, without_claim: 0 };
            let claimed = schedule.hand_off(vec![entry], room, LEASE).await.expect("it responds").claims;
            kept.push(leases.keep(
                &claimed[0],
                &leases.new_lease(),
                &store,
                Duration::from_secs(number.into()),
            ));
        }
        assert_eq!(leases.kept().count(), 4);
        let (before, until) = (Duration::from_secs(3), Duration::from_secs(9));
        let mut renewals = leases.kept.take_ending(before, until);
        let counts = |tenant: &str| renewals.get(tenant).map(|of| (of.claims.len(), of.leases.len()));
        assert_eq!((counts("a"), counts("b"), renewals.len()), (Some((2, 2)), Some((1, 1)), 2));
        let batches: HashSet<Arc<str>> = renewals.values().flat_map(|of| &of.leases).map(Lease::id).collect();
        assert_eq!(batches.len(), 3, "each keeps its own");
        assert_eq!(leases.kept.take_ending(before, until).len(), 0, "they are marked as renewed");
        let Renewal { claims, leases: failed, .. } = renewals.remove("b").expect("one tenant's");
        leases.kept.mark_ending(claims, failed);
        let again = leases.kept.take_ending(before, until);
        let tenants: Vec<&str> = again.keys().map(|tenant| &**tenant).collect();
        assert_eq!(tenants, ["b"], "what could not be renewed is renewed in the next round");
        drop(kept);
        assert_eq!(leases.kept.take_ending(Duration::MAX, until).len(), 0, "what has ended is not renewed");
    }

    /// Its URL may have changed since the attempt began, for example because the password is a new one.
    #[tokio::test]
    async fn lease_whose_row_was_not_renewed_is_renewed_again_in_the_database_that_the_tenant_has_then() {
        const LATER: Duration = Duration::from_secs(100);
        let (clock, tenants) = (Clock::System, Arc::<Tenants>::default());
        let schedule = Arc::new(Schedule::in_memory(clock.clone(), SHARES));
        let (owner, metrics) = (Owner::new(b"worker"), Arc::default());
        let leases = Leases::new(clock.clone(), Arc::clone(&tenants), Arc::clone(&schedule), owner, metrics);
        let leases = Arc::new(leases);
        let id = DeliveryId::new(clock.now(), [1; 10]);
        let entry = Entry { tenant: "a".into(), webhook: "hook".into(), id };
        let room = Room { slots: 1, slow: 1, without_claim: 0 };
        let claimed = schedule.hand_off(vec![entry], room, LEASE).await.expect("it responds").claims;
        let away = Arc::new(Store::new(Database::Sqlite(Sqlite::new("/dev/null/tenant.db".into()))));
        let _kept = leases.keep(&claimed[0], &leases.new_lease(), &away, Duration::ZERO);
        // The number of leases that a round renews.
        let round = async || {
            let ending = leases.kept.take_ending(LATER, LATER);
            let count = ending.len();
            for (tenant_uid, renewal) in ending {
                Arc::clone(&leases).renew(tenant_uid, renewal).await;
            }
            count
        };
        assert_eq!([round().await, round().await], [1, 1], "its claim was renewed, and its row was not");
        let folder = Folder::new("renewed");
        tenants.replace(vec![testing::tenant("a", Sqlite::new(folder.path().join("tenant.db")))]);
        assert_eq!([round().await, round().await], [1, 0], "both were renewed");
    }
}
