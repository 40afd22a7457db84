//! The generated values of a tenant that must stay the same: its uid, API keys, webhooks' secrets and signing keys.
//! They are stored in `<data>/tenants/<clientCode>/keys.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use docket_crds::webhook::GenerateSecret;
use docket_crds::{
    ApiKeyDigest, Generated, GeneratedDatabase, SigningKey, SigningSecrets, Tenant, kept, webhook_key,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::object::Name;

/// Fills a slice with random bytes fit for keys.
pub(super) type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// The content of `keys.json`.
///
/// There is one signing key, and it does not rotate: only the operator applies `tokens.signingKeyRotationDays`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Keys {
    /// `namespace/name` of the Tenant that owns the keys. No other Tenant gets them, nor the data beside them.
    tenant: String,
    pub(super) uid: String,
    /// Hexadecimal, by name.
    pub(super) api_keys: BTreeMap<String, String>,
    /// The `rotationGeneration` of each API key.
    generations: BTreeMap<String, i64>,
    signing_keys: Vec<SigningKey>,
    /// The generated signing secrets of webhooks, by the webhook's uid. Absent while there are none, so that a version
    /// without `generateSecret` reads the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    webhook_secrets: BTreeMap<String, WebhookSecret>,
    /// The signing secrets that no webhook asks for, by the webhook's uid and customer: a webhook that is put back takes over its
    /// queue, and must sign as before. Absent while there are none, so that a version without it reads the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unused_secrets: BTreeMap<String, UnusedSecret>,
}

/// A generated signing secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSecret {
    /// 64 hexadecimal digits.
    value: String,
    /// The `rotationGeneration` it was made for.
    generation: i64,
    /// The customer it was made for: a later webhook of this name, but of another customer, gets another secret.
    #[serde(default)]
    customer: String,
    /// The secret that takes its place: as many digits. Absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A generated signing secret that no webhook asks for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnusedSecret {
    secret: WebhookSecret,
    /// When the secret became unused, in whole seconds. Absent while the tenant is suspended: then the time does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

/// How long signing secrets are kept that no webhook asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    /// The time now.
    pub(super) now: Timestamp,
    /// The grace of removed webhooks, as workers have it. `None`: the secrets are kept without a limit.
    pub(super) grace: Option<Duration>,
}

/// The webhooks of a tenant, as far as their secrets are concerned.
pub(super) struct WebhookSecrets<'a> {
    /// The `generateSecret` and the customer of each webhook that has one, by uid.
    pub(super) generate: BTreeMap<&'a str, (&'a GenerateSecret, &'a str)>,
    /// Whether the webhook with this uid keeps its secret although it is not in `generate`, because it can't be read.
    pub(super) may_have: &'a dyn Fn(&str) -> bool,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("tenant", &self.tenant).field("uid", &self.uid).finish_non_exhaustive()
    }
}

/// Returns the keys of a tenant, and generates missing ones. With `keep`, it stores them. It never overwrites a file
/// that it can't read.
pub(super) fn ensure(
    data_dir: &Path,
    keep: bool,
    name: &Name,
    tenant: &Tenant,
    webhooks: &WebhookSecrets<'_>,
    keeping: Keeping,
    random: Random<'_>,
) -> anyhow::Result<Keys> {
    // By the rule for client codes, a code is a safe file name.
    let path = data_dir.join("tenants").join(&tenant.spec.client_code).join("keys.json");
    // Several processes may start on the same folder at the same time, and must get the same keys.
    let _lock = if keep { Some(lock(data_dir)?) } else { None };
    let stored = read(&path)?;
    let mut keys = match &stored {
        Some(stored) => stored.clone(),
        None => Keys::new(name, random),
    };
    ensure!(
        keys.tenant == name.to_string(),
        "{} belongs to Tenant {}; choose another clientCode, or move its folder away",
        path.display(),
        keys.tenant
    );
    keys.generate(tenant, random);
    keys.set_aside(webhooks);
    keys.generate_secrets(webhooks, random);
    keys.end_unused(keeping, tenant.spec.suspend);
    if keep && stored.as_ref() != Some(&keys) {
        write(data_dir, &path, &keys).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(keys)
}

impl Keys {
    fn new(name: &Name, random: Random<'_>) -> Self {
        let signing_key =
            SigningKey { kid: hex::encode(bytes::<8>(random)), secret: bytes::<32>(random).to_vec().into() };
        Self {
            tenant: name.to_string(),
            uid: uuid(bytes(random)),
            api_keys: BTreeMap::new(),
            generations: BTreeMap::new(),
            signing_keys: vec![signing_key],
            webhook_secrets: BTreeMap::new(),
            unused_secrets: BTreeMap::new(),
        }
    }

    /// Generates API keys that are missing or of an earlier generation, and removes keys that are not declared any
    /// more: removing an entry ends its key for ever.
    fn generate(&mut self, tenant: &Tenant, random: Random<'_>) {
        let specs = tenant.spec.api_keys.iter();
        let wanted: BTreeMap<&str, i64> = specs
            .filter_map(|key| Some((key.name.as_str(), key.generate.as_ref()?.rotation_generation)))
            .collect();
        self.api_keys.retain(|name, _| wanted.contains_key(name.as_str()));
        self.generations.retain(|name, _| wanted.contains_key(name.as_str()));
        for (name, generation) in wanted {
            let current = self.generations.get(name).is_some_and(|made_for| *made_for >= generation);
            if !(current && self.api_keys.contains_key(name)) {
                self.api_keys.insert(name.to_owned(), hex::encode(bytes::<32>(random)));
                self.generations.insert(name.to_owned(), generation);
            }
        }
    }

    /// Sets the signing secrets aside that no webhook asks for any more.
    fn set_aside(&mut self, webhooks: &WebhookSecrets<'_>) {
        let is_unused = |uid: &str, made: &WebhookSecret| match webhooks.generate.get(uid) {
            Some((_, customer)) => made.customer != *customer,
            None => !(webhooks.may_have)(uid),
        };
        let unused = self.webhook_secrets.iter().filter(|(uid, made)| is_unused(uid, made));
        for uid in unused.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            if let Some(secret) = self.webhook_secrets.remove(&uid) {
                tracing::info!(
                    webhook = uid,
                    "no webhook asks for this generated signing secret: it is kept for some time, and signs again if the webhook is put back"
                );
                let key = webhook_key::of(&uid, &secret.customer);
                self.unused_secrets.insert(key, UnusedSecret { secret, since: None });
            }
        }
    }

    /// Generates the signing secrets that are missing or of an earlier generation. A webhook that was put back gets the secret
    /// that was set aside for it.
    fn generate_secrets(&mut self, webhooks: &WebhookSecrets<'_>, random: Random<'_>) {
        for (uid, (wanted, customer)) in &webhooks.generate {
            let generation = wanted.rotation_generation;
            let unused = self.unused_secrets.remove(&webhook_key::of(uid, customer));
            if unused.is_some() {
                tracing::info!(
                    webhook = uid,
                    "the webhook is back; the generated signing secret that was kept for it signs again"
                );
            }
            // A webhook that was put back counts from its own generation: else raising that would rotate nothing.
            let kept = unused.map(|UnusedSecret { secret, .. }| WebhookSecret {
                generation: secret.generation.min(generation),
                ..secret
            });
            let made = self.webhook_secrets.remove(*uid).or(kept);
            let mut made = match made {
                Some(made) if made.generation >= generation => made,
                last => {
                    let next = last.and_then(|last| last.next);
                    let value = next.unwrap_or_else(|| hex::encode(bytes::<32>(random)));
                    WebhookSecret { value, generation, customer: (*customer).to_owned(), next: None }
                }
            };
            let next = made.next.take();
            made.next = wanted.next.then(|| next.unwrap_or_else(|| hex::encode(bytes::<32>(random))));
            self.webhook_secrets.insert((*uid).to_owned(), made);
        }
    }

    /// Ends the signing secrets that no webhook has asked for, for long enough; of too many, the oldest.
    fn end_unused(&mut self, keeping: Keeping, is_suspended: bool) {
        self.unused_secrets.retain(|_, unused| {
            unused.since = keeping.mark(unused.since, !is_suspended);
            keeping.end(unused.since).is_none_or(|end| end > keeping.now)
        });
        let surplus = self.unused_secrets.len().saturating_sub(kept::MOST);
        let mut by_age: Vec<_> =
            self.unused_secrets.iter().map(|(key, unused)| (unused.since, key)).collect();
        by_age.sort_by_key(|(since, _)| since.unwrap_or(keeping.now));
        let oldest: Vec<String> = by_age.into_iter().take(surplus).map(|(_, key)| key.clone()).collect();
        oldest.iter().for_each(|key| drop(self.unused_secrets.remove(key)));
    }

    /// When the next of these secrets ends.
    pub(super) fn next_end(&self, keeping: Keeping) -> Option<Timestamp> {
        self.unused_secrets.values().filter_map(|unused| keeping.end(unused.since)).min()
    }

    /// What is generated, for the compile step. `is_external`: the tenant declares its database in PostgreSQL.
    pub(super) fn generated(&self, is_external: bool) -> Generated {
        Generated {
            api_keys: self.api_keys.clone(),
            webhook_secrets: self
                .webhook_secrets
                .iter()
                .map(|(uid, made)| (uid.clone(), Ok(made.secrets())))
                .collect(),
            signing_keys: self.signing_keys.clone(),
            database: match is_external {
                true => GeneratedDatabase::Declared,
                false => GeneratedDatabase::Embedded,
            },
            watcher: None,
        }
    }

    fn is_sound(&self) -> bool {
        !self.uid.is_empty()
            && !self.signing_keys.is_empty()
            && self.signing_keys.iter().all(|key| !key.kid.is_empty() && key.secret.expose().len() >= 32)
            && self.api_keys.values().all(|key| ApiKeyDigest::of(key).is_ok())
            && self
                .webhook_secrets
                .values()
                .chain(self.unused_secrets.values().map(|unused| &unused.secret))
                .flat_map(|made| iter::once(&made.value).chain(&made.next))
                .all(|value| ApiKeyDigest::of(value).is_ok())
    }
}

impl Keeping {
    /// The time to store as the moment when a secret became unused.
    fn mark(self, since: Option<Timestamp>, counts: bool) -> Option<Timestamp> {
        let mark = kept::mark(since.map(Timestamp::as_second), counts, self.now.as_second())?;
        Timestamp::from_second(mark).ok()
    }

    /// When a secret ends that is unused since then; `None`: it does not.
    fn end(self, since: Option<Timestamp>) -> Option<Timestamp> {
        Timestamp::from_second(kept::end(since?.as_second(), self.grace?)).ok()
    }
}

impl WebhookSecret {
    fn secrets(&self) -> SigningSecrets {
        let bytes = |value: &String| value.clone().into_bytes().into();
        SigningSecrets { current: bytes(&self.value), next: self.next.as_ref().map(bytes) }
    }
}

fn bytes<const N: usize>(random: Random<'_>) -> [u8; N] {
    let mut bytes = [0; N];
    random(&mut bytes);
    bytes
}

/// Returns a random UUID (RFC 9562, version 4), the format of uids in a cluster.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn read(path: &Path) -> anyhow::Result<Option<Keys>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    };
    // The parser's message could quote a key, so only `None` is returned.
    let keys = serde_json::from_slice::<Keys>(&text).ok().filter(Keys::is_sound);
    let advice = "restore it, or remove it to generate new keys (the old ones and all sessions end)";
    keys.map(Some).with_context(|| format!("{} is damaged; {advice}", path.display()))
}

/// Locks the keys of this folder against other processes until the returned file is dropped.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("keys.lock");
    let locked = DirBuilder::new().recursive(true).mode(0o700).create(data_dir).and_then(|()| {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        file.lock().map(|()| file)
    });
    locked.with_context(|| format!("{} cannot be locked", path.display()))
}

/// Writes the file atomically, even if the power fails.
fn write(data_dir: &Path, path: &Path, keys: &Keys) -> io::Result<()> {
    let dir = path.parent().unwrap_or(data_dir);
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let temporary: PathBuf = dir.join(".keys.json.new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let text = serde_json::to_vec_pretty(keys)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    for dir in dir.ancestors().take_while(|dir| dir.starts_with(data_dir)) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
