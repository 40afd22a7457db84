//! `docket dev`, the embedded mode: everything in one process, tenants from YAML files, a SQLite file per tenant, a built-in
//! receiver. The API and the worker are the same as in `docket serve`.

pub mod banner;
mod follow;
pub mod lock;
mod receiver;
pub mod sample;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use docket_listener::client::Proxies;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_program::screen::clean_lines;
use docket_program::signals::Signals;
use docket_program::{logging, memory, random};
use docket_schedule::{SHARES, Schedule};
use docket_source::Folder;
use docket_store::stores::{Schema, StoreSource, Stores};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::app::{App, bind, portal_at};
use crate::args::DevArguments;
use crate::listeners::Serves;
use crate::portal::{Cookies, Documents, Portal, WebhookWriter};

/// What a new process waits for, as /readyz reports it.
const SCHEDULE: &str = "the schedule";
/// How long a database file is unused before it is closed, and how often that is checked.
const CLOSE_IDLE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(30));

/// Runs until SIGTERM or Ctrl-C, then drains.
pub async fn run(mut arguments: DevArguments) -> Result<()> {
    let begun = Instant::now();
    let _logging = logging::start(&arguments.log, false);
    let clock = Clock::System;
    let data_dir = arguments.source.data_dir.clone();
    let mut folder = folder(&arguments)?;
    // Before anything is served: a wrong setting of e-mail is a wrong start.
    let sends_mail = arguments.mail.smtp()?.is_some();
    let _lock = lock::take(&data_dir)?;
    let declaration = folder.load(&mut random::fill)?;
    let api_listener = bind(arguments.listen, "--listen").await?;
    let management_listener = bind(arguments.management, "--management").await?;
    // Print the actual ports: with port 0 the system chooses.
    arguments.listen = api_listener.local_addr()?;
    arguments.management = management_listener.local_addr()?;

    let schedule = Schedule::in_memory(clock.clone(), SHARES);
    let app = App::new(clock.clone(), schedule, Owner::new(b"dev"), [SCHEDULE]);
    let mut app = app.audited(&arguments.audit)?;
    let (receiver, local) = receiver::start(&arguments, &app.tenants, &clock).await?.unzip();
    if let Some(receiver) = &receiver {
        arguments.receiver = receiver.address();
    }
    let allowed_sockets = local.iter().flat_map(|local| local.sockets.clone()).collect();
    let policy = arguments.deliveries.egress(allowed_sockets);
    let stores = Arc::new(Stores::new(StoreSource::Files(data_dir), Schema::Migrate));
    let mut activation = app.activation(&stores, &policy, local);
    activation.replace(declaration.clone());
    let samples = sample::seed(&app.tenants, &clock).await;

    let memory_limit = memory::limit();
    let state = app.api_state(&arguments.hosts, Proxies::default(), memory_limit, sends_mail);
    // The schedule is rebuilt before anything is served. We hold the lock of the data folder. So no other process delivers from it,
    // and every lease in it belongs to a process that has ended.
    let mut sweeper = app.sweeper(&arguments.deliveries);
    sweeper.take_over().await;
    app.readiness.has(SCHEDULE);

    let mut signals = Signals::new().context("can't install signal handlers")?;
    let shutdown = CancellationToken::new();
    let wake = Arc::new(Notify::new());
    let management = app.start_management(&state, management_listener, None);
    app.start_api(&state, (api_listener, serves(&arguments)), memory_limit, &shutdown);
    app.start_worker(policy, (&arguments.deliveries, &arguments.audit), None, &shutdown);
    app.start_sweep(sweeper, arguments.sweep_interval, &wake, &shutdown);
    app.start_detector(arguments.invoice_scan_interval, arguments.invoices.invoice_max_age, &shutdown);
    let portal = portal_at("http", &arguments.hosts.base_domain, Some(arguments.listen.port()));
    app.start_notices(&arguments.mail, portal, None, &shutdown)?;
    println!("{}", clean_lines(&banner::text(&arguments, &declaration, &samples, begun.elapsed())));
    let keys = follow::keys_of(&declaration);
    app.start(&shutdown, follow::wake_file(arguments.clone(), Arc::clone(&wake)));
    app.start(&shutdown, follow::edits(folder, activation, keys, arguments, wake));
    app.start_closing_idle(stores, CLOSE_IDLE, &shutdown);

    signals.next().await;
    println!("Stopping: finishing requests and attempts under way. Press Ctrl-C again to stop at once.");
    app.readiness.lacks("shutting down");
    app.drain(&shutdown, &mut signals).await;
    management.stop().await;
    if let Some(receiver) = receiver {
        receiver.stop().await;
    }
    Ok(())
}

/// Opens the folder that declares the tenants.
///
/// # Errors
///
/// The folder does not exist, or the limits can't be read.
fn folder(arguments: &DevArguments) -> Result<Folder> {
    let folder = Folder::new(arguments.source.config_dir.clone(), arguments.source.data_dir.clone());
    let folder = folder.with_limits(arguments.limits.read()?);
    let folder = folder.with_webhook_grace(arguments.deliveries.webhook_grace);
    folder.check_exists()?;
    Ok(folder)
}

/// What is served on the API's listener: everything. The portal declares webhooks in the folder.
fn serves(arguments: &DevArguments) -> Serves {
    let writes = Some(Arc::new(WebhookWriter::folder(Documents::beside(&arguments.source.config_dir))));
    let portal = Portal { cookies: Cookies::of_dev(arguments.listen), writes };
    Serves { api: true, docs: true, portal: Some(portal) }
}
