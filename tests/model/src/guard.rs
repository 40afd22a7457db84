//! The guards of the protocol. Without one of them, an invariant breaks.

use crate::invariant::Invariant;

/// A guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The lease's token is checked when an attempt is finished.
    Token,
    /// A fifth attempt that fails is the last one.
    AttemptLimit,
    /// The due time is checked when an attempt begins.
    DueTime,
    /// A delivery with a lease is not begun.
    Lease,
    /// An attempt is counted when it begins, and not when it ends.
    CountFirst,
    /// A hand-off is sent after a confirmed commit.
    ConfirmedCommit,
    /// A webhook takes an idempotency key once.
    UniqueKey,
    /// Deliveries are announced to the schedule before the commit.
    Announcement,
    /// A sweep schedules what is stored.
    Sweep,
    /// All rows of a save are stored in one transaction.
    OneTransaction,
    /// The stored bytes are sent.
    StoredBytes,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 11] = [
        Self::Token,
        Self::AttemptLimit,
        Self::DueTime,
        Self::Lease,
        Self::CountFirst,
        Self::ConfirmedCommit,
        Self::UniqueKey,
        Self::Announcement,
        Self::Sweep,
        Self::OneTransaction,
        Self::StoredBytes,
    ];

    /// The invariant that breaks without it.
    pub fn keeps(self) -> Invariant {
        match self {
            Self::Token => Invariant::OnlyTheHolderFinishes,
            Self::AttemptLimit => Invariant::AtMostFivePosts,
            Self::DueTime => Invariant::NoAttemptIsEarly,
            Self::Lease => Invariant::OneAttemptAtATime,
            Self::CountFirst | Self::ConfirmedCommit => Invariant::CountedBeforePost,
            Self::UniqueKey => Invariant::OneDeliveryPerKey,
            Self::Announcement => Invariant::NothingIsSkipped,
            Self::Sweep => Invariant::NothingIsLost,
            Self::OneTransaction => Invariant::RefusedStoresNothing,
            Self::StoredBytes => Invariant::SameBytes,
        }
    }

    /// The name of the file in `histories/`, without its ending.
    pub fn file(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::AttemptLimit => "attempt-limit",
            Self::DueTime => "due-time",
            Self::Lease => "lease",
            Self::CountFirst => "count-first",
            Self::ConfirmedCommit => "confirmed-commit",
            Self::UniqueKey => "unique-key",
            Self::Announcement => "announcement",
            Self::Sweep => "sweep",
            Self::OneTransaction => "one-transaction",
            Self::StoredBytes => "stored-bytes",
        }
    }
}
