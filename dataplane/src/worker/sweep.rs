//! The sweep: reads what is still to be done from the databases and tells the schedule. It rebuilds a schedule that is
//! empty, and finds hints that were lost and rows that other programs wrote.
//!
//! There is no watermark: what is unfinished is read whole, in pages, so that a row whose transaction committed late
//! can't be missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::FailureClass;
use docket_redis::Board;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::report;
use crate::clock::{Clock, millis};
use crate::schedule::Schedule;
use crate::shutdown::Shutdown;
use crate::store::deliveries::{self, Due};
use crate::store::sqlite::Looks;
use crate::store::{Database, StoreError, idempotency};
use crate::telemetry::Metrics;
use crate::tenants::{Tenant, Tenants};

/// Rows per page, and pages at most per tenant and sweep: the next sweep goes on where this one stopped.
const PAGE: i64 = 500;
const MAX_PAGES: usize = 40;

/// Databases swept at once: each open one takes some 200 KB.
const AT_ONCE: usize = 4;
/// The same of PostgreSQL, whose connections are other people's too.
const AT_ONCE_OF_A_SERVER: usize = 8;
/// What is due later is told by a later sweep, so that many deliveries of a far future do not fill Redis.
const SOON: Duration = Duration::from_secs(15 * 60);
/// How long the answer to an Idempotency-Key is kept at least.
const KEEP_ANSWERS: Duration = Duration::from_secs(48 * 3600);

/// Whether somebody may still hold a lease.
#[derive(Debug, Clone, Copy)]
enum Leases {
    AreHeld,
    AreOver,
}

/// Why there is a sweep.
enum Why {
    Interval,
    Asked,
    Lost,
}

/// Sweeps all tenants' databases.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Sweeper<S> {
    clock: Clock,
    tenants: Arc<Tenants>,
    schedule: Arc<S>,
    metrics: Arc<Metrics>,
    /// What each file looked like when it was swept last.
    seen: HashMap<String, Looks>,
    /// Where a sweep stopped that had too much to tell at once.
    stopped_at: HashMap<String, Due>,
    /// Where others that sweep the same databases are told how webhooks are doing; `None`: there are no others.
    board: Option<Arc<Board>>,
}

impl<S: Schedule> Sweeper<S> {
    /// Has seen nothing yet.
    pub fn new(clock: Clock, tenants: Arc<Tenants>, schedule: Arc<S>, metrics: Arc<Metrics>) -> Self {
        let (seen, stopped_at) = (HashMap::new(), HashMap::new());
        Self { clock, tenants, schedule, metrics, seen, stopped_at, board: None }
    }

    /// For one of many processes: sweeps at start if nobody just has, takes its time at an interval's sweep, and tells
    /// what is due soon only, since the next one comes for sure. Says on the board how webhooks are doing.
    #[must_use]
    pub fn shared(self, board: Arc<Board>) -> Self {
        Self { board: Some(board), ..self }
    }

    /// Sweeps at each interval, and whenever `wake` says so, until shutdown is requested.
    pub async fn run(mut self, interval: Duration, wake: Arc<tokio::sync::Notify>, shutdown: Shutdown) {
        let schedule = Arc::clone(&self.schedule);
        let mut wait = if self.board.is_some() { Duration::ZERO } else { interval };
        loop {
            let why = tokio::select! {
                () = self.clock.sleep(wait) => Why::Interval,
                () = wake.notified() => Why::Asked,
                () = schedule.lost() => Why::Lost,
                () = shutdown.requested() => return,
            };
            wait = interval;
            // A schedule that can't say whose turn it is has lost nothing by one sweep too many.
            let not_ours =
                matches!(why, Why::Interval) && matches!(schedule.sweep_turn(interval).await, Ok(false));
            if not_ours {
                continue;
            }
            let takes_its_time = self.board.is_some() && matches!(why, Why::Interval);
            let spread = if takes_its_time { interval / 2 } else { Duration::ZERO };
            // What is not told because of a shutdown is told by another process, or after the next start.
            let why = tokio::select! {
                () = self.sweep_as(Leases::AreHeld, spread) => why,
                () = schedule.lost(), if takes_its_time => Why::Lost,
                () = shutdown.requested() => return,
            };
            if takes_its_time && matches!(why, Why::Lost) {
                tokio::select! {
                    () = self.sweep() => {}
                    () = shutdown.requested() => return,
                }
            }
            if matches!(why, Why::Lost)
                && let Err(error) = schedule.rebuilt().await
            {
                tracing::warn!(error = %error, "the schedule was rebuilt, and could not be told so");
            }
        }
    }

    /// Sweeps the tenants whose database may have changed since the last time. One that is away is swept next time,
    /// and delays nobody else by more than its own wait.
    pub async fn sweep(&mut self) {
        self.sweep_as(Leases::AreHeld, Duration::ZERO).await;
    }

    /// The first sweep of a process that knows it is alone: what a dead one had begun is due at once.
    pub async fn take_over(&mut self) {
        self.sweep_as(Leases::AreOver, Duration::ZERO).await;
    }

    /// Over `spread` one tenant begins after the other, so that a thousand databases do not all get a connection at once.
    async fn sweep_as(&mut self, leases: Leases, spread: Duration) {
        let at_once = if self.board.is_some() { AT_ONCE_OF_A_SERVER } else { AT_ONCE };
        let places = Arc::new(Semaphore::new(at_once));
        let mut sweeps = tokio::task::JoinSet::new();
        let tenants = self.tenants.all();
        let pause = spread / u32::try_from(tenants.len().max(1)).unwrap_or(u32::MAX);
        let horizon = self.board.is_some().then_some(SOON);
        for (place, tenant) in (0..).zip(tenants) {
            let uid = &tenant.config.uid;
            let looks = tenant.store.database().look();
            let unchanged = looks.is_some() && self.seen.get(uid) == looks.as_ref();
            // No file: nothing was ever queued.
            let never_made = looks.as_ref().is_some_and(Looks::is_never_made);
            if unchanged || never_made {
                continue;
            }
            let after = self.stopped_at.get(uid).cloned();
            let (clock, schedule) = (self.clock.clone(), Arc::clone(&self.schedule));
            let (metrics, places) = (Arc::clone(&self.metrics), Arc::clone(&places));
            let board = self.board.clone();
            sweeps.spawn(async move {
                if !pause.is_zero() {
                    clock.sleep(pause * place).await;
                }
                let _place = places.acquire().await;
                let from_the_start = after.is_none();
                let was_open = tenant.store.database().is_open();
                let result =
                    sweep_tenant(&clock, &tenant, &*schedule, &metrics, leases, after, horizon).await;
                if let Some(board) = board.filter(|_| result.is_ok()) {
                    report::tell(&tenant, &board).await;
                }
                if !was_open {
                    // Most tenants have nothing to do right now; hundreds of open files would cost tens of megabytes.
                    tenant.store.database().close_idle(Duration::ZERO).await;
                }
                (tenant, looks.filter(|_| from_the_start), result)
            });
        }
        while let Some(swept) = sweeps.join_next().await {
            let Ok((tenant, looks, result)) = swept else { continue };
            let uid = tenant.config.uid.clone();
            self.seen.remove(&uid);
            self.stopped_at.remove(&uid);
            match result {
                // Only what was read whole need not be read again while its files stay the same.
                Ok(None) => self.seen.extend(looks.map(|looks| (uid, looks))),
                Ok(Some(last)) => self.stopped_at.extend([(uid, last)]),
                Err(error) => {
                    tracing::warn!(tenant.code = tenant.config.client_code.as_str(), error = %error, "can't sweep");
                }
            }
        }
    }
}

/// Tells the schedule what is still to be done for one tenant, after `after`. Answers where it stopped, if not at the
/// end.
async fn sweep_tenant<S: Schedule>(
    clock: &Clock,
    tenant: &Tenant,
    schedule: &S,
    metrics: &Metrics,
    leases: Leases,
    mut after: Option<Due>,
    horizon: Option<Duration>,
) -> Result<Option<Due>, StoreError> {
    let database = tenant.store.ready(clock).await?;
    let now = keep_house(database, leases, clock, metrics).await?;
    let mut reader = database.reader().await?;
    for _ in 0..MAX_PAGES {
        let page = deliveries::unfinished(&mut reader, after.as_ref(), PAGE).await?;
        let Some(last) = page.last().cloned() else { return Ok(None) };
        let hints = tenant.hints(page, now);
        // In the order of their times, so what follows waits for longer still.
        if let (Some(horizon), Some(first)) = (horizon, hints.first())
            && first.wait > horizon
        {
            return Ok(None);
        }
        if let Err(error) = schedule.put(hints).await {
            tracing::warn!(error = %error, "can't tell the schedule; the next sweep will");
            return Ok(Some(after.unwrap_or(Due { at_ms: i64::MIN, ..last })));
        }
        after = Some(last);
    }
    Ok(after)
}

/// Ends what was lost in its fifth attempt, frees what a dead process held, forgets kept answers that are old. Answers
/// what time it is there.
async fn keep_house(
    database: &Database,
    leases: Leases,
    clock: &Clock,
    metrics: &Metrics,
) -> Result<Timestamp, StoreError> {
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let now_ms = now.as_millisecond();
    let over_ms = match leases {
        Leases::AreHeld => now_ms - deliveries::LATE_END_MS,
        Leases::AreOver => {
            deliveries::release_leases(&mut transaction, now_ms).await?;
            now_ms
        }
    };
    let ended = deliveries::end_lost_fifths(&mut transaction, over_ms, now_ms).await?;
    idempotency::forget(&mut transaction, now_ms - millis(KEEP_ANSWERS)).await?;
    transaction.commit().await?;
    metrics.dead_lettered(FailureClass::WorkerLost, ended);
    Ok(now)
}
