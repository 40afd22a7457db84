//! Telling the schedule of what was committed: at once, or as soon as it is back.
//!
//! The rows are the truth and a sweep finds them all, within a minute or two; a connection that broke, or a new primary,
//! should not cost so much.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Hint, Schedule};

/// How long whoever tells waits for the schedule.
const TELL: Duration = Duration::from_millis(500);
/// What could not be told is tried again so often, and for so long; then it is left to the sweep.
const AGAIN: Duration = Duration::from_millis(500);
const AT_MOST: Duration = Duration::from_secs(30);
/// So many are remembered: some megabytes.
const REMEMBERED: usize = 10_000;

/// Tells a schedule, and remembers for a while what it could not be told.
#[derive(Debug)]
pub struct Telling<S> {
    schedule: Arc<S>,
    /// With the time since when, in its order.
    untold: Mutex<VecDeque<(Instant, Hint)>>,
    added: Notify,
}

impl<S: Schedule> Telling<S> {
    /// Has nothing to tell.
    pub fn new(schedule: Arc<S>) -> Self {
        Self { schedule, untold: Mutex::default(), added: Notify::new() }
    }

    fn untold(&self) -> MutexGuard<'_, VecDeque<(Instant, Hint)>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of committed rows, or leaves that to [`run`](Self::run); takes no longer than half a second.
    pub async fn tell(&self, hints: Vec<Hint>) {
        if hints.is_empty() {
            return;
        }
        let failed = match tokio::time::timeout(TELL, self.schedule.put(hints.clone())).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        let now = Instant::now();
        let mut untold = self.untold();
        // Once, and not for each of those who come meanwhile.
        if untold.is_empty() {
            tracing::warn!(
                error = failed,
                "can't tell the schedule; this is tried again, and then left to a sweep"
            );
        }
        let room = REMEMBERED.saturating_sub(untold.len());
        untold.extend(hints.into_iter().take(room).map(|hint| (now, hint)));
        drop(untold);
        self.added.notify_one();
    }

    /// Tells what could not be told, until shutdown is requested.
    pub async fn run(&self, shutdown: CancellationToken) {
        loop {
            let told = async {
                if self.untold().is_empty() {
                    self.added.notified().await;
                }
                tokio::time::sleep(AGAIN).await;
                self.tell_again().await;
            };
            tokio::select! {
                () = told => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn tell_again(&self) {
        let now = Instant::now();
        let hints: Vec<Hint> = {
            let mut untold = self.untold();
            while untold.front().is_some_and(|(since, _)| now - *since > AT_MOST) {
                untold.pop_front();
            }
            let left = |(since, hint): &(Instant, Hint)| Hint {
                entry: hint.entry.clone(),
                wait: hint.wait.saturating_sub(now - *since),
            };
            untold.iter().map(left).collect()
        };
        let count = hints.len();
        // Told twice does no harm: the rows decide.
        if count > 0 && self.schedule.put(hints).await.is_ok() {
            // What was added meanwhile is behind these.
            self.untold().drain(..count);
            tracing::info!(count, "the schedule was told what it could not be told before");
        }
    }
}
