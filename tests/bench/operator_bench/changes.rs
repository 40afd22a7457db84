//! Changes of Webhooks, and how long each takes until every pod serves it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use docket_tests::apiserver::{Client, Objects};
use serde_json::json;
use tokio::sync::watch;

/// The number of Webhooks that are changed in turn. Each belongs to another managed Tenant, if there are as many.
pub(crate) const CHANGED: usize = 10;
/// The time limit of a change.
const PATIENCE: Duration = Duration::from_secs(600);

/// The changes of a run, one at a time.
pub(crate) struct Changes {
    client: Client,
    /// The path of the Webhooks.
    path: String,
    webhooks: watch::Receiver<Objects>,
    count: usize,
}

impl Changes {
    /// Changes of the Webhooks `w0` to `w9` below `path`, which `webhooks` watches. Nothing else changes them.
    pub(crate) fn new(client: Client, path: String, webhooks: watch::Receiver<Objects>) -> Self {
        Self { client, path, webhooks, count: 0 }
    }

    /// The times of this many changes, in ascending order.
    pub(crate) async fn times(&mut self, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        while times.len() < count {
            times.push(self.next().await);
        }
        times.sort_unstable();
        times
    }

    /// The times of changes until `is_done`, at least one, in ascending order.
    pub(crate) async fn until(&mut self, is_done: &AtomicBool) -> Vec<Duration> {
        let mut times = vec![self.next().await];
        while !is_done.load(Ordering::Relaxed) {
            times.push(self.next().await);
        }
        times.sort_unstable();
        times
    }

    /// Switches the next Webhook off or on; returns the time from the request until its condition Programmed is True for
    /// the new generation.
    async fn next(&mut self) -> Duration {
        let (webhook, round) = (self.count % CHANGED, self.count / CHANGED);
        self.count += 1;
        let (name, begun) = (format!("w{webhook}"), Instant::now());
        let path = format!("{}/{name}", self.path);
        let changed = self.client.patch(&path, &json!({"spec": {"active": round % 2 == 1}})).await;
        let generation = changed["metadata"]["generation"].as_i64().expect("the API server counts changes");
        assert_eq!(generation, round as i64 + 2, "{name} was changed");
        let is_served =
            |objects: &Objects| objects.object(&name).is_some_and(|object| object.programmed >= generation);
        let served = tokio::time::timeout(PATIENCE, self.webhooks.wait_for(is_served)).await;
        served.expect("it is served in time").expect("the watch continues");
        begun.elapsed()
    }
}
