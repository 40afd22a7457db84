//! What the operator knows, and the rules on it. Pure: nothing here waits, reads a clock or talks to anything.

pub mod by_name;
pub mod claims;
pub mod cluster;
pub mod conditions;
pub mod declared;
pub mod keys;
pub mod labels;
pub mod name;
pub mod pods;
pub mod references;

#[cfg(test)]
pub(crate) mod examples;
