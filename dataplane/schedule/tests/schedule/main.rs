//! The contract of the schedule, in memory and on real Redis; then what several processes do with one index on Redis,
//! and what happens when Redis loses it, hangs, or is another server.

mod connection;
mod contract;
mod index;
mod loss;
mod many;
mod memory;
mod redis;
mod rig;
