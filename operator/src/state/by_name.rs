//! Objects by name, and by namespace.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::state::name::Name;

/// A list of a watch, whole: what is not in it is gone. `None` as the namespace: of all.
#[derive(Debug)]
pub struct Listed {
    /// The namespace that was listed.
    pub namespace: Option<String>,
    /// What was in it.
    pub names: HashSet<Name>,
}

#[derive(Debug)]
pub(super) struct ByName<T>(HashMap<String, BTreeMap<String, (Name, T)>>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> ByName<T> {
    pub(super) fn get(&self, name: &Name) -> Option<&T> {
        Some(&self.0.get(&name.namespace)?.get(&name.name)?.1)
    }

    pub(super) fn insert(&mut self, name: Name, object: T) -> Option<T> {
        let namespace = self.0.entry(name.namespace.clone()).or_default();
        Some(namespace.insert(name.name.clone(), (name, object))?.1)
    }

    pub(super) fn remove(&mut self, name: &Name) -> Option<T> {
        let namespace = self.0.get_mut(&name.namespace)?;
        let removed = namespace.remove(&name.name)?;
        if namespace.is_empty() {
            self.0.remove(&name.namespace);
        }
        Some(removed.1)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.values().flat_map(|namespace| namespace.values().map(|(name, _)| name))
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        self.0.get(namespace).into_iter().flat_map(|namespace| namespace.values().map(|(name, _)| name))
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// What is known and was not in a whole list.
    pub(super) fn missing_from(&self, listed: &Listed) -> Vec<Name> {
        let missing = |name: &&Name| !listed.names.contains(*name);
        match &listed.namespace {
            Some(namespace) => self.in_namespace(namespace).filter(missing).cloned().collect(),
            None => self.names().filter(missing).cloned().collect(),
        }
    }
}
