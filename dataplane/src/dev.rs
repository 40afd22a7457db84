//! The embedded mode: everything in one process, tenants from YAML files, a SQLite file each, a receiver of its own.
//!
//! The same API, worker and schedule as in a cluster; only what is around them differs.

pub mod banner;
pub mod lock;
pub mod sample;
pub mod serving;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use docket_egress::{EgressPolicy, Sender, SystemDns, Trust};
use docket_folder::Folder;
use docket_receiver::{Behaviour, Certificate, Receiver, Settings};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use serving::{Serving, follow};

use crate::api::host::Hosts;
use crate::api::{self, server};
use crate::app::App;
use crate::args::DevArguments;
use crate::clock::Clock;
use crate::detector::Detector;
use crate::passwords::Passwords;
use crate::random;
use crate::schedule::SHARES;
use crate::schedule::memory::MemorySchedule;
use crate::shutdown;
use crate::telemetry::{self, Metrics};
use crate::tenants::stores::{StoreSource, Stores};
use crate::tenants::{OwnReceiver, Tenants};
use crate::throttle::Throttle;
use crate::worker::retention::Retention;
use crate::worker::sweep::Sweeper;
use crate::worker::{Worker, WorkerSettings};

/// Attempts at once, over all tenants.
const SLOTS: usize = 1024;
/// Time to store how the last attempts ended, at shutdown.
const STORE_ENDS: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or Ctrl-C, then drains.
pub async fn run(mut arguments: DevArguments) -> Result<()> {
    let begun = Instant::now();
    telemetry::start_logging(arguments.log_format, &arguments.log);
    telemetry::quiet_panics();
    let descriptors = raise_descriptor_limit();
    let clock = Clock::System;
    let data_dir = arguments.source.data_dir.clone();
    check_config_dir(&arguments.source.config_dir)?;
    let _lock = lock::take(&data_dir)?;
    let mut folder = Folder::new(arguments.source.config_dir.clone(), data_dir.clone());
    let loaded = folder.load(&mut random::fill)?;
    let api_listener = bind(arguments.listen, "--listen").await?;
    let management_listener = bind(arguments.management, "--management").await?;
    // What is printed are the ports that were given, where they were left to the system.
    arguments.listen = api_listener.local_addr()?;
    arguments.management = management_listener.local_addr()?;

    let tenants = Arc::new(Tenants::default());
    let receiver = start_receiver(&arguments, &tenants, &clock).await?;
    let own_receiver = receiver.as_ref().map(|(_, own)| own.clone());
    if let Some(own) = &own_receiver {
        arguments.receiver = own.address;
    }
    let allowed_sockets = own_receiver.iter().flat_map(OwnReceiver::sockets).collect();
    let policy = EgressPolicy::new(arguments.allow_egress.clone(), allowed_sockets);
    let mut serving = Serving {
        stores: Stores::new(StoreSource::Files(data_dir.clone())),
        tenants: Arc::clone(&tenants),
        metrics: Arc::new(Metrics::default()),
        public: Trust::public(),
        own_receiver,
        policy: policy.clone(),
        keys: BTreeMap::new(),
    };
    serving.replace(&loaded);
    let samples = sample::seed(&tenants, &clock).await;

    let schedule = Arc::new(MemorySchedule::new(clock.clone(), SHARES));
    let worker = Arc::new(Worker::new(
        clock.clone(),
        Arc::clone(&tenants),
        Arc::clone(&schedule),
        Sender::new(policy, SystemDns::new(), arguments.attempt_timeout),
        WorkerSettings {
            poll_interval: arguments.poll_interval,
            backoff_base: arguments.backoff_base,
            slots: SLOTS,
            drain: arguments.attempt_timeout + STORE_ENDS,
        },
        Arc::clone(&serving.metrics),
    ));
    let app = Arc::new(App {
        clock: clock.clone(),
        tenants: Arc::clone(&tenants),
        schedule: Arc::clone(&schedule),
        passwords: Passwords::new(std::thread::available_parallelism().map_or(1, usize::from)),
        throttle: Throttle::default(),
        metrics: Arc::clone(&serving.metrics),
        hosts: Hosts { base_domain: arguments.base_domain.clone(), legacy: arguments.legacy_host.clone() },
        ready: AtomicBool::new(false),
    });
    let detector = Detector::new(
        clock.clone(),
        Arc::clone(&tenants),
        Arc::clone(&schedule),
        Arc::clone(&serving.metrics),
        arguments.invoice_scan_interval,
    );
    let mut sweeper =
        Sweeper::new(clock.clone(), Arc::clone(&tenants), schedule, Arc::clone(&serving.metrics));
    // The schedule is rebuilt before anything is served. Nobody else delivers from this data folder, whose lock we
    // hold: whoever had a lease is dead.
    sweeper.take_over().await;
    app.ready.store(true, Ordering::Release);

    let (stopper, shutdown) = shutdown::channel();
    let wake = Arc::new(Notify::new());
    // Half of the descriptors are for clients; the other half for databases and receivers.
    let clients = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
    let serve_api =
        tokio::spawn(server::serve(api_listener, api::router(Arc::clone(&app)), clients, shutdown.clone()));
    let (management_stopper, management_shutdown) = shutdown::channel();
    let serve_management = tokio::spawn(server::serve(
        management_listener,
        api::management(Arc::clone(&app)),
        64,
        management_shutdown,
    ));
    let work = tokio::spawn(worker.run(shutdown.clone()));
    let detect = tokio::spawn(detector.run(shutdown.clone()));
    let sweep = tokio::spawn(sweeper.run(arguments.poll_interval, Arc::clone(&wake), shutdown.clone()));
    let retention = Retention::new(clock.clone(), Arc::clone(&tenants), arguments.delivery_retention);
    let clean = tokio::spawn(retention.run(shutdown.clone()));
    let banner = banner::text(&arguments, &loaded, &samples, begun.elapsed());
    println!("{banner}");
    let follow = tokio::spawn(follow(folder, serving, wake, arguments, shutdown.clone()));

    shutdown::signal().await.context("signals can't be waited for")?;
    println!("Stopping: requests and attempts under way are finished first. Ctrl-C again stops at once.");
    app.ready.store(false, Ordering::Release);
    stopper.stop();
    let drained = async {
        let _ = tokio::join!(serve_api, work, detect, sweep, clean, follow);
    };
    tokio::select! {
        () = drained => {}
        _ = shutdown::signal() => println!("Stopped at once. What was under way is taken up at the next start."),
    }
    management_stopper.stop();
    let _ = serve_management.await;
    if let Some((receiver, _)) = receiver {
        receiver.stop().await;
    }
    Ok(())
}

/// Before anything is made: the usual cause is another working directory.
fn check_config_dir(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let at = std::env::current_dir().unwrap_or_default();
    bail!(
        "there is no configuration folder {} in {}; name it with --config-dir",
        folder.display(),
        at.display()
    )
}

/// Lets the process open as many files and sockets as the system allows; answers how many. The usual soft limit of
/// 1,024 is for programs that call `select`.
fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener> {
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

async fn start_receiver(
    arguments: &DevArguments,
    tenants: &Arc<Tenants>,
    clock: &Clock,
) -> Result<Option<(Receiver, OwnReceiver)>> {
    if arguments.no_receiver {
        return Ok(None);
    }
    let folder = arguments.source.data_dir.join("receiver");
    let certificate = Certificate::load_or_generate(&folder, clock.now().as_second())?;
    let trust = Trust::with_bundle(certificate.ca_pem()).context("the receiver's own certificate")?;
    let known = Arc::clone(tenants);
    // Known once it listens: the port may be left to the system.
    let port = Arc::new(AtomicU16::new(0));
    let its_port = Arc::clone(&port);
    let settings = Settings {
        listen: arguments.receiver,
        certificate,
        secrets: Arc::new(move |path| secrets_of(&known, its_port.load(Ordering::Acquire), path)),
        behaviour: Behaviour::default(),
    };
    let printer_clock = clock.clone();
    let receiver = Receiver::start(settings, move |received| {
        let at = printer_clock.now().strftime("%H:%M:%S").to_string();
        println!("{}", docket_receiver::line(received, &at));
    })
    .await
    .context(
        "the built-in receiver can't start; choose another address with --receiver, or use --no-receiver",
    )?;
    let address = receiver.address();
    port.store(address.port(), Ordering::Release);
    let own = OwnReceiver { address, trust };
    Ok(Some((receiver, own)))
}

/// The secrets of the webhooks that point at this path of the built-in receiver.
fn secrets_of(tenants: &Tenants, port: u16, path: &str) -> Vec<Vec<u8>> {
    let mut secrets = Vec::new();
    for tenant in tenants.all() {
        let here =
            tenant.config.webhooks.iter().filter(|webhook| {
                webhook.target_url.port() == port && webhook.target_url.url().path() == path
            });
        secrets.extend(
            here.filter_map(|webhook| webhook.secret.as_ref()).map(|secret| secret.expose().to_vec()),
        );
    }
    secrets
}
