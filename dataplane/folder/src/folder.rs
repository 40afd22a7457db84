//! The folder as a whole: every load reads all of it, and remembers what was good.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

use anyhow::Context;
use docket_crds::TenantConfig;

use crate::{
    declared::{Declared, Reading},
    files::{self, Listing},
    keys::Random,
    objects::Name,
    problem::Problem,
    serving::Serving,
};

/// A folder of YAML files, and what was good in it when it was last loaded.
pub struct Folder {
    config_dir: PathBuf,
    data_dir: PathBuf,
    /// Whether keys that were made are kept.
    keeps_keys: bool,
    /// Whether databases are PostgreSQL's.
    is_external: bool,
    /// What the last load saw; `None` within: the folder could not be read.
    loaded: Option<Option<Listing>>,
    /// What the last call of `changed` saw that was not loaded.
    seen: Option<Option<Listing>>,
    /// Files of which every document was understood once.
    understood: BTreeSet<PathBuf>,
    declared: Declared,
    served: BTreeMap<Name, TenantConfig>,
}

/// What a folder declares.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The tenants to serve, in the order of their documents.
    pub tenants: Vec<ServedTenant>,
    /// What is not served as it was written, in the order of the documents.
    pub problems: Vec<Problem>,
    /// A file could not be understood and never was before, so what it declares is not known: while this is true,
    /// nothing that is missing may be taken for removed.
    pub incomplete: bool,
}

impl Loaded {
    /// The tenant with this client code, in any case.
    pub fn tenant(&self, client_code: &str) -> Option<&ServedTenant> {
        self.tenants.iter().find(|served| served.config.client_code.matches(client_code))
    }
}

/// A tenant to serve.
pub struct ServedTenant {
    /// What the data plane needs.
    pub config: TenantConfig,
    /// The generated keys that work on the v2 API, by name: hexadecimal, for printing to whoever runs the program.
    pub api_keys: Vec<(String, String)>,
    /// The uids of webhooks that are declared but broken, with no good version known: their queued deliveries wait
    /// and are not taken for those of a deleted webhook.
    pub held_webhooks: BTreeSet<String>,
}

impl fmt::Debug for ServedTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, api_keys, held_webhooks } = self;
        let names: Vec<_> = api_keys.iter().map(|(name, _)| name).collect();
        f.debug_struct("ServedTenant")
            .field("config", config)
            .field("api_keys", &names)
            .field("held_webhooks", held_webhooks)
            .finish()
    }
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
    /// YAML files are read in `config_dir`; generated keys are kept below `data_dir`, which is made when needed.
    pub fn new(config_dir: PathBuf, data_dir: PathBuf) -> Self {
        Self {
            config_dir,
            data_dir,
            keeps_keys: true,
            is_external: false,
            loaded: None,
            seen: None,
            understood: BTreeSet::new(),
            declared: Declared::default(),
            served: BTreeMap::new(),
        }
    }

    /// For a look only: keys that a tenant has not got yet are made for the load and written nowhere.
    #[must_use]
    pub fn without_writing(self) -> Self {
        Self { keeps_keys: false, ..self }
    }

    /// Databases are the external ones that Secrets name. A tenant with a managed one, which only the operator makes, is
    /// not served.
    #[must_use]
    pub fn with_external_databases(self) -> Self {
        Self { is_external: true, ..self }
    }

    /// Whether to load again: the files are not those of the last load, and are the same as in the last call, so that
    /// a file is not read half written. Cheap: names, sizes, inodes and times. True before the first load.
    pub fn changed(&mut self) -> bool {
        let Some(loaded) = &self.loaded else { return true };
        let now = files::list(&self.config_dir).ok();
        if *loaded == now {
            self.seen = None;
            return false;
        }
        let settled = self.seen.as_ref() == Some(&now);
        self.seen = Some(now);
        settled
    }

    /// Reads the folder. Everything that is wrong in it is in [`Loaded::problems`]; an error means that the folder
    /// itself cannot be read, and leaves what was good as it was. `random` fills a slice with bytes fit for keys.
    pub fn load(&mut self, random: &mut dyn FnMut(&mut [u8])) -> anyhow::Result<Loaded> {
        self.seen = None;
        let listing = files::list(&self.config_dir);
        self.loaded = Some(listing.as_ref().ok().cloned());
        let listing = listing.with_context(|| {
            format!("the configuration folder {} cannot be read", self.config_dir.display())
        })?;
        let mut loaded = Loaded::default();
        self.read(&listing, &mut loaded);
        self.serve(&mut loaded, random);
        loaded.problems.sort_by(|a, b| (&a.file, a.document).cmp(&(&b.file, b.document)));
        Ok(loaded)
    }

    /// From files to what they declare.
    fn read(&mut self, listing: &Listing, loaded: &mut Loaded) {
        self.understood.retain(|path| listing.contains_key(path));
        let mut reading = Reading::new(&self.declared, &mut loaded.problems);
        for path in listing.keys() {
            if reading.file(path) {
                self.understood.insert(path.clone());
            } else {
                loaded.incomplete |= !self.understood.contains(path);
            }
        }
        self.declared = reading.finish();
    }

    /// From what is declared to what is served.
    fn serve(&mut self, loaded: &mut Loaded, random: Random<'_>) {
        let last = std::mem::take(&mut self.served);
        let serving = Serving::new(&self.data_dir, self.keeps_keys, self.is_external, &self.declared);
        loaded.problems.extend(serving.strays());
        for (name, entry) in self.declared.tenants.by_place() {
            let served = serving.tenant(name, entry, last.get(name), random, &mut loaded.problems);
            self.served.extend(served.as_ref().map(|served| (name.clone(), served.config.clone())));
            loaded.tenants.extend(served);
        }
    }
}

#[cfg(test)]
mod tests;
