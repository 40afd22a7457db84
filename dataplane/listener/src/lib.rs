//! Serves HTTP/1.1 within bounds, for each port that clients without credentials can reach.
//!
//! * [`server`]: the connections, in all and of each peer; slow headers and slow readers
//! * [`client`], [`source`]: where a request came from, also behind proxies
//! * [`refusals`]: which connections were refused, and why
//! * [`fair_share`]: what guests share, of which each may have half of what is free or its own
//! * [`anonymous`]: turns for work without credentials
//! * [`protection`]: the headers that protect browsers

pub mod anonymous;
pub mod client;
pub mod fair_share;
mod head_limit;
mod pace;
pub mod protection;
pub mod refusals;
pub mod server;
pub mod source;
