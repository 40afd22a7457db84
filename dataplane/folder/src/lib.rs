//! Tenants from a folder of YAML files, the same that a cluster takes: the source of `docket dev`, and of `docket serve`
//! without a cluster.
//!
//! `files` lists and reads, `documents` parses, `objects` says what a document declares and what counts while it is
//! broken, `declared` sees them all together, `keys` keeps what is generated, `serving` calls [`docket_crds::compile()`],
//! and `folder` is the whole. No clock and no randomness of its own; Unix only, for file modes and inode numbers.
//!
//! What was good stays:
//! - A Tenant or Webhook that an edit breaks goes on as it last was; `suspend: true`, `active: false` and removed keys
//!   and subdomains count at once. A Secret or ConfigMap keeps the values that became unreadable.
//! - A file that cannot be read, or is not YAML throughout, counts as broken as a whole: what it declared last goes on.
//!   So does what was in a file and now seems to be missing while a document in it does not say what it is.
//! - What is removed from a readable file, or goes with its file, is gone.
//!
//! Of two documents of the same object, or two tenants that want the same client code or subdomain, the first by file
//! name and position wins; but a tenant never loses what it is being served with to one that asks for it later.

mod declared;
mod documents;
mod files;
mod folder;
mod keys;
mod objects;
mod problem;
mod serving;

pub use folder::{Folder, Loaded, ServedTenant};
pub use problem::Problem;
