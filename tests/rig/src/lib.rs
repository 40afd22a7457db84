//! Throw-away servers and databases for the suites of all crates. The crate `docket-tests` has the programs under
//! test and everything that needs HTTP or Kubernetes, so a suite that needs neither links neither.

mod account;
pub mod figures;
pub mod memory;
pub mod memory_group;
pub mod pgbouncer;
pub mod ports;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod scratch;
pub mod small_disk;
#[cfg(feature = "store")]
pub mod tenant_database;
