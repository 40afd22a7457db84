//! Counts of what a schedule missed because it did not respond. They are plain numbers: a program publishes them as it likes.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

/// What a schedule missed, over all callers that share this.
#[derive(Debug, Default)]
pub struct Missed {
    /// Until when callers leave the schedule alone.
    left_alone: Mutex<Option<Instant>>,
    not_announced: AtomicU64,
    pending: AtomicU64,
    given_up: AtomicU64,
}

impl Missed {
    /// Whether callers that can't wait for long leave the schedule alone, since the last one got no response in time.
    pub fn is_left_alone(&self) -> bool {
        let until = *self.left_alone.lock();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// How many deliveries were neither claimed nor announced before their commit.
    pub fn not_announced(&self) -> u64 {
        self.not_announced.load(Ordering::Relaxed)
    }

    /// How many committed deliveries the schedule has not been notified of yet.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// How many committed deliveries were left to a sweep.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn leave_alone(&self, until: Option<Instant>) {
        *self.left_alone.lock() = until;
    }

    pub(crate) fn announce_none_of(&self, count: usize) {
        self.not_announced.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn keep(&self, count: usize) {
        self.pending.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Ends the wait of pending deliveries.
    pub(crate) fn end(&self, count: usize) {
        self.pending.fetch_sub(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn give_up(&self, count: usize) {
        self.given_up.fetch_add(count as u64, Ordering::Relaxed);
    }
}
