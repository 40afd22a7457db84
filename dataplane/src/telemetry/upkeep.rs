//! Metrics of upkeep: the work that a process repeats in the databases of its tenants.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

type StaticLabels<const N: usize> = [(&'static str, &'static str); N];

docket_crds::words! {
    /// A task of upkeep.
    pub enum Task {
        /// Finds new invoices.
        Detector = "detector",
        /// Schedules unfinished deliveries.
        Sweep = "sweep",
        /// Deletes old deliveries and audit entries.
        Retention = "retention",
        /// Stores when API keys were last used.
        KeyUses = "key_uses",
        /// Announces changes of webhooks to subscribers.
        Notices = "notices",
        /// Publishes the health of webhooks after attempts. It has no rounds: it visits tenants with attempts only.
        Report = "report",
    }
}

impl Task {
    /// Returns whether the task visits all of its tenants in rounds.
    pub const fn has_rounds(self) -> bool {
        !matches!(self, Self::Report)
    }
}

/// Returns an empty histogram of rounds. A sweep is spread over half of its interval, and retention may take an hour.
fn round_seconds() -> Histogram {
    Histogram::new([0.1, 1.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0])
}

docket_program::metrics! {
    /// The metrics of upkeep. A task has series only in a process that runs it.
    pub struct UpkeepMetrics {
        last_rounds: Family<StaticLabels<1>, Gauge>,
            "upkeep_last_round_timestamp_seconds", "Time when the last complete round over the tenants ended, in seconds since 1970, by task; sweep and retention take turns between processes";
        round_seconds: Family<StaticLabels<1>, Histogram, fn() -> Histogram> = Family::new_with_constructor(round_seconds),
            "upkeep_round_seconds", "Time of a complete round over the tenants, by task; a round of the detector takes about --invoice-scan-interval";
        visits: Family<StaticLabels<2>, Counter>,
            "upkeep_tenants", "Visits of tenants' databases, by task and result: ok or failed";
        swept: Counter,
            "deliveries_swept", "Unfinished deliveries that a sweep gave to the schedule, which may have had them";
        deleted_deliveries: Counter,
            "deliveries_deleted", "Finished deliveries that were deleted because they were old";
        deleted_audit_entries: Counter,
            "audit_entries_deleted", "Audit entries that were deleted because they were old or too many";
    } beside {}
}

impl UpkeepMetrics {
    /// Begins the series of a task, which this process runs, at 0. The time of its last round follows after its first round.
    pub fn runs(&self, task: Task) {
        for result in ["ok", "failed"] {
            drop(self.visits.get_or_create(&[("task", task.as_str()), ("result", result)]));
        }
        if task.has_rounds() {
            drop(self.round_seconds.get_or_create(&[("task", task.as_str())]));
        }
    }

    /// Counts a visit of a tenant's database.
    pub fn visited(&self, task: Task, is_ok: bool) {
        let result = if is_ok { "ok" } else { "failed" };
        self.visits.get_or_create(&[("task", task.as_str()), ("result", result)]).inc();
    }

    /// Records that a complete round ended at this time, in milliseconds since 1970, and its duration.
    pub fn round(&self, task: Task, now_ms: i64, took: Duration) {
        self.last_rounds.get_or_create(&[("task", task.as_str())]).set(now_ms / 1_000);
        self.round_seconds.get_or_create(&[("task", task.as_str())]).observe(took.as_secs_f64());
    }

    /// Counts unfinished deliveries that a sweep gave to the schedule.
    pub fn swept(&self, deliveries: usize) {
        self.swept.inc_by(u64::try_from(deliveries).unwrap_or(u64::MAX));
    }

    /// Counts deliveries that were deleted.
    pub fn deleted_deliveries(&self, count: u64) {
        self.deleted_deliveries.inc_by(count);
    }

    /// Counts audit entries that were deleted.
    pub fn deleted_audit_entries(&self, count: u64) {
        self.deleted_audit_entries.inc_by(count);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn text(upkeep: &UpkeepMetrics) -> String {
        let mut registry = Registry::with_prefix("docket");
        upkeep.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a String takes all");
        text
    }

    #[test]
    fn only_tasks_of_this_process_have_series() {
        let upkeep = UpkeepMetrics::default();
        upkeep.runs(Task::Sweep);
        upkeep.runs(Task::Report);
        let begun = text(&upkeep);
        for series in [
            "docket_upkeep_tenants_total{task=\"sweep\",result=\"ok\"} 0",
            "docket_upkeep_tenants_total{task=\"report\",result=\"failed\"} 0",
            "docket_upkeep_round_seconds_count{task=\"sweep\"} 0",
            "docket_deliveries_swept_total 0",
            "docket_deliveries_deleted_total 0",
            "docket_audit_entries_deleted_total 0",
        ] {
            assert!(begun.lines().any(|line| line == series), "{series} in:\n{begun}");
        }
        for absent in ["detector", "round_seconds_count{task=\"report\"}", "last_round"] {
            assert!(!begun.lines().any(|line| !line.starts_with('#') && line.contains(absent)), "{begun}");
        }
        upkeep.round(Task::Sweep, 1_764_230_400_999, Duration::from_secs(2));
        upkeep.visited(Task::Sweep, false);
        upkeep.swept(2);
        upkeep.deleted_deliveries(3);
        upkeep.deleted_audit_entries(4);
        let after = text(&upkeep);
        for series in [
            "docket_upkeep_last_round_timestamp_seconds{task=\"sweep\"} 1764230400",
            "docket_upkeep_round_seconds_bucket{le=\"10.0\",task=\"sweep\"} 1",
            "docket_upkeep_tenants_total{task=\"sweep\",result=\"failed\"} 1",
            "docket_upkeep_tenants_total{task=\"sweep\",result=\"ok\"} 0",
            "docket_deliveries_swept_total 2",
            "docket_deliveries_deleted_total 3",
            "docket_audit_entries_deleted_total 4",
        ] {
            assert!(after.lines().any(|line| line == series), "{series} in:\n{after}");
        }
    }
}
