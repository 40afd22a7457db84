//! Notifies the schedule of committed rows: at once, or as soon as the schedule is available again.
//!
//! The rows are the truth, and a sweep finds them all within a minute or two. A broken connection or a new primary should
//! not cost that much.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::missed::Missed;
use super::patience::{Patience, TIMEOUT};
use super::{Entry, HandOffs, Hint, Places, Room, Schedule};

/// How often and for how long a failed notification is retried; then the sweep finds the rows.
const RETRY_EVERY: Duration = Duration::from_millis(500);
const RETRY_FOR: Duration = Duration::from_secs(30);
/// How many hints wait for a retry at most: some megabytes.
const MAX_PENDING: usize = 10_000;

/// Notifies a schedule, and retries for a while.
#[derive(Debug)]
pub struct Notifier {
    schedule: Arc<Schedule>,
    /// Hints to retry, each with the time of its first failure, oldest first.
    pending: Mutex<VecDeque<(Instant, Hint)>>,
    added: Notify,
    patience: Patience,
    missed: Arc<Missed>,
}

impl Notifier {
    /// Of this schedule; nothing is pending.
    pub fn new(schedule: Arc<Schedule>) -> Self {
        Self {
            schedule,
            pending: Mutex::default(),
            added: Notify::new(),
            patience: Patience::default(),
            missed: Arc::default(),
        }
    }

    /// Counts there what the schedule misses.
    #[must_use]
    pub fn counted(self, missed: Arc<Missed>) -> Self {
        Self { patience: Patience::counted(Arc::clone(&missed)), missed, ..self }
    }

    /// Puts entries of rows that are about to be committed, due after one `lease`: if this process dies before it
    /// can [`notify`](Self::notify), that is all it costs. Takes no longer than half a second; a failure costs a sweep.
    /// Returns which tenants are at a limit, and no claim.
    pub async fn announce(&self, entries: Vec<Entry>, lease: Duration) -> HandOffs {
        if entries.is_empty() {
            return HandOffs::default();
        }
        self.patience.hand_off(&self.schedule, entries, Room::default(), lease).await
    }

    /// The places of a tenant and of these webhooks of it; `None`: the schedule did not say in time.
    pub async fn places(&self, tenant: &str, webhooks: &[String]) -> Option<Places> {
        tokio::time::timeout(TIMEOUT, self.schedule.places(tenant, webhooks)).await.ok()?.ok()
    }

    /// Notifies the schedule of committed rows, or leaves that to [`run`](Self::run); takes no longer than half a second.
    pub async fn notify(&self, hints: Vec<Hint>) {
        if hints.is_empty() {
            return;
        }
        let failed = match tokio::time::timeout(TIMEOUT, self.schedule.put(hints.clone())).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no response within {} ms", TIMEOUT.as_millis()),
        };
        let now = Instant::now();
        let mut pending = self.pending.lock();
        // Once, and not for each call until the schedule is back.
        if pending.is_empty() {
            tracing::warn!(
                error = failed,
                "schedule not notified of new deliveries; retrying, then a sweep finds them"
            );
        }
        let room = MAX_PENDING.saturating_sub(pending.len());
        let kept = room.min(hints.len());
        self.missed.keep(kept);
        self.missed.give_up(hints.len() - kept);
        pending.extend(hints.into_iter().take(kept).map(|hint| (now, hint)));
        drop(pending);
        self.added.notify_one();
    }

    /// Retries failed notifications until shutdown is requested.
    pub async fn run(&self, shutdown: CancellationToken) {
        loop {
            let retried = async {
                if self.pending.lock().is_empty() {
                    self.added.notified().await;
                }
                tokio::time::sleep(RETRY_EVERY).await;
                self.retry().await;
            };
            tokio::select! {
                () = retried => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn retry(&self) {
        let now = Instant::now();
        let hints: Vec<Hint> = {
            let mut pending = self.pending.lock();
            while pending.front().is_some_and(|(since, _)| now - *since > RETRY_FOR) {
                pending.pop_front();
                self.missed.end(1);
                self.missed.give_up(1);
            }
            let left = |(since, hint): &(Instant, Hint)| Hint {
                entry: hint.entry.clone(),
                wait: hint.wait.saturating_sub(now - *since),
            };
            pending.iter().map(left).collect()
        };
        let count = hints.len();
        // A repeated hint does no harm: the rows decide.
        if count > 0 && self.schedule.put(hints).await.is_ok() {
            // Hints that were added meanwhile are behind these.
            self.pending.lock().drain(..count);
            self.missed.end(count);
            tracing::info!(count, "schedule notified of the deliveries it had missed");
        }
    }
}
