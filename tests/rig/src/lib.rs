//! Throw-away servers and databases for the suites of all crates. The programs under test, and what takes HTTP or
//! Kubernetes, are in `docket-tests`, so that a suite that needs neither links neither.

pub mod memory_group;
pub mod ports;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod scratch;
#[cfg(feature = "store")]
pub mod tenant_database;
