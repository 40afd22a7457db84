//! Retention: deletes old finished deliveries and what only they needed, and old audit entries, in small batches. After that it builds the indexes
//! that a migration of PostgreSQL left to be built.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_board::Board;
use docket_program::clock::{Clock, millis};
use docket_store::{Database, StoreError, audit, retention};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::seen::Seen;
use crate::telemetry::{Metrics, Reader};
use crate::tenants::{ServedTenant, Tenants};

/// Deliveries or audit entries per transaction; small, so that other writers get their turn.
const BATCH: i64 = 200;
/// Databases at once: nothing waits for retention.
const AT_ONCE: usize = 1;
/// The delay of the first round after the start, when the process is busy with other work.
const FIRST: Duration = Duration::from_secs(60);
/// How long bulk resend requests are kept at least.
const KEEP_RESENDS: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long audit entries are kept by default.
const KEEP_AUDIT: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most audit entries that a round leaves in a database, some 30 MB.
const MAX_AUDIT: i64 = 100_000;
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
    /// By tenant.
    memories: Arc<Mutex<HashMap<Arc<str>, Memory>>>,
}

/// What is remembered of a tenant between rounds.
#[derive(Default)]
struct Memory {
    /// What the database looked like when everything old was deleted.
    seen: Seen,
    /// When the oldest of what is left becomes old, in milliseconds since 1970.
    next_ms: i64,
}

impl Retention {
    /// Keeps finished deliveries for `keep`.
    pub fn new(clock: Clock, tenants: Arc<Tenants>, keep: Duration) -> Self {
        let (metrics, memories) = Default::default();
        Self { clock, tenants, keep, keep_audit: KEEP_AUDIT, board: None, metrics, memories }
    }

    /// Keeps audit entries for `keep_audit`.
    #[must_use]
    pub fn keeping_audit(self, keep_audit: Duration) -> Self {
        Self { keep_audit, ..self }
    }

    /// For one of several processes: one of them takes each round.
    #[must_use]
    pub fn shared(self, board: Option<Arc<Board>>) -> Self {
        Self { board, ..self }
    }

    /// Counts in these metrics.
    #[must_use]
    pub fn counted(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Deletes in rounds until shutdown is requested.
    pub async fn run(self, shutdown: CancellationToken) {
        let (most, least) = ROUNDS;
        let pause = (self.keep.min(self.keep_audit) / 10).clamp(least, most);
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

    async fn round_in_turn(&self, pause: Duration) {
        // The turn expires before our next round. If Redis is unavailable, clean up: one round too many does no harm.
        let turn = match &self.board {
            Some(board) => board.turn("retention", pause * 9 / 10).await.unwrap_or(true),
            None => true,
        };
        if turn {
            self.round().await;
        }
    }

    /// Cleans up all tenants once. An unavailable database is skipped until the next round.
    pub async fn round(&self) {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut rounds = tokio::task::JoinSet::new();
        self.lock().retain(|uid, _| self.tenants.by_uid(uid).is_some());
        for tenant in self.tenants.all().into_iter().filter(|tenant| tenant.store.database().is_made()) {
            if self.has_nothing_old(&tenant) {
                self.metrics.unchanged(Reader::Retention);
                continue;
            }
            let (retention, places) = (self.clone(), Arc::clone(&places));
            rounds.spawn(async move {
                let _place = places.acquire().await;
                retention.clean(&tenant).await;
            });
        }
        while rounds.join_next().await.is_some() {}
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing was written since the last round, and nothing became old.
    fn has_nothing_old(&self, tenant: &ServedTenant) -> bool {
        let memories = self.lock();
        memories.get(&tenant.uid).is_some_and(|memory| {
            let state = tenant.store.database().state();
            memory.seen.is_current(state.as_ref(), self.clock.elapsed())
                && self.clock.now_ms() < memory.next_ms
        })
    }

    async fn clean(&self, tenant: &ServedTenant) {
        let code = tenant.config.client_code.as_str();
        let database = tenant.store.database();
        let was_open = database.is_open();
        let (state, now) = (database.state(), self.clock.elapsed());
        let mut memory = self.lock().remove(&tenant.uid).unwrap_or_default();
        match self.delete_old(tenant).await {
            Ok((count, next_ms)) => {
                if count > 0 {
                    tracing::info!(tenant.code = code, count, "old deliveries deleted");
                }
                if self.has_indexes(tenant).await {
                    memory.seen.has_read(state, now, &tenant.uid);
                    memory.next_ms = next_ms;
                    self.lock().insert(Arc::clone(&tenant.uid), memory);
                }
            }
            Err(error) => {
                tracing::warn!(tenant.code = code, error = %error, "deleting old deliveries failed; retrying")
            }
        }
        if !was_open {
            // Hundreds of open files would cost tens of megabytes.
            database.close_idle(Duration::ZERO).await;
        }
    }

    /// Builds the indexes that an upgrade left to be built. Without them searches take longer, so nothing else waits.
    async fn has_indexes(&self, tenant: &ServedTenant) -> bool {
        tenant.store.database().build_indexes().await.unwrap_or_else(|error| {
            let code = tenant.config.client_code.as_str();
            tracing::warn!(tenant.code = code, error = %error, "building indexes for searches failed; retrying");
            false
        })
    }

    /// Returns how many deliveries were deleted, and when the oldest of what is left becomes old.
    async fn delete_old(&self, tenant: &ServedTenant) -> Result<(u64, i64), StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        self.delete_old_audit(database).await?;
        let mut deleted = 0;
        loop {
            let mut transaction = database.begin(&self.clock).await?;
            // By the database's clock, which also set the end times.
            let now_ms = transaction.now_ms();
            let before_ms = now_ms - millis(self.keep);
            let batch = retention::delete_finished(&mut transaction, before_ms, BATCH).await?;
            deleted += batch;
            if batch < BATCH as u64 {
                // Bulk resend requests are kept for a while even if deliveries are not.
                let keep_resends = self.keep.max(KEEP_RESENDS);
                retention::delete_resends(&mut transaction, now_ms - millis(keep_resends)).await?;
                let [delivery, resend, entry] = retention::oldest(&mut transaction).await?;
                transaction.commit().await?;
                let ends = |since: Option<i64>, keep| since.map(|since_ms| since_ms + millis(keep));
                let next_ms =
                    [ends(delivery, self.keep), ends(resend, keep_resends), ends(entry, self.keep_audit)];
                return Ok((deleted, next_ms.into_iter().flatten().min().unwrap_or(i64::MAX)));
            }
            transaction.commit().await?;
        }
    }

    async fn delete_old_audit(&self, database: &Database) -> Result<(), StoreError> {
        loop {
            let mut transaction = database.begin(&self.clock).await?;
            let before_ms = transaction.now_ms() - millis(self.keep_audit);
            let batch = audit::delete_old(&mut transaction, before_ms, MAX_AUDIT, BATCH).await?;
            transaction.commit().await?;
            if batch < BATCH as u64 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
