//! The schedule on real Redis: the suite that every schedule passes, what several processes do with one index, and what
//! happens when Redis loses it, hangs, or is another server.

mod board;
mod connection;
mod contract;
mod loss;
mod many;
mod rig;
