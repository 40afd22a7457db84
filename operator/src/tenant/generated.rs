//! Secrets with generated values: API keys, Webhooks' signing secrets and the database's password. Pure: `provision`
//! writes what `plan` plans.
//!
//! A value is generated once. It stays valid until its rotation generation is raised or its Secret is deleted, which
//! is a rotation too.

mod plan;
#[cfg(test)]
mod tests;

use docket_crds::tenant::ApiKeySpec;
use docket_crds::{ApiKeyDigest, SecretBytes, Tenant, Webhook};
use k8s_openapi::api::core::v1::Secret;
pub use plan::{PlannedSecret, SecretStep};

use crate::database::role_of;
use crate::state::declared::{Declared, Meta};
use crate::state::labels;
use crate::state::name::Name;
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

    /// The name of the Secret that was set aside for the Webhook, if there is one.
    pub fn aside(&self, tenant: &Meta) -> Option<Name> {
        let webhook = self.webhook.as_ref()?;
        Some(kept::aside(&tenant.name, &webhook.meta.name.name, &webhook.customer))
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

/// Generates a random value: 64 hexadecimal digits.
pub fn make(random: Random<'_>) -> SecretBytes {
    let mut bytes = [0; VALUE_BYTES];
    random(&mut bytes);
    hex::encode(bytes).into_bytes().into()
}
