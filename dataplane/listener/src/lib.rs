//! Serves HTTP/1.1 within bounds, for each port that clients without credentials can reach.
//!
//! * [`listen`]: sockets for clients of IPv4 and IPv6
//! * [`server`]: connections and their limits, in all and per peer; limits for slow headers and slow readers
//! * [`client`], [`source`]: where a request came from, also behind proxies
//! * [`refusals`]: which connections were refused, and why
//! * [`fair_share`]: resources that guests share, so that no guest takes so much that a new one gets nothing
//! * [`anonymous`]: turns for expensive work for clients without credentials
//! * [`protection`]: the headers that protect browsers

pub mod anonymous;
pub mod client;
pub mod fair_share;
mod head_limit;
pub mod listen;
mod pace;
pub mod protection;
pub mod refusals;
pub mod server;
pub mod source;
