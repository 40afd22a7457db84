//! Tenants from the operator's runtime Secrets in one namespace: the configuration source of the data plane in a
//! cluster.
//!
//! `secrets` is what is known of the Secrets and what follows from it, without I/O; `watch` follows the API server.
//!
//! What was good stays: a Secret that can't be read keeps its tenant's last good configuration, and an API server that
//! is away, that fails to list or that suddenly has nothing takes nobody's service away. Only a Secret that was deleted
//! ends its tenant's.

mod secrets;
mod watch;

pub use secrets::{Loaded, Served};
pub use watch::Cluster;
