//! The invoice detector: looks into every tenant's database for invoices that other programs inserted, and has each
//! published as invoice.created, once.
//!
//! `turns` says whose turn it is, `scan` is one tenant's turn, `actions/detect_invoices` one transaction of it.
//! Nothing is remembered that a crash could lose: what is new says the database.

mod scan;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::telemetry::Metrics;
use crate::tenants::{Tenant, Tenants};
use docket_program::clock::{Clock, millis};
use docket_schedule::Schedule;
use docket_schedule::telling::Telling;
use docket_store::StoreError;

use scan::{Memory, Scanner};
use turns::{End, Turn, Turns};

/// Databases looked into at once, and so connections: each turn has one at a time.
pub const PLACES: usize = 4;
/// How often the list of tenants is looked at, at least.
const FOLLOW: Duration = Duration::from_secs(1);

/// The detector; any number of processes may run one on the same databases.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Detector<S> {
    tenants: Arc<Tenants>,
    scanner: Arc<Scanner<S>>,
    turns: Turns,
    memories: HashMap<Arc<str>, Memory>,
    running: JoinSet<Ended>,
    follow_ms: i64,
}

/// A turn that is over.
struct Ended {
    turn: Turn,
    code: String,
    memory: Memory,
    result: Result<bool, Failure>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the scan did not end: {0}")]
    Panic(#[from] tokio::task::JoinError),
}

impl<S: Schedule> Detector<S> {
    /// Does nothing until it is [run](Self::run); then looks into each database at every interval.
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        schedule: Arc<S>,
        metrics: Arc<Metrics>,
        interval: Duration,
    ) -> Self {
        Self {
            tenants,
            scanner: Arc::new(Scanner { clock, telling: Telling::new(schedule), metrics }),
            turns: Turns::new(millis(interval), PLACES),
            memories: HashMap::new(),
            running: JoinSet::new(),
            follow_ms: i64::MIN,
        }
    }

    /// Detects until shutdown is requested, then waits for the batches under way.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let clock = self.scanner.clock.clone();
        let (scanner, stop) = (Arc::clone(&self.scanner), shutdown.clone());
        tokio::spawn(async move { scanner.telling.run(stop).await });
        while !shutdown.is_cancelled() {
            self.follow(clock.now_ms());
            while let Some(turn) = self.turns.begin(clock.now_ms()) {
                self.begin(turn, &shutdown);
            }
            let next_ms = self.turns.next_ms().map_or(self.follow_ms, |next_ms| next_ms.min(self.follow_ms));
            tokio::select! {
                Some(ended) = self.running.join_next() => self.end(ended.ok()),
                () = clock.sleep_until_ms(next_ms) => {}
                () = shutdown.cancelled() => {}
            }
        }
        while let Some(ended) = self.running.join_next().await {
            self.end(ended.ok());
        }
    }

    /// Not at every step: there may be ten thousand tenants.
    fn follow(&mut self, now_ms: i64) {
        // Also if the clock was set back.
        if now_ms >= self.follow_ms || self.follow_ms > now_ms + millis(FOLLOW) {
            self.follow_ms = now_ms + millis(FOLLOW);
            let tenants = self.tenants.all();
            self.turns.follow(tenants.iter().map(|tenant| tenant.config.uid.as_str()), now_ms);
        }
    }

    /// With the tenant as it is served now. The invoices of a suspended one wait.
    fn begin(&mut self, turn: Turn, shutdown: &CancellationToken) {
        let now_ms = self.scanner.clock.now_ms();
        match self.tenants.by_uid(&turn.uid) {
            None => {
                self.memories.remove(&turn.uid);
                self.turns.end(turn, End::Gone, now_ms);
            }
            Some(tenant) if tenant.config.suspended => self.turns.end(turn, End::Done, now_ms),
            Some(tenant) => {
                let memory = self.memories.remove(&turn.uid).unwrap_or_default();
                self.running.spawn(run_turn(
                    Arc::clone(&self.scanner),
                    turn,
                    tenant,
                    memory,
                    shutdown.clone(),
                ));
            }
        }
    }

    fn end(&mut self, ended: Option<Ended>) {
        // The turn itself runs in a task of its own: this one has nothing to panic at.
        let Some(Ended { turn, code, memory, result }) = ended else { return };
        let end = match result {
            Ok(true) => End::More,
            Ok(false) => End::Done,
            Err(error) => {
                self.scanner.metrics.scan_failed();
                if !turn.retry {
                    tracing::warn!(tenant.code = code, error = %error, "can't look for invoices; this is tried again");
                }
                End::Failed
            }
        };
        self.memories.insert(Arc::clone(&turn.uid), memory);
        self.turns.end(turn, end, self.scanner.clock.now_ms());
    }
}

/// In a task of its own, so that a defect costs this turn and not the tenant's place.
async fn run_turn<S: Schedule>(
    scanner: Arc<Scanner<S>>,
    turn: Turn,
    tenant: Arc<Tenant>,
    mut memory: Memory,
    shutdown: CancellationToken,
) -> Ended {
    let code = tenant.config.client_code.to_string();
    let scan = tokio::spawn(async move {
        let result = scanner.scan(&tenant, &mut memory, &shutdown).await;
        (memory, result)
    });
    match scan.await {
        Ok((memory, result)) => Ended { turn, code, memory, result: result.map_err(Failure::from) },
        Err(panic) => Ended { turn, code, memory: Memory::default(), result: Err(panic.into()) },
    }
}
