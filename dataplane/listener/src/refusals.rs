//! Connections that are refused: counted, and reported to the operator once a minute.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// The pause between two log lines about the same reason.
const PAUSE: Duration = Duration::from_secs(60);

/// Why a client's connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// All places are taken. It waits to be accepted.
    Full,
    /// The peer has as many connections as it may have.
    Peer,
    /// With `--proxy-protocol`: the peer is not in `--trusted-proxy`.
    NotTrusted,
    /// With `--proxy-protocol`: the connection does not begin with a PROXY header.
    ProxyHeader,
}

impl RefusalReason {
    const ALL: [Self; 4] = [Self::Full, Self::Peer, Self::NotTrusted, Self::ProxyHeader];

    /// The reason in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "Full",
            Self::Peer => "Peer",
            Self::NotTrusted => "NotTrusted",
            Self::ProxyHeader => "ProxyHeader",
        }
    }

    /// What the reason means, and what to do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Full => {
                "all places are taken, so new connections wait; if it is the management port, see who connects there, else add replicas, or raise --memory-limit or the limit of open files"
            }
            Self::Peer => {
                "one address has as many connections as it may; if it is a load balancer, add its network to --trusted-proxy"
            }
            Self::NotTrusted => {
                "with --proxy-protocol only trusted proxies may connect; check that --trusted-proxy has the network of yours"
            }
            Self::ProxyHeader => {
                "a trusted proxy sent no PROXY header within 10 s; switch the PROXY protocol on there, or --proxy-protocol off here"
            }
        }
    }
}

/// The number of refused connections, by reason. Clones share the numbers.
#[derive(Debug, Clone)]
pub struct Counted(Family<[(&'static str, &'static str); 1], Counter>);

impl Default for Counted {
    /// Starts every reason at 0: Prometheus sees no increase in a series that begins with its first event.
    fn default() -> Self {
        let family = Family::default();
        for reason in RefusalReason::ALL {
            drop(family.get_or_create(&[("reason", reason.as_str())]));
        }
        Self(family)
    }
}

impl Counted {
    /// Adds the counter to a program's metrics, under `name`.
    pub fn register(&self, registry: &mut Registry, name: &str) {
        let about = "Connections of clients that were refused or had to wait, by reason";
        registry.register(name, about, self.0.clone());
    }

    fn add(&self, reason: RefusalReason) {
        self.0.get_or_create(&[("reason", reason.as_str())]).inc();
    }

    #[cfg(test)]
    pub(crate) fn count(&self, reason: RefusalReason) -> u64 {
        self.0.get_or_create(&[("reason", reason.as_str())]).get()
    }
}

/// The refused connections of a listener.
#[derive(Debug)]
pub(crate) struct Refusals {
    counted: Counted,
    listener: Option<SocketAddr>,
    logged: Mutex<HashMap<RefusalReason, Instant>>,
}

impl Refusals {
    /// The refusals of the listener at this address.
    pub(crate) fn new(counted: Counted, listener: Option<SocketAddr>) -> Self {
        Self { counted, listener, logged: Mutex::default() }
    }

    /// Counts a connection, and logs what to do about its reason unless that was logged within a minute.
    pub(crate) fn add(&self, reason: RefusalReason) {
        self.counted.add(reason);
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

    fn is_news(&self, reason: RefusalReason) -> bool {
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
        let refusals = Refusals::new(Counted::default(), None);
        assert_eq!(
            [RefusalReason::Peer, RefusalReason::Peer, RefusalReason::Full]
                .map(|reason| refusals.is_news(reason)),
            [true, false, true]
        );
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert!(!refusals.is_news(RefusalReason::Peer));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(refusals.is_news(RefusalReason::Peer));
        for _ in 0..3 {
            refusals.add(RefusalReason::NotTrusted);
        }
        assert_eq!(refusals.counted.count(RefusalReason::NotTrusted), 3);
    }
}
