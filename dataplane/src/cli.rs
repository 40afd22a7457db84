//! The commands beside the servers. Some show or change the people, the deliveries and the audit of a tenant, also while `docket
//! dev` or `docket serve` runs on the same data. Others help the author of a receiver, write the documentation as files, or check
//! the health.

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
