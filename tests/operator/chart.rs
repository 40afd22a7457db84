//! The chart: what `helm template` makes of values, what it refuses, what of it is documented, and what an API server takes.
//!
//! Helm comes from tests/cluster/build, promtool from tests/run, or they are those on the PATH. How it runs on a node is the business
//! of tests/cluster/e2e.

mod alerts;
mod documented;
mod exposed;
mod helm;
mod kinds;
mod monitoring;
mod network;
mod openshift;
mod pages;
mod quickstart;
mod reference;
mod refused;
mod rights;
mod served;
mod workloads;
