//! Which deliveries, faults and guards there are.

use crate::guard::Guard;

/// The faults that happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Processes end.
    pub crashes: bool,
    /// Responses to commits are lost, and outcomes are given up.
    pub unanswered: bool,
    /// The schedule loses entries and calls, or is restored.
    pub schedule: bool,
    /// A commit may take longer than a lease.
    pub slow_commits: bool,
    /// Attempts are renewed and given back.
    pub long_attempts: bool,
    /// The database's clock is set back.
    pub clock: bool,
    /// The webhook is deleted and declared again.
    pub webhook: bool,
    /// Another version starts.
    pub rendering: bool,
}

impl Faults {
    /// All faults.
    pub const ALL: Self = Self {
        crashes: true,
        unanswered: true,
        schedule: true,
        slow_commits: true,
        long_attempts: true,
        clock: true,
        webhook: true,
        rendering: true,
    };
}

/// Which deliveries, faults and guards there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// The number of deliveries, at most [`DELIVERIES`](crate::state::DELIVERIES).
    pub deliveries: usize,
    /// Whether the deliveries have the same idempotency key. The second delivery is of the repeated publication then; otherwise one
    /// transaction stores both.
    pub is_keyed: bool,
    /// The number of workers, at most two.
    pub workers: usize,
    /// The faults.
    pub faults: Faults,
    /// The guard that is missing.
    pub missing: Option<Guard>,
}

impl Default for World {
    fn default() -> Self {
        Self { deliveries: 1, is_keyed: false, workers: 2, faults: Faults::default(), missing: None }
    }
}

impl World {
    /// A world with these faults.
    pub fn with(faults: Faults) -> Self {
        Self { faults, ..Self::default() }
    }

    /// The same with two deliveries.
    #[must_use]
    pub fn of_two(self) -> Self {
        Self { deliveries: 2, ..self }
    }

    /// The same with a publication that may be repeated under its key.
    #[must_use]
    pub fn keyed(self) -> Self {
        Self { deliveries: 2, is_keyed: true, ..self }
    }

    /// The world without this guard. It has the faults that a broken invariant takes, and no others, so that the history is short.
    pub fn without(guard: Guard) -> Self {
        let none = Faults::default();
        let world = match guard {
            Guard::AttemptLimit => Self { workers: 1, ..Self::default() },
            Guard::UniqueKey => Self::default().keyed(),
            Guard::Token | Guard::Announcement => Self::with(Faults { crashes: true, ..none }),
            Guard::DueTime | Guard::Lease | Guard::Sweep => Self::with(Faults { schedule: true, ..none }),
            Guard::StoredBytes => Self::with(Faults { rendering: true, ..none }),
            Guard::CountFirst | Guard::ConfirmedCommit | Guard::OneTransaction => Self::default(),
        };
        Self { missing: Some(guard), ..world }
    }

    /// The same world with all guards.
    #[must_use]
    pub fn guarded(self) -> Self {
        Self { missing: None, ..self }
    }

    /// Whether the guard is there.
    pub fn has(&self, guard: Guard) -> bool {
        self.missing != Some(guard)
    }
}
