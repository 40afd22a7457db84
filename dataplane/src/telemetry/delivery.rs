//! Metrics of the delivery engine: one for each mechanism that can make a delivery or a save wait.
//!
//! A series is counted where its event happens, or read when the metrics are requested. No label is a tenant or a webhook.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docket_egress::Connections;
use docket_schedule::{Claim, Overdue, ShareChanges};
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::{MetricType, TypedMetric};
use tokio::time::Instant;

type Label = [(&'static str, &'static str); 1];

/// A metric with one label whose values are known. Every series begins at 0, and none is looked up when it changes.
#[derive(Debug, Clone)]
struct Labelled<M, const N: usize> {
    family: Family<Label, M, fn() -> M>,
    /// A series for each value, in their order.
    series: [M; N],
}

impl<M: Clone, const N: usize> Labelled<M, N> {
    fn new(label: &'static str, values: [&'static str; N], make: fn() -> M) -> Self {
        let family: Family<Label, M, fn() -> M> = Family::new_with_constructor(make);
        let series = values.map(|value| family.get_or_create_owned(&[(label, value)]));
        Self { family, series }
    }
}

impl<M: EncodeMetric + TypedMetric, const N: usize> EncodeMetric for Labelled<M, N> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.family.metric_type()
    }
}

docket_crds::words! {
    /// Jobs of one tenant that are done together, in one transaction or one query.
    pub enum Jobs {
        /// New orders that are saved.
        Save = "save",
        /// Attempts that begin.
        Begin = "begin",
        /// Outcomes of attempts that are stored.
        Finish = "finish",
        /// Orders that are read.
        ReadOrder = "read_order",
        /// Users of tokens that are read.
        ReadUser = "read_user",
        /// Entries of the audit that are stored.
        Audit = "audit",
    }
}

/// A call that failed because the schedule was not available. The series are in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleCall {
    /// Claims deliveries that are due.
    Claim,
    /// Ends claims.
    Settle,
}

/// A part of a lease that is renewed. The series are in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePart {
    /// The row in the tenant's database.
    Row,
    /// The claim in the schedule.
    Claim,
}

/// What a worker does at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// Quick attempts that have a slot.
    pub quick: usize,
    /// All other attempts, also attempts that have left their slots.
    pub slow: usize,
    /// Slow attempts that have just begun.
    pub starting: usize,
    /// The slots of the worker.
    pub slots: usize,
    /// Leases that the worker keeps.
    pub leases: usize,
    /// Connections to receivers.
    pub connections: Connections,
}

/// Reads what the worker of this process does, if it has one.
#[derive(Default)]
struct RunningReader(OnceLock<Box<dyn Fn() -> Running + Send + Sync>>);

impl fmt::Debug for RunningReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningReader").field(&self.0.get().is_some()).finish()
    }
}

docket_program::metrics! {
    /// The metrics of what delivers in this process, in the order of the page `docs/reference/metrics.md`.
    pub struct DeliveryMetrics {
        in_flight: Labelled<Gauge, 2> = Labelled::new("class", ["quick", "slow"], Gauge::default),
            "attempts_in_flight", "Attempts from their claim to the end of their POST, by class: an attempt is quick if its webhook is known to answer quickly and it has taken less than a second";
        slots: Gauge,
            "worker_slots", "Slots of this process for attempts; slow attempts use at most half of them";
        starting: Gauge,
            "attempts_starting", "Attempts to webhooks that are not known to answer quickly, in the first 50 ms after their claim; few of them start at a time";
        claimed: Labelled<Counter, 2> = Labelled::new("way", ["hand_off", "queue"], Counter::default),
            "deliveries_claimed", "Deliveries that this process claimed, by way: hand_off at the save by the same process, or queue from the schedule";
        claim_size: Histogram = Histogram::new([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 25.0]),
            "claim_size", "Deliveries that one call claimed from the schedule";
        // The last bucket ends after more than an hour.
        claim_lag: Histogram = Histogram::new(exponential_buckets(0.001, 2.0, 23)),
            "claim_lag_seconds", "Time from the due time of a delivery, or from when it came into the schedule if that was later, to its claim";
        leases: Gauge,
            "leases", "Leases of attempts that this process keeps";
        renewals_failed: Labelled<Counter, 2> = Labelled::new("of", ["row", "claim"], Counter::default),
            "lease_renewals_failed", "Renewals of leases that failed and are tried again, by what was not available: the row in the database or the claim in the schedule";
        due: Family<Label, Gauge>,
            "deliveries_due", "Deliveries of all tenants that are due and not claimed, as far as they are in the schedule, by what they wait for: a worker, or a place since their webhook or tenant has all attempts at a time that it may have. Every worker counts them every 5 s, in Redis at most those of 1,000 webhooks at once, and publishes the same sum; there is no series while the schedule is not available";
        oldest_due: Family<[(&'static str, &'static str); 0], Gauge<f64, AtomicU64>>,
            "oldest_due_seconds", "Time for which the oldest delivery that waits for a worker in docket_deliveries_due had been due when it was counted, or in the schedule if it came there late; 0 if there was none";
        share_changes: Labelled<Counter, 2> = Labelled::new("change", ["grown", "shrunk"], Counter::default),
            "webhook_share_changes", "Changes of the share of a webhook, which is the number of its attempts at a time: grown if it answers quickly, shrunk if it does not";
        schedule_failures: Labelled<Counter, 2> = Labelled::new("call", ["claim", "settle"], Counter::default),
            "schedule_failures", "Calls that failed because the schedule was not available: claims of deliveries, and settlements of claims";
        left_alone: Gauge,
            "schedule_left_alone", "1 if saves do without the schedule because it did not respond within half a second, else 0";
        not_announced: Counter,
            "deliveries_not_announced", "New deliveries that the schedule did not know before their commit, because it was not available or they were too many for one call";
        pending: Gauge,
            "notifications_pending", "Committed deliveries that the schedule does not know yet because it was not available; this process notifies it again";
        given_up: Counter,
            "notifications_given_up", "Committed deliveries that the schedule was not notified of within 30 s, or that were too many to wait; a sweep finds them";
        group_size: Labelled<Histogram, 6> = Labelled::new("kind", Jobs::WORDS, || Histogram::new(exponential_buckets(1.0, 2.0, 11))),
            "group_size", "Jobs of one tenant that were done together in one transaction or query, by kind";
        save_wait: Histogram = Histogram::new(exponential_buckets(0.001, 2.0, 10)),
            "save_wait_seconds", "Time that a group of new orders waited for save permits of its deliveries";
        save_waits_given_up: Counter,
            "save_waits_given_up", "Groups of new orders that got too few save permits for their deliveries within a quarter of a second, and were saved without them";
        connections: Labelled<Gauge, 3> = Labelled::new("state", ["in_use", "idle", "opening"], Gauge::default),
            "receiver_connections", "Connections to receivers, by state";
        starving: Gauge,
            "receiver_openings_starving", "Connections to receivers that have been opening for longer than half a second; kept connections to the same receiver are closed meanwhile";
        opened: Counter,
            "receiver_connections_opened", "Connections to receivers that were opened";
        reused: Counter,
            "receiver_connections_reused", "Attempts that got a connection to their receiver that was open before";
        waiting: Gauge,
            "attempts_waiting_for_connection", "Attempts that wait for a connection to their receiver";
    } beside {
        /// Until when the circuit breaker of the schedule is open.
        breaker_open_until: Mutex<Option<Instant>>,
        worker: RunningReader,
    }
}

impl DeliveryMetrics {
    /// Sets how the metrics read what the worker of this process does. A process has one worker; a second call changes nothing.
    pub fn watch(&self, running: impl Fn() -> Running + Send + Sync + 'static) {
        let _ = self.worker.0.set(Box::new(running));
    }

    /// Sets until when the circuit breaker of the schedule is open; `None`: it is closed.
    pub fn breaker_open(&self, until: Option<Instant>) {
        *self.breaker_open_until.lock() = until;
    }

    /// Counts deliveries that were neither claimed nor announced before their commit.
    pub fn not_announced(&self, count: usize) {
        self.not_announced.inc_by(count as u64);
    }

    /// Sets how many committed deliveries the schedule has not been notified of yet.
    pub fn pending(&self, count: usize) {
        set(&self.pending, count);
    }

    /// Counts committed deliveries that were left to a sweep.
    pub fn given_up(&self, count: usize) {
        self.given_up.inc_by(count as u64);
    }

    /// Counts a claim from the schedule, and the deliveries that it got.
    pub fn claimed(&self, claims: &[Claim]) {
        let [_, queue] = &self.claimed.series;
        queue.inc_by(claims.len() as u64);
        self.claim_size.observe(claims.len() as f64);
        for claim in claims {
            self.claim_lag.observe(claim.overdue.as_secs_f64());
        }
    }

    /// Counts deliveries that were handed off at their save.
    pub fn handed_off(&self, count: usize) {
        let [hand_off, _] = &self.claimed.series;
        hand_off.inc_by(count as u64);
    }

    /// Counts a call that failed because the schedule was not available.
    pub fn schedule_failed(&self, call: ScheduleCall) {
        self.schedule_failures.series[call as usize].inc();
    }

    /// Sets how many deliveries of all tenants are due and not claimed; `None`: that is not known, and the series end.
    pub fn due(&self, counted: Option<&Overdue>) {
        let Some(Overdue { entries, held, longest, .. }) = counted else {
            self.due.clear();
            return self.oldest_due.clear();
        };
        for (what, count) in [("worker", entries), ("place", held)] {
            set(&self.due.get_or_create(&[("waits_for", what)]), *count);
        }
        self.oldest_due.get_or_create(&[]).set(longest.unwrap_or_default().as_secs_f64());
    }

    /// Counts a group of jobs that are done together, unless it is empty.
    pub fn grouped(&self, jobs: Jobs, count: usize) {
        if count > 0 {
            self.group_size.series[jobs as usize].observe(count as f64);
        }
    }

    /// Counts the wait of a group of saves for permits, and whether it `found` them.
    pub fn save_waited(&self, time: Duration, found: bool) {
        self.save_wait.observe(time.as_secs_f64());
        if !found {
            self.save_waits_given_up.inc();
        }
    }

    /// Counts shares of webhooks that changed.
    pub fn shares_changed(&self, ShareChanges { grown, shrunk }: ShareChanges) {
        let [more, fewer] = &self.share_changes.series;
        more.inc_by(grown);
        fewer.inc_by(shrunk);
    }

    /// Counts leases that were not renewed.
    pub fn renewals_failed(&self, of: LeasePart, count: usize) {
        self.renewals_failed.series[of as usize].inc_by(count as u64);
    }

    /// Sets the series that are read when the metrics are requested.
    pub(super) fn read(&self) {
        let open_until = *self.breaker_open_until.lock();
        self.left_alone.set(i64::from(open_until.is_some_and(|until| Instant::now() < until)));
        let Some(running) = self.worker.0.get() else { return };
        let Running { quick, slow, starting, slots, leases, connections } = running();
        let Connections { in_use, idle, opening, starving, waiting, opened, reused } = connections;
        let classes = self.in_flight.series.iter().zip([quick, slow]);
        let states = self.connections.series.iter().zip([in_use, idle, opening]);
        classes.chain(states).for_each(|(gauge, count)| set(gauge, count));
        set(&self.starting, starting);
        set(&self.slots, slots);
        set(&self.leases, leases);
        set(&self.starving, starving);
        set(&self.waiting, waiting);
        self.opened.inner().store(opened, Ordering::Relaxed);
        self.reused.inner().store(reused, Ordering::Relaxed);
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::DeliveryId;
    use docket_schedule::Entry;
    use jiff::Timestamp;

    use super::*;
    use crate::telemetry::Metrics;

    fn assert_has(metrics: &Metrics, series: &[&str]) {
        let text = metrics.text();
        for one in series {
            assert!(text.lines().any(|line| line == *one), "{one} in:\n{text}");
        }
    }

    #[test]
    fn work_of_the_worker_is_read_when_metrics_are_requested() {
        let metrics = Metrics::default();
        assert_has(&metrics, &["docket_worker_slots 0", "docket_attempts_in_flight{class=\"slow\"} 0"]);
        let connections =
            Connections { in_use: 3, idle: 2, opening: 11, starving: 10, waiting: 5, opened: 9, reused: 7 };
        metrics.delivery.watch(move || Running {
            quick: 4,
            slow: 1,
            slots: 8,
            leases: 6,
            starting: 12,
            connections,
        });
        assert_has(
            &metrics,
            &[
                "docket_worker_slots 8",
                "docket_attempts_in_flight{class=\"quick\"} 4",
                "docket_attempts_in_flight{class=\"slow\"} 1",
                "docket_leases 6",
                "docket_receiver_connections{state=\"in_use\"} 3",
                "docket_receiver_connections{state=\"idle\"} 2",
                "docket_attempts_starting 12",
                "docket_receiver_connections{state=\"opening\"} 11",
                "docket_receiver_openings_starving 10",
                "docket_receiver_connections_opened_total 9",
                "docket_receiver_connections_reused_total 7",
                "docket_attempts_waiting_for_connection 5",
            ],
        );
    }

    #[test]
    fn deliveries_are_counted_by_the_way_to_their_claim_and_by_their_lag() {
        let metrics = Metrics::default();
        let entry = |number| Entry {
            tenant: "a".into(),
            webhook: "w".into(),
            id: DeliveryId::new(Timestamp::UNIX_EPOCH, [number; 10]),
        };
        let claim = |number, overdue| Claim { entry: entry(number), fence: 1, quick: true, overdue };
        metrics.delivery.claimed(&[]);
        metrics.delivery.claimed(&[claim(1, Duration::ZERO), claim(2, Duration::from_secs(3_600))]);
        metrics.delivery.handed_off(3);
        assert_has(
            &metrics,
            &[
                "docket_deliveries_claimed_total{way=\"queue\"} 2",
                "docket_deliveries_claimed_total{way=\"hand_off\"} 3",
                "docket_claim_size_bucket{le=\"0.0\"} 1",
                "docket_claim_size_bucket{le=\"2.0\"} 2",
                "docket_claim_lag_seconds_bucket{le=\"0.001\"} 1",
                "docket_claim_lag_seconds_bucket{le=\"4194.304\"} 2",
            ],
        );
    }

    #[test]
    fn groups_are_counted_by_kind_and_empty_ones_not_at_all() {
        let metrics = Metrics::default();
        metrics.delivery.grouped(Jobs::Save, 5);
        metrics.delivery.grouped(Jobs::Audit, 0);
        assert_has(
            &metrics,
            &[
                "docket_group_size_bucket{le=\"4.0\",kind=\"save\"} 0",
                "docket_group_size_bucket{le=\"8.0\",kind=\"save\"} 1",
                "docket_group_size_count{kind=\"audit\"} 0",
            ],
        );
    }

    #[test]
    fn due_deliveries_and_failures_are_published() {
        let metrics = Metrics::default();
        assert!(!metrics.text().contains("docket_oldest_due_seconds{}"), "nothing is known");
        let longest = Some(Duration::from_millis(1_500));
        metrics.delivery.due(Some(&Overdue { entries: 3, held: 2, longest, next: None }));
        metrics.delivery.shares_changed(ShareChanges { grown: 1, shrunk: 2 });
        metrics.delivery.schedule_failed(ScheduleCall::Claim);
        metrics.delivery.renewals_failed(LeasePart::Row, 4);
        metrics.delivery.save_waited(Duration::from_millis(250), false);
        assert_has(
            &metrics,
            &[
                "docket_deliveries_due{waits_for=\"worker\"} 3",
                "docket_deliveries_due{waits_for=\"place\"} 2",
                "docket_oldest_due_seconds{} 1.5",
                "docket_webhook_share_changes_total{change=\"grown\"} 1",
                "docket_webhook_share_changes_total{change=\"shrunk\"} 2",
                "docket_schedule_failures_total{call=\"claim\"} 1",
                "docket_schedule_failures_total{call=\"settle\"} 0",
                "docket_lease_renewals_failed_total{of=\"row\"} 4",
                "docket_save_waits_given_up_total 1",
            ],
        );
        metrics.delivery.due(None);
        let text = metrics.text();
        assert!(!text.contains("docket_oldest_due_seconds{}") && !text.contains("waits_for"), "{text}");
    }
}
