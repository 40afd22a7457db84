//! Which tenants were at which of their limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use docket_crds::Limit;
use docket_schedule::HandOffs;
use parking_lot::Mutex;

use crate::telemetry::Metrics;

/// The tenants that were at a limit. `docket serve` reports them to the operator, which sets the condition `WithinLimits`.
#[derive(Default)]
pub struct AtLimit {
    /// The uids and limits since the last call of [`take`](Self::take): at most one per tenant and limit.
    reached: Mutex<BTreeSet<(Arc<str>, Limit)>>,
    metrics: Arc<Metrics>,
}

impl AtLimit {
    /// Creates an empty list. `metrics` counts each event.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, reached: Mutex::default() }
    }

    /// Records that something was refused or has to wait because the tenant with this uid was at this limit.
    pub fn reached(&self, tenant: &Arc<str>, limit: Limit) {
        self.reached.lock().insert((Arc::clone(tenant), limit));
        self.metrics.limited(limit);
    }

    /// Records the tenants whose deliveries have to wait because of a limit.
    pub fn deliveries_wait(&self, HandOffs { full, busy, .. }: &HandOffs) {
        full.iter().for_each(|tenant| self.reached(tenant, Limit::QueuedDeliveries));
        busy.iter().for_each(|tenant| self.reached(tenant, Limit::AttemptsInFlight));
    }

    /// Returns the uids of tenants that were at a limit since the last call, with the limit.
    pub fn take(&self) -> BTreeSet<(Arc<str>, Limit)> {
        std::mem::take(&mut *self.reached.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_at_a_limit_is_reported_once_and_counted_each_time() {
        let at_limit = AtLimit::default();
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        for _ in 0..2 {
            at_limit.reached(&a, Limit::BodyBytes);
        }
        let (full, busy) = (vec![Arc::clone(&b)], vec![Arc::clone(&a)]);
        at_limit.deliveries_wait(&HandOffs { full, busy, ..HandOffs::default() });
        let reached =
            [(Arc::clone(&a), Limit::BodyBytes), (a, Limit::AttemptsInFlight), (b, Limit::QueuedDeliveries)];
        assert_eq!(at_limit.take(), BTreeSet::from(reached));
        assert_eq!(at_limit.take(), BTreeSet::new());
        let text = at_limit.metrics.text();
        for (limit, count) in [("bodyBytes", 2), ("attemptsInFlight", 1), ("queuedDeliveries", 1)] {
            let line = format!("docket_tenant_limited_total{{limit=\"{limit}\"}} {count}");
            assert!(text.lines().any(|written| written == line), "{line} in:\n{text}");
        }
    }
}
