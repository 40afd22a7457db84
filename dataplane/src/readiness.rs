//! What a process still waits for before it is ready, in words for /readyz.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is missing; ready when that is nothing.
#[derive(Debug)]
pub struct Readiness(Mutex<BTreeSet<&'static str>>);

impl Readiness {
    /// Not ready before all of these are there.
    pub fn without<const N: usize>(missing: [&'static str; N]) -> Self {
        Self(Mutex::new(missing.into()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is there now.
    pub fn has(&self, what: &'static str) {
        self.lock().remove(what);
    }

    /// This is not there any more.
    pub fn lacks(&self, what: &'static str) {
        self.lock().insert(what);
    }

    /// What is missing.
    pub fn missing(&self) -> Vec<&'static str> {
        self.lock().iter().copied().collect()
    }
}
