//! The compile step: a Tenant, its Webhooks and the values they refer to become what the data plane serves.
//!
//! Pure: the operator calls it with a cluster's objects, `docket-source` with files. A broken object never affects
//! other objects: a webhook or key that can't be resolved is left out, and the result says why.

mod authority;
mod conflicts;
mod last_good;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

pub use authority::ca_bundle_warning;
pub use conflicts::{claimed, claimed_by, duplicates, taken};
pub use resolve::external_database_url;

use crate::conditions::ReasonCode;
use crate::tenant::{ApiKeySpec, NamespacesFrom};
use crate::{
    ApiKey, ClientCode, DatabaseUrl, EventCode, Limit, Limits, PlatformLimits, PortalLook, Reason,
    SecretBytes, SigningKey, Tenant, TenantConfig, Tokens, ValueKind, Webhook, WebhookConfig,
};

/// The limit for the certificates of one `caBundleRef`, in bytes.
pub const MAX_CA_BUNDLE: usize = 64 * 1024;
/// The limit for a value of a Secret or ConfigMap, in bytes. The comments of a CA bundle count. A larger value is not read.
pub const MAX_VALUE: usize = 128 * 1024;

/// Everything that a tenant's configuration is compiled from.
pub struct Inputs<'a> {
    /// The Tenant.
    pub tenant: &'a Tenant,
    /// The Tenant's uid.
    pub uid: &'a str,
    /// The Webhooks with their uids. Webhooks that name other Tenants are ignored.
    pub webhooks: &'a [(String, Webhook)],
    /// Webhooks that stay served although they can't be read now. Each counts for the limits, like the Webhooks in `webhooks`.
    pub unreadable: &'a [&'a WebhookConfig],
    /// Where Secrets and ConfigMaps are looked up.
    pub values: &'a dyn Values,
    /// Generated values, which no object declares.
    pub generated: &'a Generated,
    /// Events that are disabled for every tenant.
    pub platform_disabled_events: &'a BTreeSet<EventCode>,
    /// The platform's defaults and maxima for limits.
    pub platform_limits: &'a PlatformLimits,
    /// Returns when the Webhook of a uid was created, in seconds since 1970.
    pub created_at: &'a dyn Fn(&str) -> i64,
    /// Returns the labels of a namespace. It is called only if `allowedNamespaces` has a selector.
    pub namespace_labels: &'a dyn Fn(&str) -> BTreeMap<String, String>,
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("uid", &self.uid).finish_non_exhaustive()
    }
}

/// Looks up referenced values, in a cluster or in the documents of a folder.
pub trait Values {
    /// Returns the bytes (not base64) of a key of a Secret or ConfigMap. Errors: the object or its key does not
    /// exist, or the value is too large.
    fn get(&self, kind: ValueKind, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Missing>;
}

/// Why [`Values::get`] returns no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The object does not exist.
    #[error("the object does not exist")]
    NotFound,
    /// The object has no such key.
    #[error("the object has no such key")]
    KeyNotFound,
    /// The value has more than [`MAX_VALUE`] bytes.
    #[error("the value has more than {MAX_VALUE} bytes")]
    TooLarge,
}

/// Values that are generated for a tenant, and its database's location.
#[derive(Clone, Default)]
pub struct Generated {
    /// API keys with `generate`, by name: at least 32 hexadecimal digits.
    pub api_keys: BTreeMap<String, String>,
    /// Signing secrets of Webhooks with `generateSecret`, by the Webhook's uid; or why a secret could not be generated.
    pub webhook_secrets: BTreeMap<String, Result<SigningSecrets, Reason>>,
    /// Keys for session tokens; the first key signs.
    pub signing_keys: Vec<SigningKey>,
    /// Where the tenant's data is.
    pub database: GeneratedDatabase,
    /// The URL of the watcher of the database's server, if the server has a watcher.
    pub watcher: Option<DatabaseUrl>,
}

/// The secrets that sign a Webhook's deliveries, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningSecrets {
    /// Signs every delivery.
    pub current: SecretBytes,
    /// Signs beside `current` and later replaces it; `None`: there is no next secret.
    pub next: Option<SecretBytes>,
}

/// Where a tenant's data is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GeneratedDatabase {
    /// The data is in a file per tenant; the spec is ignored.
    #[default]
    Embedded,
    /// The data is on PostgreSQL, at the URL in the Secret of `spec.database.external`. Managed databases are not possible.
    Declared,
    /// The data is on PostgreSQL, at this URL, which the operator has prepared; `None`: the database is not prepared yet.
    Ensured(Option<DatabaseUrl>),
}

impl fmt::Debug for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_keys, webhook_secrets, signing_keys, database, watcher } = self;
        f.debug_struct("Generated")
            .field("api_keys", &api_keys.keys())
            .field("webhook_secrets", &webhook_secrets.keys())
            .field("signing_keys", signing_keys)
            .field("database", database)
            .field("watcher", watcher)
            .finish()
    }
}

/// The result of the compile step.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// What to serve, or why nothing can be served.
    pub config: Result<TenantConfig, Vec<Reason>>,
    /// The problems of a tenant that is served nevertheless: keys that could not be resolved, limits above the platform's.
    pub degraded: Vec<Reason>,
    /// Each webhook that names this Tenant, by its index in the input, with the reasons why it is not in the
    /// configuration. A webhook without reasons is in the configuration.
    pub webhooks: Vec<(usize, Vec<Reason>)>,
}

/// Compiles one Tenant.
pub fn compile(inputs: &Inputs<'_>) -> Compilation {
    let (limits, above) = inputs.platform_limits.resolve(&inputs.tenant.spec.limits);
    let (served, webhooks) = compile_webhooks(inputs, &limits);
    let (api_keys, mut degraded) = compile_api_keys(inputs);
    degraded.extend(above);
    match compile_tenant(inputs, api_keys, limits, served) {
        Ok(config) => Compilation { config: Ok(config), degraded, webhooks },
        Err(mut reasons) => {
            reasons.extend(degraded);
            Compilation { config: Err(reasons), degraded: Vec::new(), webhooks }
        }
    }
}

fn compile_tenant(
    inputs: &Inputs<'_>,
    api_keys: Vec<ApiKey>,
    limits: Limits,
    webhooks: Vec<WebhookConfig>,
) -> Result<TenantConfig, Vec<Reason>> {
    let mut reasons: Vec<Reason> = inputs.tenant.validate().into_iter().map(Reason::from).collect();
    if inputs.generated.signing_keys.is_empty() {
        let message = "the key for session tokens is not generated yet";
        reasons.push(Reason::new(ReasonCode::Pending, "spec.tokens", message));
    }
    let database = resolve::database(inputs).map_err(|reason| reasons.push(reason)).ok();
    let Tenant { metadata, spec } = inputs.tenant;
    // A code that does not parse is already among the violations.
    let client_code = spec.client_code.parse::<ClientCode>().ok();
    let (Some(client_code), Some(database), true) = (client_code, database, reasons.is_empty()) else {
        return Err(reasons);
    };
    Ok(TenantConfig {
        uid: inputs.uid.into(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        display_name: spec.display_name.clone(),
        client_code,
        subdomains: spec.subdomains.clone(),
        suspended: spec.suspend,
        api_keys,
        tokens: Tokens {
            lifetime_minutes: spec.tokens.lifetime_minutes,
            signing_keys: inputs.generated.signing_keys.clone(),
        },
        database_is_external: database.is_some() && spec.database.external.is_some(),
        database,
        watcher: inputs.generated.watcher.clone(),
        active_events: active_events(inputs),
        limits,
        portal: PortalLook { color: spec.portal.color.clone(), logo: spec.portal.logo.clone() },
        webhooks,
    })
}

fn active_events(inputs: &Inputs<'_>) -> BTreeSet<EventCode> {
    let disabled = &inputs.tenant.spec.webhooks.disabled_events;
    let on = |code: &EventCode| !disabled.contains(code) && !inputs.platform_disabled_events.contains(code);
    EventCode::ALL.into_iter().filter(on).collect()
}

/// The keys that could be resolved, and the reasons why the other keys could not.
fn compile_api_keys(inputs: &Inputs<'_>) -> (Vec<ApiKey>, Vec<Reason>) {
    let mut keys: Vec<ApiKey> = Vec::with_capacity(inputs.tenant.spec.api_keys.len());
    let mut reasons = Vec::new();
    for (index, spec) in inputs.tenant.spec.api_keys.iter().enumerate() {
        let field = format!("spec.apiKeys[{index}]");
        match compile_api_key(inputs, spec, &field, &keys) {
            Ok(key) => keys.push(key),
            // An inactive key gets 401 even if it is unknown. So a user may delete its Secret before its entry.
            Err(reason) if spec.active => reasons.push(reason),
            Err(_) => {}
        }
    }
    (keys, reasons)
}

fn compile_api_key(
    inputs: &Inputs<'_>,
    spec: &ApiKeySpec,
    field: &str,
    earlier: &[ApiKey],
) -> Result<ApiKey, Reason> {
    let digest = resolve::api_key(inputs, spec, field)?;
    if let Some(same) = earlier.iter().find(|key| key.digest == digest) {
        let message = format!("this is the same key as {:?}; give each entry its own", same.name);
        return Err(Reason::new(ReasonCode::SecretInvalid, field, message));
    }
    Ok(ApiKey { name: spec.name.clone(), digest, active: spec.active, version: spec.version })
}

/// The webhooks to serve, and each webhook that names this Tenant with its reasons.
fn compile_webhooks(inputs: &Inputs<'_>, limits: &Limits) -> (Vec<WebhookConfig>, Vec<(usize, Vec<Reason>)>) {
    let mut served = Vec::new();
    let mut reasons_of = Vec::new();
    let beyond = places(inputs.tenant, limits, candidates(inputs)).beyond;
    for (index, (uid, webhook)) in inputs.webhooks.iter().enumerate() {
        if !names(webhook, inputs.tenant) {
            continue;
        }
        let compiled = match beyond.get(uid.as_str()) {
            Some(reason) => Err(vec![reason.clone()]),
            None => compile_webhook(inputs, uid, webhook),
        };
        let reasons = match compiled {
            Ok(config) => {
                served.push(config);
                Vec::new()
            }
            Err(reasons) => reasons,
        };
        reasons_of.push((index, reasons));
    }
    // A process keeps one vector per tenant, for perhaps a thousand tenants with one webhook each. A new vector has
    // room for four webhooks.
    served.shrink_to_fit();
    (served, reasons_of)
}

/// A Webhook that a Tenant allows, with the values by which [`places`] orders Webhooks.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The Webhook's uid.
    pub uid: &'a str,
    /// The Webhook's namespace.
    pub namespace: &'a str,
    /// When the Webhook was created, in seconds since 1970.
    pub created_at: i64,
}

/// Which of the allowed Webhooks a Tenant takes.
#[derive(Debug, Default)]
pub struct WebhookSelection<'a> {
    /// The uids of those that it takes, in order.
    pub taken: Vec<&'a str>,
    /// The Webhooks beyond the Tenant's limits, by uid, with the reason.
    pub beyond: HashMap<&'a str, Reason>,
}

fn candidates<'a>(inputs: &Inputs<'a>) -> impl Iterator<Item = Candidate<'a>> {
    let allowed = inputs.webhooks.iter().filter(|(_, webhook)| {
        names(webhook, inputs.tenant)
            && allows(inputs.tenant, &webhook.metadata.namespace, inputs.namespace_labels)
    });
    let readable = allowed.map(|(uid, webhook)| (uid.as_str(), webhook.metadata.namespace.as_str()));
    let unreadable =
        inputs.unreadable.iter().map(|webhook| (webhook.uid.as_str(), webhook.namespace.as_str()));
    let created_at = inputs.created_at;
    let all = readable.chain(unreadable);
    all.map(move |(uid, namespace)| Candidate { uid, namespace, created_at: created_at(uid) })
}

/// Decides which Webhooks a Tenant takes. Webhooks of the Tenant's own namespace come before Webhooks of other
/// namespaces; in each group the oldest come first. No value of a Secret or ConfigMap matters, so a caller need not
/// read the values of Webhooks that the Tenant does not take.
pub fn places<'a>(
    tenant: &Tenant,
    limits: &Limits,
    candidates: impl Iterator<Item = Candidate<'a>>,
) -> WebhookSelection<'a> {
    let is_foreign = |candidate: &Candidate<'_>| candidate.namespace != tenant.metadata.namespace;
    let mut all: Vec<Candidate<'a>> = candidates.collect();
    all.sort_by_key(|candidate| (is_foreign(candidate), candidate.created_at, candidate.uid));
    let (mut places, mut taken_foreign) = (WebhookSelection::default(), 0);
    for candidate in all {
        let (uid, is_foreign) = (candidate.uid, is_foreign(&candidate));
        if is_foreign && taken_foreign == limits.foreign_webhooks {
            places.beyond.insert(uid, beyond(Limit::ForeignWebhooks, limits, "Webhooks of other namespaces"));
        } else if places.taken.len() == limits.webhooks as usize {
            places.beyond.insert(uid, beyond(Limit::Webhooks, limits, "Webhooks"));
        } else {
            places.taken.push(uid);
            taken_foreign += u32::from(is_foreign);
        }
    }
    places
}

fn beyond(limit: Limit, limits: &Limits, what: &str) -> Reason {
    let most = limits.get(limit);
    let message = format!(
        "the Tenant takes {most} {what}, and as many that come first name it; delete one of them, or raise the Tenant's \
         spec.limits.{limit}, as far as the platform allows"
    );
    Reason::new(ReasonCode::TooManyWebhooks, "spec.tenantRef", message)
}

fn names(webhook: &Webhook, tenant: &Tenant) -> bool {
    webhook.spec.tenant_ref.name == tenant.metadata.name
        && webhook.tenant_namespace() == tenant.metadata.namespace
}

fn compile_webhook(inputs: &Inputs<'_>, uid: &str, webhook: &Webhook) -> Result<WebhookConfig, Vec<Reason>> {
    // Checked first and reported alone: a webhook that may not name this Tenant must find out nothing else about it.
    if !allows(inputs.tenant, &webhook.metadata.namespace, inputs.namespace_labels) {
        return Err(vec![unreachable_tenant(webhook)]);
    }
    let mut reasons: Vec<Reason> = webhook.validate().into_iter().map(Reason::from).collect();
    let secrets = resolve::signing_secrets(inputs, uid, webhook).map_err(|reason| reasons.push(reason)).ok();
    let ca_bundle = resolve::ca_bundle(inputs.values, webhook).map_err(|reason| reasons.push(reason)).ok();
    let Webhook { metadata, spec } = webhook;
    // A field that does not parse is already among the violations.
    let customer_code = spec.customer_code.parse().ok();
    let target_url = spec.target_url.parse().ok();
    let (Some(customer_code), Some(target_url), Some(secrets), Some(ca_bundle), true) =
        (customer_code, target_url, secrets, ca_bundle, reasons.is_empty())
    else {
        return Err(reasons);
    };
    let (secret, next_secret) = secrets.map_or((None, None), |secrets| (Some(secrets.current), secrets.next));
    Ok(WebhookConfig {
        uid: uid.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        display_name: spec.display_name.clone(),
        customer_code,
        target_url,
        secret,
        next_secret,
        ca_bundle,
        events: spec.events.iter().copied().collect(),
        active: spec.active,
    })
}

/// Whether Webhooks of `namespace` may name the Tenant. The Tenant's own namespace always may: a user who writes
/// there can change the Tenant as well. `labels` returns the labels of a namespace; it is called only if
/// `allowedNamespaces` has a selector.
pub fn allows(tenant: &Tenant, namespace: &str, labels: &dyn Fn(&str) -> BTreeMap<String, String>) -> bool {
    let allowed = &tenant.spec.webhooks.allowed_namespaces;
    let selected = || allowed.selector.as_ref().is_some_and(|selector| selector.matches(&labels(namespace)));
    namespace == tenant.metadata.namespace
        || match allowed.from {
            NamespacesFrom::Same => false,
            NamespacesFrom::All => true,
            NamespacesFrom::Selector => selected(),
        }
}

/// The reason of a webhook whose Tenant does not exist or does not allow it. For a Tenant in another namespace, the
/// reason does not reveal which of the two it is. Callers use it for webhooks whose Tenant they do not find.
pub fn unreachable_tenant(webhook: &Webhook) -> Reason {
    let (name, namespace) = (&webhook.spec.tenant_ref.name, webhook.tenant_namespace());
    let own = &webhook.metadata.namespace;
    if namespace == own {
        let message = format!("there is no Tenant {name:?} in namespace {namespace:?}");
        return Reason::new(ReasonCode::TenantNotFound, "spec.tenantRef", message);
    }
    let message = format!(
        "there is no Tenant {name:?} in namespace {namespace:?}, or its spec.webhooks.allowedNamespaces does not \
         include {own:?}"
    );
    Reason::new(ReasonCode::RefNotPermitted, "spec.tenantRef", message)
}

#[cfg(test)]
mod tests;
