//! Serves health, readiness and metrics on a dedicated thread and runtime, so that other work never delays a probe.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::state;

/// The main runtime is stuck if it has not beaten for this long.
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

    /// Beats every second, for ever. Spawn it on the main runtime.
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
    let listener =
        std::net::TcpListener::bind(address).with_context(|| format!("--listen: bind {address}"))?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(text_of_metrics))
        .with_state((state, metrics, pulse));
    let run = move || {
        runtime.block_on(async {
            let served = async { axum::serve(TcpListener::from_std(listener)?, routes).await };
            if let Err(error) = served.await {
                tracing::error!(%error, "health and metrics server failed; restart the pod");
            }
        });
    };
    std::thread::Builder::new().name("admin".into()).spawn(run)?;
    Ok(bound)
}

type Shared = State<(Arc<state::State>, Arc<Metrics>, Pulse)>;

async fn healthz(State((_, _, pulse)): Shared) -> (StatusCode, &'static str) {
    if pulse.is_stale() { (StatusCode::SERVICE_UNAVAILABLE, "stuck\n") } else { (StatusCode::OK, "ok\n") }
}

/// Ready once every watch has its first list. A replica that waits for the lease is ready, too.
async fn readyz(State((state, ..)): Shared) -> (StatusCode, &'static str) {
    if state.progress.is_complete() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "waiting for the first lists of the watches\n")
    }
}

async fn text_of_metrics(State((_, metrics, _)): Shared) -> String {
    metrics.text()
}
