//! What to write into a Secret with a generated value, given the present Secret.

use std::collections::BTreeMap;

use docket_crds::conditions::{EventReason, Occurrence, ReasonCode};
use docket_crds::{GROUP, Reason, SecretBytes, Tenant, Webhook};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{GeneratedSecret, is_ours, make};
use crate::state::declared::{DeclaredKind, Meta};
use crate::state::labels;
use crate::state::name::Name;
use crate::state::object_event::ObjectEvent;
use crate::tenant::kept::{self, NEXT_SECRET};
use crate::tenant::signing::Random;

/// What to do with a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretStep {
    /// Nothing: the Secret is as it should be.
    Keep,
    /// Create the Secret.
    Create,
    /// Replace the Secret, because its value or metadata differ. The write is guarded by its resource version.
    Replace,
}

/// A Secret as it should be, and the step that brings it there.
#[derive(Clone, Debug)]
pub struct PlannedSecret {
    /// The Secret as it should be.
    pub secret: Secret,
    /// The step.
    pub step: SecretStep,
    /// The value.
    pub value: SecretBytes,
    /// The next value, if the Webhook asks for one.
    pub next: Option<SecretBytes>,
    /// The Event to publish about the Secret.
    pub event: Option<ObjectEvent>,
    /// What to write first: what the Secret held for a Webhook of another customer or Tenant.
    pub set_aside: Option<Secret>,
    /// Whether to delete, last, the Secret that was set aside for the Webhook, because the Webhook's own Secret has its value or a later
    /// value.
    pub ends_aside: bool,
}

impl GeneratedSecret {
    fn wants_next(&self) -> bool {
        self.webhook.as_ref().is_some_and(|webhook| webhook.next)
    }

    /// Whether it belongs to this Webhook's object and not to an earlier one of the name; what is generated for the Tenant always does.
    fn is_owned(&self, found: &Secret) -> bool {
        self.webhook.as_ref().is_none_or(|webhook| {
            found.metadata.owner_references.iter().flatten().any(|owner| owner.uid == webhook.meta.uid)
        })
    }

    fn is_of_this_rotation(&self, found: &Secret) -> bool {
        rotation_of(found).is_some_and(|made| made >= self.rotation)
    }

    /// Plans what to do about the Secret `found`; `None`: the Secret does not exist. `aside`: the Secret that was set aside for
    /// the Webhook.
    pub fn plan(
        &self,
        found: Option<&Secret>,
        aside: Option<&Secret>,
        owner: &Meta,
        now: Timestamp,
        random: Random<'_>,
    ) -> Result<PlannedSecret, Reason> {
        if found.is_some_and(|found| !is_ours(found, owner) && !self.may_be_set_aside(found)) {
            return Err(self.not_ours());
        }
        let own = found.filter(|found| is_ours(found, owner) && self.is_of_customer(found));
        let aside = aside.filter(|aside| self.value(aside, owner).is_some());
        let mut planned = match own.or(aside) {
            Some(source) => self.of_source(source, found, owner, random),
            None => self.of_new_value(found, owner, random),
        };
        // Also where `own` is there already: an operator that died before the last write has left the copy, and after a rotation its
        // value would come back with it as soon as someone deletes the Secret.
        planned.ends_aside = aside.is_some();
        if own.is_some_and(|own| is_like(own, &planned.secret)) {
            planned.step = SecretStep::Keep;
        }
        if let (None, Some(found), Some(webhook)) = (own, found, &self.webhook) {
            planned.set_aside = kept::set_aside(found, &webhook.meta.name.name, now);
        }
        Ok(planned)
    }

    /// Whether a Secret holds the secret of a Webhook that had the name before.
    fn may_be_set_aside(&self, found: &Secret) -> bool {
        self.webhook.is_some() && kept::is_of_webhook(&found.metadata)
    }

    /// Plans a Secret with the value of `source`, rotated if need be.
    fn of_source(
        &self,
        source: &Secret,
        found: Option<&Secret>,
        owner: &Meta,
        random: Random<'_>,
    ) -> PlannedSecret {
        let mut next = self.next(source);
        let (value, event) = match self.value(source, owner) {
            Some(value) if self.is_of_this_rotation(source) => (value, self.kept_event(source)),
            Some(_) => (
                next.take().unwrap_or_else(|| make(random)),
                Some(self.event(Occurrence::SecretRotated, "Rotate", "has a new value, as requested", false)),
            ),
            None => {
                let tail = "held no hexadecimal value of 32 digits or more: a new value is generated";
                (make(random), Some(self.event(Occurrence::SecretRemade, "Make", tail, true)))
            }
        };
        let made_next = (self.wants_next() && next.is_none()).then(|| {
            self.event(Occurrence::SecretMade, "Make", "has a next value, which signs deliveries too", false)
        });
        let next = self.wants_next().then(|| next.unwrap_or_else(|| make(random)));
        let mut planned = self.planned(found, value, next, event.or(made_next), owner);
        // If a user lowers the rotation generation, nothing is written: the annotation keeps the higher generation, so raising it again
        // up to that one rotates nothing. But a Webhook that was created again counts from its own generation, or else raising that would
        // rotate nothing.
        if let Some(made) = rotation_of(source).filter(|made| *made > self.rotation && self.is_owned(source))
        {
            let annotations = planned.secret.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::ROTATION.to_owned(), made.to_string());
        }
        planned
    }

    fn of_new_value(&self, found: Option<&Secret>, owner: &Meta, random: Random<'_>) -> PlannedSecret {
        let (occurrence, tail) = match found {
            Some(found) if is_ours(found, owner) => {
                (Occurrence::SecretRemade, "was made for another customer: a new value is generated")
            }
            Some(_) => (Occurrence::SecretRemade, "was made for another Tenant: a new value is generated"),
            None if self.made_before => {
                (Occurrence::SecretRemade, "was gone: a new value is generated, the old one no longer works")
            }
            None => (Occurrence::SecretMade, "is created"),
        };
        let event = self.event(occurrence, "Make", tail, occurrence == Occurrence::SecretRemade);
        let value = make(random);
        let next = self.wants_next().then(|| make(random));
        self.planned(found, value, next, Some(event), owner)
    }

    /// What to publish about a value that was kept while no Webhook asked for it.
    fn kept_event(&self, source: &Secret) -> Option<ObjectEvent> {
        let since = kept::mark_of(&source.metadata).map(|since| format!(" since {since}"));
        let is_aside = source.metadata.name.as_ref() != Some(&self.name.name);
        let since = since.or(is_aside.then(String::new))?;
        let tail = format!("was kept{since}, while no Webhook asked for it, and signs again");
        Some(self.event(Occurrence::SecretKept, "Keep", &tail, false))
    }

    fn planned(
        &self,
        found: Option<&Secret>,
        value: SecretBytes,
        next: Option<SecretBytes>,
        event: Option<ObjectEvent>,
        owner: &Meta,
    ) -> PlannedSecret {
        let step = if found.is_some() { SecretStep::Replace } else { SecretStep::Create };
        // Other users' labels, annotations and keys stay.
        let mut secret = found.cloned().unwrap_or_default();
        let ours = self.metadata(owner);
        let meta = &mut secret.metadata;
        (meta.name, meta.namespace, meta.managed_fields) = (ours.name, ours.namespace, None);
        meta.labels.get_or_insert_default().extend(ours.labels.into_iter().flatten());
        let annotations = meta.annotations.get_or_insert_default();
        annotations.extend(ours.annotations.into_iter().flatten());
        annotations.remove(labels::UNUSED_SINCE);
        let owners = self.owners(owner);
        let is_former =
            |other: &OwnerReference| is_of_docket(other) && owners.iter().all(|owner| owner.uid != other.uid);
        meta.owner_references.get_or_insert_default().retain(|other| !is_former(other));
        kept::add_owners(meta, owners);
        let data = secret.data.get_or_insert_default();
        let beside = self.beside.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into_bytes()));
        data.extend(beside.map(|(key, value)| (key, ByteString(value))));
        data.insert(self.key.to_owned(), ByteString(value.expose().to_vec()));
        if self.webhook.is_some() {
            data.remove(NEXT_SECRET);
            data.extend(next.iter().map(|next| (NEXT_SECRET.to_owned(), ByteString(next.expose().to_vec()))));
        }
        PlannedSecret { secret, step, value, next, event, set_aside: None, ends_aside: false }
    }

    fn metadata(&self, owner: &Meta) -> ObjectMeta {
        let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let customer = self.webhook.as_ref().map(|webhook| (labels::CUSTOMER, webhook.customer.as_str()));
        ObjectMeta {
            name: Some(self.name.name.clone()),
            namespace: Some(self.name.namespace.clone()),
            labels: Some(BTreeMap::from(
                [(labels::MANAGED_BY, labels::OPERATOR), (labels::TENANT_UID, &owner.uid)].map(text),
            )),
            annotations: Some(
                [
                    (labels::TENANT, owner.name.to_string().as_str()),
                    (labels::ROTATION, &self.rotation.to_string()),
                ]
                .into_iter()
                .chain(customer)
                .map(text)
                .collect(),
            ),
            ..ObjectMeta::default()
        }
    }

    /// Kubernetes deletes the Secret when all of them are gone. So a signing secret outlives its Webhook while the Tenant is there,
    /// and the Tenant while the Webhook is. No owner is the `controller`: that would need rights on the Tenant's finalizers, and no
    /// controller adopts Secrets.
    fn owners(&self, tenant: &Meta) -> Vec<OwnerReference> {
        let webhook = self.webhook.iter().map(|webhook| (Webhook::KIND, &webhook.meta));
        let owners = webhook.chain([(Tenant::KIND, tenant)]);
        owners.map(|(kind, meta)| kept::owner(kind, &meta.name.name, &meta.uid)).collect()
    }

    fn event(&self, occurrence: Occurrence, action: &'static str, tail: &str, warning: bool) -> ObjectEvent {
        let note = format!("Secret {} with {} {tail}", self.name.name, self.noun);
        let reason = EventReason::Occurrence(occurrence);
        ObjectEvent { reason, action, note, warning, secret: Some(self.name.clone()) }
    }

    fn not_ours(&self) -> Reason {
        let message = format!(
            "Secret {} exists and was not created for this Tenant; remove it, or choose another name",
            self.name
        );
        Reason { code: ReasonCode::SecretInvalid, field: self.field.clone(), message }
    }

    /// Why the Secret stays as it is: what it holds for an earlier Webhook can't be set aside as `kept`, because a user's Secret has
    /// that name.
    pub fn is_not_set_aside(&self, kept: &Secret) -> Reason {
        let name = Name::new(&self.name.namespace, kept.metadata.name.as_deref().unwrap_or_default());
        let message = format!(
            "Secret {name} exists and was not created by the operator, which must keep the secret of an earlier Webhook of this name \
             there; remove it, or choose another name for the Webhook"
        );
        Reason { code: ReasonCode::SecretInvalid, field: self.field.clone(), message }
    }
}

fn is_of_docket(owner: &OwnerReference) -> bool {
    owner.api_version.split('/').next() == Some(GROUP)
}

fn is_like(found: &Secret, wanted: &Secret) -> bool {
    fn within<V: PartialEq>(
        wanted: &Option<BTreeMap<String, V>>,
        found: &Option<BTreeMap<String, V>>,
    ) -> bool {
        let found = found.as_ref();
        wanted.iter().flatten().all(|(key, value)| found.and_then(|found| found.get(key)) == Some(value))
    }
    let (has, wants) = (&found.metadata, &wanted.metadata);
    within(&wants.labels, &has.labels)
        && within(&wants.annotations, &has.annotations)
        && kept::mark_of(has).is_none()
        && wants.owner_references == has.owner_references
        && wanted.data == found.data
}

/// The rotation generation that a value was made for.
fn rotation_of(found: &Secret) -> Option<i64> {
    found.metadata.annotations.as_ref()?.get(labels::ROTATION)?.parse().ok()
}
