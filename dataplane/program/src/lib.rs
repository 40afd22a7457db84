//! What both programs start with: the clock, randomness, signals; the outside world as arguments.

pub mod clock;
pub mod licenses;
pub mod random;
pub mod signals;
