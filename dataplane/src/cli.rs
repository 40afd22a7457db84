//! The commands beside the servers: people, deliveries and the audit of a tenant, also while `docket dev` or `docket serve` runs on
//! the same data; a stand-alone receiver; a health check.

pub mod audit;
pub mod deliveries;
pub mod healthcheck;
pub mod listen;
pub mod people;
mod table;
mod tenant;
