//! The operator's knowledge of the cluster and the data plane, and the rules on it.
//!
//! The files below are pure: they wait for nothing, read no clock and call nothing outside. [`State`] holds their
//! values behind locks, and reports to the loop in `work` which objects a change concerns.

pub mod arrivals;
pub mod by_name;
pub mod claims;
pub mod cluster;
pub mod conditions;
pub mod database_checks;
pub mod declared;
pub mod done;
pub mod handover;
pub mod health;
pub mod keys;
pub mod labels;
pub mod migrations;
pub mod name;
pub mod object_event;
pub mod outcome;
pub mod own_secrets;
pub mod pods;
pub mod progress;
pub mod references;
pub mod resyncs;
pub mod sight;
mod small_set;
pub mod write_budget;

#[cfg(test)]
pub(crate) mod examples;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{ApiKeyDigest, Limit, Runtime, Tenant};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::arrivals::{Arrivals, Lacking};
use self::cluster::{ClusterState, ReportedGeneration};
use self::database_checks::DatabaseChecks;
use self::declared::{Declared, Meta};
use self::handover::{HandedOver, Handovers};
use self::health::{Health, Healths, REPORTED_EVERY, Reported};
use self::keys::ApiKeyClaims;
use self::migrations::{MigrationRules, Waiting};
use self::name::{Name, ObjectKey};
use self::pods::{Pods, Programmed};
use self::progress::Progress;
use self::resyncs::{Rest, Resync, Resyncs};
use self::sight::Sight;
use self::write_budget::WriteBudget;

/// An event that the loop in `work` reacts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These objects have to be reconciled.
    Concerns(Vec<ObjectKey>, Urgency),
    /// The API server is back: what failed meanwhile need not wait for its turn.
    Recovered,
}

/// How urgent a reconciliation is, the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing changed: a resync, or another try after a failure.
    Scheduled,
    /// No user waits: after a failover, or after news of pods or deliveries.
    Routine,
    /// A user declared something that no operator has reported on yet. The first pass over a Tenant may take long, since it creates a
    /// database. A change of what is served already must not wait for it.
    New,
    /// A user changed something, or waits for the result.
    Awaited,
    /// A user waits for a change that is handed over, and pods have reported on it. What is left takes milliseconds, and must not
    /// wait while the databases of other Tenants are created.
    Finishing,
}

/// The limits that Tenants have reached again and again, by the Tenant's uid.
pub type AtLimit = HashMap<String, BTreeSet<Limit>>;

/// Everything that the operator has observed. Its locks are held only for look-ups, never across an await.
#[derive(Debug)]
pub struct State {
    /// The progress of the watches.
    pub progress: Progress,
    /// When the API server was last heard on each watch.
    pub sight: Sight,
    /// The budget for writes that no user waits for.
    pub writes: WriteBudget,
    cluster: Mutex<ClusterState>,
    keys: Mutex<ApiKeyClaims>,
    handovers: Mutex<Handovers>,
    healths: Mutex<Healths>,
    /// The limits that Tenants have reached; `None`: nothing was read since this process started.
    at_limit: Mutex<Option<AtLimit>>,
    database_checks: Mutex<DatabaseChecks>,
    arrivals: Mutex<Arrivals>,
    resyncs: Mutex<Resyncs>,
    pods_are_known: watch::Sender<bool>,
    awaits_pods: Notify,
    changes: mpsc::UnboundedSender<Change>,
}

impl State {
    /// An empty state. The receiver gets each change, in order.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (changes, receiver) = mpsc::unbounded_channel();
        let state = Self {
            progress: Progress::default(),
            sight: Sight::default(),
            writes: WriteBudget::default(),
            cluster: Mutex::default(),
            keys: Mutex::default(),
            handovers: Mutex::default(),
            healths: Mutex::default(),
            at_limit: Mutex::default(),
            database_checks: Mutex::default(),
            arrivals: Mutex::default(),
            resyncs: Mutex::default(),
            pods_are_known: watch::Sender::new(false),
            awaits_pods: Notify::new(),
            changes,
        };
        (state, receiver)
    }

    /// What the watches have seen.
    pub fn cluster(&self) -> MutexGuard<'_, ClusterState> {
        self.cluster.lock()
    }

    /// A change concerns these objects. Of what the first lists bring, no user waits for an object whose status is about it as it is now.
    pub fn changed(&self, keys: Vec<ObjectKey>) {
        let current = if self.progress.is_complete() { Urgency::Awaited } else { Urgency::Routine };
        self.by_report(keys, current);
    }

    /// These objects have to be reconciled by a process that begins.
    pub fn resume(&self, keys: Vec<ObjectKey>) {
        self.by_report(keys, Urgency::Routine);
    }

    /// These objects have to be reconciled, as urgently as their statuses say. `current`: the urgency of an object whose status is about
    /// it as it is now, or that is gone.
    fn by_report(&self, keys: Vec<ObjectKey>, current: Urgency) {
        let mut by_urgency: BTreeMap<Reverse<Urgency>, Vec<ObjectKey>> = BTreeMap::new();
        {
            let cluster = self.cluster();
            for key in keys {
                let urgency = match cluster.reported(&key) {
                    ReportedGeneration::None => Urgency::New,
                    ReportedGeneration::Other => Urgency::Awaited,
                    ReportedGeneration::Current => current,
                };
                by_urgency.entry(Reverse(urgency)).or_default().push(key);
            }
        }
        for (Reverse(urgency), keys) in by_urgency {
            self.concerns(keys, urgency);
        }
    }

    /// These objects have to be reconciled.
    pub fn concerns(&self, keys: Vec<ObjectKey>, urgency: Urgency) {
        if !keys.is_empty() {
            self.send(Change::Concerns(keys, urgency));
        }
    }

    /// A watch works again after it failed.
    pub fn recovered(&self) {
        self.send(Change::Recovered);
    }

    fn send(&self, change: Change) {
        // The receiver is gone only when the process ends.
        let _ = self.changes.send(change);
    }

    /// Records the API keys of a Tenant. Returns the keys that belong to an earlier Tenant and so do not count for this Tenant.
    pub fn claim_keys(&self, meta: &Meta, keys: HashSet<ApiKeyDigest>) -> HashSet<ApiKeyDigest> {
        let (taken, concerned) = self.keys.lock().set(meta, keys);
        self.tenants_changed(concerned);
        taken
    }

    /// The live pods.
    pub fn pods(&self) -> Arc<Pods> {
        self.handovers.lock().pods()
    }

    /// Records the live pods.
    pub fn set_pods(&self, pods: Pods) {
        let news = self.handovers.lock().set_pods(pods);
        self.pods_are_known.send_replace(true);
        for (names, urgency) in [(news.awaited, Urgency::Finishing), (news.others, Urgency::Routine)] {
            self.concerns(names.into_iter().map(ObjectKey::Tenant).collect(), urgency);
        }
    }

    /// Records that the pods' reports can't be read now.
    pub fn lose_pods(&self) {
        self.handovers.lock().lose_pods();
        self.pods_are_known.send_replace(true);
    }

    /// Waits until the pods were read, or could not be read.
    pub async fn pods_known(&self) {
        // The sender lives as long as `self`, so this returns only when the value is true.
        let _ = self.pods_are_known.subscribe().wait_for(|known| *known).await;
    }

    /// Whether the data plane's reports can be read now.
    pub fn reads_the_board(&self) -> bool {
        matches!(*self.pods(), Pods::Seen(_))
    }

    /// Hands a configuration over; see [`Handovers::hand_over`].
    pub fn hand_over(
        &self,
        meta: &Meta,
        stored: Option<&Runtime>,
        now: Option<&Runtime>,
    ) -> (HandedOver, Arc<Pods>) {
        let (handed, pods) = self.handovers.lock().hand_over(meta, stored, now);
        if handed.verdicts(&pods, &meta.uid).iter().any(Programmed::is_awaited) {
            self.awaits_pods.notify_one();
        }
        (handed, pods)
    }

    /// Waits until something is handed over that not every pod serves yet.
    pub async fn awaits_pods(&self) {
        self.awaits_pods.notified().await;
    }

    /// The health of a Webhook's deliveries that a status reports; `None`: the data plane has reported none.
    pub fn health(&self, webhook_uid: &str) -> Option<Reported> {
        self.healths.lock().get(webhook_uid)
    }

    /// Records the health of deliveries, by the uids of Webhooks.
    pub fn set_health(&self, read: HashMap<String, Health>, now: Instant) {
        let news = self.healths.lock().replace(read, now, REPORTED_EVERY);
        let keys = self.cluster().webhooks_with_uids(&news);
        self.concerns(keys, Urgency::Routine);
    }

    /// The limits that a Tenant has reached again and again; `None`: unknown since this process started.
    pub fn at_limit(&self, tenant_uid: &str) -> Option<BTreeSet<Limit>> {
        Some(self.at_limit.lock().as_ref()?.get(tenant_uid).cloned().unwrap_or_default())
    }

    /// Records the limits that Tenants (by uid) have reached again and again. Other Tenants have reached none.
    pub fn set_at_limit(&self, read: AtLimit) {
        let before = self.at_limit.lock().replace(read.clone());
        let is_news = |uid: &&String| before.as_ref().and_then(|before| before.get(*uid)) != read.get(*uid);
        let before_uids = before.iter().flat_map(AtLimit::keys);
        let news: HashSet<&String> = read.keys().chain(before_uids).filter(is_news).collect();
        let keys = match &before {
            Some(_) => self.cluster().tenants_with_uids(&news),
            // A condition from before this process started may not be true any more, so all Tenants are reconciled.
            None => self.cluster().tenants(),
        };
        self.concerns(keys, Urgency::Routine);
    }

    /// What the migration of this Tenant's database waits for now; `None`: it may begin.
    pub fn migration_waits(
        &self,
        tenant: &Declared<Tenant>,
        rules: MigrationRules,
        now: Timestamp,
    ) -> Option<Waiting> {
        migrations::waits(rules, self.cluster().first_tenants(), tenant.migration(), now)
    }

    /// Whether a check of a tenant's database is due; see [`DatabaseChecks::is_due`].
    pub fn database_check_is_due(&self, tenant_uid: &str, now: Instant, interval: Duration) -> bool {
        self.database_checks.lock().is_due(tenant_uid, now, interval)
    }

    /// Records a check of a tenant's database; see [`DatabaseChecks::checked`].
    pub fn database_checked(&self, tenant_uid: &str, now: Instant, next: Duration) {
        self.database_checks.lock().checked(tenant_uid, now, next);
    }

    /// What to do about a Tenant that no change concerns; see [`Resyncs::next`].
    pub fn resync(&self, tenant_uid: &str, server: u64, now: Instant) -> Resync {
        self.resyncs.lock().next(tenant_uid, server, now)
    }

    /// Records that a Tenant is at rest; see [`Resyncs::rests`].
    pub fn rests(&self, tenant_uid: &str, rest: Rest) {
        self.resyncs.lock().rests(tenant_uid, rest);
    }

    /// Records that a check of a Tenant at rest found no change; see [`Resyncs::checked`].
    pub fn rests_still(&self, tenant_uid: &str) {
        self.resyncs.lock().checked(tenant_uid);
    }

    /// Records that a Tenant is not at rest; see [`Resyncs::forget`].
    pub fn rests_no_more(&self, tenant_uid: &str) {
        self.resyncs.lock().rests_no_more(tenant_uid);
    }

    /// Records what a Tenant and its Webhooks lack; see [`Arrivals::read_again`].
    pub fn read_again(&self, tenant_uid: &str, lacking: HashSet<Lacking>, now: Instant) -> Option<Duration> {
        self.arrivals.lock().read_again(tenant_uid, lacking, now)
    }

    /// Removes a Tenant that does not exist any more.
    pub fn forget(&self, tenant_uid: &str) {
        self.database_checks.lock().forget(tenant_uid);
        self.arrivals.lock().forget(tenant_uid);
        self.resyncs.lock().forget(tenant_uid);
        self.handovers.lock().forget(tenant_uid);
        let others = self.keys.lock().forget(tenant_uid);
        self.tenants_changed(others);
    }

    fn tenants_changed(&self, names: Vec<Name>) {
        self.changed(names.into_iter().map(ObjectKey::Tenant).collect());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(of: &str) -> ObjectKey {
        ObjectKey::Tenant(Name::new("tenants", of))
    }

    /// A Tenant of generation 1 whose status is about `observed`.
    fn declare(state: &State, name: &str, observed: Option<i64>) {
        let tenant = examples::with(json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"clientCode": name, "database": {"managed": {"name": name}}},
            "status": {"observedGeneration": observed},
        }));
        state.cluster().tenant_applied(tenant);
    }

    fn sent(changes: &mut mpsc::UnboundedReceiver<Change>) -> Vec<Change> {
        std::iter::from_fn(|| changes.try_recv().ok()).collect()
    }

    #[test]
    fn first_lists_are_urgent_only_for_what_is_not_reported_and_later_changes_all_are() {
        let (state, mut changes) = State::new();
        for (name, observed) in [("reported", Some(1)), ("new", None), ("changed", Some(0))] {
            declare(&state, name, observed);
        }
        let all = ["reported", "new", "gone", "changed"].map(key).to_vec();
        let of =
            |names: &[&str], urgency| Change::Concerns(names.iter().map(|name| key(name)).collect(), urgency);
        let new = of(&["new"], Urgency::New);
        let begins =
            [of(&["changed"], Urgency::Awaited), new.clone(), of(&["reported", "gone"], Urgency::Routine)];
        state.progress.expect(1);
        state.changed(all.clone());
        assert_eq!(sent(&mut changes), begins);
        state.progress.listed();
        state.changed(all.clone());
        assert_eq!(sent(&mut changes), [of(&["reported", "gone", "changed"], Urgency::Awaited), new]);
        state.resume(all);
        assert_eq!(sent(&mut changes), begins, "also of a process that begins to lead");
        state.changed(Vec::new());
        assert_eq!(sent(&mut changes), []);
    }

    #[test]
    fn reached_limit_concerns_its_tenant_when_it_begins_changes_and_ends() {
        let (state, mut changes) = State::new();
        ["a", "b"].iter().for_each(|name| declare(&state, name, Some(1)));
        assert_eq!(state.at_limit("a"), None);
        let read = |limits: &[Limit]| match limits {
            [] => AtLimit::new(),
            some => AtLimit::from([("a".to_owned(), some.iter().copied().collect())]),
        };
        let mut concerned = |limits: &[Limit]| {
            state.set_at_limit(read(limits));
            sent(&mut changes)
        };
        let of = |names: &[&str]| {
            let keys = names.iter().map(|name| key(name)).collect();
            vec![Change::Concerns(keys, Urgency::Routine)]
        };
        assert_eq!(concerned(&[]), of(&["a", "b"]), "their conditions may be from before");
        assert_eq!(concerned(&[Limit::BodyBytes]), of(&["a"]));
        assert_eq!(concerned(&[Limit::BodyBytes]), []);
        assert_eq!(concerned(&[Limit::RequestsPerSecond]), of(&["a"]));
        assert_eq!(concerned(&[]), of(&["a"]), "it has ended");
        assert_eq!(state.at_limit("a"), Some(BTreeSet::new()));
    }
}
