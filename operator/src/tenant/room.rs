//! Pure: decides which Webhooks of a Tenant are read, so that nothing that others write can fill the operator's memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use docket_crds::compile::{Candidate, allows, places};
use docket_crds::{PlatformLimits, Tenant, Webhook, WebhookConfig};

use crate::state::declared::Declared;
use crate::state::references::{Value, keys_of_tenant, keys_of_webhook};
use crate::tenant::subject::Subject;

/// The limit for what is read for the Webhooks of one Tenant, in bytes: twice the limit of its configuration.
pub(super) const ROOM: usize = 2_000_000;

/// The Webhooks that the Tenant allows and takes, in its order. `unreadable`: Webhooks that stay served, which count
/// for the limits too.
pub(super) fn placed(
    subject: &Subject,
    tenant: &Tenant,
    unreadable: &[&WebhookConfig],
    limits: &PlatformLimits,
    labels: &dyn Fn(&str) -> BTreeMap<String, String>,
) -> Vec<Arc<Declared<Webhook>>> {
    let by_uid: HashMap<&str, &Arc<Declared<Webhook>>> =
        subject.webhooks.iter().map(|webhook| (webhook.meta.uid.as_str(), webhook)).collect();
    let readable = subject
        .webhooks
        .iter()
        .filter(|webhook| webhook.document.is_ok() && allows(tenant, &webhook.meta.name.namespace, labels));
    let readable = readable.map(|webhook| Candidate {
        uid: &webhook.meta.uid,
        namespace: &webhook.meta.name.namespace,
        created_at: webhook.meta.created.as_second(),
    });
    // A Webhook that can't be read was served before, so it counts as the oldest.
    let unreadable = unreadable.iter().map(|webhook| Candidate {
        uid: &webhook.uid,
        namespace: &webhook.namespace,
        created_at: 0,
    });
    let (limits, _) = limits.resolve(&tenant.spec.limits);
    let taken = places(tenant, &limits, readable.chain(unreadable)).taken;
    taken.into_iter().filter_map(|uid| by_uid.get(uid).map(|webhook| Arc::clone(webhook))).collect()
}

/// The keys to read of each object: first the Tenant's objects, then the objects of its Webhooks in order.
pub(super) fn wanted(tenant: &Tenant, webhooks: &[Arc<Declared<Webhook>>]) -> Vec<(Value, BTreeSet<String>)> {
    let of_webhooks = webhooks.iter().filter_map(|webhook| webhook.document.as_ref().ok());
    let mut wanted: Vec<(Value, BTreeSet<String>)> = Vec::new();
    let mut index: HashMap<Value, usize> = HashMap::new();
    for (value, key) in keys_of_tenant(tenant).chain(of_webhooks.flat_map(keys_of_webhook)) {
        let at = *index.entry(value.clone()).or_insert(wanted.len());
        if at == wanted.len() {
            wanted.push((value, BTreeSet::new()));
        }
        wanted[at].1.insert(key.to_owned());
    }
    wanted
}

/// The uids of the Webhooks whose values exceed the limit. `size`: the number of bytes that were read for a Webhook;
/// `None`: not everything was read.
pub(super) fn without_room(
    webhooks: &[Arc<Declared<Webhook>>],
    size: impl Fn(&Declared<Webhook>) -> Option<usize>,
) -> HashSet<String> {
    let mut room = ROOM;
    let mut without = HashSet::new();
    for webhook in webhooks {
        match size(webhook).and_then(|size| room.checked_sub(size)) {
            Some(rest) => room = rest,
            None => drop(without.insert(webhook.meta.uid.clone())),
        }
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::declared::Declared;

    #[test]
    fn room_goes_to_the_first_and_to_what_still_fits() {
        let webhook = |uid: &str| {
            let object = serde_json::json!({
                "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
                "metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1"},
            });
            Declared::<Webhook>::read(serde_json::from_value(object).expect("an object"))
                .expect("it has a name")
        };
        let webhooks = ["first", "large", "small", "unread"].map(webhook);
        let size = |webhook: &Declared<Webhook>| match webhook.meta.uid.as_str() {
            "first" => Some(ROOM - 10),
            "large" => Some(11),
            "small" => Some(10),
            _ => None,
        };
        let expected = ["large", "unread"].map(str::to_owned);
        assert_eq!(without_room(&webhooks, size), HashSet::from(expected));
    }
}
