//! What a process needs before it is ready, as texts for /readyz.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is missing. The process is ready when nothing is.
#[derive(Debug)]
pub struct Readiness(Mutex<BTreeSet<&'static str>>);

impl Readiness {
    /// Not ready until all of these are there.
    pub fn without<const N: usize>(missing: [&'static str; N]) -> Self {
        Self(Mutex::new(missing.into()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `what` is there.
    pub fn has(&self, what: &'static str) {
        self.lock().remove(what);
    }

    /// Records that `what` is missing.
    pub fn lacks(&self, what: &'static str) {
        self.lock().insert(what);
    }

    /// What is missing.
    pub fn missing(&self) -> Vec<&'static str> {
        self.lock().iter().copied().collect()
    }
}
