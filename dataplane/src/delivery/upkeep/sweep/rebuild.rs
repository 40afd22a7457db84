//! Which tenants are not in the schedule yet since it was lost.

use std::collections::HashSet;
use std::sync::Arc;

/// The rebuild of a lost schedule.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    /// The tenants to index; `None`: nothing was lost, or the rebuild is complete.
    missing: Option<HashSet<Arc<str>>>,
}

impl Rebuild {
    /// Begins with all of these tenants missing.
    pub(super) fn start(&mut self, uids: impl Iterator<Item = Arc<str>>) {
        self.missing = Some(uids.collect());
    }

    /// Whether a loss was noticed and its rebuild is not complete.
    pub(super) fn is_running(&self) -> bool {
        self.missing.is_some()
    }

    /// The tenants that are still missing.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Arc<str>> {
        self.missing.iter().flatten()
    }

    /// Whether this tenant is still missing.
    pub(super) fn misses(&self, uid: &str) -> bool {
        self.missing.as_ref().is_some_and(|missing| missing.contains(uid))
    }

    /// The schedule has all deliveries of this tenant.
    pub(super) fn indexed(&mut self, uid: &str) {
        if let Some(missing) = &mut self.missing {
            missing.remove(uid);
        }
    }

    /// Whether no tenant that `is_served` is missing any more. Others have nothing to index.
    pub(super) fn is_ready(&mut self, is_served: impl Fn(&str) -> bool) -> bool {
        let Some(missing) = &mut self.missing else { return false };
        missing.retain(|uid| is_served(uid));
        missing.is_empty()
    }

    /// The schedule knows that it is complete.
    pub(super) fn complete(&mut self) {
        self.missing = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rebuild_is_ready_once_every_served_tenant_is_indexed() {
        let mut rebuild = Rebuild::default();
        assert!(!rebuild.is_running() && !rebuild.is_ready(|_| true), "nothing was lost");
        rebuild.start(["a", "b", "gone"].map(Arc::<str>::from).into_iter());
        rebuild.indexed("a");
        assert!(!rebuild.misses("a") && rebuild.misses("b"));
        assert!(!rebuild.is_ready(|uid| uid != "gone"));
        rebuild.indexed("b");
        assert!(rebuild.is_ready(|uid| uid != "gone") && rebuild.is_running());
        rebuild.complete();
        assert!(!rebuild.is_running());
    }
}
