//! The sweep: reads what is still to be done from the databases and tells the schedule. It rebuilds a schedule that is
//! empty, and finds hints that were lost and rows that other programs wrote.
//!
//! There is no watermark: what is unfinished is read whole, in pages, so that a row whose transaction committed late
//! can't be missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use docket_domain::delivery::FailureClass;

use super::millis;
use crate::clock::Clock;
use crate::schedule::{Hint, Schedule};
use crate::shutdown::Shutdown;
use crate::store::{Database, StoreError, deliveries};
use crate::telemetry::Metrics;
use crate::tenants::{Tenant, Tenants};

/// Rows due later than this stay in the database until a later sweep; the longest backoff is eight minutes.
const HORIZON: Duration = Duration::from_secs(15 * 60);
/// Rows per page, and at most per tenant and sweep: the rest comes when these are done.
const PAGE: i64 = 500;
const MAX_ROWS: usize = 20_000;

/// Sweeps all tenants' databases.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Sweeper<S> {
    clock: Clock,
    tenants: Arc<Tenants>,
    schedule: Arc<S>,
    metrics: Arc<Metrics>,
    /// What each file looked like when it was swept last.
    seen: HashMap<String, Vec<Option<(SystemTime, u64)>>>,
}

impl<S: Schedule> Sweeper<S> {
    /// Has seen nothing yet.
    pub fn new(clock: Clock, tenants: Arc<Tenants>, schedule: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self { clock, tenants, schedule, metrics, seen: HashMap::new() }
    }

    /// Sweeps at each interval, and whenever `wake` says so, until shutdown is requested.
    pub async fn run(mut self, interval: Duration, wake: Arc<tokio::sync::Notify>, shutdown: Shutdown) {
        loop {
            let next_ms = self.clock.now_ms() + millis(interval);
            tokio::select! {
                () = self.clock.sleep_until_ms(next_ms) => {}
                () = wake.notified() => {}
                () = shutdown.requested() => return,
            }
            self.sweep().await;
        }
    }

    /// Sweeps the tenants whose database may have changed since the last time. One that is away is swept next time,
    /// and delays nobody else by more than its own wait.
    pub async fn sweep(&mut self) {
        let mut sweeps = tokio::task::JoinSet::new();
        for tenant in self.tenants.all() {
            let looks = look(tenant.store.database());
            if looks.is_some() && self.seen.get(&tenant.config.uid) == looks.as_ref() {
                continue;
            }
            if looks.as_ref().is_some_and(|files| files.iter().all(Option::is_none)) {
                // The file was never made: nothing is queued in it.
                continue;
            }
            let (clock, schedule) = (self.clock.clone(), Arc::clone(&self.schedule));
            let metrics = Arc::clone(&self.metrics);
            sweeps.spawn(async move {
                let result = sweep_tenant(&clock, &tenant, &*schedule, &metrics).await;
                (tenant, looks, result)
            });
        }
        while let Some(swept) = sweeps.join_next().await {
            let Ok((tenant, looks, result)) = swept else { continue };
            match result {
                Ok(()) => {
                    self.seen.extend(looks.map(|looks| (tenant.config.uid.clone(), looks)));
                }
                Err(error) => {
                    self.seen.remove(&tenant.config.uid);
                    tracing::warn!(tenant.code = tenant.config.client_code.as_str(), error = %error, "can't sweep");
                }
            }
        }
    }
}

/// What the files of a database look like; `None`: it is no file, so it has to be asked.
fn look(database: &Database) -> Option<Vec<Option<(SystemTime, u64)>>> {
    let Database::Sqlite(sqlite) = database else { return None };
    let wal = sqlite.path().with_extension("db-wal");
    let one = |path: &std::path::Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    Some(vec![one(sqlite.path()), one(&wal)])
}

/// Tells the schedule all that is still to be done for one tenant, and ends what was lost in its fifth attempt.
pub async fn sweep_tenant<S: Schedule>(
    clock: &Clock,
    tenant: &Tenant,
    schedule: &S,
    metrics: &Metrics,
) -> Result<(), StoreError> {
    let database = tenant.store.ready(clock).await?;
    let now_ms = clock.now_ms();
    let until_ms = now_ms + millis(HORIZON);
    let uid: Arc<str> = tenant.config.uid.as_str().into();
    let mut reader = database.reader().await?;
    let mut after: Option<deliveries::Due> = None;
    let mut rows = 0;
    while rows < MAX_ROWS {
        let page = deliveries::unfinished(&mut reader, until_ms, after.as_ref(), PAGE).await?;
        let Some(last) = page.last().cloned() else { break };
        rows += page.len();
        let hints = page
            .into_iter()
            .map(|due| Hint {
                tenant: Arc::clone(&uid),
                webhook: due.webhook.as_str().into(),
                id: due.id,
                at_ms: due.at_ms,
            })
            .collect();
        if let Err(error) = schedule.put(hints).await {
            tracing::warn!(error = %error, "can't tell the schedule");
            break;
        }
        after = Some(last);
    }
    drop(reader);
    if rows > 0 {
        let mut transaction = database.begin().await?;
        let ended = deliveries::end_lost_fifths(&mut transaction, now_ms).await?;
        transaction.commit().await?;
        metrics.dead_lettered(FailureClass::WorkerLost, ended);
    }
    Ok(())
}
