//! The objects of all files together: duplicates, conflicts, and the last good versions of broken objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docket_crds::webhook::tenant_ref;
use docket_crds::{Reason, Tenant, Violation, Webhook, duplicates};
use serde_json::Value;

use super::object::{Data, Identity, Kind, Name, Object};
use super::{documents, files};
use crate::problem::{ConfigProblem, YamlPosition};

/// An object of the folder.
#[derive(Clone, Debug)]
pub(super) struct FolderObject<T> {
    pub(super) position: YamlPosition,
    /// The last version that was good.
    good: Option<Arc<T>>,
    /// The version that counts now; `None`: the object is broken and was never good.
    pub(super) now: Option<Arc<T>>,
    /// The Tenant that the document of a Webhook names, even if other fields are wrong.
    pub(super) tenant: Option<Name>,
}

/// The objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct Entries<T>(BTreeMap<Name, FolderObject<T>>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Entries<T> {
    pub(super) fn get(&self, name: &Name) -> Option<&FolderObject<T>> {
        self.0.get(name)
    }

    /// The objects in the order of files and positions.
    pub(super) fn by_place(&self) -> Vec<(&Name, &FolderObject<T>)> {
        let mut entries: Vec<_> = self.0.iter().collect();
        entries.sort_by_key(|(_, entry)| &entry.position);
        entries
    }
}

impl<T: Object> Entries<T> {
    /// Adds a document, and returns what is wrong with it.
    fn add(&mut self, last: &Self, name: &Name, position: &YamlPosition, document: Value) -> Vec<Violation> {
        if let Some(first) = self.0.get(name) {
            let message = format!("is declared already in {}; remove one of the two", first.position);
            return vec![Violation::new("", message)];
        }
        let good = last.get(name).and_then(|entry| entry.good.clone());
        let tenant = document.get("spec").and_then(|spec| tenant_ref(spec, &name.namespace));
        let tenant = tenant.map(|(namespace, name)| Name { namespace: namespace.into(), name: name.into() });
        let (read, mut violations) = T::read(document);
        if let (Some(read), Some(good), true) = (&read, &good, violations.is_empty()) {
            violations = read.check_change(good);
        }
        let entry = if violations.is_empty() {
            let read = read.map(Arc::new);
            FolderObject { position: position.clone(), good: read.clone(), now: read, tenant }
        } else {
            let now = T::fall_back(good.as_deref(), read.as_ref()).map(Arc::new);
            FolderObject { position: position.clone(), good, now, tenant }
        };
        self.0.insert(name.clone(), entry);
        violations
    }

    /// Keeps objects that were declared in a file that is not understood now, unless they are declared elsewhere.
    fn keep(&mut self, last: &Self, unclear: &BTreeSet<PathBuf>) {
        for (name, entry) in last.0.iter().filter(|(_, entry)| unclear.contains(&entry.position.file)) {
            self.0.entry(name.clone()).or_insert_with(|| entry.clone());
        }
    }
}

/// All objects that a folder declares.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) tenants: Entries<Tenant>,
    pub(super) webhooks: Entries<Webhook>,
    pub(super) secrets: Entries<Data>,
    pub(super) config_maps: Entries<Data>,
}

/// The state while the folder is read once.
pub(super) struct Reading<'a> {
    last: &'a Objects,
    objects: Objects,
    unclear: BTreeSet<PathBuf>,
    problems: &'a mut Vec<ConfigProblem>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(last: &'a Objects, problems: &'a mut Vec<ConfigProblem>) -> Self {
        Self { last, objects: Objects::default(), unclear: BTreeSet::new(), problems }
    }

    /// Reads a file. Returns whether every document in it says what it is.
    pub(super) fn file(&mut self, path: &Path) -> bool {
        let understood = match read_documents(path) {
            Ok(documents) => {
                let mut understood = true;
                for (index, document) in documents.into_iter().enumerate() {
                    understood &=
                        self.document(YamlPosition { file: path.to_owned(), document: index + 1 }, document);
                }
                understood
            }
            Err(problem) => {
                self.problems.push(problem);
                false
            }
        };
        if !understood {
            self.unclear.insert(path.to_owned());
        }
        understood
    }

    fn document(&mut self, position: YamlPosition, document: Value) -> bool {
        let (kind, name) = match Identity::of(&document) {
            Identity::Known(kind, name) => (kind, name),
            Identity::Foreign(violation) => {
                self.problems.push(ConfigProblem::at(&position, None, violation));
                return true;
            }
            Identity::Unclear(violation) => {
                self.problems.push(ConfigProblem::at(&position, None, violation));
                return false;
            }
        };
        let (objects, last) = (&mut self.objects, self.last);
        let violations = match kind {
            Kind::Tenant => objects.tenants.add(&last.tenants, &name, &position, document),
            Kind::Webhook => objects.webhooks.add(&last.webhooks, &name, &position, document),
            Kind::Secret => objects.secrets.add(&last.secrets, &name, &position, document),
            Kind::ConfigMap => objects.config_maps.add(&last.config_maps, &name, &position, document),
        };
        let object = kind.of(&name);
        let problems = violations
            .into_iter()
            .map(|violation| ConfigProblem::at(&position, Some(object.clone()), violation));
        self.problems.extend(problems);
        true
    }

    /// Ends the reading after the last file, and returns the objects that count.
    pub(super) fn finish(mut self) -> Objects {
        let (objects, last) = (&mut self.objects, self.last);
        objects.tenants.keep(&last.tenants, &self.unclear);
        objects.webhooks.keep(&last.webhooks, &self.unclear);
        objects.secrets.keep(&last.secrets, &self.unclear);
        objects.config_maps.keep(&last.config_maps, &self.unclear);
        self.problems.extend(settle_conflicts(&mut objects.tenants, &last.tenants));
        self.objects
    }
}

fn read_documents(path: &Path) -> Result<Vec<Value>, ConfigProblem> {
    let text = files::read(path).map_err(|message| ConfigProblem::in_file(path, None, message))?;
    documents::parse(&text).map_err(|error| ConfigProblem::in_file(path, Some(error.document), error.message))
}

/// Resolves conflicts between tenants: a tenant that wants what another tenant has falls back to its last good version.
/// Tenants are handled in the order of places. But a later tenant keeps what it had before and still wants.
fn settle_conflicts(tenants: &mut Entries<Tenant>, last: &Entries<Tenant>) -> Vec<ConfigProblem> {
    let order: Vec<Name> = tenants.by_place().into_iter().map(|(name, _)| name.clone()).collect();
    let all: Vec<_> = order.iter().filter_map(|name| tenants.get(name)?.now.as_deref()).collect();
    if duplicates(&all).is_empty() {
        return Vec::new();
    }
    let had = |name: &Name| last.get(name).and_then(|entry| entry.good.clone());
    let mut problems = Vec::new();
    for (index, name) in order.iter().enumerate() {
        let earlier = order[..index].iter().filter_map(|name| tenants.get(name)?.now.clone());
        let later = order[index + 1..].iter();
        let fallen_back = |name: &Name| {
            Tenant::fall_back(had(name).as_deref(), tenants.get(name)?.now.as_deref()).map(Arc::new)
        };
        let others: Vec<Arc<Tenant>> = earlier.chain(later.filter_map(fallen_back)).collect();
        let Some(entry) = tenants.0.get_mut(name) else { continue };
        let Some(now) = &entry.now else { continue };
        let found = conflicts(&others, now);
        if found.is_empty() {
            continue;
        }
        entry.good = had(name);
        entry.now = Tenant::fall_back(entry.good.as_deref(), Some(now)).map(Arc::new);
        let object = Kind::Tenant.of(name);
        problems.extend(found.into_iter().map(|reason| {
            ConfigProblem::at(
                &entry.position,
                Some(object.clone()),
                Violation::new(reason.field, reason.message),
            )
        }));
    }
    problems
}

fn conflicts(others: &[Arc<Tenant>], tenant: &Tenant) -> Vec<Reason> {
    let all: Vec<_> = others.iter().map(|other| &**other).chain([tenant]).collect();
    let of_last = duplicates(&all).into_iter().filter(|(index, _)| *index == others.len());
    of_last.map(|(_, reason)| reason).collect()
}
