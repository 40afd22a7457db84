//! Publishes the health of webhooks for the operator: for tenants with attempts within seconds, for all others at each
//! sweep.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_board::{Board, ReportedHealth};
use docket_program::clock::Clock;
use docket_store::health;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::tenants::{ServedTenant, Tenants};

/// How often the health of tenants with attempts is published.
const EVERY: Duration = Duration::from_secs(5);
/// Time limit for reading one tenant's health.
const READ: Duration = Duration::from_secs(30);
/// Tenants whose health is read at once: one whose database is slow does not hold up the others.
const AT_ONCE: usize = 4;
/// A read that takes longer leaves its place to the next tenant: however many databases hang, those of others are read.
const SLOW: Duration = Duration::from_secs(2);
/// One worker of all reads a tenant's health in this time. It is shorter than [`EVERY`], so that the turn has expired
/// when the same worker comes again.
const TURN: Duration = Duration::from_millis(4_500);

/// The tenants with attempts since the last report.
#[derive(Debug, Default)]
pub struct Active(Mutex<BTreeSet<String>>);

impl Active {
    /// Records that an attempt of this tenant has ended.
    pub fn note(&self, tenant_uid: &str) {
        let mut uids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !uids.contains(tenant_uid) {
            uids.insert(tenant_uid.to_owned());
        }
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Publishes until shutdown is requested.
pub async fn run(
    active: Arc<Active>,
    tenants: Arc<Tenants>,
    board: Arc<Board>,
    clock: Clock,
    shutdown: CancellationToken,
) {
    let places = Semaphore::new(AT_ONCE);
    let report = async |tenant: Arc<ServedTenant>| {
        let place = places.acquire().await;
        // Another worker has just reported, perhaps before our attempts, or Redis is unavailable: retry later.
        match board.turn(&format!("health:{}", tenant.config.uid), TURN).await {
            Ok(true) => {
                let mut published = pin!(publish(&tenant, &board));
                if tokio::time::timeout(SLOW, &mut published).await.is_err() {
                    drop(place);
                    published.await;
                }
            }
            Ok(false) | Err(_) => active.note(&tenant.config.uid),
        }
        Arc::clone(&tenant.uid)
    };
    let (mut reports, mut running) = (FuturesUnordered::new(), BTreeSet::new());
    let mut next = Box::pin(clock.sleep(EVERY));
    loop {
        tokio::select! {
            Some(uid) = reports.next() => {
                running.remove::<Arc<str>>(&uid);
                continue;
            }
            () = &mut next => next.set(clock.sleep(EVERY)),
            () = shutdown.cancelled() => return,
        }
        for tenant in active.take().iter().filter_map(|uid| tenants.by_uid(uid)) {
            // A tenant whose report is not ready waits for the next round.
            match running.insert(Arc::clone(&tenant.uid)) {
                true => reports.push(report(tenant)),
                false => active.note(&tenant.uid),
            }
        }
    }
}

/// Publishes the health of the tenant's webhooks for the operator's status. Returns whether it is published now; a failure
/// is only logged.
pub(super) async fn publish(tenant: &ServedTenant, board: &Board) -> bool {
    let code = tenant.config.client_code.as_str();
    let read = async { health::by_webhook(&mut tenant.store.database().patient_reader().await?).await };
    let healths = match tokio::time::timeout(READ, read).await {
        Ok(Ok(healths)) => healths,
        Ok(Err(error)) => {
            tracing::warn!(tenant.code = code, error = %error, "reading the health of webhooks failed");
            return false;
        }
        Err(_) => {
            tracing::warn!(tenant.code = code, "reading the health of webhooks timed out");
            return false;
        }
    };
    let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
    // The owner of the database may write the keys of others' webhooks there.
    let published = tenant.webhooks().health(healths).into_iter().map(|(uid, health)| {
        let published = ReportedHealth {
            pending: count(health.pending - health.retrying),
            dead_letter: count(health.dead_letter),
            retrying: count(health.retrying),
            last_success_at_ms: health.last_success_at_ms,
            last_failure_at_ms: health.last_dead_letter_at_ms,
        };
        (uid, published)
    });
    let put = board.put_health(&published.collect::<Vec<_>>()).await;
    if let Err(error) = &put {
        tracing::debug!(tenant.code = code, error = %error, "publishing the health of webhooks failed");
    }
    put.is_ok()
}
