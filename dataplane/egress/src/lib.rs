//! One attempt of a delivery: one POST to a webhook receiver, and how it ended.
//!
//! - [`EgressPolicy`]: which addresses may be reached. Pure.
//! - [`Resolve`]: how a name becomes addresses; [`SystemDns`] in real life, [`FixedDns`] in tests.
//! - `connector`: name, address check, TCP, TLS, each under its own limit.
//! - [`Trust`]: which certificates are believed.
//! - `pool`: connections kept open for the next POST to the same receiver.
//! - [`Sender`]: puts them together. [`Sender::post`] never fails: every end is an
//!   [`Outcome`](docket_domain::delivery::Outcome).
//!
//! Absent on purpose: retries (the schedule's), redirects, proxies (a proxy resolves the name itself, so our check
//! would not see the address), decompression, HTTP/2, and any way to switch certificate checks off.

mod address;
mod connector;
mod pool;
mod resolve;
mod sender;
mod trust;

pub use address::EgressPolicy;
pub use resolve::{FixedDns, Resolve, ResolveError, Resolving, SystemDns};
pub use sender::{Post, Sender};
pub use trust::{BadBundle, Trust};
