//! Counts the watches that have their first list. Passes begin when all have it, and `/readyz` reports it.

use tokio::sync::watch;

/// The progress of the watches.
#[derive(Debug, Default)]
pub struct Progress(watch::Sender<Listed>);

/// `wanted` is the number of watches; 0 until it is known.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    listed: usize,
    wanted: usize,
}

impl Listed {
    const fn is_complete(self) -> bool {
        self.wanted > 0 && self.listed >= self.wanted
    }
}

impl Progress {
    /// Sets the number of watches.
    pub fn expect(&self, watches: usize) {
        self.0.send_modify(|listed| listed.wanted = watches);
    }

    /// Records that one more watch has its first list.
    pub fn listed(&self) {
        self.0.send_modify(|listed| listed.listed += 1);
    }

    /// Whether every watch has its first list.
    pub fn is_complete(&self) -> bool {
        self.0.borrow().is_complete()
    }

    /// Waits until every watch has its first list.
    pub async fn complete(&self) {
        // The sender lives as long as `self`, so this returns only when the lists are complete.
        let _ = self.0.subscribe().wait_for(|listed| listed.is_complete()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn complete_returns_after_the_last_first_list() {
        let progress = Progress::default();
        assert!(!progress.is_complete(), "no watch is known yet");
        progress.expect(2);
        progress.listed();
        assert!(!progress.is_complete());
        progress.listed();
        progress.complete().await;
    }
}
