//! Objects by namespace and name.

use std::collections::{BTreeMap, HashSet};

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
pub struct ByName<T>(BTreeMap<Name, T>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> ByName<T> {
    /// The object of this name.
    pub fn get(&self, name: &Name) -> Option<&T> {
        self.0.get(name)
    }

    /// Inserts an object. Returns the object that had this name before.
    pub fn insert(&mut self, name: Name, object: T) -> Option<T> {
        self.0.insert(name, object)
    }

    /// Removes an object; returns it.
    pub fn remove(&mut self, name: &Name) -> Option<T> {
        self.0.remove(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.keys()
    }

    /// The names in a namespace.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        let names = self.0.range(Name::new(namespace, "")..).map(|(name, _)| name);
        names.take_while(move |name| name.namespace == namespace)
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_namespace_are_its_own() {
        let mut objects = ByName::default();
        for (namespace, name) in [("a", "x"), ("a-b", "y"), ("a", "z"), ("b", "x"), ("", "x")] {
            objects.insert(Name::new(namespace, name), ());
        }
        let of = |namespace: &str| {
            objects.in_namespace(namespace).map(|name| name.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of("a"), ["x", "z"]);
        assert_eq!(of("a-b"), ["y"]);
        assert!(of("c").is_empty());
        let names = HashSet::from([Name::new("a", "x")]);
        let listed = |namespace: Option<&str>| Listed {
            namespace: namespace.map(str::to_owned),
            names: names.clone(),
        };
        assert_eq!(objects.missing_from(&listed(Some("a"))), [Name::new("a", "z")]);
        assert_eq!(objects.missing_from(&listed(None)).len(), 4);
    }
}
