//! A Tenant with its surroundings, from the watches. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use docket_crds::tenant::NamespacesFrom;
use docket_crds::{ReasonCode, Tenant, TenantStatus, Webhook};

use crate::state::cluster::ClusterState;
use crate::state::declared::{Declared, Meta};
use crate::state::own_secrets::OwnSecret;

/// A Tenant with the objects around it.
#[derive(Debug)]
pub struct Subject {
    /// The Tenant.
    pub tenant: Arc<Declared<Tenant>>,
    /// The Tenant's status before this pass.
    pub previous: TenantStatus,
    /// The Webhooks that name the Tenant.
    pub webhooks: Vec<Arc<Declared<Webhook>>>,
    /// The earlier Tenants that claim a value that this Tenant claims too, the earliest Tenant first.
    pub ahead: Vec<Rival>,
    /// The Secrets that were created for this Tenant and for others of its name.
    pub own_secrets: Vec<OwnSecret>,
    /// The labels of these Webhooks' namespaces, as far as namespaces are watched.
    pub labels: HashMap<String, BTreeMap<String, String>>,
    watches_namespaces: bool,
}

/// An earlier Tenant that claims a value that this Tenant claims too.
#[derive(Debug)]
pub struct Rival {
    /// The Tenant.
    pub tenant: Arc<Declared<Tenant>>,
    /// The Tenant's claims, even if the Tenant can't be read.
    pub claims: Vec<(ReasonCode, String)>,
}

impl Subject {
    /// Gathers a Tenant's surroundings from the watches.
    pub fn of(cluster: &ClusterState, tenant: Arc<Declared<Tenant>>) -> Self {
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

    /// The namespaces whose labels decide something and are unknown.
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
