//! The loop above the drivers: puts changed objects into the queues, and gives each object to its driver.
//!
//! The Controller of kube-runtime is not used, for these reasons. It has one order for everything that is due, so a
//! user's change would wait behind a resync of ten thousand objects. It counts no failures, so a backoff, and an
//! early retry after the API server recovered, would need extra state. It reconciles only objects in its store, but a
//! deleted Tenant still has Secrets to remove. Its triggers are watches, but here other objects' results, pods and
//! health trigger passes too. And it can't hold its work back until this replica has the Lease without losing what
//! arrives meanwhile.

mod offers;
pub mod queue;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{Tenant, Webhook};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::kube::lease::Leadership;
use crate::metrics::Metrics;
use crate::state::declared::DeclaredKind;
use crate::state::done::Done;
use crate::state::migrations::{Overview, overview};
use crate::state::name::{Name, ObjectKey};
use crate::state::{Change, State, Urgency};
use crate::work::offers::Offers;
use crate::work::queue::{DueKey, Queue};
use crate::{tenant, webhook};

/// The time between two looks for databases whose turn to be migrated has come.
const BETWEEN_OFFERS: Duration = Duration::from_secs(1);

/// The loop and its queues.
#[derive(Debug)]
pub struct Work {
    context: Context,
    state: Arc<State>,
    metrics: Arc<Metrics>,
    leadership: Arc<Leadership>,
    tenants: Queue<Name>,
    webhooks: Queue<Name>,
}

impl Work {
    /// A loop without objects.
    pub fn new(
        context: Context,
        state: Arc<State>,
        metrics: Arc<Metrics>,
        leadership: Arc<Leadership>,
    ) -> Self {
        let (tenants, webhooks) = (Queue::default(), Queue::default());
        Self { context, state, metrics, leadership, tenants, webhooks }
    }

    /// Puts changes into the queues until all senders are dropped.
    pub async fn enqueue(self: Arc<Self>, mut changes: mpsc::UnboundedReceiver<Change>) {
        while let Some(change) = changes.recv().await {
            match change {
                Change::Concerns(keys, urgency) => {
                    keys.into_iter().for_each(|key| self.changed(key, urgency));
                }
                Change::Recovered => {
                    self.tenants.retry();
                    self.webhooks.retry();
                }
            }
        }
    }

    fn changed(&self, key: ObjectKey, urgency: Urgency) {
        match key {
            ObjectKey::Tenant(name) => self.tenants.changed(name, urgency),
            ObjectKey::Webhook(name) => self.webhooks.changed(name, urgency),
        }
    }

    /// Reconciles until `stop`. Passes in progress are finished.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let concurrency = self.context.settings.concurrency;
        let tenants = (0..concurrency).map(|_| {
            tokio::spawn(worker::<Tenant>(self.clone(), stop.clone(), |work, name, urgency| {
                async move { tenant::reconcile(&work.context, &work.state, &name, urgency).await }.boxed()
            }))
        });
        let webhooks = (0..concurrency).map(|_| {
            tokio::spawn(worker::<Webhook>(self.clone(), stop.clone(), |work, name, _| {
                async move { webhook::reconcile(&work.context, &work.state, &name).await }.boxed()
            }))
        });
        futures_util::future::join_all(tenants.chain(webhooks).collect::<Vec<_>>()).await;
    }

    /// Gives Tenants their turns to be migrated, while this process leads, until the future is dropped.
    pub async fn offer_migrations(self: Arc<Self>) {
        let mut offers = Offers::default();
        loop {
            self.leadership.wait().await;
            self.offer(&mut offers);
            tokio::time::sleep(BETWEEN_OFFERS).await;
        }
    }

    fn offer(&self, offers: &mut Offers) {
        let (rules, now) = (self.context.settings.migrations, self.context.clock.now());
        let free = self.context.migration_places.available_permits();
        let (counts, next, changed) = {
            let cluster = self.state.cluster();
            let Overview { counts, due, waiting } =
                overview(cluster.migrations(), cluster.first_tenants(), rules, now);
            (counts, offers.next(&due, free, Instant::now()), offers.changed(&waiting))
        };
        let progresses = offers.progress(counts);
        self.metrics.migrations(counts, progresses, now.as_second());
        next.into_iter().for_each(|name| self.tenants.offered(name));
        // Each of these is named once, so its pass is not left out, even if the last one failed or one is under way.
        changed.into_iter().for_each(|name| self.tenants.changed(name, Urgency::Routine));
    }

    fn queue<T: DeclaredKind>(&self) -> &Queue<Name> {
        if T::KIND == Tenant::KIND { &self.tenants } else { &self.webhooks }
    }

    /// Reconciles everything each time this process becomes the leader, because the previous leader may have stopped half-way.
    pub async fn reconcile_all_when_leading(self: Arc<Self>) {
        let mut changes = self.leadership.changes();
        let mut before = false;
        loop {
            let leads = *changes.borrow_and_update();
            self.metrics.leads(leads);
            if leads && !before && self.state.progress.is_complete() {
                let keys = self.state.cluster().everything();
                self.state.resume(keys);
            }
            before = leads;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Tries all failed objects again each time a PostgreSQL server is back that was away, without end: it may have been the
/// cause of their failures.
pub async fn retry_when_a_server_is_back(work: Arc<Work>) {
    loop {
        work.context.databases.recovered().await;
        work.state.recovered();
    }
}

type Pass = BoxFuture<'static, Result<Done, CallError>>;

async fn worker<T: DeclaredKind>(
    work: Arc<Work>,
    stop: CancellationToken,
    reconcile: fn(Arc<Work>, Name, Urgency) -> Pass,
) {
    loop {
        let ready = async {
            work.leadership.wait().await;
            work.queue::<T>().take(|now| work.state.writes.closed_until(now)).await
        };
        let DueKey { key: name, waited, urgency } = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = ready => next,
        };
        work.metrics.taken::<T>(waited);
        let begun = Instant::now();
        let result = AssertUnwindSafe(reconcile(work.clone(), name.clone(), urgency)).catch_unwind().await;
        let (done, label) = match result {
            Ok(Ok(Done::Failed)) => (Done::Failed, "failed"),
            Ok(Ok(done)) => (done, "ok"),
            Ok(Err(CallError::NotLeader)) => (Done::Withheld, "withheld"),
            Ok(Err(error)) => {
                tracing::warn!(kind = T::KIND, object = %name, %error, "reconciliation failed; retrying");
                (Done::Failed, "failed")
            }
            // The panic hook has logged where the panic happened.
            Err(_) => (Done::Failed, "panicked"),
        };
        work.metrics.reconciled::<T>(label, begun.elapsed());
        work.queue::<T>().done(name, done);
    }
}
