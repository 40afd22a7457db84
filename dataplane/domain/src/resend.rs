//! The limits of a bulk resend, for the API and the command line.

/// The most deliveries that one request creates, and the default.
pub const MAX_COUNT: i64 = 10_000;
/// The most deliveries due per second: a bulk resend shares its webhook with new events.
pub const MAX_PER_SECOND: i64 = 100;
/// Deliveries due per second unless the request sets another number.
pub const DEFAULT_PER_SECOND: i64 = 10;
