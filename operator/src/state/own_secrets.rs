//! The Secrets that the operator created: for the data plane, and in tenants' namespaces.

use std::collections::{BTreeSet, HashMap};

use docket_crds::runtime;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::state::by_name::{ByName, Listed};
use crate::state::labels;
use crate::state::name::Name;

/// A Secret of the operator, with a part of its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSecret {
    /// Namespace and name.
    pub name: Name,
    /// The Secret's uid.
    pub uid: String,
    /// The Tenant for which it was created.
    pub tenant: Name,
    /// The uid of that Tenant.
    pub tenant_uid: String,
    /// The Secret's resource version.
    pub resource_version: String,
    /// Whether the Secret is for the data plane. Other Secrets are for the tenant.
    pub is_runtime: bool,
    /// Whether the Secret holds the signing secret of a Webhook.
    pub signs: bool,
    /// Since when no Webhook asks for the signing secret, by its mark.
    pub unused_since: Option<Timestamp>,
    /// Whether the operator wrote the Secret. If not, the Secret is a user's copy of a Secret of the operator, or was restored
    /// from a backup.
    pub is_made: bool,
}

impl OwnSecret {
    /// Reads an object's metadata. `None`: it does not name its Tenant, or names one for which the operator creates
    /// no Secret in this place: anyone can write the operator's labels on a Secret of their own.
    pub fn of(meta: &ObjectMeta, release_namespace: &str) -> Option<Self> {
        let name = Name::new(meta.namespace.clone()?, meta.name.clone()?);
        let (namespace, tenant) = meta.annotations.as_ref()?.get(labels::TENANT)?.split_once('/')?;
        let tenant_uid = meta.labels.as_ref()?.get(labels::TENANT_UID)?.clone();
        let is_runtime =
            name.namespace == release_namespace && name.name == runtime::secret_name(&tenant_uid);
        let resource_version = meta.resource_version.clone().unwrap_or_default();
        let (uid, tenant) = (meta.uid.clone()?, Name::new(namespace, tenant));
        let is_in_place = is_runtime || name.namespace == tenant.namespace;
        let annotation = |key: &str| meta.annotations.as_ref()?.get(key);
        let signs = !is_runtime && annotation(labels::CUSTOMER).is_some();
        let unused_since = annotation(labels::UNUSED_SINCE).and_then(|since| since.parse().ok());
        // The API server records who wrote an object; a copy has the labels, and its user as the only manager.
        let mut managers = meta.managed_fields.iter().flatten();
        let is_made = managers.any(|entry| entry.manager.as_deref() == Some(labels::OPERATOR));
        is_in_place.then_some(Self {
            name,
            uid,
            tenant,
            tenant_uid,
            resource_version,
            is_runtime,
            signs,
            unused_since,
            is_made,
        })
    }
}

/// All Secrets of the operator. Methods return the Tenants that a change concerns.
#[derive(Debug, Default)]
pub(super) struct OwnSecrets {
    secrets: ByName<OwnSecret>,
    of: HashMap<Name, BTreeSet<Name>>,
    /// The versions that the operator wrote itself, until the watch has reported them: that is no change.
    written: HashMap<Name, String>,
}

impl OwnSecrets {
    /// The Tenants that have such Secrets, including Tenants that do not exist any more.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Name> {
        self.of.keys()
    }

    pub(super) fn of_tenant(&self, tenant: &Name) -> Vec<OwnSecret> {
        let names = self.of.get(tenant).into_iter().flatten();
        names.filter_map(|name| self.secrets.get(name).cloned()).collect()
    }

    pub(super) fn applied(&mut self, secret: OwnSecret) -> Option<Name> {
        let tenant = secret.tenant.clone();
        let ours = self.written.get(&secret.name) == Some(&secret.resource_version);
        if ours {
            self.written.remove(&secret.name);
        }
        let version = secret.resource_version.clone();
        let before = self.insert(secret);
        let known = before.is_some_and(|before| before.resource_version == version);
        (!ours && !known).then_some(tenant)
    }

    pub(super) fn written(&mut self, secret: OwnSecret) {
        self.written.insert(secret.name.clone(), secret.resource_version.clone());
        self.insert(secret);
    }

    fn insert(&mut self, secret: OwnSecret) -> Option<OwnSecret> {
        let (name, tenant) = (secret.name.clone(), secret.tenant.clone());
        let before = self.secrets.insert(name.clone(), secret);
        if let Some(before) = before.as_ref().filter(|before| before.tenant != tenant) {
            self.forget(&before.tenant, &name);
        }
        self.of.entry(tenant).or_default().insert(name);
        before
    }

    fn forget(&mut self, tenant: &Name, name: &Name) {
        if let Some(siblings) = self.of.get_mut(tenant) {
            siblings.remove(name);
            if siblings.is_empty() {
                self.of.remove(tenant);
            }
        }
    }

    /// Removes a deleted Secret. If the operator deleted it itself, this causes one pass over the Tenant that finds
    /// nothing to do.
    pub(super) fn deleted(&mut self, name: &Name) -> Option<Name> {
        let secret = self.secrets.remove(name)?;
        self.written.remove(name);
        self.forget(&secret.tenant, name);
        Some(secret.tenant)
    }

    pub(super) fn listed(&mut self, listed: &Listed, belongs: impl Fn(&OwnSecret) -> bool) -> Vec<Name> {
        let gone = self.secrets.missing_from(listed);
        let gone = gone.into_iter().filter(|name| self.secrets.get(name).is_some_and(&belongs));
        gone.collect::<Vec<_>>().iter().filter_map(|name| self.deleted(name)).collect()
    }
}
