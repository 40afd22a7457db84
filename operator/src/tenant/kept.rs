//! Signing secrets that no Webhook asks for. Pure.
//!
//! A Webhook that is created again takes over its queue, and its receiver has the earlier secret. So the Secret stays for a
//! while, with a mark that says since when it is unused. If a Webhook of another customer or Tenant takes its name, its value is set
//! aside in a Secret of another name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use docket_crds::{API_VERSION, Tenant, kept};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};

use crate::state::declared::DeclaredKind;
use crate::state::labels;
use crate::state::name::Name;
use crate::state::own_secrets::OwnSecret;

/// The key of a Webhook's signing secret.
pub const SIGNING_SECRET: &str = "secret";
/// The key of the signing secret that takes its place.
pub const NEXT_SECRET: &str = "next";

/// How many hexadecimal digits the name of a Secret has that was set aside.
const NAME_DIGITS: usize = 32;

/// What to do about a signing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptStep {
    /// The secret is as it should be.
    Keep,
    /// The secret needs this mark; `None`: it needs none.
    Mark(Option<Timestamp>),
    /// The time to keep the secret has passed.
    Delete,
}

/// What to do about a signing secret with this mark. `counts`: whether no Webhook asks for the secret, and its Tenant is not
/// suspended. `grace`: how long the deliveries of removed Webhooks wait.
pub fn step(marked: Option<Timestamp>, counts: bool, grace: Duration, now: Timestamp) -> KeptStep {
    let (marked, now) = (marked.map(Timestamp::as_second), now.as_second());
    match kept::mark(marked, counts, now) {
        Some(since) if kept::end(since, grace) <= now => KeptStep::Delete,
        mark if mark == marked => KeptStep::Keep,
        mark => KeptStep::Mark(mark.and_then(|since| Timestamp::from_second(since).ok())),
    }
}

/// The step for each of a Tenant's signing secrets. `wanted`: the names that its Webhooks ask for. If more than [`kept::MOST`] secrets are
/// unused, the oldest end. `counts` and `grace` are as in [`step`].
pub fn steps<'a>(
    secrets: impl Iterator<Item = &'a OwnSecret>,
    wanted: &HashSet<Name>,
    counts: bool,
    grace: Duration,
    now: Timestamp,
) -> Vec<(&'a OwnSecret, KeptStep)> {
    let (mut unused, used): (Vec<_>, Vec<_>) = secrets.partition(|secret| !wanted.contains(&secret.name));
    unused.sort_by_key(|secret| Reverse(secret.unused_since.unwrap_or(now)));
    let unused = unused.into_iter().enumerate().map(|(number, secret)| match number < kept::MOST {
        true => (secret, step(secret.unused_since, counts, grace, now)),
        false => (secret, KeptStep::Delete),
    });
    let used = used.into_iter().map(|secret| (secret, step(secret.unused_since, false, grace, now)));
    unused.chain(used).collect()
}

/// Since when a Secret is unused, by its mark.
pub fn mark_of(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.annotations.as_ref()?.get(labels::UNUSED_SINCE)?.parse().ok()
}

/// The Secret with this mark; `None`: nothing has to be written.
pub fn marked(mut secret: Secret, since: Option<Timestamp>) -> Option<Secret> {
    let before = secret.metadata.clone();
    let annotations = secret.metadata.annotations.get_or_insert_default();
    match since {
        Some(since) => drop(annotations.insert(labels::UNUSED_SINCE.to_owned(), since.to_string())),
        None => drop(annotations.remove(labels::UNUSED_SINCE)),
    }
    // One of an earlier version belongs to its Webhook alone, and Kubernetes is about to delete it.
    add_owners(&mut secret.metadata, tenant_of(&before));
    if secret.metadata == before {
        return None;
    }
    secret.metadata.managed_fields = None;
    Some(secret)
}

/// The Secret that keeps the value of `found` when a Webhook of another customer or Tenant takes the name of its Webhook, `webhook`.
/// `None`: the operator did not generate it for a Webhook.
pub fn set_aside(found: &Secret, webhook: &str, now: Timestamp) -> Option<Secret> {
    let meta = &found.metadata;
    let tenant = tenant_of(meta).filter(|_| is_of_webhook(meta))?;
    let annotation = |key: &str| Some((key.to_owned(), meta.annotations.as_ref()?.get(key)?.clone()));
    let ((_, name), (_, customer)) = (annotation(labels::TENANT)?, annotation(labels::CUSTOMER)?);
    let since = mark_of(meta).unwrap_or(now).to_string();
    let annotations = [labels::TENANT, labels::CUSTOMER, labels::ROTATION].into_iter().filter_map(annotation);
    let new = [(labels::WEBHOOK, webhook), (labels::UNUSED_SINCE, &since)].map(text);
    let values = [SIGNING_SECRET, NEXT_SECRET].into_iter();
    let values = values.filter_map(|key| Some((key.to_owned(), found.data.as_ref()?.get(key)?.clone())));
    Some(Secret {
        metadata: ObjectMeta {
            name: Some(aside_name(&name, webhook, &customer)),
            namespace: meta.namespace.clone(),
            labels: Some(BTreeMap::from(
                [(labels::MANAGED_BY, labels::OPERATOR), (labels::TENANT_UID, &tenant.uid)].map(text),
            )),
            annotations: Some(annotations.chain(new).collect()),
            owner_references: Some(vec![tenant]),
            ..ObjectMeta::default()
        },
        data: Some(values.collect()),
        ..Secret::default()
    })
}

/// The Secret that keeps what was set aside for the Webhook of this name and customer.
pub fn aside(tenant: &Name, webhook: &str, customer: &str) -> Name {
    Name::new(&tenant.namespace, aside_name(&tenant.to_string(), webhook, customer))
}

/// No other generated Secret has such a name: theirs end in `-apikey-` and a key, in `-database` or in `.signing-secret`.
fn aside_name(tenant: &str, webhook: &str, customer: &str) -> String {
    let mut digits = hex::encode(Sha256::digest(format!("{tenant} {webhook} {customer}")));
    digits.truncate(NAME_DIGITS);
    format!("signing-secret-{digits}")
}

/// Whether the operator generated a Secret for a Webhook, of any Tenant.
pub fn is_of_webhook(meta: &ObjectMeta) -> bool {
    let by = meta.labels.as_ref().and_then(|all| all.get(labels::MANAGED_BY));
    let has = |key: &str| meta.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    by.is_some_and(|by| by == labels::OPERATOR) && has(labels::CUSTOMER)
}

/// A reference to an owner of one of our kinds.
pub fn owner(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

/// Adds the owners that an object lacks.
pub fn add_owners(meta: &mut ObjectMeta, owners: impl IntoIterator<Item = OwnerReference>) {
    let all = meta.owner_references.get_or_insert_default();
    for owner in owners {
        if all.iter().all(|other| other.uid != owner.uid) {
            all.push(owner);
        }
    }
}

/// The Tenant that a Secret was made for.
fn tenant_of(meta: &ObjectMeta) -> Option<OwnerReference> {
    let uid = meta.labels.as_ref()?.get(labels::TENANT_UID)?;
    let (_, name) = meta.annotations.as_ref()?.get(labels::TENANT)?.split_once('/')?;
    Some(owner(Tenant::KIND, name, uid))
}

fn text((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use docket_crds::Webhook;
    use k8s_openapi::ByteString;

    use super::*;

    const GRACE: Duration = Duration::from_secs(3600);

    fn at(hours: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(hours)
    }

    /// A Secret as an earlier version has made it: it belongs to its Webhook alone.
    fn secret(mark: Option<Timestamp>) -> Secret {
        let mark = mark.map(|since| (labels::UNUSED_SINCE.to_owned(), since.to_string()));
        let made_for = [
            (labels::TENANT, "tenants/acme"),
            (labels::CUSTOMER, "C-1"),
            (labels::ROTATION, "3"),
            ("theirs", "stays"),
        ];
        let of = |byte: &str| ByteString(byte.repeat(32).into_bytes());
        Secret {
            metadata: ObjectMeta {
                name: Some("orders.signing-secret".into()),
                namespace: Some("tenants".into()),
                resource_version: Some("5".into()),
                labels: Some(BTreeMap::from(
                    [(labels::MANAGED_BY, labels::OPERATOR), (labels::TENANT_UID, "uid-acme")].map(text),
                )),
                annotations: Some(made_for.map(text).into_iter().chain(mark).collect()),
                owner_references: Some(vec![owner(Webhook::KIND, "orders", "uid-w")]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from(
                [("secret", of("01")), ("next", of("02")), ("theirs", of("03"))]
                    .map(|(key, value)| (key.to_owned(), value)),
            )),
            ..Secret::default()
        }
    }

    fn owners(secret: &Secret) -> Vec<(&str, &str)> {
        let owners = secret.metadata.owner_references.iter().flatten();
        owners.map(|owner| (owner.kind.as_str(), owner.uid.as_str())).collect()
    }

    #[test]
    fn unused_secret_is_marked_once_and_deleted_a_day_after_the_grace() {
        assert_eq!(step(None, false, GRACE, at(0)), KeptStep::Keep);
        assert_eq!(step(None, true, GRACE, at(0)), KeptStep::Mark(Some(at(0))));
        assert_eq!(step(Some(at(0)), true, GRACE, at(24)), KeptStep::Keep);
        assert_eq!(step(Some(at(0)), true, GRACE, at(25)), KeptStep::Delete);
        assert_eq!(step(Some(at(0)), false, GRACE, at(25)), KeptStep::Mark(None), "it is used again");
        let back = at(0) - jiff::SignedDuration::from_secs(1);
        assert_eq!(step(Some(at(0)), true, GRACE, back), KeptStep::Keep, "the clock was set back");
        let part = at(0) + jiff::SignedDuration::from_millis(900);
        assert_eq!(step(Some(part), true, GRACE, at(1)), KeptStep::Keep, "a user wrote it");
    }

    #[test]
    fn of_too_many_unused_secrets_the_oldest_end_and_of_those_in_use_none() {
        let secret = |number: usize, unused_since: Option<Timestamp>| OwnSecret {
            name: Name::new("tenants", format!("w{number}.signing-secret")),
            uid: String::new(),
            tenant: Name::new("tenants", "acme"),
            tenant_uid: "uid-acme".into(),
            resource_version: String::new(),
            is_runtime: false,
            signs: true,
            unused_since,
            is_made: true,
        };
        let minute = |minute: usize| at(0) + Duration::from_secs(60 * minute as u64);
        let unused = (0..kept::MOST).map(|number| secret(number, Some(minute(number))));
        let (new, used, back) = (secret(1000, None), secret(1001, None), secret(1002, Some(at(0))));
        let wanted = HashSet::from([used.name.clone(), back.name.clone()]);
        let all: Vec<OwnSecret> = unused.chain([new.clone(), used, back.clone()]).collect();
        let changes = |counts: bool| {
            let mut steps = steps(all.iter(), &wanted, counts, GRACE, at(2));
            steps.retain(|(_, step)| *step != KeptStep::Keep);
            steps
        };
        let (mark, unmark) = (KeptStep::Mark(Some(at(2))), KeptStep::Mark(None));
        assert_eq!(changes(true), [(&new, mark), (&all[0], KeptStep::Delete), (&back, unmark)]);
        let suspended = changes(false);
        assert!(suspended.iter().all(|(secret, step)| (*step == KeptStep::Delete) == (*secret == &all[0])));
        assert_eq!(suspended.len(), kept::MOST + 1, "the time of the others does not run");
    }

    #[test]
    fn mark_is_written_once_and_its_tenant_is_an_owner_then() {
        let written = marked(secret(None), Some(at(7))).unwrap();
        assert_eq!(mark_of(&written.metadata), Some(at(7)));
        assert_eq!(owners(&written), [("Webhook", "uid-w"), ("Tenant", "uid-acme")]);
        assert_eq!(written.data, secret(None).data);
        assert_eq!(marked(written.clone(), Some(at(7))), None);
        let unmarked = marked(written, None).unwrap();
        assert_eq!(unmarked.metadata.annotations, secret(None).metadata.annotations);
        assert_eq!(marked(unmarked, None), None);
    }

    #[test]
    fn value_is_set_aside_with_what_it_was_made_for_and_nothing_else() {
        let kept = set_aside(&secret(None), "orders", at(7)).unwrap();
        let name = aside(&Name::new("tenants", "acme"), "orders", "C-1");
        assert_eq!(kept.metadata.name, Some(name.name.clone()));
        assert_eq!(kept.metadata.namespace, Some(name.namespace));
        assert!(docket_crds::is_object_name(&name.name), "{}", name.name);
        assert_eq!(owners(&kept), [("Tenant", "uid-acme")]);
        let annotations = kept.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[labels::ROTATION], "3");
        assert_eq!(annotations[labels::WEBHOOK], "orders");
        assert!(!annotations.contains_key("theirs"));
        assert_eq!(kept.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["next", "secret"]);
        assert_eq!(mark_of(&kept.metadata), Some(at(7)));
        let earlier = set_aside(&secret(Some(at(1))), "orders", at(7)).unwrap();
        assert_eq!(mark_of(&earlier.metadata), Some(at(1)), "it was unused before");
        let others = [("tenants/acme", "orders", "C-2"), ("tenants/beta", "orders", "C-1")];
        assert!(others.iter().all(|(tenant, webhook, customer)| {
            Some(aside_name(tenant, webhook, customer)) != kept.metadata.name
        }));
    }

    #[test]
    fn secret_of_a_user_is_not_set_aside() {
        for label in [labels::MANAGED_BY, labels::TENANT_UID] {
            let mut theirs = secret(None);
            theirs.metadata.labels.as_mut().unwrap().remove(label);
            assert_eq!(set_aside(&theirs, "orders", at(7)), None, "{label}");
        }
        let mut key = secret(None);
        key.metadata.annotations.as_mut().unwrap().remove(labels::CUSTOMER);
        assert_eq!(set_aside(&key, "orders", at(7)), None);
    }
}
