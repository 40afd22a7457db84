//! The values that only one Tenant may have, and the Tenants that claim each: the index behind `docket_crds::duplicates`.

use std::collections::{BTreeSet, HashMap};

use docket_crds::ReasonCode;

use crate::state::name::Name;
use crate::state::small_set::SmallSet;

pub(crate) type ClaimKey = (ReasonCode, String);

#[derive(Debug, Default)]
pub(super) struct Claims {
    holders: HashMap<ClaimKey, SmallSet<Name>>,
    of: HashMap<Name, Vec<ClaimKey>>,
}

impl Claims {
    pub(super) fn of(&self, name: &Name) -> &[ClaimKey] {
        self.of.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn set(&mut self, name: &Name, claims: Vec<ClaimKey>) {
        self.remove(name);
        for claim in &claims {
            self.holders.entry(claim.clone()).or_default().insert(name.clone());
        }
        self.of.insert(name.clone(), claims);
    }

    pub(super) fn remove(&mut self, name: &Name) {
        for claim in self.of.remove(name).unwrap_or_default() {
            if let Some(holders) = self.holders.get_mut(&claim) {
                holders.remove(name);
                if holders.is_empty() {
                    self.holders.remove(&claim);
                }
            }
        }
    }

    /// The Tenants that claim at least one value that `name` claims, including `name` itself.
    pub(super) fn rivals(&self, name: &Name) -> BTreeSet<Name> {
        let claims = self.of.get(name).into_iter().flatten();
        claims.filter_map(|claim| self.holders.get(claim)).flat_map(SmallSet::iter).cloned().collect()
    }
}
