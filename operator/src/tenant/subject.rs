//! A Tenant with its surroundings, as the watches have them. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use docket_crds::tenant::NamespacesFrom;
use docket_crds::{ReasonCode, Tenant, TenantStatus, Webhook};

use crate::state::cluster::Cluster;
use crate::state::declared::{Declared, Meta};
use crate::state::own_secrets::OwnSecret;

/// A Tenant with its surroundings.
#[derive(Debug)]
pub struct Subject {
    /// The Tenant.
    pub tenant: Arc<Declared<Tenant>>,
    /// Its status before this pass.
    pub previous: TenantStatus,
    /// The Webhooks that name it.
    pub webhooks: Vec<Arc<Declared<Webhook>>>,
    /// The Tenants that claim something it claims too and came before it, the first one ahead.
    pub ahead: Vec<Rival>,
    /// The Secrets that were made for it and for others of its name.
    pub own_secrets: Vec<OwnSecret>,
    /// Labels of the namespaces of those Webhooks, as far as they are watched.
    pub labels: HashMap<String, BTreeMap<String, String>>,
    watches_namespaces: bool,
}

/// A Tenant that came before another one and claims something that it claims too.
#[derive(Debug)]
pub struct Rival {
    /// The Tenant.
    pub tenant: Arc<Declared<Tenant>>,
    /// What it claims, whether it can be read or not.
    pub claims: Vec<(ReasonCode, String)>,
}

impl Subject {
    /// Gathers it.
    pub fn of(cluster: &Cluster, tenant: Arc<Declared<Tenant>>) -> Self {
        let name = &tenant.meta.name;
        let webhooks = cluster.webhooks_of(name);
        let namespaces = webhooks.iter().map(|webhook| webhook.meta.name.namespace.as_str());
        let namespaces: BTreeSet<&str> =
            namespaces.filter(|namespace| *namespace != name.namespace).collect();
        let labels = namespaces
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), cluster.namespace(name)?.labels.clone())))
            .collect();
        let rivals = cluster.rivals(name).into_iter();
        let ahead = rivals.take_while(|rival| rival.meta.name != *name);
        let ahead = ahead.map(|tenant| Rival { claims: cluster.claims(&tenant.meta.name), tenant }).collect();
        Self {
            ahead,
            webhooks,
            labels,
            previous: tenant.status(),
            own_secrets: cluster.own_secrets(name),
            watches_namespaces: cluster.watches_namespaces(),
            tenant,
        }
    }

    /// The Tenant's metadata.
    pub fn meta(&self) -> &Meta {
        &self.tenant.meta
    }

    /// Namespaces whose labels decide something and are not known.
    pub fn unknown_namespaces(&self) -> BTreeSet<&str> {
        let Ok(tenant) = &self.tenant.document else {
            return BTreeSet::new();
        };
        if self.watches_namespaces || tenant.spec.webhooks.allowed_namespaces.from != NamespacesFrom::Selector
        {
            return BTreeSet::new();
        }
        let own = self.meta().name.namespace.as_str();
        let namespaces = self.webhooks.iter().map(|webhook| webhook.meta.name.namespace.as_str());
        namespaces.filter(|namespace| *namespace != own).collect()
    }
}
