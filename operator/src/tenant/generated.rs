//! Secrets with generated values: API keys, Webhooks' signing secrets and the database's password. Pure: `provision`
//! writes what this file plans.
//!
//! A value is generated once. It stays valid until its rotation generation is raised or its Secret is deleted, which
//! is a rotation too.

use std::collections::BTreeMap;

use docket_crds::conditions::{EventReason, Occurrence, ReasonCode};
use docket_crds::tenant::ApiKeySpec;
use docket_crds::{ApiKeyDigest, GROUP, Reason, SecretBytes, Tenant, Webhook};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::database::role_of;
use crate::state::declared::{Declared, DeclaredKind, Meta};
use crate::state::labels;
use crate::state::name::Name;
use crate::state::object_event::ObjectEvent;
use crate::tenant::kept::{self, NEXT_SECRET, SIGNING_SECRET};
use crate::tenant::signing::Random;

/// The key of an API key's Secret.
pub const API_KEY: &str = "api-key";
/// The key of a database's Secret that holds the role's password.
pub const PASSWORD: &str = "password";
/// The key of the user's name beside the password, for people.
const USERNAME: &str = "username";
const DATABASE: &str = "database";

const VALUE_BYTES: usize = 32;
/// The limit for what others may put beside a generated value, in bytes. From a larger Secret, the operator keeps none
/// of these values when it writes the Secret again.
const LARGEST: usize = 64 * 1024;
/// The longest generated value that is kept from a Secret above this limit, in bytes.
const LARGEST_VALUE: usize = 1024;

/// The plan for a Secret with a generated value, which a Tenant or one of its Webhooks declares.
#[derive(Clone, Debug)]
pub struct GeneratedSecret {
    /// The Secret's name, in the tenant's namespace.
    pub name: Name,
    /// The key of the generated value.
    pub key: &'static str,
    /// Further keys and values beside the generated value, for people.
    beside: Vec<(&'static str, String)>,
    /// The rotation generation. If it is raised, a new value is generated.
    rotation: i64,
    /// A name of the value for messages, such as `API key "primary"`.
    pub noun: String,
    /// The field that declares it.
    field: String,
    /// Whether the Secret is known to have existed.
    made_before: bool,
    /// The Webhook that asks for it; `None`: the Tenant does.
    webhook: Option<OfWebhook>,
}

#[derive(Clone, Debug)]
struct OfWebhook {
    meta: Meta,
    /// The Webhook's customer. A secret that was generated for another customer's Webhook of this name does not sign
    /// for this Webhook.
    customer: String,
    /// Whether the Secret also has a next value.
    next: bool,
}

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

/// The Secret of a generated API key.
pub fn of_api_key(
    tenant: &Tenant,
    index: usize,
    spec: &ApiKeySpec,
    made_before: bool,
) -> Option<GeneratedSecret> {
    let generate = spec.generate.as_ref()?;
    Some(GeneratedSecret {
        name: api_key_name(tenant, &spec.name),
        key: API_KEY,
        beside: Vec::new(),
        rotation: generate.rotation_generation,
        noun: format!("API key {:?}", spec.name),
        field: format!("spec.apiKeys[{index}].generate"),
        made_before,
        webhook: None,
    })
}

/// The Secret of a Webhook's generated signing secret; `None`: the Webhook is in another namespace than its Tenant.
pub fn of_webhook(tenant: &Meta, declared: &Declared<Webhook>, made_before: bool) -> Option<GeneratedSecret> {
    let webhook = declared.document.as_ref().ok()?;
    let generate = webhook.spec.generate_secret.as_ref()?;
    Some(GeneratedSecret {
        name: webhook_name(&tenant.name.namespace, webhook)?,
        key: SIGNING_SECRET,
        beside: Vec::new(),
        rotation: generate.rotation_generation,
        noun: format!("the signing secret of Webhook {:?}", webhook.metadata.name),
        field: "spec.generateSecret".to_owned(),
        made_before,
        webhook: Some(OfWebhook {
            meta: declared.meta.clone(),
            customer: webhook.spec.customer_code.clone(),
            next: generate.next,
        }),
    })
}

/// The name of the Secret that is generated for a valid Webhook of a Tenant in `namespace`.
pub fn webhook_name(namespace: &str, webhook: &Webhook) -> Option<Name> {
    let name = webhook.generated_secret().filter(|_| webhook.metadata.namespace == namespace)?;
    // The Webhook must be valid, because the name becomes a part of a request's path.
    webhook.validate().is_empty().then(|| Name::new(namespace, name))
}

/// The name of a generated API key's Secret.
pub fn api_key_name(tenant: &Tenant, key: &str) -> Name {
    Name::new(&tenant.metadata.namespace, format!("{}-apikey-{key}", tenant.metadata.name))
}

/// The names of all Secrets that are generated for a Tenant.
pub fn names(tenant: &Tenant) -> Vec<Name> {
    let keys = tenant.spec.api_keys.iter().filter(|key| key.generate.is_some());
    let keys = keys.map(|key| api_key_name(tenant, &key.name));
    keys.chain(tenant.spec.database.managed.iter().map(|_| database_name(tenant))).collect()
}

/// The Secret of a managed database.
pub fn of_database(tenant: &Tenant, made_before: bool) -> Option<GeneratedSecret> {
    let managed = tenant.spec.database.managed.as_ref()?;
    Some(GeneratedSecret {
        name: database_name(tenant),
        key: PASSWORD,
        beside: vec![(USERNAME, role_of(&managed.name)), (DATABASE, managed.name.clone())],
        rotation: managed.password_rotation_generation,
        noun: "the database's password".to_owned(),
        field: "spec.database.managed".to_owned(),
        made_before,
        webhook: None,
    })
}

/// The name of a managed database's Secret.
pub fn database_name(tenant: &Tenant) -> Name {
    Name::new(&tenant.metadata.namespace, format!("{}-database", tenant.metadata.name))
}

/// The value under this key of a Secret, if it has the form of a generated value.
pub fn value_at<'a>(found: &'a Secret, key: &str) -> Option<&'a str> {
    let value = std::str::from_utf8(&found.data.as_ref()?.get(key)?.0).ok()?;
    ApiKeyDigest::of(value).ok().map(|_| value)
}

/// A Secret with such a name, without what others put into it if that is large. Users may write to it, and the
/// operator keeps many in memory.
pub fn slim(mut secret: Secret) -> Secret {
    let ours = [API_KEY, SIGNING_SECRET, NEXT_SECRET, PASSWORD, USERNAME, DATABASE];
    let is_large = size(&secret) > LARGEST;
    secret.metadata.managed_fields = None;
    if let Some(data) = &mut secret.data
        && is_large
    {
        data.retain(|key, value| ours.contains(&key.as_str()) && value.0.len() <= LARGEST_VALUE);
    }
    secret
}

/// The size of the parts of a Secret that users can write, in bytes.
pub fn size(secret: &Secret) -> usize {
    let meta = &secret.metadata;
    let texts = meta.labels.iter().chain(&meta.annotations).flatten();
    let texts: usize = texts.map(|(key, text)| key.len() + text.len()).sum();
    texts + secret.data.iter().flatten().map(|(key, value)| key.len() + value.0.len()).sum::<usize>()
}

impl GeneratedSecret {
    /// The value in a Secret of the operator, if the Secret is for this owner and customer, and the value has the
    /// form of a generated one.
    pub fn value(&self, found: &Secret, owner: &Meta) -> Option<SecretBytes> {
        if !is_ours(found, owner) || !self.is_of_customer(found) {
            return None;
        }
        value_at(found, self.key).map(|value| SecretBytes::from(value.as_bytes().to_vec()))
    }

    /// The next value in a Webhook's Secret, even if the Webhook does not ask for one any more.
    pub fn next(&self, found: &Secret) -> Option<SecretBytes> {
        self.webhook.as_ref().filter(|_| self.is_of_customer(found))?;
        value_at(found, NEXT_SECRET).map(|value| SecretBytes::from(value.as_bytes().to_vec()))
    }

    fn is_of_customer(&self, found: &Secret) -> bool {
        let made_for = found.metadata.annotations.as_ref().and_then(|all| all.get(labels::CUSTOMER));
        self.webhook.as_ref().is_none_or(|webhook| made_for == Some(&webhook.customer))
    }

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

    /// The name of the Secret that was set aside for the Webhook, if there is one.
    pub fn aside(&self, tenant: &Meta) -> Option<Name> {
        let webhook = self.webhook.as_ref()?;
        Some(kept::aside(&tenant.name, &webhook.meta.name.name, &webhook.customer))
    }

    /// What to do, given what is there. `aside`: the Secret that was set aside for the Webhook.
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

    /// Whether it holds the secret of a Webhook that had the name before.
    fn may_be_set_aside(&self, found: &Secret) -> bool {
        self.webhook.is_some() && kept::is_of_webhook(&found.metadata)
    }

    /// With the value of `source`, rotated if need be.
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
        // A generation that was lowered is no reason to write. When it is raised again, as far as it was, the value stays. A Webhook that
        // was created again counts from its own generation: else raising that would rotate nothing.
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

/// Whether the operator created the Secret for this Tenant, or for an earlier Tenant of the same name. The second
/// means that the Secret was restored from a backup with the Tenant, so its value stays valid. A user with the right
/// to write such a Secret can also read it.
fn is_ours(found: &Secret, owner: &Meta) -> bool {
    let meta = &found.metadata;
    let label = |key: &str| meta.labels.as_ref()?.get(key).map(String::as_str);
    let tenant = meta.annotations.as_ref().and_then(|all| all.get(labels::TENANT));
    label(labels::MANAGED_BY) == Some(labels::OPERATOR)
        && (label(labels::TENANT_UID) == Some(&owner.uid) || tenant == Some(&owner.name.to_string()))
        || found.metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner.uid)
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

/// Generates a random value: 64 hexadecimal digits.
pub fn make(random: Random<'_>) -> SecretBytes {
    let mut bytes = [0; VALUE_BYTES];
    random(&mut bytes);
    hex::encode(bytes).into_bytes().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::examples::{declared, tenant};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn wanted(rotation: i64, made_before: bool) -> (GeneratedSecret, Meta) {
        let mut tenant = tenant();
        tenant.spec.api_keys[0].generate.as_mut().unwrap().rotation_generation = rotation;
        let wanted = of_api_key(&tenant, 0, &tenant.spec.api_keys[0], made_before).unwrap();
        (wanted, declared().meta.clone())
    }

    fn plan(wanted: &(GeneratedSecret, Meta), found: Option<&Secret>, byte: u8) -> PlannedSecret {
        wanted.0.plan(found, None, &wanted.1, NOW, &mut |bytes| bytes.fill(byte)).unwrap()
    }

    fn stored(rotation: i64) -> Secret {
        let mut secret = plan(&wanted(rotation, false), None, 7).secret;
        secret.metadata.resource_version = Some("5".into());
        secret
    }

    #[test]
    fn of_a_large_secret_only_what_is_ours_is_kept() {
        let with = |bytes: usize| {
            let mut secret = stored(0);
            let data = secret.data.as_mut().unwrap();
            data.insert("theirs".to_owned(), ByteString(vec![b'x'; bytes]));
            data.insert(NEXT_SECRET.to_owned(), ByteString(vec![b'x'; 2 * LARGEST_VALUE]));
            secret
        };
        let small = with(1000);
        assert_eq!(slim(small.clone()), small);
        let slimmed = slim(with(LARGEST));
        assert_eq!(slimmed.data, stored(0).data);
        assert_eq!(plan(&wanted(0, true), Some(&slimmed), 8).step, SecretStep::Keep);
    }

    #[test]
    fn key_is_generated_once_and_kept() {
        let wanted = wanted(0, false);
        let made = plan(&wanted, None, 7);
        assert_eq!(made.step, SecretStep::Create);
        assert_eq!(made.value.expose(), "07".repeat(32).as_bytes());
        assert_eq!(made.secret.metadata.name.as_deref(), Some("acme-apikey-primary"));
        assert_eq!(made.event.unwrap().reason.as_str(), "SecretMade");
        let kept = plan(&wanted, Some(&stored(0)), 8);
        assert_eq!((kept.step, kept.event), (SecretStep::Keep, None));
        assert_eq!(kept.value, made.value);
    }

    #[test]
    fn deleted_secret_is_regenerated_with_a_warning() {
        let event = plan(&wanted(0, true), None, 7).event.unwrap();
        assert!(event.warning && event.reason.as_str() == "SecretRemade", "{event:?}");
    }

    #[test]
    fn raised_generation_replaces_the_value_on_that_version() {
        let rotated = plan(&wanted(1, true), Some(&stored(0)), 8);
        assert_eq!(rotated.step, SecretStep::Replace);
        assert_eq!(rotated.value.expose(), "08".repeat(32).as_bytes());
        assert_eq!(rotated.secret.metadata.resource_version.as_deref(), Some("5"));
        assert_eq!(plan(&wanted(0, true), Some(&stored(1)), 8).step, SecretStep::Keep);
    }

    #[test]
    fn value_of_a_user_counts_if_it_is_a_key() {
        let mut secret = stored(0);
        let other = "ab".repeat(16);
        secret.data.as_mut().unwrap().insert(API_KEY.into(), ByteString(other.clone().into_bytes()));
        let kept = plan(&wanted(0, true), Some(&secret), 8);
        assert_eq!((kept.step, kept.value.expose()), (SecretStep::Keep, other.as_bytes()));
        secret.data.as_mut().unwrap().insert(API_KEY.into(), ByteString(b"secret".to_vec()));
        let repaired = plan(&wanted(0, true), Some(&secret), 8);
        assert_eq!(
            (repaired.step, repaired.event.unwrap().reason.as_str()),
            (SecretStep::Replace, "SecretRemade")
        );
    }

    #[test]
    fn lost_metadata_is_restored_without_a_new_value() {
        let mut secret = stored(0);
        secret.metadata.labels = None;
        let repaired = plan(&wanted(0, true), Some(&secret), 8);
        assert_eq!((repaired.step, repaired.event), (SecretStep::Replace, None));
        assert_eq!(repaired.value.expose(), "07".repeat(32).as_bytes());
    }

    #[test]
    fn labels_and_keys_of_users_stay() {
        let mut secret = stored(0);
        secret.metadata.labels.as_mut().unwrap().insert("team".into(), "a".into());
        secret.data.as_mut().unwrap().insert("note".into(), ByteString(b"n".to_vec()));
        assert_eq!(plan(&wanted(0, true), Some(&secret), 8).step, SecretStep::Keep);
        let rotated = plan(&wanted(1, true), Some(&secret), 8).secret;
        assert_eq!(rotated.metadata.labels.unwrap()["team"], "a");
        assert_eq!(rotated.data.unwrap()["note"].0, b"n");
        assert_eq!(rotated.metadata.owner_references.unwrap().len(), 1);
    }

    fn webhook(namespace: &str, spec: &str) -> Arc<Declared<Webhook>> {
        let object = format!(
            "{{metadata: {{name: orders, namespace: {namespace}, uid: uid-w}}, spec: {{tenantRef: {{name: acme}}, \
             customerCode: C, targetURL: 'https://h/', events: [order.created], {spec}}}}}"
        );
        Declared::<Webhook>::read(serde_saphyr::from_str(&object).unwrap()).unwrap()
    }

    #[test]
    fn next_signing_secret_is_kept_then_promoted_or_dropped() {
        let tenant = declared().meta.clone();
        let plan = |spec: &str, found: Option<&Secret>, byte: u8| {
            let wanted =
                of_webhook(&tenant, &webhook("tenants", &format!("generateSecret: {{{spec}}}")), true);
            wanted.unwrap().plan(found, None, &tenant, NOW, &mut |bytes| bytes.fill(byte)).unwrap()
        };
        let filled = |byte: &str| SecretBytes::from(byte.repeat(32).into_bytes());
        let first = plan("", None, 1).secret;
        let made = plan("next: true", Some(&first), 2);
        assert_eq!(
            (made.step, &made.value, &made.next),
            (SecretStep::Replace, &filled("01"), &Some(filled("02")))
        );
        assert_eq!(made.event.unwrap().reason.as_str(), "SecretMade");
        let kept = plan("next: true", Some(&made.secret), 3);
        assert_eq!((kept.step, kept.event, kept.next), (SecretStep::Keep, None, Some(filled("02"))));

        let promoted = plan("rotationGeneration: 1", Some(&made.secret), 3);
        assert_eq!((promoted.value, promoted.next), (filled("02"), None));
        assert!(!promoted.secret.data.unwrap().contains_key(NEXT_SECRET));
        let again = plan("rotationGeneration: 1, next: true", Some(&made.secret), 3);
        assert_eq!((again.value, again.next), (filled("02"), Some(filled("03"))));

        let dropped = plan("", Some(&made.secret), 3);
        assert_eq!((dropped.step, dropped.value, dropped.next), (SecretStep::Replace, filled("01"), None));
        assert!(!dropped.secret.data.unwrap().contains_key(NEXT_SECRET));
    }

    #[test]
    fn secret_of_another_customers_webhook_signs_for_no_one() {
        let tenant = declared().meta.clone();
        let plan = |customer: &str, found: Option<&Secret>, byte: u8| {
            let mut webhook = webhook("tenants", "generateSecret: {next: true}");
            let declared = Arc::make_mut(&mut webhook);
            declared.document.as_mut().unwrap().spec.customer_code = customer.to_owned();
            let wanted = of_webhook(&tenant, &webhook, true).unwrap();
            let current = found.and_then(|found| wanted.value(found, &tenant));
            (wanted.plan(found, None, &tenant, NOW, &mut |bytes| bytes.fill(byte)).unwrap(), current)
        };
        let first = plan("C-1", None, 1).0.secret;
        let (kept, current) = plan("C-1", Some(&first), 2);
        assert_eq!(
            (kept.step, current.as_ref()),
            (SecretStep::Keep, Some(&kept.value)),
            "also after a restore"
        );
        let (other, current) = plan("C-2", Some(&first), 2);
        assert_eq!((other.step, current), (SecretStep::Replace, None));
        let made = SecretBytes::from("02".repeat(32).into_bytes());
        assert_eq!((&other.value, &other.next), (&made, &Some(made.clone())));
        let event = other.event.unwrap();
        assert!(event.warning && event.note.contains("was made for another customer"), "{event:?}");
    }

    /// A Webhook with a generated secret, as it is declared by a customer.
    fn generating(uid: &str, customer: &str, spec: &str) -> Arc<Declared<Webhook>> {
        let mut webhook = webhook("tenants", &format!("generateSecret: {{{spec}}}"));
        let declared = Arc::make_mut(&mut webhook);
        declared.meta.uid = uid.to_owned();
        declared.document.as_mut().unwrap().spec.customer_code = customer.to_owned();
        webhook
    }

    fn plan_for(
        tenant: &Meta,
        webhook: &Declared<Webhook>,
        found: Option<&Secret>,
        aside: Option<&Secret>,
        byte: u8,
    ) -> PlannedSecret {
        let wanted = of_webhook(tenant, webhook, false).unwrap();
        wanted.plan(found, aside, tenant, NOW, &mut |bytes| bytes.fill(byte)).unwrap()
    }

    fn owners(secret: &Secret) -> Vec<&str> {
        secret.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str()).collect()
    }

    #[test]
    fn recreated_webhook_signs_with_the_kept_values_and_says_so() {
        let tenant = declared().meta.clone();
        let spec = "rotationGeneration: 2, next: true";
        let made = plan_for(&tenant, &generating("1", "C-1", spec), None, None, 1);
        let unused = kept::marked(made.secret.clone(), Some(NOW)).unwrap();
        let again = generating("2", "C-1", spec);
        let taken = plan_for(&tenant, &again, Some(&unused), None, 2);
        assert_eq!((taken.step, &taken.value, &taken.next), (SecretStep::Replace, &made.value, &made.next));
        assert_eq!(kept::mark_of(&taken.secret.metadata), None);
        assert_eq!(owners(&taken.secret), ["uid-acme", "2"], "the earlier Webhook is gone");
        let event = taken.event.unwrap();
        assert_eq!(event.reason.as_str(), "SecretKept");
        assert!(event.note.contains("was kept since 1970-01-01T00:00:00Z") && !event.warning, "{event:?}");
        let kept = plan_for(&tenant, &again, Some(&taken.secret), None, 3);
        assert_eq!((kept.step, kept.event, kept.set_aside), (SecretStep::Keep, None, None));
        // Before any pass has seen that it was gone.
        let quick = plan_for(&tenant, &again, Some(&made.secret), None, 2);
        assert_eq!((quick.step, quick.value, quick.event), (SecretStep::Replace, made.value, None));
    }

    #[test]
    fn generation_that_was_lowered_and_raised_again_rotates_nothing() {
        let tenant = declared().meta.clone();
        let plan = |generation: u8, found: Option<&Secret>| {
            let webhook = generating("1", "C-1", &format!("rotationGeneration: {generation}"));
            plan_for(&tenant, &webhook, found, None, generation)
        };
        let made = plan(2, None).secret;
        assert_eq!(plan(0, Some(&made)).step, SecretStep::Keep);
        let recreated = plan(0, kept::marked(made.clone(), Some(NOW)).as_ref()).secret;
        assert_eq!(plan(2, Some(&recreated)).step, SecretStep::Keep);
        assert_eq!(plan(3, Some(&recreated)).value.expose(), "03".repeat(32).as_bytes());
    }

    #[test]
    fn recreated_webhook_rotates_by_its_own_generation() {
        let tenant = declared().meta.clone();
        let plan = |uid: &str, spec: &str, found: Option<&Secret>, byte: u8| {
            plan_for(&tenant, &generating(uid, "C-1", spec), found, None, byte)
        };
        let made = plan("1", "rotationGeneration: 1", None, 1).secret;
        let again = plan("2", "", Some(&made), 2);
        assert_eq!(again.value.expose(), "01".repeat(32).as_bytes());
        let begun = plan("2", "next: true", Some(&again.secret), 3);
        let promoted = plan("2", "rotationGeneration: 1", Some(&begun.secret), 4);
        assert_eq!(promoted.value.expose(), "03".repeat(32).as_bytes());
        assert_eq!(promoted.event.unwrap().reason.as_str(), "SecretRotated");
    }

    #[test]
    fn secret_of_an_earlier_version_is_written_once() {
        let tenant = declared().meta.clone();
        let webhook = generating("1", "C-1", "");
        let mut earlier = plan_for(&tenant, &webhook, None, None, 1).secret;
        earlier.metadata.owner_references = Some(vec![kept::owner(Webhook::KIND, "orders", "1")]);
        let adopted = plan_for(&tenant, &webhook, Some(&earlier), None, 2);
        assert_eq!((adopted.step, &adopted.event), (SecretStep::Replace, &None));
        assert_eq!(adopted.secret.data, earlier.data);
        assert_eq!(owners(&adopted.secret), ["1", "uid-acme"]);
        assert_eq!(plan_for(&tenant, &webhook, Some(&adopted.secret), None, 3).step, SecretStep::Keep);
    }

    #[test]
    fn value_of_an_earlier_customer_is_set_aside_and_comes_back_to_that_customer_alone() {
        let tenant = declared().meta.clone();
        let (one, two) = (generating("1", "C-1", "next: true"), generating("2", "C-2", "next: true"));
        let first = plan_for(&tenant, &one, None, None, 1);
        let second = plan_for(&tenant, &two, Some(&first.secret), None, 2);
        let aside = second.set_aside.unwrap();
        let name = of_webhook(&tenant, &one, false).unwrap().aside(&tenant).unwrap();
        assert_eq!(aside.metadata.name.as_ref(), Some(&name.name));
        assert_eq!(second.value.expose(), "02".repeat(32).as_bytes());

        let back =
            plan_for(&tenant, &generating("3", "C-1", "next: true"), Some(&second.secret), Some(&aside), 3);
        assert_eq!((back.step, &back.value, &back.next), (SecretStep::Replace, &first.value, &first.next));
        assert!(back.ends_aside && !first.ends_aside && !second.ends_aside);
        assert_eq!(back.event.unwrap().reason.as_str(), "SecretKept");
        let kept = back.set_aside.unwrap();
        assert_eq!(kept.metadata.annotations.unwrap()[labels::CUSTOMER], "C-2");
        assert_eq!(value_at(&second.secret, SIGNING_SECRET).unwrap().as_bytes(), second.value.expose());
        // Where the Secret itself is gone, and to no one else.
        let alone = plan_for(&tenant, &one, None, Some(&aside), 4);
        assert_eq!((alone.step, &alone.value), (SecretStep::Create, &first.value));
        assert_eq!(alone.secret.metadata.name.as_deref(), Some("orders.signing-secret"));
        let other = plan_for(&tenant, &generating("4", "C-3", ""), None, Some(&aside), 4);
        assert_eq!((other.value.expose(), other.ends_aside), ("04".repeat(32).as_bytes(), false));
    }

    /// The operator may die after it has written the Webhook's own Secret, and before it deletes the copy.
    #[test]
    fn copy_that_outlived_its_return_ends_before_it_can_return_again() {
        let tenant = declared().meta.clone();
        let webhook = generating("1", "C-1", "next: true");
        let first = plan_for(&tenant, &webhook, None, None, 1).secret;
        let aside = plan_for(&tenant, &generating("2", "C-2", ""), Some(&first), None, 2).set_aside;
        let back = plan_for(&tenant, &webhook, None, aside.as_ref(), 3).secret;
        let again = plan_for(&tenant, &webhook, Some(&back), aside.as_ref(), 4);
        assert_eq!((again.step, again.ends_aside), (SecretStep::Keep, true));
        let rotating = generating("1", "C-1", "rotationGeneration: 1, next: true");
        let rotated = plan_for(&tenant, &rotating, Some(&back), aside.as_ref(), 4);
        assert_eq!((rotated.step, rotated.ends_aside), (SecretStep::Replace, true));
    }

    #[test]
    fn value_of_another_tenants_webhook_is_set_aside_for_that_tenant() {
        let acme = declared().meta.clone();
        let beta = Meta { name: Name::new("tenants", "beta"), uid: "uid-beta".into(), ..acme.clone() };
        let webhook = generating("1", "C-1", "");
        let first = plan_for(&acme, &webhook, None, None, 1);
        let theirs = plan_for(&beta, &webhook, Some(&first.secret), None, 2);
        assert_eq!((theirs.step, theirs.value.expose()), (SecretStep::Replace, "02".repeat(32).as_bytes()));
        assert_eq!(owners(&theirs.secret), ["1", "uid-beta"]);
        let event = theirs.event.unwrap();
        assert!(event.warning && event.note.contains("was made for another Tenant"), "{event:?}");
        let aside = theirs.set_aside.unwrap();
        assert_eq!(owners(&aside), ["uid-acme"]);
        let back = plan_for(&acme, &webhook, Some(&theirs.secret), Some(&aside), 3);
        assert_eq!(back.value, first.value);
        let not_theirs = plan_for(&beta, &webhook, None, Some(&aside), 4);
        assert_eq!(not_theirs.value.expose(), "04".repeat(32).as_bytes());
    }

    #[test]
    fn signing_secret_belongs_to_its_webhook_in_the_tenants_namespace() {
        let tenant = declared().meta.clone();
        let of = |webhook: &Declared<Webhook>| of_webhook(&tenant, webhook, false);
        let wanted = of(&webhook("tenants", "generateSecret: {}")).unwrap();
        let made = wanted.plan(None, None, &tenant, NOW, &mut |bytes| bytes.fill(7)).unwrap();
        assert_eq!(made.secret.metadata.name.as_deref(), Some("orders.signing-secret"));
        assert_eq!(made.secret.data.unwrap()[SIGNING_SECRET].0, "07".repeat(32).as_bytes());
        assert_eq!(made.secret.metadata.labels.unwrap()[labels::TENANT_UID], tenant.uid);
        let owners = made.secret.metadata.owner_references.unwrap();
        let owners: Vec<_> = owners.iter().map(|owner| (owner.kind.as_str(), owner.uid.as_str())).collect();
        assert_eq!(owners, [("Webhook", "uid-w"), ("Tenant", "uid-acme")]);
        for nothing in [
            webhook("elsewhere", "generateSecret: {}"),
            webhook("tenants", "active: true"),
            webhook("tenants", "generateSecret: {}, secretRef: {name: s}"),
        ] {
            assert!(of(&nothing).is_none(), "{nothing:?}");
        }
    }

    #[test]
    fn secret_of_a_user_in_the_place_of_a_kept_one_is_named() {
        let tenant = declared().meta.clone();
        let first = plan_for(&tenant, &generating("1", "C-1", ""), None, None, 1);
        let two = generating("2", "C-2", "");
        let kept = plan_for(&tenant, &two, Some(&first.secret), None, 2).set_aside.unwrap();
        let reason = of_webhook(&tenant, &two, false).unwrap().is_not_set_aside(&kept).to_string();
        let name = kept.metadata.name.unwrap();
        let beginning = format!("SecretInvalid: spec.generateSecret: Secret tenants/{name} exists and ");
        assert!(
            reason.starts_with(&beginning) && reason.ends_with("another name for the Webhook"),
            "{reason}"
        );
    }

    #[test]
    fn foreign_secret_is_not_touched() {
        let mut secret = stored(0);
        secret.metadata.labels = None;
        secret.metadata.owner_references = None;
        let (wanted, meta) = wanted(0, false);
        let reason = wanted.plan(Some(&secret), None, &meta, NOW, &mut |_| {}).unwrap_err();
        assert_eq!(
            reason.to_string(),
            "SecretInvalid: spec.apiKeys[0].generate: Secret tenants/acme-apikey-primary exists and was not created for \
             this Tenant; remove it, or choose another name"
        );
        assert!(wanted.value(&secret, &meta).is_none());
    }
}
