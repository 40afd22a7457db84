//! What both programs start with: clock, randomness, arguments, memory, leaky buckets, logging and signals; what both say about their
//! process; and what a terminal gets of texts that others chose.
//!
//! The crates below a program never read the system's clock and never draw random numbers. They take a
//! [`clock::Clock`] and random bytes as arguments, so that a test can choose both:
//!
//! ```
//! use docket_program::{arguments, clock::{Clock, ManualClock}};
//!
//! let time = ManualClock::new("2026-11-21T09:30:00Z".parse().unwrap());
//! let clock = Clock::Manual(time.clone());
//! time.advance(arguments::duration("90s").unwrap());
//! assert_eq!(clock.now().to_string(), "2026-11-21T09:31:30Z");
//! ```

#[cfg(feature = "kube")]
pub mod apiserver;
pub mod arguments;
pub mod clock;
pub mod embedded;
pub mod leaky_bucket;
pub mod licenses;
pub mod logging;
pub mod memory;
pub mod metadata_service;
#[cfg(feature = "metrics")]
mod metrics;
pub mod owner;
#[cfg(feature = "metrics")]
pub mod process;
pub mod random;
pub mod screen;
pub mod signals;
