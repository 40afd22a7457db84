//! One attempt of a delivery: one POST to a webhook receiver, and its outcome.
//!
//! In the order of an attempt:
//!
//! - [`Sender::post`]: makes the attempt. It never fails: the result is always an
//!   [`Outcome`](docket_domain::delivery::Outcome).
//! - `target`: URL and trusted certificates of the POST; [`Trust`] is the set of trusted certificates.
//! - `pool`: who gets a connection to a target and who opens one; `kept`: the idle ones.
//! - `connector`: DNS, address check, TCP (`open`) and TLS, each with its own time limit. [`Resolve`] turns a name into
//!   addresses ([`SystemDns`], or [`FixedDns`] in tests); [`EgressPolicy`] decides which addresses may be reached.
//! - `shown`, `cause`: what a receiver shows in a TLS handshake, and why a handshake fails.
//! - `connection`: an open connection, from one POST to the next; [`Exchange`]: one POST on its stream and its response.
//! - `head`: which rule of HTTP a response breaks; `location`: where a redirect leads.
//!
//! The head of `connector` says why this crate uses hyper and not reqwest.
//!
//! Absent on purpose: retries (the schedule makes them), redirects, proxies (a proxy resolves the name itself, so the
//! address check would not see the address), decompression, HTTP/2, and any way to switch certificate checks off.
//!
//! # Example
//!
//! A name that resolves to a private address gets no packet:
//!
//! ```
//! use docket_domain::delivery::{ATTEMPT_TIMEOUT, FailureClass};
//! use docket_egress::{EgressPolicy, FixedDns, Post, Sender, Trust};
//! use http::HeaderMap;
//! use url::Url;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let dns = FixedDns::new().answer("hooks.example", [[10, 0, 0, 7].into()]);
//! let sender = Sender::new(EgressPolicy::default(), dns, ATTEMPT_TIMEOUT);
//! let post = Post {
//!     url: &Url::parse("https://hooks.example/docket").expect("a URL"),
//!     trust: &Trust::public(),
//!     headers: HeaderMap::new(),
//!     body: "{}".into(),
//!     afresh: false,
//! };
//! let outcome = sender.post(post).await;
//! assert_eq!(outcome.failure(), Some(FailureClass::BlockedAddress));
//! # }
//! ```

mod address;
mod cause;
mod connection;
mod connector;
mod exchange;
mod head;
mod kept;
mod location;
mod open;
mod pool;
mod resolve;
mod sender;
mod shown;
mod target;
mod trust;

#[cfg(test)]
mod tests;

pub use address::{EgressPolicy, literal_addresses};
pub use connector::{HANDSHAKE_LIMIT, PHASE_LIMIT};
pub use exchange::{BodyEnd, Exchange, SUCCESS_BODY_LIMIT, Unanswered};
pub use head::{MAX_HEADER_BYTES, MAX_HEADERS};
pub use kept::{IDLE_LIMIT, MAX_PER_TARGET};
pub use open::MAX_TRIED;
pub use pool::{Connections, FAR, LONGEST_WAIT, OLDEST, OPENINGS, STARVING};
pub use resolve::{FixedDns, Late, Resolve, ResolveError, Resolved, Resolving, SystemDns};
pub use sender::{Post, Sender};
pub use trust::Trust;
