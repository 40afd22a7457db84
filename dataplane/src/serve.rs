//! `docket serve`: one or more roles of the service, next to other processes on the same PostgreSQL and Redis.
//!
//! A process starts its roles once it has a configuration and Redis has responded. A configuration that it can't read at all does not
//! count. A process that serves requests waits for Redis for a limited time only. From then on the process works without either: the
//! last configuration stays active, and a sweep finds deliveries that could not be scheduled.

mod announce;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use docket_board::Board;
use docket_crds::DatabaseUrl;
use docket_egress::EgressPolicy;
use docket_listener::client::Proxies;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_program::signals::Signals;
use docket_program::{logging, memory, random};
use docket_redis::RedisConnection;
use docket_schedule::{SHARES, Schedule};
use docket_source::{ClusterSource, Declaration, Folder, Source};
use docket_store::postgres::{Budget, ConnectionLimits};
use docket_store::stores::{Schema, StoreSource, Stores};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::app::{App, bind, portal_at};
use crate::args::{ProxyArguments, Role, ServeArguments, Switch};
use crate::listeners::Serves;
use crate::platform::reviews::Reviews;
use crate::portal::{Cookies, Portal, WebhookObjects, WebhookWriter, Writes};
use crate::readiness::Readiness;
use crate::redis;
use crate::tenancy::Activation;
use announce::Presence;

/// What a new process waits for, as /readyz reports it.
const CONFIGURATION: &str = "the configuration";
const READABLE: &str = "a runtime Secret that this version can read (the log says why it can't)";
const REDIS: &str = "Redis";
/// How long a connection to a database is unused before it is closed, and how often that is checked.
const CLOSE_IDLE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));

/// Runs until SIGTERM or Ctrl-C, then drains.
///
/// # Errors
///
/// A setting is missing or wrong, an address is not available, or Redis does not meet the requirements.
pub async fn run(arguments: ServeArguments) -> Result<()> {
    let _logging = logging::start(&arguments.log, false);
    let limits = connection_limits(&arguments)?;
    let mut signals = Signals::new().context("can't install signal handlers")?;
    warn_of_open_files(&arguments);
    let (connection, keys, redis_files) = redis::connect(&arguments.redis)?;
    let source = tokio::select! {
        source = open(&arguments) => source?,
        () = signals.next() => return Ok(()),
    };
    let pod = announce::pod_name(arguments.pod_name.clone());
    let is = |role| arguments.roles.contains(&role);
    let writes = writes(&arguments).await?;
    let serves = Serves {
        api: is(Role::Api),
        docs: arguments.docs == Switch::On,
        portal: is(Role::Portal).then_some(Portal { cookies: Cookies::Secure, writes: writes.clone() }),
    };
    let serves_requests = serves.api || serves.portal.is_some();
    check_roles(&arguments, serves_requests)?;
    let platform = match arguments.platform {
        true => Some(Reviews::new(Clock::System).await.context("--platform")?),
        false => None,
    };

    let api_listener = match serves_requests {
        true => Some(bind(arguments.listen, "--listen").await?),
        false => None,
    };
    let management_listener = bind(arguments.management, "--management").await?;

    let owner = owner(management_listener.local_addr()?);
    let schedule = Schedule::on_redis(connection.clone(), &keys, owner.clone(), SHARES);
    let app = App::new(Clock::System, schedule, owner, [CONFIGURATION, REDIS]);
    let mut app = app.audited(&arguments.audit)?;
    let (is_up, is_stale) = (connection.clone(), connection.clone());
    app.metrics.stores.redis(move || is_up.is_up(), move || is_stale.is_stale());
    let stores = stores(&arguments, limits, &app)?;
    let policy = arguments.deliveries.egress(Vec::new());
    let activation = app.activation(&stores, &policy, None);
    let memory_limit = arguments.memory_limit.unwrap_or_else(memory::limit);
    let sends_mail = arguments.mail.mail_from.is_some();
    let state = app.api_state(&arguments.hosts, proxies(&arguments.proxies), memory_limit, sends_mail);

    let management = app.start_management(&state, management_listener, platform);
    let shutdown = CancellationToken::new();
    let revisions = app.tenants.revisions();
    let (first, configured) = oneshot::channel();
    app.running.spawn(follow(source, activation, first, Arc::clone(&app.readiness), shutdown.clone()));
    app.start_closing_idle(Arc::clone(&stores), CLOSE_IDLE, &shutdown);
    app.running.spawn(redis::renew(connection.clone(), redis_files, shutdown.clone()));
    let most = serves_requests.then_some(arguments.redis_wait);
    tokio::select! {
        result = wait_until_ready(&app.readiness, configured, &connection, most) => result?,
        () = signals.next() => return Ok(()),
    }

    app.running.spawn(redis::watch(connection.clone(), shutdown.clone()));
    let board = Arc::new(Board::new(connection, keys));
    let roles: Vec<&'static str> = arguments.roles.iter().map(|role| role.as_str()).collect();
    tracing::info!(pod, roles = roles.join(","), tenants = revisions.borrow().len(), "serving");
    let rates = Arc::clone(&app.rates);
    let presence = Presence { pod, roles, rates, tenants: Arc::clone(&app.tenants) };
    let announced =
        tokio::spawn(announce::announce(Arc::clone(&board), presence, revisions, shutdown.clone()));
    if is(Role::Worker) || is(Role::Detector) {
        let interval = arguments.sweep_interval.min(arguments.invoice_scan_interval);
        app.start_watching(stores, interval, &shutdown);
    }
    if let Some(listener) = api_listener {
        app.start_api(&state, (listener, serves), memory_limit, &shutdown);
    }
    if let Some(writer) = writes {
        app.start(&shutdown, async move { writer.keep_trying().await });
    }
    if is(Role::Worker) {
        start_worker(&mut app, &arguments, policy, board, &shutdown)?;
    }
    if is(Role::Detector) {
        app.start_detector(arguments.invoice_scan_interval, arguments.invoices.invoice_max_age, &shutdown);
    }

    signals.next().await;
    tracing::info!("stopping: finishing requests and attempts under way");
    app.readiness.lacks("shutting down");
    tokio::select! {
        // Load balancers must see the failing readiness first.
        () = tokio::time::sleep(arguments.shutdown_delay) => {}
        () = signals.next() => {}
    }
    app.drain(&shutdown, &mut signals).await;
    let _ = announced.await;
    management.stop().await;
    Ok(())
}

/// Reads how many connections to PostgreSQL the process may have.
///
/// # Errors
///
/// One tenant might have more than all tenants together.
fn connection_limits(arguments: &ServeArguments) -> Result<ConnectionLimits> {
    ensure!(
        arguments.database_connections_per_tenant <= arguments.database_connections,
        "--database-connections-per-tenant is {}, but --database-connections is {}; lower the first, or raise the second",
        arguments.database_connections_per_tenant,
        arguments.database_connections
    );
    Ok(ConnectionLimits {
        total: arguments.database_connections.into(),
        per_tenant: arguments.database_connections_per_tenant.into(),
    })
}

/// Checks that the process has the roles and the settings that --platform and e-mail need, before anything is served.
///
/// # Errors
///
/// A role or a setting is missing, or a setting of e-mail is wrong.
fn check_roles(arguments: &ServeArguments, serves_requests: bool) -> Result<()> {
    ensure!(
        !arguments.platform || serves_requests,
        "--platform needs a process with the role api or portal; add one of them to --roles"
    );
    let has_smtp = arguments.mail.smtp()?.is_some();
    ensure!(
        has_smtp || arguments.mail.mail_from.is_none() || !arguments.roles.contains(&Role::Worker),
        "--mail-from needs --smtp-url-file in a process with the role worker; add it, or leave out --mail-from"
    );
    Ok(())
}

/// Returns the databases of the tenants, without a connection yet. Their connections are within `limits`, and `app` measures them.
///
/// # Errors
///
/// The file of the watcher can't be read or has no URL of PostgreSQL.
fn stores(arguments: &ServeArguments, limits: ConnectionLimits, app: &App) -> Result<Arc<Stores>> {
    let budget = Budget::new(limits);
    app.metrics.stores.postgres(budget.clone());
    let watcher = arguments.watcher_url_file.as_deref().map(watcher_url).transpose()?;
    let external = arguments.external.policy(arguments.source.config_namespace.is_some());
    // An operator that writes the tenants' Secrets migrates their databases too, in its own order.
    let schema = match arguments.source.config_namespace {
        Some(_) => Schema::Expect,
        None => Schema::Migrate,
    };
    let stores = Stores::new(StoreSource::Postgres(budget), schema);
    Ok(Arc::new(stores.watched_by(watcher).with_external(external)))
}

/// Starts the parts of the role worker: attempts and the deletion of what is old, the report, e-mail, and sweeps.
///
/// # Errors
///
/// A setting of e-mail is wrong.
fn start_worker(
    app: &mut App,
    arguments: &ServeArguments,
    policy: EgressPolicy,
    board: Arc<Board>,
    shutdown: &CancellationToken,
) -> Result<()> {
    let settings = (&arguments.deliveries, &arguments.audit);
    let active = app.start_worker(policy, settings, Some(Arc::clone(&board)), shutdown);
    app.start_report(active, Arc::clone(&board), shutdown);
    let portal = portal_at("https", &arguments.hosts.base_domain, None);
    app.start_notices(&arguments.mail, portal, Some(Arc::clone(&board)), shutdown)?;
    let sweeper = app.sweeper(&arguments.deliveries).shared(board);
    app.start_sweep(sweeper, arguments.sweep_interval, &Arc::new(Notify::new()), shutdown);
    Ok(())
}

fn proxies(arguments: &ProxyArguments) -> Proxies {
    let ProxyArguments { trusted_proxy, forwarded_header, proxy_protocol } = arguments.clone();
    Proxies { trusted: trusted_proxy, header: forwarded_header, proxy_protocol }
}

/// Returns what the portal declares webhooks with: objects of the cluster, if the arguments name an account.
///
/// # Errors
///
/// The portal is not served here, or there is no configuration of the Kubernetes API.
async fn writes(arguments: &ServeArguments) -> Result<Writes> {
    let (Some(account), Some(namespace)) = (&arguments.portal_account, &arguments.source.config_namespace)
    else {
        return Ok(None);
    };
    ensure!(
        arguments.roles.contains(&Role::Portal),
        "--portal-account needs a process with the role portal; add it to --roles"
    );
    let objects = WebhookObjects::new(account.clone(), namespace.clone(), Clock::System).await;
    Ok(Some(Arc::new(WebhookWriter::cluster(objects.context("--portal-account")?))))
}

/// This process as an owner of leases. It replaces the process that listened on this host's management port before, which has
/// ended.
fn owner(management: SocketAddr) -> Owner {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let name = Sha256::digest(format!("{host} {management}"));
    Owner::new(&name[..8])
}

/// Warns of files with passwords that every user of this machine can read. A pod has one user, and Kubernetes chooses the modes of
/// its files.
fn warn_of_open_files(arguments: &ServeArguments) {
    if arguments.source.config_namespace.is_some() {
        return;
    }
    for (flag, file) in [
        ("--redis-url-file", &arguments.redis.redis_url_file),
        ("--watcher-url-file", &arguments.watcher_url_file),
        ("--smtp-url-file", &arguments.mail.smtp_url_file),
    ] {
        let Some(file) = file else { continue };
        if file.metadata().is_ok_and(|file| file.mode() & 0o004 != 0) {
            let file = file.display();
            tracing::warn!("{flag} {file} can be read by every user of this machine; run chmod o= {file}");
        }
    }
}

/// Reads the URL of a watcher.
///
/// # Errors
///
/// The file can't be read or has no URL of PostgreSQL. The message does not quote it.
fn watcher_url(file: &Path) -> Result<DatabaseUrl> {
    let what = || format!("--watcher-url-file {}", file.display());
    let content = std::fs::read_to_string(file).with_context(what)?;
    DatabaseUrl::parse(content.trim()).with_context(what)
}

/// Opens the source that the arguments name.
///
/// # Errors
///
/// The folder does not exist, or there is no configuration of the Kubernetes API.
async fn open(arguments: &ServeArguments) -> Result<Source> {
    let source = &arguments.source;
    if let Some(namespace) = &source.config_namespace {
        let file = &arguments.limits.tenant_limits;
        ensure!(
            file.is_none(),
            "--tenant-limits is for --config-dir; with --config-namespace give it to the operator"
        );
        let cluster = ClusterSource::new(namespace.clone()).await.context("--config-namespace")?;
        return Ok(Source::Cluster(Box::new(cluster)));
    }
    let config_dir = source.config_dir.clone().context("--config-dir or --config-namespace is missing")?;
    let folder = Folder::new(config_dir, arguments.data_dir.clone());
    let mut folder = folder.with_external_databases().with_limits(arguments.limits.read()?);
    // Only workers need the grace.
    if arguments.roles.contains(&Role::Worker) {
        folder = folder.with_webhook_grace(arguments.deliveries.webhook_grace);
    }
    folder.check_exists()?;
    Ok(Source::Folder(Box::new(folder)))
}

/// Waits for the first configuration, and for Redis at most as long as `most` says.
///
/// # Errors
///
/// Redis does not meet the requirements.
async fn wait_until_ready(
    readiness: &Readiness,
    configured: oneshot::Receiver<()>,
    connection: &RedisConnection,
    most: Option<Duration>,
) -> Result<()> {
    let configured = async {
        let _ = configured.await;
        readiness.has(CONFIGURATION);
        Ok(())
    };
    let connected = async {
        redis::check(connection, most).await?;
        readiness.has(REDIS);
        Ok(())
    };
    tokio::try_join!(configured, connected).map(|((), ())| ())
}

/// Serves what the source declares, and each change of it, until shutdown. Sends `first` when it serves the first declaration that
/// this version can read at least in part. Until then, `readiness` says what is missing. A declaration that can't be read later takes
/// nothing from a ready process, which serves the last good versions.
async fn follow(
    source: Source,
    mut activation: Activation,
    first: oneshot::Sender<()>,
    readiness: Arc<Readiness>,
    shutdown: CancellationToken,
) {
    let (mut first, tenants) = (Some(first), activation.tenants());
    let replace = |declaration: Declaration| {
        let is_unreadable = declaration.is_unreadable;
        activation.replace(declaration);
        if first.is_some() && is_unreadable {
            readiness.lacks(READABLE);
            readiness.has(CONFIGURATION);
        } else if let Some(first) = first.take() {
            readiness.has(READABLE);
            // The receiver is gone if the process is stopping.
            let _ = first.send(());
        }
    };
    tokio::select! {
        () = source.follow(random::fill, replace, || tenants.doubt()) => {}
        () = shutdown.cancelled() => {}
    }
}
