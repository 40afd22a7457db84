//! Retention: deletes old finished deliveries and what only they needed, in small batches.

use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use docket_program::clock::{Clock, millis};
use docket_store::{StoreError, retention};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::tenants::{ServedTenant, Tenants};

/// Deliveries per transaction; small, so that other writers get their turn.
const BATCH: i64 = 200;
/// Databases at once: nothing waits for retention.
const AT_ONCE: usize = 1;
/// The delay of the first round after the start, when the process is busy with other work.
const FIRST: Duration = Duration::from_secs(60);
/// How long bulk resend requests are kept at least.
const KEEP_RESENDS: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest and the shortest time between two rounds.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(1));

/// Deletes old deliveries from all tenants' databases.
#[derive(Clone)]
pub struct Retention {
    clock: Clock,
    tenants: Arc<Tenants>,
    keep: Duration,
    /// Decides whose turn it is among processes that share the databases; `None`: this process is alone.
    board: Option<Arc<Board>>,
}

impl Retention {
    /// Keeps finished deliveries for `keep`.
    pub fn new(clock: Clock, tenants: Arc<Tenants>, keep: Duration) -> Self {
        Self { clock, tenants, keep, board: None }
    }

    /// For one of several processes: one of them takes each round.
    #[must_use]
    pub fn shared(self, board: Option<Arc<Board>>) -> Self {
        Self { board, ..self }
    }

    /// Deletes in rounds until shutdown is requested.
    pub async fn run(self, shutdown: CancellationToken) {
        let (most, least) = ROUNDS;
        let pause = (self.keep / 10).clamp(least, most);
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
        for tenant in self.tenants.all().into_iter().filter(|tenant| tenant.store.database().is_made()) {
            let (retention, places) = (self.clone(), Arc::clone(&places));
            rounds.spawn(async move {
                let _place = places.acquire().await;
                retention.clean(&tenant).await;
            });
        }
        while rounds.join_next().await.is_some() {}
    }

    async fn clean(&self, tenant: &ServedTenant) {
        let code = tenant.config.client_code.as_str();
        let database = tenant.store.database();
        let was_open = database.is_open();
        match self.delete_old(tenant).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(tenant.code = code, count, "old deliveries deleted"),
            Err(error) => {
                tracing::warn!(tenant.code = code, error = %error, "deleting old deliveries failed; retrying")
            }
        }
        if !was_open {
            // Hundreds of open files would cost tens of megabytes.
            database.close_idle(Duration::ZERO).await;
        }
    }

    /// Returns how many deliveries were deleted.
    async fn delete_old(&self, tenant: &ServedTenant) -> Result<u64, StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
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
                let before_ms = before_ms.min(now_ms - millis(KEEP_RESENDS));
                retention::delete_resends(&mut transaction, before_ms).await?;
                transaction.commit().await?;
                return Ok(deleted);
            }
            transaction.commit().await?;
        }
    }
}

#[cfg(test)]
mod tests;
