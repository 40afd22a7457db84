//! Which Tenant has which API key. A key identifies the Tenant of a request, so only one Tenant can have it.

use std::collections::{BTreeSet, HashMap, HashSet};

use docket_crds::ApiKeyDigest;
use jiff::Timestamp;

use crate::state::declared::Meta;
use crate::state::name::Name;
use crate::state::small_set::SmallSet;

/// A Tenant that has a key. Holders are ordered by creation time.
type Holder = (Timestamp, String, Name);

/// The API keys of all Tenants, by their digests.
#[derive(Debug, Default)]
pub struct ApiKeyClaims {
    holders: HashMap<ApiKeyDigest, SmallSet<Holder>>,
    of: HashMap<String, HashSet<ApiKeyDigest>>,
}

impl ApiKeyClaims {
    /// Records the keys of a Tenant. Returns the keys among them that an earlier Tenant has, and the Tenants that the
    /// change concerns.
    pub fn set(&mut self, meta: &Meta, keys: HashSet<ApiKeyDigest>) -> (HashSet<ApiKeyDigest>, Vec<Name>) {
        let own: Holder = (meta.created, meta.uid.clone(), meta.name.clone());
        let before = self.of.remove(&meta.uid).unwrap_or_default();
        let mut concerned = BTreeSet::new();
        for key in before.difference(&keys) {
            concerned.extend(self.later(key, &own));
            self.give_up(key, &meta.uid);
        }
        for key in keys.difference(&before) {
            self.holders.entry(*key).or_default().insert(own.clone());
            concerned.extend(self.later(key, &own));
        }
        let first = |key: &ApiKeyDigest| {
            self.holders.get(key).and_then(|holders| holders.iter().next()) == Some(&own)
        };
        let taken = keys.iter().filter(|key| !first(key)).copied().collect();
        self.of.insert(meta.uid.clone(), keys);
        (taken, concerned.into_iter().collect())
    }

    /// Removes a Tenant that does not exist any more. Returns the Tenants that have one of its keys too.
    pub fn forget(&mut self, uid: &str) -> Vec<Name> {
        let keys = self.of.remove(uid).unwrap_or_default();
        keys.iter().for_each(|key| self.give_up(key, uid));
        let others = keys.iter().filter_map(|key| self.holders.get(key)).flat_map(SmallSet::iter);
        others.map(|(_, _, name)| name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn give_up(&mut self, key: &ApiKeyDigest, uid: &str) {
        if let Some(holders) = self.holders.get_mut(key) {
            let own = holders.iter().find(|(_, holder, _)| holder == uid).cloned();
            if let Some(own) = own {
                holders.remove(&own);
            }
            if holders.is_empty() {
                self.holders.remove(key);
            }
        }
    }

    fn later(&self, key: &ApiKeyDigest, than: &Holder) -> Vec<Name> {
        let holders = self.holders.get(key).into_iter().flat_map(SmallSet::iter);
        holders.filter(|holder| *holder > than).map(|(_, _, name)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::examples;

    fn meta(name: &str, second: i64) -> Meta {
        let created = Timestamp::from_second(second).unwrap();
        Meta { name: Name::new("a", name), uid: name.into(), created, ..examples::declared().meta.clone() }
    }

    fn keys(digits: &str) -> HashSet<ApiKeyDigest> {
        digits.chars().map(|digit| ApiKeyDigest::of(&digit.to_string().repeat(32)).unwrap()).collect()
    }

    #[test]
    fn key_belongs_to_the_earliest_tenant() {
        let (first, second) = (meta("first", 1), meta("second", 2));
        let mut all = ApiKeyClaims::default();
        assert_eq!(all.set(&second, keys("12")), (keys(""), Vec::new()));
        assert_eq!(
            all.set(&first, keys("23")),
            (keys(""), vec![second.name.clone()]),
            "it has to be reconciled"
        );
        assert_eq!(all.set(&second, keys("12")), (keys("2"), Vec::new()));
        assert_eq!(all.set(&first, keys("23")), (keys(""), Vec::new()), "nothing is new");
        assert_eq!(all.set(&first, keys("3")), (keys(""), vec![second.name.clone()]));
        assert_eq!(all.set(&second, keys("123")), (keys("3"), Vec::new()));
        assert_eq!(all.forget("first"), vec![second.name.clone()]);
        assert_eq!(all.set(&second, keys("123")), (keys(""), Vec::new()));
        assert_eq!(all.forget("second"), []);
        assert!(all.holders.is_empty() && all.of.is_empty());
    }
}
