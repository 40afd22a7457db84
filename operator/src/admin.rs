//! Serves health, readiness and metrics on a thread of its own, so that work on objects delays no probe. Every pod
//! may connect to this port. So its connections are limited, and metrics are written on another thread, a few at a
//! time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::routing::get;
use axum::{Extension, Router};
use docket_listener::anonymous::Anonymous;
use docket_listener::client::Peer;
use docket_listener::listen::listen;
use docket_listener::protection::protected;
use docket_listener::server::{self, Clients};
use docket_listener::source::RequestSource;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::state;

/// The time without a beat after which the main runtime counts as stuck.
const STALE: Duration = Duration::from_secs(60);

/// A heartbeat that shows whether the main runtime still runs tasks.
#[derive(Clone, Debug)]
pub struct Pulse {
    start: Instant,
    beat_ms: Arc<AtomicI64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { start: Instant::now(), beat_ms: Arc::default() }
    }
}

impl Pulse {
    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Beats every second, without end. Spawn it on the main runtime.
    pub async fn beat(self) {
        loop {
            self.beat_ms.store(self.elapsed_ms(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn is_stale(&self) -> bool {
        let since = self.elapsed_ms() - self.beat_ms.load(Ordering::Relaxed);
        u128::try_from(since).unwrap_or(0) > STALE.as_millis()
    }
}

/// Serves until the process ends. Returns once the address is bound.
pub fn serve(
    address: SocketAddr,
    state: Arc<state::State>,
    metrics: Arc<Metrics>,
    pulse: Pulse,
) -> anyhow::Result<SocketAddr> {
    let listener = listen(address).with_context(|| format!("--listen: bind {address}"))?;
    let bound = listener.local_addr()?;
    let clients = Clients::of_management(metrics.connections_refused());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(text_of_metrics))
        .with_state(Arc::new(AdminState { state, metrics, scrapes: Anonymous::default(), pulse }))
        .layer(map_response(protected));
    let run = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => server::serve(listener, routes, clients, CancellationToken::new()).await,
                Err(error) => tracing::error!(%error, "health and metrics server failed; restart the pod"),
            }
        });
    };
    std::thread::Builder::new().name("admin".into()).spawn(run)?;
    Ok(bound)
}

/// What the routes answer from.
struct AdminState {
    state: Arc<state::State>,
    metrics: Arc<Metrics>,
    scrapes: Anonymous,
    pulse: Pulse,
}

async fn healthz(State(served): State<Arc<AdminState>>) -> (StatusCode, &'static str) {
    if served.pulse.is_stale() {
        (StatusCode::SERVICE_UNAVAILABLE, "stuck\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

/// Ready once every watch has its first list. A replica that waits for the lease is ready, too.
async fn readyz(State(served): State<Arc<AdminState>>) -> (StatusCode, &'static str) {
    if served.state.progress.is_complete() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "waiting for the first lists of the watches\n")
    }
}

async fn text_of_metrics(
    State(served): State<Arc<AdminState>>,
    Extension(peer): Extension<Peer>,
) -> Result<String, (StatusCode, &'static str)> {
    let metrics = Arc::clone(&served.metrics);
    metrics.watch_ages(&served.state.sight.ages(Instant::now()));
    let text = served.scrapes.run(RequestSource::Client(peer.address), move || metrics.text()).await;
    text.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, "too many requests for metrics\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_without_a_beat_for_a_minute_is_stuck() {
        let silent_for = |ms: i64| Pulse { start: Instant::now(), beat_ms: Arc::new(AtomicI64::new(-ms)) };
        assert!(!Pulse::default().is_stale() && !silent_for(50_000).is_stale());
        assert!(silent_for(60_001).is_stale());
    }

    #[tokio::test]
    async fn probes_fail_before_everything_is_listed_and_while_the_runtime_is_stuck() {
        let (state, _changes) = state::State::new();
        let state = Arc::new(state);
        let served = |pulse: Pulse| {
            let (state, metrics) = (Arc::clone(&state), Arc::default());
            State(Arc::new(AdminState { state, metrics, scrapes: Anonymous::default(), pulse }))
        };
        let probes = async |pulse: Pulse| {
            (healthz(served(pulse.clone())).await.0.as_u16(), readyz(served(pulse)).await.0.as_u16())
        };
        assert_eq!(probes(Pulse::default()).await, (200, 503), "no watch has its first list");
        state.progress.expect(1);
        state.progress.listed();
        assert_eq!(probes(Pulse::default()).await, (200, 200));
        let stuck = Pulse { start: Instant::now(), beat_ms: Arc::new(AtomicI64::new(-60_001)) };
        assert_eq!(probes(stuck).await, (503, 200));
    }
}
