//! The commands beside the servers: people and deliveries of a tenant, also while `docket dev` or `docket serve` runs on
//! the same data; a stand-alone receiver; a health check.

pub mod deliveries;
pub mod healthcheck;
pub mod listen;
pub mod people;
mod tenant;
