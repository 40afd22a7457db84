//! The API server: the calls, the watches, and the Lease that decides which replica writes.

pub mod client;
pub mod lease;
pub mod object;
pub mod sanitize;
mod stream;
pub mod watch;
