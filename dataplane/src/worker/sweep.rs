//! The sweep: reads unfinished deliveries from the databases and schedules them. It rebuilds a lost schedule, and finds
//! hints that were lost and rows that other programs wrote.
//!
//! This file decides which tenant is swept when; `scan` sweeps one tenant; `parts` says when a sweep that stopped continues; `rebuild`
//! tracks what a lost schedule still misses.
//!
//! There is no watermark. Each sweep reads all unfinished deliveries, in pages, so that it cannot miss a row whose
//! transaction committed late.

mod parts;
mod rebuild;
mod scan;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use docket_crds::Limits;
use docket_domain::delivery::WEBHOOK_GRACE;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_schedule::{Loss, SHARES, Schedule, TenantShares};
use docket_store::deliveries::Dead;
use docket_store::{DatabaseState, StoreError};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::report;
use crate::seen::Seen;
use crate::telemetry::{Metrics, Reader, Round, Task};
use crate::tenants::{SOURCE_LAG, ServedTenant, Tenants};
use parts::{Start, Stopped};
use rebuild::Rebuild;
use scan::{Extent, Found, Scan, UNSEEN};

/// Databases swept at once. An open SQLite file takes some 200 KB.
const AT_ONCE: usize = 4;
/// The same for PostgreSQL, whose connections are shared with other programs.
const AT_ONCE_OF_A_SERVER: usize = 8;
/// The same for databases that were unavailable last time. They are slow and must not delay the others.
const AT_ONCE_AWAY: usize = 2;
/// How long to wait for the sweeps of the tenants that a predecessor worked for; some of their databases may be away.
const SUCCESSION: Duration = Duration::from_secs(5);
/// Within how long all tenants are swept when Redis responds again.
const HINTS: Duration = Duration::from_secs(30);
/// The delay between two attempts to rebuild a lost schedule.
const REBUILD_AGAIN: Duration = Duration::from_secs(5);

/// Sweeps all tenants' databases.
pub struct Sweeper {
    scan: Scan,
    tenants: Arc<Tenants>,
    /// This process.
    owner: Owner,
    /// For databases that were available last time, and for the others.
    places: [Arc<Semaphore>; 2],
    /// For further parts.
    parts: Arc<Semaphore>,
    /// What each tenant's database looked like when a sweep found nothing unfinished in it.
    seen: HashMap<String, Seen>,
    /// Where the sweeps stopped that had too many to schedule at once.
    stopped_at: HashMap<String, Stopped>,
    /// The tenants whose databases were unavailable last time.
    away: HashSet<String>,
    rebuild: Rebuild,
    /// When to rebuild again, by [`Clock::elapsed`].
    rebuild_at: Duration,
    sweeps: JoinSet<Swept>,
    /// The tenant of each running sweep.
    running: HashMap<Id, String>,
    /// The round over all tenants: the sweeps that have not ended.
    round: Round<Id>,
    /// Tenants that changed during their sweep, which may not have seen the change.
    sweep_again: HashSet<String>,
}

/// What the schedule gives a tenant.
pub(super) fn shares(tenant: &ServedTenant) -> TenantShares {
    let Limits { attempts_in_flight, queued_deliveries, .. } = tenant.config.limits;
    let count = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
    TenantShares { claims: count(attempts_in_flight), entries: count(queued_deliveries) }
}

/// A sweep that has ended.
struct Swept {
    tenant: Arc<ServedTenant>,
    /// What its database looked like before, if it was read from the start and its health was published.
    state: Option<DatabaseState>,
    result: Result<Found, StoreError>,
}

impl Sweeper {
    /// Creates a sweeper that does nothing until [`run`](Self::run) or [`take_over`](Self::take_over).
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        schedule: Arc<Schedule>,
        owner: Owner,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (board, schedule_away, grace) = (None, Arc::default(), WEBHOOK_GRACE);
        let scan = Scan {
            clock,
            schedule,
            metrics,
            board,
            schedule_away,
            tenants: Arc::clone(&tenants),
            grace,
            unseen: UNSEEN,
        };
        Self {
            scan,
            tenants,
            owner,
            places: [AT_ONCE, AT_ONCE_AWAY].map(|places| Arc::new(Semaphore::new(places))),
            parts: Arc::new(Semaphore::new(1)),
            seen: HashMap::new(),
            stopped_at: HashMap::new(),
            away: HashSet::new(),
            rebuild: Rebuild::default(),
            rebuild_at: Duration::ZERO,
            sweeps: JoinSet::new(),
            running: HashMap::new(),
            round: Round::default(),
            sweep_again: HashSet::new(),
        }
    }

    /// For one of several processes, which take turns. It sweeps at start unless another process has just done so,
    /// spreads a sweep over its interval, schedules only what is due soon, and publishes the health of webhooks on the
    /// board.
    #[must_use]
    pub fn shared(mut self, board: Arc<Board>) -> Self {
        self.scan.board = Some(board);
        // Another process may know a webhook that this one does not know yet.
        self.scan.grace = self.scan.grace.max(SOURCE_LAG);
        self.places[0] = Arc::new(Semaphore::new(AT_ONCE_OF_A_SERVER));
        self
    }

    /// Waits so long for a webhook that is missing before it ends its deliveries.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.scan.grace = grace;
        self
    }

    /// Sweeps until shutdown is requested: everything at each interval, when `wake` is notified and after a loss of the
    /// schedule; a single tenant when its configuration changes. Shutdown cuts sweeps off; another process or the next
    /// start repeats them.
    pub async fn run(mut self, interval: Duration, wake: Arc<Notify>, shutdown: CancellationToken) {
        self.scan.unseen = UNSEEN.max(interval * 3);
        let Scan { clock, schedule, .. } = self.scan.clone();
        let tenants = Arc::clone(&self.tenants);
        let is_shared = self.scan.board.is_some();
        let spread = if is_shared { interval / 2 } else { Duration::ZERO };
        let mut next = clock.elapsed() + if is_shared { Duration::ZERO } else { interval };
        // Polled to its end: dropping it early could lose the notice of a loss.
        let mut lost = pin!(schedule.lost());
        // At the start every tenant counts as changed; the interval's sweep takes care of them.
        tenants.take_changed();
        // Their limits may have changed while no worker ran, and the interval's sweep may be another process' turn.
        self.limit_all().await;
        self.succeed().await;
        loop {
            tokio::select! {
                () = clock.sleep(next.saturating_sub(clock.elapsed())) => {
                    next = clock.elapsed() + interval;
                    // The turn expires before our next sweep. If the schedule is unavailable, sweep: one sweep too many
                    // does no harm.
                    if !matches!(schedule.sweep_turn(interval * 9 / 10).await, Ok(false)) {
                        self.limit_all().await;
                        self.begin_all(None, spread, false);
                    }
                }
                () = wake.notified() => self.begin_all(None, Duration::ZERO, true),
                changed = tenants.changed() => {
                    self.limit_changed(&changed).await;
                    self.begin_changed(&changed);
                }
                loss = &mut lost => {
                    lost.set(schedule.lost());
                    if loss == Loss::Hints {
                        self.begin_all(None, spread.min(HINTS), false);
                        continue;
                    }
                    if loss == Loss::New {
                        self.limit_all().await;
                    }
                    self.begin_rebuild(loss);
                    self.complete_rebuild().await;
                }
                Some(swept) = self.sweeps.join_next_with_id() => {
                    self.end(swept);
                    self.complete_rebuild().await;
                }
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Takes over from the process that had this one's place before, if it died: ends its leases, makes its claims due, and
    /// sweeps the tenants that it worked for, since it may have committed what it could not schedule.
    async fn succeed(&mut self) {
        let abandoned = match self.scan.schedule.abandoned().await {
            Ok(abandoned) => abandoned,
            Err(error) => {
                tracing::warn!(error = %error, "looking for the claims of this process before its restart failed; they expire by themselves");
                return;
            }
        };
        for uid in &abandoned {
            if let Some(tenant) = self.tenants.by_uid(uid) {
                let dead = Some(Dead::Predecessors(self.owner.clone()));
                self.begin(tenant, dead, Start::NOW, Extent::All);
            }
        }
        // The rows first: a claim whose row is still leased would wait for the end of the lease.
        let _ = tokio::time::timeout(SUCCESSION, self.end_begun()).await;
        if !abandoned.is_empty()
            && let Err(error) = self.scan.schedule.release_abandoned().await
        {
            tracing::warn!(error = %error, "ending the claims of this process before its restart failed; they expire by themselves");
        }
    }

    /// The first sweep of a process that is alone: releases all leases, since they belong to a dead process, so that
    /// their deliveries are due at once. An unavailable database is swept next time.
    pub async fn take_over(&mut self) {
        self.limit_all().await;
        self.begin_all(Some(&Dead::All), Duration::ZERO, false);
        self.end_begun().await;
    }

    /// Waits for the sweeps that were begun. Further parts of them follow later.
    async fn end_begun(&mut self) {
        let mut begun: HashSet<Id> = self.running.keys().copied().collect();
        while !begun.is_empty()
            && let Some(swept) = self.sweeps.join_next_with_id().await
        {
            begun.remove(&swept.as_ref().map_or_else(JoinError::id, |(id, _)| *id));
            self.end(swept);
        }
    }

    /// Gives the schedule the limits of all tenants, in place of those that it has.
    async fn limit_all(&self) {
        let limits =
            self.tenants.all().iter().map(|tenant| (Arc::clone(&tenant.uid), shares(tenant))).collect();
        self.limit(limits, true).await;
    }

    /// Gives the schedule the limits of tenants whose configuration changed.
    async fn limit_changed(&self, uids: &BTreeSet<String>) {
        let of = |uid: &String| {
            let shares = self.tenants.by_uid(uid).map_or(SHARES.per_tenant, |tenant| shares(&tenant));
            (uid.as_str().into(), shares)
        };
        self.limit(uids.iter().map(of).collect(), false).await;
    }

    async fn limit(&self, limits: Vec<(Arc<str>, TenantShares)>, only: bool) {
        if let Err(error) = self.scan.schedule.limit(limits, only).await {
            tracing::warn!(%error, "giving the schedule the limits of tenants failed; the next sweep does it again");
        }
    }

    /// Sweeps every tenant. Starts them evenly over `spread`, so that a thousand databases do not get connections at
    /// once. `written`: something was written just now, which a sweep that is running may not have seen.
    fn begin_all(&mut self, dead: Option<&Dead>, spread: Duration, written: bool) {
        let begun = self.scan.clock.elapsed();
        let running: HashSet<String> = self.running.values().cloned().collect();
        self.seen.retain(|uid, _| self.tenants.by_uid(uid).is_some());
        let tenants = self.tenants.all();
        let pause = spread / u32::try_from(tenants.len().max(1)).unwrap_or(u32::MAX);
        for (place, tenant) in (0..).zip(tenants) {
            if !running.contains(&tenant.config.uid) {
                self.begin(tenant, dead.cloned(), Start::After(pause * place), Extent::SomePages);
            } else if written {
                self.sweep_again.insert(tenant.config.uid.clone());
            }
        }
        self.round.begin(self.running.keys().copied(), begun);
        self.complete_round();
    }

    /// Reports the round once each of its sweeps has ended. Further parts of them follow later.
    fn complete_round(&mut self) {
        let Scan { clock, metrics, .. } = &self.scan;
        if let Some(took) = self.round.complete(clock.elapsed()) {
            metrics.upkeep.round(Task::Sweep, clock.now_ms(), took);
        }
    }

    /// Sweeps tenants whose configuration changed: a tenant that was suspended, or a webhook that was on hold, may have
    /// deliveries that are not in the schedule.
    fn begin_changed(&mut self, uids: &BTreeSet<String>) {
        let tenants = Arc::clone(&self.tenants);
        for tenant in uids.iter().filter_map(|uid| tenants.by_uid(uid)) {
            if self.running.values().any(|uid| *uid == tenant.config.uid) {
                self.sweep_again.insert(tenant.config.uid.clone());
                continue;
            }
            self.seen.remove(&tenant.config.uid);
            self.begin(tenant, None, Start::NOW, Extent::SomePages);
        }
    }

    /// Starts the rebuild of a lost schedule, or sweeps again the tenants that it still misses.
    fn begin_rebuild(&mut self, loss: Loss) {
        let now = self.scan.clock.elapsed();
        if loss == Loss::New || !self.rebuild.is_running() {
            // What running and earlier sweeps scheduled is lost too.
            self.sweeps = JoinSet::new();
            self.running.clear();
            self.round = Round::default();
            self.stopped_at.clear();
            self.seen.clear();
            self.sweep_again.clear();
            self.rebuild.start(self.tenants.all().iter().map(|tenant| tenant.config.uid.clone()));
        } else if now < self.rebuild_at {
            return;
        }
        self.rebuild_at = now + REBUILD_AGAIN;
        self.begin_missing();
    }

    fn begin_missing(&mut self) {
        let running: HashSet<&String> = self.running.values().collect();
        let missing = self.rebuild.missing().filter(|uid| !running.contains(uid));
        let tenants: Vec<_> = missing.filter_map(|uid| self.tenants.by_uid(uid)).collect();
        for tenant in tenants {
            self.begin(tenant, None, Start::NOW, Extent::All);
        }
    }

    fn begin(&mut self, tenant: Arc<ServedTenant>, dead: Option<Dead>, start: Start, extent: Extent) {
        let uid = tenant.config.uid.clone();
        let state = tenant.store.database().state();
        let seen = self.seen.get(&uid);
        let is_current = dead.is_none()
            && seen.is_some_and(|seen| seen.is_current(state.as_ref(), self.scan.clock.elapsed()));
        // Without a file, nothing was ever queued.
        let does_not_exist = state.as_ref().is_some_and(DatabaseState::does_not_exist);
        if is_current {
            self.scan.metrics.unchanged(Reader::Sweep);
        }
        if is_current || does_not_exist {
            self.rebuild.indexed(&uid);
            return;
        }
        let after = self.stopped_at.get(&uid).map(|stopped| stopped.at);
        let places = Arc::clone(&self.places[usize::from(self.away.contains(&uid))]);
        let (parts, scan) = (Arc::clone(&self.parts), self.scan.clone());
        let sweep = self.sweeps.spawn(async move {
            let (wait, last) = start.waits();
            if !wait.is_zero() {
                scan.clock.sleep(wait).await;
            }
            let _part = match last {
                None => None,
                Some(last) => {
                    let part = parts.acquire().await;
                    scan.clock.sleep(last).await;
                    Some(part)
                }
            };
            let _place = places.acquire().await;
            // Boxed: a thousand of these tasks wait, and few are further than here.
            Box::pin(async move {
                let visit = tenant.store.visit();
                let result = scan.run(&tenant, dead, after, extent).await;
                // After a loss each process sweeps everything; one report of the health is enough, by the next sweep.
                let mut is_reported = result.is_ok() && extent == Extent::SomePages && after.is_none();
                match &scan.board {
                    Some(board) if is_reported => is_reported = report::publish(&tenant, board).await,
                    None if is_reported => report::warn(&tenant).await,
                    _ => {}
                }
                visit.end().await;
                let state = state.filter(|_| is_reported);
                Swept { tenant, state, result }
            })
            .await
        });
        self.running.insert(sweep.id(), uid);
    }

    fn end(&mut self, swept: Result<(Id, Swept), JoinError>) {
        let (id, swept) = match swept {
            Ok((id, swept)) => (id, Some(swept)),
            Err(error) => (error.id(), None),
        };
        self.running.remove(&id);
        self.round.visited(&id);
        self.complete_round();
        let is_ok = swept.as_ref().is_some_and(|swept| !matches!(swept.result, Ok(Found::Cut(_)) | Err(_)));
        self.scan.metrics.upkeep.visited(Task::Sweep, is_ok);
        let Some(Swept { tenant, state, result }) = swept else { return };
        let uid = tenant.config.uid.clone();
        let before = self.stopped_at.remove(&uid);
        if self.sweep_again.remove(&uid)
            && let Some(tenant) = self.tenants.by_uid(&uid)
        {
            self.seen.remove(&uid);
            self.begin(tenant, None, Start::NOW, self.extent(&uid));
            return;
        }
        let (stopped, continues) = match result {
            Ok(Found::UpTo(at, refused)) => (Stopped::next(before, at, refused), true),
            Ok(Found::Cut(at)) => (Stopped::next(None, at, None), false),
            Ok(Found::Nothing | Found::Some) | Err(_) => (None, false),
        };
        self.record(tenant.config.client_code.as_str(), uid.clone(), state, result);
        if let Some(stopped) = stopped {
            self.stopped_at.insert(uid.clone(), stopped);
            if continues && let Some(tenant) = self.tenants.by_uid(&uid) {
                self.begin(tenant, None, Start::Part(stopped.pause), self.extent(&uid));
            }
        }
    }

    /// How much of a tenant to sweep that is not swept in its turn.
    fn extent(&self, uid: &str) -> Extent {
        if self.rebuild.misses(uid) { Extent::All } else { Extent::SomePages }
    }

    fn record(
        &mut self,
        tenant_code: &str,
        uid: String,
        state: Option<DatabaseState>,
        result: Result<Found, StoreError>,
    ) {
        match (&result, state) {
            // An unfinished delivery is read again: its entry in the schedule may be lost without a trace.
            (Ok(Found::Nothing), Some(state)) => {
                let now = self.scan.clock.elapsed();
                self.seen.entry(uid.clone()).or_default().has_read(Some(state), now, &uid);
            }
            _ => drop(self.seen.remove(&uid)),
        }
        match result {
            Ok(found) => {
                self.away.remove(&uid);
                match found {
                    Found::UpTo(_, None) | Found::Cut(_) => {}
                    // The schedule has as many as it may have.
                    Found::UpTo(_, Some(_)) | Found::Nothing | Found::Some => self.rebuild.indexed(&uid),
                }
            }
            Err(error) => {
                if self.away.insert(uid) {
                    tracing::warn!(tenant.code = tenant_code, error = %error, "sweeping the tenant failed; retrying");
                } else {
                    tracing::debug!(tenant.code = tenant_code, error = %error, "sweeping the tenant failed again");
                }
            }
        }
    }

    /// Marks the schedule as rebuilt once every tenant is indexed, and not before: a tenant that is missing then would
    /// not be looked for again.
    async fn complete_rebuild(&mut self) {
        if !self.rebuild.is_ready(|uid| self.tenants.by_uid(uid).is_some()) {
            return;
        }
        match self.scan.schedule.rebuilt().await {
            Ok(()) => self.rebuild.complete(),
            Err(error) => {
                tracing::warn!(error = %error, "marking the schedule as rebuilt failed; retrying");
            }
        }
    }
}
