//! The commands beside the servers: people, deliveries and the audit of a tenant, also while `docket dev` or `docket serve` runs on
//! the same data; for a receiver's author; the documentation as files; a health check.

pub mod audit;
mod ca_file;
pub mod completion;
pub mod declared;
pub mod deliveries;
pub mod docs;
pub mod healthcheck;
mod http;
pub mod listen;
pub mod migrate;
pub mod people;
mod secret_file;
mod table;
mod tenant;
pub mod trigger;
pub mod verify;
