//! The objects that the watches have seen, by name, and which Tenants and Webhooks a change concerns.
//!
//! The watches update it, the drivers query it. Every look-up is by key: even with fifty thousand Webhooks, nothing
//! here iterates over all Webhooks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use docket_crds::compile::claimed;
use docket_crds::{ConditionType, ReasonCode, Tenant, ValueKind, Webhook};

use crate::state::by_name::{ByName, Listed};
use crate::state::claims::Claims;
use crate::state::conditions;
use crate::state::declared::{Declared, DeclaredKind, Meta};
use crate::state::migrations::{FirstTenants, MigratingTenant};
use crate::state::name::{Name, ObjectKey};
use crate::state::outcome::WebhookOutcome;
use crate::state::own_secrets::{OwnSecret, OwnSecrets};
use crate::state::references::{References, of_tenant, of_webhook};

/// The generation of an object that its status is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedGeneration {
    /// No operator has reported on the object.
    None,
    /// Another generation than the object's.
    Other,
    /// The object's, or the object is gone.
    Current,
}

/// The part of a namespace that the operator uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceState {
    /// The namespace's labels.
    pub labels: BTreeMap<String, String>,
    /// Whether the namespace is being deleted.
    pub terminating: bool,
}

/// The objects of all watches.
#[derive(Debug, Default)]
pub struct ClusterState {
    tenants: ByName<Arc<Declared<Tenant>>>,
    /// The Tenants whose databases are migrated before all others.
    first: BTreeSet<Name>,
    webhooks: ByName<Arc<Declared<Webhook>>>,
    webhooks_of: HashMap<Name, BTreeSet<Name>>,
    claims: Claims,
    references: References,
    /// The resource versions of users' labelled Secrets and ConfigMaps.
    values: HashMap<ValueKind, ByName<String>>,
    own: OwnSecrets,
    /// The namespaces; `None`: they are not watched.
    namespaces: Option<HashMap<String, NamespaceState>>,
    /// The outcomes by the Webhook's uid.
    outcomes: HashMap<String, WebhookOutcome>,
}

impl ClusterState {
    /// The Tenant of this name.
    pub fn tenant(&self, name: &Name) -> Option<Arc<Declared<Tenant>>> {
        self.tenants.get(name).cloned()
    }

    /// The Webhook of this name.
    pub fn webhook(&self, name: &Name) -> Option<Arc<Declared<Webhook>>> {
        self.webhooks.get(name).cloned()
    }

    /// Whether a Webhook with this name and uid exists but can't be read at all.
    pub fn is_unreadable_webhook(&self, name: &Name, uid: &str) -> bool {
        let webhook = self.webhooks.get(name);
        webhook.is_some_and(|webhook| webhook.meta.uid == uid && webhook.document.is_err())
    }

    /// The Webhooks that name a Tenant, sorted by name.
    pub fn webhooks_of(&self, tenant: &Name) -> Vec<Arc<Declared<Webhook>>> {
        let names = self.webhooks_of.get(tenant).into_iter().flatten();
        names.filter_map(|name| self.webhook(name)).collect()
    }

    /// The values that a Tenant claims for itself alone, even if the Tenant can't be read.
    pub fn claims(&self, tenant: &Name) -> Vec<(ReasonCode, String)> {
        self.claims.of(tenant).to_vec()
    }

    /// The Tenants that claim at least one value that `tenant` claims, including itself, the oldest first.
    ///
    /// The API server records creation times in whole seconds. Of two Tenants within one second, the accepted one
    /// stays first: a new Tenant must not take, by its uid, a value with which another Tenant is already served.
    pub fn rivals(&self, tenant: &Name) -> Vec<Arc<Declared<Tenant>>> {
        let mut found: Vec<_> =
            self.claims.rivals(tenant).iter().filter_map(|name| self.tenant(name)).collect();
        found.sort_by_cached_key(|rival| (rival.meta.created, !was_accepted(rival), rival.meta.uid.clone()));
        found
    }

    /// The Secrets that the operator created for Tenants of this name.
    pub fn own_secrets(&self, tenant: &Name) -> Vec<OwnSecret> {
        self.own.of_tenant(tenant)
    }

    /// A namespace; `None`: it does not exist, or namespaces are not watched.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceState> {
        self.namespaces.as_ref()?.get(name)
    }

    /// Whether namespaces are watched.
    pub fn watches_namespaces(&self) -> bool {
        self.namespaces.is_some()
    }

    /// The outcome of the tenant's compilation for a webhook.
    pub fn outcome(&self, webhook_uid: &str) -> Option<&WebhookOutcome> {
        self.outcomes.get(webhook_uid)
    }

    /// All Tenants and Webhooks: for a process that becomes the leader.
    pub fn everything(&self) -> Vec<ObjectKey> {
        let tenants = self.tenants.names().chain(self.own.tenants());
        let tenants: BTreeSet<_> = tenants.cloned().map(ObjectKey::Tenant).collect();
        let webhooks = self.webhooks.names().cloned().map(ObjectKey::Webhook);
        tenants.into_iter().chain(webhooks).collect()
    }

    /// Which generation of an object its status is about.
    pub fn reported(&self, key: &ObjectKey) -> ReportedGeneration {
        fn of<T>(declared: Option<&Arc<Declared<T>>>) -> ReportedGeneration {
            let Some(declared) = declared else { return ReportedGeneration::Current };
            match declared.observed_generation {
                None => ReportedGeneration::None,
                Some(observed) if observed == declared.meta.generation => ReportedGeneration::Current,
                Some(_) => ReportedGeneration::Other,
            }
        }
        match key {
            ObjectKey::Tenant(name) => of(self.tenants.get(name)),
            ObjectKey::Webhook(name) => of(self.webhooks.get(name)),
        }
    }

    /// The uids of all Webhooks.
    pub fn webhook_uids(&self) -> Vec<String> {
        let webhooks = self.webhooks.names().filter_map(|name| self.webhooks.get(name));
        webhooks.map(|webhook| webhook.meta.uid.clone()).collect()
    }

    /// The Webhooks with these uids.
    pub fn webhooks_with_uids(&self, uids: &[String]) -> Vec<ObjectKey> {
        let names =
            uids.iter().filter_map(|uid| self.outcomes.get(uid).map(|outcome| outcome.webhook.clone()));
        names.map(ObjectKey::Webhook).collect()
    }

    /// The number of Tenants that the Webhooks with these uids name.
    pub fn tenants_of_webhooks(&self, uids: &[String]) -> usize {
        let webhooks = uids.iter().filter_map(|uid| self.webhooks.get(&self.outcomes.get(uid)?.webhook));
        webhooks.filter_map(|webhook| webhook.tenant_ref.as_ref()).collect::<HashSet<_>>().len()
    }

    /// All Tenants.
    pub fn tenants(&self) -> Vec<ObjectKey> {
        self.tenants.names().cloned().map(ObjectKey::Tenant).collect()
    }

    /// The Tenants with these uids.
    pub fn tenants_with_uids(&self, uids: &HashSet<&String>) -> Vec<ObjectKey> {
        if uids.is_empty() {
            return Vec::new();
        }
        let has = |name: &&Name| self.tenants.get(name).is_some_and(|tenant| uids.contains(&tenant.meta.uid));
        self.tenants.names().filter(has).cloned().map(ObjectKey::Tenant).collect()
    }

    /// The Tenants whose databases are migrated before all others, summed up.
    pub fn first_tenants(&self) -> FirstTenants {
        let first = self.first.iter().filter_map(|name| self.tenants.get(name));
        FirstTenants::of(first.map(|tenant| tenant.migration()))
    }

    /// All Tenants, as far as the migrations of their databases are concerned.
    pub fn migrations(&self) -> impl Iterator<Item = (&Name, MigratingTenant)> {
        let tenants = self.tenants.names().filter_map(|name| Some((name, self.tenants.get(name)?)));
        tenants.map(|(name, tenant)| (name, tenant.migration()))
    }

    /// The numbers of Tenants and of Webhooks.
    pub fn counts(&self) -> (usize, usize) {
        (self.tenants.len(), self.webhooks.len())
    }

    /// A Tenant is new or changed.
    pub fn tenant_applied(&mut self, tenant: Arc<Declared<Tenant>>) -> Vec<ObjectKey> {
        let name = tenant.meta.name.clone();
        match tenant.meta.migrate_first {
            true => self.first.insert(name.clone()),
            false => self.first.remove(&name),
        };
        let before = self.tenants.insert(name.clone(), tenant.clone());
        if before.as_ref().is_some_and(|before| !tenant.meta.differs_from(&before.meta)) {
            return Vec::new();
        }
        let mut concerned = self.claims.rivals(&name);
        match &tenant.document {
            Ok(document) => {
                self.claims.set(&name, claimed(document));
                self.references.set(ObjectKey::Tenant(name.clone()), of_tenant(document));
            }
            // A Tenant that can't be read keeps its claims, because it is still served.
            Err(_) => {
                let mut claims = self.claims.of(&name).to_vec();
                claims.extend(
                    tenant.claims.iter().filter(|claim| !self.claims.of(&name).contains(claim)).cloned(),
                );
                self.claims.set(&name, claims);
            }
        }
        concerned.extend(self.claims.rivals(&name));
        concerned.insert(name.clone());
        let mut keys: Vec<ObjectKey> = concerned.into_iter().map(ObjectKey::Tenant).collect();
        let is_left = |meta: &Meta| (meta.uid.clone(), meta.deleting.is_some(), meta.paused);
        if before.is_none_or(|before| is_left(&before.meta) != is_left(&tenant.meta))
            || tenant.document.is_err()
        {
            keys.extend(self.webhook_keys(&name));
        }
        keys
    }

    /// A Tenant is gone.
    pub fn tenant_deleted(&mut self, name: &Name) -> Vec<ObjectKey> {
        if self.tenants.remove(name).is_none() {
            return Vec::new();
        }
        self.first.remove(name);
        let mut concerned = self.claims.rivals(name);
        self.claims.remove(name);
        self.references.remove(&ObjectKey::Tenant(name.clone()));
        concerned.insert(name.clone());
        self.forget_outcomes(name);
        let webhooks = self.webhook_keys(name);
        concerned.into_iter().map(ObjectKey::Tenant).chain(webhooks).collect()
    }

    /// Removes the outcomes of the Webhooks of a deleted Tenant: another Tenant of the same name has decided nothing
    /// about them.
    fn forget_outcomes(&mut self, tenant: &Name) {
        for webhook in self.webhooks_of(tenant) {
            self.outcomes.remove(&webhook.meta.uid);
        }
    }

    fn webhook_keys(&self, tenant: &Name) -> Vec<ObjectKey> {
        self.webhooks_of.get(tenant).into_iter().flatten().cloned().map(ObjectKey::Webhook).collect()
    }

    /// A Webhook is new or changed.
    pub fn webhook_applied(&mut self, webhook: Arc<Declared<Webhook>>) -> Vec<ObjectKey> {
        let name = webhook.meta.name.clone();
        let before = self.webhooks.insert(name.clone(), webhook.clone());
        if before.as_ref().is_some_and(|before| !webhook.meta.differs_from(&before.meta)) {
            return Vec::new();
        }
        let mut keys = Vec::new();
        if let Some(before) = before {
            if before.meta.uid != webhook.meta.uid {
                self.outcomes.remove(&before.meta.uid);
            }
            keys.extend(self.unlink(&before));
        }
        if let Some(tenant) = &webhook.tenant_ref {
            self.webhooks_of.entry(tenant.clone()).or_default().insert(name.clone());
            keys.push(ObjectKey::Tenant(tenant.clone()));
        }
        if let Ok(document) = &webhook.document {
            self.references.set(ObjectKey::Webhook(name.clone()), of_webhook(document));
        }
        keys.push(ObjectKey::Webhook(name));
        keys.sort();
        keys.dedup();
        keys
    }

    /// A Webhook is gone.
    pub fn webhook_deleted(&mut self, name: &Name) -> Vec<ObjectKey> {
        let Some(before) = self.webhooks.remove(name) else {
            return Vec::new();
        };
        self.outcomes.remove(&before.meta.uid);
        self.references.remove(&ObjectKey::Webhook(name.clone()));
        self.unlink(&before).into_iter().collect()
    }

    fn unlink(&mut self, webhook: &Declared<Webhook>) -> Option<ObjectKey> {
        let tenant = webhook.tenant_ref.as_ref()?;
        let siblings = self.webhooks_of.get_mut(tenant)?;
        siblings.remove(&webhook.meta.name);
        if siblings.is_empty() {
            self.webhooks_of.remove(tenant);
        }
        Some(ObjectKey::Tenant(tenant.clone()))
    }

    /// A labelled Secret or ConfigMap of a user is new or changed.
    pub fn value_applied(&mut self, kind: ValueKind, name: Name, resource_version: String) -> Vec<ObjectKey> {
        let before = self.values.entry(kind).or_default().insert(name.clone(), resource_version.clone());
        if before == Some(resource_version) { Vec::new() } else { self.referrers(kind, &name) }
    }

    /// A labelled Secret or ConfigMap of a user is gone, or has lost its label.
    pub fn value_deleted(&mut self, kind: ValueKind, name: &Name) -> Vec<ObjectKey> {
        self.values.entry(kind).or_default().remove(name);
        self.referrers(kind, name)
    }

    /// Whether the watch reports changes of a Secret or ConfigMap of a user, because it has the label.
    pub fn is_watched(&self, kind: ValueKind, name: &Name) -> bool {
        self.values.get(&kind).is_some_and(|values| values.get(name).is_some())
    }

    fn referrers(&self, kind: ValueKind, name: &Name) -> Vec<ObjectKey> {
        let tenants = self.references.of(kind, name).filter_map(|referrer| match referrer {
            ObjectKey::Tenant(tenant) => Some(tenant.clone()),
            ObjectKey::Webhook(webhook) => self.webhooks.get(webhook)?.tenant_ref.clone(),
        });
        tenants.collect::<BTreeSet<_>>().into_iter().map(ObjectKey::Tenant).collect()
    }

    /// A Secret of ours is new or changed.
    pub fn own_applied(&mut self, secret: OwnSecret) -> Vec<ObjectKey> {
        self.own.applied(secret).into_iter().map(ObjectKey::Tenant).collect()
    }

    /// A Secret of ours is gone.
    pub fn own_deleted(&mut self, name: &Name) -> Vec<ObjectKey> {
        self.own.deleted(name).into_iter().map(ObjectKey::Tenant).collect()
    }

    /// Records a Secret that the operator has just written, so that the watch's report about it causes no pass.
    pub fn own_written(&mut self, secret: OwnSecret) {
        self.own.written(secret);
    }

    /// Records that namespaces are watched from now on.
    pub fn watch_namespaces(&mut self) {
        self.namespaces.get_or_insert_default();
    }

    /// A namespace is new or changed. It concerns the Tenants in it, and those that Webhooks in it name.
    pub fn namespace_applied(&mut self, name: &str, namespace: NamespaceState) -> Vec<ObjectKey> {
        let before = self.namespaces.get_or_insert_default().insert(name.to_owned(), namespace.clone());
        if before.is_none_or(|before| before == namespace) {
            return Vec::new();
        }
        let webhooks = self.webhooks.in_namespace(name);
        let named = webhooks.filter_map(|webhook| self.webhooks.get(webhook)?.tenant_ref.clone());
        let own = self.tenants.in_namespace(name).cloned();
        named.chain(own).collect::<BTreeSet<_>>().into_iter().map(ObjectKey::Tenant).collect()
    }

    /// Removes a namespace that was deleted.
    pub fn namespace_deleted(&mut self, name: &str) {
        self.namespaces.get_or_insert_default().remove(name);
    }

    /// A list of Tenants is whole.
    pub fn tenants_listed(&mut self, listed: &Listed) -> Vec<ObjectKey> {
        let gone = self.tenants.missing_from(listed);
        gone.iter().flat_map(|name| self.tenant_deleted(name)).collect()
    }

    /// A list of Webhooks is whole.
    pub fn webhooks_listed(&mut self, listed: &Listed) -> Vec<ObjectKey> {
        let gone = self.webhooks.missing_from(listed);
        gone.iter().flat_map(|name| self.webhook_deleted(name)).collect()
    }

    /// A list of users' Secrets or ConfigMaps is whole.
    pub fn values_listed(&mut self, kind: ValueKind, listed: &Listed) -> Vec<ObjectKey> {
        let gone = self.values.entry(kind).or_default().missing_from(listed);
        gone.iter().flat_map(|name| self.value_deleted(kind, name)).collect()
    }

    /// A list of our Secrets of one sort is whole; `belongs` says whether a Secret is of this sort.
    pub fn own_listed(&mut self, listed: &Listed, belongs: impl Fn(&OwnSecret) -> bool) -> Vec<ObjectKey> {
        self.own.listed(listed, belongs).into_iter().map(ObjectKey::Tenant).collect()
    }

    /// What a tenant's compilation said about its webhooks. Returns those whose status may have to change.
    pub fn set_outcomes(&mut self, outcomes: Vec<WebhookOutcome>) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for outcome in outcomes {
            if self.outcome(&outcome.uid) != Some(&outcome) {
                keys.push(ObjectKey::Webhook(outcome.webhook.clone()));
                self.outcomes.insert(outcome.uid.clone(), outcome);
            }
        }
        keys
    }

    /// Replaces an object after the API server accepted a status from the operator, unless a user has changed the
    /// object meanwhile. The watch must report such a change, or the object would not be reconciled.
    pub fn written<T: Indexed>(&mut self, object: Arc<Declared<T>>, seen: &Meta) {
        let objects = T::index(self);
        let known = objects.get(&object.meta.name);
        let is_current = known.is_some_and(|known| known.meta.resource_version == seen.resource_version);
        if is_current && !object.meta.differs_from(seen) {
            objects.insert(object.meta.name.clone(), object);
        }
    }
}

/// A kind that [`ClusterState`] knows by name.
pub trait Indexed: DeclaredKind {
    /// The objects of this kind.
    #[doc(hidden)]
    fn index(cluster: &mut ClusterState) -> &mut ByName<Arc<Declared<Self>>>;
}

impl Indexed for Tenant {
    fn index(cluster: &mut ClusterState) -> &mut ByName<Arc<Declared<Self>>> {
        &mut cluster.tenants
    }
}

impl Indexed for Webhook {
    fn index(cluster: &mut ClusterState) -> &mut ByName<Arc<Declared<Self>>> {
        &mut cluster.webhooks
    }
}

fn was_accepted(tenant: &Declared<Tenant>) -> bool {
    conditions::find(&tenant.status().conditions, ConditionType::Accepted)
        .is_some_and(|accepted| accepted.status == "True")
}

#[cfg(test)]
mod tests;
