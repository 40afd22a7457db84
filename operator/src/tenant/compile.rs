//! Pure: compiles what was fetched and provisioned into the configuration for the data plane, and into what the
//! statuses report.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use docket_crds::compile::{self, Compilation, compile as compile_tenant};
use docket_crds::{
    ApiKeyDigest, Generated, GeneratedDatabase, Inputs, Reason, ReasonCode, Runtime, SecretBytes, SigningKey,
    Tenant, TenantConfig, ValueKind, Violation, Webhook, WebhookConfig, kept, webhook_key,
};
use jiff::Timestamp;

use crate::context::Settings;
use crate::state::declared::{Declared, Meta};
use crate::state::name::Name;
use crate::state::outcome::WebhookOutcome;
use crate::tenant::database::ProvisionedDatabase;
use crate::tenant::fetch::Fetched;
use crate::tenant::provision::Provisioned;
use crate::tenant::room::ROOM;
use crate::tenant::signing::KnownKey;
use crate::tenant::stored::Memory;

/// The limit for a tenant's configuration, in bytes. A Secret has room for 1,048,576 bytes, including the operator's own data.
const LARGEST: usize = 1_000_000;
/// The bytes that a webhook on hold takes beside its key: its uid, twice, and the JSON around them.
const HELD: usize = 90;
/// The most bytes of the names of Webhooks that are missing. The Secret has room for them beside the configuration.
const MISSING: usize = 24 * 1024;
/// The bytes that such a Webhook takes beside its name: the time, and what is around both.
const MARK: usize = 40;

/// The result of compiling a Tenant.
#[derive(Debug)]
pub struct Compiled<'a> {
    /// The provisioned Tenant that was compiled.
    pub provisioned: Provisioned<'a>,
    /// The runtime Secret's content; `None`: there is nothing to serve.
    pub runtime: Option<(Runtime, Memory)>,
    /// All problems of the Tenant, even if it is served.
    pub reasons: Vec<Reason>,
    /// The outcome for each Webhook that names the tenant.
    pub webhooks: Vec<WebhookOutcome>,
}

/// Compiles a Tenant. If the Tenant can't be read, the served configuration stays, and nothing is reported about its
/// Webhooks. `claim` records the Tenant's API keys, and returns the keys that belong to an earlier Tenant.
pub fn compile<'a>(
    provisioned: Provisioned<'a>,
    settings: &Settings,
    now: Timestamp,
    claim: impl FnOnce(HashSet<ApiKeyDigest>) -> HashSet<ApiKeyDigest>,
) -> Compiled<'a> {
    let Some(tenant) = provisioned.tenant else {
        let reasons = provisioned.refused.clone();
        return Compiled { provisioned, runtime: None, reasons, webhooks: Vec::new() };
    };
    let mut compiled = of_readable(provisioned, tenant, settings, now);
    let keys = compiled.runtime.iter().flat_map(|(runtime, _)| &runtime.config.api_keys);
    let taken = claim(keys.map(|key| key.digest).collect());
    compiled.without_keys(tenant, &taken);
    compiled
}

fn of_readable<'a>(
    provisioned: Provisioned<'a>,
    tenant: &Tenant,
    settings: &Settings,
    now: Timestamp,
) -> Compiled<'a> {
    let (fetched, meta) = (provisioned.fetched, provisioned.fetched.subject.meta());
    let stored = provisioned.stored();
    let previous = stored.and_then(|stored| stored.config());
    let previous = previous.map(|config| without_subdomains(config, &provisioned.lost_subdomains));
    let readable: Vec<(&Declared<Webhook>, (String, Webhook))> = fetched
        .subject
        .webhooks
        .iter()
        .filter_map(|declared| {
            let document = declared.document.as_ref().ok()?;
            Some((&**declared, (declared.meta.uid.clone(), document.clone())))
        })
        .collect();
    let webhooks: Vec<_> = readable.iter().map(|(_, webhook)| webhook.clone()).collect();
    let created: HashMap<&str, i64> =
        readable.iter().map(|(one, _)| (one.meta.uid.as_str(), one.meta.created.as_second())).collect();
    // A Webhook that can't be read was served before, so it counts as the oldest.
    let created_at = |uid: &str| created.get(uid).copied().unwrap_or_default();
    let compiled = compilation(&provisioned, tenant, &webhooks, &created_at, settings, previous.as_ref());
    let reasons = reasons(&provisioned, &compiled);
    let Compilation { config, webhooks: decided, .. } = compiled;
    let mut config = config.ok();
    let too_large = config.as_mut().map(|config| fitted(config, previous.as_ref(), fetched, &created_at));
    let too_large = too_large.unwrap_or_default();
    let outcomes = decided.into_iter().map(|(index, mut reasons)| {
        let (declared, _) = readable[index];
        if fetched.without_room.contains(&declared.meta.uid) {
            reasons = vec![refers_to_too_much()];
        }
        reasons.extend(too_large.contains(&declared.meta.uid).then(no_room));
        let served = config.as_ref().is_some_and(|config| serves(config, &declared.meta.uid));
        outcome(declared, reasons, served, tenant.spec.suspend, fetched)
    });
    let webhooks: Vec<_> = outcomes.collect();
    let runtime = config.map(|config| {
        let held = held(fetched, tenant, &config, &webhooks);
        let faults = faults(fetched, tenant, &webhooks);
        let missing = missing(fetched, tenant, &config, settings, now);
        let runtime = Runtime::new(meta.generation, config, held);
        (with_faults(runtime, faults), memory(&provisioned, missing))
    });
    Compiled { provisioned, runtime, reasons, webhooks }
}

/// Compiles the Tenant with its readable Webhooks. What can't be compiled stays as it is in `previous`, the served configuration.
fn compilation(
    provisioned: &Provisioned<'_>,
    tenant: &Tenant,
    webhooks: &[(String, Webhook)],
    created_at: &dyn Fn(&str) -> i64,
    settings: &Settings,
    previous: Option<&TenantConfig>,
) -> Compilation {
    let fetched = provisioned.fetched;
    let inputs = Inputs {
        tenant,
        uid: &fetched.subject.meta().uid,
        webhooks,
        unreadable: &fetched.unreadable(),
        values: fetched,
        generated: &generated(provisioned, previous),
        platform_disabled_events: &settings.disabled_events,
        platform_limits: &settings.limits,
        created_at,
        namespace_labels: &|namespace| fetched.labels(namespace),
    };
    let mut compiled = compile_tenant(&inputs);
    if provisioned.refused.iter().any(|reason| reason.code != ReasonCode::InvalidSpec) {
        compiled.config = Err(provisioned.refused.clone());
    }
    match previous {
        Some(previous) => compiled.or_last_good(&inputs, previous),
        None => compiled,
    }
}

/// The reasons, each once: what could not be provisioned, what could not be compiled, and why the Tenant is refused.
fn reasons(provisioned: &Provisioned<'_>, compiled: &Compilation) -> Vec<Reason> {
    let mut reasons = provisioned.reasons.clone();
    for reason in compiled.config.as_ref().err().into_iter().flatten().chain(&compiled.degraded) {
        if !reasons.contains(reason) && !is_explained(reason, &reasons) {
            reasons.push(reason.clone());
        }
    }
    for reason in &provisioned.refused {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    reasons
}

/// Whether another reason about the same field says more: that a key is not generated yet says less than why it could not be.
fn is_explained(reason: &Reason, others: &[Reason]) -> bool {
    reason.code == ReasonCode::Pending && others.iter().any(|other| other.field == reason.field)
}

fn without_subdomains(previous: &TenantConfig, lost: &[String]) -> TenantConfig {
    let subdomains = previous.subdomains.iter().filter(|subdomain| !lost.contains(subdomain));
    TenantConfig { subdomains: subdomains.cloned().collect(), ..previous.clone() }
}

fn generated(provisioned: &Provisioned<'_>, previous: Option<&TenantConfig>) -> Generated {
    let text = |value: &SecretBytes| String::from_utf8_lossy(value.expose()).into_owned();
    let served = previous.and_then(|previous| previous.database.as_ref());
    let url = match (&provisioned.database, served) {
        (ProvisionedDatabase::Ready(_, url), _) => Some(url),
        // The previous password does not work any more, and the schema is unchanged.
        (ProvisionedDatabase::Failed(_, Some(url)), Some(served)) if url.is_same_database(served) => {
            Some(url)
        }
        // A database that was provisioned before is still served. `DatabaseReady` reports that it could not be checked.
        (ProvisionedDatabase::Failed(..) | ProvisionedDatabase::NotTried, served) => served,
    };
    let api_keys = provisioned.api_keys.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let signing_keys: Vec<SigningKey> =
        signing_keys(provisioned).iter().map(|known| known.key.clone()).collect();
    // If the watcher could not be checked, the last watcher stays, because its role stays.
    let watcher = provisioned.watcher.clone().or_else(|| previous?.watcher.clone());
    let webhook_secrets = provisioned.webhook_secrets.clone();
    let database = GeneratedDatabase::Ensured(url.cloned());
    Generated { api_keys, webhook_secrets, signing_keys, database, watcher }
}

fn signing_keys<'a>(provisioned: &'a Provisioned<'_>) -> &'a [KnownKey] {
    match (&provisioned.signing, provisioned.stored()) {
        (Some(rotated), _) => &rotated.keys,
        (None, Some(stored)) => &stored.memory.signing_keys,
        (None, None) => &[],
    }
}

fn memory(provisioned: &Provisioned<'_>, missing_webhooks: BTreeMap<String, Option<Timestamp>>) -> Memory {
    let database = match &provisioned.database {
        ProvisionedDatabase::Ready(ensured, _) => Some(ensured.clone()),
        ProvisionedDatabase::Failed(..) | ProvisionedDatabase::NotTried => {
            provisioned.stored().and_then(|stored| stored.memory.database.clone())
        }
    };
    let unknown = provisioned.stored().map(|stored| stored.memory.unknown.clone()).unwrap_or_default();
    Memory { signing_keys: signing_keys(provisioned).to_vec(), database, missing_webhooks, unknown }
}

fn serves(config: &TenantConfig, webhook_uid: &str) -> bool {
    config.webhooks.iter().any(|webhook| webhook.uid == webhook_uid)
}

/// The Webhooks that were served and whose objects exist but can't be read.
fn unreadable_webhooks(
    config: &TenantConfig,
    previous: &TenantConfig,
    fetched: &Fetched,
) -> Vec<WebhookConfig> {
    let gone = previous.webhooks.iter().filter(|webhook| !serves(config, &webhook.uid));
    gone.filter(|webhook| fetched.unreadable_webhooks.contains(&webhook.uid)).cloned().collect()
}

/// Adds to `config` the Webhooks that stay served although they can't be read. Leaves out Webhooks that refer to too much, and
/// Webhooks that do not fit into the Secret. Returns the uids of the latter.
fn fitted(
    config: &mut TenantConfig,
    previous: Option<&TenantConfig>,
    fetched: &Fetched,
    created_at: &dyn Fn(&str) -> i64,
) -> HashSet<String> {
    if let Some(previous) = previous {
        config.webhooks.extend(unreadable_webhooks(config, previous, fetched));
    }
    config.webhooks.retain(|webhook| !fetched.without_room.contains(&webhook.uid));
    let keys = fetched.subject.webhooks.iter().map(|webhook| serde_json::to_vec(&held_key(webhook)));
    let if_held = keys.map(|key| size(key) + HELD).sum();
    shortened(config, if_held, created_at)
}

/// Leaves out webhooks that do not fit into one Secret, so that the Secret can always be written: otherwise keys and
/// tenants that are switched off would stay served. Webhooks of the tenant's own namespace stay before webhooks of
/// other namespaces, and older webhooks before newer ones. `held`: the bytes to leave for webhooks on hold. Returns the uids of
/// the webhooks that were left out.
fn shortened(config: &mut TenantConfig, held: usize, created_at: &dyn Fn(&str) -> i64) -> HashSet<String> {
    let alone = TenantConfig { webhooks: Vec::new(), ..config.clone() };
    let mut room = LARGEST.saturating_sub(size(serde_json::to_vec(&alone)) + held);
    let mut order: Vec<&WebhookConfig> = config.webhooks.iter().collect();
    order.sort_by_cached_key(|webhook| {
        (webhook.namespace != config.namespace, created_at(&webhook.uid), webhook.uid.clone())
    });
    let mut left_out = HashSet::new();
    for webhook in order {
        match room.checked_sub(size(serde_json::to_vec(webhook)) + 1) {
            Some(rest) => room = rest,
            None => drop(left_out.insert(webhook.uid.clone())),
        }
    }
    config.webhooks.retain(|webhook| !left_out.contains(&webhook.uid));
    left_out
}

fn size(json: serde_json::Result<Vec<u8>>) -> usize {
    json.map_or(0, |json| json.len())
}

fn no_room() -> Reason {
    let message = format!(
        "the Tenant's configuration would have more than {LARGEST} bytes with this Webhook; shorten the CA bundles of its \
         Webhooks, or delete some"
    );
    Reason { code: ReasonCode::TooManyWebhooks, field: "spec.tenantRef".to_owned(), message }
}

fn refers_to_too_much() -> Reason {
    let message = format!(
        "this Webhook and those of the Tenant that come before it refer to more than {ROOM} bytes in Secrets and ConfigMaps; \
         shorten their CA bundles with their comments, or delete some"
    );
    Reason { code: ReasonCode::TooManyWebhooks, field: "spec.tenantRef".to_owned(), message }
}

/// The Webhooks that are declared and not served: their queued deliveries wait. A Webhook that the tenant does not allow or take is on
/// hold only if its uid or its name was served before. Otherwise strangers could fill the tenant's Secret. The name counts because a
/// Webhook may have been deleted and created again, with another pass in between.
fn held(
    fetched: &Fetched,
    tenant: &Tenant,
    config: &TenantConfig,
    outcomes: &[WebhookOutcome],
) -> BTreeMap<String, String> {
    let previous = fetched.stored.as_ref().and_then(|stored| stored.runtime.as_ref());
    let served = previous.iter().flat_map(|previous| &previous.config.webhooks);
    let on_hold = previous.iter().flat_map(|previous| previous.held().into_keys());
    let uids: HashSet<String> = served.map(|webhook| webhook.uid.clone()).chain(on_hold).collect();
    let mut names = names_before(fetched);
    names.extend(fetched.stored.iter().flat_map(|stored| stored.memory.missing_webhooks.keys().cloned()));
    let is_known = |meta: &Meta| uids.contains(&meta.uid) || names.contains(&meta.name.to_string());
    let forbidden = |meta: &Meta| {
        let outcome = outcomes.iter().find(|outcome| outcome.uid == meta.uid);
        let strange = [ReasonCode::RefNotPermitted, ReasonCode::TooManyWebhooks];
        // A Webhook that can't be read has no outcome.
        !compile::allows(tenant, &meta.name.namespace, &|namespace| fetched.labels(namespace))
            || outcome
                .is_some_and(|outcome| outcome.reasons.iter().any(|reason| strange.contains(&reason.code)))
    };
    let held = fetched.subject.webhooks.iter().filter(|declared| {
        let meta = &declared.meta;
        !serves(config, &meta.uid) && (is_known(meta) || !forbidden(meta))
    });
    held.map(|declared| (declared.meta.uid.clone(), held_key(declared))).collect()
}

/// The Webhooks that were served or on hold before this pass, as `namespace/name`.
fn names_before(fetched: &Fetched) -> HashSet<String> {
    let previous = fetched.stored.as_ref().and_then(|stored| stored.runtime.as_ref());
    let served = previous.iter().flat_map(|previous| &previous.config.webhooks).map(WebhookConfig::full_name);
    let on_hold = previous.iter().flat_map(|previous| previous.held().into_values()).map(|key| {
        let name = webhook_key::full_name(&key).map(str::to_owned);
        name.unwrap_or(key)
    });
    // An older operator did not write the keys of those on hold.
    served.chain(on_hold).filter(|name| !name.is_empty()).collect()
}

/// The Webhooks that were served or on hold and are not declared any more, as long as deliveries may wait for them and as far as there is
/// room. If one is created again and not allowed or taken then, it is on hold.
fn missing(
    fetched: &Fetched,
    tenant: &Tenant,
    config: &TenantConfig,
    settings: &Settings,
    now: Timestamp,
) -> BTreeMap<String, Option<Timestamp>> {
    let before = fetched.stored.as_ref().map(|stored| &stored.memory.missing_webhooks);
    let declared = fetched.subject.webhooks.iter().map(|webhook| webhook.meta.name.to_string());
    let declared: HashSet<String> =
        declared.chain(config.webhooks.iter().map(WebhookConfig::full_name)).collect();
    let marked = before.into_iter().flatten().map(|(name, since)| (name.clone(), *since));
    let mut missing: BTreeMap<String, Option<Timestamp>> =
        names_before(fetched).into_iter().map(|name| (name, None)).chain(marked).collect();
    let mut room = MISSING;
    missing.retain(|name, since| {
        let mark = kept::mark(since.map(Timestamp::as_second), !tenant.spec.suspend, now.as_second());
        *since = mark.and_then(|since| Timestamp::from_second(since).ok());
        let has_ended = mark.is_some_and(|since| kept::end(since, settings.webhook_grace) <= now.as_second());
        let rest = room.checked_sub(name.len() + MARK).filter(|_| !has_ended && !declared.contains(name));
        room = rest.unwrap_or(room);
        rest.is_some()
    });
    missing
}

/// What is wrong with each Webhook, by uid; first the Webhooks of the Tenant's namespace. If a Webhook can't be read, its document says
/// what is wrong.
fn faults(fetched: &Fetched, tenant: &Tenant, outcomes: &[WebhookOutcome]) -> Vec<(String, Vec<String>)> {
    let text = |reason: &Reason| Violation::new(&reason.field, &reason.message).to_string();
    let texts = |declared: &Declared<Webhook>| match &declared.document {
        Err(violations) => violations.iter().map(ToString::to_string).collect(),
        Ok(_) => {
            let outcome = outcomes.iter().find(|outcome| outcome.uid == declared.meta.uid);
            outcome.map(|outcome| outcome.reasons.iter().map(text).collect()).unwrap_or_default()
        }
    };
    let mut declared: Vec<_> = fetched.subject.webhooks.iter().collect();
    declared.sort_by_key(|declared| {
        let meta = &declared.meta;
        (meta.name.namespace != tenant.metadata.namespace, meta.uid.clone())
    });
    declared.into_iter().map(|declared| (declared.meta.uid.clone(), texts(declared))).collect()
}

/// Adds the faults of Webhooks that are served or on hold, as far as the Secret has room.
fn with_faults(runtime: Runtime, faults: Vec<(String, Vec<String>)>) -> Runtime {
    let concerned = |uid: &String| runtime.held_webhooks.contains(uid) || serves(&runtime.config, uid);
    let of = |(uid, texts): &(String, Vec<String>)| !texts.is_empty() && concerned(uid);
    let faults: Vec<_> = faults.into_iter().filter(of).collect();
    if faults.is_empty() {
        // Without faults, the size of the configuration need not be computed.
        return runtime;
    }
    let room = LARGEST.saturating_sub(size(serde_json::to_vec(&runtime)));
    runtime.with_faults(faults, room)
}

/// The key of a webhook; its name if the webhook can't be read.
fn held_key(declared: &Declared<Webhook>) -> String {
    let name = declared.meta.name.to_string();
    match &declared.document {
        Ok(webhook) => webhook_key::of(&name, &webhook.spec.customer_code),
        Err(_) => name,
    }
}

/// Possible mistakes in the secret and the authorities of a Webhook.
fn warnings(webhook: &Webhook, namespace: &str, fetched: &Fetched) -> Vec<String> {
    let of_secret = webhook.spec.secret_ref.as_ref().and_then(|secret| {
        let name = Name::new(namespace, &secret.name);
        let keys =
            [("spec.secretRef", Some(&secret.key)), ("spec.secretRef.nextKey", secret.next_key.as_ref())];
        keys.into_iter().find_map(|(field, key)| {
            fetched.value(ValueKind::Secret, &name, key?).ok().and_then(|value| value.warning(field))
        })
    });
    let of_bundle = webhook.spec.ca_bundle_ref.as_ref().and_then(|bundle| {
        let name = Name::new(namespace, &bundle.name);
        compile::ca_bundle_warning(fetched.value(bundle.kind, &name, &bundle.key).ok()?.expose())
    });
    of_secret.into_iter().chain(of_bundle).collect()
}

fn outcome(
    declared: &Declared<Webhook>,
    reasons: Vec<Reason>,
    served: bool,
    tenant_suspended: bool,
    fetched: &Fetched,
) -> WebhookOutcome {
    let secret = declared.document.as_ref().ok().and_then(|webhook| webhook.spec.secret_ref.as_ref());
    let secret_version = secret.and_then(|secret| {
        let name = Name::new(&declared.meta.name.namespace, &secret.name);
        fetched.version(ValueKind::Secret, &name).map(str::to_owned)
    });
    // There may be any number of Webhooks with reasons, so their bundles are not read. The bundles of other Webhooks
    // have a limit together.
    let warnings = match &declared.document {
        Ok(webhook) if reasons.is_empty() => warnings(webhook, &declared.meta.name.namespace, fetched),
        Ok(_) | Err(_) => Vec::new(),
    };
    WebhookOutcome {
        webhook: declared.meta.name.clone(),
        uid: declared.meta.uid.clone(),
        generation: declared.meta.generation,
        reasons,
        served,
        signed: declared.document.as_ref().is_ok_and(Webhook::is_signed),
        secret_version,
        warning: (!warnings.is_empty()).then(|| warnings.join("; ")),
        tenant_suspended,
        programmed: None,
    }
}

impl Compiled<'_> {
    /// Removes API keys that belong to another Tenant, and adds a reason for each.
    fn without_keys(&mut self, tenant: &Tenant, taken: &HashSet<ApiKeyDigest>) {
        let Some((runtime, _)) = self.runtime.as_mut().filter(|_| !taken.is_empty()) else {
            return;
        };
        let (generation, mut config, held) =
            (runtime.generation, Arc::clone(&runtime.config), runtime.held());
        let faults = std::mem::take(&mut runtime.faults).into_iter().collect();
        for key in Arc::make_mut(&mut config).api_keys.extract_if(.., |key| taken.contains(&key.digest)) {
            let index = tenant.spec.api_keys.iter().position(|spec| spec.name == key.name);
            let field = format!("spec.apiKeys[{}]", index.unwrap_or_default());
            let message =
                "another Tenant, which is older, has the same key; give this one its own".to_owned();
            self.reasons.push(Reason { code: ReasonCode::SecretInvalid, field, message });
        }
        *runtime = with_faults(Runtime::new(generation, config, held), faults);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A configuration of a Tenant in the namespace `a`. Each Webhook has a uid, a namespace, and a bundle of this many bytes.
    fn config(webhooks: &[(&str, &str, usize)]) -> TenantConfig {
        let webhook = |(uid, namespace, bytes): &(&str, &str, usize)| {
            json!({"uid": uid, "namespace": namespace, "name": uid, "displayName": null, "customerCode": "C",
                "targetUrl": "https://h.example/", "secret": null, "caBundle": "x".repeat(*bytes),
                "events": ["order.created"], "active": true})
        };
        let config = json!({
            "uid": "u", "namespace": "a", "name": "t", "displayName": null, "clientCode": "T", "subdomains": [],
            "suspended": false, "apiKeys": [], "tokens": {"lifetimeMinutes": 60, "signingKeys": []},
            "database": null, "activeEvents": [], "webhooks": webhooks.iter().map(webhook).collect::<Vec<_>>(),
        });
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn own_and_older_webhooks_have_the_room_of_the_secret_and_later_ones_what_is_left() {
        let created_at = |uid: &str| -> i64 { if uid == "new" { 2 } else { 1 } };
        let left_out = |webhooks: &[(&str, &str, usize)], held: usize| {
            let mut config = config(webhooks);
            let left_out = shortened(&mut config, held, &created_at);
            assert!(config.webhooks.iter().all(|webhook| !left_out.contains(&webhook.uid)));
            assert_eq!(config.webhooks.len() + left_out.len(), webhooks.len());
            assert!(size(serde_json::to_vec(&config)) + held <= LARGEST);
            let mut left_out: Vec<_> = left_out.into_iter().collect();
            left_out.sort();
            left_out
        };
        let all =
            [("foreign", "b", 400_000), ("new", "a", 400_000), ("old", "a", 400_000), ("small", "b", 10)];
        assert_eq!(left_out(&all, 0), ["foreign"]);
        assert_eq!(left_out(&all, 300_000), ["foreign", "new"], "what is on hold needs its room");
        assert!(left_out(&all[1..], 0).is_empty());
    }
}
