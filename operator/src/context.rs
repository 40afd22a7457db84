//! The outside world, as arguments of the drivers' steps. A step may use nothing else.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use docket_crds::{EventCode, PlatformLimits};
use docket_program::clock::Clock;
use docket_schema::postgres::ExternalDatabases;
use tokio::sync::Semaphore;

use crate::database::Servers;
use crate::kube::client::KubeApi;
use crate::metrics::Metrics;
use crate::state::migrations::MigrationRules;

/// What a step may use of the outside world.
#[derive(Debug)]
pub struct Context {
    /// The API server.
    pub kube: KubeApi,
    /// The PostgreSQL servers of managed databases.
    pub databases: Servers,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The places of migrations that run at the same time.
    pub migration_places: Semaphore,
    /// The clock.
    pub clock: Clock,
    /// Fills a slice with random bytes for keys and passwords.
    pub random: fn(&mut [u8]),
    /// The settings from the command line.
    pub settings: Settings,
}

/// The settings from the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces whose objects count; empty: all namespaces.
    pub namespaces: Vec<String>,
    /// Where external databases may be.
    pub external_databases: Arc<ExternalDatabases>,
    /// Events that are disabled for every tenant.
    pub disabled_events: BTreeSet<EventCode>,
    /// The default and maximum limits of Tenants.
    pub limits: PlatformLimits,
    /// How often an object is reconciled although nothing changed.
    pub resync: Duration,
    /// How long the deliveries of a removed Webhook wait for it to be created again, as the data plane has it.
    pub webhook_grace: Duration,
    /// How many Tenants, and how many Webhooks, are reconciled at the same time.
    pub concurrency: usize,
    /// When databases in use are migrated.
    pub migrations: MigrationRules,
}

impl Settings {
    /// Whether objects of this namespace count.
    pub fn watches(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|watched| watched == namespace)
    }

    /// The time until the next resync of the object with this uid.
    pub fn resync_of(&self, uid: &str) -> Duration {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        jittered(self.resync, hasher.finish())
    }
}

/// `interval`, up to a tenth shorter or longer, so that objects that were created together are not resynced together.
/// `share` may be any number; the same number always gives the same time.
fn jittered(interval: Duration, share: u64) -> Duration {
    let tenth = interval / 10;
    let part = u32::try_from(share % 2001).unwrap_or(0);
    interval - tenth + tenth * part / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_a_tenth_at_most() {
        let interval = Duration::from_secs(600);
        let all: Vec<_> = (0..5000).map(|share| jittered(interval, share * 7919)).collect();
        assert!(all.iter().all(|one| (540..=660).contains(&one.as_secs())));
        assert!(all.iter().max().unwrap().as_secs() > 650 && all.iter().min().unwrap().as_secs() < 550);
    }
}
