//! The sweep: reads what is still to be done from the databases and tells the schedule. It rebuilds a schedule that is
//! empty, and finds hints that were lost and rows that other programs wrote.
//!
//! There is no watermark: what is unfinished is read whole, in pages, so that a row whose transaction committed late
//! can't be missed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_board::Board;
use docket_domain::delivery::FailureClass;
use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::report;
use crate::telemetry::Metrics;
use crate::tenants::{Tenant, Tenants};
use docket_program::clock::{Clock, millis};
use docket_schedule::{Loss, Schedule};
use docket_store::deliveries::{self, Due};
use docket_store::sqlite::Looks;
use docket_store::{Database, StoreError, idempotency};

/// Rows per page, and pages at most per tenant and sweep: the next sweep goes on where this one stopped.
const PAGE: i64 = 500;
const MAX_PAGES: usize = 40;

/// Databases swept at once: each open one takes some 200 KB.
const AT_ONCE: usize = 4;
/// The same of PostgreSQL, whose connections are other people's too.
const AT_ONCE_OF_A_SERVER: usize = 8;
/// The same of databases that were away last time: they take their time, and nobody waits for them.
const AT_ONCE_AWAY: usize = 2;
/// After a loss what could not be told is tried again after this.
const AGAIN: Duration = Duration::from_secs(5);
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

/// How much is told at most of each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    SomePages,
    All,
}

/// Sweeps all tenants' databases.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Sweeper<S> {
    work: Work<S>,
    tenants: Arc<Tenants>,
    /// For those that answered last time, and for those that did not.
    places: [Arc<Semaphore>; 2],
    /// What each file looked like when it was swept last.
    seen: HashMap<String, Looks>,
    /// Where a sweep stopped that had too much to tell at once.
    stopped_at: HashMap<String, Due>,
    /// Whose database was away last time.
    away: HashSet<String>,
    /// Which are still to be told since the schedule was lost; `None`: it was not, or all are.
    untold: Option<HashSet<String>>,
    sweeps: JoinSet<Swept>,
    /// The tenant of each sweep under way.
    under_way: HashMap<tokio::task::Id, String>,
    /// Who was declared anew during their sweep, which may not have seen it.
    once_more: HashSet<String>,
}

/// What a sweep of one tenant works with.
struct Work<S> {
    clock: Clock,
    schedule: Arc<S>,
    metrics: Arc<Metrics>,
    /// Where others that sweep the same databases are told how webhooks are doing; `None`: there are no others.
    board: Option<Arc<Board>>,
    /// The schedule could not be told last time.
    untellable: Arc<AtomicBool>,
}

impl<S> Clone for Work<S> {
    fn clone(&self) -> Self {
        let Self { clock, schedule, metrics, board, untellable } = self;
        let (clock, schedule, metrics) = (clock.clone(), Arc::clone(schedule), Arc::clone(metrics));
        Self { clock, schedule, metrics, board: board.clone(), untellable: Arc::clone(untellable) }
    }
}

struct Swept {
    tenant: Arc<Tenant>,
    /// If it was read from the start.
    looks: Option<Looks>,
    /// Where it stopped, if not at the end.
    result: Result<Option<Due>, StoreError>,
}

impl<S: Schedule> Sweeper<S> {
    /// Has seen nothing yet.
    pub fn new(clock: Clock, tenants: Arc<Tenants>, schedule: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self {
            work: Work { clock, schedule, metrics, board: None, untellable: Arc::default() },
            tenants,
            places: [AT_ONCE, AT_ONCE_AWAY].map(|places| Arc::new(Semaphore::new(places))),
            seen: HashMap::new(),
            stopped_at: HashMap::new(),
            away: HashSet::new(),
            untold: None,
            sweeps: JoinSet::new(),
            under_way: HashMap::new(),
            once_more: HashSet::new(),
        }
    }

    /// For one of many processes: sweeps at start if nobody just has, takes its time at an interval's sweep, and tells
    /// what is due soon only, since the next one comes for sure. Says on the board how webhooks are doing.
    #[must_use]
    pub fn shared(mut self, board: Arc<Board>) -> Self {
        self.work.board = Some(board);
        self.places[0] = Arc::new(Semaphore::new(AT_ONCE_OF_A_SERVER));
        self
    }

    /// Sweeps at each interval, whenever `wake` says so, what was declared anew, and everything that is lost, until
    /// shutdown is requested. What is not told because of that is told by another process, or after the next start.
    pub async fn run(mut self, interval: Duration, wake: Arc<Notify>, shutdown: CancellationToken) {
        let Work { clock, schedule, .. } = self.work.clone();
        let tenants = Arc::clone(&self.tenants);
        let is_shared = self.work.board.is_some();
        let spread = if is_shared { interval / 2 } else { Duration::ZERO };
        let mut next = clock.elapsed() + if is_shared { Duration::ZERO } else { interval };
        let mut again = Duration::ZERO;
        // Asked and heard to the end: an answer that is not heard is another loss.
        let mut lost = pin!(schedule.lost());
        // At the start everybody is new, and it is not everybody's turn to sweep them.
        tenants.take_changed();
        loop {
            tokio::select! {
                () = clock.sleep(next.saturating_sub(clock.elapsed())) => {
                    next = clock.elapsed() + interval;
                    // A schedule that can't say whose turn it is has lost nothing by one sweep too many.
                    // The turn is over when the same one comes again.
                    if !matches!(schedule.sweep_turn(interval * 9 / 10).await, Ok(false)) {
                        self.begin_all(Leases::AreHeld, spread);
                    }
                }
                () = wake.notified() => self.begin_all(Leases::AreHeld, Duration::ZERO),
                changed = tenants.changed() => self.begin_changed(&changed),
                loss = &mut lost => {
                    lost.set(schedule.lost());
                    if loss == Loss::New || self.untold.is_none() {
                        self.begin_anew();
                        again = clock.elapsed() + AGAIN;
                    } else if again <= clock.elapsed() {
                        again = clock.elapsed() + AGAIN;
                        self.begin_untold();
                    }
                    self.tell_if_rebuilt().await;
                }
                Some(swept) = self.sweeps.join_next_with_id() => {
                    self.end(swept);
                    self.tell_if_rebuilt().await;
                }
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// The first sweep of a process that knows it is alone: what a dead one had begun is due at once. A database that is
    /// away is swept next time, and delays nobody else by more than its own wait.
    pub async fn take_over(&mut self) {
        self.begin_all(Leases::AreOver, Duration::ZERO);
        while let Some(swept) = self.sweeps.join_next_with_id().await {
            self.end(swept);
        }
    }

    /// Over `spread` one tenant begins after the other, so that a thousand databases do not all get a connection at once.
    fn begin_all(&mut self, leases: Leases, spread: Duration) {
        let under_way: HashSet<String> = self.under_way.values().cloned().collect();
        let tenants = self.tenants.all();
        let pause = spread / u32::try_from(tenants.len().max(1)).unwrap_or(u32::MAX);
        for (place, tenant) in (0..).zip(tenants) {
            if !under_way.contains(&tenant.config.uid) {
                self.begin(tenant, leases, pause * place, Extent::SomePages);
            }
        }
    }

    /// Who was suspended, or had a webhook that was held, may have rows now that are in no schedule.
    fn begin_changed(&mut self, uids: &BTreeSet<String>) {
        let tenants = Arc::clone(&self.tenants);
        for tenant in uids.iter().filter_map(|uid| tenants.by_uid(uid)) {
            if self.under_way.values().any(|uid| *uid == tenant.config.uid) {
                self.once_more.insert(tenant.config.uid.clone());
                continue;
            }
            self.seen.remove(&tenant.config.uid);
            self.begin(tenant, Leases::AreHeld, Duration::ZERO, Extent::SomePages);
        }
    }

    /// Nothing of what was told counts any more.
    fn begin_anew(&mut self) {
        self.sweeps = JoinSet::new();
        self.under_way.clear();
        self.stopped_at.clear();
        self.seen.clear();
        self.once_more.clear();
        self.untold = Some(self.tenants.all().iter().map(|tenant| tenant.config.uid.clone()).collect());
        self.begin_untold();
    }

    fn begin_untold(&mut self) {
        let under_way: HashSet<&String> = self.under_way.values().collect();
        let untold = self.untold.iter().flatten().filter(|uid| !under_way.contains(uid));
        let tenants: Vec<_> = untold.filter_map(|uid| self.tenants.by_uid(uid)).collect();
        for tenant in tenants {
            self.begin(tenant, Leases::AreHeld, Duration::ZERO, Extent::All);
        }
    }

    fn begin(&mut self, tenant: Arc<Tenant>, leases: Leases, wait: Duration, extent: Extent) {
        let uid = tenant.config.uid.clone();
        let looks = tenant.store.database().look();
        let unchanged = looks.is_some() && self.seen.get(&uid) == looks.as_ref();
        // No file: nothing was ever queued.
        let never_made = looks.as_ref().is_some_and(Looks::is_never_made);
        if unchanged || never_made {
            self.told(&uid);
            return;
        }
        let after = self.stopped_at.get(&uid).cloned();
        let places = Arc::clone(&self.places[usize::from(self.away.contains(&uid))]);
        let work = self.work.clone();
        let sweep = self.sweeps.spawn(async move {
            if !wait.is_zero() {
                work.clock.sleep(wait).await;
            }
            let _place = places.acquire().await;
            let looks = looks.filter(|_| after.is_none());
            let was_open = tenant.store.database().is_open();
            let result = work.sweep(&tenant, leases, after, extent).await;
            // Each process sweeps everything after a loss; how webhooks are doing needs no telling by all of them.
            let tells = result.is_ok() && extent == Extent::SomePages;
            if let Some(board) = work.board.as_ref().filter(|_| tells) {
                report::tell(&tenant, board).await;
            }
            if !was_open {
                // Most tenants have nothing to do right now; hundreds of open files would cost tens of megabytes.
                tenant.store.database().close_idle(Duration::ZERO).await;
            }
            Swept { tenant, looks, result }
        });
        self.under_way.insert(sweep.id(), uid);
    }

    fn end(&mut self, swept: Result<(tokio::task::Id, Swept), JoinError>) {
        let (id, swept) = match swept {
            Ok((id, swept)) => (id, Some(swept)),
            Err(error) => (error.id(), None),
        };
        self.under_way.remove(&id);
        let Some(Swept { tenant, looks, result }) = swept else { return };
        let uid = tenant.config.uid.clone();
        self.seen.remove(&uid);
        self.stopped_at.remove(&uid);
        if self.once_more.remove(&uid)
            && let Some(tenant) = self.tenants.by_uid(&uid)
        {
            let is_untold = self.untold.as_ref().is_some_and(|untold| untold.contains(&uid));
            let extent = if is_untold { Extent::All } else { Extent::SomePages };
            self.begin(tenant, Leases::AreHeld, Duration::ZERO, extent);
            return;
        }
        match result {
            // Only what was read whole need not be read again while its files stay the same.
            Ok(None) => {
                self.away.remove(&uid);
                self.told(&uid);
                self.seen.extend(looks.map(|looks| (uid, looks)));
            }
            Ok(Some(last)) => {
                self.away.remove(&uid);
                self.stopped_at.insert(uid, last);
            }
            Err(error) => {
                let code = tenant.config.client_code.as_str();
                if self.away.insert(uid) {
                    tracing::warn!(tenant.code = code, error = %error, "can't sweep; this is tried again");
                } else {
                    tracing::debug!(tenant.code = code, error = %error, "can't sweep");
                }
            }
        }
    }

    fn told(&mut self, uid: &str) {
        if let Some(untold) = &mut self.untold {
            untold.remove(uid);
        }
    }

    /// Only when nobody is missing: who is not told would not be looked for again.
    async fn tell_if_rebuilt(&mut self) {
        let Some(untold) = &mut self.untold else { return };
        // A tenant that is gone has nothing to tell.
        untold.retain(|uid| self.tenants.by_uid(uid).is_some());
        if untold.is_empty() {
            match self.work.schedule.rebuilt().await {
                Ok(()) => self.untold = None,
                Err(error) => {
                    tracing::warn!(error = %error, "the schedule was rebuilt, and could not be told so");
                }
            }
        }
    }
}

impl<S: Schedule> Work<S> {
    /// Tells the schedule what is still to be done for one tenant, after `after`. Answers where it stopped, if not at
    /// the end.
    async fn sweep(
        &self,
        tenant: &Tenant,
        leases: Leases,
        mut after: Option<Due>,
        extent: Extent,
    ) -> Result<Option<Due>, StoreError> {
        let Self { clock, schedule, metrics, board, .. } = self;
        let horizon = board.is_some().then_some(SOON);
        let database = tenant.store.ready(clock).await?;
        let now = keep_house(database, leases, clock, metrics).await?;
        if tenant.config.suspended {
            return Ok(None);
        }
        let mut reader = database.reader().await?;
        let mut pages = 0;
        while extent == Extent::All || pages < MAX_PAGES {
            pages += 1;
            let page = deliveries::unfinished(&mut reader, after.as_ref(), PAGE).await?;
            let Some(last) = page.last().cloned() else { return Ok(None) };
            let mut hints = tenant.hints(page, now);
            // In the order of their times, so what follows waits for longer still.
            if let (Some(horizon), Some(first)) = (horizon, hints.first())
                && first.wait > horizon
            {
                return Ok(None);
            }
            // What waits for its webhook to come back is nothing that is due.
            hints.retain(|hint| !tenant.holds(&hint.entry.webhook));
            let put = schedule.put(hints).await;
            let failed_before = self.untellable.swap(put.is_err(), Ordering::Relaxed);
            if let Err(error) = put {
                // Once, and not for each tenant.
                if !failed_before {
                    tracing::warn!(error = %error, "can't tell the schedule; the next sweep will");
                }
                return Ok(Some(after.unwrap_or(Due { at_ms: i64::MIN, ..last })));
            }
            after = Some(last);
        }
        Ok(after)
    }
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
