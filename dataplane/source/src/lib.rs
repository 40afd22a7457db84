//! Where tenants come from: one room with two doors, which declare tenants in the same words.
//!
//! - [`Folder`] reads YAML files: the source of `docket dev`, and of `docket serve` without a cluster.
//! - [`Cluster`] watches the operator's runtime Secrets in one namespace: the source of `docket serve` in a cluster.
//! - Both yield a [`Declaration`]: the tenants to serve, and the [`ConfigProblem`]s of those that are not served as written.
//! - [`Source`] is either of them.
//!
//! Both doors keep what was good. A document or Secret that can't be read any more keeps its tenant's last good version. A
//! source that can't be read, or that is suddenly empty, ends no tenant. Only what was removed from a readable source ends.
//!
//! ```
//! use docket_source::Folder;
//!
//! # let root = std::env::temp_dir().join(format!("docket-source-example-{}", std::process::id()));
//! # std::fs::create_dir_all(root.join("config"))?;
//! let acme = "
//! apiVersion: docket.dev/v1alpha1
//! kind: Tenant
//! metadata: {name: acme}
//! spec: {clientCode: ACME, database: {managed: {name: acme}}}
//! ";
//! std::fs::write(root.join("config/acme.yaml"), acme)?;
//!
//! let mut folder = Folder::new(root.join("config"), root.join("data"));
//! let declaration = folder.load(&mut docket_program::random::fill)?;
//! assert!(declaration.problems.is_empty());
//! assert_eq!(declaration.tenant("acme").unwrap().runtime.config.name, "acme");
//! # std::fs::remove_dir_all(root)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cluster;
mod declaration;
mod folder;
mod problem;
mod source;

pub use cluster::Cluster;
pub use declaration::{Declaration, DeclaredTenant};
pub use folder::{Folder, PORTAL_FOLDER, webhook_document};
pub use problem::ConfigProblem;
pub use source::Source;
