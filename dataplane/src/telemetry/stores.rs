//! Metrics of stores: which stores respond, and what requests for connections to PostgreSQL wait for. The stores count by
//! themselves, and these metrics read the counts when the metrics are requested.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use docket_store::postgres::{Budget, Taken, UsedConnections, Wait};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The most servers of PostgreSQL that have a series of their own.
const MOST_SERVERS: usize = 50;

type IsUp = dyn Fn() -> Option<bool> + Send + Sync;
type IsStale = dyn Fn() -> bool + Send + Sync;

/// The metrics of the stores that this process uses. A process that has its databases in files publishes none of them.
#[derive(Clone, Default)]
pub struct StoreMetrics(Arc<StoreMetricsInner>);

#[derive(Default)]
struct StoreMetricsInner {
    redis: OnceLock<(Box<IsUp>, Box<IsStale>)>,
    postgres: OnceLock<Budget>,
}

impl fmt::Debug for StoreMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreMetrics").finish_non_exhaustive()
    }
}

impl StoreMetrics {
    /// Adds the metrics to the registry of the process.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// Publishes whether the last call to Redis got a response, as `is_up` says (`None`: there was no call yet), and whether the
    /// file with its URL names something that can't be used, as `is_stale` says.
    pub fn redis(
        &self,
        is_up: impl Fn() -> Option<bool> + Send + Sync + 'static,
        is_stale: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        // A process uses one Redis.
        let _ = self.0.redis.set((Box::new(is_up), Box::new(is_stale)));
    }

    /// Publishes the counts of this budget of connections, and whether its servers respond.
    pub fn postgres(&self, budget: Budget) {
        // A process has one budget.
        let _ = self.0.postgres.set(budget);
    }

    fn encode_up(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let redis = self.0.redis.get().and_then(|(is_up, _)| is_up());
        let redis = redis.map(|is_up| ("redis", String::new(), is_up));
        let servers =
            self.0.postgres.get().map(|budget| budget.counts().servers(MOST_SERVERS, Instant::now()));
        let servers = servers.into_iter().flatten().map(|(server, is_up)| ("postgresql", server, is_up));
        let stores: Vec<(&str, String, bool)> = redis.into_iter().chain(servers).collect();
        if stores.is_empty() {
            return Ok(());
        }
        let about = "1 if a store responded to the last call of this process, else 0. A server of PostgreSQL has no series if it was \
                     away three minutes ago and this process has not called it since. The store is redis, or postgresql with the host and \
                     port of the server. At most 50 servers have a series of their own. The series with \
                     the server others is 0 if any further server is away. The series with the server external is 0 if any server is \
                     away that an owner of a tenant has chosen.";
        let mut family = encoder.encode_descriptor("store_up", about, None, MetricType::Gauge)?;
        for (store, server, is_up) in &stores {
            let labels = [("store", *store), ("server", server.as_str())];
            ConstGauge::new(i64::from(*is_up)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_stale(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some((_, is_stale)) = self.0.redis.get() else { return Ok(()) };
        let about = "1 if the file of --redis-url-file has changed and can't be used, so that this process keeps the URL that it had; \
                     else 0. The log says what is wrong.";
        let metric = encoder.encode_descriptor("redis_url_stale", about, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(is_stale())).encode(metric)
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_up(&mut encoder)?;
        self.encode_stale(&mut encoder)?;
        let Some(budget) = self.0.postgres.get() else { return Ok(()) };
        encode_used(&mut encoder, budget)?;
        encode_connections(&mut encoder, budget)
    }
}

fn encode_used(encoder: &mut DescriptorEncoder<'_>, budget: &Budget) -> fmt::Result {
    let used = budget.counts().used_connections(MOST_SERVERS);
    if used.is_empty() {
        return Ok(());
    }
    let about = "Part of the connections to a PostgreSQL server that all programs together use, from 0 to 1, as the watcher of the \
                 server counts it in a worker or detector. The label of is server, for all connections that the server allows, or \
                 role, for the role that is nearest to its own limit. At most 50 servers have series of their own. The series with the \
                 server others have the largest values of all further servers.";
    let name = "server_connections_used_ratio";
    let mut family = encoder.encode_descriptor(name, about, None, MetricType::Gauge)?;
    for (server, UsedConnections { server: all, role }) in &used {
        for (of, part) in [("server", *all), ("role", *role)] {
            let labels = [("server", server.as_str()), ("of", of)];
            ConstGauge::new(part).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_connections(encoder: &mut DescriptorEncoder<'_>, budget: &Budget) -> fmt::Result {
    let counts = budget.counts();
    let about = "Connections of this process to PostgreSQL by state: open or being opened; idle, which is a part of open; waiting, which \
                 counts requests that wait for a connection.";
    let mut family = encoder.encode_descriptor("database_connections", about, None, MetricType::Gauge)?;
    for (state, count) in [("open", budget.open()), ("idle", budget.idle()), ("waiting", counts.waiting())] {
        ConstGauge::new(count).encode(family.encode_family(&[("state", state)])?)?;
    }
    let about = "Time until a request had a connection to PostgreSQL, or gave up.";
    let name = "database_connection_wait_seconds";
    let mut histogram = encoder.encode_descriptor(name, about, None, MetricType::Histogram)?;
    let times = counts.times();
    let count = times.buckets.iter().map(|(_, count)| count).sum();
    histogram.encode_histogram::<NoLabelSet>(times.sum, count, &times.buckets, None)?;

    let about = "How often a rule made a request wait for a connection to PostgreSQL, by rule. Several rules may make a request wait.";
    let mut family =
        encoder.encode_descriptor("database_connection_waits", about, None, MetricType::Counter)?;
    for rule in Wait::ALL {
        let labels = [("reason", rule.as_str())];
        ConstCounter::new(counts.waits(rule)).encode(family.encode_family(&labels)?)?;
    }
    let about = "Connections to PostgreSQL that were closed so that another tenant could open one, by the rule that decided it.";
    let mut family =
        encoder.encode_descriptor("database_connections_taken", about, None, MetricType::Counter)?;
    for rule in Taken::ALL {
        let labels = [("reason", rule.as_str())];
        ConstCounter::new(counts.taken(rule)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use docket_store::postgres::ConnectionLimits;
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn text(stores: &StoreMetrics) -> String {
        let mut registry = Registry::with_prefix("docket");
        stores.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a String takes all");
        text
    }

    #[test]
    fn process_without_servers_publishes_nothing() {
        assert_eq!(text(&StoreMetrics::default()), "# EOF\n");
        let stores = StoreMetrics::default();
        stores.redis(|| None, || false);
        assert!(!text(&stores).contains("docket_store_up"), "Redis was not called yet");
    }

    #[test]
    fn store_is_up_if_it_responded_last_time() {
        let (stores, budget) =
            (StoreMetrics::default(), Budget::new(ConnectionLimits { total: 4, per_tenant: 2 }));
        stores.redis(|| Some(true), || true);
        stores.postgres(budget.clone());
        let server = budget.counts().add_server("db-0.example:5432".into(), false);
        let before = text(&stores);
        assert!(before.contains("docket_store_up{store=\"redis\",server=\"\"} 1\n"), "{before}");
        assert!(before.contains("\ndocket_redis_url_stale 1\n"), "{before}");
        assert!(!before.contains("db-0.example"), "{before}");
        server.responded(false);
        let after = text(&stores);
        let line = "docket_store_up{store=\"postgresql\",server=\"db-0.example:5432\"} 0\n";
        assert!(after.contains(line), "{after}");
    }

    #[test]
    fn used_connections_are_published_while_the_watcher_knows_them() {
        let (stores, budget) =
            (StoreMetrics::default(), Budget::new(ConnectionLimits { total: 4, per_tenant: 2 }));
        stores.postgres(budget.clone());
        let server = budget.counts().add_server("db-0.example:5432".into(), false);
        assert!(!text(&stores).contains("used_ratio"));
        server.uses(Some(UsedConnections { server: 0.5, role: 0.875 }));
        let shown = text(&stores);
        for (of, part) in [("server", "0.5"), ("role", "0.875")] {
            let line = format!(
                "docket_server_connections_used_ratio{{server=\"db-0.example:5432\",of=\"{of}\"}} {part}\n"
            );
            assert!(shown.contains(&line), "{shown}");
        }
        server.uses(None);
        assert!(!text(&stores).contains("used_ratio"));
    }

    #[test]
    fn every_series_of_connections_is_there_before_its_first_event() {
        let stores = StoreMetrics::default();
        stores.postgres(Budget::new(ConnectionLimits { total: 4, per_tenant: 2 }));
        let text = text(&stores);
        for series in [
            "docket_database_connections{state=\"open\"} 0",
            "docket_database_connections{state=\"idle\"} 0",
            "docket_database_connections{state=\"waiting\"} 0",
            "docket_database_connection_wait_seconds_count 0",
            "docket_database_connection_wait_seconds_bucket{le=\"+Inf\"} 0",
            "docket_database_connection_waits_total{reason=\"TenantShare\"} 0",
            "docket_database_connection_waits_total{reason=\"Migration\"} 0",
            "docket_database_connections_taken_total{reason=\"TwoMore\"} 0",
        ] {
            assert!(text.lines().any(|line| line == series), "{series} in:\n{text}");
        }
    }
}
