//! What must hold in every state, in the words of ARCHITECTURE.md.

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// An acknowledged order has all its deliveries.
    AcknowledgedIsStored,
    /// A refused request stores nothing.
    RefusedStoresNothing,
    /// From each state, the steps of the protocol lead each stored delivery to a final status.
    NothingIsLost,
    /// A stored delivery that is not final is in the schedule or on its way there, also if a process ends. That holds while the schedule
    /// keeps its entries and commits are faster than a lease; otherwise the next sweep schedules the delivery.
    NothingIsSkipped,
    /// At most five POSTs are sent.
    AtMostFivePosts,
    /// An attempt is counted before its POST.
    CountedBeforePost,
    /// Only the worker with the lease's token can finish an attempt.
    OnlyTheHolderFinishes,
    /// No attempt begins while another one has a lease that has not expired.
    OneAttemptAtATime,
    /// No attempt begins before it is due.
    NoAttemptIsEarly,
    /// Every attempt sends the same bytes under the same event id.
    SameBytes,
    /// There is one delivery for each idempotency key.
    OneDeliveryPerKey,
}
