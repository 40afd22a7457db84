//! Metrics. No label ever holds a key, a password, a token, a payload or personal data.

mod delivery;
mod stores;
mod upkeep;

use std::borrow::Cow;
use std::sync::atomic::AtomicI64;

use docket_crds::Limit;
use docket_domain::delivery::{FailureClass, Next, Outcome, Status};
use docket_listener::refusals::Counted;
use docket_program::process;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use delivery::{DeliveryMetrics, Jobs, LeasePart, Running, ScheduleCall};
pub use stores::StoreMetrics;
pub use upkeep::{Task, UpkeepMetrics};

/// The limits at which tenants are counted.
const COUNTED: [Limit; 6] = [
    Limit::RequestsPerSecond,
    Limit::SignInsPerMinute,
    Limit::BodyBytes,
    Limit::QueuedDeliveries,
    Limit::AttemptsInFlight,
    Limit::DatabaseConnections,
];

type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// The metrics of this process. No label is a tenant or a webhook: there may be ten thousand of each.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    own: OwnMetrics,
    connections_refused: Counted,
    /// Metrics of what delivers.
    pub delivery: DeliveryMetrics,
    /// Metrics of the tasks that visit all tenants.
    pub upkeep: UpkeepMetrics,
    /// Metrics of Redis and PostgreSQL.
    pub stores: StoreMetrics,
    /// Metrics of the process, whose names have no prefix.
    process: Registry,
}

docket_program::metrics! {
    /// The metrics of requests, tenants and ended attempts. The process of delivery, upkeep, stores and clients have their own.
    struct OwnMetrics {
        requests: Family<Labels<2>, Counter>,
            "http_requests", "Requests by route and status";
        request_seconds: Family<Labels<1>, Histogram, fn() -> Histogram> = Family::new_with_constructor(request_seconds),
            "http_request_seconds", "Time until the head of the response, by route";
        sign_ins: Family<Labels<1>, Counter>,
            "sign_in", "Sign-ins by result";
        tenant_limited: Family<Labels<1>, Counter>,
            "tenant_limited", "Refused requests and waiting deliveries of tenants at a limit, by limit";
        attempts: Family<Labels<1>, Counter>,
            "delivery_attempts", "Attempts of deliveries, by failure class or Succeeded";
        attempt_seconds: Histogram = Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            "delivery_attempt_seconds", "Time of an attempt";
        deliveries: Family<Labels<1>, Counter>,
            "deliveries", "Deliveries that ended, by status; WebhookGone are dead letters of removed webhooks, which DeadLetter does not count";
        stale_finishes: Counter,
            "delivery_stale_finishes", "Results of attempts that were ignored because the lease had expired";
        invoices_detected: Counter,
            "invoices_detected", "New invoices whose event was published";
        invoice_scan_failures: Counter,
            "invoice_scan_failures", "Scans for new invoices that failed and are retried";
        unchanged_databases: Family<Labels<1>, Counter>,
            "unchanged_databases", "Reads of a database that were left out because nothing had changed, by reader";
        audit_lost: Family<Labels<1>, Counter>,
            "audit_lost", "Audit entries that were lost, by what is missing: the line in the stream or the row in the database";
        mails: Family<Labels<1>, Counter>,
            "mails", "Messages to subscribers, by result: sent, failed (and retried) or given_up";
        mails_waiting: Gauge<i64, AtomicI64>,
            "mails_waiting", "Messages to subscribers that wait, in the tenants whose turn to send this process has";
        tenants: Gauge<i64, AtomicI64>,
            "tenants", "Tenants that are served";
        config_problems: Gauge<i64, AtomicI64>,
            "config_problems", "Problems in the declared Tenants and Webhooks";
    } beside {}
}

/// Returns an empty histogram of requests. It has few buckets, because each route has a histogram.
fn request_seconds() -> Histogram {
    Histogram::new([0.002_5, 0.01, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0])
}

docket_crds::words! {
    /// A task that reads tenants' databases again and again.
    pub enum Reader {
        /// Finds new invoices.
        Detector = "detector",
        /// Schedules unfinished deliveries, and reports the health of webhooks.
        Sweep = "sweep",
        /// Deletes old deliveries.
        Retention = "retention",
        /// Announces changes of webhooks to subscribers.
        Notices = "notices",
    }
}

docket_crds::words! {
    /// What became of a message to a subscriber.
    pub enum MailResult {
        /// The SMTP server has it.
        Sent = "sent",
        /// The message was not sent, and will be tried again.
        Failed = "failed",
        /// The message was not sent, and will not be tried again.
        GivenUp = "given_up",
    }
}

docket_crds::words! {
    /// A part of an audit entry that can be lost.
    pub enum Lost {
        /// The line of the stream.
        Line = "line",
        /// The row of the tenant's database.
        Row = "row",
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("docket");
        let metrics = Self {
            own: OwnMetrics::default(),
            connections_refused: Counted::default(),
            delivery: DeliveryMetrics::default(),
            upkeep: UpkeepMetrics::default(),
            stores: StoreMetrics::default(),
            process: process::metrics("docket"),
            registry: Registry::default(),
        };
        metrics.own.register(&mut registry);
        metrics.connections_refused.register(&mut registry, "connections_refused");
        metrics.delivery.register(&mut registry);
        metrics.upkeep.register(&mut registry);
        metrics.stores.register(&mut registry);
        metrics.begin();
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// Begins every series at 0: Prometheus sees no increase in a series that begins with its first event.
    fn begin(&self) {
        for result in ["ok", "refused", "throttled", "busy"] {
            drop(self.own.sign_ins.get_or_create(&[("result", result.into())]));
        }
        for limit in COUNTED {
            drop(self.own.tenant_limited.get_or_create(&[("limit", limit.to_string().into())]));
        }
        for class in FailureClass::WORDS.into_iter().chain(["Succeeded"]) {
            drop(self.own.attempts.get_or_create(&[("class", class.into())]));
        }
        for status in Status::ALL.into_iter().filter(|status| status.is_final()) {
            drop(self.own.deliveries.get_or_create(&[("status", status.as_str().into())]));
        }
        self.webhook_gone(0);
        for reader in Reader::ALL {
            drop(self.own.unchanged_databases.get_or_create(&[("reader", reader.as_str().into())]));
        }
        for lost in Lost::ALL {
            self.audit_lost(lost, 0);
        }
        for result in MailResult::ALL {
            drop(self.own.mails.get_or_create(&[("result", result.as_str().into())]));
        }
    }

    /// Counts a message to a subscriber.
    pub fn mailed(&self, result: MailResult) {
        self.own.mails.get_or_create(&[("result", result.as_str().into())]).inc();
    }

    /// Adds to the number of messages that wait, or subtracts from it.
    pub fn mails_waiting(&self, more: i64) {
        self.own.mails_waiting.inc_by(more);
    }

    /// Counts audit entries that lost this part.
    pub fn audit_lost(&self, lost: Lost, count: u64) {
        self.own.audit_lost.get_or_create(&[("what", lost.as_str().into())]).inc_by(count);
    }

    /// Begins the series of these routes at 0, for a success and for a server's errors.
    pub fn serves<'a>(&self, routes: impl IntoIterator<Item = &'a str>) {
        for route in routes {
            for code in ["200", "500", "503"] {
                drop(
                    self.own
                        .requests
                        .get_or_create(&[("route", route.to_owned().into()), ("code", code.into())]),
                );
            }
            drop(self.own.request_seconds.get_or_create(&[("route", route.to_owned().into())]));
        }
    }

    /// Counts a request. `route` is the pattern of a known route, never the path of the request.
    pub fn requested(&self, route: &str, status: u16, seconds: f64) {
        let of_route = [("route", route.to_owned().into())];
        self.own.request_seconds.get_or_create(&of_route).observe(seconds);
        let [route] = of_route;
        self.own.requests.get_or_create(&[route, ("code", status.to_string().into())]).inc();
    }

    /// The counter of connections that were refused or had to wait.
    pub fn connections_refused(&self) -> Counted {
        self.connections_refused.clone()
    }

    /// Counts a sign-in: `ok`, `refused`, `throttled` or `busy`.
    pub fn signed_in(&self, result: &'static str) {
        self.own.sign_ins.get_or_create(&[("result", result.into())]).inc();
    }

    /// Counts a request that was refused, or a delivery that has to wait, because a tenant was at this limit.
    pub fn limited(&self, limit: Limit) {
        self.own.tenant_limited.get_or_create(&[("limit", limit.to_string().into())]).inc();
    }

    /// Counts an attempt.
    pub fn attempted(&self, outcome: &Outcome, next: Next) {
        let class = outcome.failure().map_or("Succeeded", FailureClass::as_str);
        self.own.attempts.get_or_create(&[("class", class.into())]).inc();
        self.own.attempt_seconds.observe(outcome.report().times.total.as_secs_f64());
        if next.status().is_final() {
            self.own.deliveries.get_or_create(&[("status", next.status().as_str().into())]).inc();
        }
    }

    /// Counts deliveries that ended because their webhook is gone. They have a label of their own, because a removed webhook is no
    /// failing receiver.
    pub fn webhook_gone(&self, count: u64) {
        let labels = [("status", FailureClass::WebhookGone.as_str().into())];
        self.own.deliveries.get_or_create(&labels).inc_by(count);
    }

    /// Counts deliveries that ended without another attempt: their worker was lost.
    pub fn dead_lettered(&self, count: u64) {
        if count > 0 {
            self.own.deliveries.get_or_create(&[("status", "DeadLetter".into())]).inc_by(count);
        }
    }

    /// Counts attempts whose worker was lost.
    pub fn lost(&self, count: u64) {
        if count > 0 {
            let labels = [("class", FailureClass::WorkerLost.as_str().into())];
            self.own.attempts.get_or_create(&labels).inc_by(count);
        }
    }

    /// Counts a result of an attempt that came too late.
    pub fn stale_finish(&self) {
        self.own.stale_finishes.inc();
    }

    /// Counts new invoices that were published.
    pub fn detected(&self, invoices: usize) {
        self.own.invoices_detected.inc_by(u64::try_from(invoices).unwrap_or(u64::MAX));
    }

    /// Counts a failed scan for new invoices.
    pub fn scan_failed(&self) {
        self.own.invoice_scan_failures.inc();
    }

    /// Counts a database that was not read because nothing had changed.
    pub fn unchanged(&self, reader: Reader) {
        self.own.unchanged_databases.get_or_create(&[("reader", reader.as_str().into())]).inc();
    }

    /// Sets the numbers of served tenants and of problems in what is declared.
    pub fn configured(&self, tenants: usize, problems: usize) {
        self.own.tenants.set(i64::try_from(tenants).unwrap_or(i64::MAX));
        self.own.config_problems.set(i64::try_from(problems).unwrap_or(i64::MAX));
    }

    /// Returns all metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        self.delivery.read();
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.registry);
        written.and_then(|()| encode(&mut text, &self.process)).expect("writing to a String does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_there_before_its_first_event() {
        let metrics = Metrics::default();
        metrics.serves(["/Orders/Save"]);
        metrics.upkeep.runs(Task::Sweep);
        let begun = metrics.text();
        for series in [
            "docket_deliveries_total{status=\"DeadLetter\"} 0",
            "docket_deliveries_total{status=\"Succeeded\"} 0",
            "docket_deliveries_total{status=\"WebhookGone\"} 0",
            "docket_delivery_attempts_total{class=\"WorkerLost\"} 0",
            "docket_delivery_attempts_total{class=\"TimeoutFirstByte\"} 0",
            "docket_delivery_attempts_total{class=\"Succeeded\"} 0",
            "docket_sign_in_total{result=\"refused\"} 0",
            "docket_connections_refused_total{reason=\"Full\"} 0",
            "docket_connections_refused_total{reason=\"NotTrusted\"} 0",
            "docket_tenant_limited_total{limit=\"requestsPerSecond\"} 0",
            "docket_tenant_limited_total{limit=\"databaseConnections\"} 0",
            "docket_invoice_scan_failures_total 0",
            "docket_unchanged_databases_total{reader=\"sweep\"} 0",
            "docket_audit_lost_total{what=\"row\"} 0",
            "docket_mails_total{result=\"given_up\"} 0",
            "docket_attempts_in_flight{class=\"quick\"} 0",
            "docket_deliveries_claimed_total{way=\"hand_off\"} 0",
            "docket_claim_lag_seconds_count 0",
            "docket_group_size_count{kind=\"read_order\"} 0",
            "docket_deliveries_not_announced_total 0",
            "docket_lease_renewals_failed_total{of=\"claim\"} 0",
            "docket_receiver_connections_opened_total 0",
            "docket_http_requests_total{route=\"/Orders/Save\",code=\"500\"} 0",
            "docket_http_request_seconds_count{route=\"/Orders/Save\"} 0",
            "docket_upkeep_tenants_total{task=\"sweep\",result=\"failed\"} 0",
            "docket_deliveries_swept_total 0",
            "docket_deliveries_deleted_total 0",
            "docket_audit_entries_deleted_total 0",
        ] {
            assert!(begun.lines().any(|line| line == series), "{series} in:\n{begun}");
        }
    }

    #[test]
    fn each_thing_counts_in_its_own_series() {
        let metrics = Metrics::default();
        metrics.webhook_gone(1);
        metrics.dead_lettered(2);
        metrics.lost(3);
        metrics.detected(4);
        metrics.stale_finish();
        metrics.scan_failed();
        metrics.configured(5, 6);
        metrics.unchanged(Reader::Retention);
        metrics.signed_in("throttled");
        metrics.limited(Limit::BodyBytes);
        metrics.mailed(MailResult::Failed);
        metrics.mails_waiting(3);
        metrics.mails_waiting(-1);
        metrics.audit_lost(Lost::Line, 7);
        metrics.requested("/Orders/Save", 201, 0.004);
        let text = metrics.text();
        for series in [
            "docket_deliveries_total{status=\"WebhookGone\"} 1",
            "docket_deliveries_total{status=\"DeadLetter\"} 2",
            "docket_deliveries_total{status=\"Succeeded\"} 0",
            "docket_delivery_attempts_total{class=\"WorkerLost\"} 3",
            "docket_invoices_detected_total 4",
            "docket_delivery_stale_finishes_total 1",
            "docket_invoice_scan_failures_total 1",
            "docket_tenants 5",
            "docket_config_problems 6",
            "docket_unchanged_databases_total{reader=\"retention\"} 1",
            "docket_unchanged_databases_total{reader=\"sweep\"} 0",
            "docket_sign_in_total{result=\"throttled\"} 1",
            "docket_sign_in_total{result=\"refused\"} 0",
            "docket_tenant_limited_total{limit=\"bodyBytes\"} 1",
            "docket_mails_total{result=\"failed\"} 1",
            "docket_mails_total{result=\"given_up\"} 0",
            "docket_mails_waiting 2",
            "docket_audit_lost_total{what=\"line\"} 7",
            "docket_audit_lost_total{what=\"row\"} 0",
            "docket_http_requests_total{route=\"/Orders/Save\",code=\"201\"} 1",
            "docket_http_request_seconds_bucket{le=\"0.0025\",route=\"/Orders/Save\"} 0",
            "docket_http_request_seconds_bucket{le=\"0.01\",route=\"/Orders/Save\"} 1",
        ] {
            assert!(text.lines().any(|line| line == series), "{series} in:\n{text}");
        }
        // The longest attempt takes 30 s.
        assert!(text.contains("docket_delivery_attempt_seconds_bucket{le=\"32.768\"} 0"), "{text}");
    }
}
