//! What a process needs before it is ready, as texts for /readyz.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The parts of the process that are not ready yet. The process is ready when there are none.
#[derive(Debug)]
pub struct Readiness(Mutex<BTreeSet<&'static str>>);

impl Readiness {
    /// Creates a state that is not ready until each of these parts is.
    pub fn without<const N: usize>(missing: [&'static str; N]) -> Self {
        Self(Mutex::new(missing.into()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the part `what` is ready.
    pub fn has(&self, what: &'static str) {
        self.lock().remove(what);
    }

    /// Records that the part `what` is not ready.
    pub fn lacks(&self, what: &'static str) {
        self.lock().insert(what);
    }

    /// Returns the parts that are not ready.
    pub fn missing(&self) -> Vec<&'static str> {
        self.lock().iter().copied().collect()
    }
}
