//! The end of a pass over an object.

use std::time::Duration;

/// How a pass over an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The pass succeeded, or failed in a way that only a change can fix. The next pass is due after this time;
    /// `None`: when the object changes.
    After(Option<Duration>),
    /// The pass failed, and may succeed when it is repeated.
    Failed,
    /// This process may not write now. The pass does not count as failed.
    Withheld,
}
