//! The parts that a process needs before it is ready, as texts for /readyz.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// The parts of the process that are not ready yet. The process is ready when there are none.
#[derive(Debug)]
pub struct Readiness(Mutex<BTreeSet<&'static str>>);

impl Readiness {
    /// Creates a state that is not ready until each of these parts is.
    pub fn without<const N: usize>(missing: [&'static str; N]) -> Self {
        Self(Mutex::new(missing.into()))
    }

    /// Records that the part `what` is ready.
    pub fn has(&self, what: &'static str) {
        self.0.lock().remove(what);
    }

    /// Records that the part `what` is not ready.
    pub fn lacks(&self, what: &'static str) {
        self.0.lock().insert(what);
    }

    /// Returns the parts that are not ready.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.lock().iter().copied().collect()
    }
}
