//! Compiles the objects of the folder into tenants, one at a time.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use docket_crds::compile::{self, unreachable_tenant};
use docket_crds::conditions::ReasonCode;
use docket_crds::webhook::GenerateSecret;
use docket_crds::{
    Compilation, Inputs, KeyVersion, Missing, PlatformLimits, Reason, Runtime, TenantConfig, ValueKind,
    Values, Violation, Webhook, webhook_key,
};
use jiff::Timestamp;

use super::keys::{self, Keeping, Keys, Random, WebhookSecrets};
use super::object::{Kind, Name};
use super::objects::{FolderObject, Objects};
use crate::declaration::DeclaredTenant;
use crate::problem::{ConfigProblem, YamlPosition};

pub(super) struct Compiler<'a> {
    data_dir: &'a Path,
    keeps_keys: bool,
    is_external: bool,
    limits: PlatformLimits,
    keeping: Keeping,
    objects: &'a Objects,
    /// Whether some file was never understood, so that webhooks may be missing.
    incomplete: bool,
    /// The webhooks that have a good version, by file and position, with their uids.
    webhooks: Vec<(String, Webhook)>,
    /// Name and place of each of them.
    positions: Vec<(&'a Name, &'a YamlPosition)>,
    /// When the next signing secret ends that no webhook asks for, of the tenants that were compiled.
    next_end: Cell<Option<Timestamp>>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        data_dir: &'a Path,
        keeps_keys: bool,
        is_external: bool,
        limits: PlatformLimits,
        keeping: Keeping,
        objects: &'a Objects,
        incomplete: bool,
    ) -> Self {
        let entries = objects.webhooks.by_place();
        let good = entries.into_iter().filter_map(|(name, entry)| Some((name, entry, entry.now.as_deref()?)));
        let (webhooks, positions) = good
            .map(|(name, entry, webhook)| ((uid(name), webhook.clone()), (name, &entry.position)))
            .unzip();
        Self {
            data_dir,
            keeps_keys,
            is_external,
            limits,
            keeping,
            objects,
            incomplete,
            webhooks,
            positions,
            next_end: Cell::new(None),
        }
    }

    /// When the next signing secret ends that no webhook asks for, of the tenants that were compiled.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.next_end.get()
    }

    /// Problems of webhooks whose tenant is not declared.
    pub(super) fn strays(&self) -> impl Iterator<Item = ConfigProblem> {
        let all = self.webhooks.iter().zip(&self.positions);
        let strays = all.filter(|((_, webhook), _)| self.objects.tenants.get(&tenant_of(webhook)).is_none());
        strays.map(|((_, webhook), (name, position))| {
            problem(position, Kind::Webhook, name, unreachable_tenant(webhook))
        })
    }

    /// Compiles a tenant; `None`: the tenant is broken and was never good.
    pub(super) fn tenant(
        &self,
        name: &Name,
        entry: &FolderObject<docket_crds::Tenant>,
        previous: Option<&Arc<TenantConfig>>,
        random: Random<'_>,
        problems: &mut Vec<ConfigProblem>,
    ) -> Option<DeclaredTenant> {
        let tenant = entry.now.as_deref()?;
        let unreadable = self.unreadable_webhooks();
        let webhooks = WebhookSecrets {
            generate: self.generated_secrets(name),
            may_have: &|uid| self.incomplete || unreadable.contains(uid),
        };
        let (data_dir, keeping) = (self.data_dir, self.keeping);
        let keys = match keys::ensure(data_dir, self.keeps_keys, name, tenant, &webhooks, keeping, random) {
            Ok(keys) => keys,
            Err(error) => {
                let violation = Violation::new("", format!("{error:#}"));
                problems.push(ConfigProblem::at(&entry.position, Some(Kind::Tenant.of(name)), violation));
                return previous.map(|config| self.declared(name, Arc::clone(config), Vec::new(), problems));
            }
        };
        let ends = self.next_end.get().into_iter().chain(keys.next_end(keeping));
        self.next_end.set(ends.min());
        let inputs = Inputs {
            tenant,
            uid: &keys.uid,
            webhooks: &self.webhooks,
            unreadable: &[],
            values: self,
            generated: &keys.generated(self.is_external),
            platform_disabled_events: &BTreeSet::new(),
            platform_limits: &self.limits,
            created_at: &|_| 0,
            namespace_labels: &|namespace| {
                BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())])
            },
        };
        let mut compiled = compile::compile(&inputs);
        if let Some(previous) = previous {
            compiled = compiled.or_last_good(&inputs, previous);
        }
        problems.extend(self.problems(name, &entry.position, &compiled));
        let config = compiled.config.ok()?;
        let printed = printed_keys(&config, &keys);
        Some(self.declared(name, config.into(), printed, problems))
    }

    /// The webhooks of a tenant with `generateSecret`, by uid: their settings for the secret, and their customers.
    fn generated_secrets(&self, tenant: &Name) -> BTreeMap<&str, (&GenerateSecret, &str)> {
        let own = self.webhooks.iter().filter(|(_, webhook)| tenant_of(webhook) == *tenant);
        own.filter_map(|(uid, webhook)| {
            let spec = &webhook.spec;
            Some((uid.as_str(), (spec.generate_secret.as_ref()?, spec.customer_code.as_str())))
        })
        .collect()
    }

    /// The uids of the webhooks that are broken and were never good.
    fn unreadable_webhooks(&self) -> BTreeSet<String> {
        let entries = self.objects.webhooks.by_place().into_iter();
        entries.filter(|(_, entry)| entry.now.is_none()).map(|(name, _)| uid(name)).collect()
    }

    fn problems(&self, name: &Name, position: &YamlPosition, compiled: &Compilation) -> Vec<ConfigProblem> {
        let refused = compiled.config.as_ref().err().into_iter().flatten();
        let of_tenant = refused.chain(&compiled.degraded);
        let of_tenant = of_tenant.map(|reason| problem(position, Kind::Tenant, name, reason.clone()));
        let of_webhooks = compiled.webhooks.iter().flat_map(|(index, reasons)| {
            let (name, position) = self.positions[*index];
            reasons.iter().map(|reason| problem(position, Kind::Webhook, name, reason.clone()))
        });
        of_tenant.chain(of_webhooks).collect()
    }

    fn declared(
        &self,
        name: &Name,
        config: Arc<TenantConfig>,
        api_keys: Vec<(String, String)>,
        problems: &[ConfigProblem],
    ) -> DeclaredTenant {
        let entries = self.objects.webhooks.by_place().into_iter();
        // A webhook whose tenant cannot be read may be any tenant's: then it is only on hold, and no tenant reads what is wrong with it.
        let of = |entry: &FolderObject<Webhook>| match &entry.now {
            Some(webhook) => Some(tenant_of(webhook)),
            None => entry.tenant.clone(),
        };
        let concerned: Vec<_> =
            entries.filter(|(_, entry)| of(entry).is_none_or(|tenant| tenant == *name)).collect();
        let own = concerned.iter().filter(|(_, entry)| of(entry).is_some());
        let faults: Vec<_> = own.map(|(name, _)| (uid(name), faults(name, problems))).collect();
        let held: BTreeMap<String, String> = concerned
            .into_iter()
            .map(|(name, entry)| (uid(name), held_key(name, entry)))
            .filter(|(uid, _)| config.webhooks.iter().all(|active| active.uid != *uid))
            .collect();
        // A folder has no generations, and no Secret limits the room for faults.
        let runtime = Runtime::new(0, config, held).with_faults(faults, usize::MAX);
        DeclaredTenant { runtime: Arc::new(runtime), api_keys }
    }
}

/// The uid of a webhook, made from its name. Objects in a folder have no uid, so a webhook with the same name is the
/// same webhook.
fn uid(name: &Name) -> String {
    format!("file:{name}")
}

/// The problems of a webhook.
fn faults(name: &Name, problems: &[ConfigProblem]) -> Vec<String> {
    let object = Kind::Webhook.of(name);
    let own = problems.iter().filter(|problem| problem.object.as_ref() == Some(&object));
    own.map(|problem| Violation::new(problem.field.clone().unwrap_or_default(), &problem.message).to_string())
        .collect()
}

/// The key of a webhook, or its name if it can't be read.
fn held_key(name: &Name, entry: &FolderObject<Webhook>) -> String {
    let key = |webhook: &Arc<Webhook>| webhook_key::of(&name.to_string(), &webhook.spec.customer_code);
    entry.now.as_ref().map_or_else(|| name.to_string(), key)
}

fn tenant_of(webhook: &Webhook) -> Name {
    Name { namespace: webhook.tenant_namespace().to_owned(), name: webhook.spec.tenant_ref.name.clone() }
}

/// The generated keys that are active, to print for the developer.
fn printed_keys(config: &TenantConfig, keys: &Keys) -> Vec<(String, String)> {
    let working = config.api_keys.iter().filter(|key| key.active && key.version == KeyVersion::V2);
    let generated = working.filter_map(|key| keys.api_keys.get_key_value(&key.name));
    generated.map(|(name, key)| (name.clone(), key.clone())).collect()
}

fn problem(position: &YamlPosition, kind: Kind, name: &Name, reason: Reason) -> ConfigProblem {
    let advice = match reason.code {
        ReasonCode::SecretNotFound => "; add a document of kind Secret with this name",
        ReasonCode::ConfigMapNotFound => "; add a document of kind ConfigMap with this name",
        ReasonCode::SecretKeyMissing => "; add it under stringData",
        ReasonCode::ConfigMapKeyMissing => "; add it under data",
        ReasonCode::Provisioning => {
            ": only the operator makes managed databases; name one that exists as external: {secretKeyRef: {name: …, key: …}}"
        }
        ReasonCode::Ready
        | ReasonCode::Accepted
        | ReasonCode::ResolvedRefs
        | ReasonCode::Migrated
        | ReasonCode::Programmed
        | ReasonCode::Delivering
        | ReasonCode::NoDeliveries
        | ReasonCode::Suspended
        | ReasonCode::Paused
        | ReasonCode::ApiRefused
        | ReasonCode::ConfigurationUnreadable
        | ReasonCode::InvalidSpec
        | ReasonCode::ClientCodeConflict
        | ReasonCode::SubdomainConflict
        | ReasonCode::DatabaseNameConflict
        | ReasonCode::TenantNotFound
        | ReasonCode::RefNotPermitted
        | ReasonCode::TooManyWebhooks
        | ReasonCode::TenantNotReady
        | ReasonCode::TenantSuspended
        | ReasonCode::SecretInvalid
        | ReasonCode::InvalidCaBundle
        | ReasonCode::Unreachable
        | ReasonCode::ServerNotFound
        | ReasonCode::NotOwned
        | ReasonCode::MigrationFailed
        | ReasonCode::MigrationPending
        | ReasonCode::SchemaNewer
        | ReasonCode::Pending
        | ReasonCode::StoreUnavailable
        | ReasonCode::Retrying
        | ReasonCode::DeadLettered
        | ReasonCode::WithinLimits
        | ReasonCode::AboveMaximum
        | ReasonCode::LimitReached => "",
    };
    let violation = Violation::new(reason.field, reason.message + advice);
    ConfigProblem::at(position, Some(kind.of(name)), violation)
}

impl Values for Compiler<'_> {
    fn get(&self, kind: ValueKind, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Missing> {
        let objects = match kind {
            ValueKind::Secret => &self.objects.secrets,
            ValueKind::ConfigMap => &self.objects.config_maps,
        };
        let name = Name { namespace: namespace.to_owned(), name: name.to_owned() };
        let data = objects.get(&name).and_then(|entry| entry.now.as_ref()).ok_or(Missing::NotFound)?;
        data.get(key).map(|value| value.expose().to_vec()).ok_or(Missing::KeyNotFound)
    }
}
