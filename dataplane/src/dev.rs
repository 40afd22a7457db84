//! The embedded mode: everything in one process, tenants from YAML files, a SQLite file each, a receiver of its own.
//!
//! The same API, worker and schedule as in a cluster; only what is around them differs.

pub mod banner;
pub mod lock;
pub mod reading;
pub mod sample;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use docket_egress::{EgressPolicy, Trust};
use docket_folder::Folder;
use docket_receiver::{Behaviour, Certificate, Receiver, Settings};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use reading::{Reading, follow};

use crate::args::DevArguments;
use crate::readiness::Readiness;
use crate::service::{Service, bind, raise_descriptor_limit};
use crate::serving::Serving;
use crate::telemetry::Metrics;
use crate::tenants::{OwnReceiver, Tenants};
use docket_program::clock::Clock;
use docket_program::logging;
use docket_program::random;
use docket_program::signals::Signals;
use docket_schedule::SHARES;
use docket_schedule::live::LiveSchedule;
use docket_schedule::memory::MemorySchedule;
use docket_store::stores::{StoreSource, Stores};

/// Runs until SIGTERM or Ctrl-C, then drains.
pub async fn run(mut arguments: DevArguments) -> Result<()> {
    let begun = Instant::now();
    logging::start(&arguments.log);
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
    let policy = EgressPolicy::new(arguments.deliveries.allow_egress.clone(), allowed_sockets);
    let metrics = Arc::new(Metrics::default());
    let stores = Arc::new(Stores::new(StoreSource::Files(data_dir)));
    let serving = Serving::new(
        Arc::clone(&stores),
        Arc::clone(&tenants),
        Arc::clone(&metrics),
        policy.clone(),
        own_receiver,
    );
    let mut reading = Reading { folder, serving, stores, keys: BTreeMap::new() };
    reading.replace(&loaded);
    let samples = sample::seed(&tenants, &clock).await;

    const SCHEDULE: &str = "the schedule";
    let schedule = MemorySchedule::new(clock.clone(), SHARES);
    let mut service = Service {
        clock,
        tenants,
        schedule: Arc::new(LiveSchedule::Memory(schedule)),
        metrics,
        readiness: Arc::new(Readiness::without([SCHEDULE])),
        descriptors,
        running: JoinSet::new(),
    };
    let app = service.app(&arguments.hosts);
    // The schedule is rebuilt before anything is served. Nobody else delivers from this data folder, whose lock we
    // hold: whoever had a lease is dead.
    let mut sweeper = service.sweeper();
    sweeper.take_over().await;
    service.readiness.has(SCHEDULE);

    let mut signals = Signals::new().context("signals can't be waited for")?;
    let shutdown = CancellationToken::new();
    let wake = Arc::new(Notify::new());
    let management = service.manage(&app, management_listener);
    service.start_api(&app, api_listener, &shutdown);
    service.start_worker(policy, &arguments.deliveries, None, &shutdown);
    service.start_sweep(sweeper, arguments.deliveries.poll_interval, &wake, &shutdown);
    service.start_detector(arguments.invoice_scan_interval, &shutdown);
    let banner = banner::text(&arguments, &loaded, &samples, begun.elapsed());
    println!("{banner}");
    service.running.spawn(follow(reading, wake, arguments, shutdown.clone()));

    signals.next().await;
    println!("Stopping: requests and attempts under way are finished first. Ctrl-C again stops at once.");
    service.readiness.lacks("the end: it is stopping");
    service.drain(&shutdown, &mut signals).await;
    management.stop().await;
    if let Some((receiver, _)) = receiver {
        receiver.stop().await;
    }
    Ok(())
}

/// Before anything is made: the usual cause is another working directory.
pub(crate) fn check_config_dir(folder: &Path) -> Result<()> {
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
