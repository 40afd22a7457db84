//! The API server: calls, watches, and the Lease that decides which replica writes.

pub mod call_error;
pub mod client;
mod heard;
pub mod lease;
pub mod object;
mod stream;
pub mod watch;
