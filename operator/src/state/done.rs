//! How a pass over an object ended.

use std::time::Duration;

/// How a pass over an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Well, or in a way that only a change can fix: the next pass is after this time; `None`: when it changes.
    After(Option<Duration>),
    /// It failed and may succeed by itself.
    Failed,
    /// This process may not write now; it does not count as a failure.
    Withheld,
}
