//! The parts of the service put together, for [`dev`](crate::dev) and [`serve`](crate::serve): which of them run in a
//! process is a matter of roles, how they run is not.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use docket_board::Board;
use docket_egress::{EgressPolicy, Sender, SystemDns};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::host::Hosts;
use crate::api::{self, server};
use crate::app::App;
use crate::args::{DeliveryArguments, HostArguments};
use crate::detector::Detector;
use crate::passwords::Passwords;
use crate::readiness::Readiness;
use crate::telemetry::Metrics;
use crate::tenants::{SOURCE_LAG, Tenants};
use crate::throttle::Throttle;
use crate::worker::report::Active;
use crate::worker::retention::Retention;
use crate::worker::sweep::Sweeper;
use crate::worker::{Worker, WorkerSettings};
use docket_program::clock::Clock;
use docket_program::signals::Signals;
use docket_schedule::live::LiveSchedule;
use docket_schedule::telling::Telling;
use docket_store::stores::Stores;

/// Attempts at once, over all tenants.
const SLOTS: usize = 1024;
/// Time to store how the last attempts ended, at shutdown.
const STORE_ENDS: Duration = Duration::from_secs(10);
/// Connections to the management port.
const MANAGEMENT_CLIENTS: usize = 64;

/// What all parts share.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Service {
    /// The time.
    pub clock: Clock,
    /// Who is served.
    pub tenants: Arc<Tenants>,
    /// When to look at deliveries.
    pub schedule: Arc<LiveSchedule>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What is still missing.
    pub readiness: Arc<Readiness>,
    /// Files and sockets that the process may open.
    pub descriptors: u64,
    /// The parts that run.
    pub running: JoinSet<()>,
}

/// The management port, which outlives the other parts.
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub struct Management {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Management {
    /// Ends it, after everything else.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let _ = self.task.await;
    }
}

impl Service {
    /// What handlers share.
    pub fn app(&self, hosts: &HostArguments) -> Arc<App> {
        Arc::new(App {
            clock: self.clock.clone(),
            tenants: Arc::clone(&self.tenants),
            telling: Arc::new(Telling::new(Arc::clone(&self.schedule))),
            passwords: Passwords::new(std::thread::available_parallelism().map_or(1, usize::from)),
            throttle: Throttle::default(),
            metrics: Arc::clone(&self.metrics),
            hosts: Hosts { base_domain: hosts.base_domain.clone(), legacy: hosts.legacy_host.clone() },
            readiness: Arc::clone(&self.readiness),
        })
    }

    /// Serves /healthz, /readyz and /metrics.
    pub fn manage(&self, app: &Arc<App>, listener: TcpListener) -> Management {
        let shutdown = CancellationToken::new();
        let router = api::management(Arc::clone(app));
        let task = tokio::spawn(server::serve(listener, router, MANAGEMENT_CLIENTS, shutdown.clone()));
        Management { shutdown, task }
    }

    /// Answers requests.
    pub fn start_api(&mut self, app: &Arc<App>, listener: TcpListener, shutdown: &CancellationToken) {
        // Half of the descriptors are for clients; the other half for databases and receivers.
        let clients = usize::try_from(self.descriptors / 2).unwrap_or(usize::MAX);
        self.running.spawn(server::serve(listener, api::router(Arc::clone(app)), clients, shutdown.clone()));
        let (telling, shutdown) = (Arc::clone(&app.telling), shutdown.clone());
        self.running.spawn(async move { telling.run(shutdown).await });
    }

    /// Makes deliveries, and deletes those that are old; `board`: where other processes do the same. Answers which tenants
    /// have attempts.
    pub fn start_worker(
        &mut self,
        policy: EgressPolicy,
        settings: &DeliveryArguments,
        board: Option<Arc<Board>>,
        shutdown: &CancellationToken,
    ) -> Arc<Active> {
        let worker = Arc::new(Worker::new(
            self.clock.clone(),
            Arc::clone(&self.tenants),
            Arc::clone(&self.schedule),
            Sender::new(policy, SystemDns::new(), settings.attempt_timeout),
            WorkerSettings {
                poll_interval: settings.poll_interval,
                backoff_base: settings.backoff_base,
                slots: SLOTS,
                // A process that is alone has one view of what is declared.
                source_lag: if board.is_some() { SOURCE_LAG } else { Duration::ZERO },
                drain: settings.attempt_timeout + STORE_ENDS,
            },
            Arc::clone(&self.metrics),
        ));
        let active = worker.active();
        self.running.spawn(worker.run(shutdown.clone()));
        let (clock, tenants) = (self.clock.clone(), Arc::clone(&self.tenants));
        let retention = Retention::new(clock, tenants, settings.delivery_retention).shared(board);
        self.running.spawn(retention.run(shutdown.clone()));
        active
    }

    /// For [`start_sweep`](Self::start_sweep).
    pub fn sweeper(&self) -> Sweeper<LiveSchedule> {
        let (tenants, schedule) = (Arc::clone(&self.tenants), Arc::clone(&self.schedule));
        Sweeper::new(self.clock.clone(), tenants, schedule, Arc::clone(&self.metrics))
    }

    /// Sweeps at each interval, and when `wake` says so.
    pub fn start_sweep(
        &mut self,
        sweeper: Sweeper<LiveSchedule>,
        interval: Duration,
        wake: &Arc<Notify>,
        shutdown: &CancellationToken,
    ) {
        self.running.spawn(sweeper.run(interval, Arc::clone(wake), shutdown.clone()));
    }

    /// Looks for new invoices.
    pub fn start_detector(&mut self, interval: Duration, shutdown: &CancellationToken) {
        let (tenants, schedule) = (Arc::clone(&self.tenants), Arc::clone(&self.schedule));
        let detector =
            Detector::new(self.clock.clone(), tenants, schedule, Arc::clone(&self.metrics), interval);
        self.running.spawn(detector.run(shutdown.clone()));
    }

    /// Runs a part until shutdown, where it is dropped.
    pub fn start(&mut self, shutdown: &CancellationToken, part: impl Future<Output = ()> + Send + 'static) {
        let shutdown = shutdown.clone();
        self.running.spawn(async move {
            shutdown.run_until_cancelled(part).await;
        });
    }

    /// Closes connections to databases that nothing has used for `unused_for`, which is checked at each interval.
    pub fn start_closing_idle(
        &mut self,
        stores: Arc<Stores>,
        (unused_for, interval): (Duration, Duration),
        shutdown: &CancellationToken,
    ) {
        self.start(shutdown, async move {
            loop {
                tokio::time::sleep(interval).await;
                stores.close_idle(unused_for).await;
            }
        });
    }

    /// Asks all parts to stop, and waits for them; a second signal ends the wait.
    pub async fn drain(&mut self, shutdown: &CancellationToken, signals: &mut Signals) {
        shutdown.cancel();
        let drained = async { while self.running.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => {}
            () = signals.next() => println!("Stopped at once. What was under way is taken up at the next start."),
        }
    }
}

/// Lets the process open as many files and sockets as the system allows; answers how many. The usual soft limit of
/// 1,024 is for programs that call `select`.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Listens on an address; `flag` is where it came from.
///
/// Errors: the address is taken, not allowed or not of this machine; the message says what to do with the flag.
pub async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "stop whoever uses it, or choose another port",
            ErrorKind::PermissionDenied => "choose a port of 1024 or above",
            _ => "choose an address of this machine",
        };
        let told = format!("{address} can't be listened on; {advice} with {flag} ADDRESS:PORT");
        anyhow::Error::new(error).context(told)
    })
}
