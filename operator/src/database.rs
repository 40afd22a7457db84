//! Tenants' databases on PostgreSQL servers: created, kept as declared, migrated, dropped.
//!
//! A comment on the database and on its role names the Tenant to which they belong: its UID, name and installation.
//! Each pass reads the state (`observed`), decides on one step (`plan`), takes it, and reads again until no step is
//! left. So it does not matter where the previous pass ended. A pass that finds everything as declared writes
//! nothing.

mod error;
mod external;
mod managed;
mod names;
mod observed;
mod owner;
mod plan;
mod pool;
mod recovery;
mod servers;
mod session;
mod step;
mod wanted;
mod watcher;

pub use error::DatabaseError;
pub use external::{database_of, migrate_external};
pub use managed::{Dropped, MadeDatabase};
pub use names::role_of;
pub use servers::{InvalidServer, Servers};
pub use wanted::{MigrationTurn, WantedDatabase, WantedExternalDatabase};
pub use watcher::role_of as watcher_role;
