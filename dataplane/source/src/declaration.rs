//! What a source declares: tenants and problems.

use std::fmt;
use std::sync::Arc;

use docket_crds::Runtime;

use crate::problem::ConfigProblem;

/// What a source declares at one moment.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// The tenants to serve.
    pub tenants: Vec<DeclaredTenant>,
    /// Problems of objects that are not served as written.
    pub problems: Vec<ConfigProblem>,
    /// Whether a part of the declaration is unknown, because a file has never been readable. Then nothing that is
    /// missing counts as removed.
    pub incomplete: bool,
    /// Whether there are runtime Secrets, and this process has never been able to read any of the present ones. It serves no tenant
    /// then. Always false for a folder.
    pub is_unreadable: bool,
}

impl Declaration {
    /// Returns the tenant with this client code, in upper or lower case.
    pub fn tenant(&self, client_code: &str) -> Option<&DeclaredTenant> {
        self.tenants.iter().find(|tenant| tenant.runtime.config.client_code.matches(client_code))
    }

    /// Returns the client codes of all tenants.
    pub fn client_codes(&self) -> Vec<&str> {
        self.tenants.iter().map(|tenant| tenant.runtime.config.client_code.as_str()).collect()
    }
}

/// A tenant to serve.
#[derive(Clone)]
pub struct DeclaredTenant {
    /// The tenant's configuration, its webhooks on hold, and the revision of both.
    pub runtime: Arc<Runtime>,
    /// Active generated API keys for the v2 API, hexadecimal, by name, to print for the developer. Only a folder has them.
    pub api_keys: Vec<(String, String)>,
}

impl fmt::Debug for DeclaredTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runtime, api_keys } = self;
        let names: Vec<_> = api_keys.iter().map(|(name, _)| name).collect();
        f.debug_struct("DeclaredTenant").field("runtime", runtime).field("api_keys", &names).finish()
    }
}
