//! The sweep: reads unfinished deliveries from the databases and schedules them. It rebuilds a lost schedule, and finds
//! hints that were lost and rows that other programs wrote.
//!
//! This file decides which tenant is swept when, and `rounds` how many at once; `scan` sweeps one tenant; `tenant_sweep` says where the next
//! sweep of a tenant begins, and when a stopped sweep continues; `rebuild` tracks what a lost schedule still misses.
//!
//! There is no watermark. Each sweep reads all unfinished deliveries, in pages, so that it cannot miss a row whose
//! transaction committed late.

mod rebuild;
mod scan;
mod tenant_sweep;

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use docket_crds::Limits;
use docket_domain::delivery::WEBHOOK_GRACE;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_schedule::{Loss, SHARES, Schedule, TenantShares};
use docket_store::DatabaseState;
use docket_store::deliveries::EndedLeases;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{Metrics, Reader, Task};
use crate::tenancy::rounds::{self, EndedVisit, Rounds};
use crate::tenancy::{SOURCE_LAG, ServedTenant, Tenants};
use rebuild::Rebuild;
use scan::{Extent, Scan, Sweep, SweepResult, Swept, UNSEEN};
use tenant_sweep::TenantSweep;

/// The databases that are swept at once. An open SQLite file takes some 200 KB.
const AT_ONCE: usize = 4;
/// The same for PostgreSQL, whose connections are shared with other programs.
const AT_ONCE_OF_A_SERVER: usize = 8;
/// How long to wait for the sweeps of the tenants that a predecessor worked for; some of their databases may be away.
const SUCCESSION: Duration = Duration::from_secs(5);
/// The time over which the sweeps of all tenants are spread when Redis responds again.
const HINTS: Duration = Duration::from_secs(30);
/// The delay between two attempts to rebuild a lost schedule.
const REBUILD_AGAIN: Duration = Duration::from_secs(5);

/// Sweeps all tenants' databases.
pub struct Sweeper {
    scan: Scan,
    /// This process.
    owner: Owner,
    rounds: Rounds<Sweep, Swept>,
    /// The last sweep of each tenant, by uid.
    last: HashMap<Arc<str>, TenantSweep>,
    rebuild: Rebuild,
    /// When to rebuild again, by [`Clock::elapsed`].
    rebuild_at: Duration,
}

/// Returns the limits of a tenant in the schedule.
pub(in crate::delivery) fn shares(tenant: &ServedTenant) -> TenantShares {
    let Limits { attempts_in_flight, queued_deliveries, .. } = tenant.config.limits;
    let count = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
    TenantShares { claims: count(attempts_in_flight), entries: count(queued_deliveries) }
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
        let rounds = Rounds::new(Task::Sweep, clock.clone(), Arc::clone(&metrics), AT_ONCE);
        let (board, schedule_away, grace) = (None, Arc::default(), WEBHOOK_GRACE);
        let scan = Scan { clock, schedule, metrics, board, schedule_away, tenants, grace, unseen: UNSEEN };
        let (last, rebuild) = Default::default();
        Self { scan, owner, rounds, last, rebuild, rebuild_at: Duration::ZERO }
    }

    /// Returns a sweeper for one of several processes, which take turns. It sweeps at start unless another process has just done so,
    /// spreads a sweep over half of its interval, schedules only what is due soon, and publishes the health of webhooks on the board.
    #[must_use]
    pub fn shared(mut self, board: Arc<Board>) -> Self {
        self.scan.board = Some(board);
        // Another process may know a webhook that this one does not know yet.
        self.scan.grace = self.scan.grace.max(SOURCE_LAG);
        self.rounds.timetable.at_once = AT_ONCE_OF_A_SERVER;
        self
    }

    /// Sets how long the deliveries of a missing webhook wait for it before they end.
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
        let Scan { clock, schedule, tenants, .. } = self.scan.clone();
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
                    // If the schedule is unavailable, sweep: one sweep too many does no harm.
                    if !matches!(schedule.sweep_turn(rounds::turn(interval)).await, Ok(false)) {
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
                Some(ended) = self.next() => {
                    self.end(ended);
                    self.complete_rebuild().await;
                }
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Takes over from the process that had the place of this process before, if it died: ends its leases, makes its claims due, and sweeps
    /// the tenants that it worked for, since it may have committed deliveries that it could not schedule.
    async fn succeed(&mut self) {
        let abandoned = match self.scan.schedule.abandoned().await {
            Ok(abandoned) => abandoned,
            Err(error) => {
                tracing::warn!(error = %error, "looking for the claims of this process before its restart failed; they expire by themselves");
                return;
            }
        };
        for uid in &abandoned {
            if let Some(tenant) = self.scan.tenants.by_uid(uid) {
                let dead = Some(EndedLeases::Predecessors(self.owner.clone()));
                self.begin(tenant, dead, Extent::All, Duration::ZERO);
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
        self.begin_all(Some(&EndedLeases::All), Duration::ZERO, false);
        self.end_begun().await;
    }

    /// Waits for the sweeps that were begun. Further parts of them follow later.
    async fn end_begun(&mut self) {
        let mut begun = self.rounds.timetable.uids();
        while !begun.is_empty()
            && let Some((visit, swept)) = self.next().await
        {
            begun.remove(&visit.uid);
            self.end((visit, swept));
        }
    }

    /// Begins the sweeps that are due, and waits until one ends.
    async fn next(&mut self) -> Option<EndedVisit<Swept>> {
        let scan = &self.scan;
        self.rounds.next(|_, sweep| scan.clone().sweep(sweep)).await
    }

    /// Replaces all limits that the schedule has by the limits of all tenants.
    async fn limit_all(&self) {
        let tenants = self.scan.tenants.all();
        let limits = tenants.iter().map(|tenant| (Arc::clone(&tenant.uid), shares(tenant))).collect();
        self.limit(limits, true).await;
    }

    /// Gives the schedule the limits of tenants whose configuration changed.
    async fn limit_changed(&self, uids: &BTreeSet<Arc<str>>) {
        let of = |uid: &Arc<str>| {
            let shares = self.scan.tenants.by_uid(uid).map_or(SHARES.per_tenant, |tenant| shares(&tenant));
            (Arc::clone(uid), shares)
        };
        self.limit(uids.iter().map(of).collect(), false).await;
    }

    /// Gives the schedule these limits. `only`: they replace all limits that it has.
    async fn limit(&self, limits: Vec<(Arc<str>, TenantShares)>, only: bool) {
        if let Err(error) = self.scan.schedule.limit(limits, only).await {
            tracing::warn!(%error, "setting the tenants' limits in the schedule failed; the next sweep retries");
        }
    }

    /// Sweeps every tenant. Starts them evenly over `spread`, so that a thousand databases do not get connections at
    /// once. `written`: something was written just now, which a sweep that is running may not have seen.
    fn begin_all(&mut self, dead: Option<&EndedLeases>, spread: Duration, written: bool) {
        self.last.retain(|uid, _| self.scan.tenants.by_uid(uid).is_some());
        let tenants = self.scan.tenants.all();
        let pause = spread / u32::try_from(tenants.len().max(1)).unwrap_or(u32::MAX);
        for (place, tenant) in (0..).zip(tenants) {
            if !self.rounds.timetable.has(&tenant.uid) {
                self.begin(tenant, dead.cloned(), Extent::SomePages, pause * place);
            } else if written {
                self.rounds.timetable.repeat(&tenant.uid);
            }
        }
        self.rounds.begin_round();
    }

    /// Sweeps tenants whose configuration changed: a tenant that was suspended, or a webhook that was on hold, may have
    /// deliveries that are not in the schedule.
    fn begin_changed(&mut self, uids: &BTreeSet<Arc<str>>) {
        for uid in uids {
            if let Some(tenant) = self.scan.tenants.by_uid(uid)
                && !self.rounds.timetable.repeat(uid)
            {
                self.last.entry(Arc::clone(&tenant.uid)).or_default().start_over();
                self.begin(tenant, None, Extent::SomePages, Duration::ZERO);
            }
        }
    }

    /// Starts the rebuild of a lost schedule, or sweeps again the tenants that it still misses.
    fn begin_rebuild(&mut self, loss: Loss) {
        let (now, tenants) = (self.scan.clock.elapsed(), Arc::clone(&self.scan.tenants));
        if loss == Loss::New || !self.rebuild.is_running() {
            // What running and earlier sweeps scheduled is lost too.
            self.rounds.clear();
            self.last.retain(|_, last| matches!(last, TenantSweep::Away));
            self.rebuild.start(tenants.all().iter().map(|tenant| Arc::clone(&tenant.uid)));
        } else if now < self.rebuild_at {
            return;
        }
        self.rebuild_at = now + REBUILD_AGAIN;
        let missing = self.rebuild.missing().filter(|uid| !self.rounds.timetable.has(uid));
        let missing: Vec<_> = missing.filter_map(|uid| tenants.by_uid(uid)).collect();
        for tenant in missing {
            self.begin(tenant, None, Extent::All, Duration::ZERO);
        }
    }

    /// Plans a sweep of a tenant that has none, to begin after this time, unless there is nothing to find.
    fn begin(
        &mut self,
        tenant: Arc<ServedTenant>,
        dead: Option<EndedLeases>,
        extent: Extent,
        wait: Duration,
    ) {
        let (uid, now) = (Arc::clone(&tenant.uid), self.scan.clock.elapsed());
        let state = tenant.store.database().state();
        let last = self.last.entry(Arc::clone(&uid)).or_default();
        let is_current = dead.is_none() && last.is_current(state.as_ref(), now);
        // Without a file, nothing was ever queued.
        let does_not_exist = state.as_ref().is_some_and(DatabaseState::does_not_exist);
        if is_current {
            self.scan.metrics.unchanged(Reader::Sweep);
        }
        if is_current || does_not_exist {
            self.rebuild.indexed(&uid);
            return;
        }
        let (lane, after) = last.next();
        self.rounds.timetable.plan(&uid, lane, now + wait, Sweep { tenant, dead, after, extent });
    }

    /// Records how a sweep ended, and plans the next one if it is to be repeated or continued.
    fn end(&mut self, (visit, swept): EndedVisit<Swept>) {
        let uid = visit.uid;
        if let Ok(Swept { result, .. }) = &swept {
            let is_ok = !matches!(result, Ok(SweepResult::Cut(_)) | Err(_));
            self.scan.metrics.upkeep.visited(Task::Sweep, is_ok);
        }
        let Some(tenant) = self.scan.tenants.by_uid(&uid) else { return };
        let last = self.last.entry(Arc::clone(&uid)).or_default();
        if visit.again {
            last.start_over();
            return self.begin(tenant, None, self.extent(&uid), Duration::ZERO);
        }
        // After a panic the next sweep begins where this sweep began.
        let Ok(Swept { state, result }) = swept else { return };
        match &result {
            Ok(SweepResult::UpTo(_, None) | SweepResult::Cut(_)) => {}
            // With no room the schedule has as many as it may have.
            Ok(SweepResult::UpTo(_, Some(_)) | SweepResult::Nothing | SweepResult::Some) => {
                self.rebuild.indexed(&uid)
            }
            Err(error) => {
                let code = tenant.config.client_code.as_str();
                if matches!(last, TenantSweep::Away) {
                    tracing::debug!(tenant.code = code, error = %error, "sweeping the tenant failed again");
                } else {
                    tracing::warn!(tenant.code = code, error = %error, "sweeping the tenant failed; retrying");
                }
            }
        }
        *last = std::mem::take(last).then(&result, state, self.scan.clock.elapsed(), &uid);
        if let TenantSweep::Stopped(stopped) = last {
            let pause = stopped.pause;
            self.begin(tenant, None, self.extent(&uid), pause);
        }
    }

    /// How much of a tenant to sweep that is not swept in its turn.
    fn extent(&self, uid: &str) -> Extent {
        if self.rebuild.misses(uid) { Extent::All } else { Extent::SomePages }
    }

    /// Marks the schedule as rebuilt once every tenant is indexed, and not before: a tenant that is missing then would
    /// not be looked for again.
    async fn complete_rebuild(&mut self) {
        if !self.rebuild.is_ready(|uid| self.scan.tenants.by_uid(uid).is_some()) {
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

#[cfg(test)]
mod tests {
    use docket_crds::TenantConfig;
    use docket_egress::Trust;
    use docket_program::clock::ManualClock;
    use docket_rig::scratch::Folder;
    use docket_store::Database;
    use docket_store::sqlite::Sqlite;
    use docket_store::stores::Store;
    use serde_json::json;

    use super::*;
    use crate::tenancy::{HeldWebhooks, testing};

    struct Rig {
        clock: Clock,
        sweeper: Sweeper,
        _folder: Folder,
    }

    impl Rig {
        /// A tenant with the webhook `default/hook/C-1`, and `count` due deliveries to the webhook with this key.
        async fn new(name: &str, webhook: &str, count: usize) -> Self {
            let folder = Folder::new(name);
            let clock = Clock::Manual(ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time")));
            let hook = json!({"uid": "hook", "namespace": "default", "name": "hook", "displayName": null,
                "customerCode": "C-1", "targetUrl": "https://10.0.0.1/hook", "secret": null, "caBundle": null,
                "events": ["order.created"], "active": true});
            let webhooks = vec![serde_json::from_value(hook).expect("a webhook")];
            let config = TenantConfig { webhooks, ..testing::config("uid-1") };
            let file = Sqlite::new(folder.path().join("tenant.db"));
            let store = Arc::new(Store::new(Database::Sqlite(file)));
            let event = "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) \
                         VALUES ('e', 'order.created', 'C-1', X'7B7D', 0)";
            let deliveries = format!(
                "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms) \
                 WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count}) \
                 SELECT printf('01900000-0000-7000-8000-%012d', n), 'e', '{webhook}', 'n', 'Pending', 0, 0, 0 FROM number"
            );
            let mut transaction = store.begin(&clock).await.expect("a schema");
            for sql in [event, deliveries.as_str()] {
                transaction.execute(sql, Vec::new()).await.expect("inserts");
            }
            transaction.commit().await.expect("commits");
            // Each webhook that is not served is on hold.
            let tenant = ServedTenant::new(config, store, HeldWebhooks::AllUnknown, &Trust::none(), None);
            let tenants = Arc::<Tenants>::default();
            tenants.replace(vec![Arc::new(tenant)]);
            let (schedule, owner) = (empty(&clock), Owner::new(b"worker"));
            let sweeper = Sweeper::new(clock.clone(), tenants, schedule, owner, Arc::default());
            Self { clock, sweeper, _folder: folder }
        }

        /// The number of due entries in the schedule.
        async fn scheduled(&self) -> usize {
            let overdue = self.sweeper.scan.schedule.overdue("").await.expect("it is in memory");
            overdue.entries + overdue.held
        }
    }

    fn empty(clock: &Clock) -> Arc<Schedule> {
        Arc::new(Schedule::in_memory(clock.clone(), SHARES))
    }

    #[test]
    fn times_and_bounds_are_the_documented_ones() {
        let times = [SUCCESSION, HINTS, REBUILD_AGAIN, UNSEEN];
        assert_eq!(times.map(|time| time.as_secs()), [5, 30, 5, 600]);
        assert_eq!((AT_ONCE, AT_ONCE_OF_A_SERVER), (4, 8));
    }

    #[tokio::test]
    async fn a_part_of_a_sweep_is_5000_deliveries_and_a_rebuild_is_all_from_the_first() {
        let mut rig = Rig::new("parts", "default/hook/C-1", 5_003).await;
        rig.sweeper.take_over().await;
        assert_eq!(rig.scheduled().await, 5_000, "the next part follows a second later");
        // The schedule is lost before the next part.
        rig.sweeper.scan.schedule = empty(&rig.clock);
        rig.sweeper.begin_rebuild(Loss::New);
        rig.sweeper.end_begun().await;
        assert_eq!(rig.scheduled().await, 5_003);
    }

    /// The sweep that waits or runs may have read the database before.
    #[tokio::test]
    async fn tenant_is_swept_once_more_if_its_database_was_written_meanwhile() {
        let mut rig = Rig::new("written", "default/hook/C-1", 3).await;
        for written in [false, true] {
            rig.sweeper.begin_all(None, Duration::ZERO, false);
            rig.sweeper.begin_all(None, Duration::ZERO, written);
            rig.sweeper.end_begun().await;
            assert_eq!(rig.sweeper.rounds.timetable.has("uid-1"), written);
        }
        rig.sweeper.end_begun().await;
        assert!(!rig.sweeper.rounds.timetable.has("uid-1"), "only once");
    }

    #[tokio::test]
    async fn deliveries_of_a_webhook_on_hold_are_not_scheduled() {
        for (webhook, count) in [("default/hook/C-1", 3), ("default/held/C-1", 0)] {
            let mut rig = Rig::new("on-hold", webhook, 3).await;
            rig.sweeper.take_over().await;
            assert_eq!(rig.scheduled().await, count, "{webhook}");
        }
    }
}
