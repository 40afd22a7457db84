//! The sources of tenants: a folder or a cluster, which declare tenants in the same form.
//!
//! - [`Folder`] reads YAML files: the source of `docket dev`, and of `docket serve` without a cluster.
//! - [`ClusterSource`] watches the operator's runtime Secrets in one namespace: the source of `docket serve` in a cluster.
//! - Both yield a [`Declaration`]: the tenants to serve, and the [`ConfigProblem`]s of those that are not served as written.
//! - [`Source`] is either of them.
//!
//! Both keep good versions. If a document or Secret can't be read any more, its tenant's last good version stays. If a
//! source can't be read, or is suddenly empty, no tenant ends. Only an object that was removed from a readable source
//! ends.
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

pub use cluster::ClusterSource;
pub use declaration::{Declaration, DeclaredTenant};
pub use folder::{Folder, PORTAL_FOLDER, webhook_document};
pub use problem::ConfigProblem;
pub use source::Source;
