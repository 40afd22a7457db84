//! Reads tenants from a folder of YAML files, which contain the same documents as a cluster.
//!
//! [`files`] lists and reads files, [`documents`] parses them, [`object`] reads one document and decides what counts
//! while it is broken, [`objects`] collects the objects of all files, [`keys`] stores generated values, and
//! [`compile`] calls [`docket_crds::compile()`]. Time and random bytes are arguments. Unix only, because of file
//! modes and inode numbers.
//!
//! What was good stays:
//! - A Tenant or Webhook that an edit breaks keeps its last good version; `suspend: true`, `active: false` and removed keys
//!   and subdomains count at once. A Secret or ConfigMap keeps the values that became unreadable.
//! - A file that cannot be read, or is not YAML throughout, counts as broken as a whole: what it declared last stays. So does
//!   what was in a file and now seems to be missing while a document in it does not say what it is.
//! - What is removed from a readable file, or with its file, is gone. Only the generated secret of a webhook is kept for some time.
//!
//! If two documents declare the same object, or two tenants want the same client code or subdomain, the first by file
//! name and position wins. But a tenant never loses a code or subdomain with which it is served to a tenant that
//! wants it later.

mod compile;
mod documents;
mod files;
mod keys;
mod object;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use docket_crds::{PlatformLimits, TenantConfig};
use docket_program::clock::Clock;
use jiff::Timestamp;
use serde_json::Value;

use self::compile::Compiler;
use self::files::Listing;
pub use self::files::PORTAL_FOLDER;
use self::keys::{Keeping, Random};
use self::object::{Identity, Kind, Name};
use self::objects::{Objects, Reading};
use crate::declaration::Declaration;

/// How often a followed folder is listed.
const POLL: Duration = Duration::from_millis(400);

/// A folder of YAML files, with the last good version of its objects.
pub struct Folder {
    config_dir: PathBuf,
    data_dir: PathBuf,
    /// Whether generated keys are stored.
    keeps_keys: bool,
    /// Whether databases are external ones, in PostgreSQL.
    is_external: bool,
    limits: PlatformLimits,
    clock: Clock,
    /// The grace of removed webhooks; `None`: generated secrets that no webhook asks for are kept without a limit.
    webhook_grace: Option<Duration>,
    /// When the next of these secrets ends; `None`: none does, or the folder was not loaded since it ended.
    next_end: Option<Timestamp>,
    /// The files of the last load; `None` within: the folder could not be read.
    loaded: Option<Option<Listing>>,
    /// The files that the last call of `changed` saw, if they differ from the loaded ones.
    seen: Option<Option<Listing>>,
    /// The files in which every document was understood at least once.
    understood: BTreeSet<PathBuf>,
    objects: Objects,
    /// The configuration of each tenant from the last load.
    compiled: BTreeMap<Name, Arc<TenantConfig>>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config_dir, data_dir, .. } = self;
        f.debug_struct("Folder")
            .field("config_dir", config_dir)
            .field("data_dir", data_dir)
            .finish_non_exhaustive()
    }
}

impl Folder {
    /// Reads YAML files in `config_dir`, and stores generated keys below `data_dir`, which is created when needed.
    pub fn new(config_dir: PathBuf, data_dir: PathBuf) -> Self {
        Self {
            config_dir,
            data_dir,
            keeps_keys: true,
            is_external: false,
            limits: PlatformLimits::default(),
            clock: Clock::System,
            webhook_grace: None,
            next_end: None,
            loaded: None,
            seen: None,
            understood: BTreeSet::new(),
            objects: Objects::default(),
            compiled: BTreeMap::new(),
        }
    }

    /// Makes the folder write nothing: missing keys are generated for the load and not stored.
    #[must_use]
    pub fn without_writing(self) -> Self {
        Self { keeps_keys: false, ..self }
    }

    /// Makes the folder accept external databases in Secrets. A tenant with a managed database, which only the
    /// operator can create, is not served then.
    #[must_use]
    pub fn with_external_databases(self) -> Self {
        Self { is_external: true, ..self }
    }

    /// Sets the limits that the platform gives tenants.
    #[must_use]
    pub fn with_limits(self, limits: PlatformLimits) -> Self {
        Self { limits, ..self }
    }

    /// Ends generated signing secrets that no webhook asks for, a day after the grace of removed webhooks. Without this they are kept:
    /// a program that delivers nothing does not know the grace.
    #[must_use]
    pub fn with_webhook_grace(self, grace: Duration) -> Self {
        Self { webhook_grace: Some(grace), ..self }
    }

    #[cfg(test)]
    fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Checks that the folder exists, before anything is created. The usual cause is another working directory.
    ///
    /// # Errors
    ///
    /// The folder does not exist; the message names the flag.
    pub fn check_exists(&self) -> Result<()> {
        if self.config_dir.is_dir() {
            return Ok(());
        }
        let here = std::env::current_dir().unwrap_or_default();
        bail!(
            "there is no configuration folder {} in {}; name it with --config-dir",
            self.config_dir.display(),
            here.display()
        )
    }

    /// Whether to load again: the files differ from the last load, and are the same as in the last call, so that
    /// a file is not read half written. Cheap: names, sizes, inodes and times. True before the first load, and when a secret ends that
    /// no webhook asks for.
    pub fn changed(&mut self) -> bool {
        let Some(loaded) = &self.loaded else { return true };
        if self.next_end.is_some_and(|end| end <= self.clock.now()) {
            return true;
        }
        let now = files::list(&self.config_dir).ok();
        if *loaded == now {
            self.seen = None;
            return false;
        }
        let settled = self.seen.as_ref() == Some(&now);
        self.seen = Some(now);
        settled
    }

    /// Loads the folder. [`Declaration::problems`] has all problems of the folder. `random` fills a slice with random
    /// bytes for keys.
    ///
    /// # Errors
    ///
    /// The folder itself can't be read. The last good version stays.
    pub fn load(&mut self, random: &mut dyn FnMut(&mut [u8])) -> Result<Declaration> {
        (self.seen, self.next_end) = (None, None);
        let listing = files::list(&self.config_dir);
        self.loaded = Some(listing.as_ref().ok().cloned());
        let listing = listing.with_context(|| {
            format!("the configuration folder {} cannot be read", self.config_dir.display())
        })?;
        let mut declaration = Declaration::default();
        self.read(&listing, &mut declaration);
        self.compile(&mut declaration, random);
        declaration.problems.sort_by(|a, b| (&a.file, a.document).cmp(&(&b.file, b.document)));
        Ok(declaration)
    }

    /// Reads the objects of all files.
    fn read(&mut self, listing: &Listing, declaration: &mut Declaration) {
        self.understood.retain(|path| listing.contains_key(path));
        let mut reading = Reading::new(&self.objects, &mut declaration.problems);
        for path in listing.keys() {
            if reading.file(path) {
                self.understood.insert(path.clone());
            } else {
                declaration.incomplete |= !self.understood.contains(path);
            }
        }
        self.objects = reading.finish();
    }

    /// Compiles the tenants from the objects.
    fn compile(&mut self, declaration: &mut Declaration, random: Random<'_>) {
        let last = std::mem::take(&mut self.compiled);
        let compiler = Compiler::new(
            &self.data_dir,
            self.keeps_keys,
            self.is_external,
            self.limits,
            Keeping { now: self.clock.now(), grace: self.webhook_grace },
            &self.objects,
            declaration.incomplete,
        );
        declaration.problems.extend(compiler.strays());
        for (name, entry) in self.objects.tenants.by_place() {
            let tenant = compiler.tenant(name, entry, last.get(name), random, &mut declaration.problems);
            let Some(tenant) = tenant else { continue };
            self.compiled.insert(name.clone(), tenant.runtime.config.clone());
            declaration.tenants.push(tenant);
        }
        self.next_end = compiler.next_end();
    }

    /// Calls `changed` after each change, from the first load on, until the future is dropped. If the folder can't be
    /// read, it logs this, and calls `failed` once per change.
    pub async fn follow(
        &mut self,
        mut random: fn(&mut [u8]),
        mut changed: impl FnMut(Declaration),
        failed: impl Fn(),
    ) {
        loop {
            if self.changed() {
                match self.load(&mut random) {
                    Ok(declaration) => changed(declaration),
                    Err(error) => {
                        failed();
                        tracing::warn!("{error:#}; the last good configuration stays active");
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The document that declares a webhook in a folder of YAML files, as it is written now, and its file. The first
/// document by file and position counts. `None`: no readable file contains it.
pub fn webhook_document(config_dir: &Path, namespace: &str, name: &str) -> Option<(PathBuf, Value)> {
    let wanted = Name { namespace: namespace.to_owned(), name: name.to_owned() };
    let is_it = |document: &Value| matches!(Identity::of(document), Identity::Known(Kind::Webhook, name) if name == wanted);
    files::list(config_dir).ok()?.into_keys().find_map(|path| {
        let documents = documents::parse(&files::read(&path).ok()?).ok()?;
        Some((path, documents.into_iter().find(is_it)?))
    })
}

#[cfg(test)]
mod tests;
