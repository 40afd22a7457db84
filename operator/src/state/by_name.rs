//! Objects by namespace and name.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::state::name::Name;

/// A complete list from a watch. An object that is not in it does not exist any more.
#[derive(Debug)]
pub struct Listed {
    /// The namespace of the list; `None`: all namespaces.
    pub namespace: Option<String>,
    /// The names in the list.
    pub names: HashSet<Name>,
}

/// Objects by namespace and name.
#[derive(Debug)]
pub struct ByName<T>(HashMap<String, BTreeMap<String, (Name, T)>>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> ByName<T> {
    /// The object of this name.
    pub fn get(&self, name: &Name) -> Option<&T> {
        Some(&self.0.get(&name.namespace)?.get(&name.name)?.1)
    }

    /// Inserts an object. Returns the object that had this name before.
    pub fn insert(&mut self, name: Name, object: T) -> Option<T> {
        let namespace = self.0.entry(name.namespace.clone()).or_default();
        Some(namespace.insert(name.name.clone(), (name, object))?.1)
    }

    /// Removes an object; returns it.
    pub fn remove(&mut self, name: &Name) -> Option<T> {
        let namespace = self.0.get_mut(&name.namespace)?;
        let removed = namespace.remove(&name.name)?;
        if namespace.is_empty() {
            self.0.remove(&name.namespace);
        }
        Some(removed.1)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.values().flat_map(|namespace| namespace.values().map(|(name, _)| name))
    }

    /// The names in a namespace.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        self.0.get(namespace).into_iter().flat_map(|namespace| namespace.values().map(|(name, _)| name))
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// The names of known objects in the list's namespace that the list does not contain.
    pub fn missing_from(&self, listed: &Listed) -> Vec<Name> {
        let missing = |name: &&Name| !listed.names.contains(*name);
        match &listed.namespace {
            Some(namespace) => self.in_namespace(namespace).filter(missing).cloned().collect(),
            None => self.names().filter(missing).cloned().collect(),
        }
    }
}
