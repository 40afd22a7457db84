//! What both drivers work with, and the loop that gives them work.

pub mod queue;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use docket_crds::{ApiKeyDigest, EventCode, Runtime, Tenant, Webhook};
use futures_util::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use crate::{
    database::Servers,
    kube::{
        client::{CallError, KubeApi},
        lease::Held,
        watch as watches,
    },
    metrics::Metrics,
    observe::merged,
    state::{
        cluster::{Cluster, Key},
        conditions::Verdict,
        declared::{Document, Meta},
        keys::Keys,
        name::Name,
        pods::{Handed, Pods},
    },
    tenant,
    webhook::{
        self,
        status::{COUNTS_EVERY, Health},
    },
    work::queue::{Done, Queue, jittered},
};

/// What was set at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces whose objects count; empty: all.
    pub namespaces: Vec<String>,
    /// Events that are off for every tenant.
    pub disabled_events: BTreeSet<EventCode>,
    /// How often everything is looked at although nothing changed.
    pub resync: Duration,
    /// How many Tenants, and how many Webhooks, are looked at at once.
    pub concurrency: usize,
}

impl Settings {
    /// Whether objects of this namespace count.
    pub fn watches(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|watched| watched == namespace)
    }
}

/// The operator.
#[derive(Debug)]
pub struct Operator {
    /// The API server.
    pub kube: KubeApi,
    /// PostgreSQL.
    pub databases: Servers,
    /// What was set at start.
    pub settings: Settings,
    /// Counters.
    pub metrics: Metrics,
    /// How far the watches are.
    pub progress: watches::Progress,
    held: Arc<Held>,
    cluster: Mutex<Cluster>,
    tenants: Queue<Name>,
    webhooks: Queue<Name>,
    /// When each database is to be looked at again although nothing about it changed.
    looks: Mutex<HashMap<String, Instant>>,
    observed: Mutex<Observed>,
    keys: Mutex<Keys>,
}

/// What the data plane reports.
#[derive(Debug, Default)]
struct Observed {
    pods: Arc<Pods>,
    /// With the time when the counts were last told.
    health: HashMap<String, (Health, Instant)>,
    /// What was handed over of each tenant by uid, and what was said about it.
    handed: HashMap<String, (Name, Handed, Vec<Verdict>)>,
}

impl Operator {
    /// Nothing is known and nothing is done yet.
    pub fn new(
        kube: KubeApi,
        databases: Servers,
        settings: Settings,
        metrics: Metrics,
        held: Arc<Held>,
    ) -> Self {
        Self {
            kube,
            databases,
            settings,
            metrics,
            held,
            progress: watches::Progress::default(),
            cluster: Mutex::default(),
            tenants: Queue::default(),
            webhooks: Queue::default(),
            looks: Mutex::default(),
            observed: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// The state of the watches. Held for lookups only, never while something is awaited.
    pub fn cluster(&self) -> MutexGuard<'_, Cluster> {
        lock(&self.cluster)
    }

    /// These have to be looked at.
    pub fn changed(&self, keys: Vec<Key>) {
        for key in keys {
            match key {
                Key::Tenant(name) => self.tenants.changed(name),
                Key::Webhook(name) => self.webhooks.changed(name),
            }
        }
    }

    /// The API server is back: what failed meanwhile need not wait for its turn.
    pub fn recovered(&self) {
        self.tenants.retry();
        self.webhooks.retry();
    }

    /// This installation, among those that use the same database servers.
    pub fn installation(&self) -> String {
        self.held.installation()
    }

    /// The time.
    #[expect(clippy::disallowed_methods, reason = "the one place of the operator that reads the clock")]
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Random bytes fit for keys.
    #[expect(clippy::disallowed_methods, reason = "the one place of the operator that draws randomness")]
    pub fn random(&self) -> impl FnMut(&mut [u8]) + Send + use<> {
        |bytes: &mut [u8]| rand::Rng::fill_bytes(&mut rand::rng(), bytes)
    }

    /// What is known of the data plane's pods.
    pub fn pods(&self) -> Arc<Pods> {
        lock(&self.observed).pods.clone()
    }

    /// What the data plane counts of a Webhook; `None`: not observed.
    pub fn health(&self, webhook_uid: &str) -> Option<Health> {
        lock(&self.observed).health.get(webhook_uid).map(|(health, _)| *health)
    }

    /// These were handed over of a tenant, the last one last; answers what pods serve of it, and the pods. Changes of
    /// that are looked at from now on.
    pub fn handed(&self, meta: &Meta, runtimes: &[&Runtime]) -> (Handed, Arc<Pods>) {
        let mut observed = lock(&self.observed);
        let pods = observed.pods.clone();
        let entry = observed.handed.entry(meta.uid.clone());
        let (_, handed, told) = entry.or_insert_with(|| (meta.name.clone(), Handed::default(), Vec::new()));
        runtimes.iter().for_each(|runtime| handed.note(runtime));
        *told = handed.verdicts(&pods, &meta.uid);
        (handed.clone(), pods)
    }

    /// Whether anything is known of the pods.
    pub fn observes(&self) -> bool {
        *lock(&self.observed).pods != Pods::NotObserved
    }

    /// Whether the board was read.
    pub fn reads_the_board(&self) -> bool {
        matches!(*lock(&self.observed).pods, Pods::Seen(_))
    }

    /// What the pods report now.
    pub fn set_pods(&self, pods: Pods) {
        let mut observed = lock(&self.observed);
        if *observed.pods == pods {
            return;
        }
        observed.pods = Arc::new(pods);
        let pods = &observed.pods;
        let news =
            observed.handed.iter().filter(|(uid, (_, handed, told))| handed.verdicts(pods, uid) != *told);
        let keys = news.map(|(_, (name, ..))| Key::Tenant(name.clone())).collect();
        drop(observed);
        self.changed(keys);
    }

    /// What the data plane counts now, by the uids of Webhooks.
    pub fn set_health(&self, told: HashMap<String, Health>) {
        let news = {
            let mut observed = lock(&self.observed);
            let (health, news) = merged(&observed.health, told, Instant::now(), COUNTS_EVERY);
            observed.health = health;
            news
        };
        let keys = self.cluster().webhooks_with_uids(&news);
        self.changed(keys);
    }

    /// When an object is looked at again although nothing changed.
    pub fn resync(&self, uid: &str) -> Duration {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        jittered(self.settings.resync, hasher.finish())
    }

    /// Whether a database that is as it was ensured is to be looked at all the same: now and then, after a failure, and
    /// when somebody asked. After a start it is taken to be as it was.
    pub fn database_is_due(&self, meta: &Meta, asked: bool) -> bool {
        let mut looks = lock(&self.looks);
        let due = looks.entry(meta.uid.clone()).or_insert_with(|| Instant::now() + self.resync(&meta.uid));
        asked || *due <= Instant::now()
    }

    /// A database was looked at.
    pub fn database_was_seen(&self, uid: &str, well: bool) {
        let again = if well { self.resync(uid) } else { Duration::ZERO };
        lock(&self.looks).insert(uid.to_owned(), Instant::now() + again);
    }

    /// A Tenant has these API keys; answers those that an earlier one has, which are not this one's.
    pub fn set_keys(&self, meta: &Meta, keys: HashSet<ApiKeyDigest>) -> HashSet<ApiKeyDigest> {
        let (taken, concerned) = lock(&self.keys).set(meta, keys);
        self.changed(concerned.into_iter().map(Key::Tenant).collect());
        taken
    }

    /// A Tenant is gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.looks).remove(uid);
        lock(&self.observed).handed.remove(uid);
        let others = lock(&self.keys).forget(uid);
        self.changed(others.into_iter().map(Key::Tenant).collect());
    }

    /// Works until `stop`: what was begun is finished.
    pub async fn work(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let concurrency = self.settings.concurrency;
        let tenants = (0..concurrency).map(|_| {
            let operator = self.clone();
            tokio::spawn(worker::<Tenant>(operator, stop.clone(), |operator, name| {
                async move { tenant::reconcile(&operator, &name).await }.boxed()
            }))
        });
        let webhooks = (0..concurrency).map(|_| {
            let operator = self.clone();
            tokio::spawn(worker::<Webhook>(operator, stop.clone(), |operator, name| {
                async move { webhook::reconcile(&operator, &name).await }.boxed()
            }))
        });
        futures_util::future::join_all(tenants.chain(webhooks).collect::<Vec<_>>()).await;
    }

    fn queue<T: Document>(&self) -> &Queue<Name> {
        if T::KIND == Tenant::KIND { &self.tenants } else { &self.webhooks }
    }

    /// Each time this process becomes the one that writes, everything is looked at: another may have stopped half-way.
    pub async fn look_at_everything_when_held(self: Arc<Self>) {
        let mut changes = self.held.changes();
        let mut before = false;
        loop {
            let held = *changes.borrow_and_update();
            self.metrics.leads(held);
            if held && !before && self.progress.is_complete() {
                let keys = self.cluster().everything();
                self.changed(keys);
            }
            before = held;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

type Pass = BoxFuture<'static, Result<Done, CallError>>;

async fn worker<T: Document>(
    operator: Arc<Operator>,
    mut stop: watch::Receiver<bool>,
    reconcile: fn(Arc<Operator>, Name) -> Pass,
) {
    loop {
        let ready = async {
            operator.held.wait().await;
            operator.queue::<T>().take().await
        };
        let (name, waited) = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            next = ready => next,
        };
        operator.metrics.taken::<T>(waited);
        let begun = Instant::now();
        let result = AssertUnwindSafe(reconcile(operator.clone(), name.clone())).catch_unwind().await;
        let (done, label) = match result {
            Ok(Ok(Done::Failed)) => (Done::Failed, "failed"),
            Ok(Ok(done)) => (done, "ok"),
            Ok(Err(CallError::NotHeld)) => (Done::Withheld, "withheld"),
            Ok(Err(error)) => {
                tracing::warn!(kind = T::KIND, object = %name, %error, "not finished; it is tried again");
                (Done::Failed, "failed")
            }
            // The panic hook has told where.
            Err(_) => (Done::Failed, "panicked"),
        };
        operator.metrics.reconciled::<T>(label, begun.elapsed());
        operator.queue::<T>().done(name, done);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
