//! The invoice detector: finds invoices that other programs inserted into the tenants' databases, and publishes each
//! once as invoice.created.
//!
//! `turns` decides which tenant is next, `scan` is the turn of one tenant, and `actions/detect_invoices` is one
//! transaction of a turn. A crash loses nothing: the database marks which invoices are new.

mod scan;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::{Clock, millis};
use docket_schedule::Schedule;
use docket_schedule::notifier::Notifier;
use docket_store::StoreError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{Metrics, Round, Task};
use crate::tenants::{ServedTenant, Tenants};
use scan::{Memory, Scanner};
use turns::{End, Turn, Turns};

/// Databases scanned at once. Each turn uses one connection.
pub const PLACES: usize = 4;
/// How often the list of tenants is read at least.
const FOLLOW: Duration = Duration::from_secs(1);

/// The detector; several processes may run one each on the same databases.
pub struct Detector {
    tenants: Arc<Tenants>,
    scanner: Arc<Scanner>,
    turns: Turns,
    memories: HashMap<Arc<str>, Memory>,
    running: JoinSet<Ended>,
    /// The turns of all tenants, by uid.
    round: Round<Arc<str>>,
    follow_ms: i64,
}

/// A turn that has ended.
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
    #[error("internal error: {0}")]
    Panic(#[from] tokio::task::JoinError),
}

impl Detector {
    /// Creates a detector that does nothing until [`run`](Self::run), and then scans each database at every interval. It publishes
    /// no invoice that is older than `max_age`, if that is not zero.
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        schedule: Arc<Schedule>,
        metrics: Arc<Metrics>,
        interval: Duration,
        max_age: Duration,
    ) -> Self {
        Self {
            tenants,
            scanner: Arc::new(Scanner {
                clock,
                notifier: Notifier::new(schedule).counted(metrics.delivery.missed()),
                metrics,
                max_age,
            }),
            turns: Turns::new(millis(interval), PLACES),
            memories: HashMap::new(),
            running: JoinSet::new(),
            round: Round::default(),
            follow_ms: i64::MIN,
        }
    }

    /// Detects until shutdown is requested, then waits for the batches under way.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let clock = self.scanner.clock.clone();
        let (scanner, stop) = (Arc::clone(&self.scanner), shutdown.clone());
        tokio::spawn(async move { scanner.notifier.run(stop).await });
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

    /// Reads the list of tenants, but not at every step: there may be ten thousand.
    fn follow(&mut self, now_ms: i64) {
        // The second condition: the clock was set back.
        if now_ms >= self.follow_ms || self.follow_ms > now_ms + millis(FOLLOW) {
            self.follow_ms = now_ms + millis(FOLLOW);
            let tenants = self.tenants.all();
            self.turns.follow(tenants.iter().map(|tenant| tenant.config.uid.as_str()), now_ms);
            if !self.round.is_under_way() && !tenants.is_empty() {
                let uids = tenants.iter().map(|tenant| Arc::clone(&tenant.uid));
                self.round.begin(uids, self.scanner.clock.elapsed());
            }
        }
    }

    /// Begins a turn of a tenant as it is served now. The invoices of a suspended tenant wait.
    fn begin(&mut self, turn: Turn, shutdown: &CancellationToken) {
        let now_ms = self.scanner.clock.now_ms();
        match self.tenants.by_uid(&turn.uid) {
            None => {
                self.memories.remove(&turn.uid);
                self.visited(&turn.uid);
                self.turns.end(turn, End::Gone, now_ms);
            }
            Some(tenant) if tenant.config.suspended => {
                self.visited(&turn.uid);
                self.turns.end(turn, End::Done, now_ms);
            }
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

    /// Ends a tenant's visit, and the round after the last one.
    fn visited(&mut self, uid: &Arc<str>) {
        let Scanner { clock, metrics, .. } = &*self.scanner;
        self.round.visited(uid);
        if let Some(took) = self.round.complete(clock.elapsed()) {
            metrics.upkeep.round(Task::Detector, clock.now_ms(), took);
        }
    }

    fn end(&mut self, ended: Option<Ended>) {
        // Never `None`: the scan runs in its own task, so that its panic does not end this one.
        let Some(Ended { turn, code, memory, result }) = ended else { return };
        let end = match result {
            Ok(true) => End::More,
            Ok(false) => End::Done,
            Err(error) => {
                self.scanner.metrics.scan_failed();
                if let Failure::Panic(_) = error {
                    self.scanner.metrics.upkeep.visited(Task::Detector, false);
                }
                if !turn.retry {
                    tracing::warn!(tenant.code = code, error = %error, "scanning for invoices failed; retrying");
                }
                End::Failed
            }
        };
        self.memories.insert(Arc::clone(&turn.uid), memory);
        self.visited(&turn.uid);
        self.turns.end(turn, end, self.scanner.clock.now_ms());
    }
}

/// Scans in its own task, so that a panic costs this turn and not the tenant's place.
async fn run_turn(
    scanner: Arc<Scanner>,
    turn: Turn,
    tenant: Arc<ServedTenant>,
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
