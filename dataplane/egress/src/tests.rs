//! Attempts against receivers on real sockets, most of them hostile, through the crate's public interface.

pub(crate) mod harness;

mod answer;
mod certificates;
mod dns;
mod few_workers;
mod forbidden;
mod keep_alive;
mod malformed;
mod request;
mod slow;
mod tls;
mod unreachable;
