//! Retention: deletes finished deliveries that are old enough, with what only they needed, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::tenants::{Tenant, Tenants};
use docket_program::clock::{Clock, millis};
use docket_store::{StoreError, retention};

/// Deliveries per transaction: others write in between.
const BATCH: i64 = 200;
/// Databases at once: nobody waits for this.
const AT_ONCE: usize = 1;
/// A program that has just started has better things to do for so long.
const FIRST: Duration = Duration::from_secs(60);
/// How long requests for many resends are kept at least.
const KEEP_RESENDS: Duration = Duration::from_secs(30 * 24 * 3600);
/// The time between two rounds, at most and at least.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(1));

/// Deletes what is old in all tenants' databases.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Retention {
    clock: Clock,
    tenants: Arc<Tenants>,
    keep: Duration,
    /// Where others that share the databases tell whose turn it is; `None`: there are no others.
    board: Option<Arc<Board>>,
}

impl Retention {
    /// Keeps finished deliveries for `keep`.
    pub fn new(clock: Clock, tenants: Arc<Tenants>, keep: Duration) -> Self {
        Self { clock, tenants, keep, board: None }
    }

    /// For one of many processes, of which one is enough for each round.
    #[must_use]
    pub fn shared(self, board: Option<Arc<Board>>) -> Self {
        Self { board, ..self }
    }

    /// A round now and then, the first one soon, until shutdown is requested.
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
            // What a round has not committed when it is dropped has not happened.
            tokio::select! {
                () = self.round_in_turn(pause) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn round_in_turn(&self, pause: Duration) {
        // Over when the same one comes again. A round that nobody knows to be ours does no harm.
        let turn = match &self.board {
            Some(board) => board.turn("retention", pause * 9 / 10).await.unwrap_or(true),
            None => true,
        };
        if turn {
            self.round().await;
        }
    }

    /// All tenants once. A database that is away is passed over until the next round, and holds nobody else up.
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

    async fn clean(&self, tenant: &Tenant) {
        let code = tenant.config.client_code.as_str();
        let database = tenant.store.database();
        let was_open = database.is_open();
        match self.delete_old(tenant).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(tenant.code = code, count, "old deliveries deleted"),
            Err(error) => tracing::warn!(tenant.code = code, error = %error, "can't delete old deliveries"),
        }
        if !was_open {
            // Hundreds of open files would cost tens of megabytes.
            database.close_idle(Duration::ZERO).await;
        }
    }

    /// Answers how many deliveries went.
    async fn delete_old(&self, tenant: &Tenant) -> Result<u64, StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        let mut deleted = 0;
        loop {
            let mut transaction = database.begin(&self.clock).await?;
            // By the clock that said when they ended.
            let now_ms = transaction.now_ms();
            let before_ms = now_ms - millis(self.keep);
            let batch = retention::delete_finished(&mut transaction, before_ms, BATCH).await?;
            deleted += batch;
            if batch < BATCH as u64 {
                // Who asked for what stays for a while, however short deliveries are kept.
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
