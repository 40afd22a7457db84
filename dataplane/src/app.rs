//! The composition root: starts the parts of the service, for [`dev`](crate::dev) and [`serve`](crate::serve). The mode
//! chooses which parts run; how they run is the same.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use docket_board::Board;
use docket_egress::{EgressPolicy, Sender, SystemDns};
use docket_listener::anonymous::Anonymous;
use docket_listener::client::Proxies;
use docket_listener::fair_share::FairShare;
use docket_listener::listen::listen;
use docket_listener::server::{self, BYTES_PER_CONNECTION, Clients, IDLE_TIME};
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_program::signals::Signals;
use docket_schedule::Schedule;
use docket_store::stores::Stores;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::passwords::Passwords;
use crate::access::rates::Rates;
use crate::access::throttle::Throttle;
use crate::api::state::ApiState;
use crate::args::{AuditArguments, DeliveryArguments, HostArguments, MailArguments};
use crate::audit::{Audit, Stream};
use crate::delivery::attempt::{Worker, WorkerSettings};
use crate::delivery::outbox::Outbox;
use crate::delivery::saves::CreateOrders;
use crate::delivery::upkeep::report::{Active, Reports};
use crate::delivery::upkeep::retention::Retention;
use crate::delivery::upkeep::sweep::Sweeper;
use crate::detector::Detector;
use crate::http::body::Bodies;
use crate::http::host::Hosts;
use crate::listeners::{self, Serves};
use crate::notices::{NoticeSettings, Notifier, PortalUrl, SUBDOMAIN};
use crate::platform::reviews::Reviews;
use crate::readiness::Readiness;
use crate::telemetry::{Metrics, Task};
use crate::tenancy::key_uses::KeyUses;
use crate::tenancy::lookups::Lookups;
use crate::tenancy::token_users::TokenUsers;
use crate::tenancy::{Activation, LocalReceiver, Tenants};

/// Maximum number of concurrent attempts, over all tenants.
const SLOTS: usize = 1024;
/// Time to store the results of the last attempts, at shutdown.
const STORE_ENDS: Duration = Duration::from_secs(10);
/// How often a PostgreSQL server is asked which of its databases changed, between two reads of a database.
const LOOKS: u32 = 3;
/// The shortest and the longest time between two such questions.
const BETWEEN_LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How many signatures may be diagnosed at the same time, one per tenant.
const DIAGNOSES: u32 = 2;
/// Requests with links of messages at the same time; a source has one of them, and two while no other source has one.
pub const MAIL_LINKS: u32 = 4;

/// What all parts share, and the parts that run.
pub struct App {
    /// The clock.
    pub clock: Clock,
    /// The tenants that are served.
    pub tenants: Arc<Tenants>,
    /// Notifies the schedule of deliveries.
    outbox: Arc<Outbox>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The audit: who did what.
    audit: Arc<Audit>,
    /// Limits the requests and sign-ins of tenants.
    pub rates: Arc<Rates>,
    /// Whether the process is ready.
    pub readiness: Arc<Readiness>,
    /// This process, as the owner of leases.
    owner: Owner,
    /// Set when the worker starts.
    worker: Arc<OnceLock<Arc<Worker>>>,
    /// Maximum number of open files and sockets of the process.
    descriptors: u64,
    /// The parts that run.
    pub running: JoinSet<()>,
}

/// The server of the management port, which stops after the other parts.
pub struct Management {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Management {
    /// Stops the server.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let _ = self.task.await;
    }
}

impl App {
    /// Creates the parts without starting any. No tenant is served, and the process is not ready until it has everything in
    /// `missing`.
    pub fn new<const N: usize>(
        clock: Clock,
        schedule: Schedule,
        owner: Owner,
        missing: [&'static str; N],
    ) -> Self {
        let metrics = Arc::<Metrics>::default();
        let tenants = Arc::new(Tenants::default().counted(Arc::clone(&metrics)));
        let outbox = Outbox::new(Arc::new(schedule), Arc::clone(&tenants), Arc::clone(&metrics));
        Self {
            audit: Audit::new(clock.clone(), Arc::clone(&metrics), Arc::clone(&tenants), None),
            owner,
            worker: Arc::default(),
            clock,
            tenants,
            outbox,
            metrics,
            rates: Arc::default(),
            readiness: Arc::new(Readiness::without(missing)),
            descriptors: raise_descriptor_limit(),
            running: JoinSet::new(),
        }
    }

    /// Has the audit written to a stream as well, if the arguments name one.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn audited(self, arguments: &AuditArguments) -> Result<Self> {
        let Some(path) = &arguments.audit_log else { return Ok(self) };
        let stream = Stream::open(path, Arc::clone(&self.metrics));
        let stream = stream.with_context(|| format!("--audit-log {} can't be written", path.display()))?;
        let (metrics, tenants) = (Arc::clone(&self.metrics), Arc::clone(&self.tenants));
        let audit = Audit::new(self.clock.clone(), metrics, tenants, Some(stream));
        Ok(Self { audit, ..self })
    }

    /// Returns the activation, which serves the tenants that a source declares. `local` is the receiver of this process, if it has
    /// one.
    pub fn activation(
        &self,
        stores: &Arc<Stores>,
        policy: &EgressPolicy,
        local: Option<LocalReceiver>,
    ) -> Activation {
        let (tenants, metrics) = (Arc::clone(&self.tenants), Arc::clone(&self.metrics));
        Activation::new(Arc::clone(stores), tenants, metrics, policy.clone(), local)
    }

    /// The state of the API's handlers. Running password checks use at most a quarter of `memory`, in bytes.
    /// `sends_mail`: users may subscribe to changes of webhooks.
    pub fn api_state(
        &self,
        hosts: &HostArguments,
        proxies: Proxies,
        memory: u64,
        sends_mail: bool,
    ) -> Arc<ApiState> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(ApiState {
            clock: self.clock.clone(),
            tenants: Arc::clone(&self.tenants),
            create_orders: CreateOrders::new(
                self.clock.clone(),
                &self.tenants,
                Arc::clone(&self.outbox),
                Arc::clone(&self.worker),
                &self.metrics,
            ),
            outbox: Arc::clone(&self.outbox),
            token_users: TokenUsers::new(self.clock.clone(), &self.tenants, &self.metrics),
            orders: Lookups::new(self.clock.clone(), &self.tenants, &self.metrics),
            key_uses: KeyUses::new(self.clock.clone()),
            // One tenant's sign-ins get at most half of the turns, which is all cores, and one more turn for a sign-in that is
            // between two steps.
            passwords: Passwords::new(2 * (cores + 1), memory / 4),
            diagnoses: FairShare::new(DIAGNOSES, 1),
            searches: Anonymous::default(),
            scrapes: Anonymous::default(),
            mail_links: FairShare::new(MAIL_LINKS, 1),
            sends_mail,
            bodies: Bodies::new(memory / 4),
            rates: Arc::clone(&self.rates),
            throttle: Throttle::default(),
            audit: Arc::clone(&self.audit),
            metrics: Arc::clone(&self.metrics),
            hosts: Hosts { base_domain: hosts.base_domain.clone(), legacy: hosts.legacy_host.clone() },
            proxies: Arc::new(proxies),
            readiness: Arc::clone(&self.readiness),
        })
    }

    /// Serves /healthz, /readyz and /metrics, and tenants' metadata to those users of the cluster whose rights `platform` confirms.
    pub fn start_management(
        &self,
        state: &Arc<ApiState>,
        listener: TcpListener,
        platform: Option<Reviews>,
    ) -> Management {
        let shutdown = CancellationToken::new();
        let router = listeners::management(Arc::clone(state), platform);
        let clients = Clients::of_management(state.metrics.connections_refused());
        let task = tokio::spawn(server::serve(listener, router, clients, shutdown.clone()));
        Management { shutdown, task }
    }

    /// Starts the API, the portal or both. Their connections take at most a quarter of `memory`, in bytes.
    pub fn start_api(
        &mut self,
        state: &Arc<ApiState>,
        (listener, serves): (TcpListener, Serves),
        memory: u64,
        shutdown: &CancellationToken,
    ) {
        let most = most_clients(self.descriptors, memory);
        let (proxies, refused) = (Arc::clone(&state.proxies), state.metrics.connections_refused());
        let clients = Clients { most, idle: IDLE_TIME, proxies, refused };
        self.running.spawn(server::serve(
            listener,
            listeners::router(Arc::clone(state), serves),
            clients,
            shutdown.clone(),
        ));
        let (key_uses, tenants) = (Arc::clone(&state.key_uses), Arc::clone(&state.tenants));
        self.metrics.upkeep.runs(Task::KeyUses);
        self.running.spawn(key_uses.run(tenants, Arc::clone(&self.metrics), shutdown.clone()));
    }

    /// Starts the worker, and the deletion of old deliveries and audit entries. `board` is set if other processes delete them too.
    /// Returns the tenants that have attempts under way.
    pub fn start_worker(
        &mut self,
        policy: EgressPolicy,
        (settings, audit): (&DeliveryArguments, &AuditArguments),
        board: Option<Arc<Board>>,
        shutdown: &CancellationToken,
    ) -> Arc<Active> {
        let worker = Worker::new(
            self.clock.clone(),
            Arc::clone(&self.outbox),
            Sender::new(policy, SystemDns::new(), settings.attempt_timeout),
            WorkerSettings {
                poll_interval: settings.poll_interval,
                backoff_base: settings.backoff_base,
                slots: SLOTS,
                drain: settings.attempt_timeout + STORE_ENDS,
            },
            self.owner.clone(),
        );
        let active = Arc::clone(&worker.active);
        // A process has one worker.
        let _ = self.worker.set(Arc::clone(&worker));
        self.running.spawn(worker.run(shutdown.clone()));
        let (clock, tenants) = (self.clock.clone(), Arc::clone(&self.tenants));
        let keep = (settings.delivery_retention, audit.audit_retention);
        let retention = Retention::new(clock, tenants, keep, board, Arc::clone(&self.metrics));
        self.metrics.upkeep.runs(Task::Retention);
        self.running.spawn(retention.run(shutdown.clone()));
        active
    }

    /// Starts the reports of the health of webhooks, for the tenants that have had attempts.
    pub fn start_report(&mut self, active: Arc<Active>, board: Arc<Board>, shutdown: &CancellationToken) {
        let (tenants, metrics) = (Arc::clone(&self.tenants), Arc::clone(&self.metrics));
        let (clock, shutdown) = (self.clock.clone(), shutdown.clone());
        metrics.upkeep.runs(Task::Report);
        self.running.spawn(Reports { active, tenants, board, metrics, clock }.run(shutdown));
    }

    /// Returns a sweeper for [`start_sweep`](Self::start_sweep).
    pub fn sweeper(&self, settings: &DeliveryArguments) -> Sweeper {
        let (tenants, schedule) = (Arc::clone(&self.tenants), Arc::clone(&self.outbox.schedule));
        let metrics = Arc::clone(&self.metrics);
        Sweeper::new(self.clock.clone(), tenants, schedule, self.owner.clone(), metrics)
            .with_grace(settings.webhook_grace)
    }

    /// Sweeps at each interval, and when `wake` is notified.
    pub fn start_sweep(
        &mut self,
        sweeper: Sweeper,
        interval: Duration,
        wake: &Arc<Notify>,
        shutdown: &CancellationToken,
    ) {
        self.metrics.upkeep.runs(Task::Sweep);
        self.running.spawn(sweeper.run(interval, Arc::clone(wake), shutdown.clone()));
    }

    /// Starts the detector of new invoices.
    pub fn start_detector(&mut self, interval: Duration, max_age: Duration, shutdown: &CancellationToken) {
        let (tenants, outbox) = (Arc::clone(&self.tenants), Arc::clone(&self.outbox));
        let metrics = Arc::clone(&self.metrics);
        let detector = Detector::new(self.clock.clone(), tenants, outbox, metrics, interval, max_age);
        self.metrics.upkeep.runs(Task::Detector);
        self.running.spawn(detector.run(shutdown.clone()));
    }

    /// Starts the announcements of changes of webhooks, if the arguments name an SMTP server. `board` is set if other processes do the
    /// same. Without `--portal-url`, links lead to `portal`.
    ///
    /// # Errors
    ///
    /// A setting of e-mail is wrong.
    pub fn start_notices(
        &mut self,
        arguments: &MailArguments,
        portal: String,
        board: Option<Arc<Board>>,
        shutdown: &CancellationToken,
    ) -> Result<()> {
        let Some(smtp) = arguments.smtp()? else { return Ok(()) };
        let portal = PortalUrl(arguments.portal_url.clone().unwrap_or(portal));
        let settings = NoticeSettings { smtp, portal, interval: arguments.mail_interval };
        let (tenants, audit) = (Arc::clone(&self.tenants), Arc::clone(&self.audit));
        let metrics = Arc::clone(&self.metrics);
        let notifier = Notifier::new(self.clock.clone(), tenants, audit, metrics, settings).shared(board);
        self.metrics.upkeep.runs(Task::Notices);
        self.running.spawn(notifier.run(shutdown.clone()));
        Ok(())
    }

    /// Runs a part until shutdown, when it is dropped.
    pub fn start(&mut self, shutdown: &CancellationToken, part: impl Future<Output = ()> + Send + 'static) {
        let shutdown = shutdown.clone();
        self.running.spawn(async move {
            shutdown.run_until_cancelled(part).await;
        });
    }

    /// Starts to ask PostgreSQL servers which databases changed, for readers that come again after `interval`.
    pub fn start_watching(&mut self, stores: Arc<Stores>, interval: Duration, shutdown: &CancellationToken) {
        let every = between_looks(interval);
        self.start(shutdown, async move { stores.watch(every).await });
    }

    /// Starts to close connections to databases that nothing has used for `unused_for`, at each interval.
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

    /// Stops all parts and waits for them. A second signal ends the wait.
    pub async fn drain(&mut self, shutdown: &CancellationToken, signals: &mut Signals) {
        shutdown.cancel();
        let drained = async {
            while self.running.join_next().await.is_some() {}
            self.audit.close().await;
        };
        tokio::select! {
            () = drained => {}
            () = signals.next() => eprintln!("Stopped at once. Unfinished work continues at the next start."),
        }
    }
}

/// Connections of clients at a time: they get half of the descriptors, databases and receivers the other half, and their buffers a
/// quarter of the memory.
fn most_clients(descriptors: u64, memory: u64) -> usize {
    let most = (descriptors / 2).min(memory / 4 / BYTES_PER_CONNECTION);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The time between two questions to a PostgreSQL server, for readers that come again after `interval`.
fn between_looks(interval: Duration) -> Duration {
    let (least, most) = BETWEEN_LOOKS;
    (interval / LOOKS).clamp(least, most)
}

/// The URL of the portals of all tenants, at this address.
pub fn portal_at(scheme: &str, base_domain: &str, port: Option<u16>) -> String {
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{SUBDOMAIN}.{base_domain}{port}")
}

/// Raises the limit of open files and sockets to what the system allows, and returns it. The usual soft limit of 1,024 is for
/// programs that call `select`.
fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the system refuses, the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Listens on an address; `[::]` is every one of IPv6 and IPv4. `flag` is the flag that sets the address, for the message of an error.
///
/// # Errors
///
/// The address is in use, not allowed, or not of this machine. The message says what to do.
pub async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    listen(address).and_then(TcpListener::from_std).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "stop the program that uses it, or choose another port",
            ErrorKind::PermissionDenied => "choose a port of 1024 or above",
            _ => "choose an address of this machine",
        };
        let text = format!("can't listen on {address}; {advice} with {flag} ADDRESS:PORT");
        anyhow::Error::new(error).context(text)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpSocket;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn hundreds_of_clients_may_connect_before_the_first_is_accepted() {
        let listener = bind(([127, 0, 0, 1], 0).into(), "--listen").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut clients = JoinSet::new();
        for _ in 0..300 {
            clients.spawn(TcpSocket::new_v4().expect("a socket").connect(address));
        }
        let connected = tokio::time::timeout(Duration::from_secs(10), clients.join_all()).await;
        let connected = connected.expect("no client waits for another to be accepted");
        assert!(connected.iter().all(Result::is_ok));
    }

    #[test]
    fn clients_get_half_of_the_descriptors_and_a_quarter_of_the_memory() {
        assert_eq!(most_clients(2_048, u64::MAX), 1_024);
        assert_eq!(most_clients(u64::MAX, 4 * 100 * BYTES_PER_CONNECTION), 100);
        assert_eq!(most_clients(u64::MAX, 4 * 100 * BYTES_PER_CONNECTION - 1), 99);
    }

    #[test]
    fn server_is_asked_three_times_between_two_reads_within_bounds() {
        let of = |millis| between_looks(Duration::from_millis(millis)).as_millis();
        assert_eq!([1, 300, 15_000, 30_000, 60_000].map(of), [100, 100, 5_000, 10_000, 10_000]);
    }

    #[test]
    fn worker_has_the_slots_and_the_time_of_the_documentation() {
        assert_eq!((SLOTS, STORE_ENDS.as_secs()), (1_024, 10));
        let slots = include_str!("../../docs/concepts/deliveries.md");
        assert!(slots.contains("A worker has 1,024 slots"));
    }

    #[test]
    fn portal_has_the_port_of_its_listener_unless_a_proxy_is_before_it() {
        assert_eq!(portal_at("https", "docket.example", None), "https://{subdomain}.docket.example");
        assert_eq!(portal_at("http", "localhost", Some(8080)), "http://{subdomain}.localhost:8080");
    }
}
