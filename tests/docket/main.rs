//! The data plane from outside, as a process, and its actions through the library.

mod actions;
mod api;
mod delivery;
mod notices;
mod portal;
mod serve;
mod story;
