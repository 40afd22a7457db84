//! Which Secrets and ConfigMaps an object refers to, and which objects refer to each of them.

use std::collections::{BTreeSet, HashMap};

use docket_crds::tenant::ExternalDatabase;
use docket_crds::{Tenant, ValueKind, Webhook};

use crate::state::name::{Name, ObjectKey};
use crate::state::small_set::SmallSet;

/// A Secret or ConfigMap that a Tenant or Webhook refers to.
pub(crate) type Value = (ValueKind, Name);

#[derive(Debug, Default)]
pub(super) struct References {
    referrers: HashMap<Value, SmallSet<ObjectKey>>,
    of: HashMap<ObjectKey, Box<[Value]>>,
}

impl References {
    pub(super) fn set(&mut self, referrer: ObjectKey, values: BTreeSet<Value>) {
        self.remove(&referrer);
        for value in &values {
            self.referrers.entry(value.clone()).or_default().insert(referrer.clone());
        }
        if !values.is_empty() {
            self.of.insert(referrer, values.into_iter().collect());
        }
    }

    pub(super) fn remove(&mut self, referrer: &ObjectKey) {
        for value in self.of.remove(referrer).unwrap_or_default() {
            if let Some(referrers) = self.referrers.get_mut(&value) {
                referrers.remove(referrer);
                if referrers.is_empty() {
                    self.referrers.remove(&value);
                }
            }
        }
    }

    pub(super) fn of(&self, kind: ValueKind, name: &Name) -> impl Iterator<Item = &ObjectKey> {
        self.referrers.get(&(kind, name.clone())).into_iter().flat_map(SmallSet::iter)
    }
}

/// The Secrets and ConfigMaps to which a Tenant refers.
pub(crate) fn of_tenant(tenant: &Tenant) -> BTreeSet<Value> {
    keys_of_tenant(tenant).map(|(value, _)| value).collect()
}

/// The Secrets and ConfigMaps to which a Webhook refers.
pub(crate) fn of_webhook(webhook: &Webhook) -> BTreeSet<Value> {
    keys_of_webhook(webhook).map(|(value, _)| value).collect()
}

/// The keys of Secrets to which a Tenant refers.
pub(crate) fn keys_of_tenant(tenant: &Tenant) -> impl Iterator<Item = (Value, &str)> {
    let keys = tenant.spec.api_keys.iter().filter_map(|key| key.secret_key_ref.as_ref());
    let keys = keys.map(|secret| (secret.name.as_str(), secret.key.as_str()));
    let database = tenant.spec.database.external.iter().flat_map(ExternalDatabase::keys);
    let named = |name: &str| (ValueKind::Secret, Name::new(&tenant.metadata.namespace, name));
    keys.chain(database).map(move |(secret, key)| (named(secret), key))
}

/// The keys of Secrets and ConfigMaps to which a Webhook refers.
pub(crate) fn keys_of_webhook(webhook: &Webhook) -> impl Iterator<Item = (Value, &str)> {
    let named = |kind, name: &str| (kind, Name::new(&webhook.metadata.namespace, name));
    let secrets = webhook.spec.secret_ref.iter().flat_map(move |secret| {
        let keys = [Some(&secret.key), secret.next_key.as_ref()].into_iter().flatten();
        keys.map(move |key| (named(ValueKind::Secret, &secret.name), key.as_str()))
    });
    let bundle = webhook.spec.ca_bundle_ref.iter();
    secrets.chain(bundle.map(move |bundle| (named(bundle.kind, &bundle.name), bundle.key.as_str())))
}
