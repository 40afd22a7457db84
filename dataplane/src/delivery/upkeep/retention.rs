//! Retention: deletes old finished deliveries with what only they needed, old audit entries and old links of messages, in small batches.
//! After that it builds the indexes that a migration of PostgreSQL left to be built.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use docket_domain::audit::AuditEvent;
use docket_program::clock::{Clock, millis};
use docket_store::subscriptions::{self, KEEP_LINKS_MS};
use docket_store::{Database, StoreError, audit, retention};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{Metrics, Reader, Task};
use crate::tenancy::rounds::{self, Lane, Rounds};
use crate::tenancy::seen::Seen;
use crate::tenancy::{ServedTenant, Tenants};

/// Deliveries or audit entries per transaction while saves must not be delayed, and in a hurry.
const BATCHES: (i64, i64) = (50, 200);
/// The rest after each batch, as a multiple of the time that the batch took: its writes delay the commits of saves.
const REST: u32 = 3;
/// The databases that are cleaned at once: nothing waits for retention.
const AT_ONCE: usize = 1;
/// The delay of the first round after the start, when the process is busy with other work.
const FIRST: Duration = Duration::from_secs(60);
/// How long bulk resend requests are kept at least.
pub const KEEP_RESENDS: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long audit entries are kept by default.
pub const KEEP_AUDIT: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most audit entries of one event that a round leaves in a database, unless the event has a limit of its own. What a user repeats
/// pushes out no other event. All together have some 100 MB.
pub const MAX_OF_AN_EVENT: i64 = 5_000;
/// The most audit entries of sign-ins that a round leaves in a database.
pub const MAX_SIGN_INS: i64 = 50_000;
/// The most audit entries of refused sign-ins that a round leaves in a database.
pub const MAX_REFUSED: i64 = 20_000;
/// The most audit entries of payloads that were read that a round leaves in a database.
pub const MAX_READS: i64 = 50_000;
/// How long a tenant has the place before others get it. The owner of a database can make old rows faster than they are deleted.
const TURN: Duration = Duration::from_secs(30);
/// The longest and the shortest time between two rounds.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(1));

/// Deletes old deliveries from all tenants' databases.
#[derive(Clone)]
pub struct Retention {
    clock: Clock,
    tenants: Arc<Tenants>,
    keep: Duration,
    keep_audit: Duration,
    /// Decides whose turn it is among processes that share the databases; `None`: this process is alone.
    board: Option<Arc<Board>>,
    metrics: Arc<Metrics>,
    /// The state of each tenant, by uid.
    memories: Arc<Mutex<HashMap<Arc<str>, RetentionState>>>,
}

/// How long a tenant's turn lasts, and how hard it works, by [`Clock::elapsed`].
#[derive(Clone, Copy)]
struct RetentionTime {
    /// Until when retention rests after each batch.
    calm_until: Duration,
    end: Duration,
}

impl RetentionTime {
    /// How many rows to delete in a transaction that begins now, and how long to rest for each second that it takes.
    fn pace(self, now: Duration) -> (i64, u32) {
        let (calm, hurried) = BATCHES;
        if now < self.calm_until { (calm, REST) } else { (hurried, 0) }
    }
}

/// What is deleted in batches.
#[derive(Clone, Copy)]
enum Old<'a> {
    /// Finished deliveries.
    Deliveries,
    /// Audit entries, of an event or of all, before a time in milliseconds since 1970.
    Entries(Option<&'a str>, i64),
    /// The links in messages.
    Links,
}

/// The old rows of a kind that were deleted.
struct Deleted {
    count: u64,
    /// Whether none is left; `false`: the turn ended before.
    is_all: bool,
}

/// Which audit entries are old, of an event or of all, each with the time before which they are, in milliseconds since 1970.
type OldEntries = Vec<(Option<String>, i64)>;

/// Returns the most audit entries of this event that a round leaves in a database.
fn most_of(event: &str) -> i64 {
    match event.parse() {
        Ok(AuditEvent::SignedIn) => MAX_SIGN_INS,
        Ok(AuditEvent::SignInRefused) => MAX_REFUSED,
        Ok(AuditEvent::PayloadRead | AuditEvent::PeopleRead) => MAX_READS,
        // Including events of a tenant's own program.
        _ => MAX_OF_AN_EVENT,
    }
}

/// What is remembered of a tenant between rounds.
#[derive(Default)]
struct RetentionState {
    /// What the database looked like when everything old was deleted.
    seen: Seen,
    /// When the oldest remaining rows become old, in milliseconds since 1970.
    next_ms: i64,
}

impl Retention {
    /// Keeps finished deliveries for `keep`, and audit entries for `keep_audit`. Several processes take turns on the `board`: one of them
    /// makes each round.
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        (keep, keep_audit): (Duration, Duration),
        board: Option<Arc<Board>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { clock, tenants, keep, keep_audit, board, metrics, memories: Arc::default() }
    }

    /// Deletes in rounds until shutdown is requested.
    pub async fn run(self, shutdown: CancellationToken) {
        let pause = self.pause();
        let mut next_ms = self.clock.now_ms() + millis(pause.min(FIRST));
        loop {
            tokio::select! {
                () = self.clock.sleep_until_ms(next_ms) => {}
                () = shutdown.cancelled() => return,
            }
            next_ms = self.clock.now_ms() + millis(pause);
            // Dropping a round rolls its open transaction back.
            tokio::select! {
                () = self.round_in_turn(pause) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// The time between two rounds.
    fn pause(&self) -> Duration {
        let (most, least) = ROUNDS;
        (self.keep.min(self.keep_audit) / 10).clamp(least, most)
    }

    async fn round_in_turn(&self, pause: Duration) {
        // If Redis is unavailable, clean up: one round too many does no harm.
        let turn = match &self.board {
            Some(board) => board.turn("retention", rounds::turn(pause)).await.unwrap_or(true),
            None => true,
        };
        if turn {
            self.round().await;
        }
    }

    /// Cleans up all tenants once. An unavailable database is skipped until the next round. In the first sixth of the time to the next
    /// round, it rests after each batch.
    pub async fn round(&self) {
        let now = self.clock.elapsed();
        let (end, calm_until) = (now + ROUNDS.0, now + self.pause() / 6);
        let mut rounds = Rounds::new(Task::Retention, self.clock.clone(), Arc::clone(&self.metrics), AT_ONCE);
        self.memories.lock().retain(|uid, _| self.tenants.by_uid(uid).is_some());
        for tenant in self.tenants.all().into_iter().filter(|tenant| tenant.store.database().is_made()) {
            if self.has_nothing_old(&tenant) {
                self.metrics.unchanged(Reader::Retention);
            } else {
                rounds.timetable.plan(&Arc::clone(&tenant.uid), Lane::Main, now, tenant);
            }
        }
        let clean = |_, tenant| self.clone().clean(tenant, calm_until);
        while let Some((visit, result)) = rounds.next(clean).await {
            let now = self.clock.elapsed();
            // The tenant comes back behind the others.
            if let Ok(Some(tenant)) = result
                && now < end
            {
                rounds.timetable.plan(&visit.uid, Lane::Main, now, tenant);
            }
        }
        let took = self.clock.elapsed().saturating_sub(now);
        self.metrics.upkeep.round(Task::Retention, self.clock.now_ms(), took);
    }

    /// Whether nothing was written since the last round, and nothing became old.
    fn has_nothing_old(&self, tenant: &ServedTenant) -> bool {
        let memories = self.memories.lock();
        memories.get(&tenant.uid).is_some_and(|memory| {
            let state = tenant.store.database().state();
            memory.seen.is_current(state.as_ref(), self.clock.elapsed())
                && self.clock.now_ms() < memory.next_ms
        })
    }

    /// Returns the tenant if its turn has ended before all that is old was deleted.
    async fn clean(self, tenant: Arc<ServedTenant>, calm_until: Duration) -> Option<Arc<ServedTenant>> {
        let code = tenant.config.client_code.as_str();
        let database = tenant.store.database();
        let visit = tenant.store.visit();
        let (state, now) = (database.state(), self.clock.elapsed());
        let mut memory = self.memories.lock().remove(&tenant.uid).unwrap_or_default();
        let turn = RetentionTime { calm_until, end: now + TURN };
        let mut is_done = true;
        let deleted = self.delete_old(&tenant, turn).await;
        self.metrics.upkeep.visited(Task::Retention, deleted.is_ok());
        match deleted {
            Ok((count, next_ms)) => {
                if count > 0 {
                    tracing::info!(tenant.code = code, count, "old deliveries deleted");
                }
                is_done = next_ms.is_some();
                if let Some(next_ms) = next_ms
                    && self.has_indexes(&tenant).await
                {
                    memory.seen.has_read(state, now, &tenant.uid);
                    memory.next_ms = next_ms;
                    self.memories.lock().insert(Arc::clone(&tenant.uid), memory);
                }
            }
            Err(error) => {
                tracing::warn!(tenant.code = code, error = %error, "deleting old rows failed; retrying")
            }
        }
        visit.end().await;
        (!is_done).then_some(tenant)
    }

    /// Builds the indexes that an upgrade left to be built. Without them searches take longer, so nothing else waits.
    async fn has_indexes(&self, tenant: &ServedTenant) -> bool {
        tenant.store.database().build_indexes().await.unwrap_or_else(|error| {
            let code = tenant.config.client_code.as_str();
            tracing::warn!(tenant.code = code, error = %error, "building indexes for searches failed; retrying");
            false
        })
    }

    /// Returns how many deliveries were deleted, and when the oldest remaining delivery becomes old; `None`: the time was up
    /// before.
    async fn delete_old(
        &self,
        tenant: &ServedTenant,
        turn: RetentionTime,
    ) -> Result<(u64, Option<i64>), StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        let deliveries = self.delete(database, turn, Old::Deliveries).await?;
        let (entries, next_ms) = self.look(database).await?;
        for (event, before_ms) in entries {
            if !self.delete(database, turn, Old::Entries(event.as_deref(), before_ms)).await?.is_all {
                return Ok((deliveries.count, None));
            }
        }
        let links = self.delete(database, turn, Old::Links).await?;
        Ok((deliveries.count, (deliveries.is_all && links.is_all).then_some(next_ms)))
    }

    /// Deletes old bulk resend requests. Returns the old audit entries, and when the oldest remaining row becomes old, in milliseconds
    /// since 1970.
    async fn look(&self, database: &Database) -> Result<(OldEntries, i64), StoreError> {
        let mut transaction = database.begin(&self.clock).await?;
        // Bulk resend requests are kept for a while even if deliveries are not.
        let keep_resends = self.keep.max(KEEP_RESENDS);
        let now_ms = transaction.now_ms();
        retention::delete_resends(&mut transaction, now_ms - millis(keep_resends)).await?;
        let oldest = retention::oldest(&mut transaction).await?;
        let keep = [self.keep, keep_resends, self.keep_audit].map(millis).into_iter().chain([KEEP_LINKS_MS]);
        let next = oldest.into_iter().zip(keep).filter_map(|(since_ms, keep_ms)| Some(since_ms? + keep_ms));
        let next_ms = next.min().unwrap_or(i64::MAX);
        let mut old = vec![(None, now_ms - millis(self.keep_audit))];
        for event in audit::crowded(&mut transaction, MAX_OF_AN_EVENT).await? {
            if let Some(at_ms) = audit::surplus(&mut transaction, &event, most_of(&event)).await? {
                old.push((Some(event), at_ms.saturating_add(1)));
            }
        }
        transaction.commit().await?;
        Ok((old, next_ms))
    }

    /// Deletes old rows, in batches, until the turn ends.
    async fn delete(
        &self,
        database: &Database,
        turn: RetentionTime,
        old: Old<'_>,
    ) -> Result<Deleted, StoreError> {
        let mut count = 0;
        loop {
            let began = self.clock.elapsed();
            let (most, rest) = turn.pace(began);
            let mut transaction = database.begin(&self.clock).await?;
            // By the database's clock, which also set the end times.
            let now_ms = transaction.now_ms();
            let batch = match old {
                Old::Deliveries => {
                    retention::delete_finished(&mut transaction, now_ms - millis(self.keep), most).await?
                }
                Old::Entries(event, before_ms) => {
                    audit::delete_before(&mut transaction, event, before_ms, most).await?
                }
                Old::Links => subscriptions::delete_old_links(&mut transaction, now_ms, most).await?,
            };
            transaction.commit().await?;
            match old {
                Old::Deliveries => self.metrics.upkeep.deleted_deliveries(batch),
                Old::Entries(..) => self.metrics.upkeep.deleted_audit_entries(batch),
                Old::Links => {}
            }
            count += batch;
            let is_all = batch < most as u64;
            if is_all || !self.rest(turn, began, rest).await {
                return Ok(Deleted { count, is_all });
            }
        }
    }

    /// Rests after a batch that began at `began`: `times` times as long as the batch took, at most until the turn ends. Returns whether
    /// there is time left.
    async fn rest(&self, turn: RetentionTime, began: Duration, times: u32) -> bool {
        let now = self.clock.elapsed();
        let time = ((now - began) * times).min(turn.end.saturating_sub(now));
        self.clock.sleep(time).await;
        self.clock.elapsed() < turn.end
    }
}

#[cfg(test)]
mod tests;
