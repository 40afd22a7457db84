//! The operator's metrics.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use docket_crds::{ConditionType, ReasonCode, Tenant, Webhook};
use docket_listener::refusals::Counted;
use docket_program::process;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::state::conditions::Truth;
use crate::state::declared::DeclaredKind;
use crate::state::migrations::MigrationCounts;
use crate::state::name::Name;

/// The kinds of all watches.
const WATCHED: [&str; 7] =
    ["Tenant", "Webhook", "Secret", "ConfigMap", "GeneratedSecret", "RuntimeSecret", "Namespace"];

type Labels<const N: usize> = [(&'static str, String); N];
type Seconds = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// The metrics of this process. Only the conditions of Tenants have a series for each object.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    own: OwnMetrics,
    connections_refused: Counted,
    /// The series of PostgreSQL servers, which exist only in the leader.
    servers: Mutex<HashSet<Labels<2>>>,
    published: Arc<PublishedObjects>,
    /// Metrics of the process, whose names have no prefix.
    process: Registry,
}

docket_program::metrics! {
    /// The metrics of what this process does.
    struct OwnMetrics {
        reconciled: Family<Labels<2>, Counter>,
            "operator_reconcile", "Reconciliations by kind and result: ok, failed, withheld or panicked";
        duration: Seconds = Family::new_with_constructor(seconds),
            "operator_reconcile_duration_seconds", "Time of a reconciliation";
        wait: Seconds = Family::new_with_constructor(seconds),
            "operator_queue_wait_seconds", "Time that an object waited for its reconciliation";
        inflight: Family<Labels<1>, Gauge>,
            "operator_reconcile_inflight", "Reconciliations in progress";
        watch_errors: Counter,
            "operator_watch_errors", "Watches that failed and were restarted";
        silent_watches: Counter,
            "operator_silent_watches", "Watches on which nothing was heard of the API server for more than 64 s, and that were opened again";
        watch_age: Family<Labels<1>, Gauge<f64, AtomicU64>>,
            "operator_watch_age_seconds", "Time since the API server was last heard on the watches of a kind. A watch lasts 60 s, so more than 75 s mean that this process is blind. 0 while nothing of this kind is watched";
        leader: Gauge<i64, AtomicI64>,
            "operator_leader", "1 if this process is the leader, else 0";
        managed: Family<Labels<2>, Gauge>,
            "managed_resources", "Tenants and Webhooks by state: ready, not_ready or unknown";
        not_ready: Family<Labels<2>, Gauge>,
            "managed_not_ready", "Tenants and Webhooks whose condition Ready is False, by its reason; a reason has a series from its first object on";
        stores: Family<Labels<2>, Gauge>,
            "operator_store_up", "1 if a store responded to the operator's last request, else 0: redis, or postgresql by the server's name";
        redis_url_stale: Gauge,
            "operator_redis_url_stale", "1 if the file of --redis-url-file has changed and can't be used, so that the operator keeps the URL that it had; else 0";
        // A family, so that there is no series while the number is unknown.
        dead_letters: Family<Labels<0>, Gauge>,
            "dead_letters", "Dead letters of all Webhooks that were neither resent nor set aside; there is no such series while the data plane reports none of them";
        // A family, for the same reason.
        failing: Family<Labels<1>, Gauge>,
            "failing", "Webhooks whose last attempt failed, less than an hour ago, and that have dead letters which were neither resent nor set aside, and the tenants of these webhooks; there is no such series while the data plane reports none of them";
        // Families, because only the leader has these two.
        migrations: Family<Labels<1>, Gauge>,
            "operator_migrations", "Databases by the state of their migration to the schema of this version: done, pending or failed; only the leader has these series";
        migration_progress: Family<Labels<0>, Gauge>,
            "operator_migration_progress_timestamp_seconds", "When a migration last ended, or when none had to: no database was pending, or all were paused or waited for the window; only the leader has this series";
    } beside {}
}

/// A server whose state the operator publishes.
#[derive(Clone, Copy, Debug)]
pub enum Store<'a> {
    /// The Redis to which pods report.
    Redis,
    /// A PostgreSQL server of managed databases, by its name.
    Postgres(&'a str),
}

/// How far failures of receivers spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// Webhooks whose last attempt failed, less than an hour ago, and that have dead letters to deal with.
    pub webhooks: usize,
    /// Tenants with such Webhooks.
    pub tenants: usize,
}

/// What is published about each object, by kind and name. The series of conditions are written at each scrape: a family would keep
/// five texts for each condition of each Tenant.
#[derive(Debug, Default)]
struct PublishedObjects(Mutex<HashMap<(&'static str, Name), Published>>);

#[derive(Debug)]
struct Published {
    state: &'static str,
    /// The reason if `Ready` is false.
    reason: Option<ReasonCode>,
    /// Type, status and reason of each condition of a Tenant.
    conditions: Box<[(ConditionType, Truth, ReasonCode)]>,
}

impl Collector for PublishedObjects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let about = "1 for the current status and reason of each condition of a Tenant.";
        let mut family = encoder.encode_descriptor("tenant_condition", about, None, MetricType::Gauge)?;
        for ((_, name), published) in self.0.lock().iter() {
            for (kind, status, reason) in &published.conditions {
                let labels = [
                    ("namespace", name.namespace.as_str()),
                    ("name", name.name.as_str()),
                    ("type", kind.as_str()),
                    ("status", status.as_str()),
                    ("reason", reason.as_str()),
                ];
                family.encode_family(&labels)?.encode_gauge(&1_i64)?;
            }
        }
        Ok(())
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("docket");
        let own = OwnMetrics::default();
        own.register(&mut registry);
        let published = Arc::<PublishedObjects>::default();
        registry.register_collector(Box::new(published.clone()));
        let connections_refused = Counted::default();
        connections_refused.register(&mut registry, "operator_connections_refused");
        let process = process::metrics("docket-operator");
        let metrics =
            Self { registry, own, connections_refused, servers: Mutex::default(), published, process };
        metrics.begin::<Tenant>();
        metrics.begin::<Webhook>();
        for kind in WATCHED {
            drop(metrics.own.watch_age.get_or_create(&[("kind", kind.to_owned())]));
        }
        metrics
    }
}

impl Metrics {
    /// Begins every series of a kind at 0: Prometheus sees no increase in a series that begins with its first event.
    fn begin<T: DeclaredKind>(&self) {
        drop(self.own.wait.get_or_create(&kind::<T>()));
        drop(self.own.duration.get_or_create(&kind::<T>()));
        drop(self.own.inflight.get_or_create(&kind::<T>()));
        for result in ["ok", "failed", "withheld", "panicked"] {
            drop(
                self.own
                    .reconciled
                    .get_or_create(&[("kind", T::KIND.to_owned()), ("result", result.to_owned())]),
            );
        }
        for name in ["ready", "not_ready", "unknown"] {
            drop(self.own.managed.get_or_create(&state::<T>(name)));
        }
    }

    /// A reconciliation begins; its object waited this long.
    pub fn taken<T: DeclaredKind>(&self, waited: Duration) {
        self.own.wait.get_or_create(&kind::<T>()).observe(waited.as_secs_f64());
        self.own.inflight.get_or_create(&kind::<T>()).inc();
    }

    /// A reconciliation ended with `ok`, `failed`, `withheld` or `panicked`.
    pub fn reconciled<T: DeclaredKind>(&self, result: &'static str, took: Duration) {
        let labels = [("kind", T::KIND.to_owned()), ("result", result.to_owned())];
        self.own.reconciled.get_or_create(&labels).inc();
        self.own.duration.get_or_create(&kind::<T>()).observe(took.as_secs_f64());
        self.own.inflight.get_or_create(&kind::<T>()).dec();
    }

    /// The counter of connections to the operator that were refused, or had to wait.
    pub fn connections_refused(&self) -> Counted {
        self.connections_refused.clone()
    }

    /// Records that a watch failed.
    pub fn watch_failed(&self) {
        self.own.watch_errors.inc();
    }

    /// Records that a watch was silent, and is open again.
    pub fn watch_was_silent(&self) {
        self.own.silent_watches.inc();
    }

    /// Publishes the time since the API server was last heard, by kind.
    pub fn watch_ages(&self, ages: &BTreeMap<&'static str, Duration>) {
        for (kind, age) in ages {
            self.own.watch_age.get_or_create(&[("kind", (*kind).to_owned())]).set(age.as_secs_f64());
        }
    }

    /// Publishes whether this process is the leader. When it is no longer, series that only the leader has are removed.
    pub fn leads(&self, leads: bool) {
        let led = self.own.leader.set(i64::from(leads)) == 1;
        if leads != led {
            // Also where leadership begins: work that ended after the Lease was lost may have published counts.
            self.own.migrations.clear();
            self.own.migration_progress.clear();
        }
        if leads {
            return;
        }
        for ((kind, _), before) in self.published.0.lock().drain() {
            self.own
                .managed
                .get_or_create(&[("kind", kind.to_owned()), ("state", before.state.to_owned())])
                .dec();
            if let Some(reason) = before.reason {
                self.own.not_ready.get_or_create(&because(kind, reason)).dec();
            }
        }
        for server in self.servers.lock().drain() {
            self.own.stores.remove(&server);
        }
    }

    /// Publishes whether a store responded.
    pub fn store(&self, store: Store<'_>, is_up: bool) {
        let (store, server) = match store {
            Store::Redis => ("redis", ""),
            Store::Postgres(server) => ("postgresql", server),
        };
        let labels = [("store", store.to_owned()), ("server", server.to_owned())];
        self.own.stores.get_or_create(&labels).set(i64::from(is_up));
        if !server.is_empty() {
            self.servers.lock().insert(labels);
        }
    }

    /// Publishes whether the file with the URL of Redis names something that can't be used.
    pub fn redis_url_stale(&self, is_stale: bool) {
        self.own.redis_url_stale.set(i64::from(is_stale));
    }

    /// Publishes how many dead letters count, over all Webhooks; `None`: the data plane has reported on no Webhook.
    pub fn dead_letters(&self, count: Option<i64>) {
        match count {
            Some(count) => drop(self.own.dead_letters.get_or_create(&[]).set(count)),
            None => self.own.dead_letters.clear(),
        }
    }

    /// Publishes how far failures spread; `None`: the data plane has reported on no Webhook.
    pub fn failing(&self, failing: Option<Failing>) {
        let Some(Failing { webhooks, tenants }) = failing else { return self.own.failing.clear() };
        for (of, count) in [("webhooks", webhooks), ("tenants", tenants)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.own.failing.get_or_create(&[("of", of.to_owned())]).set(count);
        }
    }

    /// Publishes how many databases are migrated `now`, in seconds since 1970, and whether migrations progress. The first counts since
    /// this process leads are news.
    pub fn migrations(&self, counts: MigrationCounts, progresses: bool, now: i64) {
        let MigrationCounts { done, pending, failed, expected: _ } = counts;
        for (state, count) in [("done", done), ("pending", pending), ("failed", failed)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.own.migrations.get_or_create(&[("state", state.to_owned())]).set(count);
        }
        let is_first = self.own.migration_progress.get(&[]).is_none();
        if progresses || is_first {
            self.own.migration_progress.get_or_create(&[]).set(now);
        }
    }

    /// Publishes an object's conditions.
    pub fn conditions<T: DeclaredKind>(&self, name: &Name, conditions: &[Condition]) {
        let ready = conditions.iter().find(|condition| condition.type_ == ConditionType::Ready.as_str());
        let state = match ready.map(|ready| ready.status.as_str()) {
            Some("True") => "ready",
            Some("False") => "not_ready",
            _ => "unknown",
        };
        let is_false = ready.filter(|ready| ready.status == "False");
        let reason = is_false.and_then(|ready| ready.reason.parse().ok());
        let conditions = if T::KIND == "Tenant" { conditions } else { &[] };
        // A condition that stays from a newer version may have a word that this version does not know, and is left out.
        let words = |condition: &Condition| -> Option<(ConditionType, Truth, ReasonCode)> {
            Some((
                condition.type_.parse().ok()?,
                condition.status.parse().ok()?,
                condition.reason.parse().ok()?,
            ))
        };
        let conditions = conditions.iter().filter_map(words).collect();
        self.replace::<T>(name, Some(Published { state, reason, conditions }));
    }

    /// Removes what is published for an object.
    pub fn forget<T: DeclaredKind>(&self, name: &Name) {
        self.replace::<T>(name, None);
    }

    fn replace<T: DeclaredKind>(&self, name: &Name, now: Option<Published>) {
        let mut published = self.published.0.lock();
        let key = (T::KIND, name.clone());
        if let Some(before) = published.remove(&key) {
            self.own.managed.get_or_create(&state::<T>(before.state)).dec();
            if let Some(reason) = before.reason {
                self.own.not_ready.get_or_create(&because(T::KIND, reason)).dec();
            }
        }
        if let Some(now) = now {
            self.own.managed.get_or_create(&state::<T>(now.state)).inc();
            if let Some(reason) = now.reason {
                self.own.not_ready.get_or_create(&because(T::KIND, reason)).inc();
            }
            published.insert(key, now);
        }
    }

    /// All metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.registry);
        written.and_then(|()| encode(&mut text, &self.process)).expect("writing to a String does not fail");
        text
    }
}

fn kind<T: DeclaredKind>() -> Labels<1> {
    [("kind", T::KIND.to_owned())]
}

fn state<T: DeclaredKind>(state: &str) -> Labels<2> {
    [("kind", T::KIND.to_owned()), ("state", state.to_owned())]
}

fn because(kind: &str, reason: ReasonCode) -> Labels<2> {
    [("kind", kind.to_owned()), ("reason", reason.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn ready(status: &str) -> Vec<Condition> {
        vec![Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: "Ready".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        }]
    }

    #[test]
    fn tenant_has_one_series_per_condition_until_it_is_forgotten() {
        let metrics = Metrics::default();
        let name = Name::new("a", "acme");
        metrics.conditions::<Tenant>(&name, &ready("False"));
        metrics.conditions::<Tenant>(&name, &ready("True"));
        let text = metrics.text();
        assert!(
            text.contains(
                "docket_tenant_condition{namespace=\"a\",name=\"acme\",type=\"Ready\",status=\"True\",reason=\"Ready\"} 1"
            ),
            "{text}"
        );
        assert!(!text.contains("status=\"False\""), "{text}");
        assert!(text.contains("docket_managed_resources{kind=\"Tenant\",state=\"ready\"} 1"), "{text}");
        metrics.forget::<Tenant>(&name);
        assert!(!metrics.text().contains("status=\"True\""));
    }

    #[test]
    fn every_series_is_there_before_its_first_event() {
        let begun = Metrics::default().text();
        for series in [
            "docket_operator_reconcile_total{kind=\"Tenant\",result=\"failed\"} 0",
            "docket_operator_reconcile_total{kind=\"Webhook\",result=\"panicked\"} 0",
            "docket_operator_reconcile_inflight{kind=\"Tenant\"} 0",
            "docket_operator_queue_wait_seconds_count{kind=\"Tenant\"} 0",
            "docket_operator_watch_errors_total 0",
            "docket_operator_silent_watches_total 0",
            "docket_operator_watch_age_seconds{kind=\"Tenant\"} 0.0",
            "docket_operator_leader 0",
            "docket_operator_redis_url_stale 0",
            "docket_managed_resources{kind=\"Webhook\",state=\"not_ready\"} 0",
        ] {
            assert!(begun.lines().any(|line| line == series), "{series} in:\n{begun}");
        }
        let build = "docket_build_info{program=\"docket-operator\",version=\"";
        assert!(begun.lines().any(|line| line.starts_with(build)), "{begun}");
    }

    #[test]
    fn webhook_is_counted_and_has_no_series_of_its_own() {
        let metrics = Metrics::default();
        metrics.conditions::<Webhook>(&Name::new("a", "orders"), &ready("Unknown"));
        let text = metrics.text();
        assert!(!text.contains("docket_tenant_condition{"), "{text}");
        assert!(text.contains("docket_managed_resources{kind=\"Webhook\",state=\"unknown\"} 1"), "{text}");
    }

    #[test]
    fn pass_is_in_progress_until_it_ends() {
        let metrics = Metrics::default();
        let in_progress = || {
            let series = "docket_operator_reconcile_inflight{kind=\"Tenant\"} ";
            metrics.text().lines().find_map(|line| line.strip_prefix(series).map(str::to_owned))
        };
        metrics.taken::<Tenant>(Duration::from_millis(1500));
        assert_eq!(in_progress().as_deref(), Some("1"));
        metrics.reconciled::<Tenant>("ok", Duration::from_millis(2500));
        assert_eq!(in_progress().as_deref(), Some("0"));
        let text = metrics.text();
        for line in [
            "docket_operator_queue_wait_seconds_sum{kind=\"Tenant\"} 1.5",
            "docket_operator_reconcile_duration_seconds_sum{kind=\"Tenant\"} 2.5",
            "docket_operator_reconcile_total{kind=\"Tenant\",result=\"ok\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
    }

    #[test]
    fn dead_letters_are_published_while_they_are_known() {
        let metrics = Metrics::default();
        for (count, line) in [(None, None), (Some(7), Some("docket_dead_letters{} 7")), (None, None)] {
            metrics.dead_letters(count);
            let text = metrics.text();
            let found = text.lines().find(|line| line.starts_with("docket_dead_letters"));
            assert_eq!(found, line, "{text}");
        }
    }

    #[test]
    fn objects_that_are_not_ready_are_counted_by_reason_while_this_process_leads() {
        let metrics = Metrics::default();
        metrics.leads(true);
        let because = |status: &str, reason: &str| {
            let mut conditions = ready(status);
            conditions[0].reason = reason.into();
            conditions
        };
        let (one, two) = (Name::new("a", "one"), Name::new("a", "two"));
        metrics.conditions::<Webhook>(&one, &because("False", "SecretNotFound"));
        metrics.conditions::<Webhook>(&two, &because("False", "SecretNotFound"));
        metrics.conditions::<Tenant>(&one, &because("Unknown", "Paused"));
        let count = |reason: &str| {
            let series = format!("docket_managed_not_ready{{kind=\"Webhook\",reason=\"{reason}\"}} ");
            metrics.text().lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned))
        };
        assert_eq!(count("SecretNotFound").as_deref(), Some("2"));
        let tenants = "docket_managed_not_ready{kind=\"Tenant\"";
        assert!(!metrics.text().contains(tenants), "Unknown is not False");
        metrics.conditions::<Webhook>(&one, &because("False", "Pending"));
        metrics.conditions::<Webhook>(&two, &because("True", "Ready"));
        assert_eq!((count("SecretNotFound").as_deref(), count("Pending").as_deref()), (Some("0"), Some("1")));
        assert_eq!(count("Ready"), None);
        metrics.leads(false);
        assert_eq!(count("Pending").as_deref(), Some("0"));
    }

    #[test]
    fn spread_of_failures_is_published_while_it_is_known() {
        let metrics = Metrics::default();
        metrics.failing(Some(Failing { webhooks: 7, tenants: 2 }));
        for line in ["docket_failing{of=\"webhooks\"} 7", "docket_failing{of=\"tenants\"} 2"] {
            assert!(metrics.text().lines().any(|there| there == line), "{line}");
        }
        metrics.failing(None);
        assert!(!metrics.text().contains("docket_failing{"));
    }

    #[test]
    fn migrations_are_published_by_the_leader() {
        let metrics = Metrics::default();
        metrics.leads(true);
        let counts = MigrationCounts { done: 7, pending: 2, failed: 1, expected: 2 };
        metrics.migrations(counts, true, 1_800_000_000);
        metrics.migrations(counts, false, 1_800_000_005);
        let text = metrics.text();
        for line in [
            "docket_operator_migrations{state=\"done\"} 7",
            "docket_operator_migrations{state=\"pending\"} 2",
            "docket_operator_migrations{state=\"failed\"} 1",
            "docket_operator_migration_progress_timestamp_seconds{} 1800000000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        metrics.leads(false);
        let text = metrics.text();
        assert!(!text.lines().any(|line| line.starts_with("docket_operator_migration")), "{text}");
        // It leads again, and no migration has ended meanwhile.
        metrics.leads(true);
        metrics.migrations(counts, false, 1_800_003_600);
        metrics.migrations(counts, false, 1_800_003_605);
        let text = metrics.text();
        let line = "docket_operator_migration_progress_timestamp_seconds{} 1800003600";
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    #[test]
    fn one_that_led_before_publishes_nothing_of_objects() {
        let metrics = Metrics::default();
        metrics.leads(true);
        metrics.conditions::<Tenant>(&Name::new("a", "acme"), &ready("False"));
        metrics.store(Store::Postgres("main"), false);
        metrics.store(Store::Redis, true);
        metrics.leads(false);
        let text = metrics.text();
        for gone in ["docket_tenant_condition{", "server=\"main\""] {
            assert!(!text.contains(gone), "{gone} in:\n{text}");
        }
        assert!(text.contains("docket_managed_resources{kind=\"Tenant\",state=\"not_ready\"} 0"), "{text}");
        assert!(
            text.contains("docket_operator_store_up{store=\"redis\",server=\"\"} 1"),
            "each process reads it"
        );
    }
}
