//! Connections that are refused: counted, and reported to the operator once a minute.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::telemetry::{Metrics, Refused};

/// A reason is logged at most once in this time.
const PAUSE: Duration = Duration::from_secs(60);

/// The refused connections of a listener.
#[derive(Debug)]
pub(super) struct Refusals {
    metrics: Arc<Metrics>,
    listener: Option<SocketAddr>,
    logged: Mutex<HashMap<Refused, Instant>>,
}

impl Refusals {
    /// Those of the listener at this address.
    pub(super) fn new(metrics: Arc<Metrics>, listener: Option<SocketAddr>) -> Self {
        Self { metrics, listener, logged: Mutex::default() }
    }

    /// Counts a connection, and logs what to do about its reason unless that was logged within a minute.
    pub(super) fn add(&self, reason: Refused) {
        self.metrics.refused(reason);
        if self.is_news(reason) {
            let listener = self.listener.map(|address| address.to_string()).unwrap_or_default();
            tracing::warn!(
                listener,
                reason = reason.as_str(),
                "client connection refused: {}",
                reason.advice()
            );
        }
    }

    fn is_news(&self, reason: Refused) -> bool {
        let now = Instant::now();
        let mut logged = self.logged.lock();
        let is_news = logged.get(&reason).is_none_or(|last| now >= *last + PAUSE);
        if is_news {
            logged.insert(reason, now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_reason_is_counted_always_and_logged_once_a_minute() {
        let refusals = Refusals::new(Arc::default(), None);
        assert_eq!(
            [Refused::Peer, Refused::Peer, Refused::Full].map(|reason| refusals.is_news(reason)),
            [true, false, true]
        );
        tokio::time::advance(PAUSE).await;
        assert!(refusals.is_news(Refused::Peer));
        for _ in 0..3 {
            refusals.add(Refused::NotTrusted);
        }
        let counted = "docket_connections_refused_total{reason=\"NotTrusted\"} 3";
        assert!(refusals.metrics.text().contains(counted));
    }
}
