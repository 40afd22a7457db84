//! The chart, without a cluster: what `helm template` makes of values, what it refuses, and what of it is documented.
//!
//! Helm comes from tests/cluster/build, or is the one on the PATH. What a cluster makes of the objects is the business
//! of tests/cluster/e2e.

mod documented;
mod exposed;
mod helm;
mod monitoring;
mod network;
mod quickstart;
mod refused;
mod rights;
mod workloads;
